"""The report of CrossMath's 60 runs on 244 topics: CPU seconds and bytes of each format.

    python -m bench.report --markdown

The report is made of scores (`paper_report`) and written in the formats of `harness reproduce` (html, md, tex, json,
csv); reading and scoring the runs is not measured. Each round is a new process that writes four reports: the first
imports what is needed and does not count; of the others, the least seconds of each part do. Medians over the rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

from bench.table import ROOT, machine, options, show

CODE = """
import json, sys, tempfile, time
from pathlib import Path
from harness.papers.paper import load_paper
from harness.papers.reproduce import recompute_paper
from harness.papers.report.paper import paper_report
from harness.store.provenance import provenance
found = recompute_paper(load_paper("crossmath"), lambda *rest: None, lambda items, *rest: items)
files = provenance(found.files)
least = {}
for round in range(4):
    spent, sizes = {}, {}
    start = time.process_time()
    report = paper_report(found, files, 0.05, 0)
    spent["sections"] = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        for name in ("html", "json", "csv", "md", "tex"):
            start = time.process_time()
            report.write(Path(folder) / name, [name])
            spent[name] = time.process_time() - start
            sizes[name] = sum(path.stat().st_size for path in (Path(folder) / name).rglob("*") if path.is_file())
    if round:
        least = {name: min(least.get(name, seconds), seconds) for name, seconds in spent.items()}
print(json.dumps([least, sizes]))
"""


def measured() -> tuple[dict[str, float], dict[str, int]]:
    """Returns CPU seconds and bytes of each part, in a new process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    spent, sizes = json.loads(done.stdout.splitlines()[-1])
    return spent, sizes


def main() -> None:
    """Prints the table."""
    chosen = options(__doc__, rounds=5).parse_args()
    found = [measured() for _ in range(chosen.rounds)]
    seconds = {part: statistics.median(spent[part] for spent, _ in found) for part in found[0][0]}
    seconds["all"] = statistics.median(sum(spent.values()) for spent, _ in found)
    sizes = found[0][1] | {"all": sum(found[0][1].values())}
    rows = [(part, f"{each:.2f}", f"{sizes[part]:,}" if part in sizes else "") for part, each in seconds.items()]
    show([("part", "CPU s", "bytes"), *rows], chosen.markdown)
    print(f"\n{machine(['jinja2', 'latex2mathml'])}")


if __name__ == "__main__":
    main()

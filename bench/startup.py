"""Small work: CPU seconds of whole commands, beside those of other programs that do the same or import what they need.

    python -m bench.startup [--rounds 5] [--markdown] [--json FILE]

Each side is a new process with one thread; sides run in turn, and the least of the rounds counts, because other work
on the machine only adds to it. Modules are compiled before. "Fresh": without runs and with an empty store; fetched
data stay. A point of a sweep is the ninth part of what 11 points take longer than 2. Needs the data of CrossMath and
`mse-pages` (`harness fetch crossmath mse-pages arqmath-3-task1`) and the extra `bench`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.table import ROOT, Ratio, machine, options, save, show
from harness.collections.files import local
from harness.collections.load import load_collection
from harness.io.files import cache_root
from harness.papers.paper import load_paper
from harness.sources.fetch import fetch_resources

HARNESS = [sys.executable, "-m", "harness"]
MINI = [*HARNESS, "run", "collection=mini-task1", "corpus=mini-answers", "system=bm25"]
POINTS = [f"{0.05 * number:.2f}" for number in range(1, 12)]
FRESH = ("runs", "reports", "cache/store")  # deleted before a command that is fresh
# A program with Hydra, as on the first page of its documentation.
HELLO = """import hydra
@hydra.main(version_base=None, config_path=".", config_name="hello")
def main(cfg): print(cfg.collection)
main()
"""


def sides(run: Path, qrels: Path) -> dict[str, tuple[list[str], bool]]:
    """Name -> command, and whether it is fresh."""
    sweep = [*MINI, "-m"]
    measures = ["nDCG", "AP(rel=2)", "P(rel=2)@10", "Bpref(rel=2)"]
    return {
        "score": ([*HARNESS, "score", str(run), "--collection", "arqmath-1-task1"], False),
        "ir_measures": ([sys.executable, "-m", "ir_measures", str(qrels), str(run), *measures], False),
        "fresh": (MINI, True),
        "reused": (MINI, False),
        "hello": ([sys.executable, "hello.py", "collection=mini"], False),
        "numpy": ([sys.executable, "-c", "import numpy"], False),
        "list": ([*HARNESS, "list", "systems"], False),
        "2 points": ([*sweep, f"system.b={','.join(POINTS[:2])}"], True),
        "11 points": ([*sweep, f"system.b={','.join(POINTS)}"], True),
        "reproduce": ([*HARNESS, "reproduce", "paper=crossmath"], False),
        "pages": ([*HARNESS, "run", "collection=arqmath-3-task1", "corpus=mse-pages", "system=bm25"], True),
    }


def spent(command: Sequence[str], folder: Path, fresh: bool) -> float:
    """CPU seconds of a process and its children; stops if it fails."""
    for name in FRESH if fresh else ():
        shutil.rmtree(folder / name, ignore_errors=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HARNESS_CACHE": str(folder / "cache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPATH"] = str(ROOT)
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: {said}")
    return usage.ru_utime + usage.ru_stime


def measured(rounds: int) -> dict[str, float]:
    """Side -> the least CPU seconds of the rounds, after a first one that does not count."""
    paper, qrels = load_paper("crossmath"), load_collection("arqmath-1-task1").edition(None).file
    fetch_resources(paper.files())
    run = next(local(run.file) for run in paper.runs if "_a1." in str(local(run.file)))
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        (folder / "cache").mkdir()
        for place in cache_root().iterdir():
            if place.name != "store":
                (folder / "cache" / place.name).symlink_to(place)
        (folder / "hello.py").write_text(HELLO)
        (folder / "hello.yaml").write_text("collection: null\n")
        chosen = sides(run, local(qrels))
        found: dict[str, list[float]] = {name: [] for name in chosen}
        for _ in range(rounds + 1):
            for name, (command, fresh) in chosen.items():
                found[name].append(spent(command, folder, fresh))
    return {name: min(seconds[1:]) for name, seconds in found.items()}


def ratios(least: Mapping[str, float]) -> list[Ratio]:
    """A line for each work."""
    point = (least["11 points"] - least["2 points"]) / 9
    imported = (least["numpy"], "python -c 'import numpy'")
    hydra = (least["hello"], "a program with Hydra that prints a key")
    return [
        Ratio("harness score, one run of 77 topics", least["score"], least["ir_measures"], "ir_measures' command", 1.0),
        Ratio("harness run, mini, bm25, reused", least["reused"], *hydra),
        Ratio("harness run, mini, bm25, fresh", least["fresh"], *hydra),
        Ratio("harness list systems", least["list"], *imported),
        Ratio("a point of a sweep beyond the first, mini, bm25", point, *imported),
        Ratio("harness reproduce paper=crossmath", least["reproduce"], *imported),
        Ratio("harness run, arqmath-3-task1, mse-pages, bm25, fresh", least["pages"], *imported),
    ]


def main() -> None:
    """Print the table."""
    chosen = options(__doc__, rounds=5, ratios=True).parse_args()
    found = ratios(measured(chosen.rounds))
    packages = ("hydra-core", "typer", "ir-measures")
    if chosen.json is not None:
        save(chosen.json, found, packages)
    rows = [("work", "CPU s", "beside", "CPU s", "harness / other")]
    rows += [
        (each.work, f"{each.ours:.2f}", each.peer, f"{each.theirs:.2f}", f"{each.ours / each.theirs:.2f}")
        for each in found
    ]
    show(rows, chosen.markdown)
    print(f"\nthe least of {chosen.rounds} rounds; {machine(packages)}")


if __name__ == "__main__":
    main()

"""One experiment on real data by every launcher: the same runs and the same report?

    PYTHONPATH=tests/tools python -m bench.launchers_real [LAUNCHER ...]

36 cells: ten settings of `bm25`, and the bi-encoder MiniLM on the beginnings of texts, on the judged answers of three
years of ARQMath's Task 1, and `tree` on the formulas of three years of Task 2. Every launcher starts with an empty
store and an empty folder. SLURM is a cluster of two nodes on the loopback, Ray one of two nodes on this machine. Needs
the corpora mse-pages and mse-formulas. The table is printed as Markdown; the exit code is 1 if a run or the report
differs from the first one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from harness.io.files import sha256, sha256_file

YEARS = (1, 2, 3)
GRID = [(k1, b) for k1 in (0.5, 0.9, 1.2, 1.6, 2.0) for b in (0.4, 0.75)]
PIECES = 16  # of each text, since every launcher encodes all texts again
ANSWERS, FORMULAS = "corpus=mse-pages", "corpus=mse-formulas"
WORDS: Mapping[str, tuple[str, ...]] = {
    "basic": (),
    "joblib, 2 processes": ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
    "joblib, 4 processes": ("hydra/launcher=joblib", "hydra.launcher.n_jobs=4"),
    "submitit_local": ("hydra/launcher=submitit_local",),
    "submitit_slurm": ("hydra/launcher=submitit_slurm", "hydra.launcher.mem_gb=2"),
    "ray": ("hydra/launcher=ray",),
}


def experiment() -> dict[str, Any]:
    """Returns the experiment's file."""
    answers = {f"bm25 {k1} {b}": ["system=bm25", f"system.k1={k1}", f"system.b={b}"] for k1, b in GRID}
    answers["MiniLM"] = ["system=bi-encoder-minilm", f"system.length={PIECES}"]
    conditions = {
        f"{name}, year {year}": {"overrides": [f"collection=arqmath-{year}-task1", ANSWERS, *words]}
        for name, words in answers.items()
        for year in YEARS
    }
    conditions |= {
        f"tree, year {year}": {"overrides": [f"collection=arqmath-{year}-task2", FORMULAS, "system=tree"]}
        for year in YEARS
    }
    return {"title": "Real cells", "conditions": conditions, "measures": ["nDCG", "AP"]}


@contextmanager
def environment(name: str) -> Iterator[tuple[tuple[str, ...], Mapping[str, str]]]:
    """Starts what a launcher needs; yields its words and variables."""
    if name == "submitit_slurm":
        import slurm

        with slurm.cluster() as running:
            yield WORDS[name], running.environment
    elif name == "ray":
        from ray.cluster_utils import Cluster

        made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        made.add_node(num_cpus=1)
        yield (*WORDS[name], f"hydra.launcher.address={made.address}"), {}
        made.shutdown()
    else:
        yield WORDS[name], {}


def measured(name: str, here: Path) -> tuple[float, dict[str, str], str]:
    """Returns the seconds of the whole command, the checksum of each run, and that of the report."""
    (here / "conf" / "experiment").mkdir(parents=True)
    (here / "conf/experiment/real.yaml").write_text(yaml.safe_dump(experiment(), sort_keys=False))
    with environment(name) as (words, variables):
        command = [str(Path(sys.executable).with_name("harness")), "run", "experiment=real", "formats=[json]", *words]
        settings = {**os.environ, **variables, "HARNESS_CACHE": str(here / "cache")}
        begin = time.perf_counter()
        with (here / "log").open("wb") as log:
            subprocess.run(command, cwd=here, env=settings, check=True, stdout=log, stderr=log)
        seconds = time.perf_counter() - begin
    runs = {str(path.relative_to(here)): sha256_file(path) for path in sorted(here.glob("runs/*/*.run"))}
    report = json.loads((here / "reports/experiments/real/report.json").read_text())
    return seconds, runs, sha256(json.dumps(report, sort_keys=True).encode())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("launchers", nargs="*", default=list(WORDS), metavar="LAUNCHER", help=f"of {', '.join(WORDS)}")
    given = parser.parse_args()
    print("| launcher | cells | runs | same runs | same report | s |\n|---|---:|---:|---|---|---:|")
    first: tuple[dict[str, str], str] | None = None
    differ = False
    for name in given.launchers:
        with tempfile.TemporaryDirectory() as folder:
            seconds, runs, report = measured(name, Path(folder))
        first = first or (runs, report)
        same = runs == first[0], report == first[1]
        differ |= not all(same)
        words = ["yes" if each else "no" for each in same]
        print(
            f"| {name} | {len(experiment()['conditions'])} | {len(runs)} | {words[0]} | {words[1]} | {seconds:.0f} |",
            flush=True,
        )
    sys.exit(differ)


if __name__ == "__main__":
    main()

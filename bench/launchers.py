"""What launchers cost: an experiment of 30 equal cells in one process, and in two processes of joblib.

    python bench/launchers.py [--markdown] [--seconds 10] [--arithmetic]

The cells rank the embedded collection by `overlap` after some work: none; waiting for so many seconds, which other
programs on the machine do not prolong; or, on a quiet machine, arithmetic of as many seconds of one core. Each side is
the whole command, from its start to its report. The overhead is the time that joblib takes longer for cells without
work.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from harness.systems.hardware import cores

CELLS = 30
SYSTEM = """
import hashlib
import time

from harness.systems.baselines import Overlap

class Working(Overlap):
    def __init__(self, rounds: int = 0, wait: float = 0.0, number: int = 0, name: str = "working") -> None:
        super().__init__(name=name)
        self.rounds, self.wait = rounds, wait

    def __call__(self, request):
        time.sleep(self.wait)
        block = bytes(1 << 20)
        for _ in range(self.rounds):
            hashlib.sha256(block).digest()
        return super().__call__(request)
"""
SIDES = {"one process": (), "joblib, 2 processes": ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")}


def rounds_for(seconds: float) -> int:
    """Returns how many rounds of arithmetic take so many seconds of this core's time."""
    import hashlib

    block = bytes(1 << 20)
    begin = time.process_time()
    for _ in range(200):
        hashlib.sha256(block).digest()
    return round(200 * seconds / (time.process_time() - begin))


def measured(rounds: int, wait: float, words: tuple[str, ...]) -> tuple[float, float]:
    """Returns seconds, and CPU seconds, of the whole command in a new folder."""
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        (here / "conf" / "system").mkdir(parents=True)
        (here / "conf" / "experiment").mkdir()
        (here / "working.py").write_text(SYSTEM)
        system = {"title": "Working", "_target_": "working.Working", "name": "working", "number": 0}
        system |= {"rounds": rounds, "wait": wait}
        (here / "conf/system/working.yaml").write_text(yaml.safe_dump(system))
        shared = ["collection=mini-task1", "corpus=mini-answers", "system=working"]
        experiment = {
            "title": "Equal cells",
            "shared": shared,
            "conditions": {f"c{n}": {"overrides": [f"system.number={n}"]} for n in range(CELLS)},
            "measures": ["nDCG"],
        }
        (here / "conf/experiment/equal.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
        command = [str(Path(sys.executable).with_name("harness")), "run", "experiment=equal", "formats=[json]", *words]
        settings = {**os.environ, "HARNESS_CACHE": str(here / "cache"), "HARNESS_OFFLINE": "1"}
        before, begin = os.times(), time.perf_counter()
        subprocess.run(command, cwd=here, env=settings, check=True, capture_output=True)
        seconds, after = time.perf_counter() - begin, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, used


def main() -> None:
    """Prints the table, and the load of the machine before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--seconds", type=float, default=10.0, help="work of a cell")
    parser.add_argument("--arithmetic", action="store_true", help="also cells that keep a core busy")
    given = parser.parse_args()
    line = "| {} |" if given.markdown else "{}"
    load = os.getloadavg()[0]
    print(line.format(" | ".join(("cells", "launcher", "s", "CPU s", "s a cell"))))
    print(line.format(" | ".join(["---"] * 5)))
    kinds = {
        "no work": (0, 0.0),
        f"waiting for {given.seconds:g} s": (0, given.seconds),
    }
    if given.arithmetic:
        kinds[f"{given.seconds:g} s of arithmetic"] = (rounds_for(given.seconds), 0.0)
    found: dict[tuple[str, str], float] = {}
    for kind, (rounds, wait) in kinds.items():
        for side, words in SIDES.items():
            seconds, used = measured(rounds, wait, words)
            found[kind, side] = seconds
            print(line.format(" | ".join((kind, side, f"{seconds:.1f}", f"{used:.1f}", f"{seconds / CELLS:.2f}"))))
    one, two = SIDES
    print()
    for kind in list(kinds)[1:]:
        print(f"speed-up, {kind}: {found[kind, one] / found[kind, two]:.2f}")
    print(f"overhead a cell: {(found['no work', two] - found['no work', one]) / CELLS:.2f} s")
    print(f"{cores()} cores; load before {load:.1f}, after {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

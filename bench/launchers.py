"""What launchers cost: an experiment of 30 equal cells in one process, and in two processes of joblib.

    python bench/launchers.py [--markdown] [--seconds 10]

The cells rank the embedded collection by `overlap` at once, or after waiting for so many seconds, which other programs
on the machine do not prolong. Each side is the whole command, from its start to its report. The overhead is the time
that joblib takes longer for cells that do not wait.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from bench.table import Clock, options, show
from harness.systems.hardware import cores

CELLS = 30
SYSTEM = """
import time

from harness.systems.baselines import Overlap

class Working(Overlap):
    def __init__(self, wait: float = 0.0, number: int = 0, name: str = "working") -> None:
        super().__init__(name=name)
        self.wait = wait

    def __call__(self, request):
        time.sleep(self.wait)
        return super().__call__(request)
"""
SIDES = {"one process": (), "joblib, 2 processes": ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")}


def measured(wait: float, words: tuple[str, ...]) -> tuple[float, float]:
    """Returns seconds, and CPU seconds, of the whole command in a new folder."""
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        (here / "conf" / "system").mkdir(parents=True)
        (here / "conf" / "experiment").mkdir()
        (here / "working.py").write_text(SYSTEM)
        system = {"title": "Working", "_target_": "working.Working", "name": "working", "number": 0, "wait": wait}
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
        begin = Clock.now()
        subprocess.run(command, cwd=here, env=settings, check=True, capture_output=True)
        return Clock.now().since(begin)


def main() -> None:
    """Prints the table, and the load of the machine before and after."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="work of a cell")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    rows = [("cells", "launcher", "s", "CPU s", "s a cell")]
    found: dict[tuple[float, str], float] = {}
    for wait in (0.0, given.seconds):
        kind = f"waiting for {wait:g} s" if wait else "no work"
        for side, words in SIDES.items():
            found[wait, side], used = measured(wait, words)
            seconds = found[wait, side]
            rows.append((kind, side, f"{seconds:.1f}", f"{used:.1f}", f"{seconds / CELLS:.2f}"))
    show(rows, given.markdown)
    one, two = SIDES
    print(f"\nspeed-up: {found[given.seconds, one] / found[given.seconds, two]:.2f}")
    print(f"overhead a cell: {(found[0.0, two] - found[0.0, one]) / CELLS:.2f} s")
    print(f"{cores()} cores; load before {load:.1f}, after {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

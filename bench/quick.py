"""The quick benchmarks, compared with the committed ratios: `make bench`.

    python -m bench.quick               all of `SCRIPTS`, in ten minutes or less
    python -m bench.quick dense scale  some of them

Prints a line for each ratio: committed, now, and whether it is lost, that is below `KEPT` of the committed one. Ratios
are compared, not seconds, since both sides of a ratio are measured on the same machine. Exit code 1 if a ratio is lost,
2 if none is, but a script could not run or measured nothing of its committed file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.table import RESULTS, ROOT, load, show

KEPT = 0.8  # of the committed ratio; on a busy machine ratios of medians differ by up to a sixth from run to run
# Script -> arguments that make it quick. Its works must be among those of results/NAME.json.
SCRIPTS: Mapping[str, Sequence[str]] = {
    "compare": ("--every", "10", "--rounds", "3"),
    "dense": ("--only", "search", "--vectors", "100000", "--rounds", "3", "--threads", "1"),
    "graph": ("--steps", "5", "--peer-steps", "1", "--threads", "1"),
    "scale": ("--most", "1000000"),
    "scoring": (),
    "startup": ("--rounds", "3"),
    "structural": ("--pya0", "2000"),
}


def lines(name: str, arguments: Sequence[str], path: Path) -> list[tuple[str, ...]]:
    """A line for each ratio that the script measures and the results file has: work, committed, now, verdict."""
    command = [sys.executable, "-m", f"bench.{name}", *arguments, "--json", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode or not path.exists():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return [(name, "", "", f"could not run: {last}")]
    committed, now = load(RESULTS / f"{name}.json"), load(path)
    found: list[tuple[str, ...]] = [
        (work, f"{committed[work].ratio:.2f}", f"{ratio.ratio:.2f}", verdict(committed[work].ratio, ratio.ratio))
        for work, ratio in now.items()
        if work in committed
    ]
    return found or [(name, "", "", "could not be compared: no work of the committed file was measured")]


def verdict(committed: float, now: float) -> str:
    """Whether a ratio is lost."""
    return "LOST" if now < KEPT * committed else "kept"


def main() -> int:
    """Print the comparison; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", choices=[*SCRIPTS, []], help="default: all")
    chosen = parser.parse_args().name or list(SCRIPTS)
    found: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            print(f"bench.{name} {' '.join(SCRIPTS[name])}", file=sys.stderr, flush=True)
            found += lines(name, SCRIPTS[name], Path(folder) / f"{name}.json")
    show([("work", "committed", "now", "verdict"), *found], markdown=False)
    verdicts = [line[-1] for line in found]
    return 1 if "LOST" in verdicts else 2 if any(each.startswith("could not") for each in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())

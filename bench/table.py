"""What the benchmarks of speed share: sides in turn, a table, and the JSON that `make bench` compares.

A script measures its sides in one process and in turn (`in_turn`), prints its table (`show`), and with `--json PATH`
writes one `Ratio` for each work (`save`). `bench/results/NAME.json` is the file of a full measurement; `bench.quick`
runs the script again with quicker arguments and compares ratios of the same `work`, so a `work` names all that the
ratio depends on, the size of the input above all.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


def options(about: str, rounds: int = 0, *, ratios: bool = False) -> argparse.ArgumentParser:
    """Returns the parser of a script: its docstring as help, `--markdown`, `--rounds` and `--json` if it has these."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    if rounds:
        parser.add_argument("--rounds", type=int, default=rounds)
    if ratios:
        parser.add_argument("--json", type=Path, help="write the ratios to this file")
    return parser


@dataclass(frozen=True)
class Ratio:
    """One line of a results file: how many times better our side is than the other side, both measured in one run."""

    work: str  # "exact search, first 10, batches of 128, 100,000 vectors"; the key of the comparison
    ours: float  # seconds of CPU, or another quantity that is better when smaller
    theirs: float
    peer: str  # the other side: "FAISS, IndexFlatIP"
    goal: float | None = None  # the ratio that is asked for
    unit: str = "CPU s"

    @property
    def ratio(self) -> float:
        """Their quantity over ours; above 1, ours is better."""
        return self.theirs / self.ours


@dataclass
class Spent:
    """Seconds of one side, a number for each round, and what it returned last."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    result: Any = None


def in_turn(sides: Mapping[str, Callable[[], Any]], rounds: int = 5) -> dict[str, Spent]:
    """Runs the sides one after the other in every round, in every other round from the last to the first."""
    spent = {name: Spent() for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            wall, cpu = time.perf_counter(), time.process_time()
            spent[name].result = sides[name]()
            spent[name].wall.append(time.perf_counter() - wall)
            spent[name].cpu.append(time.process_time() - cpu)
    return spent


def compared(work: str, ours: Sequence[float], theirs: Sequence[float], peer: str, goal: float | None = None) -> Ratio:
    """Returns the line of two sides measured in turn, by their medians."""
    return Ratio(work, statistics.median(ours), statistics.median(theirs), peer, goal)


def save(path: Path, ratios: Iterable[Ratio], packages: Sequence[str] = ()) -> None:
    """Writes a results file: the lines, the machine with the versions of `packages`, and the commit."""
    rows = [asdict(each) | {"ratio": round(each.ratio, 3)} for each in ratios]
    for row in rows:
        row |= {key: float(f"{row[key]:.4g}") for key in ("ours", "theirs")}
    content = {"rows": rows, "machine": machine(packages), "commit": commit()}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Ratio]:
    """Returns the lines of a results file by their work."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    names = Ratio.__dataclass_fields__
    return {row["work"]: Ratio(**{key: row[key] for key in names if key in row}) for row in rows}


def processor() -> str:
    """Returns the name of the CPU."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def machine(packages: Sequence[str] = ()) -> str:
    """Returns the processor, its cores, the load, and the versions of Python, NumPy and other packages."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", *packages))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    system = f"Python {platform.python_version()}, {versions}, {platform.system()} {platform.machine()}"
    return f"{processor()}, {os.cpu_count()} cores, load {load}; {system}"


@dataclass(frozen=True)
class Clock:
    """Wall-clock and CPU seconds of this process and its children so far."""

    wall: float
    cpu: float

    @staticmethod
    def now() -> Clock:
        """What has passed by now."""
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return Clock(time.perf_counter(), sum(used.ru_utime + used.ru_stime for used in usage))

    def since(self, begin: Clock) -> tuple[float, float]:
        """Seconds, wall-clock and CPU."""
        return self.wall - begin.wall, self.cpu - begin.cpu


def resident(process: int) -> int:
    """Returns bytes of a process and its children that lie in memory."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError, IndexError):  # it has ended
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident(int(child)) for child in children)


def side_alone(module: str, name: str, folder: Path) -> tuple[Any, list[int]]:
    """Runs a side in a process of its own, with one thread.

    Returns what it printed last, from JSON, and peaks of its memory in bytes, before and after `NAME.indexed` is there.
    """
    command = [sys.executable, "-m", module, "--side", name, "--folder", str(folder)]
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    mark = folder / f"{name}.indexed"
    mark.unlink(missing_ok=True)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | single) as process:
        peaks = [0, 0]
        while process.poll() is None:
            searching = mark.exists()
            peaks[searching] = max(peaks[searching], resident(process.pid))
            time.sleep(0.01)
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 0, name
    return json.loads(printed.splitlines()[-1]), peaks


def commit() -> str:
    """Returns the commit of the checkout, with `-dirty` if files differ from it; empty outside a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def show(rows: Sequence[Sequence[str]], markdown: bool) -> None:
    """Prints a table whose first row is its header."""
    if markdown:
        print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
        for row in rows[1:]:
            print("| " + " | ".join(row) + " |")
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(field.rjust(width) for field, width in zip(row, widths, strict=True)))

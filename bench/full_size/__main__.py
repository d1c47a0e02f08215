"""How each path grows up to full size: CPU time, memory and disk, and what full size would take.

    python -m bench.full_size                                     all paths at 1/100 and 1/10
    python -m bench.full_size --paths bm25,structural --again     only these, measured anew
    python -m bench.full_size --tables                            the tables of what was measured

Full size: 2.4 million posts, 28 million formulas (9 million distinct), 21.9 million vectors, 10,000 topics of 100 runs.
Inputs are generated (`bench.full_size.made`) before the clock starts. Each path runs at each scale in a process of its
own with one thread and an empty store. CPU seconds are those of the process and its children, the peak of resident
memory is that of the largest of them; it includes pages of mapped files, which the system can take back, so that memory
of its own (anonymous) is sampled besides, ten times a second. Disk is what the process leaves behind, store included.

A measurement is appended to the JSON file at once; what is there is not measured again without `--again`. A process
that needs more memory or CPU time than allowed is ended, which is recorded too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench.full_size.paths import ROUTES, Marks, Route
from bench.full_size.tables import Record, as_records, tables
from bench.table import ROOT, processor

RESULTS = ROOT / "bench" / "results" / "full_size.json"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MARKS, STEPS = "marks.json", 0.1


@dataclass(frozen=True)
class Limits:
    """Limits of a process: bytes of its own memory, CPU seconds."""

    memory: float
    seconds: float


@dataclass
class Spent:
    """What a process took: seconds, bytes, and the reason for which it was ended, if it was."""

    wall: float = 0.0
    cpu: float = 0.0
    peak: int = 0
    own: int = 0
    stopped: str = ""


def anonymous(pid: int) -> int:
    """Returns bytes of memory that no file holds, of the largest of a process and its children."""
    most = 0
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                most = 1024 * int(line.split()[1])
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            most = max(most, anonymous(int(child)))  # no sum: a process and its fork share pages
    return most


def seconds_of(pid: int) -> float:
    """Returns CPU seconds of a running process, without those of its children."""
    with suppress(OSError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def run(command: Sequence[str], folder: Path, log: Path, limits: Limits) -> Spent:
    """Runs a command to its end; ends it at a limit. Ends this program if the command fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HARNESS_CACHE": str(folder / "store")}
    environment |= dict.fromkeys(THREADS, "1")
    spent, begin = Spent(), time.perf_counter()
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out)
        try:
            while True:
                # Not `Popen.wait`: the usage of this one child is wanted.
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                spent.own = max(spent.own, anonymous(process.pid))
                if not spent.stopped and spent.own > limits.memory:
                    spent.stopped = f"more than {limits.memory / 2**30:.0f} GiB of memory"
                elif not spent.stopped and seconds_of(process.pid) > limits.seconds:
                    spent.stopped = f"more than {limits.seconds / 60:.0f} CPU minutes"
                if spent.stopped:
                    process.kill()
                time.sleep(STEPS)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not spent.stopped:
        sys.exit(f"{' '.join(command)[:200]}: ended with {process.returncode}\n{log.read_text()[-2000:]}")
    spent.wall, spent.cpu = time.perf_counter() - begin, usage.ru_utime + usage.ru_stime
    spent.peak = max(1024 * usage.ru_maxrss, spent.own)  # what is measured may have reset its peak
    return spent


def size_of(folder: Path) -> int:
    """Returns the bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measured(name: str, scale: Fraction, folder: Path, limits: Limits) -> Record:
    """Makes the inputs of a path, unless they are there, and measures it."""
    route = ROUTES[name]
    sizes = route.sizes(float(scale))
    inputs, out = folder / route.inputs[0], folder / "out"
    step = [sys.executable, "-m", "bench.full_size", "--scales", str(scale), "--folder", str(folder), "--paths", name]
    if not inputs.exists():
        begin = time.perf_counter()
        run([*step, "--step", "prepare"], folder, folder / "log", Limits(float("inf"), float("inf")))
        print(f"{name} {scale}: inputs made in {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    before = size_of(inputs)
    if route.command is None:
        spent = run([*step, "--step", "work"], out, folder / "log", limits)
    else:
        os_folder = inputs if (inputs / "conf").exists() else out  # configurations are found in the current folder
        spent = run(route.command(inputs, sizes), os_folder, folder / "log", limits)
    marks: dict[str, Any] = {"steps": {}, "notes": {}}
    if (path := out / MARKS).exists():
        marks = json.loads(path.read_text())
        path.unlink()
    disk = size_of(out) + size_of(inputs) - before
    shutil.rmtree(out)
    items, seconds = math.prod(sizes.values()), (round(spent.wall, 2), round(spent.cpu, 2))
    return Record(name, str(scale), items, sizes, *seconds, spent.peak, spent.own, disk, spent.stopped, **marks)


def step(what: str, route: Route, scale: Fraction, folder: Path) -> None:
    """In a process of its own: makes the inputs of a path, or does its work."""
    inputs, sizes = folder / route.inputs[0], route.sizes(float(scale))
    if what == "prepare":
        part = folder / f".{inputs.name}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        route.inputs[1](part, sizes)
        os.chdir(folder)
        part.rename(inputs)
        return
    assert route.work is not None
    marks = Marks()
    route.work(inputs, folder / "out", sizes, marks)
    (folder / "out" / MARKS).write_text(json.dumps({"steps": marks.steps, "notes": marks.notes}))


def kept(path: Path) -> dict[str, Any]:
    """Returns what the JSON file holds."""
    return dict(json.loads(path.read_text())) if path.exists() else {"machine": machine(), "records": []}


def machine() -> str:
    """Returns processor, cores, memory and the version of Python."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{processor()}, {os.cpu_count()} cores, {memory:.0f} GiB; Python {platform.python_version()}"


def append(path: Path, record: Record) -> None:
    """Adds a record to the JSON file, in place of an earlier one of the same path and scale."""
    content = kept(path)
    new = record.as_dict()
    others = [each for each in content["records"] if (each["path"], each["scale"]) != (record.path, record.scale)]
    order = list(ROUTES)
    records = sorted([*others, new], key=lambda each: (order.index(each["path"]), Fraction(each["scale"])))
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps({**content, "records": records}, indent=1) + "\n")
    part.replace(path)


def chosen(text: str, known: Mapping[str, object]) -> list[str]:
    """Returns the names in a list with commas; ends the program if one is unknown."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"--paths: {unknown[0]!r} is unknown; known: {', '.join(known)}")
    return names


def main() -> None:
    """Measures, or prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", default=",".join(ROUTES), help=f"some of: {', '.join(ROUTES)}")
    parser.add_argument("--scales", default="1/100,1/10", help="shares of full size")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="what was measured")
    parser.add_argument("--folder", type=Path, help="for inputs, which are kept; default: a temporary folder")
    parser.add_argument("--again", action="store_true", help="measure again what the file holds")
    parser.add_argument("--tables", action="store_true", help="print the tables and measure nothing")
    parser.add_argument("--most-memory", type=float, default=8.0, metavar="GIB", help="end a process with more")
    parser.add_argument("--most-minutes", type=float, default=20.0, metavar="CPU", help="end a process after so many")
    parser.add_argument("--step", choices=("prepare", "work"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the process that is measured ends, too
    names, scales = chosen(asked.paths, ROUTES), [Fraction(each) for each in asked.scales.split(",")]
    if asked.step:
        step(asked.step, ROUTES[names[0]], scales[0], asked.folder)
        return
    if not asked.tables:
        limits = Limits(asked.most_memory * 2**30, asked.most_minutes * 60)
        for scale in scales:
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary)
                if asked.folder is not None:
                    folder = asked.folder.absolute() / str(scale).replace("/", "-")
                    folder.mkdir(parents=True, exist_ok=True)
                for name in names:
                    there = {(each["path"], each["scale"]) for each in kept(asked.json)["records"]}
                    if (name, str(scale)) in there and not asked.again:
                        continue
                    record = measured(name, scale, folder, limits)
                    append(asked.json, record)
                    print(record.line(), file=sys.stderr, flush=True)
    content = kept(asked.json)
    print("\n".join(tables(as_records(content["records"]), ROUTES, content["machine"])))


if __name__ == "__main__":
    main()

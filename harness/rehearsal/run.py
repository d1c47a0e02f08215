"""Runs the steps of a rehearsal as the commands that a person would type; records time and memory of each process."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from harness.errors import HarnessError
from harness.io import config
from harness.io.files import sha256_file
from harness.papers import rehearsed
from harness.papers.rehearsed import Rehearsed
from harness.rehearsal import services, world
from harness.rehearsal.steps import Row, Step
from harness.rehearsal.world import World
from harness.store import artefacts

DONE = "done.jsonl"
_PATIENCE = 10.0  # seconds in which a command that is told to stop must end
# Lines of standard output that hold values.
_SCORES = re.compile(r"^[\d,]+ (of [\d,]+ )?(runs?|configurations) |.* was best there \(")
_FAULT = re.compile(r"^(?:harness: |not run: )(.+)$", re.MULTILINE)

Track = Callable[[Sequence[Step], str], Iterable[Step]]


@dataclass(frozen=True)
class Result:
    """Outcome of a step.

    Attributes
    ----------
    fault : the line that stopped it; empty if it passed.
    seconds, cpu : wall-clock and CPU seconds, of all its processes.
    memory : largest resident set, bytes.
    written : bytes below the rehearsal's folder that the step added, reports excluded.
    runs : run file, relative to the current folder of the commands -> SHA-256; those it wrote or found finished.
    code : hash of the code and the configurations by which it ran.
    """

    step: str
    command: str
    fault: str
    seconds: float
    cpu: float
    memory: int
    written: int
    runs: Mapping[str, str]
    code: str

    @property
    def passed(self) -> bool:
        """Whether the command ended with exit code 0, and made each of its runs."""
        return not self.fault


def rehearse(made: World, steps: Sequence[Step], track: Track) -> tuple[list[Result], dict[Row, Result]]:
    """Runs `harness fetch` for the stand-ins, then the steps; returns all results and, for each row, the deciding one.

    A step that passed before with the same code and configurations is not run again. If a step with parts fails, its
    parts are run, and each row has the result of its own part; if all parts pass, the step's fault is that of all rows.
    """
    code = _code()
    before = _done(made.folder)
    results: list[Result] = []
    rows: dict[Row, Result] = {}
    bring = [
        Step(f"bring {path.name}", ("fetch", source, "--from", str(path)), ())
        for source, paths in made.given.items()
        for path in paths
    ]
    with _services(made):
        environment = made.environment(os.environ)
        for step in [*bring, *track(steps, "rehearsing")]:
            whole, *parts = found = list(_run(made, step, environment, before, code))
            results += found
            if step in bring and not whole.passed:
                raise HarnessError(f"rehearse: {whole.command}: {whole.fault}")
            blamed = dict.fromkeys(step.rows, whole)
            if any(not part.passed for part in parts):
                for part, result in zip(step.parts, parts, strict=True):
                    blamed |= dict.fromkeys(part.rows, result)
            for row, result in blamed.items():
                if row not in rows or rows[row].passed:
                    rows[row] = result
    return results, rows


def passed(steps: Sequence[Step], rows: Mapping[Row, Result], scale: str) -> list[Rehearsed]:
    """Returns the records of the rows all of whose commands passed, with the digest of these commands together."""
    named = {step.name for step in steps}
    digests = row_digests(steps)
    systems = row_systems(steps)
    return [
        rehearsed.now(row.table, row.label, scale, digests[row], systems[row])
        for row, result in rows.items()
        if result.passed and result.step in named
    ]


def row_digests(steps: Sequence[Step]) -> dict[Row, str]:
    """Returns row -> digest of its commands and their configurations."""
    found: dict[Row, list[str]] = {}
    for step in steps:
        digest = step.digest() if step.rows else ""
        for row in step.rows:
            found.setdefault(row, []).append(digest)
    return {row: artefacts.key({"commands": digests})[:16] for row, digests in found.items()}


def row_systems(steps: Sequence[Step]) -> dict[Row, set[str]]:
    """Returns row -> names of the systems that its commands run."""
    found: dict[Row, set[str]] = {}
    for step in steps:
        for part in step.parts or (step,):
            for row in part.rows:
                found.setdefault(row, set()).update(part.chosen("system"))
    return found


def _code() -> str:
    """Returns a hash of the program and of all configurations."""
    total = hashlib.sha256()
    for root in (Path(__file__).parents[1], *config.folders()):
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".yaml", ".txt", ".csv") and path.is_file():
                total.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return total.hexdigest()[:16]


@contextmanager
def _services(made: World) -> Iterator[None]:
    with services.serving(made.seed) if made.services else nullcontext("") as url:
        if url:
            world.overlay_services(made, url)
        yield


def _run(
    made: World, step: Step, environment: Mapping[str, str], before: Mapping[str, Result], code: str
) -> Iterator[Result]:
    """Yields the result of a step and, if it fails, of its parts."""
    known = before.get(step.name)
    same = known is not None and (known.command, known.code) == (step.command, code)
    if known is not None and same and known.passed and all((made.work / run).is_file() for run in known.runs):
        yield known
        return
    result = _command(made, step, environment, code)
    _note(made.folder, result)
    yield result
    if not result.passed:
        for part in step.parts:
            yield from _run(made, part, environment, before, code)


def _command(made: World, step: Step, environment: Mapping[str, str], code: str) -> Result:
    """Runs one command; nothing that it prints of values is kept, and its reports are removed."""
    logs = made.folder / "logs"
    logs.mkdir(exist_ok=True)
    log = logs / f"{log_name(step.name)}.txt"
    size, start = _size(made.folder), time.monotonic()
    try:
        with log.open("wb") as stream:
            stream.write(f"$ {step.command}\n".encode())
            stream.flush()
            status, usage = _waited(step, made.work, environment, stream)
    finally:
        said = log.read_text(encoding="utf-8", errors="replace")
        kept = "".join(line for line in said.splitlines(True) if not _SCORES.match(line))
        log.write_text(kept, encoding="utf-8")
        shutil.rmtree(made.work / "reports", ignore_errors=True)  # their values mean nothing
    seconds = time.monotonic() - start
    faults = _FAULT.findall(said)
    fault = "" if status == 0 and not faults else (faults[0] if faults else _last(said) or f"exit code {status}")
    runs = {} if fault else _runs(made, said)
    if not fault and step.words[0] == "run" and not runs:
        fault = "ended with exit code 0 and made no run"
    cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    written = max(_size(made.folder) - size, 0)
    return Result(step.name, step.command, fault, seconds, cpu, memory, written, runs, code)


def _waited(
    step: Step, here: Path, environment: Mapping[str, str], stream: IO[bytes]
) -> tuple[int, resource.struct_rusage]:
    """Runs a command in a folder to its end; returns its exit code and what it used."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "harness", *step.words],
        cwd=here,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=stream,
        stderr=subprocess.STDOUT,
    )
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:  # Ctrl-C reaches the command as well
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage


def _runs(made: World, said: str) -> dict[str, str]:
    """Returns the runs that a command says it made, or all if it is an experiment, which does not list them."""
    named = [made.work / line.removeprefix("run: ") for line in said.splitlines() if line.startswith("run: ")]
    found = named or sorted((made.work / "runs").rglob("*.run"))
    return {str(path.relative_to(made.work)): sha256_file(path) for path in found}


def _last(said: str) -> str:
    return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")[:300]


def log_name(name: str) -> str:
    """Returns the name of a step's log file, without its ending.

    Examples
    --------
    >>> log_name("2 mirmu 1: Base arqmath-1-task1")
    '2-mirmu-1-Base-arqmath-1-task1'
    """
    return re.sub(r"[^\w.+-]+", "-", name).strip("-")[:120]


def _size(folder: Path) -> int:
    """Returns the bytes of all files below a folder but those of reports."""
    total = 0
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "reports"]
        for name in files:
            try:
                total += os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118  (many files)
            except OSError:
                continue
    return total


def _done(folder: Path) -> dict[str, Result]:
    """Returns the results of earlier calls by step, the last one of each; damaged lines are passed over."""
    path = folder / DONE
    found: dict[str, Result] = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            result = Result(**json.loads(line))
            if not isinstance(result.step, str) or not isinstance(result.runs, dict):
                continue
        except (ValueError, TypeError):
            continue
        found[result.step] = result
    return found


def _note(folder: Path, result: Result) -> None:
    with (folder / DONE).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(asdict(result)) + "\n")
        stream.flush()
        os.fsync(stream.fileno())

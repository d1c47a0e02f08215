"""Carries out the steps of a paper as the commands that a person would type; records what each took.

Every step leaves a record, so that the same call goes on after whatever stopped it: a step that passed with the same
command, code and configurations, and whose runs are unchanged, is not run again. `step_costs` sums what the
steps took, from their records and the runs' metadata files.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from harness.collections.corpora import load_corpus
from harness.errors import HarnessError
from harness.experiments import launch
from harness.experiments.engines import BASIC
from harness.io import config
from harness.io.files import sha256_file, write_atomic
from harness.papers.estimate import asked_by
from harness.papers.experiment_runs import CellRun
from harness.papers.rates import Range
from harness.papers.steps import RunStep, file_name
from harness.store import sidecar
from harness.store.llm.limits import SPENT, recorded_cost
from harness.systems.resources import declared

_PATIENCE = 10.0  # seconds in which a command that is told to stop must end
_FAULT = re.compile(r"^(?:harness: |not run: )(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step.

    Attributes
    ----------
    fault : the line that stopped it; empty if it passed.
    seconds, cpu : wall-clock and CPU seconds, of all its processes.
    memory : largest resident set, bytes.
    runs : run file, relative to the current folder of the commands -> SHA-256; those it wrote or found finished.
    code : hash of the code and the configurations by which it ran.
    log : file of what it printed.
    """

    step: str
    command: str
    fault: str
    seconds: float
    cpu: float
    memory: int
    runs: Mapping[str, str]
    code: str
    log: str = ""

    @property
    def passed(self) -> bool:
        """Whether the command ended with exit code 0, and made each of its runs."""
        return not self.fault


@dataclass(frozen=True)
class Making:
    """Where and how steps are carried out.

    Attributes
    ----------
    folder : for records and logs.
    work : current folder of the commands.
    runs : folder of runs, relative to `work` or absolute.
    words : appended to each command, such as `output=reports`.
    budget : dollars that language models and services may take over all calls with this folder; None for no limit. What
        they took is recorded by each call (`spent_dollars`), also if its step fails.
    """

    folder: Path
    work: Path = field(default_factory=Path.cwd)
    runs: str = "runs"
    words: tuple[str, ...] = ()
    budget: float | None = None


def carry_out(making: Making, steps: Sequence[RunStep]) -> Iterator[tuple[RunStep, list[StepOutcome]]]:
    """Yields each step with its results: its own and, if it failed, those of its parts.

    A launcher of Hydra, if the command line chose one, makes the runs of steps that do not read each other's at the
    same time; an experiment hands its own runs to the launcher. A step that reads a run whose step failed is not run.
    """
    failed: dict[str, str] = {}
    for wave in [[step] for step in steps] if launch.chosen() == BASIC else waves(steps):
        able = [step for step in wave if not failed.keys() & set(step.reads())]
        for step in wave:
            if step not in able:
                lost = [failed[file] for file in step.reads() if file in failed]
                why = f"not run: the step{'s' * (len(lost) > 1)} {', '.join(lost)} failed"
                failed[step.file] = step.title
                yield step, [StepOutcome(step.name, step.command, why, 0, 0, 0, {}, code())]
        paying = [step for step in able if budget_keys(step) and finished(making, step) is None]
        left = None if making.budget is None else max(making.budget - spent_dollars(making), 0.0)
        share = None if left is None else left / max(1, len(paying))
        for step, results in _wave(replace(making, budget=share), able):
            if not results[0].passed:
                failed[step.file] = step.title
            yield step, results


def _wave(making: Making, wave: Sequence[RunStep]) -> Iterator[tuple[RunStep, list[StepOutcome]]]:
    """Yields the results of steps that do not read each other's runs."""
    if launch.chosen() == BASIC:
        yield from ((step, list(results_of(making, step))) for step in wave)
        return
    if wave:
        single = [step for step in wave if not step.experiment]
        known = {step.name: x for step in single if (x := finished(making, step)) is not None}
        waiting = [step for step in single if step.name not in known]
        ended = launch.launch([_job(making, step) for step in waiting], _work, making.folder / "launched", "steps")
        made = {}
        for step, end in zip(waiting, ended, strict=True):
            log = "" if end.log is None else str(end.log)
            made[step.name] = (
                [StepOutcome(**each) for each in end.made["results"]]
                if end.state == "made"
                else [StepOutcome(step.name, step.command, end.lines[0], 0.0, 0.0, 0, {}, code(), log)]
            )
        for step in wave:
            yield step, made.get(step.name) or list(results_of(making, step, _launcher_options()))


def spent_file(making: Making, step: RunStep) -> Path:
    """Returns the file of what a step's calls cost, in all calls of the command."""
    return making.folder / "spent" / f"{file_name(step.name)}.txt"


def spent_dollars(making: Making) -> float:
    """Returns the dollars that language models and services took in all calls with a folder, for steps that failed too.

    A call without an answer that the service may charge for counts with its maximum cost.
    """
    return math.fsum(map(recorded_cost, making.folder.glob("spent/*.txt")))


def budget_keys(step: RunStep) -> list[str]:
    """Returns the key that limits what calls cost, once for each model that it limits; none for a step without calls.

    The systems of experiments use answers that are there.
    """
    if step.experiment or step.words[0] != "run":
        return []
    configuration, *parts = step.runs[0].parts
    if "budget" in configuration and "llm" in configuration:
        asked = [each for part in (configuration, *parts) for each in asked_by(part)]
        vectors = [part for part in (configuration, *parts) if part.get("model") in config.names("llm")]
        return ["system.budget"] * (len(asked) + len(vectors))
    paid = isinstance(configuration.get("calls"), Mapping) and configuration.get("model") in config.names("llm")
    return ["system.calls.budget"] if paid else []


def waves(steps: Sequence[RunStep]) -> list[list[RunStep]]:
    """Returns the steps in groups; a step reads only runs of earlier groups."""
    by_file = {step.file: step for step in steps if step.file}

    def depth(step: RunStep) -> int:
        return max((1 + depth(by_file[file]) for file in step.reads() if file in by_file), default=0)

    levels: dict[int, list[RunStep]] = {}
    for step in steps:
        levels.setdefault(depth(step), []).append(step)
    return [levels[level] for level in sorted(levels)]


def results_of(making: Making, step: RunStep, more: Sequence[str] = ()) -> Iterator[StepOutcome]:
    """Yields the result of a step, run only if it has to be, and of its parts if it fails."""
    known = finished(making, step)
    if known is not None:
        yield known
        return
    result = _run_command(making, step, more)
    write_atomic(_record_path(making, step), json.dumps(asdict(result)))
    yield result
    if not result.passed:
        for part in step.parts:
            yield from results_of(making, part, more)


def finished(making: Making, step: RunStep) -> StepOutcome | None:
    """Returns the record of a step that passed and need not be run again; None if there is none.

    An experiment, which knows by itself which of its runs are finished, and what makes no run are always run again.
    """
    result = None if step.experiment or step.words[0] != "run" else recorded(making, step)
    if result is None or (result.command, result.code, result.fault) != (step.command, code(), ""):
        return None
    digest = load_corpus(step.runs[0].corpus).declared()
    runs = {making.work / path: sha for path, sha in result.runs.items()}
    return result if runs and all(_unchanged(path, sha, digest) for path, sha in runs.items()) else None


def _unchanged(run: Path, sha: str, corpus: str) -> bool:
    """Returns whether a run has a checksum, and a metadata file that says that it searched a version of a corpus."""
    said = sidecar.read_sidecar(sidecar.sidecar_path(run))
    noted = said is not None and (said.sha256, said.digest) == (sha, corpus)
    return noted and run.is_file() and sha256_file(run) == sha


def recorded(making: Making, step: RunStep) -> StepOutcome | None:
    """Returns the last record of a step; None if there is none, or it is damaged."""
    try:
        result = StepOutcome(**json.loads(_record_path(making, step).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return result if isinstance(result.runs, dict) else None


@cache
def code() -> str:
    """Returns a hash of the program and of all configurations."""
    total = hashlib.sha256()
    for root in (Path(__file__).parents[1], *config.folders()):
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".yaml", ".txt", ".csv") and path.is_file():
                total.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def _record_path(making: Making, step: RunStep) -> Path:
    return making.folder / "steps" / f"{file_name(step.name)}.json"


# ---- one command ------------------------------------------------------------------------------------------------


def _run_command(making: Making, step: RunStep, more: Sequence[str]) -> StepOutcome:
    log, start = making.folder / "logs" / f"{file_name(step.name)}.txt", time.monotonic()
    log.unlink(missing_ok=True)  # a command whose caller was killed may still write to it
    with log.open("wb") as stream:
        stream.write(f"$ {step.command}\n".encode())
        stream.flush()
        status, usage = _waited(making, step, more, stream)
    said = log.read_text(encoding="utf-8", errors="replace")
    faults = _FAULT.findall(said)
    lines = said.splitlines()
    last = next((line.strip()[:300] for line in reversed(lines) if line.strip()), f"exit code {status}")
    fault = faults[0] if faults else last if status else ""
    made = [making.work / line.removeprefix("run: ") for line in lines if line.startswith("run: ")]
    runs = {} if fault else {os.path.relpath(path, making.work): sha256_file(path) for path in made}
    if not fault and step.file and not runs:
        fault = "ended with exit code 0 and made no run"
    seconds, cpu = time.monotonic() - start, usage.ru_utime + usage.ru_stime
    return StepOutcome(step.name, step.command, fault, seconds, cpu, usage.ru_maxrss * 1024, runs, code(), str(log))


def _waited(
    making: Making, step: RunStep, more: Sequence[str], stream: IO[bytes]
) -> tuple[int, resource.struct_rusage]:
    """Runs a command to its end; returns its exit code and what it used."""
    words = step.words if step.words[0] != "run" else (*step.located(making.runs), *making.words, *more)
    spent = spent_file(making, step).absolute()
    spent.parent.mkdir(parents=True, exist_ok=True)
    if making.budget is not None and (keys := budget_keys(step)):
        words = (*words, f"{keys[0]}={making.budget / len(keys)}")
    command, environment = [sys.executable, "-P", "-m", "harness", *words], {**os.environ, SPENT: str(spent)}
    nothing, both = subprocess.DEVNULL, subprocess.STDOUT
    process = subprocess.Popen(command, cwd=making.work, env=environment, stdin=nothing, stdout=stream, stderr=both)
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


# ---- launchers --------------------------------------------------------------------------------------------------


def _job(making: Making, step: RunStep) -> launch.Job:
    """Returns the job of a step for a launcher, with the resources that its systems declare."""
    need = declared(step.systems(), f"step {step.name}")
    (run,) = step.runs
    alike = json.dumps([run.system, run.corpus])
    plain = {**asdict(making), "folder": str(making.folder.absolute()), "work": str(making.work.absolute())}
    return launch.Job({"making": plain, "step": [step.name, list(step.words)]}, step.title, need, alike)


def _work(content: Mapping[str, Any]) -> dict[str, Any]:
    """Carries out a step in a process of a launcher, whose end is that of the step's command as well."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _interrupt)
    plain = content["making"]
    making = Making(**{**plain, "folder": Path(plain["folder"]), "work": Path(plain["work"])})
    name, words = content["step"]
    return {"results": [asdict(result) for result in results_of(making, RunStep(name, tuple(words), ()))]}


def _launcher_options() -> list[str]:
    from hydra.core.hydra_config import HydraConfig

    given = HydraConfig.get().overrides.hydra
    return [word for word in given if word.startswith(("hydra/launcher=", "hydra.launcher."))]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@dataclass(frozen=True)
class StepCost:
    """What a step took.

    Attributes
    ----------
    outcome : its last record.
    device : processors and GPUs by which its runs were made, as their metadata files say; empty if they do not.
    joules : energy of its runs; None if it was not measured.
    calls, dollars : of language models and services.
    estimate : hours of one core that the plan expects; None if not known.
    """

    outcome: StepOutcome
    device: str
    joules: float | None
    calls: int
    dollars: float
    estimate: Range | None


def step_costs(
    making: Making,
    steps: Sequence[RunStep],
    estimates: Mapping[str, Range | None] = MappingProxyType({}),
    experiments: Mapping[str, Sequence[CellRun]] = MappingProxyType({}),
) -> tuple[StepCost, ...]:
    """Returns the costs of the steps that have a record, whichever call carried them out.

    Parameters
    ----------
    estimates : name of a step -> hours of one core.
    experiments : experiment -> its finished runs, which the records of steps do not name.
    """
    costs = []
    for step in steps:
        outcome = recorded(making, step)
        if outcome is None or outcome.command != step.command:  # of another scale
            continue
        made = [*map(Path, outcome.runs), *(each.path for each in experiments.get(step.experiment, ()))]
        runs = [making.work / path for path in made]
        documents = []
        for run in runs:
            with suppress(HarnessError):
                documents += [document] if (document := sidecar.read(sidecar.sidecar_path(run))) is not None else []
        energy = [value for document in documents for value in _joules(document)]
        device = ", ".join(dict.fromkeys(filter(None, map(_device_name, documents))))
        notes = [note for run in runs for note in sidecar.costs(sidecar.sidecar_path(run)).values()]
        calls = sum(int(note["calls"]) for note in notes if isinstance(note, Mapping) and "calls" in note)
        spent, joules = recorded_cost(spent_file(making, step)), math.fsum(energy) if energy else None
        costs.append(StepCost(outcome, device, joules, calls, spent, estimates.get(step.name)))
    return tuple(costs)


def _device_name(document: Mapping[str, Any]) -> str:
    with suppress(KeyError, TypeError, AttributeError):
        hardware = document["platform"]["hardware"]
        gpu = hardware.get("gpu") or {}
        cpu = f"{hardware['cpu']['model']}, {hardware['cpu']['number of cores']} cores"
        return ", ".join([*map(str, gpu.get("model", ())), cpu])
    return ""


def _joules(document: Mapping[str, Any]) -> list[float]:
    """Returns the energy of processors, memory and GPUs in a metadata file's resources."""
    parts = document.get("resources")
    joules = []
    for part in parts.values() if isinstance(parts, Mapping) else ():
        text = part.get("energy used system", "") if isinstance(part, Mapping) else ""
        if number := re.fullmatch(r"([0-9.eE+-]+) J", str(text)):
            joules.append(float(number[1]))
    return joules

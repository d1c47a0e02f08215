"""Launches the runs of an experiment: jobs of a Hydra launcher, in waves, each run in a process of its own.

A job that needs an artifact which another process is making ends at once and comes again in the next wave, so that it
holds no slot idle. Jobs leave their results in a folder, which must be the same on all machines: what was finished is
known even if the engine loses a worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Literal

from harness.errors import HarnessError, SystemRaisedError, printable_line, system_raised
from harness.experiments.engines import BASIC
from harness.io import interrupt
from harness.io.console import Progress, log_line, log_text, progress
from harness.io.files import write_atomic
from harness.store.artefacts import ArtefactBusy, without_waiting
from harness.systems.resources import Resources

if TYPE_CHECKING:
    from omegaconf import DictConfig

Content = Mapping[str, Any]  # of a job, in plain values
Work = Callable[[Content], Content]  # makes the run of a job, says which; a HarnessError is its failure
_POLL = 0.5  # seconds between two looks at the folder
_TRIES = 2  # how often a job is handed over that was never started, or whose process died
_LIMITS = ("TIMEOUT", "OUT_OF_MEMORY", "timed-out")  # what a job would meet again
_PLACE = "launched"  # folder below that of runs


@dataclass(frozen=True)
class Job:
    """One run to be made.

    Attributes
    ----------
    content : what the worker needs to know, in plain values.
    title : the run in words.
    alike : jobs of equal `alike` may share work; jobs of different ones are started first.
    """

    content: Content
    title: str
    resources: Resources = field(default_factory=Resources)
    alike: str = ""


@dataclass(frozen=True)
class Ended:
    """How a job ended.

    Attributes
    ----------
    state : `made`; `failed`: the run cannot be made; `busy`: another process makes what it needs; `lost`: its process
        or machine was lost, or it was never started.
    lines : what went wrong.
    lacking : whether a resource is missing, rather than an error occurred.
    made : what the work returned.
    log : what the job printed.
    """

    state: Literal["made", "failed", "busy", "lost"]
    lines: tuple[str, ...] = ()
    lacking: bool = False
    made: Content = field(default_factory=dict)
    log: Path | None = None


class MissingResourceError(HarnessError):
    """A job needs a resource that is not on its machine."""


@dataclass(frozen=True)
class JobWorker:
    """The function that a launcher calls in its processes, for one job at a time.

    Attributes
    ----------
    folder : where jobs and their results are.
    waits : whether a job may wait for an artifact that another process is making.
    command : the command line, for the provenance of runs.
    local : whether its process is a child of the driver that waits for further jobs.
    """

    folder: Path
    work: Work
    waits: bool
    command: tuple[str, ...]
    local: bool = False

    def __call__(self, _: DictConfig) -> dict[str, Any]:
        """Runs the job that Hydra's configuration names; returns its end in plain values."""
        from hydra.core.hydra_config import HydraConfig

        interrupt.in_worker()
        if self.local:
            _end_with(os.getppid())
        sys.argv = list(self.command)
        name = HydraConfig.get().job.name
        content = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        write_atomic(self.folder / f"{name}.started", f"{socket.gethostname()} {os.getpid()}\n")
        with _BUSY, _printing_to(self.folder / f"{name}.log"):
            ended = self._ended(content)
        plain = {"state": ended.state, "lines": list(ended.lines), "lacking": ended.lacking, "made": dict(ended.made)}
        write_atomic(self.folder / f"{name}.ended", json.dumps(plain))
        return plain

    def _ended(self, content: Content) -> Ended:
        try:
            with contextlib.nullcontext() if self.waits else without_waiting():
                return Ended("made", made=self.work(content))
        except ArtefactBusy as busy:
            return Ended("busy", busy.lines)
        except MissingResourceError as error:
            return Ended("failed", error.lines, lacking=True)
        except HarnessError as error:
            log_text(error.trace if isinstance(error, SystemRaisedError) else str(error))
            return Ended("failed", error.lines)
        except Exception as error:
            raised = system_raised("the harness", error)
            log_text(raised.trace if isinstance(raised, SystemRaisedError) else str(raised))
            return Ended("failed", raised.lines)


_BUSY = Lock()  # held while a job runs


@cache  # once for a process
def _end_with(driver: int) -> None:
    """Ends this process after its job if the driver was killed; joblib's processes would wait for minutes."""

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(1)
        with _BUSY:
            os._exit(1)

    Thread(target=watch, name="driver", daemon=True).start()


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Sends all that this process prints to a file, also what libraries in other languages print."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):  # a full disk
            sys.stdout.flush()
            sys.stderr.flush()
        for at, handle in enumerate(kept, 1):
            os.dup2(handle, at)
            os.close(handle)


# ---- the driver -------------------------------------------------------------------------------------------------


def chosen() -> str:
    """Returns the name of the launcher that the command line chose; basic after a sweep, when its report is made."""
    if "hydra" not in sys.modules:
        return BASIC
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized():
        return BASIC
    return str(HydraConfig.get().runtime.choices.get("hydra/launcher", BASIC))


def _one_kills_all() -> bool:
    """Returns what the class of the launcher says by `one_kills_all`; see `JobEngine`. Without a word: False."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.plugins import Plugins

    target = str(HydraConfig.get().launcher.get("_target_", ""))
    return bool(getattr(Plugins.instance().class_name_to_class.get(target), "one_kills_all", False))


def launch(jobs: Sequence[Job], work: Work, folder: Path, what: str = "runs") -> list[Ended]:
    """Runs jobs on the chosen launcher; returns how each ended.

    Parameters
    ----------
    work : a function of a module, which the workers import.
    folder : for jobs, results and logs; it must be the same on all machines. The logs of failed jobs stay there.
    what : the jobs in words, for the progress line.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "owner", f"{socket.gethostname()} {os.getpid()}")
    for number, job in enumerate(jobs):
        write_atomic(folder / f"{_name(number)}.json", json.dumps(job.content))
    ended: dict[int, Ended] = {}
    try:
        with progress(what, len(jobs)) as shown:
            with _watched(folder, shown):
                for number, end in _waves(jobs, work, folder):
                    ended[number] = end
            shown.done, shown.detail = len(ended), ""
    finally:
        _tidy(folder, [number for number, end in ended.items() if end.state != "made"])
    return [ended[number] for number in range(len(jobs))]


def ordered(jobs: Sequence[Job]) -> list[int]:
    """Returns the positions of jobs in the order in which they are started.

    The first job of each kind of shared work comes first, then the second of each, and so on.

    Examples
    --------
    >>> ordered([Job({}, "", alike=kind) for kind in "aaabb"])
    [0, 3, 1, 4, 2]
    """
    seen: dict[str, int] = {}
    places = []
    for at, job in enumerate(jobs):
        seen[job.alike] = seen.get(job.alike, -1) + 1
        places.append((seen[job.alike], at))
    return [at for _, at in sorted(places)]


def _waves(jobs: Sequence[Job], work: Work, folder: Path) -> Iterator[tuple[int, Ended]]:
    """Runs the jobs in waves; yields how each ended."""
    waiting, died = ordered(jobs), list[int]()
    tries = dict.fromkeys(waiting, 0)
    waits = False
    while waiting or died:
        # Those whose process died come last: one of them may be what killed the others.
        wave = waiting or (died[:1] if _one_kills_all() else died)
        if waits:  # all of them wait for another program: one does so in its process, the others in none
            wave = wave[:1]
        left = [number for number in waiting if number not in wave]
        died = [number for number in died if number not in wave]
        faults = _hand_over(JobWorker(folder, work, waits, tuple(sys.argv), _one_kills_all()), wave, jobs)
        waiting, came = left, False
        for number in wave:
            end = _end_of(folder, _name(number))
            began = (folder / f"{_name(number)}.started").exists()
            if end is not None and end.state != "busy":
                came = True
                yield number, end
            elif end is not None:
                waiting.append(number)
            else:
                tries[number] += 1
                fault, came = faults.get(number, ""), True
                if tries[number] < _TRIES and not any(limit in fault for limit in _LIMITS):
                    (died if began else waiting).append(number)
                else:
                    yield number, Ended("lost", (_lost(fault, began),), log=_log(folder, _name(number)))
            _forget(folder, number)
        waits = not came


def _lost(fault: str, began: bool) -> str:
    """Returns the line on a job without a result."""
    what = "its process or machine was lost" if began else "it could not be started"
    again = "the same command tries it again" if began else "check the launcher's settings"
    return f"{what}{f' ({fault})' if fault else ''}; {again}"


def _hand_over(worker: JobWorker, wave: Sequence[int], jobs: Sequence[Job]) -> dict[int, str]:
    """Hands jobs to the launcher and waits for them; returns the faults of the engine, by job."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.plugins import Plugins

    from harness.experiments.cell_composition import job_context

    running = GlobalHydra.instance().hydra
    assert running is not None  # noqa: S101  (this is called by Hydra)
    configuration = _configuration(worker.folder)
    context = job_context(running.config_loader, configuration)
    launcher = Plugins.instance().instantiate_launcher(
        hydra_context=context, task_function=worker, config=configuration
    )
    if hasattr(launcher, "asked"):  # a launcher of ours
        launcher.asked = [jobs[number].resources for number in wave]
    try:
        returned = launcher.launch([[f"hydra.job.name={_name(number)}"] for number in wave], wave[0])
    except Exception as error:  # of the engine; the jobs catch theirs
        if interrupt.stopping():
            raise KeyboardInterrupt from None
        if not any(worker.folder.glob("*.started")):
            raise HarnessError(f"hydra/launcher={chosen()}: no run was started: {_gist(error)}") from error
        log_line(f"hydra/launcher={chosen()}: {_gist(error)}")
        return dict.fromkeys(wave, _gist(error))
    faults = {}
    for number, job in zip(wave, returned, strict=True):
        try:
            end = job.return_value
        except Exception as error:
            faults[number] = _gist(error)
        else:  # the file may not be seen yet where folders are shared by a network
            path = worker.folder / f"{_name(number)}.ended"
            if isinstance(end, dict) and not path.exists():
                write_atomic(path, json.dumps(end))
    return faults


def _gist(error: Exception) -> str:
    """Returns the kind and the first line of an engine's error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return printable_line(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)


def _configuration(folder: Path) -> DictConfig:
    """Returns Hydra's part of the configuration for a launcher; its jobs are composed without the command's words."""
    import copy

    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    configuration: Any = copy.deepcopy(HydraConfig.instance().cfg)
    OmegaConf.set_readonly(configuration.hydra, False)
    for key, value in (("dir", str(folder)), ("subdir", ".")):
        configuration.hydra.sweep[key] = value
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        configuration.hydra.overrides.hydra.append(f"hydra.sweep.{key}='{quoted}'")
    made: DictConfig = configuration
    return made


@contextmanager
def _watched(folder: Path, shown: Progress) -> Iterator[None]:
    """Keeps the progress up to date from the files that the jobs leave."""
    over = Event()
    finished: set[str] = set()

    def watch() -> None:
        while not over.wait(_POLL):
            names = set(os.listdir(folder))  # noqa: PTH208
            ends = {name.removesuffix(".ended") for name in names if name.endswith(".ended")}
            running = {name.removesuffix(".started") for name in names if name.endswith(".started")} - ends
            seen = {name: _end_of(folder, name) for name in ends - finished}
            finished.update(name for name, end in seen.items() if end is not None and end.state != "busy")
            shown.done = len(finished)
            shown.detail = f"; {len(running)} running" if running else ""

    thread = Thread(target=watch, name="launched", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# ---- the folder -------------------------------------------------------------------------------------------------


def _name(number: int) -> str:
    return f"run-{number:05d}"  # Hydra would read digits alone as a number


def _log(folder: Path, name: str) -> Path | None:
    path = folder / f"{name}.log"
    return path if path.exists() else None


def _end_of(folder: Path, name: str) -> Ended | None:
    """Reads how a job ended; None if it has not ended."""
    try:
        plain = json.loads((folder / f"{name}.ended").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Ended(plain["state"], tuple(plain["lines"]), plain["lacking"], plain["made"], _log(folder, name))


def _forget(folder: Path, number: int) -> None:
    """Removes the traces of an attempt, but for its log and its end if it is not to be repeated."""
    (folder / f"{_name(number)}.started").unlink(missing_ok=True)
    end = _end_of(folder, _name(number))
    if end is not None and end.state == "busy":
        (folder / f"{_name(number)}.ended").unlink()


def _tidy(folder: Path, failed: Iterable[int]) -> None:
    """Removes what is no longer needed: all but the logs of failed jobs."""
    kept = {f"{_name(number)}.log" for number in failed}
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name not in kept:
            path.unlink(missing_ok=True)
    for place in (folder, folder.parent):
        with contextlib.suppress(OSError):  # not empty
            place.rmdir()


def clear_remains(runs: Path) -> None:
    """Removes folders of drivers on this machine that were killed, and logs that are a month old."""
    above = runs / _PLACE
    for folder in above.iterdir() if above.is_dir() else ():
        try:
            host, process = (folder / "owner").read_text().split()
            dead = host == socket.gethostname() and Path("/proc").is_dir() and not Path(f"/proc/{process}").exists()
        except (OSError, ValueError):  # only logs are left
            dead = time.time() - folder.stat().st_mtime > 30 * 86400
        if dead:
            shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # not empty, or not there
        above.rmdir()


def place_of(runs: Path, name: str) -> Path:
    """Returns the folder for the jobs of this process below the folder of runs."""
    return runs / _PLACE / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"

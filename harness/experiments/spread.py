"""Spreads the long maps of one run over the jobs of a launcher: an engine of `harness.store.shards`.

The driver reads the items and writes those of missing shards to a folder, which must be the same on all machines, like
the store. Each job makes the shards of its share, one after the other, so a lost job costs only the shard that it was
making.
"""

from __future__ import annotations

import os
import pickle
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.experiments import launch
from harness.experiments.engines import BASIC
from harness.io.console import log_line
from harness.io.files import write_atomic
from harness.store import code, shards
from harness.store.shards import Shard, ShardTask
from harness.systems.resources import Resources

_MAP = "map.pickle"


@contextmanager
def maps(runs: Path, need: Resources, jobs: int) -> Iterator[None]:
    """Spreads the long maps in the block over the jobs of the chosen launcher; without one, it does nothing.

    Parameters
    ----------
    runs : folder of runs, in which the items are kept meanwhile.
    need : resources of each job.
    jobs : number of jobs at most.
    """
    if launch.chosen() == BASIC:
        yield
        return
    engine = Jobs(runs, need, jobs)
    with shards.spread_by(engine):
        yield
    if not engine.used:
        log_line(f"hydra/launcher={launch.chosen()}: not used; no long part of this run was missing")


@dataclass
class Jobs:
    """An engine that makes shards in jobs of the chosen launcher; a single shard is made in this process."""

    runs: Path
    need: Resources
    jobs: int
    used: bool = False

    def __call__(self, task: ShardTask[Any], missing: Iterator[Shard]) -> Iterator[int]:
        """Makes the shards; their items are on disk until all are made.

        Raises
        ------
        HarnessError
            A job failed, or its process was lost twice; the shards that were finished are kept.
        """
        first = list(islice(missing, 2))
        if len(first) < 2:
            yield from shards.here(task, iter(first))
            return
        self.used = True
        launch.clear_remains(self.runs)
        folder = launch.place_of(self.runs, "shards").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "owner", f"{socket.gethostname()} {os.getpid()}")
        try:
            write_atomic(folder / _MAP, _pickled(task))
            counts = {}
            for shard in chain(first, missing):
                write_atomic(folder / _name(shard.number), pickle.dumps(shard))
                counts[shard.number] = len(shard.items)
            shares = share(list(counts), self.jobs)
            content = {"folder": str(folder), "code": _code_of(task)}
            made = [
                launch.Job({**content, "shards": numbers}, f"shards from {numbers[0]} on", self.need)
                for numbers in shares
            ]
            ended = launch.launch(made, make_shards, folder / "jobs", f"jobs of {task.kind}s")
            for numbers, end in zip(shares, ended, strict=True):
                if end.state != "made":
                    self._make_lost_shards(task, folder, numbers, end)
                yield sum(counts[number] for number in numbers)
        finally:
            for path in folder.glob("*.pickle"):
                path.unlink(missing_ok=True)
            if not (folder / "jobs").exists():  # no job failed
                shutil.rmtree(folder, ignore_errors=True)
                with suppress(OSError):  # other drivers run
                    folder.parent.rmdir()

    def _make_lost_shards(self, task: ShardTask[Any], folder: Path, numbers: list[int], end: launch.Ended) -> None:
        """Makes the shards of a job that was lost in processes of this machine, if an item may be what killed it."""
        if end.state != "lost" or task.crashed is None:
            log = f"; log of the job: {end.log}" if end.log else ""
            raise HarnessError(f"{task.kind} {numbers[0]} to {numbers[-1]}: {end.lines[0]}{log}", *end.lines[1:])
        for number in numbers:
            shards.alone(task, _read(folder / _name(number)))


def share(numbers: list[int], jobs: int) -> list[list[int]]:
    """Returns the shards of each job: neighbours, and about equally many.

    Examples
    --------
    >>> share([0, 1, 2, 4, 7], 2), share([3, 5], 9)
    ([[0, 1], [2, 4, 7]], [[3], [5]])
    """
    count = min(jobs, len(numbers))
    ends = [len(numbers) * at // count for at in range(count + 1)]
    return [numbers[begin:end] for begin, end in pairwise(ends)]


def make_shards(content: launch.Content) -> launch.Content:
    """Makes the shards of a job, in a process of a launcher.

    Raises
    ------
    HarnessError
        The items cannot be read, the code is not that of the process that planned the work, or an error of the work.
    """
    folder = Path(content["folder"])
    task: ShardTask[Any] = _read(folder / _MAP)
    if _code_of(task) != content["code"]:
        raise HarnessError(f"{task.kind}: the code changed since the work was planned; run the same command again")
    if task.check is not None:
        task.check()
    for number in content["shards"]:
        shards.make(task, _read(folder / _name(number)))
    return {}


def _code_of(task: ShardTask[Any]) -> str:
    """Returns a digest of the code that makes the shards of a map: this package, and what else its work is made of."""
    work = getattr(task.work, "func", task.work)  # of a partial function
    return code.digest({getattr(work, "__module__", None) or type(work).__module__}) + code.ours()


def _name(number: int) -> str:
    return f"{number:06d}.pickle"


def _pickled(task: ShardTask[Any]) -> bytes:
    try:
        return pickle.dumps(task)
    except Exception as error:  # whatever the objects of a system raise
        lines = str(error).splitlines() or [type(error).__name__]
        raise HarnessError(
            f"{task.kind}: cannot be made on other machines, because a part of the system cannot be pickled: "
            f"{lines[0]}; run it without hydra/launcher"
        ) from None


def _read(path: Path) -> Any:  # noqa: ANN401
    try:
        return pickle.loads(path.read_bytes())  # noqa: S301  (written by the driver of this run)
    except FileNotFoundError:
        raise HarnessError(f"{path}: missing; the folder of runs must be the same on all machines") from None

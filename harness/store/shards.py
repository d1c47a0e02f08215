"""Long maps cut into shards: each shard of the items becomes an artifact of the store, whatever process makes it.

Encoding, translation, graph building and similar work map many items to bytes, one group of items after the other. A
shard that is finished is never made again: interrupted work resumes with it, and a lost worker costs one shard. The
shards are joined to one artifact, whose bytes do not depend on who made them; then they are deleted. `harness store gc`
deletes those of joined artifacts, and keeps those of an artifact that is being made.

Shards are made in this process, in several processes of this machine, or by an engine that `spread_by` sets, such as a
launcher of `harness.experiments.spread`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from harness.errors import HarnessError
from harness.io.console import progress
from harness.io.files import sha256
from harness.io.interrupt import Withheld
from harness.store import artefacts

Item = TypeVar("Item")
FILE = "shard"  # the only file of a shard
_TOGETHER = 1000  # shards in a folder


@dataclass(frozen=True)
class ShardTask(Generic[Item]):
    """Work on items in shards. It is pickled for other processes, with its functions but not with its items.

    Attributes
    ----------
    of : artifact to which the shards are joined, as `KIND/KEY`; its key states all that decides the shards.
    work : items of a shard -> its content. The content must depend on the items only.
    check : called once in each process before `work`; loads what `work` needs, or raises HarnessError.
    crashed : an item -> its content, if `work` killed its process when it had this item alone. Then the content of a
        shard is that of its items, concatenated. None: an error that ends the map.
    """

    of: str
    work: Callable[[Sequence[Item]], bytes]
    check: Callable[[], object] | None = None
    crashed: Callable[[Item], bytes] | None = None

    @property
    def kind(self) -> str:
        """Kind of the first shards in the store."""
        return f"{self.of.partition('/')[0]}-shard"

    def kind_of(self, number: int) -> str:
        """Returns the kind of a shard: listing a folder takes long if it has many entries.

        Examples
        --------
        >>> task = ShardTask("vectors/key", bytes)
        >>> task.kind_of(999), task.kind_of(1000), task.kind_of(2500)
        ('vectors-shard', 'vectors-shard-1', 'vectors-shard-2')
        """
        return f"{self.kind}-{number // _TOGETHER}" if number >= _TOGETHER else self.kind


class Shard(NamedTuple):
    """A shard that is to be made: its number, its specification in the store, and its items."""

    number: int
    spec: dict[str, Any]
    items: Sequence[Any]


Engine = Callable[[ShardTask[Any], Iterator[Shard]], Iterator[int]]
"""Makes shards with `make`, in any order and process; yields the number of items of each when it is finished."""

_ENGINE: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextmanager
def spread_by(engine: Engine) -> Iterator[None]:
    """Makes the shards of all maps in the block with an engine. It holds for this thread only."""
    token = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(token)


def spread() -> bool:
    """Returns whether an engine makes the shards of maps here, which is worth more than one process at a time."""
    return _ENGINE.get() is not None


def parts(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Yields the items in groups of equal size; the last one may be smaller.

    Examples
    --------
    >>> list(parts("abcde", 2))
    [('a', 'b'), ('c', 'd'), ('e',)]
    """
    stream = iter(items)
    while part := tuple(islice(stream, size)):
        yield part


def mapped(
    task: ShardTask[Item], groups: Iterable[Sequence[Item]], title: str, *, total: int | None = None, workers: int = 1
) -> list[Path]:
    """Makes the shards that are not in the store; returns the files of all, in order.

    Parameters
    ----------
    groups : the items of each shard. Items are text, numbers, None, and tuples or frozen dataclasses of these: their
        `repr` identifies them. Groups are read one at a time.
    title : of the progress line, in items.
    total : number of items, if known.
    workers : processes of this machine; 1 is this process. An engine of `spread_by` takes its own number.

    Raises
    ------
    HarnessError
        An error of `check` or `work`; a worker was lost twice with the same shard. Finished shards are kept.
    """
    files: list[Path] = []
    with progress(title, total) as shown:

        def missing() -> Iterator[Shard]:
            for number, items in enumerate(groups):
                digest = sha256(repr(tuple(items)).encode("utf-8", "surrogatepass"))
                spec = {"shard of": task.of, "shard": number, "items": digest}
                kind = task.kind_of(number)
                folder = artefacts.folder_of(kind, spec)
                files.append(folder / FILE)
                if not artefacts.damage(folder, kind):
                    shown.total = None if shown.total is None else shown.total - len(items)
                else:
                    yield Shard(number, spec, items)

        engine = _ENGINE.get() or (here if workers == 1 else Processes(workers))
        for count in engine(task, missing()):
            shown.add(count)
    return files


def make(task: ShardTask[Any], shard: Shard) -> int:
    """Makes a shard, unless it is in the store; returns its number of items."""
    store(task, shard, lambda: task.work(shard.items))
    return len(shard.items)


def store(task: ShardTask[Any], shard: Shard, content: Callable[[], bytes]) -> None:
    """Keeps the content of a shard, unless it is in the store."""

    def write(folder: Path) -> None:
        (folder / FILE).write_bytes(content())

    artefacts.ensure(task.kind_of(shard.number), shard.spec, write, quiet=True)


def joined(kind: str, spec: Mapping[str, Any], join: Callable[[Path, str], Iterable[Path]]) -> Path:
    """Returns the folder of an artifact that is made of shards; builds it if it is missing or damaged.

    Parameters
    ----------
    join : an empty folder and the value of `ShardTask.of` -> the files of the shards that were joined in the folder.
    They are
        deleted when the artifact is in the store.

    Raises
    ------
    HarnessError
        The errors of `artefacts.get_or_build` and `mapped`.
    """
    files: list[Path] = []

    def build(folder: Path) -> None:
        files[:] = join(folder, f"{kind}/{artefacts.key(spec)}")

    artefact = artefacts.get_or_build(kind, spec, build)
    artefacts.discard(*(file.parent for file in files))
    return artefact


def here(task: ShardTask[Any], missing: Iterator[Shard]) -> Iterator[int]:
    """Makes shards in this process; an `Engine`."""
    for at, shard in enumerate(missing):
        if at == 0 and task.check is not None:
            task.check()
        yield make(task, shard)


# ---- processes of this machine ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Processes:
    """An engine of processes on this machine. A dead one is replaced, and costs the shards that were being made."""

    workers: int

    def __call__(self, task: ShardTask[Any], missing: Iterator[Shard]) -> Iterator[int]:
        """Makes the shards; holds those of two for each process in memory."""
        pool, waiting = _Pool(task, self.workers), deque[tuple[Shard, Future[int]]]()
        try:
            for shard in missing:
                waiting.append((shard, pool.submit(shard)))
                while len(waiting) >= 2 * self.workers:
                    yield pool.result(*waiting.popleft())
            while waiting:
                yield pool.result(*waiting.popleft())
        finally:
            pool.close()


@dataclass
class _Pool:
    """Processes that are started when they are needed."""

    task: ShardTask[Any]
    workers: int
    _executor: ProcessPoolExecutor | None = None
    _checked: bool = False

    def submit(self, shard: Shard) -> Future[int]:
        """Hands a shard to a process."""
        try:
            if not self._checked:
                self._check()
            return self._submit(_make_there, shard)
        except BrokenProcessPool:
            self.close()
            return self._submit(_make_there, shard)

    def result(self, shard: Shard, future: Future[int]) -> int:
        """Returns the number of items of a shard when it is finished."""
        try:
            return future.result()
        except (BrokenProcessPool, CancelledError):
            # Only `submit` replaces the pool, so that shards already running in a new one continue.
            return alone(self.task, shard)

    def close(self) -> None:
        """Ends the processes; `submit` starts new ones."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    def _check(self) -> None:
        """Checks once that the work can begin, so that a missing package is one error."""
        try:
            self._submit(_checked_there).result()
        except BrokenProcessPool:
            raise HarnessError("the processes of this map end before they begin; try one process to see why") from None
        self._checked = True

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:  # noqa: ANN401
        if self._executor is None:
            self._executor = ProcessPoolExecutor(self.workers, get_context("spawn"), _start, (self.task,))
        with Withheld():  # it may start a process
            return self._executor.submit(work, *arguments)


def alone(task: ShardTask[Any], shard: Shard) -> int:
    """Makes a shard whose process died in a process of its own, and finds the item that kills it by halving.

    Raises
    ------
    HarnessError
        The process died again, and the map has no content for an item that kills it.
    """
    store(task, shard, lambda: _halved(task, shard.number, shard.items))
    return len(shard.items)


def _halved(task: ShardTask[Any], number: int, items: Sequence[Any]) -> bytes:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        try:
            with Withheld():
                future = process.submit(task.work, items)
            return future.result()
        except BrokenProcessPool:
            pass
    if task.crashed is None:
        raise HarnessError(
            f"{task.kind} {number}: its process was killed twice, or ran out of memory; the finished shards are kept, "
            "and the same command continues"
        )
    if len(items) == 1:
        return task.crashed(items[0])
    middle = len(items) // 2
    return _halved(task, number, items[:middle]) + _halved(task, number, items[middle:])


_TASK: list[ShardTask[Any]] = []  # in a worker


def _start(task: ShardTask[Any]) -> None:
    _TASK[:] = [task]


def _checked_there() -> None:
    if (check := _TASK[0].check) is not None:
        check()


def _make_there(shard: Shard) -> int:
    return make(_TASK[0], shard)

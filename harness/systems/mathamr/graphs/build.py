"""Builds the graphs of many posts in parallel; interrupted work resumes, and every failure is recorded.

    graphs-000000.jsonl      a header, then one line per post in input order: its graph, or why it has none
    graphs-000001.jsonl
    summary.json             written last: numbers of posts, graphs, shards, and failures by kind

Shards are written atomically, so an existing shard is complete. A resumed build keeps the shards of the same posts and
parser, and its result is byte-identical to an uninterrupted build. A failing batch is halved until the failing post is
found (MathAMR+ thesis, section 3.1). Only one process at a time may build in a folder.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, format_error
from harness.io.console import Progress, progress, say, track
from harness.io.files import sha256, write_atomic
from harness.systems.mathamr.graphs.graph import Failure, Graph, Sentence, as_json, check, connected, from_mapping
from harness.systems.mathamr.graphs.posts import Post, PostText, assemble, read_post

VERSION = 3  # to be raised when the output for the same posts and parser changes
NO_TEXT = "no text"
UNPARSED = "nothing parsed"
DISCONNECTED = "disconnected graph"
CRASHED = "parser crashed"

Parse = Callable[[Sequence[str]], Sequence[Sequence[Sentence] | Failure]]
"""Maps texts with placeholders to the sentences of each text, in order. It is pickled for worker processes, so it must
be a module-level function or a dataclass. Called with no texts, it loads its dependencies or raises HarnessError."""

_SUMMARY = "summary.json"
_MADE = re.compile(r'\{"id":"(?:[^"\\]|\\.)*","unknown":(\d+),"graph":')


@dataclass(frozen=True)
class Built:
    """Statistics of a build.

    Attributes
    ----------
    unknown : formulas in graphs that are missing from the collection, counted for posts that have collection formulas.
    failures : kind -> number of posts, most frequent first.
    reused : number of shards kept from an earlier build.
    """

    posts: int
    graphs: int
    unknown: int
    failures: Mapping[str, int]
    shards: int
    reused: int

    def table(self) -> str:
        """Returns a table of the numbers of posts, graphs, and failures by kind."""
        rows = [("posts", self.posts), ("graphs", self.graphs), *self.failures.items()]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {n:>9,}  {n / max(self.posts, 1):>6.1%}" for name, n in rows)


def graphs(
    posts: Iterable[Post], parse: Parse, batch: int = 64, keep: bool = True
) -> Iterator[tuple[str, Graph | Failure]]:
    """Yields the graph of each post in order, without storing it; for topics and other small sets.

    `keep` is as in `build_graphs`.
    """
    waiting = iter(posts)
    while part := tuple(islice(waiting, batch)):
        for post, (graph, _) in zip(part, _parsed(part, parse, keep), strict=True):
            yield post.id, graph


def build_graphs(
    posts: Iterable[Post],
    parse: Parse,
    folder: Path,
    workers: int = 1,
    batch: int = 256,
    total: int | None = None,
    keep: bool = True,
) -> Built:
    """Builds the graphs of all posts in a folder; finished shards are kept.

    Parameters
    ----------
    workers : number of processes; 1 works in the current process.
    batch : posts per shard; shards of a build with another value are not kept.
    total : number of posts, if known; used for the progress display and to limit the number of processes.
    keep : keep disconnected graphs; otherwise they count as failures, as in the thesis (table 4.2).

    Raises
    ------
    HarnessError
        The parser cannot be loaded, the folder holds graphs of other posts or another parser, or the disk is full.
        Finished shards are kept.
    """
    if workers < 1 or batch < 1:
        raise HarnessError(f"workers and batch are {workers} and {batch}, expected 1 or more of each")
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".*.jsonl.*"):
        left.unlink(missing_ok=True)
    if total is not None:
        workers = min(workers, -(-total // batch) or 1)
    pool = _Pool(parse, workers, keep)
    reused = count = 0
    waiting: deque[tuple[int, str, tuple[Post, ...], Future[str] | None]] = deque()
    stream = iter(posts)
    with progress("making graphs, posts", total) as told:
        try:
            while part := tuple(islice(stream, batch)):
                header = _header(count, part, parse, keep)
                if _is_there(_shard(folder, count), header):
                    reused += 1
                    told.total = None if told.total is None else told.total - len(part)
                else:
                    waiting.append((count, header, part, pool.submit(part)))
                count += 1
                while len(waiting) > 2 * (workers - 1):
                    _finish(*waiting.popleft(), pool, folder, told)
            while waiting:
                _finish(*waiting.popleft(), pool, folder, told)
        finally:
            pool.close()
    if _shard(folder, count).exists():
        raise HarnessError(f"{folder}: holds graphs of more posts than these; delete it or name another folder")
    return _summarise(folder, count, reused)


def read_graphs(folder: Path) -> Iterator[tuple[str, Graph]]:
    """Yields the graphs of a finished folder as (post id, graph), in post order.

    Raises
    ------
    HarnessError
        The folder is unfinished, or a shard is missing or damaged; the message names file and line.
    """
    for path, number, row in track(_rows(folder), "reading graphs", _posts(folder)):
        if "graph" in row:
            yield str(row["id"]), from_mapping(row["graph"], f"{path}:{number}")


def read_failures(folder: Path) -> Iterator[Failure]:
    """Yields the failed posts of a finished folder in order; raises the errors of `read_graphs`."""
    for _, _, row in _rows(folder):
        if "failure" in row:
            yield Failure(str(row["id"]), str(row["failure"]), str(row["reason"]))


class _Pool:
    """Pool of worker processes that build shards; dead workers are replaced, and the post that killed one is found."""

    def __init__(self, parse: Parse, workers: int, keep: bool) -> None:
        self.parse, self.workers, self.keep = parse, workers, keep
        self._executor: ProcessPoolExecutor | None = None
        self._loaded = False

    def submit(self, posts: tuple[Post, ...]) -> Future[str] | None:
        """Submits a shard to the pool; returns None if the current process is to build it."""
        self._load()
        if self.workers == 1:
            return None
        try:
            return self._processes().submit(_lines_there, posts)
        except BrokenProcessPool:
            self.close()
            return self._processes().submit(_lines_there, posts)

    def lines(self, posts: tuple[Post, ...], future: Future[str] | None) -> str:
        """Returns a shard's lines."""
        if future is None:
            return _lines(posts, self.parse, self.keep)
        try:
            return future.result()
        except (BrokenProcessPool, CancelledError):
            # Only `submit` replaces the pool, so that shards already running in a new pool continue.
            return self._one_by_one(posts)

    def close(self) -> None:
        """Ends the processes; `submit` starts new ones."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    def _load(self) -> None:
        """Checks once that the parser loads, so that a missing package does not make every post fail."""
        if not self._loaded and self.workers == 1:
            self.parse([])
        elif not self._loaded:
            try:
                self._processes().submit(_probe).result()
            except BrokenProcessPool:
                raise HarnessError("the parser's processes end before they begin; try workers=1 to see why") from None
        self._loaded = True

    def _processes(self) -> ProcessPoolExecutor:
        if self._executor is None:
            context = get_context("spawn")
            self._executor = ProcessPoolExecutor(self.workers, context, _start, (self.parse, self.keep))
        return self._executor

    def _one_by_one(self, posts: tuple[Post, ...]) -> str:
        """Returns the lines of posts, isolating by bisection a post that crashes its process."""
        with ProcessPoolExecutor(1, get_context("spawn"), _start, (self.parse, self.keep)) as alone:
            try:
                return alone.submit(_lines_there, posts).result()
            except BrokenProcessPool:
                pass
        if len(posts) == 1:
            return _line(posts[0], Failure("", CRASHED, "the process that parsed it came to an end"), 0)
        middle = len(posts) // 2
        return self._one_by_one(posts[:middle]) + self._one_by_one(posts[middle:])


_PARSE: list[tuple[Parse, bool]] = []  # in a worker: its parser, and whether disconnected graphs are kept


def _start(parse: Parse, keep: bool) -> None:
    _PARSE[:] = [(parse, keep)]


def _probe() -> None:
    _PARSE[0][0]([])


def _lines_there(posts: tuple[Post, ...]) -> str:
    return _lines(posts, *_PARSE[0])


def _lines(posts: tuple[Post, ...], parse: Parse, keep: bool) -> str:
    return "".join(
        _line(post, graph, unknown) for post, (graph, unknown) in zip(posts, _parsed(posts, parse, keep), strict=True)
    )


def _line(post: Post, graph: Graph | Failure, unknown: int) -> str:
    name = json.dumps(post.id)
    if isinstance(graph, Failure):
        reason = json.dumps(" ".join(graph.reason.split())[:500])
        return f'{{"id":{name},"failure":{json.dumps(graph.kind)},"reason":{reason}}}\n'
    return f'{{"id":{name},"unknown":{unknown},"graph":{as_json(graph)}}}\n'


def _parsed(posts: Sequence[Post], parse: Parse, keep: bool) -> list[tuple[Graph | Failure, int]]:
    """Returns the graph or failure of each post, and its number of formulas missing from the collection."""
    texts = [_read(post) for post in posts]
    asked = [(post, text) for post, text in zip(posts, texts, strict=True) if isinstance(text, PostText) and text.text]
    answers = iter(_halving([text.text for _, text in asked], parse))
    out: list[tuple[Graph | Failure, int]] = []
    for post, text in zip(posts, texts, strict=True):
        if isinstance(text, Failure):
            out.append((text, 0))
        elif not text.text:
            out.append((Failure(post.id, NO_TEXT, "the post has no text"), 0))
        else:
            out.append((_assembled(post, text, next(answers), keep), text.unknown))
    return out


def _read(post: Post) -> PostText | Failure:
    try:
        return read_post(post)
    except Exception as error:  # a failing post must not stop the build
        return _failed(error, post.id)


def _assembled(post: Post, text: PostText, found: Sequence[Sentence] | Failure, keep: bool) -> Graph | Failure:
    if isinstance(found, Failure):
        return Failure(post.id, found.kind, found.reason)
    if not found:
        return Failure(post.id, UNPARSED, "the parser found no sentence")
    try:
        graph = check(assemble(found, text.formulas))
        as_json(graph).encode()  # a label that is not valid Unicode must not break the shard
    except Exception as error:  # as above
        return _failed(error, post.id)
    if not keep and not connected(graph):
        return Failure(post.id, DISCONNECTED, f"not all of its {len(graph):,} nodes are joined to the root")
    return graph


def _halving(texts: list[str], parse: Parse) -> list[Sequence[Sentence] | Failure]:
    """Returns the parse of each text; halves a failing batch until the failing text is found."""
    if not texts:
        return []
    try:
        found = list(parse(texts))
        if len(found) != len(texts):
            raise ValueError(f"{len(found)} results for {len(texts)} texts")
        return found
    except Exception as error:
        if len(texts) == 1:
            return [_failed(error, "")]
    middle = len(texts) // 2
    return _halving(texts[:middle], parse) + _halving(texts[middle:], parse)


def _failed(error: Exception, name: str) -> Failure:
    kind = type(error).__name__
    return Failure(name, f"parser failed: {kind}", str(error) or kind)


def _finish(
    number: int,
    header: str,
    posts: tuple[Post, ...],
    future: Future[str] | None,
    pool: _Pool,
    folder: Path,
    told: Progress,
) -> None:
    lines = pool.lines(posts, future)
    write_atomic(_shard(folder, number), f"{_checked(header, lines)}\n{lines}")
    told.add(len(posts))


def _shard(folder: Path, number: int) -> Path:
    return folder / f"graphs-{number:06}.jsonl"


def _header(number: int, posts: Sequence[Post], parse: Parse, keep: bool) -> str:
    """Returns the inputs that determine a shard as JSON: the posts, the parser, and VERSION."""
    rows = [[p.id, p.text, p.at_end, [[f.id, f.latex] for f in p.formulas]] for p in posts]
    name = repr(parse) if not hasattr(parse, "__qualname__") else f"{parse.__module__}.{parse.__qualname__}"
    made = {"shard": number, "posts": sha256(json.dumps(rows).encode()), "parser": name, "version": VERSION}
    return json.dumps(made | {"disconnected": keep})


def _checked(header: str, lines: str) -> str:
    """Returns a shard's first line: the header, and a checksum of the header and the other lines."""
    return json.dumps({"sha256": sha256(f"{header}\n{lines}".encode()), "made": header})


def _is_there(path: Path, header: str) -> bool:
    """Returns whether a shard exists and is intact; reports a damaged one, which is then rebuilt."""
    try:
        first, _, lines = path.read_bytes().decode("utf-8", "replace").partition("\n")
    except FileNotFoundError:
        return False
    except OSError as error:
        raise format_error(path, 0, f"cannot be read: {error}") from None
    try:
        found = str(json.loads(first)["made"])
    except (ValueError, KeyError, TypeError, RecursionError):
        found = ""
    if first != _checked(found, lines):
        say(f"{path}: damaged; rebuilding its graphs")
        return False
    if found != header:
        raise format_error(
            path, 1, f"made of other posts or by another parser; delete {path.parent} or name another folder"
        )
    return True


def _summarise(folder: Path, shards: int, reused: int) -> Built:
    failures: Counter[str] = Counter()
    made = unknown = posts = 0
    for path, number, line in _lines_of(folder, shards):
        posts += 1
        if match := _MADE.match(line):  # parsing the graphs' JSON would be slow
            made += 1
            unknown += int(match[1])
        else:
            failures[str(_row(path, number, line)["failure"])] += 1
    ordered = dict(sorted(failures.items(), key=lambda entry: (-entry[1], entry[0])))
    summary = {"posts": posts, "graphs": made, "unknown": unknown, "failures": ordered, "shards": shards}
    write_atomic(folder / _SUMMARY, json.dumps(summary, indent=1) + "\n")
    return Built(posts, made, unknown, ordered, shards, reused)


def _posts(folder: Path) -> int | None:
    """Returns the number of posts in a folder's summary; None if unreadable, for which `_rows` raises an error."""
    try:
        return int(json.loads((folder / _SUMMARY).read_text(encoding="utf-8"))["posts"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _rows(folder: Path) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    """Yields (path, line number, content) for each post of a finished folder."""
    path = folder / _SUMMARY
    try:
        shards = int(json.loads(path.read_text(encoding="utf-8"))["shards"])
    except FileNotFoundError:
        raise HarnessError(
            f"{folder}: its graphs are not finished (no {_SUMMARY}); build them again to continue"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise format_error(path, 0, f"not a summary of graphs: {error}") from None
    for shard, number, line in _lines_of(folder, shards):
        yield shard, number, _row(shard, number, line)


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise format_error(path, number, f"damaged: {error}") from None
    if not (isinstance(row, dict) and "id" in row and ({"graph"} <= row.keys() or {"failure", "reason"} <= row.keys())):
        raise format_error(path, number, "expected a post's id with its graph or failure")
    return row


def _lines_of(folder: Path, shards: int) -> Iterator[tuple[Path, int, str]]:
    for shard in range(shards):
        path, number = _shard(folder, shard), 0
        try:
            with path.open(encoding="utf-8", newline="\n") as stream:
                for number, line in enumerate(stream, 1):
                    if number > 1:
                        yield path, number, line
        except (OSError, UnicodeDecodeError) as error:
            raise format_error(path, number, f"cannot be read: {error}") from None

"""Builds the graphs of many posts; every failure is recorded.

    graphs.jsonl    one line per post in input order: its graph, or why it has none
    summary.json    numbers of posts and graphs, and failures by kind

Posts are mapped in shards (see `harness.store.shards`), so interrupted work resumes, and the result is the same
whatever processes made it, and in shards of any size. A failing batch is halved until the failing post is found
(MathAMR+ thesis, section 3.1).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, format_error
from harness.io.console import track
from harness.io.files import write_atomic
from harness.store import shards
from harness.systems.mathamr.graphs.graph import Failure, Graph, Sentence, as_json, check_graph, connected, from_mapping
from harness.systems.mathamr.graphs.posts import Post, PostText, assemble, read_post

NO_TEXT = "no text"
UNPARSED = "nothing parsed"
DISCONNECTED = "disconnected graph"
CRASHED = "parser crashed"

Parse = Callable[[Sequence[str]], Sequence[Sequence[Sentence] | Failure]]
"""Maps texts with placeholders to the sentences of each text, in order. It is pickled for worker processes, so it must
be a module-level function or a dataclass. Called with no texts, it loads its dependencies or raises HarnessError."""

_FILE, _SUMMARY = "graphs.jsonl", "summary.json"
_MADE = re.compile(r'\{"id":"(?:[^"\\]|\\.)*","unknown":(\d+),"graph":')


@dataclass(frozen=True)
class BuildStatistics:
    """Statistics of a build.

    Attributes
    ----------
    unknown : formulas in graphs that are missing from the collection, counted for posts that have collection formulas.
    failures : kind -> number of posts, most frequent first.
    """

    posts: int
    graphs: int
    unknown: int
    failures: Mapping[str, int]

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
    for part in shards.parts(posts, batch):
        for post, (graph, _) in zip(part, _parsed(part, parse, keep), strict=True):
            yield post.id, graph


def build_graphs(
    posts: Iterable[Post],
    parse: Parse,
    folder: Path,
    of: str,
    workers: int = 1,
    batch: int = 256,
    total: int | None = None,
    keep: bool = True,
) -> tuple[BuildStatistics, list[Path]]:
    """Builds the graphs of all posts in a folder; returns their statistics and the shards, which can be deleted.

    Parameters
    ----------
    of : name of the graphs in the store, which states posts, parser and `keep`: see `shards.ShardTask`.
    workers : number of processes; 1 works in the current process.
    batch : posts per shard.
    total : number of posts, if known; used for the progress display and to limit the number of processes.
    keep : keep disconnected graphs; otherwise they count as failures, as in the thesis (table 4.2).

    Raises
    ------
    HarnessError
        The parser cannot be loaded, or the disk is full. Finished shards are kept.
    """
    if workers < 1 or batch < 1:
        raise HarnessError(f"workers and batch are {workers} and {batch}, expected 1 or more of each")
    if total is not None:
        workers = min(workers, -(-total // batch) or 1)
    task = shards.ShardTask(of, partial(_shard_content, parse, keep), partial(parse, ()), _crash_line)
    title = "making graphs, posts"
    files = shards.mapped(task, shards.parts(posts, batch), title, total=total, workers=workers)
    with (folder / _FILE).open("wb") as stream:
        for file in files:
            stream.write(file.read_bytes())
    return _summarised(folder), files


def read_graphs(folder: Path) -> Iterator[tuple[str, Graph]]:
    """Yields the graphs of a finished folder as (post id, graph), in post order.

    Raises
    ------
    HarnessError
        The file of graphs is missing or damaged; the message names file and line.
    """
    for path, number, line in track(_lines_of(folder), "reading graphs", _posts(folder)):
        if "graph" in (row := _parse_line(path, number, line)):
            yield str(row["id"]), from_mapping(row["graph"], f"{path}:{number}")


def _shard_content(parse: Parse, keep: bool, posts: Sequence[Post]) -> bytes:
    """Parses the posts of a shard; returns its lines."""
    parsed = zip(posts, _parsed(posts, parse, keep), strict=True)
    return "".join(_json_line(post, graph, unknown) for post, (graph, unknown) in parsed).encode()


def _crash_line(post: Post) -> bytes:
    return _json_line(post, Failure("", CRASHED, "the process that parsed it came to an end"), 0).encode()


def _json_line(post: Post, graph: Graph | Failure, unknown: int) -> str:
    name = json.dumps(post.id)
    if isinstance(graph, Failure):
        reason = json.dumps(" ".join(graph.reason.split())[:500])
        return f'{{"id":{name},"failure":{json.dumps(graph.kind)},"reason":{reason}}}\n'
    return f'{{"id":{name},"unknown":{unknown},"graph":{as_json(graph)}}}\n'


def _parsed(posts: Sequence[Post], parse: Parse, keep: bool) -> list[tuple[Graph | Failure, int]]:
    """Returns the graph or failure of each post, and its number of formulas missing from the collection."""
    texts = [_read_or_fail(post) for post in posts]
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


def _read_or_fail(post: Post) -> PostText | Failure:
    try:
        return read_post(post)
    except Exception as error:  # a failing post must not stop the build
        return _failed(error, post.id)


def _assembled(post: Post, text: PostText, sentences: Sequence[Sentence] | Failure, keep: bool) -> Graph | Failure:
    """Joins the sentences of a post to one graph; returns a `Failure` if there is none or it is not connected."""
    if isinstance(sentences, Failure):
        return Failure(post.id, sentences.kind, sentences.reason)
    if not sentences:
        return Failure(post.id, UNPARSED, "the parser found no sentence")
    try:
        graph = check_graph(assemble(sentences, text.formulas))
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
        parses = list(parse(texts))
        if len(parses) != len(texts):
            raise ValueError(f"{len(parses)} results for {len(texts)} texts")
        return parses
    except Exception as error:
        if len(texts) == 1:
            return [_failed(error, "")]
    middle = len(texts) // 2
    return _halving(texts[:middle], parse) + _halving(texts[middle:], parse)


def _failed(error: Exception, name: str) -> Failure:
    kind = type(error).__name__
    return Failure(name, f"parser failed: {kind}", str(error) or kind)


def _summarised(folder: Path) -> BuildStatistics:
    """Counts the graphs in a folder; writes the summary."""
    failures: Counter[str] = Counter()
    made = unknown = posts = 0
    for path, number, line in _lines_of(folder):
        posts += 1
        if match := _MADE.match(line):  # parsing the graphs' JSON would be slow
            made += 1
            unknown += int(match[1])
        else:
            failures[str(_parse_line(path, number, line)["failure"])] += 1
    ordered = dict(sorted(failures.items(), key=lambda entry: (-entry[1], entry[0])))
    summary = {"posts": posts, "graphs": made, "unknown": unknown, "failures": ordered}
    write_atomic(folder / _SUMMARY, json.dumps(summary, indent=1) + "\n")
    return BuildStatistics(posts, made, unknown, ordered)


def _posts(folder: Path) -> int | None:
    """Returns the number of posts in a folder's summary; None if unreadable."""
    try:
        return int(json.loads((folder / _SUMMARY).read_text(encoding="utf-8"))["posts"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise format_error(path, number, f"damaged: {error}") from None
    if not (isinstance(row, dict) and "id" in row and ({"graph"} <= row.keys() or {"failure", "reason"} <= row.keys())):
        raise format_error(path, number, "expected a post's id with its graph or failure")
    return row


def _lines_of(folder: Path) -> Iterator[tuple[Path, int, str]]:
    path, number = folder / _FILE, 0
    try:
        with path.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                yield path, number, line
    except (OSError, UnicodeDecodeError) as error:
        raise format_error(path, number, f"cannot be read: {error}") from None

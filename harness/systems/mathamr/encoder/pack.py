"""Packs: memory-mapped files of encoded posts, stored as small integers without inverse edges.

Each post is one contiguous record: its 16-bit numbers, the types of its vectors and its formula ids. After the records
come the index (offset and part lengths of each record), the post ids, and a footer. A pack is an intermediate file: it
is written before a training or an encoding, and is not kept.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np

from harness.errors import HarnessError, format_error
from harness.systems.mathamr.encoder.virtual import EncodedGraph, encode
from harness.systems.mathamr.encoder.vocabulary import NodeVocabulary
from harness.systems.mathamr.graphs.graph import Graph

MAGIC = b"MathAMR\x02"
_FOOTER = struct.Struct("<QQQ32s8s")  # posts; bytes of records and ids; SHA-256; MAGIC
_COUNTS = 6  # index entries per post: nodes, content, edges, content edges, vectors, formulas
_SEPARATOR = "\0"

Item = tuple[str, EncodedGraph | HarnessError]


def encode_posts(
    posts: Iterable[tuple[str, Graph]],
    vocabulary: NodeVocabulary,
    structure: str = "hierarchy",
    auxiliary: str = "none",
) -> Iterator[Item]:
    """Encodes graphs of posts lazily, for `write_pack`; a graph that cannot be encoded yields its error instead."""

    def encoded(graph: Graph) -> EncodedGraph | HarnessError:
        try:
            return encode(graph, vocabulary, structure, auxiliary)
        except HarnessError as error:
            return error

    return ((post, encoded(graph)) for post, graph in posts)


def write_pack(path: Path, items: Iterable[Item], *, keep_going: bool = False) -> list[tuple[str, str]]:
    """Writes a pack, of the same items the same bytes; returns id and reason of each post that is left out.

    Parameters
    ----------
    items : ids of posts, each with its encoding or the error that prevented it (`encode_posts`).
    keep_going : exclude and report posts that cannot be stored; otherwise the first one raises an error.

    Raises
    ------
    HarnessError
        A post cannot be stored (the message names it): it could not be encoded, or its id is not unique. Or the file
        cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb", buffering=1 << 20) as stream:
            return _write_items(stream, items, keep_going)
    except OSError as error:
        # An error that names a file may come from reading the posts.
        raise HarnessError(f"{error.filename or path}: {error.strerror or error}") from None


def _write_items(stream: BinaryIO, items: Iterable[Item], keep_going: bool) -> list[tuple[str, str]]:
    """Writes the records of graphs, then their positions, sizes and ids, then a footer with the checksum."""
    digest = hashlib.sha256()

    def put(data: bytes) -> int:
        digest.update(data)
        return stream.write(data)

    begins, counts = array("Q", [0]), array("I")
    known: dict[str, None] = {}
    refused: list[tuple[str, str]] = []
    for post, item in items:
        reason = _fault(post, item, known)
        if isinstance(item, HarnessError) or reason:
            if not keep_going:
                raise HarnessError(f"post {post}: {reason}")
            refused.append((post, reason))
            continue
        known[post] = None
        begins.append(begins[-1] + put(_record_bytes(item)))
        sizes = (len(item.nodes), item.content, len(item.source), item.content_edges, len(item.vectors))
        counts.extend((*sizes, len(item.formulas)))
    padding, ids = bytes(-begins[-1] % 8), _SEPARATOR.join(known).encode()
    put(padding + np.array(begins, "<u8").tobytes() + np.array(counts, "<u4").tobytes() + ids)
    stream.write(_FOOTER.pack(len(known), begins[-1] + len(padding), len(ids), digest.digest(), MAGIC))
    return refused


def _record_bytes(item: EncodedGraph) -> bytes:
    """Returns the bytes of a graph's record: numbers of 16 bits, vector types, and ids of formulas."""
    numbers = (item.nodes, item.source, item.relation, item.target, item.vectors)
    parts = [np.ascontiguousarray(part, "<u2").tobytes() for part in numbers]
    data = b"".join((*parts, item.types.tobytes(), _SEPARATOR.join(item.formulas).encode()))
    return data + bytes(len(data) % 2)  # the next record's numbers begin at an even offset


def _fault(post: str, item: EncodedGraph | HarnessError, known: Mapping[str, None]) -> str:
    """Returns the reason why a post cannot be stored, or ""."""
    if isinstance(item, HarnessError):
        return str(item)
    if post in known:
        return "its id is in the pack already; ids must be unique"
    if not post or _bad_id(post):
        return f"id {post!r} is empty, or not UTF-8 without NUL"
    bad = next(filter(_bad_id, item.formulas), None)
    return "" if bad is None else f"formula id {bad!r} is not UTF-8 without NUL"


def _bad_id(name: str) -> bool:
    return _SEPARATOR in name or name.encode(errors="replace").decode() != name


class Pack:
    """An open pack: a sequence of `EncodedGraph` whose arrays are read-only views into the file.

    Attributes
    ----------
    digest : SHA-256 of the contents when written, 64 hexadecimal digits.

    Raises
    ------
    FormatError
        The file is missing, truncated, or not a pack.
    """

    def __init__(self, path: Path | None, data: bytes | None = None) -> None:
        self._where = "pack in memory" if path is None else str(path)
        self._data = memoryview(data if data is not None else _memory_mapped(Path(path or "")))
        size, footer = len(self._data), self._data[-_FOOTER.size :]
        whole = len(footer) == _FOOTER.size
        posts, records, ids, digest, magic = _FOOTER.unpack(footer) if whole else (0, 0, 0, b"", b"")
        offsets, table = 8 * (posts + 1), 4 * _COUNTS * posts
        if magic != MAGIC or records + offsets + table + ids + _FOOTER.size != size:
            raise format_error(self._where, 0, "not a pack of graphs, or cut short; create it again")
        index = self._data[records : -_FOOTER.size]
        self._begins = np.frombuffer(index[:offsets], "<u8")
        self._counts = np.frombuffer(index[offsets : offsets + table], "<u4").reshape(posts, _COUNTS)
        self._ids = index[offsets + table :]
        self.digest: str = digest.hex()

    @staticmethod
    def memory(items: Iterable[Item]) -> Pack:
        """Returns a pack in memory, for a few posts such as queries; raises the errors of `write_pack`."""
        stream = io.BytesIO()
        _write_items(stream, items, keep_going=False)
        return Pack(None, stream.getvalue())

    def __len__(self) -> int:
        return len(self._counts)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Ids of the posts in the order of the pack."""
        return tuple(bytes(self._ids).decode().split(_SEPARATOR)) if len(self) else ()

    def __iter__(self) -> Iterator[EncodedGraph]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> EncodedGraph:
        record, (nodes, content, edges, content_edges, k, _) = self._record_of(number)
        small = 2 * (nodes + 3 * edges + k)
        values = np.frombuffer(record[:small], "<u2")
        first, second, third = nodes + edges, nodes + 2 * edges, nodes + 3 * edges
        return EncodedGraph(
            values[:nodes],
            content,
            values[nodes:first],
            values[first:second],
            values[second:third],
            content_edges,
            values[third:],
            np.frombuffer(record[small : small + k], np.uint8),
            self.formula_ids(number),
        )

    def _record_of(self, number: int) -> tuple[memoryview, list[int]]:
        """Returns a graph's record and its counts."""
        counts: list[int] = self._counts[number].tolist()
        begin, end = self._begins[number : number + 2].tolist()
        return self._data[begin:end], counts

    def formula_ids(self, number: int) -> tuple[str, ...]:
        """Returns the formula ids of a post without decoding its graph; formula i has the post's i-th vector."""
        record, (nodes, _, edges, _, k, formulas) = self._record_of(number)
        # The count is needed because a byte of padding may follow, and a single id may be "".
        ids = bytes(record[2 * (nodes + 3 * edges + k) + k :]).decode().split(_SEPARATOR)
        return tuple(ids[:formulas])

    def sizes(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Returns the numbers of nodes and forward edges of each post, shape (posts, 2), from the index only."""
        return self._counts[:, (0, 2)].astype(np.int64)


def _memory_mapped(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise format_error(path, 0, f"cannot be read: {getattr(error, 'strerror', '') or error}") from None

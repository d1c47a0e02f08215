"""Packs: memory-mapped files of encoded posts, stored as small integers without inverse edges.

Each post is one contiguous record: its 16-bit numbers, the types of its vectors and its formula ids. After the records
come the index (offset, part lengths and checksum of each record), the post ids, and a footer. A truncated file has no
footer and a damaged record fails its checksum, so corruption is always detected.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np

from harness.errors import FormatError, HarnessError, format_error
from harness.io import staged
from harness.systems.mathamr.encoder.virtual import MOST_EDGES, MOST_NODES, TYPES, Encoded, check_options, encode
from harness.systems.mathamr.encoder.vocabulary import Vocabulary
from harness.systems.mathamr.graphs.graph import Graph

MAGIC = b"MathAMR\x01"
_FOOTER = struct.Struct("<QQQQI32s8s")  # posts; bytes of records, ids and meta; checksum of the index; SHA-256; MAGIC
_COUNTS = 7  # index entries per post: nodes, content, edges, content edges, vectors, formulas, checksum
_SEPARATOR = "\0"
_REMEDY = "create it again"

Item = tuple[str, Encoded | HarnessError]


@dataclass(frozen=True)
class Written:
    """Result of `write`: number of stored posts, refused posts, and checksum.

    Attributes
    ----------
    posts : number of posts in the pack.
    refused : (id, reason) of posts that were not stored, in input order.
    digest : SHA-256 of the pack, 64 hexadecimal digits.
    """

    posts: int
    refused: tuple[tuple[str, str], ...]
    digest: str


def encode_posts(
    posts: Iterable[tuple[str, Graph]], vocabulary: Vocabulary, structure: str = "hierarchy", auxiliary: str = "none"
) -> Iterator[Item]:
    """Encodes graphs of posts lazily, for `write`; a graph that cannot be encoded yields its error instead.

    Raises
    ------
    HarnessError
        An option is unknown; raised before the first graph is read.
    """
    check_options(structure, auxiliary)
    return ((post, _tried(graph, vocabulary, structure, auxiliary)) for post, graph in posts)


def _tried(graph: Graph, vocabulary: Vocabulary, structure: str, auxiliary: str) -> Encoded | HarnessError:
    try:
        return encode(graph, vocabulary, structure, auxiliary)
    except HarnessError as error:
        return error


def write(
    path: Path, items: Iterable[Item], meta: Mapping[str, str] | None = None, *, keep_going: bool = False
) -> Written:
    """Writes a pack atomically; the same items and meta give the same bytes.

    Parameters
    ----------
    items : ids of posts, each with its encoding or the error that prevented it (`encode_posts`).
    meta : metadata stored in the pack, such as the digest of the vocabulary and the options of `encode`.
    keep_going : exclude and report posts that cannot be stored; otherwise the first one raises an error and leaves an
        existing file unchanged.

    Raises
    ------
    HarnessError
        A post cannot be stored (the message names it): it could not be encoded, has too many nodes for 16-bit numbers,
        inconsistent arrays, or a duplicate id. The file cannot be written.
    """
    with _in_place(path) as stream:
        return _write(stream, items, meta or {}, keep_going)


@contextmanager
def _in_place(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file that replaces `path` on success; packs may be too large for `write_atomic`."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = staged.new_file(path)
        with os.fdopen(descriptor, "wb", buffering=1 << 20) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        # An error that names a file may come from reading the posts.
        raise HarnessError(f"{error.filename or path}: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _write(stream: BinaryIO, items: Iterable[Item], meta: Mapping[str, str], keep_going: bool) -> Written:
    digest = hashlib.sha256()

    def put(data: bytes) -> int:
        digest.update(data)
        return stream.write(data)

    place = put(MAGIC)
    begins, counts = array("Q", [place]), array("I")
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
        record = _record(item)
        place += put(record)
        begins.append(place)
        sizes = (len(item.nodes), item.content, len(item.source), item.content_edges, len(item.vectors))
        counts.extend((*sizes, len(item.formulas), zlib.crc32(record)))
    padding = bytes(-place % 8)
    ids = _SEPARATOR.join(known).encode()
    about = json.dumps(dict(meta), sort_keys=True).encode()
    index = np.array(begins, "<u8").tobytes() + np.array(counts, "<u4").tobytes() + ids + about
    put(padding + index)
    lengths = (len(known), place + len(padding), len(ids), len(about))
    digest.update(struct.pack("<QQQQ", *lengths))
    stream.write(_FOOTER.pack(*lengths, zlib.crc32(index), digest.digest(), MAGIC))
    return Written(len(known), tuple(refused), digest.hexdigest())


def _record(item: Encoded) -> bytes:
    numbers = (item.nodes, item.source, item.relation, item.target, item.vectors)
    parts = [np.ascontiguousarray(part, "<u2").tobytes() for part in numbers]
    data = b"".join((*parts, item.types.tobytes(), _SEPARATOR.join(item.formulas).encode()))
    return data + bytes(len(data) % 2)  # the next record's numbers begin at an even offset


def _fault(post: str, item: Encoded | HarnessError, known: Mapping[str, None]) -> str:
    """Returns the reason why a post cannot be stored, or ""."""
    if isinstance(item, HarnessError):
        return str(item)
    if post in known:
        return "its id is in the pack already; ids must be unique"
    if not post or _bad_id(post):
        return f"id {post!r} is empty, or not UTF-8 without NUL"
    bad = next(filter(_bad_id, item.formulas), None)
    if bad is not None:
        return f"formula id {bad!r} is not UTF-8 without NUL"
    return _misfit(item)


def _bad_id(name: str) -> bool:
    if _SEPARATOR in name:
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return False


def _misfit(item: Encoded) -> str:
    nodes, edges = len(item.nodes), len(item.source)
    if nodes > MOST_NODES:
        return f"{nodes:,} nodes, more than {MOST_NODES:,} (16-bit numbers)"
    if edges > MOST_EDGES:
        return f"{edges:,} edges, more than {MOST_EDGES:,}"
    numbers = (item.nodes, item.source, item.relation, item.target, item.vectors)
    if any(part.dtype != np.uint16 or part.ndim != 1 for part in numbers) or item.types.dtype != np.uint8:
        return "its arrays are not one-dimensional and of uint16 (types: uint8)"
    if not (len(item.relation) == len(item.target) == edges and len(item.types) == len(item.vectors)):
        return "its arrays differ in length"
    if not (0 <= item.content <= nodes and 0 <= item.content_edges <= edges):
        return "it has more content than nodes or edges"
    if len(item.formulas) > len(item.vectors):
        return f"{len(item.formulas)} formulas, but {len(item.vectors)} vectors"
    for part in (item.source, item.target, item.vectors):
        if part.size and part.max() >= nodes:
            return f"it names node {part.max()}, but has {nodes}"
    if item.types.size and item.types.max() >= len(TYPES):
        return f"it has a vector of type {item.types.max()}, expected less than {len(TYPES)}"
    return ""


class Pack:
    """An open pack: a sequence of `Encoded` whose arrays are read-only views into the file.

    The checksum of each post is verified when it is read. A pack is pickled as its path.

    Attributes
    ----------
    path : the file; None for a pack in memory.
    meta : the metadata given to `write`.
    digest : SHA-256 of the contents when written, 64 hexadecimal digits.

    Raises
    ------
    FormatError
        The file is missing, truncated, damaged, or not a pack. Reading a damaged post raises it, too.
    """

    def __init__(self, path: Path | None, data: bytes | None = None) -> None:
        self.path = path
        self._where = "pack in memory" if path is None else str(path)
        self._data = memoryview(data if data is not None else _mapped(Path(path or "")))
        self._open()

    @staticmethod
    def memory(items: Iterable[Item], meta: Mapping[str, str] | None = None) -> Pack:
        """Returns a pack in memory, for a few posts such as queries; raises the errors of `write`."""
        stream = io.BytesIO()
        _write(stream, items, meta or {}, keep_going=False)
        return Pack(None, stream.getvalue())

    def __reduce__(self) -> tuple[type[Pack], tuple[Path | None, bytes | None]]:
        return Pack, (self.path, bytes(self._data) if self.path is None else None)

    def _open(self) -> None:
        data = self._data
        if len(data) < len(MAGIC) + _FOOTER.size or data[: len(MAGIC)] != MAGIC:
            raise format_error(self._where, 0, f"not a pack of graphs, or cut short; {_REMEDY}")
        *lengths, checksum, digest, magic = _FOOTER.unpack(data[-_FOOTER.size :])
        posts, records, ids, meta = lengths
        offsets, table = 8 * (posts + 1), 4 * _COUNTS * posts
        if magic != MAGIC or records + offsets + table + ids + meta + _FOOTER.size != len(data):
            raise format_error(self._where, 0, f"pack of graphs is cut short or damaged; {_REMEDY}")
        index = data[records : -_FOOTER.size]
        if zlib.crc32(index) != checksum:
            raise format_error(self._where, 0, f"the index of this pack of graphs is damaged; {_REMEDY}")
        self._lengths = tuple(lengths)
        self._begins = np.frombuffer(index[:offsets], "<u8")
        self._counts = np.frombuffer(index[offsets : offsets + table], "<u4").reshape(posts, _COUNTS)
        self._ids = index[offsets + table : len(index) - meta]
        self.meta: Mapping[str, str] = json.loads(bytes(index[len(index) - meta :]))
        self.digest: str = digest.hex()

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def nbytes(self) -> int:
        """Size of the file."""
        return len(self._data)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Ids of the posts in the order of the pack."""
        return tuple(bytes(self._ids).decode().split(_SEPARATOR)) if len(self) else ()

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.ids)}

    def number(self, post: str) -> int:
        """Returns the index of a post in the pack.

        Raises
        ------
        HarnessError
            The pack does not contain the post.
        """
        found = self._numbers.get(post)
        if found is None:
            raise HarnessError(f"{self._where}: has no post {post!r}")
        return found

    def __contains__(self, post: object) -> bool:
        """Returns whether the pack contains a post with this id."""
        return post in self._numbers

    def __iter__(self) -> Iterator[Encoded]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> Encoded:
        nodes, content, edges, content_edges, k, formulas, checksum = self._counts[number].tolist()
        begin, end = self._span(number)
        record = self._data[begin:end]
        if zlib.crc32(record) != checksum:
            raise self._damaged(number)
        small = 2 * (nodes + 3 * edges + k)
        values = np.frombuffer(record[:small], "<u2")
        first, second, third = nodes + edges, nodes + 2 * edges, nodes + 3 * edges
        return Encoded(
            values[:nodes],
            content,
            values[nodes:first],
            values[first:second],
            values[second:third],
            content_edges,
            values[third:],
            np.frombuffer(record[small : small + k], np.uint8),
            _formulas(record[small + k :], formulas),
        )

    def _span(self, number: int) -> tuple[int, int]:
        if number < 0:
            number += len(self)
        begin, end = self._begins[number : number + 2].tolist()
        return begin, end

    def _damaged(self, number: int) -> FormatError:
        return format_error(self._where, 0, f"post {self.ids[number]} of this pack of graphs is damaged; {_REMEDY}")

    def batch(self, numbers: Iterable[int]) -> list[Encoded]:
        """Returns the posts at some indices, in the given order."""
        return [self[number] for number in numbers]

    def formula_ids(self, number: int) -> tuple[str, ...]:
        """Returns the formula ids of a post without decoding its graph; formula i has the post's i-th vector."""
        nodes, _, edges, _, k, formulas, checksum = self._counts[number].tolist()
        begin, end = self._span(number)
        record = self._data[begin:end]
        if zlib.crc32(record) != checksum:
            raise self._damaged(number)
        return _formulas(record[2 * (nodes + 3 * edges + k) + k :], formulas)

    def sizes(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Returns the numbers of nodes and forward edges of each post, shape (posts, 2), from the index only."""
        return self._counts[:, (0, 2)].astype(np.int64)

    def verify(self) -> None:
        """Reads the whole file and raises FormatError if its digest does not match."""
        found = hashlib.sha256(self._data[: -_FOOTER.size])
        found.update(struct.pack("<QQQQ", *self._lengths))
        if found.hexdigest() != self.digest:
            raise format_error(self._where, 0, f"this pack of graphs is damaged; {_REMEDY}")


def _formulas(data: memoryview, count: int) -> tuple[str, ...]:
    # The count is needed because a byte of padding may follow, and a single id may be "".
    return tuple(str(data, "utf-8").split(_SEPARATOR)[:count]) if count else ()


def _mapped(path: Path) -> mmap.mmap | bytes:
    try:
        with path.open("rb") as stream:
            if not os.fstat(stream.fileno()).st_size:
                return b""  # cannot be mapped
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise format_error(path, 0, "no such file") from None
    except (OSError, ValueError) as error:
        raise format_error(path, 0, f"cannot be read: {getattr(error, 'strerror', '') or error}") from None

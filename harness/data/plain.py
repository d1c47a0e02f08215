"""Reads blocks of plain lines by the kernel `plain.c`, with the results of the NumPy code, which reads all others.

Plain are lines with the expected columns, valid ids, numbers and ranks, and the tag of the first line. Where a block
has any other line, or there is no kernel, nothing is read here: messages come from one place, `Columns.put`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.data.columns import Floats, Index, TextBlock, parse_number
from harness.data.tables import Groups, IdColumn
from harness.io.kernels import kernel

_ROLES = ("topic", "document", "context", "number", "rank", "iteration", "tag", "other")  # as in plain.c
_HEADS, _SLOW, _TAG_START, _TAG_LENGTH, _DOC_LONGEST, _CONTEXT_LONGEST = range(6)
_IRREGULAR, _WIDER = -1, -2
MOST_SLOW = 1 << 12  # numbers of a block that Python converts; the NumPy code reads blocks that have more
_NO_WORDS = np.empty((0, 0), dtype=np.uint64)


@dataclass
class Scratch:
    """Working memory of the kernel, as large as the largest block needs.

    Attributes
    ----------
    heads : int32, shape (rows, 3). Row, start and length of the first topic of each stretch of equal ones.
    slow : int32, shape (`MOST_SLOW`, 3). The same of numbers that need Python's own conversion.
    info : int64, shape (6,). Counts and positions, see `plain.c`.
    """

    heads: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 3), dtype=np.int32))
    slow: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty((MOST_SLOW, 3), dtype=np.int32))
    info: Index = field(default_factory=lambda: np.zeros(6, dtype=np.int64))

    def fit(self, rows: int) -> None:
        """Makes room for a block of so many rows."""
        if len(self.heads) < rows:
            self.heads = np.empty((rows, 3), dtype=np.int32)


def roles(names: tuple[str, ...], *, strict: bool) -> Index:
    """Returns the role of each column for the kernel, int64, shape (columns,); `strict`: column `Q0` is validated."""
    doc = next(name for name in ("document", "formula", "post") if name in names)
    of = {"topic": "topic", "rank": "rank", "score": "number", "grade": "number", "tag": "tag", "post": "context"}
    of |= {doc: "document", "Q0": "iteration" if strict else "other"}
    return np.array([_ROLES.index(of.get(name, "other")) for name in names], dtype=np.int64)


def plain_rows(
    source: TextBlock,
    at: int,
    roles: Index,
    doc: IdColumn,
    context: IdColumn | None,
    values: Floats,
    ranks: npt.NDArray[np.int32],
    tag: bytes,
    scratch: Scratch,
) -> int | None:
    """Reads a block into the columns from row `at` on, and notes its topics and its tag in `scratch`.

    Parameters
    ----------
    roles : of `roles`.
    values : float64, shape (rows of the file,). Scores or grades.
    ranks : int32, shape (rows of the file,) or (0,) without a column of ranks.
    tag : the tag of all lines; empty for the first block.

    Returns
    -------
    The number of rows; None if a line is not plain, or without the kernel.
    """
    read = kernel("harness_plain_rows")
    if read is None:
        return None
    scratch.fit(source.size // (2 * roles.size) + 1)
    info, tag_bytes = scratch.info, np.frombuffer(tag, dtype=np.uint8)
    rows = _WIDER
    while rows == _WIDER:
        contexts = _NO_WORDS if context is None else context.words[at:]
        arrays = (doc.words[at:], doc.width, contexts, 0 if context is None else context.width, values[at:], ranks[at:])
        rows = read(
            source.bytes_, source.size, source.bytes_.size, roles, roles.size, *arrays, doc.rows - at, tag_bytes,
            tag_bytes.size, scratch.heads, len(scratch.heads), scratch.slow, len(scratch.slow), info,
        )  # fmt: skip
        del arrays, contexts  # which would keep the memory of the narrower columns
        if rows == _WIDER:
            doc.widen(at, -(-int(info[_DOC_LONGEST]) // 8))
            if context is not None:
                context.widen(at, -(-int(info[_CONTEXT_LONGEST]) // 8))
    if rows == _IRREGULAR:
        return None
    for row, start, length in scratch.slow[: info[_SLOW]].tolist():
        value = parse_number(source.cut(start, length))
        if value is None:
            return None
        values[at + row] = value
    return rows


def put_topics(topics: Groups, source: TextBlock, at: int, rows: int, scratch: Scratch) -> None:
    """Adds the topics of the rows that `plain_rows` has read."""
    heads = scratch.heads[: scratch.info[_HEADS]]
    ids = [source.cut(start, length) for start, length in heads[:, 1:].tolist()]
    topics.put_heads(at, heads[:, 0].astype(np.int64), ids, rows)


def tag_of(source: TextBlock, scratch: Scratch) -> str:
    """Returns the tag of the rows that `plain_rows` has read."""
    return source.field(int(scratch.info[_TAG_START]), int(scratch.info[_TAG_LENGTH]))

"""Text tables as arrays: bytes to columns without a Python object per field.

A field is located by its first byte and its length. Its bytes are read eight at a time as
little-endian 64-bit words, so that identifiers compare, hash and parse as whole arrays.
Some functions have a kernel with equal results, in `columns.c`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.io.kernels import kernel

Words = npt.NDArray[np.uint64]
Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.bytes_]

BOM = b"\xef\xbb\xbf"
CACHED = 1 << 16  # bytes that fit the processor's L1 cache
BLOCK = 1 << 18  # bytes worked on at a time
WIDE = 1 << 20  # bytes that a kernel works on at a time
ROWS = 1 << 14  # lines worked on at a time, few enough to stay in the cache
SLOTS = 1 << 21  # words of the table that finds equal keys of a topic, at most
PADDING = 32  # bytes after the text, so that a word can be read from any of its positions
_U = np.uint64
_ZEROS = _U(0x3030303030303030)
_DOTS = _U(0x2E2E2E2E2E2E2E2E)
_ONES = _U(0x0101010101010101)
_HIGH = _U(0x8080808080808080)
_ABOVE_NINE = _U(0x7676767676767676)
_POWERS: Floats = np.array([10.0**k for k in range(23)])
_INTEGER_POWERS = np.array([10**k for k in range(20)], dtype=np.uint64)
_MASKS = np.array([(1 << (8 * k)) - 1 for k in range(9)], dtype=np.uint64)
_SHIFTS = np.array([(64 - 8 * k) % 64 for k in range(9)], dtype=np.uint64)
_EXPONENT = _U(0x7FF0000000000000)
_UNIT = _U(52 << 52)
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class TextBlock:
    """A stretch of a file, ready for reading words at any position.

    Attributes
    ----------
    data : the whole file.
    bytes_ : uint8, shape (size + PADDING,). The stretch, and what follows it: more of the file, or zeros.
    begin : where in the file it begins; all positions count from there.
    line : how many line ends precede it in the file.
    """

    data: bytes
    bytes_: npt.NDArray[np.uint8]
    size: int
    begin: int = 0
    line: int = 0

    def words(self, at: Index) -> Words:
        """Returns the eight bytes from each position, shape of `at`."""
        window: Words = np.ndarray((self.bytes_.size - 7,), "<u8", self.bytes_, 0, (1,))
        return window[at]

    def cut(self, start: int, length: int) -> bytes:
        """Returns some of its bytes."""
        return self.data[self.begin + start : self.begin + start + length]

    def field(self, start: int, length: int) -> str:
        """Returns one field for a message; bytes that are not UTF-8 are shown as escapes."""
        return self.cut(start, length).decode("utf-8", "backslashreplace")

    def line_of(self, position: int) -> int:
        """Returns the number of the line of a position, from 1."""
        return self.line + _count_line_ends(self.bytes_[:position]) + 1


@dataclass(frozen=True)
class Lines:
    """Positions of the fields of a block of text, in the order of the file.

    Attributes
    ----------
    start, length : int64, shape (fields,)
    line : int64, shape (lines,)
        Line numbers (from 1, of the whole file) of the lines that are not blank.
    first, count : int64, shape (lines,)
        Index of each line's first field and how many fields it has.
    controls : int64
        Positions of control characters that have no place in a text table.
    """

    start: Index
    length: Index
    line: Index
    first: Index
    count: Index
    controls: Index


def padded_text(data: bytes, begin: int = 0, line: int = 0) -> TextBlock:
    """Returns a padded copy of `data` from a position on, as a `TextBlock`."""
    padded = np.frombuffer(data[begin:] + bytes(PADDING), dtype=np.uint8)
    return TextBlock(data, padded, len(data) - begin, begin, line)


def pieces(data: bytes, size: int = BLOCK) -> Iterator[TextBlock]:
    """Yields a file's text in blocks of whole lines, without byte order mark; only its end is copied."""
    view = np.frombuffer(data, dtype=np.uint8)
    begin, line = len(BOM) if data.startswith(BOM) else 0, 0
    while begin < len(data):
        stop = data.find(b"\n", min(begin + size, len(data) - 1)) + 1 or len(data)
        if stop + PADDING > len(data):  # a large last block leaves its last lines to one that is copied
            stop = data.rfind(b"\n", begin, len(data) - PADDING) + 1 if stop - begin > CACHED else 0
        if not stop:
            yield padded_text(data, begin, line)
            return
        piece = TextBlock(data, view[begin : stop + PADDING], stop - begin, begin, line)
        yield piece
        line = piece.line_of(piece.size) - 1
        begin = stop


def smaller_blocks(source: TextBlock, size: int = BLOCK) -> Iterator[TextBlock]:
    """Yields a block's text in smaller blocks of whole lines, without copies."""
    at, line, last = 0, source.line, source.begin + source.size
    while at < source.size:
        line_end = source.data.find(b"\n", min(source.begin + at + size, last - 1), last) + 1
        stop = (line_end or last) - source.begin
        part = TextBlock(source.data, source.bytes_[at : stop + PADDING], stop - at, source.begin + at, line)
        yield part
        at, line = stop, part.line_of(part.size) - 1


def _count_line_ends(view: npt.NDArray[np.uint8]) -> int:
    return sum(int(np.count_nonzero(view[at : at + CACHED] == 10)) for at in range(0, view.size, CACHED))


def split(source: TextBlock) -> Lines:
    """Locates the fields: runs of bytes above the blank, separated by blanks and line ends."""
    line = source.line
    body = source.bytes_[: source.size]
    blank = np.flatnonzero(body <= 32)
    kind = body[blank]
    if not kind.size or kind[-1] != 10 or blank[-1] != source.size - 1:  # the last line lacks its end
        blank, kind = np.append(blank, source.size), np.append(kind, 10)
    control = blank[(kind < 9) | ((kind > 10) & (kind != 13) & (kind != 32))]
    before = np.empty_like(blank)
    before[0] = -1
    before[1:] = blank[:-1]
    start = before + 1
    length = blank - start
    columns = int(np.argmax(kind == 10)) + 1
    if kind.size % columns == 0 and length.all() and (kind.reshape(-1, columns) == kind[:columns]).all():
        # Usual case: all lines have the same separators, with one byte between fields, so no counting is needed.
        rows = np.arange(kind.size // columns)
        return Lines(start, length, rows + (line + 1), rows * columns, np.full(rows.size, columns), control)
    newline = kind == 10
    line_of_blank = np.cumsum(newline) - newline
    keep = length > 0
    counts = np.bincount(line_of_blank[keep])
    filled = np.flatnonzero(counts)
    count = counts[filled]
    first = np.cumsum(count) - count
    return Lines(start[keep], length[keep], filled + (line + 1), first, count, control)


def words_of(source: TextBlock, start: Index, length: Index) -> Words:
    """Fields as words, zero-padded, shape (fields, ceil(longest / 8))."""
    longest = int(length.max()) if length.size else 1
    columns = -(-longest // 8)
    if columns == 1:
        return (source.words(start) & _MASKS[length])[:, None]
    limit = source.bytes_.size - 8
    out = np.empty((start.size, columns), dtype=np.uint64)
    for k in range(columns):
        rest = np.maximum(np.minimum(length - 8 * k, 8), 0)
        out[:, k] = source.words(np.minimum(start + 8 * k, limit)) & _MASKS[rest]
    return out


def equals(source: TextBlock, start: Index, length: Index, value: bytes) -> Bools:
    """Returns which fields are exactly `value`."""
    limit = source.bytes_.size - 8
    wanted = words_of_strings(np.array([value], dtype=np.bytes_))[0]
    other = np.zeros(start.size, dtype=np.uint64)
    for k, word in enumerate(wanted):
        differing = source.words(np.minimum(start + 8 * k, limit) if k else start)
        differing ^= word
        differing &= _MASKS[min(len(value) - 8 * k, 8)]
        other |= differing
    same: Bools = (other == 0) & (length == len(value))
    return same


def strings(words: Words) -> npt.NDArray[np.bytes_]:
    """Words as NumPy byte strings (shape (fields,)), sharing their memory."""
    rows = np.ascontiguousarray(words, dtype="<u8")
    return rows.view(f"S{8 * rows.shape[1]}").reshape(-1)


def words_of_strings(values: npt.NDArray[np.bytes_]) -> Words:
    """Returns byte strings as words, shape (fields, ceil(width / 8)); the inverse of `strings`."""
    width = -(-max(values.dtype.itemsize, 1) // 8)
    padded = np.ascontiguousarray(values, dtype=f"S{8 * width}")
    return padded.view("<u8").reshape(-1, width)


def hashes(values: Words, topic: npt.NDArray[np.integer]) -> Words:
    """Returns a 64-bit hash of each (topic, field) pair; equal pairs have equal hashes, whatever the padding."""
    out = (topic.astype(np.uint64) + _U(1)) * _U(0x9E3779B97F4A7C15)
    for k in range(values.shape[1]):
        # A word of zeros (padding) does not change the hash, so that widths do not matter.
        column = values[:, k]
        mixed = (out ^ column) * _U(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> _U(32)
        out = mixed if k == 0 else np.where(column == 0, out, mixed)
    return out


def pair_hashes(topics: Sequence[str], topic: npt.NDArray[np.int32], doc: Ids) -> Words:
    """Returns a 64-bit hash of each (topic, document), shape of `topic`."""
    if not topics:
        return np.zeros(0, dtype=np.uint64)
    names = np.array([name.encode() for name in topics], dtype=np.bytes_)
    of_topic = hashes(words_of_strings(names), np.zeros(names.size, dtype=np.uint64))
    out = np.empty(topic.size, dtype=np.uint64)
    for at in range(0, topic.size, ROWS):  # a stretch at a time, whose intermediate results stay small
        part = slice(at, at + ROWS)
        out[part] = hashes(words_of_strings(doc[part]), of_topic[topic[part]])
    return out


def duplicates(key: npt.NDArray[np.uint64], topic: npt.NDArray[np.int32], doc: Ids) -> dict[int, int]:
    """Returns row of each repeated (topic, document) -> row of the pair's first occurrence."""
    if distinct := kernel("harness_distinct"):
        table = np.empty(min(4 * key.size, SLOTS), dtype=np.uint64)
        if distinct(key, np.ascontiguousarray(topic, dtype=np.int32), key.size, table, table.size):
            return {}
    ordered = np.sort(key)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not repeated.size:
        return {}
    seen: dict[tuple[int, bytes], int] = {}
    out = {}
    for row in np.flatnonzero(np.isin(key, repeated)).tolist():
        first = seen.setdefault((int(topic[row]), doc[row]), row)
        if first != row:
            out[row] = first
    return out


def _digits(word: Words, length: Index) -> tuple[Words, Bools]:
    """Returns the number written by the first `length` (0 to 8) bytes of each word, and whether all are digits."""
    moved = word ^ _ZEROS
    moved &= _MASKS[length]
    moved <<= _SHIFTS[length]
    ok = moved + _ABOVE_NINE
    ok |= moved
    ok &= _HIGH
    moved *= _U(2561)
    moved >>= _U(8)
    moved &= _U(0x00FF00FF00FF00FF)
    moved *= _U(6553601)
    moved >>= _U(16)
    moved &= _U(0x0000FFFF0000FFFF)
    moved *= _U(42949672960001)
    moved >>= _U(32)
    return moved, ok == 0


def integers(source: TextBlock, start: Index, length: Index) -> tuple[Index, Bools]:
    """Parses unsigned decimal integers of up to 8 digits; returns values and a mask of valid fields."""
    fits = length <= 8
    value, ok = _digits(source.words(start), np.where(fits, length, 0))
    return value.astype(np.int64), ok & fits


def _split_float(value: Floats) -> tuple[Floats, Floats]:
    """Returns two halves of 26 bits that add up to `value` (Dekker 1971)."""
    scaled = value * 134217729.0
    high = scaled - (scaled - value)
    return high, value - high


def _quotient(mantissa: Words, power: Floats) -> tuple[Floats, Bools]:
    """Returns `mantissa / power`, correctly rounded, and a mask of certain results; powers of ten up to 10^22.

    The division of the rounded mantissa is corrected by its exact remainder. Results are uncertain within 2^-20 units
    of the midpoint between two floats.
    """
    rounded: Floats = mantissa.astype(np.float64)
    lost = (mantissa - rounded.astype(np.uint64)).astype(np.int64).astype(np.float64)
    quotient = rounded / power
    (a, b), (c, d) = _split_float(quotient), _split_float(power)
    product = quotient * power
    error = ((a * c - product) + a * d + b * c) + b * d
    correction = ((rounded - product) - error + lost) / power
    value = quotient + correction
    left = np.abs((quotient - value) + correction)
    bits = value.view(np.uint64)
    exponent = bits & _EXPONENT
    unit = (exponent - _UNIT).view(np.float64)  # the distance to the next float
    return value, (left < unit * (0.5 - 2.0**-20)) & (bits != exponent)


def parse_number(field: bytes) -> float | None:
    """Parses a number as correctly rounded float64; returns None if the field is no finite number."""
    value = float(field) if NUMBER.fullmatch(field) else math.inf
    return value if math.isfinite(value) else None


def parse_decimals(source: TextBlock, start: Index, length: Index) -> tuple[Floats, Bools]:
    """Parses numbers as correctly rounded float64; returns values and a mask of valid fields.

    Plain decimals whose digits fit 64 bits are read as whole arrays; up to 2^53 that is one exact
    division (Clinger 1990), above it a corrected one. The rest go through Python's own conversion.
    Infinities written as huge numbers (`1e999`), `nan` and `inf` are not numbers here.
    """
    start = np.ascontiguousarray(start)
    length = np.ascontiguousarray(length)
    first = source.bytes_[start]
    negative = first == 45
    at = start + (negative | (first == 43))
    size = length - (at - start)
    head = source.words(at)
    point = head ^ _DOTS
    point_bit = (point - _ONES) & ~point & _HIGH
    whole = np.minimum((np.bitwise_count((point_bit - _U(1)) & ~point_bit) >> 3).astype(np.int64), size)
    places = np.maximum(size - whole - 1, 0)
    pointed = (places > 0) & (source.bytes_[at + whole] == 46)
    ok = (whole > 0) & (places <= 22) & ((whole == size) | pointed)
    whole = np.where(ok, whole, 0)
    places = np.where(ok, places, 0)
    mantissa, valid = _digits(head, whole)
    ok &= valid & (mantissa.astype(np.float64) * _POWERS[places] < 1.8e19)
    at += whole + 1
    for k in range(0, int(places.max(initial=0)), 8):
        digits = np.maximum(np.minimum(places - k, 8), 0)
        part, valid = _digits(source.words(np.minimum(at + k, source.size)), digits)
        if k == 16:  # up to here no number overflows; a product beyond 64 bits is left to the slow way
            ok &= mantissa.astype(np.float64) * _POWERS[digits] < 1.8e19
        mantissa = mantissa * _INTEGER_POWERS[digits] + part
        ok &= valid
    value = mantissa.astype(np.float64) / _POWERS[places]
    large = np.flatnonzero(ok & (mantissa > _U(2**53)))
    if large.size:
        value[large], ok[large] = _quotient(mantissa[large], _POWERS[places[large]])
    value = np.where(negative, -value, value)
    for row in np.flatnonzero(~ok):
        parsed = parse_number(source.cut(int(start[row]), int(length[row])))
        if parsed is not None:
            value[row], ok[row] = parsed, True
    return value, ok

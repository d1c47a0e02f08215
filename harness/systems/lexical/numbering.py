"""Numbers of the tokens of texts, in the order of their first appearance, many texts at a time.

A view that takes texts apart into units, and each unit into tokens whatever surrounds it, needs to see each unit once:
the texts of a corpus have few distinct ones. Units between blanks are found and numbered by the kernel in
`numbering.c`.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.io.kernels import Kernel, kernel
from harness.systems.lexical.text import Tokenise, Tokeniser

Numbers = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Units = tuple[Numbers, Offsets, list[str]]  # units of some texts, their number by text, and the units that are new


def spread(start: Offsets, lengths: Offsets) -> Offsets:
    """Returns the indices start[i], start[i] + 1, ..., start[i] + lengths[i] - 1 for each i in turn, concatenated."""
    before = np.cumsum(lengths) - lengths
    indices: Offsets = np.arange(int(lengths.sum())) + np.repeat(start - before, lengths)
    return indices


class Numbering:
    """Numbers tokens of texts.

    Attributes
    ----------
    words : token -> its number.
    """

    def __init__(self, tokenise: Tokenise) -> None:
        self.words: defaultdict[str, int] = defaultdict()
        self.words.default_factory = self.words.__len__  # a new word gets the next number
        self._units = _units(tokenise)
        self._taken = tokenise.taken if isinstance(tokenise, Tokeniser) else _one_token
        self._first = array("q", (0,))  # where the tokens of each unit begin in `_token`, and their end
        self._token = array("i")

    def take(self, texts: Sequence[str]) -> tuple[Numbers, Offsets]:
        """Returns the numbers of the tokens of texts, one text after the other, and how many tokens each text has."""
        unit, count, new = self._units(texts)
        for name in new:
            self._token.extend(map(self.words.__getitem__, self._taken(name)))
            self._first.append(len(self._token))
        first, token = np.frombuffer(self._first, np.int64), np.frombuffer(self._token or array("i", (0,)), np.int32)
        if len(self._token) == len(first) - 1 and (np.diff(first) == 1).all():
            return token[unit], count
        begin = first[unit]
        length = first[unit + 1] - begin
        end = np.concatenate(([0], np.cumsum(length)))[np.cumsum(count)]
        return token[spread(begin, length)], np.diff(end, prepend=0)


def _one_token(token: str) -> tuple[str, ...]:
    """Returns a unit as its only token."""
    return (token,)


def _units(tokenise: Tokenise) -> Callable[[Sequence[str]], Units]:
    """Returns a function that takes texts apart and numbers their units in the order of first appearance."""
    split = kernel("harness_units")
    if isinstance(tokenise, Tokeniser) and tokenise.blanks is not None and split is not None:
        return _Blanks(tokenise.blanks, split).take
    return _Plain(tokenise.units if isinstance(tokenise, Tokeniser) else tokenise).take


class _Plain(dict[str, int]):
    """Numbers of units that a Python function finds."""

    def __init__(self, units: Callable[[str], Iterable[str]]) -> None:
        super().__init__()
        self._found = units
        self._new: list[str] = []

    def __missing__(self, unit: str) -> int:
        number = self[unit] = len(self)
        self._new.append(unit)
        return number

    def take(self, texts: Sequence[str]) -> Units:
        """Returns the numbers of the units of texts, how many units each text has, and the new units."""
        self._new = []
        unit, count = array("i"), np.zeros(len(texts), np.int64)
        for number, text in enumerate(texts):
            before = len(unit)
            unit.extend(map(self.__getitem__, self._found(text)))
            count[number] = len(unit) - before
        return np.array(unit, np.int32), count, self._new


class _Blanks:
    """Numbers of units between blanks, which the kernel finds.

    Parameters
    ----------
    prepared : text -> the text that is split.
    """

    def __init__(self, prepared: Callable[[str], str], split: Kernel) -> None:
        self._prepared, self._split = prepared, split
        self._slots = np.full(1 << 12, -1, np.int32)
        self._state = np.zeros(2, np.int64)
        self._known, self._start = np.empty(1 << 14, np.uint8), np.zeros((1 << 11) + 1, np.int64)

    def take(self, texts: Sequence[str]) -> Units:
        """Returns the numbers of the units of texts, how many units each text has, and the new units."""
        # Python's strings may have single surrogates, which come back as they were.
        parts = [self._prepared(text).encode("utf-8", "surrogatepass") for text in texts]
        bounds = np.concatenate(([0], np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))))
        text = np.frombuffer(b"".join(parts) or b" ", np.uint8)
        unit, count = np.empty(int(bounds[-1]) // 2 + len(parts) + 1, np.int32), np.zeros(len(parts), np.int64)
        before, done, units = int(self._state[0]), 0, 0
        while True:
            table = self._slots, len(self._slots), self._state, self._known, len(self._known)
            known = *table, self._start, len(self._start) - 1
            read = self._split(text, bounds[done:], len(parts) - done, *known, unit[units:], count[done:])
            units += int(count[done : done + read].sum())
            done += read
            if done == len(parts):
                return unit[:units], count, list(self._names(before))
            self._grow(int(bounds[done + 1] - bounds[done]))

    def _grow(self, size: int) -> None:
        """Makes room for the units of a text of `size` bytes."""
        units = int(self._state[0])
        most, room = 2 * units + size + 1, 2 * int(self._start[units]) + size + 1
        if most >= len(self._start):
            self._start = np.concatenate((self._start[: units + 1], np.zeros(most - units, np.int64)))
        if room > len(self._known):
            self._known = np.concatenate((self._known, np.empty(room - len(self._known), np.uint8)))
        if 2 * most > len(self._slots):
            self._slots = np.full(1 << (2 * most).bit_length(), -1, np.int32)
            self._state[1] = 0

    def _names(self, first: int) -> Iterator[str]:
        """Yields the units from number `first` on."""
        start = self._start[first : int(self._state[0]) + 1].tolist()
        names = self._known[start[0] : start[-1]].tobytes()
        for begin, end in pairwise(start):
            yield names[begin - start[0] : end - start[0]].decode("utf-8", "surrogatepass")

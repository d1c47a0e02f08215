"""Lookup of judgments by topic and document, in an open hash table; `lookup.c` has a kernel with equal results."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from harness.data.columns import Index, Words
from harness.data.columns import words_of_strings as as_words
from harness.data.trec import Qrels, Run
from harness.io.kernels import kernel

STRETCH = 1 << 18  # results looked up at a time, to limit memory


class JudgmentTable:
    """Open hash table from (topic, document) to judgments; hits are verified by full comparison."""

    def __init__(self, qrels: Qrels) -> None:
        self._topic = np.ascontiguousarray(qrels.topic, dtype=np.int32)
        self._doc = as_words(qrels.doc)
        self._hash = qrels.key
        self._bits = max(4, int(len(qrels) * 4).bit_length())
        self._slots = np.full(1 << self._bits, -1, dtype=np.int32)
        waiting = np.arange(len(qrels))
        place = self._place(self._hash)
        while waiting.size:
            free = self._slots[place] < 0
            # If several judgments claim a free slot, the last one written keeps it; the others probe on.
            self._slots[place[free]] = waiting[free]
            lost = self._slots[place] != waiting
            waiting, place = waiting[lost], self._next(place[lost])
        # Scores, bounds of ties and rankings of a run are asked for in turn.
        self._answers: WeakKeyDictionary[Run, tuple[Index, Index]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, object]:
        """Returns the attributes without the answers, which are weak."""
        return {name: value for name, value in self.__dict__.items() if name != "_answers"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Begins without answers."""
        self.__dict__.update(state)
        self._answers = WeakKeyDictionary()

    def _place(self, key: Words) -> Index:
        return (key >> np.uint64(64 - self._bits)).astype(np.int64)

    def _next(self, place: Index) -> Index:
        return (place + 1) & ((1 << self._bits) - 1)

    def find(self, run: Run, of_run: Index) -> Index:
        """Returns the index of each result's judgment, or -1; read-only, and kept while the run is.

        Parameters
        ----------
        of_run : int64, shape (topics of the run,). Index of each into the judgments' topics, or -1.
        """
        if (before := self._answers.get(run)) is not None and np.array_equal(before[0], of_run):
            return before[1]
        out = self._looked_up(run, of_run)
        out.setflags(write=False)
        self._answers[run] = of_run, out
        return out

    def _looked_up(self, run: Run, of_run: Index) -> Index:
        key, doc = run.key, as_words(run.doc)
        out = np.empty(len(run), dtype=np.int64)
        if compiled := kernel("harness_lookup"):
            of_row = np.ascontiguousarray(run.topic, dtype=np.int32)
            results = key, doc, doc.shape[1], of_row, np.ascontiguousarray(of_run, dtype=np.int64), len(run)
            compiled(*results, self._slots, self._bits, self._doc, self._doc.shape[1], self._topic, out)
            return out
        topic = of_run[run.topic]
        mine = _widen(self._doc, max(doc.shape[1], self._doc.shape[1]))
        for at in range(0, len(run), STRETCH):
            part = slice(at, at + STRETCH)
            out[part] = self._find(key[part], _widen(doc[part], mine.shape[1]), topic[part], mine)
        return out

    def _find(self, key: Words, doc: Words, topic: Index, mine: Words) -> Index:
        width = mine.shape[1]
        place = self._place(key)
        out = self._slots[place].astype(np.int64)
        same = self._topic[out] == topic
        for k in range(width):
            same &= mine[out, k] == doc[:, k]
        wrong = np.flatnonzero((out >= 0) & ~same)
        place = place[wrong]
        while wrong.size:
            place = self._next(place)
            here = self._slots[place].astype(np.int64)
            same = (self._topic[here] == topic[wrong]) & (mine[here] == doc[wrong]).all(axis=1)
            out[wrong] = here
            again = (here >= 0) & ~same
            wrong, place = wrong[again], place[again]
        return out


def _widen(words: Words, width: int) -> Words:
    return words if words.shape[1] == width else np.pad(words, ((0, 0), (0, width - words.shape[1])))

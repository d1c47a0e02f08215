"""Lookup of judgments by topic and document, in an open hash table; `lookup.c` has a kernel with equal results.

Fixed candidates: in re-ranking tasks, results outside the candidate list of a topic are refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.data.columns import Index, Words
from harness.data.columns import words_of_strings as as_words
from harness.data.layouts import line_numbers
from harness.data.trec import Qrels, Run
from harness.errors import format_error
from harness.io.files import read_bytes, sha256
from harness.io.kernels import kernel

STRETCH = 1 << 18  # results looked up at a time, to limit memory


class JudgmentTable:
    """Open hash table from (topic, document) to judgments; hits are verified by full comparison."""

    def __init__(self, qrels: Qrels) -> None:
        self._topic = np.ascontiguousarray(qrels.topic, dtype=np.int32)
        self._doc = as_words(qrels.doc)
        self._bits = max(4, int(len(qrels) * 4).bit_length())
        self._slots = np.full(1 << self._bits, -1, dtype=np.int32)
        waiting = np.arange(len(qrels))
        place = self._place(qrels.key)
        while waiting.size:
            free = self._slots[place] < 0
            # If several judgments claim a free slot, the last one written keeps it; the others probe on.
            self._slots[place[free]] = waiting[free]
            lost = self._slots[place] != waiting
            waiting, place = waiting[lost], self._next(place[lost])

    def _place(self, key: Words) -> Index:
        return (key >> np.uint64(64 - self._bits)).astype(np.int64)

    def _next(self, place: Index) -> Index:
        return (place + 1) & ((1 << self._bits) - 1)

    def find(self, run: Run, of_run: Index) -> Index:
        """Returns the index of each result's judgment, or -1.

        Parameters
        ----------
        of_run : int64, shape (topics of the run,). Index of each into the judgments' topics, or -1.
        """
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


class JudgedCandidates:
    """Candidates of each topic: its judged documents."""

    def __init__(self, qrels: Qrels) -> None:
        self._topics = {topic: index for index, topic in enumerate(qrels.topics)}
        self._table = JudgmentTable(qrels)

    def check(self, run: Run) -> None:
        """Raises FormatError, with file and line, if a run ranks a document that is not a candidate of its topic.

        Results of topics without candidates are not checked.

        Examples
        --------
        >>> listed = JudgedCandidates(Qrels.from_dict("all", {"t": {"a": 2.5, "b": 0}}))
        >>> listed.check(Run.from_dict("mine", {"t": {"a": 2.0, "c": 1.0}}))
        Traceback (most recent call last):
        harness.errors.FormatError: run mine:2: document 'c' is not a candidate of topic 't' (1 such result)
        """
        of_run = np.array([self._topics.get(name, -1) for name in run.topics], dtype=np.int64)
        wrong = np.flatnonzero((of_run[run.topic] >= 0) & (self._table.find(run, of_run) < 0))
        if wrong.size:
            row = int(wrong[0])
            named = f"document {run.doc[row].decode()!r} is not a candidate of topic {run.topics[run.topic[row]]!r}"
            many = f"{wrong.size} such result{'s' * (wrong.size > 1)}"
            raise format_error(run.source or f"run {run.name}", _line(run, row), f"{named} ({many})")


def _line(run: Run, row: int) -> int:
    """Returns the line number of a result in its source file, accounting for blank lines and comments."""
    path = Path(run.source)
    if path.is_file():
        content = read_bytes(path)
        if sha256(content) == run.sha256:
            return line_numbers(content)[row]
    return row + 1

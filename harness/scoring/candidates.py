"""Fixed candidates: in re-ranking tasks, results outside the candidate list of a topic are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.data.layouts import line_numbers
from harness.data.trec import Qrels, Run
from harness.errors import format_error
from harness.io.files import read_bytes, sha256
from harness.scoring.lookup import JudgmentTable


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

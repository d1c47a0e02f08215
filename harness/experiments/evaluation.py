"""Runs scored by one task: the value that commands, reports and notebooks share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.data.records import concatenated_columns, frame
from harness.data.trec import Run
from harness.experiments.task import Task
from harness.io.display import table_html
from harness.scoring.remarks import grade_remarks
from harness.scoring.scores import Scores

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Runs scored by one task, with the warnings found.

    Attributes
    ----------
    runs, scores : one for one, in the order in which they were given.
    bounds : run -> measure -> lowest and highest mean over the orders of its ties, where they differ.
    seconds : run -> CPU seconds a topic that its system needed, reading and indexing included; empty if not known.
    strange : run -> remark that none of its documents is judged.

    Examples
    --------
    >>> import harness as h
    >>> found = h.evaluate(h.task("mini-task1", measures=["AP"]), "runs/mini/mini-task1/overlap.run")
    >>> print(found.frame().head(2).round(3).to_string(index=False))
        run query_id measure  value
    overlap      M.1      AP  0.532
    overlap      M.2      AP  0.722
    """

    task: Task
    runs: tuple[Run, ...]
    scores: tuple[Scores, ...]
    bounds: Mapping[str, Mapping[str, tuple[float, float]]]
    seconds: Mapping[str, float] = field(default_factory=dict)
    strange: Mapping[str, str] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Remarks on the grades of the judgments, and warnings of the readers of the runs."""
        return (*grade_remarks(self.task.scorer), *self.run_warnings)

    @property
    def run_warnings(self) -> tuple[str, ...]:
        """Warnings of the readers of the runs."""
        return tuple(str(warning) for run in self.runs for warning in run.warnings)

    def coverage_sentence(self) -> str:
        """Returns the sentence on coverage if the corpus holds only part of the judged documents; else empty."""
        coverage, corpus = self.task.coverage, self.task.corpus
        if coverage is None or coverage.complete:
            return ""
        return coverage.sentence(self.scores[0].protocol, corpus.notes if corpus is not None else ())

    def tie_spans(self) -> dict[str, dict[str, str]]:
        """Returns run -> measure -> lowest and highest mean in words, where four decimals show that they differ."""
        spans = {
            run: {measure: tuple(f"{end:.4f}" for end in ends) for measure, ends in by_measure.items()}
            for run, by_measure in self.bounds.items()
        }
        return {
            run: {measure: " to ".join(ends) for measure, ends in by_measure.items() if len(set(ends)) > 1}
            for run, by_measure in spans.items()
        }

    def frame(self) -> DataFrame:
        """Returns a data frame with `run`, `query_id`, `measure`, `value`; NaN if the protocol excludes the topic."""
        return frame(concatenated_columns([scores.columns() for scores in self.scores]))

    def __repr__(self) -> str:
        first = self.scores[0]
        runs = ", ".join(scores.run for scores in self.scores)
        return f"<Evaluation of {runs} on {first.collection} by {', '.join(first.measures)}>"

    def _repr_html_(self) -> str:
        return table_html(self)

"""Published values of MIRMU and MSM beside those of experiments with their systems."""

from __future__ import annotations

from collections.abc import Sequence

from harness.experiments.results import ExperimentResults, Outcome
from harness.papers.paper import load_paper
from harness.papers.published import metric_of, published_values
from harness.render.model import Section
from harness.scoring.scores import Scores


def sections(results: ExperimentResults) -> Sequence[Section]:
    """Compares conditions with Tables 2 and 3 by name; see `harness.papers.published`."""
    paper = load_paper("mirmu-msm")
    printed = {(c.system, "", c.collection, c.metric): c for c in paper.cells if c.table in ("2", "3")}

    def place(outcome: Outcome, scores: Scores, measure: str) -> tuple[str, str, str, str]:
        return outcome.cell.labels[0], "", scores.collection.removesuffix("-task1"), metric_of(paper, measure)

    return published_values(results, printed, place)

"""CrossMath's published values beside those of experiments with its systems."""

from __future__ import annotations

from collections.abc import Sequence

from harness.experiments.results import ExperimentResults, Outcome
from harness.papers.paper import load_paper
from harness.papers.published import metric_of, published_values
from harness.render.model import Section
from harness.scoring.scores import Scores

_GROUPS = {"pes": "fas"}  # the paper uses the code of the macrolanguage for Persian


def sections(results: ExperimentResults) -> Sequence[Section]:
    """Compares rows with Tables 1 to 5 by name; gives a verdict if the corpus has all judged answers.

    The English rows of Table 1 are those with topics translated by NLLB.
    """
    paper = load_paper("crossmath")
    printed = {(c.system, c.group, c.collection, c.metric): c for c in paper.cells}

    def place(outcome: Outcome, scores: Scores, measure: str) -> tuple[str, str, str, str]:
        language = scores.collection.removeprefix("crossmath-").partition("-")[0]
        system = outcome.cell.labels[0]
        if language == "eng":  # the paper's English rows name no translator
            system = system.removeprefix("NLLB + ") if system.startswith("NLLB + ") else ""
        year = "-".join(scores.edition.split("-")[:2])
        return (system, _GROUPS.get(language, language), year, metric_of(paper, measure))

    return published_values(results, printed, place)

"""Published values beside those of an experiment that reproduces a paper's systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.experiments.experiment import FULL
from harness.experiments.results import Outcome, Results
from harness.papers.cells import Cell as Published
from harness.papers.cells import judge
from harness.papers.paper import load_paper
from harness.render.model import Cell, Column, Section, Table, Text, number_cell
from harness.scoring.scores import Scores

_METRICS = {"nDCG@10": "ndcg_prime@10", "P@10": "p10_prime"}
_GROUPS = {"pes": "fas"}  # the paper uses the code of the macrolanguage for Persian


Place = Callable[[Outcome, Scores, str], tuple[str, str, str, str]]


def crossmath(results: Results) -> Sequence[Section]:
    """Compares rows with CrossMath's Tables 1 to 5 by name; gives a verdict if the corpus has all judged answers.

    Rows on part of the corpus, or with overrides on the command line, have no verdict, and the section says so. The
    English rows of Table 1 are those with topics translated by NLLB.
    """
    printed = {(c.system, c.group, c.collection, c.metric): c for c in load_paper("crossmath").cells}
    return _comparison(results, printed, _published_place)


def mirmu(results: Results) -> Sequence[Section]:
    """Compares conditions with Tables 2 and 3 of MIRMU and MSM by name; see `crossmath`."""
    tables = ("2", "3")
    printed = {(c.system, "", c.collection, c.metric): c for c in load_paper("mirmu-msm").cells if c.table in tables}
    names = {"nDCG": "ndcg_prime", "AP": "map_prime", "P@10": "p10_prime"}

    def place(outcome: Outcome, scores: Scores, measure: str) -> tuple[str, str, str, str]:
        return outcome.cell.labels[0], "", scores.collection.removesuffix("-task1"), names.get(measure, "")

    return _comparison(results, printed, place)


def _comparison(
    results: Results, printed: Mapping[tuple[str, str, str, str], Published], place: Place
) -> Sequence[Section]:
    """Returns the outcomes whose rows the paper prints, by their place in its tables."""
    rows, whole = [], True
    other = bool(results.extra) or results.scale != FULL
    for outcome in results.outcomes:
        scores, task = outcome.scores, outcome.task
        if scores is None or task is None:
            continue
        for measure in results.experiment.measures:
            if (found := printed.get(place(outcome, scores, measure))) is None:
                continue
            complete = task.coverage is None or task.coverage.complete
            lacking = "another setting" if other else "" if complete else "partial"
            whole &= not lacking
            rows.append(_row(scores, measure, found, lacking))
    if not rows:
        return []
    columns = ("table", "row", "collection", "measure", "n", "printed", "here", "verdict")
    numbers = ("n", "printed", "here")
    table = Table(
        "published",
        "Published and recomputed values",
        tuple(Column(name, kind="number" if name in numbers else "text") for name in columns),
        tuple(rows),
        ("exact: rounds to the printed digits; close: within two units of the last digit.",),
    )
    partial = "A partial re-run: the corpus lacks some judged answers, so the numbers cannot equal the paper's."
    if results.scale != FULL:
        says = results.experiment.scale_of(results.scale).says
        partial = f"Scaled down, not the paper's setting ({says}): the numbers cannot equal the paper's."
    if results.extra:
        partial = f"Not the paper's setting ({' '.join(results.extra)}): the numbers cannot equal the paper's."
    return [Section("Published values", (*(() if whole else (Text((partial,)),)), table))]


def _published_place(outcome: Outcome, scores: Scores, measure: str) -> tuple[str, str, str, str]:
    """Returns the system, language, collection and metric of the paper's cell."""
    language = scores.collection.removeprefix("crossmath-").partition("-")[0]
    system = outcome.cell.labels[0]
    if language == "eng":  # the paper's English rows name no translator
        system = system.removeprefix("NLLB + ") if system.startswith("NLLB + ") else ""
    year = "-".join(scores.edition.split("-")[:2])
    return (system, _GROUPS.get(language, language), year, _METRICS.get(measure, ""))


def _row(scores: Scores, measure: str, found: Published, lacking: str) -> tuple[Cell, ...]:
    value = scores.aggregate(measure)
    verdict = judge(found.value, value)
    shown = Cell(lacking) if lacking else Cell(verdict, marks=(verdict,))
    n = scores.n(measure)
    return (
        Cell(found.table),
        Cell(", ".join(part for part in (found.group, found.system) if part)),
        Cell(found.collection),
        Cell(scores.protocol.label(measure)),
        Cell(str(n), n),
        Cell(found.value, float(found.value)),
        number_cell(value),
        shown,
    )

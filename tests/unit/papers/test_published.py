"""An experiment's rows beside a paper's: found by their names, judged where everything is here."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import yaml

from harness.experiments.experiment import load_experiment
from harness.experiments.produce import check_untrained
from harness.experiments.results import ExperimentResults, Outcome
from harness.experiments.task import Task, task
from harness.io import config
from harness.papers.crossmath.published import sections as crossmath
from harness.papers.mirmu.published import sections as mirmu
from harness.papers.paper import load_paper
from harness.render.model import Section, Table
from harness.scoring.coverage import Coverage
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores
from harness.systems.build import build_system

PROTOCOL = Protocol("p", ("nDCG@10", "P@10"))
NAMES = {"English": "eng", "Croatian": "hrv", "Czech": "ces-paper", "Persian": "pes", "Spanish": "spa"}
EDITIONS = {"ARQMath-1": "arqmath-1", "ARQMath-2": "arqmath-2-all", "ARQMath-3": "arqmath-3"}


@pytest.fixture(scope="module")
def mini() -> Task:
    return task("mini-task1")


def results(mini: Task, coverage: Coverage | None, value: float = 0.25) -> ExperimentResults:
    """Every cell of the shipped experiment with the same means."""
    experiment = load_experiment("crossmath-paper")
    outcomes = []
    for cell in experiment.cells():
        _, language, year = cell.labels
        name, values = f"crossmath-{NAMES[language]}", np.array([[value] * 2])
        scores = Scores("r", name, EDITIONS[year], PROTOCOL, PROTOCOL.measures, ("1",), values, "x", "y")
        outcomes.append(Outcome(cell, {}, task=replace(mini, coverage=coverage), scores=scores))
    return ExperimentResults("crossmath-paper", experiment, tuple(outcomes))


def rows(found: ExperimentResults, sections: Callable[..., Sequence[Section]] = crossmath) -> list[tuple[str, ...]]:
    (section,) = sections(found)
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    return [tuple(cell.text for cell in row) for row in table.rows]


def test_every_printed_number_has_its_row(mini: Task) -> None:
    found = rows(results(mini, None))
    cells = [cell for cell in load_paper("crossmath").cells if cell.table in "12345"]
    printed = [(cell.table, f"{cell.group}, {cell.system}", cell.collection, cell.value) for cell in cells]
    assert len(printed) == 108
    assert sorted((row[0], row[1], row[2], row[5]) for row in found) == sorted(printed)


def test_verdicts(mini: Task) -> None:
    said = {row[:4]: row[5:] for row in rows(results(mini, None, 0.2594))}
    assert said["1", "eng, Bi-encoder", "arqmath-1", "nDCG@10"] == ("0.259", "0.259", "exact")
    assert said["5", "spa, NLLB + Bi-encoder", "arqmath-1", "nDCG@10"] == ("0.256", "0.259", "differs")
    assert said["4", "fas, NLLB + Bi-encoder", "arqmath-1", "nDCG@10"] == ("0.253", "0.259", "differs")


def test_a_part_of_the_answers_and_another_setting_get_no_verdict(mini: Task) -> None:
    other = replace(results(mini, None), extra=("rerank=false",))
    for found, verdict, said in (
        (results(mini, Coverage(10, 4, 10, {}, {})), "partial", "partial re-run"),
        (other, "another setting", "setting (rerank=false)"),
    ):
        assert {row[-1] for row in rows(found)} == {verdict}
        (section,) = crossmath(found)
        assert said in str(section.blocks[0])


MIRMU = ("mirmu", "mirmu-years", "mirmu-years-tuned")


@pytest.mark.parametrize("name", MIRMU)
def test_rows_of_mirmu_are_those_that_are_called_as_in_print(mini: Task, name: str) -> None:
    """Each condition is a row of Table 2 or 3; at a smaller scale there are no verdicts."""
    plan = load_experiment(name)
    protocol = Protocol("p", plan.measures)
    outcomes = []
    for cell in plan.cells():
        name = f"{cell.labels[1].lower()}-task1"
        scores = Scores("r", name, "official", protocol, plan.measures, ("1",), np.array([[0.25] * 4]), "x", "y")
        outcomes.append(Outcome(cell, {}, task=replace(mini, coverage=None), scores=scores))
    found = ExperimentResults(name, plan, tuple(outcomes))
    printed = {(c.system, c.collection, c.value) for c in load_paper("mirmu-msm").cells if c.table in "23"}
    shown = rows(found, mirmu)
    # Three measures of each cell; the fine and ensemble rows of ARQMath-3 that the paper leaves out have none.
    assert {(row[1].partition(", ")[2], row[2], row[5]) for row in shown} <= printed
    assert {row[1].partition(", ")[2] for row in shown} == {cell.labels[0] for cell in plan.cells()}
    assert {row[7] for row in shown} <= {"exact", "close", "differs"}
    assert {row[7] for row in rows(replace(found, scale="here"), mirmu)} == {"another setting"}


def test_the_columns_of_mirmu_have_cells_of_ours() -> None:
    """All years of each row of Tables 2 and 3 but fine 1 and ens 1, which the paper does not describe, and what learns
    from other runs; the ensembles of fine-tuned rows have 2022 alone.
    """
    made = {(c.labels[0], c.labels[1].lower()) for name in MIRMU for c in load_experiment(name).cells()}
    printed = {(c.system, c.collection) for c in load_paper("mirmu-msm").cells if c.table in "23"}
    left = {(row, year) for row, year in printed - made if " rbc" not in row and " wibc" not in row}
    rows = {row.partition(":")[0] for row, _ in left}
    assert rows == {"fine 1", "ens 1", "msm 1", *(f"ens {n}" for n in (2, 4, 5, 6, 7, 8, 10, 11, 12))}
    assert {year for row, year in left if not row.startswith(("fine 1", "ens 1:"))} == {"arqmath-1", "arqmath-2"}
    assert len(made & printed) == len(printed - left) - sum(" rbc" in row or " wibc" in row for row, _ in printed)


@pytest.mark.parametrize("name", [*MIRMU, "mirmu-training"])
def test_what_mirmu_ranks_it_was_not_trained_on(name: str) -> None:
    seen = 0
    for cell in load_experiment(name).cells():
        words = dict(word.lstrip("+").split("=", 1) for word in cell.overrides)
        mapping = copy.deepcopy(config.load("system", words["system"])[0])
        for key, value in words.items():
            if key.startswith("system."):
                *above, last = key.removeprefix("system.").split(".")
                inner = mapping
                for part in above:
                    inner = inner[part]
                inner[last] = yaml.safe_load(value)
        if "training" in mapping or isinstance(mapping.get("first"), dict):
            built = build_system(mapping, "cell")
            assert words["collection"] in (built.trains_without() or {words["collection"]})
            seen += isinstance(mapping.get("training"), dict)
            check_untrained(built, words["collection"])
    assert seen == {"mirmu": 6, "mirmu-years": 8, "mirmu-years-tuned": 4, "mirmu-training": 15}[name]

"""An experiment's rows beside a paper's: found by their names, judged where everything is here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.experiments.experiment import load_experiment
from harness.experiments.results import Outcome, Results
from harness.experiments.task import Task, task
from harness.papers.paper import load_paper
from harness.render.model import Table
from harness.reports.published import crossmath, mirmu
from harness.scoring.coverage import Coverage
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores

PROTOCOL = Protocol("p", ("nDCG@10", "P@10"))
NAMES = {"English": "eng", "Croatian": "hrv", "Czech": "ces-paper", "Persian": "pes", "Spanish": "spa"}
EDITIONS = {"ARQMath-1": "arqmath-1", "ARQMath-2": "arqmath-2-all", "ARQMath-3": "arqmath-3"}


@pytest.fixture(scope="module")
def mini() -> Task:
    return task("mini-task1")


def results(mini: Task, coverage: Coverage | None, value: float = 0.25) -> Results:
    """Every cell of the shipped experiment with the same means."""
    experiment = load_experiment("crossmath-paper")
    outcomes = []
    for cell in experiment.cells():
        _, language, year = cell.labels
        name, values = f"crossmath-{NAMES[language]}", np.array([[value] * 2])
        scores = Scores("r", name, EDITIONS[year], PROTOCOL, PROTOCOL.measures, ("1",), values, "x", "y")
        outcomes.append(Outcome(cell, {}, task=replace(mini, coverage=coverage), scores=scores))
    return Results("crossmath-paper", experiment, tuple(outcomes))


def rows(found: Results) -> list[tuple[str, ...]]:
    (section,) = crossmath(found)
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    return [tuple(cell.text for cell in row) for row in table.rows]


def test_every_printed_number_has_its_row(mini: Task) -> None:
    found = rows(results(mini, None))
    printed = [
        (cell.table, f"{cell.group}, {cell.system}", cell.collection, cell.value)
        for cell in load_paper("crossmath").cells
        if cell.table in "12345"
    ]
    assert len(printed) == 108
    assert sorted((row[0], row[1], row[2], row[5]) for row in found) == sorted(printed)


def test_verdicts(mini: Task) -> None:
    said = {row[:4]: row[5:] for row in rows(results(mini, None, 0.2594))}
    assert said["1", "eng, Bi-encoder", "arqmath-1", "nDCG@10"] == ("0.259", "0.259", "exact")
    assert said["5", "spa, NLLB + Bi-encoder", "arqmath-1", "nDCG@10"] == ("0.256", "0.259", "differs")
    assert said["4", "fas, NLLB + Bi-encoder", "arqmath-1", "nDCG@10"] == ("0.253", "0.259", "differs")


def test_a_part_of_the_answers_gets_no_verdict(mini: Task) -> None:
    found = results(mini, Coverage(10, 4, 10, {}, {}))
    assert {row[-1] for row in rows(found)} == {"partial"}
    (section,) = crossmath(found)
    assert "partial re-run" in str(section.blocks[0])


def test_another_setting_gets_no_verdict(mini: Task) -> None:
    found = replace(results(mini, None), extra=("rerank=false",))
    assert {row[-1] for row in rows(found)} == {"another setting"}
    (section,) = crossmath(found)
    assert "one with rerank=false" in str(section.blocks[0])


def test_rows_of_mirmu_are_those_that_are_called_as_in_print(mini: Task) -> None:
    """Each condition is a row of Table 2 or 3; at a smaller scale there are no verdicts."""
    plan = load_experiment("mirmu")
    protocol = Protocol("p", plan.measures)
    outcomes = []
    for cell in plan.cells():
        name = f"{cell.labels[1].lower()}-task1"
        scores = Scores("r", name, "official", protocol, plan.measures, ("1",), np.array([[0.25] * 4]), "x", "y")
        outcomes.append(Outcome(cell, {}, task=replace(mini, coverage=None), scores=scores))
    found = Results("mirmu", plan, tuple(outcomes))
    printed = {(c.system, c.collection, c.value) for c in load_paper("mirmu-msm").cells if c.table in "23"}

    def rows_of(results: Results) -> list[tuple[str, ...]]:
        (section,) = mirmu(results)
        (table,) = (block for block in section.blocks if isinstance(block, Table))
        return [tuple(cell.text for cell in row) for row in table.rows]

    rows = rows_of(found)
    # Three measures of each cell; the fine and ensemble rows of ARQMath-3 that the paper leaves out have none.
    assert {(row[1].partition(", ")[2], row[2], row[5]) for row in rows} <= printed
    assert {row[1].partition(", ")[2] for row in rows} == {cell.labels[0] for cell in plan.cells()}
    assert {row[7] for row in rows} <= {"exact", "close", "differs"}
    assert {row[7] for row in rows_of(replace(found, scale="here"))} == {"another setting"}

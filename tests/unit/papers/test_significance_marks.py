"""Printed marks of significance, tested again: against scipy, with the family of the whole table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.papers.cells import CellVerdict
from harness.papers.effects import mark_verdicts
from harness.papers.paper import load_paper
from harness.papers.reproduce import PaperReproduction
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores


def test_a_mark_is_the_paired_test_at_alpha_over_the_tests_of_its_table() -> None:
    paper = load_paper("mathamr-plus")
    table = [cell for cell in paper.cells if cell.table == "4.6"]
    tested = [cell for cell in table if cell.significant is not None and not cell.baseline]
    assert len(tested) == 12  # three conditions, four measures
    random = np.random.default_rng(0)
    topics = tuple(f"A.{at}" for at in range(78))
    base = random.random(78)
    shift = {"None": 0.0, "Both (OPT+SLT)": 0.08, "OPT-only": 0.045, "SLT-only": 0.0}
    how = Protocol("p", ("nDCG",))
    values = {name: base + by + random.normal(0, 0.1, 78) * (name != "None") for name, by in shift.items()}
    columns = [cell for cell in table if cell.metric == "ndcg_prime"]
    assert {cell.system for cell in columns} == set(values)
    verdicts = [CellVerdict(cell, "needs") for cell in table if cell not in columns]
    assert paper.scored is not None
    scores = {}
    for cell in columns:
        name, of = cell.system, values[cell.system]
        verdicts.append(CellVerdict(cell, "differs", float(of.mean()), name, measure="nDCG", n=78))
        scored = Scores(name, "c", "e", how, ("nDCG",), topics, of[:, None])
        scores[paper.scored.place(cell), name] = scored
    found = mark_verdicts(PaperReproduction(paper, tuple(verdicts), scores, {}, {}, {}, (), ()))
    assert {mark.cell.cell.system for mark in found} == set(values) - {"None"}
    for mark in found:
        assert (mark.family, mark.n, mark.baseline) == (12, 78, next(c.row for c in columns if c.baseline))
        expected = stats.ttest_rel(values[mark.cell.cell.system], values["None"]).pvalue
        assert mark.p == pytest.approx(expected)
        assert mark.here == (expected < 0.05 / 12)
        assert mark.agrees == (mark.here == mark.cell.cell.significant)
    assert {mark.here for mark in found} == {True, False}

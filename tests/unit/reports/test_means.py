"""The table of means for a paper: columns, order, decimals, and n once."""

from __future__ import annotations

import pytest

import harness as h
from harness.errors import HarnessError
from harness.experiments.evaluate import Evaluation
from harness.io.files import data_root
from harness.render.latex import render_table
from harness.reports.means import paper_means_table


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    runs = (data_root() / "runs" / "mini" / "mini-task1" / f"{name}.run" for name in ("shuffle", "overlap"))
    return h.evaluate(h.task("mini-task1", measures=["nDCG", "AP"]), *runs)


def shown(evaluation: Evaluation, **options: object) -> list[list[str]]:
    table = paper_means_table(evaluation, **options)  # type: ignore[arg-type]
    return [[column.title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]


def test_n_is_said_once(evaluation: Evaluation) -> None:
    assert shown(evaluation) == [
        ["run", "nDCG\u2032", "MAP\u2032"],
        ["overlap", "0.830", "0.684"],
        ["shuffle", "0.212", "0.146"],
    ]
    (note,) = paper_means_table(evaluation).notes
    assert note == "Protocol arqmath-task1; edition official, n = 42."
    assert shown(evaluation, columns=["map", "n", "run", "missing"], decimals=1)[1] == ["0.7", "42", "overlap", "0"]
    assert "n = " not in paper_means_table(evaluation, columns=["run", "n"]).notes[0]


def test_order_of_rows(evaluation: Evaluation) -> None:
    for order, first in (("", "overlap"), ("given", "shuffle"), ("name", "overlap"), ("MAP", "overlap")):
        assert shown(evaluation, order=order)[1][0] == first


def test_marks_of_the_tests(evaluation: Evaluation) -> None:
    table = paper_means_table(evaluation, h.compare(evaluation, "shuffle"))
    assert [[cell.marks for cell in row] for row in table.rows] == [
        [(), ("better", "best"), ("better", "best")],
        [("baseline",), (), ()],
    ]
    assert r"overlap & \textbf{0.830}\rlap{$^{\blacktriangle}$}" in render_table(table)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"decimals": 7}, "decimals: 7 is not between 0 and 6"),
        ({"columns": ["P@10"]}, "columns: unknown column 'P@10'; known: AP, missing, n, nDCG, run"),
        ({"columns": ["AP", "map"]}, "columns: 'AP' appears twice"),
        ({"order": "naem"}, "order: unknown order 'naem'; did you mean 'name'?"),
    ],
)
def test_refused(evaluation: Evaluation, options: dict[str, object], line: str) -> None:
    with pytest.raises(HarnessError) as caught:
        paper_means_table(evaluation, **options)  # type: ignore[arg-type]
    assert str(caught.value) == line

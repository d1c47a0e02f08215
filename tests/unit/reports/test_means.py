"""The table of means for a paper: columns, order, decimals, and n once."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refusal
from typer.testing import CliRunner

import harness as h
from harness.cli.main import app
from harness.experiments.evaluate import Evaluation
from harness.io.files import data_root
from harness.render.latex import render_table
from harness.render.model import Cell
from harness.reports import means, pair_tests
from harness.reports.comparison import means_figure
from harness.reports.means import MeansColumn, paper_means_table
from harness.reports.pair_tests import PairTestColumn


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


def test_a_total_is_not_taken_for_a_mean() -> None:
    """Of two topics, a run finds one relevant document, the other none: totals 1 and 0, a difference of 1/2 a topic."""
    judged = {"q1": {"d": 1}, "q2": {"d": 1}}
    evaluation = h.evaluate(judged, {"q1": {"d": 1.0}}, {"q1": {"x": 1.0}}, measures=["RelRet", "RR"], names=["a", "b"])
    comparison = h.compare(evaluation, "b")
    assert shown(evaluation)[1:] == [["a", "1", "0.500"], ["b", "0", "0.000"]]
    assert paper_means_table(evaluation).notes[1:] == ("RelRet: values of runs are totals over topics.",)
    said = "RelRet: values of runs are totals over topics; differences are per topic."
    for table in (paper_means_table(evaluation, comparison), pair_tests.paper_tests_table(comparison)):
        assert said in table.notes
    table = pair_tests.tests_table(comparison)
    assert table.rows[0][4].value == 0.5
    assert said in table.notes and table.notes[0].startswith("Two-sided paired t-test")


def test_one_run_has_no_diamond(evaluation: Evaluation) -> None:
    assert means_figure(evaluation).caption.endswith("protocol arqmath-task1; diamond: the best")
    figure = means_figure(replace(evaluation, scores=evaluation.scores[:1]))
    assert figure.caption.endswith("protocol arqmath-task1")
    assert 'class="f1"' not in figure.svg


def test_a_table_of_tests_fits_a_page(evaluation: Evaluation) -> None:
    """What all rows share is said once."""
    table = pair_tests.paper_tests_table(h.compare(evaluation, "shuffle"))
    titles = [column.title for column in table.columns]
    assert titles == ["run", "measure", "difference", "95% interval", "p", "Bonferroni"]
    assert table.notes[0] == "All rows: against shuffle, n 42." and table.row_headers == 2
    assert "randomization" not in " ".join(table.notes)  # has no column
    pairs = pair_tests.paper_tests_table(h.compare(evaluation, measures=["AP"]))
    assert [column.title for column in pairs.columns][:3] == ["run", "against", "difference"]


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
    assert refusal(paper_means_table, evaluation, **options) == line


EVERYWHERE = ("command", "paper", "report", "data")


@pytest.mark.slow
def test_columns_from_outside_are_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One declaration each: printed, in the report, its CSV and JSON, in LaTeX by name, in the JSON of the command."""
    answered = MeansColumn(dict.fromkeys(EVERYWHERE, "answered"), lambda s, _: Cell("all", float(len(s.topics))))
    signs = PairTestColumn(dict.fromkeys(("command", "report", "claims"), "signs"), lambda r: Cell(f"{r.n}+"))
    monkeypatch.setattr(means, "MEANS", [*means.MEANS, answered])
    monkeypatch.setattr(pair_tests, "TESTS", [*pair_tests.TESTS, signs])
    runs = [str(data_root() / "runs" / "mini" / "mini-task1" / f"{name}.run") for name in ("shuffle", "overlap")]
    options = ["--collection", "mini-task1", "--measures", "nDCG,AP", "--baseline", "shuffle", "--quiet"]

    def shown(*more: str) -> str:
        done = CliRunner().invoke(app, ["compare", *runs, *options, *more], env={"COLUMNS": "300"})
        assert done.exit_code == 0, done.output
        return done.stdout

    printed = shown("-o", str(tmp_path / "out"), "--latex", str(tmp_path / "t.tex"), "--columns", "run,answered,AP")
    assert "answered" in printed and "signs" in printed and "42+" in printed
    assert (tmp_path / "t.tex").read_text().count("& all &") == 2
    for path in ("index.html", "report.json", "tables/means.csv"):
        assert "answered" in (tmp_path / "out" / path).read_text()
    with (tmp_path / "out/tables/tests.csv").open() as file:
        assert {row["signs"] for row in csv.DictReader(file)} == {"42+"}
    assert [each["answered"] for each in json.loads(shown("--json"))["scores"]] == [42.0, 42.0]
    assert "answered" not in CliRunner().invoke(app, ["score", *runs, *options[:4], "--redact", "--quiet"]).stdout
    assert [column.title for column in pair_tests.pair_columns("claims")][-1] == "signs"

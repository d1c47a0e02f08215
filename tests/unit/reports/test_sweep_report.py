"""The report of a sweep: what it calls itself, what it calls the best, and its curves."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.experiments.sweep import Point, best_of, read_points, write_point
from harness.render.model import Figure
from harness.render.write import Report
from harness.reports.sweep import sweep_report
from harness.store.provenance import provenance


def point(value: float, system: str = "bm25", collection: str = "mini-task1", **overrides: str) -> Point:
    settings: dict[str, Any] = {"system": {"name": system}, "collection": {"name": collection}}
    keys = {f"system.{key}": text for key, text in overrides.items()}
    return Point({"system": system, **keys}, {}, {"nDCG": value, "AP": 1 - value}, 42, settings=settings)


def report_of(*points: Point, tuned_on: tuple[str, ...] | None = None) -> Report:
    return sweep_report(points, "Sweep", provenance({}), tuned_on=tuned_on)


def curves(report: Report) -> dict[str, Figure]:
    return {block.id: block for block in report.blocks() if isinstance(block, Figure)}


def texts(figure: Figure) -> list[str]:
    return re.findall(r">([^<>]+)</text>", figure.svg)


def test_a_sweep_names_its_system_and_collection() -> None:
    report = report_of(point(0.5, k="1"), point(0.7, k="2"))
    assert report.title == "Sweep of bm25 on mini-task1"
    assert (
        report.headline
        == "2 configurations of bm25 on mini-task1: best nDCG 0.7000 with k=2, chosen on the same topics"
    )
    both = report_of(point(0.5), point(0.7, system="tfidf"), point(0.6, collection="other"))
    assert both.title == "Sweep of bm25, tfidf on mini-task1, other"
    many = report_of(*(point(0.5, system=f"s{n}") for n in range(4)))
    assert many.title == "Sweep of 4 systems on mini-task1"
    tuned = report_of(point(0.5, k="1"), point(0.7, k="2"), tuned_on=("first", "second"))
    assert tuned.title == "Sweep of bm25 on mini-task1"
    assert tuned.headline == "2 configurations of bm25: best nDCG 0.7000 with k=2, tuned on first, second"
    two = report_of(*(point(x, k1=k1, b=b, c="3") for x, k1, b in ((0.5, "1", "0"), (0.7, "2", "0"), (0.6, "2", "1"))))
    assert two.headline.endswith("best nDCG 0.7000 with k1=2, b=0, chosen on the same topics")
    old = Point({"a": "1"}, {}, {"nDCG": 0.5}, 42)
    assert report_of(old).title == "Sweep"


def test_a_single_configuration_is_not_called_the_best() -> None:
    report = report_of(point(0.5, k="1"))
    assert report.headline == "1 configuration of bm25 on mini-task1: nDCG 0.5000"
    assert {cell.marks for table in report.tables() for row in table.rows for cell in row} == {()}
    two = report_of(point(0.5, k="1"), point(0.7, k="2"))
    (table,) = (table for table in two.tables() if table.id == "points")
    assert [[cell.marks for cell in row] for row in table.rows] == [[(), ("best",), ()], [(), (), ("best",)]]


def test_whole_values_have_whole_ticks() -> None:
    drawn = texts(curves(report_of(*(point(0.5 + k / 10, k=str(k)) for k in (1, 2, 3))))["curve-system-k"])
    assert [text for text in drawn if re.fullmatch(r"[123](\.[0-9]+)?", text)] == ["1", "2", "3"]


def test_every_choice_of_the_other_keys_has_its_line() -> None:
    points = [point(0.5 + k / 10 - b / 20, k=str(k), b=str(b)) for k in (1, 2) for b in range(5)]
    figure = curves(report_of(*points))["curve-system-k"]
    assert [text for text in texts(figure) if "=" in text] == [f"system.b={b}" for b in range(5)]
    assert figure.svg.count('fill="none"') == 5


def test_where_lines_could_not_be_told_apart_the_best_is_drawn() -> None:
    points = [point(0.5 + k / 10 - b / 20, k=str(k), b=str(b)) for k in (1, 2) for b in range(7)]
    figure = curves(report_of(*points))["curve-system-k"]
    assert figure.caption == "nDCG against system.k: best over all values of the other keys"
    assert figure.svg.count('fill="none"') == 1
    assert "nDCG 0.6<" in figure.svg
    assert "nDCG 0.7<" in figure.svg
    assert "nDCG 0.5<" not in figure.svg


def test_points_out_of_date_are_told_from_those_of_another_corpus_or_system(tmp_path: Path) -> None:
    written = [
        ({"corpus": "a", "system": "x", "system.k": "1"}, "old"),
        ({"corpus": "a", "system": "x", "system.k": "2"}, "new"),
        ({"corpus": "b", "system": "x", "system.k": "1"}, "of b"),
        ({"corpus": "a", "system": "theirs", "system.k": "1"}, "of theirs"),
    ]
    for second, (overrides, basis) in enumerate(written, 1):
        before = set(tmp_path.glob("*"))
        write_point(tmp_path, Point(overrides, means={"nDCG": 0.5}, n=1, basis=basis))
        (made,) = set(tmp_path.glob("*")) - before
        os.utime(made, (second, second))
    write_point(tmp_path, Point({"corpus": "c", "system": "x"}, error="no such file"))
    assert sorted(point.basis for point in read_points(tmp_path)) == ["", "new", "of b", "of theirs"]


def test_points_of_before_a_change_of_what_does_not_vary_are_left_out_and_named(tmp_path: Path) -> None:
    """Also where each point has a corpus of its own, and so no basis to be compared with."""
    made = [
        ("a", {"protocol": "old", "system": "same"}),
        ("b", {"protocol": "new", "system": "same"}),
        ("c", {"protocol": "new", "system": "same"}),
    ]
    for second, (corpus, fixed) in enumerate(made, 1):
        before = set(tmp_path.glob("*"))
        write_point(tmp_path, Point({"corpus": corpus}, means={"nDCG": 0.5}, n=1, basis=corpus, fixed=fixed))
        (path,) = set(tmp_path.glob("*")) - before
        os.utime(path, (second, second))
    said: list[str] = []
    assert [point.overrides["corpus"] for point in read_points(tmp_path, said.append)] == ["b", "c"]
    assert said == [
        f"{tmp_path}: 1 of 3 points are left out because of a change of protocol; "
        "run the same command to recompute them"
    ]


def test_none_is_the_best_where_topics_or_judgments_differ() -> None:
    points = [
        replace(point(value, corpus=corpus), scored_on=corpus, n=n)
        for value, corpus, n in ((0.5, "a", 42), (0.9, "b", 7), (0.6, "a", 42))
    ]
    report = report_of(*points)
    assert report.headline == (
        "3 configurations of bm25 on mini-task1: nDCG on different topics or judgments, so none is the best"
    )
    (table,) = (table for table in report.tables() if table.id == "points")
    assert {cell.marks for row in table.rows for cell in row} == {()}
    assert [row[0].text for row in table.rows] == ["a", "a", "b"]
    assert table.notes[0].startswith("3 configurations tried, 0 failed; n = 7 to 42 topics. They were scored on ")
    with pytest.raises(HarnessError, match="scored on different topics or judgments, so none of them is the best"):
        best_of(points)
    assert best_of([points[0], points[2]]) is points[2]

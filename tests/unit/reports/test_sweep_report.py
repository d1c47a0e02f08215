"""The report of a sweep: what it calls itself, what it calls the best, and its curves."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.experiments.sweep import SweepPoint, best_of, read_points, write_point
from harness.render.model import Figure, Prose
from harness.render.write import Report
from harness.reports.sweep import sweep_report
from harness.store.provenance import provenance


def point(value: float, system: str = "bm25", collection: str = "mini-task1", **overrides: str) -> SweepPoint:
    settings: dict[str, Any] = {"system": {"name": system}, "collection": {"name": collection}}
    keys = {f"system.{key}": text for key, text in overrides.items()}
    return SweepPoint({"system": system, **keys}, {}, {"nDCG": value, "AP": 1 - value}, 42, settings=settings)


def report_of(*points: SweepPoint, tuned_on: tuple[str, ...] | None = None) -> Report:
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
    repeated = sweep_report(
        [point(0.5, k="1"), point(0.7, k="2")], "S", provenance({}), searched_values=[0.5, 0.7, 0.5]
    )
    assert repeated.headline.startswith("2 configurations of bm25 on mini-task1 in 3 points: best ")
    both = report_of(point(0.5), point(0.7, system="tfidf"), point(0.6, collection="other"))
    assert both.title == "Sweep of bm25, tfidf on mini-task1, other"
    many = report_of(*(point(0.5, system=f"s{n}") for n in range(4)))
    assert many.title == "Sweep of 4 systems on mini-task1"
    tuned = report_of(point(0.5, k="1"), point(0.7, k="2"), tuned_on=("first", "second"))
    assert tuned.title == "Sweep of bm25 on mini-task1"
    assert tuned.headline == "2 configurations of bm25: best nDCG 0.7000 with k=2, tuned on first, second"
    two = report_of(*(point(x, k1=k1, b=b, c="3") for x, k1, b in ((0.5, "1", "0"), (0.7, "2", "0"), (0.6, "2", "1"))))
    assert two.headline.endswith("best nDCG 0.7000 with k1=2, b=0, chosen on the same topics")
    old = SweepPoint({"a": "1"}, {}, {"nDCG": 0.5}, 42)
    assert report_of(old).title == "Sweep"


def test_a_single_configuration_is_not_called_the_best() -> None:
    report = report_of(point(0.5, k="1"))
    assert report.headline == "1 configuration of bm25 on mini-task1: nDCG 0.5000"
    assert {cell.marks for table in report.tables() for row in table.rows for cell in row} == {()}
    two = report_of(point(0.5, k="1"), point(0.7, k="2"))
    (table,) = (table for table in two.tables() if table.id == "points")
    assert [[cell.marks for cell in row] for row in table.rows] == [[(), ("best",), ()], [(), (), ("best",)]]


@pytest.mark.parametrize(
    ("lowest", "said"), [(False, "k=2 is 0.2000 above the next, k=1"), (True, "k=1 is 0.2000 below the next, k=2")]
)
def test_the_first_line_says_how_far_the_best_is_ahead(lowest: bool, said: str) -> None:
    found = sweep_report([point(0.5, k="1"), point(0.7, k="2")], "Sweep", provenance({}), lowest=lowest)
    lead, drawn, _ = found.sections[0].blocks
    assert isinstance(lead, Prose) and isinstance(drawn, Figure)
    assert lead.paragraphs == (f"{said} (not tested).",)


def test_each_configuration_has_its_command() -> None:
    """It names the run as the sweep did, and values as the other tables do."""
    points = [point(0.5, fields="{a: 1}", k="1.0"), point(0.7, fields="{a: 2}", k="2.50000")]
    points = [replace(each, files={f"runs/mini-task1/bm25-{n}.0.run": ""}) for n, each in enumerate(points, 1)]
    (table,) = (table for table in report_of(*points).tables() if table.id == "commands")
    expected = [
        f"harness run system=bm25 'system.fields={{a: {n}}}' system.k={k} 'system.name=\"bm25-{n}.0\"'"
        for n, k in ((2, "2.50000"), (1, "1.0"))
    ]
    assert [row[1].text for row in table.rows] == expected
    assert table.rows[0][0].text == "system=bm25, system.fields={a: 2}, system.k=2.5"
    # A tuned report has one configuration's numbers, which its own report tells.
    assert "commands" not in {table.id for table in report_of(*points, tuned_on=("other",)).tables()}


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
        write_point(tmp_path, SweepPoint(overrides, means={"nDCG": 0.5}, n=1, basis=basis))
        (made,) = set(tmp_path.glob("*")) - before
        os.utime(made, (second, second))
    write_point(tmp_path, SweepPoint({"corpus": "c", "system": "x"}, error="no such file"))
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
        write_point(tmp_path, SweepPoint({"corpus": corpus}, means={"nDCG": 0.5}, n=1, basis=corpus, fixed=fixed))
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
        "3 configurations of bm25 on mini-task1: nDCG on different topics, judgments or protocols, so none is the best"
    )
    (table,) = (table for table in report.tables() if table.id == "points")
    assert {cell.marks for row in table.rows for cell in row} == {()}
    assert [row[0].text for row in table.rows] == ["a", "a", "b"]
    assert table.notes[0].startswith("3 configurations tried, 0 failed; n = 7 to 42 topics. They were scored on ")
    with pytest.raises(HarnessError, match="scored on different topics, judgments or protocols, so none of"):
        best_of(points)
    assert best_of([points[0], points[2]]) is points[2]


def test_each_collection_has_its_measures_and_what_it_lacks_is_blank_with_a_reason() -> None:
    """The first measure of each collection has a curve of its own."""
    answers = [replace(point(0.5 + k / 10, k=str(k)), scored_on="answers") for k in (1, 2)]
    lemmas = [
        replace(
            point(0, k=str(k)),
            means={"P@10": 0.2 + k / 10, "AP": None if k == 1 else 0.4},
            scored_on="lemmas",
            settings={"system": {"name": "bm25"}, "collection": {"name": "lemmas", "protocol": "mathlib"}},
        )
        for k in (1, 2)
    ]
    collections = ["mini-task1", "mini-task1", "lemmas", "lemmas"]
    both = zip([*answers, *lemmas], collections, strict=True)
    report = report_of(*(replace(each, overrides={**each.overrides, "collection": name}) for each, name in both))
    (table,) = (table for table in report.tables() if table.id == "points")
    assert [column.title for column in table.columns] == ["collection", "system.k", "nDCG", "AP", "P@10"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["mini-task1", "2", "0.7000", "0.3000", ""],
        ["mini-task1", "1", "0.6000", "0.4000", ""],
        ["lemmas", "2", "", "0.4000", "0.4000"],
        ["lemmas", "1", "", "n/a", "0.3000"],
    ]
    assert table.notes[1:] == (
        "Left blank: mini-task1 is scored by measures that do not include P@10.",
        "Left blank: lemmas is scored by protocol mathlib, which does not have nDCG.",
    )
    assert [figure.caption for figure in curves(report).values()] == ["nDCG against system.k", "P@10 against system.k"]
    assert report.headline == (
        "4 configurations of bm25 on mini-task1, lemmas: nDCG, P@10 on different topics, judgments or protocols, "
        "so none is the best"
    )


@pytest.mark.parametrize(("failed", "said"), [(0, ""), (2, ", 2 more failed")])
def test_points_that_failed_are_counted_as_failed(failed: int, said: str) -> None:
    faults = [SweepPoint({"system": f"s{number}"}, error="no such file") for number in range(failed)]
    report = report_of(point(0.5), point(0.7, system="tfidf"), *faults)
    assert report.headline == (
        f"2 configurations of bm25, tfidf on mini-task1{said}: best nDCG 0.7000 with system=tfidf, "
        "chosen on the same topics"
    )
    (table,) = (table for table in report.tables() if table.id == "points")
    assert table.notes[0].startswith(f"{2 + failed} configurations tried, {failed} failed; n = 42 topics.")


def test_the_lowest_value_is_first_if_it_was_searched() -> None:
    points = [point(0.5, k="1"), point(0.7, k="2"), replace(point(0, k="3"), means={"nDCG": None})]
    report = sweep_report(points, "Sweep", provenance({}), lowest=True)
    assert report.headline == (
        "3 configurations of bm25 on mini-task1: lowest nDCG 0.5000 with k=1, chosen on the same topics"
    )
    (table,) = (table for table in report.tables() if table.id == "points")
    assert [row[0].text for row in table.rows] == ["1", "2", "3"]
    assert [[cell.marks for cell in row] for row in table.rows] == [[(), ("lowest",), ()], [()] * 3, [()] * 3]
    assert (best_of(points, lowest=True).overrides["system.k"], best_of(points).overrides["system.k"]) == ("1", "2")


def test_a_grid_of_two_numbers_has_a_heat_map_and_the_shares_of_its_keys() -> None:
    grid = [point((k1 + 2 * b) / 10, k1=str(k1), b=f"{b}.00000") for k1 in (1, 2, 3, 4) for b in (0, 1)]
    report = report_of(*grid)
    figure = curves(report)["heat-map-b-k1"]
    assert figure.caption == "nDCG by b (rows) and k1 (columns)"
    assert texts(figure)[:8] == ["b", "k1", "0", "1", "1", "2", "3", "4"]
    assert "from 0.100" in texts(figure)  # to 0.6, in four shades
    (table,) = (table for table in report.tables() if table.id == "importance")
    # Variances of the means: 0.01 * 1.25 by k1 and 0.04 * 0.25 by b; their sum is the whole.
    assert [[cell.text for cell in row] for row in table.rows] == [["k1", "0.56"], ["b", "0.44"]]
    assert "parallel" not in curves(report)
    third = curves(report_of(*grid, *(point(x, k1="1", b="0", c=str(c)) for c, x in ((1, 0.2), (2, 0.9)))))
    assert third["parallel"].svg.count("<path") == 10 + 1  # a line for each point, and the diamond of the best
    assert "best nDCG 0.9000 with b=0, c=2, k1=1" in third["parallel"].svg
    assert "orange with a diamond the best, blue the rest of the best quarter" in third["parallel"].caption
    assert third["heat-map-b-k1"].caption.endswith(", the best over all values of the other keys")


@pytest.mark.parametrize(("lowest", "so_far"), [(False, "0.500; 2 0.500; 4 0.800"), (True, "0.500; 2 0.400; 4 0.400")])
def test_sampled_points_are_scattered_with_the_best_so_far(lowest: bool, so_far: str) -> None:
    values = (0.5, 0.4, 0.8, 0.7, 0.6, 0.45, 0.55, 0.65)
    sampled = [point(x, k1=f"{x * 3.14159265:.9f}", b=f"{x * x:.9f}") for x in values]
    found = sweep_report(sampled, "Sweep", provenance({}), None, lowest, [0.5, 0.4, None, *values[2:]])
    shown = curves(found)
    (said,) = re.findall(r"so far: (.*?); point", shown["search"].svg)
    assert said.startswith(f"1 {so_far}")
    assert 'fill="none"' not in shown["curve-system-k1"].svg
    assert "heat-map-b-k1" not in shown
    (table,) = (table for table in found.tables() if table.id == "points")
    assert max(len(cell.text) for row in table.rows for cell in row) <= 6
    (shares,) = (table for table in found.tables() if table.id == "importance")  # both keys order the points alike
    assert len({row[1].text for row in shares.rows}) == 1

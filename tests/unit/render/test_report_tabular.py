"""CSV and JSON: what programs read back is what was reported."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.render.figures import dot_interval
from harness.render.formats import records_csv, render_json, tables_csv
from harness.render.model import Cell, Column, Facts, Figure, Prose, Records, Section, Table, visible
from harness.render.write import Report

COLUMNS = (Column("Run"), Column("P@10", "ARQMath-1", "number"))


def report(
    *rows: tuple[Cell, ...], columns: tuple[Column, ...] = COLUMNS, data: dict[str, object] | None = None
) -> Report:
    table = Table("means", "Means", columns, rows, notes=("n = 77",))
    return Report("Title", "Answer", (Section("Results", (table,)),), data=data or {})


def read(content: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content, newline=""), strict=True))


def test_csv_has_full_precision_and_group_titles() -> None:
    value = 0.1 + 0.2
    content = tables_csv(report((Cell("psu, A"), Cell("0.300", value)), (Cell('say "x"'), Cell("n/a", float("nan")))))[
        "means.csv"
    ]
    assert content == 'Run,ARQMath-1 / P@10\r\n"psu, A",0.30000000000000004\r\n"say ""x""",n/a\r\n'


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_csv_reads_back_as_the_visible_text(rows: list[tuple[str, str]]) -> None:
    content = tables_csv(report(*((Cell(a), Cell(b)) for a, b in rows)))["means.csv"]
    for (a, b), (x, y) in zip(rows, read(content)[1:], strict=True):
        assert x in {visible(a), "'" + visible(a)}
        assert y in {visible(b), "'" + visible(b)}


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r\n=1", " =1", "＝1", "=", "-"]
)
def test_formulas_are_disarmed(text: str) -> None:
    cell = read(tables_csv(report((Cell(text), Cell("1"))))["means.csv"])[1][0]
    assert cell == "'" + visible(text)


@pytest.mark.parametrize("text", ["-0.03", "+1.5e-3", "-.5", "-7", "0.2", "a=b", "'=1"])
def test_numbers_and_other_text_are_left_alone(text: str) -> None:
    assert read(tables_csv(report((Cell(text), Cell("1"))))["means.csv"])[1][0] == text


def test_formulas_in_headers_are_disarmed_too() -> None:
    content = tables_csv(report((Cell("a"), Cell("b")), columns=(Column("=1"), Column("x", "@g"))))["means.csv"]
    assert read(content)[0] == ["'=1", "'@g / x"]


def test_a_cell_of_several_numbers_has_a_field_for_each() -> None:
    columns = (Column("run"), Column("95% interval", parts=("low", "high")), Column("p", kind="number"))
    rows = (
        (Cell("a"), Cell("-0.1 to +0.2", values=(-0.123456789, 0.2)), Cell("0.05", 0.05)),
        (Cell("b"), Cell("undefined"), Cell("n/a")),
    )
    lines = read(tables_csv(report(*rows, columns=columns))["means.csv"])
    assert lines == [["run", "low", "high", "p"], ["a", "-0.123456789", "0.2", "0.05"], ["b", "", "", "n/a"]]
    with pytest.raises(HarnessError, match=r"^table means: row 1 has 1 values in column '95% interval', expected 2$"):
        report((Cell("a"), Cell("x", values=(0.1,)), Cell("")), columns=columns)


def test_headers_are_ascii_and_as_different_as_they_were() -> None:
    titles = ["nDCG′@10", "čeština", "cestina", "a–b", "اجرا", "λ", "run"]
    columns = tuple(Column(title) for title in titles)
    heads = read(tables_csv(report(tuple(Cell("x") for _ in titles), columns=columns))["means.csv"])[0]
    assert heads[:4] == ["nDCG'@10", "U+010DeU+0161tina", "cestina", "a-b"]
    assert heads[5:] == ["U+03BB", "run"]


def records(*rows: tuple[str | float | bool | None, ...]) -> list[list[str]]:
    columns = tuple(f"c{index}" for index in range(len(rows[0])))
    content = records_csv(Report("t", "h", (), records={"facts": Records(columns, rows)}))
    assert set(content) == {"facts.csv"}
    return read(content["facts.csv"])[1:]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_records_keep_every_digit(values: list[float]) -> None:
    assert [float(field) for field in records(tuple(values))[0]] == values


def test_records_tell_truth_words_and_what_is_missing() -> None:
    found = records(("run, a", 3, True, False, None, float("nan"), float("inf"), "=1+1"))
    assert found == [["run, a", "3", "true", "false", "", "", "", "'=1+1"]]
    with pytest.raises(HarnessError, match="not usable as a file name"):
        Report("t", "h", (), records={"../x": Records((), ())})


def test_tables_of_figures_are_written_and_whole_numbers_have_no_fraction() -> None:
    inner = Table("inner", "", (Column("n", kind="number"),), ((Cell("77", 77.0),),))
    drawing = Figure("fig", "", dot_interval([], "x"), inner)
    files = tables_csv(Report("t", "h", (Section("s", (drawing,)),)))
    assert files == {"inner.csv": "n\r\n77\r\n"}


def strict(text: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    loaded = json.loads(text, parse_constant=refuse)
    assert isinstance(loaded, dict)
    return loaded


def test_json_names_its_schema_and_holds_every_block() -> None:
    figure = Figure("fig", "F", dot_interval([], "x"), Table("inner", "I", (Column("a"),), ()))
    cell = Cell("0.3", 0.25, ("best", "exact"), "published 0.3")
    table = Table("means", "Means", COLUMNS, ((Cell("psu"), cell),), ("n = 77",), row_headers=1)
    blocks = (Prose(("one", "two")), Facts((("k", "v"),)), table, figure)
    document = strict(render_json(Report("T", "H", (Section("S", blocks, 3),), "cs", {"n": 1})))
    assert (document["schema"], document["version"], document["language"]) == ("mathir-harness/report", 1, "cs")
    assert document["data"] == {"n": 1}
    (section,) = document["sections"]
    assert (section["id"], section["level"], section["title"]) == ("s", 3, "S")
    text, facts, means, drawn = section["blocks"]
    assert text == {"type": "text", "paragraphs": ["one", "two"]}
    assert facts == {"type": "facts", "items": [{"name": "k", "value": "v"}]}
    assert means["rows"] == [
        [{"text": "psu"}, {"text": "0.3", "value": 0.25, "marks": ["best", "exact"], "note": "published 0.3"}]
    ]
    assert means["columns"][1] == {"title": "P@10", "group": "ARQMath-1", "kind": "number"}
    assert (drawn["id"], drawn["table"]["id"]) == ("fig", "inner")


def test_numbers_that_json_lacks_become_null() -> None:
    data: dict[str, object] = {
        "nan": float("nan"),
        "deep": [(float("inf"),), {"x": np.float64("nan")}],
        "array": np.array([1.5, float("nan")]),
        "count": np.int64(3),
        "flag": np.bool_(True),
    }
    document = strict(render_json(report((Cell("a"), Cell("n/a", float("nan"))), data=data)))
    assert document["data"] == {
        "nan": None,
        "deep": [[None], {"x": None}],
        "array": [1.5, None],
        "count": 3,
        "flag": True,
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": {"b": {1, 2}}}, r"^report: data\.a\.b: JSON cannot represent a set"),
        ({"a": [Path("x")]}, r"^report: data\.a\[0\]: JSON cannot represent a .*Path"),
        ({"a": {1: 2}}, r"^report: data\.a: key 1 is not text"),
    ],
)
def test_what_json_has_no_form_for_is_refused_with_its_key(data: dict[str, object], message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        render_json(report(data=data))


@given(st.text())
def test_json_keeps_every_character_but_hides_none(text: str) -> None:
    written = render_json(report((Cell(text + "\u202e\u2066\x00\x7f"), Cell("1"))))
    assert not any(ord(char) < 32 and char != "\n" for char in written)
    assert not set(written) & set("\u202a\u202b\u202d\u202e\u2066\u2069\u200b\x7f")
    blocks = json.loads(written)["sections"][0]["blocks"]
    assert blocks[0]["rows"][0][0]["text"] == text + "\u202e\u2066\x00\x7f"


def test_half_characters_do_not_break_the_file() -> None:
    written = render_json(report((Cell("\ud800"), Cell("1"))))
    assert json.loads(written.encode())["sections"][0]["blocks"][0]["rows"][0][0]["text"] == "[U+D800]"

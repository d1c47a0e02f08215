"""What a report may be made of, and what is refused."""

from __future__ import annotations

import re
import sys

import pytest
from case_tables import literals

from harness.errors import HarnessError
from harness.render.model import MARKS, Cell, Column, Facts, Figure, Section, Table, number_cell, slug, visible
from harness.render.table_parts import footnotes, header_groups, marks_used, symbols
from harness.render.write import Report


def table(name: str = "t", *rows: tuple[Cell, ...], columns: tuple[Column, ...] = (Column("a"), Column("b"))) -> Table:
    return Table(name, "caption", columns, rows)


def test_a_row_of_another_length_is_refused_with_the_tables_id() -> None:
    with pytest.raises(HarnessError, match=r"^table means: row 2 has 1 cells, expected 2$"):
        table("means", (Cell("1"), Cell("2")), (Cell("3"),))


def test_a_table_needs_columns_and_no_more_row_headers_than_columns() -> None:
    with pytest.raises(HarnessError, match=r"^table t: has no columns$"):
        table("t", columns=())
    with pytest.raises(HarnessError, match=r"^table t: 3 row headers in 2 columns$"):
        Table("t", "", (Column("a"), Column("b")), (), row_headers=3)


@pytest.mark.parametrize(("name",), literals("render/unfit_ids"))
def test_an_id_unfit_for_a_file_name_is_refused(name: str) -> None:
    with pytest.raises(HarnessError, match=r"^table id .*not usable as a file name"):
        table(name)
    with pytest.raises(HarnessError, match=r"^figure id .*not usable as a file name"):
        Figure(name, "", "<svg/>")


@pytest.mark.parametrize("name", ["a", "table-2", "nDCG_10.means", "1", "console", "x" * 80])
def test_other_ids_are_taken(name: str) -> None:
    assert table(name).id == name


def test_an_unknown_mark_is_refused_with_the_nearest_known() -> None:
    with pytest.raises(HarnessError, match=r"unknown mark 'basline'; did you mean 'baseline'\?"):
        Cell("x", marks=("basline",))


def test_every_mark_but_best_has_its_own_symbol() -> None:
    shown = [mark.symbol for name, mark in MARKS.items() if name != "best"]
    assert all(shown)
    assert len(set(shown)) == len(shown)


def test_number_cells_round_for_the_eye_and_keep_the_value() -> None:
    assert number_cell(0.12345, 2, ("best",)) == Cell("0.12", 0.12345, ("best",))
    assert number_cell(float("nan")) == Cell("n/a")
    assert number_cell(float("inf")).number is None


@pytest.mark.parametrize(
    "code", [0, 7, 0x1B, 0x7F, 0x85, 0x202A, 0x202E, 0x2066, 0x2069, 0x200B, 0xFEFF, 0xD800, 0xE0041]
)
def test_hidden_and_turning_characters_are_shown_by_their_codes(code: int) -> None:
    assert visible(f"a{chr(code)}b") == f"a[U+{code:04X}]b"


def test_texts_that_are_taken_as_they_are_hide_nothing() -> None:
    printable = "".join(filter(str.isprintable, map(chr, range(sys.maxunicode + 1))))
    assert visible(f"\t{printable}") == f" {printable}"  # the tab is not printable, so that all of it is looked at


def test_lines_are_joined_and_the_joiners_that_persian_needs_are_kept() -> None:
    assert visible("a\r\nb\tc") == "a b c"
    assert visible("می\u200cخواهم") == "می\u200cخواهم"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nDCG′@10, Croatian", "ndcg-10-croatian"),
        ("فارسی", "part-ec5614"),
        ("Česká skupina", "ceska-skupina"),
        ("", "part"),
        ("con", "part-con"),
        ("A" * 99, "a" * 60),
    ],
)
def test_slugs_are_valid_ids(text: str, expected: str) -> None:
    assert slug(text) == expected
    assert table(slug(text)).id == expected


def test_sections_without_an_id_get_one_that_nothing_else_has() -> None:
    sections = (
        Section("Same", ()),
        Section("Same", (table("same-2"),)),
        Section("Same", (), id="own"),
        Section("فارسی", ()),
    )
    assert [section.id for section in Report("t", "h", sections).sections] == ["same", "same-3", "own", "part-ec5614"]


def test_ids_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(HarnessError, match="two blocks have the id 'RUNS'"):
        Report("t", "h", (Section("s", (table("runs"), Figure("f", "", "", table("RUNS")))),))


def test_a_level_or_language_that_does_not_exist_is_refused() -> None:
    with pytest.raises(HarnessError, match="level 5, expected 2, 3 or 4"):
        Section("s", (), level=5)
    with pytest.raises(HarnessError, match="expected a language tag"):
        Report("t", "h", (), language='en" onload="x')


def test_tables_and_figures_are_numbered_in_reading_order_without_the_tables_of_figures() -> None:
    blocks = (table("a"), Figure("f", "", "", table("inner")), Facts(()), table("b"))
    report = Report("t", "h", (Section("s", blocks), Section("s", (Figure("g", "", ""),))))
    assert report.labels() == {"a": "Table 1", "f": "Figure 1", "b": "Table 2", "g": "Figure 2"}
    assert [each.id for each in report.tables()] == ["a", "inner", "b"]


def test_neighbours_of_one_group_share_a_spanning_header() -> None:
    columns = tuple(Column(str(index), group) for index, group in enumerate(["", "", "x", "x", "y", "x"]))
    assert header_groups(Table("t", "", columns, ())) == (("", 1), ("", 1), ("x", 2), ("y", 1), ("x", 1))


def test_equal_notes_share_a_letter_and_letters_go_on_after_z() -> None:
    rows = tuple((Cell("x", note=f"note {index // 2}"),) for index in range(60))
    letters = footnotes(Table("t", "", (Column("a"),), rows))
    assert len(letters) == 30
    assert [letters[f"note {index}"] for index in (0, 25, 26, 27)] == ["a", "z", "aa", "ab"]
    assert all(re.fullmatch("[a-z]+", letter) for letter in letters.values())


def test_marks_come_in_one_order_however_they_were_given() -> None:
    cell = Cell("x", marks=("exact", "best", "baseline"))
    assert symbols(cell) == ("baseline", "exact")
    assert marks_used(table("t", (cell, Cell("y", marks=("missing",))))) == ("best", "baseline", "exact", "missing")

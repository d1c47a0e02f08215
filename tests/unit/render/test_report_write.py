"""Writing a report to a folder."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from process_tools import same_paths

from harness.cli.settings import RunSettings, checked
from harness.cli.written_files import chosen_formats
from harness.errors import HarnessError
from harness.render.figures import dot_interval
from harness.render.html import render_html
from harness.render.latex import render_latex, render_table
from harness.render.model import Cell, Column, Facts, Figure, Prose, Records, Section, Table
from harness.render.pdf import render_drawing
from harness.render.write import Report, draw

NAMES = (
    *("index.html", "report.md", "report.tex", "report.json", "verdicts.csv", "tables/means.csv", "tables/means.tex"),
    "figures/dots.svg",
)


def example() -> Report:
    table = Table("means", "Means", (Column("Run"), Column("v", kind="number")), ((Cell("a"), Cell("0.1", 0.1)),))
    figure = Figure("dots", "Dots", dot_interval([("a", 0.1, 0.0, 0.2, True)], "v"))
    blocks = (Prose(("Čeština",)), Facts((("seed", "7"),)), table, figure)
    records = {"verdicts": Records(("run", "value"), (("a", 0.1), ("b", None)))}
    return Report("T", "H", (Section("S", blocks),), data={"cells": 108}, records=records)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_all_formats_are_written_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "report"
    written = example().write(folder)
    assert written == {
        "html": folder / "index.html",
        "md": folder / "report.md",
        "tex": folder / "report.tex",
        "json": folder / "report.json",
        "csv": folder / "tables",
    }
    assert files(folder) == {
        "index.html",
        "report.md",
        "report.tex",
        "report.json",
        "verdicts.csv",
        "tables/means.csv",
        "tables/means.tex",
        "figures/dots.svg",
    }
    assert (folder / "report.tex").read_text("utf-8") == render_latex(example())
    assert (folder / "index.html").read_text("utf-8") == render_html(example())
    assert (folder / "tables" / "means.csv").read_bytes() == b"Run,v\r\na,0.1\r\n"
    assert (folder / "tables" / "means.tex").read_text("utf-8") == render_table(next(example().tables()))
    assert (folder / "verdicts.csv").read_bytes() == b"run,value\r\na,0.1\r\nb,\r\n"
    written_alone = (folder / "figures" / "dots.svg").read_text("utf-8")
    assert ET.fromstring(written_alone).tag.endswith("}svg")  # noqa: S314 - our own drawing
    # Programs without CSS variables show them as black; pages keep them, for their dark colours.
    assert "var(" not in written_alone and ".fig .f0{fill:#1d5c96}" in written_alone
    assert ".fig .f0{fill:var(--c0)}" in (folder / "index.html").read_text("utf-8")
    (figure,) = (block for block in example().blocks() if isinstance(block, Figure))
    assert render_drawing(figure.svg, "dots", ".svg") == written_alone


def test_figures_are_written_as_pdf_when_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("typst", reason="typst is not installed (extra pdf)")
    assert example().write(tmp_path, ("tex", "pdf")) == {"tex": tmp_path / "report.tex", "pdf": tmp_path / "figures"}
    assert (tmp_path / "figures" / "dots.pdf").read_bytes().startswith(b"%PDF-1.")
    assert (tmp_path / "figures" / "dots.svg").is_file()


def test_without_typst_one_line_says_so_and_the_rest_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.render.pdf.can_render", lambda: False)
    said: list[str] = []
    asked = ("html", "tex", "pdf")
    assert list(example().write(tmp_path / "a", asked, said.append)) == ["html", "tex"]
    line = "{}: no PDF was written: Typst is not installed: pip install 'mathir-harness[pdf]'; the other formats were"
    assert said == [line.format(tmp_path / "a")]
    with pytest.raises(HarnessError) as raised:
        example().write(tmp_path / "b", asked)
    assert raised.value.lines == (line.format(tmp_path / "b"),)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert files(tmp_path / "a") == {"index.html", "report.tex", "tables/means.tex", "figures/dots.svg"}
    for write in (lambda: example().write(tmp_path / "c", ["pdf"]), lambda: chosen_formats("pdf")):
        with pytest.raises(HarnessError, match="Typst, which writes PDF, is not installed: pip install"):
            write()
    with pytest.raises(HarnessError, match="key 'formats': Typst"):
        checked(RunSettings, {"formats": ["pdf"]}, "run")
    assert not (tmp_path / "c").exists()
    monkeypatch.setattr("harness.render.pdf.can_render", lambda: True)
    with pytest.raises(HarnessError, match="c: nothing was written: the report has no figure"):
        Report("T", "H", ()).write(tmp_path / "c", ("pdf",))


def test_a_pdf_that_is_not_drawn_again_is_removed(tmp_path: Path) -> None:
    """Else `report.tex` would show an old figure."""
    example().write(tmp_path)
    (tmp_path / "figures" / "dots.pdf").write_text("old", encoding="utf-8")
    example().write(tmp_path, ("tex",))
    assert not (tmp_path / "figures" / "dots.pdf").exists()


def test_only_what_is_asked_for_is_written(tmp_path: Path) -> None:
    assert list(example().write(tmp_path, ("html",))) == ["html"]
    assert files(tmp_path) == {"index.html"}
    example().write(tmp_path / "md", ("md",))
    assert files(tmp_path / "md") == {"report.md", "figures/dots.svg"}
    example().write(tmp_path / "csv", ("csv",))
    assert files(tmp_path / "csv") == {"verdicts.csv", "tables/means.csv"}
    empty = Report("T", "H", ())
    assert empty.write(tmp_path / "b", ("csv", "json")) == {"json": tmp_path / "b" / "report.json"}


def test_what_a_report_has_no_more_is_removed(tmp_path: Path) -> None:
    """In the formats that are written, and only what the report before says it had."""
    example().write(tmp_path)
    for name in ("tables/own.csv", "figures/own.svg", "own.csv"):
        (tmp_path / name).write_text("mine", encoding="utf-8")
    kept = files(tmp_path)
    later = Report("T", "H", (Section("S", (Prose(("Words",)),)),))
    later.write(tmp_path, ("html",))
    assert files(tmp_path) == kept
    later.write(tmp_path, ("csv",))
    assert kept - files(tmp_path) == {"tables/means.csv", "verdicts.csv"}
    later.write(tmp_path)
    gone = {"tables/means.csv", "tables/means.tex", "figures/dots.svg", "verdicts.csv"}
    assert kept - files(tmp_path) == gone


@pytest.mark.parametrize("name", NAMES)
def test_files_of_others_are_not_replaced(tmp_path: Path, name: str) -> None:
    theirs = tmp_path / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("<!DOCTYPE html>\nmine\n", encoding="utf-8")
    with pytest.raises(HarnessError, match=r"exists and is no report of the harness; choose another folder"):
        example().write(tmp_path)
    assert files(tmp_path) == {name}
    assert theirs.read_text(encoding="utf-8") == "<!DOCTYPE html>\nmine\n"


@pytest.mark.parametrize("formats", [("html",), ("md",), ("tex",), ("json",), ("csv",), ("pdf",), ("html", "csv")])
@pytest.mark.parametrize("left", [1, 2, 9])
def test_a_report_replaces_the_one_before(tmp_path: Path, formats: tuple[str, ...], left: int) -> None:
    """Also if a killed process left only the first files."""
    before = draw(example(), tmp_path, formats)
    for path, content in list(before.files.items())[:left]:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    table = Table("means", "Means", (Column("Run"), Column("w", kind="number")), ((Cell("b"), Cell("0.1", 0.1)),))
    figure = Figure("dots", "Dots", dot_interval([(name, 0.1, 0.0, 0.2, True) for name in "ab"], "v"))
    records = {"verdicts": Records(("run", "another"), (("a", 0.5),))}
    changed = Report("U", "I", (Section("S", (table, figure)),), records=records)
    changed.write(tmp_path, formats)
    changed.write(tmp_path / "fresh", formats)
    fresh = {name.removeprefix("fresh/"): name for name in files(tmp_path) if name.startswith("fresh/")}
    assert all((tmp_path / name).read_bytes() == (tmp_path / new).read_bytes() for name, new in fresh.items())


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"sections": 3}', '{"sections": [{"blocks": [[]]}]}', "[" * 9999])
def test_a_folder_whose_document_is_damaged(tmp_path: Path, said: str) -> None:
    example().write(tmp_path, ("html",))
    (tmp_path / "report.json").write_text(said, encoding="utf-8")
    example().write(tmp_path)
    assert "tables/means.csv" in files(tmp_path)


def test_names_in_a_report_lead_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "kept.csv").write_text("mine", encoding="utf-8")
    table = {"type": "table", "id": "../../kept"}
    document = {"schema": "mathir-harness/report", "sections": [{"blocks": [table]}], "records": ["../kept"]}
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.json").write_text(json.dumps(document), encoding="utf-8")
    example().write(tmp_path / "report")
    assert (tmp_path / "kept.csv").is_file()


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"^report format 'htm' is unknown; did you mean 'html'\?$"):
        example().write(tmp_path, ("json", "htm"))
    assert files(tmp_path) == set()


def test_a_report_that_cannot_be_drawn_leaves_nothing_behind(tmp_path: Path) -> None:
    broken = Report("T", "H", (Section("S", (Figure("f", "c", "<svg onload='x'/>"),)),))
    for formats in (("html",), ("md",), ("tex",)):
        with pytest.raises(HarnessError, match="figure f"):
            broken.write(tmp_path, formats)
    with pytest.raises(HarnessError, match=r"data\.x"):
        Report("T", "H", (), data={"x": object()}).write(tmp_path)
    assert files(tmp_path) == set()


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HarnessError, match="cannot be written"):
        example().write(tmp_path / "file")


def test_importing_the_package_loads_no_heavy_library() -> None:
    heavy = {"jinja2", "numpy", "matplotlib", "scipy", "pandas"}
    code = f"import sys, harness.render.write; print(sorted({heavy!r} & set(sys.modules)))"
    environment = same_paths()
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

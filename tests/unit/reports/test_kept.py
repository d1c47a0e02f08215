"""Reports that are written again only if they would differ, or a file of theirs does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.render.model import Prose, Section
from harness.render.write import RECORD, Drawn, Report, draw
from harness.reports import changed_reports
from harness.reports.changed_reports import write_changed

FORMATS: tuple[str, ...] = ("html", "md", "json")


def example(text: str = "Words") -> Report:
    return Report("Title", "Headline", (Section("Section", (Prose((text,)),)),))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders for which a report was drawn."""
    folders: list[Path] = []

    def counted(report: Report, folder: Path, formats: Sequence[str]) -> Drawn:
        folders.append(folder)
        return draw(report, folder, formats)

    monkeypatch.setattr(changed_reports, "draw", counted)
    return folders


def test_an_equal_report_is_drawn_once(tmp_path: Path, drawn: list[Path]) -> None:
    first = write_changed(example(), tmp_path, FORMATS)
    assert write_changed(example(), tmp_path, FORMATS) == first == example().write(tmp_path / "plain", FORMATS) | first
    assert len(drawn) == 1
    for name in ("index.html", "report.md", "report.json"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


@pytest.mark.parametrize("change", ["content", "formats", "code", "edited file", "lost file", "edited record"])
def test_every_change_draws_it_again(
    tmp_path: Path, drawn: list[Path], change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_changed(example(), tmp_path, FORMATS)
    report, formats = example(), FORMATS
    if change == "content":
        report = example("Other words")
    elif change == "formats":
        formats = ("html", "md")
    elif change == "code":
        monkeypatch.setattr("harness.store.code.of", lambda *modules: "another digest")
    elif change == "edited file":
        (tmp_path / "report.md").write_text("mine", encoding="utf-8")
    elif change == "lost file":
        (tmp_path / "index.html").unlink()
    else:
        (tmp_path / RECORD).write_text('{"basis": []}', encoding="utf-8")
    written = write_changed(report, tmp_path, formats)
    assert len(drawn) == 2
    assert set(written) == set(formats)
    report.write(tmp_path / "plain", formats)
    for path in written.values():
        assert path.read_bytes() == (tmp_path / "plain" / path.name).read_bytes()
    write_changed(report, tmp_path, formats)
    assert len(drawn) == 2


def test_a_report_that_cannot_be_drawn_leaves_the_earlier_one(tmp_path: Path) -> None:
    write_changed(example(), tmp_path, FORMATS)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(HarnessError, match="report format 'odt' is unknown"):
        write_changed(example("Other"), tmp_path, ("odt",))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_record_is_left_beside_a_report_without_its_figures_as_pdf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be drawn is tried again the next time, when the library may be there."""
    from harness.render import figures
    from harness.render.model import Figure

    monkeypatch.setattr("harness.render.pdf.can_render", lambda: False)
    svg = figures.dot_interval([("a", 0.5, 0.4, 0.6, False)], "x")
    report = Report("T", "H", (Section("S", (Figure("f", "Caption", svg),)),))
    said: list[str] = []
    write_changed(report, tmp_path, ("md", "pdf"), said.append)
    assert len(said) == 1
    assert "no PDF was written" in said[0]
    assert not (tmp_path / RECORD).exists()
    write_changed(report, tmp_path, ("md",))
    assert json.loads((tmp_path / RECORD).read_text())["formats"] == {"md": "report.md"}

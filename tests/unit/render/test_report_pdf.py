"""Figures as PDF: what PDFium draws and reads of them."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata

import numpy as np
import numpy.typing as npt
import pypdfium2
import pytest
from process_tools import same_paths

from harness.errors import HarnessError
from harness.render import svg
from harness.render.figures import distribution, dot_interval, grouped_bars, p_value_matrix
from harness.render.pdf import in_fonts, render_pdf

pytest.importorskip("typst", reason="typst is not installed (extra pdf)")

BLUE, ORANGE, WHITE = (0x1D, 0x5C, 0x96), (0xB0, 0x4A, 0x12), (255, 255, 255)
Pixels = npt.NDArray[np.uint8]


def drawn(body: str, height: float = 100, hatched: bool = False) -> Pixels:
    """The pixels of a drawing, one for each unit; shape (height, 680, 3)."""
    page = pypdfium2.PdfDocument(render_pdf(svg.svg_document(height, "T", "D", body, hatched), "f"))[0]
    assert page.get_size() == pytest.approx((510, height * 0.75))
    pixels: Pixels = page.render(scale=1 / 0.75, rev_byteorder=True).to_numpy()[:, :, :3]
    return pixels


def read(data: bytes) -> str:
    return str(pypdfium2.PdfDocument(data)[0].get_textpage().get_text_bounded())


def labelled(text: str) -> bytes:
    return render_pdf(svg.svg_document(50, "T", "D", svg.svg_text(10, 30, text)), "f")


def colours(pixels: Pixels) -> set[tuple[int, ...]]:
    return {tuple(pixel) for pixel in pixels.reshape(-1, 3).tolist()}


def dark(body: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = drawn(body).sum(axis=2) < 600
    return found


@pytest.mark.slow
def test_shapes_lie_where_the_drawing_has_them_in_the_light_colours() -> None:
    pixels = drawn(svg.element("rect", x=100, y=20, width=50, height=30, class_="f0"))
    assert colours(pixels[21:49, 101:149]) == {BLUE}
    rest = pixels.copy()
    rest[19:51, 99:151] = 255
    assert colours(rest) == {WHITE}
    mixed = [round(255 + (part - 255) * 0.16) for part in BLUE]
    box = drawn(svg.element("rect", x=100, y=20, width=50, height=30, class_="box"))
    assert box[35, 125] == pytest.approx(mixed, abs=2)


@pytest.mark.parametrize("series", range(1, svg.SERIES))
def test_hatchings_are_drawn_inside_their_bar_only(series: int) -> None:
    bar = svg.element("rect", x=100, y=20, width=70, height=56, class_=f"s{series}", fill=f"url(#@{series})")
    pixels = drawn(bar, hatched=True)
    inside = pixels[22:74, 102:168].astype(int).sum(axis=2)
    assert 0.1 < float((inside < 700).mean()) < 0.7
    assert (np.abs(inside[7:] - inside[:-7]) < 40).mean() > 0.95  # a cell is repeated every 7 units
    assert colours(pixels[:, :98]) == {WHITE}


def test_rotated_text_reads_from_bottom_to_top() -> None:
    found = dark(svg.svg_text(50, 90, "MMMM", transform="rotate(-90 50 90)"))
    rows, columns = np.flatnonzero(found.any(axis=1)), np.flatnonzero(found.any(axis=0))
    assert (rows.max(), columns.max()) == pytest.approx((89, 49), abs=2)
    assert rows.max() - rows.min() > 2 * (columns.max() - columns.min())


@pytest.mark.parametrize(("anchor", "share"), [("", 0.0), ("middle", 0.5), ("end", 1.0)])
@pytest.mark.parametrize("transform", ["", "rotate(-90 300 50)"])
def test_text_is_anchored(anchor: str, share: float, transform: str) -> None:
    columns = np.flatnonzero(
        dark(svg.svg_text(300, 50, "HHHHH", anchor, transform=transform)).any(axis=0 if not transform else 1)
    )
    first, last = columns.min(), columns.max()
    if transform:  # from bottom to top
        assert last == pytest.approx(50 + share * (last - first), abs=2)
    else:
        assert first == pytest.approx(300 - share * (last - first), abs=2)


@pytest.mark.parametrize(
    "text", ["nDCG′@10 ± 0.5 − 1", "λ ≥ Δ", "čeština ő đ", "модель-1", "difference, first", "(x) #set"]
)
def test_text_can_be_searched_and_copied(text: str) -> None:
    assert read(labelled(text)).strip() == text


def test_characters_that_the_fonts_lack_are_spelled() -> None:
    assert read(labelled("run-中文")).strip() == "run-[U+4E2D U+6587]"
    assert "[Devanagari, " in read(labelled("हिन्दी भाषा"))


def test_every_character_that_counts_as_in_the_fonts_has_a_glyph() -> None:
    """Typst writes the glyph 0 for a character without one, and only for that."""
    typst = pytest.importorskip("typst")
    chars = [char for code in range(0x3000) if in_fonts(char := chr(code)) and unicodedata.category(char)[0] != "Z"]
    assert len(chars) > 2500
    fonts = '("Libertinus Serif", "New Computer Modern Math", "DejaVu Sans Mono")'
    page = f"#set page(width: 5000pt, height: auto)\n#set text(font: {fonts})\n#sys.inputs.text"
    made = typst.compile(
        page.encode(),
        font_paths=typst.Fonts(include_system_fonts=False),
        sys_inputs={"text": " ".join(chars)},
        pretty=True,
    )
    assert not re.search(rb"\\000\\000", made)
    lacking = typst.compile(
        page.encode(), font_paths=typst.Fonts(include_system_fonts=False), sys_inputs={"text": "中"}, pretty=True
    )
    assert re.search(rb"\\000\\000", lacking)


FIGURES = {
    "dots": dot_interval([("a′", 0.1, -0.1, 0.2, True), ("b", float("nan"), 0, 0, False)], "difference in nDCG′"),
    "bars": grouped_bars(["x", "y"], list("abcdef"), [[0.1 * i for i in range(6)]] * 2, "P@10"),
    "spread": distribution([("a", [0.1, 0.5, 0.9]), ("b", [])], "AP"),
    "pairs": p_value_matrix(["a", "b"], [[float("nan"), 0.001], [0.001, float("nan")]]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_one_page_of_vectors_and_text(name: str) -> None:
    data = render_pdf(FIGURES[name], name)
    document = pypdfium2.PdfDocument(data)
    assert len(document) == 1
    kinds = {found.type for found in document[0].get_objects(max_depth=5)}
    assert pypdfium2.raw.FPDF_PAGEOBJ_TEXT in kinds
    assert pypdfium2.raw.FPDF_PAGEOBJ_IMAGE not in kinds
    found = read(data)
    words = re.findall(r"<text[^>]*>([^<&]+)</text>", FIGURES[name])
    assert words
    assert [word for word in words if word not in found] == []
    assert len(data) < 40_000


def test_the_same_drawing_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "import sys; from harness.render.pdf import render_pdf\n"
        "sys.stdout.buffer.write(render_pdf(sys.stdin.read(), 'f'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**same_paths(), "PYTHONHASHSEED": "1", "PYTHONUTF8": "1"},
        input=FIGURES["bars"].encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout == render_pdf(FIGURES["bars"], "f")
    assert b"/CreationDate" not in done.stdout


def test_what_cannot_be_drawn_is_refused() -> None:
    for body, said in (
        (svg.svg_text(0, 0, "x", transform="skewX(3)"), r"transform 'skewX\(3\)'"),
        (svg.svg_text(5, 5, "x", transform="rotate(-90 0 0)"), r"transform 'rotate\(-90 0 0\)'"),
        (svg.svg_text(0, 0, "x", "", "strange"), "text of class 'strange'"),
        (svg.element("g", svg.svg_text(0, 0, "x")), "text inside a group"),
        (svg.element("rect", width=5.0, height=5.0, fill="url(#gone)"), "pattern 'gone'"),
    ):
        with pytest.raises(HarnessError, match=f"^figure f: .*{said}"):
            render_pdf(svg.svg_document(20, "T", "D", body), "f")
    with pytest.raises(HarnessError, match=r"^figure f: element 'image'"):
        render_pdf('<svg xmlns="http://www.w3.org/2000/svg"><image/></svg>', "f")

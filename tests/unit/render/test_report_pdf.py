"""Figures as PDF: what PDFium draws and reads, and what fontTools says of the font inside."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import unicodedata
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pypdfium2
import pytest
from fontTools.ttLib import TTFont
from hypothesis import given, settings
from hypothesis import strategies as st
from process_tools import same_paths

from harness.errors import HarnessError
from harness.render import svg
from harness.render.figures import distribution, dot_interval, grouped_bars, p_value_matrix, per_topic_differences
from harness.render.model import spelled, visible
from harness.render.pdf import rules
from harness.render.truetype import font
from harness.render.write import render_pdf

BLUE, INK, ORANGE = (0x1D, 0x5C, 0x96), (0x1C, 0x21, 0x27), (0xB0, 0x4A, 0x12)
Pixels = npt.NDArray[np.uint8]


def drawn(body: str, height: float = 100, hatched: bool = False) -> Pixels:
    """The pixels of a drawing, one for each unit; shape (height, 680, 3)."""
    data = render_pdf(svg.document(height, "T", "D", body, hatched), "f")
    page = pypdfium2.PdfDocument(data)[0]
    assert page.get_size() == pytest.approx((510, height * 0.75))
    pixels: Pixels = page.render(scale=1 / 0.75, rev_byteorder=True).to_numpy()[:, :, :3]
    return pixels


def read(data: bytes) -> str:
    return str(pypdfium2.PdfDocument(data)[0].get_textpage().get_text_bounded())


def colours(pixels: Pixels) -> set[tuple[int, ...]]:
    return {tuple(pixel) for pixel in pixels.reshape(-1, 3).tolist()}


def embedded(data: bytes) -> TTFont:
    """The font file inside a PDF; fontTools checks its checksums."""
    found = re.search(rb"/Length1 \d+ /Length (\d+) /Filter /FlateDecode >>\nstream\n", data)
    assert found
    return TTFont(io.BytesIO(zlib.decompress(data[found.end() : found.end() + int(found[1])])), checkChecksums=2)


# Shapes and colours


def test_a_rectangle_lies_where_the_drawing_has_it() -> None:
    pixels = drawn(svg.element("rect", x=100, y=20, width=50, height=30, class_="f0"))
    assert colours(pixels[20:50, 100:150]) == {BLUE}
    rest = pixels.copy()
    rest[20:50, 100:150] = 255
    assert colours(rest) == {(255, 255, 255)}


def test_circles_paths_and_lines_cover_their_areas() -> None:
    body = svg.element("circle", cx=60, cy=50, r=20, class_="f0")
    body += svg.element("path", d="M200 20h40v40h-40z", class_="f0") + svg.element("path", d="M300 20L340 20L320 60Z")
    body += svg.line(400, 50, 500, 50, "zero")
    light = drawn(body).sum(axis=2)
    shares = [(765 - light[:, left : left + 60]) / (765 - full) for left, full in ((30, 271), (190, 271), (290, 0))]
    assert [float(share.sum()) for share in shares] == pytest.approx([np.pi * 400, 1600, 800], rel=0.01)
    dark = light < 600
    assert dark[49:51, 405:495].any(axis=0).all()
    assert not dark[:45, 400:500].any()


def test_opacity_mixes_with_the_ground() -> None:
    pixels = drawn(svg.element("rect", x=100, y=20, width=50, height=30, class_="box"))
    mixed = [round(255 + (part - 255) * 0.16) for part in BLUE]
    assert pixels[35, 125] == pytest.approx(mixed, abs=1)


@pytest.mark.parametrize("series", range(1, svg.SERIES))
def test_hatchings_are_drawn_inside_their_bar_only(series: int) -> None:
    bar = svg.element("rect", x=100, y=20, width=70, height=56, class_=f"s{series}", fill=f"url(#@{series})")
    pixels = drawn(bar, hatched=True)
    inside = pixels[22:74, 102:168].astype(int).sum(axis=2)
    assert 0.1 < float((inside < 700).mean()) < 0.7
    # The cell is repeated every 7 units in both directions.
    assert (inside[7:] == inside[:-7]).mean() > 0.95
    assert (inside[:, 7:] == inside[:, :-7]).mean() > 0.95
    assert colours(pixels[:, :98]) == {(255, 255, 255)}


def test_rotated_text_reads_from_bottom_to_top() -> None:
    dark = drawn(svg.text(50, 90, "MMMM", transform="rotate(-90 50 90)")).sum(axis=2) < 600
    rows, columns = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
    assert (rows.max(), columns.max()) == pytest.approx((89, 49), abs=2)
    assert rows.max() - rows.min() == pytest.approx(font().width("MMMM") * svg.FONT, abs=5)
    assert columns.max() - columns.min() < svg.FONT


@pytest.mark.parametrize(("anchor", "share"), [("", 0), ("middle", 0.5), ("end", 1)])
def test_text_is_anchored(anchor: str, share: float) -> None:
    dark = drawn(svg.text(300, 50, "HHHHHHHH", anchor)).sum(axis=2) < 600
    columns = np.flatnonzero(dark.any(axis=0))
    width = font().width("HHHHHHHH") * svg.FONT
    assert columns.min() == pytest.approx(300 - share * width, abs=3)
    assert columns.max() == pytest.approx(300 + (1 - share) * width, abs=3)


def test_heavy_text_is_darker_and_a_halo_hides_what_is_below() -> None:
    weight = [float((255 - drawn(svg.text(20, 50, "heavy", "", c)).astype(float)).sum()) for c in ("", "big")]
    assert weight[1] > 1.1 * weight[0]
    ground = svg.element("rect", x=0, y=0, width=680, height=100, class_="f0")
    assert colours(drawn(ground + svg.text(20, 50, "x", "", "halo"))) > {BLUE, (255, 255, 255)}


# Text


def label(text: str) -> str:
    """What stands in a drawing for a text."""
    return spelled(unicodedata.normalize("NFC", visible(text)), font().glyphs.__contains__)


@pytest.mark.parametrize(
    "text", ["nDCG′@10 ± 0.5 − 1", "λ ≥ Δ", "čeština ő đ", "модель-1", "a→b ≠ c", "(x) \\ endstream"]
)
def test_text_is_text_and_can_be_copied(text: str) -> None:
    assert read(render_pdf(svg.document(50, "T", "D", svg.text(10, 30, text)), "f")).strip() == text


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(max_codepoint=0x5FF), max_size=10))  # escaped, it still fits the page
def test_any_text_gives_a_file_that_reads(text: str) -> None:
    data = render_pdf(svg.document(50, "T", "D", svg.text(10, 30, text)), "f")
    found = read(data)
    for word in re.findall(r"[0-9A-Za-zА-яα-ω]{2,}", label(text)):
        assert word in found or any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)
    embedded(data)


def test_characters_that_the_font_lacks_are_spelled() -> None:
    assert (
        read(render_pdf(svg.document(50, "T", "D", svg.text(10, 30, "run-中文")), "f")).strip() == "run-[U+4E2D U+6587]"
    )
    assert "[Devanagari, " in read(render_pdf(svg.document(50, "T", "D", svg.text(10, 30, "हिन्दी भाषा")), "f"))


def test_arabic_letters_are_joined_and_copied_as_they_were_written() -> None:
    data = render_pdf(svg.document(50, "T", "D", svg.text(10, 30, "run سلام")), "f")
    glyphs = {name for name, outline in zip(range(99999), glyph_sizes(embedded(data)), strict=False) if outline}
    wanted = {font().glyphs[char] for char in "runﺳﻼﻡ"}  # initial, ligature of lam and alef, isolated
    assert wanted <= glyphs
    assert font().glyphs["س"] not in glyphs
    assert set("سلام") <= set(read(data))


# The font


def glyph_sizes(inner: TTFont) -> list[int]:
    return [end - start for start, end in zip(inner["loca"], list(inner["loca"])[1:], strict=False)]


def test_the_font_holds_the_glyphs_that_are_used_and_no_other() -> None:
    text = "Ač ±"
    inner = embedded(render_pdf(svg.document(50, "T", "D", svg.text(10, 30, text)), "f"))
    whole = TTFont(Path(svg.__file__).parent / "fonts" / "DejaVuSansCondensed.ttf")
    cmap, order = whole.getBestCmap(), whole.getGlyphOrder()
    assert {char: order.index(name) for char, name in ((c, cmap[ord(c)]) for c in text)} == {
        char: font().glyphs[char] for char in text
    }
    used = {order[0], *(cmap[ord(char)] for char in text)}
    used |= {
        part.glyphName for name in used if whole["glyf"][name].isComposite() for part in whole["glyf"][name].components
    }
    sizes = glyph_sizes(inner)
    assert {order[number] for number, size in enumerate(sizes) if size} == used - {"space"}
    outlines = [(f.reader["glyf"], list(f["loca"])) for f in (inner, whole)]
    for number in (order.index(name) for name in used - {"space"}):
        here, there = (glyf[loca[number] : loca[number + 1]] for glyf, loca in outlines)
        assert here.rstrip(b"\0") == there.rstrip(b"\0")
    assert {c: font().widths[font().glyphs[c]] for c in text} == {
        c: round(whole["hmtx"][cmap[ord(c)]][0] * 1000 / 2048) for c in text
    }


def test_the_licence_of_the_font_lies_beside_it() -> None:
    folder = Path(svg.__file__).parent / "fonts"
    carried = TTFont(folder / "DejaVuSansCondensed.ttf")["name"].getDebugName(13)
    assert " ".join(carried.split()) in " ".join((folder / "LICENSE.txt").read_text("utf-8").split())


# The whole


FIGURES = {
    "dots": dot_interval([("a′", 0.1, -0.1, 0.2, True), ("b", float("nan"), 0, 0, False)], "difference in nDCG′"),
    "bars": grouped_bars(["x", "y"], list("abcdef"), [[0.1 * i for i in range(6)]] * 2, "P@10"),
    "topics": per_topic_differences([f"T{i}" for i in range(20)], [0.1 * (i - 9) for i in range(20)], "a − b"),
    "spread": distribution([("a", [0.1, 0.5, 0.9]), ("b", [])], "AP"),
    "pairs": p_value_matrix(["a", "b"], [[float("nan"), 0.001], [0.001, float("nan")]]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_one_page_of_vectors_and_text(name: str) -> None:
    data = render_pdf(FIGURES[name], name)
    document = pypdfium2.PdfDocument(data)
    assert len(document) == 1
    kinds = {found.type for found in document[0].get_objects(max_depth=5)}
    assert kinds <= {pypdfium2.raw.FPDF_PAGEOBJ_PATH, pypdfium2.raw.FPDF_PAGEOBJ_TEXT}
    words = re.findall(r"<text[^>]*>([^<]+)</text>", FIGURES[name])
    found = read(data)
    assert words
    assert all(word in found for word in words if "&" not in word)
    assert len(data) < 40_000


def test_the_same_drawing_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "import sys, hashlib; from harness.render.write import render_pdf\n"
        "print(hashlib.sha256(render_pdf(sys.stdin.read(), 'f')).hexdigest())"
    )
    digest = hashlib.sha256(render_pdf(FIGURES["bars"], "f")).hexdigest()
    for seed in ("1", "2"):
        environment = {**same_paths(), "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            input=FIGURES["bars"],
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        assert done.stdout.strip() == digest
    assert b"/CreationDate" not in render_pdf(FIGURES["bars"], "f")


def test_every_property_of_the_style_is_known() -> None:
    """A property that the style gains must be drawn here too, or be known to have no effect."""
    declared = set(re.findall(r"[{;]([a-z][a-z-]*):", svg.STYLE)) - {"prefers-color-scheme"}
    drawn = {"fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray"}
    drawn |= {"font", "font-size", "font-weight", "paint-order"}
    without_effect = {"font-variant-numeric"}
    assert declared <= drawn | without_effect


def test_every_element_and_attribute_of_a_drawing_is_known() -> None:
    """The vocabulary of `svg.check` is written out again: what it gains must be drawn here too."""
    assert " ".join(sorted(svg.ELEMENTS)) == "circle defs desc g line path pattern rect style svg text title"
    assert " ".join(sorted(svg.ATTRIBUTES)) == (
        "aria-labelledby class cx cy d fill height id patternUnits r role text-anchor transform viewBox width "
        "x x1 x2 y y1 y2"
    )


def test_dashes_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg, "STYLE", f"{svg.STYLE}.fig .zero{{stroke-dasharray:10 10}}")
    rules.cache_clear()
    dark = drawn(svg.line(100, 50, 180, 50, "zero")).sum(axis=2)[49:51].min(axis=0) < 600
    rules.cache_clear()
    assert dark[101:109].all()
    assert not dark[111:119].any()
    assert int(dark.sum()) == pytest.approx(40, abs=8)


def test_what_cannot_be_drawn_is_refused() -> None:
    for body, said in (
        (svg.element("path", d="M0 0A5 5 0 0 0 9 9", class_="f0"), "path command 'A'"),
        (svg.text(0, 0, "x", transform="skewX(3)"), r"transform 'skewX\(3\)'"),
        (svg.element("rect", width=5.0, height=5.0, fill="url(#gone)"), "pattern 'gone'"),
        (svg.element("rect", width=5.0, height=5.0, fill="tomato"), "colour 'tomato'"),
    ):
        with pytest.raises(HarnessError, match=f"^figure f: .*{said}"):
            render_pdf(svg.document(20, "T", "D", body), "f")
    with pytest.raises(HarnessError, match=r"^figure f: element 'image'"):
        render_pdf('<svg xmlns="http://www.w3.org/2000/svg"><image/></svg>', "f")

"""Renders figures as PDF by Typst (the extra `pdf`): vector graphics and searchable text in embedded fonts.

Typst draws the shapes of an SVG but has no CSS variables and places text letter by letter. So this module fills in
colours and sets labels as text of the page.
"""

from __future__ import annotations

import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from harness.errors import HarnessError
from harness.render import svg
from harness.render.texchars import spelled

SHAPES = (".pdf", ".svg", ".png")  # endings of the files that a figure is written as
_DENSITY = 300.0  # of PNG, dots per inch
INSTALL = "pip install 'mathir-harness[pdf]'"
_TEMPLATE = Path(__file__).parent / "templates" / "figure.typ"
# Latin, combining marks, Greek and Cyrillic; extended Latin and Greek, punctuation, letterlike signs; arrows,
# operators, technical signs; boxes and shapes: complete in the fonts embedded in Typst.
_IN_FONTS = ((0x20, 0x500), (0x1E00, 0x2150), (0x2190, 0x2400), (0x2500, 0x2600))
_ROTATED = re.compile(r"rotate\((-?[\d.]+) (-?[\d.]+) (-?[\d.]+)\)")
_CLASSES = {"soft", "big", "halo", "on"}


def can_render() -> bool:
    """Returns whether Typst is installed."""
    return find_spec("typst") is not None


def in_fonts(char: str) -> bool:
    """Returns whether the fonts embedded in Typst have the character."""
    return any(low <= ord(char) < high for low, high in _IN_FONTS) and unicodedata.category(char)[0] != "C"


def render_drawing(drawing: str, name: str, shape: str) -> str | bytes:
    """Renders a drawing in one of `SHAPES`; raises HarnessError as `render_pdf`, of which SVG needs no Typst."""
    if shape == ".svg":
        return svg.stand_alone(drawing, name)
    return render_pdf(drawing, name, "png" if shape == ".png" else "pdf")


def render_pdf(drawing: str, name: str, form: Literal["pdf", "png"] = "pdf") -> bytes:
    """Renders a drawing of `harness.render.svg` as a one-page PDF of its size, in light colours; or as PNG.

    The same drawing gives the same bytes. Characters that the fonts lack are replaced by codes as in LaTeX.

    Raises
    ------
    HarnessError
        Typst is not installed, or the drawing contains SVG that `harness.render.svg` does not write.
    """
    if not can_render():
        raise HarnessError(f"figure {name}: Typst, which writes {form.upper()}, is not installed: {INSTALL}")
    import typst

    figure = json.dumps(_parts(svg.check(drawing, name), name))
    try:
        fonts, inputs, ppi = _own_fonts(), {"figure": figure}, _DENSITY if form == "png" else None
        made = typst.compile(_TEMPLATE.read_bytes(), font_paths=fonts, sys_inputs=inputs, format=form, ppi=ppi)
    except typst.TypstError as error:
        raise HarnessError(f"figure {name}: Typst cannot draw it: {error}") from None
    return bytes(made)


@cache
def _own_fonts() -> Any:  # noqa: ANN401 - typst.Fonts, of an optional library
    import typst

    return typst.Fonts(include_system_fonts=False, include_embedded_fonts=True)


def _parts(drawing: str, name: str) -> dict[str, object]:
    """Returns the template's variables: the drawing in plain colours without labels, and the labels."""
    root = ET.fromstring(drawing)  # noqa: S314 - checked element by element
    texts = {_tag_name(node): node.text or "" for node in root if _tag_name(node) in ("title", "desc")}
    patterns = {node.attrib["id"] for node in root.iter() if _tag_name(node) == "pattern"}
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    labels = []
    for node in list(root):
        if _tag_name(node) == "text":
            labels.append(_label(node, name))
            root.remove(node)
        elif _tag_name(node) == "style":
            node.text = svg.LIGHT_STYLE
    for node in root.iter():
        if _tag_name(node) == "text":
            raise HarnessError(f"figure {name}: text inside a group, which PDF would leave out")
        fill = re.fullmatch(r"url\(#(.+)\)", node.attrib.get("fill", ""))
        if fill and fill[1] not in patterns:
            raise HarnessError(f"figure {name}: refers to an unknown pattern {fill[1]!r}")
    return {
        "title": texts.get("title", ""),
        "description": texts.get("desc", ""),
        "width": width,
        "height": height,
        "font": svg.FONT,
        "drawing": ET.tostring(root, encoding="unicode"),
        "labels": labels,
    }


def _label(node: ET.Element, name: str) -> dict[str, object]:
    """Returns the position, style and content of one text of a drawing."""
    classes = set(node.attrib.get("class", "").split())
    if unknown := classes - _CLASSES:
        raise HarnessError(f"figure {name}: text of class {min(unknown)!r}, expected some of {sorted(_CLASSES)}")
    x, y = (float(node.attrib.get(key, "0")) for key in ("x", "y"))
    angle = 0.0
    if turned := node.attrib.get("transform"):
        match = _ROTATED.fullmatch(turned)
        if not match or abs(float(match[2]) - x) > 0.01 or abs(float(match[3]) - y) > 0.01:
            raise HarnessError(
                f"figure {name}: transform {turned!r}, expected rotate(ANGLE X Y) around the text's X, Y"
            )
        angle = float(match[1])
    return {
        "x": x,
        "y": y,
        "angle": angle,
        "anchor": node.attrib.get("text-anchor", "start"),
        "colour": svg.LIGHT["bg" if "on" in classes else "soft" if "soft" in classes else "ink"],
        "weight": 600 if "big" in classes else 400,
        "halo": "halo" in classes,
        "text": spelled(unicodedata.normalize("NFC", "".join(node.itertext())), in_fonts),
    }


def _tag_name(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]

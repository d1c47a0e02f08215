"""The SVG elements used in figures, their style, and the check that a drawing contains nothing else.

Coordinates are in user units of the `viewBox`; 1 unit is about 1 CSS pixel when the figure is 680 pixels wide.
"""

from __future__ import annotations

import hashlib
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from types import MappingProxyType

from harness.errors import HarnessError
from harness.render.model import visible

WIDTH = 680.0
FONT = 13.0
LINE = 15.0  # height of a line of text
SERIES = 6
NAMESPACE = "http://www.w3.org/2000/svg"

LIGHT = MappingProxyType(
    {
        "bg": "#fff",
        "ink": "#1c2127",
        "soft": "#59626c",
        "rule": "#d5dade",
        "c0": "#1d5c96",
        "c1": "#b04a12",
        "c2": "#1f7550",
        "c3": "#84478c",
        "c4": "#7d6200",
        "c5": "#59626c",
    }
)
_DARK = (
    "--bg:#15191d;--ink:#e4e7ea;--soft:#a3adb7;--rule:#39424b;"
    "--c0:#7fb6ec;--c1:#f0985f;--c2:#63c99c;--c3:#d09cd8;--c4:#d8b548;--c5:#a3adb7"
)
_RULES = (
    ".fig text{fill:var(--ink);font-variant-numeric:tabular-nums}.fig .soft{fill:var(--soft)}.fig .big{font-weight:600}"
    ".fig .paper,.fig text.on{fill:var(--bg)}"
    ".fig .halo{paint-order:stroke;stroke:var(--bg);stroke-width:5}"
    ".fig .rule{stroke:var(--rule);stroke-width:1}.fig .axis{stroke:var(--soft);stroke-width:1}"
    ".fig .zero{stroke:var(--ink);stroke-width:1.2}.fig .margin{stroke:var(--ink);stroke-dasharray:5 4}"
    + "".join(f".fig .f{i}{{fill:var(--c{i})}}.fig .s{i}{{stroke:var(--c{i});stroke-width:1.6}}" for i in range(SERIES))
    + ".fig .box{fill:var(--c0);fill-opacity:.16;stroke:var(--c0);stroke-width:1.4}.fig .dot{fill-opacity:.5}"
    ".fig .l1{fill:var(--c0);fill-opacity:.16}.fig .l2{fill:var(--c0);fill-opacity:.42}.fig .l3{fill:var(--c0)}"
)
_FONTS = f"font:{FONT:g}px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
STYLE = (
    f".fig{{{';'.join(f'--{name}:{colour}' for name, colour in LIGHT.items())};{_FONTS}}}"
    f"@media screen and (prefers-color-scheme:dark){{.fig{{{_DARK}}}}}{_RULES}"
)
# Style for renderers without CSS variables and colour schemes.
LIGHT_STYLE = f".fig{{{_FONTS}}}" + re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], _RULES)

ELEMENTS = {"svg", "title", "desc", "style", "defs", "pattern", "g", "rect", "line", "circle", "path", "text"}
ATTRIBUTES = {"x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "d", "width", "height", "viewBox", "id", "class"}
ATTRIBUTES |= {"fill", "transform", "text-anchor", "role", "aria-labelledby", "patternUnits"}
_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def escape(text: str) -> str:
    """Escapes plain text for the content of an element or an attribute in double quotes."""
    return re.sub('[&<>"]', lambda match: _MARKUP[match[0]], visible(text))


def num(value: float) -> str:
    """Formats a coordinate, rounded to a hundredth of a unit."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(name: str, content: str = "", **attributes: str | float) -> str:
    """Formats an element. `content` is markup; in attribute names `_` becomes `-`, and a trailing `_` is dropped."""
    parts = [name]
    for key, value in attributes.items():
        shown = escape(value) if isinstance(value, str) else num(value)
        if shown:
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{shown}"')
    head = " ".join(parts)
    return f"<{head}>{content}</{name}>" if content else f"<{head}/>"


def svg_text(x: float, y: float, content: str, anchor: str = "", class_: str = "", *, transform: str = "") -> str:
    """Draws plain text with its baseline at (x, y); `anchor` is middle, end or empty for start."""
    return element("text", escape(content), x=x, y=y, text_anchor=anchor, class_=class_, transform=transform)


def lines_of_text(x: float, y: float, lines: Sequence[str], anchor: str = "", class_: str = "") -> str:
    """Draws lines of plain text below each other, around the height y."""
    top = y + 4.5 - LINE * (len(lines) - 1) / 2
    return "".join(svg_text(x, top + LINE * index, content, anchor, class_) for index, content in enumerate(lines))


def svg_line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """Draws a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def square(x: float, y: float, radius: float, class_: str, hint: str = "") -> str:
    """Draws a square around a point; `hint` is the markup of its tooltip."""
    return element("rect", hint, x=x - radius, y=y - radius, width=2 * radius, height=2 * radius, class_=class_)


def disc(x: float, y: float, radius: float, class_: str, hint: str = "") -> str:
    """Draws a disc; `hint` as in `square`."""
    return element("circle", hint, cx=x, cy=y, r=radius, class_=class_)


def diamond(x: float, y: float, radius: float, class_: str, hint: str = "") -> str:
    """Draws a diamond; `hint` as in `square`."""
    outline = f"M{x - radius:.2f} {y:.2f}L{x:.2f} {y - radius:.2f}L{x + radius:.2f} {y:.2f}L{x:.2f} {y + radius:.2f}Z"
    return element("path", hint, d=outline, class_=class_)


def tip(content: str) -> str:
    """Returns the tooltip of an element."""
    return element("title", escape(content))


def drawable(value: float) -> bool:
    """Returns whether a number can be placed on an axis: finite, and not so large that differences overflow."""
    return math.isfinite(value) and abs(value) <= 1e100


_WORDS = re.compile(r"[^\s,/_-]+[\s,/_-]*|[\s,/_-]+")  # words with the signs after them

# Widths in units of the font size, from DejaVu Sans, the widest font that browsers use for sans-serif.
_WIDTHS = (
    dict.fromkeys("il.,:;'|!jI·′", 0.38)
    | dict.fromkeys('ftr()[]{}/\\-* "°', 0.43)
    | dict.fromkeys("mwMWQOGDNHUV%@&–—…→±−+=<>~_", 0.86)
    | dict.fromkeys("mMW%@", 1.0)
)


def text_width(content: str, strong: bool = False) -> float:
    """Returns an upper estimate of the width of a text in user units; `strong` text is a tenth wider."""
    return FONT * sum(map(_ems, visible(content))) * (1.12 if strong else 1.0)


def _ems(char: str) -> float:
    """Returns the width of a character in units of the font size."""
    return _WIDTHS.get(char) or (1.0 if ord(char) > 0x2E7F else 0.74 if char.isupper() else 0.64)


def clip(content: str, width: float, strong: bool = False) -> str:
    """Returns the text; its middle is replaced by an ellipsis if it would be wider than `width` user units."""
    shown = visible(content)
    if text_width(shown, strong) <= width:
        return shown
    for keep in range(len(shown) - 1, 1, -1):
        cut = f"{shown[: (keep + 1) // 2].rstrip()}…{shown[len(shown) - keep // 2 :].lstrip()}"
        if text_width(cut, strong) <= width or keep == 2:
            return cut
    return shown


def shorten(labels: Sequence[str], width: float, strong: bool = False) -> list[str]:
    """Returns labels without the words that all begin or end with, if one is wider than `width` user units.

    Examples
    --------
    >>> shorten(["a long name of a model, k1=0.9", "a long name of a model, k1=1.2"], 100)
    ['…k1=0.9', '…k1=1.2']
    """
    if all(text_width(visible(label), strong) <= width for label in labels):
        return [visible(label) for label in labels]
    words = [_WORDS.findall(label) for label in labels]
    most = min(map(len, words), default=1) - 1 if len(set(labels)) > 1 else 0  # something is left of each
    begin = next((at for at in range(most) if len({of[at] for of in words}) > 1), most)
    end = next((at for at in range(most - begin) if len({of[-1 - at] for of in words}) > 1), most - begin)
    kept = ["".join(of[begin : len(of) - end]).strip() for of in words]
    return [visible(f"{'…' * bool(begin)}{label}{'…' * bool(end)}") for label in kept]


def wrap(label: str, width: float, strong: bool = False, most: int = 4) -> list[str]:
    """Returns a label in at most `most` lines that fit a width, broken after blanks and signs.

    A word that is too wide, or what is left for the last line, loses its middle.
    """
    lines = [""]
    for word in _WORDS.findall(visible(label)):
        if lines[-1] and len(lines) < most and text_width(f"{lines[-1]}{word}".rstrip(), strong) > width:
            lines.append("")
        lines[-1] += word
    return [clip(line.strip(), width, strong) for line in lines]


def widest_word(labels: Sequence[str]) -> float:
    """Returns the width of the widest part of a label that `wrap` does not break."""
    return max((text_width(word.strip()) for label in labels for word in _WORDS.findall(visible(label))), default=0.0)


def ticks(low: float, high: float, count: int = 5, whole: bool = False) -> tuple[float, ...]:
    """Returns about `count` round numbers, at least two, that cover [low, high]; both ends are drawable.

    Parameters
    ----------
    whole : only whole numbers.
    """
    size = max(abs(low), abs(high))
    if high - low <= 1e-9 * max(size, 1.0):
        pad = 1.0 if whole else size / 2 if size > 1e-9 else 0.5
        low, high = low - pad, high + pad
    raw = max((high - low) / count, 1.0) if whole else (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    factors = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
    step = next((factor * power for factor in factors if factor * power >= raw * 0.999), 10 * power)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(index * step, 12) for index in range(first, last + 1))


def tick_label(value: float, all_ticks: Sequence[float]) -> str:
    """Formats a tick's number with the decimals that the axis needs."""
    step = all_ticks[1] - all_ticks[0] if len(all_ticks) > 1 else 1.0
    decimals = max(0, math.ceil(-math.log10(step) - 1e-9)) if step > 0 else 0
    if step > 0 and abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6:
        decimals += 1
    if abs(value) >= 1e6 or decimals > 6:
        return f"{value:.2g}"
    return f"{value:,.{decimals}f}".replace("-", "−")


def hatches(prefix: str) -> str:
    """Defines the hatchings of the series, which differ without colour: diagonals, dots, horizontals, crosses."""
    strokes = {1: "M0 7L7 0", 2: "M0 0L7 7", 4: "M0 3.5H7", 5: "M0 0L7 7M0 7L7 0"}
    patterns = []
    for index in range(1, SERIES):
        mark = (
            element("path", d=strokes[index], class_=f"s{index}")
            if index in strokes
            else element("circle", cx=3.5, cy=3.5, r=1.7, class_=f"f{index}")
        )
        ground = element("rect", width=7.0, height=7.0, class_="paper")
        patterns.append(
            element(
                "pattern", ground + mark, id=f"{prefix}{index}", width=7.0, height=7.0, patternUnits="userSpaceOnUse"
            )
        )
    return element("defs", "".join(patterns))


def svg_document(height: float, title: str, description: str, body: str, hatched: bool = False) -> str:
    """Assembles a drawing that is valid as a file and inside HTML.

    `body` refers to the patterns of `hatches` as `url(#@1)` to `url(#@5)`. Their ids are derived from the content, so
    that one page can contain several drawings.
    """
    title, description = escape(title) or "Figure", escape(description) or "No description"
    key = hashlib.sha256(f"{title}\0{description}\0{body}".encode()).hexdigest()[:10]
    inner = (
        element("title", title, id=f"t{key}")
        + element("desc", description, id=f"d{key}")
        + f"<style>{STYLE}</style>"
        + (hatches(f"h{key}-") if hatched else "")
        + element("rect", width=WIDTH, height=height, class_="paper")
        + body.replace('fill="url(#@', f'fill="url(#h{key}-')
    )
    return (
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {num(WIDTH)} {num(height)}" class="fig" role="img" '
        f'aria-labelledby="t{key} d{key}">{inner}</svg>'
    )


def check(svg: str, name: str) -> str:
    """Checks that a drawing contains only what this module writes; returns it.

    Raises
    ------
    HarnessError
        It is not XML, or has an element, attribute, style or reference that this module does not write.
    """
    if "<!" in svg or "<?" in svg:
        raise HarnessError(f"figure {name}: has a declaration, a comment or a document type; expected a bare <svg>")
    try:
        root = ET.fromstring(svg)  # noqa: S314 - entities need a document type, refused above
    except ET.ParseError as error:
        raise HarnessError(f"figure {name}: not XML: {error}") from None
    for node in root.iter():
        space, _, tag = node.tag.rpartition("}")
        if space != f"{{{NAMESPACE}" or tag not in ELEMENTS or (tag == "svg") != (node is root):
            raise HarnessError(f"figure {name}: element {tag!r} is not allowed")
        if tag == "style" and node.text != STYLE:
            raise HarnessError(f"figure {name}: its style is not allowed")
        for key, value in node.attrib.items():
            reference = key == "fill" and re.fullmatch(r"url\(#[A-Za-z0-9-]+\)", value)
            if key not in ATTRIBUTES or ("url" in value.lower() and key not in {"id", "class"} and not reference):
                raise HarnessError(f"figure {name}: attribute {key!r} is not allowed")
    return svg


def stand_alone(drawing: str, name: str) -> str:
    """Returns a drawing for a file of its own, in literal light colours: most programs but browsers show CSS variables
    as black.

    Raises
    ------
    HarnessError
        As `check`.
    """
    return check(drawing, name).replace(STYLE, LIGHT_STYLE, 1)

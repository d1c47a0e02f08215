"""A figure as PDF: vectors and text in an embedded font, as publishers want it; the same drawing gives the same bytes.

Only drawings of `harness.render.svg` are read, whose few elements and one style sheet are all that there is to know;
libraries that read any SVG know neither the variables of that style nor the patterns of bars, and are large.
The operators are those of ISO 32000-1.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from harness.errors import HarnessError
from harness.render import svg
from harness.render.model import spelled
from harness.render.shaping import drawn
from harness.render.truetype import font

Style = Mapping[str, str]

POINTS = 0.75  # of one unit of a drawing: a CSS pixel
_INITIAL = {"fill": "#000", "stroke": "none", "stroke-width": "1", "fill-opacity": "1", "font-weight": "400"}
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_AT_RULE = re.compile(r"@[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
_SELECTOR = re.compile(r"\.fig(?:\s+([a-z]*)((?:\.[\w-]+)*))?")
_ARC = 0.5523  # how far the control points of a quarter of a circle lie from its ends
_SILENT = ("title", "desc", "style", "defs", "pattern")


def render_pdf(drawing: str, name: str) -> bytes:
    """A drawing of `harness.render.svg` as a PDF of one page of its size, in its light colours.

    Raises
    ------
    HarnessError
        The drawing holds what that module does not write.
    """
    root = ET.fromstring(svg.check(drawing, name))  # noqa: S314 - checked element by element
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    patterns = {node.attrib["id"]: node for node in root.iter() if _tag(node) == "pattern"}
    page = _Page(name, height, patterns, _computed(root, _INITIAL))
    body = f"{_n(POINTS)} 0 0 {_n(-POINTS)} 0 {_n(height * POINTS)} cm\n" + page.children(root, page.style)
    title = next((node.text or "" for node in root if _tag(node) == "title"), "")
    return _file(page, body, (width * POINTS, height * POINTS), title)


@dataclass
class _Page:
    """What a page needs besides its content, found while it is drawn.

    Attributes
    ----------
    patterns, used : id -> element of each pattern; id -> content of the cell of those that occur.
    style : of the whole drawing.
    glyphs : glyph -> the text that it stands for.
    """

    name: str
    height: float
    patterns: Mapping[str, ET.Element]
    style: Style
    used: dict[str, str] = field(default_factory=dict)
    glyphs: dict[int, str] = field(default_factory=dict)
    opacities: dict[str, str] = field(default_factory=dict)

    def children(self, node: ET.Element, style: Style) -> str:
        return "".join(self.element(child, style) for child in node)

    def element(self, node: ET.Element, inherited: Style) -> str:
        tag = _tag(node)
        if tag in _SILENT:
            return ""
        style = _computed(node, inherited)
        if tag == "g":
            content = self.children(node, style)
        elif tag == "text":
            content = self.text(node, style)
        else:
            content = self.shape(_outline(node, tag, self.name), style, open_=tag == "line")
        transform = node.attrib.get("transform")
        return f"q\n{_matrix(transform, self.name)} cm\n{content}Q\n" if transform else content

    def shape(self, outline: str, style: Style, *, open_: bool) -> str:
        """An outline filled and drawn. One that is not closed has no inside: the lines of hatchings."""
        filled = style["fill"] != "none" and not open_ and "h\n" in outline
        stroked = style["stroke"] != "none" and float(style["stroke-width"]) > 0
        if not filled and not stroked:
            return ""
        state = (self.paint(style["fill"], "fill") if filled else "") + (self.line(style) if stroked else "")
        if filled and float(style["fill-opacity"]) < 1:
            state += self.opacity(style["fill-opacity"])
        return f"q\n{state}{outline}{'B' if filled and stroked else 'f' if filled else 'S'}\nQ\n"

    def line(self, style: Style) -> str:
        dashes = style.get("stroke-dasharray", "none")
        pattern = " ".join(re.split(r"[\s,]+", dashes.strip())) if dashes != "none" else ""
        return f"{self.paint(style['stroke'], 'stroke')}{_n(float(style['stroke-width']))} w\n[{pattern}] 0 d\n"

    def paint(self, value: str, what: str) -> str:
        if found := re.fullmatch(r"url\(#(.+)\)", value):
            return f"/Pattern cs /{self.pattern(found[1])} scn\n"
        return f"{_colour(value, self.name)} {'rg' if what == 'fill' else 'RG'}\n"

    def pattern(self, name: str) -> str:
        if name not in self.patterns:
            raise HarnessError(f"figure {self.name}: refers to a pattern {name!r} that it does not hold")
        if name not in self.used:
            self.used[name] = ""
            self.used[name] = self.children(self.patterns[name], self.style)
        return f"P{list(self.used).index(name)}"

    def opacity(self, value: str) -> str:
        return f"/{self.opacities.setdefault(value, f'G{len(self.opacities)}')} gs\n"

    def text(self, node: ET.Element, style: Style) -> str:
        """A line of text; letters of a heavier weight have a thin outline of their own colour."""
        letters = font()
        written = unicodedata.normalize("NFC", "".join(node.itertext()))
        shown, width = [], 0.0
        for char, stands_for in drawn(spelled(written, letters.glyphs.__contains__)):
            glyph = letters.glyphs.get(char, letters.glyphs.get(stands_for[:1], 0))
            self.glyphs.setdefault(glyph, stands_for)
            shown.append(f"{glyph:04X}")
            width += letters.widths[glyph] / 1000
        size = float(style.get("font-size", f"{svg.FONT}").removesuffix("px"))
        x, y = (float(node.attrib.get(key, "0")) for key in ("x", "y"))
        x -= width * size * {"middle": 0.5, "end": 1.0}.get(node.attrib.get("text-anchor", ""), 0.0)
        line = f"BT /F {_n(size)} Tf 1 0 0 -1 {_n(x)} {_n(y)} Tm {{}} Tr <{''.join(shown)}> Tj ET\n"
        parts = []
        if style["stroke"] != "none":  # a halo: painted before the letters
            parts.append(f"q\n1 j\n{self.line(style)}{line.format(1)}Q\n")
        bold = int(style["font-weight"]) >= 600
        outline = f"1 j\n{_colour(style['fill'], self.name)} RG\n{_n(size * 0.035)} w\n" if bold else ""
        return "".join([*parts, f"q\n{self.paint(style['fill'], 'fill')}{outline}{line.format(2 if bold else 0)}Q\n"])


def _tag(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]


def _n(value: float) -> str:
    """A number as PDF has it: no exponent, at most four decimals."""
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _colour(value: str, name: str) -> str:
    digits = value.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    if not re.fullmatch("[0-9a-fA-F]{6}", digits):
        raise HarnessError(f"figure {name}: colour {value!r}, expected one such as '#1d5c96'")
    return " ".join(_n(int(digits[place : place + 2], 16) / 255) for place in (0, 2, 4))


def _matrix(transform: str, name: str) -> str:
    """The matrix of `rotate(A)`, `rotate(A X Y)` or `translate(X Y)`."""
    kind, _, rest = transform.partition("(")
    numbers = [float(part) for part in re.split(r"[\s,]+", rest.rstrip(") ")) if part]
    if kind == "translate" and len(numbers) == 2:
        return f"1 0 0 1 {_n(numbers[0])} {_n(numbers[1])}"
    if kind == "rotate" and len(numbers) in (1, 3):
        angle, x, y = (*numbers, 0.0, 0.0)[:3]
        c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        return " ".join(map(_n, (c, s, -s, c, x - c * x + s * y, y - s * x - c * y)))
    raise HarnessError(f"figure {name}: transform {transform!r}, expected rotate(ANGLE X Y) or translate(X Y)")


def _outline(node: ET.Element, tag: str, name: str) -> str:
    """A shape as path operators."""

    def get(*keys: str) -> list[float]:
        return [float(node.attrib.get(key, "0")) for key in keys]

    if tag == "rect":
        return f"{' '.join(map(_n, get('x', 'y', 'width', 'height')))} re\nh\n"
    if tag == "line":
        x1, y1, x2, y2 = map(_n, get("x1", "y1", "x2", "y2"))
        return f"{x1} {y1} m\n{x2} {y2} l\n"
    if tag == "circle":
        x, y, r = get("cx", "cy", "r")
        k = _ARC * r
        quarters = (
            (x + r, y + k, x + k, y + r, x, y + r),
            (x - k, y + r, x - r, y + k, x - r, y),
            (x - r, y - k, x - k, y - r, x, y - r),
            (x + k, y - r, x + r, y - k, x + r, y),
        )
        return f"{_n(x + r)} {_n(y)} m\n" + "".join(f"{' '.join(map(_n, q))} c\n" for q in quarters) + "h\n"
    if tag == "path":
        return _path(node.attrib.get("d", ""), name)
    raise HarnessError(f"figure {name}: element {tag!r} has no form in PDF")


def _path(d: str, name: str) -> str:
    """The path data of a drawing: M, L, H, V, C and Z, absolute or relative."""
    out: list[str] = []
    x = y = start_x = start_y = 0.0
    tokens = re.findall(r"[A-Za-z]|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", d)
    place, command = 0, ""
    takes = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "Z": 0}
    while place < len(tokens):
        if tokens[place].isalpha():
            command, place = tokens[place], place + 1
        kind, relative = command.upper(), command.islower()
        if kind not in takes or (kind == "Z" and command == ""):
            raise HarnessError(f"figure {name}: path command {command or tokens[place]!r}, expected one of {[*takes]}")
        numbers = [float(token) for token in tokens[place : place + takes[kind]]]
        place += takes[kind]
        if kind == "Z":
            x, y, command = start_x, start_y, ""
            out.append("h\n")
            continue
        if kind in "HV":
            both = (numbers[0] + x * relative, y) if kind == "H" else (x, numbers[0] + y * relative)
            numbers = list(both)
        elif relative:
            numbers = [number + (y if index % 2 else x) for index, number in enumerate(numbers)]
        x, y = numbers[-2:]
        out.append(f"{' '.join(map(_n, numbers))} {'m' if kind == 'M' else 'c' if kind == 'C' else 'l'}\n")
        if kind == "M":
            start_x, start_y, command = x, y, "l" if relative else "L"
    return "".join(out)


@cache
def rules() -> tuple[tuple[tuple[str, frozenset[str]], dict[str, str]], ...]:
    """The style's rules outside of `@media`, the more specific ones last: ((element, classes), property -> value)."""
    plain = _AT_RULE.sub("", svg.STYLE)
    found = []
    for selectors, block in _RULE.findall(plain):
        declared = dict(tuple(part.strip() for part in line.split(":", 1)) for line in block.split(";") if line.strip())
        for selector in selectors.split(","):
            match = _SELECTOR.fullmatch(selector.strip())
            if match is None:
                raise HarnessError(f"figures' style: selector {selector!r}, expected one such as '.fig text.soft'")
            classes = frozenset((match[2] or "").split(".")) - {""}
            found.append(((match[1] or ("" if match[2] else "svg"), classes), declared))
    return tuple(sorted(found, key=lambda rule: (len(rule[0][1]), rule[0][0] != "")))


def _computed(node: ET.Element, inherited: Style) -> Style:
    """The properties of an element: inherited, then its attributes, then the style's rules."""
    tag, classes = _tag(node), set(node.attrib.get("class", "").split())
    own = dict(inherited)
    own |= {key: value for key, value in node.attrib.items() if key == "fill"}
    for (element, needed), declared in rules():
        if element in ("", tag) and needed <= classes and (needed or element):
            own |= declared
    return {key: _resolved(value, own) for key, value in own.items()}


def _resolved(value: str, own: Mapping[str, str]) -> str:
    return re.sub(r"var\((--[\w-]+)\)", lambda found: own.get(found[1], found[0]), value)


def _file(page: _Page, body: str, size: tuple[float, float], title: str) -> bytes:
    """The objects of the file: 1 catalogue, 2 pages, 3 page, 4 content, 5 to 9 font, 10 title, then patterns."""
    letters = font()
    box = f"[0 0 {_n(size[0])} {_n(size[1])}]"
    patterns = "".join(f"/P{index} {11 + index} 0 R " for index in range(len(page.used)))
    states = "".join(f"/{name} << /ca {_n(float(value))} >> " for value, name in page.opacities.items())
    resources = f"<< /Font << /F 5 0 R >> /Pattern << {patterns}>> /ExtGState << {states}>> >>"
    digest = hashlib.sha256(repr(sorted(page.glyphs)).encode()).digest()
    subset = letters.subset(page.glyphs)
    name = f"{''.join(chr(65 + byte % 26) for byte in digest[:6])}+{letters.name}"
    widths = " ".join(f"{glyph} [{letters.widths[glyph]}]" for glyph in sorted(page.glyphs))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox {box} /Resources {resources} /Contents 4 0 R >>".encode(),
        _stream(body.encode()),
        f"<< /Type /Font /Subtype /Type0 /BaseFont /{name} /Encoding /Identity-H /DescendantFonts [6 0 R] "
        "/ToUnicode 9 0 R >>".encode(),
        f"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /{name} /CIDToGIDMap /Identity /FontDescriptor 7 0 R "
        f"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /DW 0 /W [{widths}] >>".encode(),
        f"<< /Type /FontDescriptor /FontName /{name} /Flags 4 /FontBBox [{' '.join(map(str, letters.box))}] "
        f"/ItalicAngle 0 /Ascent {letters.ascent} /Descent {letters.descent} /CapHeight 729 /StemV 80 "
        "/FontFile2 8 0 R >>".encode(),
        _stream(subset, f"/Length1 {len(subset)} "),
        _stream(_to_unicode(page.glyphs).encode()),
        f"<< /Title <{_utf16(chr(0xFEFF) + title)}> >>".encode(),
    ]
    for pattern, content in page.used.items():
        node = page.patterns[pattern]
        width, height = (_n(float(node.attrib[key])) for key in ("width", "height"))
        entries = f"/PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 {width} {height}] /Resources << >> "
        entries += f"/XStep {width} /YStep {height} "
        entries += f"/Matrix [{_n(POINTS)} 0 0 {_n(-POINTS)} 0 {_n(page.height * POINTS)}] "
        objects.append(_stream(content.encode(), entries))
    out, places = bytearray(b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n"), []
    for number, written in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + written + b"\nendobj\n"
    ident = hashlib.sha256(bytes(out)).hexdigest()[:32]
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    tail = f"<< /Size {len(objects) + 1} /Root 1 0 R /Info 10 0 R /ID [<{ident}> <{ident}>] >>"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    out += f"trailer\n{tail}\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def _stream(content: bytes, entries: str = "") -> bytes:
    packed = zlib.compress(content, 9)
    head = f"<< {entries}/Length {len(packed)} /Filter /FlateDecode >>\nstream\n"
    return head.encode() + packed + b"\nendstream"


def _utf16(text: str) -> str:
    return text.encode("utf-16-be").hex().upper()


def _to_unicode(glyphs: Mapping[int, str]) -> str:
    """What the glyphs stand for, so that text can be copied and searched."""
    pairs = [f"<{glyph:04X}> <{_utf16(text)}>" for glyph, text in sorted(glyphs.items())]
    blocks = [pairs[start : start + 100] for start in range(0, len(pairs), 100)]
    listed = "".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar\n" for block in blocks)
    return (
        "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n"
        "/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n"
        "1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n"
        f"{listed}endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n"
    )

"""The font of figures in PDF: its glyphs, their widths, and a font file with only the glyphs that are used.

The font is DejaVu Sans Condensed 2.37: Latin, Greek, Cyrillic, Arabic and mathematical characters. Of the TrueType
format (ISO/IEC 14496-22) only what this font uses is read: a `cmap` of format 12 and long offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent / "fonts" / "DejaVuSansCondensed.ttf"
# What a PDF reader needs of a font whose glyphs are named by their numbers (ISO 32000-1, 9.9).
_EMBEDDED = ("cvt ", "fpgm", "glyf", "head", "hhea", "hmtx", "loca", "maxp", "prep")
_WORDS, _SCALE, _MORE, _TWO, _FOUR = 0x1, 0x8, 0x20, 0x40, 0x80  # flags of a part of a composite glyph


@dataclass(frozen=True)
class Font:
    """A TrueType font.

    Attributes
    ----------
    name : for PDF, without blanks.
    glyphs : character -> number of its glyph.
    widths : of each glyph, in thousandths of the font's size.
    ascent, descent, box : the same unit; `box` is left, bottom, right, top of all glyphs together.
    """

    name: str
    tables: Mapping[str, bytes]
    glyphs: Mapping[str, int]
    widths: tuple[int, ...]
    ascent: int
    descent: int
    box: tuple[int, int, int, int]

    def width(self, text: str) -> float:
        """How wide a text without unknown characters is set, in units of the font's size."""
        return sum(self.widths[self.glyphs[char]] for char in text) / 1000

    def subset(self, used: Iterable[int]) -> bytes:
        """A font file in which the glyphs keep their numbers, and those that are not used are empty."""
        offsets = _offsets(self.tables)
        glyf = self.tables["glyf"]
        kept, waiting = {0}, [0, *used]
        while waiting:
            number = waiting.pop()
            kept.add(number)
            waiting += [part for part in _parts(glyf[offsets[number] : offsets[number + 1]]) if part not in kept]
        outlines, places = bytearray(), [0]
        for number in range(len(offsets) - 1):
            if number in kept:
                outline = glyf[offsets[number] : offsets[number + 1]]
                outlines += outline + bytes(-len(outline) % 4)
            places.append(len(outlines))
        changed = {"glyf": bytes(outlines), "loca": struct.pack(f">{len(places)}I", *places)}
        return _file({tag: changed.get(tag, self.tables[tag]) for tag in _EMBEDDED})


@cache
def font() -> Font:
    """The font that figures are set in."""
    data = _FILE.read_bytes()
    tables = {}
    for index in range(struct.unpack_from(">H", data, 4)[0]):
        tag, _, start, length = struct.unpack_from(">4sIII", data, 12 + 16 * index)
        tables[tag.decode()] = data[start : start + length]
    head, hhea, hmtx = tables["head"], tables["hhea"], tables["hmtx"]
    unit: int = struct.unpack_from(">H", head, 18)[0]

    def thousandths(value: int) -> int:
        return round(value * 1000 / unit)

    count, measured = struct.unpack_from(">H", tables["maxp"], 4)[0], struct.unpack_from(">H", hhea, 34)[0]
    widths = [thousandths(struct.unpack_from(">H", hmtx, 4 * min(i, measured - 1))[0]) for i in range(count)]
    ascent, descent = map(thousandths, struct.unpack_from(">hh", hhea, 4))
    left, bottom, right, top = map(thousandths, struct.unpack_from(">4h", head, 36))
    box = (left, bottom, right, top)
    return Font(_FILE.stem, tables, _characters(tables["cmap"]), tuple(widths), ascent, descent, box)


def _characters(cmap: bytes) -> dict[str, int]:
    """Character -> glyph, from the table of format 12 for all of Unicode (platform 3, encoding 10)."""
    entries = (struct.unpack_from(">HHI", cmap, 4 + 8 * i) for i in range(struct.unpack_from(">H", cmap, 2)[0]))
    start = next(offset for platform, encoding, offset in entries if (platform, encoding) == (3, 10))
    groups = struct.unpack_from(">I", cmap, start + 12)[0]
    found = {}
    for index in range(groups):
        first, last, glyph = struct.unpack_from(">III", cmap, start + 16 + 12 * index)
        found.update({chr(code): glyph + code - first for code in range(first, last + 1)})
    return found


def _offsets(tables: Mapping[str, bytes]) -> tuple[int, ...]:
    """Where each glyph begins in `glyf`, and at last where the last one ends."""
    loca = tables["loca"]
    return struct.unpack(f">{len(loca) // 4}I", loca)


def _parts(outline: bytes) -> list[int]:
    """The glyphs that a composite glyph is made of; none of a simple one."""
    if not outline or struct.unpack_from(">h", outline)[0] >= 0:
        return []
    parts, place, flags = [], 10, _MORE
    while flags & _MORE:
        flags, part = struct.unpack_from(">HH", outline, place)
        parts.append(part)
        place += 8 if flags & _WORDS else 6
        place += 2 if flags & _SCALE else 4 if flags & _TWO else 8 if flags & _FOUR else 0
    return parts


def _file(tables: Mapping[str, bytes]) -> bytes:
    """A font file with these tables and right checksums."""
    power = len(tables).bit_length() - 1
    header = struct.pack(">IHHHH", 0x00010000, len(tables), 16 << power, power, 16 * (len(tables) - (1 << power)))
    place = len(header) + 16 * len(tables)
    directory, body = b"", b""
    for tag in sorted(tables):
        table = tables[tag]
        if tag == "head":  # its sum is taken as if the adjustment were 0
            table = table[:8] + bytes(4) + table[12:]
            head = place + len(body)
        directory += struct.pack(">4sIII", tag.encode(), _sum(table), place + len(body), len(table))
        body += table + bytes(-len(table) % 4)
    whole = bytearray(header + directory + body)
    struct.pack_into(">I", whole, head + 8, (0xB1B0AFBA - _sum(bytes(whole))) % 2**32)
    return bytes(whole)


def _sum(table: bytes) -> int:
    padded = table + bytes(-len(table) % 4)
    return int(sum(struct.unpack(f">{len(padded) // 4}I", padded)) % 2**32)

"""Commands of LaTeX in a symbol layout tree: characters, names, fonts, commands with arguments.

The division of characters into variables (`V!`) and operators follows LaTeXML, as observed in its trees of the ARQMath
formulas. Characters that are not listed here are taken from latex2mathml's table; those that Unicode classifies as
mathematical symbols are operators.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from pathlib import Path

from harness.formulas.slt.rows import Symbol
from harness.formulas.text.characters import OPERATORS, VARIABLES, pairs, sections

# Names that LaTeXML treats as operators: their subscripts are set under them.
_NAMED_OPERATORS = {
    **{name: name for name in ("lim", "sup", "inf", "det", "dim", "mod")},
    **{"limsup": "lim sup", "liminf": "lim inf", "injlim": "inj lim", "projlim": "proj lim", "bmod": "mod"},
}


_TABLES = sections(Path(__file__).with_name("commands.txt"))
_NAMES = _TABLES["names"]
SYMBOLS: dict[str, str] = {
    **OPERATORS,
    **{name: "V!" + text for name, text in VARIABLES.items()},
    **{"\\" + name: "V!" + name for name in _NAMES},
    **{"\\" + name: text for name, text in _NAMED_OPERATORS.items()},
}
FUNCTIONS = frozenset("V!" + name for name in _NAMES) - {"V!max", "V!min", "V!gcd", "V!Pr"}
INTEGRALS = frozenset("∫∬∭∮⨌")
SUMS = frozenset("∑∏∐")
# Sequences of characters that form one symbol.
LIGATURES = {(":", "="): ":=", ("!", "!"): "!!", ("<", "="): "<=", (">", "="): ">=", ("<", "<"): "<<", (">", ">"): ">>"}

ACCENTS, UNDER, ARROWS = (
    {"\\" + name: sign for name, sign in pairs(_TABLES[table])} for table in ("accents", "under", "arrows")
)
# Limits with a line or arrow: the edge and the sign.
VARIED = {
    **{"\\varlimsup": ("o", "¯"), "\\varliminf": ("u", "¯"), "\\varinjlim": ("u", "→"), "\\varprojlim": ("u", "←")}
}
# Commands with rows of cells in braces, and the environments that have the same layout.
TABLES = {
    **{"\\matrix": "matrix", "\\pmatrix": "pmatrix", "\\cases": "cases", "\\substack": "substack"},
    **{"\\bordermatrix": "matrix", "\\eqalign": "aligned", "\\eqalignno": "aligned", "\\displaylines": "gathered"},
}
# Commands with arguments, and the number of arguments.
ARGUMENTS = {
    **dict.fromkeys((*ACCENTS, *UNDER, *ARROWS, *("\\" + name for name in _TABLES["one"])), 1),
    **dict.fromkeys(("\\" + name for name in _TABLES["two"]), 2),
    "\\sideset": 3,
}
OPTIONAL = frozenset(("\\sqrt", *ARROWS))
INFIX = {"\\over": "", "\\atop": "", "\\choose": "()", "\\brace": "{}", "\\brack": "[]"}
# Commands that are ignored together with their argument, and commands that are ignored.
DROPPED = frozenset("\\" + name for name in _TABLES["dropped"])
NOTHING = frozenset("\\" + name for name in (*_TABLES["nothing"], *" \n\t\\"))
FONTS = {
    **{"\\mathbb": "bb", "\\Bbb": "bb", "\\mathbf": "bf", "\\bold": "bf", "\\mathcal": "cal", "\\mathscr": "cal"},
    **{"\\mathfrak": "frak", "\\frak": "frak", "\\mathrm": "rm", "\\mathsf": "sf", "\\mathtt": "tt", "\\mathit": "it"},
    **{"\\boldsymbol": "bm", "\\bm": "bm", "\\pmb": "bm", "\\mathnormal": "", "\\operatorname": "op", "\\mathds": "bb"},
    **{"\\operatorname*": "op", "\\operatornamewithlimits": "op", "\\mathbbm": "bb", "\\mathup": "rm", "\\symbf": "bf"},
}
SWITCHES = {
    **{"\\rm": "rm", "\\bf": "bf", "\\sf": "sf", "\\tt": "tt", "\\it": "it", "\\cal": "cal", "\\mit": "", "\\sl": "it"},
    **{"\\boldmath": "bm", "\\rmfamily": "rm", "\\bfseries": "bf"},
}
TEXTS = {
    **dict.fromkeys(("\\text", "\\textrm", "\\mbox", "\\hbox", "\\textnormal", "\\textup", "\\textsc", "\\textmd"), ""),
    **{"\\textbf": "bf", "\\textit": "it", "\\textsf": "sf", "\\texttt": "tt", "\\textsl": "it", "\\emph": "it"},
}
MERGED = frozenset(("rm", "op", "bf", "sf", "tt", "it"))  # fonts in which adjacent letters form one name
FENCES = {
    **{"matrix": "", "smallmatrix": "", "array": "", "aligned": "", "split": "", "gathered": "", "subarray": ""},
    **{
        "pmatrix": "()",
        "bmatrix": "[]",
        "Bmatrix": "{}",
        "vmatrix": "||",
        "Vmatrix": "∥∥",
        "cases": "{",
        "rcases": "}",
    },
    **{"align": "", "alignat": "", "gather": "", "eqnarray": "", "multline": "", "flalign": "", "alignedat": ""},
    **{"dcases": "{", "tabular": "", "substack": "", "psmallmatrix": "()", "pmatrix*": "()", "bmatrix*": "[]"},
}
GAPS = {"\\,": "\u2009", "\\;": "\u2004", "\\ ": "\u2005"}  # spaces allowed within a number
COLUMNS = frozenset(("array", "subarray", "alignat", "alignedat", "tabular", "alignat*"))  # have an argument

_STARTS = {"bf": (0x1D400, 0x1D41A), "it": (0x1D434, 0x1D44E), "bm": (0x1D468, 0x1D482), "cal": (0x1D49C, 0x1D4B6)} | {
    **{"frak": (0x1D504, 0x1D51E), "bb": (0x1D538, 0x1D552), "sf": (0x1D5A0, 0x1D5BA), "tt": (0x1D670, 0x1D68A)}
}
_DIGITS = {"bf": 0x1D7CE, "bm": 0x1D7CE, "bb": 0x1D7D8, "sf": 0x1D7E2, "tt": 0x1D7F6}
_LETTERLIKE = {**dict(zip("BEFHILMRego", "ℬℰℱℋℐℒℳℛℯℊℴ", strict=True))}
_HOLES = {
    "cal": _LETTERLIKE,
    "frak": dict(zip("CHIRZ", "ℭℌℑℜℨ", strict=True)),
    "bb": dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True)),
    "it": {"h": "ℎ"},
}
_GREEK = "αβγδεζηθικλμνξοπρςστυφχψω"
_GREEK_CAPITALS = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡϴΣΤΥΦΧΨΩ"


@lru_cache(1 << 14)
def styled(character: str, font: str) -> str:
    """Returns a character in a font, or unchanged if the font lacks it."""
    if font in _HOLES and character in _HOLES[font]:
        return _HOLES[font][character]
    if character.isascii() and character.isalpha() and font in _STARTS:
        start = _STARTS[font][character.islower()]
        return chr(start + ord(character) - (97 if character.islower() else 65))
    if character.isascii() and character.isdigit() and font in _DIGITS:
        return chr(_DIGITS[font] + int(character))
    if font in ("bf", "bm"):
        if character in _GREEK_CAPITALS:
            return chr((0x1D6A8 if font == "bf" else 0x1D71C) + _GREEK_CAPITALS.index(character))
        if character in _GREEK and font == "bm":
            return chr(0x1D736 + _GREEK.index(character))
    return character


@lru_cache(1 << 14)
def label(piece: str) -> str | None:
    """Returns the label of a command or character; None if it is unknown."""
    if piece in SYMBOLS:
        return SYMBOLS[piece]
    if len(piece) == 1:
        operator = piece in "+-*/=<>.,;:!()[]|`" or (not piece.isascii() and unicodedata.category(piece) == "Sm")
        return piece if operator else "V!" + piece
    from latex2mathml.symbols_parser import convert_symbol

    found = convert_symbol(piece)
    try:
        character = chr(int(found, 16)) if found else ""
    except ValueError:
        return None
    if not character or unicodedata.category(character) in ("Cc", "Cs", "Cf", "Zs"):
        return None
    return character if unicodedata.category(character) == "Sm" else "V!" + character


def symbol(label_: str, font: str) -> Symbol:
    """Returns a symbol with this label in a font."""
    if font and label_[1:2] == "!" and len(label_) == 3:
        return Symbol(label_[:2] + styled(label_[2], font))
    return Symbol(label_)

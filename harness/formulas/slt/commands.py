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
from harness.formulas.text import alphabets
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

_ALPHABETS = {
    **{"bf": "bold", "it": "italic", "bm": "bold-italic", "cal": "script", "frak": "fraktur", "bb": "double-struck"},
    **{"sf": "sans", "tt": "monospace"},
}
_DIGITS = {"bf": 0x1D7CE, "bm": 0x1D7CE, "bb": 0x1D7D8, "sf": 0x1D7E2, "tt": 0x1D7F6}


@lru_cache(1 << 14)
def styled(character: str, font: str) -> str:
    """Returns a character in a font, or unchanged if the font lacks it."""
    if character.isascii() and character.isdigit():
        return chr(_DIGITS[font] + int(character)) if font in _DIGITS else character
    if font not in _ALPHABETS or (font == "bf" and "α" <= character <= "ω"):
        return character
    # The capital theta symbol has the place of the letter that Unicode lacks between rho and sigma.
    theta = character == "ϴ" and font in ("bf", "bm")
    return alphabets.styled("\u03a2" if theta else character, _ALPHABETS[font])


@lru_cache(1 << 14)
def label(piece: str) -> str | None:
    """Returns the label of a command or character; None if it is unknown."""
    if piece in SYMBOLS:
        return SYMBOLS[piece]
    if len(piece) == 1:
        operator = piece in "+-*/=<>.,;:!()[]|`" or (not piece.isascii() and unicodedata.category(piece) == "Sm")
        return piece if operator else "V!" + piece
    from latex2mathml.symbols_parser import convert_symbol

    code_point = convert_symbol(piece)
    try:
        character = chr(int(code_point, 16)) if code_point else ""
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

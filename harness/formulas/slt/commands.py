"""Commands of LaTeX in a symbol layout tree: characters, names, fonts, commands with arguments.

The division of characters into variables (`V!`) and operators follows LaTeXML, as observed in its trees of the ARQMath
formulas. Characters that are not listed here are taken from latex2mathml's table; those that Unicode classifies as
mathematical symbols are operators.

Tokens of LaTeX with a position that only moves forward.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from pathlib import Path

from harness.formulas.slt.rows import Symbol
from harness.formulas.text import characters
from harness.formulas.text.characters import OPERATORS, VARIABLES, normalise_latex, pairs, sections

# Names that LaTeXML treats as operators: their subscripts are set under them.
_NAMED_OPERATORS = {
    **{name: name for name in ("lim", "sup", "inf", "det", "dim", "mod")},
    **{"limsup": "lim sup", "liminf": "lim inf", "injlim": "inj lim", "projlim": "proj lim", "bmod": "mod"},
}


_TABLES = sections(Path(__file__).with_name("commands.txt"))
_NAMES = _TABLES["names"]


def _pairs(table: str, before: str = "\\") -> dict[str, str]:
    return {before + name: "" if text == "none" else text for name, text in pairs(_TABLES[table])}


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

ACCENTS, UNDER, ARROWS = map(_pairs, ("accents", "under", "arrows"))
# Limits with a line or arrow: the edge and the sign.
VARIED = {
    **{"\\varlimsup": ("o", "¯"), "\\varliminf": ("u", "¯"), "\\varinjlim": ("u", "→"), "\\varprojlim": ("u", "←")}
}
# Commands with rows of cells in braces, and the environments that have the same layout.
TABLES = _pairs("tables")
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
FONTS, SWITCHES, TEXTS = map(_pairs, ("fonts", "switches", "texts"))
MERGED = frozenset(("rm", "op", "bf", "sf", "tt", "it"))  # fonts in which adjacent letters form one name
FENCES = _pairs("fences", "")
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
    return characters.styled("\u03a2" if theta else character, _ALPHABETS[font])


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


_TOKEN = re.compile(
    r"\\(?:(?:operatorname|hspace|vspace|tag)\*|[A-Za-z]++|.)|[0-9]++(?:\.{1,2}[0-9]++)*+|(?:\.[0-9]++)++|\.\.\.|\|\||'++"
    r"|%[^\n]*+\n?|\s++|.",
    re.DOTALL,
)
_WHOLE = re.compile("[0-9]+")
_DIMENSION = re.compile(r"\s*-?\s*[0-9.]+\s*(?:pt|em|ex|cm|mm|in|mu)\s*")
_SHORT = 16  # maximum tokens of a skipped argument in brackets


class FormulaTokens:
    """The tokens of a formula: commands, numbers, runs of primes, `...`, `||`, comments, white space, characters.

    Attributes
    ----------
    at : index of the next token.
    unclosed : whether the brace of an argument was never closed.
    """

    __slots__ = ("all", "at", "unclosed")

    def __init__(self, latex: str) -> None:
        self.all: list[str] = _TOKEN.findall(normalise_latex(latex))
        self.at = 0
        self.unclosed = False

    def peek(self) -> str:
        """Returns the next token that is not white space without consuming it; "" at the end."""
        while self.at < len(self.all) and self.all[self.at][0].isspace():
            self.at += 1
        return self.all[self.at] if self.at < len(self.all) else ""

    def take(self, token: str) -> bool:
        """Consumes the next token, and white space before it, if it is the given one; returns whether it was."""
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def raw(self) -> str:
        """Returns the next argument as source text."""
        if not self.take("{"):
            piece = self.peek()
            self.at += 1
            return piece
        begin = self.at
        deep = 1
        while self.at < len(self.all):
            piece = self.all[self.at]
            deep += (piece == "{") - (piece == "}")
            self.at += 1
            if deep == 0:
                return "".join(self.all[begin : self.at - 1])
        self.unclosed = True
        return "".join(self.all[begin:])

    def skip_option(self) -> None:
        """Skips `[...]` of at most a few tokens."""
        if self.peek() == "[" and "]" in (few := self.all[self.at : self.at + _SHORT]):
            self.at += few.index("]") + 1

    def skip_argument(self) -> None:
        """Skips an argument (in braces, a dimension such as `3pt`, or one token) and one in brackets before it."""
        self.skip_option()
        if self.peek() == "{":
            self.raw()
        elif match := _DIMENSION.match("".join(self.all[self.at : self.at + 6])):
            end = match.end()
            while end > 0:
                end -= len(self.all[self.at])
                self.at += 1
        else:
            self.at += 1

    def split_digit(self, number: str) -> str:
        """Returns the first digit of the number just read, which TeX takes as an argument; puts back the others."""
        self.at -= 1
        self.all[self.at] = number[1:]
        return number[0]

    def more_digits(self) -> str:
        """Reads further digits that belong to a number: `1\\,000` is one number."""
        text = ""
        while self.at + 1 < len(self.all) and _WHOLE.fullmatch(self.all[self.at + 1]):
            gap = self.all[self.at]
            if gap not in GAPS and not gap.isspace():
                break
            text += GAPS.get(gap, "") + self.all[self.at + 1]
            self.at += 2
        return text

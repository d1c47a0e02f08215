"""Tokens of LaTeX with a position that only moves forward."""

from __future__ import annotations

import re

from harness.formulas.slt.commands import GAPS
from harness.formulas.text.characters import normalise_latex

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

"""Tokenisation of LaTeX in linear time.

A token is a command (`\\frac`), a number (`12.5`, `1\\,000`), a run of primes, `:=`, three dots as `\\ldots`, or one
character. A text command without nested braces is one token (`\\text{if }`). White space and comments are dropped. A
percent sign in the last line begins no comment, because line breaks become spaces when LaTeX is in an HTML attribute. A
number is one token although TeX reads digits one by one; `first_digit` returns the part that an argument without braces
takes (`\\frac12`, `x^10`).
"""

from __future__ import annotations

import re

from harness.formulas.text.characters import normalise_latex

_TEXT = "text mbox hbox textrm textbf textit textsf texttt textnormal textup"
TEXT = frozenset("\\" + name for name in _TEXT.split())

_TOKEN = re.compile(
    rf"((?:{'|'.join(re.escape(name) for name in sorted(TEXT))})(?![A-Za-z])\s*+\{{(?:[^{{}}\\]|\\.)*+\}}"
    r"|\\(?:operatorname|hspace|vspace|tag)\*"
    r"|\\(?:[A-Za-z]++|.)"
    r"|[0-9]++(?:(?:\{,\}|\\,)[0-9]{3}(?![0-9]))*+(?:\.[0-9]++)?|\.[0-9]++|\.(?:\s*+\.){2}|'++|:=|[^\s%])"
    r"|\s++|%",
    re.DOTALL,
)
_COMMENT = re.compile(r"(\\.)|%[^\n]*+\n", re.DOTALL)


def tokens(latex: str) -> list[str]:
    """Returns the tokens of a formula without its delimiters (`$`, `\\[`), in order."""
    above, end, last = latex.rpartition("\n")
    if "%" in above:
        latex = _COMMENT.sub(r"\1", above + end) + last
    units: list[str] = _TOKEN.findall(normalise_latex(latex))
    return ["\\ldots" if unit[0] == "." and unit[-1] == "." and len(unit) > 1 else unit for unit in units if unit]


def is_text(token: str) -> bool:
    """Returns whether a token is a text command with its braces."""
    return token[-1] == "}" and len(token) > 1 and token[1].isalpha()


def is_number(token: str) -> bool:
    """Returns whether a token is a number."""
    return token[-1] in "0123456789" and token[0] in ".0123456789"


def number(token: str) -> str:
    """Returns a number without the separators of its digits."""
    return token.replace("{,}", "").replace("\\,", "") if len(token) > 5 else token


def first_digit(token: str) -> tuple[str, str]:
    """Splits a number into the digit that an argument without braces takes, and the rest ("" if there is none)."""
    return token[0], token[1:]

"""Text views: named tokenisers with fixed rules, text in, tokens out.

A document and a query meet where their tokens are equal, so what a lexical system can find is decided here. The same
text gives the same tokens on every machine. Tokens hold no blanks.

======================  ==============================================================================================
view                    tokens
======================  ==============================================================================================
`text`                  words in lower case; formulas (`$...$`, `$$...$$`, `\\(...\\)`, `\\[...\\]`, environments) left out
`latex`                 the same words, and the formulas' LaTeX in tokens that equal no word
`declarations`          names of a proof library split at dots, underscores and case; words; Unicode operators; LaTeX
                        commands as the character that Lean writes for them
`msm`                   ASCII punctuation becomes blanks, then split at blanks (MIRMU and MSM at ARQMath 2022, 3.2-3.3)
`whitespace`            split at blanks, nothing else: text whose tokens were made elsewhere
======================  ==============================================================================================
"""

from __future__ import annotations

import importlib
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from harness.errors import HarnessError, suggestion
from harness.systems.symbols import ALPHABETS, ENGLISH, LAYOUT, SAME, UNICODE

Tokenise = Callable[[str], list[str]]
FormulaTokens = Callable[[str], Iterable[str]]
STOP_LISTS: Mapping[str, frozenset[str]] = {"english": ENGLISH}

FORMULA = re.compile(
    r"(?<!\\)\$\$(?P<display>.+?)(?<!\\)\$\$|(?<!\\)\$(?P<inline>.+?)(?<!\\)\$|\\\((?P<round>.+?)\\\)|\\\[(?P<square>.+?)\\\]"
    r"|\\begin\{(?P<name>[A-Za-z]+\*?)\}(?P<body>.*?)\\end\{(?P=name)\}",
    re.DOTALL,
)
# A letter with its combining marks; those of Arabic and Devanagari are not letters to Python.
_LETTER = r"[^\W\d_]|[\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963]"
WORD = re.compile(rf"(?:{_LETTER})+(?:['’\u200c](?:{_LETTER})+)*|\d+(?:\.\d+)?")
_POSSESSIVE = re.compile(r"['’]s$", re.IGNORECASE)
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))


def words(text: str, *, lower: bool = True) -> list[str]:
    """Runs of letters, inner apostrophes kept but a final `'s` dropped, and numbers."""
    text = unicodedata.normalize("NFC", text)
    found = [_POSSESSIVE.sub("", word).replace("’", "'") for word in WORD.findall(text)]
    return [word.lower() for word in found] if lower else found


def split_formulas(text: str) -> Iterator[tuple[str, str]]:
    """The text cut into (words before, LaTeX) pairs; the last pair has no LaTeX."""
    at = 0
    for match in FORMULA.finditer(text):
        groups = match.groupdict()
        latex = groups["display"] or groups["inline"] or groups["round"] or groups["square"] or groups["body"] or ""
        yield text[at : match.start()], latex
        at = match.end()
    yield text[at:], ""


_TEXT_IN_LATEX = re.compile(r"\\(?:text[a-z]{0,2}|mbox|hbox|operatorname|mathrm|mathsf|mathtt)\*?\s*\{([^{}]*)\}")
_LATEX_TOKEN = re.compile(r"\\(?:[A-Za-z]+|.)|\d+(?:\.\d+)?|\S", re.DOTALL)


def latex_tokens(latex: str) -> list[str]:
    """The tokens of one formula, none of which is a word of the text around it.

    Commands as they stand (`\\frac`, synonyms made one); letters, numbers and operators with a dollar sign before
    them (`$x`, `$2`, `$+`), case kept; what a script begins with once more with the script's sign (`^2`, `_n`).
    Braces and layout are left out. Words within the formula (`\\text{if}`, `\\operatorname{Spec}`) are words.
    """
    tokens: list[str] = []

    def take(match: re.Match[str]) -> str:
        tokens.extend(words(match[1]))
        return " "

    script = ""
    for token in _LATEX_TOKEN.findall(_TEXT_IN_LATEX.sub(take, latex)):
        if token in "^_":
            script = token
        elif token not in "{}" and token not in LAYOUT:
            name = SAME.get(token, token)
            tokens.append(name if name.startswith("\\") else "$" + name)
            if script:
                tokens.append(script + name)
            script = ""
    return tokens


def _text(text: str, lower: bool, formulas: FormulaTokens | None) -> list[str]:
    return _prose(text, lower, formulas)


def _latex(text: str, lower: bool, formulas: FormulaTokens | None) -> list[str]:
    both = latex_tokens if formulas is None else lambda latex: [*latex_tokens(latex), *formulas(latex)]
    return _prose(text, lower, both)


def _prose(text: str, lower: bool, formulas: FormulaTokens | None) -> list[str]:
    tokens: list[str] = []
    for before, latex in split_formulas(text):
        tokens += words(before, lower=lower)
        if latex and formulas is not None:
            tokens += formulas(latex)
    return tokens


def _msm(text: str, lower: bool, formulas: FormulaTokens | None) -> list[str]:
    if lower:
        text = text.lower()
    return text.translate(_PUNCTUATION).split()


def _whitespace(text: str, lower: bool, formulas: FormulaTokens | None) -> list[str]:
    return (text.lower() if lower else text).split()


# ---- declarations -----------------------------------------------------------------------------------------------

_ALPHABET = re.compile(r"\\(mathbb|Bbb|mathcal|mathscr)\s*(?:\{\s*([A-Za-z1])\s*\}|([A-Za-z1]))")
_COMMAND = re.compile(r"\\([A-Za-z]+|\|)")
_ASCII = {"<->": "↔", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "=>": "→", "|->": "↦", ":=": " ", "||": "‖", "*": "*"}
_ASCII_OPERATOR = re.compile("|".join(re.escape(sign) for sign in sorted(_ASCII, key=len, reverse=True)))
# An identifier: parts joined by dots; subscripts and primes belong to it.
_PART = r"(?:[^\W\d]|_)[\w₀-₉ₐ-ₜ'’!?]*"
_DECLARATION = re.compile(rf"{_PART}(?:\.{_PART})*|\d+(?:\.\d+)?|[^\s\w]")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|\d+|[^\WA-Za-z\d_]+")
_SILENT = frozenset(string.punctuation) - frozenset("*+-/<=>^|∣") | frozenset("“”‘’…–—·")


def to_unicode(text: str) -> str:
    """LaTeX commands as the characters that Lean writes for them (`\\le` -> `≤`, `\\mathbb{R}` -> `ℝ`).

    Other commands lose their backslash: `\\operatorname{Spec}` leaves `Spec`, `\\ker` leaves `ker`.
    """
    text = _TEXT_IN_LATEX.sub(r" \1 ", text)
    text = _ALPHABET.sub(lambda m: ALPHABETS[m[1]].get(m[2] or m[3], m[2] or m[3]), text)

    def character(match: re.Match[str]) -> str:
        name = match[1]
        if "\\" + name in LAYOUT:
            return " "
        return f" {UNICODE[name]} " if name in UNICODE else f" {name} "

    return _COMMAND.sub(character, text) if "\\" in text else text


@cache
def identifier_tokens(name: str) -> tuple[str, ...]:
    """The parts of one identifier, in lower case and without accents: `IsCompact.image_of` -> is compact image of."""
    plain = "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c))
    return tuple(part.lower() for part in _CAMEL.findall(plain))


def whole_tokens(name: str) -> tuple[str, ...]:
    """The identifier as one token, and each of its dotted parts if it is made of several words; case kept.

    They begin with an equals sign, so that they equal no word: `IsCompact.image` -> `=IsCompact.image`, `=IsCompact`.
    """
    parts = name.split(".")
    whole = [part for part in parts if len(identifier_tokens(part)) > 1]
    if len(parts) > 1:
        whole.insert(0, name)
    return tuple(f"={part}" for part in whole)


def _declarations(text: str, lower: bool, formulas: FormulaTokens | None, *, whole: bool = False) -> list[str]:
    text = _ASCII_OPERATOR.sub(lambda m: f" {_ASCII[m[0]]} ", to_unicode(text))
    tokens: list[str] = []
    for match in _DECLARATION.findall(text):
        if match in _SILENT:
            continue
        parts = identifier_tokens(match) or (match,)
        tokens += parts
        if whole and len(parts) > 1:
            tokens += whole_tokens(match)
    return tokens


# ---- views ------------------------------------------------------------------------------------------------------

VIEWS: Mapping[str, Callable[[str, bool, FormulaTokens | None], list[str]]] = {
    "text": _text,
    "latex": _latex,
    "declarations": _declarations,
    "msm": _msm,
    "whitespace": _whitespace,
}

r"""Normalises LaTeX for both parsers; above all, spells characters beyond ASCII as the commands that they stand for.

`a ≤ b` then has the trees of `a \leq b`. The table of commands is also that of the layout parser.

Letters in the styled alphabets of Unicode.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

# Offsets of the styled alphabets of Unicode: capital A, small a, capital and small Greek alpha; 0: none.
ALPHABETS: Mapping[str, tuple[int, int, int, int]] = {
    "bold": (0x1D400, 0x1D41A, 0x1D6A8, 0x1D6C2),
    "bold-italic": (0x1D468, 0x1D482, 0x1D71C, 0x1D736),
    "italic": (0x1D434, 0x1D44E, 0, 0),
    "script": (0x1D49C, 0x1D4B6, 0, 0),
    "fraktur": (0x1D504, 0x1D51E, 0, 0),
    "double-struck": (0x1D538, 0x1D552, 0, 0),
    "sans": (0x1D5A0, 0x1D5BA, 0, 0),
    "monospace": (0x1D670, 0x1D68A, 0, 0),
    "upright": (0x41, 0x61, 0, 0),
}
_HOLES = dict(zip("𝑕𝒝𝒠𝒡𝒣𝒤𝒧𝒨𝒭𝒺𝒼𝓄𝔆𝔋𝔌𝔕𝔝𝔺𝔿𝕅𝕇𝕈𝕉𝕑", "ℎℬℰℱℋℐℒℳℛℯℊℴℭℌℑℜℨℂℍℕℙℚℝℤ", strict=True))


def styled(character: str, style: str) -> str:
    """Returns a letter in one of the alphabets of Unicode; any other character as it is."""
    capital, small, greek_capital, greek_small = ALPHABETS[style]
    for first, last, start in (
        ("A", "Z", capital),
        ("a", "z", small),
        ("Α", "Ω", greek_capital),
        ("α", "ω", greek_small),
    ):
        if first <= character <= last and start:
            letter = chr(start + ord(character) - ord(first))
            return _HOLES.get(letter, letter)
    return character


def sections(path: Path) -> dict[str, list[str]]:
    """Returns the words of a file of tables by the name of their section, a line such as `[operators]`."""
    parts = re.split(r"^\[([a-z]+)\]$", path.read_text(encoding="utf-8"), flags=re.M)
    return {name: words.split() for name, words in zip(parts[1::2], parts[2::2], strict=True)}


def pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields each two words of a table, such as a command and its character."""
    return zip(words[::2], words[1::2], strict=True)


_TABLES = sections(Path(__file__).with_name("characters.txt"))
# Commands and their characters; of several commands for a character, the first spells it.
VARIABLES, OPERATORS = (
    {"\\" + name: text for name, text in pairs(_TABLES[table])} for table in ("variables", "operators")
)
# Characters that people type in place of those above.
_VARIANTS = {
    **{"−": "-", "–": "-", "‐": "-", "‑": "-", "⁄": "/", "∕": "/", "∶": ":", "′": "'", "″": "''", "‴": "'''", "’": "'"},
    **{"\u200b": " ", "\u200e": " ", "\ufeff": " ", "·": r"\cdot ", "•": r"\bullet ", "◦": r"\circ ", "∆": r"\Delta "},
    **dict.fromkeys("°º˚", r"^{\circ}"),
    **{"⊥": r"\perp ", "‖": r"\| ", "〈": r"\langle ", "〉": r"\rangle "},
}
# Combining characters; the first of a letter is the innermost accent.
_ACCENTS = {
    **{"\u0300": r"\grave", "\u0301": r"\acute", "\u0302": r"\hat", "\u0303": r"\tilde", "\u0304": r"\bar"},
    **{"\u0305": r"\overline", "\u0306": r"\breve", "\u0307": r"\dot", "\u0308": r"\ddot", "\u030a": r"\mathring"},
    **{"\u030c": r"\check", "\u0331": r"\underline", "\u0332": r"\underline", "\u0338": r"\not"},
    **{"\u20d6": r"\overleftarrow", "\u20d7": r"\vec", "\u20db": r"\dddot", "\u20e1": r"\overleftrightarrow"},
}
_ALPHABETS = (
    *(("DOUBLE-STRUCK ITALIC", ""), ("DOUBLE-STRUCK", r"\mathbb"), ("SCRIPT", r"\mathcal")),
    *(("BOLD SCRIPT", r"\mathcal"), ("BOLD FRAKTUR", r"\mathfrak"), ("BOLD ITALIC", r"\boldsymbol")),
    *(("BLACK-LETTER", r"\mathfrak"), ("FRAKTUR", r"\mathfrak"), ("BOLD", r"\mathbf")),
    *(("SANS-SERIF", r"\mathsf"), ("MONOSPACE", r"\mathtt")),
)
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#[0-9]{2,6}|#[xX][0-9A-Fa-f]{2,5});")
_ROOTS = {"√": r"\sqrt", "∛": r"\sqrt[3]", "∜": r"\sqrt[4]"}
# Text commands stay as they are; groups 1 and 2 are superscripts and subscripts, 3 to 5 a root of a number or group,
# 6 the beginning of a superscript that is a degree sign, 7 and 8 a symbol and its accents.
_BEYOND = re.compile(
    r"\\(?:text(?:rm|bf|it|sf|tt|sl|sc|md|up|normal)?|[mh]box|emph)\s*+\{(?:[^{}\\]|\\.|\{[^{}]*+\})*+\}"
    r"|([⁰¹²³⁴-⁾ⁿⁱᴬ-ᵝᵸᶛ-ᶿʰʲʳ-ʸˡ-ˣ]+)|([₀-₎ₐ-ₜᵢ-ᵪⱼ]+)|([√∛∜])\s*+(?:([0-9]++(?:\.[0-9]++)?)|\(([^()]*+)\))?"
    rf"|(\^\s*+\{{?+)\s*+°|(\\[A-Za-z]++(?:\{{[^{{}}]*+\}})?+|[^\\{{}}\s{''.join(_ACCENTS)}])([{''.join(_ACCENTS)}]++)"
    r"|[^\x00-\x7f]",
    re.DOTALL,
)
_CENTRE_DOTS = re.compile(r"(?:\\cdot(?![A-Za-z])\s*+){3}")
_DOTS = re.compile(r"\\dots(?![A-Za-z])\s*+(?=(\\[A-Za-z]++|.)?)", re.DOTALL)
_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*+\\\Z")
# Operators and relations, before which amsmath's dots are centred.
_CENTRED = frozenset((*"+-*/=<>", *(f"\\{name}" for name in _TABLES["centred"])))


_SPELLINGS = {
    character: command + " "
    for command, character in reversed((VARIABLES | OPERATORS).items())
    if len(character) == 1 and not character.isascii()
} | _VARIANTS


def normalise_latex(latex: str) -> str:
    r"""Returns LaTeX in which equal symbols are spelled equally, as LaTeXML reads them.

    - Characters beyond ASCII become commands, except in text. Characters without a command are kept. A root covers the
      number or the group in parentheses that follows it. A letter with accents, composed or not, becomes their
      commands, a degree sign `^{\circ}`; of several commands for an arrow, the one with a meaning: `⟹` is `\implies`.
    - `\dots` becomes `\cdots` before an operator or relation, and `\ldots` elsewhere; three `\cdot` become `\cdots`.
    - Entities that HTML leaves in LaTeX, such as `&lt;`, become characters, and a backslash at the end a `\ `.

    Examples
    --------
    >>> normalise_latex("x² ≤ ½α, 𝐀 ∈ ℝ")
    'x^{2} \\leq  \\frac{1}{2}\\alpha , \\mathbf{A} \\in  \\mathbb{R}'
    >>> normalise_latex("ẋ ≢ 90°")
    '\\dot{x} \\not \\equiv   90^{\\circ}'
    """
    if "&" in latex:
        latex = _ENTITY.sub(lambda match: html.unescape(match[0]), latex)
    if not latex.isascii():
        latex = _BEYOND.sub(_spelled, latex)
    if "dot" in latex:
        latex = _CENTRE_DOTS.sub(r"\\cdots ", latex)
        latex = _DOTS.sub(lambda match: r"\cdots " if match[1] in _CENTRED else r"\ldots ", latex)
    return latex + " " if latex.endswith("\\") and _ESCAPE.search(latex) else latex


def _spelled(match: re.Match[str]) -> str:
    """Returns a matched script, root, degree sign, accented character or other character as LaTeX spells it."""
    if script := match[1] or match[2]:
        plain = "".join(_SPELLINGS.get(one, one) for one in unicodedata.normalize("NFKC", script))
        return f"{'^' if match[1] else '_'}{{{plain}}}"
    if match[3]:
        under = match[4] or match[5]
        return f"{_ROOTS[match[3]]} " if under is None else f"{_ROOTS[match[3]]}{{{_BEYOND.sub(_spelled, under)}}}"
    if match[6]:
        return rf"{match[6]}\circ "
    if match[7]:
        return _with_accents(match[7] if match[7][0] == "\\" else _spell(match[7]), match[8])
    return match[0] if match[0][0] == "\\" else _spell(match[0])


def _with_accents(symbol: str, accents: str) -> str:
    for accent in accents:
        command = _ACCENTS[accent]
        symbol = rf"\not {symbol} " if command == r"\not" else f"{command}{{{symbol}}}"
    return symbol


@lru_cache(1 << 12)
def _spell(character: str) -> str:
    if character in _SPELLINGS:
        return _SPELLINGS[character]
    parts = unicodedata.normalize("NFD", character)
    letter, accents = parts[0], parts[1:]
    if accents and _ACCENTS.keys() >= {*accents}:
        return _with_accents(letter if letter.isascii() else _spell(letter), accents)
    kind, _, _ = unicodedata.decomposition(character).rpartition(">")
    plain = unicodedata.normalize("NFKC", character)
    if not kind or (" " in plain and kind != "<noBreak") or any(unicodedata.combining(part) for part in plain):
        return character
    if kind == "<fraction":
        above, _, below = plain.partition("⁄")
        return f"\\frac{{{above}}}{{{below}}}"
    whole = "".join([_spell(part) if not part.isascii() else part for part in plain])
    if kind != "<font":
        return whole
    name = unicodedata.name(character).removeprefix("MATHEMATICAL ")
    command = next((command for start, command in _ALPHABETS if name.startswith(start + " ")), "")
    return f"{command}{{{whole.strip()}}}" if command else whole

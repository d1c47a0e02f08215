"""Tables of the text views: LaTeX commands as Unicode, layout commands, function words, and Mathlib's abbreviations."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from harness.formulas.text.characters import pairs, sections

_TABLES = sections(Path(__file__).with_name("symbols.txt"))
UNICODE: Mapping[str, str] = dict(pairs(_TABLES["unicode"]))  # LaTeX command, without the backslash -> Lean's character

# Alphabets such as `\mathbb{N}`; Mathlib uses script capitals for some names, such as the neighbourhood filter.
_DOUBLE = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ1", "𝔸𝔹ℂ𝔻𝔼𝔽𝔾ℍ𝕀𝕁𝕂𝕃𝕄ℕ𝕆ℙℚℝ𝕊𝕋𝕌𝕍𝕎𝕏𝕐ℤ𝟙", strict=True)) | {"k": "𝕜"}
_SCRIPT = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "𝒜ℬ𝒞𝒟ℰℱ𝒢ℋℐ𝒥𝒦ℒℳ𝓝𝒪𝒫𝒬ℛ𝒮𝒯𝒰𝒱𝒲𝒳𝒴𝒵", strict=True))
ALPHABETS: Mapping[str, Mapping[str, str]] = {"mathbb": _DOUBLE, "Bbb": _DOUBLE, "mathcal": _SCRIPT, "mathscr": _SCRIPT}

# LaTeX that changes the layout but not the meaning, including commands that only set the size of delimiters.
LAYOUT = frozenset((*_TABLES["layout"], "\\"))
# Synonyms of LaTeX tokens.
SAME: Mapping[str, str] = dict(pairs(_TABLES["same"]))
# Commands -> the number of their arguments; a digit that is one of them is a number of its own.
ARGUMENTS: Mapping[str, int] = {
    **dict.fromkeys(("\\frac", "\\dfrac", "\\tfrac", "\\cfrac", "\\binom", "\\dbinom", "\\tbinom"), 2),
    **dict.fromkeys(("\\overset", "\\underset", "\\stackrel"), 2),
    **{f"\\{name}": 1 for name in _TABLES["one"]},
}

# Latin letters that have no decomposition into a letter and its accent.
_PLAIN = dict(pairs(_TABLES["letters"]))


@cache
def without_accents() -> Mapping[int, str]:
    """Returns Latin letters -> the letters without accent, for `str.translate`: `é` -> e, `ø` -> o, `ß` -> ss."""
    letters = map(chr, (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)))
    plain = {each: unicodedata.normalize("NFD", each)[0] for each in letters}
    plain = {each: letter for each, letter in plain.items() if letter.isascii()} | _PLAIN
    return {ord(each): letter for each, letter in plain.items()}


# English function words: articles, pronouns, prepositions, conjunctions, auxiliaries, the particles of contractions.
ENGLISH = frozenset(_TABLES["english"])

# Words of prose -> their abbreviations in Mathlib's naming conventions; words with equal stems need no entry.
ABBREVIATIONS: Mapping[str, str] = dict(pairs(_TABLES["abbreviations"]))

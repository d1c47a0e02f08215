"""Names, tags and scripts of the languages of topics."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

from harness.data.topics import Topic
from harness.formulas.text.delimiters import formula_spans

NAMES = {
    **{"ces": "Czech", "eng": "English", "fas": "Persian", "hin": "Hindi", "hrv": "Croatian"},
    **{"npi": "Nepali", "pes": "Persian", "spa": "Spanish"},
}
# BCP 47 tags, which use the two-letter code if a language has one.
_PAIRS = """
    ara:ar bul:bg ces:cs deu:de eng:en fas:fa fra:fr heb:he hin:hi hrv:hr ita:it mar:mr npi:ne pes:fa pol:pl por:pt
    rus:ru slk:sk slv:sl spa:es ukr:uk urd:ur
"""
_TAGS = dict(pair.split(":") for pair in _PAIRS.split())
RIGHT_TO_LEFT = frozenset({"ara", "fas", "heb", "pes", "urd"})
SCRIPTS = {
    **dict.fromkeys(("ces", "deu", "eng", "fra", "hrv", "ita", "pol", "por", "slk", "slv", "spa"), "LATIN"),
    **dict.fromkeys(("ara", "fas", "pes", "urd"), "ARABIC"),
    **dict.fromkeys(("hin", "mar", "npi"), "DEVANAGARI"),
    **dict.fromkeys(("bul", "rus", "ukr"), "CYRILLIC"),
}


def name_of(code: str) -> str:
    """Returns the English name of a language, or its code if the name is unknown.

    Examples
    --------
    >>> name_of("pes"), name_of("xyz")
    ('Persian', 'xyz')
    """
    return NAMES.get(code, code)


def tag(code: str) -> str:
    """Returns the BCP 47 tag of a language, or its code if the tag is unknown.

    Examples
    --------
    >>> tag("pes"), tag("mkd")
    ('fa', 'mkd')
    """
    return _TAGS.get(code, code)


def script(text: str) -> str:
    """Returns the Unicode name of the most frequent script outside formulas; empty without letters.

    Examples
    --------
    >>> script("Sea $x$ un número"), script("فرض کنید $x$"), script("$x$")
    ('LATIN', 'ARABIC', '')
    """
    prose, at = [], 0
    for start, end, *_ in formula_spans(text):
        prose.append(text[at:start])
        at = end
    letters = (sign for sign in "".join([*prose, text[at:]]) if sign.isalpha())
    counted = Counter(unicodedata.name(sign, " ").split(" ")[0] for sign in letters)
    return max(counted, key=lambda name: (counted[name], name)) if counted else ""


def suspicious(topics: Iterable[Topic]) -> list[str]:
    """Returns the ids of topics that are not in the script of their language."""
    return [
        topic.id
        for topic in topics
        if (expected := SCRIPTS.get(topic.language))
        and (actual := script(f"{topic.title} {topic.body}"))
        and actual != expected
    ]

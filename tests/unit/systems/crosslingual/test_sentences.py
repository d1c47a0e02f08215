"""Sentences of texts in seven languages: where they end, and that nothing of a text is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.formulas.text.delimiters import spans
from harness.formulas.text.masking import mask
from harness.systems.crosslingual.sentences import halves, split


def parts(text: str) -> list[str]:
    return [sentence for sentence, _ in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  ", [("", "  ")]),
        ("One", [("One", "")]),
        (" One. Two ", [("", " "), ("One.", " "), ("Two", " ")]),
        ("Is it?  Yes!\nNo", [("Is it?", "  "), ("Yes!", "\n"), ("No", "")]),
        ("a\r\n\r\nb c\u2028d", [("a", "\r\n\r\n"), ("b c", "\u2028"), ("d", "")]),
        ("QZ1. QZ2 . Then", [("QZ1.", " "), ("QZ2 .", " "), ("Then", "")]),
    ],
)
def test_sentences_and_the_blanks_after_them(text: str, expected: list[tuple[str, str]]) -> None:
    assert split(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We know it. if QZ1 then", ["We know it.", "if QZ1 then"]),  # as many of the topics have it
        ("¿Cómo? Me encontré esto. ¡Ay! si", ["¿Cómo?", "Me encontré esto.", "¡Ay!", "si"]),
        (
            "Neka je QZ1, npr. QZ2. Odredi. Vidi 3. poglavlje.",
            ["Neka je QZ1, npr. QZ2.", "Odredi.", "Vidi 3. poglavlje."],
        ),
        ("Najděte např. QZ1. Tj. číslo.", ["Najděte např. QZ1.", "Tj. číslo."]),
        ("چگونه؟ این درست است. بله۔ خیر", ["چگونه؟", "این درست است.", "بله۔", "خیر"]),
        ("यह QZ1 है। कैसे? हाँ॥ नहीं", ["यह QZ1 है।", "कैसे?", "हाँ॥", "नहीं"]),
        ("म यो समस्यामा छु। यदि QZ1 भने", ["म यो समस्यामा छु।", "यदि QZ1 भने"]),
        ("See e.g. Fig. 3 or i.e. Eq. 4 vs. 5. Next", ["See e.g. Fig. 3 or i.e. Eq. 4 vs. 5.", "Next"]),
        ("Sea p. ej. QZ1, o p.ej. QZ2. Fin", ["Sea p. ej. QZ1, o p.ej. QZ2.", "Fin"]),
        ("It is 3.5 and 1. Then", ["It is 3.5 and 1.", "Then"]),
        ("1. Prove it. 2. Use it.", ["1. Prove it.", "2. Use it."]),
        ("Hm... so what... So", ["Hm... so what...", "So"]),
        ('He said "no." (Why?) Then', ['He said "no."', "(Why?)", "Then"]),
        ("for every x. Then", ["for every x.", "Then"]),
        (
            "If $a. b$ holds. So \\[ x. \\text{if $n$. y} \\] ends",
            ["If $a. b$ holds.", "So \\[ x. \\text{if $n$. y} \\] ends"],
        ),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert parts(text) == expected


PIECES = [
    "QZ1",
    "QZ12",
    "w",
    "W",
    "3",
    "3.5",
    "e.g.",
    ".",
    "!",
    "?",
    "؟",
    "।",
    '"',
    "$a. b$",
    "$",
    "\\(",
    "\\)",
    "\n",
    " ",
    "\t",
    "\xa0",
]
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join) | st.text()


@given(TEXTS)
def test_nothing_is_lost_and_no_formula_is_cut(text: str) -> None:
    found = split(text)
    assert "".join(sentence + blank for sentence, blank in found) == text
    assert all(sentence or blank for sentence, blank in found)
    assert all(not blank or blank.isspace() for _, blank in found)
    at = 0
    for sentence, blank in found:
        at += len(sentence)
        assert not any(span.start < at < span.end for span in spans(text))
        at += len(blank)
    assert not any("\n" in sentence for sentence in parts(mask(text).text))


@given(TEXTS)
def test_a_text_is_taken_apart_at_blanks_only(text: str) -> None:
    found = halves(text)
    inner = [blank for blank in re.finditer(r"\s+", text) if blank.start() > 0 and blank.end() < len(text)]
    outside = [blank for blank in inner if not any(span.start <= blank.start() < span.end for span in spans(text))]
    assert (found is None) == (not outside)
    if found is None:
        return
    before, blank, after = found
    assert before + blank + after == text
    assert before
    assert after
    assert blank.isspace()
    assert not any(span.start < len(before) < span.end for span in spans(text))


def test_halves() -> None:
    assert halves("a bb ccc dddd") == ("a bb", " ", "ccc dddd")
    assert halves(" one ") is None
    assert halves("$a + b$") is None
    assert halves("$a + b$ is") == ("$a + b$", " ", "is")

"""Sentences of texts in seven languages: where they end, and that nothing of a text is lost."""

from __future__ import annotations

import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st

from harness.formulas.text.delimiters import formula_spans
from harness.formulas.text.masking import mask_formulas
from harness.systems.crosslingual.sentences import halves_of_text, split


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


@pytest.mark.parametrize("row", table("systems/sentences"))
def test_where_sentences_end(row: tuple[str, ...]) -> None:
    text, *expected = row
    assert parts(text) == expected


_PIECES = r'QZ1 QZ12 w W 3 3.5 e.g. . ! ? ؟ । " $ \( \)'
PIECES = [*_PIECES.split(), "$a. b$", "\n", " ", "\t", "\xa0"]
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
        assert not any(span.start < at < span.end for span in formula_spans(text))
        at += len(blank)
    assert not any("\n" in sentence for sentence in parts(mask_formulas(text).text))


def test_halves() -> None:
    assert halves_of_text("a bb ccc dddd") == ("a bb", " ", "ccc dddd")
    assert halves_of_text(" one ") is None
    assert halves_of_text("$a + b$") is None
    assert halves_of_text("$a + b$ is") == ("$a + b$", " ", "is")

"""The order and forms in which a line is drawn; expectations written out by hand from the Unicode charts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.render.shaping import drawn


def shown(text: str) -> str:
    return "".join(piece for piece, _ in drawn(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bm25, k=1.2", "bm25, k=1.2"),
        # beh: isolated; initial and final; initial, medial, final
        ("\u0628", "\ufe8f"),
        ("\u0628\u0628", "\ufe90\ufe91"),
        ("\u0628\u0628\u0628", "\ufe90\ufe92\ufe91"),
        # alef does not join to what follows it
        ("\u0627\u0628", "\ufe8f\ufe8d"),
        # lam with alef is one glyph: isolated, and after a letter
        ("\u0644\u0627", "\ufefb"),
        ("\u0633\u0644\u0627\u0645", "\ufee1\ufefc\ufeb3"),
        # Persian letters: peh, gaf, farsi yeh
        ("\u067e\u06af\u06cc", "\ufbfd\ufb95\ufb58"),
        # a non-joiner parts letters and is not drawn itself
        ("\u0628\u200c\u0628", "\ufe8f\ufe8f"),
        # a mark stands between letters that join all the same
        ("\u0628\u064e\u0628", "\ufe90\u064e\ufe91"),
        # Hebrew is turned round, not joined
        ("\u05d0\u05d1\u05d2", "\u05d2\u05d1\u05d0"),
        # the line runs from left to right; numbers inside of Hebrew keep their order
        ("run \u05d0\u05d1 v2", "run \u05d1\u05d0 v2"),
        ("\u05d0 12 \u05d1", "\u05d1 12 \u05d0"),
        ("\u05d0 (\u05d1) \u05d2", "\u05d2 (\u05d1) \u05d0"),
        ("(\u05d0)", "(\u05d0)"),
    ],
)
def test_a_line_is_drawn_in_its_order_and_forms(text: str, expected: str) -> None:
    assert shown(text) == expected


@given(st.text(alphabet=st.characters(max_codepoint=0x58F, exclude_categories=["Cf"])))
def test_text_from_left_to_right_is_left_alone(text: str) -> None:
    assert drawn(text) == [(char, char) for char in text]


@given(st.text(alphabet="ab1 (),-\u0628\u0627\u0644\u0633\u05d0\u05d1\u064e\u06cc\u0662"))
def test_nothing_is_lost_or_added(text: str) -> None:
    assert sorted("".join(written for _, written in drawn(text))) == sorted(text)

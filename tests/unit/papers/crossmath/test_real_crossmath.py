from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.topics import Topic, Topics
from harness.papers.crossmath.topic_check import Damage, check_translation, damage


@pytest.mark.parametrize(
    ("english", "translated", "found"),
    [
        ("Find $x$ and $$y$$", "Najdi $$ y $$ a \\(x\\)", Damage(0, 0, 0)),
        ("Find $x$ and $y$", "Najdi $y$", Damage(1, 0, 0)),
        ("Find $x$ and $x$", "Najdi $x$", Damage(1, 0, 0)),
        ("Find $x$", "Najdi $x$ a $z$", Damage(0, 0, 1)),
        ("Find $x^2$", "Najdi $x2$", Damage(0, 1, 0)),
        ("Find $x^2$, $y$, $z$", "Najdi $x2$, $z$", Damage(1, 1, 0)),
        ("Find $x^2$", "Najdi $x2$, $q$, $r$", Damage(0, 1, 2)),
        ("Find it", "Najdi to", Damage(0, 0, 0)),
    ],
)
def test_what_became_of_formulas(english: str, translated: str, found: Damage) -> None:
    assert damage(Topic("1", "t", translated), Topic("1", "t", english)) == found
    # It makes no difference whether a formula stands in the title or in the body.
    assert damage(Topic("1", translated), Topic("1", "t", english)) == found


FORMULAS = st.lists(st.sampled_from(["a", "b", "c", "x y"]), max_size=5)


@given(FORMULAS, FORMULAS)
def test_counts_of_formulas_add_up(english: list[str], translated: list[str]) -> None:
    there, here = (Topic("1", " und ".join(f"${latex}$" for latex in found)) for found in (english, translated))
    found = damage(here, there)
    assert len(english) - found.lost + found.added == len(translated)
    assert min(found.lost, found.added) == 0
    assert (found == Damage(0, 0, 0)) == (sorted(english) == sorted(translated))
    back = damage(there, here)
    assert (back.lost, back.changed, back.added) == (found.added, found.changed, found.lost)


def test_a_translation_is_summed_up() -> None:
    english = Topics((Topic("1", "$a$", "and $b$"), Topic("2", "t", "$c$ and $d$"), Topic("3", "t", "$e$")))
    czech = Topics((Topic("1", "$a$", "a $b$"), Topic("2", "t", "$C$"), Topic("4", "$x$")))
    found = check_translation("ces", "Czech", czech, english, {"1", "2", "3"})
    assert (found.formulas, found.lost, found.changed, found.added) == (4, 1, 1, 0)
    assert found.damaged == {"2": Damage(1, 1, 0)}
    assert found.missing == ("3",)
    assert check_translation("ces", "Czech", czech, english, {"1"}).damaged == {}

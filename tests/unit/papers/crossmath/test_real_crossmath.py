from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.topics import Topic, Topics
from harness.papers.crossmath.readers import Damage, check_translation, damage


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
    """A body is English if its words are, whatever its formulas; one of formulas alone is of no language."""
    texts = {"1": "and $b$", "2": "$c$ and $d$", "3": "$e$", "4": "$f$", "5": "Find $x$ now", "6": "not judged"}
    english = Topics(tuple(Topic(name, "$a$" if name == "1" else "t", body) for name, body in texts.items()))
    theirs = {"1": "a $b$", "2": "$C$", "4": "$f$", "5": "find, $y + 1$ NOW!", "6": "not judged", "7": "$x$"}
    czech = Topics(tuple(Topic(name, "$a$" if name == "1" else "t", body) for name, body in theirs.items()))
    found = check_translation("ces", "Czech", czech, english, {"5", "1", "2", "3", "4"})
    assert (found.language, found.title, found.checked) == ("ces", "Czech", ("1", "2", "3", "4", "5"))
    assert (found.formulas, found.lost, found.changed, found.added) == (6, 1, 2, 0)
    assert found.damaged == {"2": Damage(1, 1, 0), "5": Damage(0, 1, 0)}
    assert (found.missing, found.english_bodies) == (("3",), ("5",))
    assert check_translation("ces", "Czech", czech, english, {"1"}).damaged == {}

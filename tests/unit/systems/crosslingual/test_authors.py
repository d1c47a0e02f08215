"""The two functions of CrossMath's authors, with translators that the test controls; all worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from case_tables import table

from harness.formulas.text.masking import Masked
from harness.systems.crosslingual.authors import (
    SCRIPTS,
    Script,
    Untranslated,
    leaves,
    mask_as_authors,
    reason,
    sentences,
    translate_as_authors,
    unmask_as_authors,
    untranslated,
)
from harness.systems.crosslingual.pipeline import compared, counts
from harness.systems.crosslingual.translators import TranslatedText


@dataclass
class Ask:
    """Translates each text by a function, and keeps what was asked."""

    function: Callable[[str], str] = str.upper
    asked: list[str] = field(default_factory=list)

    def __call__(self, texts: Iterable[str]) -> dict[str, str]:
        different = list(dict.fromkeys(texts))
        self.asked += different
        return {text: self.function(text) for text in different}


def run(text: str, script: Script, ask: Ask | None = None, prefix: str | None = "QZ") -> TranslatedText:
    def count(original: str, restored: str) -> dict[str, int]:
        return counts(compared(original, restored))

    return translate_as_authors([text], script, ask or Ask(), count, prefix)[0]


def facts(passage: TranslatedText) -> dict[str, int]:
    names = ("formulas", "kept", "duplicated", "moved", "altered", "appended", "sentences", "untranslated")
    return {name: getattr(passage, name) for name in names if getattr(passage, name)}


@pytest.mark.parametrize(
    "row",
    [
        ("\\begin{a}\n1\n\\end{a}", "QZ1", "\\begin{a}\n1\n\\end{a}"),
        ("\\begin{a\n}1\\end{a}", "\\begin{a\n}1\\end{a}"),  # the name is on one line
        *table("systems/masks"),
    ],
)
def test_masks(row: tuple[str, ...]) -> None:
    text, masked, *formulas = row
    found = mask_as_authors(text)
    assert (found.text, found.formulas) == (masked, tuple(formulas))
    assert found.numbers == tuple(range(1, len(formulas) + 1))


def test_unmasking_replaces_letters_wherever_they_are() -> None:
    ten = " ".join(f"${letter}$" for letter in "abcdefghij")
    assert unmask_as_authors(mask_as_authors(ten).text, mask_as_authors(ten)) == ten.replace("$j$", "$a$0")
    nested = mask_as_authors(r"\begin{a} $x$ \end{a}")
    # QZ1 was replaced before QZ2 brought it back.
    assert unmask_as_authors(nested.text, nested) == r"\begin{a} QZ1 \end{a}"
    assert unmask_as_authors("qz1 QZ 1", Masked("", ("$a$",), (1,))) == "qz1 QZ 1"


def test_sentences_lose_their_marks() -> None:
    assert sentences("Sea $5 mod 8. $ par. ¿Por qué? 3.5! ") == ["Sea $5 mod 8", "$ par", "¿Por qué", "3.5", ""]
    assert sentences("یک؟ دو।") == ["یک؟ دو।"]  # they know neither mark


@pytest.mark.parametrize(("text", "expected"), [("\n$x$", ""), *table("systems/untranslated")])
def test_why_a_text_stays_untranslated(text: str, expected: str) -> None:
    assert (reason(mask_as_authors(text)) or "") == expected


def test_nllb_translates_sentence_by_sentence() -> None:
    text = "Sea $x$ primo. $y$ es par. 3 es impar? ¿Cómo $z$? ¿$w$ es? Za sada.  dos. QZ. Fin."
    ask = Ask()
    passage = run(text, "nllb", ask)
    assert ask.asked == ["Sea QZ1 primo", "¿Cómo QZ1", "Fin."]
    assert passage.restored == "SEA $x$ PRIMO $y$ es par 3 es impar ¿CÓMO $z$ ¿$w$ es Za sada  dos QZ FIN."
    assert passage.sent == "Sea QZ1 primo QZ1 es par 3 es impar ¿Cómo QZ1 ¿QZ1 es Za sada  dos QZ Fin."
    assert facts(passage) == {"formulas": 4, "kept": 4, "sentences": 9, "untranslated": 6}
    # A long output is no reason to try again, and an empty sentence is asked for.
    ask = Ask(lambda text: text + 60 * "~")
    assert run("Uno $x$? ", "nllb", ask).restored == f"Uno $x${60 * '~'} {60 * '~'}"
    assert ask.asked == ["Uno QZ1", ""]


def test_mbart_translates_the_whole_text_or_none_of_it() -> None:
    ask = Ask()
    passage = run("Sea $x$ primo. $y$ es par. 3 es impar?", "mbart", ask)
    assert ask.asked == ["Sea QZ1 primo. QZ2 es par. 3 es impar?"]
    assert passage.restored == "SEA $x$ PRIMO. $y$ ES PAR. 3 ES IMPAR?"
    assert facts(passage) == {"formulas": 2, "kept": 2, "sentences": 1}
    ask = Ask()
    passage = run("$x$ es primo. ¿Es par? Fin.", "mbart", ask)
    assert ask.asked == []
    assert passage.restored == "$x$ es primo. ¿Es par? Fin."
    assert facts(passage) == {"formulas": 1, "kept": 1, "sentences": 1, "untranslated": 1}


def test_mbart_tries_again_without_placeholders() -> None:
    """If the output is more than 50 characters longer than the text as it was before masking."""
    text = "Sea $xyzxyzxyz$"  # 15 characters, 7 of them masked

    def longer(by: int) -> Callable[[str], str]:
        return lambda asked: "~" * (len(text) + by) if "QZ" in asked else asked.upper()

    ask = Ask(longer(50))
    assert run(text, "mbart", ask).restored == 65 * "~"
    assert ask.asked == ["Sea QZ1"]
    ask = Ask(longer(51))
    passage = run(text, "mbart", ask)
    assert passage.restored == "SEA $XYZXYZXYZ$"
    assert ask.asked == ["Sea QZ1", text]
    assert (passage.kept, passage.lost) == (0, 1)
    # The second attempt is taken however long it is, and placeholders that it invents are replaced.
    ask = Ask(lambda _: "QZ1" + 80 * "~")
    assert run(text, "mbart", ask).restored == "$xyzxyzxyz$" + 80 * "~"
    assert ask.asked == ["Sea QZ1", text]


@pytest.mark.parametrize("script", SCRIPTS)
def test_placeholders_are_not_repaired(script: Script) -> None:
    ask = Ask(lambda text: text.replace("QZ1", "qz 1").replace("QZ2 ", ""))
    passage = run("si $x$ y $y$ es $z$", script, ask)
    assert passage.restored == "si qz 1 y es $z$"
    assert facts(passage) == {"formulas": 3, "kept": 1, "altered": 1, "sentences": 1}
    passage = run("si $x$ y $y$", script, Ask(lambda text: text.replace("QZ1", "ZQ1").replace("QZ2", "КЗ2")))
    assert passage.restored == "si ZQ1 y КЗ2"
    assert (passage.kept, passage.repaired, passage.altered) == (0, 0, 0)


def test_a_formula_that_holds_the_end_of_a_sentence() -> None:
    passage = run("Sea $5 mod 8. $ par", "nllb")
    assert passage.restored == "SEA $5 MOD 8 $ PAR"
    assert facts(passage) == {"formulas": 1, "sentences": 2}
    assert run("Sea $5 mod 8. $ par", "mbart").restored == "SEA $5 mod 8. $ PAR"


def test_without_masks() -> None:
    passage = run("$x$ es. Zeta $y$. 3", "nllb", prefix=None)
    assert passage.restored == "$X$ ES ZETA $Y$ 3"
    assert facts(passage) == {"formulas": 2, "sentences": 3, "untranslated": 1}


TEXTS = ["$x$ es. $y$! 3 es? , y.  dos. ¿ tres. ¿¿Qué? ¿Qué? Uno $x$. ", "Zato. QZ7 es. Que ¿. ؟", "Y $x$. $y$", ""]


def test_what_is_left_untranslated() -> None:
    expected = Untranslated(units=15, formula=3, digit=1, mark=2, blank=2, letter=4, words=10)
    assert untranslated(TEXTS, "nllb") == expected
    assert expected.left == 12
    assert untranslated(TEXTS, "mbart") == Untranslated(units=3, formula=1, letter=1, words=2)
    assert untranslated([], "nllb") == Untranslated()
    assert [leaves(text, "mbart") for text in TEXTS] == [True, True, False, False]
    assert [leaves(text, "nllb") for text in ("$x$ es. 3", "$x$ es. Si", "")] == [True, False, False]

"""Formulas behind placeholders: by hand what a translation can do to them, and the way there and back on any text."""

from __future__ import annotations

from functools import partial

import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st
from lexical_tools import message

from harness.formulas.text.masking import Integrity, Masked, mask_formulas, unmask_formulas

_PIECES = r"""
    $ $$ \$ \ \( \) \[ \] \begin{a} \end{a} \text{ } $x$ $$y$$ \(z\) QZ QZ1 QZ2 QZ12 qz Q Z q z1 ＱＺ QZ- 1 2 12 ۱ १ ٣ ²
    - _ 0 01 QZ001 QZ1234567890
"""
PIECES = [*_PIECES.split(), "QZ 3", " ", "\n", "\u200c", "word "]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text()


def integrity(**counts: int | tuple[str, ...]) -> Integrity:
    """Three formulas, all back as they were, but for what is said."""
    fields = ("duplicated", "reordered", "altered", "repaired", "unrepaired", "unknown")
    return Integrity(**{"formulas": 3, "kept": 3, "missing": (), **dict.fromkeys(fields, 0), **counts})  # type: ignore[arg-type]


# ---- there


def test_formulas_become_numbers() -> None:
    masked = mask_formulas(r"If $x$ is \(y\), \[z\] and $$u$$ \begin{a}v\end{a}")
    assert masked.text == "If QZ1 is QZ2, QZ3 and QZ4 QZ5"
    assert masked.formulas == ("$x$", r"\(y\)", r"\[z\]", "$$u$$", r"\begin{a}v\end{a}")
    assert masked.numbers == (1, 2, 3, 4, 5)
    assert mask_formulas("cost $5") == Masked("cost $5", (), ())


@pytest.mark.parametrize(("text", "expected"), table("formulas/numbers"))
def test_numbers_of_the_text_are_skipped(text: str, expected: str) -> None:
    masked = mask_formulas(text)
    assert masked.text == expected
    assert unmask_formulas(masked.text, masked)[0] == text


def test_another_prefix() -> None:
    masked = mask_formulas("QZ1 $x$ MATH2 $y$", "MATH")
    assert masked.text == "QZ1 MATH1 MATH2 MATH3"
    assert unmask_formulas("math 3, MATH1 QZ3", masked) == (
        "$y$, $x$ QZ3",
        Integrity(2, 2, (), duplicated=0, reordered=1, altered=1, repaired=1, unrepaired=0, unknown=0),
    )
    for wrong in ("", "qz", "Q1", "ÄÖ"):
        expected = f"prefix of placeholders is {wrong!r}, expected capital letters A to Z such as 'QZ'"
        assert message(partial(mask_formulas, "$x$", wrong)) == expected


# ---- and back

ABC = mask_formulas("$a$ b $c$ d $e$")


@pytest.mark.parametrize(
    ("translated", "expected", "repairs", "found"),
    [("Q Z 1 QZ-2 Qz_\u200b3", "$a$ $c$ $e$", "both", "altered=3 repaired=3"), *table("formulas/masking")],
)
def test_what_a_translation_did(translated: str, expected: str, repairs: str, found: str) -> None:
    counts = dict(count.split("=") for count in found.split())
    wanted = {name: tuple(value.split(",")) if name == "missing" else int(value) for name, value in counts.items()}
    for repair in {"both": (False, True), "repair": (True,), "no repair": (False,)}[repairs]:
        assert unmask_formulas(translated, ABC, repair=repair) == (expected, integrity(**wanted))


def test_other_letters_are_left_where_nobody_asks_for_repairs() -> None:
    assert unmask_formulas("ZQ1 КЗ2 QZ3", ABC) == ("ZQ1 КЗ2 $e$", integrity(kept=1, missing=("$a$", "$c$")))


@pytest.mark.parametrize("text", ["the ZQ1 of $x$", "ЗК 1 od $x$", "zq-1 $x$", "1 of ZQ, $x$"])
def test_other_letters_of_the_text_itself_are_no_placeholders(text: str) -> None:
    masked = mask_formulas(text, blanks=True)
    assert unmask_formulas(masked.text, masked, repair=True)[0] == text
    gone = masked.text.replace("QZ1", "ZQ 1")
    assert unmask_formulas(gone, masked, repair=True) == (gone, integrity(formulas=1, kept=0, missing=("$x$",)))


def test_other_letters_of_another_prefix() -> None:
    masked = mask_formulas("$x$ $y$ $z$", "MATH")
    assert unmask_formulas("AMTH1 MAHT2 МАТХ3", masked, repair=True)[0] == "$x$ $y$ $z$"
    assert unmask_formulas("HTAM1", masked, repair=True)[0] == "HTAM1"  # not two neighbours
    assert unmask_formulas("К1", mask_formulas("$x$", "Q"), repair=True)[0] == "$x$"


def test_a_translation_is_intact_or_it_is_not() -> None:
    assert unmask_formulas(ABC.text, ABC)[1].intact
    for translated in ("QZ1 QZ2", "QZ2 QZ1 QZ3", "QZ1 QZ2 QZ3 QZ3", "QZ1 QZ2 qz3", "QZ1 QZ2 QZ3 QZ4"):
        assert not unmask_formulas(translated, ABC)[1].intact
    assert unmask_formulas("QZ1", ABC)[1].lost == 2


def test_the_number_one_is_not_found_in_twelve() -> None:
    masked = mask_formulas(" ".join(f"$x_{{{n}}}$" for n in range(1, 13)))
    assert masked.text.endswith("QZ11 QZ12")
    text, found = unmask_formulas("QZ12 QZ1", masked)
    assert text == "$x_{12}$ $x_{1}$"
    assert (found.kept, found.lost, found.altered) == (2, 10, 0)


def test_placeholders_of_the_text_are_no_news() -> None:
    masked = mask_formulas("QZ1 $x$")
    assert unmask_formulas("QZ1 QZ2", masked)[1].intact
    text, found = unmask_formulas("qz1 QZ2 QZ1 QZ9", masked)
    assert text == "qz1 $x$ QZ1 QZ9"
    assert (found.kept, found.altered, found.unknown) == (1, 0, 1)


def test_what_stands_in_a_formula_is_put_back_as_it_was() -> None:
    masked = mask_formulas(r"$\1 \g<0> QZ2$ and $QZ1$")
    assert unmask_formulas("QZ2 QZ1", masked)[0] == r"$QZ1$ $\1 \g<0> QZ2$"


@given(TEXTS, st.booleans())
def test_masking_and_unmasking_is_the_identity(text: str, blanks: bool) -> None:
    masked = mask_formulas(text, blanks=blanks)
    back, found = unmask_formulas(masked.text, masked, repair=True)
    assert back == text
    assert found.intact
    assert found.formulas == len(masked.formulas) == len(set(masked.numbers))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$a$", "QZ1"),
        ("a $b$ c", "a QZ1 c"),
        ("non-$b$-c, ($d$).", "non- QZ1 -c, ( QZ2 )."),
        ("$a$$b$\\(c\\)\n$d$", "QZ1 QZ2 QZ3\nQZ4"),
        ("QZ1$a$QZ", "QZ1 QZ2 QZ"),
    ],
)
def test_placeholders_that_are_words_of_their_own(text: str, expected: str) -> None:
    masked = mask_formulas(text, blanks=True)
    assert masked.text == expected
    assert unmask_formulas(expected, masked)[0] == text


def test_a_blank_is_taken_back_between_the_same_signs_alone() -> None:
    masked = mask_formulas("non-$b$-c ($d$)", blanks=True)
    assert unmask_formulas("( QZ2 ) c - QZ1 not", masked)[0] == "($d$) c -$b$ not"


DAMAGE = ("{0}", "ZQ{0}", "Zq-{0}", "КЗ{0}", "ЗК_{0}", "ЌЗ{0}", "QЗ{0}", "QΖ{0}", "qz{0}", "Q_Z{0}", "QZ0{0}")
PLAIN = ("QZ3", "K3", "KZ1", "1", "2", "З", "Q", "слово", "word")
DECOYS = (*PLAIN, "ZQ1", "КЗ2", "zq_4", "ZQ")


@given(st.sampled_from((PLAIN, DECOYS)).flatmap(lambda words: st.lists(st.sampled_from((None, *words)))), st.data())
def test_random_damage_never_gives_a_wrong_formula(text: list[str | None], data: st.DataObject) -> None:
    """Placeholders lost, doubled, moved and written in any letters, among words that look like some."""
    masked = mask_formulas(
        " ".join(f"$f_{{{at}}}$" if word is None else word for at, word in enumerate(text)), blanks=True
    )
    formula = dict(zip((f"QZ{number}" for number in masked.numbers), masked.formulas, strict=True))
    words = masked.text.split()
    drawn = data.draw(st.lists(st.sampled_from(words), max_size=2 * len(words))) if words else []
    forms = [data.draw(st.sampled_from(("QZ{0}", *DAMAGE))) if word in formula else word for word in drawn]
    sent = [form.format(word[2:]) for form, word in zip(forms, drawn, strict=True)]
    back, found = unmask_formulas(" ".join(sent), masked, repair=True)
    right = [
        (got == formula[word]) if got != given else got not in masked.formulas
        for word, given, got in zip(drawn, sent, back.split(), strict=True)
        if word in formula or got != given
    ]
    assert all(right)
    assert found.kept == len(set(back.split()) & set(masked.formulas))
    assert found.repaired <= found.kept
    exact = set(sent) & set(formula)
    assert found.repaired == found.kept - len(exact)
    # What is in no other letters is dealt with as without repairs.
    assert unmask_formulas(" ".join(sent), masked)[1].kept <= found.kept

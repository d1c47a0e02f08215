"""Both pipelines, with translators that do to placeholders what real ones do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from case_tables import table
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from refusals import refuses

from harness.data.topics import Topic
from harness.errors import HarnessError
from harness.formulas.text.delimiters import formula_spans
from harness.formulas.text.masking import Masked, mask_formulas
from harness.systems.crosslingual import pipeline
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
from harness.systems.crosslingual.pipeline import PIPELINES, compared, translate_texts
from harness.systems.crosslingual.sentences import halves_of_text, split
from harness.systems.crosslingual.translations import translated
from harness.systems.crosslingual.translators import TranslatedText


@dataclass
class Fake:
    """Translates each text by a function, and remembers what it was given."""

    function: Callable[[str], str]
    whole: bool = False
    name: str = "fake"
    languages: Mapping[str, str] = field(default_factory=lambda: {"spa": "es"})
    asked: list[str] = field(default_factory=list)
    calls: int = 0
    script: str = "nllb"

    def missing(self) -> list[str]:
        return []

    def identity(self, source: str = "", target: str = "") -> dict[str, Any]:
        return {"source": source, "target": target}

    def notes(self) -> tuple[str, ...]:
        return ()

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        assert (source, target) == ("spa", "eng")
        self.calls += 1
        self.asked += texts
        return [self.function(text) for text in texts]


def same(text: str) -> str:
    return text


def run(
    text: str, function: Callable[[str], str], pipeline: str = "ours", masking: str | None = "QZ"
) -> TranslatedText:
    return translate_texts([text], Fake(function), "spa", "eng", masking=masking, pipeline=pipeline)[0]


def counts(passage: TranslatedText) -> dict[str, int]:
    names = ("formulas", "kept", "repaired", "duplicated", "moved", "altered", "appended", "sentences", "untranslated")
    return {name: getattr(passage, name) for name in names if getattr(passage, name)}


def test_words_between_amounts_of_money_are_translated() -> None:
    text = "cuesta $5 o $10 si gana $x$"
    topics = [Topic("q", text, language="spa", dollars="pandoc"), Topic("r", text, language="spa")]
    found = translated(topics, Fake(str.upper), "eng", masking="QZ")
    assert found["q"].title.restored == "CUESTA $5 O $10 SI GANA $x$"
    assert found["r"].title.restored == "CUESTA $5 o $10 SI GANA $x$"  # as on sites of mathematics


# ---- ours -------------------------------------------------------------------------------------------------------


def test_words_are_translated_and_formulas_come_back() -> None:
    passage = run("Sea $x$ un primo, $y$. ¿Es par?  Fin", str.upper)
    assert passage.restored == "SEA $x$ UN PRIMO, $y$. ¿ES PAR?  FIN"
    assert passage.received == "SEA QZ1 UN PRIMO, QZ2 . ¿ES PAR?  FIN"
    assert passage.sent == "Sea QZ1 un primo, QZ2 . ¿Es par?  Fin"
    assert counts(passage) == {"formulas": 2, "kept": 2, "sentences": 3}


@pytest.mark.parametrize(("changes", "restored", "found"), table("systems/placeholders"))
def test_what_a_translator_does_to_placeholders(changes: str, restored: str, found: str) -> None:
    def changed(text: str) -> str:
        for old, new in json.loads(changes):
            text = text.replace(old or text, new)
        return text

    passage = run("si $x$ y $y$ es $z$", changed)
    assert passage.restored == restored
    wanted = {
        "formulas": 3,
        "sentences": 1,
        **{name: int(n) for name, n in (each.split("=") for each in found.split())},
    }
    assert counts(passage) == {name: n for name, n in wanted.items() if n}
    assert passage.lost == passage.appended


def test_sentences_without_words_are_not_given() -> None:
    fake = Fake(str.upper)
    texts = ["$x=1$. 3.5! hola. $y$", "hola. $z$", "", "  ", "$a$", "12"]
    passages = translate_texts(texts, fake, "spa", "eng")
    assert [passage.restored for passage in passages] == ["$x=1$. 3.5! HOLA. $y$", "HOLA. $z$", "", "  ", "$a$", "12"]
    assert (fake.asked, fake.calls) == (["hola."], 1)  # a sentence twice is translated once
    assert [(passage.sentences, passage.untranslated) for passage in passages] == [
        (4, 3), (2, 1), (0, 0), (0, 0), (1, 1), (1, 1),
    ]  # fmt: skip
    assert all(passage.kept == passage.formulas for passage in passages)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_nothing_to_translate_asks_nobody(pipeline: str) -> None:
    fake = Fake(str.upper)
    assert translate_texts(["$x$ $y$"], fake, "spa", "eng", pipeline=pipeline)[0].restored == "$x$ $y$"
    assert translate_texts([], fake, "spa", "eng", pipeline=pipeline) == []
    assert fake.calls == 0
    assert translate_texts([""], fake, "spa", "eng", pipeline=pipeline)[0].restored == ""
    assert fake.asked == ([] if pipeline == "ours" else [""])  # the authors ask for empty texts too


def test_a_translator_of_whole_texts_gets_them_whole() -> None:
    fake = Fake(str.upper, whole=True)
    (passage,) = translate_texts([" uno $x$. dos\ntres \n"], fake, "spa", "eng")
    assert fake.asked == ["uno QZ1 . dos\ntres"]
    assert passage.restored == " UNO $x$. DOS\nTRES \n"
    assert passage.sentences == 1


def test_without_masks_the_translator_sees_the_formulas_and_nothing_is_repaired() -> None:
    fake = Fake(lambda text: text.replace("$a$", "").replace("$b$", "$b$ $b$").upper())
    (passage,) = translate_texts(["si $a$ o $B$ es $C$ y $C$"], fake, "spa", "eng", masking=None)
    assert fake.asked == ["si $a$ o $B$ es $C$ y $C$"]
    assert passage.restored == passage.received == "SI  O $B$ ES $C$ Y $C$"
    assert counts(passage) == {"formulas": 4, "kept": 3, "sentences": 1}
    assert passage.lost == 1


def test_unmasked_formulas_that_move_or_come_twice() -> None:
    passage = run("a $x$ b $y$ c $x$", lambda _: "$y$ $x$ $x$ $x$", masking=None)
    assert counts(passage) == {"formulas": 3, "kept": 3, "duplicated": 1, "moved": 1, "sentences": 1}


@pytest.mark.parametrize("change", [lambda out: out[1:], lambda out: [*out, "x"]])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_another_number_of_translations_is_an_error(change: Callable[[list[str]], list[str]], pipeline: str) -> None:
    class Wrong(Fake):
        def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
            return change(super().translate(texts, source, target))

    with pytest.raises(HarnessError, match=r"^translator fake: gave [13] translations of 2 texts$"):
        translate_texts(["uno", "dos"], Wrong(same), "spa", "eng", pipeline=pipeline)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("given", [None, "Let", [None], [b"Let"], iter(["Let"])])
def test_what_is_no_list_of_texts_is_an_error(given: Any, pipeline: str) -> None:  # noqa: ANN401
    class Strange(Fake):
        def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
            strange: list[str] = given
            return strange

    with pytest.raises(HarnessError, match=r"^translator fake: gave something else than a list of texts$"):
        translate_texts(["Sea"], Strange(same), "spa", "eng", pipeline=pipeline)


def test_texts_without_a_translation_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    passages = translate_texts(["Sea $p$.", "Hola."], Fake(lambda text: text * ("QZ" not in text)), "spa", "eng")
    assert [passage.restored for passage in passages] == ["$p$", "Hola."]
    assert capsys.readouterr().err == "translator fake: gave nothing for 1 of 2 texts\n"


_PIECES = r"$x$ \(a\) \begin{a}b\end{a} QZ1 QZ palabra Z . ? ! 3 ، ۔ क $"
PIECES = [*_PIECES.split(), "$$y. z$$", " ", "  ", "\n"]


@settings(max_examples=examples(300))
@given(
    st.lists(st.lists(st.sampled_from(PIECES)).map("".join) | st.text(), max_size=3),
    st.booleans(),
    st.sampled_from(["QZ", None]),
)
def test_an_identity_gives_the_text_byte_for_byte(texts: list[str], whole: bool, masking: str | None) -> None:
    for text, passage in zip(
        texts, translate_texts(texts, Fake(same, whole), "spa", "eng", masking=masking), strict=True
    ):
        assert passage.original == passage.restored == text
        assert passage.kept == passage.formulas
        assert (passage.duplicated, passage.moved, passage.altered, passage.appended) == (0, 0, 0, 0)


@settings(max_examples=examples(300))
@given(st.data())
def test_every_formula_is_accounted_for(data: st.DataObject) -> None:
    """Whatever is done to the words of a translation: each formula stands in the restored text at least once."""
    count = data.draw(st.integers(1, 6))
    text = " ".join(f"palabra $f_{{{number}}}$" for number in range(count))
    words = text.replace("$", "").split()
    places = data.draw(st.lists(st.integers(0, 2 * count - 1), max_size=4 * count))

    def shuffle(masked: str) -> str:
        found = masked.split()
        assert len(found) == len(words)
        return " ".join(found[at] for at in places)

    passage = run(text, shuffle)
    stand = [places.count(2 * number + 1) for number in range(count)]
    assert passage.formulas == count
    assert passage.kept == sum(times > 0 for times in stand)
    assert passage.duplicated == sum(max(times - 1, 0) for times in stand)
    assert passage.appended == passage.lost == stand.count(0)
    for number, times in enumerate(stand):
        assert passage.restored.count(f"$f_{{{number}}}$") == max(times, 1)


def test_authors_is_the_function_of_the_translator() -> None:
    text = "Sea $x$. $y$ es"
    for script in ("nllb", "mbart"):
        fake, named = Fake(str.upper, script=script), Fake(str.upper, script="")
        assert translate_texts([text], fake, "spa", "eng", pipeline="authors") == translate_texts(
            [text], named, "spa", "eng", pipeline=f"authors-{script}"
        )
        assert fake.asked == named.asked
    line = (
        r"^key 'pipeline' is 'authors', which has two functions, for NLLB and for mBART, and none for fake; "
        r"expected authors-nllb or authors-mbart$"
    )
    refuses(line, lambda: translate_texts([text], Fake(same, script=""), "spa", "eng", pipeline="authors"))
    with pytest.raises(HarnessError, match=r"^key 'pipeline' is 'authors-nlb'; did you mean 'authors-nllb'\?"):
        translate_texts([text], Fake(same), "spa", "eng", pipeline="authors-nlb")


# ---- sentences of texts in seven languages ----------------------------------------------------------------------


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


_SIGNS = r'QZ1 QZ12 w W 3 3.5 e.g. . ! ? ؟ । " $ \( \)'
SIGNS = [*_SIGNS.split(), "$a. b$", "\n", " ", "\t", "\xa0"]
TEXTS = st.lists(st.sampled_from(SIGNS)).map("".join) | st.text()


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


# ---- the two functions of CrossMath's authors, with translators that the test control ---------------------------


@dataclass
class Ask:
    """Translates each text by a function, and keeps what was asked."""

    function: Callable[[str], str] = str.upper
    asked: list[str] = field(default_factory=list)

    def __call__(self, texts: Iterable[str]) -> dict[str, str]:
        different = list(dict.fromkeys(texts))
        self.asked += different
        return {text: self.function(text) for text in different}


def by_authors(text: str, script: Script, ask: Ask | None = None, prefix: str | None = "QZ") -> TranslatedText:
    def count(original: str, restored: str) -> dict[str, int]:
        return pipeline.counts(compared(original, restored))

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
    passage = by_authors(text, "nllb", ask)
    assert ask.asked == ["Sea QZ1 primo", "¿Cómo QZ1", "Fin."]
    assert passage.restored == "SEA $x$ PRIMO $y$ es par 3 es impar ¿CÓMO $z$ ¿$w$ es Za sada  dos QZ FIN."
    assert passage.sent == "Sea QZ1 primo QZ1 es par 3 es impar ¿Cómo QZ1 ¿QZ1 es Za sada  dos QZ Fin."
    assert facts(passage) == {"formulas": 4, "kept": 4, "sentences": 9, "untranslated": 6}
    # A long output is no reason to try again, and an empty sentence is asked for.
    ask = Ask(lambda text: text + 60 * "~")
    assert by_authors("Uno $x$? ", "nllb", ask).restored == f"Uno $x${60 * '~'} {60 * '~'}"
    assert ask.asked == ["Uno QZ1", ""]


def test_mbart_translates_the_whole_text_or_none_of_it() -> None:
    ask = Ask()
    passage = by_authors("Sea $x$ primo. $y$ es par. 3 es impar?", "mbart", ask)
    assert ask.asked == ["Sea QZ1 primo. QZ2 es par. 3 es impar?"]
    assert passage.restored == "SEA $x$ PRIMO. $y$ ES PAR. 3 ES IMPAR?"
    assert facts(passage) == {"formulas": 2, "kept": 2, "sentences": 1}
    ask = Ask()
    passage = by_authors("$x$ es primo. ¿Es par? Fin.", "mbart", ask)
    assert ask.asked == []
    assert passage.restored == "$x$ es primo. ¿Es par? Fin."
    assert facts(passage) == {"formulas": 1, "kept": 1, "sentences": 1, "untranslated": 1}


def test_mbart_tries_again_without_placeholders() -> None:
    """If the output is more than 50 characters longer than the text as it was before masking."""
    text = "Sea $xyzxyzxyz$"  # 15 characters, 7 of them masked

    def longer(by: int) -> Callable[[str], str]:
        return lambda asked: "~" * (len(text) + by) if "QZ" in asked else asked.upper()

    ask = Ask(longer(50))
    assert by_authors(text, "mbart", ask).restored == 65 * "~"
    assert ask.asked == ["Sea QZ1"]
    ask = Ask(longer(51))
    passage = by_authors(text, "mbart", ask)
    assert passage.restored == "SEA $XYZXYZXYZ$"
    assert ask.asked == ["Sea QZ1", text]
    assert (passage.kept, passage.lost) == (0, 1)
    # The second attempt is taken however long it is, and placeholders that it invents are replaced.
    ask = Ask(lambda _: "QZ1" + 80 * "~")
    assert by_authors(text, "mbart", ask).restored == "$xyzxyzxyz$" + 80 * "~"
    assert ask.asked == ["Sea QZ1", text]


@pytest.mark.parametrize("script", SCRIPTS)
def test_placeholders_are_not_repaired(script: Script) -> None:
    ask = Ask(lambda text: text.replace("QZ1", "qz 1").replace("QZ2 ", ""))
    passage = by_authors("si $x$ y $y$ es $z$", script, ask)
    assert passage.restored == "si qz 1 y es $z$"
    assert facts(passage) == {"formulas": 3, "kept": 1, "altered": 1, "sentences": 1}
    passage = by_authors("si $x$ y $y$", script, Ask(lambda text: text.replace("QZ1", "ZQ1").replace("QZ2", "КЗ2")))
    assert passage.restored == "si ZQ1 y КЗ2"
    assert (passage.kept, passage.repaired, passage.altered) == (0, 0, 0)


def test_a_formula_that_holds_the_end_of_a_sentence() -> None:
    passage = by_authors("Sea $5 mod 8. $ par", "nllb")
    assert passage.restored == "SEA $5 MOD 8 $ PAR"
    assert facts(passage) == {"formulas": 1, "sentences": 2}
    assert by_authors("Sea $5 mod 8. $ par", "mbart").restored == "SEA $5 mod 8. $ PAR"


def test_without_masks() -> None:
    passage = by_authors("$x$ es. Zeta $y$. 3", "nllb", prefix=None)
    assert passage.restored == "$X$ ES ZETA $Y$ 3"
    assert facts(passage) == {"formulas": 2, "sentences": 3, "untranslated": 1}


SPOKEN = ["$x$ es. $y$! 3 es? , y.  dos. ¿ tres. ¿¿Qué? ¿Qué? Uno $x$. ", "Zato. QZ7 es. Que ¿. ؟", "Y $x$. $y$", ""]


def test_what_is_left_untranslated() -> None:
    expected = Untranslated(units=15, formula=3, digit=1, mark=2, blank=2, letter=4, words=10)
    assert untranslated(SPOKEN, "nllb") == expected
    assert expected.left == 12
    assert untranslated(SPOKEN, "mbart") == Untranslated(units=3, formula=1, letter=1, words=2)
    assert untranslated([], "nllb") == Untranslated()
    assert [leaves(text, "mbart") for text in SPOKEN] == [True, True, False, False]
    assert [leaves(text, "nllb") for text in ("$x$ es. 3", "$x$ es. Si", "")] == [True, False, False]

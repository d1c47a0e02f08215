"""Topics in another language: what the retriever is asked, what is kept, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from lexical_tools import message

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.topics import Formula, Topic, Topics
from harness.data.trec import Run
from harness.io import console
from harness.store import artefacts, code
from harness.store.cost import measuring
from harness.systems import states
from harness.systems.base import Request
from harness.systems.build import build_system, load_system
from harness.systems.crosslingual import system as crosslingual
from harness.systems.crosslingual import translations
from harness.systems.crosslingual.system import CrossLingual
from harness.systems.crosslingual.translators import TranslatedText

WORDS = {"Sea": "Let", "primo.": "prime.", "un": "a", "y": "and", "pierde": "lose"}
CONTROLS = "harness.systems.crosslingual.controls."
TOPICS = Topics(
    (Topic("T1", "Sea $p$ un primo.", "Sea $p$ y $q$.", language="spa"), Topic("T2", "un primo.", "", language="spa"))
)


def dictionary(**keys: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"_target_": "spoken.Dictionary", "words": WORDS, **keys}


class Asked:
    """A system that keeps what it is asked."""

    name = "asked"

    def __init__(self) -> None:
        self.topics: list[Topic] = []

    def __call__(self, request: Request) -> Run:
        self.topics = list(request.topics)
        return Run.from_dict("asked", {topic.id: {"d1": 1.0} for topic in request.topics})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Topic]]:
    """A function that gives the topics that the retriever of a cross-lingual system is asked."""
    heard = Asked()
    monkeypatch.setattr("harness.systems.baselines.Overlap", lambda **_: heard)

    def ask(topics: Topics, translator: Mapping[str, Any], workspace: Path, **keys: Any) -> list[Topic]:  # noqa: ANN401
        made = CrossLingual(translator, {"_target_": "harness.systems.baselines.Overlap"}, **{"masking": "QZ", **keys})
        run = made(Request(topics, None, workspace))
        assert run.name == "cross-lingual"
        return heard.topics

    return ask


def texts(topics: list[Topic]) -> list[tuple[str, str, str]]:
    return [(topic.title, topic.body, topic.language) for topic in topics]


def test_the_retriever_is_asked_in_the_language_of_the_documents(asked: Callable[..., Any], tmp_path: Path) -> None:
    found = asked(TOPICS, dictionary(), tmp_path)
    assert texts(found) == [("Let $p$ a prime.", "Let $p$ and $q$.", "eng"), ("a prime.", "", "eng")]


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ({"_target_": f"{CONTROLS}Identity"}, ("Sea $p$ un primo.", "Sea $p$ y $q$.", "spa")),
        ({"_target_": f"{CONTROLS}FormulasOnly"}, ("$p$", "$p$ $q$", "eng")),
    ],
)
def test_controls(
    asked: Callable[..., Any], tmp_path: Path, control: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert texts(asked(TOPICS, control, tmp_path))[0] == expected


def test_topics_come_without_tags(asked: Callable[..., Any], tmp_path: Path) -> None:
    """They are English in every language of CrossMath."""
    tagged = Topics((Topic("M.1", "Sea $p$", tags=("number-theory",), language="spa"),))
    human = {"_target_": f"{CONTROLS}Human", "collection": "mini-task1"}
    controls = [{"_target_": f"{CONTROLS}{name}"} for name in ("FormulasOnly", "Identity")]
    for translator in (dictionary(), human, *controls):
        assert [topic.tags for topic in asked(tagged, translator, tmp_path)] == [()]


def test_formulas_are_those_of_the_texts_that_are_searched_with(asked: Callable[..., Any], tmp_path: Path) -> None:
    """A system that reads formulas alone is given a person's English ones, none that only the other language has."""
    english = load_collection("mini-task1").topics().by_id()["M.1"]
    other = Formula("q_7", "z")
    human = {"_target_": f"{CONTROLS}Human", "collection": "mini-task1"}
    for formulas, title in (((), "algo"), ((other,), "algo $z$")):
        spanish = Topics((Topic("M.1", title, formulas=formulas, language="spa"),))
        (found,) = asked(spanish, human, tmp_path)
        assert [one.latex for one in found.formulas] == [one.latex for one in english.formulas]
    task2 = Topics((Topic("M.1", "algo $z$ y $y$", formulas=(other,), language="spa"),))  # asks for that one alone
    assert asked(task2, human, tmp_path)[0].formulas == (other,)
    assert [one.latex for one in asked(TOPICS, dictionary(), tmp_path)[0].formulas] == ["p", "p", "q"]


def test_a_person_s_topics_are_those_of_the_same_ids(asked: Callable[..., Any], tmp_path: Path) -> None:
    english = load_collection("mini-task1").topics().by_id()
    spanish = Topics(tuple(Topic(name, "algo", language="spa") for name in ("M.2", "M.1")))
    human = {"_target_": f"{CONTROLS}Human", "collection": "mini-task1"}
    found = asked(spanish, human, tmp_path)
    assert [(topic.id, topic.title, topic.body) for topic in found] == [
        (name, english[name].title, english[name].body) for name in ("M.2", "M.1")
    ]
    strange = Topics((Topic("X.1", "algo", language="spa"),))
    assert message(lambda: asked(strange, human, tmp_path)) == (
        "key 'translator.collection': mini-task1 has no topic 'X.1'"
    )


def test_topics_of_the_target_language_stay_as_they_are(asked: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    english = Topics((Topic("T0", "Sea un primo.", language="eng"), *TOPICS))
    found = asked(english, dictionary(log=str(log)), tmp_path)
    assert texts(found)[0] == ("Sea un primo.", "", "eng")
    assert "'Sea un primo.'" not in log.read_text(encoding="utf-8")


def test_a_second_retriever_costs_no_second_translation(asked: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = asked(TOPICS, dictionary(log=str(log)), tmp_path / "one")
    once = log.read_text(encoding="utf-8")
    assert asked(TOPICS, dictionary(log=str(log)), tmp_path / "two", name="cross-lingual") == first
    assert log.read_text(encoding="utf-8") == once
    # These are other translations.
    for keys in ({"masking": "XY"}, {"masking": None}, {"pipeline": "authors-nllb"}, {"pipeline": "authors-mbart"}):
        asked(TOPICS, dictionary(log=str(log)), tmp_path, **keys)
        assert log.read_text(encoding="utf-8") != once
        once = log.read_text(encoding="utf-8")
    changed = {"_target_": "spoken.Dictionary", "words": WORDS | {"un": "one"}, "log": str(log)}
    assert texts(asked(TOPICS, changed, tmp_path))[1][0] == "one prime."


def test_what_became_of_formulas_is_noted(tmp_path: Path) -> None:
    words = WORDS | {"QZ2": "QZ1"}  # loses the second formula of a text, and doubles the first
    made = CrossLingual(dictionary() | {"words": words}, "overlap", "QZ")
    with measuring() as meter:
        made(Request(TOPICS, load_corpus("mini-answers"), tmp_path))
    kept = {"topics": 2, "formulas": 3, "kept": 2, "lost": 1, "duplicated": 1, "appended": 1, "sentences": 3}
    none = dict.fromkeys(("repaired", "moved", "altered", "invented", "untranslated"), 0)
    assert meter.notes["cross-lingual: translation"] == kept | none
    found = made.translated(TOPICS)["T1"]
    assert found.body == TranslatedText(
        "Sea $p$ y $q$.", "Sea QZ1 y QZ2 .", "Let QZ1 and QZ1 .", "Let $p$ and $p$ . $q$", 2, 1, 1, 0, 0, 1, 1, 0
    )
    assert (found.total("formulas"), found.total("lost")) == (3, 1)


def test_what_is_said_of_its_numbers() -> None:
    said = CrossLingual(dictionary(), "overlap", "QZ").notes()
    assert said[:2] == ("Topics are translated by dictionary, their formulas masked (QZ).", "A dictionary of a test.")
    theirs = CrossLingual(dictionary(), "overlap", pipeline="authors-mbart").notes()[0]
    assert theirs == (
        "Topics are translated by dictionary, their formulas as they are, by the function that CrossMath's authors "
        "wrote for mBART."
    )
    assert CrossLingual({"_target_": f"{CONTROLS}FormulasOnly"}, "overlap").notes()[0].startswith("Only the formulas")


def test_runs_are_made_anew_when_what_translates_changes() -> None:
    one = CrossLingual(dictionary(), "overlap").reads()
    assert one == CrossLingual(dictionary(log="elsewhere"), "overlap").reads()
    assert one != CrossLingual(dictionary() | {"words": {"a": "b"}}, "overlap").reads()
    assert one != CrossLingual(dictionary(), "shuffle").reads()


def test_runs_are_made_anew_when_what_translates_changes_although_the_retriever_translates_too() -> None:
    def outer(words: Mapping[str, str]) -> CrossLingual:
        return CrossLingual({"_target_": "spoken.Dictionary", "words": words}, "formulas-only")

    assert outer({"a": "b"}).reads() != outer({"a": "c"}).reads()


def test_translations_do_not_depend_on_how_collections_are_read() -> None:
    """Their key holds the code that decides them: hours of work are not lost with every change of a reader."""
    files = code.depends([translations.__name__]).files
    assert "harness harness.formulas.text.masking" in files
    assert not [name for name in files if name.startswith("harness harness.collections")]


def test_a_damaged_batch_is_translated_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_HIDDEN", [True])  # progress would stand between
    made = CrossLingual(dictionary(crash="pierde", whole=False), "overlap")
    many = Topics(tuple(Topic(f"T{n}", f"Sea {n}", language="spa") for n in range(10)))
    broken = Topics((*many, Topic("T10", "pierde", language="spa")))
    assert message(lambda: made.translated(broken)) == "translator dictionary: crashed at 'pierde'"
    (kept,) = artefacts.store_root().glob("translation-shard/*/shard")
    kept.write_text(kept.read_text(encoding="utf-8").replace("Let 3", "Let 4"), encoding="utf-8")
    whole = CrossLingual(dictionary(whole=False), "overlap").translated(broken)
    assert whole["T3"].title.restored == "Let 3"
    assert f"{kept.parent}: damaged: 'shard' differs from what was written; rebuilding it" in capsys.readouterr().err


def test_a_language_without_a_code(asked: Callable[..., Any], tmp_path: Path) -> None:
    klingon = Topics((Topic("T1", "nuqneH", language="tlh"),))
    assert message(lambda: asked(klingon, dictionary(), tmp_path)) == (
        "translator dictionary: no code for language 'tlh'; it reads spa, hrv, pes"
    )


def test_topics_in_another_script_than_their_language_s(
    asked: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    persian = Topics((Topic("T1", "عدد $p$", language="spa"), Topic("T2", "$p$", language="spa"), *TOPICS))
    asked(Topics(persian.topics[:3]), dictionary(), tmp_path)
    assert "1 topic is said to be in Spanish, but in another script, such as T1" in capsys.readouterr().err


def test_the_shipped_configurations() -> None:
    names = ("human", "identity", "nllb", "mbart", "apertium")
    for name in (*(f"cross-lingual-{name}" for name in names), "formulas-only", "multilingual"):
        assert load_system(name).name == name
    mapping = {"_target_": "harness.systems.crosslingual.system.CrossLingual", "system": "bm25", "name": "x"}
    nllb = {"_target_": "harness.systems.crosslingual.seq2seq.Nllb", "model": "somebody/nllb-small"}
    kind, why = states.system_state(mapping | {"translator": nllb}, "x")
    assert kind == "needs"
    assert "somebody/nllb-small" in why
    assert build_system(mapping | {"translator": {"_target_": f"{CONTROLS}Identity"}}, "x").name == "x"
    assert crosslingual.built({"_target_": f"{CONTROLS}Identity"}).name == "identity"

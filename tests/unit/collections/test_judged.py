"""What training must leave out, from judgments of all editions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mathamr_tools import message
from mathamr_world import World, row, world

from harness.collections.corpora import JudgedBy, JudgedDocuments, judged, load_corpus
from harness.collections.corpus import Document
from harness.data.topics import Formula
from harness.errors import HarnessError

__all__ = ["world"]


def test_documents_and_visual_ids_of_all_editions(world: World) -> None:
    world.collection("asked", ["A1", "A2", "A3"])  # A3 in the second edition
    world.collection("asked-formulas", ["v1", "v2"], "arqmath-task2")
    found = judged(["asked", "asked-formulas"])
    assert found == JudgedDocuments(frozenset({"A1", "A2", "A3"}), frozenset({"v1", "v2"}))


def test_what_it_holds() -> None:
    found = JudgedDocuments(frozenset({"A1", "v9"}), frozenset({"v1", "A7"}))
    assert found.holds(Document("A1"))
    assert found.holds(Document("A2", formulas=(Formula("f1", "x", "v2"), Formula("f2", "y", "v1"))))
    # Ids of documents and of formulas are of two kinds, though they may be spelled alike.
    assert not found.holds(Document("A7"))
    assert not found.holds(Document("A3", formulas=(Formula("f1", "x", "v9"),)))
    assert not found.holds(Document("A3", formulas=(Formula("v1", "x", ""),)))


def test_digest_is_of_the_ids() -> None:
    one = JudgedDocuments(frozenset({"a", "b", "c"}), frozenset({"d"}))
    assert one.digest() == JudgedDocuments(frozenset({"c", "a", "b"}), frozenset({"d"})).digest()
    others = [
        JudgedDocuments(frozenset({"a", "b"}), frozenset({"d"})),
        JudgedDocuments(frozenset({"a", "b", "c", "d"}), frozenset()),
        JudgedDocuments(frozenset({"d"}), frozenset({"a", "b", "c"})),
    ]
    assert len({judged.digest() for judged in (one, *others)}) == 4


def test_an_unknown_collection_is_one_line() -> None:
    with pytest.raises(HarnessError) as error:
        judged(["mini-task1", "mini-tusk2"])
    assert message(error) == "collection 'mini-tusk2' is unknown; did you mean 'mini-task2'?"


# ---- corpora that are cut to what is judged -------------------------------------------------------------------------


def test_a_corpus_is_cut_to_the_judged_documents(world: World) -> None:
    world.collection("asked", ["A1", "A9", "A3"])
    documents = [row(f"A{number}", number) for number in range(5)]
    whole = world.corpus("whole", documents)
    part = replace(whole, part=JudgedBy(("asked",)))
    assert list(part.ids()) == ["A1", "A3"]
    assert list(replace(whole, part=JudgedBy(("asked/e0",))).ids()) == ["A1"]  # of one edition
    digests = {each.digest() for each in (whole, part, replace(whole, part=JudgedBy(("asked/e0",))))}
    assert len(digests) == 3
    before = part.digest()
    world.collection("asked", ["A1", "A9", "A4"])
    assert part.digest() != before  # what is judged is part of what the corpus is
    assert list(part.ids()) == ["A1", "A4"]


def test_the_key_of_a_corpus(world: World) -> None:
    world.collection("asked", ["A1", "A9"])
    world.corpus("cut", [row(f"A{number}", number) for number in range(5)], keep="[question]\njudged: [asked]")
    assert list(load_corpus("cut").ids()) == ["A1"]
    with pytest.raises(HarnessError) as error:
        world.corpus("wrong", [row("A1", 1)], keep="[question]\njudged: [askde]")
    assert "key 'judged': collection 'askde' is unknown; did you mean 'asked'?" in message(error)

"""What training must leave out, from judgments of all editions."""

from __future__ import annotations

import pytest
from mathamr_tools import message
from mathamr_world import World, world

from harness.collections.corpus import Document
from harness.collections.judged import Judged, judged
from harness.collections.load import load_collection
from harness.data.topics import Formula
from harness.errors import HarnessError

__all__ = ["world"]


def test_documents_and_visual_ids_of_all_editions(world: World) -> None:
    world.collection("asked", ["A1", "A2", "A3"])  # A3 in the second edition
    world.collection("asked-formulas", ["v1", "v2"], "arqmath-task2")
    found = judged(["asked", "asked-formulas"])
    assert found == Judged(frozenset({"A1", "A2", "A3"}), frozenset({"v1", "v2"}))


def test_no_collection_judges_nothing() -> None:
    found = judged([])
    assert found == Judged(frozenset(), frozenset())
    assert not found.holds(Document("A1", formulas=(Formula("f", "x", ""),)))


def test_what_it_holds() -> None:
    found = Judged(frozenset({"A1", "v9"}), frozenset({"v1", "A7"}))
    assert found.holds(Document("A1"))
    assert found.holds(Document("A2", formulas=(Formula("f1", "x", "v2"), Formula("f2", "y", "v1"))))
    # Ids of documents and of formulas are of two kinds, though they may be spelled alike.
    assert not found.holds(Document("A7"))
    assert not found.holds(Document("A3", formulas=(Formula("f1", "x", "v9"),)))
    assert not found.holds(Document("A3", formulas=(Formula("v1", "x", ""),)))


def test_digest_is_of_the_ids() -> None:
    one = Judged(frozenset({"a", "b", "c"}), frozenset({"d"}))
    assert one.digest() == Judged(frozenset({"c", "a", "b"}), frozenset({"d"})).digest()
    others = [
        Judged(frozenset({"a", "b"}), frozenset({"d"})),
        Judged(frozenset({"a", "b", "c", "d"}), frozenset()),
        Judged(frozenset({"d"}), frozenset({"a", "b", "c"})),
    ]
    assert len({judged.digest() for judged in (one, *others)}) == 4


def test_mini_collections() -> None:
    found = judged(["mini-task1", "mini-task2"])
    assert found.documents == {doc.decode() for doc in load_collection("mini-task1").qrels().doc.tolist()}
    assert found.keys == {doc.decode() for doc in load_collection("mini-task2").qrels().doc.tolist()}


def test_an_unknown_collection_is_one_line() -> None:
    with pytest.raises(HarnessError) as error:
        judged(["mini-task1", "mini-tusk2"])
    assert message(error) == "collection 'mini-tusk2' is unknown; did you mean 'mini-task2'?"

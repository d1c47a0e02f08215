"""MathAMR+ as a run producer: what it lacks is one clear line."""

from __future__ import annotations

import pytest
from mathamr_world import ASKED, SHORT, Place, kept, place, row, topics, world
from refusals import refusal, refuses

from harness.collections.corpus import Corpus
from harness.data.topics import Topics
from harness.systems.base import Request

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

__all__ = ["place", "world"]


def refused(place: Place, asked: Topics = ASKED, corpus: Corpus | None = None, **keys: object) -> str:
    return refusal(lambda: place.run(asked, corpus, **keys))  # type: ignore[arg-type]


def test_no_gpu_is_one_line_before_any_work(place: Place) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert refused(place, device="cuda") == "key 'device' is 'cuda', and torch finds no GPU here; say cpu or auto"
    assert place.words.calls == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "what"),
    [
        (0.1, "of 1 questions would be held out"),
        (0.0, "of 0 questions would be held out"),
        (1.0, "of 0 questions would be trained on"),
    ],
)
def test_nothing_to_validate_or_train_on_is_one_line(place: Place, share: float, what: str) -> None:
    line = refused(place, training=SHORT | {"validation": share})
    assert line.startswith(f"key 'training.validation': the pairs {what}, expected 2 or more: ")
    assert not kept("mathamr-model")
    assert place.run(training=None).to_dict()


@pytest.mark.slow
def test_a_corpus_without_any_graph_is_one_line(place: Place) -> None:
    corpus = place.world.corpus("qe", [row("empty", 2, body="")])
    assert refused(place, corpus=corpus) == "vectors of documents: there is none"
    assert place.run().to_dict()


def test_topics_without_any_graph_are_one_line(place: Place) -> None:
    assert refused(place, asked=topics("", "")) == "system tiny: no document was found for any topic"


def test_without_a_corpus(place: Place) -> None:
    refuses("tiny", lambda: place.system()(Request(ASKED, None, place.folder)))

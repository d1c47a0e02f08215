"""The translated mini collections, the corpus that a collection names, and keys that no file of a system lists."""

from __future__ import annotations

import pytest
import yaml
from tools import Place, own_collection

from harness.collections.load import load_collection
from harness.data.topics import Topic
from harness.systems.crosslingual import apertium

LANGUAGES = ("spa", "ces", "hrv", "pes")
QUIET = "formats=[json]"
SAID = "corpus: mini-answers, which collection {} names; corpus=NAME takes another one"


def side(place: Place, run: str) -> dict[str, object]:
    """What a side file says of a run, without what depends on the time, the command line and the machine's load."""
    found = yaml.safe_load((place.here / f"{run}.ir-metadata.yml").read_text())
    return {
        **{key: found[key] for key in ("tag", "method", "data")},
        **{key: found["harness"][key] for key in ("key", "run sha256", "run layout", "pool", "seeds")},
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_judgments_are_those_of_the_english_topics(language: str) -> None:
    english, found = load_collection("mini-task1"), load_collection(f"mini-task1-{language}")
    topics = found.topics()
    assert len(topics) == 12
    assert {topic.language for topic in topics} == {language}
    judged = english.qrels().to_dict()
    assert found.qrels().to_dict() == {topic.id: judged[topic.id] for topic in topics}
    attributes = {topic.id: {**topic.attributes, "translation": "machine"} for topic in english.topics()}
    assert {topic.id: topic.attributes for topic in topics} == {topic.id: attributes[topic.id] for topic in topics}
    assert (found.protocol, found.corpus) == (english.protocol, english.corpus)


@pytest.mark.slow
@pytest.mark.skipif(bool(apertium.by_language()["spa"]), reason="Apertium's Spanish is not installed")
def test_apertium_translates_the_spanish_mini_topics(place: Place) -> None:
    printed = place.good("run", "collection=mini-task1-spa", "system=cross-lingual-apertium", QUIET)
    assert "1 run on mini-task1-spa (edition official, n = 12): nDCG′ " in printed


@pytest.mark.heavy
def test_the_corpus_of_the_collection_is_as_if_it_were_named(place: Place) -> None:
    done = place.run("run", "collection=mini-task1", "system=bm25", QUIET)
    assert done.code == 0
    assert done.err.splitlines().count(SAID.format("mini-task1")) == 1
    implicit = side(place, "runs/mini-task1/bm25")
    named = place.run("run", "collection=mini-task1", "corpus=mini-answers", "system=bm25", QUIET)
    assert "reused, same configuration" in named.err
    assert "which collection" not in named.err
    place.good("run", "collection=mini-task1", "corpus=mini-answers", "system=bm25", "runs=other", QUIET)
    assert side(place, "other/mini-task1/bm25") == implicit
    swept = place.run("run", "-m", "collection=mini-task1", "system=bm25", "system.k1=1,1.2", QUIET)
    assert (swept.code, swept.err.splitlines().count(SAID.format("mini-task1"))) == (0, 1)
    compared = place.good("compare", *(f"runs/mini-task1/bm25-k1={k1}.run" for k1 in (1, 1.2)), "-c", "mini-task1")
    assert "bm25-k1=1.2" in compared


@pytest.mark.slow
def test_which_runs_have_no_corpus_of_their_own(place: Place) -> None:
    """A run file is read without one; collections that name none, or different ones, need the word."""
    place.good("run", "collection=mini-task1", "system=shuffle", QUIET)
    done = place.run("run", "collection=mini-task1", "system=external", "system.path=runs/mini-task1/shuffle.run",
                     "system.name=theirs", QUIET)  # fmt: skip
    assert (done.code, "corpus:" in done.err) == (0, False)
    words = ("run", "-m", "collection=mini-task1", "system=shuffle", "system.seed=1,2", "tune=[mini-theorems]")
    said = "key 'corpus' is missing; name one with corpus=NAME; the collections name mini-answers (mini-task1), "
    done = place.run(*words)
    assert (done.code, said in done.err) == (2, True)
    own_collection(place, "bare", [Topic("M.1", "x")], [("M.1", "a1088", 1)])
    *_, said = place.refused("run", "collection=bare", "system=shuffle")
    assert said.startswith("system shuffle: needs a corpus; name one with corpus=NAME (known: arqmath-posts, ")


@pytest.mark.heavy
def test_keys_that_the_file_does_not_list(place: Place) -> None:
    """Given, swept on the command line and by a file: always without `+`."""
    given = ("run", "collection=mini-task1", "system=overlap", QUIET)
    place.good(*given)
    first = (place.here / "runs/mini-task1/overlap.run").read_bytes()
    assert "reused, same configuration" in place.run(*given, "system.score=weight").err  # the default, spelt out
    place.good(*given, "system.score=jaccard")
    assert (place.here / "runs/mini-task1/overlap.run").read_bytes() != first
    place.good(*given, "-m", "system.score=jaccard,weight")
    names = {"overlap-score=jaccard.run", "overlap-score=weight.run"}
    made = {path.name: path.read_bytes() for path in (place.here / "runs/mini-task1").glob("overlap-*.run")}
    assert made.keys() == names
    assert len(set(made.values())) == 2
    sweep = yaml.safe_dump({"hydra": {"sweeper": {"params": {"system.score": "jaccard,weight"}}}})
    place.write("conf/sweep/scores.yaml", f"# @package _global_\n{sweep}")
    done = place.run(*given, "sweep=scores")
    assert (done.code, done.err.count("reused, same configuration")) == (0, 2)
    done = place.run(*given, "sweep=bm25-k1-b")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "system overlap: key 'k1' is unknown; " in done.err

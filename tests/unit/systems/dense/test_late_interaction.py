"""Late interaction over tiny models: token vectors as the library's, MaxSim by its definition, re-ranking, faults."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_models import save
from lexical_tools import rows_corpus
from refusals import refuses
from token_models import QUERY, by_hand, save_colbert, save_stanford

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.scoring.protocol import Exclusions
from harness.store.cost import measuring
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.dense import token_encoder
from harness.systems.dense.late_interaction import LateInteraction
from harness.systems.dense.token_encoder import TokenSettings, load_token_encoder

if lines := token_encoder.missing():
    pytest.skip(lines[0], allow_module_level=True)

TOPICS = Topics((Topic("T1", "w1 w2", "w3"), Topic("T2", "w40 w41"), Topic("T3", "", "")))


@pytest.fixture(scope="module")
def colbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_colbert(tmp_path_factory.mktemp("late") / "colbert")


def rows(count: int = 40) -> list[dict[str, str]]:
    rng = np.random.default_rng(3)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, 98, rng.integers(1, 25))) for _ in range(count)]
    return [{"id": f"d{n:02}", "body": "" if n == 5 else text} for n, text in enumerate(texts)]


def corpus_of(tmp_path: Path, documents: Sequence[Mapping[str, str]] | None = None) -> Corpus:
    return rows_corpus(tmp_path / "made.jsonl", documents or rows())


def run(corpus: Corpus, tmp_path: Path, model: Path, *, pool: Any = None, excluded: Any = None, **keys: Any) -> Run:  # noqa: ANN401
    system = LateInteraction("late", str(model), device="cpu", **keys)
    return system(Request(TOPICS, corpus, tmp_path / "workspace", pool=pool, excluded=excluded))


# ---- token vectors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [save_colbert, save_stanford])
def test_token_vectors_are_those_of_the_papers(tmp_path: Path, form: Any) -> None:  # noqa: ANN401
    folder = form(tmp_path / "model")
    some = ["w1 w2 w3", "w0 w4 w0 w7", "w5 w6 " * 20]
    loaded = load_token_encoder(str(folder))
    for role in ("document", "query"):
        found = loaded.encoded(some, role)
        assert found.start is not None
        assert found.cut.tolist() == [False, False, True]
        for text, begin, end in zip(some, found.start[:-1], found.start[1:], strict=True):
            np.testing.assert_allclose(found.vectors[begin:end], by_hand(folder, text, role), atol=2e-6)


@pytest.mark.slow
def test_lengths_prefixes_and_precision_can_be_set(colbert: Path) -> None:
    some = ["w1 w2 w3 w4 w5 w6 w7 w8"]
    short = load_token_encoder(str(colbert), TokenSettings(length=6, query_length=12))
    assert [len(short.encoded(some, role).vectors) for role in ("document", "query")] == [6, 12]
    other = load_token_encoder(str(colbert), TokenSettings(prefixes={"document": "w9 "}))
    plain = load_token_encoder(str(colbert))
    assert not np.allclose(other.encoded(some, "document").vectors, plain.encoded(some, "document").vectors, atol=1e-3)
    half = load_token_encoder(str(colbert), TokenSettings(precision="bfloat16")).encoded(some, "document").vectors
    np.testing.assert_allclose(half, plain.encoded(some, "document").vectors, atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(half, axis=1), 1, atol=1e-6)


def test_a_model_without_a_projection_is_refused_or_taken_as_it_is(tmp_path: Path) -> None:
    folder = save(tmp_path / "single")
    refuses(r"has no projection of token vectors.*say projection=none", lambda: load_token_encoder(str(folder)))
    found = load_token_encoder(str(folder), TokenSettings(projection="none")).encoded(["w1 w2"], "document")
    assert found.vectors.shape == (4, 32)


# ---- runs -------------------------------------------------------------------------------------------------------


def expected(folder: Path, topic: str, documents: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """MaxSim by the library's own function; documents without text are left out."""
    from sentence_transformers.util.similarity import maxsim as theirs

    loaded = load_token_encoder(str(folder))
    asked = loaded.encoded([topic], "query").vectors
    worded = [row for row in documents if row["body"]]
    found = loaded.encoded([row["body"] for row in worded], "document")
    assert found.start is not None
    parts = [found.vectors[a:b] for a, b in zip(found.start[:-1], found.start[1:], strict=True)]
    scores = theirs([asked], parts)[0].tolist()
    return {row["id"]: score for row, score in zip(worded, scores, strict=True)}


@pytest.mark.slow
def test_scores_are_maxsim(tmp_path: Path, colbert: Path) -> None:
    found = run(corpus_of(tmp_path), tmp_path, colbert).to_dict()
    assert found.keys() == {"T1", "T2"}  # the third has no text
    for topic, text in (("T1", "w1 w2 w3"), ("T2", "w40 w41")):
        assert found[topic] == pytest.approx(expected(colbert, text, rows()), abs=1e-5)


def test_torch_gives_the_same_run(tmp_path: Path, colbert: Path) -> None:
    corpus = corpus_of(tmp_path)
    assert run(corpus, tmp_path, colbert, maxsim="torch").to_dict() == run(corpus, tmp_path, colbert).to_dict()


@pytest.mark.slow
def test_approximate_search_scores_exactly(tmp_path: Path, colbert: Path) -> None:
    pytest.importorskip("faiss")
    corpus = corpus_of(tmp_path)
    exact = run(corpus, tmp_path, colbert, depth=5).to_dict()
    with measuring() as meter:
        near = run(corpus, tmp_path, colbert, depth=5, search="approximate", candidates=200).to_dict()
    assert near == exact
    assert meter.notes["recall of late, approximate against exact"]["mean"] == 1  # type: ignore[index]
    assert meter.notes["late: texts cut, topics"] == {"cut": 0, "texts": 2, "word pieces": QUERY}


@pytest.mark.slow
def test_first_documents_pools_and_exclusions(tmp_path: Path, colbert: Path) -> None:
    corpus = corpus_of(tmp_path)
    every = run(corpus, tmp_path, colbert).to_dict()["T1"]
    order = list(every)
    pool = {"T1": frozenset(order[10:13])}
    assert run(corpus, tmp_path, colbert, pool=pool).to_dict() == {"T1": {doc: every[doc] for doc in order[10:13]}}
    excluded = Exclusions(("listed",), listed={"T1": frozenset(order[:4])})
    assert list(run(corpus, tmp_path, colbert, excluded=excluded, depth=6).to_dict()["T1"]) == order[4:10]
    first = tmp_path / "first.run"
    docs = [*sorted(order[:6]), order[9]]
    lines = [f"{topic} Q0 {doc} {n} {-n} first\n" for topic in ("T1", "T3") for n, doc in enumerate(docs, 1)]
    first.write_text("".join(lines))
    found = run(corpus, tmp_path, colbert, first=str(first), k=6).to_dict()
    ranked = {topic: sorted(docs, key=docs.__getitem__, reverse=True) for topic, docs in found.items()}
    assert ranked["T1"] == [*order[:6], order[9]]
    assert {doc: found["T1"][doc] for doc in order[:6]} == pytest.approx({doc: every[doc] for doc in order[:6]})
    assert ranked["T3"] == docs  # a topic without text keeps its order


def test_the_configuration_builds_it(tmp_path: Path, colbert: Path) -> None:
    built = load_system("late-interaction", model=str(colbert), device="cpu", depth=3)
    found = built(Request(TOPICS, corpus_of(tmp_path), tmp_path / "workspace"))
    assert (found.name, len(found)) == ("late-interaction", 6)
    assert built.reads()["model"]["precision"] == "float32"


# ---- settings ---------------------------------------------------------------------------------------------------


def test_lengths_beyond_the_model(colbert: Path) -> None:
    with pytest.raises(HarnessError, match=r"key 'query_length' is 17, and model .* reads 16 word pieces at most"):
        load_token_encoder(str(colbert), TokenSettings(query_length=17))


def test_a_damaged_model_gets_one_line(tmp_path: Path, colbert: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(colbert, folder)
    (folder / "1_Dense" / "config.json").write_text("{}")
    refuses("cannot be loaded", lambda: load_token_encoder(str(folder)))

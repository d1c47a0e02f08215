"""What a training may learn besides, against computations by hand: hard negatives, formulas, a teacher, embeddings."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from encoder_models import BROKEN, save
from mathamr_tools import POST, text_graph
from mathamr_world import SHORT, Place, kept, place, world
from refusals import refusal

from harness.errors import HarnessError
from harness.systems.dense import encoder
from harness.systems.mathamr.encoder.pack import Pack, encode_posts
from harness.systems.mathamr.encoder.virtual import encode, formula_keys
from harness.systems.mathamr.encoder.vocabulary import NodeVocabulary
from harness.systems.mathamr.graphs import data
from harness.systems.mathamr.training import options

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.mathamr.encoder import loss  # noqa: E402
from harness.systems.mathamr.encoder.settings import GraphEncoderSettings  # noqa: E402
from harness.systems.mathamr.training import trainer as training  # noqa: E402

__all__ = ["place", "world"]


# ---- hard negatives -------------------------------------------------------------------------------------------------


def bm25(query: set[str], document: list[str], every: list[list[str]]) -> float:
    mean = sum(map(len, every)) / len(every)
    total = 0.0
    for word in query:
        holders = sum(word in other for other in every)
        often = document.count(word)
        weight = math.log(1 + (len(every) - holders + 0.5) / (holders + 0.5))
        total += weight * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * len(document) / mean))
    return total


def test_hard_negatives_are_those_of_bm25() -> None:
    rng = np.random.default_rng(5)
    words = [f"w{letter}" for letter in "abcdefghijklmno"]
    texts = [rng.choice(words, rng.integers(2, 9)).tolist() for _ in range(24)]
    graphs = [text_graph(tuple(text)) for text in texts]
    vocabulary = NodeVocabulary.learn(graphs, 60)
    pack = Pack.memory(encode_posts(((f"p{i}", graph) for i, graph in enumerate(graphs)), vocabulary))
    # Two answers of the first question; the last two questions share an answer, and so a group.
    query = np.array([0, 0, 1, 2, 3, 4, 5, 6])
    document = np.array([10, 11, 12, 13, 14, 15, 16, 16])
    group = np.array([0, 0, 1, 2, 3, 4, 5, 5])
    found = options.hard_negatives(pack, query, document, group, 3, vocabulary.size)
    owner = dict(zip(document.tolist(), group.tolist(), strict=True))
    every = [texts[number] for number in sorted(owner)]
    for pair, own in enumerate(group.tolist()):
        scores = {
            number: bm25(set(texts[query[pair]]), texts[number], every) for number in owner if owner[number] != own
        }
        ranked = sorted((number for number in scores if scores[number] > 0), key=lambda n: (-round(scores[n], 9), n))
        assert found[pair].tolist() == (ranked + [-1] * 3)[:3]


def test_a_hard_negative_counts_once_and_for_its_own_queries() -> None:
    numbers = np.array([0, 1, 2])
    hard = np.array([[11, 20], [20, 21], [-1, 21]])
    extra, none = training.extra_documents(training.QuestionAnswerPairs(numbers, numbers + 10, numbers, None, hard))
    assert extra.tolist() == [20, 21]  # 11 is a document of the batch already
    assert none.tolist() == [[False, True], [False, False], [True, False]]
    extra, none = training.extra_documents(training.QuestionAnswerPairs(numbers, numbers + 10, numbers))
    assert (extra.shape, none.shape) == ((0,), (3, 0))


def test_the_loss_counts_more_documents_than_queries() -> None:
    scores = torch.tensor([[2.0, 1.0, 0.5], [0.0, 1.0, 3.0]])
    out = torch.tensor([[False, False, True], [False, False, False]])
    first = math.log(math.exp(2) + math.exp(1)) - 2
    second = math.log(1 + math.exp(1) + math.exp(3)) - 1
    assert loss.info_nce(scores, 1.0, out).item() == pytest.approx((first + second) / 2)


# ---- formulas -------------------------------------------------------------------------------------------------------


def test_formulas_of_equal_trees_have_equal_keys() -> None:
    vocabulary = NodeVocabulary.learn([POST], 100)
    keys = formula_keys(encode(POST, vocabulary), vocabulary.count)
    types = [vocabulary.node(label, kind) for label, kind in zip(POST.labels[7:], POST.kinds[7:], strict=True)]
    assert keys == [np.array(types, np.uint16).tobytes(), b"", b""]  # two formulas have no trees
    assert formula_keys(encode(POST, vocabulary, "none"), vocabulary.count) == [b"", b"", b""]


def test_the_loss_of_formulas() -> None:
    vectors = torch.zeros(3, 2, 2)
    vectors[0, 0] = torch.tensor([1.0, 0.0])  # the query's formula, of key 7
    vectors[1, 0] = torch.tensor([0.6, 0.8])  # one of a document that looks like it
    vectors[1, 1] = torch.tensor([0.0, 1.0])
    vectors[2, 0] = torch.tensor([0.8, 0.6])
    keys = torch.tensor([[7, -1], [7, 8], [9, -1]])
    found = loss.formula_loss(vectors, keys, 1, 0.5)
    assert found is not None
    exps = [math.exp(value / 0.5) for value in (0.6, 0.0, 0.8)]
    assert found.item() == pytest.approx(-math.log(exps[0] / sum(exps)), abs=1e-6)
    assert loss.formula_loss(vectors, torch.tensor([[5, -1], [7, 8], [9, -1]]), 1, 0.5) is None  # nothing is like it
    assert loss.formula_loss(vectors, torch.tensor([[7, -1], [7, 7], [7, -1]]), 1, 0.5) is None  # everything is


# ---- a teacher, embeddings ------------------------------------------------------------------------------------------


def test_divergence_from_a_teacher() -> None:
    scores = torch.tensor([[0.3, 0.1, 0.7]])
    teacher = torch.tensor([[0.03, 0.01, 0.5]])
    out = torch.tensor([[False, False, True]])
    p = 1 / (1 + math.exp(-(0.03 - 0.01) / 0.05))
    q = 1 / (1 + math.exp(-(0.3 - 0.1) / 0.5))
    expected = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    assert loss.divergence(scores, 0.5, teacher, out).item() == pytest.approx(expected, abs=1e-6)
    assert loss.divergence(teacher * 10, 0.5, teacher).item() == pytest.approx(0, abs=1e-6)


def test_main_axes_keep_distances_and_have_the_deviation_asked_for() -> None:
    rng = np.random.default_rng(3)
    flat = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 10)) + 5  # in three dimensions of ten
    found = options.main_axes(flat, 4, 0.1)
    assert found.std() == pytest.approx(0.1, rel=1e-5)
    assert np.abs(found.mean(axis=0)).max() < 1e-6
    assert found[:, 3].std() < 1e-6
    apart = [np.linalg.norm(rows[:, None] - rows[None], axis=2) for rows in (flat, found)]
    ratio = apart[1][apart[0] > 0] / apart[0][apart[0] > 0]
    assert ratio.max() == pytest.approx(ratio.min(), rel=1e-4)
    assert np.array_equal(found, options.main_axes(flat, 4, 0.1))


def test_types_of_nodes_begin_as_their_word_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(1).normal(size=(6, 5))
    pieces = {"prove": [0], "have rel role": [1, 2, 3], "x": [4]}
    monkeypatch.setattr(options, "_pieces", lambda _: (lambda texts: [pieces.get(t, []) for t in texts], table))
    graph = text_graph(("prove-01", "have-rel-role-91", "x", "qqq"))
    vocabulary = NodeVocabulary.learn([graph], 20)
    found = options.token_embeddings(vocabulary, "any", 2)
    names = {name: row for row, name in enumerate(vocabulary.nodes)}
    rows = [names[name] for name in ("prove-01", "have-rel-role-91", "x")]
    assert found.shape == (20, 2)
    assert sorted(np.flatnonzero(~np.isnan(found[:, 0])).tolist()) == sorted(rows)
    means = np.array([table[0], table[1:4].mean(axis=0), table[4]])
    assert found[rows] == pytest.approx(options.main_axes(means, 2, math.sqrt(2 / 22)), abs=1e-6)
    model = training.initial(GraphEncoderSettings(20, 9, dim=2, out=2, layers=1, bases=1), 3, found)
    plain = training.initial(GraphEncoderSettings(20, 9, dim=2, out=2, layers=1, bases=1), 3)
    weights = model.embedding.weight.detach().numpy()
    assert weights[rows] == pytest.approx(found[rows])
    rest = [row for row in range(20) if row not in rows]
    assert np.array_equal(weights[rest], plain.embedding.weight.detach().numpy()[rest])
    with pytest.raises(HarnessError, match=r"key 'tokens': model any has 5 dimensions and 3 known types here, .* is 4"):
        options.token_embeddings(vocabulary, "any", 4)


@pytest.mark.slow
@pytest.mark.parametrize("how", BROKEN)
def test_models_whose_tokenizers_cannot_be_used_are_found_before_graphs_are_made(
    how: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed (extra sentences)")
    folder = str(save(tmp_path / "model"))
    options.check_models(folder, folder, 32)
    with pytest.raises(HarnessError, match=r"key 'tokens': model .* has 32 dimensions, and the key 'model.dim' is 33"):
        options.check_models(folder, None, 33)
    monkeypatch.setattr(data, "pair_graphs", lambda *_: pytest.fail("it makes graphs"))
    damage, said = BROKEN[how]
    damage(Path(folder))
    for keys in ({"tokens": folder}, {"teacher": folder, "training": SHORT | {"distil": 0.5}}):
        assert said in refusal(lambda: place.run(**keys))  # noqa: B023


# ---- as keys of the system ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_option_trains_another_model_and_is_asked_for_by_a_key(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "identity", lambda name, _: {"model": name})
    asked: list[list[str]] = []

    def vectors(texts: list[str], model: str, device: str) -> options.Floats:
        asked.append(list(texts))
        found = np.random.default_rng(len(texts)).normal(size=(len(texts), 6)).astype(np.float32)
        unit: options.Floats = found / np.linalg.norm(found, axis=1, keepdims=True)
        return unit

    tried: list[object] = []
    monkeypatch.setattr(options, "check_models", lambda *models: tried.append(models))
    monkeypatch.setattr(options, "teacher_vectors", vectors)
    monkeypatch.setattr(
        options, "token_embeddings", lambda vocabulary, model, dim: np.full((vocabulary.size, dim), 0.1, np.float32)
    )
    runs = {"plain": place.run().sha256}
    runs["hard"] = place.run(training=SHORT | {"hard": 2}).sha256
    runs["formulas"] = place.run(training=SHORT | {"formulas": 0.5}).sha256
    runs["distil"] = place.run(training=SHORT | {"distil": 0.5}, teacher="t").sha256
    runs["tokens"] = place.run(tokens="m").sha256
    assert len(set(runs.values())) == 5
    assert tried == [(None, None, 8)] * 3 + [(None, "t", 8), ("m", None, 8)]
    assert len(kept("mathamr-model")) == 5
    # The teacher reads the posts' texts, questions with their titles.
    assert any(text == "take the coset and the subgroup to see" for text in asked[0]) is False
    assert sum(text.startswith("a integral why does the integral") for text in asked[0]) == 3
    assert all(asked[0])


def test_texts_are_of_the_posts_asked_for(place: Place) -> None:
    found = data.texts(["qa/answers/A1.0", "qa/questions/Q2"], {"qa": "question"})
    documents = {document.id: document for document in place.corpus}
    asked = documents["A2.0"]
    assert found == [documents["A1.0"].body, f"{asked.title} {asked.columns['question']}"]

"""Losses of fine-tuning: values by hand, and those of sentence-transformers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tuning_tools import sentence_transformer

torch = pytest.importorskip("torch", reason="torch is not installed (extra sentences)")

from harness.systems.dense.training import trainer  # noqa: E402


def test_binary_cross_entropy_by_hand() -> None:
    logits, labels = torch.tensor([2.0, -1.0, 0.0]), torch.tensor([1.0, 0.0, 1 / 3])
    # log(1 + e^-2); log(1 + e^-1); log 2, whatever the label.
    expected = (math.log1p(math.exp(-2)) + math.log1p(math.exp(-1)) + math.log(2)) / 3
    assert trainer.binary_cross_entropy(logits, labels).item() == pytest.approx(expected)
    # A wrong answer of great confidence costs its logit, and no overflow.
    assert trainer.binary_cross_entropy(torch.tensor([500.0]), torch.tensor([0.0])).item() == pytest.approx(500)


def test_ranking_loss_by_hand() -> None:
    queries = torch.tensor([[2.0, 0.0], [0.0, 5.0]])
    documents = torch.tensor([[3.0, 0.0], [1.0, 1.0]])
    cosine = 1 / math.sqrt(2)
    # Query 1: its own document has cosine 1, the other .7071; query 2: its own .7071, the other 0.
    first = math.log1p(math.exp(20 * (cosine - 1)))
    second = math.log1p(math.exp(20 * (0 - cosine)))
    none = torch.zeros(2, 2, dtype=torch.bool)
    found = trainer.multiple_negatives_ranking(queries, documents, none)
    assert found.item() == pytest.approx((first + second) / 2, rel=1e-5)
    halved = trainer.multiple_negatives_ranking(queries, documents, none, scale=10.0).item()
    first, second = math.log1p(math.exp(10 * (cosine - 1))), math.log1p(math.exp(-10 * cosine))
    assert halved == pytest.approx((first + second) / 2, rel=1e-5)


def test_what_is_excluded_is_no_negative() -> None:
    rng = torch.Generator().manual_seed(0)
    queries, documents = torch.randn(3, 4, generator=rng), torch.randn(3, 4, generator=rng)
    out = torch.zeros(3, 3, dtype=torch.bool)
    out[0, 1] = out[1, 0] = True
    found = trainer.multiple_negatives_ranking(queries, documents, out)
    cosines = torch.nn.functional.cosine_similarity(queries[:, None], documents[None], dim=2) * 20
    rows = [[0, 2], [1, 2], [0, 1, 2]]
    each = [torch.logsumexp(cosines[number, kept], 0) - cosines[number, number] for number, kept in enumerate(rows)]
    assert found.item() == pytest.approx(torch.stack(each).mean().item(), rel=1e-5)
    alone = ~torch.eye(3, dtype=torch.bool)
    assert trainer.multiple_negatives_ranking(queries, documents, alone).item() == pytest.approx(0, abs=1e-6)


def test_same_questions_duplicates_and_known_answers_are_excluded() -> None:
    # Pairs 0 and 1 are of one question, pair 2 has the document of pair 0, pair 3's document also answers question 4.
    query, document = np.array([0, 0, 2, 3, 4]), np.array([10, 11, 10, 13, 14])
    out = trainer.excluded(query, document, frozenset({(4, 13), (0, 10), (3, 13)}))
    expected = {(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (4, 3)}
    assert {(int(i), int(j)) for i, j in np.argwhere(out)} == expected


@pytest.mark.slow
def test_losses_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    st = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = st.SentenceTransformer(str(sentence_transformer(tmp_path / "model", dropout=0.0)), device="cpu")
    queries, documents = ["integral of x", "the group ism", "primeal"], ["integralic", "groupoid y", "prime number"]
    theirs = MultipleNegativesRankingLoss(model)
    features = [model.preprocess(side) for side in (queries, documents)]
    expected = theirs(features, torch.zeros(3)).item()
    vectors = [torch.tensor(model.encode(side)) for side in (queries, documents)]
    none = torch.zeros(3, 3, dtype=torch.bool)
    assert trainer.multiple_negatives_ranking(vectors[0], vectors[1], none).item() == pytest.approx(expected, abs=1e-5)
    logits, labels = torch.randn(7), torch.rand(7)
    expected = torch.nn.BCEWithLogitsLoss()(logits, labels).item()  # what its BinaryCrossEntropyLoss takes
    assert trainer.binary_cross_entropy(logits, labels).item() == pytest.approx(expected)

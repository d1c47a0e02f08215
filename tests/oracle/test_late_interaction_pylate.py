"""MaxSim beside PyLate's, in an environment of PyLate: pip install pylate (it pins sentence-transformers 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from token_models import by_hand, save_colbert, save_stanford

scores: Any = pytest.importorskip("pylate.scores", reason="pylate is not installed")
models: Any = pytest.importorskip("pylate.models", reason="pylate is not installed")

from harness.systems.dense import maxsim  # noqa: E402

SOME = ["w1 w2 w3", "w0 w4 w0 w7", "w5 w6 " * 20, "w8"]


@pytest.fixture(scope="module", params=[save_colbert, save_stanford])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = request.param(tmp_path_factory.mktemp("pylate") / "model")
    return made


def padded(parts: list[Any]) -> tuple[Any, Any]:
    import torch

    longest = max(map(len, parts))
    mask = torch.tensor([[float(at < len(part)) for at in range(longest)] for part in parts])
    return torch.nn.utils.rnn.pad_sequence([torch.from_numpy(part) for part in parts], batch_first=True), mask


def test_scores_are_pylate_s(folder: Path) -> None:
    loaded = models.ColBERT(str(folder), device="cpu")
    asked, found = (loaded.encode(SOME, is_query=is_query, show_progress_bar=False) for is_query in (True, False))
    values, mask = padded(found)
    theirs = scores.colbert_scores(np.stack(asked), values, documents_mask=mask, backend="torch").numpy()
    ours = maxsim.scores_many(asked, maxsim.stack((f"d{n}", part, -1) for n, part in enumerate(found)))
    # Masking by 0 changes a maximum only if all similarities are negative, which no query vector has here.
    products = [query @ part.T for query in asked for part in found]
    assert min(product.max(axis=1).min() for product in products) > 0
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_pylate_masks_by_zero() -> None:
    """A document whose similarities are all negative scores 0 in PyLate if it is padded; its MaxSim is negative."""
    query = np.array([[[1.0, 0.0]]], np.float32)
    parts = [np.array(rows, np.float32) for rows in ([[-1.0, 0.0]], [[-0.6, 0.8], [-0.8, 0.6]])]
    values, mask = padded(parts)
    theirs = scores.colbert_scores(query, values, documents_mask=mask, backend="torch").numpy()
    ours = maxsim.scores_many([query[0]], maxsim.stack((f"d{n}", part, -1) for n, part in enumerate(parts)))
    assert theirs[0] == pytest.approx([0.0, -0.6])
    assert ours[0] == pytest.approx([-1.0, -0.6])


def test_token_vectors_are_those_that_ours_equal(folder: Path) -> None:
    loaded = models.ColBERT(str(folder), device="cpu")
    for role in ("query", "document"):
        found = loaded.encode(SOME, is_query=role == "query", show_progress_bar=False)
        for text, vectors in zip(SOME, found, strict=True):
            np.testing.assert_allclose(vectors, by_hand(folder, text, role), atol=2e-6)

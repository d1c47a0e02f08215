"""MaxSim by PyTorch is that by NumPy, and finds the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from vector_tools import COUNTS, LENGTHS, documents, queries

from harness.systems.dense.search import search_vectors


@settings(deadline=None, max_examples=30)
@given(LENGTHS, COUNTS, st.integers(0, 2**32), st.integers(1, 12), st.booleans())
def test_what_is_found_is_the_same_by_torch(
    lengths: list[int], counts: list[int], seed: int, k: int, mean: bool
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from harness.systems.dense import maxsim_torch

    vectors, asked = documents(lengths, seed=seed), queries(counts, seed=seed + 1)
    rough = maxsim_torch.rough(vectors, "cpu", mean=mean)
    by_torch = search_vectors(asked, vectors, k=k, mean=mean, rough=rough)
    for found, expected in zip(by_torch, search_vectors(asked, vectors, k=k, mean=mean), strict=True):
        assert found.rows.tolist() == expected.rows.tolist()
        assert found.scores.tolist() == expected.scores.tolist()


def test_torch_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from harness.systems.dense import maxsim_torch

    refuses("'device' is 'cudaa'", lambda: maxsim_torch.resident(documents([2]), "cudaa"))
    held = maxsim_torch.resident(documents([2]), "cpu")
    refuses("vector of 8 dimensions", lambda: maxsim_torch.scores([np.ones((1, 3), np.float32)], held))

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20 GiB")

    monkeypatch.setattr(torch, "full", full)
    refuses("not enough memory", lambda: maxsim_torch.scores([np.ones((1, 8), np.float32)], held))

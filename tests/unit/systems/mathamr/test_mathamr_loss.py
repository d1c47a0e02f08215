from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from encoder_tools import SMALL, encoded
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.systems.mathamr.encoder.batch import Batch, collate

if TYPE_CHECKING:
    from torch import Tensor

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.mathamr.encoder import loss  # noqa: E402


def vectors(*lengths: int, seed: int = 0, padding: float = 0.0, more: int = 0) -> tuple[Tensor, Tensor]:
    """Random vectors of length 1 with their mask; `more` columns of padding, filled with a number."""
    generator = torch.Generator().manual_seed(seed)
    width = max(lengths) + more
    values = torch.randn(len(lengths), max(lengths), 6, generator=generator, dtype=torch.float64)
    values = torch.nn.functional.pad(torch.nn.functional.normalize(values, dim=-1), (0, 0, 0, more))
    mask = torch.arange(width)[None] < torch.tensor(lengths)[:, None]
    return values.masked_fill(~mask[:, :, None], padding), mask


def by_hand(q: Tensor, q_mask: Tensor, d: Tensor, d_mask: Tensor, normalise: bool) -> Tensor:
    """Equations 3.4 and 3.7 with loops."""
    out = []
    for one, own in zip(q, q_mask, strict=True):
        row = []
        for other, theirs in zip(d, d_mask, strict=True):
            total = sum(max(float(v @ w) for w in other[theirs]) for v in one[own])
            row.append(total / int(own.sum()) if normalise else total)
        out.append(row)
    scores: Tensor = torch.tensor(out, dtype=torch.float64)
    return scores


LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(q=LENGTHS, d=LENGTHS, seed=st.integers(0, 99), normalise=st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_maxsim_by_hand(q: list[int], d: list[int], seed: int, normalise: bool) -> None:
    sides = (*vectors(*q, seed=seed), *vectors(*d, seed=seed + 1))
    torch.testing.assert_close(loss.maxsim(*sides, normalise), by_hand(*sides, normalise), atol=1e-12, rtol=0)


def test_posts_without_vectors_have_finite_scores_and_gradients() -> None:
    q, mask = vectors(2, 3)
    q.requires_grad_()
    none = torch.zeros_like(mask)
    assert loss.maxsim(q, none, q, mask).tolist() == [[0.0, 0.0]] * 2
    scores = loss.maxsim(q, mask, q, none)
    assert scores.tolist() == [[-1.0, -1.0]] * 2
    half = mask.clone()
    half[1] = False
    torch.autograd.backward(loss.info_nce(loss.maxsim(q, mask, q, half), 0.1))
    assert q.grad is not None
    assert bool(q.grad.isfinite().all())
    assert float(q.grad.abs().sum()) > 0


def test_info_nce_by_hand() -> None:
    scores = torch.tensor([[0.5, 0.1, 0.3], [0.2, 0.9, 0.4], [0.0, 0.6, 0.7]], dtype=torch.float64)
    expected = sum(
        -math.log(math.exp(row[i] / 0.2) / sum(math.exp(x / 0.2) for x in row)) for i, row in enumerate(scores)
    )
    assert float(loss.info_nce(scores, 0.2)) == pytest.approx(expected / 3)
    assert float(loss.info_nce(torch.zeros(5, 5), 0.2)) == pytest.approx(math.log(5))


def test_excluded_documents_are_no_negatives() -> None:
    scores = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    excluded = torch.zeros(4, 4, dtype=torch.bool)
    excluded[0, 2] = excluded[2, 0] = True
    value = loss.info_nce(scores, 0.5, excluded)
    torch.autograd.backward(value)
    assert float(scores.grad[0, 2]) == float(scores.grad[2, 0]) == 0
    rows = [[0, 1, 3], [1, 0, 2, 3], [2, 1, 3], [3, 0, 1, 2]]
    expected = torch.stack([-torch.log_softmax(scores[i, row] / 0.5, 0)[0] for i, row in enumerate(rows)]).mean()
    torch.testing.assert_close(value, expected)
    # A query's own document is never excluded.
    torch.testing.assert_close(loss.info_nce(scores, 0.5, excluded | torch.eye(4, dtype=torch.bool)), value)
    alone = loss.info_nce(scores, 0.5, torch.ones(4, 4, dtype=torch.bool))
    assert float(alone.detach()) == 0


def six(structure: str = "hierarchy") -> tuple[Tensor, Batch]:
    batch = collate([encoded(n, 6 + n, structure=structure) for n in range(6)], SMALL)
    values = torch.nn.functional.normalize(torch.randn(6, batch.mask.shape[1], 8), dim=-1)
    return values * batch.mask[:, :, None], batch


def test_beta_1_and_0_are_exactly_the_single_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    values, batch = six()
    q, d = values[:3], values[3:]
    both = loss.info_nce(loss.maxsim(q, batch.mask[:3], d, batch.mask[3:]), 0.3)
    single = loss.info_nce(q[:, 3] @ d[:, 3].T, 0.3)
    mixed = loss.objective(values, batch, 3, 0.3, 0.25)
    torch.testing.assert_close(mixed, 0.25 * both + 0.75 * single)
    without = loss.objective(*six("none"), 3, 0.3, 1.0)  # it has no vectors of documents
    assert bool(without.isfinite())
    assert torch.equal(loss.objective(values, batch, 3, 0.3, 1.0), both)
    monkeypatch.setattr(loss, "maxsim", None)
    assert torch.equal(loss.objective(values, batch, 3, 0.3, 0.0), single)


def test_scores_without_normalisation_and_excluded_pairs_reach_the_loss() -> None:
    values, batch = six("global")
    scores = loss.maxsim(values[:3], batch.mask[:3], values[3:], batch.mask[3:], normalise=False)
    out = torch.zeros(3, 3, dtype=torch.bool)
    out[0, 1] = True
    value = loss.objective(values, batch, 3, 0.3, normalise=False, excluded=out)
    assert torch.equal(value, loss.info_nce(scores, 0.3, out))
    assert not torch.equal(value, loss.objective(values, batch, 3, 0.3, normalise=False))

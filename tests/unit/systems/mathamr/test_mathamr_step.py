"""One training step and one layer written out again: that each key of a schedule has the effect it is said to have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from encoder_tools import SMALL, encoded
from test_mathamr_training import trainer
from tuning_tools import one_thread

from harness.systems.mathamr.encoder.batch import augment, collate

if TYPE_CHECKING:
    from torch import Tensor

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.dense.training import loop  # noqa: E402
from harness.systems.mathamr.encoder import loss  # noqa: E402
from harness.systems.mathamr.encoder.model import GraphEncoder, edge_plan  # noqa: E402
from harness.systems.mathamr.training import trainer as training  # noqa: E402

__all__ = ["one_thread"]
pytestmark = pytest.mark.usefixtures("one_thread")


def made(folder: Path, **changes: object) -> training.Trainer:
    """A training whose pairs are of half as many questions, so that others' answers are left out as negatives."""
    one = trainer(folder, **({"epochs": 1, "batch": 9} | changes))  # type: ignore[arg-type]
    train, held = (replace(part, group=np.arange(len(part)) // 2) for part in (one.train, one.held))
    return replace(one, train=train, held=held)


def by_hand(one: training.Trainer) -> GraphEncoder:
    """The weights after the first epoch."""
    schedule, settings = one.schedule, one.settings
    model = training.initial(settings, schedule.seed).train()
    optimizer = torch.optim.AdamW(loop.parameter_groups(model, schedule.weight_decay), fused=True)
    order = training.epoch_batches(one.train, schedule, 0)
    for step, which in enumerate(order):
        pairs = one.train.take(which)
        numbers = [*pairs.query.tolist(), *pairs.document.tolist()]
        joined = collate([one.pack[i] for i in numbers], settings)
        generator = loop.seeded(schedule.seed, 0, step)
        joined = augment(joined, schedule.node_mask, schedule.edge_dropout, generator, schedule.together)
        with torch.autocast("cpu", torch.bfloat16, enabled=schedule.autocast):
            vectors = model(joined)
        same = torch.from_numpy(pairs.group[:, None] == pairs.group[None, :])
        value = loss.objective(
            vectors, joined, len(pairs), model.temperature(), schedule.beta, settings.normalise, same
        )
        optimizer.zero_grad()
        torch.autograd.backward(value)
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        for group in optimizer.param_groups:
            group["lr"] = loop.learning_rate(step, len(order) * schedule.epochs, schedule.rate, schedule.least_rate)
        optimizer.step()
    return model


def equal(first: GraphEncoder, second: GraphEncoder) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        *({}, {"beta": 0.0}, {"beta": 0.5}, {"rate": 1e-3}, {"least_rate": 4e-3}, {"weight_decay": 0.5}),
        *({"clip": 0.01}, {"node_mask": 0.5}, {"edge_dropout": 0.9}, {"autocast": True}, {"seed": 3}),
        {"edge_dropout": 0.9, "together": True},
    ],
)
def test_an_epoch_by_hand(tmp_path: Path, changes: dict[str, Any]) -> None:
    one = made(tmp_path, **changes)
    one.run(lambda _: None)
    trained = training.load_model(tmp_path / loop.BEST, {})
    assert equal(trained, by_hand(one))
    # What was changed is felt: the same comparison with the schedule of the first case tells them apart.
    plain = by_hand(replace(one, schedule=made(tmp_path).schedule))
    assert equal(trained, plain) == (not changes)


def test_scores_that_are_not_normalised_are_trained_on(tmp_path: Path) -> None:
    one = made(tmp_path)
    one = replace(one, settings=replace(one.settings, normalise=False))
    one.run(lambda _: None)
    trained = training.load_model(tmp_path / loop.BEST, {})
    assert equal(trained, by_hand(one))
    assert not equal(trained, by_hand(made(tmp_path)))


def test_other_answers_of_a_question_are_no_negatives_of_a_step(tmp_path: Path) -> None:
    one = made(tmp_path)
    # With all pairs of one question nothing is to be told apart: no gradient, and no weight moves but by decay.
    alone = replace(one.train, group=np.zeros(len(one.train), np.int64))
    still = replace(one, train=alone, schedule=replace(one.schedule, weight_decay=0.0))
    assert still.run(lambda _: None)[1]["training loss"] == 0
    assert equal(training.load_model(tmp_path / loop.BEST, {}), training.initial(one.settings, one.schedule.seed))


@pytest.mark.parametrize("beta", [1.0, 0.0])
def test_held_out_pairs_are_ranked_as_the_loss_scores_them(tmp_path: Path, beta: float) -> None:
    one = made(tmp_path, beta=beta)
    model = training.initial(one.settings, 5).eval()
    with torch.no_grad():
        queries, documents = (
            model(batch)
            for batch in (collate([one.pack[i] for i in side.tolist()], one.settings) for side in _sides(one))
        )
    # Each graph here is one sentence, so it has two vectors, that of the document last.
    scores = np.array([[_score(q, d, beta) for d in documents] for q in queries])
    np.testing.assert_allclose(one.held_scores(model), scores, atol=1e-6)
    competes = one.held.group[:, None] != one.held.group[None, :]
    ranks = [1 + sum(scores[i, j] > scores[i, i] for j in np.flatnonzero(competes[i])) for i in range(len(scores))]
    found = one.validate(model)
    assert found["validation MRR"] == pytest.approx(float(np.mean([1 / rank for rank in ranks])))
    assert found["chance"] == pytest.approx(sum(1 / n for n in range(1, 6)) / 5)  # its own, and four of others


def _sides(one: training.Trainer) -> tuple[Any, Any]:
    return one.held.query, one.held.document


def _score(q: Tensor, d: Tensor, beta: float) -> float:
    return float((q @ d.T).max(dim=1).values.mean()) if beta else float(q[-1] @ d[-1])


def test_a_layer_and_the_head_by_hand() -> None:
    torch.manual_seed(0)
    encoder = GraphEncoder(replace(SMALL, edge_vectors=True)).double()
    for parameter in encoder.parameters():  # also what begins as 0 or 1
        torch.nn.init.normal_(parameter)
    batch = collate([encoded(n, 9) for n in range(3)], SMALL)
    h = torch.randn(len(batch.nodes), 16, dtype=torch.float64)
    layer: Any = encoder.layers[0]
    groups = edge_plan(batch)

    def normed(x: Tensor, norm: Any) -> Tensor:  # noqa: ANN401
        centred = x - x.mean(-1, keepdim=True)
        out: Tensor = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias
        return out

    gelu: Callable[[Tensor], Tensor] = lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5))  # noqa: E731
    expected = h + gelu(layer.conv(normed(h, layer.norm), groups, encoder.edge_vectors))  # equations 3.1 and 3.2
    torch.testing.assert_close(layer(h, groups, encoder.edge_vectors), expected, atol=1e-9, rtol=0)
    head: Any = encoder.head
    first, norm, _, second, last = head
    inner = gelu(normed(h @ first.weight.T + first.bias, norm))
    torch.testing.assert_close(
        head(h), normed(inner @ second.weight.T + second.bias, last), atol=1e-9, rtol=0
    )  # equation 3.3

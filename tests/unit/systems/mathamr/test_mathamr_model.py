from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from encoder_tools import SMALL, encoded
from tuning_tools import one_thread

from harness.systems.mathamr.encoder.batch import collate
from harness.systems.mathamr.encoder.settings import INITS, GraphEncoderSettings

if TYPE_CHECKING:
    pass

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.dense.training.loop import parameter_groups  # noqa: E402
from harness.systems.mathamr.encoder.model import GraphEncoder  # noqa: E402

__all__ = ["one_thread"]
pytestmark = pytest.mark.usefixtures("one_thread")


def model(**changes: object) -> GraphEncoder:
    torch.manual_seed(0)
    return GraphEncoder(replace(SMALL, **changes))  # type: ignore[arg-type]


def number(encoder: GraphEncoder) -> int:
    return sum(p.numel() for p in encoder.parameters())


def test_parameters_of_the_thesis_experiments() -> None:
    encoder = GraphEncoder(GraphEncoderSettings(nodes=20_000, relations=262 + 4, reserved=False))
    assert encoder.settings.directed == 532
    assert encoder.embedding.weight.numel() == 1_280_000
    assert [number(layer) for layer in encoder.layers] == [64**3 + 532 * 64 + 64 * 64 + 64 + 128] * 4  # type: ignore[arg-type]
    assert number(encoder.head) == 6_432  # type: ignore[arg-type]
    assert number(encoder) == 2_488_545
    assert number(GraphEncoder(GraphEncoderSettings())) == 2_488_545 + 4 * 2 * 64


def test_node_embeddings_are_xavier_uniform() -> None:
    weight = model(nodes=5_000).embedding.weight.detach()
    most = math.sqrt(6 / (len(weight) + weight.shape[1]))
    assert 0.99 * most < float(weight.abs().max()) <= most
    assert float(weight.std()) == pytest.approx(most / math.sqrt(3), rel=0.02)


def test_initial_vectors_of_virtual_nodes_by_hand() -> None:
    item = encoded(4, 9)  # formula: nodes 6 to 8; sentences: 0 to 2 and 3 to 5
    one = collate([encoded(5, 7), item], SMALL)
    last = slice(-13, None)
    for init in INITS:
        encoder = model(init=init)
        x = torch.randn(len(one.nodes), 16)
        out = encoder.virtual(x, one)[last]
        own = x[last]
        assert torch.equal(out[:9], own[:9])
        means = torch.stack([own[6:9].mean(0), own[0:3].mean(0), own[3:6].mean(0), own[:9].mean(0)])
        types = (0, 1, 1, 2)
        if init in {"zero", "zero-embedding"}:
            expected = torch.zeros(4, 16)
        elif init == "random-embedding":
            expected = encoder.virtual.vectors[list(types)]
            assert float(expected.detach().abs().max()) > 0
        elif init == "mean":
            expected = means
        else:
            maps = encoder.virtual.maps
            expected = torch.stack([maps[kind % len(maps)](mean) for kind, mean in zip(types, means, strict=True)])
        torch.testing.assert_close(out[9:], expected)


@pytest.mark.parametrize(
    ("structure", "init"), [("global", "mean"), ("none", "zero"), *(("hierarchy", init) for init in INITS)]
)
def test_a_post_has_the_same_vectors_alone_or_in_a_batch(structure: str, init: str) -> None:
    encoder = model(init=init, edge_vectors=True).eval()
    items = [encoded(n, 5 + 3 * n, structure=structure) for n in range(8)]
    with torch.no_grad():
        together = encoder(collate(items, SMALL))
        alone = [encoder(collate([item], SMALL))[0] for item in items]
    for number, one in enumerate(alone):
        torch.testing.assert_close(together[number], one, atol=1e-5, rtol=0)
    assert len({tuple(row[0].tolist()) for row in alone}) == 8


def test_vectors_have_length_1_and_padding_is_zero() -> None:
    items = [encoded(0, 9), encoded(1, 9, structure="none")]
    one = collate(items, SMALL)
    out = model()(one)
    assert out.shape == (2, 4, 8)
    torch.testing.assert_close(out.norm(dim=-1), one.mask.float())


def test_temperature_stays_in_its_range_and_can_leave_its_end() -> None:
    encoder = model()
    assert float(encoder.temperature().detach()) == pytest.approx(0.05)
    with torch.no_grad():
        encoder.t.fill_(-50)
    value = encoder.temperature()
    assert float(value.detach()) == pytest.approx(0.01)
    torch.autograd.backward(value)
    assert float(encoder.t.grad) == pytest.approx(0.01)  # type: ignore[arg-type]


def test_groups_of_parameters() -> None:
    encoder = model(init="mean-projection", edge_vectors=True)
    names = {id(p): name for name, p in encoder.named_parameters()}
    with_decay, without = ({names[id(p)] for p in group["params"]} for group in parameter_groups(encoder, 0.3))
    assert [group["weight_decay"] for group in parameter_groups(encoder, 0.3)] == [0.3, 0.0]
    assert with_decay | without == set(names.values())
    assert not with_decay & without
    layers = {f"layers.{n}.{each}" for n in range(2) for each in ("norm.weight", "norm.bias", "conv.bias")}
    head = {"head.0.bias", "head.1.weight", "head.1.bias", "head.3.bias", "head.4.weight", "head.4.bias"}
    assert without == {"t", "virtual.maps.0.bias"} | layers | head

"""The relational convolution beside PyTorch Geometric's RGCNConv in float64."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from torch import Tensor, nn

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.mathamr.encoder.convolution import EdgePlan, RelationalConv, plan_edges  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("torch_geometric") is None, reason="torch_geometric is not installed"),
]
NODES, EDGES, RELATIONS, BASES, DIM_IN, DIM_OUT = 120, 900, 40, 6, 16, 12
OUTPUT, GRADIENT = 1e-10, 1e-9


def edges(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Edges with hubs, with relations that are missing, and with edges that come twice."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(0, NODES, (EDGES,), generator=generator)
    target = torch.randint(0, NODES, (EDGES,), generator=generator)
    relation = torch.randint(0, RELATIONS - 3, (EDGES,), generator=generator)
    target[: EDGES // 3] = 5
    relation[: EDGES // 4] = 2
    again = slice(0, 50)
    return (
        torch.cat((source, source[again])),
        torch.cat((relation, relation[again])),
        torch.cat((target, target[again])),
    )


def outcome(layer: nn.Module, x: Tensor, run: Callable[[Tensor], Tensor]) -> tuple[Tensor, dict[str, Any]]:
    """Output and all gradients of a weighted sum of it."""
    x = x.clone().requires_grad_()
    out = run(x)
    weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
    torch.autograd.backward((out * weights).sum())
    return out.detach(), {"x": x.grad, **{name: p.grad for name, p in layer.named_parameters()}}


def differences(seed: int, aggregation: str, chunks: bool) -> tuple[float, float]:
    """The largest difference of outputs and of gradients from the reference with an aggregation."""
    source, relation, target = edges(seed)
    torch.manual_seed(seed)
    ours = RelationalConv(DIM_IN, DIM_OUT, RELATIONS, BASES, chunks).double()
    import torch_geometric.nn as peers  # by the tests alone: it takes five seconds

    theirs = peers.RGCNConv(DIM_IN, DIM_OUT, RELATIONS, num_bases=BASES, aggr=aggregation).double()
    torch.nn.init.normal_(ours.bias)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(NODES, DIM_IN, dtype=torch.float64)
    groups = plan_edges(source, relation, target)
    out, gradients = outcome(ours, x, lambda x: ours(x, groups))
    index = torch.stack((source, target))
    expected, reference = outcome(theirs, x, lambda x: theirs(x, index, relation))
    assert gradients.keys() == reference.keys()
    worst = max(float((gradients[name] - reference[name]).abs().max()) for name in gradients)
    return float((out - expected).abs().max()), worst


@pytest.mark.parametrize("chunks", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_outputs_and_gradients_are_those_of_the_reference(seed: int, chunks: bool) -> None:
    output, gradient = differences(seed, "mean", chunks)
    assert output < OUTPUT
    assert gradient < GRADIENT


@pytest.mark.parametrize("chunks", [False, True])
def test_the_check_tells_a_sum_from_a_mean(chunks: bool) -> None:
    output, gradient = differences(0, "sum", chunks)
    assert output > 1e-3
    assert gradient > 1e-3


class ByDegree(RelationalConv):
    """Divides by a node's degree over all relations instead of by its neighbours of one."""

    def forward(self, x: Tensor, groups: EdgePlan, edge_vectors: Tensor | None = None) -> Tensor:
        degree = torch.bincount(groups.target[groups.group], minlength=len(x)).clamp(min=1)
        own = x @ self.root + self.bias
        scale = groups.count / degree[groups.target]
        rows = x.new_zeros(len(groups.target), x.shape[1]).index_add(0, groups.group, x[groups.source])
        rows = rows / groups.count[:, None] * scale[:, None]
        matrices = torch.einsum("rb,bio->rio", self.comp, self.weight)[groups.relation]
        return own.index_add(0, groups.target, torch.einsum("gi,gio->go", rows, matrices))


def test_the_check_tells_a_division_by_degree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RelationalConv", ByDegree)
    output, gradient = differences(0, "mean", False)
    assert output > 1e-3
    assert gradient > 1e-3


def test_initial_parameters_have_the_reference_s_distribution() -> None:
    torch.manual_seed(1)
    ours = RelationalConv(64, 64, 532, 64)
    import torch_geometric.nn as peers

    theirs = peers.RGCNConv(64, 64, 532, num_bases=64)
    assert {n: p.shape for n, p in ours.named_parameters()} == {n: p.shape for n, p in theirs.named_parameters()}
    for name, own in ours.named_parameters():
        other = theirs.get_parameter(name)
        assert float(own.detach().abs().max()) == pytest.approx(float(other.detach().abs().max()), rel=0.01)
        assert float(own.detach().std()) == pytest.approx(float(other.detach().std()), rel=0.05)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torch import Tensor

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.mathamr.encoder.convolution import EdgePlan, RelationalConv, plan_edges  # noqa: E402


def conv(relations: int = 7, chunks: bool | None = None, dim_in: int = 5, dim_out: int = 4) -> RelationalConv:
    torch.manual_seed(0)
    layer = RelationalConv(dim_in, dim_out, relations, 3, chunks).double()
    torch.nn.init.normal_(layer.bias)
    return layer


def gradients(
    layer: RelationalConv, x: Tensor, groups: EdgePlan, vectors: Tensor | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Output and the gradients of a weighted sum of it."""
    x = x.clone().requires_grad_()
    given = None if vectors is None else vectors.clone().requires_grad_()
    layer.zero_grad()
    out = layer(x, groups, given)
    torch.autograd.backward((out * torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)).sum())
    found = {"x": x.grad, "vectors": None if given is None else given.grad}
    found |= {
        name: parameter.grad.clone() for name, parameter in layer.named_parameters() if parameter.grad is not None
    }
    return out.detach(), {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize("with_vectors", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_gradients_derived_by_hand_are_those_of_autograd(some: bool, with_vectors: bool) -> None:
    """In float32; chunks are differentiated by torch."""
    relation = torch.cat([torch.full((3 * n + 1,), n) for n in range(15)])
    source, target = torch.randint(0, 60, (2, len(relation)))
    groups = plan_edges(source, relation, target)
    groups = groups.towards(torch.tensor([3, 7, 20, 59]), 60) if some else groups
    x = torch.randn(60, 5)
    vectors = torch.randn(17, 5) if with_vectors else None
    out, found = gradients(conv(17, False).float(), x, groups, vectors)
    expected, reference = gradients(conv(17, True).float(), x, groups, vectors)
    torch.testing.assert_close(out, expected, atol=1e-6, rtol=1e-6)
    assert found.keys() == reference.keys()
    for name, value in reference.items():
        torch.testing.assert_close(found[name], value, atol=1e-6 * float(value.abs().max()), rtol=1e-6)


@pytest.mark.parametrize("chunks", [False, True])
def test_values_of_some_nodes_are_those_of_all(chunks: bool) -> None:
    source, relation, target = torch.randint(0, 6, (3, 50))
    layer, x = conv(chunks=chunks), torch.randn(8, 5, dtype=torch.float64)
    groups = plan_edges(source, relation, target)
    for nodes in ([], [2], [0, 4, 7], list(range(8))):  # node 7 has no edge
        chosen = torch.tensor(nodes, dtype=torch.int64)
        part = groups.towards(chosen, len(x))
        torch.testing.assert_close(layer(x, part), layer(x, groups)[chosen], atol=1e-12, rtol=0)
        assert int(part.count.sum()) == len(part.source) == int(torch.isin(target, chosen).sum())


def test_nodes_after_the_last_edge_and_graphs_without_edges_get_their_own_value() -> None:
    one = torch.tensor([1])
    x = torch.randn(4, 5, dtype=torch.float64)
    for groups in (plan_edges(one, one, one - 1), plan_edges(one[:0], one[:0], one[:0])):
        for layer in (conv(chunks=False), conv(chunks=True)):
            out, found = gradients(layer, x, groups)
            torch.testing.assert_close(out[1:], x[1:] @ layer.root + layer.bias, atol=1e-12, rtol=0)
            assert found["x"].shape == x.shape


@pytest.mark.parametrize("chunks", [False, True])
def test_parameters_without_an_edge_have_a_gradient_of_zero(chunks: bool) -> None:
    """None would leave them out of weight decay."""
    one = torch.tensor([1])
    layer, x = conv(chunks=chunks), torch.randn(4, 5, dtype=torch.float64)
    out, found = gradients(layer, x, plan_edges(one, one, one).towards(one - 1, 4))
    torch.testing.assert_close(out, x[:1] @ layer.root + layer.bias, atol=1e-12, rtol=0)
    assert not found["comp"].any()
    assert not found["weight"].any()
    assert found["root"].any()

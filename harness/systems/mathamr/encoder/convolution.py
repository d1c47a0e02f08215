"""Relational graph convolution with basis decomposition (Schlichtkrull et al., 2018; MathAMR+, equation 2.4).

The output of a node is W_0 h plus, for each incoming relation r, W_r times the mean h of its neighbours under r, where
W_r = sum_b a_rb V_b. Edges are grouped by (relation, target), and each group's mean is multiplied by W_r once. This
avoids one product per edge and one pass over all edges or nodes per relation. All layers share a batch's groups.

A loop over relations would be slow, because many small products leave threads waiting for each other. On a CPU, the
groups of each relation are padded to one of few sizes, relations of equal size are multiplied together, and gradients
are derived by hand. On a GPU, groups are cut into chunks of equal padded size, one relation each, and multiplied in one
product. Both methods give the same results up to rounding.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from harness.systems.mathamr.encoder.plan import EdgePlan


def _matrices(comp: Tensor, weight: Tensor, relations: Tensor) -> Tensor:
    """Returns the matrices W_r of some relations, shape (relations, i, o)."""
    bases, dim_in, dim_out = weight.shape
    return (comp.index_select(0, relations) @ weight.view(bases, -1)).view(-1, dim_in, dim_out)


class _Blocked(torch.autograd.Function):
    """The convolution with one batched product per block, and its gradients; used on CPUs.

    Derived by hand, so that each value is written once: vectors are summed into padded rows and out of them (`Bags`)
    instead of gathered, scattered and divided, and products are written in place. Under autocast, the products have
    the autocast data type.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        weight: Tensor,
        comp: Tensor,
        root: Tensor,
        bias: Tensor,
        edge_vectors: Tensor | None,
        groups: EdgePlan,
    ) -> Tensor:
        """Returns the output of `RelationalConv.forward`."""
        kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
        blocks, bags = groups.blocks, groups.bags
        rows = bags.means.sums(x, len(bags.target))
        if edge_vectors is not None:
            rows.index_add_(0, blocks.slot, edge_vectors.index_select(0, groups.relation))
        rows = rows.to(kind)
        matrices = _matrices(comp.to(kind), weight.to(kind), groups.present[blocks.order])
        products = rows.new_empty(len(rows), weight.shape[2])
        for part, own, out in zip(blocks.split(rows), blocks.matrices(matrices), blocks.split(products), strict=True):
            torch.bmm(part, own, out=out)
        out = bags.totals.sums(products.to(x.dtype), len(x) if groups.nodes is None else len(groups.nodes))
        own = x if groups.nodes is None else x.index_select(0, groups.nodes)
        ctx.groups = groups
        ctx.save_for_backward(x, weight, comp, root, rows, matrices)
        return out.addmm_(own, root).add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Returns the gradients of the arguments of `forward`."""
        groups: EdgePlan = ctx.groups
        x, weight, comp, root, rows, matrices = ctx.saved_tensors
        blocks, bags, kind = groups.blocks, groups.bags, rows.dtype
        # Padding takes any row of the gradient: its products with the zeros of `rows` are zero, and are not summed.
        grads = grad.index_select(0, bags.target).to(kind)
        of_rows, of_matrices = torch.empty_like(rows), torch.empty_like(matrices)
        for part, own, out, back, to in zip(
            blocks.split(rows),
            blocks.matrices(matrices),
            blocks.split(grads),
            blocks.split(of_rows),
            blocks.matrices(of_matrices),
            strict=True,
        ):
            torch.bmm(out, own.transpose(1, 2), out=back)
            torch.bmm(part.transpose(1, 2), out, out=to)
        flat, bases = of_matrices.flatten(1), weight.flatten(1).to(kind)
        relations = groups.present[blocks.order]
        of_comp = torch.zeros_like(comp).index_copy(0, relations, (flat @ bases.T).to(comp.dtype))
        of_weight = (comp.index_select(0, relations).to(kind).T @ flat).view_as(weight).to(weight.dtype)
        of_rows = of_rows.to(x.dtype)
        of_x = bags.returned.sums(of_rows, len(x))
        own = x
        if groups.nodes is None:
            of_x.addmm_(grad, root.T)
        else:
            own = x.index_select(0, groups.nodes)
            of_x.index_add_(0, groups.nodes, grad @ root.T)
        of_edges = None
        if ctx.needs_input_grad[5]:
            of_edges = x.new_zeros(len(comp), x.shape[1])
            of_edges.index_add_(0, groups.relation, of_rows.index_select(0, blocks.slot))
        return of_x, of_weight, of_comp, own.T @ grad, grad.sum(0), of_edges, None


def chunked(rows: Tensor, comp: Tensor, weight: Tensor, groups: EdgePlan) -> Tensor:
    """Computes the same as `blocked` in a single batched product over chunks; used on GPUs."""
    chunks = groups.chunks
    matrices = _matrices(comp, weight, groups.present).index_select(0, chunks.index)
    padded = rows.new_zeros(len(chunks.index) * chunks.rows, rows.shape[1]).index_copy(0, chunks.slot, rows)
    out = torch.bmm(padded.view(-1, chunks.rows, rows.shape[1]), matrices)
    return out.view(-1, weight.shape[2]).index_select(0, chunks.slot)


class RelationalConv(nn.Module):
    """Relational convolution with the parameter names, shapes and initialisation of PyTorch Geometric's RGCNConv.

    Attributes
    ----------
    weight : shape (bases, dim_in, dim_out). V_b.
    comp : shape (relations, bases). a_rb.
    root : shape (dim_in, dim_out). W_0.
    bias : shape (dim_out,).
    chunks : True uses `chunked`, False `blocked`; None chooses by device.
    """

    def __init__(self, dim_in: int, dim_out: int, relations: int, bases: int, chunks: bool | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(bases, dim_in, dim_out))
        self.comp = nn.Parameter(torch.empty(relations, bases))
        self.root = nn.Parameter(torch.empty(dim_in, dim_out))
        self.bias = nn.Parameter(torch.zeros(dim_out))
        self.chunks = chunks
        for parameter in (self.weight, self.comp, self.root):
            bound = math.sqrt(6 / (parameter.shape[-2] + parameter.shape[-1]))
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, groups: EdgePlan, edge_vectors: Tensor | None = None) -> Tensor:
        """Convolves node vectors.

        Parameters
        ----------
        x : shape (n, dim_in).
        groups : the batch's edges, grouped; all of them, or those towards some nodes (`EdgePlan.towards`).
        edge_vectors : shape (relations, dim_in). Added to a neighbour's vector, per relation, before multiplication
            by W_r (section 3.3.2). Adding it after the group mean gives the same result.

        Returns
        -------
        Shape (n, dim_out), or (m, dim_out) for the m nodes of the plan.
        """
        if not len(groups.target) and groups.nodes is None:
            return torch.addmm(self.bias, x, self.root).to(x.dtype)
        chunks = x.device.type != "cpu" if self.chunks is None else self.chunks
        if not chunks:
            given = (x, self.weight, self.comp, self.root, self.bias, edge_vectors, groups)
            out: Tensor = _Blocked.apply(*given)  # type: ignore[no-untyped-call]
            return out
        own = x if groups.nodes is None else x.index_select(0, groups.nodes)
        out = torch.addmm(self.bias, own, self.root).to(x.dtype)  # under autocast, sums keep their precision
        means = x.new_zeros(len(groups.target), x.shape[1]).index_add(0, groups.group, x.index_select(0, groups.source))
        means = means / groups.count[:, None]
        if edge_vectors is not None:
            means = means + edge_vectors.index_select(0, groups.relation)
        products = chunked(means, self.comp, self.weight, groups)
        return out.index_add(0, groups.target, products.to(out.dtype))

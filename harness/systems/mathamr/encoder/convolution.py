"""Relational graph convolution with basis decomposition (Schlichtkrull et al., 2018; MathAMR+, equation 2.4).

The output of a node is W_0 h plus, for each incoming relation r, W_r times the mean h of its neighbours under r, where
W_r = sum_b a_rb V_b. Edges are grouped by (relation, target), and each group's mean is multiplied by W_r once. This
avoids one product per edge and one pass over all edges or nodes per relation. All layers share a batch's groups.

A loop over relations would be slow, because many small products leave threads waiting for each other. On a CPU, the
groups of each relation are padded to one of few sizes, relations of equal size are multiplied together, and gradients
are derived by hand. On a GPU, groups are cut into chunks of equal padded size, one relation each, and multiplied in one
product. Both methods give the same results up to rounding.

`convolution` computes the same by PyTorch Geometric's FastRGCNConv, with one product for each edge: slower, but a place
to begin for encoders of other layers of that library. Parameters have the same names, shapes and initial values, so
that weights can be exchanged.

Plans: the edges of a batch grouped by relation and target node, and the layouts in which groups are multiplied.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

_LEAST_BLOCK = 4  # minimum number of rows per relation in a block, padding included
_LEAST_CHUNK = 16  # minimum number of rows in a chunk, padding included; fewer would make GPU products too small


@dataclass(frozen=True, eq=False)
class EdgePlan:
    """Edges of a batch, grouped by relation and target node. All numbers are int64.

    Attributes
    ----------
    source : shape (e,). Sources of the edges, group by group.
    group : shape (e,). The group of each edge, ascending.
    relation, target, count : shape (groups,). The common relation and target of a group's edges, and their number.
        Groups are sorted by relation, then by target.
    present : shape (p,). Relations that occur in the batch, ascending.
    sizes : shape (p,). Number of groups of each present relation.
    nodes : shape (m,). The nodes that receive a value, ascending; `target` then holds indices into them. None: all
        nodes of the batch.
    """

    source: Tensor
    group: Tensor
    relation: Tensor
    target: Tensor
    count: Tensor
    present: Tensor
    sizes: Tensor
    nodes: Tensor | None = None

    def towards(self, nodes: Tensor, number: int) -> EdgePlan:
        """Returns the part of a plan whose groups have their target among some nodes.

        Parameters
        ----------
        nodes : int64, shape (m,). Distinct nodes, ascending.
        number : number of nodes of the batch.
        """
        place = nodes.new_full((number,), -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        target = place[self.target]
        groups = (target >= 0).nonzero()[:, 0]
        renumbered = torch.full_like(target, -1)
        renumbered[groups] = torch.arange(len(groups), device=nodes.device)
        group = renumbered[self.group]
        edges = (group >= 0).nonzero()[:, 0]
        relation = self.relation[groups]
        present, sizes = torch.unique_consecutive(relation, return_counts=True)
        kept = (self.source[edges], group[edges], relation, target[groups], self.count[groups])
        return EdgePlan(*kept, present, sizes, nodes)

    @cached_property
    def blocks(self) -> RelationBlocks:
        """Relations arranged by number of groups, padded to one of few sizes."""
        padded = torch.tensor([_padded(size) for size in self.sizes.tolist()], dtype=torch.int64)
        padded, order = torch.sort(padded.to(self.sizes.device), stable=True)
        each, relations = torch.unique_consecutive(padded, return_counts=True)
        first_row = torch.empty_like(padded)
        first_row[order] = padded.cumsum(0) - padded
        numbers = [int(number) for number in relations.tolist()]
        lengths = [number * int(rows) for number, rows in zip(numbers, each.tolist(), strict=True)]
        return RelationBlocks(order, numbers, lengths, self._slot(first_row))

    def _slot(self, first_row: Tensor) -> Tensor:
        """Returns the row of each group, given the first row of each relation."""
        first_group = self.sizes.cumsum(0) - self.sizes
        shift = torch.repeat_interleave(first_row - first_group, self.sizes)
        return torch.arange(len(self.target), device=shift.device) + shift

    @cached_property
    def bags(self) -> Bags:
        """Sums of rows, by which vectors come into the rows of `blocks` and out of them without scattering."""
        slot, first = self.blocks.slot, self.count.cumsum(0) - self.count
        rows = sum(self.blocks.rows)
        begins = _begins(slot.new_zeros(rows).index_copy(0, slot, self.count))
        share = self.count.double().reciprocal()[self.group]  # the weight of an edge in its group's mean
        # The place of an edge among those of all rows: the first place of its row, and its rank in the group.
        place = torch.arange(len(self.source), device=slot.device) + (begins[slot] - first)[self.group]
        by_target = torch.argsort(self.target, stable=True)
        by_source = torch.argsort(self.source, stable=True)
        return Bags(
            Bag(
                torch.empty_like(self.source).index_copy(0, place, self.source),
                begins,
                torch.empty_like(share).index_copy(0, place, share),
            ),
            Bag(slot[by_target], _begins(torch.bincount(self.target))),
            Bag(slot[self.group[by_source]], _begins(torch.bincount(self.source)), share[by_source]),
            slot.new_zeros(rows).index_copy(0, slot, self.target),
        )

    @cached_property
    def chunks(self) -> Chunks:
        """Groups arranged in chunks of equal size, one relation per chunk."""
        groups, present = len(self.target), max(len(self.present), 1)
        # With chunks of about the mean number of groups per relation, there are at most about as many padding rows as
        # groups.
        rows = max(_LEAST_CHUNK, 1 << max(groups // present, 1).bit_length() - 1)
        number = (self.sizes + rows - 1) // rows
        index = torch.repeat_interleave(torch.arange(len(self.present), device=self.sizes.device), number)
        return Chunks(rows, index, self._slot((number.cumsum(0) - number) * rows))


@dataclass(frozen=True, eq=False)
class RelationBlocks:
    """Blocks of relations with equal padded size. The rows of a block are the padded rows of its relations.

    Attributes
    ----------
    order : shape (p,). The relations as indices into `EdgePlan.present`, block by block.
    relations, rows : number of relations and of rows in each block.
    slot : shape (groups,). The row of each group in the concatenation of all blocks.
    """

    order: Tensor
    relations: list[int]
    rows: list[int]
    slot: Tensor

    def split(self, rows: Tensor) -> list[Tensor]:
        """Returns views of padded rows (rows, i) block by block, each of shape (relations, rows of each, i)."""
        parts = torch.split(rows, self.rows)
        return [part.view(number, -1, rows.shape[1]) for part, number in zip(parts, self.relations, strict=True)]

    def matrices(self, matrices: Tensor) -> tuple[Tensor, ...]:
        """Returns views of one matrix per relation, in the order of `order`, block by block."""
        return torch.split(matrices, self.relations)


@dataclass(frozen=True, eq=False)
class Bag:
    """Weighted sums of the rows of a matrix.

    Attributes
    ----------
    rows : int64, shape (e,). The rows that are added up, sum by sum.
    begins : int64, shape (sums + 1,). Where each sum begins in `rows`.
    weight : float64, shape (e,). The weights of the rows; None: 1.
    """

    rows: Tensor
    begins: Tensor
    weight: Tensor | None = None

    def sums(self, matrix: Tensor, number: int) -> Tensor:
        """Returns the sums, shape (number, columns); those after the last sum of the bag are zero."""
        begins = functional.pad(self.begins, (0, number + 1 - len(self.begins)), value=len(self.rows))
        weight = None if self.weight is None else self.weight.to(matrix.dtype)
        return functional.embedding_bag(
            self.rows, matrix, begins, mode="sum", per_sample_weights=weight, include_last_offset=True
        )


@dataclass(frozen=True, eq=False)
class Bags:
    """The sums of a convolution, for node vectors in and out of the rows of `EdgePlan.blocks`.

    Attributes
    ----------
    means : for each row the mean of the sources of its group; zero for padding.
    totals : for each target the sum of the rows of its groups.
    returned : the transpose of `means`: for each source the sum of the rows that it is part of, weighted.
    target : shape (rows,). The target of each row; 0 for padding.
    """

    means: Bag
    totals: Bag
    returned: Bag
    target: Tensor


def _padded(size: int) -> int:
    """Returns a number of rows that holds so many groups: one of four between two powers of two."""
    size = max(size, _LEAST_BLOCK)
    step = 1 << max((size - 1).bit_length() - 3, 0)
    return -(-size // step) * step


def _begins(lengths: Tensor) -> Tensor:
    return functional.pad(lengths.cumsum(0), (1, 0))


@dataclass(frozen=True, eq=False)
class Chunks:
    """Chunks of groups, one relation per chunk.

    Attributes
    ----------
    rows : rows per chunk, padding included.
    index : shape (chunks,). The relation of each chunk as an index into `EdgePlan.present`.
    slot : shape (groups,). The row of each group in the concatenation of all chunks.
    """

    rows: int
    index: Tensor
    slot: Tensor


def plan_edges(source: Tensor, relation: Tensor, target: Tensor) -> EdgePlan:
    """Groups edges by relation and target.

    Parameters
    ----------
    source, relation, target : int64, shape (e,). Directed edges, in any order; duplicates count separately.
    """
    nodes = int(target.max()) + 1 if len(target) else 1
    key, order = torch.sort(relation * nodes + target, stable=True)
    key, group, count = torch.unique_consecutive(key, return_inverse=True, return_counts=True)
    own = key // nodes
    present, sizes = torch.unique_consecutive(own, return_counts=True)
    return EdgePlan(source[order], group, own, key % nodes, count, present, sizes)


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


# Not an import statement: the fingerprint of models of our own convolution must not depend on this package.
_PACKAGE = "torch_geometric"


def convolution(dim_in: int, dim_out: int, relations: int, bases: int) -> nn.Module:
    """Returns a module that is called as `RelationalConv`; see its `forward`.

    Raises
    ------
    ImportError
        PyTorch Geometric is not installed; `settings.check_package` says so in one line.

    Examples
    --------
    >>> from harness.systems.mathamr.encoder.convolution import RelationalConv
    >>> conv = convolution(8, 4, 6, 3)
    >>> conv.load_state_dict(RelationalConv(8, 4, 6, 3).state_dict())
    <All keys matched successfully>
    """
    made: nn.Module = _pyg_class()(dim_in, dim_out, relations, num_bases=bases, aggr="mean")
    return made


@cache
def _pyg_class() -> Any:  # noqa: ANN401
    """Returns the layer, a subclass of PyTorch Geometric's, which is imported only when it is needed."""
    fast: Any = importlib.import_module(f"{_PACKAGE}.nn").FastRGCNConv

    class PygConv(fast):  # type: ignore[misc]
        """FastRGCNConv over the edges of a plan, with learned vectors of relations."""

        def forward(self, x: Tensor, groups: EdgePlan, edge_vectors: Tensor | None = None) -> Tensor:
            """Convolves node vectors; arguments and result are those of `RelationalConv.forward`."""
            own = x if groups.nodes is None else x.index_select(0, groups.nodes)
            edges = torch.stack((groups.source, groups.target[groups.group]))
            self.vectors = edge_vectors
            try:
                out: Tensor = super().forward((x, own), edges, groups.relation[groups.group])
            finally:
                self.vectors = None
            return out

        def message(self, x_j: Tensor, edge_type: Tensor, edge_index_j: Tensor) -> Tensor:
            """Returns the messages of edges: W_r times the neighbour's vector plus that of the relation."""
            if self.vectors is not None:
                x_j = x_j + self.vectors.index_select(0, edge_type)
            out: Tensor = super().message(x_j, edge_type, edge_index_j)
            return out

    return PygConv

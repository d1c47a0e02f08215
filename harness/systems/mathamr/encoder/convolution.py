"""Relational graph convolution with basis decomposition (Schlichtkrull et al., 2018; MathAMR+, equation 2.4).

The output of a node is W_0 h plus, for each incoming relation r, W_r times the mean h of its neighbours under r, where
W_r = sum_b a_rb V_b. Edges are grouped by (relation, target), and each group's mean is multiplied by W_r once. This
avoids one product per edge and one pass over all edges or nodes per relation. All layers share a batch's groups.

A loop over relations would be slow, because many small products leave threads waiting for each other. On a CPU, the
groups of each relation are padded to a power of two, and relations of equal size are multiplied together: about ten
products. On a GPU, groups are cut into chunks of equal padded size, one relation each, and multiplied in one product.
Both methods give the same results up to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

_LEAST_BLOCK = 4  # minimum number of rows per relation in a block, padding included
_LEAST_CHUNK = 16  # minimum number of rows in a chunk, padding included; fewer would make GPU products too small


@dataclass(frozen=True, eq=False)
class Plan:
    """Edges of a batch, grouped by relation and target node. All numbers are int64.

    Attributes
    ----------
    source : shape (e,). Sources of the edges, group by group.
    group : shape (e,). The group of each edge, ascending.
    relation, target, count : shape (groups,). The common relation and target of a group's edges, and their number.
        Groups are sorted by relation, then by target.
    present : shape (p,). Relations that occur in the batch, ascending.
    sizes : shape (p,). Number of groups of each present relation.
    """

    source: Tensor
    group: Tensor
    relation: Tensor
    target: Tensor
    count: Tensor
    present: Tensor
    sizes: Tensor

    @cached_property
    def blocks(self) -> Blocks:
        """Relations arranged by number of groups, padded to powers of two."""
        powers = torch.tensor([max(int(size) - 1, _LEAST_BLOCK - 1).bit_length() for size in self.sizes.tolist()])
        powers, order = torch.sort(powers.to(self.sizes.device), stable=True)
        power, relations = torch.unique_consecutive(powers, return_counts=True)
        rows = torch.bitwise_left_shift(torch.ones_like(powers), powers)
        first_row = torch.empty_like(rows)
        first_row[order] = rows.cumsum(0) - rows
        numbers = [int(number) for number in relations.tolist()]
        lengths = [number << int(each) for number, each in zip(numbers, power.tolist(), strict=True)]
        return Blocks(order, numbers, lengths, self._slot(first_row))

    def _slot(self, first_row: Tensor) -> Tensor:
        """Returns the row of each group, given the first row of each relation."""
        first_group = self.sizes.cumsum(0) - self.sizes
        shift = torch.repeat_interleave(first_row - first_group, self.sizes)
        return torch.arange(len(self.target), device=shift.device) + shift

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
class Blocks:
    """Blocks of relations with equal padded size. The rows of a block are the padded rows of its relations.

    Attributes
    ----------
    order : shape (p,). The relations as indices into `Plan.present`, block by block.
    relations, rows : number of relations and of rows in each block.
    slot : shape (groups,). The row of each group in the concatenation of all blocks.
    """

    order: Tensor
    relations: list[int]
    rows: list[int]
    slot: Tensor


@dataclass(frozen=True, eq=False)
class Chunks:
    """Chunks of groups, one relation per chunk.

    Attributes
    ----------
    rows : rows per chunk, padding included.
    index : shape (chunks,). The relation of each chunk as an index into `Plan.present`.
    slot : shape (groups,). The row of each group in the concatenation of all chunks.
    """

    rows: int
    index: Tensor
    slot: Tensor


def plan(source: Tensor, relation: Tensor, target: Tensor, relations: int) -> Plan:
    """Groups edges by relation and target.

    Parameters
    ----------
    source, relation, target : int64, shape (e,). Directed edges, in any order; duplicates count separately.
    relations : number of relations R.

    Raises
    ------
    ValueError
        A relation is not from 0 to R - 1.
    """
    low, high = (int(relation.min()), int(relation.max())) if len(relation) else (0, 0)
    if low < 0 or high >= relations:
        raise ValueError(f"relations from {low} to {high}, expected 0 to {relations - 1}")
    nodes = int(target.max()) + 1 if len(target) else 1
    key, order = torch.sort(relation * nodes + target, stable=True)
    key, group, count = torch.unique_consecutive(key, return_inverse=True, return_counts=True)
    own = key // nodes
    present, sizes = torch.unique_consecutive(own, return_counts=True)
    return Plan(source[order], group, own, key % nodes, count, present, sizes)


def _matrices(comp: Tensor, weight: Tensor, relations: Tensor) -> Tensor:
    """Returns the matrices W_r of some relations, shape (relations, i, o)."""
    bases, dim_in, dim_out = weight.shape
    return (comp.index_select(0, relations) @ weight.view(bases, -1)).view(-1, dim_in, dim_out)


def _padded(rows: Tensor, slot: Tensor, number: int) -> Tensor:
    return rows.new_zeros(number, rows.shape[1]).index_copy(0, slot, rows)


def blocked(rows: Tensor, comp: Tensor, weight: Tensor, groups: Plan) -> Tensor:
    """Multiplies each group's row by its relation's matrix, with one batched product per block; used on CPUs.

    Parameters
    ----------
    rows : shape (groups, i).
    comp, weight : parameters of `RelationalConv`.

    Returns
    -------
    Shape (groups, o). Under autocast, it has the autocast data type.
    """
    blocks = groups.blocks
    matrices = torch.split(_matrices(comp, weight, groups.present[blocks.order]), blocks.relations)
    parts = torch.split(_padded(rows, blocks.slot, sum(blocks.rows)), blocks.rows)
    # The gradient of `split` is one concatenation; the gradient of indexing would be as large as all matrices.
    products = [
        torch.bmm(part.view(len(own), -1, own.shape[1]), own).flatten(0, 1)
        for part, own in zip(parts, matrices, strict=True)
    ]
    return torch.cat(products).index_select(0, blocks.slot)


def chunked(rows: Tensor, comp: Tensor, weight: Tensor, groups: Plan) -> Tensor:
    """Computes the same as `blocked` in a single batched product over chunks; used on GPUs."""
    chunks = groups.chunks
    matrices = _matrices(comp, weight, groups.present).index_select(0, chunks.index)
    padded = _padded(rows, chunks.slot, len(chunks.index) * chunks.rows)
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

    def forward(self, x: Tensor, groups: Plan, edge_vectors: Tensor | None = None) -> Tensor:
        """Convolves node vectors.

        Parameters
        ----------
        x : shape (n, dim_in).
        groups : the batch's edges, grouped.
        edge_vectors : shape (relations, dim_in). Added to a neighbour's vector, per relation, before multiplication
            by W_r (section 3.3.2). Adding it after the group mean gives the same result.

        Returns
        -------
        Shape (n, dim_out).
        """
        out = torch.addmm(self.bias, x, self.root).to(x.dtype)  # under autocast, sums keep their precision
        if not len(groups.target):
            return out
        means = x.new_zeros(len(groups.target), x.shape[1]).index_add(0, groups.group, x.index_select(0, groups.source))
        means = means / groups.count[:, None]
        if edge_vectors is not None:
            means = means + edge_vectors.index_select(0, groups.relation)
        chunks = x.device.type != "cpu" if self.chunks is None else self.chunks
        products = (chunked if chunks else blocked)(means, self.comp, self.weight, groups)
        return out.index_add(0, groups.target, products.to(out.dtype))

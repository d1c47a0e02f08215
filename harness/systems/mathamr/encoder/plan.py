"""Plans: the edges of a batch grouped by relation and target node, and the layouts in which groups are multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
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
        """Returns the sums, shape (number, columns); those after the last sum of the bag are zero.

        Raises
        ------
        ValueError
            The bag has more sums.
        """
        if len(self.begins) > number + 1:
            raise ValueError(f"{len(self.begins) - 1} sums, expected at most {number}")
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


def plan_edges(source: Tensor, relation: Tensor, target: Tensor, relations: int) -> EdgePlan:
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
    return EdgePlan(source[order], group, own, key % nodes, count, present, sizes)

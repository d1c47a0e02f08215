"""Batches the graphs of several posts as one disconnected graph of tensors (MathAMR+, 3.4.1) and augments it (3.4.4).

Batching adds the inverse of each edge. An edge and its inverse carry the same number, so they can be dropped together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.systems.mathamr.encoder.settings import GraphEncoderSettings
from harness.systems.mathamr.encoder.virtual import DOCUMENT, UNKNOWN_RELATION, EncodedGraph
from harness.systems.mathamr.encoder.vocabulary import MASK

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Batch of graphs. Numbers are int64 and flags bool; n nodes, e edges, g graphs, at most k vectors per graph.

    Attributes
    ----------
    nodes : shape (n,). Types of nodes; those of virtual nodes are the vocabulary's size + index into TYPES.
    content : shape (n,). True for content nodes, false for virtual ones.
    graph : shape (n,). The graph of each node.
    source, relation, target : shape (e,). Directed edges, inverse ones among them. With F forward relations the
        inverse of r is r + F; an unknown relation is 2F, its inverse 2F + 1.
    fixed : shape (e,). Edges that touch a virtual node: they are never dropped.
    pair : shape (e,). An edge and its inverse have one number, below e.
    vectors : shape (g, k). Nodes whose encodings are a graph's vectors, padded with 0.
    mask : shape (g, k). False for padding.
    types : shape (g, k). Index into TYPES; -1 for padding.
    document : shape (g,). Column of the document's vector, -1 if the graph has none.
    """

    nodes: Tensor
    content: Tensor
    graph: Tensor
    source: Tensor
    relation: Tensor
    target: Tensor
    fixed: Tensor
    pair: Tensor
    vectors: Tensor
    mask: Tensor
    types: Tensor
    document: Tensor

    @property
    def graphs(self) -> int:
        """Number of graphs."""
        return len(self.vectors)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """Returns the same batch on a device."""
        moved = {f.name: getattr(self, f.name).to(device, non_blocking=non_blocking) for f in fields(self)}
        return Batch(**moved)


def collate(items: Sequence[EncodedGraph], settings: GraphEncoderSettings) -> Batch:
    """Returns some posts, at least one, as one batch with inverse edges."""
    import torch

    sizes = np.array([len(item.nodes) for item in items])
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    nodes = _concatenated([item.nodes for item in items])
    inside = np.arange(len(nodes)) - np.repeat(offsets, sizes)
    content = inside < np.repeat([item.content for item in items], sizes)
    shift = np.repeat(offsets, [len(item.source) for item in items])
    source, target = (_concatenated([getattr(item, end) for item in items]) + shift for end in ("source", "target"))
    relation = _concatenated([item.relation for item in items])
    forward, unknown = settings.relations, relation == UNKNOWN_RELATION
    if settings.reserved:
        relation = np.where(unknown, 2 * forward, relation)
    else:
        source, relation, target = source[~unknown], relation[~unknown], target[~unknown]
    back = np.where(relation < 2 * forward, relation + forward, relation + 1)
    fixed = ~(content[source] & content[target])
    pair = np.arange(len(source))
    both = {"source": (source, target), "relation": (relation, back), "target": (target, source)}
    both |= {"fixed": (fixed, fixed), "pair": (pair, pair)}
    arrays = {name: np.concatenate(ends) for name, ends in both.items()}
    arrays |= {"nodes": nodes, "content": content, "graph": np.repeat(np.arange(len(items)), sizes)}
    arrays |= _vectors([item.vectors.astype(np.int64) + at for item, at in zip(items, offsets, strict=True)], items)
    return Batch(**{name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()})


def _concatenated(parts: Sequence[npt.NDArray[Any]]) -> Ints:
    return np.concatenate(parts).astype(np.int64)


def _vectors(nodes: Sequence[npt.NDArray[Any]], items: Sequence[EncodedGraph]) -> dict[str, npt.NDArray[Any]]:
    """Returns the padded arrays of `Batch`; `nodes` holds the vector nodes, numbered within the batch."""
    lengths = np.array([len(item.vectors) for item in items])
    mask = np.arange(max(int(lengths.max()), 1)) < lengths[:, None]
    vectors = np.zeros(mask.shape, np.int64)
    types = np.full(mask.shape, -1)
    vectors[mask] = _concatenated(nodes)
    types[mask] = _concatenated([item.types for item in items])
    last = types[np.arange(len(items)), np.maximum(lengths - 1, 0)]
    return {"vectors": vectors, "mask": mask, "types": types, "document": np.where(last == DOCUMENT, lengths - 1, -1)}


def augment(
    batch: Batch, mask_probability: float, edge_dropout: float, generator: torch.Generator, together: bool = False
) -> Batch:
    """Masks content nodes and drops edges between them at random (MathAMR+, 3.4.4); virtual nodes are unchanged.

    Parameters
    ----------
    mask_probability : probability that a content node is replaced by MASK.
    edge_dropout : probability that a directed edge between content nodes is dropped.
    generator : source of the random numbers; the same state gives the same batch on any device.
    together : drop an edge and its inverse together, instead of each on its own.
    """
    import torch

    def drawn(number: int) -> Tensor:
        return torch.rand(number, generator=generator, device=generator.device).to(batch.nodes.device)

    masked = batch.content & (drawn(len(batch.nodes)) < mask_probability)
    number = len(batch.source)
    chance = drawn(number)[batch.pair] if together else drawn(number)
    kept = (batch.fixed | (chance >= edge_dropout)).nonzero()[:, 0]
    return replace(
        batch,
        nodes=batch.nodes.masked_fill(masked, MASK),
        **{
            name: getattr(batch, name).index_select(0, kept)
            for name in ("source", "relation", "target", "fixed", "pair")
        },
    )

"""The encoder of MathAMR+ (section 3.3): node embedding, relational convolutions, projection of the vectors.

A layer adds GELU(RGCN(LayerNorm(h))) to h (equation 3.1); the head is LayerNorm(W_2 GELU(LayerNorm(W_1 h + b_1)) + b_2)
(equation 3.3), and its vectors are made of length 1. Virtual nodes begin in one of six ways (section 4.3.4):

zero
    zeros.
zero-embedding, random-embedding
    a learned vector a type of virtual node, at first zero or Xavier-uniform.
mean
    the mean embedding of the content nodes that the virtual node is joined to; for a document, of all content nodes of
    its graph (it is joined to the other virtual nodes, which have no value yet).
mean-projection, mean-typed-projection
    the same through a learned linear map, one in all or one a type.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.systems.mathamr.encoder.batch import Batch
from harness.systems.mathamr.encoder.convolution import Plan, RelationalConv, plan
from harness.systems.mathamr.encoder.settings import INITS, LEAST_TEMPERATURE, MOST_TEMPERATURE, Settings
from harness.systems.mathamr.encoder.virtual import DOCUMENT, TYPES

__all__ = ["INITS", "Encoder", "Layer", "Settings", "Virtual", "groups_of"]


def groups_of(batch: Batch, settings: Settings) -> Plan:
    """Returns the plan of a batch's edges, made once and shared by all layers."""
    return plan(batch.source, batch.relation, batch.target, settings.directed)


class Virtual(nn.Module):
    """Initial vectors of virtual nodes; `Settings.init` says how."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        dim = settings.dim
        self.init = settings.init
        self.nodes = settings.nodes
        self.relations = settings.relations
        if self.init.endswith("embedding"):
            self.vectors = nn.Parameter(torch.zeros(len(TYPES), dim))
            if self.init == "random-embedding":
                nn.init.xavier_uniform_(self.vectors)
        if self.init.endswith("projection"):
            maps = len(TYPES) if self.init == "mean-typed-projection" else 1
            self.maps = nn.ModuleList([nn.Linear(dim, dim) for _ in range(maps)])

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """`x` (n, d) with the embedding of the content nodes -> (n, d) with the virtual nodes' vectors as well."""
        virtual = (~batch.content).nonzero()[:, 0]
        types = batch.nodes[virtual] - self.nodes
        if self.init.endswith("embedding"):
            values = self.vectors[types]
        elif self.init == "zero":
            values = x.new_zeros(len(virtual), x.shape[1])
        else:
            values = self._mean(x, batch)[virtual]
        if self.init == "mean-projection":
            values = self.maps[0](values)
        elif self.init == "mean-typed-projection":
            mapped = torch.stack([each(values) for each in self.maps])
            values = mapped[types, torch.arange(len(types), device=types.device)]
        return x.index_copy(0, virtual, values.to(x.dtype))

    def _mean(self, x: Tensor, batch: Batch) -> Tensor:
        """Returns the mean of the content that each virtual node stands for, shape (n, d); zero where there is none."""
        document = batch.nodes == self.nodes + DOCUMENT
        # Content is under its graph's document, and under what it is joined to by a forward edge.
        owner = torch.full((batch.graphs,), -1, device=x.device)
        owner[batch.graph[document]] = document.nonzero()[:, 0]
        content = batch.content.nonzero()[:, 0]
        above = owner[batch.graph[content]]
        joined = batch.fixed & (batch.relation < self.relations) & ~batch.content[batch.source]
        joined &= batch.content[batch.target] & ~document[batch.source]
        member = torch.cat((content[above >= 0], batch.target[joined]))
        above = torch.cat((above[above >= 0], batch.source[joined]))
        number = torch.bincount(above, minlength=len(x)).clamp(min=1)
        return torch.zeros_like(x).index_add(0, above, x.index_select(0, member)) / number[:, None]


class Layer(nn.Module):
    """One layer (equation 3.1)."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(settings.dim)
        self.conv = RelationalConv(settings.dim, settings.dim, settings.directed, settings.bases)

    def forward(self, h: Tensor, groups: Plan, edge_vectors: Tensor | None) -> Tensor:
        """Returns `h` (n, d) -> (n, d)."""
        return h + functional.gelu(self.conv(self.norm(h), groups, edge_vectors))


class Encoder(nn.Module):
    """Posts to vectors. The global random state gives the initial parameters.

    Attributes
    ----------
    settings : what the parameters' shapes follow from.
    embedding : types of content nodes, Xavier-uniform.
    edge_vectors : shape (R, d), or None. Section 3.3.2 speaks of one table beside the layers' matrices, which each
        layer receives, so the layers share it.
    t : logarithm of the temperature.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        dim = settings.dim
        self.embedding = nn.Embedding(settings.nodes, dim)
        nn.init.xavier_uniform_(self.embedding.weight)
        self.virtual = Virtual(settings)
        self.edge_vectors = nn.Parameter(torch.empty(settings.directed, dim)) if settings.edge_vectors else None
        if self.edge_vectors is not None:
            nn.init.xavier_uniform_(self.edge_vectors)
        self.layers = nn.ModuleList([Layer(settings) for _ in range(settings.layers)])
        self.head = nn.Sequential(
            nn.Linear(dim, dim),
            nn.LayerNorm(dim),
            nn.GELU(),
            nn.Linear(dim, settings.out),
            nn.LayerNorm(settings.out),
        )
        self.t = nn.Parameter(torch.tensor(math.log(settings.temperature)))

    def forward(self, batch: Batch, groups: Plan | None = None) -> Tensor:
        """Encodes a batch.

        Parameters
        ----------
        groups : the batch's plan if it was made before (`groups_of`).

        Returns
        -------
        Shape (g, k, p): vectors of length 1; rows of padding are zero.
        """
        groups = groups_of(batch, self.settings) if groups is None else groups
        h = self.virtual(self.embedding(batch.nodes.masked_fill(~batch.content, 0)), batch)
        for layer in self.layers:
            h = layer(h, groups, self.edge_vectors)
        z = functional.normalize(self.head(h[batch.vectors[batch.mask]]).float(), dim=-1)
        return z.new_zeros(*batch.mask.shape, z.shape[1]).masked_scatter(batch.mask[:, :, None], z)

    def temperature(self) -> Tensor:
        """exp(t), a scalar. t is put back into its range first, so that it never stays where no gradient moves it."""
        with torch.no_grad():
            self.t.clamp_(math.log(LEAST_TEMPERATURE), math.log(MOST_TEMPERATURE))
        return self.t.exp()

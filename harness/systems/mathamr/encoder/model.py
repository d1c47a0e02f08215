"""The encoder of MathAMR+ (section 3.3): node embeddings, relational convolutions, projection of the vectors.

A layer adds GELU(RGCN(LayerNorm(h))) to h (equation 3.1); the head is LayerNorm(W_2 GELU(LayerNorm(W_1 h + b_1)) + b_2)
(equation 3.3), and its output is normalised to unit length. Virtual nodes are initialised in one of six ways (section
4.3.4):

zero
    with zeros.
zero-embedding, random-embedding
    with one learned vector per type of virtual node, initially zero or Xavier-uniform.
mean
    with the mean embedding of the content nodes joined to the virtual node. A document node uses all content nodes of
    its graph, because it is joined to other virtual nodes, which have no value yet.
mean-projection, mean-typed-projection
    with the same mean, passed through one learned linear map, or one map per type.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.systems.mathamr.encoder.batch import Batch
from harness.systems.mathamr.encoder.convolution import EdgePlan, RelationalConv, convolution, plan_edges
from harness.systems.mathamr.encoder.settings import INITS, LEAST_TEMPERATURE, MOST_TEMPERATURE, GraphEncoderSettings
from harness.systems.mathamr.encoder.virtual import DOCUMENT, TYPES

__all__ = ["INITS", "GraphEncoder", "GraphEncoderSettings", "Layer", "Virtual", "edge_plan"]


def edge_plan(batch: Batch) -> EdgePlan:
    """Returns the plan of a batch's edges, which all layers share."""
    return plan_edges(batch.source, batch.relation, batch.target)


class Virtual(nn.Module):
    """Initial vectors of virtual nodes, by the method of `GraphEncoderSettings.init`."""

    def __init__(self, settings: GraphEncoderSettings) -> None:
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
        """Fills in the vectors of the virtual nodes; `x` (n, d) holds the embeddings of the content nodes."""
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
        """Returns the mean content vector under each virtual node, shape (n, d); zero for nodes without content."""
        document = batch.nodes == self.nodes + DOCUMENT
        # A content node is under its graph's document node and under each virtual node with a forward edge to it.
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


def _make_convolution(settings: GraphEncoderSettings) -> nn.Module:
    shape = (settings.dim, settings.dim, settings.directed, settings.bases)
    return RelationalConv(*shape) if settings.convolution == "own" else convolution(*shape)


class Layer(nn.Module):
    """Residual convolution layer (equation 3.1)."""

    def __init__(self, settings: GraphEncoderSettings) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(settings.dim)
        self.conv = _make_convolution(settings)

    def forward(self, h: Tensor, groups: EdgePlan, edge_vectors: Tensor | None) -> Tensor:
        """Applies the layer to node vectors `h`, shape (n, d); returns those of the nodes of the plan."""
        own = h if groups.nodes is None else h.index_select(0, groups.nodes)
        return own + functional.gelu(self.conv(self.norm(h), groups, edge_vectors))


class GraphEncoder(nn.Module):
    """Encoder of posts. Initial parameters are drawn from torch's global random state.

    Attributes
    ----------
    settings : hyperparameters, which determine the shapes of the parameters.
    embedding : embeddings of the types of content nodes, Xavier-uniform at first.
    edge_vectors : shape (R, d), or None. Section 3.3.2 describes a single table that each layer receives, so the
        layers share it.
    t : logarithm of the temperature.
    """

    def __init__(self, settings: GraphEncoderSettings) -> None:
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
            nn.Linear(dim, dim), nn.LayerNorm(dim), nn.GELU(), nn.Linear(dim, settings.out), nn.LayerNorm(settings.out)
        )
        self.t = nn.Parameter(torch.tensor(math.log(settings.temperature)))

    def forward(self, batch: Batch, groups: EdgePlan | None = None) -> Tensor:
        """Encodes a batch.

        Parameters
        ----------
        groups : the batch's plan from `edge_plan`; None computes it.

        Returns
        -------
        Shape (g, k, p): unit vectors; padding rows are zero.
        """
        groups = edge_plan(batch) if groups is None else groups
        h = self.virtual(self.embedding(batch.nodes.masked_fill(~batch.content, 0)), batch)
        for layer in self.layers[:-1]:
            h = layer(h, groups, self.edge_vectors)
        # The last layer is computed only for the nodes whose vectors are used.
        used, place = torch.unique(batch.vectors[batch.mask], return_inverse=True)
        h = self.layers[-1](h, groups.towards(used, len(h)), self.edge_vectors)
        z = functional.normalize(self.head(h.index_select(0, place)).float(), dim=-1)
        return z.new_zeros(*batch.mask.shape, z.shape[1]).masked_scatter(batch.mask[:, :, None], z)

    def temperature(self) -> Tensor:
        """Returns exp(t), a scalar. Clamps t in place first, so that it never stays where its gradient vanishes."""
        with torch.no_grad():
            self.t.clamp_(math.log(LEAST_TEMPERATURE), math.log(MOST_TEMPERATURE))
        return self.t.exp()

"""The relational convolution by PyTorch Geometric's FastRGCNConv, with the parameters and arguments of ours.

It computes the same as `convolution.RelationalConv`, with one product for each edge: slower, but a place to begin for
encoders of other layers of that library. Parameters have the same names, shapes and initial values, so that weights can
be exchanged.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from harness.systems.mathamr.encoder.plan import EdgePlan

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

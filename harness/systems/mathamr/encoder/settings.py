"""Hyperparameters of the encoder, without heavy imports."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Annotated

from harness.errors import HarnessError
from harness.io import checks

INITS = ("zero", "zero-embedding", "random-embedding", "mean", "mean-projection", "mean-typed-projection")
CONVOLUTIONS = ("own", "pyg")
LEAST_TEMPERATURE, MOST_TEMPERATURE = 0.01, 100.0


@dataclass(frozen=True)
class GraphEncoderSettings(checks.Checked):
    """Hyperparameters of an encoder; defaults are those of the thesis' experiments (table 4.5).

    Attributes
    ----------
    nodes : types of content nodes in the vocabulary, including the special ones.
    relations : forward relations F, including the four virtual ones; each has an inverse.
    reserved : a pair of relations on top of 2F for relations not seen in training. Its own weights stay at their
        initial values (the bases are shared and trained). Without it, edges of unknown relations are excluded.
    dim : width of the layers.
    out : width of the vectors.
    layers, bases : number of relational convolutions, and of basis matrices in each.
    init : initial vectors of virtual nodes, one of INITS (table 4.13).
    edge_vectors : learned vectors of the relations, shared by all layers (section 3.3.2).
    temperature : temperature of the untrained model.
    normalise : divide MaxSim by the number of query vectors (equation 3.7).
    convolution : code of the relational convolutions: `own`, or `pyg` (PyTorch Geometric's FastRGCNConv). Values and
        gradients are equal up to rounding, and so are names, shapes and initial values of the weights.

    Raises
    ------
    HarnessError
        A value is out of range.
    """

    nodes: checks.Positive = 20_000
    relations: checks.Positive = 266
    reserved: bool = True
    dim: checks.Positive = 64
    out: checks.Positive = 32
    layers: checks.Positive = 4
    bases: checks.Positive = 64
    init: Annotated[str, partial(checks.choice, known=INITS)] = "zero-embedding"
    edge_vectors: bool = False
    temperature: Annotated[float, partial(checks.check_number, low=LEAST_TEMPERATURE, high=MOST_TEMPERATURE)] = 0.05
    normalise: bool = True
    convolution: str = "own"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("model.convolution", self.convolution, CONVOLUTIONS)

    @property
    def directed(self) -> int:
        """R, the number of directed relations: forward relations, their inverses, and the reserved pair if any."""
        return 2 * (self.relations + self.reserved)


def check_package(settings: GraphEncoderSettings) -> None:
    """Raises HarnessError if the package of the convolution is not installed."""
    if settings.convolution == "pyg" and importlib.util.find_spec("torch_geometric") is None:
        raise HarnessError(
            "torch-geometric is not installed: pip install 'mathir-harness[pyg]', or say convolution=own"
        )


def package_version(settings: GraphEncoderSettings) -> dict[str, str]:
    """Returns the version of the package of the convolution; empty for our own code."""
    return {} if settings.convolution == "own" else {"torch-geometric": metadata.version("torch-geometric")}

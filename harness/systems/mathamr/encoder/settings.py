"""What makes a model: everything that its parameters' shapes and values follow from. Free of heavy libraries."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import HarnessError
from harness.io import checks

INITS = ("zero", "zero-embedding", "random-embedding", "mean", "mean-projection", "mean-typed-projection")
LEAST_TEMPERATURE, MOST_TEMPERATURE = 0.01, 100.0


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of an encoder; the defaults are those of the thesis' experiments (table 4.5).

    Attributes
    ----------
    nodes : types of content nodes in the vocabulary, the special ones among them.
    relations : forward relations F, the four virtual ones among them; each has an inverse.
    reserved : a pair of relations on top of 2F for those that were not seen in training, whose weights therefore are
        those it began with (but for the bases, which all share); without it, edges of unknown relations are left out.
    dim : width of the layers.
    out : width of the vectors.
    layers, bases : relational convolutions, and basis matrices of each.
    init : initial vectors of virtual nodes, one of INITS (table 4.13).
    edge_vectors : learned vectors of the relations, shared by all layers (section 3.3.2).
    temperature : of the untrained model.
    normalise : divide MaxSim by the number of query vectors (equation 3.7).

    Raises
    ------
    HarnessError
        A value is out of range.
    """

    nodes: int = 20_000
    relations: int = 266
    reserved: bool = True
    dim: int = 64
    out: int = 32
    layers: int = 4
    bases: int = 64
    init: str = "zero-embedding"
    edge_vectors: bool = False
    temperature: float = 0.05
    normalise: bool = True

    def __post_init__(self) -> None:
        for name in ("nodes", "relations", "dim", "out", "layers", "bases"):
            checks.whole(name, getattr(self, name), low=1)
        for name in ("reserved", "edge_vectors", "normalise"):
            if not isinstance(getattr(self, name), bool):
                raise HarnessError(f"key {name!r} is {getattr(self, name)!r}, expected true or false")
        checks.choice("init", self.init, INITS)
        checks.number("temperature", self.temperature, low=LEAST_TEMPERATURE, high=MOST_TEMPERATURE)

    @property
    def directed(self) -> int:
        """R: the forward relations, their inverses, and the reserved pair if there is one."""
        return 2 * (self.relations + self.reserved)

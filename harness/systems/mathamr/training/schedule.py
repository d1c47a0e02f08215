"""Training schedule; without heavy imports, so that configurations are validated quickly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from harness.errors import HarnessError
from harness.io import checks


@dataclass(frozen=True)
class Schedule(checks.Checked):
    """Training schedule; the defaults are those of the thesis' experiments (table 4.5).

    Attributes
    ----------
    seed : of all that is random in a training.
    batch : pairs per step.
    epochs : maximum number of passes over the pairs.
    rate, least_rate : initial and final learning rate, with half-cosine decay over all steps.
    weight_decay : of AdamW; scalars, biases and LayerNorm have none.
    clip : maximum norm of the gradient.
    patience : epochs without a lower validation loss before training stops.
    validation : share of the questions that is held out.
    node_mask, edge_dropout : probabilities (section 3.4.4).
    together : drop an edge and its inverse together instead of independently.
    beta : weight of the MaxSim loss; 1 - beta is the weight of the document-vector loss (equation 4.2).
    autocast : compute in bfloat16 where torch allows it.
    every : steps between two checkpoints.
    hard : hard negatives per pair, from BM25 for its query, in addition to in-batch negatives.
    formulas : weight of the contrastive loss between query formulas and equal document formulas; the remaining weight
        is that of the post loss.
    distil : weight of the divergence from the similarities of a teacher (key `teacher` of the system); the remaining
        weight is that of the post loss.
    """

    seed: checks.Natural = 42
    batch: Annotated[int, partial(checks.check_whole_number, low=2)] = 32
    epochs: checks.Positive = 7
    rate: checks.Number = 1e-4
    least_rate: checks.Number = 1e-5
    weight_decay: checks.Number = 1e-3
    clip: checks.Number = 1.0
    patience: checks.Positive = 3
    validation: checks.Share = 0.1
    node_mask: checks.Share = 0.1
    edge_dropout: checks.Share = 0.1
    together: bool = False
    beta: checks.Share = 1.0
    autocast: bool = False
    every: checks.Positive = 50
    hard: checks.Natural = 0
    formulas: checks.Share = 0.0
    distil: checks.Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed >= 1 << 64:  # limit of torch's seed
            raise HarnessError(f"key 'seed' is {self.seed}, expected a whole number from 0 to {(1 << 64) - 1}")
        if self.least_rate > self.rate:
            raise HarnessError(f"key 'least_rate' is {self.least_rate:g}, and 'rate', which falls to it, {self.rate:g}")
        if self.formulas + self.distil >= 1:
            both = f"{self.formulas:g} and {self.distil:g}"
            raise HarnessError(f"keys 'formulas' and 'distil' are {both}, which leaves no weight to the loss of posts")

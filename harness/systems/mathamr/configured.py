"""Validated configuration of MathAMR+: the keys of the model and of the search, and notes on differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from harness.collections.corpora import load_corpus
from harness.errors import HarnessError
from harness.io import checks, config
from harness.systems.dense import search
from harness.systems.mathamr.graphs import data
from harness.systems.mathamr.model import ModelRecipe

PRECISIONS = (*search.SEARCHES, "qdrant")
# Differences from the thesis in every configuration.
DIFFERENCES = (
    "Trees of formulas are read from LaTeX by our parsers; the thesis had them from MathML by Tangent-S.",
    "The learned temperature stays between 0.01 and 100; the thesis sets it no bounds.",
    "In a batch, other answers of a question and equal posts are not negatives; the thesis does not mention them.",
)


@dataclass(frozen=True)
class Configured(ModelRecipe):
    """Configuration keys of MathAMR+: those of `ModelRecipe`, and those of the vector search.

    Parameters
    ----------
    task : `posts`: rank the documents of the corpus. `formulas`: rank a corpus of formulas, using the posts of the
        corpus `posts` that contain them (its questions are in the column given by `pairs`), and the questions of the
        corpus `unanswered`.
    strategy, candidates, ef : see `harness.systems.dense.search.search_vectors`, where `candidates` is called `depth`.
    precision : `exact`; `approximate`: with a FAISS index; `qdrant`: approximate, by the Qdrant server whose
        address is in the variable `HARNESS_QDRANT`.
    maxsim : library that computes MaxSim over all documents, `numpy`, or `torch` on the `device`; the run is the same.
    pictured : topic -> document; the similarities of their vectors are recorded in the run's metadata file.
    together : topics searched in one batch; the latency of each is an equal share of the batch's time.
    """

    task: str = "posts"
    posts: str = ""
    unanswered: str | None = None
    strategy: Annotated[str, partial(checks.choice, known=search.STRATEGIES)] = "colbert"
    precision: Annotated[str, partial(checks.choice, known=PRECISIONS)] = "exact"
    candidates: checks.Positive | None = None
    ef: checks.Positive | None = None
    depth: checks.Positive = 1000
    together: checks.Positive = 32
    maxsim: Literal["numpy", "torch"] = "numpy"
    pictured: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        data.check_task(self.task, self.posts, self.formulas)
        self._check_vectors()
        pictured = {} if self.pictured is None else self.pictured
        if not isinstance(pictured, Mapping) or not all(isinstance(name, str) for name in pictured.values()):
            raise HarnessError(f"key 'pictured' is {self.pictured!r}, expected topics with documents in quotes")
        if self.unanswered is not None:
            config.load("corpus", self.unanswered, "key 'unanswered'")

    def _check_vectors(self) -> None:
        """Raises HarnessError if the keys require vectors that no graph will have."""
        if self.task == "posts" and self.structure == "none" and self.strategy != "colbert":
            raise HarnessError(
                f"key 'strategy' is {self.strategy!r}, which needs a vector of the whole post, and structure 'none' "
                "has none; take colbert, or another structure"
            )

    def notes(self) -> tuple[str, ...]:
        """Returns caveats for readers of the scores: the kind of graphs, and the training data."""
        said = []
        if self.parser == "dependency":
            said.append("Graphs are of a dependency parser, not of AMR.")
        if self.parser.partition(":")[0] == "penman-file":
            said.append("Graphs of topics are of AMR, those of documents of a dependency parser: few words are common.")
        said += DIFFERENCES
        if self.training is None:
            return (*said, "The model is untrained.")
        said.append(
            f"Trained on the pairs of {', '.join(self.sources)}; left out were posts that "
            f"{', '.join(self.leave_out) or 'no collection'} judges."
        )
        if self.sample is not None:
            said.append(f"A sample of {self.sample:,} pairs (seed {self.sample_seed}), held-out ones among them.")
        unsaid = [name for name in self.sources if not data.says_accepted(load_corpus(name))]
        if unsaid:
            said.append(f"{', '.join(unsaid)}: which answer was accepted is not known, so every answer counts as one.")
        return tuple(said)

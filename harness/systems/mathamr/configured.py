"""What a configuration of MathAMR+ says, checked: the keys of the model and those of the search, and its notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.collections.corpora import load_corpus
from harness.errors import HarnessError
from harness.io import checks, config
from harness.systems.dense import search
from harness.systems.mathamr.graphs import data
from harness.systems.mathamr.model import Recipe

PRECISIONS = (*search.SEARCHES, "qdrant")
# What stays different from the thesis in all configurations.
DIFFERENCES = (
    "Trees of formulas are read from LaTeX by our parsers; the thesis had them from MathML by Tangent-S.",
    "The learned temperature stays between 0.01 and 100; the thesis sets it no bounds.",
    "In a batch, other answers of a question and equal posts are no negatives; the thesis does not speak of them.",
)


@dataclass(frozen=True)
class Configured(Recipe):
    """The keys of a configuration: those of `Recipe`, and how the vectors are searched.

    Parameters
    ----------
    task : `posts`: rank the documents of the corpus. `formulas`: rank the formulas that it consists of, by the posts of
        the corpus `posts`, which has them with their text, and its questions in the column that `pairs` says; and by
        the posts of the corpus `unanswered`, which are questions.
    strategy, candidates, ef : see `harness.systems.dense.search.search`, where `candidates` is called `depth`.
    precision : `exact`; `approximate`: over an index by FAISS; `qdrant`: by Qdrant's embedded client, which looks at
        every vector.
    maxsim : what computes MaxSim of all documents, `numpy`, or `torch` on the `device`; it does not change the run.
    pictured : topic -> document, of whose vectors the similarities are noted in the run's side file.
    together : topics that are searched at one time; each has an equal share of its time as latency.
    """

    task: str = "posts"
    posts: str = ""
    unanswered: str | None = None
    strategy: str = "colbert"
    precision: str = "exact"
    candidates: int | None = None
    ef: int | None = None
    depth: int = 1000
    together: int = 32
    maxsim: str = "numpy"
    pictured: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        data.check_task(self.task, self.posts, self.formulas)
        checks.choice("strategy", self.strategy, search.STRATEGIES)
        checks.choice("precision", self.precision, PRECISIONS)
        checks.choice("maxsim", self.maxsim, ("numpy", "torch"))
        for key in ("candidates", "ef", "depth", "together"):
            if key not in ("candidates", "ef") or getattr(self, key) is not None:
                checks.whole(key, getattr(self, key), low=1)
        self._check_vectors()
        pictured = {} if self.pictured is None else self.pictured
        if not isinstance(pictured, Mapping) or not all(isinstance(name, str) for name in pictured.values()):
            raise HarnessError(f"key 'pictured' is {self.pictured!r}, expected topics with documents in quotes")
        if self.unanswered is not None:
            config.load("corpus", self.unanswered, "key 'unanswered'")

    def _check_vectors(self) -> None:
        """Raises HarnessError if the keys ask for vectors that no graph will have."""
        if self.task == "posts" and self.structure == "none" and self.strategy != "colbert":
            raise HarnessError(
                f"key 'strategy' is {self.strategy!r}, which needs a vector of the whole post, and structure 'none' "
                "has none; take colbert, or another structure"
            )

    def notes(self) -> tuple[str, ...]:
        """Returns what a reader of its numbers must know: which graphs they are, and what was trained on."""
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

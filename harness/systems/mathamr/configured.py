"""What a configuration of MathAMR+ says, checked: its keys, settings and schedule, and what is to be known of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from harness.collections.corpora import load_corpus
from harness.collections.judged import Judged, judged
from harness.errors import HarnessError, suggestion
from harness.io import checks, config
from harness.systems import hardware
from harness.systems.dense import search
from harness.systems.mathamr.encoder.settings import Settings
from harness.systems.mathamr.encoder.virtual import AUXILIARY, STRUCTURES, check_options
from harness.systems.mathamr.encoder.vocabulary import LEAST_NUMBER, SIZE, VIRTUAL
from harness.systems.mathamr.graphs import data
from harness.systems.mathamr.graphs.graph import MODES
from harness.systems.mathamr.training.schedule import Schedule

PRECISIONS = (*search.SEARCHES, "qdrant")
# What stays different from the thesis in all configurations.
DIFFERENCES = (
    "Trees of formulas are read from LaTeX by our parsers; the thesis had them from MathML by Tangent-S.",
    "The learned temperature stays between 0.01 and 100; the thesis sets it no bounds.",
    "In a batch, other answers of a question and equal posts are no negatives; the thesis does not speak of them.",
)


@dataclass(frozen=True)
class Configured:
    """The keys of a configuration.

    Parameters
    ----------
    name : of the run.
    pairs : corpora of answers to train on -> the column that holds the question; null takes a corpus out again.
    leave_out : collections whose judged posts are not trained on; the collection that is run must be among them.
    sample, sample_seed : how many of the pairs are drawn to train on, held-out ones among them, and by what; null: all.
    parser : of sentences: `dependency`, `transition-amr` or `amrlib`, the latter two with `:MODEL`, or `penman-file`:
        see `parsers.load`.
    disconnected : `fail`: a graph that is not connected is a failure, as in the thesis. `keep`: it is kept.
    formulas, structure, auxiliary : what graphs are made of: see `graph.MODES`, `virtual.STRUCTURES`, `.AUXILIARY`.
    vocabulary : node types, the special ones among them; a number needs `least_number` occurrences for one of its own.
    model : hyperparameters: see `settings.Settings`. `relations`: those that the model has weights for, also if fewer
        are seen; rarer ones are unknown. Null: as many as are seen.
    tokens : a sentence encoder by whose embeddings of word pieces those of nodes begin; null: at random.
    teacher : a sentence encoder whose similarities `training.distil` learns.
    training : see `training.Schedule`; null takes the untrained model.
    task : `posts`: rank the documents of the corpus. `formulas`: rank the formulas that it consists of, by the posts of
        the corpus `posts`, which has them with their text, and its questions in the column that `pairs` says; and by
        the posts of the corpus `unanswered`, which are questions.
    strategy, candidates, ef : see `harness.systems.dense.search.search`, where `candidates` is called `depth`.
    precision : `exact`; `approximate`: over an index by FAISS; `qdrant`: by Qdrant's embedded client, which looks at
        every vector.
    pictured : topic -> document, of whose vectors the similarities are noted in the run's side file.
    together : topics that are searched at one time; each has an equal share of its time as latency.
    device : `auto` takes a GPU if there is one.
    workers : processes that make graphs; 0: as many as there are cores.
    """

    name: str
    pairs: Mapping[str, str | None]
    leave_out: Sequence[str]
    sample: int | None = None
    sample_seed: int = 42
    parser: str = "dependency"
    disconnected: str = "fail"
    formulas: str = "both"
    structure: str = "hierarchy"
    auxiliary: str = "none"
    vocabulary: int = SIZE
    least_number: int = LEAST_NUMBER
    model: Mapping[str, Any] = field(default_factory=dict)
    tokens: str | None = None
    teacher: str | None = None
    training: Mapping[str, Any] | None = field(default_factory=dict)
    task: str = "posts"
    posts: str = ""
    unanswered: str | None = None
    strategy: str = "colbert"
    precision: str = "exact"
    candidates: int | None = None
    ef: int | None = None
    depth: int = 1000
    together: int = 32
    pictured: Mapping[str, str] | None = None
    device: str = "auto"
    workers: int = 1

    def __post_init__(self) -> None:
        checks.choice("formulas", self.formulas, MODES)
        checks.choice("structure", self.structure, STRUCTURES)
        checks.choice("auxiliary", self.auxiliary, AUXILIARY)
        data.check_task(self.task, self.posts, self.formulas)
        checks.choice("strategy", self.strategy, search.STRATEGIES)
        checks.choice("precision", self.precision, PRECISIONS)
        checks.choice("device", self.device, hardware.DEVICES)
        checks.choice("disconnected", self.disconnected, ("fail", "keep"))
        for key in ("candidates", "ef", "depth", "least_number", "vocabulary", "sample", "together"):
            if key not in ("candidates", "ef", "sample") or getattr(self, key) is not None:
                checks.whole(key, getattr(self, key), low=1)
        checks.whole("sample_seed", self.sample_seed)
        checks.whole("workers", self.workers)
        check_options(self.structure, self.auxiliary)
        self._check_vectors()
        self._check_names()
        self._settings(self.vocabulary)
        self._check_training()

    def _check_training(self) -> None:
        """Raise HarnessError if the training asks for what the graphs, or the other keys, do not have."""
        schedule = self._schedule()
        beta = schedule.beta
        if schedule.formulas and (self.structure != "hierarchy" or self.formulas == "none"):
            raise HarnessError(
                f"key 'training.formulas' is {schedule.formulas:g}, which needs vectors of formulas; take structure "
                "'hierarchy', and formulas both, opt or slt"
            )
        if bool(schedule.distil) != bool(self.teacher):
            raise HarnessError("keys 'teacher' and 'training.distil' need each other: give both, or neither")
        if self.structure == "none" and beta < 1:
            raise HarnessError(
                f"key 'training.beta' is {beta:g}, which trains a vector of the whole post, and structure 'none' has "
                "none; say 1, or take another structure"
            )

    def _check_vectors(self) -> None:
        """Raise HarnessError if the keys ask for vectors that no graph will have."""
        if self.task == "posts" and self.structure == "none" and self.strategy != "colbert":
            raise HarnessError(
                f"key 'strategy' is {self.strategy!r}, which needs a vector of the whole post, and structure 'none' "
                "has none; take colbert, or another structure"
            )

    def _check_names(self) -> None:
        """Raise HarnessError unless the corpora and collections that are named exist."""
        given = isinstance(self.pairs, Mapping) and all(isinstance(name, str | None) for name in self.pairs.values())
        if not given or not self._sources:
            raise HarnessError(f"key 'pairs' is {self.pairs!r}, expected corpora such as {{mse-pages: question}}")
        if not isinstance(self.leave_out, list | tuple):
            raise HarnessError(f"key 'leave_out' is {self.leave_out!r}, expected a list of collections")
        for name in self._sources:
            config.load("corpus", name, "key 'pairs'")
        for name in self.leave_out:
            config.load("collection", name, "key 'leave_out'")
        pictured = {} if self.pictured is None else self.pictured
        if not isinstance(pictured, Mapping) or not all(isinstance(name, str) for name in pictured.values()):
            raise HarnessError(f"key 'pictured' is {self.pictured!r}, expected topics with documents in quotes")
        if self.unanswered is not None:
            config.load("corpus", self.unanswered, "key 'unanswered'")

    def trains_without(self) -> frozenset[str]:
        """The collections whose judged posts it has not seen; what is run must be one of them."""
        return frozenset(self.leave_out)

    def notes(self) -> tuple[str, ...]:
        """What a reader of its numbers must know: which graphs they are, and what was trained on."""
        said = []
        if self.parser == "dependency":
            said.append("Graphs are of a dependency parser, not of AMR.")
        if self.parser.partition(":")[0] == "penman-file":
            said.append("Graphs of topics are of AMR, those of documents of a dependency parser: few words are common.")
        said += DIFFERENCES
        if self.training is None:
            return (*said, "The model is untrained.")
        said.append(
            f"Trained on the pairs of {', '.join(self._sources)}; left out were posts that "
            f"{', '.join(self.leave_out) or 'no collection'} judges."
        )
        if self.sample is not None:
            said.append(f"A sample of {self.sample:,} pairs (seed {self.sample_seed}), held-out ones among them.")
        unsaid = [name for name in self._sources if not data.says_accepted(load_corpus(name))]
        if unsaid:
            said.append(f"{', '.join(unsaid)}: which answer was accepted is not known, so every answer counts as one.")
        return tuple(said)

    def _settings(self, nodes: int, relations: int = 1) -> Settings:
        _known("model", self.model, {entry.name for entry in fields(Settings)} - {"nodes"})
        given = {key: value for key, value in self.model.items() if key != "relations" or value is not None}
        if "relations" in given:
            checks.whole("model.relations", given["relations"], low=len(VIRTUAL) + 1)
        return Settings(**{"nodes": nodes, "relations": relations, **given})

    def _schedule(self) -> Schedule:
        given = {} if self.training is None else self.training
        _known("training", given, {entry.name for entry in fields(Schedule)})
        return Schedule(**given)

    @cached_property
    def _sources(self) -> dict[str, str]:
        return {name: column for name, column in self.pairs.items() if column is not None}

    @cached_property
    def _judged(self) -> Judged:
        return judged(self.leave_out)


def _known(what: str, given: object, known: Iterable[str]) -> None:
    if not isinstance(given, Mapping):
        raise HarnessError(f"key {what!r} is {given!r}, expected keys and values")
    for key in given:
        if key not in known:
            raise HarnessError(f"key '{what}.{key}' is unknown; {suggestion(str(key), known)}")

"""Trains models of MathAMR+ from configuration keys, and keeps them in the store under these keys.

This module does not depend on search, so that a change of the search does not cause retraining.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from harness.collections.corpora import JudgedDocuments, judged, load_corpus
from harness.errors import HarnessError, suggestion
from harness.io import checks, config
from harness.io.console import log_line
from harness.io.files import write_atomic
from harness.store import artefacts, code, cost
from harness.store.cost import note
from harness.systems import hardware
from harness.systems.dense import encoder
from harness.systems.dense.engines import EncoderSettings as Plain
from harness.systems.mathamr.encoder.pack import Pack, encode_posts, write_pack
from harness.systems.mathamr.encoder.settings import GraphEncoderSettings, Schedule, check_package, package_version
from harness.systems.mathamr.encoder.virtual import AUXILIARY, STRUCTURES
from harness.systems.mathamr.encoder.vocabulary import LEAST_NUMBER, MOST_RELATIONS, SIZE, VIRTUAL, NodeVocabulary
from harness.systems.mathamr.graphs import data, parsers
from harness.systems.mathamr.graphs.data import PairGraphs
from harness.systems.mathamr.graphs.graph import MODES, restrict_graph

if TYPE_CHECKING:
    from harness.systems.mathamr.encoder.model import GraphEncoder
    from harness.systems.mathamr.training.trainer import QuestionAnswerPairs


@dataclass(frozen=True, eq=False)
class Trained:
    """A model with its vocabulary.

    Attributes
    ----------
    digest : hash of the training data and settings.
    log : one entry per epoch, starting with the untrained model; empty if the model was not trained.
    """

    vocabulary: NodeVocabulary
    model: GraphEncoder
    digest: str
    log: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class ModelRecipe(checks.Checked):
    """Settings and inputs that determine a model.

    Parameters
    ----------
    name : name of the run.
    pairs : corpora of answers to train on -> the column that holds the question; null removes a corpus.
    leave_out : collections whose judged posts are excluded from training; must include the collection that is run.
    sample, sample_seed : number of pairs to sample, held-out pairs included, and its seed; null: all pairs.
    parser : sentence parser: `dependency`, `transition-amr[:MODEL]`, `amrlib:MODEL` or `penman-file`: see
        `parsers.load`.
    disconnected : `fail`: a disconnected graph is a failure, as in the thesis. `keep`: it is kept.
    formulas, structure, auxiliary : parts of the graphs: see `graph.MODES`, `virtual.STRUCTURES`, `.AUXILIARY`.
    vocabulary : number of node types, including special ones; a number needs `least_number` occurrences for its own.
    model : hyperparameters: see `settings.Settings`. `relations`: number of relations with weights, even if fewer are
        seen; rarer ones are unknown. Null: as many as are seen.
    tokens : sentence encoder whose word-piece embeddings initialise the node embeddings; null: random initialisation.
    teacher : sentence encoder whose similarities are the target of `training.distil`.
    training : see `training.Schedule`; null uses the untrained model.
    device : `auto` uses a GPU if there is one.
    workers : processes that build graphs; 0: one per core.
    """

    name: str
    pairs: Mapping[str, str | None]
    leave_out: Sequence[str]
    sample: checks.Positive | None = None
    sample_seed: checks.Natural = 42
    parser: str = "dependency"
    disconnected: Literal["fail", "keep"] = "fail"
    formulas: Annotated[str, partial(checks.choice, known=MODES)] = "both"
    structure: Annotated[str, partial(checks.choice, known=STRUCTURES)] = "hierarchy"
    auxiliary: Annotated[str, partial(checks.choice, known=AUXILIARY)] = "none"
    vocabulary: checks.Positive = SIZE
    least_number: checks.Positive = LEAST_NUMBER
    model: Mapping[str, Any] = field(default_factory=dict)
    tokens: str | None = None
    teacher: str | None = None
    training: Mapping[str, Any] | None = field(default_factory=dict)
    device: hardware.Device = "auto"
    workers: checks.Natural = 1

    # Without `relations`, a model has as many as are seen, not the default of `GraphEncoderSettings`.
    nested: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "model": partial(GraphEncoderSettings, relations=None),  # type: ignore[arg-type]  # null, as in `settings`
        "training": Schedule,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.auxiliary != "none" and self.structure != "hierarchy":
            raise HarnessError(
                f"virtual nodes: auxiliary edges {self.auxiliary!r} join those of formulas and sentences, "
                f"and structure {self.structure!r} has none; take 'hierarchy', or auxiliary edges 'none'"
            )
        self._check_pairs()
        self.settings(self.vocabulary)
        self._check_training()

    def _check_training(self) -> None:
        """Raises HarnessError if the training keys are inconsistent with the graphs or with other keys."""
        schedule = self.schedule()
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

    def _check_pairs(self) -> None:
        """Raises HarnessError unless the named corpora and collections exist."""
        given = isinstance(self.pairs, Mapping) and all(isinstance(name, str | None) for name in self.pairs.values())
        if not given or not self.sources:
            raise HarnessError(f"key 'pairs' is {self.pairs!r}, expected corpora such as {{mse-pages: question}}")
        if not isinstance(self.leave_out, list | tuple):
            raise HarnessError(f"key 'leave_out' is {self.leave_out!r}, expected a list of collections")
        for name in self.pairs:  # removed corpora as well: a misspelt name would remove nothing
            config.load("corpus", name, "key 'pairs'")
        for name in self.leave_out:
            config.load("collection", name, "key 'leave_out'")

    def trains_without(self) -> frozenset[str]:
        """Returns the collections whose judged posts are excluded from training; must include the one that is run."""
        return frozenset(self.leave_out)

    def settings(self, nodes: int, relations: int = 1) -> GraphEncoderSettings:
        """Returns the hyperparameters of the model for a vocabulary with these numbers of node types and relations.

        Raises
        ------
        HarnessError
            A key is unknown, or its value is wrong.
        """
        _check_known_keys("model", self.model, {entry.name for entry in fields(GraphEncoderSettings)} - {"nodes"})
        given = {key: value for key, value in self.model.items() if key != "relations" or value is not None}
        if "relations" in given:
            checks.check_whole_number("model.relations", given["relations"], low=len(VIRTUAL) + 1)
        return GraphEncoderSettings(**{"nodes": nodes, "relations": relations, **given})

    def schedule(self) -> Schedule:
        """Returns the training schedule.

        Raises
        ------
        HarnessError
            A key is unknown, or its value is wrong.
        """
        given = {} if self.training is None else self.training
        _check_known_keys("training", given, {entry.name for entry in fields(Schedule)})
        return Schedule(**given)

    @cached_property
    def sources(self) -> dict[str, str]:
        """Corpora -> the column that holds the question."""
        return {name: column for name, column in self.pairs.items() if column is not None}

    @cached_property
    def unseen(self) -> JudgedDocuments:
        """The judged posts, which are excluded from training."""
        return judged(self.leave_out)

    @cached_property
    def sentences(self) -> data.Parser:
        """The sentence parser."""
        return replace(parsers.load(self.parser), keep=self.disconnected == "keep")

    @property
    def cores(self) -> int:
        """Number of processes that build graphs."""
        return self.workers or hardware.cores()

    @cached_property
    def runs_on(self) -> str:
        """Name of the device in torch."""
        return hardware.device(self.device)

    def trained(self, workspace: Path) -> Trained:
        """Returns the model; trains it if it is not in the store. Interrupted training resumes."""
        from harness.systems.dense.training.loop import BEST, COST, LOG, drop_damaged
        from harness.systems.mathamr.training import options
        from harness.systems.mathamr.training import trainer as training

        check_package(self.settings(self.vocabulary))
        spec = self.made_from()
        key = artefacts.key(spec)
        work = workspace / f"training-{key[:16]}"

        def make(folder: Path) -> None:
            options.check_models(
                self.tokens, None if self.training is None else self.teacher, self.settings(self.vocabulary).dim
            )
            pairs = data.pair_graphs(self.sources, self.unseen, self.sentences, self.cores)
            if self.sample is not None:
                pairs = pairs.sampled(self.sample, self.sample_seed)
            trainer, vocabulary = self._trainer(pairs, work)
            vocabulary.save(folder / "vocabulary.json")
            if self.training is None:
                model = training.initial(trainer.settings, trainer.schedule.seed, trainer.embedding)
                training.save_model(folder / BEST, model, trainer.identity)
                return
            drop_damaged(work, log_line)
            trainer.run(log_line)
            for name in (BEST, LOG, COST):
                shutil.copy(work / name, folder / name)
            spent = json.loads((folder / COST).read_text(encoding="utf-8"))
            write_atomic(folder / COST, json.dumps({**spent, cost.PAIRS: len(trainer.train)}) + "\n")

        folder = artefacts.get_or_build("mathamr-model", spec, make)
        shutil.rmtree(work, ignore_errors=True)
        vocabulary = NodeVocabulary.load(folder / "vocabulary.json")
        model = training.load_model(folder / BEST, {"vocabulary": vocabulary.digest})
        log = folder / LOG
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        entries = tuple(map(json.loads, lines))
        note(cost.PARAMETERS, sum(each.numel() for each in model.parameters()))
        if entries:
            note(cost.LOG, list(entries))
            for name, value in json.loads((folder / COST).read_text(encoding="utf-8")).items():
                note(name, value)
        return Trained(vocabulary, model.to(self.runs_on), key, entries)

    def _trainer(self, graphs: PairGraphs, work: Path) -> tuple[Any, NodeVocabulary]:
        """Returns a trainer for the pairs, and the vocabulary of the training split."""
        from harness.systems.mathamr.training import options
        from harness.systems.mathamr.training import trainer as training

        schedule = self.schedule()
        pairs = training.QuestionAnswerPairs(graphs.query, graphs.document, graphs.group, graphs.block)
        train, held = training.split(pairs, schedule.validation, schedule.seed)
        if self.training is not None:
            _enough(train, held)
        seen = set(train.query.tolist()) | set(train.document.tolist())
        learnt = (restrict_graph(graph, self.formulas) for i, graph in graphs.graphs() if i in seen)
        most = self.model.get("relations") or MOST_RELATIONS
        vocabulary = NodeVocabulary.learn(learnt, self.vocabulary, self.least_number, most)
        posts = ((graphs.ids[i], restrict_graph(graph, self.formulas)) for i, graph in graphs.graphs())
        items = encode_posts(posts, vocabulary, self.structure, self.auxiliary)
        work.mkdir(parents=True, exist_ok=True)
        for name, reason in write_pack(work / "pairs.pack", items, keep_going=True):
            log_line(f"pair left out: {name}: {reason}")
        pack = Pack(work / "pairs.pack")
        train, held = (_renumbered(part, graphs.ids, pack) for part in (train, held))
        if self.training is not None:
            _enough(train, held)
        log_line(
            f"training on {len(train):,} pairs, {len(held):,} held out; {vocabulary.count} relations, "
            f"{len(vocabulary.nodes):,} node types"
        )
        identity = {"vocabulary": vocabulary.digest, "graphs": pack.digest}
        settings = self.settings(vocabulary.size, vocabulary.count)
        more: dict[str, Any] = {"relations": vocabulary.count}
        if self.training is not None and schedule.hard:
            given = (train.query, train.document, train.group, schedule.hard, vocabulary.size)
            train = replace(train, hard=options.hard_negatives(pack, *given))
        if self.tokens is not None:
            more["embedding"] = options.token_embeddings(vocabulary, self.tokens, settings.dim)
        if self.training is not None and self.teacher is not None:
            texts = data.texts(pack.ids, self.sources)
            more["teacher"] = options.teacher_vectors(texts, self.teacher, self.runs_on)
        return training.Trainer(pack, train, held, settings, schedule, work, identity, self.runs_on, **more), vocabulary

    def made_from(self) -> dict[str, Any]:
        """Returns all inputs of the model, which form its key in the store."""
        return {
            "pairs": [[column, load_corpus(name).identity()] for name, column in self.sources.items()],
            "leave out": self.unseen.digest(),
            "parser": [dict(self.sentences.identity), self.sentences.keep],
            "sample": None if self.sample is None else [self.sample, self.sample_seed],
            "begun by": [
                None if name is None else encoder.identity(name, Plain()) for name in (self.tokens, self.teacher)
            ],
            "graphs": [self.formulas, self.structure, self.auxiliary, self.vocabulary, self.least_number],
            "model": {**self.model, **package_version(self.settings(self.vocabulary))},
            "training": None if self.training is None else dict(self.training),
            "versions": [code.of(__name__), data.made_by(self.sentences), hardware.library_versions()],
            "arithmetic": hardware.arithmetic(self.runs_on, self.training is not None and self.schedule().autocast),
        }


def _enough(train: QuestionAnswerPairs, held: QuestionAnswerPairs) -> None:
    """Raises HarnessError if training or validation has fewer than two questions."""
    for what, part, way in (("held out", held, "raise"), ("trained on", train, "lower")):
        if (questions := len(np.unique(part.group))) < 2:
            raise HarnessError(
                f"key 'training.validation': the pairs of {questions} questions would be {what}, expected 2 or more: "
                f"{way} it, or name larger corpora in the key 'pairs'"
            )


def _renumbered(pairs: QuestionAnswerPairs, ids: Sequence[str], pack: Pack) -> QuestionAnswerPairs:
    """Renumbers pairs by their position in a pack; drops pairs whose graphs were refused."""
    known = {name: number for number, name in enumerate(pack.ids)}
    number = np.array([known.get(name, -1) for name in ids])
    kept = pairs.take(np.flatnonzero((number[pairs.query] >= 0) & (number[pairs.document] >= 0)))
    return replace(kept, query=number[kept.query], document=number[kept.document])


def _check_known_keys(what: str, given: object, known: Iterable[str]) -> None:
    if not isinstance(given, Mapping):
        raise HarnessError(f"key {what!r} is {given!r}, expected keys and values")
    for key in given:
        if key not in known:
            raise HarnessError(f"key '{what}.{key}' is unknown; {suggestion(str(key), known)}")

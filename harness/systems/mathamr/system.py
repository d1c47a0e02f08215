"""MathAMR+ as a run producer: graphs, an encoder trained on pairs, and search over the vectors of posts or formulas.

On dependency graphs it is the thesis' system with another parser of sentences, and is called so wherever it is named.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.judged import Judged, judged
from harness.data.topics import Topics
from harness.data.trec import Run
from harness.errors import HarnessError, suggestion
from harness.io import checks, config
from harness.io.console import say
from harness.store import artefacts, code
from harness.store.cost import phase, queries
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import ann as adapters
from harness.systems.dense import maxsim, search
from harness.systems.dense.maxsim import Vectors
from harness.systems.dense.search import Query
from harness.systems.mathamr.encoder.pack import Pack, encode_posts, write
from harness.systems.mathamr.encoder.settings import Settings
from harness.systems.mathamr.encoder.virtual import AUXILIARY, STRUCTURES, check_options
from harness.systems.mathamr.encoder.vocabulary import LEAST_NUMBER, SIZE, Vocabulary
from harness.systems.mathamr.graphs import build, data, parsers
from harness.systems.mathamr.graphs.data import PairGraphs
from harness.systems.mathamr.graphs.graph import MODES, Graph, restrict
from harness.systems.mathamr.training.schedule import Schedule

if TYPE_CHECKING:
    from harness.systems.mathamr.encoder.model import Encoder
    from harness.systems.mathamr.encoder.virtual import Encoded
    from harness.systems.mathamr.training.trainer import Pairs

PRECISIONS = (*search.SEARCHES, "qdrant")


@dataclass(frozen=True, eq=False)
class Trained:
    """A model with the vocabulary it reads by.

    Attributes
    ----------
    digest : of what it was trained on and how.
    log : an entry an epoch, that of the untrained model first; empty if it was not trained.
    """

    vocabulary: Vocabulary
    model: Encoder
    digest: str
    log: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class MathAMR:
    """Posts by the MaxSim of the vectors of their graphs' virtual nodes.

    Parameters
    ----------
    name : of the run.
    pairs : corpora of answers to train on -> the column that holds the question; null takes a corpus out again.
    leave_out : collections whose judged posts are not trained on; the collection that is run must be among them.
    parser : of sentences: `dependency`, `transition-amr` or `amrlib`, the latter two with `:MODEL`.
    formulas, structure, auxiliary : what graphs are made of: see `graph.MODES`, `virtual.STRUCTURES`, `.AUXILIARY`.
    vocabulary : node types, the special ones among them; a number needs `least_number` occurrences for one of its own.
    model : hyperparameters: see `settings.Settings`.
    training : see `training.Schedule`; null takes the untrained model.
    task : `posts`: rank the documents of the corpus. `formulas`: rank the formulas that it consists of, by the posts of
        the corpus `posts`, which has them with their text, and its questions in the column that `pairs` says.
    strategy, candidates, ef : see `harness.systems.dense.search.search`, where `candidates` is called `depth`.
    precision : `exact`; `approximate`: over an index by FAISS; `qdrant`: by Qdrant's embedded client, which looks at
        every vector.
    device : `auto` takes a GPU if there is one.
    """

    name: str
    pairs: Mapping[str, str | None]
    leave_out: Sequence[str]
    parser: str = "dependency"
    formulas: str = "both"
    structure: str = "hierarchy"
    auxiliary: str = "none"
    vocabulary: int = SIZE
    least_number: int = LEAST_NUMBER
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] | None = field(default_factory=dict)
    task: str = "posts"
    posts: str = ""
    strategy: str = "colbert"
    precision: str = "exact"
    candidates: int | None = None
    ef: int | None = None
    depth: int = 1000
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
        for key in ("candidates", "ef", "depth", "workers", "least_number", "vocabulary"):
            if key not in ("candidates", "ef") or getattr(self, key) is not None:
                checks.whole(key, getattr(self, key), low=1)
        check_options(self.structure, self.auxiliary)
        self._check_vectors()
        self._check_names()
        self._settings(self.vocabulary)
        beta = self._schedule().beta
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

    def trains_without(self) -> frozenset[str]:
        """The collections whose judged posts it has not seen; what is run must be one of them."""
        return frozenset(self.leave_out)

    def notes(self) -> tuple[str, ...]:
        """What a reader of its numbers must know: which graphs they are, and what was trained on."""
        said = []
        if self.parser == "dependency":
            said.append("Graphs are of a dependency parser, not of AMR.")
        if self.training is None:
            return (*said, "The model is untrained.")
        said.append(
            f"Trained on the pairs of {', '.join(self._sources)}; left out were posts that "
            f"{', '.join(self.leave_out) or 'no collection'} judges."
        )
        unsaid = [name for name in self._sources if not data.says_accepted(load_corpus(name))]
        if unsaid:
            said.append(f"{', '.join(unsaid)}: which answer was accepted is not known, so every answer counts as one.")
        return tuple(said)

    def reads(self) -> dict[str, Any]:
        """What decides the model, and the posts of formulas."""
        posts = load_corpus(self.posts).identity() if self.task == "formulas" else None
        return {"model": artefacts.key(self._model_spec()), "posts": posts}

    def __call__(self, request: Request) -> Run:
        """Rank the corpus; topics without a graph are left out.

        Raises
        ------
        HarnessError
            There is no corpus, or a package, weights, a GPU or memory are missing.
        """
        corpus = request.corpus_for(self.name)
        # They fail here rather than after the graphs have been made, or the training.
        hardware.device(self.device)
        adapters.check(self.precision)
        request.workspace.mkdir(parents=True, exist_ok=True)
        with phase("training"):
            trained = self.trained(request.workspace)
        with phase("index"):
            folder = self._vectors(corpus, trained, request.workspace)
            vectors = Vectors.load(folder)
            index = self._index(vectors, folder)
        with phase("search"):
            asked, ids = self._queries(request.topics, trained)
            found = []
            for topic in queries([topic for topic in request.topics if topic.id in asked]):
                pool = request.allowed(topic)
                among = None if pool is None else vectors.rows(pool)
                found.append(self._search(asked[topic.id], vectors, index, among))
        if index is not None and request.pool is None:
            search.note_recall(
                self.name,
                self.precision,
                found,
                lambda sample: [self._search(asked[ids[number]], vectors, None) for number in sample],
                self.depth,
            )
        return search.as_run(self.name, ids, found, vectors)

    # ---- the model ----------------------------------------------------------------------------------------------

    def trained(self, workspace: Path) -> Trained:
        """The model, trained if the store has none; a training that was stopped goes on."""
        from harness.systems.dense.training.checkpoint import whole
        from harness.systems.dense.training.loop import BEST, LAST, LOG
        from harness.systems.mathamr.training import checkpoint
        from harness.systems.mathamr.training import trainer as training

        spec = self._model_spec()
        key = artefacts.key(spec)
        work = workspace / f"training-{key[:16]}"

        def make(folder: Path) -> None:
            found = data.pair_graphs(self._sources, self._judged, self._parser, workspace, self.workers)
            trainer, vocabulary = self._trainer(found, work)
            vocabulary.save(folder / "vocabulary.json")
            if self.training is None:
                model = training.initial(trainer.settings, trainer.schedule.seed)
                checkpoint.save_model(folder / BEST, model, trainer.identity)
                return
            if damaged := [name for name in (LAST, BEST) if not whole(work / name)]:
                say(f"{work / damaged[0]}: damaged; the training begins anew")
                for name in (LAST, BEST):
                    (work / name).unlink(missing_ok=True)
            trainer.run(say)
            for name in (BEST, LOG):
                shutil.copy(work / name, folder / name)

        folder = artefacts.get_or_build("mathamr-model", spec, make)
        shutil.rmtree(work, ignore_errors=True)
        vocabulary = Vocabulary.load(folder / "vocabulary.json")
        model = checkpoint.load_model(folder / BEST, {"vocabulary": vocabulary.digest})
        log = folder / LOG
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return Trained(vocabulary, model.to(self._device), key, tuple(map(json.loads, lines)))

    def _trainer(self, found: PairGraphs, work: Path) -> tuple[Any, Vocabulary]:
        """A training of the pairs, and the vocabulary of those that are trained on."""
        from harness.systems.mathamr.training import trainer as training

        schedule = self._schedule()
        pairs = training.Pairs(found.query, found.document, found.group)
        train, held = training.split(pairs, schedule.validation, schedule.seed)
        if self.training is not None:
            _enough(train, held)
        seen = set(train.query.tolist()) | set(train.document.tolist())
        learnt = (restrict(graph, self.formulas) for i, graph in found.graphs() if i in seen)
        vocabulary = Vocabulary.learn(learnt, self.vocabulary, self.least_number)
        posts = ((found.ids[i], restrict(graph, self.formulas)) for i, graph in found.graphs())
        items = encode_posts(posts, vocabulary, self.structure, self.auxiliary)
        work.mkdir(parents=True, exist_ok=True)
        written = write(work / "pairs.pack", items, keep_going=True)
        for name, reason in written.refused:
            say(f"pair left out: {name}: {reason}")
        pack = Pack(work / "pairs.pack")
        train, held = (_renumbered(part, found.ids, pack) for part in (train, held))
        if self.training is not None:
            _enough(train, held)
        say(
            f"training on {len(train):,} pairs, {len(held):,} held out; {vocabulary.count} relations, "
            f"{len(vocabulary.nodes):,} node types"
        )
        identity = {"vocabulary": vocabulary.digest, "graphs": pack.digest}
        settings = self._settings(vocabulary.size, vocabulary.count)
        return training.Trainer(pack, train, held, settings, schedule, work, identity, self._device), vocabulary

    def _model_spec(self) -> dict[str, Any]:
        return {
            "pairs": [[column, load_corpus(name).identity()] for name, column in self._sources.items()],
            "leave out": self._judged.digest(),
            "parser": dict(self._parser.identity),
            "graphs": [self.formulas, self.structure, self.auxiliary, self.vocabulary, self.least_number],
            "model": dict(self.model),
            "training": None if self.training is None else dict(self.training),
            "versions": [code.of(__name__), data.made_by(self._parser), hardware.torch_version()],
            "arithmetic": hardware.arithmetic(self._device, self.training is not None and self._schedule().autocast),
        }

    def _settings(self, nodes: int, relations: int = 1) -> Settings:
        _known("model", self.model, {entry.name for entry in fields(Settings)} - {"nodes", "relations"})
        return Settings(nodes=nodes, relations=relations, **self.model)

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

    @cached_property
    def _parser(self) -> data.Parser:
        return parsers.load(self.parser)

    @cached_property
    def _device(self) -> str:
        return hardware.device(self.device)

    # ---- vectors ------------------------------------------------------------------------------------------------

    def _vectors(self, corpus: Corpus, trained: Trained, workspace: Path) -> Path:
        """Where the vectors of the documents are; made if the store has none."""
        spec = {
            "model": trained.digest,
            "corpus": corpus.identity(),
            "posts": load_corpus(self.posts).identity() if self.task == "formulas" else None,
            "task": self.task,
            "code": code.of(__name__),
            "arithmetic": hardware.arithmetic(self._device),
        }

        def make(folder: Path) -> None:
            if self.task == "posts":
                found = data.graphs(corpus, "answers", self._parser, workspace, workers=self.workers)
                items = build.read_graphs(found)
                maxsim.stack(self._of_posts(items, trained, folder)).save(folder)
            else:
                column = self._sources.get(self.posts, "question")
                items = data.post_graphs(load_corpus(self.posts), self._parser, workspace, column, self.workers)
                wanted = {document.id: document.columns.get("post", "") for document in corpus}
                rows = list(self._of_formulas(items, trained, folder, wanted))
                say(f"corpus {corpus.name}: {len(rows):,} of {len(wanted):,} formulas found in graphs")
                maxsim.stack(((name, row, 0) for name, row, _ in rows), [post for _, _, post in rows]).save(folder)
            (folder / "graphs.pack").unlink()

        return artefacts.get_or_build("mathamr-vectors", spec, make)

    def _encoded(self, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path) -> tuple[Pack, list[Any]]:
        """A pack of graphs, and the vectors of each: float32, shape (vectors, out)."""
        from harness.systems.mathamr.training import trainer as training

        restricted = ((name, restrict(graph, self.formulas)) for name, graph in items)
        encoded = encode_posts(restricted, trained.vocabulary, self.structure, self.auxiliary)
        written = write(folder / "graphs.pack", encoded, keep_going=True)
        for name, reason in written.refused:
            say(f"left out: {name}: {reason}")
        pack = Pack(folder / "graphs.pack")
        tensors = training.encode(trained.model, pack, list(range(len(pack))), trained.model.settings, self._device)
        return pack, [tensor.numpy() for tensor in tensors]

    def _of_posts(
        self, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path
    ) -> Iterator[tuple[str, Any, int]]:
        pack, vectors = self._encoded(items, trained, folder)
        single = self.structure != "none"
        for name, rows in zip(pack.ids, vectors, strict=True):
            yield name, rows, len(rows) - 1 if single else -1

    def _of_formulas(
        self, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path, wanted: Mapping[str, str]
    ) -> Iterator[tuple[str, Any, str]]:
        """Id, vector of shape (1, out) and post of each formula of the corpus; of one that stands twice the first."""
        pack, vectors = self._encoded(items, trained, folder)
        seen: set[str] = set()
        for number, rows in enumerate(vectors):
            for place, name in enumerate(pack.formula_ids(number)):
                if name in wanted and name not in seen:
                    seen.add(name)
                    yield name, rows[place : place + 1], wanted[name] or pack.ids[number]

    # ---- search -------------------------------------------------------------------------------------------------

    def _queries(self, topics: Topics, trained: Trained) -> tuple[dict[str, Query], list[str]]:
        """The vectors of each topic that has any, and their ids in order."""
        from harness.systems.mathamr.training import trainer as training

        asked = [data.asked(topic, self.task) for topic in topics if self.task == "posts" or topic.formulas]
        graphs = data.graphs_of(asked, self._parser)
        items = [(post.id, restrict(graphs[post.id], self.formulas)) for post in asked if post.id in graphs]
        encoded = encode_posts(items, trained.vocabulary, self.structure, self.auxiliary)
        pack = Pack.memory(item for item in encoded if not _refused(*item))
        tensors = training.encode(trained.model, pack, list(range(len(pack))), trained.model.settings, self._device)
        by_id = topics.by_id()
        out: dict[str, Query] = {}
        for number, (name, tensor) in enumerate(zip(pack.ids, tensors, strict=True)):
            rows = tensor.numpy()
            if self.task == "posts":
                out[name] = Query(rows, len(rows) - 1 if self.structure != "none" else -1)
                continue
            wanted = by_id[name].formulas[0].id
            places = [place for place, known in enumerate(pack.formula_ids(number)) if known == wanted]
            if places:
                out[name] = Query(rows[places[0] : places[0] + 1], 0)
        without = [topic.id for topic in topics if topic.id not in out]
        if without:
            say(f"{len(without)} of {len(topics)} topics have no vectors, such as {without[0]}")
        return out, [topic.id for topic in topics if topic.id in out]

    def _index(self, vectors: Vectors, folder: Path) -> search.Index | adapters.Qdrant | None:
        """What searches the vectors that are kept in a folder; FAISS's comes from the store if it was made before."""
        if self.precision == "exact":
            return None
        if self.precision == "qdrant":
            return adapters.upload(adapters.connect(), "documents", vectors, formulas=self.task == "formulas")
        return adapters.kept_index(vectors, folder)

    def _search(
        self,
        query: Query,
        vectors: Vectors,
        index: search.Index | adapters.Qdrant | None,
        among: maxsim.Rows | None = None,
    ) -> search.Hits:
        mean = bool(self.model.get("normalise", True))
        if among is not None:  # a pool is small: all of it is scored
            return search.best_among(query, vectors, among, self.depth, self.strategy, mean=mean)
        # A formula has one vector, so that all strategies are one; only by it an index can be asked for documents.
        strategy = "single" if self.task == "formulas" and index is not None else self.strategy
        more: dict[str, Any] = {"k": self.depth, "depth": self.candidates, "ef": self.ef, "mean": mean}
        if isinstance(index, adapters.Qdrant):
            return adapters.qdrant_search([query], index, strategy, **more)[0]
        precision = "exact" if index is None else "approximate"
        return search.search([query], vectors, strategy, precision, index=index, **more)[0]


def _known(what: str, given: object, known: Iterable[str]) -> None:
    if not isinstance(given, Mapping):
        raise HarnessError(f"key {what!r} is {given!r}, expected keys and values")
    for key in given:
        if key not in known:
            raise HarnessError(f"key '{what}.{key}' is unknown; {suggestion(str(key), known)}")


def _enough(train: Pairs, held: Pairs) -> None:
    """Raise HarnessError if there is nothing to distinguish, in training or in validation."""
    for what, part, way in (("held out", held, "raise"), ("trained on", train, "lower")):
        if (questions := len(np.unique(part.group))) < 2:
            raise HarnessError(
                f"key 'training.validation': the pairs of {questions} questions would be {what}, expected 2 or more: "
                f"{way} it, or name larger corpora in the key 'pairs'"
            )


def _refused(topic: str, item: Encoded | HarnessError) -> bool:
    """Whether a topic's graph could not be encoded, which is said."""
    if isinstance(item, HarnessError):
        say(f"topic {topic}: left out: {item}")
    return isinstance(item, HarnessError)


def _renumbered(pairs: Pairs, ids: Sequence[str], pack: Pack) -> Pairs:
    """Pairs by the numbers of a pack, without those whose graphs were refused."""
    number = np.array([pack.number(name) if name in pack else -1 for name in ids])
    known = np.flatnonzero((number[pairs.query] >= 0) & (number[pairs.document] >= 0))
    kept = pairs.take(known)
    return type(pairs)(number[kept.query], number[kept.document], kept.group)

"""MathAMR+ as a run producer: graphs, an encoder trained on pairs, and search over the vectors of posts or formulas.

On dependency graphs it is the thesis' system with another parser of sentences, and is called so wherever it is named.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter as clock
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io.console import progress, say
from harness.io.files import write_atomic
from harness.store import artefacts, code, cost
from harness.store.cost import note, phase, queries
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import ann as adapters
from harness.systems.dense import encoder, maxsim, search
from harness.systems.dense.engines import Settings as Plain
from harness.systems.dense.maxsim import Vectors
from harness.systems.dense.search import Query
from harness.systems.mathamr.configured import Configured
from harness.systems.mathamr.encoder.pack import Pack, encode_posts, write
from harness.systems.mathamr.encoder.virtual import TYPES as TYPE_NAMES
from harness.systems.mathamr.encoder.vocabulary import MOST_RELATIONS, Vocabulary
from harness.systems.mathamr.graphs import build, data, parsers
from harness.systems.mathamr.graphs.data import PairGraphs
from harness.systems.mathamr.graphs.graph import Graph, restrict

if TYPE_CHECKING:
    from harness.systems.mathamr.encoder.model import Encoder
    from harness.systems.mathamr.encoder.virtual import Encoded
    from harness.systems.mathamr.training.trainer import Pairs


PACK, TYPES = "graphs.pack", "types.npy"  # of documents' vectors: the graphs while they are made, the types of each


@dataclass(frozen=True, eq=False)
class Asked(Query):
    """The vectors of a topic, with the type of each (index into TYPE_NAMES)."""

    types: Sequence[int] = ()


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
class MathAMR(Configured):
    """Posts by the MaxSim of the vectors of their graphs' virtual nodes; the keys are those of `Configured`."""

    def reads(self) -> dict[str, Any]:
        """What decides the model, and the posts of formulas."""
        read = {"model": artefacts.key(self._model_spec()), "posts": self._posts_read()}
        return {**read, "topics": dict(self._parser.given_by)} if self._parser.given_by else read

    def _posts_read(self) -> list[dict[str, Any]] | None:
        """What decides the posts that formulas stand in."""
        if self.task != "formulas":
            return None
        return [load_corpus(name).identity() for name in (self.posts, self.unanswered) if name]

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
            found = self._found(
                request, [topic for topic in request.topics if topic.id in asked], asked, vectors, index
            )
        self._picture(asked, vectors, folder)
        note(cost.VECTORS, len(vectors.values))
        note(cost.INDEX, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
        if index is not None and request.pool is None:
            search.note_recall(
                self.name,
                self.precision,
                found,
                lambda sample: self._search([asked[ids[number]] for number in sample], vectors, None),
                self.depth,
            )
        return search.as_run(self.name, ids, found, vectors)

    # ---- the model ----------------------------------------------------------------------------------------------

    def trained(self, workspace: Path) -> Trained:
        """The model, trained if the store has none; a training that was stopped goes on."""
        from harness.systems.dense.training.checkpoint import whole
        from harness.systems.dense.training.loop import BEST, COST, LAST, LOG
        from harness.systems.mathamr.training import checkpoint
        from harness.systems.mathamr.training import trainer as training

        spec = self._model_spec()
        key = artefacts.key(spec)
        work = workspace / f"training-{key[:16]}"

        def make(folder: Path) -> None:
            found = data.pair_graphs(self._sources, self._judged, self._parser, workspace, self._workers)
            if self.sample is not None:
                found = found.sampled(self.sample, self.sample_seed)
            trainer, vocabulary = self._trainer(found, work)
            vocabulary.save(folder / "vocabulary.json")
            if self.training is None:
                model = training.initial(trainer.settings, trainer.schedule.seed, trainer.embedding)
                checkpoint.save_model(folder / BEST, model, trainer.identity)
                return
            if damaged := [name for name in (LAST, BEST) if not whole(work / name)]:
                say(f"{work / damaged[0]}: damaged; the training begins anew")
                for name in (LAST, BEST):
                    (work / name).unlink(missing_ok=True)
            trainer.run(say)
            for name in (BEST, LOG, COST):
                shutil.copy(work / name, folder / name)
            spent = json.loads((folder / COST).read_text(encoding="utf-8"))
            write_atomic(folder / COST, json.dumps({**spent, cost.PAIRS: len(trainer.train)}) + "\n")

        folder = artefacts.get_or_build("mathamr-model", spec, make)
        shutil.rmtree(work, ignore_errors=True)
        vocabulary = Vocabulary.load(folder / "vocabulary.json")
        model = checkpoint.load_model(folder / BEST, {"vocabulary": vocabulary.digest})
        log = folder / LOG
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        entries = tuple(map(json.loads, lines))
        note(cost.PARAMETERS, sum(each.numel() for each in model.parameters()))
        if entries:
            note(cost.LOG, list(entries))
            for name, value in json.loads((folder / COST).read_text(encoding="utf-8")).items():
                note(name, value)
        return Trained(vocabulary, model.to(self._device), key, entries)

    def _trainer(self, found: PairGraphs, work: Path) -> tuple[Any, Vocabulary]:
        """A training of the pairs, and the vocabulary of those that are trained on."""
        from harness.systems.mathamr.training import options
        from harness.systems.mathamr.training import trainer as training

        schedule = self._schedule()
        pairs = training.Pairs(found.query, found.document, found.group, found.block)
        train, held = training.split(pairs, schedule.validation, schedule.seed)
        if self.training is not None:
            _enough(train, held)
        seen = set(train.query.tolist()) | set(train.document.tolist())
        learnt = (restrict(graph, self.formulas) for i, graph in found.graphs() if i in seen)
        most = self.model.get("relations") or MOST_RELATIONS
        vocabulary = Vocabulary.learn(learnt, self.vocabulary, self.least_number, most)
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
        more: dict[str, Any] = {"relations": vocabulary.count}
        if self.training is not None and schedule.hard:
            given = (train.query, train.document, train.group, schedule.hard, vocabulary.size)
            train = replace(train, hard=options.hard_negatives(pack, *given))
        if self.tokens is not None:
            more["embedding"] = options.token_embeddings(vocabulary, self.tokens, settings.dim)
        if self.training is not None and self.teacher is not None:
            texts = data.texts(pack.ids, self._sources)
            more["teacher"] = options.teacher_vectors(texts, self.teacher, self._device)
        return training.Trainer(pack, train, held, settings, schedule, work, identity, self._device, **more), vocabulary

    def _model_spec(self) -> dict[str, Any]:
        return {
            "pairs": [[column, load_corpus(name).identity()] for name, column in self._sources.items()],
            "leave out": self._judged.digest(),
            "parser": [dict(self._parser.identity), self._parser.keep],
            "sample": None if self.sample is None else [self.sample, self.sample_seed],
            "begun by": [
                None if name is None else encoder.identity(name, Plain()) for name in (self.tokens, self.teacher)
            ],
            "graphs": [self.formulas, self.structure, self.auxiliary, self.vocabulary, self.least_number],
            "model": dict(self.model),
            "training": None if self.training is None else dict(self.training),
            "versions": [code.of(__name__), data.made_by(self._parser), hardware.torch_version()],
            "arithmetic": hardware.arithmetic(self._device, self.training is not None and self._schedule().autocast),
        }

    @cached_property
    def _parser(self) -> data.Parser:
        return replace(parsers.load(self.parser), keep=self.disconnected == "keep")

    @property
    def _workers(self) -> int:
        return self.workers or hardware.cores()

    @cached_property
    def _device(self) -> str:
        return hardware.device(self.device)

    # ---- vectors ------------------------------------------------------------------------------------------------

    def _vectors(self, corpus: Corpus, trained: Trained, workspace: Path) -> Path:
        """Where the vectors of the documents are; made if the store has none."""
        spec = {
            "model": trained.digest,
            "corpus": corpus.identity(),
            "posts": self._posts_read(),
            "task": self.task,
            "code": code.of(__name__),
            "arithmetic": hardware.arithmetic(self._device),
        }

        def make(folder: Path) -> None:
            if self.task == "posts":
                found = data.graphs(corpus, "answers", self._parser, workspace, workers=self._workers)
                items = build.read_graphs(found)
                maxsim.stack(self._of_posts(items, trained, folder)).save(folder)
                pack = Pack(folder / PACK)
                np.save(folder / TYPES, np.concatenate([item.types for item in pack]))
            else:
                column = self._sources.get(self.posts, "question")
                others = None if self.unanswered is None else load_corpus(self.unanswered)
                of = (load_corpus(self.posts), self._parser, workspace, column, self._workers, others)
                items = data.post_graphs(*of)
                wanted = {document.id: document.columns.get("post", "") for document in corpus}
                rows = list(self._of_formulas(items, trained, folder, wanted))
                say(f"corpus {corpus.name}: {len(rows):,} of {len(wanted):,} formulas found in graphs")
                maxsim.stack(((name, row, 0) for name, row, _ in rows), [post for _, _, post in rows]).save(folder)
            (folder / PACK).unlink()

        return artefacts.get_or_build("mathamr-vectors", spec, make)

    def _encoded(self, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path) -> tuple[Pack, list[Any]]:
        """A pack of graphs, and the vectors of each: float32, shape (vectors, out)."""
        from harness.systems.mathamr.training import trainer as training

        restricted = ((name, restrict(graph, self.formulas)) for name, graph in items)
        encoded = encode_posts(restricted, trained.vocabulary, self.structure, self.auxiliary)
        written = write(folder / PACK, encoded, keep_going=True)
        for name, reason in written.refused:
            say(f"left out: {name}: {reason}")
        pack = Pack(folder / PACK)
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

    def _queries(self, topics: Topics, trained: Trained) -> tuple[dict[str, Asked], list[str]]:
        """The vectors of each topic that has any, and their ids in order."""
        from harness.systems.mathamr.training import trainer as training

        asked = [data.asked(topic, self.task) for topic in topics if self.task == "posts" or topic.formulas]
        graphs = data.graphs_of(asked, self._parser)
        items = [(post.id, restrict(graphs[post.id], self.formulas)) for post in asked if post.id in graphs]
        encoded = encode_posts(items, trained.vocabulary, self.structure, self.auxiliary)
        pack = Pack.memory(item for item in encoded if not _refused(*item))
        tensors = training.encode(trained.model, pack, list(range(len(pack))), trained.model.settings, self._device)
        by_id = topics.by_id()
        out: dict[str, Asked] = {}
        for number, (name, tensor) in enumerate(zip(pack.ids, tensors, strict=True)):
            rows = tensor.numpy()
            if self.task == "posts":
                out[name] = Asked(rows, len(rows) - 1 if self.structure != "none" else -1, pack[number].types.tolist())
                continue
            wanted = by_id[name].formulas[0].id
            places = [place for place, known in enumerate(pack.formula_ids(number)) if known == wanted]
            if places:
                out[name] = Asked(rows[places[0] : places[0] + 1], 0)
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

    def _picture(self, asked: Mapping[str, Asked], vectors: Vectors, folder: Path) -> None:
        """Note the similarities of the pairs that are to be pictured; those that are not here are named."""
        noted = []
        for topic, document in (self.pictured or {}).items():
            rows = vectors.rows([document])
            if topic not in asked or not rows.size or self.task != "posts":
                say(
                    f"{self.name}: topic {topic} and document {document} cannot be pictured: one of them has no vectors"
                )
                continue
            own = np.arange(*vectors.start[rows[0] : rows[0] + 2].tolist())
            types, query = np.load(folder / TYPES)[own], asked[topic]
            noted.append(
                {
                    "topic": topic,
                    "document": document,
                    "rows": _named(query.types),
                    "columns": _named(types.tolist()),
                    "values": [[round(float(each), 4) for each in row] for row in query.values @ vectors.take(own).T],
                }
            )
        if noted:
            note(cost.SIMILARITIES, noted)

    def _found(
        self,
        request: Request,
        topics: Sequence[Topic],
        asked: Mapping[str, Query],
        vectors: Vectors,
        index: search.Index | adapters.Qdrant | None,
    ) -> list[search.Hits]:
        """The hits of each topic. A pool is small: all of it is scored, topic by topic."""
        if request.pool is not None:
            mean = bool(self.model.get("normalise", True))
            pooled = ((topic, vectors.rows(request.pool.get(topic.id, frozenset()))) for topic in queries(topics))
            among = (self.depth, self.strategy)
            return [search.best_among(asked[topic.id], vectors, rows, *among, mean=mean) for topic, rows in pooled]
        out: list[search.Hits] = []
        begun = clock()
        with progress("searching, topics", len(topics)) as told:
            for at in range(0, len(topics), self.together):
                part = topics[at : at + self.together]
                begin = clock()
                out += self._search([asked[topic.id] for topic in part], vectors, index)
                share = (clock() - begin) / len(part)
                cost.answered({topic.id: share for topic in part})
                told.add(len(part))
        if out:
            note(cost.TOGETHER, self.together)
            note(cost.RATE, round(len(out) / max(clock() - begun, 1e-9), 2))
        return out

    def _search(
        self, asked: Sequence[Query], vectors: Vectors, index: search.Index | adapters.Qdrant | None
    ) -> list[search.Hits]:
        mean = bool(self.model.get("normalise", True))
        # A formula has one vector, so that all strategies are one; only by it an index can be asked for documents.
        strategy = "single" if self.task == "formulas" and index is not None else self.strategy
        more: dict[str, Any] = {"k": self.depth, "depth": self.candidates, "ef": self.ef, "mean": mean}
        if isinstance(index, adapters.Qdrant):
            return adapters.qdrant_search(asked, index, strategy, **more)
        precision = "exact" if index is None else "approximate"
        return search.search(asked, vectors, strategy, precision, index=index, **more)


def _named(types: Sequence[int]) -> list[str]:
    """Vectors by their types, numbered: F1, F2, S1, D."""
    seen: Counter[str] = Counter()
    out = []
    for kind in types:
        letter = TYPE_NAMES[kind][0].upper()
        seen[letter] += 1
        out.append(letter if letter == "D" else f"{letter}{seen[letter]}")
    return out


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
    return replace(kept, query=number[kept.query], document=number[kept.document])

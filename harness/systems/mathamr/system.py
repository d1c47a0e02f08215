"""MathAMR+ as a run producer: builds graphs, trains an encoder, and searches the vectors of posts or formulas.

With dependency graphs, it is the thesis' system with another sentence parser, and reports say so.

Validated configuration of MathAMR+: the keys of the model and of the search, and notes on differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter as clock
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from harness.collections.corpora import load_corpus
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks, config
from harness.io.console import log_line, progress
from harness.store import artefacts, cost
from harness.store.cost import note, phase, queries
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import ann as adapters
from harness.systems.dense import search
from harness.systems.dense.maxsim import Vectors
from harness.systems.dense.search import Rough, VectorQuery
from harness.systems.mathamr.encoder.pack import Pack, encode_posts
from harness.systems.mathamr.encoder.virtual import TYPES as TYPE_NAMES
from harness.systems.mathamr.graphs import data
from harness.systems.mathamr.graphs.graph import restrict_graph
from harness.systems.mathamr.model import ModelRecipe, Trained
from harness.systems.mathamr.vectors import TYPES, identities, of_documents

if TYPE_CHECKING:
    from harness.systems.mathamr.encoder.virtual import EncodedGraph

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


@dataclass(frozen=True, eq=False)
class QueryVectors(VectorQuery):
    """Query vectors of a topic, with the type of each (index into TYPE_NAMES)."""

    types: Sequence[int] = ()


@dataclass(frozen=True)
class MathAMR(Configured):
    """Ranks posts by MaxSim over the vectors of their graphs' virtual nodes; the keys are those of `Configured`."""

    work: ClassVar[str] = "graphs"  # see `harness.papers.work`

    def reads(self) -> dict[str, Any]:
        """Returns the inputs of the run besides corpus and code: model, posts of formulas, ready topic graphs."""
        read = {"model": artefacts.key(self.made_from()), "posts": identities(self._posts)}
        return {**read, "topics": dict(self.sentences.given_by)} if self.sentences.given_by else read

    def __call__(self, request: Request) -> Run:
        """Ranks the corpus; topics without a graph are excluded.

        Raises
        ------
        HarnessError
            There is no corpus, or a package, weights, a GPU or memory are missing.
        """
        corpus = request.corpus_for(self.name)
        # These checks fail before graphs are built and the model is trained.
        hardware.device(self.device)
        adapters.check(self.precision)
        self.sentences.given()
        request.workspace.mkdir(parents=True, exist_ok=True)
        with phase("training"):
            trained = self.trained(request.workspace)
        with phase("index"):
            folder = of_documents(self, corpus, trained, self._posts)
            vectors = Vectors.load(folder)
            index = self._index(vectors, folder)
            find = partial(self._search_vectors, vectors=vectors, index=index, rough=self._rough(vectors, index))
        with phase("search"):
            asked, ids = self._queries(request.topics, trained)
            hits = self._ranked(request, [topic for topic in request.topics if topic.id in asked], asked, vectors, find)
        self._picture(asked, vectors, folder)
        note(cost.VECTORS, len(vectors.values))
        # A FAISS index is stored next to the vectors; a search needs both.
        folders = [folder, *([adapters.kept_folder(vectors, folder)] if self.precision == "approximate" else [])]
        note(cost.INDEX, sum(each.stat().st_size for at in folders for each in at.rglob("*") if each.is_file()))
        if index is not None and request.pool is None:
            search.note_recall(
                self.name,
                self.precision,
                hits,
                lambda sample: self._search_vectors([asked[ids[number]] for number in sample], vectors, None),
                self.depth,
            )
        return search.as_run(self.name, ids, hits, vectors)

    # ---- search -------------------------------------------------------------------------------------------------

    def _queries(self, topics: Topics, trained: Trained) -> tuple[dict[str, QueryVectors], list[str]]:
        """Returns the query vectors of topics by id, and the ids of topics with vectors in order."""
        from harness.systems.mathamr.training import trainer as training

        asked = [data.asked(topic, self.task) for topic in topics if self.task == "posts" or topic.formulas]
        graphs = data.graphs_of(asked, self.sentences)
        items = [(post.id, restrict_graph(graphs[post.id], self.formulas)) for post in asked if post.id in graphs]
        encoded = encode_posts(items, trained.vocabulary, self.structure, self.auxiliary)
        pack = Pack.memory(item for item in encoded if not _refused(*item))
        tensors = training.encode(trained.model, pack, list(range(len(pack))), trained.model.settings, self.runs_on)
        by_id = topics.by_id()
        out: dict[str, QueryVectors] = {}
        for number, (name, tensor) in enumerate(zip(pack.ids, tensors, strict=True)):
            rows = tensor.numpy()
            if self.task == "posts":
                out[name] = QueryVectors(
                    rows, len(rows) - 1 if self.structure != "none" else -1, pack[number].types.tolist()
                )
                continue
            wanted = by_id[name].formulas[0].id
            places = [place for place, known in enumerate(pack.formula_ids(number)) if known == wanted]
            if places:
                out[name] = QueryVectors(rows[places[0] : places[0] + 1], 0)
        without = [topic.id for topic in topics if topic.id not in out]
        if without:
            log_line(f"{len(without)} of {len(topics)} topics have no vectors, such as {without[0]}")
        return out, [topic.id for topic in topics if topic.id in out]

    def _index(self, vectors: Vectors, folder: Path) -> search.NeighbourIndex | adapters.Qdrant | None:
        """Returns the index of the vectors in a folder, or None for exact search; a FAISS index is cached there."""
        if self.precision == "exact":
            return None
        if self.precision == "qdrant":
            name = f"harness-{folder.name}"
            return adapters.kept_collection(adapters.connect(), name, vectors, formulas=self.task == "formulas")
        return adapters.kept_index(vectors, folder)

    def _picture(self, asked: Mapping[str, QueryVectors], vectors: Vectors, folder: Path) -> None:
        """Records the vector similarities of the pairs in `pictured`; reports pairs without vectors."""
        noted = []
        for topic, document in (self.pictured or {}).items():
            rows = vectors.rows([document])
            if topic not in asked or not rows.size or self.task != "posts":
                log_line(
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

    def _ranked(
        self,
        request: Request,
        topics: Sequence[Topic],
        asked: Mapping[str, VectorQuery],
        vectors: Vectors,
        find: Callable[[Sequence[VectorQuery]], list[search.Hits]],
    ) -> list[search.Hits]:
        """Returns the hits of each topic. If documents come from a pool, all of it is scored, topic by topic."""
        if request.pool is not None:
            pooled = ((topic, vectors.rows(request.pool.get(topic.id, frozenset()))) for topic in queries(topics))
            among = (self.depth, self.strategy)
            return [
                search.best_among(asked[topic.id], vectors, rows, *among, mean=self._mean) for topic, rows in pooled
            ]
        out: list[search.Hits] = []
        begun = clock()
        with progress("searching, topics", len(topics)) as told:
            for at in range(0, len(topics), self.together):
                part = topics[at : at + self.together]
                begin = clock()
                out += find([asked[topic.id] for topic in part])
                share = (clock() - begin) / len(part)
                cost.answered({topic.id: share for topic in part})
                told.add(len(part))
        if out:
            note(cost.TOGETHER, self.together)
            note(cost.RATE, round(len(out) / max(clock() - begun, 1e-9), 2))
        return out

    def _rough(self, vectors: Vectors, index: search.NeighbourIndex | adapters.Qdrant | None) -> Rough | None:
        """Returns a torch scorer of all documents if requested by `maxsim` and applicable; None: use NumPy."""
        if self.maxsim == "numpy" or index is not None or self.strategy != "colbert":
            return None
        from harness.systems.dense import maxsim_torch

        return maxsim_torch.rough(vectors, self.runs_on, mean=self._mean)

    @property
    def _posts(self) -> list[str]:
        """Returns the corpora of posts whose formulas are ranked; none if posts are ranked."""
        return [name for name in (self.posts, self.unanswered) if name and self.task == "formulas"]

    @property
    def _mean(self) -> bool:
        """Returns whether MaxSim is divided by the number of a query's vectors (equation 3.7)."""
        return bool(self.model.get("normalise", True))

    def _search_vectors(
        self,
        asked: Sequence[VectorQuery],
        vectors: Vectors,
        index: search.NeighbourIndex | adapters.Qdrant | None,
        rough: Rough | None = None,
    ) -> list[search.Hits]:
        # A formula has one vector, so all strategies are equivalent; indexes support only `single` for it.
        strategy = "single" if self.task == "formulas" and index is not None else self.strategy
        more: dict[str, Any] = {"k": self.depth, "depth": self.candidates, "ef": self.ef, "mean": self._mean}
        if isinstance(index, adapters.Qdrant):
            return adapters.qdrant_search(asked, index, strategy, "approximate", **more)
        precision = "exact" if index is None else "approximate"
        return search.search_vectors(asked, vectors, strategy, precision, index=index, rough=rough, **more)


def _named(types: Sequence[int]) -> list[str]:
    """Names vectors by their types, numbered: F1, F2, S1, D."""
    seen: Counter[str] = Counter()
    out = []
    for kind in types:
        letter = TYPE_NAMES[kind][0].upper()
        seen[letter] += 1
        out.append(letter if letter == "D" else f"{letter}{seen[letter]}")
    return out


def _refused(topic: str, item: EncodedGraph | HarnessError) -> bool:
    """Returns whether a topic's graph could not be encoded, and reports it."""
    if isinstance(item, HarnessError):
        log_line(f"topic {topic}: left out: {item}")
    return isinstance(item, HarnessError)

"""Bi-encoders: documents and topics are encoded separately as vectors and ranked by inner product."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar

import numpy as np

from harness.collections.corpus import Corpus, Document
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import DryRunError, HarnessError
from harness.io import checks, config
from harness.store.cost import answered, note, phase, queries
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import ann, chroma, documents, encoder, heads, search, texts, variants, vectors
from harness.systems.dense.documents import EncoderSource
from harness.systems.dense.engines import EncoderSettings, Matrix, TextEncoder
from harness.systems.dense.maxsim import Rows
from harness.systems.dense.search import Hits
from harness.systems.dense.training import tuned
from harness.systems.dense.training.settings import Tuning, tuning

_SETTINGS = (*("pooling", "prefixes", "normalise", "length", "eos", "precision", "windows"), *("dimensions", "devices"))
SEARCHES = (*search.SEARCHES, "chroma")
_MOST = 1e6  # the largest weight


@dataclass(frozen=True)
class BiEncoder(heads.TopicTexts, heads.OverFirst):
    """A bi-encoder: ranks documents by inner product with the topic, which is the cosine if vectors are normalised.

    Parameters
    ----------
    name : name of the run.
    model : see `harness.systems.dense.models.find_model`.
    parts : parts of a document, each a text with its own vector: name -> fields (title, body, tags, id, columns of the
        corpus), joined. A document in which all parts are empty is excluded.
    weights : part -> weight of its similarity; 1 by default.
    combine : how the similarities of a document's parts are combined: weighted `sum`, in which an empty part counts 0,
        or `max`.
    query : fields of a topic (title, body, tags, formulas), joined.
    join : separator of the fields of a part.
    view : `latex`, `text` or `mathberta`: see `harness.systems.dense.texts.of_document`.
    pooling, prefixes, normalise, length, eos, precision, windows, dimensions, devices : see
        `harness.systems.dense.engines.EncoderSettings`.
    characters : maximum characters of an input, prefix included; None for no limit.
    storage : format of stored vectors: `float32`, or `float16`, which halves the size and changes cosines by at most
        0.0005.
    search : `exact`, or approximate over an HNSW graph by FAISS (`approximate`) or Chroma (`chroma`); each run
        reports the recall of approximate search.
    first, k : ranking to re-rank (the name of a system, the configuration of one, or a run file), and how many of its
        top documents are re-ranked for each topic (100 by default). Only these are encoded; the others keep their order
        below them. None ranks the whole corpus.
    training : fine-tuning of the model before it is used: see `harness.systems.dense.training.settings.Tuning`.
    tokens : maximum word pieces in one forward pass; 0 for the default of the device.
    calls : `mode`, `budget` and `cache` if the model is an endpoint: see
    `harness.systems.dense.encoder.EndpointCalls`.
    """

    work: ClassVar[str] = "encoder"  # see `harness.papers.work`

    name: str
    model: checks.Words
    parts: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"answer": ["body"]})
    weights: Mapping[str, float] = field(default_factory=dict)
    combine: Annotated[str, partial(checks.choice, known=search.COMBINATIONS)] = "sum"
    query: texts.TopicFields = ("title", "body")
    join: texts.Join = " "
    view: texts.ViewName = "latex"
    pooling: str | None = None
    prefixes: Mapping[str, str] | None = None
    normalise: bool | None = None
    length: int | None = None
    eos: bool = False
    precision: str = "float32"
    windows: bool = False
    dimensions: int | None = None
    devices: Sequence[str] | None = None
    characters: checks.Positive | None = None
    storage: Annotated[str, partial(checks.choice, known=vectors.STORAGES)] = "float32"
    search: Annotated[str, partial(checks.choice, known=SEARCHES)] = "exact"
    depth: checks.Positive = 1000
    first: str | Mapping[str, Any] | None = None
    k: checks.Positive | None = None
    training: Mapping[str, Any] | None = None
    device: hardware.Device = "auto"
    tokens: checks.Natural = 0
    calls: Mapping[str, Any] | None = None

    nested: ClassVar[Mapping[str, type]] = {"training": Tuning, "calls": encoder.EndpointCalls}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.parts, Mapping) or not self.parts:
            raise HarnessError(f"key 'parts' is {self.parts!r}, expected names and lists of fields")
        for name, fields in self.parts.items():
            texts.check(f"parts.{name}", fields)
        if not isinstance(self.weights, Mapping):
            raise HarnessError(f"key 'weights' is {self.weights!r}, expected names of parts and numbers")
        for name, weight in self.weights.items():
            checks.choice("weights", str(name), self.parts)
            checks.check_number(f"weights.{name}", weight)
            if weight and not 1 / _MOST <= weight <= _MOST:  # beyond, scores could not be told apart in float32
                raise HarnessError(f"key 'weights.{name}' is {weight:g}, expected 0 or {1 / _MOST:g} to {_MOST:g}")
        if not any(self.weights.get(name, 1) for name in self.parts):
            raise HarnessError(f"key 'weights' is {dict(self.weights)}, in which no part counts; expected one above 0")
        if self.training is not None:
            tuning("bi", self.training)
        self._settings, self._calls  # noqa: B018  (validates them at once)
        longest = max(map(len, (self.prefixes or {}).values()), default=0)
        if self.characters is not None and self.characters <= longest:
            raise HarnessError(f"key 'characters' is {self.characters}, and a prefix has {longest} of its own")

    def _reads(self) -> dict[str, Any]:
        """Returns what a run depends on besides the configuration: model, arithmetic, and data of fine-tuning."""
        source = self._source(self.model, hardware.device(self.device))
        training = None if self.training is None else tuned.reads("bi", self.model, self.training)
        return {"model": source.identity(), "arithmetic": source.arithmetic(), "training": training}

    def _left_out(self) -> frozenset[str] | None:
        """Returns the collections whose topics the training left out; see `tuned.trains_without`."""
        return tuned.trains_without("bi", self.model, self.training)

    def _notes(self) -> tuple[str, ...]:
        """Returns sentences for a run's metadata: on the fine-tuning, and on other precision, devices or dimensions."""
        own = () if self.training is None else tuning("bi", self.training).notes()
        return (*own, *variants.notes(self.precision, self.devices, self.dimensions))

    def __call__(self, request: Request) -> Run:
        """Ranks the corpus, or each topic's pool; topics without text are excluded.

        Raises
        ------
        HarnessError
            There is no corpus; the model, a package or a GPU is missing; no topic has a text.
        """
        corpus = request.corpus_for(self.name)
        ann.check(self.search)  # fail before the documents are encoded
        if self._calls.mode == "dry" and (counted := self.dry(request)):
            raise DryRunError(f"system {self.name}: dry run, nothing is searched: {counted}; run it with mode live")
        request.workspace.mkdir(parents=True, exist_ok=True)
        on = hardware.device(self.device)
        model = tuned.loaded(
            *("bi", self.model, self.training, corpus, request.workspace, on),
            lambda folder: self._source(folder, "cpu").load(),
        )
        source = self._source(model, on)
        loaded = source.load()
        if loaded.described:
            note(f"{self.name}: model", loaded.described)
        if self._first is not None:
            return self._reranked(request, source, loaded)
        with phase("index"):
            parts = [self._vectors(corpus, name, source, loaded) for name in self.parts]
        worded = self._worded(request.topics)
        asked = self._asked_vectors(worded, source, loaded)
        with phase("search"):
            ranked = self._search(request, [topic for topic, _ in worded], asked, parts)
        return search.as_run(self.name, [topic.id for topic, _ in worded], ranked, parts[0].vectors)

    def dry(self, request: Request) -> str:
        """Returns the estimated cost of an endpoint's missing vectors; empty without an endpoint."""
        if self.model not in config.names("llm"):
            return ""
        corpus = request.corpus_for(self.name)
        read = [("document", text) for document in corpus for text in self._texts(document) if text.strip()]
        read += [("query", text) for topic in request.topics if (text := self._asked(topic))]
        sent = ((role, encoder.utf8(text)) for role, text in read)
        estimate = encoder.estimate(self.model, self._settings, self._calls, self.characters or 0, sent)
        return f"vectors of {self.model} {estimate}"

    def topic_vectors(self, topics: Iterable[Topic]) -> tuple[list[str], Matrix]:
        """Returns the ids of those topics that have a text, and their vectors, shape (topics, dimensions).

        Raises
        ------
        HarnessError
            The model is fine-tuned, which needs a corpus, or is missing; no topic has a text.
        """
        if self.training is not None:
            raise HarnessError(f"system {self.name}: its model is fine-tuned first; name the folder of the tuned one")
        source = self._source(self.model, hardware.device(self.device))
        worded = self._worded(list(topics))
        return [topic.id for topic, _ in worded], self._asked_vectors(worded, source, source.load())

    def _vectors(self, corpus: Corpus, part: str, source: EncoderSource, loaded: TextEncoder) -> vectors.TextVectors:
        """Returns the vectors of one part of the documents, from the store or made now."""

        fields = self.parts[part]
        kept = documents.vectors_of(
            corpus, fields, self.view, source, lambda: loaded, storage=self.storage, join=self.join
        )
        self._note_cut(f"documents, {part}", kept.cut, len(kept.vectors), loaded)
        return kept

    def _asked_vectors(self, worded: Sequence[tuple[Topic, str]], source: EncoderSource, loaded: TextEncoder) -> Matrix:
        """Returns the vectors of topics, shape (topics, dimensions)."""
        with phase("encoding topics"):  # not part of the search time: the vectors may come from the store
            asked = documents.vectors_of_topics([text for _, text in worded], source, loaded)
            self._note_cut("topics", asked.cut, len(worded), loaded)
        return np.asarray(asked.vectors.values)

    def _reranked(self, request: Request, source: EncoderSource, loaded: TextEncoder) -> Run:
        """Re-ranks the top documents of the first ranking; topics without text keep their order."""
        run, text_of = self.read(request, self._k, self._texts)
        names = sorted(text_of)
        with phase("index"):
            parts = []
            for number, part in enumerate(self.parts):
                named = [(name.decode(), text_of[name][number]) for name in names]
                kept = documents.vectors_of_texts(named, source, loaded, storage=self.storage)
                self._note_cut(f"documents, {part}", kept.cut, len(named), loaded)
                parts.append(kept.vectors)
        worded = self._worded(request.topics)
        asked = self._asked_vectors(worded, source, loaded)
        row_of = {topic.id: row for row, (topic, _) in enumerate(worded)}
        weights = [float(self.weights.get(name, 1.0)) for name in self.parts]

        def scores(topic: str, docs: Sequence[bytes]) -> dict[bytes, float]:
            rows = parts[0].rows(doc.decode() for doc in docs)
            (hits,) = search.nearest(asked[[row_of[topic]]], parts, weights, self.combine, k=len(docs), rows=rows)
            return hits.by_doc(parts[0])

        with phase("search"):
            return heads.rescored(self.name, run, request.topics.topics, row_of, self._k, scores)

    def _search(
        self, request: Request, topics: Sequence[Topic], rows: Matrix, parts: Sequence[vectors.TextVectors]
    ) -> list[Hits]:
        """Searches exactly or by the configured index; with pools, scores each topic's pool."""
        made = [part.vectors for part in parts]
        out = None if request.excluded is None else request.excluded.among(made[0].ids)
        weights = [float(self.weights.get(name, 1.0)) for name in self.parts]

        def hits(asked: Rows, among: Rows | None, indexes: Sequence[search.NeighbourIndex] | None) -> list[Hits]:
            gone = None if out is None else lambda number: out(topics[int(asked[number])].id)
            return search.nearest(
                rows[asked], made, weights, self.combine, k=self.depth, rows=among, indexes=indexes, out=gone
            )

        if request.pool is not None:
            pools = ((topic, request.allowed(topic) or frozenset()) for topic in queries(topics))
            return [hits(np.array([at]), made[0].rows(pool), None)[0] for at, (_, pool) in enumerate(pools)]
        with ExitStack() as stack:
            indexes: Sequence[search.NeighbourIndex] | None = None
            if self.search == "approximate":
                indexes = [ann.kept_index(part.vectors, part.folder) for part in parts]
            elif self.search == "chroma":
                indexes = [stack.enter_context(chroma.kept(part.vectors, part.folder)) for part in parts]
            begin = time.perf_counter()
            approximate = hits(np.arange(len(topics)), None, indexes)
        answered(dict.fromkeys((topic.id for topic in topics), (time.perf_counter() - begin) / len(topics)))
        if indexes is not None:
            search.note_recall(
                self.name, self.search, approximate, lambda sample: hits(np.array(sample), None, None), self.depth
            )
        return approximate

    def _note_cut(self, what: str, cut: int, count: int, loaded: TextEncoder) -> None:
        """Prints and records how many texts are truncated."""
        heads.note_cut(self.name, what, cut, count, {"word pieces": loaded.length, "characters": self.characters or 0})

    def _source(self, model: str, device: str) -> EncoderSource:
        """Returns how a model of this configuration is loaded."""
        return EncoderSource(model, self._settings, device, self.tokens, self.characters or 0, self._calls)

    def _texts(self, document: Document) -> tuple[str, ...]:
        """Returns the texts of a document's parts."""
        parts = self.parts.values()
        return tuple(documents.text_of(document, fields, self.view, self.join) for fields in parts)

    @property
    def _k(self) -> int:
        return self.k or heads.K

    @cached_property
    def _calls(self) -> encoder.EndpointCalls:
        return checks.typed(encoder.EndpointCalls, self.calls or {}, "key 'calls'")

    @cached_property
    def _settings(self) -> EncoderSettings:
        return EncoderSettings(**{key: getattr(self, key) for key in _SETTINGS})

"""Bi-encoders: documents and topics as vectors of one model each, ranked by inner products."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.collections.corpus import Corpus
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks
from harness.io.console import say
from harness.store.cost import answered, note, phase, queries
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import ann, documents, encoder, search, texts, topic_vectors, vectors
from harness.systems.dense.documents import Source
from harness.systems.dense.engines import Encoder, Matrix, Settings
from harness.systems.dense.maxsim import Rows
from harness.systems.dense.search import Hits
from harness.systems.dense.training import tuned
from harness.systems.dense.training.settings import tuning

_SETTINGS = ("pooling", "prefixes", "normalise", "length", "eos", "precision")
_MOST = 1e6  # a weight


@dataclass(frozen=True)
class BiEncoder:
    """Documents by the inner product of their vectors with the topic's; the cosine where vectors are normalised.

    Parameters
    ----------
    name : of the run.
    model : see `harness.systems.dense.models.find`.
    parts : what is encoded of a document: name -> fields (title, body, tags, id, columns of the corpus), joined. Each
        part is a text with a vector of its own; a document without any text is left out.
    weights : part -> factor of its similarity; those not named count once.
    combine : of a document's similarities: their weighted `sum`, in which a part without text counts 0, or `max`.
    query : fields of a topic (title, body, tags), joined.
    view : `latex` or `text`: see `harness.systems.dense.texts.of_document`.
    pooling, prefixes, normalise, length, eos, precision : see `harness.systems.dense.engines.Settings`.
    storage : numbers that are kept: `float32`, or `float16`, half as large, whose cosines err by at most .0005.
    search : `exact`, or `approximate`: over a graph of neighbours by FAISS; its recall is measured in each run.
    training : how the model is fine-tuned first: see `harness.systems.dense.training.settings.Tuning`.
    tokens : word pieces that go through the model at one time; 0 leaves it to the device.
    """

    name: str
    model: str
    parts: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"answer": ["body"]})
    weights: Mapping[str, float] = field(default_factory=dict)
    combine: str = "sum"
    query: Sequence[str] = ("title", "body")
    view: str = "latex"
    pooling: str | None = None
    prefixes: Mapping[str, str] | None = None
    normalise: bool | None = None
    length: int | None = None
    eos: bool = False
    precision: str = "float32"
    storage: str = "float32"
    search: str = "exact"
    depth: int = 1000
    training: Mapping[str, Any] | None = None
    device: str = "auto"
    tokens: int = 0

    def __post_init__(self) -> None:
        checks.text("model", self.model)
        if not isinstance(self.parts, Mapping) or not self.parts:
            raise HarnessError(f"key 'parts' is {self.parts!r}, expected names and lists of fields")
        for name, fields in self.parts.items():
            texts.check(f"parts.{name}", fields, self.view)
        if not isinstance(self.weights, Mapping):
            raise HarnessError(f"key 'weights' is {self.weights!r}, expected names of parts and numbers")
        for name, weight in self.weights.items():
            checks.choice("weights", str(name), self.parts)
            checks.number(f"weights.{name}", weight)
            if weight and not 1 / _MOST <= weight <= _MOST:  # 32 bits could not tell scores apart
                raise HarnessError(f"key 'weights.{name}' is {weight:g}, expected 0 or {1 / _MOST:g} to {_MOST:g}")
        if not any(self.weights.get(name, 1) for name in self.parts):
            raise HarnessError(f"key 'weights' is {dict(self.weights)}, in which no part counts; expected one above 0")
        texts.check("query", self.query, self.view, texts.TOPIC_FIELDS)
        checks.choice("combine", self.combine, search.COMBINATIONS)
        checks.choice("storage", self.storage, vectors.STORAGES)
        checks.choice("search", self.search, search.SEARCHES)
        checks.whole("depth", self.depth, low=1)
        checks.whole("tokens", self.tokens)
        checks.choice("device", self.device, hardware.DEVICES)
        if self.training is not None:
            tuning("bi", self.training)
        self._settings  # noqa: B018  (a fault in it is found at once)

    def reads(self) -> dict[str, Any]:
        """What decides vectors besides the corpus and the code: the model's files, and the device."""
        source = Source(self.model, self._settings, hardware.device(self.device))
        model = encoder.identity(self.model, self._settings)
        training = None if self.training is None else tuned.reads("bi", self.model, self.training)
        return {"model": model, "arithmetic": source.arithmetic(), "training": training}

    def trains_without(self) -> frozenset[str] | None:
        """The collections that its model has seen nothing of; None if it was not fine-tuned here."""
        return tuned.trains_without("bi", self.model, self.training)

    def notes(self) -> tuple[str, ...]:
        """How its model was fine-tuned."""
        return () if self.training is None else tuning("bi", self.training).notes()

    def __call__(self, request: Request) -> Run:
        """Rank the corpus, or each topic's pool; topics without text are left out.

        Raises
        ------
        HarnessError
            There is no corpus; the model, a package or a GPU is missing; no topic has a text.
        """
        corpus = request.corpus_for(self.name)
        ann.check(self.search)  # rather than after the documents have been encoded
        request.workspace.mkdir(parents=True, exist_ok=True)
        on = hardware.device(self.device)
        model = tuned.loaded("bi", self.model, self.training, corpus, request.workspace, on)
        source = Source(model, self._settings, on, self.tokens)
        loaded = source.load()
        with phase("index"):
            parts = [self._vectors(corpus, name, source, loaded, request.workspace) for name in self.parts]
        worded = self._worded(request)
        with phase("encoding topics"):  # whose vectors may be in the store, so that it says nothing of the search
            asked = topic_vectors.vectors_of([text for _, text in worded], source, loaded, request.workspace)
            self._note_cut("topics", asked.cut, len(worded), loaded)
        with phase("search"):
            found = self._search(request, [topic for topic, _ in worded], asked.values, parts)
        return search.as_run(self.name, [topic.id for topic, _ in worded], found, parts[0].vectors)

    def _vectors(self, corpus: Corpus, part: str, source: Source, loaded: Encoder, workspace: Path) -> vectors.Made:
        """The vectors of one part of the documents, from the store or made now."""

        fields = self.parts[part]
        kept = documents.vectors_of(corpus, fields, self.view, source, lambda: loaded, workspace, storage=self.storage)
        self._note_cut(f"documents, {part}", kept.cut, len(kept.vectors), loaded)
        return kept

    def _search(
        self, request: Request, topics: Sequence[Topic], rows: Matrix, parts: Sequence[vectors.Made]
    ) -> list[Hits]:
        made = [part.vectors for part in parts]
        weights = [float(self.weights.get(name, 1.0)) for name in self.parts]

        def hits(row: Matrix, among: Rows | None, indexes: Sequence[search.Index] | None) -> list[Hits]:
            return search.nearest(row, made, weights, self.combine, k=self.depth, rows=among, indexes=indexes)

        if request.pool is not None:
            pools = ((topic, request.allowed(topic) or frozenset()) for topic in queries(topics))
            return [hits(rows[[at]], made[0].rows(pool), None)[0] for at, (_, pool) in enumerate(pools)]
        indexes = None if self.search == "exact" else [ann.kept_index(part.vectors, part.folder) for part in parts]
        begin = time.perf_counter()
        found = hits(rows, None, indexes)
        answered(dict.fromkeys((topic.id for topic in topics), (time.perf_counter() - begin) / len(topics)))
        if indexes is not None:
            search.note_recall(self.name, self.search, found, lambda sample: hits(rows[sample], None, None), self.depth)
        return found

    def _asked(self, topic: Topic) -> str:
        return texts.of_topic(topic, self.query, self.view).strip()

    def _worded(self, request: Request) -> list[tuple[Topic, str]]:
        """The topics with their texts; those without are named, and have no ranking."""
        worded = [(topic, text) for topic in request.topics if (text := self._asked(topic))]
        if without := [topic.id for topic in request.topics if not self._asked(topic)]:
            say(f"{self.name}: {len(without)} topics have no text and are left out, such as {without[0]}")
        if not worded:
            raise HarnessError(f"system {self.name}: no topic has a text in the fields {', '.join(self.query)}")
        return worded

    def _note_cut(self, what: str, cut: int, count: int, loaded: Encoder) -> None:
        """Say and note how many texts are longer than the model reads."""
        note(f"{self.name}: texts cut, {what}", {"cut": cut, "texts": count, "word pieces": loaded.length or "all"})
        if cut:
            say(
                f"{self.name}: {cut:,} of {count:,} texts ({what}) are longer than the {loaded.length} word pieces read"
            )

    @cached_property
    def _settings(self) -> Settings:
        return Settings(**{key: getattr(self, key) for key in _SETTINGS})

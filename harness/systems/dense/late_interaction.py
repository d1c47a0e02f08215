"""Late interaction: documents and topics are encoded as token vectors and ranked by MaxSim, as by ColBERT."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np

from harness.collections.corpus import Document
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks
from harness.store import cost
from harness.store.cost import answered, note, phase, queries
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import ann, documents, heads, search, texts, vectors
from harness.systems.dense.engines import TextEncoder
from harness.systems.dense.maxsim import Vectors
from harness.systems.dense.search import Hits, Rough, VectorQuery
from harness.systems.dense.token_encoder import TokenModelSource, TokenSettings
from harness.systems.dense.training import tuned


@dataclass(frozen=True)
class LateInteraction(heads.TopicTexts, heads.OverFirst):
    """Ranks documents by MaxSim: the sum, over a topic's token vectors, of the best cosine with a document's.

    Memory: exact search maps the stored vectors from their file; besides, it takes 4 MiB of products, the vectors of a
    block of documents, and 4 bytes for each document and topic of a pass, at most 1 GiB, or a single topic's.

    Parameters
    ----------
    name : name of the run.
    model : a ColBERT-like model: see `harness.systems.dense.token_encoder`.
    document, query : fields of a document (title, body, tags, columns of the corpus) and of a topic, joined.
    join : separator of the fields of a document.
    view : `latex`, `text` or `mathberta`: see `harness.systems.dense.texts.of_document`.
    length, query_length, prefixes, precision, projection : see `harness.systems.dense.token_encoder.TokenSettings`.
    storage : format of stored vectors: `float32`, or `float16`, which halves the size.
    search : `exact`; `approximate`: MaxSim of documents with a vector near a topic's vectors, by FAISS. Final
        scores are exact, and the recall of approximate search is measured.
    candidates, ef : of approximate search: see `harness.systems.dense.search.first_stage`.
    maxsim : library that computes exact search, `numpy`, or `torch` on the `device`; the run is the same.
    first, k : ranking to re-rank (the name of a system, the configuration of one, or a run file), and how many of its
        top documents are re-ranked for each topic (100 by default). None ranks the whole corpus.
    together : topics searched in one batch; the latency of each is an equal share of the batch's time.
    tokens : maximum word pieces in one forward pass; 0 for the default of the device.

    Raises
    ------
    HarnessError
        A key has an invalid value, or the first system is invalid.

    Examples
    --------
    >>> LateInteraction("colbert", "lightonai/GTE-ModernColBERT-v1", search="approximate").depth
    1000
    >>> LateInteraction("colbert", "lightonai/GTE-ModernColBERT-v1", k=10)
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'k' cuts a first ranking; give the key 'first' as well
    """

    name: str
    model: checks.Words
    document: texts.Fields = ("body",)
    query: texts.TopicFields = ("title", "body")
    join: texts.Join = " "
    view: texts.ViewName = "latex"
    length: int | None = None
    query_length: int | None = None
    prefixes: Mapping[str, str] | None = None
    precision: str = "float32"
    projection: str = "model"
    storage: Annotated[str, partial(checks.choice, known=vectors.STORAGES)] = "float32"
    search: Annotated[str, partial(checks.choice, known=search.SEARCHES)] = "exact"
    candidates: checks.Positive | None = None
    ef: checks.Positive | None = None
    maxsim: Literal["numpy", "torch"] = "numpy"
    depth: checks.Positive = 1000
    first: str | Mapping[str, Any] | None = None
    k: checks.Positive | None = None
    together: checks.Positive = 32
    device: hardware.Device = "auto"
    tokens: checks.Natural = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settings  # noqa: B018  (validates them at once)

    def _reads(self) -> dict[str, Any]:
        """Returns what a run depends on besides the configuration: the model and its arithmetic."""
        source = self._source(hardware.device(self.device))
        return {"model": source.identity(), "arithmetic": source.arithmetic()}

    def _left_out(self) -> frozenset[str] | None:
        """Returns the collections whose topics the model's training left out."""
        return tuned.left_out(self.model)

    def _notes(self) -> tuple[str, ...]:
        plain = ("Token vectors are those of a transformer that was not trained for late interaction.",)
        return plain if self.projection == "none" else ()

    def __call__(self, request: Request) -> Run:
        """Ranks the corpus, each topic's pool, or the first ranking's top documents.

        Topics without text are excluded, or keep the order of the first ranking.

        Raises
        ------
        HarnessError
            There is no corpus; the model, a package or a GPU is missing; no topic has a text.
        """
        corpus = request.corpus_for(self.name)
        ann.check(self.search)  # fail before the documents are encoded
        request.workspace.mkdir(parents=True, exist_ok=True)
        source = self._source(hardware.device(self.device))
        loaded = source.load()
        if self._first is not None:
            return self._reranked(request, source, loaded)
        with phase("index"):
            made = documents.vectors_of(
                corpus, self.document, self.view, source, lambda: loaded, storage=self.storage, join=self.join
            )
            self._note_cut("documents", made.cut, len(made.vectors), loaded.length)
        worded, asked = self._query_vectors(request.topics, source, loaded)
        ranked = self._ranked(request, [topic for topic, _ in worded], asked, made)
        note(cost.VECTORS, len(made.vectors.values))
        return search.as_run(self.name, [topic.id for topic, _ in worded], ranked, made.vectors)

    def _query_vectors(
        self, topics: Iterable[Topic], source: TokenModelSource, loaded: TextEncoder
    ) -> tuple[list[tuple[Topic, str]], list[VectorQuery]]:
        """Returns the topics with their texts, and their token vectors."""
        worded = self._worded(topics)
        with phase("encoding topics"):  # not part of the search time: the vectors may come from the store
            made = documents.vectors_of_topics([text for _, text in worded], source, loaded)
            self._note_cut("topics", made.cut, len(worded), loaded.query_length)
        held, ends = made.vectors, made.vectors.start.tolist()
        if empty := [topic.id for (topic, _), size in zip(worded, np.diff(held.start), strict=True) if not size]:
            raise HarnessError(f"model {loaded.name}: the text of topic {empty[0]} has no token vectors")
        return worded, [VectorQuery(np.asarray(held.values[begin:end])) for begin, end in pairwise(ends)]

    def _reranked(self, request: Request, source: TokenModelSource, loaded: TextEncoder) -> Run:
        """Re-ranks the top documents of the first ranking; topics without text keep their order."""
        k = self.k or heads.K
        run, read = self.read(request, k, self._document_text)
        with phase("index"):
            named = [(name.decode(), read[name]) for name in sorted(read)]
            made = documents.vectors_of_texts(named, source, loaded, storage=self.storage)
            self._note_cut("documents", made.cut, len(named), loaded.length)
        worded, asked = self._query_vectors(request.topics, source, loaded)
        query = {topic.id: one for (topic, _), one in zip(worded, asked, strict=True)}

        def scores(topic: str, docs: Sequence[bytes]) -> dict[bytes, float]:
            rows = made.vectors.rows(doc.decode() for doc in docs)
            return search.best_among(query[topic], made.vectors, rows, len(docs)).by_doc(made.vectors)

        with phase("search"):
            return heads.rescored(self.name, run, request.topics.topics, query, k, scores)

    # ---- search -------------------------------------------------------------------------------------------------

    def _ranked(
        self, request: Request, topics: Sequence[Topic], asked: Sequence[VectorQuery], made: vectors.TextVectors
    ) -> list[Hits]:
        """Returns the hits of each topic. If documents come from a pool, all of it is scored, topic by topic."""
        kept = made.vectors
        if request.pool is not None:
            with phase("search"):
                pools = ((kept.rows(request.allowed(topic) or ()), at) for at, topic in enumerate(queries(topics)))
                return [search.best_among(asked[at], kept, rows, self.depth) for rows, at in pools]
        rough = self._rough(kept)

        def exact(some: Sequence[VectorQuery], k: int) -> list[Hits]:
            return search.search_vectors(some, kept, k=k, rough=rough)

        index = ann.kept_index(kept, made.folder) if self.search == "approximate" else None
        how: dict[str, Any] = {"depth": self.candidates, "ef": self.ef, "index": index}

        def near(some: Sequence[VectorQuery], k: int) -> list[Hits]:
            return search.search_vectors(some, kept, "colbert", "approximate", k=k, **how)

        out = None if request.excluded is None else request.excluded.among(kept.ids)
        ranked: list[Hits] = []
        find = exact if index is None else near
        with phase("search"):
            for begin in range(0, len(asked), self.together):
                part = range(begin, min(begin + self.together, len(asked)))
                started = time.perf_counter()
                gone = None if out is None else [out(topics[at].id) for at in part]
                # Documents that are excluded afterwards do not shorten the ranking.
                more = 0 if gone is None else max(int(each.sum()) for each in gone)
                hits = find([asked[at] for at in part], self.depth + more)
                if gone is not None:
                    hits = [one.without(each, self.depth) for one, each in zip(hits, gone, strict=True)]
                ranked += hits
                answered({topics[at].id: (time.perf_counter() - started) / len(part) for at in part})
        if self.search != "exact":
            search.note_recall(
                self.name, self.search, ranked, lambda few: exact([asked[at] for at in few], self.depth), self.depth
            )
        return ranked

    def _rough(self, kept: Vectors) -> Rough | None:
        """Returns the approximate scorer in PyTorch that preselects documents; None with NumPy."""
        if self.maxsim == "numpy":
            return None
        from harness.systems.dense import maxsim_torch

        return maxsim_torch.rough(kept, hardware.device(self.device))

    def _document_text(self, document: Document) -> str:
        return documents.text_of(document, self.document, self.view, self.join)

    def _note_cut(self, what: str, cut: int, count: int, length: int) -> None:
        heads.note_cut(self.name, what, cut, count, {"word pieces": length})

    def _source(self, device: str) -> TokenModelSource:
        return TokenModelSource(self.model, self._settings, device, self.tokens)  # type: ignore[arg-type]

    @cached_property
    def _settings(self) -> TokenSettings:
        return TokenSettings(self.length, self.query_length, self.prefixes, self.precision, self.projection)

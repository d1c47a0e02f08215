"""Learned sparse retrieval: documents and topics as weights of word pieces, as by SPLADE, ranked by inner product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.io import checks
from harness.store import code, cost
from harness.store.cost import note, phase
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import documents, heads, sparse_vectors, texts
from harness.systems.dense.sparse_vectors import SparseModel, SparseModelSource, SparseSettings
from harness.systems.dense.training import tuned
from harness.systems.ranking import rank


@dataclass(frozen=True)
class SparseEncoder(heads.TopicTexts, checks.Checked):
    """Ranks documents by the inner product of learned sparse vectors, exactly, with an inverted index.

    Documents that share no dimension with a topic are not ranked, except from a pool. The number of non-zeros of
    documents and topics is recorded in the metadata of the run.

    Parameters
    ----------
    name : name of the run.
    model : see `harness.systems.dense.sparse_vectors.load_sparse_model`.
    document, query : fields of a document (title, body, tags, columns of the corpus) and of a topic, joined.
    join : separator of the fields of a document.
    view : `latex`, `text` or `mathberta`: see `harness.systems.dense.texts.of_document`.
    length, prefixes, precision, active, query_active : see `harness.systems.dense.sparse_vectors.SparseSettings`.
    depth : documents returned for each topic.
    tokens : maximum word pieces in one forward pass; 0 for the default of the device.

    Raises
    ------
    HarnessError
        A key has an invalid value.

    Examples
    --------
    >>> SparseEncoder("splade", "naver/splade-v3", active=256).depth
    1000
    >>> SparseEncoder("splade", "naver/splade-v3", active=0)
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'active' is 0, expected a whole number from 1 up
    """

    name: str
    model: checks.Words
    document: texts.Fields = ("body",)
    query: texts.TopicFields = ("title", "body")
    join: texts.Join = " "
    view: texts.ViewName = "latex"
    length: int | None = None
    prefixes: Mapping[str, str] | None = None
    precision: str = "float32"
    active: int | None = None
    query_active: int | None = None
    depth: checks.Positive = 1000
    device: hardware.Device = "auto"
    tokens: checks.Natural = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settings  # noqa: B018  (validates them at once)

    def trains_without(self) -> frozenset[str] | None:
        """Returns the collections left out of the model's training; None if it was not fine-tuned here."""
        return tuned.left_out(self.model)

    def reads(self) -> dict[str, Any]:
        """Returns the inputs of a run besides corpus and code: the model's files, the device and the number format."""
        source = self._source
        return {"model": source.identity(), "arithmetic": self._arithmetic(source)}

    def __call__(self, request: Request) -> Run:
        """Ranks the corpus, or each topic's pool; topics without text are excluded.

        Raises
        ------
        HarnessError
            There is no corpus; the model, a package or a GPU is missing; no topic has a text, or shares a dimension
            with the corpus.
        """
        corpus = request.corpus_for(self.name)
        request.workspace.mkdir(parents=True, exist_ok=True)
        source = self._source
        loaded: Any = cache(source.load)

        def read() -> Iterator[tuple[str, str]]:
            return (
                (document.id, documents.text_of(document, self.document, self.view, self.join)) for document in corpus
            )

        spec = {
            "corpus": corpus.identity(),
            "fields": list(self.document),
            "view": self.view,
            "join": self.join,
            "arithmetic": self._arithmetic(source),
            "versions": [code.of(texts.__name__), hardware.library_versions()],
        }
        with phase("index"):
            index = sparse_vectors.index_of(read, source, loaded, spec)
        asked = self._queries(request, loaded())
        said = dict(index.statistics)
        heads.note_cut(self.name, "documents", said.pop("cut"), said["documents"], {"word pieces": loaded().length})
        note(f"{self.name}: non-zeros of documents", said)
        note(cost.INDEX, index.size)
        postings = index.postings

        def score(topic: Topic) -> Any:  # noqa: ANN401
            return postings.score(asked[topic.id])

        def best(topic: Topic, ranker: Any) -> Any:  # noqa: ANN401
            return postings.best(asked[topic.id], ranker.place, ranker.depth)

        topics = [topic for topic in request.topics if topic.id in asked]
        with phase("search"):
            return rank(
                self.name,
                replace(request, topics=Topics(tuple(topics))),
                postings.ids,
                score,
                self.depth,
                "a dimension",
                best,
            )

    def _queries(self, request: Request, loaded: SparseModel) -> dict[str, dict[str, float]]:
        """Returns topic -> dimension -> weight, of the topics with a text."""
        worded = self._worded(request.topics)
        with phase("encoding topics"):
            encoded = loaded.encoded([text for _, text in worded], "query")
        heads.note_cut(self.name, "topics", int(encoded.cut.sum()), len(worded), {"word pieces": loaded.length})
        sizes = encoded.start[1:] - encoded.start[:-1]
        note(f"{self.name}: non-zeros of topics", {"topics": len(worded)} | sparse_vectors.non_zeros(sizes))
        names, weights = encoded.dimension.tolist(), encoded.weight.tolist()
        return {
            topic.id: dict(zip(map(str, names[begin:end]), weights[begin:end], strict=True))
            for (topic, _), begin, end in zip(worded, encoded.start[:-1], encoded.start[1:], strict=True)
        }

    def _arithmetic(self, source: SparseModelSource) -> list[str]:
        """Returns the device and precision that a run depends on."""
        return [source.device, self.precision]

    @property
    def _source(self) -> SparseModelSource:
        """How the model of this configuration is loaded."""
        return SparseModelSource(self.model, self._settings, hardware.device(self.device), self.tokens)

    @cached_property
    def _settings(self) -> SparseSettings:
        return SparseSettings(self.length, self.prefixes, self.precision, self.active, self.query_active)

"""Lexical systems: BM25 variants, TF-IDF in SMART notation, and sums of their scores.

The components of the MSM team's systems at ARQMath 2022 (Sections 3.2-3.4 of their paper) are parameters of these
systems; `conf/system/msm-*.yaml` combine them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from harness.collections.corpus import Corpus
from harness.data import columns
from harness.data.columns import Ids
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError, suggestion
from harness.io import checks, staging_names
from harness.store import artefacts, code
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.build import build_system
from harness.systems.keys import decisive
from harness.systems.lexical import postings, text, tokens, weighting
from harness.systems.lexical.postings import Postings, WordCounts
from harness.systems.lexical.tokens import CorpusTokens
from harness.systems.ranking import Best, Ranker, Scored, rank

T = TypeVar("T")
Spec = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Stored(Generic[T]):
    """A value whose arrays are mapped from files.

    Attributes
    ----------
    spec : its specification in the store; None if it is not stored, because its code has no fingerprint.
    """

    value: T
    spec: Spec | None


def stored(kind: str, spec: Spec | None, build: Callable[[Path], None], load: Callable[[Path], T]) -> Stored[T]:
    """Returns a value from the store, or builds it.

    Without a specification it is built in a temporary folder, whose files are deleted but stay mapped.

    Parameters
    ----------
    build : writes the value to an empty folder.
    load : maps the value in a folder.
    """
    if spec is not None:
        return Stored(load(artefacts.get_or_build(kind, spec, build)), spec)
    with staging_names.folder(kind) as folder:
        build(folder)
        return Stored(load(folder), None)


@contextmanager
def index_folder(kind: str, spec: Spec | None, build: Callable[[Path], None]) -> Iterator[Path]:
    """Opens the folder of an index, from the store or built; a temporary one without a specification."""
    if spec is not None:
        with phase("index"):
            folder = artefacts.get_or_build(kind, spec, build)
        yield folder
        return
    with staging_names.folder(kind) as folder:
        with phase("index"):
            build(folder)
        yield folder


TOPIC_FIELDS = ("title", "body", "tags")


Weights = Annotated[Mapping[str, int], checks.weights]


class LexicalIndex(Protocol):
    """An index of documents that returns scores."""

    @property
    def ids(self) -> Ids:
        """Ids of the documents, in the order of the corpus."""

    def score(self, query: Mapping[str, float]) -> Scored:
        """Returns each document's score minus that of an empty document, and the score of an empty document."""

    def best(self, query: Mapping[str, float], place: columns.Index, k: int) -> Best:
        """Returns the top k of the documents that score above an empty document, and their scores, by `ranking.top`."""


def tokens_of(corpus: Corpus, fields: Iterable[str], view: Mapping[str, Any]) -> Stored[CorpusTokens]:
    """Returns the tokens of a corpus in a view, from the store if they have been computed before."""
    names, tokenise = sorted(fields), text.configured(view, corpus.dollars)
    versions = text.version(view)
    spec = {
        **corpus.identity(),
        "fields": names,
        "view": decisive(view, text.view),
        "code": [*(versions or ()), code.of(tokens.__name__)],
    }
    known = None if versions is None else spec
    return stored(
        "tokens", known, lambda folder: tokens.write_tokens(corpus, names, tokenise, folder), CorpusTokens.load
    )


def counts_of(
    known: Stored[CorpusTokens], fields: Weights, min_count: int = 0, max_share: float = 1.0
) -> Stored[WordCounts]:
    """Returns the counts of words in documents, from the store if they have been computed before.

    Parameters
    ----------
    fields, min_count, max_share : see `harness.systems.lexical.postings.count`.
    """
    how = {"min_count": min_count, "max_share": max_share}
    spec = None
    if known.spec is not None:
        spec = {"tokens": known.spec, "fields": dict(fields), **how, "code": code.of(postings.__name__)}

    def build(folder: Path) -> None:
        postings.count(known.value, fields, folder, min_count=min_count, max_share=max_share)

    return stored("counts", spec, build, lambda folder: WordCounts.load(folder, known.value.ids))


def postings_of(counts: Stored[WordCounts], model: Mapping[str, Any], write: Callable[[Path], None]) -> Postings:
    """Returns weighted postings, from the store if they have been computed before.

    Parameters
    ----------
    counts : counts that the weights are computed from, or whose words and documents the postings have.
    model : name and parameters of the weighting, and further inputs.
    write : writes the postings to an empty folder.
    """
    spec = None
    if counts.spec is not None:
        spec = {"counts": counts.spec, **model, "code": code.of(weighting.__name__)}
    return stored("postings", spec, write, lambda folder: Postings.load(folder, counts.value)).value


def topic_weights(key: str, value: object) -> dict[str, int]:
    """Checks and returns the weights of a topic's fields."""
    out = checks.weights(key, value)
    for name in out:
        if name not in TOPIC_FIELDS:
            raise HarnessError(f"key '{key}.{name}' is unknown; {suggestion(name, TOPIC_FIELDS)}")
    return out


TopicWeights = Annotated[Mapping[str, int], topic_weights]


def query_words(topic: Topic, fields: Weights, tokenisers: text.Tokenisers) -> Counter[str]:
    """Counts the words of a topic, in order of first occurrence; words of a field count as often as its weight says."""
    words: Counter[str] = Counter()
    tokenise = tokenisers(topic.dollars)
    for name, weight in fields.items():
        for word in tokenise(" ".join(topic.tags) if name == "tags" else str(getattr(topic, name))):
            words[word] += weight
    return words


@dataclass(frozen=True)
class Lexical(checks.Checked, ABC):
    """Base of the lexical systems: documents and topics as bags of words in one view.

    Parameters
    ----------
    view : how texts become words, by the keys `name`, `lower`, `stop`, `stem`, `whole`, `abbreviations`,
        `emphasis`, `formulas`, `dollars` and `fold`.
    query, document : field -> weight of its words, a whole number. Topics have the fields title, body and tags;
        documents also id and the columns that their corpus keeps.
    min_count, max_share : words with fewer occurrences in the corpus, or in a larger share of its documents, are
        excluded.
    depth : documents returned for each topic.
    """

    work: ClassVar[str] = "words"  # see `harness.papers.work`

    view: text.Options = field(default_factory=lambda: {"name": "latex"})
    query: TopicWeights = field(default_factory=lambda: {"title": 1, "body": 1, "tags": 1})
    document: Weights = field(default_factory=lambda: {"title": 1, "body": 1, "tags": 1})
    min_count: checks.Natural = 0
    max_share: checks.Share = 1.0
    depth: checks.Positive = 1000
    name: str = "lexical"

    nested: ClassVar[Mapping[str, Callable[..., Any]]] = {"view": text.view}

    @abstractmethod
    def index(self, corpus: Corpus) -> LexicalIndex:
        """Returns the index of a corpus."""

    def words(self, topic: Topic) -> Mapping[str, float]:
        """Returns the words of a topic and their weights."""
        return query_words(topic, self._topic_weights, self._tokenisers)

    def score(self, index: LexicalIndex, topic: Topic) -> Scored:
        """Returns the scores of all documents for a topic."""
        return index.score(self.words(topic))

    def best(self, index: LexicalIndex, topic: Topic, ranker: Ranker) -> Best:
        """Returns the top documents for a topic and their scores, if all documents are ranked."""
        return index.best(self.words(topic), ranker.place, ranker.depth)

    def __call__(self, request: Request) -> Run:
        """Ranks by the score; without a pool, documents without any word of the topic are not returned."""
        with phase("index"):
            index = self.index(request.corpus_for(self.name))
        return rank(
            self.name,
            request,
            index.ids,
            lambda topic: self.score(index, topic),
            self.depth,
            best=lambda topic, ranker: self.best(index, topic, ranker),
        )

    def tokens(self, corpus: Corpus) -> Stored[CorpusTokens]:
        """Returns the tokens of the documents' fields."""
        return tokens_of(corpus, self._document_weights, self.view)

    def counts(self, corpus: Corpus) -> Stored[WordCounts]:
        """Returns the documents as bags of words."""
        return counts_of(self.tokens(corpus), self._document_weights, self.min_count, self.max_share)

    @cached_property
    def _tokenisers(self) -> text.Tokenisers:
        return text.tokenisers(self.view)

    @cached_property
    def _topic_weights(self) -> dict[str, int]:
        return topic_weights("query", self.query)

    @cached_property
    def _document_weights(self) -> dict[str, int]:
        return checks.weights("document", self.document)


@dataclass(frozen=True)
class BM25(Lexical):
    """BM25; a repeated query word counts as often as it occurs in the topic.

    Parameters
    ----------
    variant : `lucene`, `robertson`, `atire`, `bm25l` or `bm25+`.
    k1 : saturation of the term frequency.
    b : strength of length normalisation, 0 to 1.
    delta : parameter of `bm25l` and `bm25+`; unused by the other variants.
    """

    variant: Annotated[str, partial(checks.choice, known=weighting.VARIANTS)] = "lucene"
    k1: checks.Number = 1.2
    b: checks.Share = 0.75
    delta: checks.Number = 1.0
    name: str = "bm25"

    def index(self, corpus: Corpus) -> LexicalIndex:
        """Returns BM25 postings."""
        counts = self.counts(corpus)
        model = weighting.BM25Weights(self.variant, self.k1, self.b, self.delta)
        return postings_of(counts, {"bm25": asdict(model)}, lambda folder: model.write(counts.value, folder))


@dataclass(frozen=True)
class TfIdf(Lexical):
    """TF-IDF: ranks documents by the inner product of weighted topic and document vectors.

    Parameters
    ----------
    smart : weighting in SMART notation, see `harness.systems.lexical.weighting.smart_letters`.
    """

    smart: str = "ltc"
    name: str = "tfidf"

    def __post_init__(self) -> None:
        super().__post_init__()
        weighting.smart_letters(self.smart)

    def index(self, corpus: Corpus) -> LexicalIndex:
        """Returns the documents' vectors."""
        counts = self.counts(corpus)
        letters, asked = weighting.smart_letters(self.smart)
        known = postings_of(counts, {"tfidf": letters}, lambda folder: weighting.tfidf(counts.value, letters, folder))
        return weighting.TfIdfWeights(known, asked)


@dataclass(frozen=True)
class Sum(checks.Checked):
    """The sum of the scores of several lexical systems, each over all documents.

    Parameters
    ----------
    parts : name -> configuration of a lexical system.
    weights : name -> weight of its scores; 1 by default.
    """

    work: ClassVar[str] = "words"  # see `harness.papers.work`

    parts: Mapping[str, Mapping[str, Any]]
    weights: Mapping[str, float] = field(default_factory=dict)
    depth: checks.Positive = 1000
    name: str = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.parts, Mapping) or not self.parts:
            raise HarnessError(f"key 'parts' is {self.parts!r}, expected names and configurations of systems")
        for name, weight in self.weights.items():
            checks.choice("weights", name, self.parts)
            checks.check_number(f"weights.{name}", weight)
        self._systems  # noqa: B018  (validates the parts at once)

    def __call__(self, request: Request) -> Run:
        """Ranks by the weighted sum."""
        corpus = request.corpus_for(self.name)
        with phase("index"):
            indexes = {name: system.index(corpus) for name, system in self._systems.items()}
        ids = next(iter(indexes.values())).ids

        def score(topic: Topic) -> Scored:
            total, floor = np.zeros(len(ids)), 0.0
            for name, system in self._systems.items():
                above, below = system.score(indexes[name], topic)
                total += self.weights.get(name, 1.0) * above
                floor += self.weights.get(name, 1.0) * below
            return total, floor

        return rank(self.name, request, ids, score, self.depth)

    @cached_property
    def _systems(self) -> dict[str, Lexical]:
        """Name -> system of each part whose scores are summed."""
        out = {}
        for name, part in self.parts.items():
            system = build_system(part, f"parts.{name}").system
            if not isinstance(system, Lexical):
                raise HarnessError(f"parts.{name}: {part.get('_target_')} has no scores that can be summed")
            out[str(name)] = system
        return out

"""BM25 with dynamic pruning by PISA (Mallia et al., OSIRRC 2019), for corpora of millions of documents.

Dynamic pruning skips documents that cannot reach the top of a ranking, so the time of a query grows with its depth more
than with the corpus. PISA searches compressed postings in files, which are mapped to memory.

The tokens are those of our BM25: PISA neither stems nor removes stop words. Its scores are those of our variant
`robertson` times k1 + 1, in float32, and its rankings are the same up to that precision, with one exception: the
inverse document frequency of a word in at least half of the documents is 0.000001 in PISA and 0 in `robertson`, whose
rankings therefore lack documents that share only such words with the topic. The variant `lucene`, the default of
`bm25`, has log(1 + x) in place of log(x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from harness.collections.corpus import Corpus
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.io import checks
from harness.store import code
from harness.store.cost import answered, phase
from harness.systems.base import Request
from harness.systems.keys import decisive
from harness.systems.lexical import pisa_engine, text
from harness.systems.lexical.pisa_engine import PisaIndex, QueryResults
from harness.systems.lexical.system import TopicWeights, Weights, index_folder, query_words, tokens_of, topic_weights
from harness.systems.lexical.tokens import CorpusTokens
from harness.systems.ranking import Scored, rank


@dataclass(frozen=True)
class Pisa(checks.Checked):
    """PISA's BM25; a repeated query word counts as often as it occurs in the topic.

    An index is kept for each k1 and b, because it holds upper bounds of the scores.

    Parameters
    ----------
    view : how texts become words, by the keys `name`, `lower`, `stop`, `stem`, `whole`, `abbreviations`,
        `emphasis`, `formulas`, `dollars` and `fold`.
    query, document : field -> weight of its words, as in `harness.systems.lexical.system.Lexical`.
    k1 : saturation of the term frequency.
    b : strength of length normalisation, 0 to 1.
    algorithm : `block_max_wand`, `block_max_maxscore`, `maxscore` or `wand`, which prune; `ranked_or` scores every
        document with a word of the topic. Their rankings are equal up to the last bit of a score.
    threads : topics that are searched at the same time.
    """

    view: text.Options = field(default_factory=lambda: {"name": "latex"})
    query: TopicWeights = field(default_factory=lambda: {"title": 1, "body": 1, "tags": 1})
    document: Weights = field(default_factory=lambda: {"title": 1, "body": 1, "tags": 1})
    k1: checks.Number = 1.2
    b: checks.Share = 0.75
    algorithm: Annotated[str, partial(checks.choice, known=pisa_engine.ALGORITHMS)] = "block_max_wand"
    threads: checks.Positive = 1
    depth: checks.Positive = 1000
    name: str = "pisa"

    nested: ClassVar[Mapping[str, Callable[..., Any]]] = {"view": text.view}

    def __call__(self, request: Request) -> Run:
        """Ranks by PISA's score; without a pool, documents without any word of the topic are not returned.

        Raises
        ------
        HarnessError
            PISA is not installed or fails, or no topic shares a word with the corpus.
        """
        corpus = request.corpus_for(self.name)
        pisa_engine.version()  # before the corpus is read
        with self._index(corpus) as index, phase("search"):
            hits = self._results(index, request)
            answered({topic: each.seconds for topic, each in hits.items()})

        def score(topic: Topic) -> Scored:
            scores = np.zeros(len(index.ids))
            if topic.id in hits:
                scores[hits[topic.id].rows] = hits[topic.id].scores
            return scores, 0.0

        return rank(self.name, request, index.ids, score, self.depth)

    def _results(self, index: PisaIndex, request: Request) -> dict[str, QueryResults]:
        """Searches the topics that share a word with the corpus; with a pool, for all of their documents."""
        fields, tokenisers = topic_weights("query", self.query), text.tokenisers(self.view)
        among = None if request.excluded is None else request.excluded.among(index.ids)
        queries, hits = {}, []
        for topic in request.topics:
            words = query_words(topic, fields, tokenisers)
            if request.allowed(topic) == frozenset() or not any(word in index.numbers for word in words):
                continue
            queries[topic.id] = words
            gone = 0 if among is None else int(np.count_nonzero(among(topic.id)))
            hits.append(self.depth + gone if request.pool is None else len(index.ids))
        best = pisa_engine.search(index, list(queries.values()), hits, algorithm=self.algorithm, threads=self.threads)
        return dict(zip(queries, best, strict=True))

    @contextmanager
    def _index(self, corpus: Corpus) -> Iterator[PisaIndex]:
        """Opens the index of the corpus, from the store or built; temporary if the view's code has no fingerprint."""
        fields = checks.weights("document", self.document)

        def make(folder: Path) -> None:
            pisa_engine.build(tokens_of(corpus, fields, self.view).value, fields, folder, k1=self.k1, b=self.b)

        versions = text.version(self.view)
        spec = (
            None
            if versions is None
            else {
                **corpus.identity(),
                "document": fields,
                "view": decisive(self.view, text.view),
                "code": [*versions, code.of(pisa_engine.__name__, CorpusTokens.__module__)],
                "pisa": pisa_engine.version(),
                "k1": float(self.k1),
                "b": float(self.b),
            }
        )
        with index_folder("pisa-index", spec, make) as folder:
            yield PisaIndex.load(folder, self.k1, self.b)

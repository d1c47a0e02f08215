"""TF-IDF with cosine similarity, by scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.systems.base import Request


@dataclass(frozen=True)
class Tfidf:
    """Documents by the cosine of their TF-IDF vectors with the topic's; words and LaTeX commands are terms.

    Parameters
    ----------
    ngrams : terms are sequences of up to so many tokens.
    depth : documents for each topic, at most.
    name : of the run.
    """

    ngrams: int = 1
    depth: int = 1000
    name: str = "example-tfidf"

    def __post_init__(self) -> None:
        for key in ("ngrams", "depth"):
            if getattr(self, key) < 1:
                raise HarnessError(f"key {key!r} is {getattr(self, key)}, expected a whole number from 1")

    def __call__(self, request: Request) -> Run:
        """Rank the corpus (or the pool) for each topic; documents that share no term are not returned."""
        from sklearn.feature_extraction.text import TfidfVectorizer  # takes a second to import

        documents = list(request.corpus_for(self.name))
        texts = (" ".join((doc.title, doc.body, *doc.tags)) for doc in documents)
        tokens = r"\\?\w+"
        vectorizer = TfidfVectorizer(token_pattern=tokens, ngram_range=(1, self.ngrams), sublinear_tf=True)
        vectors = vectorizer.fit_transform(texts)
        rankings = {}
        for topic in request.topics:
            asked = vectorizer.transform([" ".join((topic.title, topic.body, *topic.tags))])
            cosines = (vectors @ asked.T).toarray()[:, 0].tolist()
            allowed = request.allowed(topic)
            scores = {
                doc.id: cosine
                for doc, cosine in zip(documents, cosines, strict=True)
                if cosine > 0 and (allowed is None or doc.id in allowed)
            }
            best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[: self.depth]
            rankings[topic.id] = dict(best)
        return Run.from_dict(self.name, {topic: docs for topic, docs in rankings.items() if docs})

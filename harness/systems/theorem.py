"""Search for theorems and definitions of a proof library by the words, names and symbols of their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness import store
from harness.collections.corpus import Corpus, Document
from harness.columns import Floats
from harness.errors import HarnessError
from harness.systems import Pool, parameters, text, weighting
from harness.systems.lexical import Weights, needed, query_words, tokens_of, topic_weights
from harness.systems.postings import Scored, field_text, rank
from harness.topics import Topic, Topics
from harness.trec import Ids, Qrels, Run

VERSION = 1  # of how mentions are counted


@dataclass(frozen=True)
class Declarations:
    """BM25F over the fields of declarations, plus a prior: what many signatures mention is more often looked for.

    score = BM25F + prior * log(1 + number of other declarations that mention it), for documents that share a word
    with the topic.

    Parameters
    ----------
    fields : field of the documents -> `weight` and `b`, how far the field's length counts (0 to 1).
    prior : 0 for none.
    mentions : the field in which mentions are looked for.
    view, query, depth : as of `harness.systems.lexical.Lexical`.
    """

    fields: Mapping[str, Mapping[str, float]]
    k1: float = 1.2
    prior: float = 0.0
    mentions: str = "signature"
    view: Mapping[str, Any] = field(default_factory=lambda: {"name": "declarations"})
    query: Weights = field(default_factory=lambda: {"title": 1, "body": 1})
    depth: int = 1000
    name: str = "declarations"

    def __post_init__(self) -> None:
        if not isinstance(self.fields, Mapping) or not self.fields:
            raise HarnessError(f"key 'fields' is {self.fields!r}, expected fields with weight and b")
        for name, values in self.fields.items():
            if not isinstance(values, Mapping) or set(values) != {"weight", "b"}:
                raise HarnessError(f"key 'fields.{name}' is {values!r}, expected {{weight: NUMBER, b: NUMBER}}")
            parameters.number(f"fields.{name}.weight", values["weight"])
            parameters.number(f"fields.{name}.b", values["b"], high=1)
        if not self._weights:
            raise HarnessError("key 'fields' has no field of a weight above 0")
        parameters.number("k1", self.k1)
        parameters.number("prior", self.prior)
        parameters.whole("depth", self.depth, low=1)
        topic_weights(self.query)
        text.configured(self.view)

    def __call__(
        self,
        topics: Topics,
        corpus: Corpus | None,
        workspace: Path,
        training: Qrels | None = None,
        pool: Pool | None = None,
    ) -> Run:
        """Rank by BM25F and prior."""
        corpus = needed(corpus, self.name)
        tokens = tokens_of(corpus, self._weights, self.view)
        b = {name: float(values["b"]) for name, values in self.fields.items()}
        postings = weighting.bm25f(tokens, self._weights, b, self.k1)
        prior = (
            self.prior * np.log1p(mentions_of(corpus, tokens.ids, self.mentions))
            if self.prior
            else np.zeros(len(tokens.ids))
        )
        query, tokenise = topic_weights(self.query), text.configured(self.view)

        def score(topic: Topic) -> Scored:
            above, floor = postings.score(query_words(topic, query, tokenise))
            return np.where(above > 0, above + prior, above), floor

        return rank(self.name, topics, tokens.ids, score, self.depth, pool)

    @cached_property
    def _weights(self) -> dict[str, float]:
        return {str(name): float(values["weight"]) for name, values in self.fields.items() if values["weight"]}


def mentions_of(corpus: Corpus, ids: Ids, name: str) -> Floats:
    """How many other documents mention each declaration in a field; float64, shape (documents,); kept in the store."""
    spec = {
        "corpus": corpus.name,
        "digest": corpus.digest(),
        "columns": [list(corpus.fields), list(corpus.keep)],
        "field": name,
        "versions": [text.VERSION, VERSION],
    }
    folder = store.get_or_build(
        "mentions", spec, lambda empty: np.save(empty / "count.npy", count_mentions(corpus, name))
    )
    counts: Floats = np.load(folder / "count.npy")
    return counts


def count_mentions(corpus: Iterable[Document], ids: Ids, name: str) -> Floats:
    """How many other documents mention each declaration in a field; float64, shape (documents,).

    An identifier means the declaration of that name in the innermost namespace of the mentioning one, as in Lean:
    `symm` in the signature of `Set.Foo.bar` is `Set.Foo.symm` if there is one, else `Set.symm`, else `symm`. Opened
    namespaces, and the dot after a variable, are not followed.
    """
    row = {doc.decode(): number for number, doc in enumerate(ids.tolist())}
    counts = np.zeros(len(row))
    seen = False
    for document in corpus:
        content = field_text(document, name)
        seen = seen or content is not None
        spaces = _namespaces(document.id)
        found = {_resolve(identifier, spaces, row) for identifier in set(text.identifiers(content or ""))}
        for number in found - {-1, row[document.id]}:
            counts[number] += 1
    if not seen:
        raise HarnessError(f"no document of the corpus has the field {name!r}, in which mentions are counted")
    return counts


def _namespaces(declaration: str) -> list[str]:
    """`A.B.c` -> `A.B.`, `A.`, and the empty one."""
    parts = declaration.split(".")
    return [".".join(parts[:end]) + "." for end in range(len(parts) - 1, 0, -1)] + [""]


def _resolve(identifier: str, spaces: Iterable[str], row: Mapping[str, int]) -> int:
    return next((row[space + identifier] for space in spaces if space + identifier in row), -1)

"""Searches declarations of a proof library by BM25F, with a prior from how often other declarations mention them.

The score of a declaration is BM25F (Zaragoza et al., TREC 2004, Section 2.2) over its name, documentation, signature
and module, plus `prior` times log(1 + mentions). Mentions are the signatures of other declarations that name it; often
mentioned declarations are more likely to be relevant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.collections.corpus import Corpus
from harness.data.columns import Floats, Ids
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError, suggestion
from harness.io import checks
from harness.store import artefacts, code
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.lexical import text, weighting
from harness.systems.lexical.numbering import Offsets
from harness.systems.lexical.postings import Postings
from harness.systems.lexical.system import TopicWeights, counts_of, postings_of, query_words, tokens_of, topic_weights
from harness.systems.lexical.tokens import check_fields, field_text
from harness.systems.ranking import Scored, rank

_NONE = -1


def mentions(declarations: Sequence[tuple[str, str]]) -> Offsets:
    """Returns the number of other declarations whose signature mentions each declaration, shape (declarations,).

    An identifier in a signature is looked up as Lean does, from the namespace of the signature's own declaration
    outwards: in the signature of `Set.Finite.union`, `Finite` is the first of `Set.Finite.Finite`, `Set.Finite` and
    `Finite` that the corpus contains. Opened namespaces and dot notation on variables are not resolved. A signature
    counts once per declaration. One-character names are taken as variables.

    Parameters
    ----------
    declarations : (full name, signature).
    """
    row = {name: number for number, (name, _) in enumerate(declarations)}
    counts = np.zeros(len(row), np.int64)
    meant: dict[str, int] = {}
    before = None
    for own, (name, signature) in enumerate(declarations):
        namespace = name.rpartition(".")[0]
        if namespace != before:  # adjacent declarations mostly share a namespace
            before, meant = namespace, {}
        named = set[int]()
        for identifier in set(text.identifiers(signature)):
            if (number := meant.get(identifier)) is None:
                number = meant[identifier] = _resolved(identifier, namespace, row)
            named.add(number)
        counts[list(named - {own, _NONE})] += 1
    return counts


def referenced(number: int, name: str, signature: str, row: Mapping[str, int]) -> list[int]:
    """Returns the numbers of the declarations that a signature names, in order; resolved as in `mentions`.

    Parameters
    ----------
    number, name : number and name of the signature's own declaration, which is excluded.
    row : full name of each declaration -> its number.

    Examples
    --------
    >>> row = {"Set.Finite": 0, "Nat": 1, "Set.Finite.union": 2}
    >>> referenced(2, "Set.Finite.union", "theorem union (hs : Finite s) : Finite s ∪ Nat", row)
    [0, 1]
    """
    namespace = name.rpartition(".")[0]
    numbers = (_resolved(identifier, namespace, row) for identifier in text.identifiers(signature))
    return list(dict.fromkeys(declaration for declaration in numbers if declaration not in (_NONE, number)))


def _resolved(identifier: str, namespace: str, row: Mapping[str, int]) -> int:
    """Resolves an identifier in a namespace; returns the declaration's number, or `_NONE`."""
    if len(identifier) == 1:
        return _NONE
    while namespace:
        if (number := row.get(f"{namespace}.{identifier}")) is not None:
            return number
        namespace = namespace.rpartition(".")[0]
    return row.get(identifier, _NONE)


@dataclass(frozen=True, eq=False)
class DeclarationIndex:
    """Index of declarations for scoring.

    Attributes
    ----------
    prior : float64, shape (declarations,). Added to the score of declarations that share a term with the query.
    """

    postings: Postings
    prior: Floats

    @property
    def ids(self) -> Ids:
        """Names of the declarations."""
        return self.postings.ids

    def score(self, query: Mapping[str, float]) -> Scored:
        """Returns the scores of all declarations for a query (term -> weight), and the score of an empty one (0)."""
        scores, floor = self.postings.score(query)
        return np.where(scores > 0, scores + self.prior, scores), floor


@dataclass(frozen=True)
class Declarations(checks.Checked):
    """BM25F over the fields of declarations, with a prior.

    Parameters
    ----------
    view : how texts become words, the same for all fields and the query; keys as in `view` of `bm25`.
    fields : field of the corpus -> weight of its terms; fields of weight 0 are ignored.
    b : field -> strength of length normalisation, 0 to 1; 0.75 by default.
    k1 : saturation of the term frequency.
    prior : weight of log(1 + mentions); 0 disables the prior, and the corpus then needs no statements.
    statement : field that holds the signatures in which mentions are counted.
    query : field of the topic -> weight of its terms.
    depth : declarations returned per topic.
    """

    view: text.Options = field(default_factory=lambda: {"name": "declarations", "stem": "porter", "whole": True})
    fields: Mapping[str, float] = field(default_factory=lambda: {"name": 1, "doc": 1, "signature": 1, "module": 1})
    b: Mapping[str, float] = field(default_factory=dict)
    k1: checks.Number = 1.2
    prior: checks.Number = 0.5
    statement: str = "signature"
    query: TopicWeights = field(default_factory=lambda: {"title": 1, "body": 1})
    depth: checks.Positive = 1000
    name: str = "declarations"

    nested: ClassVar[Mapping[str, Callable[..., Any]]] = {"view": text.view}

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = self._weights
        for name, share in _checked_mapping("b", self.b).items():
            if name not in weights:
                raise HarnessError(f"key 'b.{name}' names no field that is read; {suggestion(name, weights)}")
            checks.check_number(f"b.{name}", share, high=1)

    def __call__(self, request: Request) -> Run:
        """Ranks by the score; without a pool, declarations that share no term with the topic are not returned.

        Raises HarnessError if the corpus lacks one of the fields, or shares no term with any topic.
        """
        with phase("index"):
            index = self.index(request.corpus_for(self.name))
        query, tokenisers = topic_weights("query", self.query), text.tokenisers(self.view)

        def score(topic: Topic) -> Scored:
            return index.score(query_words(topic, query, tokenisers))

        return rank(self.name, request, index.ids, score, self.depth)

    def index(self, corpus: Corpus) -> DeclarationIndex:
        """Returns the index of a corpus; its tokens and mentions are cached in the store."""
        tokens = tokens_of(corpus, self._weights, self.view)
        counts = {name: counts_of(tokens, {name: 1}) for name in self._weights}
        b = {name: self.b.get(name, 0.75) for name in self._weights}
        postings = postings_of(
            next(iter(counts.values())),
            {"bm25f": [[name, weight, b[name]] for name, weight in self._weights.items()], "k1": self.k1},
            lambda folder: weighting.bm25f(
                {name: each.value for name, each in counts.items()}, self._weights, b, self.k1, folder
            ),
        )
        if not self.prior:
            return DeclarationIndex(postings, np.zeros(len(postings.ids)))
        return DeclarationIndex(postings, self.prior * np.log1p(mentions_of(corpus, self.statement)))

    @cached_property
    def _weights(self) -> dict[str, float]:
        """Weights of the fields with a weight above 0."""
        given = _checked_mapping("fields", self.fields)
        weights = {name: checks.check_number(f"fields.{name}", weight) for name, weight in given.items()}
        if not any(weights.values()):
            raise HarnessError("key 'fields' has no field of a weight above 0")
        return {name: weight for name, weight in weights.items() if weight}


def mentions_of(corpus: Corpus, statement: str) -> Offsets:
    """Returns the mentions of a corpus's declarations in corpus order; cached in the store."""
    spec = {
        "corpus": corpus.name,
        "digest": corpus.digest(),
        "columns": [list(corpus.fields), list(corpus.keep)],
        "statement": statement,
        "code": code.of(__name__),
    }

    def build(folder: Path) -> None:
        np.save(folder / "mentions.npy", mentions(list(_statements(corpus, statement))))

    path = artefacts.get_or_build("mentions", spec, build) / "mentions.npy"
    try:
        counted: Offsets = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise HarnessError(f"{path}: not the mentions of declarations: {error}") from None
    return counted


def _statements(corpus: Corpus, statement: str) -> Iterable[tuple[str, str]]:
    seen = set[str]()
    for document in corpus:
        seen.update(document.columns)
        yield document.id, field_text(document, statement) or ""
    check_fields(corpus, [statement], seen)


def _checked_mapping(key: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise HarnessError(f"key {key!r} is {value!r}, expected fields and numbers such as {{name: 2, doc: 1}}")
    return {str(name): number for name, number in value.items()}

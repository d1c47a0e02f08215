"""Tangent-S: formula search by both trees, re-ranked by maximum subtree similarity (Davila and Zanibbi 2017).

For symbol layout trees (SLT) and operator trees (OPT) each, an inverted index of tuples (two symbols, the edges between
them) finds candidates by Dice's coefficient. Each candidate has three values per kind of tree, see
`harness.systems.structural.alignments`. With one kind, candidates are ranked by these values in their order; with both,
by a linear combination of the six values, whose weights a linear regression has learned from judged formulas. A
candidate of one kind has the values of the other too.

The weights that are shipped are those of the authors' code, means of a cross-validation on NTCIR-12. Differences from
the authors' system: our parsers give the trees; the candidates of a kind are 1,000 distinct trees, not formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from harness.collections.corpus import Corpus
from harness.data.columns import Floats
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees.tree import Tree
from harness.io import checks
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.lexical.numbering import Offsets
from harness.systems.structural import formulas
from harness.systems.structural.alignments import VALUES, similarities
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.tangent import Dice, nodes, pairs

Query = tuple[Tree | None, ...]  # the tree of each kind of a formula, None if nothing of it could be parsed
PUBLISHED: Mapping[str, Sequence[float]] = {"slt": (0.0861, -0.1694, 1.8469), "opt": (0.9657, -0.0153, -0.3301)}


@dataclass(frozen=True, eq=False)
class Indexed:
    """The formulas of a corpus as trees of one kind, and the index of their tuples."""

    formulas: Formulas
    tuples: Dice


@dataclass(frozen=True)
class TangentS(checks.Checked):
    """Tangent-S: ranks documents by the maximum subtree similarity of their formulas.

    A document's score for a formula of the topic is that of its best formula; over several formulas of the topic, the
    mean. Scores lie between 0 and 1. With one kind of tree, they are the place among the different values of the
    candidates, the best 1; with both, the linear combination scaled to the range that its weights allow.

    Parameters
    ----------
    representation : `slt`, `opt` or `both`.
    weights : kind -> weights of `VALUES`, for `both`. The intercept of a regression does not change the order.
    window : maximum edges between the symbols of a tuple; None for any number.
    candidates : number of distinct trees of each kind that are compared with the query.
    route : parser of LaTeX, `own` or `latexml`.
    depth : documents returned for each topic.
    """

    representation: Literal["opt", "slt", "both"] = "both"
    weights: Mapping[str, Sequence[float]] = field(default_factory=lambda: PUBLISHED)
    window: checks.Positive | None = 4
    candidates: checks.Positive = 1000
    route: formulas.Route = formulas.OWN
    depth: checks.Positive = 1000
    name: str = "tangent-s"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.weights, Mapping) or set(self.weights) != set(formulas.KINDS):
            raise HarnessError(
                f"key 'weights' is {self.weights!r}, expected kinds and weights: {{slt: [...], opt: [...]}}"
            )
        for kind, weights in self.weights.items():
            if not isinstance(weights, Sequence) or isinstance(weights, str) or len(weights) != len(VALUES):
                raise HarnessError(f"key 'weights.{kind}' is {weights!r}, expected weights of {', '.join(VALUES)}")
            for value, weight in zip(VALUES, weights, strict=True):
                checks.check_number(f"weights.{kind}: {value}", weight, low=-1e6, high=1e6)
        if not any(np.any(np.asarray(weights)) for weights in self.weights.values()):
            raise HarnessError("key 'weights': expected one other than 0")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of trees that are compared, in the order of the features."""
        return ("slt", "opt") if self.representation == "both" else (self.representation,)

    def __call__(self, request: Request) -> Run:
        """Ranks documents by their formulas."""
        corpus = request.corpus_for(self.name)
        with phase("index"):
            known = {kind: self.index(formulas.read(corpus, kind, self.route)) for kind in self.kinds}
            asked = self.queries(request.topics, corpus)

        def score(topic: Topic) -> Floats:
            return self.documents(asked[topic.id], list(known.values()))

        return formulas.ranked(self.name, request, known[self.kinds[0]].formulas, score, self.depth)

    def queries(self, topics: Topics, corpus: Corpus) -> dict[str, list[Query]]:
        """Returns the distinct formulas of each topic."""
        by_kind = [formulas.all_queries(topics, corpus, kind, self.route) for kind in self.kinds]
        return {
            topic.id: [
                query for query in dict.fromkeys(zip(*(each[topic.id] for each in by_kind), strict=True)) if any(query)
            ]
            for topic in topics
        }

    def index(self, of_kind: Formulas) -> Indexed:
        """Returns the index of the trees of one kind."""
        return Indexed(
            of_kind, Dice.of(pairs(nodes(of_kind.trees), self.window, flat=True), len(of_kind.trees), weighted=False)
        )

    def documents(self, asked: Sequence[Query], known: Sequence[Indexed]) -> Floats:
        """Returns the scores of all documents for the formulas of a topic, shape (documents,)."""
        first = known[0].formulas
        total = np.zeros(len(first.ids))
        for query in asked:
            rows, features = self.features(query, known)
            best = np.zeros_like(total)
            np.maximum.at(best, np.searchsorted(first.start, rows, "right") - 1, self.combined(features))
            total += best / len(asked)
        return total

    def features(self, query: Query, known: Sequence[Indexed]) -> tuple[Offsets, Floats]:
        """Returns the candidates of a query, as indices of formulas, and their values, (candidates, kinds * 3)."""
        wanted = np.zeros(len(known[0].formulas.tree), dtype=bool)
        for tree, index in zip(query, known, strict=True):
            if tree is not None:
                wanted |= np.isin(index.formulas.tree, self._candidates(tree, index))
        rows = np.flatnonzero(wanted)
        out = np.zeros((len(rows), len(known), len(VALUES)))
        for at, (kind, tree, index) in enumerate(zip(self.kinds, query, known, strict=True)):
            number = np.asarray(index.formulas.tree[rows], np.int64)
            read = np.flatnonzero(number >= 0)
            if tree is not None and read.size:
                distinct, place = np.unique(number[read], return_inverse=True)
                out[read, at] = similarities(tree, index.formulas.trees, distinct, kind)[place]
        return rows, out.reshape(len(rows), len(known) * len(VALUES))

    def combined(self, features: Floats) -> Floats:
        """Returns the scores of candidates, 0 to 1, from their values, shape (candidates,)."""
        if not len(features):
            return np.zeros(0)
        out: Floats
        if self.representation == "both":
            weights = np.concatenate([np.asarray(self.weights[kind], float) for kind in self.kinds])
            out = (features @ weights - np.minimum(weights, 0).sum()) / np.abs(weights).sum()
        else:
            distinct, place = np.unique(features, axis=0, return_inverse=True)  # in ascending order of the values
            out = (place.reshape(-1) + 1.0) / len(distinct)
        return out

    def _candidates(self, tree: Tree, index: Indexed) -> Offsets:
        """Returns the trees with the highest scores by tuples, best first."""
        scores = index.tuples.score(pairs(nodes(forest.pack([tree])), self.window, flat=True))
        chosen = np.argsort(-scores, kind="stable")[: self.candidates]
        return chosen[scores[chosen] > 0]


def learn(features: Floats, grades: Floats) -> dict[str, list[float]]:
    """Returns the weights of both kinds by linear regression of grades, with an intercept, which is left out.

    Parameters
    ----------
    features : shape (judged formulas, 6), see `TangentS.features`.
    grades : shape (judged formulas,).
    """
    columns = np.column_stack((features, np.ones(len(features))))
    solved = np.linalg.lstsq(columns, grades, rcond=None)[0][:-1]
    return {kind: part.tolist() for kind, part in zip(("slt", "opt"), solved.reshape(2, -1), strict=True)}

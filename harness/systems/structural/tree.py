"""Structural search over operator trees: candidates by shared paths, scored by overlap and best matching subtree.

Search has two stages. An inverted index of short paths finds candidates by the weight of the paths that they share with
the query; rare paths are read first, and the number of index entries read is bounded. Each candidate is then scored by
two components, each from 0 to 1:

overlap
    Dice coefficient over the short paths of both trees, each path weighted by the square root of its logarithmic IDF.
    Paths of the candidate that the query lacks lower it, which acts as a length penalty.
subtree
    the share of the query's leaf-to-root paths found below a node of the candidate, for the best pair of this node and
    the root of one of the query's 16 largest subtrees. Paths are compared with wildcards, and for the component
    `symbols` with their symbols.

Document scores are aggregated from formula scores. For a topic with several formulas they are averaged, weighted by the
paths of each formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from harness.data.columns import Floats
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees.tree import Tree
from harness.io import checks
from harness.io.kernels import kernel
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.structural import formulas
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.index import DAMAGED, KIND, PathIndex, Terms, index_of, short_paths
from harness.systems.structural.paths import Codes, Paths, Places, QueryPaths, canonical, paths

_ROOTS = 16  # number of the query's largest subtrees that are matched
_ALMOST = 1 - 2**-20  # maximum score of a formula that differs from the query
_SEARCH = "harness_search"  # of search.c

# ---- queries ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FormulaQuery:
    """A query formula.

    Attributes
    ----------
    tree : its operator tree.
    index : the index, which has the weights of paths.
    """

    tree: Tree
    index: PathIndex

    @cached_property
    def terms(self) -> Terms:
        """The distinct short paths."""
        hashes, _, factor = short_paths(self._paths, self.index.height)
        known, first, count = np.unique(hashes, return_index=True, return_counts=True)
        idf, place = self.index.idf(known)
        value = idf * factor[first]
        return Terms(known, place, count, value, float(np.cumsum(value * count)[-1]))

    @cached_property
    def short(self) -> QueryPaths:
        """The distinct short paths as one group."""
        length = len(self.terms.known)
        start, group = np.arange(length + 1), np.zeros(length, np.int64)
        return QueryPaths(self.terms.known, self.terms.value, start, group, self.terms.count, 1)

    @cached_property
    def long(self) -> tuple[QueryPaths, QueryPaths]:
        """Paths from leaves with wildcards and with symbols, by the node where they end; only the largest subtrees."""
        all_paths, nodes = self._paths, len(self.tree)
        leaf = all_paths.leaf[all_paths.node]
        top, wildcard, symbol = all_paths.top[leaf], all_paths.wildcard[leaf], all_paths.symbol[leaf]
        below = np.bincount(top, minlength=nodes)
        root = np.sort(np.lexsort((np.arange(nodes), -below))[:_ROOTS])
        group = np.full(nodes, -1)
        group[root] = np.arange(len(root))
        large = group[top] >= 0
        wildcards, symbols = (QueryPaths.of(form[large], group[top[large]], len(root)) for form in (wildcard, symbol))
        return wildcards, symbols

    @cached_property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self.tree) - len(set(self.tree.parents[1:]))

    @cached_property
    def canonical(self) -> str:
        """Canonical text of the formula, see `paths.canonical`."""
        return canonical(self.tree)

    @cached_property
    def _paths(self) -> Paths:
        own = forest.pack([self.tree])
        return paths(own, Codes.of(own), np.zeros(1, np.int64), self.index.height, full=True)


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """Components of each candidate's score, all of shape (candidates,).

    Attributes
    ----------
    overlap : Dice's coefficient of the short paths.
    structure, symbols : share of the query's paths found below the best pair of nodes, compared with wildcards and with
        symbols.
    """

    overlap: Floats
    structure: Floats
    symbols: Floats


def parts(query: FormulaQuery, trees: Places, credit: float) -> ScoreParts:
    """Computes the score components of a query with each of some trees.

    Parameters
    ----------
    credit : weight of equal symbols in the choice of the best pair of nodes, 0 to 1.
    """
    index = query.index
    tree_paths = paths(index.trees, index.codes, trees, index.height, full=True)
    hashes, tree, _ = short_paths(tree_paths, index.height)
    shared = query.short.shared(hashes, tree, len(trees))[0]
    overlap = 2 * shared / (query.terms.weight + index.weight[trees].astype(np.float64))
    leaf = np.flatnonzero(tree_paths.leaf[tree_paths.node])
    top, nodes = tree_paths.top[leaf], len(tree_paths.leaf)
    structure, symbols = (
        asked.shared(form[leaf], top, nodes)
        for asked, form in zip(query.long, (tree_paths.wildcard, tree_paths.symbol), strict=True)
    )
    both = (1 - credit) * structure + credit * symbols
    # For each tree, the first node with the best value, and the first node of the query that gives this value.
    of_node = both.max(axis=0)
    first = np.searchsorted(tree_paths.tree, np.arange(len(trees)))
    reached = np.flatnonzero(of_node == np.maximum.reduceat(of_node, first)[tree_paths.tree])
    node = reached[np.searchsorted(tree_paths.tree[reached], np.arange(len(trees)))]
    asked = both[:, node].argmax(axis=0)
    return ScoreParts(overlap, structure[asked, node] / query.leaves, symbols[asked, node] / query.leaves)


@dataclass(frozen=True)
class Structural(checks.Checked):
    """Structural search: ranks documents by the path overlap and the best matching subtree of their formulas.

    Parameters
    ----------
    height : maximum edges of a path in the index.
    candidates : formulas compared with the query.
    budget : maximum number of postings read for a query, rare paths first.
    share : weight of the best subtree in the score; the overlap has the remaining weight.
    credit : weight of equal symbols in the best subtree.
    aggregate : score of a document for a topic formula: that of its `best` formula, or the `sum` over its formulas.
    route : parser of LaTeX, `own` or `latexml`.
    depth : documents returned for each topic.
    """

    work: ClassVar[str] = "formulas"  # see `harness.papers.work`

    height: checks.Natural = 2
    candidates: checks.Positive = 1000
    budget: checks.Positive = 150_000
    share: checks.Share = 0.3
    credit: checks.Share = 0.3
    aggregate: formulas.Aggregate = "best"
    route: formulas.Route = formulas.OWN
    depth: checks.Positive = 1000
    name: str = "tree"

    def __call__(self, request: Request) -> Run:
        """Ranks documents by their formulas."""
        corpus = request.corpus_for(self.name)
        with phase("index"):
            known = formulas.read(corpus, KIND, self.route)
            index = index_of(corpus, known.trees, self.height, self.route)
            asked = formulas.queries(request.topics, corpus, KIND, self.route)

        # A pool or exclusions may leave out the best, so that others are wanted.
        few = request.pool is None and request.excluded is None

        def score(topic: Topic) -> Floats:
            return self.documents(asked[topic.id], known, index, self.depth if few else None)

        return formulas.ranked(self.name, request, known, score, self.depth)

    def documents(self, asked: tuple[Tree, ...], known: Formulas, index: PathIndex, first: int | None = None) -> Floats:
        """Returns the scores of documents for a topic's formulas, shape (documents,).

        Parameters
        ----------
        first : number of best documents whose scores are wanted; others may be 0. By default, all.
        """
        total, mass = np.zeros(len(known.ids)), 0.0
        alone = len(asked) == 1 and self.aggregate == "best"
        for tree in asked:
            query = FormulaQuery(tree, index)
            trees, scores = self._best(query, known, first) if alone and first else self.search(query)
            weight = query.terms.weight if len(asked) > 1 else 1.0
            total += weight * known.documents(trees, scores, self.aggregate)
            mass += weight
        return total / mass if mass else total

    def _best(self, query: FormulaQuery, known: Formulas, first: int) -> tuple[Places, Floats]:
        """Searches for as many trees as are in `first` documents."""
        wanted = first
        while True:
            trees, scores = self.search(query, wanted)
            if wanted >= self.candidates or len(trees) < wanted:
                return trees, scores
            best = trees[scores >= np.partition(scores, len(scores) - wanted)[len(scores) - wanted]]
            if np.count_nonzero(known.documents(best, np.ones(len(best)))) >= first:
                return trees, scores
            wanted *= 4

    def search(self, query: FormulaQuery, first: int | None = None) -> tuple[Places, Floats]:
        """Returns candidates, ascending, and their scores from 0 to 1; only the query itself can score 1.

        Parameters
        ----------
        first : number of best trees that are wanted, by default all candidates; those that tie in float32 for the last
            place are among them.
        """
        trees, scores = (self._compiled if kernel(_SEARCH) else self._plain)(query, first or self.candidates)
        for number in np.flatnonzero(scores >= _ALMOST).tolist():
            # Different trees can have the same paths.
            same = canonical(query.index.trees[int(trees[number])]) == query.canonical
            scores[number] = 1.0 if same else _ALMOST
        return trees, scores

    def _plain(self, query: FormulaQuery, first: int) -> tuple[Places, Floats]:
        """Returns the candidates of a query and their scores, computed with NumPy."""
        del first
        trees = query.index.candidates(query.terms, self.candidates, self.budget)
        if not len(trees):
            return trees, np.zeros(0)
        components = parts(query, trees, self.credit)
        subtree = (1 - self.credit) * components.structure + self.credit * components.symbols
        return trees, self.share * subtree + (1 - self.share) * components.overlap

    def _compiled(self, query: FormulaQuery, first: int) -> tuple[Places, Floats]:
        """Returns the best trees of a query and their scores, computed by the C kernel."""
        index, own = query.index, forest.pack([query.tree])
        codes = Codes.of(own)
        limit = min(self.candidates, len(index.trees))
        trees, scores = np.empty(limit, np.int64), np.empty(limit)
        budget, first = min(self.budget, len(index.posting)), min(first, limit)  # which fit 64 bits
        number = kernel(_SEARCH)(  # type: ignore[misc]
            *(*index.given, len(query.tree), own.labels, own.parents, own.edges),
            *(codes.label, codes.inner, codes.wildcard, codes.edge, codes.ordered),
            *(limit, budget, first, float(self.share), float(self.credit), trees, scores),
        )
        if number == -1:
            raise HarnessError(DAMAGED)
        if number < 0:
            raise MemoryError
        return trees[:number], scores[:number]

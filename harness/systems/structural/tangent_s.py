"""Tangent-S: formula search by both trees, re-ranked by maximum subtree similarity (Davila and Zanibbi 2017).

For symbol layout trees (SLT) and operator trees (OPT) each, an inverted index of tuples (two symbols, the edges between
them) finds candidates by Dice's coefficient. Each candidate has three values per kind of tree, see
`similarities`. With one kind, candidates are ranked by these values in their order; with both,
by a linear combination of the six values, whose weights a linear regression has learned from judged formulas. A
candidate of one kind has the values of the other too.

The weights that are shipped are those of the authors' code, means of a cross-validation on NTCIR-12. Differences from
the authors' system: our parsers give the trees; the candidates of a kind are 1,000 distinct trees, not formulas.

Similarity of formula trees in Tangent-S: alignment, unification and three values (Davila and Zanibbi 2017).

Two nodes *fit* if their labels are equal, or of one kind and unifiable: numbers, variables (a name of one character
only with another such), texts and so on, but no operators. Two fitting nodes are the root of an *alignment*, which
pairs the children of paired nodes, whether these fit or not: in a symbol layout tree (SLT) the children at equal edges
and the elements of matrices by position; in an operator tree (OPT) the arguments in their order, but those of two equal
unordered operators greedily, first the two whose own alignment has the most fitting pairs. The fitting pairs of an
alignment count, those of variables only if they are *unified*: each variable of the query with at most one of the
candidate and vice versa, the most frequent pairs first. Each alignment has three values; the largest triple is the
similarity.

The definitions were read in the authors' code (MattLangsenkamp/tangent-s at ef48752, metric 12). Its wildcards (labels
that begin with `?`, for NTCIR) are not implemented: neither ARQMath's formulas nor our parsers have any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from harness.collections.corpus import Corpus
from harness.data.columns import Floats
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees.forest import Forest
from harness.formulas.trees.tree import Tree, escape_label
from harness.io import checks
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.lexical.numbering import Offsets
from harness.systems.structural import formulas
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.tangent import Dice, nodes, pairs

Pair = tuple[int, int]  # a node of the query, a node of a candidate
Triple = tuple[float, float, float]
Counts = npt.NDArray[np.int32]  # shape (nodes of the query, nodes of the candidates)
VALUES = ("subtree", "precision", "recall")
_CELLS = 1 << 22  # pairs of nodes held at a time
_SIZE = re.compile(r"(\d+)x(\d+)\Z")  # ends the label of a matrix in an SLT
_HALF = 0.5  # number of paired edges if there are none, so that single paired nodes are worth more than 0


def fits(asked: str, label: str) -> bool:
    """Returns whether a label of the query may be paired with a label of a candidate, both as in Tangent strings.

    Examples
    --------
    >>> fits("V!x", "V!y"), fits("V!x", "V!sin"), fits("N!2", "N!10"), fits("N!2", "N!2x"), fits("U!plus", "U!eq")
    (True, False, True, False, False)
    """
    if asked == label:
        return True
    if asked[1:2] != "!" or asked[:2] != label[:2] or asked[0] in "OU":
        return False
    if asked[0] == "V":
        return len(asked) == len(label) or 3 not in (len(asked), len(label))
    return asked[0] != "N" or _is_number(label)


def _is_number(label: str) -> bool:
    try:
        float(label.split("!")[1])
    except ValueError:
        return False
    return True


def similarities(query: Tree, trees: Forest, chosen: Offsets, kind: str) -> Floats:
    """Returns the similarity of a query with some trees of a forest, shape (chosen, 3).

    The columns, `VALUES`, are compared in this order:

    subtree : maximum subtree similarity, the harmonic mean of the shares of the query's nodes and edges that are
        paired. An edge is paired if both its nodes are; if none is, half an edge counts.
    precision : share of the candidate's nodes that are paired.
    recall : share of the query's nodes that are paired with an equal label.

    Time grows with the number of pairs of a node of the query and a node of a candidate.

    Parameters
    ----------
    kind : `slt` or `opt`.
    """
    asked = TreeNodes.of(forest.pack([query]), np.zeros(1, np.int64))
    out = np.zeros((len(chosen), len(VALUES)))
    block = np.cumsum(trees.offsets[chosen + 1] - trees.offsets[chosen]) * len(query) // _CELLS
    for number in np.unique(block):
        some = block == number
        out[some] = _best_similarities(asked, TreeNodes.of(trees, chosen[some]), kind)
    return out


@dataclass(frozen=True, eq=False)
class TreeNodes:
    """The nodes of some trees, one tree after the other.

    Attributes
    ----------
    names : distinct labels, as in Tangent strings.
    label : int64, shape (nodes,). Indices into `names`.
    tree : int64, shape (nodes,). Index of each node's tree.
    parent : int64, shape (nodes,). Index of each node's parent, -1 for a root.
    below : each node's children by their edges.
    size : int64, shape (trees,). Number of nodes of each tree.
    """

    names: list[str]
    label: Offsets
    tree: Offsets
    parent: Offsets
    below: list[dict[str, int]]
    size: Offsets

    @staticmethod
    def of(trees: Forest, chosen: Offsets) -> TreeNodes:
        """Selects the nodes of some trees of a forest."""
        size = trees.offsets[chosen + 1] - trees.offsets[chosen]
        tree = np.repeat(np.arange(len(chosen)), size)
        first = np.cumsum(size) - size
        row = np.arange(len(tree)) + np.repeat(trees.offsets[chosen] - first, size)
        parent = trees.parents[row] + np.repeat(first, size)
        parent[first] = -1
        numbers, label = np.unique(trees.labels[row], return_inverse=True)
        below: list[dict[str, int]] = [{} for _ in row]
        for child, (above, edge) in enumerate(zip(parent.tolist(), trees.edges[row].tolist(), strict=True)):
            if above >= 0:
                below[above][trees.edge_names[edge]] = child
        return TreeNodes(
            [escape_label(trees.label_names[number]) for number in numbers], label, tree, parent, below, size
        )

    def name(self, node: int) -> str:
        """Returns the label of a node."""
        return self.names[int(self.label[node])]

    def elements(self, node: int) -> tuple[int, int, list[int]]:
        """Returns the rows, the columns and the elements of a matrix of an SLT."""
        out = []
        element = self.below[node].get("w")
        while element is not None:
            out.append(element)
            element = self.below[element].get("e")
        size = _SIZE.search(self.name(node))
        return (int(size[1]), int(size[2]), out) if size else (0, 0, out)


def _best_similarities(query: TreeNodes, trees: TreeNodes, kind: str) -> list[Triple]:
    """Returns each tree's best similarity to a query by the alignment of their nodes."""
    number = len(query.label)
    asked = [query.name(node) for node in range(number)]
    fit = np.array([[fits(mine, name) for name in trees.names] for mine in query.names])[query.label][:, trees.label]
    potential, pairs = _aligned(query, trees, kind, fit)
    # An alignment with p fitting pairs pairs at most p - 1 edges, so that most alignments need not be unified. As the
    # authors do, roots that are paired in an earlier alignment are left out; these never have more fitting pairs.
    most = [0.0, *(_subtree(nodes, nodes - 1, number) for nodes in range(1, number + 1))]
    best: list[Triple] = [(0.0, 0.0, 0.0)] * len(trees.size)
    seen: set[Pair] = set()
    roots, places = np.nonzero(fit)
    worth = potential[roots, places]
    order = np.argsort(-worth, kind="stable")
    columns = (each[order].tolist() for each in (roots, places, worth, trees.tree[places]))
    labels, size = [trees.names[label] for label in trees.label.tolist()], trees.size.tolist()
    above = query.parent.tolist()
    for i, j, bound, tree in zip(*columns, strict=True):
        if most[bound] < best[tree][0] or (i, j) in seen:
            continue
        paired = _unified(asked, labels, _walk((i, j), query, trees, pairs, fit))
        seen.update(paired)
        nodes = {mine for mine, _ in paired}
        edges = sum([above[node] in nodes for node in nodes])
        same = sum([asked[mine] == labels[other] for mine, other in paired])
        value = (_subtree(len(paired), edges, number), len(paired) / size[tree], same / number)
        best[tree] = max(best[tree], value)
    return best


def _aligned(
    query: TreeNodes, trees: TreeNodes, kind: str, fit: npt.NDArray[np.bool_]
) -> tuple[Counts, dict[Pair, list[Pair]]]:
    """Returns the number of fitting pairs of the alignment from each pair of nodes, and how children are paired.

    The children are those of pairs that are not simply paired at equal edges.
    """
    potential = fit.astype(np.int32)
    same = np.zeros_like(potential)  # pairs of equal labels that are no variables, which break ties
    edges: dict[str, list[Pair]] = {}
    for node, below in enumerate(trees.below):
        for edge, child in below.items():
            edges.setdefault(edge, []).append((node, child))
    columns = {edge: np.array(nodes).T for edge, nodes in edges.items() if edge != "e"}
    matrices = np.array([name.startswith("M!") for name in trees.names])
    out: dict[Pair, list[Pair]] = {}
    for i in range(len(query.label) - 1, -1, -1):
        label = query.name(i)
        equal = np.array([name == label for name in trees.names])
        if not label.startswith("V!"):
            same[i] = equal[trees.label]
        if not query.below[i]:
            continue
        other = matrices if label.startswith("M!") else equal & (kind == "opt" and label.startswith("U"))
        special = other[trees.label]
        for edge, a in query.below[i].items():
            if edge in columns:
                above, child = columns[edge][:, ~special[columns[edge][0]]]
                potential[i, above] += potential[a, child]
                same[i, above] += same[a, child]
        for j in np.flatnonzero(special).tolist():
            if not trees.below[j]:
                continue
            if kind == "slt":
                pairs = _pairs_of_matrices(query, i, trees, j)
            elif label.startswith("M!"):
                pairs = list(_at_equal_edges(query.below[i], trees.below[j])) if label[:3] == trees.name(j)[:3] else []
            else:
                pairs = _pairs_of_arguments(query.below[i].values(), trees.below[j].values(), potential, same)
            out[i, j] = pairs
            for a, b in pairs:
                potential[i, j] += potential[a, b]
                same[i, j] += same[a, b]
    return potential, out


def _at_equal_edges(mine: dict[str, int], other: dict[str, int]) -> Iterator[Pair]:
    """Yields the pairs of children at equal edges; elements of a matrix are paired from the matrix."""
    for edge, child in mine.items():
        if edge in other and edge != "e":
            yield child, other[edge]


def _pairs_of_matrices(query: TreeNodes, i: int, trees: TreeNodes, j: int) -> list[Pair]:
    """Returns the pairs of children of two matrices of symbol layout trees."""
    mine = {edge: child for edge, child in query.below[i].items() if edge != "w"}
    out = list(_at_equal_edges(mine, trees.below[j]))
    rows, columns, elements = query.elements(i)
    rows2, columns2, elements2 = trees.elements(j)
    if 1 in (rows, columns) and 1 in (rows2, columns2):
        return [*out, *zip(elements, elements2, strict=False)]
    for row in range(min(rows, rows2)):
        for column in range(min(columns, columns2)):
            place, place2 = row * columns + column, row * columns2 + column
            if place >= len(elements) or place2 >= len(elements2):
                return out
            out.append((elements[place], elements2[place2]))
    return out


def _pairs_of_arguments(mine: Iterable[int], other: Iterable[int], potential: Counts, same: Counts) -> list[Pair]:
    """Returns the pairs of arguments of two equal unordered operators."""
    out: list[Pair] = []
    used, used2 = set[int](), set[int]()
    theirs = list(other)
    for _, _, a, b in sorted([(-potential[a, b], -same[a, b], a, b) for a in mine for b in theirs]):
        if a not in used and b not in used2:
            out.append((a, b))
            used.add(a)
            used2.add(b)
    return out


def _walk(
    root: Pair, query: TreeNodes, trees: TreeNodes, pairs: dict[Pair, list[Pair]], fit: npt.NDArray[np.bool_]
) -> Iterator[Pair]:
    """Yields the fitting pairs of an alignment."""
    waiting = [root]
    while waiting:
        pair = waiting.pop()
        if fit[pair]:
            yield pair
        special = pairs.get(pair)
        waiting += _at_equal_edges(query.below[pair[0]], trees.below[pair[1]]) if special is None else special


def _unified(asked: Sequence[str], labels: Sequence[str], pairs: Iterable[Pair]) -> list[Pair]:
    """Returns the pairs whose variables are unified, and those of other nodes."""
    out: list[Pair] = []
    variables: dict[tuple[str, str], list[Pair]] = {}
    for i, j in pairs:
        if asked[i].startswith("V!"):
            variables.setdefault((asked[i], labels[j]), []).append((i, j))
        else:
            out.append((i, j))
    used, used2 = set[str](), set[str]()
    often = [(len(pairs_), mine == other, mine, other) for (mine, other), pairs_ in variables.items()]
    for _, _, mine, other in sorted(often, reverse=True):
        if mine not in used and other not in used2:
            used.add(mine)
            used2.add(other)
            out += variables[mine, other]
    return out


def _subtree(nodes: int, edges: int, size: int) -> float:
    """Returns the maximum subtree similarity of paired nodes and edges with a query of `size` nodes."""
    recall = nodes / size
    edge_recall = 1.0 if size == 1 else max(edges, _HALF) / (size - 1)
    return 2.0 * recall * edge_recall / (recall + edge_recall)


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

"""Tangent: formulas that share pairs of symbols, the best of them compared by their largest common subtree.

After Tangent-3 and Tangent-S (Zanibbi et al. 2016; Davila and Zanibbi 2017), for symbol layout trees (SLT), operator
trees (OPT) or both. Candidates are found by an inverted index of tuples (two symbols and the edges between them) with
the Dice coefficient, here of tuples weighted by their rarity, so that the length of both formulas counts. The first of
them are aligned with the query, and the size of the largest connected part that fits is set against both sizes.
The score is a weighted mean of these parts; each lies between 0 and 1, and is 1 for the formula itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from harness.data.columns import Floats
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees.forest import Forest
from harness.formulas.trees.tree import Tree, children, sizes
from harness.formulas.trees.tuples import END
from harness.io import checks
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.lexical.postings import Offsets
from harness.systems.structural import formulas
from harness.systems.structural.formulas import Formulas

Keys = npt.NDArray[np.uint64]
Features = tuple[Offsets, Keys]  # of each occurrence of a feature the tree and a number that equal features share
Places = npt.NDArray[np.int32]
Worth = npt.NDArray[np.float32]
UNORDERED, VARIABLE = "U!", "V!"
LARGE, NEAR = 2000, 20  # nodes of a tree from which only tuples of near symbols are made, and how many edges that is
_CELLS = 1 << 22  # pairs of nodes that are compared at a time
_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


# ---- features ---------------------------------------------------------------------------------------------------


def hashes(names: Iterable[str]) -> Keys:
    """Returns a number of 64 bits for each name, the same in every process."""
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def then(first: Keys, second: Keys) -> Keys:
    """Returns a number for each ordered pair of numbers; equal pairs get equal ones, others almost never."""
    mixed = (first * _STEP) ^ second
    mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX
    out: Keys = mixed ^ (mixed >> np.uint64(29))
    return out


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of all trees of a forest, side by side.

    Attributes
    ----------
    tree : int64, shape (nodes,).
    parent : int64, shape (nodes,). Number among all nodes; of a root -1.
    label, edge : uint64, shape (nodes,). Hashes; below an unordered operator all edges are the same.
    variable : bool, shape (nodes,).
    leaf : bool, shape (nodes,).
    """

    tree: Offsets
    parent: Offsets
    label: Keys
    edge: Keys
    variable: npt.NDArray[np.bool_]
    leaf: npt.NDArray[np.bool_]


def nodes(trees: Forest) -> Nodes:
    """Returns the nodes of a forest."""
    lengths = np.diff(trees.offsets)
    tree = np.repeat(np.arange(len(trees)), lengths)
    parent = trees.parents.astype(np.int64) + np.repeat(trees.offsets[:-1], lengths)
    parent[trees.offsets[:-1]] = -1
    loose = np.array([name.startswith(UNORDERED) for name in trees.label_names])[trees.labels]
    below = np.flatnonzero(parent >= 0)
    edge = hashes(trees.edge_names)[trees.edges]
    edge[below[loose[parent[below]]]] = hashes(["0"])[0]
    leaf = np.ones(len(parent), dtype=bool)
    leaf[parent[below]] = False
    variable = np.array([name.startswith(VARIABLE) for name in trees.label_names])[trees.labels]
    return Nodes(tree, parent, hashes(trees.label_names)[trees.labels], edge, variable, leaf)


def wildcards(all_: Nodes) -> Nodes:
    """Returns the same nodes with one label for all variables."""
    return replace(all_, label=np.where(all_.variable, hashes([VARIABLE]), all_.label))


def pairs(all_: Nodes, window: int | None = None) -> Features:
    """Returns the tuples of `harness.formulas.trees.tuples.tuples`, ends included, in any order.

    `window` bounds the edges between the two symbols; None: any distance, but in trees of over `LARGE` nodes, whose
    rows would have millions of tuples, `NEAR` edges. Time and number: nodes times window, or times depth.
    """
    large = np.bincount(all_.tree) > LARGE
    leaves = np.flatnonzero(all_.leaf)
    found = [all_.tree[leaves]]
    keys = [then(all_.label[leaves], np.broadcast_to(hashes([END]), leaves.shape))]
    low = np.flatnonzero(all_.parent >= 0)
    above, path = all_.parent[low], all_.edge[low]
    distance = 1
    while low.size and (window is None or distance <= window):
        if distance == NEAR + 1 and large.any():
            kept = ~large[all_.tree[low]]
            low, path, above = low[kept], path[kept], above[kept]
        found.append(all_.tree[low])
        keys.append(then(then(all_.label[above], all_.label[low]), path))
        higher = all_.parent[above] >= 0
        low, path, above = low[higher], path[higher], above[higher]
        path, above = then(all_.edge[above], path), all_.parent[above]
        distance += 1
    return np.concatenate(found), np.concatenate(keys)


@dataclass(frozen=True, eq=False)
class Dice:
    """An inverted index of features of trees, scored by the Dice coefficient of weighted multisets.

    s(q, d) = 2 sum_f w_f min(q_f, d_f) / (sum_f w_f q_f + sum_f w_f d_f), with w_f = ln(1 + N / n_f) for a feature that
    n_f of the N trees have (n_f = 1 for one of the query alone). It is 1 exactly where both have the same features.

    Attributes
    ----------
    key : uint64, shape (features,), ascending.
    start : int64, shape (features + 1,). Where the postings of each feature begin.
    tree, count : shape (postings,). Trees, and how often each has the feature.
    weight : float64, shape (features,).
    mass : float64, shape (trees,). The weights of a tree's features together.
    """

    key: Keys
    start: Offsets
    tree: Offsets
    count: Offsets
    weight: Floats
    mass: Floats

    @staticmethod
    def of(found: Features, trees: int) -> Dice:
        """Returns the index of the features of so many trees."""
        tree, key = found
        order = np.argsort(key)
        key = key[order]
        new = np.concatenate(([True], key[1:] != key[:-1]))
        cell = np.sort((np.cumsum(new) - 1) * trees + tree[order])  # by feature, then tree
        key = key[new]
        first = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
        count = np.diff(np.concatenate((first, [len(cell)])))
        feature, tree = np.divmod(cell[first], trees)
        ends = np.searchsorted(feature, np.arange(len(key) + 1))
        weight = np.log1p(trees / np.diff(ends))
        mass = np.bincount(tree, weights=count * np.repeat(weight, np.diff(ends)), minlength=trees).astype(np.float64)
        return Dice(key, ends, tree.astype(np.int32), count.astype(np.int32), weight, mass)

    def weights(self, key: Keys) -> Floats:
        """Returns the weight of each feature."""
        at = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        out: Floats = np.where(self.key[at] == key, self.weight[at], np.log1p(len(self.mass)))
        return out

    def score(self, query: Features) -> Floats:
        """Returns the scores of all trees, shape (trees,), for the features of one."""
        key, count = np.unique(query[1], return_counts=True)
        at = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        known, weight = self.key[at] == key, self.weights(key)
        at, asked, mass = at[known], count[known], float(weight @ count)
        lengths = self.start[at + 1] - self.start[at]
        where = np.arange(int(lengths.sum())) + np.repeat(self.start[at] - np.cumsum(lengths) + lengths, lengths)
        shared = np.minimum(self.count[where], np.repeat(asked, lengths)) * np.repeat(weight[known], lengths)
        common = np.bincount(self.tree[where], weights=shared, minlength=len(self.mass))
        both = self.mass + mass
        out: Floats = np.divide(2 * common, both, out=np.zeros_like(both), where=both > 0)
        return out


# ---- largest common subtree -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Candidates:
    """Nodes of some trees of a forest, side by side; numbers of nodes are places here, numbers of trees too."""

    tree: Offsets
    parent: Offsets
    label: Keys
    edge: Keys
    variable: npt.NDArray[np.bool_]
    size: Offsets

    @staticmethod
    def of(trees: Forest, all_: Nodes, chosen: Offsets) -> Candidates:
        """Returns the nodes of the chosen trees; `all_` are those of the whole forest."""
        size = trees.offsets[chosen + 1] - trees.offsets[chosen]
        tree = np.repeat(np.arange(len(chosen)), size)
        shift = np.repeat(trees.offsets[chosen] - np.cumsum(size) + size, size)
        row = np.arange(len(tree)) + shift
        parent = all_.parent[row]
        parent = np.where(parent >= 0, parent - shift, -1)
        return Candidates(tree, parent, all_.label[row], all_.edge[row], all_.variable[row], size)


def common(query: Tree, found: Candidates, credit: float = 0.0) -> Floats:
    """Returns how well the largest connected part that a query shares with each tree covers both, from 0 to 1.

    A part of the query and one of the tree match if their nodes can be paired, the tops with each other and then each
    pair's arguments: those at the same edge, or of an unordered operator any, each once; the largest argument of the
    query takes the best partner first, so that equal trees always match as a whole. Paired nodes have equal labels and
    count 1. Two different variables may be paired too, if no others claim one of them more often, and count `credit`.
    With m counted, the score is 2 m / (nodes of the query + nodes of the tree).

    Returns float64, shape (trees,).
    """
    asked = nodes(forest.pack([query]))
    nodes_ = len(found.tree)
    worth = np.zeros((len(query), nodes_), np.float32)
    partner = np.full((len(query), nodes_), -1, np.int32)  # of a query's node, below each partner of its parent
    below, size = children(query), sizes(query)
    matched: dict[int, Offsets] = {}
    for node in range(len(query) - 1, -1, -1):
        own = (found.label == asked.label[node]).astype(np.float32)
        if credit and asked.variable[node]:
            own[found.variable & (own == 0)] = credit
        fits = own > 0
        free = np.ones(nodes_, dtype=bool)
        for child in sorted(below[node], key=lambda child: -size[child]):
            low = matched[child]
            low = low[(found.edge[low] == asked.edge[child]) & free[low] & fits[found.parent[low]]]
            low = low[np.lexsort((-worth[child, low], found.parent[low]))]
            above, first = np.unique(found.parent[low], return_index=True)
            partner[child, above] = low[first]
            free[low[first]] = False
            own[above] += worth[child, low[first]]
        worth[node] = own
        matched[node] = np.flatnonzero(fits & (found.parent >= 0))
    starts = np.cumsum(found.size) - found.size
    by_node = np.maximum.reduceat(worth, starts, axis=1)  # (nodes of the query, trees)
    best = by_node.max(axis=0)
    if credit:
        best = _one_to_one(_paired(asked.parent, partner, by_node, worth, found), asked, found, credit)
    out: Floats = 2 * best.astype(np.float64) / (len(query) + found.size)
    return out


def aligned(query: Tree, trees: Forest, all_: Nodes, chosen: Offsets, credit: float) -> Floats:
    """Returns `common` for trees by their numbers, shape (chosen,); so many at a time that memory stays bounded."""
    out = np.zeros(len(chosen))
    block = np.cumsum(trees.offsets[chosen + 1] - trees.offsets[chosen]) * len(query) // _CELLS
    for number in np.unique(block):
        some = block == number
        out[some] = common(query, Candidates.of(trees, all_, chosen[some]), credit)
    return out


def _paired(above: Offsets, partner: Places, by_node: Worth, worth: Worth, found: Candidates) -> Places:
    """Returns the node that each node of the query is paired with in each tree, or -1: (nodes of the query, trees)."""
    best, top = by_node.max(axis=0), by_node.argmax(axis=0)
    tops = np.flatnonzero(worth[top[found.tree], np.arange(len(found.tree))] == best[found.tree])
    _, first = np.unique(found.tree[tops], return_index=True)
    root = tops[first].astype(np.int32)
    out = np.full(by_node.shape, -1, np.int32)
    for node, parent in enumerate(above.tolist()):
        if parent >= 0:
            out[node] = np.where(out[parent] >= 0, partner[node][out[parent]], -1)
        here = (top == node) & (best > 0)
        out[node, here] = root[here]
    return out


def _one_to_one(paired: Places, asked: Nodes, found: Candidates, credit: float) -> Floats:
    """What pairs count in each tree if each variable stands for one other alone, that which it meets most often."""
    node, tree = np.nonzero(paired >= 0)
    other = paired[node, tree]
    free = asked.variable[node]
    out = np.bincount(tree[~free], minlength=paired.shape[1]).astype(np.float64)
    claims = np.stack((tree[free].astype(np.uint64), asked.label[node[free]], found.label[other[free]]))
    claim, times = np.unique(claims, axis=1, return_counts=True)
    worth = times * np.where(claim[1] == claim[2], 1.0, credit)
    used: set[tuple[int, int, int]] = set()
    for at in np.lexsort((-worth, claim[0])).tolist():
        which, mine, theirs = claim[:, at].tolist()
        sides = {(0, which, mine), (1, which, theirs)}
        if not sides & used:
            used |= sides
            out[which] += worth[at]
    return out


# ---- the system -------------------------------------------------------------------------------------------------

PARTS = ("tuples", "variables", "subtree")


@dataclass(frozen=True, eq=False)
class View:
    """The trees of one kind, ready to be searched; `variables` holds the tuples with one label for all variables."""

    formulas: Formulas
    nodes: Nodes
    tuples: Dice
    variables: Dice | None

    @staticmethod
    def of(found: Formulas, window: int | None, variables: bool) -> View:
        """Indexes the trees."""
        all_, trees = nodes(found.trees), len(found.trees)
        wild = Dice.of(pairs(wildcards(all_), window), trees) if variables else None
        return View(found, all_, Dice.of(pairs(all_, window), trees), wild)


@dataclass(frozen=True)
class Tangent:
    """Formulas ranked by shared tuples and the largest common subtree.

    A document counts with its best formula for each formula of the topic (or with the sum over its own), and a topic of
    several formulas sums over them, each by the weight of its tuples.

    Parameters
    ----------
    representation : `slt`, `opt` or `both`, whose scores are averaged.
    window : edges between the symbols of a tuple, at most; None for any number.
    weights : of the parts of the score: `tuples` (Dice), `variables` (Dice of the tuples with one label for all
        variables) and `subtree` (of the largest common subtree).
    credit : what two different variables count that stand for each other in the common subtree; 0: never.
    candidates : formulas that are aligned with the query, the best by the other parts; the subtree of others counts 0.
    aggregate : `best` or `sum`.
    route : by which LaTeX is read into trees, `own` or `latexml`.
    depth : documents returned of each topic.
    """

    representation: str = "both"
    window: int | None = None
    weights: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 1.0))
    credit: float = 0.8
    candidates: int = 500
    aggregate: str = "best"
    route: str = formulas.OWN
    depth: int = 1000
    name: str = "tangent"

    def __post_init__(self) -> None:
        checks.choice("representation", self.representation, (*formulas.KINDS, "both"))
        if self.window is not None:
            checks.whole("window", self.window, low=1)
        if not isinstance(self.weights, Mapping):
            raise HarnessError(f"key 'weights' is {self.weights!r}, expected parts and weights such as {{tuples: 1}}")
        for part, weight in self.weights.items():
            checks.choice("weights", part, PARTS)
            checks.number(f"weights.{part}", weight)
        if not self._weight("tuples") and not self._weight("variables"):
            raise HarnessError("key 'weights': expected 'tuples' or 'variables' above 0, which find the candidates")
        checks.number("credit", self.credit, high=0.99)  # the same variable is always better
        checks.whole("candidates", self.candidates, low=1)
        checks.choice("aggregate", self.aggregate, formulas.AGGREGATES)
        checks.choice("route", self.route, formulas.ROUTES)
        checks.whole("depth", self.depth, low=1)

    def __call__(self, request: Request) -> Run:
        """Ranks documents by their formulas."""
        corpus = request.corpus_for(self.name)
        kinds = formulas.KINDS if self.representation == "both" else (self.representation,)
        with phase("index"):
            views = {kind: self.view(formulas.read(corpus, kind, self.route)) for kind in kinds}
            asked = {kind: formulas.queries(request.topics, corpus, kind, self.route) for kind in kinds}

        def score(topic: Topic) -> Floats:
            found = [self.documents(asked[kind][topic.id], view) for kind, view in views.items()]
            total: Floats = np.sum(found, axis=0) / len(kinds)
            return total

        return formulas.ranked(self.name, request, views[kinds[0]].formulas, score, self.depth)

    def view(self, found: Formulas) -> View:
        """Trees of one kind, indexed."""
        return View.of(found, self.window, self._weight("variables") > 0)

    def documents(self, asked: tuple[Tree, ...], view: View) -> Floats:
        """Returns what a topic's trees give to all documents, shape (documents,)."""
        total, mass = np.zeros(len(view.formulas.ids)), 0.0
        for tree in asked:
            weight = float(view.tuples.weights(pairs(nodes(forest.pack([tree])), self.window)[1]).sum())
            scores = self.trees(tree, view)
            found = np.flatnonzero(scores)
            total += weight * view.formulas.documents(found, scores[found], self.aggregate)
            mass += weight
        return total / mass if mass else total

    def trees(self, query: Tree, view: View) -> Floats:
        """Returns the scores of all trees for a query, 0 to 1, shape (trees,)."""
        own = nodes(forest.pack([query]))
        scores = self._weight("tuples") * view.tuples.score(pairs(own, self.window))
        if view.variables is not None:
            scores += self._weight("variables") * view.variables.score(pairs(wildcards(own), self.window))
        if self._weight("subtree"):
            chosen = np.argsort(-scores, kind="stable")[: self.candidates]
            chosen = np.sort(chosen[scores[chosen] > 0])
            scores[chosen] += self._weight("subtree") * aligned(
                query, view.formulas.trees, view.nodes, chosen, self.credit
            )
        return scores / sum(self._weight(part) for part in PARTS)

    def _weight(self, part: str) -> float:
        return float(self.weights.get(part, 0.0))

"""Pairs and subtrees of trees: formula search by shared symbol pairs and the largest common subtree.

Symbol layout trees (SLT), operator trees (OPT) or both are compared. An inverted index of tuples (two symbols and the
edges between them, as in Tangent-3) finds candidates by the Dice coefficient of tuples weighted by rarity. The top
candidates are aligned with the query, and the size of the largest matching connected part is related to the sizes of
both trees. The score is a weighted mean of these components; each lies between 0 and 1, and is 1 for the query formula
itself. Subtree and mean are this project's own: the published Tangent-S is `harness.systems.structural.tangent_s`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from harness.data.columns import Floats
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees.forest import Forest
from harness.formulas.trees.tree import END, Tree, children, subtree_sizes
from harness.io import checks
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.lexical.numbering import Offsets
from harness.systems.structural import formulas
from harness.systems.structural.formulas import Formulas

Keys = npt.NDArray[np.uint64]
Features = tuple[Offsets, Keys]  # for each occurrence of a feature, its tree and its hash
Places = npt.NDArray[np.int32]
Worth = npt.NDArray[np.float32]
UNORDERED, VARIABLE = "U!", "V!"
LARGE, NEAR = 2000, 20  # trees with more than LARGE nodes have only tuples of at most NEAR edges
_CELLS = 1 << 22  # pairs of nodes compared at a time
_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


# ---- features ---------------------------------------------------------------------------------------------------


def hashes(names: Iterable[str]) -> Keys:
    """Returns a 64-bit hash of each name, the same in every process."""
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def then(first: Keys, second: Keys) -> Keys:
    """Combines the hashes of ordered pairs; equal pairs have equal hashes, and different pairs almost never."""
    mixed = (first * _STEP) ^ second
    mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX
    out: Keys = mixed ^ (mixed >> np.uint64(29))
    return out


@dataclass(frozen=True, eq=False)
class ForestNodes:
    """The nodes of all trees of a forest, as columns.

    Attributes
    ----------
    tree : int64, shape (nodes,).
    parent : int64, shape (nodes,). Index among all nodes; -1 for a root.
    label, edge : uint64, shape (nodes,). Hashes; all edges below an unordered operator are equal.
    variable : bool, shape (nodes,).
    leaf : bool, shape (nodes,).
    """

    tree: Offsets
    parent: Offsets
    label: Keys
    edge: Keys
    variable: npt.NDArray[np.bool_]
    leaf: npt.NDArray[np.bool_]


def nodes(trees: Forest) -> ForestNodes:
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
    return ForestNodes(tree, parent, hashes(trees.label_names)[trees.labels], edge, variable, leaf)


def wildcards(all_: ForestNodes) -> ForestNodes:
    """Returns the nodes with the labels of all variables replaced by one common label."""
    return replace(all_, label=np.where(all_.variable, hashes([VARIABLE]), all_.label))


def pairs(all_: ForestNodes, window: int | None = None, flat: bool = False) -> Features:
    """Returns the tuples of `harness.formulas.trees.tree.tuples`, end marks included, in any order.

    With `flat`, only trees without a node below the root's children have end marks, as in Tangent-3.

    The two symbols are at most `window` edges apart; None for any distance, except that trees of more than `LARGE`
    nodes, which could have millions of tuples, are limited to `NEAR` edges. Time and number of tuples grow with nodes
    times window, or nodes times depth.
    """
    large = np.bincount(all_.tree) > LARGE
    leaves = np.flatnonzero(all_.leaf)
    if flat:
        deep = all_.tree[(all_.parent >= 0) & (all_.parent[all_.parent] >= 0)]
        leaves = leaves[~np.isin(all_.tree[leaves], deep)]
    trees = [all_.tree[leaves]]
    keys = [then(all_.label[leaves], np.broadcast_to(hashes([END]), leaves.shape))]
    low = np.flatnonzero(all_.parent >= 0)
    above, path = all_.parent[low], all_.edge[low]
    distance = 1
    while low.size and (window is None or distance <= window):
        if distance == NEAR + 1 and large.any():
            kept = ~large[all_.tree[low]]
            low, path, above = low[kept], path[kept], above[kept]
        trees.append(all_.tree[low])
        keys.append(then(then(all_.label[above], all_.label[low]), path))
        higher = all_.parent[above] >= 0
        low, path, above = low[higher], path[higher], above[higher]
        path, above = then(all_.edge[above], path), all_.parent[above]
        distance += 1
    return np.concatenate(trees), np.concatenate(keys)


@dataclass(frozen=True, eq=False)
class Dice:
    """An inverted index of features of trees, scored by the Dice coefficient of weighted multisets.

    s(q, d) = 2 sum_f w_f min(q_f, d_f) / (sum_f w_f q_f + sum_f w_f d_f), with w_f = ln(1 + N / n_f) for a feature that
    n_f of the N trees have (n_f = 1 if only the query has it), or with w_f = 1 if not `weighted`. It is 1 exactly if
    both have the same features.

    Attributes
    ----------
    key : uint64, shape (features,), ascending.
    start : int64, shape (features + 1,). Where the postings of each feature begin.
    tree, count : shape (postings,). The tree of each posting, and how often the feature occurs in it.
    weight : float64, shape (features,).
    mass : float64, shape (trees,). Sum of the weights of a tree's features.
    unseen : weight of a feature that no tree has.
    """

    key: Keys
    start: Offsets
    tree: Offsets
    count: Offsets
    weight: Floats
    mass: Floats
    unseen: float

    @staticmethod
    def of(features: Features, trees: int, weighted: bool = True) -> Dice:
        """Builds an index of features; `trees` is the number of trees."""
        tree, key = features
        order = np.argsort(key)
        key = key[order]
        new = np.concatenate(([True], key[1:] != key[:-1]))
        cell = np.sort((np.cumsum(new) - 1) * trees + tree[order])  # by feature, then tree
        key = key[new]
        first = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
        count = np.diff(np.concatenate((first, [len(cell)])))
        feature, tree = np.divmod(cell[first], trees)
        ends = np.searchsorted(feature, np.arange(len(key) + 1))
        weight = np.log1p(trees / np.diff(ends)) if weighted else np.ones(len(key))
        mass = np.bincount(tree, weights=count * np.repeat(weight, np.diff(ends)), minlength=trees).astype(np.float64)
        unseen = float(np.log1p(trees)) if weighted else 1.0
        return Dice(key, ends, tree.astype(np.int32), count.astype(np.int32), weight, mass, unseen)

    def weights(self, key: Keys) -> Floats:
        """Returns the weight of each feature."""
        at = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        out: Floats = np.where(self.key[at] == key, self.weight[at], self.unseen)
        return out

    def score(self, query: Features) -> Floats:
        """Returns the scores of all trees for a query's features, shape (trees,)."""
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
class CandidateNodes:
    """Nodes of some trees of a forest, as columns; `tree` and `parent` are indices within this selection."""

    tree: Offsets
    parent: Offsets
    label: Keys
    edge: Keys
    variable: npt.NDArray[np.bool_]
    size: Offsets

    @staticmethod
    def of(trees: Forest, all_: ForestNodes, chosen: Offsets) -> CandidateNodes:
        """Selects the nodes of some trees from those of the whole forest (`all_`)."""
        size = trees.offsets[chosen + 1] - trees.offsets[chosen]
        tree = np.repeat(np.arange(len(chosen)), size)
        shift = np.repeat(trees.offsets[chosen] - np.cumsum(size) + size, size)
        row = np.arange(len(tree)) + shift
        parent = all_.parent[row]
        parent = np.where(parent >= 0, parent - shift, -1)
        return CandidateNodes(tree, parent, all_.label[row], all_.edge[row], all_.variable[row], size)


def common(query: Tree, candidates: CandidateNodes, credit: float = 0.0) -> Floats:
    """Returns the score of the largest common connected subtree of a query and each tree, from 0 to 1, shape (trees,).

    Two connected parts match if their nodes can be paired: first their top nodes, then recursively the arguments of
    each pair. Arguments are paired if they are at the same edge; below an unordered operator any two can be paired,
    each once. The largest argument of the query chooses its partner first, so that equal trees always match completely.
    Paired nodes have equal labels and count 1. Two different variables can be paired as well and count `credit`; each
    variable is matched with a single other one. If m is the count, the score is
    2 m / (nodes of the query + nodes of the tree).
    """
    asked = nodes(forest.pack([query]))
    nodes_ = len(candidates.tree)
    worth = np.zeros((len(query), nodes_), np.float32)
    partner = np.full((len(query), nodes_), -1, np.int32)  # of each query node, given the partner of its parent
    below, size = children(query), subtree_sizes(query)
    matched: dict[int, Offsets] = {}
    for node in range(len(query) - 1, -1, -1):
        own = (candidates.label == asked.label[node]).astype(np.float32)
        if credit and asked.variable[node]:
            own[candidates.variable & (own == 0)] = credit
        fits = own > 0
        free = np.ones(nodes_, dtype=bool)
        for child in sorted(below[node], key=lambda child: -size[child]):
            low = matched[child]
            low = low[(candidates.edge[low] == asked.edge[child]) & free[low] & fits[candidates.parent[low]]]
            low = low[np.lexsort((-worth[child, low], candidates.parent[low]))]
            above, first = np.unique(candidates.parent[low], return_index=True)
            partner[child, above] = low[first]
            free[low[first]] = False
            own[above] += worth[child, low[first]]
        worth[node] = own
        matched[node] = np.flatnonzero(fits & (candidates.parent >= 0))
    starts = np.cumsum(candidates.size) - candidates.size
    by_node = np.maximum.reduceat(worth, starts, axis=1)  # (nodes of the query, trees)
    best = by_node.max(axis=0)
    if credit:
        best = _one_to_one(_paired(asked.parent, partner, by_node, worth, candidates), asked, candidates, credit)
    out: Floats = 2 * best.astype(np.float64) / (len(query) + candidates.size)
    return out


def aligned(query: Tree, trees: Forest, all_: ForestNodes, chosen: Offsets, credit: float) -> Floats:
    """Returns `common` for some trees of a forest, shape (chosen,); works in blocks to bound the memory."""
    out = np.zeros(len(chosen))
    block = np.cumsum(trees.offsets[chosen + 1] - trees.offsets[chosen]) * len(query) // _CELLS
    for number in np.unique(block):
        some = block == number
        out[some] = common(query, CandidateNodes.of(trees, all_, chosen[some]), credit)
    return out


def _paired(above: Offsets, partner: Places, by_node: Worth, worth: Worth, candidates: CandidateNodes) -> Places:
    """Returns each query node's partner in each tree, -1 if it has none; shape (nodes of the query, trees)."""
    best, top = by_node.max(axis=0), by_node.argmax(axis=0)
    tops = np.flatnonzero(worth[top[candidates.tree], np.arange(len(candidates.tree))] == best[candidates.tree])
    _, first = np.unique(candidates.tree[tops], return_index=True)
    root = tops[first].astype(np.int32)
    out = np.full(by_node.shape, -1, np.int32)
    for node, parent in enumerate(above.tolist()):
        if parent >= 0:
            out[node] = np.where(out[parent] >= 0, partner[node][out[parent]], -1)
        here = (top == node) & (best > 0)
        out[node, here] = root[here]
    return out


def _one_to_one(paired: Places, asked: ForestNodes, candidates: CandidateNodes, credit: float) -> Floats:
    """Counts the pairs in each tree, with each variable matched to one other only, preferably the most frequent."""
    node, tree = np.nonzero(paired >= 0)
    other = paired[node, tree]
    free = asked.variable[node]
    out = np.bincount(tree[~free], minlength=paired.shape[1]).astype(np.float64)
    claims = np.stack((tree[free].astype(np.uint64), asked.label[node[free]], candidates.label[other[free]]))
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
class TupleIndex:
    """Indexed trees of one kind; `variables` indexes the tuples with one common label for all variables."""

    formulas: Formulas
    nodes: ForestNodes
    tuples: Dice
    variables: Dice | None

    @staticmethod
    def of(indexed: Formulas, window: int | None, variables: bool) -> TupleIndex:
        """Indexes trees of one kind."""
        all_, trees = nodes(indexed.trees), len(indexed.trees)
        wild = Dice.of(pairs(wildcards(all_), window), trees) if variables else None
        return TupleIndex(indexed, all_, Dice.of(pairs(all_, window), trees), wild)


@dataclass(frozen=True)
class Tangent(checks.Checked):
    """Ranks documents by the shared tuples and the largest common subtrees of their formulas.

    For each formula of the topic, a document's score is that of its best formula, or the sum over its formulas. These
    scores are averaged over the formulas of the topic, weighted by their tuples.

    Parameters
    ----------
    representation : `slt`, `opt` or `both`, which averages the scores of both.
    window : maximum edges between the symbols of a tuple; None for any number.
    weights : weights of the score's components: `tuples` (Dice), `variables` (Dice of tuples with one common label for
        all variables) and `subtree` (largest common subtree).
    credit : value of a pair of different variables in the common subtree, where 1 is that of equal labels; 0 forbids
        such pairs.
    candidates : number of formulas aligned with the query, the best by the other components; the subtree component of
        all others is 0.
    aggregate : `best` or `sum` of a document's formulas.
    route : parser of LaTeX, `own` or `latexml`.
    depth : documents returned for each topic.
    """

    representation: Literal["opt", "slt", "both"] = "both"
    window: checks.Positive | None = None
    weights: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 1.0))
    credit: Annotated[float, partial(checks.check_number, high=0.99)] = 0.8  # the same variable is always better
    candidates: checks.Positive = 500
    aggregate: formulas.Aggregate = "best"
    route: formulas.Route = formulas.OWN
    depth: checks.Positive = 1000
    name: str = "tangent"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.weights, Mapping):
            raise HarnessError(f"key 'weights' is {self.weights!r}, expected parts and weights such as {{tuples: 1}}")
        for part, weight in self.weights.items():
            checks.choice("weights", part, PARTS)
            checks.check_number(f"weights.{part}", weight)
        if not self._weight("tuples") and not self._weight("variables"):
            raise HarnessError("key 'weights': expected 'tuples' or 'variables' above 0, which find the candidates")

    def __call__(self, request: Request) -> Run:
        """Ranks documents by their formulas."""
        corpus = request.corpus_for(self.name)
        kinds = formulas.KINDS if self.representation == "both" else (self.representation,)
        with phase("index"):
            views = {kind: self.view(formulas.read(corpus, kind, self.route)) for kind in kinds}
            asked = {kind: formulas.queries(request.topics, corpus, kind, self.route) for kind in kinds}

        def score(topic: Topic) -> Floats:
            scores = [self.documents(asked[kind][topic.id], view) for kind, view in views.items()]
            total: Floats = np.sum(scores, axis=0) / len(kinds)
            return total

        return formulas.ranked(self.name, request, views[kinds[0]].formulas, score, self.depth)

    def view(self, of_kind: Formulas) -> TupleIndex:
        """Returns the index of the trees of one kind."""
        return TupleIndex.of(of_kind, self.window, self._weight("variables") > 0)

    def documents(self, asked: tuple[Tree, ...], view: TupleIndex) -> Floats:
        """Returns the scores of all documents for a topic's trees, shape (documents,)."""
        total, mass = np.zeros(len(view.formulas.ids)), 0.0
        for tree in asked:
            weight = float(view.tuples.weights(pairs(nodes(forest.pack([tree])), self.window)[1]).sum())
            scores = self.trees(tree, view)
            matching = np.flatnonzero(scores)
            total += weight * view.formulas.documents(matching, scores[matching], self.aggregate)
            mass += weight
        return total / mass if mass else total

    def trees(self, query: Tree, view: TupleIndex) -> Floats:
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

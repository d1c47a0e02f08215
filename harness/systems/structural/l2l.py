"""L2L: formula similarity by leaf-to-leaf paths of operator trees, symbol sequences, and symbols.

This follows the leaf-to-leaf system of Vemuganti, Seiya and Kani (2025), as described in the thesis on MathAMR+: an
unweighted ensemble of three similarities, of structure (paths between leaves of the operator tree), of LaTeX, and of
the symbols of Presentation MathML. Here, the latter two are computed from the symbol layout tree: its labels from left
to right correspond to the LaTeX without braces and spelling variants, and exist even in corpora that have only trees.
Each similarity is the Dice coefficient of multisets weighted by rarity, between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.data.columns import Floats
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees.forest import Forest
from harness.formulas.trees.tree import END, Tree
from harness.io import checks
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.lexical.numbering import Offsets
from harness.systems.structural import formulas, tangent
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.tangent import UNORDERED, Dice, Features, ForestNodes, Keys, hashes, nodes, then

SIMILARITIES = {"paths": "opt", "sequence": "slt", "symbols": "slt"}  # similarity -> kind of trees


def leaf_paths(trees: Forest, all_: ForestNodes, most: int) -> Features:
    """Returns the shortest paths between all pairs of leaves of each tree, hashed from the labels along the path.

    A path runs from left to right; if its highest node is an unordered operator, both directions are equal. A tree with
    a single leaf has the path from the leaf to the root. In a tree with more than `most` paths, those with the longest
    arms (edges from a leaf to the highest node of the path) are excluded, but never all. Returns all occurrences, in
    any order.
    """
    reach = _arms(trees, all_, most)
    loose = np.array([name.startswith(UNORDERED) for name in trees.label_names])[trees.labels]
    leaf = np.flatnonzero(all_.leaf)
    top, branch, arm = leaf, leaf, all_.label[leaf]
    single = np.bincount(all_.tree[leaf], minlength=len(trees)) == 1
    blocks: list[tuple[Offsets, Offsets, Offsets, Keys]] = []
    alone, length = [], 0
    while leaf.size:
        # Move one edge up: the arm now ends in `branch`, a child of `top`.
        length += 1
        stays = (all_.parent[top] >= 0) & (length <= reach[all_.tree[leaf]])
        if length > 1:
            arm = then(arm, all_.label[top])
        ends = (all_.parent[top] < 0) & single[all_.tree[leaf]]
        alone.append((all_.tree[leaf[ends]], arm[ends]))
        leaf, arm, branch = leaf[stays], arm[stays], top[stays]
        top = all_.parent[branch]
        blocks.append((top, leaf, branch, arm))
    top, leaf, branch, arm = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    order = np.lexsort((leaf, top))
    top, branch, arm = top[order], branch[order], arm[order]
    # Entries are sorted by top and branch; each is paired with the later entries of its top outside its own branch.
    place = np.arange(len(top))
    begin = _ends(branch + top * len(all_.tree))
    number = _ends(top) - begin
    first = np.repeat(place, number)
    second = np.arange(int(number.sum())) + np.repeat(begin - np.cumsum(number) + number, number)
    one, two, middle = arm[first], arm[second], top[first]
    free = loose[middle]
    low, high = np.where(free, np.minimum(one, two), one), np.where(free, np.maximum(one, two), two)
    path = then(then(low, all_.label[middle]), high)
    tree, whole = (np.concatenate(parts) for parts in zip(*alone, strict=True))
    whole = then(whole, np.broadcast_to(hashes([END]), whole.shape))  # no path between two leaves
    return np.concatenate((all_.tree[middle], tree)), np.concatenate((path, whole))


def _ends(run: Offsets) -> Offsets:
    """Returns, for each entry, the position after the end of its run of equal values."""
    last = np.flatnonzero(np.append(run[1:] != run[:-1], True)[: len(run)]) + 1
    out: Offsets = np.repeat(last, np.diff(last, prepend=0))
    return out


def _arms(trees: Forest, all_: ForestNodes, most: int) -> Offsets:
    """Returns each tree's maximum arm length in edges: the largest with at most `most` paths, but at least one path."""
    reach = np.ones(len(trees), np.int64)
    below = np.flatnonzero(all_.parent >= 0)
    own = all_.leaf.astype(np.int64)
    leaves, length = own, 0  # leaves at most `length` edges below each node
    growing, before = np.ones(len(trees), dtype=bool), np.zeros(len(trees), np.int64)
    while growing.any():
        length += 1
        squares = leaves**2
        farther = own + np.bincount(all_.parent[below], weights=leaves[below], minlength=len(own)).astype(np.int64)
        same = np.bincount(all_.parent[below], weights=squares[below], minlength=len(own)).astype(np.int64)
        pairs = np.where(all_.leaf, 0, farther**2 - same) // 2
        number = np.add.reduceat(pairs, trees.offsets[:-1])
        fits = (number <= most) | (before == 0)
        changed = np.add.reduceat((farther != leaves).astype(np.int64), trees.offsets[:-1]) > 0
        growing &= fits & changed
        reach[growing] = length
        leaves, before = farther, number
    return reach


def sequences(all_: ForestNodes, length: int) -> Features:
    """Returns the label n-grams of each tree in tree order, padded with boundary marks; n is `length`."""
    edge = hashes(["", " "])
    trees = int(all_.tree[-1]) + 1 if len(all_.tree) else 0
    tree = np.concatenate((np.repeat(np.arange(trees), length - 1), all_.tree, np.repeat(np.arange(trees), length - 1)))
    label = np.concatenate((np.full(trees * (length - 1), edge[0]), all_.label, np.full(trees * (length - 1), edge[1])))
    order = np.argsort(tree, kind="stable")
    tree, label = tree[order], label[order]
    number = len(label) - length + 1
    key = label[:number]
    for step in range(1, length):
        key = then(key, label[step : step + number])
    inside = tree[:number] == tree[length - 1 :]
    return tree[:number][inside], key[inside]


@dataclass(frozen=True)
class L2L(checks.Checked):
    """L2L: ranks documents by a weighted mean of the structure, sequence and symbol similarities of their formulas.

    For each formula of the topic, a document's score is that of its best formula, or the sum over its formulas. These
    scores are averaged over the formulas of the topic, weighted by their features.

    Parameters
    ----------
    weights : weights of the similarities: `paths` between leaves of the operator tree, `sequence` of symbols of the
        layout tree, and `symbols` regardless of order.
    names : whether variables at the ends of paths keep their names; otherwise all variables are equal there.
    most : approximate maximum of paths of a formula; see `leaf_paths`.
    run : symbols in one n-gram of a sequence.
    aggregate : `best` or `sum` of a document's formulas.
    route : parser of LaTeX, `own` or `latexml`.
    depth : documents returned for each topic.
    """

    weights: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(SIMILARITIES, 1.0))
    names: bool = False
    most: checks.Positive = 2000
    run: checks.Positive = 3
    aggregate: formulas.Aggregate = "best"
    route: formulas.Route = formulas.OWN
    depth: checks.Positive = 1000
    name: str = "l2l"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.weights, Mapping) or not self.weights:
            raise HarnessError(f"key 'weights' is {self.weights!r}, expected weights such as {{paths: 1}}")
        for part, weight in self.weights.items():
            checks.choice("weights", part, SIMILARITIES)
            checks.check_number(f"weights.{part}", weight)
        if not any(self.weights.values()):
            raise HarnessError("key 'weights': expected one above 0")

    def __call__(self, request: Request) -> Run:
        """Ranks documents by their formulas."""
        corpus = request.corpus_for(self.name)
        wanted = {part: float(weight) for part, weight in self.weights.items() if weight}
        with phase("index"):
            kinds = sorted({SIMILARITIES[part] for part in wanted})
            known = {kind: formulas.read(corpus, kind, self.route) for kind in kinds}
            asked = {kind: formulas.queries(request.topics, corpus, kind, self.route) for kind in kinds}
            indexes = {part: self.index(part, known[SIMILARITIES[part]].trees) for part in wanted}

        def score(topic: Topic) -> Floats:
            total = np.zeros(len(known[kinds[0]].ids))
            for part, weight in wanted.items():
                kind = SIMILARITIES[part]
                total += weight * self.documents(part, asked[kind][topic.id], known[kind], indexes[part])
            return total / sum(wanted.values())

        return formulas.ranked(self.name, request, known[kinds[0]], score, self.depth)

    def index(self, part: str, trees: Forest) -> Dice:
        """Returns an index of the trees' features for a similarity."""
        return Dice.of(self.features(part, trees), len(trees))

    def features(self, part: str, trees: Forest) -> Features:
        """Returns the features of trees that a similarity compares."""
        all_ = nodes(trees)
        if part == "paths":
            return leaf_paths(trees, all_ if self.names else tangent.wildcards(all_), self.most)
        return sequences(all_, self.run if part == "sequence" else 1)

    def documents(self, part: str, asked: tuple[Tree, ...], known: Formulas, index: Dice) -> Floats:
        """Returns the scores of all documents for a topic's trees by one similarity, 0 to 1, shape (documents,)."""
        total, mass = np.zeros(len(known.ids)), 0.0
        for tree in asked:
            features = self.features(part, forest.pack([tree]))
            scores = index.score(features)
            weight = float(index.weights(features[1]).sum())
            matching = np.flatnonzero(scores)
            total += weight * known.documents(matching, scores[matching], self.aggregate)
            mass += weight
        return total / mass if mass else total

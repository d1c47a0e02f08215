"""Trees made at random, and what every tree must be."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import strategies as st

from harness.formulas.trees.tree import Tree, children, parse_tangent, tangent_string, tree_of

Nested = tuple[str, Sequence[tuple[str, "Nested"]]]  # (label, [(edge, child), ...])


def tree_from_tuples(nested: Nested) -> Tree:
    """Builds a tree from nested tuples (label, [(edge, child), ...])."""
    nodes: list[tuple[str, int, str]] = []
    waiting: list[tuple[Nested, int, str]] = [(nested, -1, "")]
    while waiting:
        (label, below), parent, edge = waiting.pop()
        waiting.extend([(child, len(nodes), name) for name, child in reversed(below)])
        nodes.append((label, parent, edge))
    return tree_of(nodes)


_LABELS = "V!x V!𝑦 N!2 = + , [ ] ? &comma; &amp;comma; & M![)1x2 E!"
LABELS = (*_LABELS.split(), "", "T!a b")
EDGES = ("n", "a", "b", "o", "u", "c", "d", "w", "e", "0", "1", "A")


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """A tree in preorder: the parent of each node is the node before it or one above that."""
    size = draw(st.integers(1, 12))
    labels = [draw(st.sampled_from(LABELS) | st.text(max_size=4)) for _ in range(size)]
    path: list[int] = []
    parents: list[int] = []
    for number in range(size):
        if path:
            del path[draw(st.integers(1, len(path))) :]
        parents.append(path[-1] if path else -1)
        path.append(number)
    edges = ["", *(draw(st.sampled_from(EDGES)) for _ in range(size - 1))]
    return Tree(tuple(labels), tuple(parents), tuple(edges))


def random_trees(number: int, seed: int = 0) -> list[Tree]:
    """Trees of up to 30 nodes with few distinct labels."""
    rng = random.Random(seed)

    def nested(size: int) -> Nested:
        parts = []
        left = size - 1
        while left > 0:
            part = rng.randint(1, left)
            parts.append((rng.choice(EDGES), nested(part)))
            left -= part
        return rng.choice(("V!x", "V!y", "N!2", "U!plus", "O!minus")), parts

    return [tree_from_tuples(nested(rng.randint(1, 30))) for _ in range(number)]


def check(tree: Tree) -> None:
    """A root first, every other node below one before it in preorder, an edge for each but the root."""
    assert len(tree.labels) == len(tree.parents) == len(tree.edges) > 0
    assert tree.parents[0] == -1
    assert tree.edges[0] == ""
    path = [0]
    for number in range(1, len(tree)):
        while path and path[-1] != tree.parents[number]:
            path.pop()
        assert path, "not in preorder"
        path.append(number)
        assert tree.edges[number]
    assert sum(map(len, children(tree))) == len(tree) - 1
    assert parse_tangent(tangent_string(tree)) == tree


def mutated(texts: list[str], pieces: list[str], number: int, seed: int, longest: int = 400) -> list[str]:
    """Texts of pieces in disorder, and the given texts with parts taken out, put in and repeated."""
    rng = random.Random(seed)
    out = []
    for _ in range(number):
        if rng.random() < 0.3:
            text = "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 60)))
        elif rng.random() < 0.2:
            text = "".join(rng.choices(pieces, k=2)) * rng.randrange(1, 60)
        else:
            text = rng.choice(texts)
            for _ in range(rng.randrange(1, 6)):
                at = rng.randrange(len(text) + 1)
                change = rng.random()
                if change < 0.4:
                    text = text[:at] + text[at + rng.randrange(1, 5) :]
                elif change < 0.8:
                    text = text[:at] + rng.choice(pieces) + text[at:]
                else:
                    text = text[:at] + text[: rng.randrange(30)] + text[at:]
        out.append(text[:longest])
    return out

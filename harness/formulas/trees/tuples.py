"""Symbol tuples of trees: pairs of an ancestor and a descendant with the path between them.

A tuple is (label of the ancestor, label of the descendant, edges between them), as in Tangent (Davila and Zanibbi
2017). All edges below unordered operators (`U!`) are `0`, so that `a+b` and `b+a` have the same tuples.
"""

from __future__ import annotations

from collections import Counter

from harness.formulas.trees.tree import Tree

Tuple = tuple[str, str, str]
END = "0!"  # optional end mark below each leaf, so that formulas of one symbol have a tuple


def tuples(tree: Tree, window: int | None = None, ends: bool = False) -> list[Tuple]:
    """Returns the tuples of pairs at most `window` edges apart (None: any distance), in the order of the descendant.

    With `ends` each leaf also has a tuple with the end mark `0!` and the edge "". Time and number of tuples grow with
    nodes times window, or nodes times depth.
    """
    labels, parents = tree.labels, tree.parents
    edges = [
        "0" if parent >= 0 and labels[parent].startswith("U!") else edge
        for parent, edge in zip(parents, tree.edges, strict=True)
    ]
    out: list[Tuple] = []
    for number, label in enumerate(labels):
        path = edges[number]
        above = parents[number]
        left = len(labels) if window is None else window
        while above >= 0 and left > 0:
            out.append((labels[above], label, path))
            path = edges[above] + path
            above = parents[above]
            left -= 1
        if ends and (number + 1 == len(labels) or parents[number + 1] != number):
            out.append((label, END, ""))
    return out


def tuple_f1(tree: Tree, truth: Tree, window: int | None = None) -> float:
    """Returns the F1 score of a tree's tuples against those of the true tree."""
    actual, wanted = (Counter(tuples(each, window, ends=True)) for each in (tree, truth))
    return 2 * (actual & wanted).total() / (actual.total() + wanted.total())

"""Step 3, the ontology: a tree of topics, their information content, and similarities of topics and topic lists.

The definitions are those of the authors' code (`nygeorgiev/sabermath` at 9f015a7): the most specific tags of a problem
count, and a node's probability is its share of all tags.

Sources: Resnik, Using information content to evaluate semantic similarity in a taxonomy, IJCAI 1995 (information
content); Lin, An information-theoretic definition of similarity, ICML 1998; Wang et al., A new method to measure the
semantic similarity of GO terms, Bioinformatics 23(10), 2007 (Best-Match Average). SABER-Math uses all three.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError, format_error
from harness.io.files import read_bytes

ROOT = ""
_DEEPEST = 100  # levels
_MOST = 1_000_000  # nodes


@dataclass(frozen=True)
class Ontology:
    """A tree of topics.

    A node's name is the path of titles from the top, `Algebra/Polynomials/Root`; the root's name is empty. A topic in
    several places of the tree is several nodes. Children with the same title are merged.

    Attributes
    ----------
    children : node -> its children in the order of the file; every node is a key; parents come before children, the
        root first.

    Examples
    --------
    >>> tree = Ontology.of({"title": "M", "links": [{"title": "Algebra", "links": [{"title": "Root"}]}]})
    >>> tree.children["Algebra"]
    ('Algebra/Root',)
    """

    children: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, tree: object) -> Ontology:
        """Builds the ontology from nested objects with `title` and `links` (a list, optional).

        Raises
        ------
        HarnessError
            The input has another form or no topics, a title is empty or contains a slash, or there are too many nodes
            or levels.
        """
        nodes: dict[str, dict[str, None]] = {ROOT: {}}

        def walk(node: object, name: str, depth: int) -> None:
            links = node.get("links", []) if isinstance(node, dict) else None
            if not isinstance(links, list):
                raise HarnessError(f"node {name or 'at the top'!r}: expected an object with 'title' and a list 'links'")
            if depth > _DEEPEST or len(nodes) > _MOST:
                raise HarnessError(f"node {name!r}: more than {_DEEPEST} levels, or {_MOST:,} nodes")
            for link in links:
                title = link.get("title") if isinstance(link, dict) else None
                if not isinstance(title, str) or not title.strip() or "/" in title or not title.isprintable():
                    raise HarnessError(f"below {name or 'the top'!r}: title {title!r}: expected text without slashes")
                inner = f"{name}/{title}" if name else title
                nodes[name][inner] = None
                nodes.setdefault(inner, {})
                walk(link, inner, depth + 1)

        walk(tree, ROOT, 0)
        if len(nodes) == 1:
            raise HarnessError("holds no topics: expected an object with 'title' and a list 'links' of such objects")
        return cls({name: tuple(below) for name, below in nodes.items()})

    @classmethod
    def read(cls, path: Path) -> Ontology:
        """Reads the ontology from a JSON file; raises `FormatError` if `of` rejects it."""
        try:
            return cls.of(json.loads(read_bytes(path)))
        except HarnessError as error:
            raise format_error(path, 0, error.lines[0]) if len(error.lines) == 1 else error from None
        except (ValueError, RecursionError) as error:
            raise format_error(path, 0, f"not valid JSON: {error}") from None

    def title(self, node: str) -> str:
        """Returns the title of a node, the last part of its path.

        >>> Ontology({}).title("Algebra/Polynomials/Root")
        'Root'
        """
        return node.rpartition("/")[2]


def ancestors(node: str) -> list[str]:
    """Returns the ancestors of a node without the root, from the top, and the node itself last.

    >>> ancestors("Algebra/Polynomials/Root")
    ['Algebra', 'Algebra/Polynomials', 'Algebra/Polynomials/Root']
    """
    parts = node.split("/") if node else []
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def most_specific(tags: Iterable[str]) -> tuple[str, ...]:
    """Returns the tags without those above another one, in the order of their names.

    As in the authors' code, a tag is dropped if the next one in this order is below it. A tag stays if another name
    sorts between the two: `-` sorts before `/`.

    >>> most_specific(["A", "A/x", "B", "A/x/y"]), most_specific(["A", "A/x", "A-B"])
    (('A/x/y', 'B'), ('A', 'A-B', 'A/x'))
    """
    names = sorted(set(tags))
    return tuple(tag for tag, after in zip(names, [*names[1:], ""], strict=False) if not after.startswith(f"{tag}/"))


@dataclass(frozen=True)
class Information:
    """Information content of the nodes of an ontology, from their frequency in a corpus.

    Attributes
    ----------
    tags : number of tags of all problems.
    frequency : node -> number of tags at or below the node; nodes that never occur are missing.

    Examples
    --------
    >>> info = information([["A/x"], ["A/y"], ["A/x", "B"]])
    >>> info.content("A/x") == math.log(4 / 2), info.content("A") == math.log(4 / 3), info.content("") == 0
    (True, True, True)
    >>> round(info.lin("A/x", "A/y"), 4) == round(2 * math.log(4 / 3) / (math.log(2) + math.log(4)), 4)
    True
    >>> info.lin("A/x", "B"), info.lin("B", "B")
    (0.0, 1.0)
    """

    tags: int
    frequency: Mapping[str, int] = field(default_factory=dict)

    def content(self, node: str) -> float:
        """Returns -ln of the share of tags at or below the node (Resnik 1995); 0 for the root.

        Raises
        ------
        HarnessError
            No problem has the node.
        """
        if node == ROOT:
            return 0.0
        if node not in self.frequency:
            raise HarnessError(f"topic {node!r}: no problem has it, so its information content is undefined")
        # This quotient is at least 1, so the logarithm is never -0.0.
        return math.log(self.tags / self.frequency[node])

    def lin(self, one: str, other: str) -> float:
        """Computes Lin's similarity (1998) in [0, 1]: twice the content of the lowest common ancestor over the sum.

        The similarity of a node to itself is 1, even if its content is 0; two different nodes of content 0 have 0.
        """
        if one == other:
            return 1.0
        both = self.content(one) + self.content(other)
        above = ROOT
        for mine, theirs in zip(ancestors(one), ancestors(other), strict=False):
            if mine != theirs:
                break
            above = mine
        return min(2 * self.content(above) / both, 1.0) if both else 0.0

    def best_match(self, one: Sequence[str], other: Sequence[str]) -> float:
        """Computes the Best-Match Average of two lists: each node's best similarity to the other list, averaged.

        It is 0 if a list is empty. The order and repetitions of nodes do not matter.

        >>> info = information([["A/x"], ["A/y"], ["B"]])
        >>> info.best_match(["A/x", "B"], ["A/x"]) == (1 + 0 + 1) / 3
        True
        """
        mine, theirs = sorted(set(one)), sorted(set(other))
        if not mine or not theirs:
            return 0.0
        there = back = 0.0
        for a in mine:  # not `sum`: its rounding differs between Python versions
            there += max(self.lin(a, b) for b in theirs)
        for b in theirs:
            back += max(self.lin(b, a) for a in mine)
        return (there + back) / (len(mine) + len(theirs))

    def lins(self, nodes: Sequence[str]) -> Floats:
        """Computes `lin` for all pairs of nodes, float64, shape (nodes, nodes); bitwise equal to `lin`."""
        content = np.array([self.content(node) for node in nodes])
        above = np.zeros((len(nodes), len(nodes)))
        paths = [ancestors(node) for node in nodes]
        for level in range(max(map(len, paths), default=0)):
            # Groups nodes by their ancestor at this level; deeper levels overwrite the values of higher ones.
            groups: dict[str, list[int]] = {}
            for i, path in enumerate(paths):
                if level < len(path):
                    groups.setdefault(path[level], []).append(i)
            for node, rows in groups.items():
                above[np.ix_(rows, rows)] = self.content(node)
        both = content[:, None] + content[None, :]
        out: Floats = np.minimum(np.divide(2 * above, both, out=np.zeros_like(above), where=both > 0), 1.0)
        np.fill_diagonal(out, 1.0)
        return out


def information(tags: Iterable[Iterable[str]]) -> Information:
    """Counts the tags at or below each node, over the tags of all problems; a problem's tags count separately."""
    frequency: dict[str, int] = {}
    total = 0
    for of_one in tags:
        for tag in of_one:
            total += 1
            for node in ancestors(tag):
                frequency[node] = frequency.get(node, 0) + 1
    return Information(total, frequency)

"""Step 3, the ontology: a tree of topics, how much each tells, and how alike topics and lists of topics are.

Sources: Resnik, Using information content to evaluate semantic similarity in a taxonomy, IJCAI 1995 (information
content); Lin, An information-theoretic definition of similarity, ICML 1998; Wang et al., A new method to measure the
semantic similarity of GO terms, Bioinformatics 23(10), 2007 (Best-Match Average). SABER-Math takes these three.
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

    A node is named by the titles that lead to it, `Algebra/Polynomials/Root`; the root by nothing. A topic that stands
    in several places is a node in each. Nodes of one title below the same node are one.

    Attributes
    ----------
    children : node -> its children in the order of the file; every node is a key, the root first, each after its
        parent.

    Examples
    --------
    >>> tree = Ontology.of({"title": "M", "links": [{"title": "Algebra", "links": [{"title": "Root"}]}]})
    >>> tree.children["Algebra"]
    ('Algebra/Root',)
    """

    children: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, tree: object) -> Ontology:
        """The ontology of nested objects with `title` and `links` (a list, may be missing).

        Raises
        ------
        HarnessError
            Anything else, no topic at all, titles that are empty or hold a slash, or too many nodes or levels.
        """
        found: dict[str, dict[str, None]] = {ROOT: {}}

        def walk(node: object, name: str, depth: int) -> None:
            links = node.get("links", []) if isinstance(node, dict) else None
            if not isinstance(links, list):
                raise HarnessError(f"node {name or 'at the top'!r}: expected an object with 'title' and a list 'links'")
            if depth > _DEEPEST or len(found) > _MOST:
                raise HarnessError(f"node {name!r}: more than {_DEEPEST} levels, or {_MOST:,} nodes")
            for link in links:
                title = link.get("title") if isinstance(link, dict) else None
                if not isinstance(title, str) or not title.strip() or "/" in title or not title.isprintable():
                    raise HarnessError(f"below {name or 'the top'!r}: title {title!r} is no text without slashes")
                inner = f"{name}/{title}" if name else title
                found[name][inner] = None
                found.setdefault(inner, {})
                walk(link, inner, depth + 1)

        walk(tree, ROOT, 0)
        if len(found) == 1:
            raise HarnessError("holds no topics: expected an object with 'title' and a list 'links' of such objects")
        return cls({name: tuple(below) for name, below in found.items()})

    @classmethod
    def read(cls, path: Path) -> Ontology:
        """The ontology of a JSON file; raises `FormatError` for what `of` refuses."""
        try:
            return cls.of(json.loads(read_bytes(path)))
        except HarnessError as error:
            raise format_error(path, 0, error.lines[0]) if len(error.lines) == 1 else error from None
        except (ValueError, RecursionError) as error:
            raise format_error(path, 0, f"not valid JSON: {error}") from None

    def title(self, node: str) -> str:
        """The last title of a node.

        >>> Ontology({}).title("Algebra/Polynomials/Root")
        'Root'
        """
        return node.rpartition("/")[2]


def ancestors(node: str) -> list[str]:
    """A node and what is above it but the root, from the top.

    >>> ancestors("Algebra/Polynomials/Root")
    ['Algebra', 'Algebra/Polynomials', 'Algebra/Polynomials/Root']
    """
    parts = node.split("/") if node else []
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


@dataclass(frozen=True)
class Information:
    """How much nodes tell, by how often a corpus has them.

    Attributes
    ----------
    problems : how many problems have any tag.
    frequency : node -> problems with a tag at it or below it; of nodes that none has, nothing.

    Examples
    --------
    >>> info = information([["A/x"], ["A/y"], ["A/x", "B"], ["B"]])
    >>> info.content("A/x") == math.log(4 / 2), info.content("A") == math.log(4 / 3), info.content("") == 0
    (True, True, True)
    >>> round(info.lin("A/x", "A/y"), 4) == round(2 * math.log(4 / 3) / (math.log(2) + math.log(4)), 4)
    True
    >>> info.lin("A/x", "B"), info.lin("B", "B")
    (0.0, 1.0)
    """

    problems: int
    frequency: Mapping[str, int] = field(default_factory=dict)

    def content(self, node: str) -> float:
        """-ln of the share of the problems that are at a node or below it, at least 0; the root's is 0.

        Raises
        ------
        HarnessError
            No problem has the node.
        """
        if node == ROOT:
            return 0.0
        if node not in self.frequency:
            raise HarnessError(f"topic {node!r}: no problem has it, so nothing is known of how much it tells")
        # Of the quotient that is at least 1: never -0.0.
        return math.log(self.problems / self.frequency[node])

    def lin(self, one: str, other: str) -> float:
        """Lin's similarity: twice the content of the lowest common ancestor over the sum of both; in [0, 1].

        A node is like itself by 1, also where it tells nothing; two nodes that tell nothing are alike by 0 else.
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
        """Best-Match Average of two lists of nodes: the best likeness of each to the other list, averaged over all.

        Of a list without nodes it is 0. The order of a list and repeats in it do not matter.

        >>> info = information([["A/x"], ["A/y"], ["B"]])
        >>> info.best_match(["A/x", "B"], ["A/x"]) == (1 + 0 + 1) / 3
        True
        """
        mine, theirs = sorted(set(one)), sorted(set(other))
        if not mine or not theirs:
            return 0.0
        there = back = 0.0
        for a in mine:  # not by `sum`, whose last bits differ between versions of Python
            there += max(self.lin(a, b) for b in theirs)
        for b in theirs:
            back += max(self.lin(b, a) for a in mine)
        return (there + back) / (len(mine) + len(theirs))

    def lins(self, nodes: Sequence[str]) -> Floats:
        """`lin` of every two of some nodes, float64, shape (nodes, nodes); equal to it to the last bit."""
        content = np.array([self.content(node) for node in nodes])
        above = np.zeros((len(nodes), len(nodes)))
        paths = [ancestors(node) for node in nodes]
        for level in range(max(map(len, paths), default=0)):
            # Nodes in groups by their ancestor of this level; deeper levels go over what higher ones have set.
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
    """The frequencies of the nodes over problems, each with its tags; problems without tags do not count."""
    frequency: dict[str, int] = {}
    problems = 0
    for of_one in tags:
        have = {above for tag in of_one for above in ancestors(tag)}
        problems += bool(have)
        for node in have:
            frequency[node] = frequency.get(node, 0) + 1
    return Information(problems, frequency)

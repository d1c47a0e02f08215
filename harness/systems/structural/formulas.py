"""What structural systems stand on: the formulas of a corpus as packed trees, those of topics, and runs made of both.

A document holds any number of formulas: a formula that is a document has one, a post has several. Equal trees are kept
once, so a system scores trees, and `Formulas.documents` combines that into scores of documents.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from harness.collections.corpus import Corpus, Document
from harness.collections.readers import tangent
from harness.data.columns import Floats, Ids
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.mathml import latexml
from harness.formulas.opt import read as operators
from harness.formulas.slt import read as layout
from harness.formulas.trees import forest
from harness.formulas.trees.forest import Forest
from harness.formulas.trees.reading import ERROR, Counts, Reading, failed
from harness.formulas.trees.tree import Tree, parse, show
from harness.io import checks
from harness.io.console import say
from harness.store import artefacts, code
from harness.systems.base import Request
from harness.systems.lexical.postings import Numbers, Offsets
from harness.systems.ranking import rank

KINDS = ("opt", "slt")  # operator trees, symbol layout trees
OWN, LATEXML = ROUTES = ("own", "latexml")  # from LaTeX to trees: by our parsers, by the program LaTeXML
AGGREGATES = ("best", "sum")
POST = "post"  # the column of a corpus of formulas that names the post each one stands in
NO_TREE = "the corpus has no tree of it"
ALONE = "nothing but an error"
NO_STRING = "not a Tangent string"
LARGE = f"more than {forest.WIDEST:,} nodes"
WIDE = f"an operator of {forest.EDGES} arguments or more"
_NAMED = 5  # reasons of faults that are named in a line
AHEAD = 2000  # distinct formulas that LaTeXML is given at a time
_READERS: dict[str, Callable[[str], Reading]] = {"opt": operators.read_latex, "slt": layout.read_latex}
Ahead = tuple[list[Document], list[str]]


@dataclass(frozen=True, eq=False)
class Formulas:
    """The formulas of a corpus as trees of one kind.

    Attributes
    ----------
    ids : bytes, shape (documents,). In the order of the corpus, documents without a formula too.
    posts : bytes, shape (documents,), or None. The post each formula stands in, if the corpus keeps it.
    start : int64, shape (documents + 1,). Where each document's formulas begin in `tree`, and their end.
    tree : int32, shape (formulas,). The number in `trees`; -1 for a formula of which nothing could be read. The same
        formulas in the same order for every kind of tree.
    trees : the distinct trees, in the order of their first appearance.
    counts : formulas read, and those that failed wholly or in part by reason.
    """

    ids: Ids
    posts: Ids | None
    start: Offsets
    tree: Numbers
    trees: Forest
    counts: Counts

    @cached_property
    def document(self) -> Numbers:
        """The document of each formula, int32, shape (formulas,)."""
        return np.repeat(np.arange(len(self.ids), dtype=np.int32), np.diff(self.start))

    def documents(self, trees: Offsets, scores: Floats, aggregate: str = "best") -> Floats:
        """Scores of documents from those of trees: shape (documents,), 0 for those without any of them.

        Parameters
        ----------
        trees : numbers in `trees`, none twice.
        scores : of these trees, same shape, not negative.
        aggregate : the `best` of a document's formulas or the `sum` over all of them.
        """
        first, where = self._places
        lengths = first[trees + 1] - first[trees]
        at = np.arange(int(lengths.sum())) + np.repeat(first[trees] - np.cumsum(lengths) + lengths, lengths)
        document = self.document[where[at]]
        out = np.zeros(len(self.ids))
        if aggregate == "best":
            np.maximum.at(out, document, np.repeat(scores, lengths))
        else:
            np.add.at(out, document, np.repeat(scores, lengths))
        return out

    @cached_property
    def _places(self) -> tuple[Offsets, Offsets]:
        """Formulas sorted by tree, and where each tree's formulas begin among them."""
        where = np.argsort(self.tree, kind="stable")
        first = np.searchsorted(self.tree[where], np.arange(len(self.trees) + 1))
        return first, where

    def save(self, folder: Path) -> None:
        """Writes them into a folder that exists."""
        forest.save(self.trees, folder)
        for name in ("ids", "start", "tree"):
            np.save(folder / f"document-{name}.npy", getattr(self, name))
        if self.posts is not None:
            np.save(folder / "document-posts.npy", self.posts)
        counts = {"read": self.counts.read, "failed": dict(self.counts.failed)}
        (folder / "counts.json").write_text(json.dumps(counts), encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> Formulas:
        """Returns the inverse of `save`. Raises HarnessError if a file is missing or damaged."""
        try:
            ids, start, tree = (np.load(folder / f"document-{name}.npy") for name in ("ids", "start", "tree"))
            posts = folder / "document-posts.npy"
            counts = json.loads((folder / "counts.json").read_text(encoding="utf-8"))
            known = np.load(posts) if posts.exists() else None
            return Formulas(
                ids, known, start, tree, forest.load(folder), Counts(int(counts["read"]), dict(counts["failed"]))
            )
        except (OSError, ValueError, EOFError, KeyError) as error:
            raise HarnessError(f"{folder}: not the formulas of a corpus: {error}") from None


def read(corpus: Corpus, kind: str, route: str = OWN) -> Formulas:
    """Returns the formulas of a corpus, from the store if they have been read before; says how many could not be read.

    Parameters
    ----------
    kind : one of `KINDS`. Tangent strings come from the documents' column of this name, other trees from their LaTeX.
    route : one of `ROUTES`, by which LaTeX is read. LaTeXML takes minutes for tens of thousands of formulas.

    Raises
    ------
    HarnessError
        The corpus has no formulas, or LaTeXML is asked for and not installed.
    """
    made_from = spec(corpus, kind, route)
    folder = artefacts.get_or_build("formulas", made_from, lambda folder: encode(corpus, kind, route).save(folder))
    found = Formulas.load(folder)
    what = f"corpus {corpus.name}: {len(found.tree):,} formulas, {len(found.trees):,} distinct trees"
    _say(what, kind, route, found.counts)
    return found


def spec(corpus: Corpus, kind: str, route: str = OWN) -> dict[str, Any]:
    """Returns what the formulas of a corpus are kept under; for the specifications of what is made from them.

    Raises HarnessError if LaTeXML is asked for and not installed.
    """
    return {
        "corpus": corpus.name,
        "digest": corpus.digest(),
        "columns": [list(corpus.fields), list(corpus.keep)],
        "kind": checks.choice("kind", kind, KINDS),
        "code": code.of(__name__),
        **via(route),
    }


def via(route: str) -> dict[str, str]:
    """Returns what a route adds to a specification: LaTeXML and its version; nothing for our own parsers.

    Raises HarnessError if LaTeXML is asked for and not installed.
    """
    return {"route": f"LaTeXML {latexml.version()}"} if checks.choice("route", route, ROUTES) == LATEXML else {}


def reader(latex: Iterable[str], kind: str, route: str = OWN) -> Callable[[str], Reading]:
    """Returns a function that reads each of these formulas; LaTeXML converts all of them now, on all cores."""
    if checks.choice("route", route, ROUTES) == OWN:
        return _READERS[kind]
    return latexml.reader(latex, kind, workers=os.cpu_count() or 1)


def ahead(documents: Iterable[Document], latex: Callable[[Document], Iterable[str]]) -> Iterator[Ahead]:
    """Documents in groups, each with the formulas that stand in no group before it: enough for LaTeXML to be quick.

    Parameters
    ----------
    latex : document -> its formulas.
    """
    group: list[Document] = []
    seen: set[str] = set()
    new: list[str] = []
    for document in documents:
        group.append(document)
        for formula in latex(document):
            if formula not in seen:
                seen.add(formula)
                new.append(formula)
        if len(new) >= AHEAD or len(group) >= 10 * AHEAD:
            yield group, new
            group, new = [], []
    yield group, new


def encode(corpus: Iterable[Document], kind: str, route: str = OWN) -> Formulas:
    """Reads the documents and the trees of their formulas. Raises HarnessError if no formula could be read."""
    ids: list[bytes] = []
    posts: list[bytes] = []
    start, tree = array("q", [0]), array("i")
    numbers: dict[bytes, int] = {}
    known: dict[tuple[bool, str], tuple[int, str]] = {}
    reasons: Counter[str] = Counter()

    def distinct() -> Iterator[Tree]:
        for document, read in _with_reader(corpus, kind, route):
            for source in _sources(document, kind):
                if source not in known:
                    reading = _storable(_tangent(source[1]) if source[0] else read(source[1]))
                    number = -1
                    if not _nothing(reading.tree):
                        digest = hashlib.blake2b(show(reading.tree).encode(), digest_size=16).digest()
                        if digest not in numbers:
                            yield reading.tree
                        number = numbers.setdefault(digest, len(numbers))
                    known[source] = (number, reading.reason or (ALONE if number < 0 else ""))
                number, reason = known[source]
                tree.append(number)
                reasons[reason] += 1
            start.append(len(tree))
            ids.append(document.id.encode())
            posts.append(document.columns.get(POST, "").encode("utf-8", "replace"))

    trees = forest.pack(distinct())
    if not len(trees):
        why = "; ".join(f"{reason}: {number:,}" for reason, number in reasons.most_common()) or "no document has any"
        raise HarnessError(f"no formula of the corpus could be read ({why})")
    read = reasons.pop("", 0)
    return Formulas(
        np.array(ids, dtype=np.bytes_),
        np.array(posts, dtype=np.bytes_) if any(posts) else None,
        np.array(start, np.int64),
        np.array(tree, np.int32),
        trees,
        Counts(read, dict(reasons.most_common())),
    )


def _with_reader(
    documents: Iterable[Document], kind: str, route: str
) -> Iterator[tuple[Document, Callable[[str], Reading]]]:
    """Yields each document and what reads those of its formulas that no document before it has."""
    if route == OWN:
        for document in documents:
            yield document, _READERS[kind]
        return
    for group, new in ahead(documents, lambda each: [text for known, text in _sources(each, kind) if not known]):
        read = reader(new, kind, route)
        for document in group:
            yield document, read


def queries(topics: Topics, corpus: Corpus, kind: str, route: str = OWN) -> dict[str, tuple[Tree, ...]]:
    """Returns the distinct formulas that each topic asks with, in order; says how many could not be read.

    Where the corpus has trees of the topics too (Tangent's files), those are taken, else the topics' LaTeX is read.
    """
    checks.choice("kind", kind, KINDS)
    given = tangent.queries(corpus.paths[KINDS.index(kind)]) if corpus.reader.name == "tangent" else {}
    reasons: Counter[str] = Counter()
    out: dict[str, tuple[Tree, ...]] = {}
    latex = {topic.id: [_text(each.latex) for each in topic.formulas] for topic in topics if topic.id not in given}
    read = reader(chain.from_iterable(latex.values()), kind, route)
    for topic in topics:
        found = [_tangent(given[topic.id])] if topic.id in given else [read(each) for each in latex[topic.id]]
        readings = [_storable(reading) for reading in found]
        reasons.update(reading.reason for reading in readings)
        out[topic.id] = tuple(dict.fromkeys(reading.tree for reading in readings if not _nothing(reading.tree)))
    good = reasons.pop("", 0)
    without = sum(not trees for trees in out.values())
    what = f"topics: {good + reasons.total():,} formulas, {without} of {len(out)} topics without any"
    _say(what, kind, route, Counts(good, dict(reasons.most_common())))
    return out


def ranked(name: str, request: Request, formulas: Formulas, score: Callable[[Topic], Floats], depth: int) -> Run:
    """Returns a run: the best documents of each topic, with their posts as context where the corpus knows them.

    Parameters
    ----------
    score : topic -> scores of all documents, shape (documents,); those with 0 are not returned unless in the pool.
    """
    run = rank(name, request, formulas.ids, lambda topic: (score(topic), 0.0), depth, "a part of a formula")
    if formulas.posts is None:
        return run
    order = np.argsort(formulas.ids, kind="stable")
    row = order[np.searchsorted(formulas.ids[order], run.doc)]
    return replace(run, context=formulas.posts[row])


def _sources(document: Document, kind: str) -> list[tuple[bool, str]]:
    """Returns whether it is a Tangent string, and the string or LaTeX, of each formula."""
    if any(name in document.columns for name in KINDS):
        return [(True, document.columns.get(kind, ""))]
    return [(False, _text(formula.latex)) for formula in document.formulas]


def _text(latex: str) -> str:
    """Returns LaTeX that can be written as UTF-8: halves of surrogate pairs, which JSON can escape, become `?`."""
    return latex if latex.isascii() else latex.encode("utf-8", "replace").decode()


def _storable(reading: Reading) -> Reading:
    """Returns the reading, or a failure where a forest cannot hold its tree: one formula must not stop all others."""
    size = len(reading.tree)
    if size > forest.WIDEST:
        return failed(LARGE)
    # Places of arguments count from 0, so that the widest operator alone says how many edges there are.
    return failed(WIDE) if size > forest.EDGES and len(set(reading.tree.edges)) > forest.EDGES else reading


def _tangent(text: str) -> Reading:
    if not text:
        return failed(NO_TREE)
    try:
        return Reading(parse(text))
    except HarnessError:
        return failed(NO_STRING)


def _nothing(tree: Tree) -> bool:
    return tree.labels == (ERROR,)


def _say(what: str, kind: str, route: str, counts: Counts) -> None:
    """One line with the most frequent reasons; all of them are in `Formulas.counts`."""
    named = [f"{reason}: {number:,}" for reason, number in list(counts.failed.items())[:_NAMED]]
    if len(counts.failed) > _NAMED:
        named.append(f"{len(counts.failed) - _NAMED} more reasons: {sum(list(counts.failed.values())[_NAMED:]):,}")
    how = ", ".join((kind, *via(route).values()))
    say(f"{what} ({how}); read without fault: {counts.read:,}; with one: {', '.join(named) or 'none'}")

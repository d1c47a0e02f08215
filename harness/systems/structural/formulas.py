"""Base of structural systems: packed formula trees of a corpus, formula trees of topics, and runs.

A document has any number of formulas: one if the document is a formula, several if it is a post. Equal trees are stored
once; a system scores trees, and `Formulas.documents` aggregates them to document scores.
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
from harness.systems.lexical.tokens import Numbers, Offsets
from harness.systems.ranking import rank

KINDS = ("opt", "slt")  # operator trees, symbol layout trees
OWN, LATEXML = ROUTES = ("own", "latexml")  # conversion of LaTeX to trees: by our parsers, by the program LaTeXML
AGGREGATES = ("best", "sum")
POST = "post"  # column of a formula corpus with the post of each formula
NO_TREE = "the corpus has no tree of it"
ALONE = "nothing but an error"
NO_STRING = "not a Tangent string"
LARGE = f"more than {forest.WIDEST:,} nodes"
WIDE = f"an operator of {forest.EDGES} arguments or more"
_NAMED = 5  # maximum number of failure reasons in a printed line
AHEAD = 2000  # distinct formulas in one batch for LaTeXML
_READERS: dict[str, Callable[[str], Reading]] = {"opt": operators.read_latex, "slt": layout.read_latex}
Ahead = tuple[list[Document], list[str]]


@dataclass(frozen=True, eq=False)
class Formulas:
    """The formulas of a corpus as trees of one kind.

    Attributes
    ----------
    ids : bytes, shape (documents,). In corpus order, including documents without a formula.
    posts : bytes, shape (documents,), or None. The post of each formula, if the corpus keeps it.
    start : int64, shape (documents + 1,). Where each document's formulas begin in `tree`, and their end.
    tree : int32, shape (formulas,). Index into `trees`; -1 if nothing of a formula could be parsed. Both kinds of trees
        have the same formulas in the same order.
    trees : distinct trees, in order of first appearance.
    counts : number of formulas parsed, and of formulas that failed wholly or partly, by reason.
    """

    ids: Ids
    posts: Ids | None
    start: Offsets
    tree: Numbers
    trees: Forest
    counts: Counts

    @cached_property
    def document(self) -> Numbers:
        """Document of each formula, int32, shape (formulas,)."""
        return np.repeat(np.arange(len(self.ids), dtype=np.int32), np.diff(self.start))

    def documents(self, trees: Offsets, scores: Floats, aggregate: str = "best") -> Floats:
        """Aggregates tree scores to document scores, shape (documents,); 0 for documents with none of the trees.

        Parameters
        ----------
        trees : distinct indices into `trees`.
        scores : scores of these trees, same shape, not negative.
        aggregate : `best` formula of a document, or `sum` over all its formulas.
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
        """Where each tree's formulas begin, and the formulas sorted by tree."""
        where = np.argsort(self.tree, kind="stable")
        first = np.searchsorted(self.tree[where], np.arange(len(self.trees) + 1))
        return first, where

    def save(self, folder: Path) -> None:
        """Writes the formulas to an existing folder."""
        forest.save(self.trees, folder)
        for name in ("ids", "start", "tree"):
            np.save(folder / f"document-{name}.npy", getattr(self, name))
        if self.posts is not None:
            np.save(folder / "document-posts.npy", self.posts)
        counts = {"read": self.counts.read, "failed": dict(self.counts.failed)}
        (folder / "counts.json").write_text(json.dumps(counts), encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> Formulas:
        """Loads formulas that `save` wrote. Raises HarnessError if a file is missing or damaged."""
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
    """Returns the formulas of a corpus, from the store or parsed, and prints how many could not be parsed.

    Parameters
    ----------
    kind : one of `KINDS`. Trees are parsed from the Tangent strings in the documents' column of this name, or else from
        LaTeX.
    route : parser of LaTeX, one of `ROUTES`. LaTeXML takes minutes for tens of thousands of formulas.

    Raises
    ------
    HarnessError
        The corpus has no formulas, or LaTeXML is requested and not installed.
    """
    made_from = spec(corpus, kind, route)
    folder = artefacts.get_or_build("formulas", made_from, lambda folder: encode(corpus, kind, route).save(folder))
    found = Formulas.load(folder)
    what = f"corpus {corpus.name}: {len(found.tree):,} formulas, {len(found.trees):,} distinct trees"
    _say(what, kind, route, found.counts)
    return found


def spec(corpus: Corpus, kind: str, route: str = OWN) -> dict[str, Any]:
    """Returns the specification of a corpus's formulas in the store, which is part of those of derived artifacts.

    Raises HarnessError if LaTeXML is requested and not installed.
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
    """Returns the part of a specification that names the route: the version of LaTeXML; empty for our own parsers.

    Raises HarnessError if LaTeXML is requested and not installed.
    """
    return {"route": f"LaTeXML {latexml.version()}"} if checks.choice("route", route, ROUTES) == LATEXML else {}


def reader(latex: Iterable[str], kind: str, route: str = OWN) -> Callable[[str], Reading]:
    """Returns a function that parses any of these formulas; LaTeXML converts them all at once, on all cores."""
    if checks.choice("route", route, ROUTES) == OWN:
        return _READERS[kind]
    return latexml.reader(latex, kind, workers=os.cpu_count() or 1)


def ahead(documents: Iterable[Document], latex: Callable[[Document], Iterable[str]]) -> Iterator[Ahead]:
    """Groups documents so that LaTeXML can convert many formulas at once.

    Yields each group with its new formulas, which do not occur in an earlier group.

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
    """Parses all formulas of the documents. Raises HarnessError if none could be parsed."""
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
    """Yields each document with a parser for those of its formulas that do not occur in earlier documents."""
    if route == OWN:
        for document in documents:
            yield document, _READERS[kind]
        return
    for group, new in ahead(documents, lambda each: [text for known, text in _sources(each, kind) if not known]):
        read = reader(new, kind, route)
        for document in group:
            yield document, read


def queries(topics: Topics, corpus: Corpus, kind: str, route: str = OWN) -> dict[str, tuple[Tree, ...]]:
    """Returns the distinct query formulas of each topic, in order, and prints how many could not be parsed.

    Trees of the topics that come with the corpus (Tangent's files) are preferred to the topics' LaTeX.
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
    """Returns a run of the best documents of each topic, with posts as context if the corpus knows them.

    Parameters
    ----------
    score : topic -> scores of all documents, shape (documents,). Without a pool, documents with 0 are not returned.
    """
    run = rank(name, request, formulas.ids, lambda topic: (score(topic), 0.0), depth, "a part of a formula")
    if formulas.posts is None:
        return run
    order = np.argsort(formulas.ids, kind="stable")
    row = order[np.searchsorted(formulas.ids[order], run.doc)]
    return replace(run, context=formulas.posts[row])


def _sources(document: Document, kind: str) -> list[tuple[bool, str]]:
    """Returns, for each formula, whether it is a Tangent string, and the string or the LaTeX."""
    if any(name in document.columns for name in KINDS):
        return [(True, document.columns.get(kind, ""))]
    return [(False, _text(formula.latex)) for formula in document.formulas]


def _text(latex: str) -> str:
    """Makes LaTeX valid UTF-8: lone surrogates, which JSON can contain, become `?`."""
    return latex if latex.isascii() else latex.encode("utf-8", "replace").decode()


def _storable(reading: Reading) -> Reading:
    """Returns the reading, or a failure if its tree is too large for a forest, so that one formula cannot stop all."""
    size = len(reading.tree)
    if size > forest.WIDEST:
        return failed(LARGE)
    # Edges number arguments from 0, so the operator with the most arguments determines the number of distinct edges.
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
    """Prints one line with the most frequent errors; `Formulas.counts` has all of them."""
    named = [f"{reason}: {number:,}" for reason, number in list(counts.failed.items())[:_NAMED]]
    if len(counts.failed) == 1:
        named = list(counts.failed)
    if len(counts.failed) > _NAMED:
        named.append(f"{len(counts.failed) - _NAMED} more kinds: {sum(list(counts.failed.values())[_NAMED:]):,}")
    kinds = f" ({', '.join(named)})" if named else ""
    how = ", ".join((kind, *via(route).values()))
    say(f"{what} ({how}); parsed without errors: {counts.read:,}; with errors: {sum(counts.failed.values()):,}{kinds}")

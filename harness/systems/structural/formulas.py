"""Base of structural systems: packed formula trees of a corpus, formula trees of topics, and runs.

A document has any number of formulas: one if the document is a formula, several if it is a post. Equal trees are stored
once; a system scores trees, and `Formulas.documents` aggregates them to document scores.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

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
from harness.formulas.trees.tree import ERROR, ParseCounts, ParsedFormula, Tree, failed, parse_tangent, tangent_string
from harness.io import checks, memory
from harness.io.arrays import ArrayFile, Texts, mapped, ranges, release
from harness.io.console import log_line
from harness.store import code, shards
from harness.systems.base import Request
from harness.systems.lexical.numbering import Numbers, Offsets
from harness.systems.ranking import rank
from harness.systems.structural.known import Digests, Recent

KINDS = ("opt", "slt")  # operator trees, symbol layout trees
OWN, LATEXML = ROUTES = ("own", "latexml")  # conversion of LaTeX to trees: by our parsers, by the program LaTeXML
Route = Annotated[str, partial(checks.choice, known=ROUTES)]
Aggregate = Literal["best", "sum"]
POST = "post"  # column of a formula corpus with the post of each formula
NO_TREE = "the corpus has no tree of it"
ALONE = "nothing but an error"
NO_STRING = "not a Tangent string"
LARGE = f"more than {forest.WIDEST:,} nodes"
WIDE = f"an operator of {forest.EDGES} arguments or more"
_NAMED = 5  # maximum number of failure reasons in a printed line
AHEAD = 2000  # distinct formulas in one batch for LaTeXML
_SHARE = 3  # parts of the memory limit: formulas that LaTeXML has converted, known formulas, known trees
_BYTES = 40  # bytes of memory that sorting takes for a formula
_SCANNED = 1 << 20  # formulas read at a time
_READERS: dict[str, Callable[[str], ParsedFormula]] = {"opt": operators.read_latex, "slt": layout.read_latex}
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
    first : int64, shape (trees + 1,). Where each tree's formulas begin in `document`, and their end.
    document : int32, shape (formulas with a tree,). The documents of the formulas, by tree, then in corpus order.
    trees : distinct trees, in order of first appearance.
    counts : number of formulas parsed, and of formulas that failed wholly or partly, by reason.
    """

    ids: Ids
    posts: Ids | None
    start: Offsets
    tree: Numbers
    first: Offsets
    document: Numbers
    trees: Forest
    counts: ParseCounts

    def documents(self, trees: Offsets, scores: Floats, aggregate: str = "best") -> Floats:
        """Aggregates tree scores to document scores, shape (documents,); 0 for documents with none of the trees.

        Parameters
        ----------
        trees : distinct indices into `trees`.
        scores : scores of these trees, same shape, not negative.
        aggregate : `best` formula of a document, or `sum` over all its formulas.
        """
        lengths = self.first[trees + 1] - self.first[trees]
        at = np.arange(int(lengths.sum())) + np.repeat(self.first[trees] - np.cumsum(lengths) + lengths, lengths)
        document = self.document[at]
        out = np.zeros(len(self.ids))
        if aggregate == "best":
            np.maximum.at(out, document, np.repeat(scores, lengths))
        else:
            np.add.at(out, document, np.repeat(scores, lengths))
        return out

    @staticmethod
    def load(folder: Path) -> Formulas:
        """Loads formulas that `write` wrote, memory-mapped. Raises HarnessError if a file is missing or damaged."""
        try:
            ids, start, tree = (mapped(folder / f"document-{name}.npy") for name in ("ids", "start", "tree"))
            first, document = (mapped(folder / f"tree-{name}.npy") for name in ("first", "document"))
            posts = folder / "document-posts.npy"
            known = mapped(posts) if posts.exists() else None
            counts = json.loads((folder / "counts.json").read_text(encoding="utf-8"))
            parsed = ParseCounts(int(counts["read"]), dict(counts["failed"]))
            return Formulas(ids, known, start, tree, first, document, forest.load(folder), parsed)
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
    folder = shards.joined("formulas", made_from, lambda made, of: write(corpus, kind, made, route, of=of))
    formulas = Formulas.load(folder)
    what = f"corpus {corpus.name}: {len(formulas.tree):,} formulas, {len(formulas.trees):,} distinct trees"
    _log_parse_failures(what, kind, route, formulas.counts)
    return formulas


def spec(corpus: Corpus, kind: str, route: str = OWN) -> dict[str, Any]:
    """Returns the specification of a corpus's formulas in the store, which is part of those of derived artifacts.

    Raises HarnessError if LaTeXML is requested and not installed.
    """
    return {**corpus.identity(), "kind": checks.choice("kind", kind, KINDS), "code": code.of(__name__), **via(route)}


def via(route: str) -> dict[str, str]:
    """Returns the part of a specification that names the route: the version of LaTeXML; empty for our own parsers.

    Raises HarnessError if LaTeXML is requested and not installed.
    """
    return {"route": f"LaTeXML {latexml.version()}"} if checks.choice("route", route, ROUTES) == LATEXML else {}


def reader(latex: Iterable[str], kind: str, route: str = OWN) -> Callable[[str], ParsedFormula]:
    """Returns a function that parses any of these formulas; LaTeXML converts them all at once, on all cores."""
    if checks.choice("route", route, ROUTES) == OWN:
        return _READERS[kind]
    return latexml.latexml_reader(latex, kind, workers=os.cpu_count() or 1)


def ahead(documents: Iterable[Document], latex: Callable[[Document], Iterable[str]]) -> Iterator[Ahead]:
    """Groups documents so that LaTeXML can convert many formulas at once.

    Yields each group with its new formulas, which do not occur in an earlier group, or not for a long time.

    Parameters
    ----------
    latex : document -> its formulas.
    """
    group: list[Document] = []
    seen: Recent[str, bool] = Recent(memory.limit() // _SHARE)
    new: list[str] = []
    for document in documents:
        group.append(document)
        for formula in latex(document):
            if seen.get(formula) is None:
                seen.put(formula, True)
                new.append(formula)
        if len(new) >= AHEAD or len(group) >= 10 * AHEAD:
            yield group, new
            group, new = [], []
    yield group, new


def write(
    documents: Iterable[Document],
    kind: str,
    folder: Path,
    route: str = OWN,
    *,
    of: str = "formulas/",
    limit: int | None = None,
) -> Sequence[Path]:
    """Parses all formulas of the documents and writes them to an empty folder, in the order of the documents.

    Memory holds the labels of the trees, 28 bytes for each distinct tree, and within the limit the formulas that were
    parsed last, so that a formula that occurs often is parsed once. LaTeXML converts formulas in shards, and so do our
    parsers if there is an engine of `shards.spread_by`; the files of the shards are returned.

    Parameters
    ----------
    documents : read twice if there are shards.
    of : see `shards.ShardTask`.
    limit : bytes of memory for known formulas and trees; by default `harness.io.memory.limit`.

    Raises
    ------
    HarnessError
        No formula could be parsed.
    """
    limit = memory.limit() if limit is None else limit
    known: Recent[tuple[bool, str], tuple[int, str]] = Recent(limit // _SHARE)
    numbers = Digests(limit // _SHARE)
    reasons: Counter[str] = Counter()
    files = _converted(documents, kind, route, of) if route == LATEXML or shards.spread() else None

    def distinct() -> Iterator[Tree]:
        for document, read in _with_reader(documents, kind, route, files):
            for source in _sources(document, kind):
                if (numbered := known.get(source)) is None:
                    reading = _storable(_tangent(source[1]) if source[0] else read(source[1]))
                    number = -1
                    if not _is_error_tree(reading.tree):
                        before = len(numbers)
                        number = numbers.number(tangent_string(reading.tree).encode())
                        if number == before:
                            yield reading.tree
                    numbered = (number, reading.reason or (ALONE if number < 0 else ""))
                    known.put(source, numbered)
                trees.extend(numbered[:1])
                reasons[numbered[1]] += 1
            start.extend((len(trees),))
            ids.add(document.id.encode())
            posts.add(document.columns.get(POST, "").encode("utf-8", "replace"))

    with (
        Texts(folder / "document-ids.npy") as ids,
        Texts(folder / "document-posts.npy") as posts,
        ArrayFile(folder / "document-start.npy", np.int64) as start,
        ArrayFile(folder / "document-tree.npy", np.int32) as trees,
    ):
        start.extend((0,))
        count = forest.write(distinct(), folder)
    if not count:
        if not reasons:
            raise HarnessError(
                "the corpus has no formulas: formulas in its texts do not count; name the column of each document's"
                " list of formulas in the corpus's file, fields: {COLUMN: formulas} (page Your own collections)"
            )
        why = "; ".join(f"{reason}: {number:,}" for reason, number in reasons.most_common())
        raise HarnessError(f"no formula of the corpus could be read ({why})")
    if not posts.width:
        (folder / "document-posts.npy").unlink()
    counted = {"read": reasons.pop("", 0), "failed": dict(reasons.most_common())}
    (folder / "counts.json").write_text(json.dumps(counted), encoding="utf-8")
    _write_documents(folder, count, limit)
    return files or ()


def _write_documents(folder: Path, count: int, limit: int) -> None:
    """Writes the documents of each tree, from the trees of each document."""
    start, tree = mapped(folder / "document-start.npy"), mapped(folder / "document-tree.npy")
    often = np.zeros(count, np.int64)
    for at in range(0, len(tree), _SCANNED):
        some = tree[at : at + _SCANNED]
        often += np.bincount(some[some >= 0], minlength=count)
    first = np.concatenate(([0], np.cumsum(often)))
    np.save(folder / "tree-first.npy", first)
    with ArrayFile(folder / "tree-document.npy", np.int32) as column:
        for low, high in ranges(first, limit // _BYTES):
            blocks = []
            for begin, end in ranges(start, min(limit // _BYTES, _SCANNED)):
                some = tree[start[begin] : start[end]]
                document = np.repeat(np.arange(begin, end, dtype=np.int32), np.diff(start[begin : end + 1]))
                here = np.flatnonzero((some >= low) & (some < high))
                blocks.append((some[here], document[here]))
            release(start, tree)
            numbers, document = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
            column.add(document[np.argsort(numbers, kind="stable")])


def _converted(documents: Iterable[Document], kind: str, route: str, of: str) -> list[Path]:
    """Converts the LaTeX of all documents in shards; returns their files, one for each group of `ahead`."""
    groups = (new for _, new in ahead(documents, partial(_latex_of, kind)))
    return shards.mapped(shards.ShardTask(of, partial(_content, kind, route)), groups, "converting formulas")


def _content(kind: str, route: str, latex: Sequence[str]) -> bytes:
    """Returns the content of a shard: a line for each formula, its tree and why it could not be parsed completely."""
    read = reader(latex, kind, route)
    readings = (read(each) for each in latex)
    return "".join(f"{json.dumps([tangent_string(each.tree), each.reason])}\n" for each in readings).encode()


def _latex_of(kind: str, document: Document) -> list[str]:
    """Returns the formulas of a document that are given as LaTeX alone."""
    return [text for known, text in _sources(document, kind) if not known]


def _with_reader(
    documents: Iterable[Document], kind: str, route: str, files: Sequence[Path] | None
) -> Iterator[tuple[Document, Callable[[str], ParsedFormula]]]:
    """Yields each document with a parser for its formulas.

    Parameters
    ----------
    files : of `_converted`; None: the parser parses.
    """
    if files is None:
        for document in documents:
            yield document, _READERS[kind]
        return
    for (group, new), file in zip(ahead(documents, partial(_latex_of, kind)), files, strict=True):
        lines = (json.loads(line) for line in file.read_bytes().splitlines())
        parsed = {
            each: ParsedFormula(parse_tangent(tree), reason) for each, (tree, reason) in zip(new, lines, strict=True)
        }

        def read(latex: str, parsed: Mapping[str, ParsedFormula] = parsed) -> ParsedFormula:
            # A formula of an earlier group may have been forgotten since.
            return parsed[latex] if latex in parsed else reader([latex], kind, route)(latex)

        for document in group:
            yield document, read


def queries(topics: Topics, corpus: Corpus, kind: str, route: str = OWN) -> dict[str, tuple[Tree, ...]]:
    """Returns the distinct query formulas of each topic, in order, and prints how many could not be parsed.

    Trees of the topics that come with the corpus (Tangent's files) are preferred to the topics' LaTeX.
    """
    trees_of = all_queries(topics, corpus, kind, route)
    return {topic: tuple(dict.fromkeys(tree for tree in trees if tree)) for topic, trees in trees_of.items()}


def all_queries(topics: Topics, corpus: Corpus, kind: str, route: str = OWN) -> dict[str, tuple[Tree | None, ...]]:
    """Returns all query formulas of each topic as in `queries`, in order; None if nothing of one could be parsed.

    The trees of both kinds are of the same formulas in the same order.
    """
    checks.choice("kind", kind, KINDS)
    given = tangent.queries(corpus.paths[KINDS.index(kind)]) if corpus.reader.name == "tangent" else {}
    reasons: Counter[str] = Counter()
    out: dict[str, tuple[Tree | None, ...]] = {}
    latex = {topic.id: [_text(each.latex) for each in topic.formulas] for topic in topics if topic.id not in given}
    read = reader(chain.from_iterable(latex.values()), kind, route)
    for topic in topics:
        parsed = [_tangent(given[topic.id])] if topic.id in given else [read(each) for each in latex[topic.id]]
        readings = [_storable(reading) for reading in parsed]
        reasons.update(reading.reason for reading in readings)
        out[topic.id] = tuple(None if _is_error_tree(reading.tree) else reading.tree for reading in readings)
    good = reasons.pop("", 0)
    without = sum(not any(trees) for trees in out.values())
    what = f"topics: {good + reasons.total():,} formulas, {without} of {len(out)} topics without any"
    _log_parse_failures(what, kind, route, ParseCounts(good, dict(reasons.most_common())))
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


def _storable(reading: ParsedFormula) -> ParsedFormula:
    """Returns the reading, or a failure if its tree is too large for a forest, so that one formula cannot stop all."""
    size = len(reading.tree)
    if size > forest.WIDEST:
        return failed(LARGE)
    # Edges number arguments from 0, so the operator with the most arguments determines the number of distinct edges.
    return failed(WIDE) if size > forest.EDGES and len(set(reading.tree.edges)) > forest.EDGES else reading


def _tangent(text: str) -> ParsedFormula:
    """Parses a Tangent string; a failure is a result, not an error."""
    if not text:
        return failed(NO_TREE)
    try:
        return ParsedFormula(parse_tangent(text))
    except HarnessError:
        return failed(NO_STRING)


def _is_error_tree(tree: Tree) -> bool:
    return tree.labels == (ERROR,)


def _log_parse_failures(what: str, kind: str, route: str, counts: ParseCounts) -> None:
    """Prints one line with the most frequent errors; `Formulas.counts` has all of them."""
    named = [f"{reason}: {number:,}" for reason, number in list(counts.failed.items())[:_NAMED]]
    if len(counts.failed) == 1:
        named = list(counts.failed)
    if len(counts.failed) > _NAMED:
        named.append(f"{len(counts.failed) - _NAMED} more kinds: {sum(list(counts.failed.values())[_NAMED:]):,}")
    kinds = f" ({', '.join(named)})" if named else ""
    how = ", ".join((kind, *via(route).values()))
    log_line(
        f"{what} ({how}); parsed without errors: {counts.read:,}; with errors: {sum(counts.failed.values()):,}{kinds}"
    )

"""Reader of judged formulas of ARQMath-1 Task 2 as Tangent-S trees, from files of re-ranked results per topic.

    Q <TAB> B.1                                                topic
    E <TAB> [U!eq,0[V!x],1[N!2]]                               its own tree
    R <TAB> 2981284 <TAB> 0 <TAB> [U!eq,...] <TAB> [1.0,...]   visual id, position, tree, scores

The scores, three of Tangent-S, are no part of the documents. A tree that contains a quotation mark is quoted, with its
marks doubled: `\\"[V!x,0[V!\\"\\"]]\\"`. The first file holds operator trees (OPT), the second symbol
layout trees (SLT).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.collections.corpus import Corpus, CorpusReader, Document, Documents, Remarks, numbered_lines
from harness.collections.forms import FileForm
from harness.errors import format_error

VERSION = 1
QUOTE = '\\"'


class TangentResult(NamedTuple):
    """A line `R`: its number, visual id, tree and scores, and the topic above it."""

    line: int
    topic: str
    formula: str
    tree: str
    scores: str


def results(path: Path) -> Iterator[TangentResult]:
    """Yields each result.

    Raises
    ------
    FormatError
        A line has another format.
    """
    topic = ""
    for number, line in numbered_lines(path):
        try:
            kind, *fields = line.decode("utf-8").split("\t")
        except UnicodeDecodeError:
            raise format_error(path, number, "not UTF-8 text") from None
        if kind == "R" and len(fields) == 4 and (tree := _without_quotes(fields[2])).startswith("["):
            yield TangentResult(number, topic, fields[0], tree, fields[3])
        elif kind not in ("", "Q", "E") or (kind and len(fields) != 1):
            raise format_error(path, number, "expected Q and a topic, E and a tree, or R, visual id, 0, tree, scores")
        elif kind == "Q":
            topic = fields[0]


def queries(path: Path) -> dict[str, str]:
    """Returns topic -> its own tree; topics without a line `E` are left out."""
    out: dict[str, str] = {}
    topic = ""
    for _, line in numbered_lines(path):
        kind, _, text = line.decode("utf-8", "replace").partition("\t")
        if kind == "Q":
            topic = text
        elif kind == "E" and (tree := _without_quotes(text)).startswith("["):
            out.setdefault(topic, tree)
    return out


def _without_quotes(tree: str) -> str:
    if len(tree) > 3 and tree.startswith(QUOTE) and tree.endswith(QUOTE):
        return tree[2:-2].replace(QUOTE * 2, '"')
    return tree


def read(corpus: Corpus, remarks: Remarks) -> Documents:
    """Yields a document for each visual id, in the order of the operator trees; body and columns hold both trees."""
    if len(corpus.paths) != 2:
        raise format_error(corpus.name, 0, f"{len(corpus.paths)} files, expected those of OPT and SLT")
    first, second = corpus.paths
    layouts = _distinct(second, remarks)
    for tree, (number, operators) in _distinct(first, remarks).items():
        _, layout = layouts.pop(tree, (0, ""))
        remarks["formulas"] += 1
        remarks["formulas without a symbol layout tree"] += not layout
        columns = {"opt": operators, "slt": layout} if layout else {"opt": operators}
        yield (first, number), Document(tree, body=f"{operators} {layout}".strip(), columns=columns)
    for tree, (number, layout) in layouts.items():
        remarks["formulas"] += 1
        remarks["formulas without an operator tree"] += 1
        yield (second, number), Document(tree, body=layout, columns={"slt": layout})


def _distinct(path: Path, remarks: Remarks) -> dict[str, tuple[int, str]]:
    """Returns visual id -> line and tree of its first occurrence."""
    out: dict[str, tuple[int, str]] = {}
    for number, _, name, tree, _ in results(path):
        if out.setdefault(name, (number, tree))[1] != tree:
            remarks["visual ids with more than one tree (the first is kept)"] += 1
        remarks["trees whose brackets do not match"] += tree.count("[") != tree.count("]")
    return out


FORMULAS = CorpusReader("tangent", read, VERSION)
READERS = (FileForm(FORMULAS.name, documents=FORMULAS),)

r"""Converts posts to text with formula placeholders, and merges parsed sentences and formula trees into a graph.

    "Solve $x^2=1$ for real $x$."   ->   "Solve FORMULA_0 for real FORMULA_1 ."

Placeholders are surrounded by blanks, so that tokenisers keep them whole. Source: MathAMR+ thesis, section 3.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from harness.collections.corpus import Document
from harness.data.markup import trimmed
from harness.data.topics import Formula, Topic
from harness.formulas.text.delimiters import Dollars, Span, formula_spans
from harness.systems.mathamr.graphs.graph import FORMULA, OPT, ROOT, SLT, TEXT, Edge, FormulaNodes, Graph, Sentence

if TYPE_CHECKING:
    from harness.formulas.trees.tree import ParsedFormula, Tree

T = TypeVar("T")
LIMIT = 500  # maximum number of tokens per chunk
_PLACEHOLDER = re.compile(r"FORMULA_(\d{1,9})", re.IGNORECASE)
_WRITTEN = re.compile(r"(formula)_(?=\d)", re.IGNORECASE)
_REMEMBERED = 1 << 14
_LARGEST = 4_000_000  # maximum number of cells of the table that aligns formulas


@dataclass(frozen=True)
class Post:
    """Post to be converted to a graph.

    Attributes
    ----------
    text : text with delimited LaTeX.
    formulas : the collection's formulas in order of appearance; they may include formulas of another text (such as the
        question's title) before or after those of this text.
    at_end : whether this text's formulas are the last ones rather than the first ones.
    dollars : which dollar signs of the text enclose formulas.
    """

    id: str
    text: str
    formulas: tuple[Formula, ...] = ()
    at_end: bool = False
    dollars: Dollars = "pairs"


@dataclass(frozen=True)
class PostText:
    """A post ready for a parser.

    Attributes
    ----------
    text : text with `FORMULA_n`, between blanks, in place of each formula.
    formulas : formula n is `FORMULA_n`; its id is "" if the collection has no such formula.
    unknown : number of empty ids, if the post has formulas of the collection; else 0.
    """

    text: str
    formulas: tuple[Formula, ...]
    unknown: int


def question(topic: Topic) -> Post:
    """Returns the post of a topic: title and text."""
    return Post(topic.id, f"{topic.title} {topic.body}".strip(), topic.formulas, dollars=topic.dollars)


def question_of(document: Document, column: str = "question") -> Post:
    """Returns the question stored with an answer: the document's title and the text in a column."""
    text = f"{document.title} {document.columns.get(column, '')}".strip()
    return Post(document.id, text, document.formulas, dollars=document.dollars)


def answer_post(document: Document) -> Post:
    """Returns the post of a document's body; its formulas follow those of title and question."""
    return Post(document.id, document.body, document.formulas, at_end=True, dollars=document.dollars)


def read_post(post: Post) -> PostText:
    """Returns a post's text with placeholders."""
    return post_text(post.text, post.formulas, post.at_end, post.dollars)


def post_text(text: str, formulas: Sequence[Formula], at_end: bool = False, dollars: Dollars = "pairs") -> PostText:
    """Replaces each formula in a text by a placeholder, and matches it to the collection's formulas.

    Formulas are matched by their LaTeX, ignoring blanks, in an alignment that keeps their order. Text that looks like
    a placeholder loses its underscore.
    """
    spans = formula_spans(text, dollars)
    latex = [_latex(span, text) for span in spans]
    aligned = _aligned([_without_blanks(each) for each in latex], [_without_blanks(f.latex) for f in formulas], at_end)
    own = tuple(
        Formula("", own) if number < 0 else formulas[number] for own, number in zip(latex, aligned, strict=True)
    )
    pieces, at = [], 0
    for number, span in enumerate(spans):
        pieces += [_without_marks(text[at : span.start]), f"FORMULA_{number}"]
        at = span.end
    pieces.append(_without_marks(text[at:]))
    words = " ".join(" ".join(pieces).split())
    return PostText(words, own, aligned.count(-1) if formulas else 0)


def _without_marks(text: str) -> str:
    return _WRITTEN.sub(r"\1 ", text)


def _latex(span: Span, text: str) -> str:
    """Returns a formula's LaTeX; an environment keeps its begin and end, which determine how it is parsed."""
    return text[span.start : span.end] if span.kind == "environment" else trimmed(span.latex)


def _without_blanks(latex: str) -> str:
    return "".join(latex.split())


def _aligned(here: list[str], known: list[str], at_end: bool) -> list[int]:
    """Returns for each formula of the text the index of the matching known formula, or -1; indices increase.

    Aligns as many as possible, preferring the end of `known` if `at_end`, else its beginning.
    """
    if at_end:
        last = len(known) - 1
        return [last - n if n >= 0 else -1 for n in reversed(_aligned(here[::-1], known[::-1], False))]
    same = 0
    while same < min(len(here), len(known)) and here[same] == known[same]:
        same += 1
    return list(range(same)) + _common(here[same:], known[same:], same)


def _common(here: list[str], known: list[str], first: int) -> list[int]:
    """Aligns by a longest common subsequence (dynamic programming); prefers earlier entries of `known`."""
    known = known[: _LARGEST // max(len(here), 1)]
    rows = [[0] * (len(known) + 1)]
    for key in reversed(here):
        below, row = rows[-1], [0] * (len(known) + 1)
        for j in range(len(known) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if key == known[j] else max(below[j], row[j + 1])
        rows.append(row)
    rows.reverse()
    out, j = [], 0
    for i, key in enumerate(here):
        # Skipping this formula does not shorten the subsequence.
        if rows[i][j] == rows[i + 1][j]:
            out.append(-1)
            continue
        while known[j] != key:
            j += 1
        out.append(first + j)
        j += 1
    return out


def chunks(sentences: Sequence[str], limit: int = LIMIT) -> Iterator[list[str]]:
    """Groups sentences into runs of at most `limit` tokens (words between blanks); a longer sentence is its own run."""
    return _groups_within(sentences, limit, lambda sentence: len(sentence.split()))


def by_chunks(sentences: Sequence[Sentence], limit: int = LIMIT) -> list[Sentence]:
    """Merges the sentences of each chunk of a long post into one graph; one edge `:sntN` will lead to each chunk.

    Parameters
    ----------
    limit : maximum number of nodes per chunk, as a substitute for tokens. Sentences of a single chunk are returned
        unchanged, because `merge` makes the same graph of them.
    """
    runs = list(_groups_within(sentences, limit, lambda sentence: len(sentence.labels)))
    return [merge(run) for run in runs] if len(runs) > 1 else list(sentences)


def _groups_within(sentences: Sequence[T], limit: int, tokens_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Groups consecutive sentences such that each group has at most `limit` tokens; one sentence may have more."""
    run: list[T] = []
    tokens = 0
    for sentence in sentences:
        count = tokens_of(sentence)
        if run and tokens + count > limit:
            yield run
            run, tokens = [], 0
        run.append(sentence)
        tokens += count
    if run:
        yield run


def merge(sentences: Sequence[Sentence]) -> Sentence:
    """Merges sentences under a root `multi-sentence` with edges `:snt1`, `:snt2` ...; a single one is unchanged.

    Raises
    ------
    ValueError
        There are none.
    """
    if len(sentences) == 1:
        only = sentences[0]
        return Sentence(only.labels, only.edges, only.root, _parts_of(only))
    if not sentences:
        raise ValueError("no sentence to merge")
    labels, edges = [ROOT], list[Edge]()
    parts: list[tuple[int, ...]] = []
    for number, sentence in enumerate(sentences, 1):
        first = len(labels)
        labels += sentence.labels
        edges.append((0, f":snt{number}", first + sentence.root))
        edges += [(first + source, relation, first + target) for source, relation, target in sentence.edges]
        parts += [tuple(first + node for node in part) for part in _parts_of(sentence)]
    return Sentence(tuple(labels), tuple(edges), 0, tuple(parts))


def _parts_of(sentence: Sentence) -> tuple[tuple[int, ...], ...]:
    """Returns the nodes of each part of a sentence, the part's root first; by default one part with all nodes."""
    rest = (node for node in range(len(sentence.labels)) if node != sentence.root)
    return sentence.parts or ((sentence.root, *rest),)


def assemble(sentences: Sequence[Sentence], formulas: Sequence[Formula]) -> Graph:
    """Builds the graph of a post: its sentences under one root, and the trees of its formulas.

    Placeholders that the parser repeated become one node. A placeholder that it dropped is attached to the root by
    `:math` and is in no sentence. A formula that cannot be parsed has no trees.

    Raises
    ------
    ValueError
        There are no sentences.
    """
    merged = merge(sentences)
    places: dict[int, int] = {}  # number of a formula -> node
    number: list[int] = []
    labels: list[str] = []
    kinds = bytearray()
    for label in merged.labels:
        match = _PLACEHOLDER.fullmatch(label)
        formula = int(match[1]) if match and int(match[1]) < len(formulas) else -1
        number.append(places.get(formula, len(labels)))
        if formula < 0 or formula not in places:
            labels.append(label if formula < 0 else f"FORMULA_{formula}")
            kinds.append(TEXT if formula < 0 else FORMULA)
            if formula >= 0:
                places[formula] = number[-1]
    root = number[merged.root]
    edges = list(dict.fromkeys((number[source], relation, number[target]) for source, relation, target in merged.edges))
    parts = tuple(tuple(dict.fromkeys(number[node] for node in part)) for part in merged.parts)
    for formula in range(len(formulas)):
        if formula not in places:
            places[formula] = len(labels)
            labels.append(f"FORMULA_{formula}")
            kinds.append(FORMULA)
            edges.append((root, ":math", places[formula]))
    nodes = []
    for formula, each in enumerate(formulas):
        opt, slt = (
            _grow(tree, places[formula], kind, labels, kinds, edges)
            for kind, tree in zip((OPT, SLT), trees(each.latex), strict=True)
        )
        nodes.append(FormulaNodes(each.id, places[formula], opt, slt))
    return Graph(tuple(labels), bytes(kinds), tuple(edges), root, parts, tuple(nodes))


@lru_cache(_REMEMBERED)
def trees(latex: str) -> tuple[Tree | None, Tree | None]:
    """Returns the operator tree and the layout tree of a formula; None for a tree that cannot be parsed."""
    from harness.formulas.opt import read as operators  # grammars, which those that only look for parsers do not need
    from harness.formulas.slt import read as layout

    return _tree_or_none(operators.read_latex(latex)), _tree_or_none(layout.read_latex(latex))


def _tree_or_none(reading: ParsedFormula) -> Tree | None:
    """Returns the tree of a formula that was parsed; None if it failed."""
    from harness.formulas.trees.tree import ERROR

    return None if reading.tree.labels == (ERROR,) else reading.tree


def _grow(
    tree: Tree | None, place: int, kind: int, labels: list[str], kinds: bytearray, edges: list[Edge]
) -> tuple[int, int]:
    """Adds a tree below its placeholder; returns its first node and one past its last."""
    if tree is None:
        return (0, 0)
    first = len(labels)
    labels += tree.labels
    kinds += bytes([kind]) * len(tree)
    name = ":opt" if kind == OPT else ":slt"
    edges.append((place, name, first))
    for node, (parent, edge) in enumerate(zip(tree.parents[1:], tree.edges[1:], strict=True), 1):
        # The arguments of an unordered operator have no positions.
        unordered = kind == OPT and tree.labels[parent].startswith("U!")
        edges.append((first + parent, f"{name}_{'0' if unordered else edge}", first + node))
    return (first, len(labels))

"""From corpora to graphs: the posts of a corpus, pairs to train on, and the store's artefacts that hold them.

Graphs take long to make (the thesis' 22 days) and are kept under what they were made from: corpus, part and parser.
What is made of them, a vocabulary, packs, a model, vectors, is kept under the digests of what that was made from.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from harness import store
from harness.collections.corpus import Corpus, Document, load_corpus
from harness.collections.judged import Judged
from harness.console import say
from harness.errors import HarnessError
from harness.files import sha256, sha256_file
from harness.formulas import tree
from harness.systems.mathamr import build
from harness.systems.mathamr.build import Parse, read_graphs
from harness.systems.mathamr.graph import Graph
from harness.systems.mathamr.posts import Post, answer, question_of
from harness.systems.maxsim import Rows, Vectors

VERSION = 1  # raised whenever the same posts give other graphs
PARTS = ("answers", "questions", "posts")
_GRAPH_CODE = ("graph", "amr", "dependency", "posts", "build")
_NOT_GRAPHS = ("latexml", "masking", "forest", "tuples")  # of the formulas' modules


@dataclass(frozen=True)
class Parser:
    """A parser of sentences, and what it is known by.

    Attributes
    ----------
    parse : texts with placeholders -> the graphs of their sentences.
    identity : its name, and the versions of what it runs on.
    """

    parse: Parse
    identity: Mapping[str, str]


def posts(corpus: Corpus, part: str, column: str = "question") -> Iterator[Post]:
    """The posts of a corpus of answers.

    Parameters
    ----------
    part : `answers`: the documents' bodies. `questions`: their titles and `column`, each question once, under the id
        of `question_id` (where the corpus has none, the first answer's with `q` before it). `posts`: both.
    """
    seen: set[str] = set()
    for document in corpus:
        if part in ("questions", "posts"):
            name = question_id(document)
            if name not in seen:
                seen.add(name)
                yield replace(question_of(document, column), id=name)
        if part in ("answers", "posts"):
            yield answer(document)


def question_id(document: Document) -> str:
    """The id of the question that an answer belongs to."""
    return document.columns.get("question_id") or f"q{document.id}"


def identity(corpus: Corpus) -> dict[str, Any]:
    """What decides the documents of a corpus: its name, its digest, and which columns are read as what."""
    return {"corpus": corpus.name, "digest": corpus.digest(), "columns": [list(corpus.fields), list(corpus.keep)]}


def graphs(
    corpus: Corpus, part: str, parser: Parser, workspace: Path, column: str = "question", workers: int = 1
) -> Path:
    """The folder of a corpus's graphs, in the order of `posts`; built if the store has none.

    A build that was stopped goes on where it was: its parts lie in the workspace until all are there.
    """
    spec = {
        **identity(corpus),
        "part": part,
        "column": column,
        "parser": dict(parser.identity),
        "versions": [VERSION, code()],
    }
    making = workspace / f"graphs-{store.key(spec)[:16]}"

    def make(folder: Path) -> None:
        say(f"corpus {corpus.name}: making graphs of its {part} ({parser.identity['parser']})")
        built = build.build_graphs(posts(corpus, part, column), parser.parse, making, workers=workers)
        say(built.table())
        shutil.copytree(making, folder, dirs_exist_ok=True)

    found = store.get_or_build("post-graphs", spec, make)
    shutil.rmtree(making, ignore_errors=True)
    return found


@cache
def code() -> str:
    """A SHA-256 of the code that makes graphs, formulas' trees among them."""
    here = Path(__file__).parent
    others = {f"{name}.py" for name in _NOT_GRAPHS}
    files = [file for file in sorted(Path(tree.__file__).parent.glob("*.py")) if file.name not in others]
    files += [here / f"{name}.py" for name in _GRAPH_CODE]
    return sha256("\n".join(f"{file.name} {sha256_file(file)}" for file in files).encode())


@dataclass(frozen=True, eq=False)
class PairGraphs:
    """Questions with their answers, to train on.

    Attributes
    ----------
    ids : of posts, with the corpus before them; graphs that differ at most in their formulas' ids are one post.
    graphs : one a post.
    query, document : int64, shape (pairs,). Indices into `ids`.
    group : int64, shape (pairs,). The question; a question that two corpora or pages share is one.
    left_out : pairs that were left out since their posts are judged; `without` those without a graph.
    """

    ids: list[str]
    graphs: list[Graph]
    query: np.ndarray[Any, np.dtype[np.int64]]
    document: np.ndarray[Any, np.dtype[np.int64]]
    group: np.ndarray[Any, np.dtype[np.int64]]
    left_out: int
    without: int


def pair_graphs(
    sources: Mapping[str, str], judged: Judged, parser: Parser, workspace: Path, workers: int = 1
) -> PairGraphs:
    """The pairs of some corpora of answers, without those whose posts are judged.

    Parameters
    ----------
    sources : corpus -> the column that holds the question.
    judged : an answer that it holds, or whose page has a formula that it holds, is left out with its question.

    Raises
    ------
    HarnessError
        No pair is left, or a corpus does not have the column.
    """
    ids: list[str] = []
    out: list[Graph] = []
    number: dict[str, int] = {}
    rows: list[tuple[int, int]] = []
    left_out = without = 0

    def post(name: str, graph: Graph) -> int:
        # Equal posts are one, so that neither is a negative of what belongs to the other. A formula that stands twice
        # in a collection has two ids, which no model sees.
        bare = replace(graph, formulas=tuple(replace(formula, id="") for formula in graph.formulas))
        key = sha256(repr(bare).encode())
        if key not in number:
            number[key] = len(ids)
            ids.append(name)
            out.append(graph)
        return number[key]

    for name, column in sources.items():
        corpus = load_corpus(name)
        if not any(column in document.columns for document in corpus):
            raise HarnessError(f"key 'pairs': no document of corpus {name} has the column {column!r} of questions")
        questions = dict(read_graphs(graphs(corpus, "questions", parser, workspace, column, workers)))
        answers = dict(read_graphs(graphs(corpus, "answers", parser, workspace, workers=workers)))
        for document in corpus:
            asked = question_id(document)
            if judged.holds(document):
                left_out += 1
            elif asked not in questions or document.id not in answers:
                without += 1
            else:
                query = post(f"{name}/{asked}", questions[asked])
                rows.append((query, post(f"{name}/{document.id}", answers[document.id])))
    if not rows:
        raise HarnessError(f"key 'pairs': no pair of {', '.join(sources)} is left ({left_out} are judged)")
    say(f"pairs: {len(rows):,}; left out as judged {left_out:,}, without a graph {without:,}")
    query, document = np.array(rows, np.int64).T
    return PairGraphs(ids, out, query, document, query, left_out, without)


def graphs_of(items: Sequence[Post], parser: Parser) -> dict[str, Graph]:
    """The graphs of some posts, such as topics, made here and now; those without one are named and not there."""
    out: dict[str, Graph] = {}
    for name, graph in build.graphs(items, parser.parse):
        if isinstance(graph, Graph):
            out[name] = graph
        else:
            say(f"{name}: no graph: {graph.kind}: {graph.reason}")
    return out


def rows_of(vectors: Vectors, names: frozenset[str]) -> Rows:
    """Which of the documents have these ids, ascending."""
    wanted = np.array(sorted(name.encode() for name in names), dtype=np.bytes_)
    return np.flatnonzero(np.isin(vectors.ids, wanted)) if len(wanted) else np.empty(0, np.int64)

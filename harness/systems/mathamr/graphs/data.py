"""From corpora to graphs: the posts of a corpus, pairs to train on, and the store's artefacts that hold them.

Graphs take long to make (the thesis' 22 days) and are kept under what they were made from: corpus, part and parser.
What is made of them, a vocabulary, packs, a model, vectors, is kept under the digests of what that was made from.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus, Document
from harness.collections.judged import Judged
from harness.data.topics import Topic
from harness.errors import HarnessError
from harness.io import checks, config
from harness.io.console import say, tell
from harness.io.files import sha256
from harness.store import artefacts, code
from harness.systems.mathamr.graphs import build
from harness.systems.mathamr.graphs.build import Parse, read_graphs
from harness.systems.mathamr.graphs.graph import Graph
from harness.systems.mathamr.graphs.posts import Post, answer, question, question_of, read_post

Ints = npt.NDArray[np.int64]

TASKS = ("posts", "formulas")


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


def check_task(task: str, posts: str, formulas: str) -> None:
    """Raise HarnessError unless a task is known and has what it needs: formulas in graphs, posts that they stand in."""
    checks.choice("task", task, TASKS)
    if task == "formulas" and formulas == "none":
        raise HarnessError("key 'formulas' is 'none', and task 'formulas' ranks them; take both, opt or slt")
    if task == "formulas" and not posts:
        raise HarnessError("key 'posts' is missing: task 'formulas' needs the corpus of the posts they stand in")
    if posts:
        config.load("corpus", posts, "key 'posts'")


def posts(corpus: Corpus, part: str, column: str = "question") -> Iterator[Post]:
    """The posts of a corpus of answers.

    Parameters
    ----------
    part : `answers`: the documents' bodies. `questions`: their titles and `column`, each question once, under the id
        of `question_id` (where the corpus has none, the first answer's with `q` before it).
    """
    seen: set[str] = set()
    for document in corpus:
        if part == "questions":
            name = question_id(document)
            if name not in seen:
                seen.add(name)
                yield replace(question_of(document, column), id=name)
        else:
            yield answer(document)


def says_accepted(corpus: Corpus) -> bool:
    """Whether a corpus says which answers were accepted, by its first document."""
    return any("accepted" in document.columns for document in islice(corpus, 1))


def question_id(document: Document) -> str:
    """The id of the question that an answer belongs to."""
    return document.columns.get("question_id") or f"q{document.id}"


def graphs(
    corpus: Corpus, part: str, parser: Parser, workspace: Path, column: str = "question", workers: int = 1
) -> Path:
    """The folder of a corpus's graphs, in the order of `posts`; built if the store has none.

    A build that was stopped goes on where it was: its parts lie in the workspace until all are there.
    """
    spec = {
        **corpus.identity(),
        "part": part,
        "column": column,
        "parser": dict(parser.identity),
        "versions": [made_by(parser)],
    }
    making = workspace / f"graphs-{artefacts.key(spec)[:16]}"

    def make(folder: Path) -> None:
        say(f"corpus {corpus.name}: making graphs of its {part} ({parser.identity['parser']})")
        count = sum(1 for _ in posts(corpus, part, column))
        built = build.build_graphs(posts(corpus, part, column), parser.parse, making, workers, total=count)
        tell(built.table())
        shutil.copytree(making, folder, dirs_exist_ok=True)

    found = artefacts.get_or_build("post-graphs", spec, make)
    shutil.rmtree(making, ignore_errors=True)
    return found


def made_by(parser: Parser) -> str:
    """A digest of the code that makes graphs with a parser, formulas' trees among them."""
    return code.of(build.__name__, parser.parse.__module__)


@dataclass(frozen=True, eq=False)
class PairGraphs:
    """Questions with their answers, to train on. Graphs are read when they are needed, as they may be millions.

    Attributes
    ----------
    ids : of posts, with the corpus before them; graphs that differ at most in their formulas' ids are one post.
    query, document : int64, shape (pairs,). Indices into `ids`.
    group : int64, shape (pairs,). Pairs that share a question or an answer, directly or through others, are one group.
    left_out : pairs that were left out since their posts are judged; `without` those without a graph.
    not_accepted : pairs, of those that are not judged, whose answer was not accepted.
    folders : where the graphs are, with what their posts' ids begin with.
    """

    ids: list[str]
    query: Ints
    document: Ints
    group: Ints
    left_out: int
    without: int
    not_accepted: int
    folders: tuple[tuple[str, Path], ...]

    def graphs(self) -> Iterator[tuple[int, Graph]]:
        """The graph of each post with its index in `ids`, ascending."""
        number = {name: i for i, name in enumerate(self.ids)}
        for begin, folder in self.folders:
            for name, graph in read_graphs(folder):
                if (found := number.get(begin + name)) is not None:
                    yield found, graph


def pair_graphs(
    sources: Mapping[str, str], judged: Judged, parser: Parser, workspace: Path, workers: int = 1
) -> PairGraphs:
    """The pairs of some corpora of answers, without those whose posts are judged.

    Where a corpus's documents have a column `accepted`, only those with "yes" in it are taken (thesis, section 3.4).

    Parameters
    ----------
    sources : corpus -> the column that holds the question.
    judged : a pair is left out if its answer is held, or a formula of its page; other answers of its question stay.

    Raises
    ------
    HarnessError
        No pair is left, or a corpus does not have the column, or `accepted` is neither "yes" nor "no".
    """
    wanted: list[tuple[str, str]] = []
    folders: list[tuple[str, Path]] = []
    left_out = not_accepted = 0
    for name, column in sources.items():
        corpus = load_corpus(name)
        taken, judged_here, refused = _pairs(corpus, column, judged)
        wanted += taken
        left_out += judged_here
        not_accepted += refused
        folders.append((f"{name}/questions/", graphs(corpus, "questions", parser, workspace, column, workers)))
        folders.append((f"{name}/answers/", graphs(corpus, "answers", parser, workspace, workers=workers)))
    first = _firsts(folders, {post for pair in wanted for post in pair})
    found = [(first[a], first[b]) for a, b in wanted if a in first and b in first]
    if not found:
        others = f", {not_accepted} not accepted" if not_accepted else ""
        raise HarnessError(f"key 'pairs': no pair of {', '.join(sources)} is left ({left_out} are judged{others})")
    others = f", not accepted {not_accepted:,}" if not_accepted else ""
    without = len(wanted) - len(found)
    say(f"pairs: {len(found):,}; left out as judged {left_out:,}{others}, without a graph {without:,}")
    used = {post for pair in found for post in pair}
    ids = [post for post in dict.fromkeys(first.values()) if post in used]
    number = {post: i for i, post in enumerate(ids)}
    query, document = np.array([(number[a], number[b]) for a, b in found], np.int64).T
    group = _groups(query, document, len(ids))
    return PairGraphs(ids, query, document, group, left_out, without, not_accepted, tuple(folders))


def _pairs(corpus: Corpus, column: str, judged: Judged) -> tuple[list[tuple[str, str]], int, int]:
    """The pairs of a corpus, and how many were left out since they are judged or, of the others, not accepted."""
    taken: list[tuple[str, str]] = []
    silent: list[tuple[str, str]] = []  # which do not say whether the answer was accepted
    left_out = refused = 0
    named = says = False
    for document in corpus:
        named = named or column in document.columns
        accepted = document.columns.get("accepted")
        says = says or accepted is not None
        if accepted not in ("yes", "no", None):
            reason = f"column 'accepted' of document {document.id} is {accepted!r:.40}, expected 'yes' or 'no'"
            raise HarnessError(f"corpus {corpus.name}: {reason}")
        if judged.holds(document):
            left_out += 1
        elif accepted == "no":
            refused += 1
        else:
            pair = f"{corpus.name}/questions/{question_id(document)}", f"{corpus.name}/answers/{document.id}"
            (taken if accepted else silent).append(pair)
    if not named:
        raise HarnessError(f"key 'pairs': no document of corpus {corpus.name} has the column {column!r} of questions")
    if says:  # a document that does not say it is not known to be accepted
        return taken, left_out, refused + len(silent)
    say(f"corpus {corpus.name} does not say which answer was accepted: all answers count")
    return silent, left_out, 0


def _firsts(folders: Sequence[tuple[str, Path]], wanted: set[str]) -> dict[str, str]:
    """Each wanted post that has a graph -> the first post, in the order of the folders, whose graph is the same.

    Equal posts are one, so that neither is a negative of what belongs to the other. A formula that stands twice in a
    collection has two ids, which no model sees.
    """
    known: dict[str, str] = {}
    out: dict[str, str] = {}
    for begin, folder in folders:
        for name, graph in read_graphs(folder):
            if begin + name in wanted:
                bare = replace(graph, formulas=tuple(replace(formula, id="") for formula in graph.formulas))
                out[begin + name] = known.setdefault(sha256(repr(bare).encode()), begin + name)
    return out


def _groups(query: Ints, document: Ints, posts: int) -> Ints:
    """The group of each pair, numbered by first appearance: the parts into which the pairs join the posts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    joined = coo_array((np.ones(len(query)), (query, document)), shape=(posts, posts))
    _, part = connected_components(joined, directed=False)
    _, at, inverse = np.unique(part[query], return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(at))[inverse], np.int64)


def post_graphs(
    corpus: Corpus, parser: Parser, workspace: Path, column: str = "question", workers: int = 1
) -> Iterator[tuple[str, Graph]]:
    """The graphs of a corpus's questions, then of its answers, by their ids."""
    yield from read_graphs(graphs(corpus, "questions", parser, workspace, column, workers))
    yield from read_graphs(graphs(corpus, "answers", parser, workspace, workers=workers))


def asked(topic: Topic, task: str) -> Post:
    """A topic as a post; the formula that it asks for stands at its end if it is not in its text."""
    post = question(topic)
    if task == "posts" or not topic.formulas:
        return post
    wanted = topic.formulas[0]
    if any(formula.id == wanted.id for formula in read_post(post).formulas):
        return post
    say(f"topic {topic.id}: its formula is not in its text; it is asked at the end")
    return replace(post, text=f"{post.text} ${wanted.latex}$", at_end=True)


def graphs_of(items: Sequence[Post], parser: Parser) -> dict[str, Graph]:
    """The graphs of some posts, such as topics, made here and now; those without one are named and not there."""
    out: dict[str, Graph] = {}
    for name, graph in build.graphs(items, parser.parse):
        if isinstance(graph, Graph):
            out[name] = graph
        else:
            say(f"{name}: no graph: {graph.kind}: {graph.reason}")
    return out

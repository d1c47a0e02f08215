"""Reads posts and training pairs from corpora, and keeps their graphs as artifacts in the store.

Graphs are slow to build (22 days in the thesis), so the store keeps them under their inputs: corpus, part and parser.
Vocabularies, packs, models and vectors derived from graphs are likewise kept under the digests of their inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.collections.corpora import JudgedDocuments, load_corpus
from harness.collections.corpus import Corpus, Document
from harness.data.topics import Topic
from harness.errors import HarnessError
from harness.io import checks, config, rehearsal
from harness.io.console import log_line, log_text
from harness.io.files import sha256
from harness.store import code, shards
from harness.systems.mathamr.graphs import build
from harness.systems.mathamr.graphs.build import Parse, read_graphs
from harness.systems.mathamr.graphs.graph import Graph
from harness.systems.mathamr.graphs.posts import Post, answer_post, question, question_of, read_post

Ints = npt.NDArray[np.int64]

TASKS = ("posts", "formulas")


@dataclass(frozen=True)
class Parser:
    """Sentence parser with its identity.

    Attributes
    ----------
    parse : maps texts with placeholders to the graphs of their sentences.
    identity : name of the parser, and versions of the libraries it uses.
    keep : keep disconnected graphs; otherwise they count as failures, as in the thesis.
    given : returns ready graphs of topics by id; `given_by` describes their source.
    """

    parse: Parse
    identity: Mapping[str, str]
    keep: bool = False
    given: Callable[[], Mapping[str, Graph]] = dict
    given_by: Mapping[str, str] = field(default_factory=dict)


def check_task(task: str, posts: str, formulas: str) -> None:
    """Raises HarnessError if a task is unknown, or if task `formulas` lacks trees or the corpus of their posts."""
    checks.choice("task", task, TASKS)
    if task == "formulas" and formulas == "none":
        raise HarnessError("key 'formulas' is 'none', and task 'formulas' ranks them; take both, opt or slt")
    if task == "formulas" and not posts:
        raise HarnessError("key 'posts' is missing: task 'formulas' needs the corpus of the posts that contain them")
    if posts:
        config.load("corpus", posts, "key 'posts'")


def posts(corpus: Corpus, part: str, column: str = "question") -> Iterator[Post]:
    """Yields the posts of a corpus of answers.

    Parameters
    ----------
    part : `answers`: the bodies of documents. `questions`: titles and the text in `column`, once per question, with
        the id of `question_id`. `posts`, for a corpus of questions: titles and bodies.
    """
    seen: set[str] = set()
    for document in corpus:
        if part == "questions":
            name = question_id(document)
            if name not in seen:
                seen.add(name)
                yield replace(question_of(document, column), id=name)
        elif part == "posts":
            text = f"{document.title} {document.body}".strip()
            yield Post(document.id, text, document.formulas, dollars=document.dollars)
        else:
            yield answer_post(document)


def says_accepted(corpus: Corpus) -> bool:
    """Returns whether the first document of a corpus states if the answer was accepted."""
    return any("accepted" in document.columns for document in islice(corpus, 1))


def question_id(document: Document) -> str:
    """Returns the id of the question that an answer belongs to; without one, the answer's id after a `q`."""
    return document.columns.get("question_id") or f"q{document.id}"


def graphs(corpus: Corpus, part: str, parser: Parser, column: str = "question", workers: int = 1) -> Path:
    """Returns the folder of a corpus's graphs, in the order of `posts`; builds it if it is not in the store.

    An interrupted build resumes.
    """
    spec = {
        **corpus.identity(),
        "part": part,
        "column": column,
        "parser": dict(parser.identity),
        "disconnected": parser.keep,
        "versions": [made_by(parser)],
    }

    def join(folder: Path, of: str) -> list[Path]:
        log_line(f"corpus {corpus.name}: making graphs of its {part} ({parser.identity['parser']})")
        count = sum(1 for _ in posts(corpus, part, column))
        built, files = build.build_graphs(
            posts(corpus, part, column), parser.parse, folder, of, workers, total=count, keep=parser.keep
        )
        log_text(built.table())
        return files

    return shards.joined("post-graphs", spec, join)


def made_by(parser: Parser) -> str:
    """Returns a digest of the code that builds graphs with a parser, including the trees of formulas."""
    return code.of(build.__name__, parser.parse.__module__)


@dataclass(frozen=True, eq=False)
class PairGraphs:
    """Training pairs of questions and answers. Graphs are read on demand, because there may be millions.

    Attributes
    ----------
    ids : ids of posts, prefixed with the corpus; posts whose graphs are equal up to formula ids count as one.
    query, document : int64, shape (pairs,). Indices into `ids`.
    group : int64, shape (pairs,). Pairs that share a question or an answer, directly or through others, are one group.
    block : int64, shape (pairs,). Pairs that are held out together: those of a chapter, if documents have a column
        `chapter`, else those of a group.
    folders : (prefix of post ids, folder of graphs).
    """

    ids: list[str]
    query: Ints
    document: Ints
    group: Ints
    block: Ints
    folders: tuple[tuple[str, Path], ...]

    def graphs(self) -> Iterator[tuple[int, Graph]]:
        """Yields the graph of each post with its index in `ids`, ascending."""
        number = {name: i for i, name in enumerate(self.ids)}
        for begin, folder in self.folders:
            for name, graph in read_graphs(folder):
                if (index := number.get(begin + name)) is not None:
                    yield index, graph

    def sampled(self, pairs: int, seed: int) -> PairGraphs:
        """Draws a random sample of the pairs; with the same seed, a smaller sample is a subset of a larger one.

        Raises
        ------
        HarnessError
            There are fewer pairs, outside of a rehearsal.
        """
        if rehearsal.folder() is not None:  # of a part of the pairs that are asked for
            pairs = min(pairs, len(self.query))
        if pairs > len(self.query):
            raise HarnessError(f"key 'sample' is {pairs:,}, and there are {len(self.query):,} pairs; lower it")
        which = np.sort(np.random.default_rng([seed, 0x5A]).permutation(len(self.query))[:pairs])
        query, document = self.query[which], self.document[which]
        used, numbers = np.unique(np.concatenate((query, document)), return_inverse=True)
        return replace(
            self,
            ids=[self.ids[i] for i in used.tolist()],
            query=numbers[:pairs],
            document=numbers[pairs:],
            group=self.group[which],
            block=self.block[which],
        )


def pair_graphs(sources: Mapping[str, str], judged: JudgedDocuments, parser: Parser, workers: int = 1) -> PairGraphs:
    """Returns the training pairs of some corpora of answers, without pairs whose posts are judged.

    If the documents of a corpus have a column `accepted`, only those with "yes" are used (thesis, section 3.4).

    Parameters
    ----------
    sources : corpus -> the column that holds the question.
    judged : the judged posts; a pair is excluded if its answer or a formula of its page is among them, but other
        answers to the same question are kept.

    Raises
    ------
    HarnessError
        No pair remains, a corpus does not have the column, or `accepted` is neither "yes" nor "no".
    """
    wanted: list[tuple[str, str]] = []
    chapters: list[str] = []
    folders: list[tuple[str, Path]] = []
    left_out = not_accepted = 0
    for name, column in sources.items():
        corpus = load_corpus(name)
        taken, judged_here, refused = _pairs(corpus, column, judged)
        wanted += [(question, target) for question, target, _ in taken]
        chapters += [chapter for _, _, chapter in taken]
        left_out += judged_here
        not_accepted += refused
        folders.append((f"{name}/questions/", graphs(corpus, "questions", parser, column, workers)))
        folders.append((f"{name}/answers/", graphs(corpus, "answers", parser, workers=workers)))
    first = _firsts(folders, {post for pair in wanted for post in pair})
    both = [a in first and b in first for a, b in wanted]
    indexed_pairs = [(first[a], first[b]) for a, b in compress(wanted, both)]
    without = len(wanted) - len(indexed_pairs)
    chapters = list(compress(chapters, both))
    several = _in_several([answer for _, answer in indexed_pairs], chapters)
    kept = [answer not in several for _, answer in indexed_pairs]
    indexed_pairs, chapters = list(compress(indexed_pairs, kept)), list(compress(chapters, kept))
    if not indexed_pairs:
        others = f", {not_accepted} not accepted" if not_accepted else ""
        others += f", {len(kept)} have an answer of several chapters" if several else ""
        raise HarnessError(f"key 'pairs': no pair of {', '.join(sources)} is left ({left_out} are judged{others})")
    others = f", not accepted {not_accepted:,}" if not_accepted else ""
    others += f", with an answer of several chapters {kept.count(False):,}" if several else ""
    log_line(f"pairs: {len(indexed_pairs):,}; left out as judged {left_out:,}{others}, without a graph {without:,}")
    used = {post for pair in indexed_pairs for post in pair}
    ids = [post for post in dict.fromkeys(first.values()) if post in used]
    number = {post: i for i, post in enumerate(ids)}
    query, document = np.array([(number[a], number[b]) for a, b in indexed_pairs], np.int64).T
    group = _groups(query, document, len(ids))
    return PairGraphs(ids, query, document, group, _blocks(group, chapters), tuple(folders))


def _pairs(corpus: Corpus, column: str, judged: JudgedDocuments) -> tuple[list[tuple[str, str, str]], int, int]:
    """Returns the pairs of a corpus as (question, answer, chapter or ""), and the numbers of judged and of other, not
    accepted pairs.
    """
    taken: list[tuple[str, str, str]] = []
    silent: list[tuple[str, str, str]] = []  # pairs that do not state whether the answer was accepted
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
            chapter = document.columns.get("chapter", "")
            (taken if accepted else silent).append((*pair, f"{corpus.name}/{chapter}" if chapter else ""))
    if not named:
        raise HarnessError(f"key 'pairs': no document of corpus {corpus.name} has the column {column!r} of questions")
    if says:  # where other documents state acceptance, a document without it counts as not accepted
        return taken, left_out, refused + len(silent)
    log_line(f"corpus {corpus.name} does not say which answer was accepted: all answers count")
    return silent, left_out, 0


def _firsts(folders: Sequence[tuple[str, Path]], wanted: set[str]) -> dict[str, str]:
    """Maps each wanted post that has a graph to the first post, in folder order, with the same graph.

    Equal posts are merged so that they are not used as negatives of each other's partners. Formula ids are ignored: a
    formula that occurs twice in a collection has two ids, which the model does not see.
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
    """Returns the connected component of each pair in the graph of posts, numbered by first appearance."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    joined = coo_array((np.ones(len(query)), (query, document)), shape=(posts, posts))
    _, part = connected_components(joined, directed=False)
    _, at, inverse = np.unique(part[query], return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(at))[inverse], np.int64)


def _in_several(answers: Sequence[str], chapters: Sequence[str]) -> set[str]:
    """Returns the answers that occur in several chapters, such as "Omitted.", which are uninformative."""
    first: dict[str, str] = {}
    pairs = [(answer, chapter) for answer, chapter in zip(answers, chapters, strict=True) if chapter]
    return {answer for answer, chapter in pairs if first.setdefault(answer, chapter) != chapter}


def _blocks(group: Ints, chapters: Sequence[str]) -> Ints:
    """Returns the block of each pair: its chapter, or its group where it has none."""
    number = {name: at for at, name in enumerate(dict.fromkeys(filter(None, chapters)), int(group.max()) + 1)}
    return np.array([number[name] if name else group[at] for at, name in enumerate(chapters)], np.int64)


def texts(ids: Sequence[str], sources: Mapping[str, str]) -> list[str]:
    """Returns the texts of posts in `PairGraphs`, with LaTeX in place, in the order of `ids`."""
    wanted = dict.fromkeys(ids, "")
    for name, column in sources.items():
        for part in ("questions", "answers"):
            for post in posts(load_corpus(name), part, column):
                if (known := f"{name}/{part}/{post.id}") in wanted:
                    wanted[known] = post.text
    return list(wanted.values())


def post_graphs(
    corpus: Corpus, parser: Parser, column: str = "question", workers: int = 1, unanswered: Corpus | None = None
) -> Iterator[tuple[str, Graph]]:
    """Yields (id, graph) of a corpus's questions, then of its answers, then of unanswered questions."""
    yield from read_graphs(graphs(corpus, "questions", parser, column, workers))
    yield from read_graphs(graphs(corpus, "answers", parser, workers=workers))
    if unanswered is not None:
        yield from read_graphs(graphs(unanswered, "posts", parser, workers=workers))


def asked(topic: Topic, task: str) -> Post:
    """Returns a topic as a post; appends the query formula if it is not in the topic's text."""
    post = question(topic)
    if task == "posts" or not topic.formulas:
        return post
    wanted = topic.formulas[0]
    if any(formula.id == wanted.id for formula in read_post(post).formulas):
        return post
    log_line(f"topic {topic.id}: its formula is not in its text; it is asked at the end")
    return replace(post, text=f"{post.text} ${wanted.latex}$", at_end=True)


def graphs_of(items: Sequence[Post], parser: Parser) -> dict[str, Graph]:
    """Returns the graphs of some posts, such as topics, by id; reports posts without a graph and leaves them out.

    If the parser comes with ready graphs of topics, only those are used; otherwise posts are parsed.
    """
    if parser.given_by:
        given = parser.given()
        without = [post.id for post in items if post.id not in given]
        if without:
            log_line(f"{parser.given_by['graphs of topics']}: none of {len(without)} topics, such as {without[0]}")
        return {post.id: given[post.id] for post in items if post.id in given}
    out: dict[str, Graph] = {}
    for name, graph in build.graphs(items, parser.parse, keep=parser.keep):
        if isinstance(graph, Graph):
            out[name] = graph
        else:
            log_line(f"{name}: no graph: {graph.kind}: {graph.reason}")
    return out

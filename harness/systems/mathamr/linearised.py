"""Linearises graphs depth first for a sentence encoder, as DPRL's MathAMR did at ARQMath 2022.

This is the thesis' most important baseline: the same graphs, encoded as text without their edges.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks
from harness.io.console import log_line
from harness.store import code
from harness.store.cost import phase, queries
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import encoder, vectors
from harness.systems.dense.documents import EncoderSource, Encoding
from harness.systems.dense.engines import EncoderSettings, TextEncoder
from harness.systems.dense.maxsim import Vectors
from harness.systems.dense.search import VectorQuery, as_run, best_among, search_vectors
from harness.systems.dense.training import tuned
from harness.systems.mathamr.graphs import data, parsers
from harness.systems.mathamr.graphs.build import read_graphs
from harness.systems.mathamr.graphs.data import Parser
from harness.systems.mathamr.graphs.graph import FORMULA, MODES, ROOT, TEXT, Graph, restrict_graph


def missing(mapping: Mapping[str, Any] | None = None) -> list[str]:
    """Returns what is not installed, one line each; for the key `needs` of the configuration `mapping`."""
    return [*encoder.missing(), *parsers.missing(mapping)]


def linearise(graph: Graph) -> str:
    """Returns the labels of all nodes, once each, depth first from the root; edges are followed in both directions.

    Relations, the root above sentences, placeholders, and the kinds in Tangent's labels (`V!x` gives `x`) are omitted.
    Nodes not connected to the root come at the end.
    """
    return _words_in_depth_order(graph, (graph.root, *range(len(graph))), range(len(graph)))


def linearise_formula(graph: Graph, number: int) -> str:
    """Linearises a formula in its sentence, as DPRL did: the sentence's words and only this formula's trees.

    A formula outside all sentences gives its trees only.

    Parameters
    ----------
    number : index into the graph's formulas.
    """
    formula = graph.formulas[number]
    sentence = next((nodes for nodes in graph.sentences if formula.node in nodes), (formula.node,))
    kept = {*sentence, *range(*formula.opt), *range(*formula.slt)}
    return _words_in_depth_order(graph, (sentence[0], *sorted(kept)), kept)


def _words_in_depth_order(graph: Graph, starts: Iterable[int], kept: Container[int]) -> str:
    """Returns the words of the nodes reached from `starts` by edges in either direction, depth first."""
    joined: list[list[int]] = [[] for _ in graph.labels]
    for source, _, target in graph.edges:
        joined[source].append(target)
    for source, _, target in graph.edges:
        joined[target].append(source)
    seen: set[int] = set()
    out: list[str] = []
    for start in starts:
        waiting = [start]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            out.append(word_of(graph, node))
            waiting.extend(other for other in reversed(joined[node]) if other not in seen and other in kept)
    return " ".join(token for token in out if token)


def word_of(graph: Graph, node: int) -> str:
    """Returns the text of a node; empty for placeholders and roots above sentences, whose parts have their own text."""
    label, kind = graph.labels[node], graph.kinds[node]
    if kind == FORMULA or (kind == TEXT and label == ROOT):
        return ""
    if kind != TEXT:
        head, mark, name = label.partition("!")
        label = name if mark and len(head) == 1 and name else label
    return unicodedata.normalize("NFKC", label)


@dataclass(frozen=True)
class Linearised(checks.Checked):
    """Ranks posts or formulas by the cosine of sentence embeddings of their linearised graphs.

    Parameters
    ----------
    name : name of the run.
    task : `posts`: rank the documents of the corpus. `formulas`: rank a corpus of formulas, each in its sentence in the
        corpus `posts`.
    column : column that holds the question in `posts`, or in a corpus of answers.
    of : which graph represents an answer: its own (`answers`) or that of its question (`questions`).
    parser : sentence parser: see `parsers.load`.
    formulas : formula trees in the graphs: see `graph.MODES`; DPRL used operator trees.
    model : sentence encoder: see `harness.systems.dense.models.find_model`. Texts longer than its limit are truncated,
    and
        counted.
    """

    work: ClassVar[str] = "linearised"  # see `harness.papers.work`

    name: str
    parser: str = "dependency"
    formulas: Annotated[str, partial(checks.choice, known=MODES)] = "opt"
    model: str = "all-minilm-l6-v2"
    task: str = "posts"
    of: Literal["answers", "questions"] = "answers"
    posts: str = ""
    column: str = "question"
    depth: checks.Positive = 1000
    device: hardware.Device = "auto"
    workers: checks.Natural = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        data.check_task(self.task, self.posts, self.formulas)
        if self.of == "questions" and self.task == "formulas":
            raise HarnessError("key 'of' is 'questions', and task 'formulas' ranks formulas; say answers")

    def reads(self) -> dict[str, Any]:
        """Returns the inputs of the vectors besides corpus and code: parser, weights, device, and posts of formulas."""
        parser = parsers.load(self.parser)
        return {
            "parser": [dict(parser.identity), dict(parser.given_by)],
            "model": encoder.identity(self.model, EncoderSettings()),
            "arithmetic": hardware.arithmetic(hardware.device(self.device)),
            "posts": load_corpus(self.posts).identity() if self.task == "formulas" else None,
        }

    def trains_without(self) -> frozenset[str] | None:
        """Returns the collections excluded from the model's fine-tuning; None if it was not fine-tuned here."""
        return tuned.left_out(self.model)

    def __call__(self, request: Request) -> Run:
        """Ranks the corpus; topics without a graph are excluded.

        Raises HarnessError if there is no corpus, or a package, weights or a GPU are missing.
        """
        corpus = request.corpus_for(self.name)
        if lines := missing({"parser": self.parser}):  # fails before the graphs are built
            raise HarnessError("; ".join(lines))
        hardware.device(self.device)
        parser = parsers.load(self.parser)
        parser.given()  # fails early as well
        request.workspace.mkdir(parents=True, exist_ok=True)
        with phase("index"):
            documents = self._document_vectors(corpus, parser)
        with phase("search"):
            graphs = data.graphs_of([data.asked(topic, self.task) for topic in request.topics], parser)
            texts = _worded(self._query_text(topic, graphs[topic.id]) for topic in request.topics if topic.id in graphs)
            asked = [topic for topic in request.topics if topic.id in texts]
            rows = self._encoder.encode([texts[topic.id] for topic in asked], "query")
            ranked = []
            for topic, row in zip(queries(asked), rows, strict=True):
                pool = request.allowed(topic)
                among = None if pool is None else documents.rows(pool)
                query = VectorQuery(row[None], 0)
                if among is None:
                    ranked += search_vectors([query], documents, "single", k=self.depth)
                else:
                    ranked.append(best_among(query, documents, among, self.depth, "single"))
        return as_run(self.name, [topic.id for topic in asked], ranked, documents)

    def _document_vectors(self, corpus: Corpus, parser: Parser) -> Vectors:
        """Returns the vectors of the corpus, from the store or encoded."""
        spec = {
            "corpus": corpus.identity(),
            "parser": dict(parser.identity),
            "formulas": self.formulas,
            "task": [self.task, *([self.column] if self.of == "questions" else [])],
            "posts": [load_corpus(self.posts).identity(), self.column] if self.task == "formulas" else None,
            "model": encoder.identity(self.model, EncoderSettings()),
            "versions": [code.of(__name__), data.made_by(parser), hardware.library_versions()],
            "arithmetic": hardware.arithmetic(hardware.device(self.device)),
        }

        posts: dict[str, str] = {}

        def documents() -> Iterator[tuple[str, str]]:
            texts, of = self._documents(corpus, parser)
            posts.update(of)
            return iter(texts.items())

        return vectors.made(
            documents,
            Encoding(
                EncoderSource(self.model, EncoderSettings(), hardware.device(self.device)),
                "document",
                lambda: self._encoder,
            ),
            spec,
            kind="linearised-vectors",
            context=(lambda ids: [posts[name] for name in ids]) if self.task == "formulas" else None,
        ).vectors

    def _documents(self, corpus: Corpus, parser: Parser) -> tuple[dict[str, str], dict[str, str]]:
        """Returns the text of each document, and for formulas the post that contains each."""
        workers = self.workers or hardware.cores()
        if self.task == "posts":
            of = (self.of, parser, self.column, workers)
            text_of = {
                name: linearise(restrict_graph(graph, self.formulas))
                for name, graph in read_graphs(data.graphs(corpus, *of))
            }
            if self.of == "questions":
                asked = ((document.id, data.question_id(document)) for document in corpus)
                text_of = {name: text_of[question] for name, question in asked if question in text_of}
            return _worded(text_of.items()), {}
        wanted = {document.id: document.columns.get("post", "") for document in corpus}
        texts: dict[str, str] = {}
        whole = data.post_graphs(load_corpus(self.posts), parser, self.column, workers)
        for post, graph in whole:
            cut = restrict_graph(graph, self.formulas)
            for number, formula in enumerate(cut.formulas):
                if formula.id in wanted and formula.id not in texts:
                    wanted[formula.id] = wanted[formula.id] or post
                    texts[formula.id] = linearise_formula(cut, number)
        log_line(f"corpus {corpus.name}: {len(texts):,} of {len(wanted):,} formulas found in graphs")
        return _worded(texts.items()), wanted

    def _query_text(self, topic: Topic, graph: Graph) -> tuple[str, str]:
        """Returns a topic's id and its linearised graph; of formulas, the query formula's part, or "" without one."""
        cut = restrict_graph(graph, self.formulas)
        if self.task == "posts":
            return topic.id, linearise(cut)
        places = [i for i, formula in enumerate(cut.formulas) if topic.formulas and formula.id == topic.formulas[0].id]
        return topic.id, linearise_formula(cut, places[0]) if places else ""

    @cached_property
    def _encoder(self) -> TextEncoder:
        return encoder.load(self.model, device=hardware.device(self.device))


def _worded(texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the non-empty texts by id; reports the number of empty ones, whose vectors would all be equal."""
    text_of = dict(texts)
    if without := [name for name, text in text_of.items() if not text]:
        log_line(f"left out: {len(without):,} graphs without a word, such as {without[0]}'s")
    return {name: text for name, text in text_of.items() if text}

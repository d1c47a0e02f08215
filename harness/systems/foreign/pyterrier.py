"""Transformers and pipelines of PyTerrier (Macdonald and Tonellotto, ICTIR 2020) as systems.

Topics and documents are given as PyTerrier's frames, and results are read from one. Pipelines in plain Python start no
Java. PyTerrier evaluates by scores, not by the column `rank`, and so does the harness.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from harness.collections.corpus import Corpus, Document
from harness.data.records import frame, import_library
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError, SystemRaisedError, suggestion
from harness.io import checks
from harness.io.files import sha256_file
from harness.store import artefacts, code
from harness.store.cost import phase
from harness.systems.base import MARK, Request
from harness.systems.build import guarded
from harness.systems.dense import heads, texts
from harness.systems.foreign.results import TIES, ForeignResults, cut, run_of
from harness.systems.ranking import permitted

if TYPE_CHECKING:
    from pandas import DataFrame

EXTRA = "pyterrier"
_OWN = ("docno", "text", "title", "body", "tags")  # columns of a document that its corpus does not name
_RANKED = ("qid", "docno", "score")


@dataclass(frozen=True)
class PyTerrier(heads.OverFirst):
    """A pipeline of PyTerrier as a retriever or as a re-ranker.

    A retriever gets a frame of topics: `qid`, `query`, and `query_title`, `query_body`, `query_tags`, `language`. A
    re-ranker gets a frame of topics and documents: `qid`, `query`, ..., `docno`, `text`, `title`, `body`, `tags`, the
    columns that the corpus keeps, and `score` and `rank` of the first ranking. Both return `qid`, `docno` and `score`,
    and optionally `rank`.

    Parameters
    ----------
    pipeline : a transformer, or a function or class that makes one from `arguments`, as `package.module:name`.
    index : a function `index(documents, folder)` that writes an index of documents to an empty folder, as
        `package.module:name`; documents are dictionaries as PyTerrier's indexers take them. The folder is kept in the
        store, and given to the function `pipeline` as its argument `index`.
    arguments : keyword arguments of the function `pipeline`; files that they name count by their content.
    first : name or configuration of a system, or a run file, whose results are re-ranked.
    k : documents of the first ranking that are re-ranked for each topic; None for 100. The others follow below.
    takes : `topics` (a retriever) or `documents` (a re-ranker, of the pool if there is no `first`). None for documents
        with `first`, for topics without `first` and pool, and with a pool for what PyTerrier's inspection finds.
    query, text : fields of a topic and of a document that are joined to `query` and `text`.
    view : form of these texts: `latex`, with formulas as LaTeX in dollars; `text`, without formulas; or `mathberta`.
    ties : order of equal scores: `id`, as in trec_eval, or `order`, by the column `rank` or the order of the frame.
    depth : most results of a topic.
    """

    pipeline: str
    index: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    first: str | Mapping[str, Any] | None = None
    k: checks.Positive | None = None
    takes: Literal["topics", "documents"] | None = None
    query: texts.TopicFields = ("title", "body", "tags")
    text: texts.Fields = ("title", "body", "tags")
    view: texts.ViewName = "latex"
    ties: Annotated[str, partial(checks.choice, known=TIES)] = "id"
    depth: checks.Positive = 1000
    name: str = "pyterrier"

    def __post_init__(self) -> None:
        _module_of("pipeline", self.pipeline)
        if self.index is not None:
            _module_of("index", self.index)
        if not isinstance(self.arguments, Mapping) or "index" in self.arguments:
            raise HarnessError(f"key 'arguments' is {self.arguments!r}, expected names and values, none named index")
        super().__post_init__()
        if self.first is not None and self.takes == "topics":
            raise HarnessError("key 'takes' is 'topics', but key 'first' gives documents; leave one of them out")

    def libraries(self) -> tuple[str, ...]:
        """Returns the distributions whose versions the metadata file records."""
        return ("pyterrier", *(() if self._first is None else self._first.libraries()))

    def _reads(self) -> dict[str, Any]:
        """Returns the code of the pipeline and of its index, and files among the arguments."""
        named = {"pipeline": self.pipeline, "index": self.index}
        inputs: dict[str, Any] = {key: _digest(key, each) for key, each in named.items() if each is not None}
        inputs["files"] = _files(self.arguments)
        return inputs

    def __call__(self, request: Request) -> Run:
        """Runs the pipeline on all topics at once and checks its results.

        Raises
        ------
        HarnessError
            PyTerrier or the module of the pipeline is missing; the pipeline is none, or returns something else than
            valid results (see `run_of`); a re-ranker has nothing to re-rank.
        SystemRaisedError
            The pipeline raises an exception.
        """
        import_library("pyterrier", EXTRA)
        where = f"system {self.name}"
        with phase("load model"):
            pipeline = self._pipeline(request)
        topics = [topic.id for topic in request.topics]
        if self._takes(pipeline, request) == "topics":
            asked = [topic for topic in request.topics if request.allowed(topic) != frozenset()]
            table = frame(self._topic_columns(asked))
            with phase("search"):
                made = guarded(where, lambda: pipeline(table))
            results = _results(where, made, self.ties)
            run = run_of(self.name, results, topics, depth=self.depth, corpus=request.corpus, ties=self.ties)
            return permitted(run, request)
        return self._reranked(pipeline, request, topics)

    # ---- the pipeline -------------------------------------------------------------------------------------------

    def _pipeline(self, request: Request) -> Callable[[DataFrame], object]:
        """Returns the pipeline that the key `pipeline` names, or that the function named there makes."""
        loaded = _load_object("pipeline", self.pipeline)
        transformer = importlib.import_module("pyterrier").Transformer
        if isinstance(loaded, transformer):
            if self.arguments or self.index is not None:
                given = "arguments" if self.arguments else "index"
                raise HarnessError(f"key {given!r} is for a function, and {self.pipeline} is a pipeline already")
        elif callable(loaded):
            make = loaded
            own = dict(self.arguments)
            if self.index is not None:
                own["index"] = str(self._indexed(request.corpus_for(self.name)))
            loaded = guarded(f"key 'pipeline': {self.pipeline}", lambda: make(**own))
        if not isinstance(loaded, transformer):
            expected = "expected a pyterrier.Transformer, or a function that returns one"
            raise HarnessError(f"key 'pipeline': {self.pipeline} gives {type(loaded).__name__}, {expected}")
        pipeline: Callable[[DataFrame], object] = loaded
        return pipeline

    def _indexed(self, corpus: Corpus) -> Path:
        """Returns the folder of the index of a corpus, from the store or built."""
        named = str(self.index)
        spec = {
            **corpus.identity(),
            "index": named,
            "code": _digest("index", named),
            "text": list(self.text),
            "view": self.view,
        }

        def build(folder: Path) -> None:
            make: Any = _load_object("index", named)
            if not callable(make):
                raise HarnessError(f"key 'index': {named} is {type(make).__name__}, expected a function")
            guarded(f"key 'index': {named}", lambda: make(_CorpusIterable(self, corpus), str(folder)))
            if not any(folder.iterdir()):
                raise HarnessError(f"key 'index': {named} wrote nothing to the folder that it was given")

        with phase("index"):
            return artefacts.get_or_build("pyterrier-index", spec, build)

    def _takes(self, pipeline: object, request: Request) -> str:
        """Returns what the pipeline takes: topics or documents."""
        if self.takes is not None or self.first is not None:
            return self.takes or "documents"
        if request.pool is None:
            return "topics"
        inspect = importlib.import_module("pyterrier.inspect")
        try:
            inputs = inspect.transformer_inputs(pipeline, strict=False)
        except Exception:  # it calls the pipeline with an empty frame
            inputs = None
        return "documents" if inputs and all("docno" in columns for columns in inputs) else "topics"

    # ---- frames -------------------------------------------------------------------------------------------------

    def _topic_columns(self, topics: Sequence[Topic]) -> dict[str, list[Any]]:
        return {
            "qid": [topic.id for topic in topics],
            "query": [texts.of_topic(topic, self.query, self.view) for topic in topics],
            "query_title": [topic.title for topic in topics],
            "query_body": [topic.body for topic in topics],
            "query_tags": [" ".join(topic.tags) for topic in topics],
            "language": [topic.language for topic in topics],
        }

    def document(self, document: Document) -> dict[str, str]:
        """Returns a document as PyTerrier's indexers take it."""
        own = (document.id, texts.of_document(document, self.text, self.view), document.title, document.body)
        return {**document.columns, **dict(zip(_OWN, (*own, " ".join(document.tags)), strict=True))}

    # ---- re-ranking ---------------------------------------------------------------------------------------------

    def _reranked(self, pipeline: Callable[[DataFrame], object], request: Request, topics: Sequence[str]) -> Run:
        """Runs the pipeline on the first ranking, or on the pool; documents below the first k keep their order."""
        where = f"system {self.name}"
        k = None if self.first is None else self.k or heads.K
        first, document_of = self.read(request, k, self.document)
        ranked = heads.ranked(first)
        rows = {topic: ranked[topic][:k] for topic in topics if topic in ranked}
        by_id = request.topics.by_id()
        columns = self._topic_columns([by_id[topic] for topic, lines in rows.items() for _ in lines])
        lines = np.concatenate(list(rows.values()))
        documents = [document_of[doc] for doc in first.doc[lines].tolist()]
        # A column of the corpus that is named like one of the topics would replace it.
        for name in dict.fromkeys(name for document in documents for name in document if name not in columns):
            columns[name] = [document.get(name, "") for document in documents]
        columns["score"] = first.score[lines].tolist()
        columns["rank"] = [rank for each in rows.values() for rank in range(len(each))]
        with phase("search"):
            made = guarded(where, lambda: pipeline(frame(columns)))
        given = {topic: {doc.decode() for doc in first.doc[each].tolist()} for topic, each in rows.items()}
        run = run_of(self.name, _results(where, made, self.ties), topics, given=given, ties=self.ties)
        if self._first is None:
            return cut(run, self.depth)
        below = {topic: first.doc[each[k:]].tolist() for topic, each in ranked.items()}
        return cut(_followed(run, below, self.name + MARK * first.name.endswith(MARK)), self.depth)


class _CorpusIterable:
    """The documents of a corpus as dictionaries; iterating reads the corpus again."""

    def __init__(self, system: PyTerrier, corpus: Corpus) -> None:
        self._system, self._corpus = system, corpus

    def __iter__(self) -> Iterator[dict[str, str]]:
        return (self._system.document(document) for document in self._corpus)


def _results(where: str, made: object, ties: str) -> ForeignResults:
    """Returns the results in what a pipeline returned."""
    if not hasattr(made, "columns"):
        raise HarnessError(f"{where}: the pipeline returns {type(made).__name__}, expected a pandas DataFrame")
    table: Any = made
    columns = list(table.columns)
    for name in _RANKED:
        if name not in columns:
            known = suggestion(name, columns)
            raise HarnessError(f"{where}: the pipeline returns no column {name!r}; {known}")
        if columns.count(name) > 1:
            raise HarnessError(f"{where}: the pipeline returns several columns {name!r}")
    ranked = ties == "order" and columns.count("rank") == 1
    topic, doc, score = (table[name].tolist() for name in _RANKED)
    return ForeignResults(topic, doc, score, table["rank"].tolist() if ranked else None)


def _followed(run: Run, below: Mapping[str, Sequence[bytes]], name: str) -> Run:
    """Returns a run with further documents of each topic below its others, in their order."""
    out = run.to_dict()
    for topic, more in below.items():
        docs = out.setdefault(topic, {})
        rest = heads.filled(np.array([*docs.values(), *[np.nan] * len(more)]))[len(docs) :]
        docs |= {doc.decode(): score for doc, score in zip(more, rest.tolist(), strict=True)}
    return Run.from_dict(name, out)


def _files(value: object) -> dict[str, str]:
    """Returns the checksums of the files that are named in a value."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return {name: sha for inner in value for name, sha in _files(inner).items()}
    if not isinstance(value, str):
        return {}
    try:
        path = Path(value).expanduser()
        here = path.is_file()
    except (OSError, RuntimeError, ValueError):  # a text too long for a name, a home of nobody, a zero byte
        return {}
    return {value: sha256_file(path)} if here else {}


def _found(top: str) -> bool:
    """Whether a module can be imported; also a folder of modules, here or on the path."""
    return bool(importlib.util.find_spec(top) or PathFinder.find_spec(top, [str(Path.cwd())]))


def missing(mapping: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Returns what is missing to run a configuration, without importing it; empty if nothing is."""
    there = importlib.util.find_spec("pyterrier")
    lacking = [] if there else [f"pyterrier is not installed: pip install 'mathir-harness[{EXTRA}]'"]
    for key in ("pipeline", "index"):
        named = str((mapping or {}).get(key))
        top = named.partition(":")[0].partition(".")[0]
        if ":" in named and top.isidentifier() and not _found(top):
            lacking.append(f"module {top!r} of key {key!r} is neither in the current folder nor installed")
    return tuple(lacking)


# ---- named objects ----------------------------------------------------------------------------------------------


def _module_of(key: str, named: object) -> str:
    """Returns the module of a named object.

    Raises
    ------
    HarnessError
        The value of the key has another form; the message names the key.

    Examples
    --------
    >>> _module_of("pipeline", "my_package.pipelines:bm25")
    'my_package.pipelines'
    >>> _module_of("pipeline", "bm25")
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'pipeline' is 'bm25', expected package.module:name
    """
    module, colon, name = named.partition(":") if isinstance(named, str) else ("", "", "")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise HarnessError(f"key {key!r} is {named!r}, expected package.module:name")
    return module


def _load_object(key: str, named: str) -> object:
    """Imports a module and returns the named object.

    Raises
    ------
    HarnessError
        The module, or a module that it imports, is neither installed nor in the current folder; or it has no such name.
    SystemRaisedError
        The module raises another exception.
    """
    module, name = _module_of(key, named), named.partition(":")[2]
    where = f"key {key!r}: {named}"
    try:
        target: object = guarded(where, lambda: importlib.import_module(module))
    except SystemRaisedError as fault:
        if not isinstance(error := fault.__cause__, ModuleNotFoundError):
            raise
        lacking = f"module {error.name!r} is neither in the current folder nor installed"
        raise HarnessError(f"{where} cannot be loaded: {lacking}") from None
    for part in name.split("."):
        if not hasattr(target, part):
            known = [each for each in vars(target) if not each.startswith("_")] if hasattr(target, "__dict__") else []
            raise HarnessError(f"{where}: {module} has no {name!r}; {suggestion(name, known)}")
        target = getattr(target, part)
    return target


def _digest(key: str, named: str) -> str:
    """Returns a hash of the code that a named object depends on: its whole package, and versions of libraries.

    Raises
    ------
    HarnessError
        The module is not found, or is not a file.
    """
    module = _module_of(key, named)
    if not code.known(module):
        raise HarnessError(f"key {key!r}: module {module!r} is neither in the current folder nor installed")
    return code.of(module)

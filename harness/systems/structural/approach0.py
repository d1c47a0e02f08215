"""Approach0, the structural search engine (Zhong et al. 2019 to 2023), as its authors publish it in the package `pya0`.

A document is indexed by its formulas' LaTeX, without its words, and a topic asks with its formulas. The engine reads
LaTeX by itself; what it cannot parse is left out and counted. It is native code that can break off at a formula, and it
prints: it works in a process of its own, which runs this module.
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
import tempfile
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
from harness.data.columns import Floats
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks
from harness.io.console import progress, say
from harness.store import artefacts, code
from harness.store.cost import answered, phase
from harness.systems.base import Request
from harness.systems.ranking import rank
from harness.systems.structural.formulas import POST

IDS = "ids.json"
POSTS = "posts.json"  # of formulas that are documents, the posts where they stand
INDEX = "index.tar"  # the engine makes hundreds of thousands of small files
_MEMORY = Path("/dev/shm")  # noqa: S108  (a folder in memory: there small files are cheap)
_ROOM = 8 << 30  # bytes that must be free there; an index takes some 20 kB a formula
_RESTARTS = 20  # documents that may break the engine off while it indexes
_SECONDS = 60  # for one parsed formula, added document or topic
_LAST = 3600  # seconds to finish an index
_HIT = re.compile(r'\{"docid": (\d+), "rank": \d+, "score": ([\d.]+)')
_TAGS = re.compile(r"\[/?imath\]|\0")


@dataclass(frozen=True)
class Approach0:
    """The engine's ranking; a document scores by how well its formulas match all of the topic's.

    Parameters
    ----------
    depth : documents returned of each topic.
    """

    depth: int = 1000
    name: str = "approach0"

    def __post_init__(self) -> None:
        checks.whole("depth", self.depth, low=1)

    def __call__(self, request: Request) -> Run:
        """Ranks by the engine's score; without a pool, documents that share nothing are not returned.

        Posts are kept as context where the corpus is of formulas and knows them.
        """
        corpus = request.corpus_for(self.name)
        with phase("index"):
            folder = artefacts.get_or_build("approach0-index", _spec(corpus), lambda folder: build(corpus, folder))
        ids: list[str] = json.loads((folder / IDS).read_text(encoding="utf-8"))
        asked = {topic.id: [formula.latex for formula in topic.formulas] for topic in request.topics}
        with phase("search"):
            # All scores are needed for a pool alone, and the engine is many times faster if it may stop early.
            scores = search(folder, asked, len(ids), None if request.pool is not None else self.depth)
        nothing = np.zeros(len(ids))
        names = np.array([name.encode() for name in ids], dtype=np.bytes_)
        run = rank(
            self.name,
            request,
            names,
            lambda topic: (scores.get(topic.id, nothing), 0.0),
            self.depth,
            "a path of a formula",
        )
        posts: list[str] = json.loads((folder / POSTS).read_text(encoding="utf-8"))
        if not any(posts):
            return run
        of = dict(zip(names.tolist(), (post.encode() for post in posts), strict=True))
        return replace(run, context=np.array([of[doc] for doc in run.doc.tolist()], dtype=np.bytes_))


def _spec(corpus: Corpus) -> dict[str, Any]:
    try:
        engine = metadata.version("pya0")
    except metadata.PackageNotFoundError:
        raise HarnessError("pya0 is not installed: pip install 'mathir-harness[approach0]'") from None
    columns = [list(corpus.fields), list(corpus.keep)]
    made_by = {"engine": engine, "code": code.of(__name__)}
    return {"corpus": corpus.name, "digest": corpus.digest(), "columns": columns, **made_by}


def build(corpus: Corpus, folder: Path) -> None:
    """Indexes a corpus into a folder: the documents' ids and posts, the engine's files. Says what could not be indexed.

    Raises
    ------
    HarnessError
        No formula could be parsed, or too many documents break the engine off.
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
    _say(f"corpus {corpus.name}: {len(state):,} distinct formulas", state.values())
    for _ in range(_RESTARTS):
        with _folder() as work:
            done = _answers(["index", str(work / "index")], texts)
            if len(done) == len(texts):
                with tarfile.open(folder / INDEX, "w") as archive:
                    archive.add(work / "index", "index")
                (folder / IDS).write_text(json.dumps(list(documents)), encoding="utf-8")
                (folder / POSTS).write_text(json.dumps(posts), encoding="utf-8")
                return
        name = list(documents)[len(done)]
        say(f"Approach0 broke off at document {name}, which is left without formulas")
        texts[len(done)] = ""
    raise HarnessError(f"corpus {corpus.name}: Approach0 breaks off at more than {_RESTARTS} documents")


def search(
    folder: Path, topics: Mapping[str, Sequence[str]], documents: int, depth: int | None = None
) -> dict[str, Floats]:
    """Returns the scores of documents, shape (documents,), for each topic that has any; 0 for those not found.

    Parameters
    ----------
    folder : as `build` left it.
    topics : topic -> LaTeX of its formulas.
    documents : how many the index has.
    depth : the best so many have scores, of equal ones at the end those that the engine takes; None: all.
    """
    asked = {name: list(dict.fromkeys(map(_plain, formulas))) for name, formulas in topics.items()}
    state = _parsed([latex for formulas in asked.values() for latex in formulas])
    queries = {name: [latex for latex in formulas if not state[latex]] for name, formulas in asked.items()}
    queries = {name: formulas for name, formulas in queries.items() if formulas}
    _say(f"topics: {len(state):,} distinct formulas, {len(asked) - len(queries)} topics without any", state.values())
    out: dict[str, Floats] = {}
    with _folder() as work:
        with tarfile.open(folder / INDEX) as archive:
            archive.extractall(work, filter="data")
        command = ["search", str(work / "index"), str(documents if depth is None else depth)]
        for name, answer in zip(queries, _patient(command, list(queries.values()), None), strict=True):
            if answer is None:
                say(f"Approach0 broke off at topic {name}, which is left without documents")
                continue
            seconds, hits = answer
            answered({name: seconds})
            scores = np.zeros(documents)
            for number, score in hits:
                scores[number - 1] = score
            out[name] = scores
    return out


def _plain(latex: str) -> str:
    """Returns LaTeX on one line without the marks that the engine finds formulas by."""
    text = _TAGS.sub(" ", latex).encode("utf-8", "replace").decode()
    return " ".join(text.split())


def _parsed(formulas: Sequence[str]) -> dict[str, str]:
    """Returns why the engine cannot parse a formula; "" if it can."""
    distinct = list(dict.fromkeys(formulas))
    return dict(zip(distinct, _patient(["parse"], distinct, "broke off"), strict=True))


def _say(what: str, reasons: Iterable[str]) -> None:
    counted = Counter(reasons)
    read = counted.pop("", 0)
    named = ", ".join(f"{reason}: {number:,}" for reason, number in counted.most_common(5)) or "none"
    say(f"{what}; parsed by Approach0: {read:,}; not: {named}")


# ---- the process ------------------------------------------------------------------------------------------------


@contextmanager
def _folder() -> Iterator[Path]:
    usable = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM
    with tempfile.TemporaryDirectory(prefix="approach0-", dir=_MEMORY if usable else None) as name:
        yield Path(name)


def _patient(command: Sequence[str], tasks: Sequence[Any], broken: str | None) -> list[Any]:
    """Returns the answer to each task; `broken` where the engine broke off, which then goes on with the next one."""
    out: list[Any] = []
    while len(out) < len(tasks):
        out += _answers(command, tasks[len(out) :])
        if len(out) < len(tasks):
            out.append(broken)
    return out


def _answers(command: Sequence[str], tasks: Sequence[Any]) -> list[Any]:
    """Returns the answers to the first tasks: to all, unless the engine broke off."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            __name__ if __name__ != "__main__" else "harness.systems.structural.approach0",
            *command,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process, progress(f"Approach0 {command[0]}, {len(tasks):,} tasks"):
        try:
            sent = "".join(json.dumps(task) + "\n" for task in tasks).encode()
            output, said = process.communicate(sent)
        except BaseException:
            process.kill()
            raise
    lines = output.split(b"\n")
    if lines[0] != b"ready":
        last = said.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
        raise HarnessError(f"Approach0 does not start: {last[0][:200]}; pip install 'mathir-harness[approach0]'")
    return [json.loads(line) for line in lines[1:-1]]


def _engine() -> ModuleType:
    """Returns the engine's native module; the package around it loads much that is not needed."""
    spec = importlib.util.find_spec("pya0")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("pya0 is not installed")
    sys.path.insert(0, spec.submodule_search_locations[0])
    try:
        return importlib.import_module("_pya0")
    finally:
        del sys.path[0]


def _main(command: str, *arguments: str) -> None:
    """Does the tasks of standard input, one JSON value a line, and answer each with one."""
    answer = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    engine = _engine()
    # What the engine prints is not for us.
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    tasks = _tasks()
    answer.write("ready\n")
    if command == "index":
        _index(engine, arguments[0], tasks, answer.write)
        return
    index = engine.index_open(arguments[0], option="r") if command == "search" else None
    for task in tasks:
        if index is None:
            found: Any = _parse(engine, task)
        else:
            keywords = [{"type": "tex", "str": latex} for latex in task]
            begin = time.perf_counter()
            text = engine.search(index, keywords, topk=int(arguments[1]), verbose=False, log=None)
            seconds = time.perf_counter() - begin
            found = [seconds, [[int(number), float(score)] for number, score in _HIT.findall(text)]]
        answer.write(json.dumps(found) + "\n")


def _tasks() -> Iterator[Any]:
    """Yields the lines of standard input; whoever works on one for too long is ended, native code too."""
    for line in sys.stdin:
        signal.alarm(_SECONDS)
        yield json.loads(line)
    signal.alarm(_LAST)


def _parse(engine: ModuleType, latex: str) -> str:
    status = str(engine.parse(latex)[0]) if latex else "empty"
    return "" if status == "OK" else status.partition(",")[0].strip()


def _index(engine: ModuleType, path: str, texts: Iterator[str], answer: Callable[[str], Any]) -> None:
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
    answer(last)  # only now: without its end an index is none


if __name__ == "__main__":
    _main(*sys.argv[1:])

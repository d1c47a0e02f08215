"""Index and search of PISA, whose native module runs in a separate process.

The module comes with the package pyterrier-pisa, of which nothing else is imported: neither PyTerrier nor Java starts.
It prints to standard output and ends its process at an error, so a process of its own executes this module. PISA gets
numbers instead of words, because it would convert words to lower case.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.io import staging_names
from harness.io.console import progress

if TYPE_CHECKING:
    from harness.data.columns import Ids
    from harness.systems.lexical.tokens import CorpusTokens

ALGORITHMS = ("block_max_wand", "block_max_maxscore", "maxscore", "wand", "ranked_or")
PACKAGE = "pyterrier-pisa"
GET = "pip install 'mathir-harness[pisa]'"
MOST_HITS = 10_000_000  # maximum hits of one search process, to bound its memory; topics are split into batches
_ENCODING = "block_simdbp"  # PISA's compression of postings
_BLOCK = 64  # postings that share an upper bound of their scores
_TOGETHER = 4_000_000  # tokens that are counted at a time while an index is made
_AT_ONCE = 16  # queries of each thread in one call, and the maximum hits of such a call
_HITS_AT_ONCE = 2_000_000
_IDS, _WORDS = "ids.npy", "words.npy"
_FOUND = "found.npz"
_LEXICONS = ("fwd.doclex", "fwd.termlex")

Numbers = npt.NDArray[np.int64]
Counts = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class QueryResults:
    """The results of one query.

    Attributes
    ----------
    rows : int64, shape (found,). Rows of the documents, in PISA's order.
    scores : float32, shape (found,).
    seconds : time that the search took.
    """

    rows: Numbers
    scores: npt.NDArray[np.float32]
    seconds: float


def native() -> Path:
    """Finds PISA's native module, without importing its package.

    Raises
    ------
    HarnessError
        The package is not installed, or has no module for this version of Python.
    """
    spec = importlib.util.find_spec("pyterrier_pisa")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in (Path(folder) / f"_pisathon{suffix}" for suffix in EXTENSION_SUFFIXES):
            if path.is_file():
                return path
    raise HarnessError(f"{PACKAGE} is not installed: {GET}")


def missing() -> tuple[str, ...]:
    """Returns what is missing to run PISA, as `what: command that installs it`; empty if nothing is."""
    try:
        native()
    except HarnessError as error:
        return (str(error),)
    return ()


def version() -> str:
    """Returns the version of the package and the settings of an index; raises HarnessError if it is not installed."""
    native()
    return f"{metadata.version(PACKAGE)} {_ENCODING} {_BLOCK}"


# ---- index ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PisaIndex:
    """An index that `build` wrote.

    Attributes
    ----------
    folder : folder of the index.
    ids : bytes, shape (documents,). In corpus order.
    numbers : word -> its number in the index.
    k1, b : parameters of the scores, which the index holds the upper bounds of.
    """

    folder: Path
    ids: Ids
    numbers: Mapping[str, int]
    k1: float
    b: float

    @staticmethod
    def load(folder: Path, k1: float, b: float) -> PisaIndex:
        """Loads ids and words; the postings are read by the process that searches."""
        words = np.load(folder / _WORDS).tobytes().decode().split("\n")
        numbers = {word: number for number, word in enumerate(words)}
        return PisaIndex(folder, np.load(folder / _IDS), numbers, k1, b)


def build(tokens: CorpusTokens, weights: Mapping[str, int], folder: Path, *, k1: float, b: float) -> None:
    """Writes PISA's index of a corpus to an empty folder.

    Memory grows with the number of words and documents, not with the length of the texts.

    Parameters
    ----------
    weights : field -> how often each of its tokens counts.
    k1, b : parameters of the scores; the index holds upper bounds that depend on them.

    Raises
    ------
    HarnessError
        PISA is not installed or fails, or the disk is full.
    """
    np.save(folder / _IDS, tokens.ids)
    np.save(folder / _WORDS, np.frombuffer("\n".join(tokens.words).encode(), np.uint8))
    with tempfile.TemporaryDirectory(prefix="pisa-", dir=folder) as name, progress("PISA indexes"):
        work = Path(name)
        _invert(tokens, weights, work)
        _process("index", work, {"k1": k1, "b": b, "documents": len(tokens.ids)})
        for made in (*work.glob("bm25.*"), *(work / lexicon for lexicon in _LEXICONS)):
            made.rename(folder / made.name)


def _invert(tokens: CorpusTokens, weights: Mapping[str, int], folder: Path) -> None:
    """Writes the uncompressed postings, document lengths, and the names of words and documents, as PISA reads them."""
    documents, words = len(tokens.ids), len(tokens.words)
    lengths, df = np.zeros(documents, np.int64), np.zeros(words, np.int64)
    for word, doc, tf in _counted(tokens, weights):
        df += np.bincount(word, minlength=words)
        lengths += np.bincount(doc, tf, documents).astype(np.int64)
    used = np.flatnonzero(df)
    at = np.zeros(words, np.int64)  # where the next posting of each word goes
    begin = np.cumsum(df[used] + 1) - (df[used] + 1)  # the number of its postings comes before those of a word
    at[used] = begin + 1
    size = int(df.sum()) + used.size
    docs = _file(folder / "inv.docs", np.array([1, documents], np.uint32), size)
    frequencies = _file(folder / "inv.freqs", np.zeros(0, np.uint32), size)
    for column in (docs, frequencies):
        column[begin] = df[used]
    for word, doc, tf in _counted(tokens, weights):
        first, count = np.unique(word, return_index=True, return_counts=True)[1:]
        place = np.repeat(at[word[first]] - first, count) + np.arange(word.size)
        docs[place], frequencies[place] = doc, tf
        at[word[first]] += count
    np.concatenate(([documents], lengths)).astype(np.uint32).tofile(folder / "inv.sizes")
    width = len(str(words))  # words of equal length are sorted like their numbers
    (folder / "fwd.terms").write_text("".join(f"{number:0{width}d}\n" for number in used.tolist()))
    with (folder / "fwd.documents").open("w") as stream:
        stream.writelines(f"{row}\n" for row in range(documents))


def _file(path: Path, head: Counts, size: int) -> Counts:
    """Creates a file of a head and `size` further numbers; returns the numbers, mapped to memory."""
    whole = np.memmap(path, np.uint32, "w+", shape=(head.size + size,))
    whole[: head.size] = head
    return whole[head.size :]


def _counted(tokens: CorpusTokens, weights: Mapping[str, int]) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Yields word, document and count of postings, sorted by word, then document, of some documents at a time."""
    fields = [(tokens.fields[name], weight) for name, weight in weights.items()]
    end = np.sum([field.start for field, _ in fields], axis=0)
    begin = 0
    while begin < len(tokens.ids):
        stop = max(begin + 1, int(np.searchsorted(end, end[begin] + _TOGETHER, "right")) - 1)
        keys, counts = [], []
        for field, weight in fields:
            doc = np.repeat(np.arange(stop - begin), np.diff(field.start[begin : stop + 1]))
            token = field.token[field.start[begin] : field.start[stop]].astype(np.int64)
            keys.append(token * (stop - begin) + doc)
            counts.append(np.full(doc.size, weight))
        key, place = np.unique(np.concatenate(keys), return_inverse=True)
        tf = np.bincount(place, np.concatenate(counts), key.size).astype(np.int64)
        yield key // (stop - begin), begin + key % (stop - begin), tf
        begin = stop


# ---- search -----------------------------------------------------------------------------------------------------


def search(
    index: PisaIndex,
    queries: Sequence[Mapping[str, int]],
    hits: Sequence[int],
    *,
    algorithm: str = ALGORITHMS[0],
    threads: int = 1,
) -> list[QueryResults]:
    """Returns the documents with the highest scores for each query, and those that tie with the last of them.

    Parameters
    ----------
    queries : word -> how often it occurs; unknown words are ignored.
    hits : number of documents for each query.
    algorithm : one of `ALGORITHMS`. They differ in speed, and in the last bit of a score.
    threads : queries that are searched at the same time.

    Raises
    ------
    HarnessError
        PISA fails.
    """
    width = len(str(len(index.numbers)))
    terms = [
        {f"{index.numbers[word]:0{width}d}": float(count) for word, count in query.items() if word in index.numbers}
        for query in queries
    ]
    wanted = [min(number, len(index.ids)) for number in hits]
    out: list[QueryResults] = []
    with progress("PISA searches, topics", len(queries)) as bar:
        for begin, stop in _batches(wanted):
            job: dict[str, Any] = {"index": str(index.folder.absolute()), "k1": index.k1, "b": index.b}
            job |= {"algorithm": algorithm, "threads": threads}
            job |= {"queries": terms[begin:stop], "hits": wanted[begin:stop]}
            try:
                with staging_names.folder("pisa") as folder:
                    _process("search", folder, job)
                    out += _read_results(folder / _FOUND)
            except OSError as error:
                where = error.filename or tempfile.gettempdir()
                raise HarnessError(f"PISA: {where}: cannot be written: {error.strerror or error}") from None
            bar.add(stop - begin)
    return out


def _read_results(path: Path) -> list[QueryResults]:
    with np.load(path) as arrays:
        ends = np.cumsum(arrays["sizes"])[:-1]
        columns = (np.split(arrays["rows"], ends), np.split(arrays["scores"], ends), arrays["seconds"].tolist())
    return [QueryResults(*row) for row in zip(*columns, strict=True)]


def _batches(hits: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields the bounds of batches of queries with at most `MOST_HITS` hits together, or of one query."""
    begin = total = 0
    for at, number in enumerate(hits):
        if total and total + number > MOST_HITS:
            yield begin, at
            begin, total = at, 0
        total += number
    if hits:
        yield begin, len(hits)


# ---- the process ------------------------------------------------------------------------------------------------


def _process(command: str, folder: Path, job: Mapping[str, Any]) -> None:
    """Runs a command in a process of its own, in a folder with its input and output.

    Raises
    ------
    HarnessError
        The process failed, or PISA cannot be loaded.
    """
    (folder / "job.json").write_text(json.dumps({"module": str(native()), **job}), encoding="utf-8")
    with tempfile.TemporaryFile() as log:
        arguments = [sys.executable, "-P", "-m", "harness.systems.lexical.pisa_engine", command, str(folder)]
        status = subprocess.call(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        log.seek(0)
        printed = log.read().decode("utf-8", "replace")
    if status:
        raise HarnessError(f"PISA: {command} failed: {fault(printed, status)}")


def fault(log: str, status: int) -> str:
    """Describes the error of a process in one line.

    Parameters
    ----------
    log : standard output and standard error of the process.
    status : exit status of the process, negative for a signal.

    Examples
    --------
    >>> fault("[info] Reading sizes...\\nterminate called after throwing\\n  what():  No such file\\n", -6)
    'No such file'
    >>> fault("", -9)
    'ended with status -9'
    """
    lines = [line.strip() for line in log.replace("\r", "\n").splitlines() if line.strip()]
    said = [line.partition("what():")[2].strip() for line in lines if "what():" in line]
    said += [line for line in lines[-1:] if status > 0]
    return (said or [f"ended with status {status}"])[0][:300]


class PisaEngine:
    """PISA's native module and an opened index, in the process that searches.

    Parameters
    ----------
    module : path of the native module.
    folder : folder of the index; if its files are incomplete, they are made from the uncompressed postings.
    """

    def __init__(self, module: str, folder: str, k1: float, b: float) -> None:
        self.native = load(module)
        self.context = self.native.RetrievalContext()
        self.native.prepare_index(self.context, folder, _ENCODING, "bm25", "", block_size=_BLOCK, bm25_k1=k1, bm25_b=b)

    def found(
        self, queries: Sequence[Mapping[str, float]], hits: int, algorithm: str, threads: int = 1
    ) -> list[tuple[Numbers, npt.NDArray[np.float32]]]:
        """Returns the rows and scores of each query's `hits` top documents, in PISA's order."""
        size = len(queries) * hits
        query, rank = np.zeros(size, np.int32), np.zeros(size, np.int32)
        row, score = np.empty(size, object), np.zeros(size, np.float32)
        count = self.native.retrieve(
            self.context,
            algorithm,
            list(enumerate(queries)),
            k=hits,
            threads=threads,
            pretokenised=1,
            query_weighted=1,  # otherwise a repeated word counts once
            result_qidxs=query,
            result_docnos=row,
            result_ranks=rank,
            result_scores=score,
        )
        query, row, score = query[:count], row[:count].astype(np.int64), score[:count]
        return [(row[query == number], score[query == number]) for number in range(len(queries))]


def load(module: str) -> Any:  # noqa: ANN401
    """Loads PISA's native module from its file."""
    spec = importlib.util.spec_from_file_location("pyterrier_pisa._pisathon", module)
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} is no module")
    pisa = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pisa)
    return pisa


def answers(
    engine: PisaEngine, queries: Sequence[Mapping[str, float]], hits: Sequence[int], algorithm: str, threads: int = 1
) -> Iterator[QueryResults]:
    """Yields the top documents of each query and all that tie with the last of them; for the parameters see `search`.

    PISA decides which of the documents that tie at the cutoff it returns, so more are requested until all are there.
    """
    begin = 0
    while begin < len(queries):
        room = min(_AT_ONCE * threads, _HITS_AT_ONCE // _more(hits[begin])) if threads > 1 else 1
        stop = begin + max(1, room)
        clock = time.perf_counter()
        asked = _more(max(hits[begin:stop]))
        ranked = engine.found(queries[begin:stop], asked, algorithm, threads)
        each = (time.perf_counter() - clock) / len(ranked)
        for query, number, first in zip(queries[begin:stop], hits[begin:stop], ranked, strict=True):
            clock, most, best = time.perf_counter(), asked, first
            while best[1].size == most and best[1][number - 1] == best[1][-1]:
                most *= 4
                (best,) = engine.found([query], most, algorithm)
            rows, scores = best
            stay = rows.size if rows.size <= number else int(np.count_nonzero(scores >= scores[number - 1]))
            yield QueryResults(rows[:stay], scores[:stay], each + time.perf_counter() - clock)
        begin = stop


def _more(hits: int) -> int:
    """Returns the number of documents to request, with some that may tie with the last one."""
    return hits + max(16, hits // 10)


def _main(command: str, folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    if command == "index":
        native = load(job["module"])
        for names, lexicon in (("fwd.documents", "fwd.doclex"), ("fwd.terms", "fwd.termlex")):
            native.build_binlex(str(folder / names), str(folder / lexicon))
        if native.num_docs(str(folder)) != job["documents"]:
            raise SystemExit(f"PISA read {native.num_docs(str(folder))} of {job['documents']} documents")
        PisaEngine(job["module"], str(folder), job["k1"], job["b"])
        return
    engine = PisaEngine(job["module"], job["index"], job["k1"], job["b"])
    results = list(answers(engine, job["queries"], job["hits"], job["algorithm"], job["threads"]))
    np.savez(
        folder / _FOUND,
        rows=np.concatenate([each.rows for each in results]),
        scores=np.concatenate([each.scores for each in results]),
        sizes=np.array([each.rows.size for each in results]),
        seconds=np.array([each.seconds for each in results]),
    )


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))

"""Engines side by side: BM25 of the harness, PISA and Anserini; and HNSW graphs by FAISS and Chroma.

    python -m bench.engines --markdown                   words: 100,000 documents, three rounds
    python -m bench.engines --documents 1000000 --sides PISA --rounds 1
    python -m bench.engines --vectors 50000              vectors

Words: generated documents whose words follow Zipf's law. Queries are words of a document drawn by a seed: 5 of them
(short) or 60 (long, as questions with title and body are). Every side indexes the same corpus, is opened again as in a
later run, and answers the same queries, with its first 10 documents and its first 1,000. Each side runs in a process
of its own, with an empty store, one side after the other in every round; the numbers are medians of the rounds. CPU
seconds include those of child processes and their start: a search of PISA starts one, a search of Anserini starts Java.
Agreement is the share of the first documents of the harness's BM25 that a side returns, with PISA's formula (variant
`robertson`) beside PISA and Lucene's (variant `lucene`, exact lengths) beside Anserini. Peak memory includes children.

Vectors: documents in clusters. Every side builds a graph of 16 neighbours and 100 candidates by one thread (Chroma by
its own), and answers queries one by one with its first 1,000 of 2,000 candidates; recall is against exact search.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bench.table import Clock, machine, options, show, side_alone
from harness.collections.corpus import Corpus
from harness.data.columns import Ids, Index
from harness.data.topics import Topic
from harness.systems.dense import ann, chroma
from harness.systems.dense.maxsim import Floats32, Vectors
from harness.systems.dense.search import NeighbourIndex as Near
from harness.systems.dense.search import nearest, recall
from harness.systems.lexical import anserini, pisa_engine, runtime
from harness.systems.lexical.system import BM25, tokens_of
from harness.systems.ranking import Ranker, positions_by_id, top

K1, B = 1.2, 0.75
DEPTHS = (10, 1000)
KINDS = {"short": 5, "long": 60}  # words of a query
SEARCHES = [(kind, depth) for kind in KINDS for depth in DEPTHS]
WORDS = 500_000  # of the language
LENGTH = (60, 0.6)  # median of a document's words, and sigma of its logarithm
VIEW: Mapping[str, Any] = {"name": "whitespace", "lower": False}
FIELDS = {"body": 1}
NEAREST, CANDIDATES, CLUSTERS, DIMENSIONS = 1000, 2000, 500, 128
Queries = Mapping[str, Sequence[str]]
Found = TypeVar("Found")
Answer = Callable[[Queries, int], dict[str, list[str]]]


# ---- words -------------------------------------------------------------------------------------------------------


def prepare(folder: Path, documents: int, queries: int) -> None:
    """Writes the corpus and the queries."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(10, WORDS + 10) ** 1.05
    bounds = np.cumsum(share / share.sum())
    asked: dict[str, dict[str, list[str]]] = {kind: {} for kind in KINDS}
    chosen = set(rng.choice(documents, queries, replace=False).tolist())
    with (folder / "corpus.jsonl").open("w") as stream:
        for row in range(documents):
            size = max(5, int(rng.lognormal(np.log(LENGTH[0]), LENGTH[1])))
            words = [f"w{number}" for number in np.searchsorted(bounds, rng.random(size)).tolist()]
            stream.write(json.dumps({"id": f"d{row}", "body": " ".join(words)}) + "\n")
            if row in chosen:
                for kind, count in KINDS.items():
                    asked[kind][f"q{row}"] = rng.choice(words, min(count, size), replace=False).tolist()
    (folder / "queries.json").write_text(json.dumps(asked))


def corpus_of(folder: Path) -> Corpus:
    """The generated corpus."""
    return Corpus("words", "Words", "CC0", folder / "corpus.jsonl", (("id", "id"), ("body", "body")))


class Side(NamedTuple):
    """A side in its own process: what makes its index, what opens it as a later run does, and the index's folder."""

    make: Callable[[], object]
    open: Callable[[], Answer]
    folder: Path


def timed(work: Callable[[], Found]) -> tuple[float, Found]:
    """CPU seconds of some work, and what it returns."""
    begin = Clock.now()
    found = work()
    return Clock.now().cpu - begin.cpu, found


def bytes_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def named(ids: Ids, rows: Index) -> list[str]:
    """The ids of documents."""
    return [doc.decode() for doc in ids[rows].tolist()]


def bm25(corpus: Corpus, variant: str) -> Answer:
    """What a variant of system bm25 answers; tokens are stored, weights are computed in every run."""
    made = BM25(view=VIEW, query={"title": 1}, document=FIELDS, k1=K1, b=B, variant=variant)
    index = made.index(corpus)

    def answer(queries: Queries, depth: int) -> dict[str, list[str]]:
        ranker = Ranker(index.ids, depth)
        topics = (Topic(name, " ".join(words)) for name, words in queries.items())
        return {topic.id: named(index.ids, made.best(index, topic, ranker)[0]) for topic in topics}

    return answer


def side_harness(corpus: Corpus, own: Path) -> Side:
    """System bm25."""
    make = partial(bm25, corpus, "robertson")
    return Side(make, make, own / "store")


def side_pisa(corpus: Corpus, own: Path) -> Side:
    """System pisa-bm25, without its store's verification."""
    folder = own / "pisa"

    def make() -> None:
        folder.mkdir()
        pisa_engine.build(tokens_of(corpus, FIELDS, VIEW).value, FIELDS, folder, k1=K1, b=B)

    def opened() -> Answer:
        index = pisa_engine.PisaIndex.load(folder, K1, B)
        place = positions_by_id(index.ids)

        def answer(queries: Queries, depth: int) -> dict[str, list[str]]:
            counted = [{word: list(words).count(word) for word in words} for words in queries.values()]
            found = pisa_engine.search(index, counted, [depth] * len(counted))
            best = (top(each.rows, each.scores, place, depth)[0] for each in found)
            return {name: named(index.ids, rows) for name, rows in zip(queries, best, strict=True)}

        return answer

    return Side(make, opened, folder)


def side_anserini(corpus: Corpus, own: Path) -> Side:
    """System anserini-latex with exact lengths."""
    engine, folder = runtime.engine(), own / "anserini"

    def make() -> None:
        folder.mkdir()
        documents = ((document.id, document.body) for document in corpus)
        anserini.build(engine, documents, folder, tokens=True, exact_lengths=True)

    def opened() -> Answer:
        def answer(queries: Queries, depth: int) -> dict[str, list[str]]:
            asked = {name: " ".join(words) for name, words in queries.items()}
            how: dict[str, Any] = {"tokens": True, "hits": depth, "k1": K1, "b": B, "exact_lengths": True}
            return {topic: list(docs) for topic, docs in anserini.search(engine, folder, asked, **how).items()}

        return answer

    return Side(make, opened, folder)


SIDES = {
    "harness": (side_harness, "robertson"),
    "PISA": (side_pisa, "robertson"),
    "Anserini": (side_anserini, "lucene"),
}  # with the variant whose rankings a side should have


def run_side(name: str, folder: Path) -> None:
    """In the side's own process: prints what it took, and writes its rankings if there are none."""
    asked: dict[str, dict[str, list[str]]] = json.loads((folder / "queries.json").read_text())
    with tempfile.TemporaryDirectory(dir=folder) as own:
        os.environ["HARNESS_CACHE"] = own
        side = SIDES[name][0](corpus_of(folder), Path(own))
        took: dict[str, float] = {}
        took["index"], _ = timed(side.make)
        (folder / f"{name}.indexed").touch()
        took["open"], answer = timed(side.open)
        took["bytes"] = bytes_of(side.folder)
        for kind, depth in SEARCHES:
            took[f"{kind} {depth}"], found = timed(partial(answer, asked[kind], depth))
            write(folder / f"{name} {SIDES[name][1]} {kind} {depth}.json", found)
        if name == "harness" and not (folder / "harness lucene long 10.json").exists():
            answer = bm25(corpus_of(folder), "lucene")
            for kind, depth in SEARCHES:
                write(folder / f"harness lucene {kind} {depth}.json", answer(asked[kind], depth))
    print(json.dumps(took))


def write(path: Path, found: Mapping[str, list[str]]) -> None:
    """Writes rankings, once."""
    if not path.exists():
        path.write_text(json.dumps(found))


def agreement(folder: Path, name: str, kind: str, depth: int) -> float:
    """The mean share of the first documents of the harness that a side has."""
    variant = SIDES[name][1]
    ours, theirs = (
        json.loads((folder / f"{side} {variant} {kind} {depth}.json").read_text()) for side in ("harness", name)
    )
    return statistics.mean(len(set(docs) & set(theirs.get(topic, ()))) / len(docs) for topic, docs in ours.items())


def words_table(folder: Path, sides: Sequence[str], queries: int, rounds: int) -> Iterator[tuple[str, ...]]:
    """Rows of the table of words."""
    took: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in sides:
            printed, peaks = side_alone("bench.engines", name, folder)
            took[name].append({**printed, "peak of index": peaks[0], "peak of search": peaks[1]})
            print(f"round {number + 1}: {name}", file=sys.stderr)
    head = ("side", "index, CPU s", "open, CPU s", "MB on disk", "peak of index, MiB", "peak of search, MiB")
    yield (*head, *(f"{kind} {depth}: {of}" for of in ("queries per CPU s", "agreement") for kind, depth in SEARCHES))
    for name in sides:
        middle = {key: statistics.median(each[key] for each in took[name]) for key in took[name][0]}
        row = [name, f"{middle['index']:.1f}", f"{middle['open']:.2f}", f"{middle['bytes'] / 1e6:.0f}"]
        row += [f"{middle[f'peak of {what}'] / 2**20:.0f}" for what in ("index", "search")]
        row += [f"{queries / middle[f'{kind} {depth}']:,.0f}" for kind, depth in SEARCHES]
        known = (folder / f"harness {SIDES[name][1]} short 10.json").exists()
        yield (*row, *(f"{agreement(folder, name, *search):.4f}" if known else "-" for search in SEARCHES))


# ---- vectors -----------------------------------------------------------------------------------------------------


def drawn(count: int) -> tuple[Vectors, Floats32]:
    """Unit vectors around the centres of clusters, and queries."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLUSTERS, DIMENSIONS))

    def around(size: int) -> Floats32:
        values = centres[rng.integers(CLUSTERS, size=size)] + rng.standard_normal((size, DIMENSIONS))
        rounded: Floats32 = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
        return rounded

    names = np.array([f"d{row}" for row in range(count)], np.bytes_)
    return Vectors(names, np.arange(count + 1), around(count), np.arange(count)), around(50)


def built(name: str, vectors: Vectors, folder: Path) -> None:
    """Builds the index of a side in a folder."""
    if name == "FAISS":
        ann.faiss_index(vectors).save(folder)
    else:
        chroma.build(vectors, folder)


def opened(name: str, vectors: Vectors, folder: Path, stack: ExitStack) -> Near:
    """Opens the index of a side."""
    if name == "FAISS":
        return ann.Faiss.load(folder, vectors)
    return stack.enter_context(chroma.opened(folder, vectors))


def ask(index: Near, queries: Floats32) -> None:
    """Asks an index for the neighbours of each query, one by one."""
    for query in queries:
        index.documents(query[None], NEAREST, CANDIDATES)


def vectors_table(count: int, rounds: int) -> Iterator[tuple[str, ...]]:
    """Rows of the table of vectors."""
    vectors, queries = drawn(count)
    exact = nearest(queries, [vectors], k=NEAREST)
    took: dict[str, list[tuple[float, ...]]] = {name: [] for name in ("FAISS", "Chroma")}
    for number in range(rounds):
        for name, rows in took.items():
            with tempfile.TemporaryDirectory() as at, ExitStack() as stack:
                folder = Path(at)
                made, _ = timed(partial(built, name, vectors, folder))
                index = opened(name, vectors, folder, stack)
                index.documents(queries[:1], NEAREST, CANDIDATES)
                each, _ = timed(partial(ask, index, queries))
                found = nearest(queries, [vectors], k=NEAREST, indexes=[index], ef=CANDIDATES)
                rows.append(
                    (made, bytes_of(folder) / 1e6, 1000 * each / len(queries), float(recall(found, exact).mean()))
                )
            print(f"round {number + 1}: {name}", file=sys.stderr)
    yield "side", "build, CPU s", "MB on disk", "CPU ms per query", "recall of the first 1,000"
    for name, rows in took.items():
        made, size, each, share = (statistics.median(column) for column in zip(*rows, strict=True))
        yield name, f"{made:.1f}", f"{size:.0f}", f"{each:.1f}", f"{share:.4f}"


def main() -> None:
    """Prints a table."""
    parser = options(__doc__, rounds=3)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--vectors", type=int, default=0, help="compare searches of so many vectors, not of words")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        run_side(arguments.side, arguments.folder)
        return
    if arguments.vectors:
        show(list(vectors_table(arguments.vectors, arguments.rounds)), arguments.markdown)
        print(f"\n{arguments.vectors:,} vectors of {DIMENSIONS} dimensions, {arguments.rounds} rounds; {machine()}")
        return
    sides = [name for name in arguments.sides if name != "Anserini" or not runtime.missing()]
    sides = [name for name in sides if name != "PISA" or not pisa_engine.missing()]
    folder = Path(tempfile.mkdtemp())
    try:
        prepare(folder, arguments.documents, arguments.queries)
        show(list(words_table(folder, sides, arguments.queries, arguments.rounds)), arguments.markdown)
    finally:
        shutil.rmtree(folder)
    rounds = f"{arguments.queries} queries of each kind, {arguments.rounds} rounds"
    print(f"\n{arguments.documents:,} documents, {rounds}; {machine()}")


if __name__ == "__main__":
    main()

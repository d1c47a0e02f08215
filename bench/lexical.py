"""Lexical systems side by side: BM25 of the harness, bm25s, Anserini (Lucene) and tantivy on the same tokens.

200,000 declarations of Mathlib, taken apart once by the view `declarations`; every side gets the same tokens with
blanks between them in a file (the harness in JSON lines, which is what it reads), splits them at the blanks, and
answers the same queries, one by one: all of them with its first 10 documents, then 500 with its first 1,000. k1 =
1.2, b = .75 everywhere. Every side runs in a process of its own with one thread (Java compiles in others), by turns
in five rounds, Anserini in the first only; the medians are reported. Ratios are of CPU seconds, which other work on
the machine changes least. Memory is the most that a side and its children held at one time, the interpreter included
and Java's heap as large as Java likes; the start of Java counts for both index and search. Prints one table;
`--markdown` for bench/results, `--json FILE` writes the numbers too, `--documents N` for fewer.

Needs `pip install 'mathir-harness[bench]'` and `pip install --no-deps pyserini==1.6.0`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench.table import Clock, Ratio, machine, options, save, show, side_alone
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.data.topics import Topic
from harness.systems.lexical import anserini, runtime, text
from harness.systems.lexical.system import BM25
from harness.systems.ranking import Ranker

FIELDS = ("title", "body", "tags")
CORPUS = "corpus.jsonl"  # the documents for the harness
K1, B = 1.2, 0.75
TOP, DEEP = 10, 1000  # documents of a query
DEEP_QUERIES = 500
GOALS = {("bm25s", 0): 1.5, ("tantivy", 1): 1.2, ("tantivy", 2): 2.0}
ONCE = ("Anserini",)  # sides that take longer than all others together
Rankings = dict[str, list[str]]


def prepare(folder: Path, documents: int) -> tuple[int, int]:
    """Write the tokens of documents (also as JSON) and queries, one a line: id, tab, tokens; how many of each."""
    tokenise = text.view("declarations")
    with (folder / "documents.tsv").open("w", encoding="utf-8") as stream, (folder / CORPUS).open("w") as corpus:
        written = 0
        for document in islice(load_corpus("mathlib-decls"), documents):
            written += 1
            words = tokenise(" ".join((document.title, document.body, *document.tags)))
            stream.write(f"{document.id}\t{' '.join(words)}\n")
            corpus.write(json.dumps({"id": document.id, "body": " ".join(words)}) + "\n")
    queries = 0
    with (folder / "queries.tsv").open("w", encoding="utf-8") as stream:
        for name in ("mathlib-qr", "mathlib-names"):
            for topic in load_collection(name).topics():
                if words := tokenise(f"{topic.title} {topic.body}"):
                    queries += 1
                    stream.write(f"{name}/{topic.id}\t{' '.join(words)}\n")
    return written, queries


def read(path: Path) -> Iterator[tuple[str, str]]:
    """Ids and their tokens."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            name, _, words = line.rstrip("\n").partition("\t")
            yield name, words


# ---- the sides: each makes an index of a file and gives what answers queries -------------------------------------

Answer = Callable[[Mapping[str, str], int], Rankings]


def side_harness(documents: Path, folder: Path) -> Answer:
    """System bm25, its store empty before."""
    os.environ["HARNESS_CACHE"] = str(folder)
    path = documents.with_name(CORPUS)
    corpus = Corpus("tokens", "Tokens", "Apache-2.0", path, (("id", "id"), ("body", "body")))
    view = {"name": "whitespace", "lower": False}
    system = BM25(view=view, query={"title": 1}, document={"body": 1}, k1=K1, b=B)
    index = system.index(corpus)

    def answer(queries: Mapping[str, str], depth: int) -> Rankings:
        ranker = Ranker(index.ids, depth)
        best = {name: system.best(index, Topic(name, words), ranker) for name, words in queries.items()}
        return {name: [doc.decode() for doc in index.ids[rows].tolist()] for name, (rows, _) in best.items()}

    return answer


def side_bm25s(documents: Path, folder: Path) -> Answer:
    """bm25s as its manual uses it, with NumPy."""
    import bm25s

    ids, tokens = [], []
    for name, words in read(documents):
        ids.append(name)
        tokens.append(words.split())
    model = bm25s.BM25(k1=K1, b=B, method="lucene")
    model.index(tokens, show_progress=False)
    del tokens

    def answer(queries: Mapping[str, str], depth: int) -> Rankings:
        asked = [words.split() for words in queries.values()]
        rows, _ = model.retrieve(asked, k=depth, show_progress=False, n_threads=0)
        return {name: [ids[row] for row in best] for name, best in zip(queries, rows.tolist(), strict=True)}

    return answer


def side_anserini(documents: Path, folder: Path) -> Answer:
    """Anserini as system anserini-latex uses it."""
    engine = runtime.engine()
    anserini.build(engine, read(documents), folder, tokens=True)

    def answer(queries: Mapping[str, str], depth: int) -> Rankings:
        found = anserini.search(engine, folder, queries, tokens=True, hits=depth, k1=K1, b=B)
        return {topic: list(docs) for topic, docs in found.items()}

    return answer


def side_tantivy(documents: Path, folder: Path) -> Answer:
    """tantivy with one writer; its BM25 has these k1 and b, and rounds lengths to one byte as Lucene does."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    builder.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
    schema = builder.build()
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(heap_size=256 << 20, num_threads=1)
    for name, words in read(documents):
        writer.add_document(tantivy.Document(id=name, body=words))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def part(word: str, count: int) -> tuple[Any, Any]:
        query = tantivy.Query.term_query(schema, "body", word, "freq")
        return tantivy.Occur.Should, tantivy.Query.boost_query(query, float(count)) if count > 1 else query

    def answer(queries: Mapping[str, str], depth: int) -> Rankings:
        out = {}
        for name, words in queries.items():
            query = tantivy.Query.boolean_query([part(word, count) for word, count in Counter(words.split()).items()])
            hits = searcher.search(query, limit=depth).hits
            out[name] = [str(searcher.doc(address)["id"][0]) for _, address in hits]
        return out

    return answer


SIDES: Mapping[str, tuple[Callable[[Path, Path], Answer], str]] = {
    "harness bm25": (side_harness, "mathir-harness"),
    "tantivy": (side_tantivy, "tantivy"),  # the others by how fast they are
    "bm25s": (side_bm25s, "bm25s"),
    "Anserini": (side_anserini, "pyserini"),
}


def run_side(name: str, folder: Path) -> None:
    """In the side's own process: print its seconds and write its first documents."""
    queries = dict(read(folder / "queries.tsv"))
    with tempfile.TemporaryDirectory(dir=folder) as own:
        times = [Clock.now()]
        answer = SIDES[name][0](folder / "documents.tsv", Path(own))
        times.append(Clock.now())
        (folder / f"{name}.indexed").touch()
        found = answer(queries, TOP)
        times.append(Clock.now())
        answer(dict(islice(queries.items(), DEEP_QUERIES)), DEEP)
        times.append(Clock.now())
    (folder / f"{name}.json").write_text(json.dumps(found))
    print(json.dumps([(after.wall - before.wall, after.cpu - before.cpu) for before, after in pairwise(times)]))


# ---- the table ---------------------------------------------------------------------------------------------------


def overlap(folder: Path, a: str, b: str) -> float:
    """The mean share of the first ten documents in common, over the queries that the first side answers."""
    ours, theirs = (json.loads((folder / f"{name}.json").read_text()) for name in (a, b))
    shares = [len(set(docs) & set(theirs.get(topic, ()))) / len(docs) for topic, docs in ours.items() if docs]
    return sum(shares) / len(shares)


@dataclass(frozen=True)
class Row:
    """A side of the table: medians of CPU and wall-clock seconds, largest peaks of memory in bytes.

    Attributes
    ----------
    cpu, wall : seconds of the index, of the search for the first 10 documents, and of that for the first 1,000.
    peaks : memory of index and search.
    overlap : mean share of the harness's first 10 documents among those of this side.
    rounds : how often it was measured.
    """

    side: str
    cpu: list[float]
    wall: list[float]
    peaks: list[int]
    overlap: float
    rounds: int


def rows(folder: Path, rounds: int) -> Iterator[Row | str]:
    """Measures the sides by turns; yields a row for each, or the name of a side that is not installed."""
    versions = {}
    for name, (_, package) in SIDES.items():
        with suppress(metadata.PackageNotFoundError):
            versions[name] = f"{name} ({package} {metadata.version(package)})"
    found: dict[str, list[tuple[list[tuple[float, float]], list[int]]]] = {name: [] for name in versions}
    for number in range(rounds):
        for name in versions:
            if not number or name not in ONCE:
                found[name].append(side_alone("bench.lexical", name, folder))
    for name in SIDES:
        if name not in versions:
            yield name
            continue
        spent = [times for times, _ in found[name]]
        wall, cpu = ([median(one[part][kind] for one in spent) for part in range(3)] for kind in (0, 1))
        peaks = [max(peak[part] for _, peak in found[name]) for part in range(2)]
        yield Row(versions[name], cpu, wall, peaks, overlap(folder, "harness bm25", name), len(spent))


def table(found: Sequence[Row | str], queries: int) -> Iterator[tuple[str, ...]]:
    """Rows of the table as text; sides that are not installed have a row that says so."""
    head = ["side", "index, CPU s", "wall s", "harness / side", "peak, MiB"]
    for depth in (TOP, DEEP):
        head += [f"queries per CPU s, first {depth:,}", "per wall s", "side / harness"]
    yield (*head, "peak, MiB", "top 10 in common")
    first = next(row for row in found if isinstance(row, Row))
    for each in found:
        if isinstance(each, str):
            yield (f"{each} (not installed)", *["-"] * (len(head) + 1))
            continue
        row = [each.side, f"{each.cpu[0]:.1f}", f"{each.wall[0]:.1f}", f"{first.cpu[0] / each.cpu[0]:.2f}"]
        row.append(f"{each.peaks[0] / 2**20:.0f}")
        for number in (1, 2):
            asked = queries if number == 1 else min(queries, DEEP_QUERIES)
            row += [f"{asked / each.cpu[number]:,.0f}", f"{asked / each.wall[number]:,.0f}"]
            row.append(f"{first.cpu[number] / each.cpu[number]:.2f}")
        yield (*row, f"{each.peaks[1] / 2**20:.0f}", f"{each.overlap:.3f}")


def ratios(found: Sequence[Row | str], documents: int) -> Iterator[Ratio]:
    """The ratios of the harness to each other side."""
    measured = [row for row in found if isinstance(row, Row)]
    parts = (f"index {documents:,} documents", f"search, first {TOP}", f"search, first {DEEP:,}")
    for row in measured[1:]:
        for number, part in enumerate(parts):
            peer = row.side.partition(" (")[0]
            work = part if number == 0 else f"{part}, {documents:,} documents"
            goal = GOALS.get((peer, number))
            yield Ratio(f"{work}, beside {peer}", measured[0].cpu[number], row.cpu[number], row.side, goal)


def main() -> None:
    """Print the table."""
    parser = options(__doc__, rounds=5, ratios=True)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        run_side(arguments.side, arguments.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        documents, queries = prepare(Path(name), arguments.documents)
        found = list(rows(Path(name), arguments.rounds))
        show(list(table(found, queries)), arguments.markdown)
        if arguments.json:
            save(arguments.json, ratios(found, documents))
    print(f"\n{documents:,} documents, {queries:,} queries; {machine()}")


if __name__ == "__main__":
    main()

"""BM25 four ways on ARQMath Task 1: the harness, PISA, Anserini (Lucene) and tantivy, on the same tokens.

    python -m bench.bm25_ways --markdown

The corpus is the 3,395 answers of `mse-pages`; the topics are those of ARQMath-1 and ARQMath-3. All sides index the
tokens of the view `latex` with k1 = 1.2 and b = 0.75, and return 1,000 documents. One row is Anserini with its own
English analysis and parameters, as people use it.

The sides run in one process, one after the other, in every other round from the last to the first; each begins with an
empty store, makes its index, and answers the topics twice. The numbers are medians of the rounds; Anserini takes part
in the first only. The index takes what the first answer took longer than the second. The machine is shared, so the
numbers are CPU seconds; they include those of child processes and their start: a search of PISA starts a process, a
search of Anserini starts Java. Agreement is the mean share of the first documents of the harness's BM25, with the same
formula, that a side returns among as many: Robertson's for PISA, else Lucene's. Effectiveness is that of each
collection's protocol: judged documents only, on the judged part of the corpus.

Needs `pip install 'mathir-harness[bench,pisa]'` and `pip install --no-deps pyserini==1.6.0`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.lexical import Clock, side_tantivy
from bench.table import commit, machine, show
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.data.topics import Topics
from harness.data.trec import Run
from harness.experiments.task import Task, present, task
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.lexical import text

COLLECTIONS = ("arqmath-1-task1", "arqmath-3-task1")
MEASURES = ("nDCG", "AP", "P@10")
VIEW = {"name": "latex", "lower": True, "stop": None, "stem": "porter", "formulas": None}
DEPTH = 1000
DEPTHS = (10, DEPTH)
ROUNDS = 3
ONCE = ("Anserini, same tokens", "Anserini, own analysis")  # sides that take longer than all others together
PACKAGES = ("bm25s", "pyterrier-pisa", "pyserini", "tantivy")
Side = Callable[[Request], Run]


def tantivy(request: Request) -> Run:
    """tantivy on the tokens of the view; its index lies in the folder of the store."""
    tokenise = text.configured(VIEW)

    def words(item: object) -> str:
        return " ".join(tokenise(" ".join((item.title, item.body, *item.tags))))  # type: ignore[attr-defined]

    place = Path(os.environ["HARNESS_CACHE"]) / "tantivy"
    tokens = place.with_suffix(".tsv")
    if not place.is_dir():
        place.mkdir(parents=True)
        with tokens.open("w", encoding="utf-8") as lines:
            lines.writelines(f"{document.id}\t{words(document)}\n" for document in request.corpus_for("tantivy"))
        OPENED[place] = side_tantivy(tokens, place)
        tokens.unlink()
    found = OPENED[place]({topic.id: words(topic) for topic in request.topics}, DEPTH)
    rankings = {name: {doc: float(-rank) for rank, doc in enumerate(docs)} for name, docs in found.items() if docs}
    return Run.from_dict("tantivy", rankings)


OPENED: dict[Path, Callable[[Mapping[str, str], int], dict[str, list[str]]]] = {}
SIDES: Mapping[str, Side] = {
    "harness, Lucene's formula": load_system("bm25"),
    "harness, Robertson's formula": load_system("bm25-robertson"),
    "PISA": load_system("pisa-bm25"),
    "Anserini, same tokens": load_system("anserini-latex"),
    "tantivy": tantivy,
    "Anserini, own analysis": load_system("anserini-bm25"),
}
FIRST = next(iter(SIDES))
LIKE = {"PISA": "harness, Robertson's formula"}  # the side with the same formula; the others: the first side


@dataclass(frozen=True)
class Row:
    """A side on a collection: medians of the rounds.

    Attributes
    ----------
    values : mean of each measure, and the number of topics that it counts.
    agreement : for each of `DEPTHS`, the share of the first documents in common with the side of `LIKE`.
    index : CPU seconds of the index.
    rate : queries a CPU second.
    size : bytes in the store: of the index, and of the tokens that it was made from.
    """

    side: str
    collection: str
    values: dict[str, tuple[float, int]]
    agreement: list[float]
    index: float
    rate: float
    size: int


@contextmanager
def store() -> Iterator[Path]:
    """An empty store, for a time."""
    before = os.environ.get("HARNESS_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARNESS_CACHE"] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ["HARNESS_CACHE"]
            else:
                os.environ["HARNESS_CACHE"] = before


def copied(name: str, folder: Path) -> Corpus:
    """A corpus as one file of its title, body and tags, so that no side has to parse pages."""
    path = folder / f"{name}.jsonl"
    with path.open("w") as lines:
        for each in load_corpus(name):
            row = {"id": each.id, "title": each.title, "body": each.body, "tags": list(each.tags)}
            lines.write(json.dumps(row) + "\n")
    return Corpus(name, name, "", path, tuple((field, field) for field in ("id", "title", "body", "tags")))


def once(side: Side, request: Request) -> tuple[Run, list[float], int]:
    """The run of a side; CPU seconds of its index and of its search; bytes that it stored."""
    with store() as folder:
        times = [Clock.now()]
        for _ in range(2):
            run = side(request)
            times.append(Clock.now())
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    first, second = (after.cpu - before.cpu for before, after in pairwise(times))
    return run, [first - second, second], size


def agreement(ours: Run, theirs: Run, depth: int) -> float:
    """The mean share of the first documents of a run that another returns among as many."""
    mine, others = ours.to_dict(), theirs.to_dict()

    def head(docs: Mapping[str, float]) -> set[str]:
        return set(sorted(docs, key=lambda doc: (docs[doc], doc), reverse=True)[:depth])

    shares = [len(head(docs) & head(others.get(topic, {}))) / min(len(docs), depth) for topic, docs in mine.items()]
    return sum(shares) / len(shares)


def measured(asked: Task, corpus: Corpus, folder: Path, rounds: int) -> list[Row]:
    """The rows of all sides on one collection."""
    judged = Topics(tuple(topic for topic in asked.topics if topic.id in set(asked.scorer.qrels.topics)))
    request = Request(judged, corpus, folder)
    runs: dict[str, Run] = {}
    times: dict[str, list[list[float]]] = {name: [] for name in SIDES}
    sizes: Counter[str] = Counter()
    for number in range(rounds):
        for name in list(SIDES)[:: -1 if number % 2 else 1]:
            if number and name in ONCE:
                continue
            runs[name], seconds, sizes[name] = once(SIDES[name], request)
            times[name].append(seconds)
    scorer = asked.scorer.on_part(present(asked.scorer.qrels, corpus, None)[0])
    scores = [scorer(runs[name]) for name in SIDES]
    rows = []
    for name, scored in zip(SIDES, scores, strict=True):
        index, search = (median(column) for column in zip(*times[name], strict=True))
        values = {measure: (scored.mean(measure), scored.n(measure)) for measure in MEASURES}
        shares = [agreement(runs[LIKE.get(name, FIRST)], runs[name], depth) for depth in DEPTHS]
        cost = (index, len(judged) / search, sizes[name])
        rows.append(Row(name, asked.collection.name, values, shares, *cost))
    return rows


def tables(rows: Sequence[Row]) -> tuple[list[list[str]], list[list[str]]]:
    """The tables of effectiveness and agreement, and of cost."""
    heads = ["nDCG′", "MAP′", "P′@10"]
    first = [["collection", "side", *heads, "n", "agreement, first 10", "first 1,000"]]
    second = [["collection", "side", "index, CPU s", "stored, MB", "queries a CPU s"]]
    for row in rows:
        means = [f"{row.values[measure][0]:.3f}" for measure in MEASURES]
        counts = "/".join(str(row.values[measure][1]) for measure in MEASURES)
        first.append([row.collection, row.side, *means, counts, *(f"{share:.4f}" for share in row.agreement)])
        cost = [f"{row.index:.2f}", f"{row.size / 1e6:.1f}", f"{row.rate:.1f}"]
        second.append([row.collection, row.side, *cost])
    return first, second


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="a table for bench/results")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        corpus = copied("mse-pages", Path(folder))
        for name in COLLECTIONS:
            rows += measured(task(name), corpus, Path(folder), arguments.rounds)
    for table in tables(rows):
        show(table, arguments.markdown)
        print()
    about = machine(PACKAGES)
    print(f"{about}; {arguments.rounds} rounds; commit {commit()}")
    if arguments.json:
        content = {
            "rows": [asdict(row) for row in rows],
            "rounds": arguments.rounds,
            "machine": about,
            "commit": commit(),
        }
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

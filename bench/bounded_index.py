"""Indexes in bounded memory: peak memory, CPU time and size of the indexes of systems `bm25` and `tree`, by limit.

Documents are words drawn by Zipf's law; formulas are random expressions, a third of which are distinct. Every side is a
process of its own with one thread, from a file of JSON lines to the index in the store: with a limit of 0.25 GB, with
one of 4 GB, and with the code of another checkout (`--before FOLDER`). Each side then answers the same queries.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from harness.collections.corpus import Corpus
from harness.store import artefacts
from harness.systems.lexical.system import BM25
from harness.systems.structural import formulas
from harness.systems.structural.index import index_of
from harness.systems.structural.tree import Query, Structural

SEED = 7
WORDS = 300_000
LENGTH = 40  # mean number of words of a document
QUERIES = 200
REPEATS = 5  # of the queries; the fastest counts
LIMITED, WHOLE = 1, 16  # GB of a run; an index is built in a quarter of them
SIDES = {"before": None, "limit 0.25 GB": LIMITED, "limit 4 GB": WHOLE}


# ---- data -------------------------------------------------------------------------------------------------------


def write_documents(path: Path, count: int) -> None:
    """Documents of words, frequent ones by Zipf's law."""
    rng = np.random.default_rng(SEED)
    share = np.cumsum(1 / np.arange(10, WORDS + 10))
    names = np.array([f"w{number}" for number in rng.permutation(WORDS)])
    with path.open("w", encoding="ascii") as stream:
        for number in range(count):
            size = int(rng.integers(1, 2 * LENGTH))
            drawn = names[np.searchsorted(share, rng.random(size) * share[-1])]
            stream.write(json.dumps({"id": f"d{number}", "body": " ".join(drawn)}) + "\n")


def expression(rng: random.Random, size: int) -> str:
    """LaTeX of about so many symbols."""
    if size <= 1:
        return rng.choice("abcdefghijklmnopqrstuvwxyz0123456789")
    left = rng.randint(1, size - 1)
    one, two = expression(rng, left), expression(rng, size - left)
    forms = ("{0}+{1}", "{0}-{1}", "{0} {1}", "{0}={1}", "\\frac{{{0}}}{{{1}}}", "\\sqrt{{{0}}}{1}", "({0})^{{{1}}}")
    return rng.choice(forms).format(one, two)


def write_formulas(path: Path, count: int) -> None:
    """Formulas as documents, a third of them distinct."""
    rng = random.Random(SEED)
    known = [expression(rng, rng.randint(1, 14)) for _ in range(max(1, count // 3))]
    with path.open("w", encoding="ascii") as stream:
        for number in range(count):
            stream.write(json.dumps({"id": f"f{number}", "latex": rng.choice(known)}) + "\n")


# ---- one side ---------------------------------------------------------------------------------------------------


def memory_of(gigabytes: int | None) -> AbstractContextManager[None]:
    """Limits the memory of a run; older versions have no limit."""
    if gigabytes is None:
        return nullcontext()
    from harness.io import memory

    return memory.given(gigabytes)


def lexical(path: Path) -> Callable[[], object]:
    """Builds the index of documents; returns a function that answers the queries."""
    corpus = Corpus("d", "Documents", "CC0", path, (("id", "id"), ("body", "body")))
    view = {"name": "whitespace", "lower": False}
    index = BM25(view=view, query={"title": 1}, document={"body": 1}).index(corpus)
    rng = random.Random(SEED)
    with path.open(encoding="ascii") as stream:
        texts = [json.loads(line)["body"].split() for line, _ in zip(stream, range(5000), strict=False)]
    queries = [dict.fromkeys(rng.choice(texts)[:12], 1.0) for _ in range(QUERIES)]
    return lambda: [index.score(query) for query in queries]


def structural(path: Path) -> Callable[[], object]:
    """Builds the index of formulas; returns a function that answers the queries."""
    corpus = Corpus("f", "Formulas", "CC0", path, (("id", "id"), ("latex", "latex")))
    system = Structural()
    known = formulas.read(corpus, "opt")
    index = index_of(corpus, known.trees, system.height)
    drawn = random.Random(SEED).sample(range(len(known.trees)), QUERIES)
    queries = [Query(known.trees[number], index) for number in drawn]
    return lambda: [known.documents(*system.search(query)) for query in queries]


def side(kind: str, path: Path, gigabytes: int | None) -> dict[str, Any]:
    """Measures one side in this process."""
    work = {"documents": lexical, "formulas": structural}[kind]
    with memory_of(gigabytes):
        begin = time.process_time()
        answer = work(path)
        build = time.process_time() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        begin = time.process_time()
        work(path)
        again = time.process_time() - begin
        answer()  # what is on the disk comes into memory
        spent = min(timed(answer) for _ in range(REPEATS))
    size = sum(artefact.size for artefact in artefacts.artefacts())
    return {"build": build, "peak": peak, "again": again, "speed": QUERIES / spent, "size": size}


def timed(work: Callable[[], object]) -> float:
    """Returns the CPU seconds of some work."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


# ---- all sides --------------------------------------------------------------------------------------------------


def measured(kind: str, count: int, before: Path | None) -> Iterator[list[str]]:
    """Yields a row for each side."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        path = Path(name) / "corpus.jsonl"
        {"documents": write_documents, "formulas": write_formulas}[kind](path, count)
        for label, gigabytes in SIDES.items():
            if gigabytes is None and before is None:
                continue
            cache = Path(name) / label.replace(" ", "-")
            root = before if gigabytes is None else Path(__file__).resolve().parents[1]
            settings = {"PYTHONPATH": str(root), "HARNESS_CACHE": str(cache), "OPENBLAS_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "--side", kind, str(path), str(gigabytes or 0)]
            done = subprocess.run(
                command, env=os.environ | settings, stdout=subprocess.PIPE, check=True, text=True, cwd=name
            )
            found = json.loads(done.stdout.splitlines()[-1])
            yield [
                f"{count:,} {kind}",
                label,
                f"{found['build']:.1f}",
                f"{found['peak'] / 1e6:,.0f}",
                f"{found['again']:.2f}",
                f"{found['size'] / 1e6:,.0f}",
                f"{found['speed']:.0f}",
            ]


HEADER = ["index of", "side", "build, CPU s", "peak memory, MB", "second run, CPU s", "store, MB", "queries per CPU s"]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="*", default=[100_000, 400_000])
    parser.add_argument("--formulas", type=int, nargs="*", default=[200_000, 1_000_000])
    parser.add_argument("--before", type=Path, help="checkout of a version to compare with")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        kind, path, gigabytes = arguments.side
        print(json.dumps(side(kind, Path(path), int(gigabytes) or None)))
        return
    line = (lambda row: f"| {' | '.join(row)} |") if arguments.markdown else "\t".join
    print(line(HEADER))
    if arguments.markdown:
        print(line(["---"] * len(HEADER)))
    for kind in ("documents", "formulas"):
        for count in getattr(arguments, kind):
            for row in measured(kind, count, arguments.before and arguments.before.resolve()):
                print(line(row), flush=True)


if __name__ == "__main__":
    main()

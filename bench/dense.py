"""Dense retrieval: exact search among a million vectors beside FAISS and NumPy, and encoding beside its library.

    python -m bench.dense --markdown                     both tables
    python -m bench.dense --only search                  one of them
    python -m bench.dense --only search --vectors 1000000 --vectors 100000 --json bench/results/dense.json
    python -m bench.dense --only encoding --model DIR    another model: a source, a folder, or a name on the hub

Search: random unit vectors of 384 dimensions (`--vectors`, `--dimensions`), kept in a file; each side is asked for the
first 10 and the first 1,000 documents of batches of queries, one side after the other in every round. Beside each rate
stands whether the first documents are those of float64, ties by id. Peak memory is that of a process of its own.
Encoding: answers of `mse-pages`, drawn by a seed, by `encoder.load(...)` and by `SentenceTransformer.encode` with its
own settings, one after the other in every round. Both sides have the same threads (`--threads`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bench.table import ROOT, Ratio, compared, in_turn, machine, options, save, show
from harness.collections.corpora import load_corpus
from harness.store.cost import own_peak
from harness.systems.dense import encoder, engines, models, texts
from harness.systems.dense.maxsim import Floats32, Rows, Vectors
from harness.systems.dense.search import nearest

BATCHES = (32, 128)
FIRST = (10, 1000)
CHECKED = 32  # queries whose first documents are compared with those of float64
SEED = 13
PACKAGES = ("torch", "faiss-cpu", "sentence-transformers", "transformers")
MODELS: Mapping[str, int] = {"all-minilm-l6-v2": 512, "all-mpnet-base-v2": 64}  # and how many texts of the sample
Search = Callable[[Floats32, int], Sequence[Rows]]  # queries, k -> documents of each
Row = tuple[str, ...]


# ---- search -----------------------------------------------------------------------------------------------------


def make_vectors(path: Path, count: int, dimensions: int) -> None:
    """Write random unit vectors as a NumPy file."""
    generator = np.random.default_rng(SEED)
    values = np.lib.format.open_memmap(path, "w+", np.float32, (count, dimensions))
    for begin in range(0, count, 1 << 16):
        values[begin : begin + (1 << 16)] = unit(generator, min(count - begin, 1 << 16), dimensions)
    values.flush()


def unit(generator: np.random.Generator, count: int, dimensions: int) -> Floats32:
    """Random vectors of length 1."""
    values = generator.standard_normal((count, dimensions), np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return values


def documents(path: Path, precision: str = "float32") -> Vectors:
    """A document for each vector of a file, which stays on disk until it is used."""
    values = np.load(path, mmap_mode="r")
    if precision != "float32":
        values = values.astype(precision)
    ids = np.char.mod("%07d", np.arange(len(values))).astype(np.bytes_)
    return Vectors(ids, np.arange(len(values) + 1), values, np.arange(len(values)))


def ours(path: Path, precision: str = "float32") -> Search:
    """`harness.systems.dense.search.nearest`."""
    vectors = documents(path, precision)
    return lambda queries, k: [hits.rows for hits in nearest(queries, [vectors], k=k)]


def faiss_flat(path: Path) -> Search:
    """FAISS, every vector looked at, by matrix products; the loop that its wheel takes otherwise is 7 times slower."""
    import faiss

    faiss.cvar.distance_compute_blas_threshold = 20  # queries, from which on products are made so
    values = np.load(path, mmap_mode="r")
    index = faiss.IndexFlatIP(values.shape[1])
    for begin in range(0, len(values), 1 << 16):
        index.add(np.ascontiguousarray(values[begin : begin + (1 << 16)]))
    return lambda queries, k: list(index.search(queries, k)[1])


def whole_matrix(path: Path) -> Search:
    """NumPy: one product of queries and documents, `argpartition`, then sorted."""
    values = np.load(path, mmap_mode="r")

    def search(queries: Floats32, k: int) -> list[Rows]:
        scores = queries @ values.T
        best = np.argpartition(scores, -k, axis=1)[:, -k:]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        return list(np.take_along_axis(best, order, axis=1))

    return search


OURS, HALF = "mathir-harness", "mathir-harness, vectors kept in float16"
PEER = "FAISS, IndexFlatIP by BLAS"
SIDES: Mapping[str, Callable[[Path], Search]] = {
    OURS: ours,
    HALF: lambda path: ours(path, "float16"),
    PEER: faiss_flat,
    "NumPy, the whole matrix": whole_matrix,
}


def reference(path: Path, queries: Floats32, k: int) -> list[list[int]]:
    """The first documents by inner products in float64, rounded to 32 bits, ties by id descending."""
    values = np.load(path, mmap_mode="r")
    scores = np.empty((len(queries), len(values)), np.float32)
    for begin in range(0, len(values), 1 << 14):
        block = values[begin : begin + (1 << 14)].astype(np.float64)
        scores[:, begin : begin + len(block)] = queries.astype(np.float64) @ block.T
    return [np.lexsort((-np.arange(len(values)), -row))[:k].tolist() for row in scores]


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """How many times faster the first side is: the median over the rounds."""
    return f"{statistics.median(b / a for a, b in zip(ours, theirs, strict=True)):.2f}"


def search_table(path: Path, count: int, ratios: list[Ratio]) -> Iterator[Row]:
    """Rates of all sides, and whether they find the same; the ratios are added to a list."""
    yield (
        *("first", "queries in a batch", "side", "queries per wall s: median", "best", "per CPU s: median", "best"),
        *("side / FAISS, wall", "CPU", "first documents as in float64"),
    )
    searches = {name: make(path) for name, make in SIDES.items()}
    size = np.load(path, mmap_mode="r").shape
    queries = unit(np.random.default_rng(SEED + 1), max(BATCHES), size[1])
    ranked = reference(path, queries[:CHECKED], max(FIRST))
    for k in FIRST:
        exact = [rows[:k] for rows in ranked]
        same = {name: agreement(search(queries[:CHECKED], k), exact) for name, search in searches.items()}
        for batch in BATCHES:
            work = {name: partial(search, queries[:batch], k) for name, search in searches.items()}
            spent = in_turn(work, count)
            for name, side in spent.items():
                wall, cpu = ([batch / each for each in seconds] for seconds in (side.wall, side.cpu))
                rates = [f"{pick(rate):.1f}" for rate in (wall, cpu) for pick in (statistics.median, max)]
                against = ratio(side.wall, spent[PEER].wall), ratio(side.cpu, spent[PEER].cpu)
                yield (f"{k:,}", str(batch), name, *rates, *against, same[name])
            name = f"exact dense search, first {k:,}, batches of {batch}, {size[0]:,} x {size[1]}"
            ratios.append(compared(name, spent[OURS].cpu, spent[PEER].cpu, PEER, 1.0))
            half = f"float16 store: {name}"
            ratios.append(compared(half, spent[HALF].cpu, spent[OURS].cpu, "the float32 store", 1.0))


def agreement(found: Sequence[Rows], exact: Sequence[Sequence[int]]) -> str:
    """Of how many queries the documents are the same, and their order too."""
    lists = [rows.tolist() for rows in found]
    sets = sum(set(a) == set(b) for a, b in zip(lists, exact, strict=True))
    orders = sum(a == list(b) for a, b in zip(lists, exact, strict=True))
    return f"{sets} of {len(lists)}, in order {orders}"


def peak(name: str, path: Path, k: int) -> float:
    """GiB that a side holds at most, in a process of its own."""
    command = [sys.executable, "-m", "bench.dense", "--side", name, "--file", str(path), "--k", str(k)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return float(done.stdout.splitlines()[-1])


def one_side(name: str, path: Path, k: int) -> None:
    """Search once, and print the peak of this process' memory in GiB, pages of the mapped file among them."""
    search = SIDES[name](path)
    search(unit(np.random.default_rng(SEED + 1), max(BATCHES), np.load(path, mmap_mode="r").shape[1]), k)
    print(own_peak() / 2**30)


def memory_table(path: Path) -> Iterator[Row]:
    """Peak memory of all sides."""
    yield ("side", *(f"peak GiB, first {k:,} of {max(BATCHES)} queries" for k in FIRST))
    for name in SIDES:
        yield (name, *(f"{peak(name, path, k):.2f}" for k in FIRST))


# ---- encoding ---------------------------------------------------------------------------------------------------


def answers(count: int) -> list[str]:
    """Texts of answers of `mse-pages`, drawn by a seed."""
    bodies = [texts.of_document(document, ["body"]) for document in load_corpus("mse-pages")]
    drawn = np.random.default_rng(SEED).choice(len(bodies), count, replace=False)
    return [bodies[number] for number in drawn.tolist()]


def encoding_table(names: Sequence[str], count: int) -> Iterator[Row]:
    """Texts a second by both sides, and how near their vectors are to each other."""
    yield (
        *("model", "texts", "side", "texts per wall s: median", "best", "per CPU s: median", "best"),
        *("side / library, wall", "CPU", "least cosine to the library"),
    )
    sample = answers(max(MODELS.values()))
    for name in names:
        if lines := models.missing(name):
            print("; ".join(lines), file=sys.stderr)
            continue
        found = models.find_model(name)
        loaded, plain = encoder.load(name), engines.sentence_transformer(found, "cpu")
        some = sample[: MODELS.get(name, min(MODELS.values()))]
        sides = {
            "mathir-harness": partial(loaded.encode, some),
            "SentenceTransformer.encode": partial(plain.encode, some),
        }
        for encode in (loaded.encode, plain.encode):  # what is loaded or compiled at first use does not count
            encode(some[:8])
        spent = in_turn(sides, count)
        theirs = spent["SentenceTransformer.encode"]
        a, b = (each.result / np.linalg.norm(each.result, axis=1, keepdims=True) for each in spent.values())
        for side, times in spent.items():
            picks = ((pick, seconds) for seconds in (times.wall, times.cpu) for pick in (statistics.median, min))
            rates = [f"{len(some) / pick(seconds):.2f}" for pick, seconds in picks]
            against = ratio(times.wall, theirs.wall), ratio(times.cpu, theirs.cpu)
            yield (Path(name).name, str(len(some)), side, *rates, *against, f"{(a * b).sum(axis=1).min():.6f}")


# ---- output -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Print the tables."""
    parser = options(__doc__, rounds=5, ratios=True)
    parser.add_argument("--only", choices=("search", "encoding"), help="one of the two")
    parser.add_argument("--vectors", type=int, action="append", help="default: 1,000,000; may be given again")
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", action="append", help="instead of the two; may be given again")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--k", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    threads = {key: str(chosen.threads) for key in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    if chosen.side is None and any(os.environ.get(key) != value for key, value in threads.items()):
        # They are read when the libraries are loaded.
        os.execve(sys.executable, [sys.executable, "-m", "bench.dense", *sys.argv[1:]], os.environ | threads)  # noqa: S606
    if chosen.side is not None:
        one_side(chosen.side, chosen.file, chosen.k)
        return
    if chosen.only != "encoding":
        ratios: list[Ratio] = []
        for vectors in chosen.vectors or [1_000_000]:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "values.npy"
                make_vectors(path, vectors, chosen.dimensions)
                for table in (memory_table(path), search_table(path, chosen.rounds, ratios)):
                    print(f"{vectors:,} vectors\n")
                    show(list(table), chosen.markdown)
                    print(flush=True)
        if chosen.json:
            save(chosen.json, ratios, PACKAGES)
    if chosen.only != "search":
        show(list(encoding_table(chosen.model or list(MODELS), chosen.rounds)), chosen.markdown)
        print()
    print(f"{machine(PACKAGES)}; threads: {chosen.threads}")


if __name__ == "__main__":
    main()

"""Exact MaxSim side by side: the engine, and the fastest other way that was tried (one product, `maximum.reduceat`).

34,000 documents of 32-dimensional vectors, first with 16 vectors each, then with 1 to 120 of them (16 on average);
queries of 16 vectors. Everything is synthetic: vectors lie around 2,000 centres, a query's vectors near those of some
document. One process, one thread. Ratios are of CPU seconds, which other work on the machine changes least. Beside each
figure stands how far the scores lie from MaxSim in float64, and how many of its first ten documents are found. Prints
tables; `--markdown` for bench/results, `--documents N` for fewer. `on_device` is a part of `bench.gpu`.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.table import machine, options, show
from harness.systems.dense.maxsim import Floats32, Rows, Vectors, blocks, padded, scores_many
from harness.systems.dense.search import VectorQuery

DIMENSIONS, LENGTH, CENTRES = 32, 16, 2000
QUERIES, ASKED = 64, 8  # queries in all, and those whose scores are compared with float64
TIMES = 3  # measurements of a side; the median counts
Scores = npt.NDArray[np.floating[Any]]
Answer = Callable[[Sequence[VectorQuery]], Sequence[Any]]  # scores of all documents, or the first ten, per query


def unit(values: npt.NDArray[Any]) -> Floats32:
    """Rows of length 1."""
    normed: Floats32 = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return normed


def lengths_of(count: int, ragged: bool, generator: np.random.Generator) -> Rows:
    """Numbers of vectors: 16, or log-normal from 1 to 120 with a mean of 16."""
    if not ragged:
        return np.full(count, LENGTH)
    drawn = np.rint(generator.lognormal(np.log(12.7), 0.7, count))
    return np.clip(drawn, 1, 120).astype(np.int64)


def documents(count: int, ragged: bool, seed: int = 0) -> Vectors:
    """Synthetic documents; the last vector of each is the mean of the others."""
    generator = np.random.default_rng(seed)
    lengths = lengths_of(count, ragged, generator)
    start = np.concatenate(([0], np.cumsum(lengths)))
    centres = unit(generator.standard_normal((CENTRES, DIMENSIONS)))
    values = centres[generator.integers(CENTRES, size=start[-1])]
    values = unit(values + generator.standard_normal(values.shape) * 0.5 / DIMENSIONS**0.5)
    single = start[1:] - 1
    sums = np.add.reduceat(values, start[:-1], axis=0) - np.where(lengths[:, None] > 1, values[single], 0)
    values[single] = unit(sums)
    return Vectors(np.array([b"%d" % n for n in range(count)]), start, values, single)


def questions(vectors: Vectors, count: int, seed: int = 1) -> list[VectorQuery]:
    """Synthetic queries of 16 vectors, each near to one of a document; the last is the mean of the others."""
    generator = np.random.default_rng(seed)
    out = []
    for row in generator.integers(len(vectors), size=count).tolist():
        own = generator.integers(vectors.start[row], vectors.start[row + 1], LENGTH - 1)
        values = unit(vectors.values[own] + generator.standard_normal((LENGTH - 1, DIMENSIONS)) * 0.8 / DIMENSIONS**0.5)
        out.append(VectorQuery(np.concatenate([values, unit(values.mean(axis=0, keepdims=True))]), LENGTH - 1))
    return out


def reference(query: VectorQuery, vectors: Vectors) -> Scores:
    """MaxSim in float64."""
    products = vectors.values.astype(np.float64) @ query.values.astype(np.float64).T
    scores: Scores = np.maximum.reduceat(products, vectors.start[:-1], axis=0).sum(axis=1)
    return scores


# ---- the sides --------------------------------------------------------------------------------------------------


def reduceat(vectors: Vectors) -> Answer:
    """One product with all vectors, then `maximum.reduceat`."""

    def answer(queries: Sequence[VectorQuery]) -> list[Scores]:
        starts = vectors.start[:-1]
        return [np.maximum.reduceat(vectors.values @ q.values.T, starts, axis=0).sum(axis=1) for q in queries]

    return answer


def engine(vectors: Vectors, batch: int = QUERIES) -> Answer:
    """The engine."""

    def answer(queries: Sequence[VectorQuery]) -> list[Scores]:
        parts = [queries[n : n + batch] for n in range(0, len(queries), batch)]
        return [row for part in parts for row in scores_many([q.values for q in part], vectors)]

    return answer


def on_torch(vectors: Vectors) -> Answer:
    """The engine in PyTorch, on the CPU."""
    from harness.systems.dense import maxsim_torch

    held = maxsim_torch.resident(vectors, "cpu", group=1 << 12)

    def answer(queries: Sequence[VectorQuery]) -> list[Scores]:
        return list(maxsim_torch.scores([query.values for query in queries], held).numpy())

    return answer


SIDES: Mapping[str, Callable[[Vectors], Answer]] = {
    "one product and maximum.reduceat, NumPy": reduceat,
    "engine, one query at a time": lambda v: engine(v, batch=1),
    "engine, 64 queries": engine,
    "engine, 64 queries, kept in float16": lambda v: engine(replace(v, values=v.values.astype(np.float16))),
    "engine in PyTorch, 64 queries": on_torch,
}


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock and CPU seconds: the median of some runs, after one that does not count."""
    work()
    seconds = []
    for _ in range(TIMES):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        seconds.append((time.perf_counter() - wall, time.process_time() - cpu))
    return statistics.median(wall for wall, _ in seconds), statistics.median(cpu for _, cpu in seconds)


def first(scores: Scores, k: int = 10) -> set[int]:
    """The first documents by scores."""
    return set(np.argsort(-scores, kind="stable")[:k].tolist())


def agreement(found: Sequence[Scores], exact: Sequence[Scores]) -> tuple[str, str]:
    """The largest error of a score, and the mean share of the first ten in common."""
    pairs = list(zip(found, exact, strict=False))
    shares = [len(first(a) & first(b)) / 10 for a, b in pairs]
    return f"{max(np.abs(a - b).max() for a, b in pairs):.1e}", f"{statistics.mean(shares):.3f}"


def table(vectors: Vectors, queries: Sequence[VectorQuery]) -> Iterator[tuple[str, ...]]:
    """Rows of the table; the first side is what the others are compared with."""
    import torch

    yield ("side", "queries per CPU s", "per wall s", "side / first row", "largest error", "top 10 in common")
    exact = [reference(query, vectors) for query in queries[:ASKED]]
    base = 0.0
    torch.set_num_threads(1)
    for side, make in SIDES.items():
        answer, asked = make(vectors), queries if base else queries[:4]
        wall, cpu = timed(lambda answer=answer, asked=asked: answer(asked))  # type: ignore[misc]
        base = base or cpu / len(asked)
        rates = f"{len(asked) / cpu:,.1f}", f"{len(asked) / wall:,.1f}", f"{base * len(asked) / cpu:,.1f}"
        yield (side, *rates, *agreement(answer(asked), exact))


# ---- on a GPU ---------------------------------------------------------------------------------------------------


class OnDevice(NamedTuple):
    """A measurement on a device: a number format, queries a second with and without the first 1,000, agreement."""

    precision: str
    vectors: int
    searched: float
    scored: float
    error: str  # the largest of a score, against float64
    shared: str  # of the first ten


def on_device(name: str, vectors: int) -> Iterator[OnDevice]:
    """Exact MaxSim over vectors made on the device, group by group from a seed each; the first 1,000 of each query."""
    import torch

    from harness.systems.dense import maxsim_torch

    device = maxsim_torch.device_of(name)
    generator = np.random.default_rng(0)
    lengths = lengths_of(vectors // LENGTH, True, generator)
    groups = list(blocks(lengths, maxsim_torch.GROUP))
    asked = [unit(generator.standard_normal((LENGTH, DIMENSIONS))) for _ in range(4 * QUERIES)]

    def values(number: int) -> torch.Tensor:
        """The vectors of a group in the engine's layout, in float32."""
        rows = lengths[groups[number]]
        seeded = torch.Generator(device).manual_seed(number)
        drawn = torch.randn(int(rows.max()) * len(rows), DIMENSIONS, device=device, generator=seeded)
        at = padded(np.zeros(len(rows), np.int64), rows) * len(rows) + np.arange(len(rows))
        drawn = drawn[torch.from_numpy(at.ravel()).to(device)]
        normed: torch.Tensor = drawn / drawn.norm(dim=1, keepdim=True)
        return normed

    exact = np.zeros((ASKED, len(lengths)))
    for number, rows in enumerate(groups):
        drawn = values(number).double()
        for row, query in enumerate(asked[:ASKED]):
            products = drawn @ torch.from_numpy(query.astype(np.float64).T).to(device)
            exact[row, rows] = products.view(-1, len(rows), LENGTH).amax(0).sum(1).cpu().numpy()
    ids = np.array([b"%d" % n for n in range(len(lengths))])
    place = np.argsort(np.argsort(ids, kind="stable"))
    held = tuple(
        maxsim_torch.DeviceBlock(torch.from_numpy(rows).to(device), values(number))
        for number, rows in enumerate(groups)
    )
    resident = maxsim_torch.Resident(place, DIMENSIONS, held, device)

    def alone() -> None:
        for begin in range(0, len(asked), QUERIES):
            maxsim_torch.scores(asked[begin : begin + QUERIES], resident)
        if device.type == "cuda":
            torch.cuda.synchronize()

    def best() -> None:
        for begin in range(0, len(asked), QUERIES):
            for part in torch.topk(maxsim_torch.scores(asked[begin : begin + QUERIES], resident), 1000, dim=1):
                part.cpu()

    searched, _ = timed(best)
    scored, _ = timed(alone)
    rates = len(asked) / searched, len(asked) / scored
    found = maxsim_torch.scores(asked[:ASKED], resident).cpu().numpy()
    yield OnDevice("float32", int(lengths.sum()), *rates, *agreement(list(found), list(exact)))


def main() -> None:
    """Print the tables."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # is read when NumPy is loaded
        single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "bench.maxsim", *sys.argv[1:]], os.environ | single)  # noqa: S606
    parser = options(__doc__)
    parser.add_argument("--documents", type=int, default=34_000)
    arguments = parser.parse_args()
    for ragged in (False, True):
        vectors = documents(arguments.documents, ragged)
        show(list(table(vectors, questions(vectors, QUERIES))), arguments.markdown)
        spread = np.diff(vectors.start)
        told = f"{spread.min()} to {spread.max()} vectors, {spread.mean():.1f} on average"
        print(f"\n{len(vectors):,} documents of {told}\n")
    print(machine(["torch"]))


if __name__ == "__main__":
    main()

"""Size and speed of packed graphs beside pickled tensors in SQLite, on synthetic posts.

A post's content graph has a log-normal number of nodes of median 101 and mean 156 (the thesis' corpus), about one edge
a node, formulas of some 14 tree nodes each and sentences of some 12; it is encoded with the hierarchy of virtual nodes.
Both stores hold the same posts: ours the forward edges as 16-bit integers, the other one PyTorch's 64-bit tensors of
nodes, edge index and edge type with inverse edges, pickled into a row of a table keyed by the post's id.

Posts are read in random order by one process with one thread, from files that are in the system's cache. `as tensors`
is what a training gets to see: the three 64-bit tensors with inverse edges, which ours makes while reading. Every
figure of speed is the best of three passes. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import pickle
import platform
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.systems.mathamr.encoder.pack import Pack, encode_posts, write
from harness.systems.mathamr.encoder.virtual import Encoded, encode
from harness.systems.mathamr.encoder.vocabulary import Vocabulary
from harness.systems.mathamr.graphs import graph as graphs
from harness.systems.mathamr.graphs.graph import FormulaNodes, Graph

SEED = 7
MEDIAN, MEAN = 101, 156
WORDS, SIGNS, RELATIONS = 19_000, 900, 262
SENTENCE, FORMULA = 12, 14  # nodes
PASSES = 3


def synthetic(rng: random.Random, post: int) -> Graph:
    """A content graph: trees of sentences below one root, some of their leaves placeholders with two trees."""
    spread = (2 * np.log(MEAN / MEDIAN)) ** 0.5
    wanted = max(3, round(rng.lognormvariate(float(np.log(MEDIAN)), float(spread))))
    labels, kinds, edges = [graphs.ROOT], [graphs.TEXT], []
    sentences: list[tuple[int, ...]] = []
    formulas: list[FormulaNodes] = []

    def tree(kind: int, size: int, above: int, relation: str) -> range:
        first = len(labels)
        for node in range(first, first + size):
            parent = above if node == first else rng.randrange(first, node)
            edges.append((parent, relation if node == first else _relation(rng), node))
            names = WORDS if kind == graphs.TEXT else SIGNS
            labels.append(f"w{int(names * rng.random() ** 3)}" if kind == graphs.TEXT else f"V!{rng.randrange(names)}")
            kinds.append(kind)
        return range(first, first + size)

    while len(labels) < wanted:
        own = list(tree(graphs.TEXT, min(SENTENCE, wanted - len(labels)), 0, f":snt{len(sentences) + 1}"))
        for _ in range(rng.randint(0, 2)):
            if len(labels) + 3 > wanted:
                break
            node = len(labels)
            edges.append((own[0], _relation(rng), node))
            labels.append(f"FORMULA_{len(formulas)}")
            kinds.append(graphs.FORMULA)
            own.append(node)
            half = max(1, min(rng.randint(2, FORMULA), (wanted - len(labels)) // 2))
            opt, slt = tree(graphs.OPT, half, node, ":opt"), tree(graphs.SLT, half, node, ":slt")
            number = f"{post * 40 + len(formulas)}"
            formulas.append(FormulaNodes(number, node, (opt.start, opt.stop), (slt.start, slt.stop)))
        sentences.append(tuple(own))
    return Graph(tuple(labels), bytes(kinds), tuple(edges), 0, tuple(sentences), tuple(formulas))


def _relation(rng: random.Random) -> str:
    return f":r{int((RELATIONS - 40) * rng.random() ** 2)}"


Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def tensors(item: Encoded, relations: int) -> Tensors:
    """Nodes (n,), edge index (2, 2e) and edge type (2e,) as int64 tensors, with inverse edges."""
    edges = len(item.source)
    index = np.empty((2, 2 * edges), np.int64)
    index[0, :edges] = index[1, edges:] = item.source
    index[1, :edges] = index[0, edges:] = item.target
    kinds = np.empty(2 * edges, np.int64)
    kinds[:edges] = item.relation
    kinds[edges:] = kinds[:edges] + relations
    return torch.from_numpy(item.nodes.astype(np.int64)), torch.from_numpy(index), torch.from_numpy(kinds)


def write_sqlite(path: Path, pack: Pack, relations: int) -> None:
    """The same posts as pickled tensors."""
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE graphs (id TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID")
        rows = ((post, pickle.dumps(tensors(item, relations), 5)) for post, item in zip(pack.ids, pack, strict=True))
        base.executemany("INSERT INTO graphs VALUES (?, ?)", rows)
    base.close()


def speed(read: Callable[[int], Any], posts: int) -> tuple[float, float]:
    """Posts a second, by the wall clock and by CPU time, each the best pass over all posts in random order."""
    order = np.random.default_rng(SEED).permutation(posts).tolist()
    best = [float("inf"), float("inf")]
    for _ in range(PASSES):
        begin = time.perf_counter(), time.process_time()
        for number in order:
            read(number)
        spent = time.perf_counter() - begin[0], time.process_time() - begin[1]
        best = [min(pair) for pair in zip(best, spent, strict=True)]
    return posts / best[0], posts / best[1]


def table(posts: int, folder: Path) -> Iterator[tuple[str, ...]]:
    """Rows of the table, its head first."""
    rng = random.Random(SEED)
    made = [(f"p{post}", synthetic(rng, post)) for post in range(posts)]
    sizes = [len(graph) for _, graph in made]
    vocabulary = Vocabulary.learn(graph for _, graph in made)
    formulas = statistics.mean(len(graph.formulas) for _, graph in made)
    sentences = statistics.mean(len(graph.sentences) for _, graph in made)
    yield (
        f"{posts:,} posts; nodes: mean {statistics.mean(sizes):.0f}, median {statistics.median(sizes):.0f}; "
        f"{formulas:.1f} formulas, {sentences:.1f} sentences",
        "bytes a graph",
        "graphs a second: wall; CPU",
    )
    encoding = speed(lambda number: encode(made[number][1], vocabulary), posts)
    yield "encode a content graph", "-", _pair(encoding)
    write(folder / "posts.pack", encode_posts(made, vocabulary))
    pack = Pack(folder / "posts.pack")
    size = f"{pack.nbytes / posts:,.0f}"
    yield "pack: read", size, _pair(speed(pack.__getitem__, posts))
    yield "pack: read, as tensors", size, _pair(speed(lambda number: tensors(pack[number], vocabulary.count), posts))
    path = folder / "posts.db"
    write_sqlite(path, pack, vocabulary.count)
    base = sqlite3.connect(path)
    ids = pack.ids

    def unpickled(number: int) -> Tensors:
        (data,) = base.execute("SELECT data FROM graphs WHERE id = ?", (ids[number],)).fetchone()
        found: Tensors = pickle.loads(data)  # noqa: S301  # written above
        return found

    for number in range(0, posts, max(1, posts // 100)):
        pairs = zip(unpickled(number), tensors(pack[number], vocabulary.count), strict=True)
        assert all(torch.equal(theirs, ours) for theirs, ours in pairs)
    yield "SQLite of pickled tensors: read", f"{path.stat().st_size / posts:,.0f}", _pair(speed(unpickled, posts))
    base.close()


def _pair(rates: tuple[float, float]) -> str:
    return "; ".join(f"{rate:,.0f}" for rate in rates)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posts", type=int, default=10_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(table(arguments.posts, Path(folder)))
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows[1:]:
        print("| " + " | ".join(row) + " |")
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, PyTorch {torch.__version__}"
    print(f"\none core; {versions}, {platform.machine()}")


if __name__ == "__main__":
    main()

"""The paths that are measured: what each reads, does, and how often at full size.

A path is a function of its inputs' folder, a folder for what it writes, and its numbers of items; it runs in a process
of its own. It uses systems and commands through their public interfaces only, so that it also measures later versions.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from bench.full_size import made
from bench.full_size.tables import PART

Sizes = Mapping[str, int]
POSTS, FORMULAS, DISTINCT, VECTORS = 2_466_080, 28_000_000, 9_000_000, 21_900_000
QUERIES = 100


@dataclass
class Marks:
    """CPU seconds by step, and notes of a measurement."""

    steps: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures a step in CPU seconds of this process."""
        begin = time.process_time()
        yield
        self.steps[name] = round(time.process_time() - begin, 3)


Work = Callable[[Path, Path, Sizes, Marks], None]
Prepare = Callable[[Path, Sizes], None]


@dataclass(frozen=True)
class Route:
    """A path from data to a result.

    Attributes
    ----------
    title : as in the tables.
    item : what grows: the product of the numbers in `full`.
    full : numbers at full size; two of them shrink with the square root of the scale each.
    inputs : name of the inputs, shared by paths with the same name, and the function that makes them in a folder.
    work : what is measured; for a command, a function that returns its arguments.
    split : steps that are maps over items or runs -> how they can be split: `items` (any number of processes on any
        number of machines), `cores` (threads of one machine), or `runs` (a process for each run).
    """

    title: str
    item: str
    full: Sizes
    inputs: tuple[str, Prepare]
    work: Work | None = None
    command: Callable[[Path, Sizes], list[str]] | None = None
    split: Mapping[str, str] = field(default_factory=dict)

    def sizes(self, scale: float) -> dict[str, int]:
        """Returns the numbers at a scale, at least 1 of each."""
        share = scale ** (1 / len(self.full))
        return {name: max(1, round(number * share)) for name, number in self.full.items()}


# ---- posts and formulas -------------------------------------------------------------------------------------------


def _corpus(folder: Path) -> Any:  # noqa: ANN401
    from harness.collections.corpora import corpus_reader
    from harness.collections.corpus import Corpus

    keep = ("question", "question_id", "accepted", "score")
    return Corpus(
        "posts", "Generated posts", "CC0", folder / "Posts.xml", keep=keep, reader=corpus_reader("arqmath-posts")
    )


def _answers(folder: Path) -> Any:  # noqa: ANN401
    from dataclasses import replace

    return replace(_corpus(folder), keep=())


def _make_posts(folder: Path, sizes: Sizes) -> None:
    made.posts(folder / "Posts.xml", sizes["posts"])


def read_posts(inputs: Path, out: Path, sizes: Sizes, marks: Marks) -> None:
    """Streams the answers with their questions."""
    with marks.step("read"):
        formulas = answers = 0
        for document in _corpus(inputs):
            answers += 1
            formulas += len(document.formulas)
    marks.notes |= {"answers": answers, "MB of the file": round((inputs / "Posts.xml").stat().st_size / 1e6)}


def _make_distinct(folder: Path, sizes: Sizes) -> None:
    made.distinct_formulas(folder / "distinct.txt", sizes["distinct formulas"])


def convert(inputs: Path, out: Path, sizes: Sizes, marks: Marks) -> None:
    """Converts distinct LaTeX to operator trees and symbol layout trees."""
    from harness.formulas.opt import read as operators
    from harness.formulas.slt import read as layout

    nodes = failed = 0
    for name, read in (("operator trees", operators.read_latex), ("layout trees", layout.read_latex)):
        with marks.step(name), (inputs / "distinct.txt").open(encoding="utf-8") as stream:
            for line in stream:
                reading = read(line.rstrip("\n"))
                nodes += len(reading.tree)
                failed += bool(reading.reason)
    marks.notes |= {"nodes of a tree": round(nodes / 2 / sizes["distinct formulas"], 1), "failed": failed}


def _make_formulas(folder: Path, sizes: Sizes) -> None:
    distinct = made.formula_lines(folder / "formulas.jsonl", sizes["formulas"])
    (folder / "distinct.json").write_text(json.dumps(distinct))


def _formula_corpus(folder: Path) -> Any:  # noqa: ANN401
    from harness.collections.corpus import Corpus

    fields = (("id", "id"), ("latex", "latex"))
    return Corpus("formulas", "Generated formulas", "CC0", folder / "formulas.jsonl", fields, ("post",))


def _topics() -> Any:  # noqa: ANN401
    from harness.data.topics import Formula, Topic, Topics

    drawn = enumerate(made.topics(QUERIES))
    return Topics(
        tuple(Topic(f"T.{n}", title, f"{body} ${f}$", formulas=(Formula(f"q{n}", f),)) for n, (title, body, f) in drawn)
    )


def _searched(name: str, corpus: Any, out: Path, marks: Marks) -> None:  # noqa: ANN401
    """Ranks 100 topics twice: with an empty store, and with what the first time put there."""
    from harness.systems.base import Request
    from harness.systems.build import load_system

    for step in ("index and 100 topics", "100 topics, stored index"):
        system = load_system(name)
        # Without a meter of costs, which would reset the peak of memory that is measured here.
        with marks.step(step):
            run = system(Request(_topics(), corpus, out))
        marks.notes[f"results, {step}"] = len(run.doc)


def bm25(inputs: Path, out: Path, sizes: Sizes, marks: Marks) -> None:
    """Indexes the answers for system bm25 and ranks 100 topics."""
    _searched("bm25", _answers(inputs), out, marks)


def structural(inputs: Path, out: Path, sizes: Sizes, marks: Marks) -> None:
    """Parses and indexes formulas for system tree and ranks 100 formulas."""
    marks.notes["distinct LaTeX"] = json.loads((inputs / "distinct.json").read_text())
    _searched("tree", _formula_corpus(inputs), out, marks)


# ---- graphs -------------------------------------------------------------------------------------------------------


def sentences(texts: Sequence[str]) -> list[Any]:
    """Stands for a parser: each sentence of a text as a tree of its words; a module-level function, as builds ask."""
    from harness.systems.mathamr.graphs.graph import Sentence

    out = []
    for text in texts:
        found = []
        for sentence in text.split("."):
            if words := sentence.split():
                edges = tuple((node // 2, f":r{node % 40}", node) for node in range(1, len(words)))
                found.append(Sentence(tuple(words), edges, 0))
        out.append(found)
    return out


def graphs(inputs: Path, out: Path, sizes: Sizes, marks: Marks) -> None:
    """Builds, reads, encodes and packs the graphs of the answers, and reads 10,000 of the pack at random."""
    import numpy as np

    from harness.store import artefacts
    from harness.systems.mathamr.encoder.pack import Pack, encode_posts, write_pack
    from harness.systems.mathamr.encoder.vocabulary import NodeVocabulary
    from harness.systems.mathamr.graphs import build, data

    with marks.step("build"):
        (out / "graphs").mkdir()
        built, shards = build.build_graphs(
            data.posts(_answers(inputs), "answers"), sentences, out / "graphs", "graphs/made"
        )
        for shard in shards:
            artefacts.discard(shard.parent)
    marks.notes |= {"graphs": built.graphs, "failures": dict(built.failures)}
    with marks.step("vocabulary"):
        vocabulary = NodeVocabulary.learn(graph for _, graph in build.read_graphs(out / "graphs"))
    with marks.step("pack"):
        write_pack(out / "posts.pack", encode_posts(build.read_graphs(out / "graphs"), vocabulary), keep_going=True)
    pack = Pack(out / "posts.pack")
    marks.notes |= {"bytes of a packed graph": round((out / "posts.pack").stat().st_size / len(pack))}
    with marks.step("read 10,000 at random"):
        nodes = sum(len(pack[row].nodes) for row in np.random.default_rng(1).integers(len(pack), size=10_000).tolist())
    marks.notes |= {"nodes of a graph": round(nodes / 10_000, 1)}


def parse(inputs: Path, out: Path, sizes: Sizes, marks: Marks) -> None:
    """Parses the sentences of answers with the dependency parser."""
    from harness.systems.mathamr.graphs import data
    from harness.systems.mathamr.graphs.dependency import DependencyParser
    from harness.systems.mathamr.graphs.posts import read_post

    parser = DependencyParser()
    parser([])
    posts = data.posts(_answers(inputs), "answers")
    count = 0
    with marks.step("parse"):
        while part := [read_post(post).text for post in islice(posts, 256)]:
            parser(part)
            count += len(part)
    marks.notes["answers"] = count


# ---- vectors ------------------------------------------------------------------------------------------------------


def _no_inputs(folder: Path, sizes: Sizes) -> None:
    """Makes nothing."""


def store_vectors(inputs: Path, out: Path, sizes: Sizes, marks: Marks) -> None:
    """Keeps generated vectors of 128 dimensions, in shards and then as one artifact."""
    import numpy as np

    from harness.systems.dense import vectors
    from harness.systems.dense.engines import EncodedTexts

    draw = made.near_centres()
    spent = 0.0

    def encode(texts: Sequence[str]) -> EncodedTexts:
        nonlocal spent
        begin = time.process_time()
        found = draw(len(texts), int(texts[0]))
        spent += time.process_time() - begin
        return EncodedTexts(found, np.zeros(len(texts), bool))

    def texts() -> Iterator[tuple[str, str]]:
        return ((f"v{number}", str(number)) for number in range(sizes["vectors"]))

    with marks.step("store"):
        found = vectors.made(texts, encode, {"of": "generated"})
    marks.steps[f"{PART} generating"] = round(spent, 3)
    with marks.step("load"):
        found.vectors.load(found.folder)


def _make_vectors(folder: Path, sizes: Sizes) -> None:
    made.vector_folder(folder / "vectors", sizes["vectors"])


def _asked(vectors: Any) -> list[Any]:  # noqa: ANN401
    """Returns 100 queries of 15 vectors, each near to those of a document."""
    import numpy as np

    from harness.systems.dense.search import VectorQuery

    generator, out = np.random.default_rng(5), []
    for row in np.sort(generator.integers(len(vectors), size=QUERIES)).tolist():
        own = np.array(vectors.values[row * made.EACH : (row + 1) * made.EACH])
        own += generator.standard_normal(own.shape, np.float32) * np.float32(0.3 / made.DIMENSIONS**0.5)
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        out.append(VectorQuery(own, made.EACH - 1))
    return out


def exact(inputs: Path, out: Path, sizes: Sizes, marks: Marks) -> None:
    """Finds the first 1,000 documents of 100 queries: by exact MaxSim, and by single vectors."""
    from harness.systems.dense.maxsim import Vectors
    from harness.systems.dense.search import search_vectors

    with marks.step("load"):
        vectors = Vectors.load(inputs / "vectors")
        queries = _asked(vectors)
    with marks.step("100 queries, MaxSim"):
        search_vectors(queries, vectors, "colbert")
    with marks.step("100 queries, single vectors"):
        search_vectors(queries, vectors, "single")
    marks.notes["documents"] = len(vectors)


def approximate(inputs: Path, out: Path, sizes: Sizes, marks: Marks) -> None:
    """Indexes the vectors with FAISS (HNSW) and finds the first 1,000 documents of 100 queries."""
    from harness.systems.dense.ann import Faiss, faiss_index
    from harness.systems.dense.maxsim import Vectors
    from harness.systems.dense.search import recall, search_vectors

    vectors = Vectors.load(inputs / "vectors")
    queries = _asked(vectors)
    with marks.step("index"):
        faiss_index(vectors).save(out / "faiss")
    index = Faiss.load(out / "faiss", vectors)
    few = queries[:20]
    for strategy in ("single", "colbert"):
        with marks.step(f"100 queries, {strategy}"):
            found = search_vectors(queries, vectors, strategy, "approximate", index=index)
        shares = recall(found[:20], search_vectors(few, vectors, strategy))
        marks.notes[f"recall of the first 1,000, {strategy}, 20 queries"] = round(float(shares.mean()), 3)


# ---- scoring ------------------------------------------------------------------------------------------------------

DEPTH, SHALLOW, JUDGED = 1000, 10, 20


def _make_runs(folder: Path, sizes: Sizes) -> None:
    from bench.scale import files

    run, qrels = files(folder, sizes["topics"], sizes["topics"] * DEPTH)
    run.rename(folder / "run")
    qrels.rename(folder / "qrels")


def score(inputs: Path, sizes: Sizes) -> list[str]:
    """Scores runs of 1,000 results a topic: one file under as many names."""
    files = [f"run{number}={inputs / 'run'}" for number in range(sizes["runs"])]
    return [sys.executable, "-m", "harness", "score", *files, "--qrels", str(inputs / "qrels"), "--quiet"]


def _make_lab(folder: Path, sizes: Sizes) -> None:
    """Opens a lab and submits a run of ten results a topic for each team."""
    import os
    import random

    from harness.labs.submit import Offer, open_lab, submit_run

    rng, topics = random.Random(7), [f"A.{number}" for number in range(sizes["topics"])]
    conf = folder / "conf" / "collection"
    conf.mkdir(parents=True)
    (conf / "large.yaml").write_text(
        "name: large\ntitle: Generated judgments\nlicence: CC0\nprotocol: arqmath-task1\ndefault_edition: official\n"
        "editions:\n  official: {title: generated, qrels: {file: large.qrels}, "
        f"topics: {len(topics)}, judgments: {len(topics) * JUDGED}}}\n"
        "topics: {reader: jsonl, file: large.topics.jsonl}\n"
    )
    grades = {
        topic: [(f"d{rng.randrange(10**6)}-{n}", rng.choice((0, 0, 1, 2, 3))) for n in range(JUDGED)]
        for topic in topics
    }
    named = (json.dumps({"id": topic, "title": topic}) + "\n" for topic in topics)
    (conf / "large.topics.jsonl").write_text("".join(named))
    lines = (f"{topic} 0 {doc} {grade}\n" for topic, docs in grades.items() for doc, grade in docs)
    (conf / "large.qrels").write_text("".join(lines))
    os.chdir(folder)
    lab = open_lab(folder / "lab", {"title": "Large", "collection": "large", "cap": 1})
    task = lab.task()
    for team in range(sizes["runs"]):
        skill = rng.random() * 3
        with (folder / "one.run").open("w") as stream:
            for topic, docs in grades.items():
                ranked = sorted(docs, key=lambda pair: -skill * pair[1] - rng.gauss(0, 2))[:SHALLOW]
                stream.writelines(
                    f"{topic} Q0 {doc} {rank} {SHALLOW - rank} run\n" for rank, (doc, _) in enumerate(ranked)
                )
        submit_run(lab, Offer(folder / "one.run", f"team{team}"), bench=task)


def leaderboard(inputs: Path, sizes: Sizes) -> list[str]:
    """Makes the leaderboard of the lab, in all formats."""
    return [sys.executable, "-m", "harness", "leaderboard", str(inputs / "lab"), "--quiet"]


ROUTES: Mapping[str, Route] = {
    "posts": Route("read the posts", "posts", {"posts": POSTS}, ("posts", _make_posts), read_posts),
    "convert": Route(
        "formulas to trees",
        "distinct formulas",
        {"distinct formulas": DISTINCT},
        ("distinct", _make_distinct),
        convert,
        split={"operator trees": "items", "layout trees": "items"},
    ),
    "parse": Route(
        "parse sentences (spaCy)", "posts", {"posts": POSTS}, ("posts", _make_posts), parse, split={"parse": "items"}
    ),
    "graphs": Route("graph store", "posts", {"posts": POSTS}, ("posts", _make_posts), graphs, split={"build": "cores"}),
    "vectors": Route("vector store", "vectors", {"vectors": VECTORS}, ("none", _no_inputs), store_vectors),
    "exact": Route(
        "exact search",
        "vectors",
        {"vectors": VECTORS},
        ("vectors", _make_vectors),
        exact,
        split={"100 queries, MaxSim": "cores"},
    ),
    "approximate": Route(
        "approximate search", "vectors", {"vectors": VECTORS}, ("vectors", _make_vectors), approximate
    ),
    "score": Route(
        "score runs",
        "topics x runs",
        {"topics": 10_000, "runs": 100},
        ("runs", _make_runs),
        command=score,
        split={"": "runs"},
    ),
    "leaderboard": Route(
        "leaderboard", "topics x runs", {"topics": 10_000, "runs": 100}, ("lab", _make_lab), command=leaderboard
    ),
    "bm25": Route("BM25", "posts", {"posts": POSTS}, ("posts", _make_posts), bm25),
    "structural": Route(
        "structural search", "formulas", {"formulas": FORMULAS}, ("formulas", _make_formulas), structural
    ),
}

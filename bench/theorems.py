"""Search in Mathlib: what the system `mathlib` finds beside a plain BM25, and what its index costs.

Scores MathlibQR's queries (those whose declaration the corpus holds) by the four steps from plain words to the
shipped system, overall and by style of query, and writes the tables as Markdown. Queries that mean one declaration
are no independent sample: their differences are averaged, and tests are over declarations. `--tuning` scores
`mathlib-names` instead, on which the settings were chosen; `--vectors` scores `mathlib` beside vectors of signatures
and of all that is written, two fusions, and the first 100 of one of them re-ranked. `--chroma` compares Chroma's
search with exact search over the vectors of `mathlib-minilm`.
Times and memory are of processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.collections.collection import Collection
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run
from harness.data.written import write_run
from harness.experiments.produce import Produced, make
from harness.experiments.task import Task, task
from harness.io import config
from harness.scoring.compare import Row, compare
from harness.scoring.coverage import restrict
from harness.scoring.scores import Scores
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.build import build_system
from harness.systems.dense import documents, texts, topic_vectors
from harness.systems.dense.documents import Source
from harness.systems.dense.engines import PRECISIONS, Matrix, Settings
from harness.systems.dense.maxsim import Vectors
from harness.systems.lexical.system import BM25

ROOT = Path(__file__).resolve().parent.parent
CORPUS, TUNING = "mathlib-decls", "mathlib-names"
MEASURES = ("R@10", "RR@50")
PLAIN, VIEW, FIELDS, FULL = "plain BM25", "BM25, view of declarations", "mathlib without prior", "mathlib"
PAIRS = ((VIEW, PLAIN), (FIELDS, PLAIN), (FULL, PLAIN), (FULL, VIEW), (FULL, FIELDS))
FORMAL, MINILM, FUSED = "mathlib-minilm-formal", "mathlib-minilm", "mathlib-rrf"
WEIGHTED = "mathlib-weighted"
E5, MPNET = "mathlib-rrf-e5", "mathlib-rrf-mpnet"
OF_VECTORS = (
    (MINILM, FORMAL),
    (MINILM, FULL),
    (FUSED, FULL),
    (FUSED, MINILM),
    (WEIGHTED, FULL),
    (WEIGHTED, FUSED),
    (E5, FUSED),
    (MPNET, FUSED),
)
BY_STYLE = ((WEIGHTED, FULL), (WEIGHTED, FUSED), (E5, FUSED), (MPNET, FUSED))
NEAREST = 20  # documents that Chroma is asked for
# Neighbours of each vector, candidates while the graph is built, candidates of a search.
GRAPHS = {
    "Chroma's defaults in 2024": (16, 100, 10),
    "Chroma's defaults": (16, 100, 100),
    "a larger graph": (32, 200, 400),
}
PERMUTATIONS = 100_000
COST = """
import json, sys, time
from pathlib import Path
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.store import artefacts, cost
from harness.systems.base import Request
from harness.systems.build import load_system
artefacts.store_root = lambda: Path(sys.argv[2])  # cold, and out of the user's way
system, corpus = load_system(sys.argv[1]), load_corpus(sys.argv[3])
corpus.path  # fetched before the clock starts
wall, cpu = time.perf_counter(), time.process_time()
system.system.index(corpus)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
with cost.measuring() as noted:
    system(Request(load_collection(sys.argv[4]).topics(), corpus, Path(sys.argv[2])))
status = Path("/proc/self/status").read_text()  # not getrusage: its maximum is inherited from the parent
peak = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
latency = 1000 * sum(noted.latency.values()) / len(noted.latency)
print(json.dumps([wall, cpu, noted.phases["index"], latency, peak, sum(noted.artefacts.values()) / 2**20]))
"""
FOUND = """
import json, sys, time
from pathlib import Path
import numpy as np
from harness.systems.dense import chroma, search
from harness.systems.dense.maxsim import Vectors
what, folder, store, k, neighbours, construction, ef = sys.argv[1], *map(Path, sys.argv[2:4]), *map(int, sys.argv[4:])
vectors, asked = Vectors.load(folder), np.load(folder / "asked.npy")
def timed(find):
    find(asked[:1])  # what is read once is read
    wall, cpu = time.perf_counter(), time.process_time()
    found = [find(asked[[row]])[0] for row in range(len(asked))]
    np.save(folder / "found.npy", np.array(found))
    return time.perf_counter() - wall, time.process_time() - cpu
if what == "build":
    wall, cpu = time.perf_counter(), time.process_time()
    chroma.build(vectors, store, neighbours=neighbours, construction=construction)
    seconds = time.perf_counter() - wall, time.process_time() - cpu
elif what == "search":
    with chroma.opened(store, vectors) as index:
        seconds = timed(lambda some: index.documents(some, k, ef))
else:
    seconds = timed(lambda some: [hits.rows for hits in search.nearest(some, [vectors], k=k)])
status = Path("/proc/self/status").read_text()
peak = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
print(json.dumps([*seconds, peak]))
"""


@dataclass(frozen=True)
class Found:
    """Scores of systems over the same queries, and the declaration that each query means.

    Attributes
    ----------
    pairs : which systems are tested; by style only `of_styles`.
    """

    scores: dict[str, Scores]
    gold: dict[str, str]
    style: dict[str, str]
    pairs: tuple[tuple[str, str], ...]
    of_styles: tuple[tuple[str, str], ...]


def systems() -> dict[str, Any]:
    """From plain words to the shipped system, one change at a time."""
    plain, where = config.load("system", "mathlib-plain")
    full, full_where = config.load("system", "mathlib")
    return {
        PLAIN: build_system(plain, where),
        VIEW: BM25(k1=plain["k1"], b=plain["b"], view=full["view"], query=plain["query"], document=plain["document"]),
        FIELDS: build_system(full | {"prior": 0}, full_where),
        FULL: build_system(full, full_where),
    }


def of_vectors(collection: str, folder: Path, precision: str, counted: frozenset[str]) -> dict[str, Run]:
    """Runs of words, vectors, both fused, and the first of these re-ranked; what lies in the folder is taken.

    Re-rankers rank the topics that count. The engine of E5 computes in its own precision.
    """
    part = task(collection, CORPUS)
    ranked = dict.fromkeys((MPNET, E5), only(part, counted))
    made: dict[str, Produced] = {}
    re_ranked = () if collection == TUNING else (MPNET, E5)  # nothing was chosen by them
    for name in (FULL, FORMAL, MINILM, FUSED, WEIGHTED, *re_ranked):
        mapping, where = config.load("system", name)
        if name in (FORMAL, MINILM, MPNET):
            mapping["precision"] = precision
        if name in (FUSED, WEIGHTED):
            mapping["runs"] = [str(made[each].path) for each in mapping["runs"]]
        if name in ranked:
            first = folder / "first" / f"{name}.run"
            first.parent.mkdir(exist_ok=True)
            write_run(select(made[mapping["first"]].run, ranked[name].topics.ids()), first)
            mapping["first"] = str(first)
        made[name] = make(build_system(mapping, where), ranked.get(name, part), runs=folder)
    return {name: each.run for name, each in made.items()}


def select(run: Run, topics: frozenset[str]) -> Run:
    """The results of some topics."""
    kept = np.array([topic in topics for topic in run.topics])[run.topic]
    return replace(run, topic=run.topic[kept], doc=run.doc[kept], score=run.score[kept], sha256="")


def only(part: Task, topics: frozenset[str]) -> Task:
    """A task with some of its topics."""
    return replace(part, topics=Topics(tuple(topic for topic in part.topics if topic.id in topics)))


def evaluate(collection: Collection, folder: Path, vectors: str | None) -> Found:
    """Run the systems on the topics whose declarations the corpus holds.

    Parameters
    ----------
    vectors : the precision of encoders; None: systems of words alone.
    """
    corpus, scorer, topics = load_corpus(CORPUS), collection.scorer(), collection.topics()
    cut, _ = restrict(scorer.qrels, corpus.ids())
    scorer, gold = scorer.on_part(cut), meant(cut)
    if vectors is None:
        runs = {name: system(Request(topics, corpus, folder)) for name, system in systems().items()}
    else:
        runs = of_vectors(collection.name, folder, vectors, frozenset(gold))
    scores = {name: replace(scorer(run), run=name) for name, run in runs.items()}
    style = {topic.id: topic.attributes.get("style", topic.attributes.get("list", "")) for topic in topics}
    pairs, of_styles = (OF_VECTORS, BY_STYLE) if vectors else (PAIRS, ((FULL, PLAIN),))
    return Found(scores, gold, style, among(pairs, scores), among(of_styles, scores))


def among(pairs: Iterable[tuple[str, str]], scores: Mapping[str, Scores]) -> tuple[tuple[str, str], ...]:
    """The pairs both sides of which were scored."""
    return tuple(pair for pair in pairs if set(pair) <= set(scores))


def meant(qrels: Qrels) -> dict[str, str]:
    """Topic -> the declarations judged relevant, joined: topics that mean the same are one cluster."""
    return {topic: " ".join(sorted(docs)) for topic, docs in qrels.to_dict().items()}


def clustered(scores: Scores, gold: Mapping[str, str]) -> Scores:
    """The means of each declaration's queries; the declarations stand where topics stood."""
    counted = ~np.isnan(scores.values).any(axis=1)
    names = np.array([gold.get(topic, "") for topic in scores.topics])
    kept = sorted(set(names[counted].tolist()))
    values = np.array([scores.values[counted & (names == name)].mean(axis=0) for name in kept])
    return replace(scores, topics=tuple(kept), values=values, missing=())


def tested(found: Found, topics: Iterable[str], pairs: Sequence[tuple[str, str]], family: int) -> tuple[Row, ...]:
    """Tests over declarations, for some of the topics."""
    wanted = set(topics)
    sides = [clustered(scores.select(wanted), found.gold) for scores in found.scores.values()]
    tests = compare(
        sides, pairs=pairs, measures=MEASURES, test="randomization", permutations=PERMUTATIONS, family=family
    )
    return tests.rows


def number(value: float) -> str:
    """As papers print it: .615."""
    return f"{value:.3f}".replace("0.", ".", 1)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print("\n| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def overall(found: Found) -> None:
    """Means over queries, and the tests over declarations."""
    any_side = found.scores[FULL]
    n = f"{any_side.n('R@10')} queries, {len(clustered(any_side, found.gold).topics)} declarations"
    rows = [(name, *(number(scores.mean(m)) for m in MEASURES)) for name, scores in found.scores.items()]
    table((n, "R@10", "MRR@50"), rows)
    rows_of_tests = tested(found, any_side.topics, found.pairs, len(found.pairs) * len(MEASURES))
    table(
        ("difference of declarations' means", "measure", "mean", "95% interval", "better / equal / worse", "p", "Holm"),
        [
            (
                f"{row.a} − {row.b}",
                row.measure.replace("RR", "MRR"),
                f"{row.difference:+.3f}",
                f"{row.ci_low:+.3f} to {row.ci_high:+.3f}",
                f"{row.wins} / {row.ties} / {row.losses}",
                f"{row.p_randomization:.5f}",
                f"{row.p_holm:.5f}",
            )
            for row in rows_of_tests
        ],
    )


def by_style(found: Found) -> None:
    """Each style of query by itself: all systems, and some pairs tested."""
    styles = list(dict.fromkeys(found.style.values()))
    counted = [t for t, v in zip(found.scores[FULL].topics, found.scores[FULL].column("R@10"), strict=True) if v >= 0]
    groups = {style: [topic for topic in counted if found.style[topic] == style] for style in styles}
    family = len(MEASURES) * len(styles) * len(found.of_styles)
    tests = {style: tested(found, topics, found.of_styles, family) for style, topics in groups.items()}
    # Holm's step-down over all styles, measures and pairs together.
    raw = sorted((row.p_randomization, style, (row.a, row.b), row.measure) for style, t in tests.items() for row in t)
    holm, highest = {}, 0.0
    for place, (p, *at) in enumerate(raw):
        highest = max(highest, min(1.0, p * (len(raw) - place)))
        holm[tuple(at)] = highest
    rows = []
    for style, topics in groups.items():
        parts = [scores.select(topics) for scores in found.scores.values()]
        values = [" / ".join(number(part.mean(m)) for m in MEASURES) for part in parts]
        shown = (" / ".join(f"{holm[style, pair, m]:.4f}" for m in MEASURES) for pair in found.of_styles)
        rows.append((style, str(len(topics)), *values, *shown))
    table(("style", "queries", *found.scores, *(f"Holm p, {a} − {b}" for a, b in found.of_styles)), rows)
    print("\nValues and p are of R@10 / MRR@50.")


def unseen(found: Found, tuning: Qrels) -> None:
    """The scores without the declarations that are also answers of the tuning collection."""
    known = {doc for docs in tuning.to_dict().values() for doc in docs}
    kept = [topic for topic in found.scores[FULL].topics if found.gold.get(topic, "") not in known]
    shared = {name for name in found.gold.values() if name in known}
    print(f"\n{len(shared)} of the declarations are also answers in `mathlib-names`. Without them:")
    overall(replace(found, scores={name: scores.select(kept) for name, scores in found.scores.items()}))


def cost() -> None:
    """Index and query times and memory from a cold store, each system in a process of its own."""
    rows = []
    for name in ("mathlib-plain", "mathlib"):
        with tempfile.TemporaryDirectory() as folder:
            arguments = [sys.executable, "-c", COST, name, folder, CORPUS, "mathlib-qr"]
            done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
        wall, cpu, warm, latency, peak, disk = json.loads(done.stdout)
        rows.append((name, f"{wall:.1f}", f"{cpu:.1f}", f"{warm:.1f}", f"{latency:.1f}", f"{peak:.0f}", f"{disk:.0f}"))
    header = ("system", "index cold, s", "CPU s", "warm, s", "ms a query", "peak memory, MiB", "store, MiB")
    table(header, rows)
    machine()


def machine() -> None:
    """What times were measured on."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown processor")
    print(f"\n{os.cpu_count()} cores of {model}, shared with other work; Python {platform.python_version()}")


def of_minilm(count: int) -> tuple[Vectors, Matrix]:
    """The vectors of `mathlib-minilm`, of so many documents (0: all), and those of the queries."""
    given, _ = config.load("system", MINILM)
    ((_, fields),) = given["parts"].items()
    source = Source(given["model"], Settings(length=given["length"]), hardware.device(given["device"]))
    loaded = source.load()
    every = documents.vectors_of(load_corpus(CORPUS), fields, "latex", source, lambda: loaded).vectors
    asked = [texts.of_topic(topic, given["query"]).strip() for topic in load_collection("mathlib-qr").topics()]
    found = topic_vectors.vectors_of(asked, source, loaded).values
    if not count or count >= len(every):
        return every, found
    rows = np.sort(np.random.default_rng(0).permutation(len(every))[:count])
    start = np.arange(count + 1)
    return Vectors(every.ids[rows], start, every.take(every.document[rows]), start[:-1]), found


def stores(folder: Path, count: int) -> None:
    """Chroma beside exact search: what it finds of the nearest, how fast, with how much memory."""
    made, asked = of_minilm(count)
    made.save(folder)
    np.save(folder / "asked.npy", asked)

    def run(what: str, store: Path, graph: Sequence[int]) -> tuple[float, ...]:
        words = [what, str(folder), str(store), *map(str, (NEAREST, *graph))]
        done = subprocess.run(
            [sys.executable, "-c", FOUND, *words], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return tuple(json.loads(done.stdout))

    def per_second(wall: float) -> str:
        return f"{len(asked) / wall:,.0f}"

    wall, _, peak = run("exact", folder, (0, 0, 0))
    exact = np.load(folder / "found.npy")
    rows = [("exact", "-", "1 / 1", per_second(wall), f"{peak:.0f}", "-", f"{made.values.nbytes / 2**20:.0f}")]
    for name, graph in GRAPHS.items():
        store = folder / "-".join(map(str, graph[:2]))
        built = run("build", store, graph) if not store.is_dir() else None
        wall, _, peak = run("search", store, graph)
        shares = [np.isin(a, b).mean() for a, b in zip(exact, np.load(folder / "found.npy"), strict=True)]
        size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / 2**20
        recall = f"{np.mean(shares):.4f} / {min(shares):.2f}"
        cost = f"{built[0]:.0f} ({built[1]:.0f} CPU)" if built else "as above"
        said = f"{name} ({', '.join(map(str, graph))})"
        rows.append(
            (said, cost, recall, per_second(wall), f"{peak:.0f}", f"{built[2]:.0f}" if built else "", f"{size:.0f}")
        )
    print(f"\n{len(made):,} vectors of {made.dimensions} dimensions, {len(asked)} queries one after the other")
    header = (
        "search (neighbours, candidates of building, of searching)",
        "build, s",
        f"recall@{NEAREST}: mean / least",
    )
    table((*header, "queries a second", "peak memory, MiB", "of building, MiB", "on disk, MiB"), rows)
    machine()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuning", action="store_true", help="score mathlib-names, on which settings were chosen")
    parser.add_argument("--vectors", action="store_true", help="mathlib beside vectors, their fusion, and re-rankers")
    parser.add_argument("--chroma", action="store_true", help="Chroma beside exact search, and nothing else")
    parser.add_argument("--count", type=int, default=0, help="with --chroma: so many vectors, drawn at random")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32", help="with --vectors: of the encoders")
    parser.add_argument("--folder", type=Path, help="where runs and unfinished vectors lie; default: a temporary one")
    parser.add_argument("--no-cost", action="store_true", help="no times and memory")
    arguments = parser.parse_args()
    if arguments.chroma:
        with tempfile.TemporaryDirectory() as folder:
            stores(Path(folder), arguments.count)
        return
    tuning = load_collection(TUNING)
    with tempfile.TemporaryDirectory() as folder:
        collection = tuning if arguments.tuning else load_collection("mathlib-qr")
        precision = arguments.precision if arguments.vectors else None
        found = evaluate(collection, arguments.folder or Path(folder), precision)
    overall(found)
    by_style(found)
    if not arguments.tuning:
        unseen(found, tuning.qrels())
    if not (arguments.no_cost or arguments.vectors):
        cost()


if __name__ == "__main__":
    main()

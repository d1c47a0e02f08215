"""Formula search on the judged formulas of ARQMath-1 Task 2: every system beside two baselines, with tests.

Settings are chosen on one half of the topics and reported on the other, both ways: the halves are the topics with an
odd and with an even number. On its half, a system takes the first of its settings with the best mean nDCG'; RRF takes
its k in the same way, over the runs so chosen. The baselines are BM25 with its usual k1 and b over the paths of the
operator trees (from leaves to all nodes above, with symbols) and over the tuples of the symbol layout trees (window 2,
ends of lines marked). Runs `-shipped` have the settings of `conf/system`, which were looked at on all topics, and are
not tested. Prints two Markdown tables: with all judgments of formulas that have a tree, and without the
judgments of formulas identical to the query (the same OPT or SLT).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.io import config
from harness.scoring.compare import compare
from harness.scoring.coverage import restrict
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores
from harness.systems.base import Request
from harness.systems.build import build_system
from harness.systems.fusion.candidates import fuse
from harness.systems.fusion.methods import rrf
from harness.systems.structural import formulas
from harness.systems.structural.formulas import Formulas

COLLECTION, CORPUS = "arqmath-1-task2", "arqmath1-formulas"
MEASURE = "nDCG"
SHIPPED = "-shipped"  # ends the name of a run of a system as it is configured
BASELINES = ("bm25-opt-paths", "bm25-slt-pairs")
# Parameter -> values; a system's settings are all their combinations, those it ships with in the others.
GRIDS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "tree": {"share": [0.15, 0.3, 0.45], "credit": [0.0, 0.3, 0.6]},
    "tangent": {
        "weights": [
            {"tuples": 1, "subtree": 1},
            {"tuples": 1, "variables": 1, "subtree": 1},
            {"tuples": 2, "variables": 1, "subtree": 1},
            {"tuples": 1, "variables": 1, "subtree": 2},
        ]
    },
    "l2l": {
        "weights": [{"paths": 1, "sequence": 1, "symbols": 1}, {"paths": 1, "sequence": 2, "symbols": 1}],
        "names": [False, True],
    },
}
FUSIONS = (("tree", "tangent"), ("tangent", "l2l"), ("tree", "tangent", "l2l"))
KS = (1, 3, 10, 30, 60)


@dataclass(frozen=True)
class Chosen:
    """A run whose settings were chosen on the other half of the topics, and what was chosen on each half."""

    run: Run
    settings: tuple[str, ...]


def halves(topics: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Topics with an odd number, topics with an even one."""
    odd = frozenset(topic for topic in topics if int(topic.partition(".")[2]) % 2)
    return odd, frozenset(topics) - odd


def on(half: frozenset[str], run: Run, name: str) -> Run:
    """A run's answers to some topics."""
    return Run.from_dict(name, {topic: docs for topic, docs in run.to_dict().items() if topic in half})


def joined(name: str, parts: Sequence[Run]) -> Run:
    """Runs of different topics as one."""
    return Run.from_dict(name, {topic: docs for part in parts for topic, docs in part.to_dict().items()})


def best(runs: Mapping[str, Run], half: frozenset[str], scorer: Scorer) -> str:
    """The first of the settings with the best mean on some topics."""

    def mean(run: Run) -> float:
        scores = scorer(run)
        chosen = [n for n, topic in enumerate(scores.topics) if topic in half]
        return float(np.nanmean(scores.column(MEASURE)[chosen]))

    means = {name: mean(run) for name, run in runs.items()}
    return max(means, key=lambda name: means[name])


def two_fold(name: str, runs: Mapping[str, Run], scorer: Scorer) -> Chosen:
    """The run of settings chosen on the other half."""
    first, second = halves(scorer.qrels.topics)
    chosen = [best(runs, other, scorer) for other in (second, first)]
    parts = [on(half, runs[setting], name) for half, setting in zip((first, second), chosen, strict=True)]
    return Chosen(joined(name, parts), tuple(chosen))


def settings_of(name: str) -> dict[str, dict[str, Any]]:
    """What a system's settings are called, and their configurations."""
    shipped, _ = config.load("system", name)
    grid = GRIDS[name]
    out = {}
    for values in product(*grid.values()):
        given = dict(zip(grid, values, strict=True))
        out[", ".join(f"{key} {json.dumps(value)}" for key, value in given.items())] = {**shipped, **given}
    return out


def runs_of(name: str, topics: Topics, corpus: Corpus) -> dict[str, Run]:
    """A run for each of a system's settings."""
    out = {}
    for text, mapping in settings_of(name).items():
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as workspace:
            out[text] = build_system(mapping, name)(Request(topics, corpus, Path(workspace)))
        print(f"{name}: {text}: {time.perf_counter() - begin:.1f} s", file=sys.stderr)
    return out


# ---- baselines -----------------------------------------------------------------------------------------------------


def baseline(name: str, topics: Topics, corpus: Corpus) -> Run:
    """BM25 over pieces of trees, as it is configured."""
    with tempfile.TemporaryDirectory() as folder:
        return build_system(*config.load("system", name))(Request(topics, corpus, Path(folder)))


# ---- judgments -----------------------------------------------------------------------------------------------------


def identical(topics: Topics, corpus: Corpus, known: Mapping[str, Formulas]) -> set[tuple[str, str]]:
    """Topic and document of formulas that are the query: the same operator or symbol layout tree."""
    out = set()
    for kind, found in known.items():
        numbers = {tree: number for number, tree in enumerate(found.trees)}
        of_tree: dict[int, list[str]] = {}
        for doc, tree in zip(found.ids.tolist(), found.tree.tolist(), strict=True):
            of_tree.setdefault(tree, []).append(doc.decode())
        for topic, trees in formulas.queries(topics, corpus, kind).items():
            for tree in trees:
                out |= {(topic, doc) for doc in of_tree.get(numbers.get(tree, -2), [])}
    return out


def without(qrels: Qrels, pairs: set[tuple[str, str]]) -> Qrels:
    """The judgments but for some pairs."""
    left = {
        topic: {doc: grade for doc, grade in docs.items() if (topic, doc) not in pairs}
        for topic, docs in qrels.to_dict().items()
    }
    return Qrels.from_dict(qrels.edition, left)


# ---- tables --------------------------------------------------------------------------------------------------------


def table(runs: Sequence[Run], scorer: Scorer) -> Iterator[str]:
    """Means of each run, and its differences from the baselines; none of runs with settings as they are shipped."""
    scores: list[Scores] = [scorer(run) for run in runs]
    names = [run.name for run in runs if run.name not in BASELINES and not run.name.endswith(SHIPPED)]
    pairs = [(name, base) for base in BASELINES for name in names]
    found = compare(scores, pairs=pairs, measures=[MEASURE])
    rows = {(row.a, row.b): row for row in found.rows}
    measures = ("nDCG", "AP", "P@10")
    label = [scorer.protocol.label(measure) for measure in measures]
    heads = ["system", *label, *(f"{label[0]} − {base}" for base in BASELINES)]
    yield "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads)
    for score in scores:
        cells = [score.run, *(f"{score.mean(measure):.3f}" for measure in measures)]
        for base in BASELINES:
            row = rows.get((score.run, base))
            cells.append("" if row is None else f"{row.difference:+.3f} ({row.p_bonferroni:.4f}; {row.p_holm:.4f})")
        yield "| " + " | ".join(cells) + " |"
    tests = f"two-sided paired t-tests over {found.family} tests, p after Bonferroni; after Holm"
    yield f"\nn = {scores[0].n(MEASURE)} topics; {tests}."


def main() -> None:
    """Print the tables and what was chosen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", choices=tuple(GRIDS), default=list(GRIDS))
    names = parser.parse_args().systems
    collection, corpus = load_collection(COLLECTION), load_corpus(CORPUS)
    known = {kind: formulas.read(corpus, kind) for kind in formulas.KINDS}
    whole = collection.scorer(ids_are_keys=True)
    judged, coverage = restrict(whole.qrels, (doc.decode() for doc in known["opt"].ids.tolist()))
    scorer = whole.on_part(judged)
    topics = Topics(tuple(topic for topic in collection.topics() if topic.id in judged.topics))

    runs = [baseline(name, topics, corpus) for name in BASELINES]
    tried: dict[str, dict[str, Run]] = {}
    for name in names:
        try:
            tried[name] = runs_of(name, topics, corpus)
        except HarnessError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    chosen = {name: two_fold(name, found, scorer) for name, found in tried.items()}
    for members in FUSIONS:
        if set(members) <= set(chosen):
            name = "rrf-" + "-".join(members)
            parts = [chosen[member].run for member in members]
            fused = {f"k {k}": fuse(parts, lambda found, k=k: rrf(found, k), name) for k in KS}  # type: ignore[misc]
            chosen[name] = two_fold(name, fused, scorer)
    runs += [each.run for each in chosen.values()]
    for name in tried:
        with tempfile.TemporaryDirectory() as workspace:
            shipped, where = config.load("system", name)
            run = build_system(shipped, where)(Request(topics, corpus, Path(workspace)))
        runs.append(replace(run, name=f"{name}{SHIPPED}", context=None))

    print(f"{coverage.pairs:,} judged pairs, {coverage.pairs - coverage.present} of them of formulas without a tree.\n")
    print("\n".join(table(runs, scorer)))
    same = identical(topics, corpus, known) & {(topic, doc) for topic, docs in judged.to_dict().items() for doc in docs}
    print(f"\nWithout the {len(same)} judged formulas identical to the query ({len({t for t, _ in same})} topics):\n")
    print("\n".join(table(runs, whole.on_part(without(judged, same)))))
    print("\nChosen on the even topics for the odd ones; on the odd for the even:\n")
    for name, each in chosen.items():
        print(f"- {name}: {'; '.join(each.settings)}")


if __name__ == "__main__":
    main()

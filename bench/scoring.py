"""CPU seconds to load, validate and score CrossMath's 60 runs: the harness, pytrec-eval-terrier, ir_measures, ranx.

One process, run by run in turn, so that all sides meet the same machine; medians of five rounds. Needs the runs
(`harness fetch crossmath`) and the extra `bench`. Prints one table; `--markdown` for bench/results, `--json` beside it.
"Without kernels" is the harness with HARNESS_KERNELS=off.

The readers of the others are as fast as we could write them: one split of the file, no checks at all. The
harness's is the one that `harness score` uses: every line checked. All sides score nDCG', MAP', P'@10 and
Bpref topic by topic; the values are compared before anything is printed.
"""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.table import ROOT, Ratio, options, save, show
from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.trec import Qrels, Run, read_run
from harness.io.kernels import VARIABLE
from harness.papers.paper import load_paper
from harness.sources.fetch import fetch_resources
from harness.store.cost import own_peak

MEASURES = ("nDCG", "AP", "P@10", "Bpref")
ROUNDS = 5
Rankings = dict[str, dict[str, float]]


def quick_read(path: Path) -> Rankings:
    """topic -> document -> score in one pass over the fields; nothing is checked."""
    fields = path.read_bytes().decode().split()
    docs, scores = fields[2::6], list(map(float, fields[4::6]))
    out: Rankings = {}
    at = 0
    for topic, group in groupby(fields[0::6]):
        n = sum(1 for _ in group)
        out[topic] = dict(zip(docs[at : at + n], scores[at : at + n], strict=True))
        at += n
    return out


class Harness:
    """Ours, as `harness score` does it."""

    name = "mathir-harness"

    def __init__(self, qrels: Qrels, collection: str, edition: str) -> None:
        self.scorer = load_collection(collection).scorer(edition, "arqmath-task1", measures=MEASURES)

    def read(self, path: Path) -> Run:
        return read_run(path)

    def score(self, run: Run) -> list[float]:
        scores = self.scorer(run)
        return [scores.mean(measure) for measure in MEASURES]


class WithoutKernels(Harness):
    """The same in NumPy."""

    name = "the same without kernels"

    def read(self, path: Path) -> Run:
        os.environ[VARIABLE] = "off"
        return super().read(path)

    def score(self, run: Run) -> list[float]:
        found = super().score(run)
        del os.environ[VARIABLE]
        return found


class PytrecEval:
    """pytrec-eval-terrier: trec_eval called from Python."""

    name = "pytrec-eval-terrier"
    read = staticmethod(quick_read)

    def __init__(self, qrels: Qrels, collection: str, edition: str) -> None:
        import pytrec_eval

        self.n = len(qrels.topics)
        names = {"ndcg", "map", "P_10", "bpref"}
        self.evaluator = pytrec_eval.RelevanceEvaluator(
            qrels.to_dict(), names, relevance_level=2, judged_docs_only_flag=True
        )

    def score(self, run: Rankings) -> list[float]:
        topics = self.evaluator.evaluate(run).values()
        return [sum(topic[name] for topic in topics) / self.n for name in ("ndcg", "map", "P_10", "bpref")]


class IrMeasures:
    """ir_measures, which hands these measures to pytrec_eval."""

    name = "ir_measures"
    read = staticmethod(quick_read)

    def __init__(self, qrels: Qrels, collection: str, edition: str) -> None:
        import ir_measures as irm

        self.n = len(qrels.topics)
        grades = {"rel": 2, "judged_only": True}
        self.keys = [irm.nDCG(judged_only=True), irm.AP(**grades), irm.P(**grades) @ 10, irm.Bpref(rel=2)]
        self.evaluator = irm.evaluator(self.keys, qrels.to_dict())

    def score(self, run: Rankings) -> list[float]:
        totals = dict.fromkeys(self.keys, 0.0)
        for metric in self.evaluator.iter_calc(run):
            totals[metric.measure] += metric.value
        return [totals[key] / self.n for key in self.keys]


class Ranx:
    """ranx, warm: compiled before the clock starts. It has no prime; all documents here are judged."""

    name = "ranx (warm)"

    def __init__(self, qrels: Qrels, collection: str, edition: str) -> None:
        import ranx

        self.ranx = ranx
        self.qrels = ranx.Qrels(qrels.to_dict())

    def read(self, path: Path) -> Any:  # noqa: ANN401  (a ranx.Run)
        return self.ranx.Run(quick_read(path))

    def score(self, run: Any) -> list[float]:  # noqa: ANN401
        names = ["ndcg", "map-l2", "precision@10-l2", "bpref-l2"]
        found = self.ranx.evaluate(self.qrels, run, names, make_comparable=True)
        return [float(found[name]) for name in names]


SIDES: tuple[Callable[..., Any], ...] = (Harness, WithoutKernels, PytrecEval, IrMeasures, Ranx)


def files() -> list[tuple[Path, str, str]]:
    """(run file, collection, edition) of the 60 runs."""
    paper = load_paper("crossmath")
    fetch_resources(paper.files())
    assert paper.config.archive is not None
    entries = paper.config.archive.collections
    return [
        (local(run.file), entries[run.collection].collection, entries[run.collection].edition) for run in paper.runs
    ]


def check(path: Path, values: dict[str, list[float]]) -> None:
    """Stop unless all sides agree; ranx's Bpref goes wrong after a topic without relevant documents and is left out."""
    ours = values[Harness.name]
    for name, found in values.items():
        n = len(MEASURES) - (name == Ranx.name)
        # ranx orders ties in its own way.
        if not np.allclose(found[:n], ours[:n], atol=2e-3 if name == Ranx.name else 1e-9, rtol=0):
            sys.exit(f"{path.name}: {name} has {found}, the harness {ours}")


def measure() -> dict[str, tuple[float, float]]:
    """Side -> CPU seconds of reading and of scoring, over all runs; medians of the rounds."""
    runs = files()
    sides: dict[tuple[str, str], list[Any]] = {}
    for _, collection, edition in runs:
        if (collection, edition) not in sides:
            qrels = load_collection(collection).qrels(edition)
            sides[collection, edition] = [side(qrels, collection, edition) for side in SIDES]
    for path, collection, edition in runs[:1]:  # warm: compiled, imported, in the page cache
        for side in sides[collection, edition]:
            side.score(side.read(path))
    rounds = []
    for _ in range(ROUNDS):
        spent = {side.name: [0.0, 0.0] for side in next(iter(sides.values()))}
        for path, collection, edition in runs:
            values = {}
            for side in sides[collection, edition]:
                gc.collect()
                start = time.process_time()
                run = side.read(path)
                middle = time.process_time()
                values[side.name] = side.score(run)
                spent[side.name][0] += middle - start
                spent[side.name][1] += time.process_time() - middle
                del run
            check(path, values)
        rounds.append(spent)
    return {name: (median(r[name][0] for r in rounds), median(r[name][1] for r in rounds)) for name in rounds[0]}


def peak() -> float:
    """MiB of memory that a process needs at most which only scores the 60 runs with the harness."""
    code = "import bench.scoring as b; b.ours_alone()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def ours_alone() -> None:
    """Score all runs with the harness and print the peak of resident memory in MiB (Linux)."""
    scorers: dict[tuple[str, str], Harness] = {}
    for path, collection, edition in files():
        if (collection, edition) not in scorers:
            scorers[collection, edition] = Harness(load_collection(collection).qrels(edition), collection, edition)
        side = scorers[collection, edition]
        side.score(side.read(path))
    print(own_peak() / 2**20)


def ratios(spent: Mapping[str, tuple[float, float]]) -> Iterator[Ratio]:
    """The ratios of the harness to each other side."""
    ours = spent[Harness.name]
    for peer, theirs in spent.items():
        if peer == Harness.name:
            continue
        goal = 5.0 if peer.startswith("pytrec") else None
        yield Ratio(f"read, check and score 60 runs, beside {peer}", sum(ours), sum(theirs), peer, goal)
        yield Ratio(f"score 60 runs, beside {peer}", ours[1], theirs[1], peer)


def main() -> None:
    """Print the table."""
    chosen = options(__doc__, ratios=True).parse_args()
    spent = measure()
    base_total = sum(spent[Harness.name])
    base_score = spent[Harness.name][1]
    if chosen.json is not None:
        save(chosen.json, ratios(spent), ("pytrec-eval-terrier", "ranx"))
    rows = [("side", "read, s", "score, s", "end to end, s", "harness / side", "from parsed input")]
    for name, (read, score) in spent.items():
        shown = (f"{base_total / (read + score):.2f}", f"{base_score / score:.2f}")
        rows.append((name, f"{read:.2f}", f"{score:.2f}", f"{read + score:.2f}", *shown))
    show(rows, chosen.markdown)
    system = f"Python {platform.python_version()}, {platform.machine()}"
    print(f"\n60 runs; CPU seconds, medians of {ROUNDS} rounds; {system}")
    print(f"peak memory of the harness alone: {peak():.0f} MiB")


if __name__ == "__main__":
    main()

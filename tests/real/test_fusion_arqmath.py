"""Fusion of the nine ARQMath-1 runs that are public, over the 77 topics of the official edition.

Most of the files hold judged answers only, one is itself an RRF of other runs, one a manual baseline: what is found
here holds for these files and shows nothing about fusion in general.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
import pytrec_eval

from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.trec import Run, read_run
from harness.io import config
from harness.scoring.scorer import Scorer
from harness.sources import catalogue
from harness.systems.fusion import candidates, methods
from harness.systems.fusion.candidates import align_results, fuse, to_run

pytestmark = pytest.mark.real
MEASURES = ("nDCG", "AP", "P@10")
# nDCG', MAP', P'@10 over all 77 topics.
GOLDEN: Mapping[str, tuple[candidates.Score, tuple[float, ...]]] = {
    "rrf": (methods.rrf, (0.5666, 0.2006, 0.2260)),
    "rrf 180": (partial(methods.rrf, k=180), (0.5584, 0.1928, 0.2286)),
    "ibc": (methods.ibc, (0.4765, 0.1513, 0.2130)),
    "rank-biased centroids": (methods.rank_biased_centroids, (0.5600, 0.1863, 0.1844)),
    "combsum": (methods.combsum, (0.4963, 0.1536, 0.1740)),
    "combmnz": (methods.combmnz, (0.5181, 0.1762, 0.2091)),
}


@pytest.fixture(scope="module")
def paths(mirror: Path) -> list[Path]:
    source, where = config.load("source", "arqmath-psu")
    return [local(catalogue.resource({"source": "arqmath-psu", "path": path}, where)) for path in source["files"]]


@pytest.fixture(scope="module")
def runs(paths: Sequence[Path]) -> list[Run]:
    return [read_run(path) for path in paths]


@pytest.fixture(scope="module")
def scorer(mirror: Path) -> Scorer:
    return load_collection("arqmath-1-task1").scorer(measures=MEASURES)


@pytest.mark.slow
def test_all_methods_over_77_topics(runs: Sequence[Run], scorer: Scorer) -> None:
    candidates = align_results(runs)
    for name, (method, expected) in GOLDEN.items():
        scores = scorer(to_run(candidates, method(candidates), "x"))
        assert len(scores.topics) == 77
        assert scores.counts["topics missing"] == 0
        assert tuple(round(scores.mean(measure), 4) for measure in MEASURES) == expected, name


def whole(docs: Mapping[str, float]) -> dict[str, int]:
    """The first 1,000 documents with whole numbers for scores, which trec_eval's 32-bit floats keep apart."""
    rounded = {doc: round(score, 12) for doc, score in docs.items()}  # the last bits depend on the order of sums
    number = {score: n for n, score in enumerate(sorted(set(rounded.values())))}
    order = sorted(rounded, key=lambda doc: (rounded[doc], doc.encode()), reverse=True)
    return {doc: number[rounded[doc]] for doc in order[:1000]}


@pytest.mark.slow
def test_rrf_is_what_plain_python_and_trec_eval_make_of_it(runs: Sequence[Run], scorer: Scorer) -> None:
    fused: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for run in runs:
        for topic, docs in run.to_dict().items():
            order = sorted(docs, key=lambda doc: (docs[doc], doc.encode()), reverse=True)
            for rank, doc in enumerate(order[:1000], 1):
                fused[topic][doc] += 1 / (60 + rank)
    ours = fuse(runs, methods.rrf, "x")
    qrels = scorer.qrels.to_dict()
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, {"ndcg", "map", "P_10"}, relevance_level=2, judged_docs_only_flag=True
    )
    reference = evaluator.evaluate({topic: whole(docs) for topic, docs in fused.items()})
    scores = scorer(ours)
    for measure, theirs in zip(MEASURES, ("ndcg", "map", "P_10"), strict=True):
        mean = sum(reference.get(topic, {}).get(theirs, 0.0) for topic in qrels) / 77
        assert scores.mean(measure) == pytest.approx(mean, abs=1e-9)

"""Agreement with trec_eval (through pytrec_eval) topic by topic, on every real run there is.

The runs are read here by a reader of its own, so that a fault of ours cannot hide on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import pytrec_eval

from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.trec import read_run
from harness.io import config
from harness.papers.paper import load_paper
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Scorer
from harness.sources import catalogue
from harness.sources.fetch import fetch_resources
from harness.sources.resource import Resource

pytestmark = pytest.mark.real
REFERENCE = {"nDCG": "ndcg", "nDCG@10": "ndcg_cut_10", "AP": "map", "P@10": "P_10", "Bpref": "bpref"}
REFERENCE |= {"RR": "recip_rank", "R@10": "recall_10", "RelRet": "num_rel_ret"}
CLOSE = 1e-9
COLLECTIONS = {"arqmath-1": "official", "arqmath-2": "all", "arqmath-3": "official"}
ARCHIVED = [(run.collection, run.name) for run in load_paper("crossmath").runs]
SUBMITTED = sorted(config.load("source", "arqmath-psu")[0]["files"])
Run = dict[str, dict[str, float]]


@pytest.fixture(scope="module", autouse=True)
def _files(mirror: Path) -> None:
    """All files at once: each archive is unpacked only once."""
    fetch_resources(load_paper("crossmath").files())
    fetch_resources(resource for path in SUBMITTED if isinstance(resource := _submitted(path), Resource))


def _submitted(path: str) -> Resource | Path:
    return catalogue.resource({"source": "arqmath-psu", "path": path}, "test")


def read(path: Path) -> Run:
    """topic -> document -> score of a run of five or six columns."""
    out: Run = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            fields = line.split()
            if fields:
                out.setdefault(fields[0], {})[fields[-5 + len(fields) // 6]] = float(fields[-2])
    return out


@cache
def judgments(collection: str) -> dict[str, dict[str, int]]:
    edition = load_collection(f"{collection}-task1").edition(COLLECTIONS[collection])
    out: dict[str, dict[str, int]] = {}
    with local(edition.file).open(encoding="utf-8") as lines:
        for line in lines:
            topic, _, doc, grade = line.split()
            out.setdefault(topic, {})[doc] = int(grade)
    return out


@cache
def scorer(collection: str, prime: bool) -> Scorer:
    qrels = load_collection(f"{collection}-task1").qrels(COLLECTIONS[collection])
    return Scorer(qrels, Protocol("oracle", tuple(REFERENCE), depth=None, prime=prime, relevant_from=2))


@cache
def evaluator(collection: str, prime: bool) -> pytrec_eval.RelevanceEvaluator:
    names = set(REFERENCE.values())
    return pytrec_eval.RelevanceEvaluator(judgments(collection), names, relevance_level=2, judged_docs_only_flag=prime)


@cache
def shifted(collection: str) -> pytrec_eval.RelevanceEvaluator:
    """Judgments as CrossMath had them for nDCG: every grade one lower, not below 0."""
    lower = {t: {doc: max(0, grade - 1) for doc, grade in docs.items()} for t, docs in judgments(collection).items()}
    return pytrec_eval.RelevanceEvaluator(lower, {"ndcg_cut_10"}, judged_docs_only_flag=True)


def disagreements(path: Path, run: Run, collection: str, prime: bool) -> Iterator[str]:
    """Where our scores and the reference's are not the same."""
    scores = scorer(collection, prime)(read_run(path))
    reference: dict[str, dict[str, float]] = evaluator(collection, prime).evaluate(run)
    assert reference.keys() <= set(scores.topics)
    assert set(scores.topics) == judgments(collection).keys()
    for topic, row in zip(scores.topics, scores.values.tolist(), strict=True):
        for (ours, theirs), value in zip(REFERENCE.items(), row, strict=True):
            expected = reference.get(topic, {}).get(theirs, 0.0)  # a topic that is not answered counts 0
            if not abs(value - expected) <= CLOSE:
                yield f"{topic} {ours}: {value!r}, reference {expected!r}"


def archived(collection: str, name: str) -> Path:
    runs = load_paper("crossmath").runs
    return local(next(run.file for run in runs if (run.collection, run.name) == (collection, name)))


@pytest.mark.slow
def test_there_are_sixty_and_nine_runs() -> None:
    assert len(ARCHIVED) == 60
    assert len(SUBMITTED) == 9


@pytest.mark.parametrize(("collection", "name"), ARCHIVED)
def test_crossmath_runs(collection: str, name: str) -> None:
    path = archived(collection, name)
    run = read(path)
    for prime in (True, False):
        assert list(disagreements(path, run, collection, prime)) == []


@pytest.mark.parametrize("path", SUBMITTED)
def test_arqmath_runs(path: str) -> None:
    file = local(_submitted(path))
    run = read(file)
    for prime in (True, False):
        assert list(disagreements(file, run, "arqmath-1", prime)) == []


@pytest.mark.parametrize(("collection", "name"), ARCHIVED[::7])
def test_shifted_gains(collection: str, name: str) -> None:
    """CrossMath's gains 0, 0, 1, 2 are what trec_eval gives with grades lowered by one."""
    path = archived(collection, name)
    ours = load_collection(f"{collection}-task1").scorer(COLLECTIONS[collection], "crossmath")(read_run(path))
    reference = shifted(collection).evaluate(read(path))
    for topic, value in zip(ours.topics, ours.column("nDCG@10").tolist(), strict=True):
        assert value == pytest.approx(reference.get(topic, {}).get("ndcg_cut_10", 0.0), abs=CLOSE)

"""Producers leave excluded documents out before they cut their rankings; what they leave in is taken out, and said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import harness
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.produce import make
from harness.experiments.task import Task
from harness.scoring.protocol import Exclusions
from harness.scoring.scorer import Scorer
from harness.store.sidecar import sidecar_path
from harness.systems.base import Request
from harness.systems.dense.maxsim import stack
from harness.systems.dense.search import nearest
from harness.systems.ranking import permitted


def tasks() -> tuple[Task, Task, Exclusions]:
    """The embedded collection, and the same with the first half of each topic's documents by BM25 excluded."""
    whole = harness.task("mini-task1", "mini-answers")
    run = harness.read_run("runs/mini/mini-task1/overlap.run")
    listed = {topic: frozenset(list(docs)[::2][:6]) for topic, docs in run.to_dict().items()}
    given = Exclusions(("listed",), listed)
    how = replace(whole.scorer.protocol, deduplicate=False, exclude=("listed",))
    scorer = Scorer(whole.scorer.qrels, how, collection="mini-task1", exclusions=given)
    return whole, replace(whole, scorer=scorer), given


@pytest.mark.slow
@pytest.mark.parametrize("system", ["bm25", "overlap", "shuffle"])
def test_a_run_has_its_depth_of_documents_that_count(system: str, tmp_path: Path) -> None:
    whole, task, given = tasks()
    full = harness.produce(harness.load_system(system, depth=1000, name="all"), whole, runs=tmp_path).to_dict()
    made = make(harness.load_system(system, depth=4, name="cut"), task, runs=tmp_path)
    for topic, docs in full.items():
        left = {doc: score for doc, score in docs.items() if doc not in given.listed.get(topic, ())}
        assert made.run.to_dict().get(topic, {}) == dict(list(left.items())[:4])
    noted = yaml.safe_load(sidecar_path(made.path).read_text())["harness"]["excluded"]
    assert (noted["rules"], noted["results left out after the depth cut"]) == (["listed"], 0)
    assert make(harness.load_system(system, depth=4, name="cut"), task, runs=tmp_path).reused
    assert not make(harness.load_system(system, depth=4, name="cut"), whole, runs=tmp_path).reused


def test_what_a_system_leaves_in_is_taken_out_and_said(tmp_path: Path) -> None:
    _, task, given = tasks()
    topic = next(topic for topic in task.topics if given.listed[topic.id])
    out = min(given.listed[topic.id])

    def careless(request: Request) -> Run:
        return Run.from_dict("careless", {topic.id: {out: 2.0, "another": 1.0}})

    said: list[str] = []
    made = make(careless, task, runs=tmp_path, say=said.append)
    assert list(made.run.to_dict()[topic.id]) == ["another"]
    assert any("1 of 2 results are excluded and were removed" in line for line in said)
    noted = yaml.safe_load(sidecar_path(made.path).read_text())["harness"]["excluded"]
    assert noted["results left out after the depth cut"] == 1
    with pytest.raises(HarnessError, match=r"all of its results are excluded \(listed\)"):
        make(lambda request: Run.from_dict("none", {topic.id: {out: 2.0}}), task, runs=tmp_path)


def test_run_files_that_are_fused_or_re_ranked_are_cut_first() -> None:
    _, task, given = tasks()
    topic, docs = next((topic, docs) for topic, docs in given.listed.items() if docs)
    run = Run.from_dict("r", {topic: {min(docs): 2.0, "other": 1.0}})
    request = Request(task.topics, task.corpus, Path(), excluded=given)
    assert permitted(run, request).to_dict() == {topic: {"other": 1.0}}
    assert permitted(run, replace(request, pool={topic: frozenset()})).to_dict() == {topic: {}}
    assert permitted(run, replace(request, excluded=None)) is run


def test_the_nearest_documents_are_those_of_all_scores_without_what_is_out() -> None:
    rng = np.random.default_rng(3)
    for count in (12, 700):
        vectors = rng.normal(size=(count, 8)).astype(np.float32).round(1)
        queries = rng.normal(size=(5, 8)).astype(np.float32)
        documents = stack([(f"d{n:04d}", vector[None], 0) for n, vector in enumerate(vectors)])
        out = rng.random((5, count)) < 0.7
        out[4] = True
        every = nearest(queries, [documents], k=count)
        found = nearest(queries, [documents], k=9, out=out.__getitem__)
        rows = np.arange(0, count, 2)
        some = nearest(queries, [documents], k=9, rows=rows, out=out.__getitem__)
        for number in range(5):
            left = [row for row in every[number].rows.tolist() if not out[number, row]]
            assert found[number].rows.tolist() == left[:9]
            assert some[number].rows.tolist() == [row for row in left if row % 2 == 0][:9]

"""Runs on several collections: whose topic a result answers, means over all topics, and tests by stratum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import harness as h
from harness.experiments.evaluation import heterogeneity
from harness.experiments.task import Task
from harness.scoring.random_effects import stratified_test

NAMES = ("mini-task1", "mini-theorems")


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [h.task(name, protocol="trec_eval", measures=["AP", "P@5"]) for name in NAMES]


def noisy(task: Task, quality: float, seed: int) -> dict[str, dict[str, float]]:
    random = np.random.default_rng(seed)
    judged = task.scorer.qrels.to_dict()
    return {t: {doc: quality * grade + random.random() for doc, grade in docs.items()} for t, docs in judged.items()}


@pytest.fixture(scope="module")
def runs(tasks: list[Task]) -> list[h.Run]:
    made = {name: (noisy(tasks[0], q, 1), noisy(tasks[1], q, 2)) for name, q in (("good", 0.6), ("bad", 0.1))}
    return [h.Run.from_dict(name, one | other) for name, (one, other) in made.items()]


def write(path: Path, run: h.Run, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{t} Q0 {doc} 1 {score!r} {name}\n" for t, docs in run.to_dict().items() for doc, score in docs.items())
    path.write_text("".join(lines))
    return path


def test_means_are_those_of_each_collection_and_of_all_topics(tasks: list[Task], runs: list[h.Run]) -> None:
    found = h.evaluate(tasks, *runs)
    values = []
    for task, own in zip(tasks, found.of("good"), strict=True):
        alone = h.Run.from_dict("good", {t: d for t, d in runs[0].to_dict().items() if t in task.scorer.qrels.topics})
        expected = task.scorer(alone)
        assert own is not None
        assert own.values.tolist() == expected.values.tolist()
        values += expected.column("AP").tolist()
    assert found.scores[0].aggregate("AP") == pytest.approx(np.mean(values))
    assert found.frame().groupby("collection")["query_id"].nunique().to_dict() == {
        "mini-task1": 42,
        "mini-theorems": 40,
    }


def test_differences_are_tested_by_stratum(runs: list[h.Run]) -> None:
    tasks = [h.task(name, protocol="trec_eval", measures=["AP"]) for name in NAMES]
    found = h.evaluate(tasks, *runs)
    comparison = h.compare(found)
    [row] = comparison.rows
    [agree] = heterogeneity(found, comparison)
    sides = zip(found.of("good"), found.of("bad"), strict=True)
    apart = [a.column("AP") - b.column("AP") for a, b in sides if a is not None and b is not None]
    units = [list((task.collection.clusters() or {t: t for t in task.scorer.qrels.topics}).values()) for task in tasks]
    numbers = {name: [sorted(set(of)).index(each) for each in of] for name, of in zip(NAMES, units, strict=True)}
    expected = stratified_test("good", "bad", "AP", dict(zip(NAMES, apart, strict=True)), clusters=numbers)
    assert row.difference == pytest.approx(np.concatenate(apart).mean())
    assert [row.p, row.ci_low] == pytest.approx([expected.fixed.p, expected.fixed.low])
    assert agree.q == pytest.approx(expected.q)
    assert "the t-test is stratified by 2 collections" in comparison.correction
    assert row.n == 52  # 42 topics and 10 groups, which beside 82 topics is said
    assert comparison.correction.endswith("n counts by group and each topic of mini-task1")


def test_files_of_one_name_are_one_run_and_others_are_named_by_their_files(
    tasks: list[Task], runs: list[h.Run], tmp_path: Path
) -> None:
    """Runs of the harness have the system's name as their tag, in a folder of each collection."""
    parts = [{t: d for t, d in runs[0].to_dict().items() if t in task.scorer.qrels.topics} for task in tasks]
    paths = [
        write(tmp_path / name / "bm25.run", h.Run.from_dict("bm25", part), "bm25")
        for name, part in zip(NAMES, parts, strict=True)
    ]
    found = h.evaluate(tasks, *paths)
    assert (found.runs, len(found.scores)) == (("bm25",), 1)
    other = write(tmp_path / "other.run", runs[1], "bm25")
    assert h.evaluate(tasks, paths[0], paths[1], other).runs == ("bm25", "other")


def test_a_run_without_a_collection_has_no_mean_over_all_topics(tasks: list[Task], runs: list[h.Run]) -> None:
    part = h.Run.from_dict("part", {"M.1": {"a1088": 1.0}})
    found = h.evaluate(tasks, runs[0], part)
    assert [scores is None for scores in found.of("part")] == [False, True]
    assert [scores.run for scores in found.scores] == ["good"]
    with pytest.raises(h.HarnessError, match="expected two or more runs with results for each of mini-task1"):
        h.compare(found)


def test_what_cannot_be_assigned_is_said(tasks: list[Task], runs: list[h.Run], tmp_path: Path) -> None:
    strange = h.Run.from_dict("x", {"Z.9": {"d": 1.0}})
    for given, said in (
        ([strange], "x: topic 'Z.9' is not among the topics of mini-task1, mini-theorems"),
        ([runs[0], runs[0]], "good: two runs of one name answer the same collection; name each, as NAME=FILE"),
        (
            [write(tmp_path / "mini-theorems" / "a.run", h.Run.from_dict("a", {"M.1": {"d": 1.0}}), "a")],
            "topic 'M.1' is not among the topics of mini-theorems",
        ),
    ):
        with pytest.raises(h.HarnessError) as raised:
            h.evaluate(tasks, *given)
        assert said in str(raised.value)
    with pytest.raises(h.HarnessError, match="two or more collections, each once; found mini-task1"):
        h.evaluate([tasks[0], tasks[0]], runs[0])
    other = [tasks[0], h.task("mini-theorems", protocol="arqmath-task1", measures=["AP"])]
    with pytest.raises(h.HarnessError, match="protocols trec_eval and arqmath-task1, which differ"):
        h.evaluate(other, *runs)


def test_topics_that_two_collections_share_stay_apart(tasks: list[Task], tmp_path: Path) -> None:
    twin = h.task("mini-task1", protocol="trec_eval", measures=["AP", "P@5"])
    object.__setattr__(twin.collection, "name", "twin")
    shared = h.Run.from_dict("a", {"M.1": {"a1088": 1.0}})
    with pytest.raises(h.HarnessError, match=r"topic 'M\.1' is in mini-task1 and in twin; put the run file into"):
        h.evaluate([tasks[0], twin], shared)
    paths = [write(tmp_path / name / "a.run", shared, "a") for name in ("mini-task1", "twin")]
    [scores] = h.evaluate([tasks[0], twin], *paths).scores
    assert len(scores.topics) == 84

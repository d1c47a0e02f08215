from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
from refusals import refusal
from scoring_tools import ALL, PLAIN, expected, one, random_case, random_protocol, random_ranking, ranking_of, run_of

from harness.data import columns, trec
from harness.data.columns import Ids, Index, Words
from harness.data.trec import Qrels
from harness.io.kernels import VARIABLE
from harness.scoring.scorer import Scorer, score_run


@pytest.mark.slow
def test_scores_are_those_of_the_definitions_under_any_protocol() -> None:
    rng = random.Random(4)
    for _ in range(400):
        how = random_protocol(rng)
        rankings, judged, keys = random_case(rng, 8)
        scores = score_run(run_of(rankings, rng), Qrels.from_dict("e", judged), how, keys=keys)
        assert scores.topics == tuple(judged)
        for (row, topic), measure in product(enumerate(scores.topics), ALL):
            results = ranking_of(rankings.get(topic, ()), how, keys)
            wanted = expected(results, judged[topic], how, measure)
            if how.topics == "answered" and topic not in rankings:
                wanted = math.nan
            if how.no_relevant == "skip" and not measure.startswith(("Judged", "RelRet")):
                assert how.gains != "exponential"
                gains = [dict(how.gains).get(grade, grade) for grade in judged[topic].values()]
                good = max(gains) > 0 if "nDCG" in measure else max(judged[topic].values()) >= how.relevant_from
                wanted = wanted if good else math.nan
            found = scores.column(measure)[row]
            assert found == pytest.approx(wanted, abs=1e-12, nan_ok=True), (topic, measure, how, rankings, judged)


# The order of operations. Each case would come out as `otherwise` if the two steps changed places.


@pytest.mark.parametrize(
    ("lines", "judged", "changes", "measure", "value"),
    [
        # Sort, then cut at the depth: the best result stands last in the file (else 0).
        ("n:1 x:2 r:3", {"r": 1, "n": 0}, {"depth": 1}, "AP", 1.0),
        # Cut at the depth, then drop unjudged documents: the relevant one is third, first of the judged (else 1).
        ("u:3 x:2 r:1", {"r": 1}, {"depth": 2, "prime": True}, "AP", 0.0),
        ("u:3 x:2 r:1", {"r": 1}, {"depth": 3, "prime": True}, "AP", 1.0),
        # Cut at the depth, then de-duplicate: two formulas of one key fill a depth of 2 (else 1/2).
        ("f1:3 f2:2 f3:1", {"w": 1, "v": 0}, {"depth": 2, "deduplicate": True}, "AP", 0.0),
        # De-duplicate, then cut at k: w is the second key, the third formula (else 0).
        ("f1:3 f2:2 f3:1", {"w": 1, "v": 0}, {"deduplicate": True}, "P@2", 1 / 2),
        # The first result of a key is kept, not the last: v, w, v is v, w (else 1/2).
        ("f1:3 f3:2 f2:1", {"v": 1, "w": 0}, {"deduplicate": True}, "RR", 1.0),
        # De-duplicate, then drop unjudged documents. Judged@k stands between the two, at v (unjudged), w: before both
        # it were 0, after both 1.
        ("f1:3 f2:2 f3:1", {"w": 1}, {"deduplicate": True, "prime": True}, "Judged@2", 1 / 2),
        ("f1:3 f2:2 f3:1", {"w": 1}, {"deduplicate": True, "prime": True}, "RR", 1.0),
        # Drop unjudged documents, then cut at k (else 0).
        ("u:3 x:2 r:1", {"r": 1}, {"prime": True}, "P@1", 1.0),
        ("u:3 x:2 r:1", {"r": 1}, {"prime": True}, "nDCG@1", 1.0),
        # The ideal of the retrieved: those within the depth, before the cut at k (else 1/3, 1).
        ("b:3 a:2 z:1", {"a": 2, "b": 1, "z": 3}, {"depth": 2, "ideal": "retrieved"}, "nDCG@1", 1 / 2),
        ("b:3 a:2 z:1", {"a": 2, "b": 1, "z": 3}, {"depth": 2, "ideal": "judged"}, "nDCG@1", 1 / 3),
    ],
)
def test_the_order_of_operations_is_fixed(
    lines: str, judged: dict[str, float], changes: dict[str, Any], measure: str, value: float
) -> None:
    found = one(lines, judged, replace(PLAIN, **changes), {"f1": "v", "f2": "v", "f3": "w"}).column(measure)
    assert found.tolist() == [pytest.approx(value)]


# Topics.

TOPICS = {"a": {"x": 1.0, "y": 0.0}, "missing": {"x": 1.0}, "none relevant": {"x": 0.0}, "b": {"x": 2.0, "y": 1.0}}
JUDGMENTS = {topic.replace(" ", "-"): judged for topic, judged in TOPICS.items()}
ANSWERS = {"b": [("y", 1.0)], "none-relevant": [("x", 1.0)], "not-judged": [("x", 3.0)], "a": [("y", 2.0), ("x", 1.0)]}


@pytest.mark.parametrize(
    ("topics", "no_relevant", "measure", "values"),
    [
        ("all", "zero", "RR", [1 / 2, 0, 0, 1]),
        ("answered", "zero", "RR", [1 / 2, math.nan, 0, 1]),
        ("all", "skip", "RR", [1 / 2, 0, math.nan, 1]),
        ("answered", "skip", "RR", [1 / 2, math.nan, math.nan, 1]),
        ("all", "skip", "RelRet", [1, 0, 0, 1]),
        ("answered", "skip", "RelRet", [1, math.nan, 0, 1]),
        ("all", "zero", "Judged@5", [1, math.nan, 1, 1]),
        ("answered", "skip", "nDCG@1", [0, math.nan, math.nan, 1 / 2]),
        ("all", "skip", "nDCG@1", [0, 0, math.nan, 1 / 2]),
    ],
)
def test_topics_that_are_missing_or_have_no_relevant_documents(
    topics: Literal["all", "answered"], no_relevant: Literal["zero", "skip"], measure: str, values: list[float]
) -> None:
    how = replace(PLAIN, topics=topics, no_relevant=no_relevant)
    scores = score_run(run_of(ANSWERS), Qrels.from_dict("e", JUDGMENTS), how)
    assert scores.topics == ("a", "missing", "none-relevant", "b")
    np.testing.assert_allclose(scores.column(measure), values, rtol=1e-15)
    counted = [value for value in values if not math.isnan(value)]
    assert scores.n(measure) == len(counted)
    assert scores.mean(measure) == pytest.approx(sum(counted) / len(counted))


def test_skip_looks_at_gains_for_ndcg_and_at_the_threshold_for_the_others() -> None:
    how = replace(PLAIN, no_relevant="skip", relevant_from=2.0, gains=((2.0, 0.0),))
    scores = score_run(
        run_of({"1": [("x", 1.0)], "2": [("x", 1.0)]}), Qrels.from_dict("e", {"1": {"x": 1}, "2": {"x": 2}}), how
    )
    np.testing.assert_array_equal(scores.column("nDCG"), [1, math.nan])
    np.testing.assert_array_equal(scores.column("AP"), [math.nan, 1])


def test_counts_tell_what_was_seen_on_the_way() -> None:
    rankings = {
        "1": [("f1", 3.0), ("f2", 3.0), ("f3", 3.0), ("f4", 1.0), ("f5", 0.5)],
        "2": [("f1", 1.0), ("w", 0.5)],
        "not-judged": [("f1", 1.0), ("f2", 1.0)],
    }
    qrels = Qrels.from_dict("e", {"1": {"v": 1, "f4": 0}, "2": {"w": 1}, "missing": {"v": 1}})
    keys = {"f1": "v", "f2": "v", "f3": "w"}
    seen = {
        "results": 9,
        "topics answered": 2,
        "topics missing": 1,
        "topics without judgments": 1,
        "tied results": 3,
        "results beyond the depth": 1,
        "topics without relevant documents": 0,
    }
    mapped = {"duplicates removed": 1, "documents without a key": 2, "results without judgment": 4}
    how = replace(PLAIN, depth=4, prime=True, deduplicate=True)
    assert score_run(run_of(rankings), qrels, how, keys=keys).counts == seen | mapped
    plain = score_run(run_of(rankings), qrels, replace(how, deduplicate=False), keys=keys)
    assert plain.counts == seen | {"results without judgment": 4}
    del seen["results beyond the depth"]
    assert score_run(run_of(rankings), qrels, PLAIN).counts == seen | {"results without judgment": 5}


def test_a_run_without_any_judged_topic_is_an_error() -> None:
    assert (
        refusal(score_run, run_of({"7": [("x", 1.0)]}), Qrels.from_dict("e", JUDGMENTS), PLAIN)
        == "run r: none of its topics (7, ...) is judged (a, missing, none-relevant, ...)"
    )


def test_scores_carry_what_they_were_made_from() -> None:
    run, qrels = run_of(ANSWERS), Qrels.from_dict("official", JUDGMENTS)
    scores = Scorer(qrels, PLAIN, collection="c", measures=("AP", "P@5"))(run)
    assert (scores.run, scores.collection, scores.edition, scores.protocol) == ("r", "c", "official", PLAIN)
    assert (scores.measures, scores.values.shape) == (("AP", "P@5"), (4, 2))
    assert (scores.run_sha256, scores.qrels_sha256) == (run.sha256, qrels.sha256)
    assert len(run.sha256) == len(qrels.sha256) == 64


def test_one_scorer_scores_many_runs_and_keeps_nothing_of_them() -> None:
    rng = random.Random(6)
    _, judged, keys = random_case(rng, 8)
    how = replace(PLAIN, prime=True, deduplicate=True, ideal="retrieved")
    scorer = Scorer(Qrels.from_dict("e", judged), how, keys=keys)
    runs = [run_of({topic: random_ranking(rng, ["d", "d1", "é", "x"], 4) for topic in judged}) for _ in range(6)]
    for run in (*runs, *runs):
        np.testing.assert_array_equal(scorer(run).values, score_run(run, scorer.qrels, how, keys=keys).values)


# The hash table.


def _same_hash(values: Words, topic: Index) -> Words:
    return np.zeros(len(topic), dtype=np.uint64)


def _one_key(topics: Sequence[str], topic: Index, doc: Ids) -> Words:
    return np.zeros(len(topic), dtype=np.uint64)


def _last_key(topics: Sequence[str], topic: Index, doc: Ids) -> Words:
    """Keys whose slots are at the end of the table."""
    return np.full(len(topic), 2**64 - 1, dtype=np.uint64)


@pytest.mark.parametrize(
    ("where", "name", "collide"),
    [(columns, "hashes", _same_hash), (trec, "pair_hashes", _one_key), (trec, "pair_hashes", _last_key)],
)
@pytest.mark.parametrize("kernels", ["on", "off"])
def test_colliding_hashes_change_nothing(
    monkeypatch: pytest.MonkeyPatch, kernels: str, where: object, name: str, collide: object
) -> None:
    rng = random.Random(7)
    topics = ("1", "2", "a-topic-of-more-than-one-word")
    pool = [f"{prefix}{i}" for prefix in ("", "a-prefix-of-eight-or-more-", "é") for i in range(25)]
    judged = {topic: {doc: float(rng.randint(0, 3)) for doc in rng.sample(pool, 40)} for topic in topics}
    rankings = {topic: [(doc, rng.random()) for doc in rng.sample(pool, 60)] for topic in topics}
    wanted = score_run(run_of(rankings), Qrels.from_dict("e", judged), PLAIN)
    monkeypatch.setattr(where, name, collide)
    monkeypatch.setenv(VARIABLE, kernels)
    found = score_run(run_of(rankings), Qrels.from_dict("e", judged), PLAIN)
    np.testing.assert_array_equal(found.values, wanted.values)
    assert found.counts == wanted.counts
    assert 0 < wanted.counts["results without judgment"] < 180

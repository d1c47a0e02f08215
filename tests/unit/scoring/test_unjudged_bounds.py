"""Bounds over unjudged documents: against all assignments of small cases, and what a protocol leaves open."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Scorer
from harness.scoring.unjudged import UnjudgedBounds

MEASURES = ("nDCG", "nDCG@3", "AP", "AP@3", "P@3", "R@3", "RR", "Success@2", "RelRet", "RelRet@3", "GMAP")
PROTOCOL = Protocol("p", MEASURES)
DOCS = [f"d{n}" for n in range(8)]


def case(seed: int) -> tuple[dict[str, dict[str, int]], list[Run]]:
    """Judgments of two topics, one of which a run may miss, and two runs whose results are partly not judged."""
    random = np.random.default_rng(seed)
    judged = {
        topic: {doc: int(random.integers(0, 4)) for doc in random.choice(DOCS, 4, replace=False)}
        for topic in ("s", "t")
    }
    judged["s"]["d0"] = 3  # the largest grade of all assignments
    runs = []
    for name in ("a", "b"):
        topics = ("s", "t") if random.random() < 0.8 else ("s",)
        runs.append(
            Run.from_dict(
                name,
                {t: {doc: float(-n) for n, doc in enumerate(random.choice(DOCS, 6, replace=False))} for t in topics},
            )
        )
    return judged, runs


@pytest.mark.parametrize("seed", range(12))
def test_bounds_are_those_of_all_assignments(seed: int) -> None:
    judged, runs = case(seed)
    scorer = Scorer(Qrels.from_dict("e", judged), PROTOCOL)
    found = UnjudgedBounds(scorer, runs, [scorer(run) for run in runs])
    assert found.unknown == []
    by_topic: dict[str, list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]] = {"s": [], "t": []}
    for at, topic in enumerate(by_topic):
        free = sorted({doc for run in runs for doc in run.to_dict().get(topic, {})} - judged[topic].keys())
        for grades in product((0, 3), repeat=len(free)):
            assigned = {**judged, topic: {**judged[topic], **dict(zip(free, grades, strict=True))}}
            scores = Scorer(Qrels.from_dict("e", assigned), PROTOCOL)
            by_topic[topic].append(np.stack([scores(run).values[scores.qrels.topics.index(topic)] for run in runs]))
        del at
    values = {topic: np.stack(each) for topic, each in by_topic.items()}  # (assignments, runs, measures)
    means = {(each.run, each.measure): each for each in found.means()}
    for (r, run), (m, measure) in product(enumerate(runs), enumerate(MEASURES)):
        low, high = (sum(end(of[:, r, m]) for of in values.values()) / 2 for end in (np.min, np.max))
        mean = means[run.name, measure]
        ends = (
            (np.exp(low), np.exp(high))
            if measure == "GMAP"
            else (2 * low, 2 * high)
            if measure.startswith("RelRet")
            else (low, high)
        )
        assert (mean.low, mean.high) == pytest.approx(ends), measure
    for difference in found.differences([("a", "b")]):
        m = MEASURES.index(difference.measure)
        apart = {topic: of[:, 0, m] - of[:, 1, m] for topic, of in values.items()}
        low, high = (sum(end(of) for of in apart.values()) / 2 for end in (np.min, np.max))
        if difference.tight:
            assert (difference.low, difference.high) == pytest.approx((low, high))
        assert difference.low <= low + 1e-12 and difference.high >= high - 1e-12


def test_a_conclusion_that_stands_and_one_that_does_not() -> None:
    judged = {"t": {"a": 1, "b": 1, "c": 0, "e": 0}}
    scorer = Scorer(Qrels.from_dict("e", judged), Protocol("p", ("P@2",)))
    runs = [
        Run.from_dict(name, {"t": {x: 2.0, y: 1.0}})
        for name, x, y in (("good", "a", "b"), ("bad", "c", "e"), ("new", "x", "c"))
    ]
    found = UnjudgedBounds(scorer, runs, [scorer(run) for run in runs])
    differences = found.differences(list(combinations(("good", "bad", "new"), 2)))
    assert [(each.low, each.high, each.order) for each in differences] == [
        (1.0, 1.0, "a"),
        (0.5, 1.0, "a"),
        (-0.5, 0.0, "open"),
    ]
    assert found.judged_shares()["new"] == [(1.0, 0.0), (2.0, 0.5)]


def test_equal_runs_have_no_order_and_a_topic_that_may_begin_to_count_has_no_bounds() -> None:
    judged = {str(n): {f"{n}-{doc}": int(doc < "k") for doc in "abcdefghijklmnopqrst"} for n in range(3)}
    scorer = Scorer(Qrels.from_dict("e", judged), Protocol("p", ("P@10",)))
    runs = [
        Run.from_dict(
            name,
            {
                str(n): {f"{n}-{doc}": float(-at) for at, doc in enumerate("abcdefghij"[:of] + "klmnopqrst"[: 10 - of])}
                for n, of in enumerate(relevant)
            },
        )
        for name, relevant in (("a", (4, 5, 3)), ("b", (3, 3, 6)))
    ]
    (same,) = UnjudgedBounds(scorer, runs, [scorer(run) for run in runs]).differences([("a", "b")])
    assert same.order == "equal"
    assert [same.low, same.high] == pytest.approx([0.0, 0.0])
    run = Run.from_dict("r", {"s": {"a": 1.0}, "t": {"x": 1.0}})
    skipping = Protocol("p", ("AP",), no_relevant="skip")
    scorer = Scorer(Qrels.from_dict("e", {"s": {"a": 1}, "t": {"b": 0}}), skipping)
    with pytest.raises(HarnessError, match="topic t does not count for AP by protocol p, and may if"):
        UnjudgedBounds(scorer, [run], [scorer(run)])


def test_protocols_that_leave_nothing_open_are_refused() -> None:
    judged = Qrels.from_dict("e", {"t": {"a": 1}})
    run = Run.from_dict("r", {"t": {"a": 1.0}})
    for changes, said in (
        ({"prime": True}, "scores judged documents only"),
        ({"ideal": "retrieved"}, "of retrieved documents"),
    ):
        scorer = Scorer(judged, replace(PROTOCOL, **changes))
        with pytest.raises(HarnessError, match=said):
            UnjudgedBounds(scorer, [run], [scorer(run)])
    scorer = Scorer(judged, Protocol("p", ("Bpref", "AP", "Rprec")))
    assert UnjudgedBounds(scorer, [run], [scorer(run)]).unknown == ["Bpref", "Rprec"]

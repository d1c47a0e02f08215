"""Pools and the bias of pools, against plain loops over sets, and by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from refusals import refusal

from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.scoring.pools import Share, first_results, leave_one_team_out, pool, without
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Scorer

PLAIN = Protocol("plain", ("nDCG", "P@2"))
KEYED = Protocol("keyed", ("nDCG",), deduplicate=True)
Rankings = Mapping[str, Mapping[str, Sequence[str]]]


def run(name: str, rankings: Mapping[str, Sequence[str]]) -> Run:
    return Run.from_dict(name, {topic: {d: -float(i) for i, d in enumerate(docs)} for topic, docs in rankings.items()})


RUNS: Rankings = {
    "one": {"A.1": ["d1", "d2", "d3", "d4"], "A.2": ["d1"]},
    "two": {"A.1": ["d5", "d1", "d6"]},
    "three": {"A.1": ["d2", "d5", "d7"], "A.10": ["d9", "d8"]},
}


def test_by_hand() -> None:
    found = pool(RUNS, {"one": 3, "two": 1, "three": 2})
    sets = {topic: set(docs) for topic, docs in found.topics.items()}
    assert sets == {"A.1": {"d1", "d2", "d3", "d5"}, "A.2": {"d1"}, "A.10": {"d8", "d9"}}
    assert list(found.topics) == ["A.1", "A.10", "A.2"]
    assert (len(found), found.judged) == (7, 0)
    assert found.shares == (Share("one", 3, 4, 3), Share("two", 1, 1, 0), Share("three", 2, 4, 2))


def test_the_cap_keeps_the_best_ranks() -> None:
    # Of A.1: d5 and d1 and d2 stand first in some run, d2 also second; d1 in two runs, d5 in two, d2 in two; d3, d6, d7
    # stand third, d4 is beyond every depth.
    found = pool(RUNS, {"one": 3, "two": 3, "three": 3}, cap=3)
    assert set(found.topics["A.1"]) == {"d1", "d2", "d5"}
    assert (found.candidates["A.1"], found.candidates["A.2"]) == (6, 1)
    # Shares count what is left.
    assert [share.pooled for share in found.shares] == [3, 2, 4]
    # Of one rank, what more runs gave stays.
    more = pool({"a": {"t": ["x"]}, "b": {"t": ["y"]}, "c": {"t": ["y"]}}, {"a": 1, "b": 1, "c": 1}, cap=1)
    assert more.topics == {"t": ("y",)}
    assert [(share.pooled, share.alone) for share in more.shares] == [(0, 0), (1, 0), (1, 0)]


def test_what_is_judged_is_left_out() -> None:
    found = pool(RUNS, {"one": 3, "two": 3, "three": 3}, judged=[("A.1", "d1"), ("A.2", "d1"), ("A.2", "d7")])
    assert "d1" not in found.topics["A.1"]
    assert (found.topics["A.2"], found.judged) == ((), 2)


def random_runs(rng: random.Random) -> tuple[Rankings, dict[str, int]]:
    docs = [f"d{i}" for i in range(12)]
    runs = {
        f"run{i}": {f"A.{t}": rng.sample(docs, rng.randint(1, 9)) for t in rng.sample(range(1, 6), rng.randint(1, 5))}
        for i in range(rng.randint(1, 6))
    }
    return runs, {name: rng.randint(1, 6) for name in runs}


@pytest.mark.parametrize("case", range(30))
def test_a_pool_is_the_union_whatever_the_order_of_the_runs(case: int) -> None:
    rng = random.Random(case)
    runs, depths = random_runs(rng)
    expected: dict[str, set[str]] = {}
    for name, rankings in runs.items():
        for topic, docs in rankings.items():
            expected.setdefault(topic, set()).update(docs[: depths[name]])
    found = pool(runs, depths)
    assert {topic: set(docs) for topic, docs in found.topics.items()} == expected
    assert len(found) == sum(len(docs) for docs in expected.values())
    names = rng.sample(list(runs), len(runs))
    for cap in (None, 3):
        one, two = pool(runs, depths, cap=cap), pool({name: runs[name] for name in names}, depths, cap=cap)
        assert one.topics == two.topics
        assert set(one.shares) == set(two.shares)
        assert all(cap is None or len(docs) <= cap for docs in one.topics.values())


def test_the_order_tells_no_rank_and_depends_on_the_seed_alone() -> None:
    docs = [f"d{i}" for i in range(40)]
    runs = {"a": {"t": docs}}
    one, two = (pool(runs, {"a": 40}, seed=seed).topics["t"] for seed in (0, 1))
    assert sorted(one) == sorted(two) == sorted(docs)
    assert one != two
    # Another run, another depth: what is in both pools stands in the same order in both.
    deeper = pool({"a": {"t": docs[::-1]}, "b": {"t": ["x", *docs[:3]]}}, {"a": 20, "b": 2}).topics["t"]
    both = [doc for doc in one if doc in deeper]
    assert both == [doc for doc in deeper if doc in one]
    # Ranks and places are not correlated beyond chance (|r| < .31 for 40 at p = .05; the seeds are fixed).
    places = [[found.index(doc) for doc in docs] for found in (one, two)]
    assert all(abs(np.corrcoef(range(40), place)[0, 1]) < 0.31 for place in places)


def test_first_results_are_in_the_protocols_order() -> None:
    tied = Run.from_dict("r", {"t": {"a": 1.0, "c": 1.0, "b": 1.0, "z": 0.5}, "u": {"x": 1.0}})
    assert first_results(tied, PLAIN, None, 2) == ({"t": ("c", "b"), "u": ("x",)}, 0)
    in_file = Protocol("file", ("AP",), ties="file")
    assert first_results(tied, in_file, None, 2)[0]["t"] == ("a", "c")


def test_depth_counts_distinct_keys() -> None:
    keys = {"f1": "v1", "f2": "v1", "f3": "v2", "f4": "v3"}
    found, lacking = first_results(run("r", {"t": ["f1", "f2", "v9", "f3", "f4"]}), KEYED, keys, 2)
    assert (found, lacking) == ({"t": ("v1", "v2")}, 1)
    # A document without a key is none, even if its id is some key.
    assert first_results(run("r", {"t": ["v3", "f1"]}), KEYED, keys, 5) == ({"t": ("v1",)}, 1)
    assert first_results(run("r", {"t": ["v3"]}), KEYED, keys, 5) == ({}, 1)
    # Runs that name keys themselves.
    assert first_results(run("r", {"t": ["v3", "v1"]}), KEYED, None, 5) == ({"t": ("v3", "v1")}, 0)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (({}, {}), "there are no runs to pool"),
        ((RUNS, {"one": 1, "two": 0, "three": 1}), "run two: a pool depth of 0, expected 1 or more"),
    ],
)
def test_what_is_no_pool(arguments: tuple[Rankings, dict[str, int]], fault: str) -> None:
    assert refusal(pool, *arguments) == fault
    with pytest.raises(HarnessError, match="cap: 0 is less than 1"):
        pool(RUNS, {"one": 1, "two": 1, "three": 1}, cap=0)


# Leaving out a team

JUDGED = {"A.1": {"d1": 2, "d2": 0, "d3": 1, "d5": 1, "d7": 0}, "A.2": {"d1": 1, "d4": 1}, "A.3": {"d8": 1}}
DEEP = {"one": 3, "two": 3, "three": 3}


def test_bias_by_hand() -> None:
    runs = [
        run("one", {"A.1": ["d1", "d3"], "A.2": ["d1"]}),
        run("two", {"A.1": ["d1", "d5"], "A.3": ["d8"]}),
        run("three", {"A.1": ["d2", "d5"], "A.2": ["d4"]}),
    ]
    scorer = Scorer(Qrels.from_dict("e", JUDGED), Protocol("p", ("P@2", "Judged@2")))
    teams = {"one": "x", "two": "y", "three": "y"}
    x, y = leave_one_team_out(scorer, runs, DEEP, teams)
    # Team x alone brought d3 of A.1 and d1 of A.2; d1 of A.1 is of both, d7 of nobody.
    assert (x.team, x.judgments, x.relevant) == ("x", 2, 2)
    (loss,) = x.losses  # not of Judged@2, which says nothing of how good a run is
    assert (loss.run, loss.measure) == ("one", "P@2")
    assert loss.difference == pytest.approx((1 + 0.5) / 3 - 0.5 / 3)
    assert (loss.before, loss.after) == pytest.approx((0.5, 1 / 6))
    # P@2 before: one .5, two .5, three 1/3; without x's: one 1/6, two .5, three 1/3.
    assert (loss.rank_before, loss.rank_after) == (1, 3)
    # One pair tied before, one turned round, one told alike.
    assert x.tau == {"P@2": pytest.approx(0.0, abs=1e-12)}
    # Team y alone brought d2 and d5 of A.1, d4 of A.2, d8 of A.3.
    assert (y.team, y.judgments, y.relevant) == ("y", 4, 3)
    assert [(each.run, each.after) for each in y.losses] == [("two", pytest.approx(0.5 / 3)), ("three", 0.0)]


def reduced(judged: Mapping[str, Mapping[str, float]], gone: set[tuple[str, str]]) -> dict[str, dict[str, float]]:
    return {t: {d: g for d, g in docs.items() if (t, d) not in gone} for t, docs in judged.items()}


@pytest.mark.parametrize("case", range(12))
def test_bias_is_scoring_without_what_only_the_team_gave(case: int) -> None:
    rng = random.Random(case)
    rankings, depths = random_runs(rng)
    judged = {f"A.{t}": {f"d{i}": float(rng.randint(0, 2)) for i in range(12)} for t in range(1, 6)}
    runs = [run(name, docs) for name, docs in rankings.items()]
    teams = {name: rng.choice(("x", "y", "z")) for name in rankings}
    protocol = Protocol("p", ("nDCG", "AP", "Bpref"), prime=rng.random() < 0.5)
    scorer = Scorer(Qrels.from_dict("e", judged), protocol)
    found = {bias.team: bias for bias in leave_one_team_out(scorer, runs, depths, teams)}
    assert set(found) == set(teams.values())
    for team, bias in found.items():
        given: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
        for name, docs in rankings.items():
            given[teams[name] == team] |= {(t, d) for t, ranked in docs.items() for d in ranked[: depths[name]]}
        gone = given[True] - given[False]
        assert bias.judgments == len(gone)
        assert bias.relevant == sum(judged[t][d] >= 1 for t, d in gone)
        after = Scorer(Qrels.from_dict("e", reduced(judged, gone)), protocol)
        losses = {(each.run, each.measure): each for each in bias.losses}
        assert losses.keys() == {(each.name, m) for each in runs if teams[each.name] == team for m in protocol.measures}
        for each in runs:
            if teams[each.name] == team:
                for measure in protocol.measures:
                    loss = losses[each.name, measure]
                    assert loss.before == scorer(each).mean(measure)
                    assert loss.after == pytest.approx(after(each).mean(measure))
    mixed = leave_one_team_out(scorer, rng.sample(runs, len(runs)), depths, teams)
    assert {bias.team: (bias.judgments, bias.relevant) for bias in mixed} == {
        team: (bias.judgments, bias.relevant) for team, bias in found.items()
    }


def test_a_formula_without_a_key_brings_no_judgment() -> None:
    """Its id may be that of a visual id; the two must not meet."""
    scorer = Scorer(Qrels.from_dict("e", {"t": {"7": 1, "8": 1}}), KEYED, keys={"f": "8"})
    runs = [run("a", {"t": ["7", "f"]}), run("b", {"t": ["f"]})]
    a, b = leave_one_team_out(scorer, runs, {"a": 5, "b": 5}, {"a": "x", "b": "y"})
    assert (a.judgments, b.judgments) == (0, 0)


def test_judgments_without_some() -> None:
    qrels = Qrels.from_dict("e", {"t": {"a": 1, "b": 0}, "u": {"c": 2}})
    left = without(qrels, np.array([False, False, True]))
    assert (left.topics, left.to_dict()) == (("t", "u"), {"t": {"a": 1, "b": 0}, "u": {}})
    assert left.sha256 not in ("", qrels.sha256)


def test_what_cannot_be_left_out() -> None:
    scorer = Scorer(Qrels.from_dict("e", {"t": {"a": 1}}), PLAIN)
    runs = [run("r", {"t": ["a"]})]
    for depths, teams, fault in (
        ({"r": 1}, {"r": "x"}, "team x: only its runs brought judgments into the pool; without it none is left"),
        ({}, {"r": "x"}, "run r: its team and the depth of the pool must be given"),
        ({"r": 1}, {}, "run r: its team and the depth of the pool must be given"),
        ({"r": 0}, {"r": "x"}, "run r: a pool depth of 0, expected 1 or more"),
    ):
        assert refusal(leave_one_team_out, scorer, runs, depths, teams) == fault

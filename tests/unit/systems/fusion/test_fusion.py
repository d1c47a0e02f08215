from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from case_tables import table
from fusion_tools import order, ranked, same
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from lexical_tools import message

from harness.data.columns import Floats
from harness.data.trec import Run
from harness.systems.fusion import candidates, methods
from harness.systems.fusion.candidates import FusionCandidates, align_results, fuse, to_run

Scores = Mapping[str, Mapping[str, float]]


def scored(name: str, **docs: float) -> Run:
    """A run with one topic."""
    return Run.from_dict(name, {"T": docs})


def of(candidates: FusionCandidates, values: Floats) -> dict[str, float]:
    """The values of a single topic by document."""
    assert len(candidates.topics) == 1
    return dict(zip((candidates.docs[candidates.doc]).astype(str).tolist(), values.tolist(), strict=True))


# By hand


def test_rrf_by_hand() -> None:
    candidates = align_results([ranked("a", T="abc"), ranked("b", T="bd")])
    found = of(candidates, methods.rrf(candidates))
    assert found == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 63, "d": 1 / 62})
    assert order(to_run(candidates, methods.rrf(candidates), "x")) == "badc"
    assert of(candidates, methods.rrf(candidates, 0)) == pytest.approx({"a": 1, "b": 1.5, "c": 1 / 3, "d": 0.5})


def test_rank_biased_centroids_by_hand() -> None:
    candidates = align_results([ranked("a", T="abc"), ranked("b", T="bd")])
    found = of(candidates, methods.rank_biased_centroids(candidates, 0.5))
    assert found == pytest.approx({"a": 0.5, "b": 0.25 + 0.5, "c": 0.125, "d": 0.25})


def medians(candidates: FusionCandidates, values: Floats) -> dict[str, float]:
    """Scores without what breaks ties: the median ranks."""
    n = candidates.depth
    # Ties add less than half a rank, and medians are multiples of half a rank.
    return {doc: n - math.floor(2 * n * value + 1e-6) / 2 for doc, value in of(candidates, values).items()}


def test_ibc_by_hand() -> None:
    runs = [ranked("a", T="abcd"), ranked("b", T="badc"), ranked("c", T="caeb")]
    candidates = align_results(runs, depth=10)
    # a: 1, 2, 2; b: 2, 1, 4; c: 3, 4, 1; d: 4, 3, none; e: none, none, 3.
    assert medians(candidates, methods.ibc(candidates)) == {"a": 2, "b": 2, "c": 3, "d": 4, "e": 10}
    two = align_results(runs[:2], depth=10)
    assert medians(two, methods.ibc(two)) == {"a": 1.5, "b": 1.5, "c": 3.5, "d": 3.5}
    two = align_results(runs[1:], depth=10)
    # b: 1, 4; a: 2, 2; d: 3, none; c: 4, 1; e: none, 3.
    assert medians(two, methods.ibc(two)) == {"a": 2, "b": 2.5, "c": 2.5, "d": 6.5, "e": 6.5}


def test_ties_of_ibc_are_broken_by_one_of_the_document_s_own_ratings() -> None:
    candidates = align_results([ranked("a", T="abcd"), ranked("b", T="badc"), ranked("c", T="caeb")], depth=10)
    own = {"a": {1, 2}, "b": {1, 2, 4}, "c": {1, 3, 4}, "d": {3, 4, 10}, "e": {3, 10}}
    drawn: dict[str, set[float]] = {doc: set() for doc in own}
    for seed in range(60):
        values = of(candidates, methods.ibc(candidates, seed))
        for doc, value in values.items():
            median = {"a": 2, "b": 2, "c": 3, "d": 4, "e": 10}[doc]
            drawn[doc].add(round(10 - 250 * (value - (10 - median) / 10), 6))  # .4 / 10 of (10 - drawn) / 10
    assert drawn == own


@pytest.mark.parametrize(("weights", "share"), [((1.0, 1.0), 0.5), ((0.3, 0.1), 0.75), ((0.0, 2.0), 0.0)])
def test_ratings_are_drawn_by_weight(weights: tuple[float, float], share: float) -> None:
    """Of many documents that the first run alone retrieved, as many keep its rating as it has weight."""
    count = 4000
    topics = {f"T{n}": {"x": 1.0} for n in range(count)}
    candidates = align_results([Run.from_dict("a", topics), Run.from_dict("b", {"other": {"y": 1.0}})], depth=10)
    mine = np.array([topic != "other" for topic in candidates.topics])
    values = methods.wibc(candidates, weights)[mine]
    assert len(np.unique(values)) == (2 if share else 1)
    assert (values > values.min()).mean() == pytest.approx(share, abs=0.03) if share else values.max() == 0


@pytest.mark.parametrize(("weights", "median"), table("systems/medians"))
def test_weighted_medians_by_hand(weights: str, median: str) -> None:
    given = [float(weight) for weight in weights.split()]
    runs = [ranked("a", T="x"), ranked("b", T="abcdx"), ranked("c", T="abcdefghx")]
    for chosen in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        candidates = align_results([runs[n] for n in chosen], depth=20)
        values = methods.wibc(candidates, [given[n] for n in chosen])
        assert medians(candidates, values)["x"] == float(median)


def test_normalizations_by_hand() -> None:
    runs = [scored("a", a=5, b=2, c=1), scored("b", c=-1, d=-3)]
    candidates = align_results(runs)
    nan = math.nan
    deviation = math.sqrt((49 + 4 + 25) / 27)  # of 5, 2, 1: distances 7/3, -2/3, -5/3
    for how, first, second in (
        ("none", [5, 2, 1, nan], [nan, nan, -1, -3]),
        ("min-max", [1, 0.25, 0, nan], [nan, nan, 1, 0]),
        ("sum", [0.8, 0.2, 0, nan], [nan, nan, 1, 0]),
        ("z-score", [7 / 3 / deviation, -2 / 3 / deviation, -5 / 3 / deviation, nan], [nan, nan, 1, -1]),
    ):
        expected = np.array([first, second]).T
        lowest = np.nanmin(expected, axis=0)
        assert methods.normalize(candidates, how) == pytest.approx(np.nan_to_num(expected)), how
        found = methods.normalize(candidates, how, "minimum")
        assert found == pytest.approx(np.where(np.isnan(expected), lowest, expected)), how


def test_lists_of_equal_scores_count_as_all_best_average_or_equal_parts() -> None:
    runs = [scored("a", a=0.1, b=0.1, c=0.1), scored("b", d=7)]
    candidates = align_results(runs)
    for how, first, second in (("min-max", 1, 1), ("z-score", 0, 0), ("sum", 1 / 3, 1), ("none", 0.1, 7)):
        found = methods.normalize(candidates, how)
        assert found[:3, 0] == pytest.approx([first] * 3), how
        assert found[3].tolist() == [0, second], how


def test_sums_of_scores_by_hand() -> None:
    candidates = align_results([scored("a", a=5, b=2, c=1), scored("b", c=3, d=2, b=1)])
    assert of(candidates, methods.combsum(candidates)) == pytest.approx({"a": 1, "b": 0.25, "c": 1, "d": 0.5})
    assert of(candidates, methods.combsum(candidates, "none")) == {"a": 5, "b": 3, "c": 4, "d": 2}
    assert of(candidates, methods.combmnz(candidates, "none")) == {"a": 5, "b": 6, "c": 8, "d": 2}
    assert of(candidates, methods.combsum(candidates, "none", "minimum")) == {"a": 6, "b": 3, "c": 4, "d": 3}
    assert of(candidates, methods.interpolation(candidates, [2, 10], "none")) == {"a": 10, "b": 14, "c": 32, "d": 20}
    assert of(candidates, methods.interpolation(candidates, [0, 1])) == pytest.approx(
        {"a": 0, "b": 0, "c": 1, "d": 0.5}
    )


def test_topics_are_normalized_each_on_its_own() -> None:
    run = Run.from_dict("a", {"T2": {"a": 100.0, "b": 50.0}, "T1": {"b": 2.0, "c": 1.0}})
    other = Run.from_dict("b", {"T2": {"b": 1.0, "a": 0.0}})
    assert fuse([run, other], methods.combsum, "x").to_dict() == {"T1": {"b": 1, "c": 0}, "T2": {"b": 1, "a": 1}}


def test_scores_too_large_to_add_are_an_error() -> None:
    runs = [scored("a", a=1e308, b=0), scored("b", a=1e308, b=1)]
    expected = "run x: fused scores are 1e+38 or more; normalize the scores of the runs"
    plain = partial(methods.combsum, normalization="none")
    assert message(lambda: fuse(runs, plain, "x")) == expected
    assert message(lambda: fuse([runs[0], scored("c", d=1)], plain, "x")) == expected
    assert order(fuse(runs, methods.combsum, "x")) == "ab"


# Topics, depth, ties


def test_runs_that_leave_out_topics() -> None:
    runs = [ranked("a", T1="ab"), ranked("b", T1="b", T2="c"), ranked("c", T2="dc")]
    fused = fuse(runs, methods.rrf, "x").to_dict()
    assert {topic: "".join(docs) for topic, docs in fused.items()} == {"T1": "ba", "T2": "cd"}
    assert fused["T2"]["d"] == pytest.approx(1 / 61)
    candidates = align_results(runs, depth=10)
    by_pair = dict(zip(zip(candidates.topic.tolist(), candidates.doc.tolist(), strict=True), range(4), strict=True))
    values = methods.ibc(candidates)
    # Where a run does not answer, its ranks are those of the unretrieved: b of T1 has 2, 1, 10.
    assert 10 - math.floor(20 * values[by_pair[0, 1]] + 1e-6) / 2 == 2
    assert 10 - math.floor(20 * values[by_pair[1, 3]] + 1e-6) / 2 == 10  # d of T2: 10, 10, 1


def test_only_the_first_results_count() -> None:
    runs = [ranked("a", T="abcd"), ranked("b", T="dcba")]
    candidates = align_results(runs, depth=2)
    assert of(candidates, candidates.rank[:, 0]) == {"a": 1, "b": 2, "c": math.inf, "d": math.inf}
    assert fuse(runs, methods.rrf, "x", depth=2).to_dict() == {"T": pytest.approx({"d": 1 / 61, "a": 1 / 61})}
    assert order(fuse(runs, methods.rrf, "x", depth=2)) == "da"
    assert order(fuse(runs, methods.rrf, "x", depth=3)) == "cbd"


def test_tied_results_of_a_run_are_ranked_as_trec_eval_does() -> None:
    run = scored("a", b=1.0, a=1.0 + 1e-12, c=1.0, d=0.5)  # as 32-bit floats three are equal
    candidates = align_results([run])
    assert of(candidates, candidates.rank[:, 0]) == {"c": 1, "b": 2, "a": 3, "d": 4}


def test_sums_that_are_equal_are_tied_though_rounding_differs() -> None:
    """1/78 = 1/117 + 1/234, not so in floating point."""
    below = [f"x{n:03}" for n in range(200)]
    first = {doc: 1.0 - n for n, doc in enumerate([*below[:17], "b"])}  # b has rank 18
    second = {doc: 1.0 - n for n, doc in enumerate([*below[20:76], "a"])}  # a has the ranks 57
    third = {doc: 1.0 - n for n, doc in enumerate([*below[:173], "a"])}  # and 174
    assert 1 / 78 != 1 / 117 + 1 / 234
    fused = fuse([scored("r", **first), scored("s", **second), scored("t", **third)], methods.rrf, "x").to_dict()["T"]
    assert fused["a"] == fused["b"] == pytest.approx(1 / 78)


def test_nothing_to_fuse_is_an_error() -> None:
    empty = replace(ranked("a", T="a"), topic=np.zeros(0, np.int32), doc=np.zeros(0, "S1"), score=np.zeros(0))
    assert message(lambda: align_results([empty, empty])) == "fusion: the runs to fuse hold no results"
    assert order(fuse([empty, ranked("b", T="xy")], methods.rrf, "x")) == "xy"


def trec_eval_order(run: Run) -> dict[str, list[str]]:
    with np.errstate(over="ignore"):
        shown = run.score.astype(np.float32).tolist()
    rows = zip(run.topic.tolist(), shown, run.doc.tolist(), strict=True)
    out: dict[str, list[str]] = {}
    for topic, _, doc in sorted(rows, key=lambda row: (-row[0], row[1], row[2]), reverse=True):
        out.setdefault(run.topics[topic], []).append(doc.decode())
    return out


NASTY = st.sampled_from([0.0, -0.0, 1e-300, 1e-46, 1e-45, 0.1, 0.1 + 1e-12, 0.1 - 1e-12, 1.0, 1.0 + 1e-9, -1e-46, -1.0])
ANY = st.floats(-9e37, 9e37)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.lists(NASTY | ANY, min_size=1, max_size=12), min_size=1, max_size=4))
def test_trec_eval_sees_the_order_that_is_meant(values: list[list[float]]) -> None:
    """Scores that 32-bit floats cannot tell apart are moved, but their 64-bit order and ties stay as they are."""
    alphabet = "abcdefghijkl"
    run = Run.from_dict("a", {f"T{n}": dict.fromkeys(alphabet[: len(row)], 1.0) for n, row in enumerate(values)})
    given_scores = np.array([value for row in values for value in row])
    fused = to_run(align_results([run]), given_scores, "x")
    meant = {
        f"T{n}": [doc for value, doc in sorted(zip(row, alphabet, strict=False), reverse=True)]
        for n, row in enumerate(values)
    }
    assert {topic: list(docs) for topic, docs in fused.to_dict().items()} == meant
    assert trec_eval_order(fused) == meant
    for n, row in enumerate(values):
        out = [fused.to_dict()[f"T{n}"][doc] for doc in alphabet[: len(row)]]
        for i, j in combinations(range(len(row)), 2):
            assert (row[i] > row[j]) == (out[i] > out[j])
            assert (row[i] == row[j]) == (out[i] == out[j])
        with np.errstate(over="ignore"):
            if len({float(np.float32(value)) for value in row}) == len(set(row)):
                assert out == row  # nothing is moved without need


# Against a plain reference, on random runs


SYMMETRIC: Mapping[str, candidates.Score] = {
    "rrf": methods.rrf,
    "ibc": methods.ibc,
    "centroids": methods.rank_biased_centroids,
    "combsum": methods.combsum,
    "combmnz": partial(methods.combmnz, normalization="z-score"),
}


def test_the_order_of_many_runs_does_not_matter_to_the_last_bit() -> None:
    rng = np.random.default_rng(5)
    docs = [f"d{n}" for n in range(3000)]
    runs = [scored(f"r{n}", **dict(zip(docs, rng.random(len(docs)).tolist(), strict=True))) for n in range(9)]
    for name, method in SYMMETRIC.items():
        assert same(fuse(runs, method, "x", depth=3000), fuse(runs[::-1], method, "x", depth=3000)), name


def test_draws_depend_on_seed_topic_and_document_alone() -> None:
    runs = [ranked("a", T1="abcdefgh", T2="abcdefgh"), ranked("b", T1="hgfedcba", T2="hgfedcba")]
    one = fuse(runs, partial(methods.ibc, seed=1), "x")
    assert same(one, fuse(runs, partial(methods.ibc, seed=1), "x"))
    orders = {order(fuse(runs, partial(methods.ibc, seed=seed), "x"), "T1") for seed in range(20)}
    assert len(orders) > 10  # all eight documents have the median 4.5
    assert order(one, "T1") != order(one, "T2")
    alone = [Run.from_dict(run.name, {"T2": run.to_dict()["T2"]}) for run in runs]
    assert fuse(alone, partial(methods.ibc, seed=1), "x").to_dict()["T2"] == one.to_dict()["T2"]


def test_equal_weights_are_ibc_and_runs_without_weight_do_not_exist() -> None:
    runs = [ranked("a", T="abcd"), ranked("b", T="badc"), ranked("c", T="caeb")]
    candidates = align_results(runs)
    assert (methods.wibc(candidates, [0.3] * 3) == methods.ibc(candidates)).all()
    without = align_results([*runs, ranked("d", T="edcba")])
    assert (methods.wibc(without, [1, 1, 1, 0]) == methods.ibc(candidates)).all()

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from case_tables import table
from fusion_tools import judgments, noisy, order, pairs_of, ranked, same
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from lexical_tools import message

from harness.data.columns import Floats
from harness.data.run_writers import write_run
from harness.data.trec import Qrels, Run
from harness.io import config
from harness.papers.paper import load_paper
from harness.systems.fusion import candidates, methods
from harness.systems.fusion.candidates import FusionCandidates, align_results, fuse, to_run
from harness.systems.fusion.system import Fusion

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


# ---- the variants of MIRMU's fusion -----------------------------------------------------------------------------


RUNS = [ranked("a", T="XYU"), ranked("b", T="VYW"), ranked("c", T="RSY")]


def scores_of(method: str, runs: Sequence[Run], depth: int = 3, **how: object) -> dict[str, float]:
    candidates = align_results(runs, depth)
    return {doc: score for (_, doc), score in pairs_of(candidates, getattr(methods, method)(candidates, **how)).items()}


def test_variants_of_ibc_by_hand() -> None:
    """Paper: X has ranks 1, 3, 3 with N = 3, so 0, and Y 2, 2, 3, so 1/3. Authors: X has rank 1 alone, so 2/3."""
    paper, authors = (scores_of("ibc", RUNS, variant=variant) for variant in methods.VARIANTS)
    tie = 0.4 / 3  # the most that a tie's draw adds
    assert paper["X"] == pytest.approx(0, abs=tie)
    assert 1 / 3 <= paper["Y"] <= 1 / 3 + tie
    assert max(paper, key=lambda doc: paper[doc]) == "Y"
    for doc, share in {"X": 2 / 3, "V": 2 / 3, "R": 2 / 3, "Y": 1 / 3, "S": 1 / 3, "U": 0, "W": 0}.items():
        assert share <= authors[doc] <= share + tie
    assert scores_of("ibc", RUNS) == paper


def test_n_is_the_length_of_the_last_list() -> None:
    """N decides scores, not the order within a topic; a topic that the last run does not answer has the depth."""
    runs = [ranked("a", T="XYU", S="X"), ranked("b", T="X")]
    found = fuse(runs, partial(methods.ibc, variant="authors"), "x", 10)
    got = found.to_dict()
    assert list(got["T"]) == list("XYU")
    tie = 0.4
    for topic, doc, n, rank in (("T", "X", 1, 1), ("T", "Y", 1, 2), ("T", "U", 1, 3), ("S", "X", 10, 1)):
        assert (n - rank) / n <= got[topic][doc] + 1e-6
        assert got[topic][doc] <= (n - rank + tie) / n + 1e-6


def test_wibc_adds_weights_up_in_the_order_of_the_systems() -> None:
    """Z has ranks 3, 1, 2: sorted, weights .2 .5 .3 reach half at rank 1, the 0.5 of the second run, and 2: 1.5.

    In the order of the systems .3 .2 .5 they reach it exactly at the second run, so the mean of ranks 1 and 2.
    """
    runs = [ranked("a", T="XYZ"), ranked("b", T="ZXY"), ranked("c", T="XZY")]
    weights = [3.0, 2.0, 5.0]
    tie = 0.4 / 3
    low = (3 - 1.5) / 3
    assert low <= scores_of("wibc", runs, weights=weights, variant="authors")["Z"] <= low + tie
    # Sorted by rank (1, 2, 3) the weights are 2, 5, 3: half is passed at rank 2.
    assert 1 / 3 <= scores_of("wibc", runs, weights=weights)["Z"] <= 1 / 3 + tie
    # Y has ranks 2, 3, 3: authors 2.5 or so: the mean of ranks 3 and 3.
    assert scores_of("wibc", runs, weights=weights, variant="authors")["Y"] <= tie


def test_rbc_is_least_squares_on_relevant_or_not() -> None:
    """Against plain least squares over all retrieved documents: unjudged ones are 0, and so is grade 1."""
    qrels = judgments()
    runs = [noisy(qrels, "a", 0.3), noisy(qrels, "b", 2, "AB")]
    candidates = align_results(runs, depth=20)
    found = methods.rbc_fit(candidates, qrels, variant="authors")
    known, rows, labels = qrels.to_dict(), [], []
    for topic in "ABC":
        known_scores = [run.to_dict().get(topic, {}) for run in runs]
        lists = [sorted(each, key=lambda doc: -each[doc])[:20] for each in known_scores]
        n = len(lists[-1]) or 20
        for doc in sorted(set(lists[0]) | set(lists[1])):
            rows.append([1.0, *((n - each.index(doc) - 1) / n if doc in each else 0.0 for each in lists)])
            labels.append(float(known[topic].get(doc, 0) >= 2))
    assert any(doc.startswith("u") for run in runs for doc in run.to_dict()["A"])  # unjudged, retrieved
    assert found == pytest.approx(np.linalg.lstsq(np.array(rows), np.array(labels), rcond=None)[0])
    predicted = pairs_of(candidates, methods.rbc(candidates, found, "authors"))
    assert sorted(predicted.values()) == pytest.approx(sorted((np.array(rows) @ found).tolist()))
    assert abs(found - methods.rbc_fit(candidates, qrels)).max() > 0.01


def test_a_run_twice_shares_its_slope() -> None:
    """Least squares have no one solution then: the shortest is taken, and nothing fails."""
    qrels = judgments()
    alone = methods.rbc_fit(align_results([noisy(qrels, "a", 0.3)]), qrels, variant="authors")
    twice = methods.rbc_fit(align_results([noisy(qrels, "a", 0.3)] * 2), qrels, variant="authors")
    assert twice == pytest.approx([alone[0], alone[1] / 2, alone[1] / 2])


def test_the_system_learns_and_ranks_by_its_variant(tmp_path: Path) -> None:
    qrels = judgments()
    files = []
    for name in "ab":
        write_run(noisy(qrels, name, 1.0, "AB"), tmp_path / f"{name}.run")
        files.append(str(tmp_path / f"{name}.run"))
    tested = [noisy(qrels, "a", 1.0, "C"), noisy(qrels, "b", 1.0, "C")]
    training = [noisy(qrels, name, 1.0, "AB") for name in "ab"]
    half = Qrels.from_dict("half", {topic: docs for topic, docs in qrels.to_dict().items() if topic in "AB"})
    found = {}
    for variant in methods.VARIANTS:
        system = Fusion(files, "rbc", training_runs=files, variant=variant)
        found[variant] = system.fused(tested, (training, half)).to_dict()["C"]
        coefficients = methods.rbc_fit(align_results(training), half, variant=variant)
        expected = fuse(tested, partial(methods.rbc, coefficients=coefficients, variant=variant), "x").to_dict()["C"]
        assert found[variant] == expected
    assert found["paper"] != found["authors"]


def test_every_row_of_the_paper_says_its_variant() -> None:
    paper = load_paper("mirmu-msm")
    assert paper.config.available is not None
    rows = [entry for table in paper.config.available.tables.values() for entry in table.values()]
    having = [entry for entry in rows if entry.system in ("fusion-ibc", "fusion-wibc", "fusion-rbc")]
    assert len(having) == 15
    assert {(entry.set or {}).get("variant") for entry in having} == {"paper"}
    conditions = config.load("experiment", "mirmu")[0]["conditions"]
    for name, condition in conditions.items():
        if {"system=fusion-ibc", "system=fusion-wibc", "system=fusion-rbc"} & set(condition["overrides"]):
            assert "system.variant=paper" in condition["overrides"], name

"""Tied results: their order, and the best and the worst that another order would give."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, permutations, product
from typing import Any

import numpy as np
import pytest
from case_tables import table
from scoring_tools import (
    BOUNDED,
    PLAIN,
    Keys,
    Ranking,
    expected,
    first_of_keys,
    groups,
    one,
    random_case,
    random_protocol,
    rules,
    run_of,
)

from harness.data.trec import Qrels, Run, parse_run
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Scorer, score_run

# Ties.


def first(lines: str, how: Protocol = PLAIN) -> str:
    """Which document stands first, told by which of them makes RR 1."""
    docs = [item.rpartition(":")[0] for item in lines.split()]
    return next(doc for doc in docs if one(lines, {doc: 1}, how).mean("RR") == 1)


@pytest.mark.parametrize(("lines", "reference", "file"), table("scoring/tie-orders"))
def test_ties_are_ordered_as_the_protocol_says(lines: str, reference: str, file: str) -> None:
    assert first(lines) == reference
    assert first(lines, replace(PLAIN, ties="file")) == file


TIED = "f1:1 f2:1"  # two formulas, of visual ids 7 (not relevant) and 8 (relevant)
BY_LOOK = Protocol("t2", ("AP", "nDCG", "P@1"), prime=True, deduplicate=True, ties="reference", ties_deduplicate="file")


@pytest.mark.parametrize(
    ("rules", "ndcg"),
    [
        # In trec_eval's order, 8 comes first whatever the file says; in the file's order, second: 1 / log2(3).
        ({}, 1.0),
        ({"ties": "file"}, 1 / math.log2(3)),
        ({"ties_deduplicate": None}, 1.0),
    ],
)
def test_two_tied_formulas_are_scored_in_the_order_of_their_visual_ids(rules: dict[str, Any], ndcg: float) -> None:
    found = one(TIED, {"7": 0, "8": 1}, replace(BY_LOOK, **rules), {"f1": "7", "f2": "8"})
    assert found.column("nDCG").tolist() == [pytest.approx(ndcg, abs=1e-15)]
    assert found.counts["tied results"] == 2


def test_the_first_formula_of_a_visual_id_is_that_of_the_file_and_gives_its_score() -> None:
    """At a depth of 2 the file keeps f1 and f2 of three tied formulas; trec_eval's order would keep f3 and f2."""
    keys = {"f1": "7", "f2": "7", "f3": "8"}
    assert one("f1:1 f2:1 f3:1", {"8": 1}, replace(BY_LOOK, depth=2), keys).mean("AP") == 0
    assert one("f1:1 f2:1 f3:1", {"8": 1}, replace(BY_LOOK, depth=2, ties_deduplicate=None), keys).mean("AP") == 1
    # 7 has its better score, 3: above 9, with which its other formula is tied.
    better = one("f1:1 f2:3 f3:1", {"7": 1, "9": 0}, BY_LOOK, {"f1": "7", "f2": "7", "f3": "9"})
    assert better.mean("AP") == 1


def test_ties_of_32_bits_are_counted_also_where_only_the_second_rule_has_them() -> None:
    scores = one("f1:1 f2:1.000000001 f3:0.5", {"7": 1}, BY_LOOK, {"f1": "7", "f2": "8"})
    assert scores.counts["tied results"] == 2
    scorer = Scorer(Qrels.from_dict("e", {"t": {"7": 1, "8": 0}}), BY_LOOK, keys={"f1": "7", "f2": "8"})
    run = run_of({"t": [("f1", 1.0), ("f2", 1.000000001)]})
    assert scorer.tie_spans(run, scorer(run))["AP"] == (0.5, 1.0)


def test_lines_in_any_order_and_topics_mixed_give_the_same_scores() -> None:
    rng = random.Random(5)
    lines = [f"{t} Q0 d{i} 0 {rng.choice((0.1, 0.2, 0.3))} r\n" for t in ("7", "8", "é") for i in range(30)]
    qrels = Qrels.from_dict("e", {t: {f"d{i}": i % 4 for i in range(0, 30, 2)} for t in ("é", "7", "9", "8")})
    for how in (replace(PLAIN, depth=20, prime=True), replace(PLAIN, depth=20, deduplicate=True)):
        wanted = score_run(parse_run("".join(lines).encode(), "run"), qrels, how)
        for _ in range(10):
            rng.shuffle(lines)
            found = score_run(parse_run("".join(lines).encode(), "run"), qrels, how)
            np.testing.assert_array_equal(found.values, wanted.values)
            assert found.counts == wanted.counts
    assert (
        len({tuple(score_run(run, qrels, replace(PLAIN, ties="file")).values.flat) for run in _shuffles(lines, rng)})
        > 1
    )


def _shuffles(lines: list[str], rng: random.Random) -> list[Run]:
    return [parse_run("".join(rng.sample(lines, len(lines))).encode(), "run") for _ in range(5)]


# Best and worst case over the orders of tied results.


def permuted(tied: Sequence[Ranking]) -> Iterator[Ranking]:
    """Every order that ties allow."""
    return (list(chain(*choice)) for choice in product(*(permutations(group) for group in tied)))


def orders(ranking: Ranking, how: Protocol, keys: Keys) -> set[tuple[str, ...]]:
    """Every final ranking that some order of the ties before de-duplication and of those after it gives."""
    before, after = rules(how)
    out: set[tuple[str, ...]] = set()
    for order in permuted(groups(ranking, before)):
        left = first_of_keys(ranking, order, how, keys)
        finals = permuted(groups(left, after)) if how.deduplicate else iter([left])
        out |= {tuple(key for key, _ in final) for final in finals}
    return out


def crosses_depth(ranking: Ranking, how: Protocol) -> bool:
    """Whether a tie stands on both sides of the depth."""
    ends = np.cumsum([len(group) for group in groups(ranking, rules(how)[0])])
    return how.depth is not None and how.depth < len(ranking) and how.depth not in ends


def bounds(
    ranking: Ranking, judged: Mapping[str, float], how: Protocol, keys: Keys, measures: Sequence[str]
) -> list[tuple[float, float, set[float]]]:
    """For each measure the worst, the best, and what all the orders give."""
    scorer = Scorer(Qrels.from_dict("e", {"t": judged}), how, keys=keys, measures=measures)
    worst, best = scorer.tie_bounds(run_of({"t": ranking}))
    every = orders(ranking, how, keys)
    given = [{round(expected(order, judged, how, measure), 10) for order in every} for measure in measures]
    return list(zip(worst.values[0].round(10).tolist(), best.values[0].round(10).tolist(), given, strict=True))


@pytest.mark.slow
def test_tie_bounds_are_the_extremes_over_all_orders() -> None:
    rng = random.Random(8)
    matters = dict.fromkeys(BOUNDED, 0)
    for _ in range(400):
        how = replace(random_protocol(rng), no_relevant="zero")
        rankings, judged, keys = random_case(rng, 6)
        (ranking, _), (grades, *_) = rankings.values(), judged.values()
        corner = crosses_depth(ranking, how)
        if how.deduplicate and rules(how) == ("reference", "file"):
            continue  # the third case of the next test
        for measure, (worst, best, given) in zip(BOUNDED, bounds(ranking, grades, how, keys, BOUNDED), strict=True):
            assert {worst, best} <= given, (measure, how, ranking, grades, keys)
            if corner and (how.deduplicate or (how.ideal == "retrieved" and "nDCG" in measure)):
                continue  # the two cases of the next test
            assert (worst, best) == (min(given), max(given)), (measure, how, ranking, grades, keys)
            matters[measure] += len(given) > 1
    assert min(matters.values()) > 7, matters  # cases where the order matters at all


@pytest.mark.parametrize(
    ("ranking", "judged", "changes", "measure", "worst", "best", "least", "most"),
    [
        # The ideal is made of what is retrieved: with a it is better than without, and so further away.
        (
            [("p", 2.0), ("n", 1.0), ("a", 1.0)],
            {"p": 1, "a": 3, "n": 0},
            {"ideal": "retrieved"},
            "nDCG",
            1.0,
            (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)),
            (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)),
            1.0,
        ),
        # Two formulas of one key within the depth are one result; with f3 there would be two.
        (
            [("f1", 1.0), ("f2", 1.0), ("f3", 1.0)],
            {"v": 1, "w": 1},
            {"deduplicate": True},
            "AP",
            1 / 2,
            1 / 2,
            1 / 2,
            1.0,
        ),
        # f1 and f2 are one result whose score is either's, above or below that of f3, which is tied with both.
        (
            [("f1", 1.0), ("f2", 1.0 + 2e-9), ("f3", 1.0 + 1e-9)],
            {"v": 1, "w": 0},
            {"deduplicate": True, "ties_deduplicate": "reference", "depth": None},
            "AP",
            1 / 2,
            1 / 2,
            1 / 2,
            1.0,
        ),
    ],
)
def test_tie_bounds_are_not_the_extremes_in_three_corners(
    *,
    ranking: Ranking,
    judged: Mapping[str, float],
    changes: dict[str, Any],
    measure: str,
    worst: float,
    best: float,
    least: float,
    most: float,
) -> None:
    how = replace(PLAIN, **{"depth": 2, "ties": "file", **changes})
    assert crosses_depth(ranking, how) == (how.depth == 2)
    ((found_worst, found_best, given),) = bounds(ranking, judged, how, {"f1": "v", "f2": "v", "f3": "w"}, (measure,))
    assert [found_worst, found_best] == pytest.approx([worst, best])
    assert [min(given), max(given)] == pytest.approx([least, most])


def test_tie_bounds_without_ties_are_the_scores() -> None:
    scorer = Scorer(Qrels.from_dict("e", {"a": {"x": 1, "y": 0}, "b": {"x": 2, "y": 1}}), PLAIN)
    run = run_of({"b": [("y", 1.0)], "a": [("y", 2.0), ("x", 1.0)]})
    worst, best = scorer.tie_bounds(run)
    assert worst.measures == best.measures == tuple(name for name in PLAIN.measures if not name.startswith("Judged"))
    for name in worst.measures:
        np.testing.assert_array_equal(worst.column(name), scorer(run).column(name))
        np.testing.assert_array_equal(best.column(name), scorer(run).column(name))
    assert worst.counts["tied results"] == 0

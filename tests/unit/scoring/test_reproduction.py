"""How near a run comes to the one that it reproduces: by hand, and against values of repro_eval."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from scipy import stats

from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.scoring.intervals import mean_errors
from harness.scoring.protocol import Protocol
from harness.scoring.reproduction import (
    MeasureReproduction,
    RunReproduction,
    delta_relative_improvement,
    effect_ratio,
    index_tau,
    reproduction,
    topic_orders,
    union_tau,
)
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores

KEPT: dict[str, Any] = json.loads(Path(__file__).with_name("repro_eval_values.json").read_text("utf-8"))
MEASURES = ("nDCG", "AP", "P@5")
HOW = Protocol("trec_eval", MEASURES, depth=None)
SCORERS = {which: Scorer(Qrels.from_dict(which, KEPT["judgments"][which]), HOW) for which in ("same", "other")}
RUNS = {name: Run.from_dict(name, rankings) for name, rankings in KEPT["runs"].items()}


def kept(name: str, which: str = "same") -> Scores:
    return SCORERS[which](RUNS[name])


def ranked(name: str) -> dict[str, tuple[str, ...]]:
    return {topic: each.docs for topic, each in SCORERS["same"].rankings(RUNS[name], 1000).items()}


def effects(found: RunReproduction) -> dict[str, MeasureReproduction]:
    return {each.measure: each for each in found.effects}


def test_repro_eval_of_a_reproduction() -> None:
    assert KEPT["origin"]["repro_eval"]
    found = reproduction(
        kept("original"),
        kept("new"),
        (ranked("original"), ranked("new")),
        (kept("baseline-original"), kept("baseline-new")),
    )
    assert found.paired
    for measure, each in effects(found).items():
        for name, expected in KEPT["reproduction"].items():
            assert getattr(each, name) == pytest.approx(expected[measure], abs=1e-9), (measure, name)
    orders = {each.topic: each for each in found.orders}
    assert {topic: each.ktu for topic, each in orders.items()} == pytest.approx(KEPT["ktu"])
    assert {topic: each.rbo_cut for topic, each in orders.items()} == pytest.approx(KEPT["rbo"]["0.9 1000"])
    assert found.mean("ktu") == pytest.approx((np.mean(list(KEPT["ktu"].values())), 6))
    again = topic_orders(ranked("original"), ranked("new"), 0.8, 10)[0]
    assert {each.topic: each.rbo_cut for each in again} == pytest.approx(KEPT["rbo"]["0.8 10"])


def test_repro_eval_of_a_replication() -> None:
    found = reproduction(
        kept("original"),
        kept("replicated", "other"),
        baselines=(kept("baseline-original"), kept("baseline-replicated", "other")),
    )
    assert (found.paired, found.orders) == (False, ())
    for measure, each in effects(found).items():
        assert (each.n, each.n_new, each.rmse, each.largest, each.topic) == (6, 8, None, None, None)
        for name, expected in KEPT["replication"].items():
            assert getattr(each, name) == pytest.approx(expected[measure], abs=1e-9), (measure, name)


def test_the_papers_examples() -> None:
    """Breuer et al., section 3.1: the union of two rankings of three documents has four."""
    assert index_tau(["d1", "d2", "d3"], ["d1", "d2", "d4"]) == pytest.approx(1.0)
    assert index_tau(["d1", "d2", "d3"], ["d2", "d5", "d3"]) == pytest.approx(1 / 3)


def test_tau_of_the_union_by_hand() -> None:
    # d3 and d4 change their places at the end; of six pairs one is turned round.
    assert union_tau(["d1", "d2", "d3"], ["d1", "d2", "d4"]) == pytest.approx(4 / 6)
    # Two that the second lacks are tied behind d1: five pairs are told by it, all as the first has them.
    assert union_tau(["d1", "d2", "d3"], ["d1"]) == pytest.approx(2 / math.sqrt(3 * 2))
    assert union_tau(["a", "b"], ["c", "d"]) == pytest.approx(-4 / math.sqrt(5 * 5))
    assert math.isnan(union_tau(["a"], ["a"]))
    assert index_tau(["a", "b"], ["a"]) is None
    assert index_tau(["a"], ["b"]) is None


LISTS = st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=8, unique=True)


@given(LISTS, LISTS, st.permutations("abcdefgh"))
def test_tau_of_the_union_does_not_depend_on_names(a: list[str], b: list[str], names: Sequence[str]) -> None:
    other = dict(zip("abcdefgh", names, strict=True))
    found = union_tau(a, b)
    assert found == pytest.approx(union_tau([other[x] for x in a], [other[x] for x in b]))
    assert found == pytest.approx(union_tau(b, a))
    assert union_tau(a, a) == pytest.approx(1)


def scores(run: str, values: Sequence[float], topics: str = "abcdef", collection: str = "c") -> Scores:
    column = np.array(values, dtype=np.float64)[:, None]
    how = Protocol("p", ("AP",))
    return Scores(run, collection, "e", how, ("AP",), tuple(topics[: len(values)]), column, collection * 2)


def only(found: RunReproduction) -> MeasureReproduction:
    (effect,) = found.effects
    return effect


def test_effects_by_hand() -> None:
    found = reproduction(
        scores("old", [0.5, 0.7, 0.9]),
        scores("new", [0.4, 0.4, 0.4]),
        baselines=(scores("weak", [0.5, 0.5, 0.5]), scores("poor", [0.2, 0.3, 0.4])),
    )
    each = only(found)
    assert (each.n, each.n_new, each.topic) == (3, 3, "c")
    assert (each.original, each.new, each.difference) == pytest.approx((0.7, 0.4, -0.3))
    assert (each.rmse, each.largest) == pytest.approx((math.sqrt((0.01 + 0.09 + 0.25) / 3), 0.5))
    assert each.nrmse == pytest.approx(math.sqrt((0.01 + 0.09 + 0.25) / (0.25 + 0.49 + 0.81)))
    t = 1.5 * math.sqrt(3)  # differences .1 .3 .5: mean .3, sd .2
    assert each.p == pytest.approx(1 - t / math.sqrt(t * t + 2))
    assert (each.baseline_original, each.baseline_new) == pytest.approx((0.5, 0.3))
    assert each.effect_ratio == pytest.approx(0.1 / 0.2)
    assert each.delta_ri == pytest.approx(0.2 / 0.5 - 0.1 / 0.3)
    assert (found.baseline_original, found.baseline_new) == ("weak", "poor")


def test_a_run_reproduces_itself() -> None:
    one, base = scores("old", [0.5, 0.7, 0.9]), scores("weak", [0.5, 0.5, 0.5])
    rankings = {"a": ["x", "y"], "b": ["z", "x", "y"]}
    found = reproduction(one, replace(one, run="new"), (rankings, rankings), (base, replace(base, run="base2")))
    each = only(found)
    assert (each.rmse, each.largest, each.p, each.effect_ratio, each.delta_ri) == pytest.approx((0, 0, 1, 1, 0))
    for name in ("tau", "ktu", "rbo"):
        assert found.mean(name) == pytest.approx((1, 2))
    assert found.orders[0].common == 2


def test_what_is_not_defined_is_none() -> None:
    same = scores("weak", [0.5, 0.7, 0.9])
    zero = scores("zero", [0.0, 0.0, 0.0])
    each = only(reproduction(scores("old", [0.5, 0.7, 0.9]), scores("new", [0.6, 0.8, 1.0]), baselines=(same, zero)))
    assert each.p is None  # the differences are constant
    assert (each.effect_ratio, each.delta_ri) == (None, None)  # no improvement to reproduce; a baseline of 0
    assert effect_ratio(*(np.array([x]) for x in (0.5, 0.5, 0.7, 0.1))) is None
    assert delta_relative_improvement(*(np.array([x]) for x in (0.5, 0.0, 0.7, 0.1))) is None
    orders, alone = topic_orders({"t": ["a"], "u": ["b", "c"], "v": ["d"]}, {"t": ["a"], "u": [], "w": ["x"]}, 0.9, 10)
    assert [(x.topic, x.tau, x.ktu, x.rbo, x.rbo_cut) for x in orders][1] == ("u", None, None, None, 0.0)
    assert (orders[0].tau, alone) == (None, ("v", "w"))
    assert orders[0].rbo == pytest.approx(1)


def test_topics_that_do_not_count_for_all_are_left_out() -> None:
    nan = math.nan
    old, new = scores("old", [0.5, nan, 0.9, 0.2]), scores("new", [0.4, 0.4, 0.4, 0.4])
    base, poor = scores("weak", [0.5, 0.5, 0.5, nan]), scores("poor", [0.2, 0.3, 0.4, 0.4])
    each = only(reproduction(old, new, baselines=(base, poor)))
    assert (each.n, each.original, each.baseline_new) == pytest.approx((2, 0.7, 0.3))
    assert only(reproduction(old, new)).n == 3
    # Of a replication, each side has its own.
    other = scores("other", [0.4, 0.4, nan, 0.1], "wxyz", "d")
    each = only(reproduction(old, other))
    assert (each.n, each.n_new) == (3, 3)
    assert each.p == pytest.approx(stats.ttest_ind([0.5, 0.9, 0.2], [0.4, 0.4, 0.1]).pvalue)


def test_tests_are_of_clusters() -> None:
    """Clusters of one size are tested as their means; the difference stays that over topics in any case."""
    old, new = scores("old", [0.5, 0.7, 0.9, 0.1]), scores("new", [0.4, 0.4, 0.4, 0.3])
    clusters: Mapping[str, str] = {"a": "x", "b": "x", "c": "y", "d": "y"}
    each = only(reproduction(old, new, clusters=(clusters, clusters)))
    assert each.p == pytest.approx(stats.ttest_rel([0.6, 0.5], [0.4, 0.35]).pvalue)
    assert each.n == 4
    elsewhere = scores("new", [0.4, 0.2, 0.4, 0.3], collection="d")
    apart = only(reproduction(old, elsewhere, clusters=(clusters, clusters)))
    assert apart.p == pytest.approx(stats.ttest_ind([0.6, 0.5], [0.3, 0.35], equal_var=False).pvalue)
    unequal = only(reproduction(old, new, clusters=({**clusters, "c": "z"}, None)))
    (mean,), (error,), (freedom,), _ = mean_errors(np.array([[-0.1, -0.3, -0.5, 0.2]]), [0, 0, 1, 2])
    assert unequal.difference == pytest.approx(mean)
    assert unequal.p == pytest.approx(2 * stats.t.sf(abs(mean) / error, freedom))


def test_what_cannot_be_compared() -> None:
    old, new = scores("old", [0.5, 0.7]), scores("new", [0.4, 0.4])
    prime = replace(new, protocol=replace(new.protocol, prime=True))
    for arguments, fault in (
        ((old, prime), "old and new cannot be compared: protocol.prime is False for the first, True for the second"),
        ((old, replace(new, measures=("P@1",))), "AP"),
        ((old, scores("new", [0.4, math.nan])), "old and new: 1 topics count for AP; a comparison needs 2 or more"),
    ):
        assert fault in refusal(reproduction, *arguments)
    elsewhere = scores("base", [0.1, 0.2], collection="d")
    with pytest.raises(HarnessError, match="run old and its baseline base were scored by different judgments"):
        reproduction(old, new, baselines=(elsewhere, scores("poor", [0.1, 0.1])))

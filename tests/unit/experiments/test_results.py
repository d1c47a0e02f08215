"""Scores of an experiment: means over seeds, pooled topics, tests that equal `compare` and a computation by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as reference

from harness.experiments.experiment import Experiment
from harness.experiments.overrides import Condition, Seeds
from harness.experiments.results import POOLED, ExperimentResults, Outcome
from harness.experiments.task import Task, task
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores

PROTOCOL = Protocol("p", ("AP", "nDCG"))
YEARS = {"old": ("1", "2", "3"), "new": ("4", "5", "6", "7")}
# Condition, year and seed -> the values of AP, a topic each; nDCG is 1 - AP / 2.
VALUES: dict[tuple[str, str, str | None], list[float]] = {
    ("base", "old", None): [0.5, 0.25, 0.75],
    ("base", "new", None): [0.5, 0.5, 0.25, 1.0],
    ("trained", "old", "1"): [0.75, 0.5, 0.75],
    ("trained", "old", "2"): [0.5, 0.5, 1.0],
    ("trained", "new", "1"): [0.75, 0.25, 0.5, 1.0],
    ("trained", "new", "2"): [1.0, 0.75, 0.25, 0.5],
}
EXPERIMENT = Experiment(
    "t",
    {"base": Condition(("system=base",)), "trained": Condition(("system=trained",))},
    ("AP", "nDCG"),
    axes={"year": {"old": ("edition=old",), "new": ("edition=new",)}},
    pool="year",
    seeds=Seeds("system.seed", ("1", "2"), {"condition": ("trained",)}),
    baseline={"condition": "base"},
)


def scored(run: str, year: str, values: Sequence[float], topics: Sequence[str] = ()) -> Scores:
    table = np.array([[value, 1 - value / 2] for value in values])
    return Scores(run, f"c-{year}", year, PROTOCOL, PROTOCOL.measures, tuple(topics) or YEARS[year], table, year, run)


@pytest.fixture(scope="module")
def mini() -> Task:
    return task("mini-task1")


def results(
    mini: Task,
    lost: Sequence[tuple[str, str, str | None]] = (),
    changed: Mapping[tuple[str, str, str | None], Scores] | None = None,
    experiment: Experiment = EXPERIMENT,
) -> ExperimentResults:
    outcomes = []
    for cell in experiment.cells():
        condition, year = cell.labels
        at = (condition, year, cell.seed)
        if at in lost:
            outcomes.append(Outcome(cell, {}, reason="broken"))
            continue
        scores = (changed or {}).get(at) or scored(f"{condition}-{cell.seed}", year, VALUES[at])
        outcomes.append(Outcome(cell, {}, task=mini, scores=scores))
    return ExperimentResults("t", experiment, tuple(outcomes))


def of(found: ExperimentResults, condition: str, part: str) -> Scores:
    """The scores of a row and part, which exist."""
    scores = found.scores((condition,), part)
    assert scores is not None
    return scores


def parts_tested(found: ExperimentResults) -> tuple[set[str], int]:
    """The parts with tests, and the size of the family."""
    assert found.comparison is not None
    return {test.part for test in found.tests}, found.comparison.family


def test_means_are_of_topics_and_seeds(mini: Task) -> None:
    found = results(mini)
    assert (found.rows, found.parts) == ((("base",), ("trained",)), ("old", "new", POOLED))
    trained = of(found, "trained", "old")
    assert trained.column("AP").tolist() == [0.625, 0.5, 0.875]  # topic by topic
    assert trained.mean("AP") == pytest.approx(2 / 3)
    # Seeds' means: 2/3 and 2/3; of the new year 2.5/4 and 2.5/4; of nDCG one less their half.
    assert found.deviation(("trained",), "old", "AP") == pytest.approx(0)
    whole = of(found, "trained", POOLED)
    assert (whole.n("AP"), whole.topics) == (7, ("1", "2", "3", "4", "5", "6", "7"))
    assert whole.mean("AP") == pytest.approx((2 + 2.5) / 7)  # every topic counts once, not every year
    assert found.deviation(("base",), POOLED, "AP") is None


def test_the_deviation_is_that_of_the_seeds_means(mini: Task) -> None:
    better: dict[tuple[str, str, str | None], Scores] = {
        ("trained", "old", "2"): scored("trained-2", "old", [1.0, 1.0, 1.0])
    }
    found = results(mini, changed=better)
    assert found.deviation(("trained",), "old", "AP") == pytest.approx((1 - 2 / 3) / math.sqrt(2))
    seven = (4.5 / 7, 5.5 / 7)
    assert found.deviation(("trained",), POOLED, "AP") == pytest.approx((seven[1] - seven[0]) / math.sqrt(2))


def test_mean_and_deviation_are_of_the_topics_that_count_in_every_seed(mini: Task) -> None:
    """Where a seed leaves topics out, mean and deviation stand on the same ones, not each on its own."""
    nan = math.nan
    some: dict[tuple[str, str, str | None], Scores] = {
        ("trained", "old", "1"): scored("trained-1", "old", [0.5, 0.25, nan]),
        ("trained", "old", "2"): scored("trained-2", "old", [0.75, nan, 0.25]),
        ("trained", "new", "1"): scored("trained-1", "new", [nan, nan, 0.5, 0.5]),
        ("trained", "new", "2"): scored("trained-2", "new", [0.5, 0.5, nan, nan]),
    }
    found = results(mini, changed=some)
    means = of(found, "trained", "old")
    assert (means.n("AP"), means.mean("AP")) == (1, 0.625)
    assert found.deviation(("trained",), "old", "AP") == pytest.approx(0.25 / math.sqrt(2))
    assert found.deviation(("trained",), "new", "AP") is None  # no topic counts in both


def test_tests_equal_a_computation_by_hand(mini: Task) -> None:
    found = results(mini)
    assert [(test.row, test.against, test.part, test.result.measure) for test in found.tests] == [
        (("trained",), ("base",), part, measure) for part in ("old", "new", POOLED) for measure in ("AP", "nDCG")
    ]
    differences = {"old": [0.125, 0.25, 0.125], "new": [0.375, 0.0, 0.125, -0.25]}
    differences[POOLED] = differences["old"] + differences["new"]
    p = {}
    for part, values in differences.items():
        row = next(test.result for test in found.tests if (test.part, test.result.measure) == (part, "AP"))
        by_hand = reference.ttest_1samp(values, 0)
        low, high = by_hand.confidence_interval(0.95)
        assert row.n == len(values)
        assert [row.difference, row.p, row.ci_low, row.ci_high] == pytest.approx(
            [np.mean(values), by_hand.pvalue, low, high]
        )
        p[part] = float(by_hand.pvalue)
    assert found.comparison is not None
    assert found.comparison.family == 3 * 2
    # nDCG is AP turned around, so that each p occurs twice.
    ranked = sorted([*p.values()] * 2)
    holm, so_far = {}, 0.0
    for rank, value in enumerate(ranked):
        so_far = max(so_far, min(1.0, value * (6 - rank)))
        holm[rank] = so_far
    for test in found.tests:
        value = p[test.part]
        assert test.result.p_bonferroni == pytest.approx(min(1.0, 6 * value))
        ranks = [rank for rank, other in enumerate(ranked) if other == value]
        assert any(test.result.p_holm == pytest.approx(holm[rank]) for rank in ranks)


def test_a_missing_seed_is_no_mean(mini: Task) -> None:
    """A row with a lost run has no value there and in the whole, and the family stays as it was declared."""
    found = results(mini, lost=[("trained", "new", "2")])
    assert found.scores(("trained",), "new") is None
    assert found.scores(("trained",), POOLED) is None
    left = found.scores(("trained",), "new", partial=True)
    assert left is not None
    assert left.values.tolist() == next(
        o.scores.values.tolist() for o in found.of(("trained",), "new") if o.scores is not None
    )
    assert found.lost_seeds(("trained",), "new") == ("2",)
    assert found.lost_seeds(("trained",), "old") == ()
    assert len(found.seeds(("trained",), POOLED, partial=True)) == len(found.seeds(("trained",), "old")) - 1
    assert parts_tested(found) == ({"old"}, 6)
    assert found.comparison is not None
    assert "family of 6 tests, 2 of them shown" in found.comparison.correction


def test_a_part_of_the_sets_is_pooled_but_not_tested(mini: Task) -> None:
    """Tests of the pooled topics are those of all sets: others would not be of the family."""
    three = replace(EXPERIMENT, axes={"year": {**EXPERIMENT.axes["year"], "next": ("edition=next",)}})
    cells = [cell for cell in three.cells() if cell.labels[1] != "next"]
    whole = results(mini)
    outcomes = [replace(outcome, cell=cell) for outcome, cell in zip(whole.outcomes, cells, strict=True)]
    found = ExperimentResults("t", three, tuple(outcomes), only={"year": ("old", "new")})
    assert found.parts == ("old", "new", POOLED)
    assert parts_tested(found) == ({"old", "new"}, 4 * 2)


def test_sets_with_topics_in_common_are_not_pooled(mini: Task) -> None:
    same = {at: scored("x", at[1], VALUES[at], topics="3456") for at in VALUES if at[1] == "new"}
    found = results(mini, changed=same)
    assert found.parts == ("old", "new")
    assert any("shared topics cannot be pooled" in line for line in found.refused)
    assert {test.part for test in found.tests} == {"old", "new"}


def test_rows_of_other_judgments_are_not_tested(mini: Task) -> None:
    other = {at: replace(scored("x", at[1], VALUES[at]), qrels_sha256="other") for at in VALUES if at[0] == "base"}
    found = results(mini, changed=other)
    assert (found.tests, found.comparison) == ((), None)
    assert found.refused
    assert all("qrels_sha256" in line for line in found.refused)


def three_seeds() -> tuple[Experiment, dict[tuple[str, str, str | None], Scores]]:
    """The experiment with a third seed, which is best on the old year, and the second on the new."""
    plan = replace(EXPERIMENT, seeds=Seeds("system.seed", ("1", "2", "3"), {"condition": ("trained",)}))
    third = {"old": [1.0, 0.75, 1.0], "new": [0.25, 0.25, 0.0, 0.5]}
    return plan, {("trained", year, "3"): scored("trained-3", year, values) for year, values in third.items()}


def test_best_seed_and_mean_by_hand(mini: Task) -> None:
    """Means of the old year: 2/3, 2/3, 11/12; of the new: .625, .625, .25; pooled: 4.5/7, 4.5/7, 3.75/7."""
    plan, third = three_seeds()
    found = results(mini, changed=third, experiment=plan)
    chosen = {part: found.best_seed(("trained",), part) for part in found.parts}
    assert [(part, best.name, best.tried, best.on) for part, best in chosen.items() if best is not None] == [
        ("old", "3", 3, ()),
        ("new", "1", 3, ()),  # the first of equals
        (POOLED, "1", 3, ()),
    ]
    assert [best.value for best in chosen.values() if best is not None] == pytest.approx([11 / 12, 0.625, 4.5 / 7])
    old = chosen["old"]
    assert old is not None
    assert old.scores.mean("nDCG") == pytest.approx(1 - 11 / 24)
    assert found.best_seed(("base",), "old") is None  # of one seed nothing is chosen
    assert of(found, "trained", "old").mean("AP") == pytest.approx(0.75)


def test_the_other_sets_choose_the_seed_if_the_experiment_says_so(mini: Task) -> None:
    plan, third = three_seeds()
    seeds = plan.seeds
    assert seeds is not None
    found = results(mini, changed=third, experiment=replace(plan, seeds=replace(seeds, best="others")))
    old, new = (found.best_seed(("trained",), part) for part in ("old", "new"))
    assert old is not None
    assert new is not None
    assert [(old.name, old.on), (new.name, new.on)] == [("1", ("new",)), ("3", ("old",))]
    assert [old.value, new.scores.mean("AP")] == pytest.approx([0.625, 0.25])


def test_settings_are_chosen_on_the_other_sets(mini: Task) -> None:
    """Each year has the values of the setting that is best on the other one, in means and in tests."""
    conditions = {
        "base": EXPERIMENT.conditions["base"],
        "tuned": Condition(("system=tuned",), tune={"system.k1": ("1", "2", "3")}),
    }
    plan = replace(EXPERIMENT, conditions=conditions, seeds=None)
    _, third = three_seeds()
    values: dict[tuple[str, str, str | None], Scores] = {
        ("trained", year, seed): scored("x", year, VALUES["trained", year, seed]) for year in YEARS for seed in "12"
    }
    known: dict[tuple[str, str, str | None], Scores] = values | third
    outcomes = []
    for cell in plan.cells():
        name, year = cell.labels
        at = ("trained", year, cell.point.removeprefix("k1="))
        scores = known[at] if name == "tuned" else scored("base", year, VALUES["base", year, None])
        outcomes.append(Outcome(cell, {}, task=mini, scores=scores))
    found = ExperimentResults("t", plan, tuple(outcomes))
    chosen = {year: found.setting(("tuned",), year) for year in YEARS}
    assert {year: best and (best.name, best.tried, best.on) for year, best in chosen.items()} == {
        "old": ("k1=1", 3, ("new",)),
        "new": ("k1=3", 3, ("old",)),
    }
    assert of(found, "tuned", "old").column("AP").tolist() == VALUES["trained", "old", "1"]
    assert of(found, "tuned", "new").column("AP").tolist() == [0.25, 0.25, 0.0, 0.5]
    assert found.deviation(("tuned",), "old", "AP") is None
    test = next(test for test in found.tests if test.part == "new" and test.result.measure == "AP")
    assert test.result.difference == pytest.approx((0.25 + 0.25 + 0 + 0.5 - 2.25) / 4)
    # Without one of the runs that choose, nothing is chosen.
    lost = [replace(o, scores=None, reason="x") if o.cell.labels == ("tuned", "new") and o.cell.point == "k1=2" else o
            for o in outcomes]  # fmt: skip
    part = ExperimentResults("t", plan, tuple(lost))
    assert part.scores(("tuned",), "old") is None
    assert {test.part for test in part.tests} == {"new"}


def test_halves_do_not_divide_topics_that_ask_the_same() -> None:
    theorems = task("mini-theorems")
    plan = Experiment(
        "t", {"tuned": Condition(("system=t",), tune={"system.k": ("1", "2")})}, ("AP", "nDCG"), tune_on="halves"
    )
    topics = theorems.scorer.qrels.topics
    clusters = theorems.collection.clusters()
    assert clusters is not None
    first = dict.fromkeys(clusters[topic] for topic in topics)
    odd = {cluster for place, cluster in enumerate(first) if place % 2 == 0}
    # k=1 is best on the clusters of the first half alone, so that the topics of the other half have its values.
    values = {
        "k=1": [0.75 if clusters[topic] in odd else 0.125 for topic in topics],
        "k=2": [0.5 if clusters[topic] in odd else 0.25 for topic in topics],
    }
    outcomes = [
        Outcome(cell, {}, task=theorems, scores=scored(cell.point, "old", values[cell.point], topics))
        for cell in plan.cells()
    ]
    chosen = ExperimentResults("t", plan, tuple(outcomes)).setting(("tuned",), "")
    assert chosen is not None
    assert chosen.name == "k=2 (odd groups); k=1 (even)"
    assert chosen.scores.column("AP").tolist() == [0.5 if clusters[topic] in odd else 0.125 for topic in topics]


def test_settings_are_chosen_on_the_other_half(mini: Task) -> None:
    """Topics 1 and 3 have the settings that are best on 2, and topic 2 those that are best on 1 and 3."""
    plan = Experiment(
        "t",
        {"base": Condition(("system=base",)), "tuned": Condition(("system=t",), tune={"system.k": ("1", "2")})},
        ("AP", "nDCG"),
        baseline={"condition": "base"},
        tune_on="halves",
    )
    values = {"": [0.5, 0.5, 0.25], "k=1": [0.25, 1.0, 0.25], "k=2": [0.5, 0.25, 1.0]}
    outcomes = [
        Outcome(cell, {}, task=mini, scores=scored(cell.point, "old", values[cell.point])) for cell in plan.cells()
    ]
    found = ExperimentResults("t", plan, tuple(outcomes))
    chosen, scores = found.setting(("tuned",), ""), of(found, "tuned", "")
    assert chosen is not None
    assert (chosen.name, chosen.tried) == ("k=1 (odd topics); k=2 (even)", 2)
    assert scores.column("AP").tolist() == [0.25, 0.25, 0.25]
    assert scores.column("nDCG").tolist() == [0.875, 0.875, 0.875]
    assert [test.result.difference for test in found.tests if test.result.measure == "AP"] == pytest.approx([-1 / 6])

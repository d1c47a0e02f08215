"""The report of an experiment: sets of topics that differ in what is known of them, marks, seeds, costs, curves."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as reference

from harness.data.topics import Topics
from harness.data.trec import Qrels, Run
from harness.experiments.experiment import Experiment
from harness.experiments.overrides import Condition, ExperimentScale, Seeds
from harness.experiments.result_files import scores_in
from harness.experiments.results import ExperimentResults, Outcome
from harness.experiments.task import task
from harness.render import figures
from harness.render.model import Cell, Figure, Prose, Table
from harness.render.svg import text_width
from harness.render.write import Report
from harness.reports import means, pair_tests
from harness.reports.experiment import experiment_report
from harness.reports.experiment_parts import collections_sections, seeds_sections
from harness.reports.means import MeansColumn
from harness.reports.pair_tests import PairTestColumn
from harness.scoring.random_effects import seed_test, seed_variance, seeds_needed, stratified_test
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores
from harness.store import cost


def test_the_breakdown_is_over_the_sets_whose_judged_topics_have_the_attribute() -> None:
    """A collection may hold the topics of several years; a run that lacks another year loses no row by that."""
    mini = task("mini-task1", measures=["nDCG"])
    judged = mini.scorer.qrels.to_dict()
    years = {"old": list(judged)[:5], "new": list(judged)[5:9]}
    difficulty = {topic: "High" if topic == years["new"][0] else "Low" for topic in years["new"]}
    attributes = {topic.id: {"difficulty": difficulty[topic.id]} for topic in mini.topics if topic.id in difficulty}
    known = Topics(tuple(replace(topic, attributes=attributes.get(topic.id, {})) for topic in mini.topics))
    plan = Experiment(
        "t",
        {"good": Condition(("system=a",)), "partial": Condition(("system=b",))},
        ("nDCG",),
        axes={"year": {name: (f"edition={name}",) for name in years}},
        pool="year",
        breakdown=("difficulty",),
    )
    run = Run.from_dict("r", {topic: dict(docs) for topic, docs in judged.items()})
    outcomes = []
    for cell in plan.cells():
        condition, year = cell.labels
        if (condition, year) == ("partial", "old"):
            outcomes.append(Outcome(cell, {}, reason="broken"))
            continue
        qrels = Qrels.from_dict(year, {topic: judged[topic] for topic in years[year]})
        scorer = Scorer(qrels, mini.scorer.protocol, collection="mini-task1", measures=("nDCG",))
        of_year = replace(mini, topics=known, scorer=scorer)
        outcomes.append(Outcome(cell, {}, task=of_year, scores=scorer(run)))
    report = experiment_report(ExperimentResults("t", plan, tuple(outcomes)))
    by = table(report, "by-difficulty")
    assert by.caption == "nDCG′ by difficulty (new)"
    assert [column.full_title for column in by.columns][1:] == [
        "Low / n", "Low / nDCG′", "High / n", "High / nDCG′",
    ]  # fmt: skip
    assert [[cell.value for cell in row[1:]] for row in by.rows] == [[3, 1.0, 1, 1.0]] * 2


TOPICS = tuple("abcdefgh")
# Of topics a to h; the differences from the first are .25 on all but one, .05 or less, and mixed.
VALUES = {
    "base": [0.5, 0.25, 0.5, 0.25, 0.5, 0.25, 0.5, 0.25],
    "far": [0.75, 0.5, 0.75, 0.5, 0.75, 0.5, 0.75, 0.375],
    "near": [0.75, 0.5, 0.625, 0.25, 0.5, 0.25, 0.625, 0.375],
    "same": [0.25, 0.5, 0.5, 0.25, 0.5, 0.375, 0.375, 0.25],
}
SHIFT = 1 / 128  # of the second seed of `far`
SIDES: dict[tuple[str, str], dict[str, Any]] = {
    ("far", "1"): {
        cost.LATENCY: {"a": 0.01, "b": 0.03},
        cost.EPOCHS: [2.0, 4.0],
        cost.PARAMETERS: 1000,
        cost.MEMORY: 100 << 20,
        cost.TRAINING_MEMORY: 300 << 20,
        cost.STORED: 2 << 20,
        cost.LOG: [
            {"epoch": 0, "training loss": None, "validation loss": 2.0, "MRR": 0.5},
            {"epoch": 1, "training loss": 1.5, "validation loss": 1.0, "MRR": 0.75},
        ],
        cost.STEPS: [[0, 3.0], [10, 1.5]],
    },
    ("far", "2"): {
        cost.LATENCY: {"a": 0.02, "b": 0.05},
        cost.EPOCHS: [6.0],
        cost.MEMORY: 200 << 20,
        cost.VECTORS: True,
    },
    ("near", "1"): {cost.LATENCY: {"a": 0.25}, cost.RATE: 114.0, cost.INDEX: 1 << 20, cost.STORED: 9 << 20},
}


def four(**changes: Any) -> ExperimentResults:  # noqa: ANN401
    """A baseline and three others with two seeds each, whose values are shifted by the seed."""
    mini = task("mini-task1", measures=["AP"])
    plan = Experiment(
        "Four",
        {name: Condition((f"system={name}",)) for name in VALUES},
        ("AP",),
        axes={"pairs": {"10": ("edition=a",)}},
        seeds=Seeds("system.seed", ("1", "2")),
        baseline={"condition": "base"},
        **changes,
    )
    outcomes = []
    for cell in plan.cells():
        name, seed = cell.labels[0], cell.seed or ""
        shift = SHIFT if seed == "2" else 0.0
        values = np.array(VALUES[name])[:, None] + (shift if name == "far" else 0)
        scores = Scores(f"{name}-{seed}", "c", "e", mini.scorer.protocol, ("AP",), TOPICS, values, "q", f"{name}{seed}")
        run, sides = Path(f"{name}-{seed}.run"), SIDES.get((name, seed), {})
        outcomes.append(Outcome(cell, {}, run=run, task=mini, scores=scores, costs=sides))
    return ExperimentResults("four", plan, tuple(outcomes), scale="here" if plan.scale else "full")


def table(report: Report, name: str) -> Table:
    """A table, alone or of a figure."""
    blocks = [block.table if isinstance(block, Figure) else block for block in report.blocks()]
    return next(block for block in blocks if isinstance(block, Table) and block.id == name)


def test_marks_are_those_of_bonferroni_by_hand() -> None:
    """Three tests: p is multiplied by 3; what that takes above .05 is marked as significant without correction only."""
    report = experiment_report(four())
    rows = table(report, "means").rows
    for row, (name, values) in zip(rows, VALUES.items(), strict=True):
        differences = np.array(values) - np.array(VALUES["base"]) + (SHIFT / 2 if name == "far" else 0)
        cell = row[-1]
        assert cell.value == pytest.approx(np.mean(values) + (SHIFT / 2 if name == "far" else 0))
        marks = set(cell.marks) - {"best"}
        if name == "base":
            assert (row[0].marks, marks) == (("baseline",), set())
            continue
        seeds = [np.array(values) + shift for shift in ((0.0, SHIFT) if name == "far" else (0.0, 0.0))]
        p = seed_test(np.array(seeds), np.array([VALUES["base"]] * 2)).p
        way = "better" if differences.mean() > 0 else "worse"
        assert marks == ({way} if 3 * p < 0.05 else {f"nominally-{way}"} if p < 0.05 else set())
    assert [[*row[-1].marks] for row in rows] == [[], ["better", "best"], ["nominally-better"], []]
    assert rows[1][-1].text == f"{(sum(VALUES['far']) / 8 + SHIFT / 2):.3f} ± {SHIFT / math.sqrt(2):.3f}"


def test_scores_by_topic_are_those_of_the_runs(tmp_path: Path) -> None:
    """One for each run, also of the seeds, as `harness export results` reads them."""
    results = four()
    experiment_report(results).write(tmp_path, ["json", "csv"])
    found = {each.run: each for each in scores_in(tmp_path)}
    made = [outcome.scores for outcome in results.outcomes if outcome.scores is not None]
    assert list(found) == [f"{name}, 10, seed {seed}" for name in VALUES for seed in (1, 2)]
    for kept, given in zip(found.values(), made, strict=True):
        assert np.array_equal(kept.values, given.values)
        assert (kept.topics, kept.run_sha256) == (given.topics, given.run_sha256)
    assert "far, 10, seed 2" in (tmp_path / "scores.csv").read_text("utf-8")


def test_the_best_seed_is_marked_as_chosen_on_the_evaluation_data() -> None:
    far = table(experiment_report(four()), "best-seed").rows[1]
    assert [cell.text for cell in far] == ["far", "10", "2", f"{sum(VALUES['far']) / 8 + SHIFT:.3f}"]
    assert far[-1].marks == ("chosen",)


def test_costs_are_of_side_files_and_never_zero() -> None:
    every = ("epoch", "training", "parameters", "memory", "gpu_memory", "index", "vectors", "latency", "rate")
    report = experiment_report(four(costs=every))
    rows = {row[0].text: [cell.text for cell in row[2:]] for row in table(report, "costs").rows}
    assert rows == {
        "base": ["2", *["n/a"] * 9],
        # Epochs 2, 4, 6; trainings of 6 and 6 s; queries of 10, 20, 30, 50 ms, whose sum is 110.
        "far": ["2", "4.0", "6.0", "1000", "300", "n/a", "2.00", "n/a", "25.00", f"{4 / 0.11:.1f}"],
        "near": ["2", "n/a", "n/a", "n/a", "n/a", "n/a", "1.00", "n/a", "250.00", "114.0"],
        "same": ["2", *["n/a"] * 9],
    }
    known = {(row[0], row[2]): row[3] for row in report.records["costs"].rows}
    assert known["far", "memory"] == 300 << 20
    assert known["far", "latency"] == pytest.approx(0.025)
    assert known["same", "rate"] is None


def test_latencies_of_batches_come_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of costs says that topics share a batch's time, and the size of batches."""
    said = "share its time equally"
    (note,) = [note for note in table(experiment_report(four(costs=("latency",))), "costs").notes if said in note]
    assert "Batches" not in note
    monkeypatch.setitem(SIDES, ("far", "1"), {**SIDES["far", "1"], cost.TOGETHER: 32})
    monkeypatch.setitem(SIDES, ("near", "1"), {**SIDES.get(("near", "1"), {}), cost.TOGETHER: 1})
    (note,) = [note for note in table(experiment_report(four(costs=("rate",))), "costs").notes if said in note]
    assert note.endswith("Batches have up to 32 topics.")
    assert not [note for note in table(experiment_report(four(costs=("index",))), "costs").notes if said in note]


def test_curves_are_drawn_over_steps_epochs_and_numbers() -> None:
    report = experiment_report(four(curves=True, numeric=("pairs",)))
    values = {name: [[cell.value for cell in row[1:]] for row in table(report, f"{name}-values").rows]
              for name in ("training-loss-by-step", "training-loss-by-epoch", "validation-loss-by-epoch")}  # fmt: skip
    assert values == {
        "training-loss-by-step": [[0, 3.0], [10, 1.5]],
        "training-loss-by-epoch": [[1, 1.5]],
        "validation-loss-by-epoch": [[0, 2.0], [1, 1.0]],
    }
    over = table(report, "over-pairs").rows
    assert [row[0].text for row in over] == list(VALUES)
    assert [cell.value for cell in over[1][1:]] == pytest.approx(
        [10, 2, sum(VALUES["far"]) / 8 + SHIFT / 2, SHIFT / math.sqrt(2)]
    )


def test_what_a_scale_changes_stands_below_every_table() -> None:
    here = ExperimentScale("half of the pairs", ("corpus=few",), ("1", "2"))
    report = experiment_report(four(scale={"here": here}, costs=("latency",), curves=True, numeric=("pairs",)))
    line = "Scale here: half of the pairs (corpus=few; seeds 1, 2)."
    tables = [block.table if isinstance(block, Figure) else block for block in report.blocks()]
    found = [each for each in tables if isinstance(each, Table)]
    assert len(found) > 5
    assert all(each.notes[-1] == line for each in found)
    assert " at scale here" in report.headline
    assert not any("Scale" in note for block in experiment_report(four()).blocks() if isinstance(block, Table)
                   for note in block.notes)  # fmt: skip


# Figures


def figure(report: Report, name: str) -> Figure:
    return next(block for block in report.blocks() if isinstance(block, Figure) and block.id == name)


def test_the_first_figure_has_the_means_with_their_intervals() -> None:
    """By hand: the t interval of eight values, which are the means of two seeds."""
    report = experiment_report(four())
    shown = figure(report, "means-figure")
    assert report.sections[0].blocks[:2] == (Prose(("far, 10 is 0.129 above the next, near, 10 (not tested).",)), shown)
    assert shown.caption == "MAP′ by condition; c, edition e, n = 8, protocol arqmath-task1; diamond: the best"
    values = np.array(VALUES["far"]) + SHIFT / 2
    low, high = reference.t.interval(0.95, 7, values.mean(), reference.sem(values))
    assert f"far 10: {values.mean():.3f} [{low:.3f}, {high:.3f}]" in shown.svg.replace("−", "-").replace(", 10", " 10")
    assert shown.svg.count('class="f1"') == 1  # the best


def test_differences_are_those_of_the_tests() -> None:
    results = four()
    shown = figure(experiment_report(results), "differences-figure")
    assert shown.caption.endswith("n = 8; diamond: significant after Bonferroni's correction over 3 tests")
    for test in results.tests:
        row = test.result
        numbers = f"{row.difference:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}]"
        assert numbers in shown.svg.replace("−", "-")
    assert shown.svg.count('class="f1"') == 1  # far


def test_effectiveness_against_the_first_cost_that_rows_have() -> None:
    shown = figure(experiment_report(four(costs=("vectors", "latency"))), "cost-figure")
    assert shown.caption == "MAP′ against cost (a query, ms)"
    assert shown.svg.count("<circle") == 2  # far and near
    drawn = [block.id for block in experiment_report(four()).blocks() if isinstance(block, Figure)]
    assert "cost-figure" not in drawn


def test_a_mean_without_a_lost_seed_is_marked() -> None:
    whole = four()
    lost = tuple(
        replace(outcome, scores=None, task=None, reason="broken") if outcome.run == Path("far-2.run") else outcome
        for outcome in whole.outcomes
    )
    report = experiment_report(replace(whole, outcomes=lost))
    cells = {row[0].text: row[-1] for row in table(report, "means").rows}
    assert cells["far"].value == pytest.approx(sum(VALUES["far"]) / 8)
    assert cells["far"].note == "without seed 2, whose run is missing; not tested"
    assert {cell.note for name, cell in cells.items() if name != "far"} == {""}
    assert {row[0].text for row in table(report, "tests").rows} == {"near", "same"}


@pytest.mark.parametrize("values", [(-0.075, 0.075), (0.0001, 0.0009), (-1234.5, 99999.0), (0.5, 0.5)])
def test_numbers_of_an_axis_do_not_touch(values: tuple[float, float]) -> None:
    drawing = figures.dot_interval([("a run with some name", values[0], *values, False)], "x")
    numbers = re.findall(r'<text x="([\d.]+)" y="56" text-anchor="middle" class="soft">([^<]*)<', drawing)
    assert len(numbers) > 1
    ends = [(float(x) - text_width(label) / 2, float(x) + text_width(label) / 2) for x, label in numbers]
    assert all(before[1] < after[0] for before, after in pairwise(ends))


@pytest.mark.parametrize("strong", [False, True])
def test_names_at_the_left_are_not_cut_by_the_edge(strong: bool) -> None:
    name = "WWteam0 / prim_MathMMMBERTa with a name of 60 characters and more"
    drawing = figures.dot_interval([(name, 0.5, 0.4, 0.6, strong)], "x", zero=False)
    *lines, _ = re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="end"[^>]*>([^<]*)<', drawing)
    assert "".join(part for _, part in lines).replace(" ", "") == name.replace(" ", "")
    assert all(float(x) - text_width(part, strong) >= 0 for x, part in lines)


def test_columns_from_outside_are_in_the_tables_of_an_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the forms of such columns are told apart: `test_means`."""
    monkeypatch.setattr(means, "MEANS", [MeansColumn({"experiment": "first"}, lambda s, _: Cell(s.run[:1], 7.0))])
    monkeypatch.setattr(
        pair_tests,
        "TESTS",
        [*pair_tests.TESTS, PairTestColumn({"experiment": "double n"}, lambda r: Cell(f"{r.n * 2}"))],
    )
    report = experiment_report(four())
    assert "first" in [column.full_title for column in table(report, "means").columns]
    at = [column.title for column in table(report, "tests").columns].index("double n")
    assert {row[at].text for row in table(report, "tests").rows} == {"16"}


def test_the_variance_of_seeds_and_the_seeds_that_a_difference_needs() -> None:
    results = four()
    [section] = seeds_sections(results)
    report = Report("t", "h", (section,))
    values = np.array([VALUES["far"], [value + SHIFT for value in VALUES["far"]]])
    found = seed_variance(values)
    by_row = {row[0].text: row for row in table(report, "seed-variance").rows}
    assert [cell.value for cell in by_row["far"][2:]] == pytest.approx(
        [2, 8, found.seed, found.topic, found.interaction]
    )
    # With another seed all topics shift alike: nothing of it is an interaction.
    assert [found.seed, found.interaction] == pytest.approx([SHIFT / np.sqrt(2), 0.0], abs=1e-9)
    needs = {row[0].text: row for row in table(report, "seeds-needed").rows}
    base = np.array([VALUES["base"], VALUES["base"]])
    test = seed_test(values, base)
    of_topics = math.sqrt(np.var(np.array(values).mean(axis=0) - base[0], ddof=1) / 8)
    assert [cell.value for cell in needs["far"][3:6]] == pytest.approx([test.difference, test.error, of_topics])
    assert needs["far"][6].value == seeds_needed(found, seed_variance(base), of_topics, abs(test.difference))


def test_sets_of_topics_that_disagree_are_shown_by_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = task("mini-task1", measures=["AP"])
    axes = {"year": {year: (f"edition={year}",) for year in ("old", "new")}}
    conditions = {name: Condition((f"system={name}",)) for name in ("a", "base")}
    plan = Experiment("Two", conditions, ("AP",), axes=axes, pool="year", baseline={"condition": "base"})
    random = np.random.default_rng(0)
    outcomes, apart = [], {"old": random.normal(0.2, 0.1, 6), "new": random.normal(-0.1, 0.1, 9)}
    for cell in plan.cells():
        name, year = cell.labels
        values = 0.5 + (apart[year] if name == "a" else 0 * apart[year])[:, None]
        topics = tuple(f"{year}.{at}" for at in range(len(values)))
        scores = Scores(name, "c", "e", mini.scorer.protocol, ("AP",), topics, values, "q", name)
        outcomes.append(Outcome(cell, {}, run=Path("x.run"), task=mini, scores=scores))
    results = ExperimentResults("two", plan, tuple(outcomes))
    monkeypatch.setattr(ExperimentResults, "clusters", lambda *_: None)
    [section] = collections_sections(results)
    [row] = table(Report("t", "h", (section,)), "heterogeneity").rows
    expected = stratified_test("a", "base", "AP", apart)
    assert expected.random is not None
    wanted = [*expected.differences.values(), expected.fixed.difference, expected.random.difference, expected.random.p]
    assert [cell.value for cell in row[3:]] == pytest.approx([*wanted, expected.i_squared, expected.q_p])
    assert expected.q_p is not None
    assert expected.q_p < 0.001

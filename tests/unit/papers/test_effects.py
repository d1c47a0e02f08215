"""Order and effects of tables by hand, and intervals of seeds against a simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import kendalltau, t

from harness.papers.cells import CellVerdict, Printed, PublishedCell, predicted
from harness.papers.effects import BaselineEffect, columns
from harness.scoring.reproduction import delta_relative_improvement, effect_ratio

# Row, printed value, value here; the first is the paper's baseline.
Rows = Sequence[tuple[str, str, float | None]]
ROWS: Rows = [("a", "0.200", 0.25), ("b", "0.300", 0.30), ("c", "0.250", 0.20), ("d", "0.200", 0.40)]


def cell(table: str, name: str, printed: str, baseline: bool, group: str = "") -> PublishedCell:
    measure = ("c1", "t", "", "ndcg", "single")
    return PublishedCell("p", table, "", name, group, *measure, printed, "", None, baseline, "")


def verdicts(rows: Rows, baseline: str = "a", table: str = "1") -> list[CellVerdict]:
    return [
        CellVerdict(cell(table, name, printed, name == baseline), "needs" if here is None else "differs", here)
        for name, printed, here in rows
    ]


def test_effects_by_the_definitions_of_breuer_et_al() -> None:
    """Effect ratio: mean improvement here / printed; delta RI: relative improvement printed - here."""
    (column,) = columns(verdicts(ROWS))
    effects = {effect.row: effect for effect in column.effects}
    assert set(effects) == {"b", "c", "d"}
    b = effects["b"]
    assert b.baseline == "a"
    wanted = (0.1, 0.05, 0.5, 0.1 / 0.2 - 0.05 / 0.25)
    assert pytest.approx(wanted) == (b.printed, b.here, b.ratio, b.delta_ri)
    assert effects["c"].ratio == pytest.approx(-1.0)  # of the other sign
    assert effects["d"].ratio is None  # nothing is printed as different
    assert effects["d"].delta_ri == pytest.approx(0 - 0.15 / 0.25)
    means = [np.array([value]) for value in (0.3, 0.2, 0.30, 0.25)]
    assert (b.ratio, b.delta_ri) == pytest.approx((effect_ratio(*means), delta_relative_improvement(*means)))


def test_order_of_the_rows() -> None:
    (column,) = columns(verdicts(ROWS))
    printed, here = [float(row[1]) for row in ROWS], [row[2] for row in ROWS]
    assert column.n == 4
    assert column.tau == pytest.approx(kendalltau(printed, here).statistic)


@pytest.mark.parametrize(
    ("rows", "baseline", "found"),
    [
        ([("a", "0.2", 0.2)], "a", []),  # one row has no order
        ([("a", "0.2", None), ("b", "0.3", 0.3), ("c", "0.4", 0.4)], "a", [(2, 1.0, 0)]),  # no baseline here
        ([("a", "0.2", 0.2), ("b", "0.2", 0.3)], "a", [(2, None, 1)]),  # ties alone
        ([("a", "0.2", 0.3), ("b", "0.3", 0.2)], "", [(2, -1.0, 0)]),  # the paper marks no baseline
    ],
)
def test_columns_in_part(rows: Rows, baseline: str, found: list[tuple[int, float | None, int]]) -> None:
    assert [(each.n, each.tau, len(each.effects)) for each in columns(verdicts(rows, baseline))] == found


def test_a_baseline_of_zero_has_no_relative_improvement() -> None:
    (column,) = columns(verdicts([("a", "0.0", 0.0), ("b", "0.3", 0.3)]))
    assert column.effects == (BaselineEffect("b", "a", 0.3, 0.3, 1.0, None),)


def test_tables_and_measures_are_columns_of_their_own() -> None:
    found = columns([*verdicts(ROWS), *verdicts(ROWS, table="2")])
    assert [(each.table, each.n) for each in found] == [("1", 4), ("2", 4)]


# ---- seeds ----------------------------------------------------------------------------------------------------------


def test_intervals_by_hand() -> None:
    values = [0.40, 0.42, 0.47]
    mean, spread = np.mean(values), np.std(values, ddof=1)
    wide = spread * t.ppf(0.975, 2)
    one = wide * np.sqrt(1 + 1 / 3)
    assert predicted(values) == pytest.approx((mean - one, mean + one))
    five = wide * np.sqrt(1 / 5 + 1 / 3)
    assert predicted(values, "mean", 5) == pytest.approx((mean - five, mean + five))
    assert predicted(values, "best", 1) == pytest.approx(predicted(values), abs=1e-4)
    assert predicted([0.4, 0.4, 0.4], "best", 5) == pytest.approx((0.4, 0.4))


@pytest.mark.parametrize(
    ("n", "kind", "seeds"),
    [(2, "run", 1), (3, "run", 1), (3, "mean", 5), (2, "best", 5), (3, "best", 5), (5, "best", 3), (3, "best", 10)],
)
def test_an_interval_holds_19_of_20_further_values(n: int, kind: Printed, seeds: int) -> None:
    rng, trials = np.random.default_rng(7), 40_000
    low, high = predicted([0.0] * (n - 1) + [1.0], kind, seeds)
    mean, spread = 1 / n, float(np.std([0.0] * (n - 1) + [1.0], ddof=1))
    seen, more = rng.standard_normal((trials, n)), rng.standard_normal((trials, seeds))
    printed = more.max(1) if kind == "best" else more.mean(1)
    where = (printed - seen.mean(1)) / seen.std(1, ddof=1)  # in standard deviations from the mean
    below, above = where < (low - mean) / spread, where > (high - mean) / spread
    assert (below.mean(), above.mean()) == pytest.approx((0.025, 0.025), abs=0.004)  # five standard errors


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (("one", "two"), {"one, b=0": ("one, b=1", -0.089), "two, b=0, two": ("two, b=1, two", 0.085)}),
        (("", ""), {}),  # two baselines, and nothing that says whose they are
    ],
)
def test_a_row_is_an_effect_over_the_baseline_of_its_own_group(
    groups: tuple[str, str], expected: dict[str, tuple[str, float]]
) -> None:
    """A sweep for each of two methods: each method has its own baseline."""
    made = []
    for group, ending, values in zip(groups, ("", ", two"), (("0.454", "0.365"), ("0.352", "0.437")), strict=True):
        for name, value in zip(("b=1", "b=0"), values, strict=True):
            row = cell("4", name + ending, value, name == "b=1", group)
            made.append(CellVerdict(row, "exact", float(value)))
    (column,) = columns(made)
    found = {effect.row: (effect.baseline, round(effect.printed, 3)) for effect in column.effects}
    assert found == expected

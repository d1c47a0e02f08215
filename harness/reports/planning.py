"""Tables of planned tests: how many topics find which difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.render.model import Cell, Column, Table, number_cell
from harness.scoring.planning import TestPlan


def plan_table(plans: Sequence[TestPlan], family: int, label: Callable[[str], str] = str) -> Table:
    """Returns the topics that each difference needs, by measure; `label`: measure -> its name in tables."""
    rows = tuple(
        (
            Cell(label(plan.measure)),
            Cell(f"{plan.topics:,}", plan.topics),
            number_cell(plan.detectable, 4),
            number_cell(size.sd, 4),
            number_cell(size.difference, 3),
            Cell("over 100,000") if size.topics is None else Cell(f"{size.topics:,}", size.topics),
            Cell("n/a") if size.resampled is None else number_cell(size.resampled, 2),
        )
        for plan in plans
        for size in plan.sizes
    )
    names = ("topics", "detectable", "sd of differences", "difference", "topics needed", "power by resampling")
    columns = (Column("measure"), *(Column(name, kind="number") for name in names))
    first = plans[0]
    notes = (
        f"Two-sided paired t-tests of two of {first.runs} runs like these, power {first.power:g}, level "
        f"{first.alpha:.3g} (alpha over a family of {family}). Detectable: the least difference that the topics at "
        "hand find. Standard deviation: sqrt(2) times that of the residual of a two-way analysis of variance (Sakai, "
        "2016); two runs that resemble each other need fewer topics. Resampling: the same power when topics are drawn "
        "from those at hand.",
        f'For a paper: "The number of topics was planned for paired t-tests at level {first.alpha:.3g} with a power of '
        f'{first.power:g}, from the variance of {first.runs} runs on {first.topics:,} topics (Sakai, 2016)."',
    )
    return Table("plan", "Topics that a difference needs", columns, rows, notes)

"""The steps `rate` and `collection`: settings, input and output folders."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from harness.errors import HarnessError
from harness.io.checks import check_number
from harness.papers.saber import collection as made_collection
from harness.papers.saber import rate as rating
from harness.papers.saber import swiss
from harness.papers.saber.judging import JudgeSettings, candidates_of, judge_of, read_targets_and_problems
from harness.papers.saber.steps import BuilderStep, Folders, StepEstimate, write_counts
from harness.store.llm.client import Mode


@dataclass(frozen=True)
class RateSettings:
    """Settings of the ratings (key `rate`).

    Attributes
    ----------
    penalty : of the strengths.
    scale : the largest rating.
    """

    penalty: Annotated[float, partial(check_number, low=1e-6, high=1e6)] = rating.PENALTY
    scale: Annotated[float, partial(check_number, low=1e-6, high=rating.LARGEST)] = rating.SCALE


def rate_step(settings: RateSettings) -> BuilderStep:
    """Returns the step that rates the candidates of all targets."""

    def make(folders: Folders, out: Path) -> None:
        played = swiss.read_games(folders["judge"] / swiss.GAMES)
        rated = rating.rate_all(played, penalty=settings.penalty, scale=settings.scale)
        if not rated:
            raise HarnessError("rate: no decision distinguishes the candidates of any target; try another judge")
        rating.write_ratings(out / rating.RATINGS, rated)
        rows = [row for each in rated for row in each.rows]
        error = math.fsum(row.error for row in rows) / len(rows)
        counts = {"targets": len(rated), "targets without a decision, left out": len(played) - len(rated)}
        write_counts(out, {**counts, "ratings": len(rows), "standard error, mean": round(error, 4)})

    return BuilderStep(
        "rate", ("judge",), asdict(settings), (rating.__name__,), make, lambda _: StepEstimate(), free=True
    )


def collection_step(name: str, title: str, judge: str) -> BuilderStep:
    """Returns the step that writes the collection, by `harness.papers.saber.collection`."""

    def make(folders: Folders, out: Path) -> None:
        targets, problems = read_targets_and_problems(folders)
        rated = rating.read_ratings(folders["rate"] / rating.RATINGS)
        rated_targets = {each.target for each in rated}
        targets = [target for target in targets if target.id in rated_targets]
        note = f"Judge of the ratings: {judge}."
        licence = "see the sources of the problems"
        made_collection.write_collection(
            out, name, problems, targets, rated, title=title or name, licence=licence, notes=[note]
        )
        write_counts(out, {"queries": len(targets), "ratings": sum(len(each.rows) for each in rated)})

    needs = ("databank", "select", "rate")
    settings = {"name": name, "title": title, "judge": judge}
    return BuilderStep(
        "collection", needs, settings, (made_collection.__name__,), make, lambda _: StepEstimate(), free=True
    )


def exhaustive(
    settings: JudgeSettings, rates: RateSettings, folders: Folders, mode: Mode = "live"
) -> list[rating.Ratings]:
    """Rates the candidates from all pairs, judged by the same judge; n (n - 1) / 2 comparisons per target.

    Targets without a decision are excluded, as in the step `rate`.
    """
    targets, problems = read_targets_and_problems(folders)
    judge = judge_of(settings, targets, problems, mode)
    drawn = settings.shown == "drawn"
    played = [
        swiss.round_robin(name, each, judge, settings.seed, drawn=drawn)
        for name, each in candidates_of(targets).items()
    ]
    return rating.rate_all(played, penalty=rates.penalty, scale=rates.scale)

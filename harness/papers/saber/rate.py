"""Step 7, ratings: strengths of candidates by the Bradley-Terry model, on a scale from 0 to 5.

The probability that a is preferred over b is 1 / (1 + exp(-(s_a - s_b))) (Bradley and Terry, 1952). The strengths of a
target's candidates maximise the log-likelihood of its games minus penalty / 2 times their sum of squares, which keeps
the strength of a candidate finite that never won or never lost. A penalty of 1 is the authors' logistic regression
without intercept, C = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.io.checks import check_number
from harness.papers.saber.lines import read_lines, write_lines
from harness.papers.saber.swiss import Games

RATINGS = "ratings.jsonl"
PENALTY = 1.0
SCALE = 5.0
LARGEST = 53.0  # largest scale: the protocol's gain 2^rating stays exact
_STEPS = 100
_FLAT = 1e-10  # gradient at which Newton's method stops, in games
_DIGITS = 9  # of strengths and ratings: equal ones stay equal in any order of summation


@dataclass(frozen=True)
class RateSettings:
    """Settings of the ratings (key `rate`).

    Attributes
    ----------
    penalty : of the strengths.
    scale : the largest rating.
    """

    penalty: Annotated[float, partial(check_number, low=1e-6, high=1e6)] = PENALTY
    scale: Annotated[float, partial(check_number, low=1e-6, high=LARGEST)] = SCALE


class UndecidedError(HarnessError):
    """Error: no decision distinguishes the candidates of a target."""


@dataclass(frozen=True)
class Rating:
    """The rating of a candidate.

    Attributes
    ----------
    rating : from 0 (the weakest candidate of the target) to 5 (the strongest), rounded to nine decimals.
    error : standard error of the rating, on the same scale.
    strength : in log-odds; the strengths of a target sum to 0.
    games, wins : number of games with a decision, and of those won.
    """

    candidate: str
    rating: float
    error: float
    strength: float
    games: int
    wins: int


@dataclass(frozen=True)
class Ratings:
    """Ratings of a target's candidates, in the order of `Games.candidates`."""

    target: str
    rows: tuple[Rating, ...]

    def by_candidate(self) -> dict[str, float]:
        """Returns candidate -> rating."""
        return {row.candidate: row.rating for row in self.rows}


def rate(games: Games, *, penalty: float = PENALTY, scale: float = SCALE) -> Ratings:
    """Rates the candidates of a tournament.

    Games without a decision do not count. The standard error is that of the strength minus the mean strength, from the
    curvature of the objective, scaled to ratings; the scaling factor is treated as known.

    Parameters
    ----------
    penalty, scale : above 0.

    Raises
    ------
    UndecidedError
        No decision distinguishes two candidates.
    HarnessError
        The penalty or the scale is not above 0.

    Examples
    --------
    >>> from harness.papers.saber.swiss import Game
    >>> ratings = rate(Games("t", ("a", "b", "c"), (Game(1, "a", "b", 1), Game(2, "b", "c", 1))))
    >>> [(row.candidate, row.rating, row.wins) for row in ratings.rows]
    [('a', 5.0, 1), ('b', 2.5, 1), ('c', 0.0, 0)]
    """
    if not penalty > 0 or not scale > 0:
        raise HarnessError(f"ratings: penalty {penalty:g} and scale {scale:g}, expected both above 0")
    won = won_against(games)
    strength, curvature = strengths(won, penalty)
    width = float(np.ptp(strength)) if strength.size else 0.0
    if width < 10.0**-_DIGITS:
        raise UndecidedError(
            f"target {games.target}: no decision distinguishes its candidates, so they have no ratings"
        )
    n = strength.size
    centred = np.eye(n) - 1.0 / n
    error = np.sqrt(np.diag(centred @ np.linalg.inv(curvature) @ centred))
    rating = scale * (strength - strength.min()) / width
    values = (each.round(_DIGITS).tolist() for each in (rating, error * scale / width, strength))
    counts = (each.sum(axis=1).astype(int).tolist() for each in (won + won.T, won))
    rows = zip(games.candidates, *values, *counts, strict=True)
    return Ratings(games.target, tuple(Rating(*row) for row in rows))


def rate_all(played: Sequence[Games], *, penalty: float = PENALTY, scale: float = SCALE) -> list[Ratings]:
    """Rates the candidates of all targets; excludes targets that raise `UndecidedError`."""
    out = []
    for games in played:
        with suppress(UndecidedError):
            out.append(rate(games, penalty=penalty, scale=scale))
    return out


def won_against(games: Games) -> Floats:
    """Counts how often each candidate was preferred over each other one, shape (candidates, candidates)."""
    place = {name: number for number, name in enumerate(games.candidates)}
    out = np.zeros((len(place), len(place)))
    for game in games.games:
        if game.preferred:
            a, b = place[game.first], place[game.second]
            winner, loser = (a, b) if game.preferred == 1 else (b, a)
            out[winner, loser] += 1.0
    return out


def strengths(won: Floats, penalty: float = PENALTY) -> tuple[Floats, Floats]:
    """Maximises the penalised likelihood; returns strengths, shape (n,), and the curvature there, shape (n, n).

    Uses Newton's method; the maximum is unique. The strengths sum to 0.

    >>> strengths(np.array([[0.0, 3.0], [1.0, 0.0]]), penalty=1e-9)[0].round(4)  # half the log of the odds 3
    array([ 0.5493, -0.5493])
    """
    played = won + won.T
    value = np.zeros(len(won))
    objective = _objective(value, won, penalty)
    for _ in range(_STEPS):
        probability = 1.0 / (1.0 + np.exp(value[None, :] - value[:, None]))
        gradient = (won - played * probability).sum(axis=1) - penalty * value
        spread = played * probability * (1.0 - probability)
        curvature = np.diag(spread.sum(axis=1)) - spread + penalty * np.eye(len(won))
        step = np.linalg.solve(curvature, gradient)
        if np.abs(gradient).max(initial=0.0) < _FLAT:
            value = value + step  # one more step: Newton's method squares the error
            break
        length = 1.0
        # Near the maximum sums differ by rounding only; rejecting a step for that would stop too early.
        least = objective - 1e-10 * (1.0 + abs(objective))
        while (reached := _objective(value + length * step, won, penalty)) < least and length > 1e-12:
            length /= 2
        value, objective = value + length * step, reached
    return value - value.mean(), curvature


def _objective(value: Floats, won: Floats, penalty: float) -> float:
    return float(-(won * np.logaddexp(0.0, value[None, :] - value[:, None])).sum() - penalty / 2 * (value**2).sum())


def write_ratings(path: Path, rated: Sequence[Ratings]) -> None:
    """Writes one JSON line per candidate: `target` and the keys of `Rating`, numbers unrounded."""
    rows = ({"target": each.target, **vars(row)} for each in rated for row in each.rows)
    write_lines(path, rows)


def read_ratings(path: Path) -> list[Ratings]:
    """Reads the ratings of a file, grouped by target; raises what `lines.read_lines` raises."""
    ratings_of: dict[str, list[Rating]] = {}
    for target, row in read_lines(path, lambda row: (row.pop("target"), Rating(**row))):
        ratings_of.setdefault(target, []).append(row)
    return [Ratings(target, tuple(rows)) for target, rows in ratings_of.items()]

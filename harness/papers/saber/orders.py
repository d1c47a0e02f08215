"""Accuracy of a tournament's order against the true order and against the order from all pairs (Figure 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from harness.papers.saber.judges import Oracle, draw, normal_number
from harness.papers.saber.rate import rate
from harness.papers.saber.swiss import ROUNDS, Games, round_robin, tournament
from harness.scoring.agreement import tau_b


@dataclass(frozen=True)
class OrderAgreement:
    """Agreement of two orders of the same items.

    Attributes
    ----------
    inversions : number of pairs in opposite order; a pair tied in one order is none, as in the authors' code.
    pairs : number of pairs.
    tau : Kendall's tau-b; NaN if one order ties all items.
    """

    inversions: int
    pairs: int
    tau: float


def agreement(a: Mapping[str, float], b: Mapping[str, float]) -> OrderAgreement:
    """Computes the agreement of two orders (item -> value, higher first) of the same two or more items.

    >>> agreement({"x": 3, "y": 2, "z": 1}, {"x": 3, "y": 1, "z": 2}).inversions
    1
    """
    names = sorted(a)
    x, y = (np.array([values[name] for name in names], dtype=np.float64) for values in (a, b))
    signs = [np.sign(values[:, None] - values[None, :]) for values in (x, y)]
    apart = np.triu(signs[0] * signs[1] < 0, 1)
    return OrderAgreement(int(apart.sum()), len(names) * (len(names) - 1) // 2, tau_b(x, y))


def first_rounds(games: Games, rounds: int) -> Games:
    """Returns the tournament as of the given round."""
    return replace(
        games, games=tuple(game for game in games.games if game.round <= rounds), sat_out=games.sat_out[:rounds]
    )


class StudyPoint(NamedTuple):
    """Order after some rounds of tournaments with one level of noise, and the order that it is compared with.

    Attributes
    ----------
    by : `ratings` (Bradley-Terry) or `wins`.
    against : `truth`, the oracle's order, or `all pairs`, the ratings from all pairs, judged by the same judge.
    """

    noise: float
    rounds: int
    by: str
    against: str


def known_strengths(candidates: int, seed: int) -> dict[str, float]:
    """Draws strengths of candidates from a standard normal distribution."""
    uniform = ((draw(seed, "strength", n), draw(seed, "angle", n)) for n in range(candidates))
    return {f"c{n:04d}": normal_number(*pair) for n, pair in enumerate(uniform)}


def study(
    candidates: int,
    noises: Sequence[float],
    seeds: Sequence[int],
    rounds: Sequence[int] = tuple(range(1, ROUNDS + 1)),
    *,
    penalty: float = 1.0,
) -> dict[StudyPoint, list[OrderAgreement]]:
    """Plays tournaments with an oracle and compares their orders with the truth and with all pairs, for each seed.

    Parameters
    ----------
    noises : of the oracle, in standard deviations of the strengths; 0 makes no errors.
    rounds : numbers of rounds after which the order is compared.

    Examples
    --------
    >>> points = study(8, [0.0], [1], [1, 4])
    >>> [(p.rounds, p.by, p.against) for p in points][:3]
    [(1, 'ratings', 'truth'), (1, 'ratings', 'all pairs'), (1, 'wins', 'truth')]
    """
    out: dict[StudyPoint, list[OrderAgreement]] = {}
    for noise in noises:
        for seed in seeds:
            truth = known_strengths(candidates, seed)
            judge = Oracle({"t": truth}, noise, seed=seed)
            played = tournament("t", list(truth), judge, max(rounds), seed)
            whole = rate(round_robin("t", list(truth), judge, seed), penalty=penalty).by_candidate()
            for number in rounds:
                so_far = first_rounds(played, number)
                for by, order in (("ratings", rate(so_far, penalty=penalty).by_candidate()), ("wins", so_far.wins())):
                    for against, other in (("truth", truth), ("all pairs", whole)):
                        out.setdefault(StudyPoint(noise, number, by, against), []).append(agreement(order, other))
    return out


def means(points: Mapping[StudyPoint, Sequence[OrderAgreement]]) -> dict[StudyPoint, tuple[float, float, float, float]]:
    """Returns the mean and the standard deviation over seeds of inversions, then of tau."""

    def spread(values: list[float]) -> tuple[float, float]:
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan

    return {
        key: (*spread([each.inversions for each in with_key]), *spread([each.tau for each in with_key]))
        for key, with_key in points.items()
    }

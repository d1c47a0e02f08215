"""How well a tournament finds an order: against the known one, and against the order of all pairs (Figure 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.builders.saber.draws import draw
from harness.builders.saber.judges import Oracle
from harness.builders.saber.rate import rate
from harness.builders.saber.swiss import ROUNDS, Games, round_robin, tournament
from harness.scoring.agreement import tau_b


@dataclass(frozen=True)
class Agreement:
    """How two orders of the same things agree.

    Attributes
    ----------
    inversions : pairs in opposite order; a pair that one of them ties counts half.
    pairs : all of them.
    tau : Kendall's tau-b; NaN where one order ties all.
    """

    inversions: float
    pairs: int
    tau: float


def agreement(a: Mapping[str, float], b: Mapping[str, float]) -> Agreement:
    """The agreement of two orders: thing -> value, high ones first, of the same things, two or more.

    >>> agreement({"x": 3, "y": 2, "z": 1}, {"x": 3, "y": 1, "z": 2}).inversions
    1.0
    """
    names = sorted(a)
    x, y = (np.array([values[name] for name in names], dtype=np.float64) for values in (a, b))
    signs = [np.sign(values[:, None] - values[None, :]) for values in (x, y)]
    # 0 where both agree, 1 where they are opposite, 1/2 where one of them ties.
    apart = np.triu(np.abs(signs[0] - signs[1]) / 2, 1)
    return Agreement(float(apart.sum()), len(names) * (len(names) - 1) // 2, tau_b(x, y))


def first_rounds(games: Games, rounds: int) -> Games:
    """The tournament as it stood after so many rounds."""
    return replace(
        games, games=tuple(game for game in games.games if game.round <= rounds), sat_out=games.sat_out[:rounds]
    )


@dataclass(frozen=True)
class Point:
    """One order that was found from `rounds` rounds, by one seed and level of noise.

    Attributes
    ----------
    by : `ratings` (Bradley-Terry) or `wins`.
    against : `truth`, the oracle's order, or `all pairs`, the order by ratings of all pairs, asked of the same judge.
    """

    noise: float
    seed: int
    rounds: int
    by: str
    against: str
    agreement: Agreement


def known_strengths(candidates: int, seed: int) -> dict[str, float]:
    """Strengths of so many candidates: draws of a standard normal distribution, by a seed."""
    uniform = [draw(seed, "strength", number) for number in range(candidates)]
    pairs = zip(uniform, (draw(seed, "angle", number) for number in range(candidates)), strict=True)
    return {f"c{n:04d}": math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v) for n, (u, v) in enumerate(pairs)}


def study(
    candidates: int,
    noises: Sequence[float],
    seeds: Sequence[int],
    rounds: Sequence[int] = tuple(range(1, ROUNDS + 1)),
    *,
    penalty: float = 1.0,
) -> list[Point]:
    """Tournaments of an oracle's candidates against its order and against all pairs, as a function of rounds.

    Parameters
    ----------
    noises : of the oracle, in standard deviations of the strengths; 0 makes no error.
    rounds : after how many the order is looked at.

    Examples
    --------
    >>> points = study(8, [0.0], [1], [1, 4])
    >>> [(p.rounds, p.by, p.against) for p in points][:3]
    [(1, 'ratings', 'truth'), (1, 'ratings', 'all pairs'), (1, 'wins', 'truth')]
    """
    out = []
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
                        out.append(Point(noise, seed, number, by, against, agreement(order, other)))
    return out


def means(points: Sequence[Point]) -> dict[tuple[float, int, str, str], tuple[float, float, float, float]]:
    """(noise, rounds, by, against) -> mean and standard deviation over seeds of inversions, then of tau."""
    grouped: dict[tuple[float, int, str, str], list[Agreement]] = {}
    for point in points:
        grouped.setdefault((point.noise, point.rounds, point.by, point.against), []).append(point.agreement)

    def spread(values: list[float]) -> tuple[float, float]:
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan

    return {
        key: (*spread([each.inversions for each in found]), *spread([each.tau for each in found]))
        for key, found in grouped.items()
    }

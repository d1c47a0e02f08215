"""Step 6, the tournament: in each Swiss round, candidates of a target meet others with about the same score.

The rules are those of the authors' code (`swiss_tour_run.py` in `nygeorgiev/sabermath` at 9f015a7): candidates are
ordered by score from the lowest up, ties by a random shuffle, and each is paired with the next one that it has not met;
no pair plays twice. A candidate without a partner sits out and gets nothing, as do both after a game without a
decision. The candidate with the smaller id is shown first, or the order is drawn by a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.papers.saber.judges import CandidatePair, Judge, draw
from harness.papers.saber.lines import read_lines, write_lines

GAMES = "games.jsonl"
ROUNDS = 20  # as in SABER-Math


@dataclass(frozen=True)
class Game:
    """Comparison of two candidates in a tournament.

    Attributes
    ----------
    round : number of the round, from 1.
    first, second : candidates in the order in which the judge saw them.
    preferred : 1 or 2; 0 if the judge gave no decision, which is no win in pairing and is ignored in rating.
    """

    round: int
    first: str
    second: str
    preferred: int


@dataclass(frozen=True)
class Games:
    """A tournament for one target.

    Attributes
    ----------
    sat_out : for each round the candidates that did not play, as their number is odd or they have met all others that
        were left.
    """

    target: str
    candidates: tuple[str, ...]
    games: tuple[Game, ...]
    sat_out: tuple[tuple[str, ...], ...] = ()

    def wins(self) -> dict[str, int]:
        """Returns candidate -> wins."""
        out = dict.fromkeys(self.candidates, 0)
        for game in self.games:
            if game.preferred:
                out[game.first if game.preferred == 1 else game.second] += 1
        return out


def tournament(
    target: str, candidates: Sequence[str], judge: Judge, rounds: int = ROUNDS, seed: int = 0, *, drawn: bool = False
) -> Games:
    """Plays the tournament of one target; see `tournaments`."""
    return tournaments({target: candidates}, judge, rounds, seed, drawn=drawn)[0]


def tournaments(
    targets: Mapping[str, Sequence[str]], judge: Judge, rounds: int = ROUNDS, seed: int = 0, *, drawn: bool = False
) -> list[Games]:
    """Plays the tournaments of all targets in parallel rounds, so that the judge gets many comparisons at once.

    The result for a target depends neither on the other targets nor on the order of its candidates.

    Parameters
    ----------
    targets : target -> its candidates, two or more.
    rounds : at most `most_rounds` of the number of candidates.
    seed : of the shuffles, and of the order in which a pair is shown.
    drawn : whether that order is drawn; otherwise the smaller id is shown first.

    Raises
    ------
    HarnessError
        A target has too few candidates, a candidate occurs twice, a target is its own candidate, or the judge fails.

    Examples
    --------
    >>> from harness.papers.saber.judges import Oracle
    >>> games = tournament("t", ["a", "b", "c", "d"], Oracle({"t": {"a": 4, "b": 3, "c": 2, "d": 1}}), rounds=2)
    >>> len(games.games), games.wins()["a"], games.sat_out
    (4, 2, ((), ()))
    """
    playing = [_Playing(target, candidates, rounds, seed, drawn) for target, candidates in targets.items()]
    for number in range(1, rounds + 1):
        asked = [(each, comparison) for each in playing for comparison in each.paired(number)]
        answers = _checked_answers(judge, [comparison for _, comparison in asked])
        for (each, comparison), preferred in zip(asked, answers, strict=True):
            each.record(number, comparison, preferred)
    return [each.done() for each in playing]


def most_rounds(candidates: int) -> int:
    """Returns the most rounds that a number of candidates can play without repeating a pair.

    >>> most_rounds(6), most_rounds(5)
    (5, 5)
    """
    return candidates - 1 if candidates % 2 == 0 else candidates


def first_round(targets: Mapping[str, Sequence[str]], seed: int = 0, *, drawn: bool = False) -> list[CandidatePair]:
    """Returns the comparisons of the first round, which depend on no answer; raises what `tournaments` raises."""
    playing = [_Playing(target, candidates, 1, seed, drawn) for target, candidates in targets.items()]
    return [comparison for each in playing for comparison in each.paired(1)]


def round_robin(target: str, candidates: Sequence[str], judge: Judge, seed: int = 0, *, drawn: bool = False) -> Games:
    """Plays all pairs of candidates once: n (n - 1) / 2 games, all in round 1."""
    names = sorted(candidates)
    _Playing(target, names, 1, seed, drawn)  # checks the candidates
    asked = [_pair_as_shown(target, a, b, seed, drawn) for a, b in combinations(names, 2)]
    answers = _checked_answers(judge, asked)
    games = tuple(Game(1, each.first, each.second, answer) for each, answer in zip(asked, answers, strict=True))
    return Games(target, tuple(names), games, ((),))


def _checked_answers(judge: Judge, asked: Sequence[CandidatePair]) -> Sequence[int]:
    answers = judge.prefer(asked)
    if len(answers) != len(asked) or any(answer not in (0, 1, 2) for answer in answers):
        raise HarnessError(f"judge {type(judge).__name__}: expected 0, 1 or 2 for each of {len(asked)} comparisons")
    return answers


def _pair_as_shown(target: str, a: str, b: str, seed: int, drawn: bool) -> CandidatePair:
    """Returns the order in which the judge sees two candidates; it depends on the pair only."""
    a, b = sorted((a, b))
    swapped = drawn and draw(seed, "swap", target, a, b) < 0.5
    return CandidatePair(target, b, a) if swapped else CandidatePair(target, a, b)


class _Playing:
    """Running tournament of one target."""

    def __init__(self, target: str, candidates: Sequence[str], rounds: int, seed: int, drawn: bool) -> None:
        names = sorted(candidates)
        if len(set(names)) < len(names) or target in names:
            raise HarnessError(f"target {target}: a candidate occurs twice, or the target is its own candidate")
        most = most_rounds(len(names))
        if len(names) < 2 or not 1 <= rounds <= most:
            raise HarnessError(
                f"target {target}: {rounds} rounds of {len(names)} candidates, expected 1 to {max(most, 0)}: "
                "no pair plays twice"
            )
        self._target, self._names, self._seed, self._drawn = target, names, seed, drawn
        self._met: dict[str, set[str]] = {name: set() for name in names}
        self._scores = dict.fromkeys(names, 0)
        self._games: list[Game] = []
        self._out: list[tuple[str, ...]] = []

    def paired(self, number: int) -> list[CandidatePair]:
        """Pairs the candidates for the next round."""
        shuffled = sorted(self._names, key=lambda name: draw(self._seed, "shuffle", self._target, number, name))
        pairs = next_pairs(shuffled, self._scores, self._met)
        playing = {name for pair in pairs for name in pair}
        self._out.append(tuple(name for name in self._names if name not in playing))
        return [_pair_as_shown(self._target, a, b, self._seed, self._drawn) for a, b in pairs]

    def record(self, number: int, comparison: CandidatePair, preferred: int) -> None:
        """Records a game that was decided: 1 or 2 for the candidate that is preferred, 0 for none."""
        a, b = comparison.first, comparison.second
        self._met[a].add(b)
        self._met[b].add(a)
        if preferred:
            self._scores[a if preferred == 1 else b] += 1
        self._games.append(Game(number, a, b, preferred))

    def done(self) -> Games:
        return Games(self._target, tuple(self._names), tuple(self._games), tuple(self._out))


def next_pairs(
    shuffled: Sequence[str], scores: Mapping[str, int], met: Mapping[str, set[str]]
) -> list[tuple[str, str]]:
    """Pairs candidates for a round: from the lowest score up, each with the next one that it has not met.

    Parameters
    ----------
    shuffled : the candidates; those of one score keep this order.
    met : candidate -> those that it has played.

    Examples
    --------
    >>> met = {"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}
    >>> next_pairs(["a", "b", "c", "d"], {"a": 1, "b": 0, "c": 0, "d": 1}, met)
    [('b', 'c'), ('a', 'd')]
    """
    waiting, pairs = sorted(shuffled, key=lambda name: scores[name]), []
    while waiting:
        a = waiting.pop(0)
        place = next((place for place, b in enumerate(waiting) if b not in met[a]), None)
        if place is not None:
            pairs.append((a, waiting.pop(place)))
    return pairs


# ---- files ------------------------------------------------------------------------------------------------------


def write_games(path: Path, played: Sequence[Games]) -> None:
    """Writes JSON lines: `target`, `candidates`, `games` (round, first, second, preferred), `sat_out` by round."""
    rows = (
        {
            "target": each.target,
            "candidates": list(each.candidates),
            "games": [[game.round, game.first, game.second, game.preferred] for game in each.games],
            "sat_out": [list(names) for names in each.sat_out],
        }
        for each in played
    )
    write_lines(path, rows)


def read_games(path: Path) -> list[Games]:
    """Reads the tournaments of a file in order; raises what `lines.read_lines` raises."""

    def games(row: dict[str, Any]) -> Games:
        played, out = tuple(Game(*game) for game in row["games"]), tuple(map(tuple, row["sat_out"]))
        return Games(row["target"], tuple(row["candidates"]), played, out)

    return list(read_lines(path, games))


# ---- position bias ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PositionBias:
    """Position bias of a judge: how often it prefers the candidate shown first.

    If the order is drawn, or ids say nothing of relevance, an unbiased judge prefers the first in half of the
    comparisons.

    Attributes
    ----------
    decided, undecided : number of comparisons with and without a decision.
    first : number of decisions for the candidate shown first.
    low, high : Wilson's 95 % interval of the share `first` / `decided`.
    """

    decided: int
    undecided: int
    first: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Share of decisions for the first candidate; NaN without decisions."""
        return self.first / self.decided if self.decided else float("nan")


def position_bias(played: Sequence[Games]) -> PositionBias:
    """Computes the judge's position bias over tournaments.

    >>> bias = position_bias([Games("t", ("a", "b"), (Game(1, "a", "b", 1), Game(2, "b", "a", 1)))])
    >>> bias.first, bias.decided, round(bias.low, 3)
    (2, 2, 0.342)
    """
    answers = [game.preferred for each in played for game in each.games]
    first, decided = answers.count(1), len(answers) - answers.count(0)
    low, high = wilson(first, decided)
    return PositionBias(decided, answers.count(0), first, low, high)


def wilson(successes: int, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Computes Wilson's interval (1927) of a share; NaN if n is 0.

    >>> tuple(round(end, 3) for end in wilson(5, 10))
    (0.237, 0.763)
    """
    if not n:
        return float("nan"), float("nan")
    p, weight = successes / n, z * z / n
    middle = (p + weight / 2) / (1 + weight)
    half = z * ((p * (1 - p) / n + weight / (4 * n)) ** 0.5) / (1 + weight)
    return middle - half, middle + half

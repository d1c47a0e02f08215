"""Tournaments and ratings: what always holds, and references."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from refusals import refusal as message

from harness.errors import HarnessError
from harness.papers.saber import swiss
from harness.papers.saber.judges import CandidatePair, Oracle, draw
from harness.papers.saber.orders import agreement, first_rounds, known_strengths, means, study
from harness.papers.saber.rate import rate, read_ratings, strengths, won_against, write_ratings
from harness.papers.saber.swiss import Game, Games, position_bias, round_robin, tournament


def oracle(n: int, noise: float = 0.0, seed: int = 0, bias: float = 0.0) -> tuple[list[str], Oracle]:
    truth = known_strengths(n, seed)
    return list(truth), Oracle({"t": truth}, noise, bias, seed)


# ---- the tournament


@given(st.integers(2, 25), st.data(), st.sampled_from([0.0, 0.3, 3.0]), st.integers(0, 99))
@settings(max_examples=examples(80), deadline=None)
def test_every_round(n: int, data: st.DataObject, noise: float, seed: int) -> None:
    """No pair plays twice; who sits out has met all others who do."""
    rounds = data.draw(st.integers(1, n - 1 if n % 2 == 0 else n))
    names, judge = oracle(n, noise, seed)
    games = tournament("t", names, judge, rounds, seed)
    pairs = [frozenset((game.first, game.second)) for game in games.games]
    assert len(set(pairs)) == len(pairs)
    assert len(games.sat_out) == rounds
    assert all(game.first < game.second for game in games.games)
    for number, out in enumerate(games.sat_out, 1):
        played = [name for game in games.games if game.round == number for name in (game.first, game.second)]
        assert sorted([*played, *out]) == sorted(names)
        before = {frozenset((game.first, game.second)) for game in games.games if game.round < number}
        assert all(frozenset(pair) in before for pair in itertools.combinations(out, 2))


def test_a_game_without_a_decision_gives_nothing() -> None:
    class Undecided:
        def prefer(self, comparisons: Sequence[CandidatePair]) -> Sequence[int]:
            return [0 if "a" in (each.first, each.second) else 1 for each in comparisons]

    games = tournament("t", ["a", "b", "c"], Undecided(), 3)
    assert [len(out) for out in games.sat_out] == [1, 1, 1]
    assert games.wins() == {"a": 0, "b": 1, "c": 0}


def test_all_pairs_met_where_rounds_allow() -> None:
    names, judge = oracle(6)
    games = round_robin("t", names, judge)
    assert len(games.games) == 15
    order = sorted(names, key=lambda name: -judge.strengths["t"][name])
    assert [games.wins()[name] for name in order] == [5, 4, 3, 2, 1, 0]


@given(st.permutations(list(range(9))), st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_the_order_of_candidates_and_other_targets_change_nothing(order: list[int], seed: int) -> None:
    names, judge = oracle(9, 0.5, seed)
    whole = tournament("t", names, judge, 4, seed)
    assert tournament("t", [names[place] for place in order], judge, 4, seed) == whole
    both = Oracle({**judge.strengths, "u": {"x": 1.0, "y": 2.0, "z": 0.0, "w": 5.0, "v": 3.0}}, 0.5, 0.0, seed)
    together = swiss.tournaments({"u": ["x", "y", "z", "w", "v"], "t": names}, both, 4, seed)
    assert together[1] == whole


@pytest.mark.parametrize(
    ("candidates", "rounds", "said"),
    [
        (["a", "b", "c", "d"], 4, "target t: 4 rounds of 4 candidates, expected 1 to 3: no pair plays twice"),
        (["a"], 1, "target t: 1 rounds of 1 candidates, expected 1 to 1: no pair plays twice"),
        (["a", "b", "a"], 1, "target t: a candidate occurs twice, or the target is its own candidate"),
        (["a", "t"], 1, "target t: a candidate occurs twice, or the target is its own candidate"),
    ],
)
def test_what_is_no_tournament(candidates: list[str], rounds: int, said: str) -> None:
    assert message(lambda: tournament("t", candidates, Oracle({"t": {}}), rounds)) == said


def test_a_judge_that_answers_otherwise_is_refused() -> None:
    class Odd:
        def prefer(self, comparisons: Sequence[CandidatePair]) -> Sequence[int]:
            return [3] * len(comparisons)

    said = "judge Odd: expected 0, 1 or 2 for each of 1 comparisons"
    assert message(lambda: tournament("t", ["a", "b"], Odd(), 1)) == said


def test_files_read_back(tmp_path: Path) -> None:
    names, judge = oracle(7, 0.4)
    games = tournament("t", names, judge, 5, 3)
    swiss.write_games(tmp_path / "games.jsonl", [games])
    assert swiss.read_games(tmp_path / "games.jsonl") == [games]
    rated = rate(games)
    write_ratings(tmp_path / "ratings.jsonl", [rated])
    assert read_ratings(tmp_path / "ratings.jsonl") == [rated]


# ---- position bias


def test_position_bias_is_seen() -> None:
    """The drawn order makes a fair judge's share a half, whatever the candidates, and shows an unfair one's."""
    names, fair = oracle(80, 0.5, 1)
    seen = position_bias([round_robin("t", names, fair, 1, drawn=True)])
    assert seen.decided == 80 * 79 // 2
    assert seen.low < 0.5 < seen.high
    _, unfair = oracle(80, 0.5, 1, bias=1.0)
    assert position_bias([round_robin("t", names, unfair, 1, drawn=True)]).low > 0.55


def test_a_drawn_order_keeps_a_position_bias_from_ids() -> None:
    """A judge that always prefers the first one ranks by ids, unless the order is drawn."""
    names, first = oracle(30, bias=1e9)
    by_id = rate(round_robin("t", names, first)).by_candidate()
    assert sorted(names, key=lambda name: -by_id[name]) == sorted(names)
    drawn = round_robin("t", names, first, drawn=True)
    smaller = sum(game.first < game.second for game in drawn.games)
    assert len(drawn.games) * 0.4 < smaller < len(drawn.games) * 0.6


def test_the_oracle_answers_a_pair_alike_whichever_is_first() -> None:
    names, judge = oracle(30, 1.0)
    for a, b in itertools.pairwise(names):
        one, two = judge.prefer([CandidatePair("t", a, b), CandidatePair("t", b, a)])
        assert {one, two} == {1, 2}


# ---- ratings


def test_ratings_as_scikit_learn_has_them() -> None:
    """The authors' model: logistic regression without intercept, L2 with C = 1."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    names, judge = oracle(20, 0.5, 2)
    games = tournament("t", names, judge, 9, 2)
    place = {name: number for number, name in enumerate(games.candidates)}
    rows = np.zeros((len(games.games), len(names)))
    labels = []
    for row, game in zip(rows, games.games, strict=True):
        row[place[game.first]], row[place[game.second]] = 1.0, -1.0
        labels.append(game.preferred == 1)
    model = linear_model.LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, max_iter=10_000)
    expected = model.fit(rows, labels).coef_[0]
    found = np.array([row.strength for row in rate(games).rows])
    assert found == pytest.approx(expected - expected.mean(), abs=1e-5)
    assert min(row.rating for row in rate(games).rows) == 0.0
    assert max(row.rating for row in rate(games).rows) == 5.0


@given(st.integers(3, 12), st.integers(0, 50), st.data())
@settings(max_examples=30, deadline=None)
def test_ratings_do_not_hang_on_order_and_ids(n: int, seed: int, data: st.DataObject) -> None:
    names, judge = oracle(n, 0.7, seed)
    games = tournament("t", names, judge, n // 2, seed)
    shuffled = tuple(data.draw(st.permutations(games.candidates)))
    called = {name: f"z{draw(seed, name)}" for name in names}
    others = data.draw(st.permutations(games.games))
    played = tuple(Game(game.round, called[game.first], called[game.second], game.preferred) for game in others)
    renamed = replace(games, candidates=tuple(called[name] for name in shuffled), games=played)
    whole, other = {row.candidate: row for row in rate(games).rows}, {r.candidate: r for r in rate(renamed).rows}
    for name, row in whole.items():
        assert replace(other[called[name]], candidate=name) == row  # to the last bit: ties stay ties


def test_ratings_are_the_maximum_to_the_digits_that_they_have() -> None:
    """A tournament on which steps refused for their rounding ended the search 1e-8 too early."""
    names = [f"c{n}" for n in range(12)]
    for seed in range(40):
        strong = {name: (0.0, 0.5, 1.0)[int(3 * draw(seed, name))] for name in names}
        games = tournament("t", names, Oracle({"t": strong}, 0.3, seed=seed), 5, seed)
        won = won_against(games)
        found, _ = strengths(won, 0.1)
        chance = 1 / (1 + np.exp(found[None, :] - found[:, None]))
        assert np.abs((won - (won + won.T) * chance).sum(axis=1) - 0.1 * found).max() < 1e-11


def test_a_swapped_decision_is_the_same_decision() -> None:
    a = Games("t", ("a", "b", "c"), (Game(1, "a", "b", 1), Game(2, "b", "c", 2), Game(3, "a", "c", 0)))
    b = Games("t", ("a", "b", "c"), (Game(1, "b", "a", 2), Game(2, "c", "b", 1)))
    assert rate(a) == rate(b)


def test_unbeaten_candidates_stay_finite() -> None:
    games = Games("t", ("a", "b", "c"), (Game(1, "a", "b", 1), Game(2, "a", "c", 1)))
    rows = rate(games).rows
    assert [row.rating for row in rows] == [5.0, 0.0, 0.0]
    assert all(math.isfinite(row.strength) and 0 < row.error < 5 for row in rows)
    smaller = strengths(won_against(games), 0.01)[0]
    assert np.ptp(smaller) > np.ptp(strengths(won_against(games), 1.0)[0])


def test_nothing_to_rate() -> None:
    said = "target t: no decision distinguishes its candidates, so they have no ratings"
    assert message(lambda: rate(Games("t", ("a", "b"), (Game(1, "a", "b", 0),)))) == said
    assert message(lambda: rate(Games("t", ("a", "b"), ()))) == said
    with pytest.raises(HarnessError, match="penalty 0 and scale 5, expected both above 0"):
        rate(Games("t", ("a", "b"), (Game(1, "a", "b", 1),)), penalty=0.0)


# ---- orders


def test_inversions_by_hand() -> None:
    found = agreement({"a": 4, "b": 3, "c": 2, "d": 1}, {"a": 4, "b": 1, "c": 2, "d": 2})
    assert (found.inversions, found.pairs) == (2, 6)  # b-c and b-d are opposite; c-d is tied, which counts nothing
    assert agreement({"a": 1, "b": 2}, {"a": 1, "b": 1}).inversions == 0


def test_the_study_finds_the_order() -> None:
    """Without noise all pairs give the truth; more rounds come nearer; ratings find it better than wins."""
    points = study(40, [0.0], [1, 2, 3], [2, 6, 12, 20])
    by = {tuple(point): found for point, found in means(points).items()}
    inversions = [by[0.0, rounds, "ratings", "truth"][0] for rounds in (2, 6, 12, 20)]
    assert inversions == sorted(inversions, reverse=True)
    for rounds in (6, 12, 20):
        assert by[0.0, rounds, "ratings", "all pairs"] == by[0.0, rounds, "ratings", "truth"]
        assert by[0.0, rounds, "ratings", "truth"][2] > by[0.0, rounds, "wins", "truth"][2]
    assert study(40, [0.0], [1], [2, 6, 12, 20]) == {point: found[:1] for point, found in points.items()}


def test_the_first_rounds_are_a_shorter_tournament() -> None:
    names, judge = oracle(11, 0.3)
    assert first_rounds(tournament("t", names, judge, 6), 4) == tournament("t", names, judge, 4)

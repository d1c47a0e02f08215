"""Leaderboards against tests made by scipy, brute force and hand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

import harness as h
from harness.errors import HarnessError
from harness.labs.board import Judgments, Leaderboard, Mean, Ties, leaderboard_from_json, leaderboard_to_json
from harness.labs.board_sources import shares_judged
from harness.labs.leaderboard import LeaderboardEntry, LeaderboardSettings, floor, leaderboard, leaderboards
from harness.labs.leaderboard_report import leaderboard_headline, reading
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores

HOW = Protocol("p", ("AP", "P@10", "Judged@10", "Judged@1000"), prime=True)
TOPICS = tuple(f"T.{n}" for n in range(12))
Columns = dict[str, Sequence[float]]


def scored(run: str, columns: Columns, *, how: Protocol = HOW, edition: str = "e", **more: Any) -> Scores:  # noqa: ANN401
    topics = TOPICS[: len(next(iter(columns.values())))]
    values = np.array([list(each) for each in columns.values()], dtype=np.float64).T
    return Scores(run, "c", edition, how, tuple(columns), topics, values, "0a" * 32, **more)


def entry(name: str, values: Sequence[float], primary: bool = True, **more: Any) -> LeaderboardEntry:  # noqa: ANN401
    return LeaderboardEntry(name, scored("tag", {"AP": values}, **more), primary=primary)


def random_entries(runs: int, seed: int, spread: float = 0.1) -> list[LeaderboardEntry]:
    """Runs whose means lie `spread` / 10 apart, with noise."""
    chance = np.random.default_rng(seed)
    topic = chance.random(len(TOPICS)) * 0.3
    values = topic + chance.normal(0, 0.02, (runs, len(TOPICS))) + np.arange(runs)[:, None] * spread / 10
    return [entry(f"r{run:02}", row.tolist()) for run, row in enumerate(values)]


def holm(entries: Sequence[LeaderboardEntry], alpha: float) -> set[frozenset[str]]:
    """The pairs that scipy's t-test and Holm's step-down procedure tell apart."""
    pairs = list(combinations(entries, 2))
    p = [float(stats.ttest_rel(a.scores.column("AP"), b.scores.column("AP")).pvalue) for a, b in pairs]
    out = set()
    for step, at in enumerate(sorted(range(len(pairs)), key=lambda at: p[at])):
        if p[at] * (len(pairs) - step) >= alpha:
            break
        out.add(frozenset(each.name for each in pairs[at]))
    return out


def said(action: Any) -> str:  # noqa: ANN401
    with pytest.raises(HarnessError) as caught:
        action()
    return str(caught.value)


@pytest.mark.parametrize("seed", range(4))
def test_letters_are_those_of_holm_over_all_pairs(seed: int) -> None:
    entries = random_entries(7, seed)
    board = leaderboard(entries, LeaderboardSettings(alpha=0.01))
    apart = holm(entries, 0.01)
    groups = {each.name: set(each.group) for each in board.ranked}
    assert 0 < len(apart) < 21
    for a, b in combinations(groups, 2):
        assert groups[a].isdisjoint(groups[b]) == (frozenset((a, b)) in apart)
    assert "a" in board.ranked[0].group
    assert (board.grouping, board.family, board.correction) == ("letters", 21, "holm")


def test_a_declared_family_counts_if_it_is_larger() -> None:
    entries = random_entries(7, 0)
    plain, wide = (leaderboard(entries, LeaderboardSettings(alpha=0.01, family=family)) for family in (3, 10_000))
    assert (plain, wide.family) == (leaderboard(entries, LeaderboardSettings(alpha=0.01)), 10_000)
    letters = [len(set("".join(each.group for each in board.ranked))) for board in (plain, wide)]
    assert letters[0] > letters[1]
    assert plain.detectable is not None and plain.detectable.median is not None
    assert wide.detectable is not None and wide.detectable.median is not None
    assert wide.detectable.median > plain.detectable.median
    expected = reading(wide)[1]
    assert "Holm's correction over a family of 10,000 tests: all pairs of ranked runs and further declared" in expected


def test_ranks_by_hand() -> None:
    """Equal means share a rank, also where the last bit of their sums differs; among equals, names decide."""
    board = leaderboard(
        [
            entry("d", [0.1, 0.2, 0.3]),
            entry("b", [0.3, 0.2, 0.1]),
            entry("low", [0.0, 0.0, 0.1]),
            entry("a", [0.2, 0.2, 0.2]),
            entry("top", [0.9, 0.8, 0.9]),
            entry("none", [math.nan, math.nan, math.nan], how=replace(HOW, topics="all")),
        ]
    )
    ranks = [(each.name, each.rank) for each in board.ranked]
    assert ranks == [("top", 1), ("a", 2), ("b", 2), ("d", 2), ("low", 5), ("none", 6)]
    assert board.ranked[-1].means == (Mean("AP", n=0),)
    assert (board.grouping, board.why) == ("none", "some runs have fewer than two topics in common")
    assert (board.ranked[0].rank_low, board.ranked[0].rank_high, board.ranked[0].first) == (1, 1, 1.0)
    first = board.ranked[1].mean("AP")
    assert (first.low, first.value, first.high, first.n) == (*[pytest.approx(0.2)] * 3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [60, 61])
def test_beyond_sixty_runs_the_group_of_the_best(runs: int) -> None:
    entries = random_entries(runs, 5, spread=0.02)
    board = leaderboard(entries, LeaderboardSettings(resamples=20))
    assert board.family == math.comb(runs, 2)
    best = board.ranked[0].name
    apart = {name for pair in holm(entries, 0.05) if best in pair for name in pair - {best}}
    alike = {each.name for each in board.ranked if re.search(r"a(?!\d)", each.group)}
    if runs == 60:
        assert board.grouping == "letters"
        assert best in alike
        assert not alike & apart
        return
    assert board.grouping == "best"
    assert {each.group for each in board.ranked} == {"a", ""}
    # Those of the best alone are tested; the family is that of all pairs, so that no run is told apart that Holm's
    # procedure over all pairs would not tell apart.
    assert {each.name for each in entries} - alike <= apart
    of_best = next(each.scores for each in entries if each.name == best).column("AP")
    others = {each.name: each.scores.column("AP") for each in entries if each.name != best}
    p = {name: float(stats.ttest_rel(values, of_best).pvalue) for name, values in others.items()}
    expected, ordered = set(), sorted(p, key=lambda name: p[name])
    for step, name in enumerate(ordered):
        if p[name] * (board.family - step) >= 0.05:
            break
        expected.add(name)
    assert {each.name for each in entries} - alike == expected
    assert 0 < len(expected) < 60


def test_near_twins_need_too_many_letters() -> None:
    """Pairs of runs that differ by a hair on every topic: each would double the letters."""
    chance = np.random.default_rng(6)
    entries = []
    for pair in range(12):
        values = chance.random(len(TOPICS))
        noise = chance.normal(0, 1e-5, len(TOPICS))
        entries += [entry(f"{pair:02}x", values.tolist()), entry(f"{pair:02}y", (values + 1e-3 + noise).tolist())]
    board = leaderboard(entries)
    assert board.grouping == "best"
    assert [each.group for each in board.ranked if each.name == f"{board.ranked[0].name[:2]}x"] == [""]
    assert sum(each.group == "a" for each in board.ranked) > 12


def test_the_order_of_entries_does_not_matter() -> None:
    entries = [*random_entries(9, 7), entry("late", [0.3] * 12, primary=False), entry("later", [0.2] * 12, False)]
    entries[2] = replace(entries[2], scores=replace(entries[4].scores))  # equal means
    whole = leaderboard(entries)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(entries))
        assert leaderboard([entries[at] for at in order]) == whole


def test_topics_in_another_order() -> None:
    entries = random_entries(5, 8)
    turned = [
        replace(each, scores=replace(each.scores, topics=each.scores.topics[::-1], values=each.scores.values[::-1]))
        for each in entries
    ]
    for one, two in zip(leaderboard(entries).ranked, leaderboard([entries[0], *turned[1:]]).ranked, strict=True):
        assert (one.name, one.group, one.rank_low, one.rank_high) == (two.name, two.group, two.rank_low, two.rank_high)


def test_others_are_neither_ranked_nor_tested() -> None:
    board = leaderboard(
        [*random_entries(3, 9), entry("z", [0.9] * 12, primary=False)], LeaderboardSettings(baseline="r01")
    )
    assert board.family == 3
    assert [each.name for each in board.others] == ["z"]
    other = board.others[0]
    assert (other.rank, other.rank_low, other.first, other.group, other.ties) == (None, None, None, "", None)
    assert other.mean("AP").value == pytest.approx(0.9)
    assert [each.name for each in board.ranked if each.baseline] == ["r01"]


def test_one_run() -> None:
    board = leaderboard([entry("only", [0.1, 0.5])])
    expected = ("none", "there is only one ranked run", 0, None)
    assert (board.grouping, board.why, board.family, board.detectable) == expected
    assert (board.ranked[0].rank, board.ranked[0].rank_low, board.ranked[0].rank_high) == (1, 1, 1)


def test_editions_never_share_a_leaderboard() -> None:
    entries = [entry("x", [0.1, 0.2, 0.3]), entry("y", [0.1, 0.2, 0.5], edition="f")]
    entries += [entry("z", [0.4, 0.2, 0.3], how=replace(HOW, depth=10)), entry("w", [0.4, 0.1, 0.3])]
    boards = leaderboards(entries, LeaderboardSettings(baseline="y", floor=[entries[1].scores]))
    assert [[each.name for each in board.ranked] for board in boards] == [["z"], ["w", "x"], ["y"]]
    assert [board.edition for board in boards] == ["e", "e", "f"]
    assert [board.protocol.depth for board in boards] == [10, 1000, 1000]
    assert [len(board.floor) for board in boards] == [0, 0, 1]
    assert [any(each.baseline for each in board.ranked) for board in boards] == [False, False, True]
    assert leaderboards(entries[::-1], LeaderboardSettings(baseline="y", floor=[entries[1].scores])) == boards
    mixed = said(lambda: leaderboard(entries[:2]))
    assert mixed == "runs x and y cannot be compared: edition is 'e' for the first, 'f' for the second"


def test_the_smallest_difference_is_that_of_the_corrected_tests() -> None:
    entries = random_entries(3, 10)
    found = leaderboard(entries, LeaderboardSettings(alpha=0.05)).detectable
    assert found is not None
    for value, (a, b) in zip(
        (found.low, found.median, found.high),
        sorted(combinations(entries, 2), key=lambda pair: float(np.std(_difference(*pair)))),
        strict=True,
    ):
        assert value is not None
        sd = float(np.std(_difference(a, b), ddof=1))
        n, critical = len(TOPICS), float(stats.t.isf(0.05 / 3 / 2, len(TOPICS) - 1))
        power = float(stats.nct.sf(critical, n - 1, value / sd * math.sqrt(n)))
        assert power == pytest.approx(0.8, abs=1e-4)


def test_no_detectable_difference_exceeds_the_largest_possible_one() -> None:
    """Two topics count for both runs: the tests have n = 2, whatever the number of topics, and detect nothing."""
    few = [0.9, 0.2, *[math.nan] * 10]
    board = leaderboard([entry("a", few), entry("b", [0.1, 0.3, *[math.nan] * 10])])
    found = board.detectable
    assert found is not None
    assert (found.low, found.n_low, found.n_high, found.tests, found.undetectable) == (None, 2, 2, 1, 1)
    none = "In MAP′, the 2 topics of the tests detect no difference with a power of 0.8 at alpha 0.05, however large."
    assert none in reading(board)
    assert "Intervals from fewer than 10 topics (here 2) may cover less than 95%." in reading(board)
    assert leaderboard_from_json(leaderboard_to_json(board)) == board


def _difference(a: LeaderboardEntry, b: LeaderboardEntry) -> Any:  # noqa: ANN401
    return a.scores.column("AP") - b.scores.column("AP")


def test_ties_by_hand() -> None:
    """The second may rise above the first and fall below the third; the third is certain; the fourth may draw level
    with the second."""
    means = {"a": 0.5, "b": 0.4, "c": 0.35, "d": 0.1}
    bounds = {"a": (0.45, 0.55), "b": (0.3, 0.46), "d": (0.05, 0.3)}
    tied = {name: {"tied results": 4 * (name in bounds)} for name in means}
    found = {name: entry(name, [mean] * 3, counts=tied[name]) for name, mean in means.items()}
    spans = {name: {"AP": bounds[name]} if name in bounds else {} for name in means}
    entries = [replace(each, bounds=spans[name]) for name, each in found.items()]
    ties = [each.ties for each in leaderboard(entries).ranked]
    certain = ties[2]
    assert certain is not None
    assert [certain.low, certain.high] == pytest.approx([0.35, 0.35])
    assert ties == [
        Ties(4, 0.45, 0.55, 1, 2),
        Ties(4, 0.3, 0.46, 1, 3),
        Ties(0, certain.low, certain.high, 2, 3),
        Ties(4, 0.05, 0.3, 3, 4),
    ]
    unknown = [replace(entries[0], bounds=None), *entries[1:]]
    assert [each.ties for each in leaderboard(unknown).ranked[:2]] == [Ties(4), Ties(4, 0.3, 0.46)]


def test_expected_bias_by_hand() -> None:
    """A tenth of the first ten is unjudged; of the judged a third is relevant, so that a thirtieth is expected."""
    columns: Columns = {"AP": [0.5, 0.5], "P@10": [0.2, 0.4], "Judged@10": [1.0, 0.8], "Judged@1000": [0.3, 0.1]}
    for prime, precision in ((True, 0.3), (False, 0.6 / 1.8)):
        how = replace(HOW, prime=prime)
        found = leaderboard([LeaderboardEntry("x", scored("x", columns, how=how))]).ranked[0].judgments
        assert found is not None
        assert found.expected == pytest.approx(0.1 * precision)
        assert replace(found, expected=None) == Judgments(10, 0.9, None, 1000, 0.2)
        # Two more topics without results: half as much is to be gained, and results are as good as they were.
        longer: Columns = {
            name: [*values, *([math.nan if name[0] == "J" else 0.0] * 2)] for name, values in columns.items()
        }
        found = leaderboard([LeaderboardEntry("x", scored("x", longer, how=how))]).ranked[0].judgments
        assert found is not None
        assert found.expected == pytest.approx(0.1 * precision / 2)
        # Nothing judged: nothing is known of the precision of what is not.
        none: Columns = {"AP": [0.0, 0.0], "P@10": [0.0, 0.0], "Judged@10": [0.0, 0.0]}
        found = leaderboard([LeaderboardEntry("x", scored("x", none, how=how))]).ranked[0].judgments
        assert found == Judgments(10, 0.0, None)
    without: Columns = {"AP": [0.5, 0.5], "Judged@5": [1.0, math.nan]}
    assert leaderboard([LeaderboardEntry("x", scored("x", without))]).ranked[0].judgments == Judgments(5, 1.0)
    assert leaderboard([entry("x", [0.5])]).ranked[0].judgments is None


@pytest.mark.parametrize(
    ("depth", "measures", "added"),
    [
        (1000, ["AP", "P@5", "P@10"], ("Judged@5", "Judged@1000")),
        (None, ["AP"], ("Judged@10", "Judged@1000")),
        (10, ["AP", "P@10"], ("Judged@10",)),
        (100, ["AP", "Judged@20"], ("Judged@100",)),
        (100, ["AP", "Judged@100"], ()),
    ],
)
def test_how_much_is_judged_is_told_where_no_measure_says_it(
    depth: int | None, measures: list[str], added: tuple[str, ...]
) -> None:
    """At the smallest cutoff of the precisions, and at the depth of the protocol."""
    assert shares_judged(measures, replace(HOW, depth=depth)) == added


def test_floor_is_a_random_order_of_all_judged_documents() -> None:
    for collection in ("mini-task1", "mini-task2"):
        task = h.task(collection, measures=["RelRet", "Judged@1000", "RR"])
        found = floor(task, 3)
        relevant = {
            topic: sum(grade >= task.scorer.protocol.relevant_from for grade in docs.values())
            for topic, docs in task.scorer.qrels.to_dict().items()
        }
        assert len({tuple(scores.column("RR").tolist()) for scores in found}) == 3
        for scores in found:
            assert dict(zip(scores.topics, scores.column("RelRet").tolist(), strict=True)) == relevant
            assert scores.mean("Judged@1000") == 1.0
            assert scores.counts.get("duplicates removed", 0) == 0
        board = leaderboard([LeaderboardEntry("x", found[0])], LeaderboardSettings(floor=found))
        assert board.floor_seeds == 3
        assert [mean.measure for mean in board.floor] == ["RelRet", "RR"]
        assert board.floor[1].value == pytest.approx(sum(scores.mean("RR") for scores in found) / 3)


def test_clusters_are_drawn_and_tested_whole() -> None:
    """Topics that were copied tell nothing new: ranks and letters are those of the topics without their copies."""
    entries = random_entries(6, 12, spread=0.05)
    copied = []
    for each in entries:
        values = np.repeat(each.scores.values, 3, axis=0)
        topics = tuple(f"{topic}.{copy}" for topic in TOPICS for copy in range(3))
        copied.append(replace(each, scores=replace(each.scores, topics=topics, values=values)))
    clusters = {f"{topic}.{copy}": topic for topic in TOPICS for copy in range(3)}
    plain = leaderboard(entries)
    found = leaderboard(copied, LeaderboardSettings(clusters=clusters, cluster="group"))
    assert found.clusters == "group"
    for one, two in zip(plain.ranked, found.ranked, strict=True):
        assert (one.name, one.group, one.rank_low, one.rank_high) == (two.name, two.group, two.rank_low, two.rank_high)
        assert two.mean("AP").n == 36
        assert two.mean("AP").low == pytest.approx(one.mean("AP").low)
    assert [each.group for each in leaderboard(copied).ranked] != [each.group for each in plain.ranked]


@pytest.mark.parametrize(("runs", "here"), [(2, ", here 4,"), (1, "")])
def test_few_clusters_are_told_whatever_the_number_of_topics(runs: int, here: str) -> None:
    """Twelve topics are enough for intervals; their four clusters are not, even where no test counts them."""
    clusters = {topic: str(at % 4) for at, topic in enumerate(TOPICS)}
    entries = random_entries(runs, 12)
    limit = "may cover less than 95%."
    assert not [line for line in reading(leaderboard(entries)) if line.endswith(limit)]
    said = reading(leaderboard(entries, LeaderboardSettings(clusters=clusters, cluster="source")))
    assert f"Intervals from fewer than 10 groups of topics (source){here} {limit}" in said
    assert [line for line in said if line.endswith("are expanded for the number of groups of topics (source).")]


def whole_board(private: bool = False) -> Leaderboard:
    chance = np.random.default_rng(13)
    entries = [
        LeaderboardEntry(
            f"team{run} / first",
            scored(
                "tag",
                {name: chance.random(12).tolist() for name in HOW.measures},
                counts={"tied results": run},
                missing=TOPICS[:run],
            ),
            team=f"team{run}",
            kind="automatic",
            primary=run < 3,
            bounds={"AP": (0.31, 0.61)},
        )
        for run in range(4)
    ]
    settings = LeaderboardSettings(baseline="team1 / first", floor=[entries[3].scores], private=private, decimals=2)
    return leaderboard(entries, settings)


@pytest.mark.parametrize("private", [False, True])
def test_json_is_read_back(private: bool) -> None:
    board = whole_board(private)
    text = json.dumps(leaderboard_to_json(board), allow_nan=False)
    assert leaderboard_from_json(json.loads(text)) == board


def test_broken_json() -> None:
    good = json.loads(json.dumps(leaderboard_to_json(whole_board())))
    wrong = "leaderboard: schema is 'mathir-harness/leaderboard' version 2, expected 'mathir-harness/leaderboard' 1"
    assert said(lambda: leaderboard_from_json({**good, "version": 2})) == wrong
    assert said(lambda: leaderboard_from_json([])).startswith("leaderboard: schema is None")
    # A server may have columns that a package added.
    extended = {**good, "ranked": [{**each, "energy": 7} for each in good["ranked"]]}
    assert leaderboard_from_json(extended) == leaderboard_from_json(good)
    spoilt = {**good, "main": None, "colour": "red", "ranked": [{**good["ranked"][0], "rank": "first"}]}
    lines = said(lambda: leaderboard_from_json(spoilt, "x.json")).splitlines()
    assert lines[0].startswith("x.json: key 'colour' is unknown")
    expected = ["x.json: key 'main' is missing", "x.json: ranked: key 'rank' is 'first', expected a whole number"]
    assert lines[1:] == expected


def numbers(value: object) -> list[float]:
    if isinstance(value, dict):
        return [found for each in value.values() for found in numbers(each)]
    if isinstance(value, list | tuple):
        return [found for each in value for found in numbers(each)]
    return [value] if isinstance(value, float) else []


def test_private_judgments_stay_private() -> None:
    """Every number is rounded, the ranks too; no topic, no interval, no count of what was judged, tied or missing."""
    data = json.loads(json.dumps(leaderboard_to_json(whole_board(private=True))))
    found = numbers({key: value for key, value in data.items() if key != "protocol"})
    assert len(found) >= 12
    assert all(value == round(value, 2) for value in found)
    text = json.dumps(data)
    assert not any(f'"{topic}"' in text for topic in TOPICS)
    for each in (*data["ranked"], *data["others"]):
        told = ("judgments", "ties", "missing", "first", "rank_low", "rank_high")
        assert [each[key] for key in told] == [None] * 6
        assert all(mean[key] is None for mean in each["means"] for key in ("n", "low", "high"))
    assert (data["qrels_sha256"], data["detectable"]) == ("", None)
    # One result more in one topic, which no rounded mean shows, must not show elsewhere.
    probes = [[0.0] * 12, [0.0] * 11 + [0.05]]
    others = random_entries(4, 14)
    how = LeaderboardSettings(private=True, decimals=2)
    one, two = (leaderboard([entry("probe", probe), entry("probed", probes[0]), *others], how) for probe in probes)
    assert one == two
    means = {"a": [0.5, 0.5], "b": [0.5, 0.505], "c": [0.5, 0.48]}
    entries = [entry(name, values) for name, values in means.items()]
    ranks = {each.name: each.rank for each in leaderboard(entries, how).ranked}
    assert ranks == {"a": 1, "b": 1, "c": 3}
    assert [each.name for each in leaderboard(entries).ranked] == ["b", "a", "c"]


@pytest.mark.parametrize("private", [False, True])
def test_runs_of_which_none_is_ranked(private: bool) -> None:
    entries = [entry("x", [0.1, 0.3], primary=False), entry("y", [0.2, 0.4], primary=False)]
    board = leaderboard(entries, LeaderboardSettings(private=private))
    assert not board.ranked and [(each.name, each.rank, each.group) for each in board.others] == [
        ("y", None, ""),
        ("x", None, ""),
    ]
    assert (board.grouping, board.why) == ("none", "no run is ranked")
    assert leaderboard_headline(board) == "2 runs on c (edition e, 2 topics, protocol p), none of them ranked"
    assert "Nothing was tested: no run is ranked." in reading(board)
    assert not any(sentence.startswith("The interval of a rank") for sentence in reading(board))
    assert leaderboard_from_json(leaderboard_to_json(board)) == board


@pytest.mark.parametrize(
    ("entries", "settings", "words"),
    [
        ([], LeaderboardSettings(), "leaderboard: there are no runs"),
        ([entry("x", [0.1])], LeaderboardSettings(baseline="y"), "leaderboard: baseline 'y' is unknown; known: x"),
        ([entry("x", [0.1]), entry("x", [0.2])], LeaderboardSettings(), "2 runs are named 'x'; give each its own name"),
        ([entry("x", [0.1])], LeaderboardSettings(decimals=13), "decimals: 13 is not between 0 and 12"),
        ([entry("x", [0.1])], LeaderboardSettings(main="P@10"), "run x: measure 'P@10' was not scored; known: AP"),
        (
            [LeaderboardEntry("x", scored("x", {"AP": [0.1], "Judged@10": [1.0]}))],
            LeaderboardSettings(main="Judged@10"),
            "leaderboard: measure 'Judged@10' cannot rank runs; known: AP",
        ),
        (
            [LeaderboardEntry("x", scored("x", {"Judged@10": [1.0]}))],
            LeaderboardSettings(),
            "leaderboard: the runs have no measure in common to rank by",
        ),
        ([entry("x", [0.1]), entry("y", [0.2])], LeaderboardSettings(alpha=2), "alpha: 2 is not between 0 and 1"),
        ([entry("x", [0.1])], LeaderboardSettings(resamples=0), "resamples: 0 is not between 1 and 1,000,000"),
        (
            [entry("x", [0.1]), entry("y", [0.2, 0.3])],
            LeaderboardSettings(),
            "leaderboard: the runs have scores of different topics",
        ),
    ],
)
def test_bad_input(entries: list[LeaderboardEntry], settings: LeaderboardSettings, words: str) -> None:
    assert said(lambda: leaderboards(entries, settings)) == words

"""Leaderboards as plain values, written as JSON and read back, and the one family of tests of ranked runs.

Leaderboards, pages of runs and pairs, and receipts correct for that family: pairs of ranked runs in the measure that
ranks have corrected p-values. Tests of any other pair or measure have an uncorrected p, and nothing is claimed of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.io import checks
from harness.scoring.compare import compare
from harness.scoring.comparison import Comparison, Correction, PairDifference
from harness.scoring.intervals import numbers_of_names
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores

SCHEMA = "mathir-harness/leaderboard"
VERSION = 1


@dataclass(frozen=True)
class Mean:
    """Mean of a run over the `n` topics that count, with its t interval; None if undefined or private."""

    measure: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Judgments:
    """Share of a run's results that are judged.

    Attributes
    ----------
    k : cutoff of `judged`.
    judged : mean Judged@k.
    expected : expected bias of P@k by unjudged results: the share of unjudged results among the first k (0 for a topic
        without results) times the precision of the judged ones. None without P@k.
    depth, covered : the largest scored cutoff, and mean Judged@depth, the share of the whole run that is judged.
    """

    k: int
    judged: float
    expected: float | None = None
    depth: int | None = None
    covered: float | None = None


@dataclass(frozen=True)
class Ties:
    """Effect of tied results on a run's mean and rank.

    Attributes
    ----------
    tied : number of results that share their score with a neighbour.
    low, high : range of the main mean over all orders of tied results; None if unknown.
    best, worst : range of the run's rank over all orders of all runs' tied results; None if unknown.
    """

    tied: int
    low: float | None = None
    high: float | None = None
    best: int | None = None
    worst: int | None = None


@dataclass(frozen=True)
class LeaderboardRow:
    """A run on a leaderboard.

    Attributes
    ----------
    rank : rank by the main mean, from 1; equal means share a rank. None for a run that is not ranked.
    rank_low, rank_high, first : bootstrap interval of the rank, and the share of resamples with rank 1.
    group : letters of significance; see `Leaderboard.grouping`.
    missing : number of topics of the edition that the run does not answer.
    """

    name: str
    means: tuple[Mean, ...]
    team: str = ""
    kind: str = ""
    primary: bool = True
    baseline: bool = False
    rank: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    first: float | None = None
    group: str = ""
    missing: int | None = None
    judgments: Judgments | None = None
    ties: Ties | None = None

    def mean(self, measure: str) -> Mean:
        """Returns the mean of one of the leaderboard's measures."""
        return next(mean for mean in self.means if mean.measure == measure)


@dataclass(frozen=True)
class Detectable:
    """Smallest mean differences that the tests detect with power 0.8 at level alpha / family, over all tests.

    Attributes
    ----------
    low, median, high : over the tests that detect a possible difference; None without any.
    n_low, n_high : smallest and largest number of topics (clusters) of the tests.
    tests, undetectable : tests whose differences vary, and those that would not detect the largest possible difference.
    """

    low: float | None = None
    median: float | None = None
    high: float | None = None
    n_low: int | None = None
    n_high: int | None = None
    tests: int | None = None
    undetectable: int = 0


@dataclass(frozen=True)
class Leaderboard:
    """Runs of one collection, edition and protocol, best first.

    Attributes
    ----------
    measures : measures shown, without diagnostic ones; main : the measure that ranks and is tested.
    topics : number of topics of the edition; of the collection if the judgments are private, before a lab's end.
    clusters : attribute whose values are clusters of dependent topics; usually empty. Means and tests are over topics.
    grouping : `letters`: ranked runs that share a letter do not differ significantly; `best`: runs that do not differ
        from the best have an a (too many pairs for letters); `none`: nothing was tested, for the reason in `why`.
    family : number of tests in the correction: all pairs of ranked runs, or the declared number if it is larger; 0 for
        fewer than two ranked runs.
    undefined : pairs of ranked runs whose test is undefined: their differences do not vary.
    detectable : None if no test has differences that vary.
    floor : means over `floor_seeds` random orders of the judged documents; empty if unknown.
    private : whether the judgments are private: means have noise or are rounded before ranking, and only means and
        ranks are shown, at a lab's end also groups; `privacy` says it in words.
    ranked, others : runs, best first; others are listed but neither ranked nor tested. None is ranked if all are
        post-hoc.
    """

    collection: str
    edition: str
    qrels_sha256: str
    protocol: Protocol
    measures: tuple[str, ...]
    main: str
    topics: int
    grouping: str
    family: int
    alpha: float
    correction: str
    confidence: float
    resamples: int
    seed: int
    private: bool
    decimals: int
    ranked: tuple[LeaderboardRow, ...]
    others: tuple[LeaderboardRow, ...] = ()
    floor: tuple[Mean, ...] = ()
    floor_seeds: int = 0
    detectable: Detectable | None = None
    clusters: str = ""
    why: str = ""
    undefined: tuple[tuple[str, str], ...] = ()
    privacy: str = ""

    def columns(self) -> tuple[str, ...]:
        """Returns the column names of `rows`."""
        added = [column.name for column in shown_columns(self, "data")]
        return ("collection", "edition", "protocol", "qrels_sha256", *_COLUMNS, *added)

    def rows(self) -> tuple[tuple[str | float | bool | None, ...], ...]:
        """Returns one row per run and measure."""
        same, added = (self.collection, self.edition, self.protocol.name, self.qrels_sha256), _added(self)
        return tuple(
            (
                *same,
                *(getattr(each, name) for name in _STANDING_FIELDS),
                *(getattr(mean, name) for name in _MEAN_FIELDS),
                *added.get(each.name, {}).values(),
            )
            for each in (*self.ranked, *self.others)
            for mean in each.means
        )


_STANDING_FIELDS = ("name", "team", "kind", "primary", "baseline", "rank", "rank_low", "rank_high", "first", "group")
_MEAN_FIELDS = ("measure", "n", "value", "low", "high")
_COLUMNS = ("run", *_STANDING_FIELDS[1:], "measure", "n", "mean", "mean_low", "mean_high")


@dataclass(frozen=True)
class Span:
    """An interval of ranks; None if there is none."""

    low: int | None
    high: int | None


@dataclass(frozen=True)
class BoardColumn:
    """A column of leaderboards; each form renders a value by its type: text, integer, `Span` or `Mean`.

    Attributes
    ----------
    value : value of a run.
    private : whether it reveals judgments, so that no form shows it if the judgments are private.
    where : form (`command`, `report`, `site`, `server`; `data`: JSON and CSV) -> place in the order of the form's
        columns. Fields of `LeaderboardRow` are in the data anyway.
    ranked : whether tables of runs that are not ranked lack it.
    switched : whether the site shows it only if a reader asks for it.
    """

    name: str
    value: Callable[[LeaderboardRow], str | int | float | Span | Mean | None]
    private: bool
    where: Mapping[str, int]
    ranked: bool = False
    switched: bool = False
    about: Callable[[Leaderboard], str] = field(default=lambda _: "")


def _counted(standing: LeaderboardRow) -> int | str | None:
    """Returns n, or several n if measures count different topics."""
    numbers = list(dict.fromkeys(mean.n for mean in standing.means))
    return numbers[0] if len(numbers) == 1 else "/".join(str(mean.n) for mean in standing.means)


def _about_groups(board: Leaderboard) -> str:
    said = "Runs that share a letter do not differ significantly"
    return f"{said}, or their test is undefined" if board.undefined else said


_FORMS = ("command", "report", "site", "server")
_PRINTED = {"command": 40, "report": 40, "site": 40}
# All that forms of a leaderboard show of a run beside its name and means. The one place that decides what is private.
COLUMNS: list[BoardColumn] = [
    BoardColumn("rank", lambda each: each.rank, False, dict.fromkeys(_FORMS, 10), ranked=True),
    BoardColumn("kind", lambda each: each.kind, False, {"report": 20, "site": 70}),
    BoardColumn("group", lambda each: each.group, False, dict.fromkeys(_FORMS, 30), True, about=_about_groups),
    BoardColumn("rank interval", lambda each: Span(each.rank_low, each.rank_high), True, _PRINTED, ranked=True),
    BoardColumn("n", _counted, True, {"report": 80}),
    BoardColumn("topics missing", lambda each: each.missing, True, {"report": 90, "site": 120}, switched=True),
]
MAIN, MEASURES = {"site": 20}, dict.fromkeys(_FORMS, 50)  # places of the means


def shown_columns(board: Leaderboard, form: str, measures: Sequence[str] = ()) -> list[BoardColumn]:
    """Returns the columns that a form shows of a board, in order; those of the given measures included."""

    def of(name: str) -> BoardColumn:
        places = {**MEASURES, **(MAIN if name == board.main else {})}
        return BoardColumn(board.protocol.label(name), lambda each: each.mean(name), False, places)

    columns = [each for each in (*COLUMNS, *map(of, measures)) if not (board.private and each.private)]
    return sorted((each for each in columns if form in each.where), key=lambda each: each.where[form])


def _added(board: Leaderboard) -> dict[str, dict[str, Any]]:
    """Returns run -> columns that JSON and CSV have beside the fields of `LeaderboardRow`."""
    columns = shown_columns(board, "data")
    return {each.name: {c.name: c.value(each) for c in columns} for each in (*board.ranked, *board.others) if columns}


def leaderboard_to_json(board: Leaderboard) -> dict[str, Any]:
    """Converts a leaderboard to plain JSON values, with schema name and version."""
    content, added = {"schema": SCHEMA, "version": VERSION, **asdict(board)}, _added(board)
    for each in (*content["ranked"], *content["others"]):
        each.update(added.get(each["name"], {}))
    return content


def leaderboard_from_json(data: object, where: str = "leaderboard") -> Leaderboard:
    """Reads a leaderboard from the JSON values of `leaderboard_to_json`.

    Raises
    ------
    HarnessError
        The schema or version differs, or keys are unknown, missing or wrong: one line per key.
    """
    content = dict(data) if isinstance(data, Mapping) else {}
    schema = (content.pop("schema", None), content.pop("version", None))
    if schema != (SCHEMA, VERSION):
        reason = f"{where}: schema is {schema[0]!r:.60} version {schema[1]!r:.20}, expected {SCHEMA!r} {VERSION}"
        raise HarnessError(reason)
    # Columns that a package adds, on this machine or on a server, say nothing that a board is computed from.
    known = {each.name for each in fields(LeaderboardRow)}
    for key in ("ranked", "others"):
        if isinstance(runs := content.get(key), list):
            content[key] = [{name: run[name] for name in run if name in known} for run in runs]
    return checks.typed(Leaderboard, content, where)


shown_tests = partial(compare, permutations=1)  # the randomization test is not shown
MOST_LETTERED = 60  # most ranked runs for which every pair is tested
CORRECTIONS: Mapping[str, str] = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "none": "without correction",
}


@dataclass(frozen=True)
class TestVerdict:
    """Result of a test in the family: corrected p, and whether it is below alpha; both None if undefined."""

    p: float | None
    significant: bool | None


def family_of(runs: int, declared: int | None) -> int:
    """Returns the number of tests to correct for: all pairs of ranked runs, or the declared number if it is larger.

    All pairs count even if only those with the best run are tested, since the same scores selected the best run. One
    ranked run has no tests, whatever is declared.
    """
    return 0 if runs < 2 else max(declared or 0, math.comb(runs, 2))


def ranked_tests(
    scores: Sequence[Scores],
    measure: str,
    *,
    alpha: float,
    declared: int | None = None,
    clusters: Mapping[str, str] | None = None,
) -> tuple[Comparison | None, str]:
    """Tests the pairs of ranked runs, or, of too many runs, those with the best; or returns why none is tested.

    Parameters
    ----------
    scores : of the ranked runs, best first, with their names.
    declared : number of tests to correct for, if it exceeds the pairs.
    clusters : topic -> cluster of dependent topics.
    """
    if len(scores) < 2:
        return None, "there is only one ranked run" if scores else "no run is ranked"
    topics = sorted(scores[0].topics)
    of = numbers_of_names(topics if clusters is None else [clusters[topic] for topic in topics])
    counted = [~np.isnan(each.column(measure)[np.argsort(np.array(each.topics))]) for each in scores]
    everyone = len(scores) <= MOST_LETTERED
    pairs = combinations(counted, 2) if everyone else ((counted[0], each) for each in counted[1:])
    if any(np.unique(of[one & other]).size < 2 for one, other in pairs):
        units = "topics" if clusters is None else "clusters of topics"
        return None, f"some runs have fewer than two {units} in common"
    best, family = None if everyone else scores[0].run, family_of(len(scores), declared)
    made = shown_tests(scores, baseline=best, measures=[measure], alpha=alpha, family=family, clusters=clusters)
    return made, ""


def verdict(row: PairDifference, correction: Correction) -> TestVerdict:
    """Returns the result of a test by the declared correction."""
    if correction == "none":
        return TestVerdict(row.p, row.significant)
    return TestVerdict(getattr(row, f"p_{correction}"), getattr(row, f"significant_{correction}"))


def verdicts(made: Comparison | None, correction: Correction) -> dict[frozenset[str], TestVerdict]:
    """Returns pair of runs -> result of its test; empty without tests."""
    rows = () if made is None else made.rows
    return {frozenset((row.a, row.b)): verdict(row, correction) for row in rows}


def corrected_for(correction: str, family: int) -> str:
    """Returns the correction in words.

    Examples
    --------
    >>> corrected_for("holm", 15), corrected_for("none", 15)
    ("Holm's correction over 15 tests", 'without correction')
    """
    over = "" if correction == "none" else f" over {family:,} test{'' if family == 1 else 's'}"
    return f"{CORRECTIONS[correction]}{over}"

"""What stands on a leaderboard: plain values, which are written as JSON and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import HarnessError
from harness.io import checks
from harness.scoring.protocol import Protocol

SCHEMA = "mathir-harness/leaderboard"
VERSION = 1


@dataclass(frozen=True)
class Mean:
    """A run's mean over the `n` topics that count, and its t interval; None where there is none, or it is not told."""

    measure: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Judgments:
    """How much of a run the judgments know.

    Attributes
    ----------
    k : the first so many results are meant.
    judged : the mean share of them that were judged (Judged@k).
    expected : by how much P@k is expected to be too low: the share of the first k that is unjudged (0 of a topic
        without results) times the precision of the judged ones. None without P@k.
    depth, covered : Judged@depth at the largest cut that was scored: how much of the whole run the pool covers.
    """

    k: int
    judged: float
    expected: float | None = None
    depth: int | None = None
    covered: float | None = None


@dataclass(frozen=True)
class Ties:
    """What a run's tied results leave open.

    Attributes
    ----------
    tied : results with an equal score beside them.
    low, high : the main mean over all orders of tied results; None: not known.
    best, worst : the ranks that some orders of all runs' ties would give; None: not known.
    """

    tied: int
    low: float | None = None
    high: float | None = None
    best: int | None = None
    worst: int | None = None


@dataclass(frozen=True)
class Standing:
    """A run on a leaderboard.

    Attributes
    ----------
    rank : from 1 by the main mean; equal means share a rank. None for a run that is not ranked.
    rank_low, rank_high, first : bootstrap interval of the rank, and the share of resamples in which it was 1.
    group : letters; see `Leaderboard.grouping`.
    missing : topics of the edition that the run does not answer.
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
        """The mean of a measure that the leaderboard has."""
        return next(mean for mean in self.means if mean.measure == measure)


@dataclass(frozen=True)
class Detectable:
    """The smallest mean differences that the tests find with a power of 0.8 at alpha / family, over all of them."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Leaderboard:
    """Runs of one collection, edition and protocol, best first.

    Attributes
    ----------
    measures, main : those shown, diagnostic ones left out; the one that ranks and is tested.
    topics : of the edition. `clusters`: what topics share that are averaged before they are tested; mostly empty.
    grouping : `letters`: ranked runs that share a letter do not differ significantly; `best`: those that do not differ
        from the best have an a, as there are too many pairs for letters; `none`: `why` says why nothing was tested.
    family : tests that the correction counts: all pairs of ranked runs, or more if more are declared.
    detectable : None where no test has differences that vary.
    floor : means of `floor_seeds` random orders of the judged documents; empty if not known.
    private : the judgments are: means are rounded before they are ranked, and nothing else that the judgments decide is
        told but the groups and the floor.
    ranked, others : best first; others are listed, not ranked nor tested.
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
    ranked: tuple[Standing, ...]
    others: tuple[Standing, ...] = ()
    floor: tuple[Mean, ...] = ()
    floor_seeds: int = 0
    detectable: Detectable | None = None
    clusters: str = ""
    why: str = ""

    def columns(self) -> tuple[str, ...]:
        """Names of the values of `rows`."""
        return ("collection", "edition", "protocol", "qrels_sha256", *_COLUMNS)

    def rows(self) -> tuple[tuple[str | float | bool | None, ...], ...]:
        """One row for each run and measure."""
        same = (self.collection, self.edition, self.protocol.name, self.qrels_sha256)
        return tuple(
            (*same, *(getattr(each, name) for name in _OF_STANDING), *(getattr(mean, name) for name in _OF_MEAN))
            for each in (*self.ranked, *self.others)
            for mean in each.means
        )


_OF_STANDING = ("name", "team", "kind", "primary", "baseline", "rank", "rank_low", "rank_high", "first", "group")
_OF_MEAN = ("measure", "n", "value", "low", "high")
_COLUMNS = ("run", *_OF_STANDING[1:], "measure", "n", "mean", "mean_low", "mean_high")


def leaderboard_to_json(board: Leaderboard) -> dict[str, Any]:
    """The leaderboard as plain JSON values, with schema name and version."""
    return {"schema": SCHEMA, "version": VERSION, **asdict(board)}


def leaderboard_from_json(data: object, where: str = "leaderboard") -> Leaderboard:
    """The inverse of `leaderboard_to_json`.

    Raises
    ------
    HarnessError
        Another schema or version; keys that are unknown, missing or wrong, a line each.
    """
    content = dict(data) if isinstance(data, Mapping) else {}
    found = (content.pop("schema", None), content.pop("version", None))
    if found != (SCHEMA, VERSION):
        raise HarnessError(
            f"{where}: schema is {found[0]!r:.60} version {found[1]!r:.20}, expected {SCHEMA!r} {VERSION}"
        )
    return checks.typed(Leaderboard, content, where)

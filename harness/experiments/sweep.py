"""Sweeps: their points, one file for each, so that an interrupted sweep resumes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from threading import Event, Thread
from typing import Any

from harness.errors import HarnessError, counted_text
from harness.experiments.overrides import has_several, override_key
from harness.experiments.produce import Produced
from harness.experiments.task import Task
from harness.io import config
from harness.io.console import clock, in_time, log_line
from harness.io.files import read_bytes, write_atomic
from harness.io.names import PLAIN_NAME
from harness.scoring.measures import parse_measure
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores
from harness.store.artefacts import key
from harness.systems.resources import RESOURCES

RESULTS = "optimization_results.yaml"  # of a search, in the folder of its points
_BLIND = ("RandomSampler", "GridSampler", "QMCSampler", "BruteForceSampler")  # look at no values of earlier points


@dataclass(frozen=True)
class SweepPoint:
    """One configuration of a sweep and its result.

    Attributes
    ----------
    overrides : key -> value, as given on the command line.
    files : run file -> checksum; one per collection that it was scored on, none if the point failed.
    means : label of a measure -> mean over the topics of all these collections; n : number of topics of the first mean.
    error : why it failed, in one line.
    settings : the whole configuration, so that the point can be recomputed without the command line.
    basis : digest of data, code, judgments, protocol and the fixed configuration; points with another basis are out of
        date.
    fixed : key of the configuration that does not vary -> digest of its value; points that differ in one of these are
        not comparable.
    scored_on : digest of topics, judgments and protocols of the means; means are compared only if it is equal.
    said : warnings before the numbers, such as the share of judgments that a corpus covers.
    values, groups : collection -> the first measure of each topic (None where it does not count), and the clusters of
        dependent topics, if it has any; empty if judgments are private.
    """

    overrides: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    means: Mapping[str, float | None] | None = None
    n: int = 0
    error: str = ""
    settings: Mapping[str, Any] | None = None
    basis: str = ""
    fixed: Mapping[str, str] = field(default_factory=dict)
    scored_on: str = ""
    said: tuple[str, ...] = ()
    values: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def text(self, spell: Callable[[str], str] = str, also: Collection[str] = ()) -> str:
        """Returns the swept system, parameters and `also` in one line, or all overrides if none of these is swept.

        Parameters
        ----------
        spell : how values are written.
        """
        named = {*also, "system"}
        swept = {name: value for name, value in self.overrides.items() if "." in name or name in named}
        return ", ".join(f"{name}={spell(value)}" for name, value in (swept or self.overrides).items())


def write_point(folder: Path, point: SweepPoint) -> None:
    """Writes one point to a file named by its overrides; replaces an earlier one."""
    name = ",".join(f"{key}={value}" for key, value in sorted(point.overrides.items()))
    write_atomic(folder / f"{key({'point': name})[:16]}.json", json.dumps(asdict(point), indent=1))


def read_points(folder: Path, note: Callable[[str], object] = str) -> list[SweepPoint]:
    """Reads the comparable points of a sweep, in the order of their overrides.

    Points with other data, code or settings than the latest ones are excluded; `note` is called with the reason.
    """
    points = []
    # The latest point has the current data and code, since a resumed sweep writes every point again.
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path)):
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
            points.append(SweepPoint(**{**read, "said": tuple(read["said"])}))
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise HarnessError(f"{path}: not a point of a sweep: {error}") from None
    # Points with another corpus, system or edition have their own data and code.
    now = {_swept_beside(point): point.basis for point in points if point.basis}
    fixed = next((point.fixed for point in reversed(points) if point.fixed), {})
    kept, reasons = [], set()
    for point in points:
        differing = {name for name in fixed.keys() & point.fixed.keys() if fixed[name] != point.fixed[name]}
        if point.basis and point.basis != now[_swept_beside(point)]:
            differing = differing or {"data or code"}
        if not differing:
            kept.append(point)
        reasons |= differing
    if left := len(points) - len(kept):
        note(
            f"{folder}: {left} of {len(points)} points are left out because of a change of "
            f"{', '.join(sorted(reasons))}; run the same command to recompute them"
        )
    points = kept
    return sorted(points, key=lambda point: [natural(value) for _, value in sorted(point.overrides.items())])


def _swept_beside(point: SweepPoint) -> tuple[tuple[str, str], ...]:
    """Returns the overrides of a point except parameters of the system."""
    return tuple(sorted((name, value) for name, value in point.overrides.items() if not name.startswith("system.")))


def natural(value: str) -> tuple[float, str]:
    """Returns a sort key that orders numbers by value, before texts."""
    try:
        return (float(value), "")
    except ValueError:
        return (math.inf, value)


def best_of(points: Sequence[SweepPoint], lowest: bool = False) -> SweepPoint:
    """Returns the point with the highest (or lowest) mean of the first measure; among equals the first.

    Raises
    ------
    HarnessError
        No point was computed, or they were scored on different topics, judgments or protocols.
    """
    done = [point for point in points if point.means]
    if not done:
        raise HarnessError("no point of the sweep was computed")
    if not same_topics(done):
        raise HarnessError(
            "the points of the sweep were scored on different topics, judgments or protocols, so none of them is "
            "the best; sweep the keys of one system on one corpus and one collection"
        )
    return min(done, key=lambda point: point_sort_key(point, lowest))


def same_topics(points: Sequence[SweepPoint]) -> bool:
    """Returns whether all points were scored on the same topics and judgments by the same protocols."""
    return len({point.scored_on for point in points}) <= 1


def _search(folder: Path) -> dict[str, Any]:
    path = folder / RESULTS
    return config.parse(read_bytes(path), str(path)) if path.is_file() else {}


def is_minimized(folder: Path) -> bool:
    """Returns whether the points of a sweep are those of a search for the lowest value."""
    return _search(folder).get("direction") == "minimize"


def adaptive_sampler(folder: Path) -> str:
    """Returns the sampler that proposes points of a search by the values of earlier ones; empty if none does.

    A search whose results name no sampler counts as such, with an unknown sampler.
    """
    search = _search(folder)
    name = str(search.get("sampler", "an unknown sampler"))
    return "" if not search or name in _BLIND else name


def searched_values(folder: Path) -> list[float | None]:
    """Returns the means of the points of a search in its order, None for those that failed; empty without a search."""
    return [trial["value"] for trial in _search(folder).get("trials", ())]


def first_label(point: SweepPoint) -> str:
    """Returns the label of the first measure of a point that was computed, by which points are ranked."""
    return next(iter(point.means or {}))


def value_of(point: SweepPoint, label: str) -> float:
    """Returns a mean of a point; NaN if it is undefined, or the point is not scored by this measure."""
    value = (point.means or {}).get(label)
    return math.nan if value is None else value


def point_sort_key(point: SweepPoint, lowest: bool = False) -> float:
    """Returns a sort key that orders points by the mean of their first measure, best first; undefined means last."""
    value = value_of(point, first_label(point))
    return math.inf if math.isnan(value) else value if lowest else -value


# ---- points that are scored -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredPart:
    """The run of a point on one collection, and its scores.

    Attributes
    ----------
    protocol : protocol of the collection, or the one that is set for all.
    """

    name: str
    task: Task
    protocol: Protocol
    produced: Produced
    scores: Scores


def scored_point(
    overrides: Mapping[str, str],
    parts: Sequence[ScoredPart],
    settings: Mapping[str, Any],
    rest: Mapping[str, object],
    varied: Collection[str],
) -> SweepPoint:
    """Returns a point of a sweep from its runs on one or several collections, whose topics are pooled.

    Parameters
    ----------
    rest : the configuration without the system's parameters that vary.
    varied : keys that vary between the points.

    Raises
    ------
    HarnessError
        The collections are scored by different first measures.
    """
    first, labels = parts[0].scores, []
    for part in parts:
        labels.append([part.scores.protocol.label(measure) for measure in part.scores.measures])
        if labels[-1][0] != labels[0][0]:
            by = f"{parts[0].name} is scored by {labels[0][0]} and {part.name} by {labels[-1][0]}"
            raise HarnessError(f"run: key 'tune': {by}, which have no common mean; add protocol=NAME")
    scored = [part.scores for part in parts]
    basis: list[str] = []
    for part in parts:
        basis += [part.produced.basis, part.task.scorer.qrels.sha256, repr(part.task.scorer.protocol)]
    lacking = [
        f"{part.name}: {part.task.coverage.sentence(part.task.scorer.protocol, part.task.corpus.notes)}."
        for part in parts
        if part.task.corpus is not None and part.task.coverage is not None and not part.task.coverage.complete
    ]
    values, groups = _by_topic(parts)
    protocols = [part.protocol for part in parts]
    judged = [part.task.scorer.qrels.sha256 for part in parts]
    return SweepPoint(
        overrides,
        {str(part.produced.path): part.produced.run.sha256 for part in parts},
        {
            label: _pooled(scored, measure)
            for label, measure in zip(labels[0], first.measures, strict=True)
            if all(label in others for others in labels)
        },
        sum(scores.n(first.measures[0]) for scores in scored),
        settings=settings,
        basis=key({"basis": basis, "rest": rest}),
        fixed=_unvaried_digests(varied, rest, protocols),
        scored_on=key({"judgments": judged, "protocols": [repr(protocol) for protocol in protocols]}),
        said=tuple(lacking),
        values=values,
        groups=groups,
    )


def _by_topic(parts: Sequence[ScoredPart]) -> tuple[dict[str, list[float | None]], dict[str, list[str]]]:
    """Returns the values and clusters of a point's topics; nothing if judgments are private."""
    values: dict[str, list[float | None]] = {}
    groups: dict[str, list[str]] = {}
    for part in parts:
        if part.task.collection.edition(part.scores.edition).private:
            return {}, {}
        column = part.scores.column(part.scores.measures[0]).tolist()
        values[part.name] = [None if math.isnan(value) else value for value in column]
        if (clusters := part.task.collection.clusters()) is not None:
            groups[part.name] = [clusters[topic] for topic in part.scores.topics]
    return values, groups


def _unvaried_digests(
    varied: Collection[str], rest: Mapping[str, object], protocols: Sequence[Protocol]
) -> dict[str, str]:
    """Returns key -> digest of its value, of the keys that all points of a sweep must share.

    The protocol is the one in use, which may be that of the collection.
    """
    changing = {name for name in varied if not name.startswith("system.")}
    whole = {name.partition(".")[0] for name in changing}
    shared = {name: key({"value": value})[:16] for name, value in rest.items() if name not in whole}
    if not whole & {"collection", "protocol", "tune"}:
        shared["protocol"] = key({"protocols": [repr(protocol) for protocol in protocols]})[:16]
    return shared


def _pooled(scored: Sequence[Scores], measure: str) -> float | None:
    """Returns the mean, or other aggregate, over the topics of all collections."""
    n = [scores.n(measure) for scores in scored]
    if not sum(n):
        return None
    mean = sum(scores.mean(measure) * count for scores, count in zip(scored, n, strict=True) if count) / sum(n)
    return parse_measure(measure).of_mean(mean, sum(n))


def run_suffix(overrides: Mapping[str, str], fixed: Collection[str]) -> str:
    """Returns the suffix of a point's run: `-k1=0.9-b=0.4`; a digest stands for values that fit no file name.

    Parameters
    ----------
    fixed : keys that do not vary; those of a system's parameters are named all the same.
    """
    parts = []
    for name, value in overrides.items():
        if name.startswith(f"system.{RESOURCES}"):  # a run is the same whatever it was given
            continue
        if "." in name or name not in {*fixed, "system", "collection"}:
            plain = value if PLAIN_NAME.fullmatch(f"x{value}") else key({"value": value})[:8]
            parts.append(f"-{name.rpartition('.')[2]}={plain}")
    suffix = "".join(parts)
    fits = not suffix or PLAIN_NAME.fullmatch(f"{'x' * 60}{suffix}")
    return suffix if fits else f"-{key({'overrides': dict(overrides)})[:12]}"


def tuned_remark(points: Sequence[SweepPoint], best: SweepPoint, tuned_on: Sequence[str], lowest: bool) -> str:
    """Returns the remark of a run whose configuration was chosen among points on other collections."""
    label, value = next(iter((best.means or {}).items()))
    failed = len(points) - sum(bool(point.means) for point in points)
    return (
        f"Tuned: {len(points)} configurations were tried on {', '.join(tuned_on)} ({best.n} topics"
        f"{f'; {failed} failed' if failed else ''}); {best.text()} was {'lowest' if lowest else 'best'} there "
        f"({label} {value:.4f}), and it alone was scored on these topics."
    )


def failure_lines(points: Sequence[SweepPoint]) -> list[str]:
    """Returns a line for each error of points, with the first of the points that it stopped."""
    failed: dict[str, list[str]] = {}
    values = {(name, value) for point in points for name, value in point.overrides.items()}
    varied = [name for name, times in Counter(name for name, _ in values).items() if times > 1]
    for point in points:
        if point.error:
            failed.setdefault(point.error, []).append(point.text(also=varied))
    more = {why: f" and {counted_text(len(at) - 1, 'more point')}" if at[1:] else "" for why, at in failed.items()}
    return [f"{at[0]}{more[why]}: {why}" for why, at in failed.items()]


# ---- progress over the points: jobs of any launcher append to a file, which the command that waits shows ----------

FILE = "points.progress"  # in the folder of the sweep: a line of JSON for each point that ended
_POLL = 0.05  # seconds; a line should come before those of the next point
_OVERRIDE = "override /hydra/sweeper"  # in the defaults of a sweep's file


def note_point(folder: Path, point: SweepPoint, varied: Iterable[str]) -> None:
    """Appends a point that ended to the file of a sweep that is shown; does nothing if none is."""
    words = {key: value for key, value in point.overrides.items() if key in set(varied)} or point.overrides
    value = value_of(point, first_label(point)) if point.means else math.nan
    line = {
        "setting": " ".join(f"{key.removeprefix('system.')}={rounded(text)}" for key, text in words.items()),
        "label": first_label(point) if point.means else "",
        "value": None if math.isnan(value) else value,
        "scored_on": point.scored_on,
    }
    with suppress(OSError), (folder / FILE).open("r+", encoding="utf-8") as file:
        file.seek(0, 2)
        file.write(json.dumps(line) + "\n")


@contextmanager
def show_points(folder: Path, total: int | None, *, lowest: bool = False) -> Iterator[None]:
    """Shows a line on standard error for each point that ends in the block.

    Parameters
    ----------
    total : number of points; None if it is unknown.
    lowest : whether the search is for the lowest value.
    """
    write_atomic(folder / FILE, "")
    shown = _Shown(total, lowest)
    ended = Event()

    def look() -> None:
        while not ended.wait(_POLL):
            shown.read(folder / FILE)

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        shown.read(folder / FILE)
        (folder / FILE).unlink(missing_ok=True)


class _Shown:
    """The lines of the file that were shown."""

    def __init__(self, total: int | None, lowest: bool) -> None:
        self.total, self.choose = total, min if lowest else max
        self.word = "lowest" if lowest else "best"
        self.count, self.begin = 0, clock()
        self.best: dict[str, float] = {}

    def read(self, path: Path) -> None:
        """Shows the lines that are new; the last one may be incomplete."""
        lines = path.read_text("utf-8", "replace").split("\n")[:-1] if path.is_file() else []
        for line in lines[self.count :]:
            self.count += 1
            with suppress(ValueError, KeyError):  # two processes may have written at once
                log_line(self.line(json.loads(line)))

    def line(self, point: Mapping[str, str | float | None]) -> str:
        """Returns the line of the latest point."""
        value, of = point["value"], f"{self.count}" if self.total is None else f"{self.count} of {self.total}"
        said = "failed" if not point["label"] else f"{point['label']} undefined"
        if isinstance(value, float):
            where = str(point["scored_on"])
            self.best[where] = self.choose(value, self.best.get(where, value))
            # Means on different topics or judgments are not compared.
            best = f" ({self.word} {self.best[where]:.3f})" if len(self.best) == 1 else ""
            said = f"{point['label']} {value:.3f}{best}"
        left = (self.total or self.count) - self.count
        time = f", {in_time((clock() - self.begin) / self.count * left)} left" if left > 0 else ""
        return f"point {of}, {point['setting']}: {said}{time}"


def rounded(value: str) -> str:
    """Returns a value of a setting with four digits, if it is a number with more.

    >>> rounded("1.0488135039273248"), rounded("0.05"), rounded("12345"), rounded("porter")
    ('1.049', '0.05', '12345', 'porter')
    """
    try:
        number = float(value)
    except ValueError:
        return value
    return min(f"{number:.4g}", value, key=len) if math.isfinite(number) else value


def planned_points(sweep: Mapping[str, Any], words: Iterable[str]) -> tuple[int | None, bool]:
    """Returns the number of points of a sweep (None if it cannot be counted), and whether it searches for the lowest.

    Parameters
    ----------
    sweep : the file of the sweep, if there is one.
    words : the overrides of the command line, which replace those of the file.

    Examples
    --------
    >>> planned_points({}, ["system.k1=0.5,1", "system.b=range(0,1,0.25)", "seed=3"])
    (8, False)
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    settings = (sweep.get("hydra") or {}).get("sweeper") or {}
    given = {key: str(value) for key, value in (settings.get("params") or {}).items()}
    given |= {override_key(word): word.partition("=")[2] for word in words if "=" in word}
    chosen = next((each[_OVERRIDE] for each in sweep.get("defaults", ()) if _OVERRIDE in each), "basic")
    if given.get("hydra/sweeper", chosen) != "basic":
        trials = given.get("hydra.sweeper.n_trials", str(settings.get("n_trials", 20)))
        lowest = "minimize" in given.get("hydra.sweeper.direction", str(settings.get("direction")))
        return int(trials) if trials.isdecimal() else None, lowest
    try:
        several = [f"{key}={value}" for key, value in given.items() if has_several(value)]
        swept = OverridesParser.create().parse_overrides(several)
        return prod(sum(1 for _ in each.sweep_iterator()) for each in swept if each.is_sweep_override()), False
    except Exception:
        return None, False

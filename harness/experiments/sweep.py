"""Sweeps: one file per point, so that an interrupted sweep resumes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.io import config
from harness.io.files import read_bytes, write_atomic
from harness.store.artefacts import key

RESULTS = "optimization_results.yaml"  # of a search, in the folder of its points


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

    def text(self, also: Collection[str] = ()) -> str:
        """Returns the swept system, parameters and `also` in one line, or all overrides if none of these is swept."""
        named = {*also, "system"}
        swept = {name: value for name, value in self.overrides.items() if "." in name or name in named}
        return ", ".join(f"{name}={value}" for name, value in (swept or self.overrides).items())


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


def is_minimized(folder: Path) -> bool:
    """Returns whether the points of a sweep are those of a search for the lowest value."""
    path = folder / RESULTS
    return path.is_file() and config.parse(read_bytes(path), str(path)).get("direction") == "minimize"


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

"""Sweeps: one record a point, kept in files, so that a sweep that is stopped goes on where it was."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.io.files import write_atomic
from harness.store.artefacts import key


@dataclass(frozen=True)
class Point:
    """One configuration of a sweep and what came of it.

    Attributes
    ----------
    overrides : key -> value, as given on the command line.
    files : run file -> its checksum; one for each collection it was scored on, none if the point failed.
    means : label of a measure -> mean over the topics of all of them; n : topics behind the first of them.
    error : why it failed, in one line.
    settings : the whole configuration, so that the point can be made again without the command line.
    basis : a digest of data, code, judgments, protocol and the configuration but what varies; points of a sweep with
        another one are out of date.
    fixed : what does not vary (key of the configuration) -> a digest of it; points of a sweep in
        which one of these differs are not comparable.
    scored_on : a digest of the topics and judgments behind the means; means are compared only where it is the same.
    said : what must be said before the numbers, such as how much of the judgments a corpus holds.
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

    def text(self) -> str:
        """What is swept in one line: the system and its parameters, or all overrides where these are not among them."""
        told = {name: value for name, value in self.overrides.items() if "." in name or name == "system"}
        return ", ".join(f"{name}={value}" for name, value in (told or self.overrides).items())


def write_point(folder: Path, point: Point) -> None:
    """Keep one point, under a name made of its overrides: doing it again replaces it."""
    name = ",".join(f"{key}={value}" for key, value in sorted(point.overrides.items()))
    write_atomic(folder / f"{key({'point': name})[:16]}.json", json.dumps(asdict(point), indent=1))


def read_points(folder: Path, note: Callable[[str], object] = str) -> list[Point]:
    """Return the points of a sweep that are comparable, in the order of their overrides.

    Points made by other data, code or settings than the latest ones are left out; `note` is told which and why.
    """
    points = []
    # The latest one has the present data and code: a sweep that goes on writes every point again.
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path)):
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
            points.append(Point(**{**read, "said": tuple(read["said"])}))
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise HarnessError(f"{path}: not a point of a sweep: {error}") from None
    # What is swept beside a system's parameters (corpora, systems, editions) has data and code of its own.
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
            f"{folder}: {left} of {len(points)} points are left out: they were made before a change of "
            f"{', '.join(sorted(reasons))}; the same command computes its points again"
        )
    points = kept
    return sorted(points, key=lambda point: [natural(value) for _, value in sorted(point.overrides.items())])


def _swept_beside(point: Point) -> tuple[tuple[str, str], ...]:
    """The overrides of a point but those of the system's parameters."""
    return tuple(sorted((name, value) for name, value in point.overrides.items() if not name.startswith("system.")))


def natural(value: str) -> tuple[float, str]:
    """A key that sorts numbers by their values, before texts."""
    try:
        return (float(value), "")
    except ValueError:
        return (math.inf, value)


def best_of(points: Sequence[Point]) -> Point:
    """Return the point with the highest mean of the first measure; of equal ones, the first.

    Raises
    ------
    HarnessError
        No point was computed, or they were scored on different topics or judgments.
    """
    done = [point for point in points if point.means]
    if not done:
        raise HarnessError("no point of the sweep was computed")
    if not same_topics(done):
        raise HarnessError(
            "the points of the sweep were scored on different topics or judgments, so none of them is the best; "
            "sweep the keys of one system on one corpus and one collection"
        )
    label = next(iter(done[0].means or {}))
    return max(done, key=lambda point: value_of(point, label))


def same_topics(points: Sequence[Point]) -> bool:
    """Return whether all points were scored on the same topics and judgments."""
    return len({point.scored_on for point in points}) <= 1


def value_of(point: Point, label: str) -> float:
    """A mean of a point; minus infinity where it has none, so that it comes last."""
    value = (point.means or {}).get(label)
    return -math.inf if value is None else value

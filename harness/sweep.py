"""Sweeps: one record a point, kept in files, so that a sweep that is stopped goes on where it was."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.files import write_atomic
from harness.report import figures
from harness.report.model import Block, Cell, Column, Figure, Report, Section, Table, Text, number_cell, slug
from harness.report.parts import provenance_section
from harness.report.svg import SERIES
from harness.store import Provenance, key


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
    basis : a digest of data, code and judgments behind it; points of a sweep with another one are out of date.
    said : what must be said before the numbers, such as how much of the judgments a corpus holds.
    """

    overrides: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    means: Mapping[str, float | None] | None = None
    n: int = 0
    error: str = ""
    settings: Mapping[str, Any] | None = None
    basis: str = ""
    said: tuple[str, ...] = ()

    def text(self) -> str:
        """What is swept in one line: the system and its parameters, or all overrides where these are not among them."""
        told = {name: value for name, value in self.overrides.items() if "." in name or name == "system"}
        return ", ".join(f"{name}={value}" for name, value in (told or self.overrides).items())


def write_point(folder: Path, point: Point) -> None:
    """Keep one point, under a name made of its overrides: doing it again replaces it."""
    name = ",".join(f"{key}={value}" for key, value in sorted(point.overrides.items()))
    write_atomic(folder / f"{key({'point': name})[:16]}.json", json.dumps(asdict(point), indent=1))


def read_points(folder: Path) -> list[Point]:
    """The points of a sweep, in the order of their overrides; those of data or code that changed since are left out."""
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
    points = [point for point in points if not point.basis or point.basis == now[_swept_beside(point)]]
    return sorted(points, key=lambda point: [_natural(value) for _, value in sorted(point.overrides.items())])


def _swept_beside(point: Point) -> tuple[tuple[str, str], ...]:
    """The overrides of a point but those of the system's parameters."""
    return tuple(sorted((name, value) for name, value in point.overrides.items() if not name.startswith("system.")))


def _natural(value: str) -> tuple[float, str]:
    try:
        return (float(value), "")
    except ValueError:
        return (math.inf, value)


def best_of(points: Sequence[Point]) -> Point:
    """The point with the highest mean of the first measure; of equal ones, the first."""
    done = [point for point in points if point.means]
    if not done:
        raise HarnessError("no point of the sweep was computed")
    label = next(iter(done[0].means or {}))
    return max(done, key=lambda point: _value(point, label))


def sweep_report(
    points: Sequence[Point], title: str, provenance: Provenance, tuned_on: Sequence[str] | None = None
) -> Report:
    """Every configuration tried, the best first; with one swept number, a curve.

    Parameters
    ----------
    tuned_on : the collections that the points were scored on, if another one is to be reported.
    """
    done = [point for point in points if point.means]
    failed = [point for point in points if point.error]
    if not done:
        raise HarnessError(f"{title}: no point of the sweep was computed")
    labels = list(done[0].means or {})
    names = _varied(points)
    ranked = sorted(done, key=lambda point: -_value(point, labels[0]))
    alone = len(done) == 1
    best = {label: math.nan if alone else max(_value(point, label) for point in done) for label in labels}
    rows = []
    for point in ranked:
        values = [(_value(point, label), label) for label in labels]
        cells = [number_cell(value, 4, ("best",) if value == best[label] else ()) for value, label in values]
        rows.append((*(Cell(point.overrides.get(name, "")) for name in names), *cells))
    columns = (*(Column(name) for name in names), *(Column(label, kind="number") for label in labels))
    tried = f"{_counted(len(points), 'configuration')} tried, {len(failed)} failed; n = {done[0].n} topics"
    note = (
        f"{tried} of {', '.join(tuned_on)}, none of which is reported. The best is run on the reported topics."
        if tuned_on
        else f"{tried}. The best of them was chosen on these very topics: its value is optimistic and is no result "
        "for other topics."
    )
    table = Table("points", "Configurations", columns, tuple(rows), (note,), row_headers=len(names))
    blocks: list[Block] = [table, *_curves(done, names, labels[0])]
    said = tuple(dict.fromkeys(line for point in done for line in point.said))
    sections = [Section("What was tried", (*((Text(said),) if said else ()), *blocks))]
    if failed:
        lines = tuple(f"{point.text()}: {point.error}" for point in failed)
        sections.append(Section("What failed", (Text(lines),)))
    sections.append(provenance_section(provenance))
    where = f"tuned on {', '.join(tuned_on)}" if tuned_on else "chosen on the same topics"
    systems, collections = (_named(done, group) for group in ("system", "collection"))
    subject = (f" of {systems}" if systems else "") + (f" on {collections}" if collections else "")
    # The values are of the collections tuned on; the title names the one that is reported.
    scored = f" of {systems}" if tuned_on and systems else "" if tuned_on else subject
    headline = f"{_counted(len(points), 'configuration')}{scored}: {'' if alone else 'best '}{labels[0]} "
    headline += f"{_value(ranked[0], labels[0]):.4f}" + ("" if alone else f", {where}")
    return Report(f"{title}{subject}", headline, tuple(sections))


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _named(points: Sequence[Point], group: str) -> str:
    """The systems or collections of the points in a few words; empty where the points have no settings."""
    found = dict.fromkeys(str((point.settings or {}).get(group, {}).get("name", "")) for point in points)
    names = [name for name in found if name]
    return _counted(len(names), group) if len(names) > 3 else ", ".join(names)


def _varied(points: Sequence[Point]) -> list[str]:
    """The keys whose values differ between points; all of them if none does."""
    names = sorted({name for point in points for name in point.overrides})
    varied = [name for name in names if len({point.overrides.get(name) for point in points}) > 1]
    return varied or names


def _value(point: Point, label: str) -> float:
    value = (point.means or {}).get(label)
    return -math.inf if value is None else value


def _curves(points: Sequence[Point], names: Sequence[str], label: str) -> list[Figure]:
    """The first measure against each swept number, a line for each choice of the other keys; nothing for words.

    Where there are more lines than can be distinguished, one line shows the best of them at each value.
    """
    out = []
    for name in names if len(points) > 1 else ():
        at = [_natural(point.overrides.get(name, ""))[0] for point in points]
        if any(math.isinf(x) for x in at):
            continue
        lines: dict[str, list[tuple[float, float]]] = {}
        for point, x in zip(points, at, strict=True):
            others = ", ".join(f"{key}={point.overrides.get(key, '')}" for key in names if key != name)
            lines.setdefault(others, []).append((x, _value(point, label)))
        title = f"{label} against {name}"
        if len(lines) > SERIES:
            best: dict[float, float] = {}
            for x, y in (found for line in lines.values() for found in line):
                best[x] = max(y, best.get(x, -math.inf))
            title += ": the best over all values of the other keys"
            lines = {"": list(best.items())}
        out.append(Figure(f"curve-{slug(name)}", title, figures.curves(list(lines.items()), name, label)))
    return out

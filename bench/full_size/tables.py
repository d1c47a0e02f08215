"""Tables of what was measured, growth exponents, and extrapolations to full size, which are marked as such."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.full_size.paths import Route

CORES, NODES = 64, 10
PART = "of it"  # begins the name of a part of another step


@dataclass(frozen=True)
class Record:
    """A measurement of a path at a scale.

    Attributes
    ----------
    items : product of `sizes`.
    wall, cpu : seconds, the start of Python included.
    peak : bytes of resident memory of the largest process, pages of mapped files included.
    own : without those, as sampled.
    disk : bytes that it leaves behind.
    stopped : reason for which it was ended; then all numbers are lower bounds.
    steps : CPU seconds of each step.
    """

    path: str
    scale: str
    items: int
    sizes: Mapping[str, int]
    wall: float
    cpu: float
    peak: int
    own: int
    disk: int
    stopped: str = ""
    steps: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Returns the values for JSON."""
        return asdict(self)

    def line(self) -> str:
        """Returns a line for the terminal."""
        memory = f"{self.peak / 2**20:,.0f} MiB, own {self.own / 2**20:,.0f}"
        cost = f"{self.cpu:.1f} CPU s; {memory}; {self.disk / 1e6:,.0f} MB on disk"
        ended = f"; ENDED: {self.stopped}" if self.stopped else ""
        return f"{self.path} {self.scale}: {self.items:,}; {cost}{ended}"


def as_records(values: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Returns the records of a JSON file."""
    return [Record(**value) for value in values]


@dataclass(frozen=True)
class Growth:
    """Two measured points and what they say about a larger number of items.

    Examples
    --------
    >>> Growth((100, 2.0), (1000, 11.0)).exponent()  # doctest: +ELLIPSIS
    0.74...
    >>> Growth((100, 2.0), (1000, 11.0)).at(10_000)
    101.0
    """

    first: tuple[int, float]
    second: tuple[int, float]

    def exponent(self) -> float | None:
        """Returns the growth exponent; None where a value is 0."""
        (a, x), (b, y) = self.first, self.second
        return math.log(y / x) / math.log(b / a) if x > 0 and y > 0 and a != b else None

    def at(self, items: int) -> float:
        """Extrapolates by the line through both points, or by the power law if that grows faster than linearly.

        A constant part, such as the interpreter, makes the exponent of a linear path smaller than 1; the line keeps it
        apart.
        """
        (a, x), (b, y) = self.first, self.second
        exponent = self.exponent()
        line = y + max(0.0, (y - x) / (b - a)) * (items - b)
        return line if exponent is None or exponent <= 1 else max(line, y * (items / b) ** exponent)


def pairs(records: Sequence[Record], routes: Mapping[str, Route]) -> Iterator[tuple[str, Record, Record]]:
    """Yields each path with its two largest complete measurements."""
    for name in routes:
        mine = sorted(
            (each for each in records if each.path == name and not each.stopped), key=lambda each: Fraction(each.scale)
        )
        if len(mine) > 1:
            yield name, mine[-2], mine[-1]


def tables(records: Sequence[Record], routes: Mapping[str, Route], machine: str) -> Iterator[str]:
    """Yields the lines of all tables in Markdown."""
    yield from ("## Measured", "", f"{machine}.", "")
    yield from _table(_measured(records, routes))
    yield from ("", "## Growth exponents", "")
    yield from _table(_exponents(records, routes))
    yield from ("", "## CPU seconds of the steps", "")
    yield from _table(_steps(records, routes))
    yield from ("", "## Extrapolated to full size, not measured", "")
    yield from _table(_full(records, routes))


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield "| " + " | ".join(row) + " |"
        if not number:
            yield "|" + "---|" * len(row)


def _measured(records: Sequence[Record], routes: Mapping[str, Route]) -> Iterator[Sequence[str]]:
    yield ("path", "scale", "items", "CPU s", "wall s", "peak MiB", "own MiB", "disk MB", "remark")
    for each in records:
        items = f"{each.items:,} {routes[each.path].item}"
        if len(each.sizes) > 1:
            items += f" ({' x '.join(f'{number:,}' for number in each.sizes.values())})"
        bound = "> " if each.stopped else ""
        cpu, wall = f"{bound}{each.cpu:,.1f}", f"{bound}{each.wall:,.0f}"
        memory = (f"{bound}{value / 2**20:,.0f}" for value in (each.peak, each.own))
        ended = f"ended: {each.stopped}" if each.stopped else ""
        yield (routes[each.path].title, each.scale, items, cpu, wall, *memory, f"{each.disk / 1e6:,.0f}", ended)


def _exponents(records: Sequence[Record], routes: Mapping[str, Route]) -> Iterator[Sequence[str]]:
    yield ("path", "scales", "CPU", "peak memory", "own memory", "disk", "own bytes an item, slope")
    for name, a, b in pairs(records, routes):
        found = []
        for key in ("cpu", "peak", "own", "disk"):
            exponent = Growth((a.items, getattr(a, key)), (b.items, getattr(b, key))).exponent()
            found.append("-" if exponent is None else f"{exponent:.2f}")
        slope = (b.own - a.own) / (b.items - a.items)
        yield (routes[name].title, f"{a.scale} to {b.scale}", *found, f"{slope:,.0f}")


def _steps(records: Sequence[Record], routes: Mapping[str, Route]) -> Iterator[Sequence[str]]:
    yield ("path", "step", "scales", "CPU s", "CPU s", "exponent")
    for name, a, b in pairs(records, routes):
        for step in b.steps:
            if step in a.steps:
                exponent = Growth((a.items, a.steps[step]), (b.items, b.steps[step])).exponent()
                shown = "-" if exponent is None else f"{exponent:.2f}"
                scales = f"{a.scale}, {b.scale}"
                yield (routes[name].title, step, scales, f"{a.steps[step]:,.1f}", f"{b.steps[step]:,.1f}", shown)


def _full(records: Sequence[Record], routes: Mapping[str, Route]) -> Iterator[Sequence[str]]:
    heads = (f"{CORES} cores", f"{NODES} nodes of {CORES} cores", "what more cores share")
    yield ("path", "items", "one core", *heads, "own memory GiB", "peak GiB", "disk GB")
    for name, a, b in pairs(records, routes):
        route = routes[name]
        items = math.prod(route.full.values())
        steps = _steps_at(a, b, items)
        whole = sum(steps.values())
        shared: dict[str, float] = {}
        for step, how in route.split.items():
            shared[how] = shared.get(how, 0.0) + (steps[step] if step else whole)
        times = [whole, *(_on(nodes, whole, shared, route) for nodes in (1, NODES))]
        memory = [Growth((a.items, getattr(a, k)), (b.items, getattr(b, k))).at(items) / 2**30 for k in ("own", "peak")]
        disk = Growth((a.items, a.disk), (b.items, b.disk)).at(items) / 1e9
        how = "; ".join(f"{step or 'all'}: by {kind}" for step, kind in route.split.items()) or "nothing"
        yield (
            route.title,
            f"{items:,}",
            *map(duration, times),
            how,
            *(f"{each:,.1f}" for each in memory),
            f"{disk:,.1f}",
        )


def _steps_at(a: Record, b: Record, items: int) -> dict[str, float]:
    """Extrapolates the CPU seconds of each step, and under "" those outside all steps; one may grow faster than all."""
    steps = [step for step in b.steps if step in a.steps and not step.startswith(PART)]
    rest = [max(0.0, each.cpu - sum(each.steps[step] for step in steps)) for each in (a, b)]
    found = {step: Growth((a.items, a.steps[step]), (b.items, b.steps[step])).at(items) for step in steps}
    return {**found, "": Growth((a.items, rest[0]), (b.items, rest[1])).at(items)}


def duration(seconds: float) -> str:
    """Returns a time in the unit that fits it.

    Examples
    --------
    >>> duration(56.4), duration(3600), duration(12345)
    ('56 s', '60 min', '3.4 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def _on(nodes: int, whole: float, shared: Mapping[str, float], route: Route) -> float:
    """Returns the seconds on some nodes, at best: what is shared is divided evenly, the rest is not."""
    workers = {"items": CORES * nodes, "cores": CORES, "runs": min(CORES * nodes, route.full.get("runs", 1))}
    return max(0.0, whole - sum(shared.values())) + sum(seconds / workers[how] for how, seconds in shared.items())

"""Figures of sweeps over several keys: heat map, search, parallel coordinates; and how much each key explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, combinations

from harness.experiments.sweep import SweepPoint, natural, rounded, value_of
from harness.render import figures
from harness.render.heat_map import heat_map
from harness.render.model import Cell, Column, Figure, Table, number_cell, slug
from harness.render.parallel import parallel_coordinates

_GROUPS = 4  # of the values of a key that has a value of its own for most points
_LEAST = 8  # points from which shares of variance are shown
_MOST = 40  # values of a key in a heat map


def numbers_of(points: Sequence[SweepPoint], name: str) -> list[float]:
    """Returns the values of a key, if all points have a number; else an empty list."""
    numbers = [natural(point.overrides.get(name, ""))[0] for point in points]
    return [] if any(map(math.isinf, numbers)) else numbers


def many_key_figures(
    points: Sequence[SweepPoint], names: Sequence[str], label: str, *, lowest: bool, after: str
) -> list[Figure]:
    """Returns a heat map for each pair of numeric keys of a grid, and parallel coordinates from three keys on.

    Parameters
    ----------
    points : points with a value, scored on the same topics and judgments.
    names : keys that vary.
    after : end of the names of the figures.
    """
    choose = min if lowest else max
    word = "lowest" if lowest else "best"
    grid = [name for name in names if (numbers := numbers_of(points, name)) and 2 <= len(set(numbers)) <= _MOST]
    grid = [name for name in grid if len(set(numbers_of(points, name))) <= len(points) / 2]
    out = [
        _heat_map(points, pair, label, choose, word if len(names) > 2 else "", after) for pair in combinations(grid, 2)
    ]
    if len(names) >= 3:
        ordered = sorted(points, key=lambda point: value_of(point, label), reverse=not lowest)
        lines = [([rounded(p.overrides.get(n, "")) for n in names], value_of(p, label)) for p in ordered]
        title = (
            f"{label} of all configurations, a line for each: orange with a diamond the {word}, blue the rest of the "
            f"{word} quarter, grey the others"
        )
        axes = [name.removeprefix("system.") for name in names]
        out.append(Figure(f"parallel{after}", title, parallel_coordinates(axes, lines, label, title, word)))
    return out


def _heat_map(
    points: Sequence[SweepPoint],
    pair: tuple[str, str],
    label: str,
    choose: Callable[[Iterable[float]], float],
    word: str,
    after: str,
) -> Figure:
    """Draws a measure by two keys; `word` says which of the values of the other keys, if there are others."""
    by_place: dict[tuple[float, float], list[float]] = {}
    shown: dict[float, str] = {}
    for point, *at in zip(points, *(numbers_of(points, name) for name in pair), strict=True):
        by_place.setdefault((at[0], at[1]), []).append(value_of(point, label))
        shown |= {value: rounded(point.overrides[name]) for value, name in zip(at, pair, strict=True)}
    rows, columns = (sorted({place[side] for place in by_place}) for side in (0, 1))
    values = [[choose(by_place.get((row, column), [math.nan])) for column in columns] for row in rows]
    first, second = (name.removeprefix("system.") for name in pair)
    title = f"{label} by {first} (rows) and {second} (columns)"
    title += f", the {word} over all values of the other keys" if word else ""
    names = ([shown[value] for value in side] for side in (rows, columns))
    drawing = heat_map(next(names), next(names), values, title, decimals=3, axes=(first, second))
    return Figure(f"heat-map-{slug(first)}-{slug(second)}{after}", title, drawing)


def search_figure(values: Sequence[float | None], label: str, *, lowest: bool) -> Figure | None:
    """Draws the points of a search in their order, with the best so far; None below two values.

    Parameters
    ----------
    values : mean of each point in the order of the search; None if it failed.
    """
    points = [(float(number), value) for number, value in enumerate(values, 1) if value is not None]
    if len(points) < 2:
        return None
    best = list(accumulate((value for _, value in points), min if lowest else max))
    line = [(number, value) for (number, _), value in zip(points, best, strict=True)]
    so_far = f"{'lowest' if lowest else 'best'} so far"
    drawing = figures.curves([(so_far, line), ("point", points)], "point of the search", label, unjoined=("point",))
    return Figure("search", f"{label} of the points in the order of the search, and the {so_far}", drawing)


def importance_table(points: Sequence[SweepPoint], names: Sequence[str], label: str) -> Table | None:
    """Returns the share of the variance of a measure that each key explains alone; None for few points or one key.

    The share is eta squared: the sum of squares between the values of the key over the total one (Fisher 1925; as the
    main effects of functional ANOVA, Hutter et al. 2014). A number that has another value in most points is divided
    into four groups of equal size. In a complete grid the shares add up to at most 1, and the rest is interaction.
    """
    values = [value_of(point, label) for point in points]
    mean = math.fsum(values) / len(values) if values else math.nan
    total = math.fsum((value - mean) ** 2 for value in values)
    if len(names) < 2 or len(points) < _LEAST or not total > 0:
        return None
    shares = {name: _between(_groups(points, name), values, mean) / total for name in names}
    rows = tuple(
        (Cell(name.removeprefix("system.")), number_cell(share, 2))
        for name, share in sorted(shares.items(), key=lambda pair: -pair[1])
    )
    note = (
        f"Share of the variance of {label} over the points between the values of each key alone (eta squared); "
        f"numbers with a value of their own in most points are in {_GROUPS} groups of equal size. It describes these "
        "points and ranges, and of few points it is too high."
    )
    columns = (Column("key"), Column("share of variance", kind="number"))
    return Table("importance", f"Importance of the keys for {label}", columns, rows, (note,), row_headers=1)


def _groups(points: Sequence[SweepPoint], name: str) -> list[object]:
    """Returns the group of each point: its value of a key, or the quarter that this number is in."""
    texts = [point.overrides.get(name, "") for point in points]
    numbers = numbers_of(points, name)
    if len(set(texts)) <= len(points) / 2 or not numbers:
        return list(texts)
    place = {value: at for at, value in enumerate(sorted(numbers))}
    return [place[value] * _GROUPS // len(numbers) for value in numbers]


def _between(groups: Sequence[object], values: Sequence[float], mean: float) -> float:
    """Returns the sum of squares between groups."""
    members: dict[object, list[float]] = {}
    for group, value in zip(groups, values, strict=True):
        members.setdefault(group, []).append(value)
    return math.fsum(len(each) * (math.fsum(each) / len(each) - mean) ** 2 for each in members.values())

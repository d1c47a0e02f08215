"""Figures of sweeps over several keys: heat map, search, parallel coordinates; and how much each key explains.

What the best of a sweep may claim: the price of having searched, and a test against the default setting.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, combinations

import numpy as np

from harness.data.columns import Floats, Index
from harness.errors import HarnessError, counted_text
from harness.experiments.sweep import SweepPoint, first_label, natural, rounded, value_of
from harness.io import config
from harness.render import figures
from harness.render.charts import heat_map, parallel_coordinates
from harness.render.model import Cell, Column, Figure, Prose, Section, Table, number_cell, slug
from harness.reports.pair_tests import shown_p
from harness.scoring.intervals import numbers_of_names, paired_t
from harness.scoring.measures import parse_measure
from harness.scoring.random_effects import stratified_error
from harness.scoring.randomization import TOLERANCE
from harness.scoring.resampling import SelectionPrice, price_of_selection

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


ALPHA = 0.05
SYSTEM = "system"


@dataclass(frozen=True)
class DefaultTest:
    """The best point against the default setting: a paired t-test over topics, by collection and cluster.

    Attributes
    ----------
    difference : mean of best - default; low, high : its 95 % interval.
    p : corrected by Bonferroni for every other point that was tried; None if the difference is the same on all topics.
    """

    difference: float
    low: float
    high: float
    p: float | None


@dataclass(frozen=True)
class SearchClaim:
    """What a sweep shows of its best point.

    Attributes
    ----------
    price : its bias of selection; None for too few topics.
    default : the point with the system's default setting; None if it was not tried.
    tried : number of points that the best was chosen from, beside the default.
    test : None without the default, or if it is the best itself.
    sampler : what proposed points by the values of earlier ones on these topics; empty if nothing did.
    searched : whether a sampler proposed the points, which cannot be added to.
    untried : key -> the default value, of the keys of the system of which no point has it.
    """

    label: str
    lowest: bool
    best: SweepPoint
    price: SelectionPrice | None
    default: SweepPoint | None
    tried: int
    test: DefaultTest | None
    sampler: str = ""
    searched: bool = False
    untried: Mapping[str, object] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """What the point that was chosen is called."""
        return "lowest" if self.lowest else "best"


def search_claim(
    ranked: Sequence[SweepPoint], lowest: bool = False, sampler: str = "", *, searched: bool = False
) -> SearchClaim | None:
    """Returns what the best point may claim; None if no key of a system is swept, or points keep no values by topic.

    Parameters
    ----------
    ranked : the points that were computed, best first, on the same topics; those that differ in nothing but resources
        of the computation count as tried all the same.
    sampler, searched : as of `SearchClaim`.
    """
    first, label = ranked[0], first_label(ranked[0])
    shape = {name: len(values) for name, values in first.values.items()}
    points = [point for point in ranked if {name: len(of) for name, of in point.values.items()} == shape]
    keys = {key for point in points for key in point.overrides if key.startswith(f"{SYSTEM}.")}
    if not shape or not keys or len(points) < max(2, len(ranked)) or not _is_mean(label):
        return None
    table = np.stack([_values(point) for point in points], axis=1)
    strata = np.repeat(np.arange(len(shape)), list(shape.values()))
    groups = _clusters(first)
    try:
        price = price_of_selection(table, groups=groups, maximize=not lowest)
    except HarnessError:
        price = None
    if price is not None and price.best:  # of another point, by the topics that count for all
        price = None
    default = next((point for point in points if _is_default(point, first)), None)
    tried = len(points) - 1
    test = None
    if default is not None and default is not first:
        apart = table[:, 0] - table[:, points.index(default)]
        test = _test(apart, strata, groups, tried)
    off = [found for point in points if (found := _off_default(point)) is not None]
    untried = {key: value for key, value in off[0].items() if all(key in each for each in off)} if off else {}
    return SearchClaim(label, lowest, first, price, default, tried, test, sampler, searched, untried)


def _is_mean(label: str) -> bool:
    """Returns whether the value of a run by a measure is the mean of its topics' values."""
    with suppress(HarnessError):
        return parse_measure(label.replace("′", "")).aggregate == "mean"
    return False


def _values(point: SweepPoint) -> Floats:
    return np.array([math.nan if v is None else v for of in point.values.values() for v in of], dtype=np.float64)


def _clusters(point: SweepPoint) -> list[int] | None:
    """Returns the number of each topic's cluster; None if no collection has clusters."""
    if not point.groups:
        return None
    names = [
        (name, point.groups[name][at] if name in point.groups else at)
        for name, of in point.values.items()
        for at in range(len(of))
    ]
    numbers: list[int] = numbers_of_names(names).tolist()
    return numbers


def _test(apart: Floats, strata: Index, groups: Sequence[int] | None, family: int) -> DefaultTest | None:
    counted = ~np.isnan(apart)
    values = apart[counted]
    of = None if groups is None else numbers_of_names(np.asarray(groups)[counted].tolist())
    if not len(values):
        return None
    values[np.abs(values) <= TOLERANCE] = 0.0
    error, freedom = stratified_error(values, numbers_of_names(strata[counted].tolist()), of)
    if math.isnan(error):
        return None
    difference, n = float(values.mean()), len(values)
    sd = math.sqrt(n) * error if error > TOLERANCE else 0.0
    _, _, p, half = paired_t(difference, sd, n, freedom, 1.0 - ALPHA)
    return DefaultTest(difference, difference - half, difference + half, None if p is None else min(1.0, p * family))


def _is_default(point: SweepPoint, best: SweepPoint) -> bool:
    """Returns whether a point has the default value of each key of the best point's system, and else its settings."""
    mine, others = (
        {key: value for key, value in each.overrides.items() if not key.startswith(f"{SYSTEM}.")}
        for each in (point, best)
    )
    return mine == others and _off_default(point) == {}


def _off_default(point: SweepPoint) -> dict[str, object] | None:
    """Returns key of the system -> its default, of the keys that have another value; None for an unknown system."""
    name = point.overrides.get(SYSTEM, "")
    if name not in config.names(SYSTEM):
        return None
    from hydra.core.override_parser.overrides_parser import OverridesParser  # a sweep has imported it

    given, _ = config.load(SYSTEM, name)
    off: dict[str, object] = {}
    for key, text in point.overrides.items():
        if not key.startswith(f"{SYSTEM}."):
            continue
        value: object = given
        for part in key.split(".")[1:]:
            value = value.get(part) if isinstance(value, dict) else None
        if value != OverridesParser.create().parse_override(f"{key}={text}").value():
            off[key] = value
    return off


def claim_words(claim: SearchClaim) -> str:
    """Returns for a headline what may be claimed of the best point."""
    if claim.default is claim.best:
        return "it is the default setting"
    if claim.default is None:
        return f"not compared with the default setting, which was not tried{_how_to_compare(claim)}"
    corrected = f"after correction for {counted_text(claim.tried, 'other setting')}"
    if claim.sampler:
        corrected += f" as if chosen beforehand, but {claim.sampler} learns from values on these topics"
    if claim.test is None or claim.test.p is None:
        return "its test against the default setting is undefined"
    p = shown_p(claim.test.p).text
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    if claim.test.p < ALPHA:
        return f"{'lower' if claim.lowest else 'better'} than the default setting ({p} {corrected})"
    return f"not shown to be {'lower' if claim.lowest else 'better'} than the default setting ({p} {corrected})"


def _how_to_compare(claim: SearchClaim) -> str:
    if not claim.untried:
        return ""
    if claim.searched:
        without = ", ".join(claim.untried)
        return (
            f": 'harness run' without {without} makes its run, and 'harness compare' tests the two, without a "
            "correction for the search"
        )
    return f": add {' and '.join(f'{_value_word(value)} to {key}' for key, value in claim.untried.items())}"


def _value_word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def price_section(claim: SearchClaim, setting: Callable[[SweepPoint], str], tuned_on: Sequence[str] = ()) -> Section:
    """Returns the best point's value with its bias of selection, its test against the default, and what it may claim.

    Parameters
    ----------
    setting : point -> the values of its keys, in words.
    tuned_on : the collections of the points, if another one is reported.
    """
    rows, price = [], claim.price
    among = " among these points" if claim.sampler else ""
    if price is not None:
        rows += [
            (f"{claim.label} of the {claim.word}, {setting(claim.best)}", number_cell(price.value, 4)),
            (f"on topics that it was not chosen on{among}", number_cell(price.cross_validated, 4)),
            (f"optimism{among}", number_cell(price.optimism, 4)),
            (f"share of these choices that are the {claim.word}", number_cell(price.chosen_again, 2)),
        ]
    if claim.test is not None and claim.default is not None:
        rows += [
            (f"above the default, {setting(claim.default)}", number_cell(claim.test.difference, 4)),
            ("95% interval, not corrected", Cell(f"{claim.test.low:+.4f} to {claim.test.high:+.4f}")),
            (f"p, corrected for {counted_text(claim.tried, 'other setting')}", shown_p(claim.test.p)),
        ]
    notes = [
        f"Not chosen on: topics in five folds, the {claim.word} of four scored on the fifth, over 20 divisions (Varma "
        "and Simon, 2006). The test: paired t-test, Bonferroni for every other setting that was tried."
    ]
    if claim.sampler:
        notes.append(
            f"{claim.sampler} learns from the values of earlier points on all these topics. Neither the "
            "cross-validation, which is of the choice among the points, nor the correction covers that."
        )
    table = Table(
        "price",
        "Price of the search",
        (Column("of the search"), Column("value", kind="number")),
        tuple((Cell(name), cell) for name, cell in rows),
        tuple(notes),
        row_headers=1,
    )
    where = f" on {', '.join(tuned_on)}" if tuned_on else ""
    said = [f"What may be claimed{where}: the {claim.word} is {claim_words(claim).removeprefix('it is ')}."]
    if price is not None:
        of = f"{claim.label} on {price.topics} topics{where}"
        chosen = f"had the lowest of {price.settings} values of {of}" if claim.lowest else ""
        chosen = chosen or f"was the best of {price.settings} by {of}"
        checked = (
            f"{claim.sampler}, which proposed the settings, learns from values on all these topics, so it is optimistic"
            if claim.sampler
            else "chosen and scored on different topics, by nested cross-validation, it has "
            f"{price.cross_validated:.4f}"
        )
        said.append(f'For a paper: "The setting {chosen} ({price.value:.4f}); {checked}."')
    if claim.sampler and not tuned_on:
        said.append(
            "For a value on topics that neither the sampler nor the choice has seen, search on other collections with "
            "tune=[COLLECTION]."
        )
    return Section("Price of the search", (Prose(tuple(said)), *((table,) if rows else ())))

"""Further figures in the style of `harness.render.figures`: heat maps, parallel coordinates, and those of a site.

A site shows a run's values among the quartiles of all runs, effectiveness against cost, and submissions by time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product

from harness.errors import HarnessError
from harness.render.figures import _fixed, _linear_scale, _names_beside, _y_axis
from harness.render.svg import (
    FONT,
    LINE,
    WIDTH,
    clip,
    diamond,
    disc,
    drawable,
    element,
    num,
    svg_document,
    svg_line,
    svg_text,
    text_width,
    tip,
)

_LEVELS = 4  # number of shades, from background to dark
_LABEL = (70.0, 170.0)  # narrowest and widest column of row labels
_CELL = (40.0, 80.0)  # narrowest and widest cell that is as wide as its texts, where there is room
_READABLE = 22.0  # width of a label that is clipped; below it, some columns have no label


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    title: str,
    decimals: int = 2,
    axes: tuple[str, str] = ("", ""),
) -> str:
    """Draws a matrix of values in shades of equal width between minimum and maximum; non-finite values stay blank.

    Cells that are wide enough contain their value.

    Parameters
    ----------
    values : `values[i][j]` belongs to `rows[i]` and `columns[j]`.
    decimals : of the numbers in texts.
    axes : what the rows and the columns are.

    Raises
    ------
    HarnessError
        `values` does not match the rows and columns, or is empty.

    Examples
    --------
    >>> heat_map(["a"], ["b", "c"], [[0.0, 1.0]], "Two values").startswith("<svg")
    True
    """
    if not rows or not columns or len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        raise HarnessError(
            f"figure {title!r}: expected {len(rows)} rows of {len(columns)} values, at least one of each"
        )
    known = [value for row in values for value in row if math.isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    step = (high - low) / _LEVELS or 1.0
    left = _within(_LABEL, [axes[0], *rows])
    ends = [_fixed(value, decimals) for value in (low, high)]
    wide = min(_within(_CELL, [*columns, *ends]), (WIDTH - left - 10) / len(columns))
    labelled = 1 if wide >= _READABLE else math.ceil(_CELL[0] / wide)  # each how many columns
    tall, top = min(max(wide, 14.0), 24.0), 48.0 if axes[1] else 30.0
    numbered = wide > max(map(text_width, ends)) and tall > FONT
    paths = [""] * _LEVELS
    body = svg_text(left - 8, top - 9, clip(axes[0], left - 10), "end") if axes[0] else ""
    body += svg_text(left, 16, clip(axes[1], WIDTH - left)) if axes[1] else ""
    for i, row in enumerate(rows):
        y = top + tall * i
        body += svg_text(left - 8, y + tall / 2 + 4.5, clip(row, left - 10), "end", "soft")
    for j, column in enumerate(columns):
        if j % labelled == 0:
            body += svg_text(left + wide * (j + 0.5), top - 9, clip(column, wide * labelled), "middle", "soft")
    for i, j in product(range(len(rows)), range(len(columns))):
        if math.isfinite(value := values[i][j]):
            level = min(int((value - low) / step), _LEVELS - 1)
            x, y = left + wide * j, top + tall * i
            paths[level] += f"M{num(x)} {num(y)}h{num(wide)}v{num(tall)}h{num(-wide)}z"
            if numbered:
                on = "on" if level == _LEVELS - 1 else ""
                body += svg_text(x + wide / 2, y + tall / 2 + 4.5, _fixed(value, decimals), "middle", on)
    fills = [{"class_": "paper rule"}, *({"class_": f"l{level} rule"} for level in range(1, _LEVELS))]
    under = "".join(element("path", d=path, **fill) for path, fill in zip(paths, fills, strict=True) if path)
    bottom, x = top + tall * len(rows) + 14, left
    for level, fill in enumerate(fills):
        body += element("rect", x=x, y=bottom, width=16.0, height=14.0, **fill)
        body += svg_text(x + 22, bottom + 12, f"from {_fixed(low + step * level, decimals)}", "", "soft")
        x += 100
    summary = f"from {ends[0]} to {ends[1]}, {len(rows)} rows and {len(columns)} columns" if known else "no value"
    return svg_document(bottom + 24, title, summary, under + body)


def _within(bounds: tuple[float, float], texts: Sequence[str]) -> float:
    """Returns the width that texts need, within bounds."""
    return min(max(bounds[0], *(text_width(text) + 10 for text in texts)), bounds[1])


_TOP, _BOTTOM, _SIDE = 40.0, 300.0, 70.0


def parallel_coordinates(
    axes: Sequence[str], points: Sequence[tuple[Sequence[str], float]], label: str, title: str, word: str = "best"
) -> str:
    """Draws a line for each point through its value on each axis; the last axis has the result, `label`.

    Axes whose values are all numbers are linear; values of others are at equal distances, in order of occurrence. The
    first point, which is the best, is orange with a diamond, the rest of the best quarter blue, the others grey.

    Parameters
    ----------
    points : values on the axes, and the result; in order, the best first.
    word : what the first point is called.

    Raises
    ------
    HarnessError
        There is no point, or one has another number of values than there are axes.

    Examples
    --------
    >>> parallel_coordinates(["k1", "stem"], [(["1", "a"], 0.5), (["2", "b"], 0.4)], "nDCG", "Two").startswith("<svg")
    True
    """
    if not points or any(len(values) != len(axes) for values, _ in points):
        raise HarnessError(f"figure {title!r}: expected one or more points of {len(axes)} values")
    columns = [[values[at] for values, _ in points] for at in range(len(axes))]
    columns.append([f"{result:.4f}" for _, result in points])
    step = (WIDTH - 2 * _SIDE) / len(axes)
    xs = [_SIDE + step * at for at in range(len(columns))]
    heights, body = [], ""
    for x, name, column in zip(xs, [*axes, label], columns, strict=True):
        places, marks = _scale(column)
        heights.append(places)
        body += svg_line(x, _TOP, x, _BOTTOM, "axis") + svg_text(x, 16, clip(name, step - 6), "middle", "big")
        for text, y in marks:
            body += svg_text(x + 6, y + 4.5, clip(text, step - 12 if x < xs[-1] else _SIDE - 8), "", "soft")
    lines = ""
    for number in reversed(range(len(points))):  # the best is drawn last, above the others
        at = [f"{x:.2f} {places[number]:.2f}" for x, places in zip(xs, heights, strict=True)]
        class_ = "s1" if number == 0 else "s0" if number < math.ceil(len(points) / 4) else "rule"
        values, result = points[number]
        hint = tip(", ".join(f"{axis}={value}" for axis, value in zip(axes, values, strict=True)) + f": {result:.4f}")
        lines += element("path", hint, d=f"M{'L'.join(at)}", class_=class_, fill="none")
    lines += diamond(xs[-1], heights[-1][0], 6.0, "f1")
    best = ", ".join(f"{axis}={value}" for axis, value in zip(axes, points[0][0], strict=True))
    said = f"{len(points)} points; {word} {label} {points[0][1]:.4f} with {best}"
    return svg_document(_BOTTOM + 16, title, said, lines + body)


def _scale(column: Sequence[str]) -> tuple[list[float], list[tuple[str, float]]]:
    """Returns the height of each value on an axis, and the marks: text and height."""
    try:
        numbers = [float(text) for text in column]
    except ValueError:
        numbers = []
    if not numbers or not all(map(math.isfinite, numbers)):
        known = list(dict.fromkeys(column))
        numbers = [float(known.index(text)) for text in column]
    low, high = min(numbers), max(numbers)
    places = [_BOTTOM - (_BOTTOM - _TOP) * ((value - low) / (high - low) if high > low else 0.5) for value in numbers]
    ends = (numbers.index(low), numbers.index(high))
    marks: dict[str, float] = {}
    for at in (*ends, *range(len(column))):  # those that would overlap are left out, but for both ends
        if all(abs(places[at] - there) >= LINE for there in marks.values()):
            marks[column[at]] = places[at]
    return places, list(marks.items())


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def profile(rows: Sequence[tuple[str, float, float, float, float]], label: str, run: str, title: str = "") -> str:
    """Draws one column per topic: the band from lower to upper quartile, the median, and the run's value as a diamond.

    Rows (topic, value, lower quartile, median, upper quartile) are drawn in the given order; a value that is not finite
    is not drawn. A thin line joins the value and the median.
    """
    drawn = [number for _, *numbers in rows for number in numbers if drawable(number)]
    left, right, top, bottom = 56.0, WIDTH - 8, 34.0, 294.0
    y, body = _y_axis([0.0, 1e-9, *drawn], label, (left, right, top, bottom))
    step = (right - left) / max(1, len(rows))
    above = below = 0
    for index, (topic, value, low, middle, high) in enumerate(rows):
        x = left + step * index
        if not drawable(middle):
            continue
        hint = tip(f"{topic}: {_fixed(value)}; quartiles {_fixed(low)}, {_fixed(middle)}, {_fixed(high)}")
        band = {"x": x + step * 0.1, "width": step * 0.8, "y": y(high), "height": max(0.6, y(low) - y(high))}
        body += element("rect", hint, **band, class_="l1")
        body += svg_line(x + step * 0.1, y(middle), x + step * 0.9, y(middle), "s0")
        if drawable(value):
            above, below = above + (value > middle), below + (value < middle)
            centre, size = x + step / 2, min(5.0, max(2.6, step * 0.42))
            body += svg_line(centre, y(value), centre, y(middle), "s1") + diamond(centre, y(value), size, "f1", hint)
    counts = f"above the median on {above} topics, below on {below}"
    body += svg_line(left, bottom, right, bottom, "axis")
    body += diamond(left + 5, 13.0, 5.0, "f1") + svg_text(left + 16, 17.5, clip(run, 300))
    start = left + 40 + text_width(clip(run, 300))
    body += element("rect", x=start, y=8.0, width=16.0, height=10.0, class_="l1")
    body += svg_line(start, 13.0, start + 16, 13.0, "s0")
    body += svg_text(start + 22, 17.5, "quartiles and median of the ranked runs")
    body += svg_text((left + right) / 2, bottom + 20, f"topics, by median: {counts}", "middle", "soft")
    return svg_document(bottom + 30, title or f"{label} of {run} by topic", counts, body)


def frontier(points: Sequence[tuple[str, float, float]], xlabel: str, ylabel: str, title: str = "") -> str:
    """Draws (label, cost, value) with costs on a logarithmic axis; diamonds: no other run is cheaper and better.

    Points whose cost is not positive are left out.
    """
    drawn = [(label, float(x), float(y)) for label, x, y in points if drawable(x) and drawable(y) and x > 0]
    left, right, top, bottom = 60.0, WIDTH - 20, 12.0, 332.0
    powers = [math.log10(x) for _, x, _ in drawn]
    low = math.floor(min(powers, default=0.0))
    high = max(low + 1, math.ceil(max(powers, default=1.0)))
    scale = _linear_scale(low, high, left, right)
    y_scale, body = _y_axis([y for *_, y in drawn], ylabel, (left, right, top, bottom))
    for power in range(low, high + 1):
        x = scale(power)
        body += svg_line(x, top, x, bottom, "rule") + svg_text(x, bottom + 17, f"{10.0**power:g}", "middle", "soft")
    body += svg_text((left + right) / 2, bottom + 37, xlabel, "middle")
    best = {label for label, x, y in drawn if not any(u <= x and v >= y and (u, v) != (x, y) for _, u, v in drawn)}
    places = [(scale(power), y_scale(y)) for power, (*_, y) in zip(powers, drawn, strict=True)]
    for (label, cost, value), (x, y) in zip(drawn, places, strict=True):
        hint = tip(f"{label}: {xlabel} {cost:.4g}, {ylabel} {_fixed(value)}")
        body += diamond(x, y, 6.5, "f1", hint) if label in best else disc(x, y, 4.5, "f0", hint)
    names = _names_beside(places, [clip(label, 190) for label, *_ in drawn], (left, WIDTH, 0.0, bottom))
    described = "; ".join(f"{label}: {cost:.4g}, {_fixed(value)}" for label, cost, value in drawn)
    return svg_document(bottom + 46, title or f"{ylabel} against {xlabel}", described, body + names)


def timeline(points: Sequence[tuple[str, datetime, float]], ylabel: str, title: str = "") -> str:
    """Draws (label, time, value) by time, with a line for the best value so far; a diamond is a new best."""
    drawn = sorted((time, -float(y), label) for label, time, y in points if drawable(y))
    left, right, top, bottom = 60.0, WIDTH - 20, 12.0, 272.0
    first, last = (drawn[0][0], drawn[-1][0]) if drawn else (_EPOCH, _EPOCH)
    scale = _linear_scale(0.0, max((last - first).total_seconds(), 1.0), left + 10, right - 10)
    y_scale, body = _y_axis([-y for _, y, _ in drawn], ylabel, (left, right, top, bottom))
    for part, anchor in ((0.0, ""), (0.5, "middle"), (1.0, "end")):
        shown = (last - first) * part
        text = f"{first + shown:%Y-%m-%d}"
        body += svg_text(scale(shown.total_seconds()), bottom + 17, text, anchor, "soft")
    body += svg_text((left + right) / 2, bottom + 37, "time of submission", "middle")
    best, steps, dots = -math.inf, [], ""
    for time, below, label in drawn:
        x, y = scale((time - first).total_seconds()), y_scale(-below)
        hint = tip(f"{label}: {ylabel} {_fixed(-below)}, {time:%Y-%m-%d %H:%M}")
        dots += diamond(x, y, 6.5, "f1", hint) if -below > best else disc(x, y, 4.0, "f0", hint)
        if -below > best:
            steps.append((x, y))
            best = -below
    if steps:
        path = f"M{num(steps[0][0])} {num(steps[0][1])}" + "".join(f"H{num(x)}V{num(y)}" for x, y in steps[1:])
        body += element("path", d=f"{path}H{num(right)}", class_="s1", fill="none")
    described = "; ".join(f"{label}: {time:%Y-%m-%d}, {_fixed(-below)}" for time, below, label in drawn)
    return svg_document(bottom + 46, title or f"{ylabel} by time of submission", described, body + dots)

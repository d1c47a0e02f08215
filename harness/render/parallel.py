"""Draws parallel coordinates, in the style of `harness.render.figures`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.errors import HarnessError
from harness.render.svg import LINE, WIDTH, clip, diamond, element, svg_document, svg_line, svg_text, tip

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

"""Draws a heat map, in the style of `harness.render.figures`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from harness.errors import HarnessError
from harness.render.svg import FONT, WIDTH, clip, element, num, svg_document, svg_text, text_width

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
    ends = [_number(value, decimals) for value in (low, high)]
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
                body += svg_text(x + wide / 2, y + tall / 2 + 4.5, _number(value, decimals), "middle", on)
    fills = [{"class_": "paper rule"}, *({"class_": f"l{level} rule"} for level in range(1, _LEVELS))]
    under = "".join(element("path", d=path, **fill) for path, fill in zip(paths, fills, strict=True) if path)
    bottom, x = top + tall * len(rows) + 14, left
    for level, fill in enumerate(fills):
        body += element("rect", x=x, y=bottom, width=16.0, height=14.0, **fill)
        body += svg_text(x + 22, bottom + 12, f"from {_number(low + step * level, decimals)}", "", "soft")
        x += 100
    summary = f"from {ends[0]} to {ends[1]}, {len(rows)} rows and {len(columns)} columns" if known else "no value"
    return svg_document(bottom + 24, title, summary, under + body)


def _within(bounds: tuple[float, float], texts: Sequence[str]) -> float:
    """Returns the width that texts need, within bounds."""
    return min(max(bounds[0], *(text_width(text) + 10 for text in texts)), bounds[1])


def _number(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}".replace("-", "−")

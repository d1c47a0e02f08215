"""Draws a heat map, in the style of `harness.render.figures`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.errors import HarnessError
from harness.render.svg import WIDTH, clip, element, num, svg_document, svg_text

_LEVELS = 4  # number of shades, from background to dark
_LABEL = 70.0


def heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], title: str, decimals: int = 2
) -> str:
    """Draws a matrix of values in shades of equal width between minimum and maximum; non-finite values stay blank.

    Parameters
    ----------
    values : `values[i][j]` belongs to `rows[i]` and `columns[j]`.
    decimals : of the numbers in texts.

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
    wide = min(40.0, (WIDTH - _LABEL - 10) / len(columns))
    tall, top = min(max(wide, 14.0), 24.0), 30.0
    paths = [""] * _LEVELS
    body = ""
    for i, row in enumerate(rows):
        y = top + tall * i
        body += svg_text(_LABEL - 8, y + tall / 2 + 4.5, clip(row, _LABEL - 10), "end", "soft")
        for j, value in enumerate(values[i]):
            if math.isfinite(value):
                level = min(int((value - low) / step), _LEVELS - 1)
                x = _LABEL + wide * j
                paths[level] += f"M{num(x)} {num(y)}h{num(wide)}v{num(tall)}h{num(-wide)}z"
    for j, column in enumerate(columns):
        if wide >= 22:
            body += svg_text(_LABEL + wide * (j + 0.5), top - 9, clip(column, wide), "middle", "soft")
    fills = [{"class_": "paper rule"}, *({"class_": f"l{level} rule"} for level in range(1, _LEVELS))]
    under = "".join(element("path", d=path, **fill) for path, fill in zip(paths, fills, strict=True) if path)
    bottom, x = top + tall * len(rows) + 14, _LABEL
    for level, fill in enumerate(fills):
        body += element("rect", x=x, y=bottom, width=16.0, height=14.0, **fill)
        body += svg_text(x + 22, bottom + 12, f"from {low + step * level:.{decimals}f}", "", "soft")
        x += 100
    summary = (
        f"from {low:.{decimals}f} to {high:.{decimals}f}, {len(rows)} rows and {len(columns)} columns"
        if known
        else "no value"
    )
    return svg_document(bottom + 24, title, summary, under + body)

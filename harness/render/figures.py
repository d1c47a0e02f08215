"""Figures of a report: functions from plain values to SVG drawings.

A drawing is valid XML by itself, scales with its `viewBox`, follows light and dark mode, and is readable in greyscale:
series differ in marker, hatching or lightness besides colour. Non-finite values are not drawn but listed as `n/a`.
Labels are plain text; `svg.py` escapes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from harness.errors import HarnessError
from harness.render.svg import (
    FONT,
    LINE,
    SERIES,
    WIDTH,
    clip,
    diamond,
    disc,
    drawable,
    element,
    lines_of_text,
    num,
    shorten,
    square,
    svg_document,
    svg_line,
    svg_text,
    text_width,
    tick_label,
    ticks,
    tip,
    widest_word,
    wrap,
)

Scale = Callable[[float], float]
Area = tuple[float, float, float, float]  # left, right, top, bottom
_ROW = 25.0
_LOW_ROW, _MANY = 17.0, 40  # rows of a figure with more than so many
MOST_ROWS = 100  # that fit on a page


def dot_interval(
    rows: Sequence[tuple[str, float, float, float, bool]], xlabel: str, title: str = "", *, zero: bool = True,
    decimals: int = 3, margin: float | None = None,
) -> str:  # fmt: skip
    """Draws values with their intervals, one row each: (label, value, low, high, highlighted).

    A highlighted row has a diamond and bold text, any other a disc.

    Parameters
    ----------
    zero : whether the axis includes zero, marked by a line; decimals : of the numbers in texts; margin : drawn as two
        lines, at its negative and at itself.
    """
    shown = [value for _, *numbers, _ in rows for value in numbers if drawable(value)]
    shown = [0.0, *shown] if shown and zero else shown
    bounds = [] if margin is None else [-margin, margin]
    shown += bounds
    row_height = _ROW if len(rows) <= _MANY else _LOW_ROW
    left, names, heights = _row_labels([row[0] for row in rows], row_height, any(row[4] for row in rows))
    right, bottom = WIDTH - 190, 14 + sum(heights)
    scale, body = _x_axis(shown, xlabel, (left, right, 10, bottom))
    body += svg_line(scale(0.0), 10, scale(0.0), bottom, "zero") if shown and zero else ""
    body += "".join(svg_line(scale(bound), 10, scale(bound), bottom, "margin") for bound in bounds)
    for index, (label, mean, low, high, highlighted) in enumerate(rows):
        y, strong, series = _row_middle(heights, index), "big" if highlighted else "", 1 if highlighted else 0
        body += lines_of_text(left - 12, y, names[index], "end", strong)
        ends = [end for end in (low, high) if drawable(end)]
        if len(ends) == 2:
            body += svg_line(scale(low), y, scale(high), y, f"s{series}")
            body += "".join(svg_line(scale(end), y - 4, scale(end), y + 4, f"s{series}") for end in ends)
        if drawable(mean):
            hint = tip(f"{label}: {_mean_text(mean, low, high, decimals)}")
            body += diamond(scale(mean), y, 6.5, "f1", hint) if highlighted else disc(scale(mean), y, 4.5, "f0", hint)
        body += svg_text(WIDTH - 6, y + 4.5, _mean_text(mean, low, high, decimals), "end", strong or "soft")
    description = "; ".join(f"{row[0]}: {_mean_text(row[1], row[2], row[3], decimals)}" for row in rows)
    return svg_document(bottom + 46, title or xlabel, description, body)


def distribution(rows: Sequence[tuple[str, Sequence[float]]], xlabel: str = "", title: str = "") -> str:
    """Draws distributions, one row each: box over the quartiles, median, mean, range, and every value."""
    clean = [(label, sorted(float(v) for v in values if drawable(v)), len(values)) for label, values in rows]
    left, names, heights = _row_labels([label for label, _ in rows], 38.0)
    right, bottom = WIDTH - 118, 14 + sum(heights)
    scale, body = _x_axis([value for _, values, _ in clean for value in values], xlabel, (left, right, 10, bottom))
    body += svg_text(WIDTH - 6, bottom + 37, "median / mean", "end", "soft")
    spoken = []
    for index, (label, values, total) in enumerate(clean):
        y = _row_middle(heights, index)
        body += lines_of_text(left - 12, y, names[index], "end")
        if not values:
            body += svg_text(left + 8, y + 4.5, "n/a", "", "soft")
            spoken.append(f"{label}: n/a")
            continue
        low, middle, high = (_quantile(values, q) for q in (0.25, 0.5, 0.75))
        mean = math.fsum(values) / len(values)
        # The golden ratio separates neighbours deterministically.
        for order, value in enumerate(values):
            body += disc(scale(value), y + 22 * ((order * 0.618034) % 1 - 0.5), 2.1, "f5 dot")
        body += svg_line(scale(values[0]), y, scale(low), y, "s0") + svg_line(
            scale(high), y, scale(values[-1]), y, "s0"
        )
        summary = f"n {len(values)}, quartiles {_fixed(low)}, {_fixed(middle)}, {_fixed(high)}, mean {_fixed(mean)}"
        summary += f", n/a {total - len(values)}" if total > len(values) else ""
        width = scale(high) - scale(low)
        body += element(
            "rect", tip(f"{label}: {summary}"), x=scale(low), y=y - 9, width=width, height=18.0, class_="box"
        )
        body += svg_line(scale(middle), y - 9, scale(middle), y + 9, "zero") + diamond(scale(mean), y, 5.5, "f1")
        body += svg_text(WIDTH - 6, y + 4.5, f"{_fixed(middle)} / {_fixed(mean)}", "end", "soft")
        spoken.append(f"{label}: {summary}")
    legend = "box: quartiles; line: median; diamond: mean; dots: single values"
    body += svg_text(6, bottom + 60, legend, "", "soft")
    return svg_document(bottom + 72, title or xlabel or "Distribution", "; ".join(spoken), body)


def grouped_bars(
    groups: Sequence[str], series: Sequence[str], values: Sequence[Sequence[float]], ylabel: str, title: str = ""
) -> str:
    """Draws bars side by side; `values[g][s]` is the bar of series `s` in group `g`. Series differ in hatching.

    Raises
    ------
    HarnessError
        There are more than six series (hatchings would be indistinguishable), or values have another shape.
    """
    if len(series) > SERIES:
        raise HarnessError(f"figure {title or ylabel!r}: {len(series)} series, at most {SERIES} can be distinguished")
    if len(values) != len(groups) or any(len(row) != len(series) for row in values):
        raise HarnessError(f"figure {title or ylabel!r}: expected {len(groups)} rows of {len(series)} values")
    left, right = 56.0, WIDTH - 10
    body, top = _legend(series, left, right, hatched=True)
    bottom = top + 240
    finite = [value for row in values for value in row if drawable(value)]
    scale, axis = _y_axis([0.0, *finite], ylabel, (left, right, top, bottom))
    body += axis
    pitch = (right - left) / max(1, len(groups))
    step = min(pitch * 0.84 / max(1, len(series)), 56.0)
    names = shorten(groups, 200)
    upright = widest_word(names) > pitch - 4  # labels that do not fit below their bars read upwards
    room = (
        max(map(text_width, names), default=0.0)
        if upright
        else LINE * max((len(wrap(name, pitch - 4)) for name in names), default=1)
    )
    for g, group in enumerate(groups):
        start = left + pitch * (g + 0.5) - step * len(series) / 2
        for s, name in enumerate(series):
            value, x = values[g][s], start + step * s
            if not drawable(value):
                body += _upright("n/a", x + step / 2, scale(0.0) - 6)
                continue
            high, low = sorted((scale(value), scale(0.0)))
            hint = tip(f"{group}, {name}: {_fixed(value)}")
            place = {"x": x + step * 0.06, "y": high, "width": step * 0.88, "height": low - high}
            body += element("rect", hint, **place, **_fill(s))
            if step >= 36:
                body += svg_text(x + step / 2, high - 4, _fixed(value), "middle", "soft")
        middle = left + pitch * (g + 0.5)
        if upright:
            body += _upright(names[g], middle + 4.5, bottom + 8, "end")
        else:
            for index, part in enumerate(wrap(names[g], pitch - 4)):
                body += svg_text(middle, bottom + 20 + LINE * index, part, "middle")
    body += svg_line(left, scale(0.0), right, scale(0.0), "zero")
    description = "; ".join(
        f"{group}: " + ", ".join(f"{name} {_fixed(row[s])}" for s, name in enumerate(series))
        for group, row in zip(groups, values, strict=True)
    )
    return svg_document(bottom + 16 + room, title or ylabel, description, body, hatched=True)


def p_value_matrix(names: Sequence[str], p: Sequence[Sequence[float]], title: str = "") -> str:
    """Draws pairwise p values, darker for smaller; `p[i][j]` compares `names[i]` with `names[j]`. Columns are numbered.

    Raises
    ------
    HarnessError
        `p` is not square over the names.
    """
    n, title = len(names), title or "Pairwise p values"
    if len(p) != n or any(len(row) != n for row in p):
        raise HarnessError(f"figure {title!r}: expected {n} rows of {n} p values")
    left, top = _left(names, 230) + 24, 28.0
    labels = [wrap(name, left - 40, most=3) for name in shorten(names, left - 40)]
    size = min(58.0, (WIDTH - left - 10) / max(1, n))
    high = max(min(max(size, 15.0), 30.0), LINE * max(map(len, labels), default=1))
    body, shades, low = "", {-1: "", 0: "", 1: "", 2: "", 3: ""}, []
    for i, name in enumerate(names):
        y = top + high * i
        body += lines_of_text(left - 36, y + high / 2, labels[i], "end")
        body += svg_text(left - 10, y + high / 2 + 4.5, str(i + 1), "end", "soft")
        if n <= 30 or i % 5 == 4:
            body += svg_text(left + size * (i + 0.5), top - 9, str(i + 1), "middle", "soft")
        for j, other in enumerate(names):
            x = left + size * j
            level, shown = _level(p[i][j]) if i != j else (0, "–")
            if i != j:
                shades[level] += f"M{num(x + 1)} {num(y + 1)}h{num(size - 2)}v{num(high - 2)}h{num(2 - size)}z"
            if size >= 36 or i == j:
                faint = "soft" if i == j or level < 0 else ""
                body += svg_text(x + size / 2, y + high / 2 + 4.5, shown, "middle", "on" if level == 3 else faint)
            if level > 0 and i < j:
                low.append(f"{name} and {other}: {shown}")
    fills = {level: {"class_": f"l{level} rule"} for level in (1, 2, 3)} | {0: {"class_": "paper rule"}}
    # Cells too small for the text n/a are hatched.
    fills[-1] = fills[0] if size >= 36 else {"class_": "rule", "fill": "url(#@5)"}
    under = "".join(element("path", d=d, **fills[level]) for level, d in shades.items() if d)
    bottom, x = top + high * n + 14, min(left, WIDTH - 10 - 5 * 96)
    for level, label in ((3, "p < .001"), (2, "p < .01"), (1, "p < .05"), (0, "p ≥ .05"), (-1, "n/a")):
        if level >= 0 or (shades[-1] and size < 36):
            body += element("rect", x=x, y=bottom, width=16.0, height=14.0, **fills[level])
            body += svg_text(x + 22, bottom + 12, label, "", "soft")
            x += 96
    return svg_document(bottom + 24, title, _first_texts(low, 20) or "no p value below .05", under + body, hatched=True)


def scatter(points: Sequence[tuple[str, float, float]], xlabel: str, ylabel: str, title: str = "") -> str:
    """Draws named points (label, x, y); labels that would overlap appear only in tooltips and the description."""
    drawn = [(label, float(x), float(y)) for label, x, y in points if drawable(x) and drawable(y)]
    missing = [label for label, x, y in points if not (drawable(x) and drawable(y))]
    left, right = _left_of_axis([y for _, _, y in drawn]), _right_of_axis([x for _, x, _ in drawn])
    top, bottom = 14.0, 366.0
    y_scale, body = _y_axis([y for _, _, y in drawn], ylabel, (left, right, top, bottom))
    x_scale, axis = _x_axis([x for _, x, _ in drawn], xlabel, (left, right, top, bottom))
    body += axis
    places = [(x_scale(x), y_scale(y)) for _, x, y in drawn]
    labels = [clip(label, 400) for label in shorten([label for label, _, _ in drawn], 170)]
    for (label, x_value, y_value), (x, y) in zip(drawn, places, strict=True):
        body += disc(x, y, 5, "f0", tip(f"{label}: {xlabel} {x_value:.4g}, {ylabel} {y_value:.4g}"))
    names = _names_beside(places, labels, (left, right, 0.0, bottom))
    if missing:
        names += svg_text(left, bottom + 58, clip(f"n/a: {', '.join(missing)}", right - left), "", "soft")
    description = "; ".join(f"{label}: {x:.4g}, {y:.4g}" for label, x, y in drawn)
    return svg_document(
        bottom + (70 if missing else 46), title or f"{ylabel} against {xlabel}", description, body + names
    )


def curves(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]], xlabel: str, ylabel: str, title: str = "",
    *, unjoined: Sequence[str] = (),
) -> str:  # fmt: skip
    """Draws one line through the points (x, y) of each series; series also differ in marker.

    A single series has no legend. If all x are whole numbers, so are the ticks.

    Parameters
    ----------
    unjoined : names of series without a line.

    Raises
    ------
    HarnessError
        More than six series (markers could not be distinguished).
    """
    if len(series) > SERIES:
        raise HarnessError(f"figure {title or ylabel!r}: {len(series)} series, at most {SERIES} can be distinguished")
    drawn = [(name, sorted(p for p in points if drawable(p[0]) and drawable(p[1]))) for name, points in series]
    missing = sum(len(points) for _, points in series) - sum(len(points) for _, points in drawn)
    xs = [x for _, points in drawn for x, _ in points]
    whole = bool(xs) and all(float(x).is_integer() for x in xs)
    left, right = _left_of_axis([y for _, points in drawn for _, y in points]), _right_of_axis(xs, whole)
    legend, top = _legend([name for name, _ in drawn] if len(drawn) > 1 else (), left, right)
    bottom = top + 350
    y_scale, body = _y_axis([y for _, points in drawn for _, y in points], ylabel, (left, right, top, bottom))
    x_scale, axis = _x_axis(xs, xlabel, (left, right, top, bottom), whole)
    body += legend + axis
    for index, (name, points) in enumerate(drawn):
        at_all = [f"{x_scale(x):.2f} {y_scale(y):.2f}" for x, y in points]
        joined = len(points) > 1 and name not in unjoined
        body += element("path", d=f"M{'L'.join(at_all)}", class_=f"s{index}", fill="none") if joined else ""
        for x, y in points if len(points) <= 60 or not joined else ():
            hint = tip(f"{name + ': ' if name else ''}{xlabel} {x:.4g}, {ylabel} {y:.4g}")
            body += _marker(index, x_scale(x), y_scale(y), hint)
    description = "; ".join(
        f"{name or ylabel}: " + _first_texts([f"{x:.4g} {_fixed(y)}" for x, y in points], 20) for name, points in drawn
    )
    body += svg_text(right, bottom + 37, f"n/a: {missing}", "end", "soft") if missing else ""
    return svg_document(bottom + 46, title or f"{ylabel} against {xlabel}", description, body)


def stars(points: Sequence[tuple[str, str, str, float, float]], title: str) -> str:
    """Draws points (label, group, kind, x, y) without axes, each joined to the centre of its group.

    Kinds differ in marker; the name of a group is at its centre.

    Raises
    ------
    HarnessError
        More than six kinds (markers could not be distinguished).
    """
    kinds = list(dict.fromkeys(kind for _, _, kind, *_ in points))
    if len(kinds) > SERIES:
        raise HarnessError(f"figure {title!r}: {len(kinds)} kinds, at most {SERIES} can be distinguished")
    drawn = [point for point in points if drawable(point[3]) and drawable(point[4])]
    legend, top = _legend(kinds, 14.0, WIDTH - 14)
    bottom = top + 470
    xs, ys = ([float(point[at]) for point in drawn] or [0.0] for at in (3, 4))
    x_scale, y_scale = (
        _linear_scale(min(of), max(of) if max(of) > min(of) else min(of) + max(1.0, abs(min(of))), *area)
        for of, area in ((xs, (26, WIDTH - 26)), (ys, (bottom - 16, top + 16)))
    )
    places: dict[str, list[tuple[float, float]]] = {}
    for _, group, _, x, y in drawn:
        places.setdefault(group, []).append((x_scale(x), y_scale(y)))
    middle = {
        name: (math.fsum(x for x, _ in at) / len(at), math.fsum(y for _, y in at) / len(at))
        for name, at in places.items()
    }
    lines = marks = ""
    for label, group, kind, x_value, y_value in drawn:
        x, y = x_scale(x_value), y_scale(y_value)
        lines += svg_line(x, y, *middle[group], "axis")
        marks += _marker(kinds.index(kind), x, y, tip(f"{label}: {kind}, group {group}"))
    names = "".join(svg_text(x, y + 4.5, clip(name, 90), "middle", "big halo") for name, (x, y) in middle.items())
    spoken = [f"{name}: {len(at)} points" for name, at in places.items()]
    missing = f"n/a: {len(points) - len(drawn)}" if len(drawn) < len(points) else ""
    names += svg_text(WIDTH - 14, bottom + 4, missing, "end", "soft") if missing else ""
    return svg_document(bottom + 10, title, _first_texts(spoken, 40), legend + lines + marks + names)


def _marker(series: int, x: float, y: float, hint: str = "") -> str:
    """Draws the marker of a series: disc, diamond, square, then the same hollow."""
    shape = (disc, diamond, square)[series % 3](x, y, (4.5, 6.0, 4.2)[series % 3], f"f{series}", hint)
    return shape if series < 3 else shape.replace(f'class="f{series}"', f'class="paper s{series}"', 1)


def _fixed(value: float, decimals: int = 3) -> str:
    """Returns a number with a fixed number of decimals and a true minus sign."""
    return f"{value:.{decimals}f}".replace("-", "−") if drawable(value) else "n/a"


def _mean_text(mean: float, low: float, high: float, decimals: int) -> str:
    ends = f" [{_fixed(low, decimals)}, {_fixed(high, decimals)}]" if drawable(low) or drawable(high) else ""
    return f"{_fixed(mean, decimals)}{ends}"


def _first_texts(parts: Sequence[str], most: int) -> str:
    rest = len(parts) - most
    return "; ".join(parts[:most]) + (f"; and {rest} more" if rest > 0 else "")


def _left(labels: Sequence[str], most: float = 250, strong: bool = False) -> float:
    """Returns the width needed for the labels at the left."""
    return min(most, max((text_width(label, strong) for label in labels), default=0)) + 26


def _left_of_axis(values: Sequence[float]) -> float:
    """Returns the width needed for the numbers and the label of a vertical axis."""
    marks = ticks(min(values, default=0.0), max(values, default=1.0))
    return max(text_width(tick_label(mark, marks)) for mark in marks) + 31


def _right_of_axis(values: Sequence[float], whole: bool = False) -> float:
    """Returns the end of a horizontal axis, so that its last number fits within the drawing."""
    marks = _fitting(values, WIDTH, whole)
    return WIDTH - max(14.0, text_width(tick_label(marks[-1], marks)) / 2 + 2)


def _fitting(values: Sequence[float], width: float, whole: bool) -> Sequence[float]:
    """Returns the ticks of a horizontal axis; fewer if their numbers would touch."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    for count in (5, 4, 3, 2):
        marks = ticks(low, high, count, whole=whole)
        if (len(marks) - 1) * (max(text_width(tick_label(mark, marks)) for mark in marks) + 6) <= width:
            break
    return marks


def _linear_scale(low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _x_axis(values: Sequence[float], label: str, area: Area, whole: bool = False) -> tuple[Scale, str]:
    """Returns the horizontal scale that covers the values, and its grid, numbers and label as markup."""
    left, right, top, bottom = area
    marks = _fitting(values, right - left, whole)
    scale = _linear_scale(marks[0], marks[-1], left, right)
    body = "".join(
        svg_line(scale(mark), top, scale(mark), bottom, "rule")
        + svg_text(scale(mark), bottom + 17, tick_label(mark, marks), "middle", "soft")
        for mark in marks
    )
    body += svg_line(left, bottom, right, bottom, "axis") + svg_text((left + right) / 2, bottom + 37, label, "middle")
    return scale, body if values else body + svg_text(left + 8, (top + bottom) / 2, "n/a", "", "soft")


def _y_axis(values: Sequence[float], label: str, area: Area) -> tuple[Scale, str]:
    """Returns the vertical scale that covers the values, and its grid, numbers and label as markup."""
    left, right, top, bottom = area
    marks = ticks(min(values, default=0.0), max(values, default=1.0))
    scale = _linear_scale(marks[0], marks[-1], bottom, top)
    body = "".join(
        svg_line(left, scale(mark), right, scale(mark), "rule")
        + svg_text(left - 7, scale(mark) + 4.5, tick_label(mark, marks), "end", "soft")
        for mark in marks
    )
    return scale, body + _upright(label, 13, (top + bottom) / 2, "middle")


def _upright(content: str, x: float, y: float, anchor: str = "") -> str:
    """Draws text that reads from bottom to top."""
    return svg_text(x, y, content, anchor, "soft" if content == "n/a" else "", transform=f"rotate(-90 {x:.2f} {y:.2f})")


def _fill(series: int) -> dict[str, str]:
    """Returns the fill of a series: solid for the first, hatched for the others."""
    return {"class_": "f0"} if series == 0 else {"class_": f"s{series}", "fill": f"url(#@{series})"}


def _legend(names: Sequence[str], left: float, right: float, hatched: bool = False) -> tuple[str, float]:
    """Draws a legend of markers, or of hatched fills, and names; returns it and the y coordinate below it."""
    legend, x, y = "", left, 8.0
    for index, name in enumerate(names):
        shown = wrap(name, right - left - 22)
        width = max(map(text_width, shown))
        if x > left and x + 22 + width > right:
            x, y = left, y + 22
        sign = element("rect", x=x, y=y, width=16.0, height=13.0, **_fill(index)) if hatched else ""
        legend += sign or _marker(index, x + 8, y + 6.5)
        legend += "".join(svg_text(x + 22, y + 11 + LINE * at, part) for at, part in enumerate(shown))
        x, y = x + 42 + width if len(shown) == 1 else right, y + LINE * (len(shown) - 1)
    return legend, y + 36 if names else 14.0


def _row_labels(labels: Sequence[str], row: float, strong: bool = False) -> tuple[float, list[list[str]], list[float]]:
    """Returns the width of the labels, the lines of each row's label, and the heights of the rows."""
    left = _left(labels, strong=strong)
    lines = [wrap(label, left - 16, strong) for label in shorten(labels, left - 16, strong)]
    return left, lines, [max(row, LINE * len(of) + 6) if len(of) > 1 else row for of in lines]


def _row_middle(heights: Sequence[float], index: int) -> float:
    return 10 + sum(heights[:index]) + heights[index] / 2


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Computes a quantile by linear interpolation between the two nearest values of a sorted sequence."""
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _level(p: float) -> tuple[int, str]:
    """Returns the shade of a p value (0 to 3; -1 if undefined) and its text."""
    if not drawable(p):
        return -1, "n/a"
    level = sum(p < bound for bound in (0.05, 0.01, 0.001))
    return level, "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def _names_beside(places: Sequence[tuple[float, float]], labels: Sequence[str], area: Area) -> str:
    """Draws the label of each point on a side where it fits and covers nothing; none where there is no such side."""
    left, right, top, bottom = area
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in places]
    names = ""
    for (x, y), label in zip(places, labels, strict=True):
        width = text_width(label)
        sides = ((x + 9, y + 4.5), (x - 9 - width, y + 4.5), (x - width / 2, y - 10), (x - width / 2, y + 20))
        for start, base in sides:
            box = (start, base - FONT + 2, start + width, base + 3)
            inside = box[0] >= left and box[2] <= right and box[1] >= top and box[3] <= bottom
            if inside and not any(_overlap(box, other) for other in taken):
                names += svg_text(start, base, label, "", "halo")
                taken.append(box)
                break
    return names


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]

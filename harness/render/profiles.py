"""Figures of a site: a run's values among the quartiles of all runs, and effectiveness against cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from harness.render.svg import (
    FONT,
    WIDTH,
    clip,
    drawable,
    element,
    num,
    svg_document,
    svg_line,
    svg_text,
    text_width,
    tick_label,
    ticks,
    tip,
)

_HEIGHT = 260.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def profile(rows: Sequence[tuple[str, float, float, float, float]], label: str, run: str, title: str = "") -> str:
    """Draws one column per topic: the band from lower to upper quartile, the median, and the run's value as a diamond.

    Rows (topic, value, lower quartile, median, upper quartile) are drawn in the given order; a value that is not finite
    is not drawn. A thin line joins the value and the median.
    """
    drawn = [number for _, *numbers in rows for number in numbers if drawable(number)]
    marks = ticks(min([0.0, *drawn]), max([1e-9, *drawn]))
    left, right, top, bottom = 56.0, WIDTH - 8, 34.0, 34.0 + _HEIGHT

    def y(value: float) -> float:
        return bottom - (value - marks[0]) / (marks[-1] - marks[0]) * _HEIGHT

    body = "".join(
        svg_line(left, y(mark), right, y(mark), "rule")
        + svg_text(left - 7, y(mark) + 4.5, tick_label(mark, marks), "end", "soft")
        for mark in marks
    )
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
            body += svg_line(centre, y(value), centre, y(middle), "s1")
            outline = f"M{num(centre - size)} {num(y(value))}l{num(size)} {num(-size)} {num(size)} {num(size)} "
            outline += f"{num(-size)} {num(size)}z"
            body += element("path", hint, d=outline, class_="f1")
    body += svg_line(left, bottom, right, bottom, "axis")
    counts = f"above the median on {above} topics, below on {below}"
    body += element("path", d=f"M{num(left)} 13l5 -5 5 5 -5 5z", class_="f1") + svg_text(
        left + 16, 17.5, clip(run, 300)
    )
    start = left + 40 + text_width(clip(run, 300))
    body += element("rect", x=start, y=8.0, width=16.0, height=10.0, class_="l1")
    body += svg_line(start, 13.0, start + 16, 13.0, "s0") + svg_text(
        start + 22, 17.5, "quartiles and median of the ranked runs"
    )
    body += svg_text((left + right) / 2, bottom + 20, f"topics, by median: {counts}", "middle", "soft")
    body += svg_text(13, (top + bottom) / 2, label, "middle", transform=f"rotate(-90 13 {(top + bottom) / 2:.2f})")
    return svg_document(bottom + 30, title or f"{label} of {run} by topic", counts, body)


def frontier(points: Sequence[tuple[str, float, float]], xlabel: str, ylabel: str, title: str = "") -> str:
    """Draws (label, cost, value) with costs on a logarithmic axis; diamonds: no other run is cheaper and better.

    Points whose cost is not positive are left out.
    """
    drawn = [(label, float(x), float(y)) for label, x, y in points if drawable(x) and drawable(y) and x > 0]
    left, right, top, bottom = 60.0, WIDTH - 20, 12.0, 332.0
    low = math.floor(min((math.log10(x) for _, x, _ in drawn), default=0.0))
    high = max(low + 1, math.ceil(max((math.log10(x) for _, x, _ in drawn), default=1.0)))
    marks = ticks(min((y for *_, y in drawn), default=0.0), max((y for *_, y in drawn), default=1.0))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low) / (high - low)
        up = (y - marks[0]) / (marks[-1] - marks[0])
        return left + across * (right - left), bottom - up * (bottom - top)

    body = ""
    for power in range(low, high + 1):
        x, _ = at(10.0**power, marks[0])
        body += svg_line(x, top, x, bottom, "rule") + svg_text(x, bottom + 17, f"{10.0**power:g}", "middle", "soft")
    for mark in marks:
        _, y = at(1.0, mark)
        body += svg_line(left, y, right, y, "rule") + svg_text(
            left - 7, y + 4.5, tick_label(mark, marks), "end", "soft"
        )
    body += svg_text((left + right) / 2, bottom + 37, xlabel, "middle")
    body += svg_text(13, (top + bottom) / 2, ylabel, "middle", transform=f"rotate(-90 13 {(top + bottom) / 2:.2f})")
    best = {label for label, x, y in drawn if not any(u <= x and v >= y and (u, v) != (x, y) for _, u, v in drawn)}
    places = [at(x, y) for _, x, y in drawn]
    taken = [(x - 7, y - 7, x + 7, y + 7) for x, y in places]
    names = ""
    for (label, cost, value), (x, y) in zip(drawn, places, strict=True):
        hint = tip(f"{label}: {xlabel} {cost:.4g}, {ylabel} {_fixed(value)}")
        if label in best:
            outline = f"M{num(x - 6.5)} {num(y)}l6.5 -6.5 6.5 6.5 -6.5 6.5z"
            body += element("path", hint, d=outline, class_="f1")
        else:
            body += element("circle", hint, cx=x, cy=y, r=4.5, class_="f0")
        shown = clip(label, 190)
        width = text_width(shown)
        for start, base in (
            (x + 10, y + 4.5),
            (x - 10 - width, y + 4.5),
            (x - width / 2, y - 11),
            (x - width / 2, y + 21),
        ):
            box = (start, base - FONT + 2, start + width, base + 3)
            free = not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)
            if box[0] >= left and box[2] <= WIDTH and box[1] >= 0 and box[3] <= bottom and free:
                names += svg_text(start, base, shown, "", "halo")
                taken.append(box)
                break
    described = "; ".join(f"{label}: {cost:.4g}, {_fixed(value)}" for label, cost, value in drawn)
    return svg_document(bottom + 46, title or f"{ylabel} against {xlabel}", described, body + names)


def timeline(points: Sequence[tuple[str, datetime, float]], ylabel: str, title: str = "") -> str:
    """Draws (label, time, value) by time, with a line for the best value so far; a diamond is a new best."""
    drawn = sorted((time, -float(y), label) for label, time, y in points if drawable(y))
    left, right, top, bottom = 60.0, WIDTH - 20, 12.0, 272.0
    first, last = (drawn[0][0], drawn[-1][0]) if drawn else (_EPOCH, _EPOCH)
    span = max((last - first).total_seconds(), 1.0)
    marks = ticks(min((-y for _, y, _ in drawn), default=0.0), max((-y for _, y, _ in drawn), default=1.0))

    def at(time: datetime, y: float) -> tuple[float, float]:
        across = (time - first).total_seconds() / span
        return left + 10 + across * (right - left - 20), bottom - (y - marks[0]) / (marks[-1] - marks[0]) * (
            bottom - top
        )

    body = ""
    for mark in marks:
        _, y = at(first, mark)
        body += svg_line(left, y, right, y, "rule") + svg_text(
            left - 7, y + 4.5, tick_label(mark, marks), "end", "soft"
        )
    for part, anchor in ((0.0, ""), (0.5, "middle"), (1.0, "end")):
        time = first + (last - first) * part
        x, _ = at(time, marks[0])
        body += svg_text(x, bottom + 17, time.strftime("%Y-%m-%d"), anchor, "soft")
    body += svg_text((left + right) / 2, bottom + 37, "time of submission", "middle")
    body += svg_text(13, (top + bottom) / 2, ylabel, "middle", transform=f"rotate(-90 13 {(top + bottom) / 2:.2f})")
    best, steps, dots = -math.inf, [], ""
    for time, below, label in drawn:
        x, y = at(time, -below)
        hint = tip(f"{label}: {ylabel} {_fixed(-below)}, {time.strftime('%Y-%m-%d %H:%M')}")
        if -below > best:
            steps.append((x, y))
            best = -below
            outline = f"M{num(x - 6.5)} {num(y)}l6.5 -6.5 6.5 6.5 -6.5 6.5z"
            dots += element("path", hint, d=outline, class_="f1")
        else:
            dots += element("circle", hint, cx=x, cy=y, r=4.0, class_="f0")
    if steps:
        path = f"M{num(steps[0][0])} {num(steps[0][1])}" + "".join(f"H{num(x)}V{num(y)}" for x, y in steps[1:])
        body += element("path", d=f"{path}H{num(right)}", class_="s1", fill="none")
    described = "; ".join(f"{label}: {time.strftime('%Y-%m-%d')}, {_fixed(-below)}" for time, below, label in drawn)
    return svg_document(bottom + 46, title or f"{ylabel} by time of submission", described, body + dots)


def _fixed(value: float) -> str:
    """Returns a number with three decimals and a true minus sign."""
    return f"{value:.3f}".replace("-", "−") if drawable(value) else "n/a"

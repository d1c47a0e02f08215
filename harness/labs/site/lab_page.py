"""What all pages of a lab share: tabs, crumbs, tables, and the notice that the lab is frozen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from harness.labs.closing import frozen
from harness.labs.names import form_of, utc
from harness.labs.site.lab_view import FieldRun, LabView
from harness.labs.standing import topic_slices
from harness.render.model import Prose
from harness.render.pages import Head, Item, Link, Listing, ListingLine, Page
from harness.render.site_html import HOME

T = TypeVar("T")
Columns: TypeAlias = Sequence[tuple[Head | str, Callable[[T], Item]]]  # heading, and the cell of a row
_LONG = 15  # rows above which a listing has a search box


def listing(
    name: str,
    caption: str,
    columns: Columns[T],
    rows: Iterable[T],
    *,
    search: bool | Literal["if long"] = False,
    filters: Callable[[T], dict[str, tuple[str, ...]]] = lambda _: {},
    **more: Any,  # noqa: ANN401  (of `Listing`)
) -> Listing:
    """Returns a table with a row for each value; `filters` gives a row's values of the filters."""
    heads = tuple(Head(head) if isinstance(head, str) else head for head, _ in columns)
    lines = tuple(ListingLine(tuple(cell(row) for _, cell in columns), filters(row)) for row in rows)
    return Listing(name, caption, heads, lines, search=len(lines) > _LONG if search == "if long" else search, **more)


def decimal(value: float | None, decimals: int = 3, *, signed: bool = False, **more: Any) -> Item:  # noqa: ANN401
    """Returns a number as a cell; `n/a` for NaN and None."""
    if value is None or math.isnan(value):
        return Item("n/a")
    return Item(f"{value:{'+' if signed else ''}.{decimals}f}".replace("-", "−"), float(value), **more)


def run_item(run: FieldRun) -> Item:
    """Returns the label of a run, which leads to its page, over its team."""
    return Item(run.label, link=run.path, small=run.team)


def neighbours(link: Callable[[int], Link], count: int, at: int) -> tuple[Link | None, Link | None]:
    """Returns the links before and after one of so many places."""
    previous, following = (link(n) if 0 <= n < count else None for n in (at - 1, at + 1))
    return previous, following


def whole(number: int) -> Item:
    """Returns a whole number as a cell."""
    return Item(str(number), float(number))


def frozen_text(field: LabView) -> tuple[Prose, ...]:
    """Returns since when and why a lab is frozen; nothing if it is open."""
    freezing = frozen(field.acts)
    if freezing is None:
        return ()
    reason = field.names.text(freezing.reason)
    said = f"The organisers froze the lab on {utc(freezing.at)}: until they reopen it, teams can change nothing."
    return (Prose((said, *([f"Reason: {reason}"] if reason else []))),)


def tabs(field: LabView) -> tuple[Link, ...]:
    """Returns the tabs of a lab: links to its main pages, which each of its pages shows."""
    base = field.base
    links = [Link("Leaderboard", f"{base}/index.html")]
    if field.topics_shown:
        links += [Link("Topics", f"{base}/topics/index.html"), Link("Compare two runs", f"{base}/pairs.html")]
        if topic_slices(field.topics, field.known):
            links.append(Link("Slices", f"{base}/slices/index.html"))
    if field.final is not None:
        links.append(Link("Final ranking", f"{base}/final.html"))
    links.append(Link("About", f"{base}/about.html"))
    return (*links, *([Link("Submit", form_of(field.lab.server))] if field.lab.server else []))


def lab_page(field: LabView, path: str, title: str, headline: str, parts: Any, tab: str = "", **more: Any) -> Page:  # noqa: ANN401
    """Returns a page of a lab; `path` and `tab`, by default the same, are relative to the lab's folder."""
    base = field.base
    crumbs = (HOME, Link(field.lab.title, f"{base}/index.html"))
    return Page(
        f"{base}/{path}",
        title,
        headline,
        tuple(part for part in parts if part is not None),
        tabs(field),
        f"{base}/{tab or path}",
        crumbs,
        feed=f"{base}/feed.xml",
        site=field.lab.title,
        **more,
    )

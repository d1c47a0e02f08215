"""A page of a site with the same content as JSON and CSV, and what all pages of a lab share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.io.names import in_natural_order
from harness.labs.addresses import form_of
from harness.labs.closing import frozen
from harness.render.model import Records, Text
from harness.render.pages import Link, Page
from harness.render.site_html import render_page
from harness.render.tabular import record_csv
from harness.reports.site.field import Field

HOME = Link("Home", "index.html")


@dataclass(frozen=True)
class Made:
    """A page, and its content as data.

    Attributes
    ----------
    data : JSON values; `schema` in it names the file in `schemas/`.
    records : content of the CSV file; None for none.
    stem : path of the JSON and CSV files without their ending; default: that of the page.
    """

    page: Page
    data: Mapping[str, Any] | None = None
    records: Records | None = None
    stem: str = ""

    def files(self) -> dict[str, str]:
        """Returns path -> content of the page and of the files beside it."""
        stem = self.stem or self.page.path.removesuffix(".html")
        beside, out = [], {}
        if self.data is not None:
            out[f"{stem}.json"] = json.dumps(self.data, allow_nan=False) + "\n"
            beside.append(Link("JSON", f"{stem}.json"))
        if self.records is not None:
            out[f"{stem}.csv"] = record_csv(self.records)
            beside.append(Link("CSV", f"{stem}.csv"))
        return {self.page.path: render_page(replace(self.page, beside=(*self.page.beside, *beside))), **out}


def document(schema: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns content as a JSON document with the name and version of its schema."""
    return {"schema": f"mathir-harness/{schema}", "version": 1, **content}


def number(value: float) -> float | None:
    """Returns a number for JSON; None for NaN."""
    return None if math.isnan(value) else float(value)


def utc(time: str) -> str:
    """Returns a time of the journal for readers.

    Examples
    --------
    >>> utc("2026-06-20T10:03:00+00:00")
    '2026-06-20 10:03:00 UTC'
    """
    return time.replace("T", " ").replace("+00:00", " UTC")


def frozen_text(field: Field) -> tuple[Text, ...]:
    """Returns since when and why a lab is frozen; nothing if it is open."""
    found = frozen(field.acts)
    if found is None:
        return ()
    reason = field.names.text(found.reason)
    said = f"The organisers froze the lab on {utc(found.at)}: until they reopen it, teams can change nothing."
    return (Text((said, *([f"Reason: {reason}"] if reason else []))),)


def tabs(field: Field) -> tuple[Link, ...]:
    """Returns the pages of a lab that are on each of its pages."""
    base = field.base
    found = [Link("Leaderboard", f"{base}/index.html")]
    if field.topics_shown:
        found += [
            Link("Topics", f"{base}/topics/index.html"),
            Link("Compare two runs", f"{base}/pairs.html"),
        ]
        if attributes(field):
            found.append(Link("Slices", f"{base}/slices/index.html"))
    if field.final is not None:
        found.append(Link("Final ranking", f"{base}/final.html"))
    found.append(Link("About", f"{base}/about.html"))
    return (*found, *([Link("Submit", form_of(field.lab.server))] if field.lab.server else []))


def attributes(field: Field) -> dict[str, dict[str, list[str]]]:
    """Returns attribute -> value -> topics, for attributes with at least two values; the language is one of them."""
    out: dict[str, dict[str, list[str]]] = {}
    for topic in field.topics:
        known = field.known[topic]
        for name in known.attributes:
            for value in known.values(name):
                out.setdefault(name, {}).setdefault(value, []).append(topic)
        out.setdefault("language", {}).setdefault(known.language, []).append(topic)
    kept = {name: values for name, values in out.items() if 2 <= len(values) <= MOST_VALUES}
    return {name: {value: values[value] for value in in_natural_order(values)} for name, values in kept.items()}


MOST_VALUES = 60  # values of an attribute that make slices; more are no slices but names


def lab_page(field: Field, path: str, title: str, headline: str, parts: Any, tab: str, **more: Any) -> Page:  # noqa: ANN401
    """Returns a page of a lab; `path` and `tab` are relative to the lab's folder."""
    base = field.base
    crumbs = (HOME, Link(field.lab.title, f"{base}/index.html"))
    return Page(
        f"{base}/{path}",
        title,
        headline,
        tuple(part for part in parts if part is not None),
        tabs(field),
        f"{base}/{tab}",
        crumbs,
        feed=f"{base}/feed.xml",
        site=field.lab.title,
        **more,
    )

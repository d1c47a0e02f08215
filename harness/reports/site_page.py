"""A page of a site with the same content as JSON and CSV: what pages of labs and of papers share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.render.model import Records
from harness.render.pages import Link, Page
from harness.render.site_html import render_page
from harness.render.tabular import record_csv

HOME = Link("Home", "index.html")


@dataclass(frozen=True)
class SitePage:
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


def json_document(schema: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns content as a JSON document with the name and version of its schema."""
    return {"schema": f"mathir-harness/{schema}", "version": 1, **content}


def json_number(value: float) -> float | None:
    """Returns a number for JSON; None for NaN."""
    return None if math.isnan(value) else float(value)


@dataclass(frozen=True)
class PaperLine:
    """A paper in the list of the first page."""

    title: str
    path: str
    outcome: str

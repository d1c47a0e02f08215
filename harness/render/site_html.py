"""Renders a page of a static site (`harness.render.pages`) as one HTML file that makes no network requests.

A page of a site with the same content as JSON and CSV: what pages of labs and of papers share.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from harness.errors import HarnessError
from harness.render import html, svg
from harness.render.formats import record_csv
from harness.render.formulas import segments, to_mathml
from harness.render.model import Facts, Figure, Prose, Records, Table, slug, visible
from harness.render.pages import (
    Badges,
    Block,
    Code,
    Folded,
    Item,
    Link,
    Listing,
    ListingLine,
    Page,
    PageSection,
    QuotedText,
    Rich,
    RunValues,
    check_path,
    is_web,
)
from harness.version import __version__

if TYPE_CHECKING:
    from markupsafe import Markup


_FRAGMENT = re.compile(r"[A-Za-z0-9._~=&/:-]*")
_SCALE = 1_000_000  # values of pairs are whole numbers in units of 1/1,000,000
_WIDE = 11  # columns above which a listing is set smaller
_LONG = 15  # rows above which a table scrolls in a box of its own
_STRIP = 120.0  # width of a strip in user units
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")


def render_page(page: Page) -> str:
    """Renders a page as a self-contained HTML document.

    Its content security policy allows only our styles and scripts, by their hashes. Formulas become MathML.

    Raises
    ------
    HarnessError
        A figure contains SVG that `harness.render.figures` does not write, or a path is not usable.

    Examples
    --------
    >>> page = Page("a/b.html", "A page", "", (), crumbs=(Link("Home", "index.html"),))
    >>> '<a href="../index.html">' in render_page(page)
    True
    """
    from markupsafe import Markup

    blocks = list(page.blocks())
    scripts = ["site.js", *(["pairs.js"] if any(isinstance(block, RunValues) for block in blocks) else [])]
    labels = _labels(blocks)
    style, code = _styles(), [html.read_template(name) for name in ("report.js", *scripts)]
    return html.template("site.html.j2").render(
        page=page,
        parts=[
            (
                part,
                _anchor(part, labels),
                [_block(block, page, labels) for block in part.blocks],
                at > 0 and _late(part),
            )
            for at, part in enumerate(page.parts)
        ],
        link=lambda link: _link_data(link, page.path),
        address=lambda address: href(address, page.path),
        maths=mathematics,
        version=__version__,
        style=Markup(style),  # noqa: S704 - our own files
        scripts=[Markup(script) for script in code],  # noqa: S704 - our own files
        policy=f"default-src 'none'; style-src {html.source_hash(style)} {html.source_hash(svg.STYLE)}; "
        f"script-src {' '.join(html.source_hash(script) for script in code)}; "
        "img-src data:; base-uri 'none'; form-action 'none'",
    )


@cache
def _styles() -> str:
    return "".join(html.read_template(name) for name in ("report.css", "explorer.css", "site.css"))


def _labels(blocks: list[Block]) -> dict[str, str]:
    """Returns id -> `Figure 1`, `Table 1`, ... in reading order."""
    labels: dict[str, str] = {}
    counts = {"Figure": 0, "Table": 0}
    for block in blocks:
        kind = "Figure" if isinstance(block, Figure) else "Table" if isinstance(block, Table | Listing) else ""
        if kind and isinstance(block, Figure | Table | Listing):
            counts[kind] += 1
            labels[block.id] = f"{kind} {counts[kind]}"
    return labels


def _anchor(part: PageSection, labels: Mapping[str, str]) -> str:
    """Returns the id of a part; empty if it has no title, or if a figure or table of the page has that id."""
    name = slug(part.title) if part.title else ""
    return "" if name in labels else name


def _late(part: PageSection) -> bool:
    """Returns whether a part has a long table, whose layout can wait until the reader is near."""
    return any(isinstance(block, Listing) and len(block.lines) > _LONG for block in part.blocks)


def _link_data(link: Link, path: str) -> dict[str, str]:
    return {"text": link.text, "href": href(link.address, path)}


@lru_cache(maxsize=20_000)
def href(address: str, path: str) -> str:
    """Returns an address as seen from the page at `path`; empty if it is neither of the web nor inside the site.

    Examples
    --------
    >>> href("lab/topics/a.1.html#ranks", "lab/runs/x/y.html"), href("javascript:alert(1)", "index.html")
    ('../../topics/a.1.html#ranks', '')
    """
    if is_web(address):
        return address
    target, sign, fragment = address.partition("#")
    if not _FRAGMENT.fullmatch(fragment) or not address:
        return ""
    if not target:
        return address
    try:
        check_path(target)
    except HarnessError:
        return ""
    return f"{posixpath.relpath(target, posixpath.dirname(path) or '.')}{sign}{fragment}"


def mathematics(text: str) -> Markup:
    """Returns a text on one line as markup, with its formulas as MathML; a formula that fails stays LaTeX."""
    from markupsafe import Markup, escape

    out = []
    for part in segments(text):
        if isinstance(part, str):
            out.append(str(escape(visible(part))))
        else:
            out.append(_formula_html(part.latex, part.display))
    return Markup("".join(out))  # noqa: S704 - each part was escaped, or checked element by element


@lru_cache(maxsize=50_000)
def _formula_html(latex: str, display: bool) -> str:
    from markupsafe import escape

    element = to_mathml(latex, display)
    if element is None:
        return f'<code class="tex">{escape(visible(latex))}</code>'
    if display:
        element.set("display", "block")
    return ElementTree.tostring(element, encoding="unicode", short_empty_elements=False)


def _block(block: Block, page: Page, labels: dict[str, str]) -> dict[str, Any]:
    """Returns the template's variables for a block."""
    from markupsafe import Markup

    path = page.path
    match block:
        case Prose() | Facts() | Table() | Figure():
            return html.block(block, labels)
        case Rich(parts):
            shown = [part if isinstance(part, str) else _link_data(part, path) for part in parts]
            return {"kind": "rich", "parts": shown}
        case QuotedText():
            paragraphs = [mathematics(part) for part in _PARAGRAPH.split(block.text.strip()) if part.strip()]
            return {"kind": "passage", "passage": block, "paragraphs": paragraphs}
        case Badges(items):
            return {"kind": "badges", "badges": items}
        case Code():
            lines = Markup("\n").join(visible(line) for line in block.text.splitlines())  # escapes each
            return {"kind": "code", "code": block, "lines": lines}
        case Folded():
            return {"kind": "folded", "folded": block, "blocks": [_block(b, page, labels) for b in block.blocks]}
        case Listing():
            return {"kind": "listing", **_listing_data(block, path, labels[block.id])}
        case RunValues():
            titles = [mathematics(title) for _, title, _ in block.topics]
            data = Markup(_script(_pairs_data(block, path)))  # noqa: S704 - escaped for a script
            return {"kind": "pairs", "titles": titles, "data": data}


def _listing_data(block: Listing, path: str, label: str) -> dict[str, Any]:
    from markupsafe import Markup

    lookup = None
    if block.lookup is not None:
        data = {"names": [visible(name) for name in block.lookup.names], "values": block.lookup.values}
        lookup = {"label": block.lookup.label, "data": Markup(_script(data))}  # noqa: S704 - escaped for a script
    return {
        "list": block,
        "label": label,
        "long": len(block.lines) > _LONG,
        "wide": sum(head.shown for head in block.heads) > _WIDE,
        "hidden": any(not head.shown for head in block.heads),
        "lookup": lookup,
        "rows": [_row_data(line, block, path) for line in block.lines],
    }


def _row_data(line: ListingLine, block: Listing, path: str) -> dict[str, Any]:
    return {
        "facets": " ".join(
            f"{number}:{facet.values.index(value)}"
            for number, facet in enumerate(block.facets)
            for value in line.facets.get(facet.name, ())
            if value in facet.values
        ),
        "cells": [
            _cell_data(item, head.kind == "text", head.shown, index, path)
            for index, (item, head) in enumerate(zip(line.items, block.heads, strict=True))
        ],
    }


def _cell_data(item: Item, is_text: bool, shown: bool, index: int, path: str) -> dict[str, Any]:
    exact = "" if item.value is None or not math.isfinite(item.value) else repr(float(item.value)).removesuffix(".0")
    return {
        "item": item,
        "text": _isolated(mathematics(item.text) if item.maths else item.text),
        "class": " ".join([*(["t"] if is_text else []), *(["w"] if is_text and len(item.text) > 24 else [])]),
        "shown": shown,
        "header": index == 0,
        "href": href(item.link, path) if item.link else "",
        "exact": exact if exact != item.text else "",
        "strip": "".join(
            f"M{x} 3v10" for x in sorted({round(2 + at * (_STRIP - 4)) for at in item.strip if 0 <= at <= 1})
        ),
    }


def _isolated(text: str) -> Markup:
    """Returns a cell's text, in an element of its own if its letters may run from right to left.

    Most cells are numbers; an element for each would make large tables slow to open.
    """
    from markupsafe import Markup, escape

    shown = text if isinstance(text, Markup) else escape(visible(text))
    return shown if shown.isascii() else Markup("<bdi>{}</bdi>").format(shown)


def _pairs_data(block: RunValues, path: str) -> dict[str, Any]:
    return {
        "runs": [[visible(name), key, href(address, path)] for name, key, address in block.runs],
        "topics": [[visible(name), href(address, path)] for name, _, address in block.topics],
        "measures": [visible(measure) for measure in block.measures],
        "values": [
            [[None if math.isnan(value) else round(value * _SCALE) for value in run] for run in measure]
            for measure in block.values
        ],
        "clusters": list(block.clusters),
        "tests": block.tests,
        "correction": block.correction,
        "alpha": block.alpha,
        "first": list(block.first),
    }


def _script(data: object) -> str:
    """Returns JSON that is safe inside a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


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

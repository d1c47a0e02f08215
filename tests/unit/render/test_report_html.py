"""The HTML page: hostile text stays text, nothing is fetched, tables are real tables."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from case_tables import literals
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.errors import HarnessError
from harness.render import svg
from harness.render.figures import dot_interval, grouped_bars
from harness.render.html import render_html
from harness.render.model import MARKS, Cell, Column, Facts, Figure, Prose, Section, Table, visible
from harness.render.write import Report

HOSTILE = tuple(text for (text,) in literals("render/hostile_html"))
VOID = {"meta", "link", "br", "input", "img"}


class Page(HTMLParser):
    """Every element with its attributes, and the text outside of scripts and styles."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.inside: dict[str, list[str]] = {}
        self.other: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"doubled attribute in <{tag}>"
        if tag not in VOID:
            self.open.append(tag)
            self.inside.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.inside[tag][-1] += data
        if not {"script", "style"} & set(self.open):
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)

    def shape(self) -> list[tuple[str, list[str]]]:
        return [(tag, sorted(attributes)) for tag, attributes in self.elements]


def report_of(text: str) -> Report:
    table = Table(
        "t",
        text,
        (Column(text), Column(text, text, "number"), Column("x", text)),
        (
            (Cell(text, None, tuple(MARKS), text + "!"), Cell(text, 0.25, ("exact",)), Cell(text)),
            (Cell(text), Cell(text, note="n"), Cell("1")),
        ),
        notes=(text,),
    )
    closed = Table("c", text, (Column(text),), ((Cell(text),),), row_headers=0, collapsed=True)
    drawing = Figure("f", text, dot_interval([(text, 1, 0, 2, True)], text), Table("ft", text, (Column(text),), ()))
    blocks = (Prose((text,)), Facts(((text, text),)), table, closed, drawing)
    return Report(text, text + "!", (Section(text, blocks), Section(text, (), 3)))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_adds_no_element_and_no_attribute(text: str) -> None:
    # The length decides how a text wraps, so the harmless report has texts of the same lengths; labels of drawings
    # wrap by their words.
    hostile, harmless = Page(render_html(report_of(text))), Page(render_html(report_of("x" * len(text))))
    shapes = [[each for each in page.shape() if each[0] != "text"] for page in (hostile, harmless)]
    assert shapes[0] == shapes[1]
    assert {name for tag, names in hostile.shape() if tag == "text" for name in names} <= {
        "x",
        "y",
        "text-anchor",
        "class",
    }
    assert hostile.open == []
    assert hostile.other == []
    for tag in ("h1", "h2", "td", "dt", "dd", "summary", "caption", "figcaption", "title", "p"):
        assert any(visible(text) in content for content in hostile.inside[tag]), tag


@settings(max_examples=examples(60), deadline=None)
@given(st.text())
def test_any_text_is_shown_as_it_is(text: str) -> None:
    page = Page(render_html(Report(text, "", (Section("s", (Prose((text,)),)),))))
    assert page.inside["h1"] == [visible(text)]
    assert page.inside["title"] == [visible(text)]
    assert page.inside["p"] == [visible(text)]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_is_fetched_and_nothing_runs_but_our_script(text: str) -> None:
    source = render_html(report_of(text))
    page = Page(source)
    for tag, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on") or key in {"src", "style", "srcdoc", "action"}], (
            tag
        )
        link = attributes.get("href")
        assert link is None or re.fullmatch(r"#[A-Za-z0-9._-]+|data:,", link)
    assert len(page.inside["script"]) == 1
    assert not {"iframe", "object", "embed", "form", "img", "base"} & {tag for tag, _ in page.elements}
    assert "@import" not in source
    assert not set("\u202e\u2066\x00\ufeff") & set(source)
    source.encode("utf-8")


@pytest.mark.parametrize(("text", "linked"), literals("render/addresses"))
def test_a_fact_that_is_an_address_is_a_link_and_nothing_else_is(text: str, linked: bool) -> None:
    blocks = (Facts((("paper", text),)), Prose((text,)), Table("t", text, (Column(text),), ((Cell(text),),), (text,)))
    page = Page(render_html(Report(text, text, (Section("s", blocks),))))
    links = [attributes for tag, attributes in page.elements if tag == "a" and "rel" in attributes]
    assert links == ([{"href": text, "rel": "noreferrer"}] if linked else [])
    assert visible(text) in page.inside["dd"]


def test_the_policy_allows_exactly_the_styles_and_the_script_of_the_page() -> None:
    page = Page(render_html(report_of("x")))
    policies = [a["content"] or "" for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    rules = dict(rule.strip().split(" ", 1) for rule in policies[0].split(";"))
    assert rules["default-src"] == "'none'"

    def hashes(contents: list[str]) -> set[str]:
        return {f"'sha256-{base64.b64encode(hashlib.sha256(c.encode()).digest()).decode()}'" for c in contents}

    assert set(rules["style-src"].split()) == hashes(page.inside["style"])
    assert set(rules["script-src"].split()) == hashes(page.inside["script"])
    assert rules["img-src"] == "data:"
    assert "unsafe" not in policies[0]


def test_ids_are_unique_and_links_lead_somewhere() -> None:
    page = Page(render_html(report_of("x")))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = {(attributes["href"] or "")[1:] for tag, attributes in page.elements if tag == "a"}
    assert links <= set(ids)
    named = {part for _, a in page.elements for part in (a.get("aria-labelledby") or "").split()}
    assert named <= set(ids)


def grouped_table(rows: int = 2) -> Table:
    columns = (Column("Run"), Column("1", "nDCG", "number"), Column("2", "nDCG", "number"), Column("n", kind="number"))
    body = tuple((Cell(f"r{i}"), Cell("0.1", 0.125), Cell("0.2"), Cell("77", 77.0)) for i in range(rows))
    return Table("g", "Caption", columns, body)


def page_of(*blocks: Table | Figure) -> tuple[str, Page]:
    source = render_html(Report("T", "H", (Section("S", blocks),)))
    return source, Page(source)


def test_tables_have_captions_scopes_and_spanning_headers() -> None:
    _, page = page_of(grouped_table())
    heads = [attributes for tag, attributes in page.elements if tag == "th"]
    assert [head.get("scope") for head in heads] == ["col", "colgroup", "col", "col", "col", "row", "row"]
    assert [head.get("rowspan") for head in heads[:3]] == ["2", None, "2"]
    assert heads[1]["colspan"] == "2"
    assert page.inside["caption"] == ["Table 1. Caption"]
    region = next(attributes for _, attributes in page.elements if attributes.get("role") == "region")
    assert region["tabindex"] == "0"
    assert region["aria-label"] == "Table 1: Caption"


def test_cells_carry_the_exact_value_where_the_text_is_rounded() -> None:
    source, _ = page_of(grouped_table(1))
    assert '<td data-v="0.125">0.1</td><td>0.2</td><td>77</td>' in source


def test_marks_are_symbols_with_names_and_only_those_used_are_explained() -> None:
    cells = (Cell("a", marks=("baseline",)), Cell("0.3", marks=("best", "better"), note="rounded"))
    source, page = page_of(Table("m", "c", (Column("Run"), Column("v", kind="number")), (cells,)))
    assert "<strong>0.3</strong>" in source
    named = [(a["aria-label"], a["class"]) for _, a in page.elements if a.get("role") == "img"]
    assert named == [("baseline", "m baseline"), ("better, significant after correction", "m better")]
    legend = next(text for text in page.inside["p"] if "baseline" in text)
    assert " ".join(legend.split()) == "bold best † baseline ▲ better, significant after correction"
    assert '<div id="m-note-a"><dt>a</dt><dd dir="auto">rounded</dd></div>' in source
    assert 'href="#m-note-a"' in source


def test_digits_line_up_because_all_cells_of_a_column_keep_room_for_its_marks() -> None:
    rows = ((Cell("0.1", marks=("exact", "better")),), (Cell("0.2"),))
    source, _ = page_of(Table("m", "c", (Column("v", kind="number"),), rows, row_headers=0))
    assert source.count('<span class="k k2">') == 2


@pytest.mark.slow
def test_a_long_table_has_few_elements_and_all_its_rows() -> None:
    cells = [(Cell(f"<b>\n{n}"), Cell(f"{n / 7:.2f}", n / 7, ("better",) if n % 3 else (), "few")) for n in range(2000)]
    table = Table("long", "Long", (Column("run"), Column("v", kind="number")), tuple(cells))
    source, page = page_of(table)
    assert [tag for tag, _ in page.elements].count("tr") == 101
    markup = zlib.decompress(base64.b64decode(page.inside["script"][0])).decode()
    assert len(markup.splitlines()) == 1900
    assert "The first 100 of 2,000 rows" in "".join(page.text)
    # In parts short enough to be drawn as elements, the table has the same rows in the same markup.
    parts = [page_of(replace(table, rows=table.rows[at : at + 250]))[0] for at in range(0, 2000, 250)]
    rows = [row for part in parts for row in re.findall(r"<tr><th.*?</tr>", part)]
    assert len(rows) == 2000
    assert [*re.findall(r"<tr><th.*?</tr>", source), *markup.splitlines()] == rows


def test_collapsed_tables_and_the_numbers_of_figures_are_closed_at_first() -> None:
    table = Table("c", "Closed", (Column("a"),), ((Cell("x"),),), collapsed=True)
    figure = Figure("f", "F", dot_interval([("a", 1, 0, 2, True)], "x"), Table("ft", "N", (Column("a"),), ()))
    _, page = page_of(table, figure)
    closed = [attributes for tag, attributes in page.elements if tag == "details"]
    assert [attributes["id"] for attributes in closed] == ["c", "ft"]
    assert not any("open" in attributes for attributes in closed)
    assert page.inside["summary"] == ["Table 1. Closed", "Numbers of Figure 1"]


def test_two_figures_do_not_share_ids_and_foreign_svg_is_refused() -> None:
    drawings = [grouped_bars(["g"], ["a", "b"], [[0.1, value]], "y") for value in (0.2, 0.3)]
    _, page = page_of(*(Figure(f"f{index}", "c", drawing) for index, drawing in enumerate(drawings)))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    with pytest.raises(HarnessError, match="figure bad: element 'script'"):
        page_of(Figure("bad", "c", drawings[0].replace("</svg>", "<script>1</script></svg>")))


def test_the_language_of_the_report_is_declared() -> None:
    page = Page(render_html(Report("T", "H", (), language="pt-BR")))
    assert dict(page.elements)["html"] == {"lang": "pt-BR"}


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_has_the_contrast_that_wcag_asks_for_in_both_modes() -> None:
    (style, *_) = Page(render_html(report_of("x"))).inside["style"]
    for css in (style, svg.STYLE):
        modes = re.findall(r"--bg:[^}]*", css)
        assert len(modes) == 2
        for mode in modes:
            colours = dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{3,6})", mode))
            for name in ("ink", "soft", "accent", "good", "warn", "bad", *(f"c{index}" for index in range(6))):
                if name in colours:
                    assert contrast(colours[name], colours["bg"]) >= 4.5, (name, mode)
            if "bad-bg" in colours:
                assert contrast(colours["ink"], colours["bad-bg"]) >= 4.5
                assert contrast(colours["bad"], colours["bad-bg"]) >= 4.5
                assert contrast(colours["warn"], colours["warn-bg"]) >= 4.5
                assert contrast(colours["ink"], colours["tint"]) >= 4.5

"""Topics: what is asked, in which language, and what is known about each question."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from harness.errors import format_error
from harness.ids import check_id, check_length

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


@dataclass(frozen=True)
class Formula:
    """A formula: its id in the collection, its LaTeX without delimiters, and the id shared by all that look alike."""

    id: str
    latex: str
    visual_id: str = ""


@dataclass(frozen=True)
class Topic:
    """One question.

    Attributes
    ----------
    id : as in the judgments.
    title, body : text with LaTeX in `$...$`; markup removed.
    tags : subject tags.
    formulas : in order of appearance, title first; of a topic that asks for a formula, that one alone.
    language : ISO 639-3 code.
    attributes : what slices are made of, such as category, difficulty, dependency.
    """

    id: str
    title: str
    body: str = ""
    tags: tuple[str, ...] = ()
    formulas: tuple[Formula, ...] = ()
    language: str = "eng"
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Topics:
    """The topics of a collection, in the order of their file; ids are unique."""

    topics: tuple[Topic, ...]

    def __len__(self) -> int:
        return len(self.topics)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self.topics)

    def ids(self) -> frozenset[str]:
        """All topic ids."""
        return frozenset(topic.id for topic in self.topics)

    def by_id(self) -> dict[str, Topic]:
        """Topic id -> topic."""
        return {topic.id: topic for topic in self.topics}

    def with_attributes(self, attributes: Mapping[str, Mapping[str, str]]) -> Topics:
        """The same topics with further attributes, by topic id."""
        return Topics(tuple(replace(t, attributes={**t.attributes, **attributes.get(t.id, {})}) for t in self.topics))


def unique(topics: list[tuple[int, Topic]], path: str) -> Topics:
    """Topics in order, after a check that each id (of a line and topic) is one, and that none stands twice."""
    if not topics:
        raise format_error(path, 0, "no topics found")
    seen: dict[str, int] = {}
    for line, topic in topics:
        check_id(topic.id, "topic", path, line)
        for formula in topic.formulas:
            check_length(formula.id, "formula", path, line)
        if topic.id in seen:
            raise format_error(path, line, f"topic {topic.id!r} is on line {seen[topic.id]} already")
        seen[topic.id] = line
    return Topics(tuple(topic for _, topic in topics))


_BLOCKS = frozenset({"p", "br", "li", "ul", "ol", "blockquote", "div", "pre", "tr", "h1", "h2", "h3", "h4", "hr"})
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
# Possessive and bounded, so that markup made to be slow is not.
_TAG = re.compile(
    r"""<(?P<close>/?)(?P<name>[a-zA-Z][^\s/>]*)(?P<rest>(?:[^>"']|"[^"]{0,65536}"|'[^']{0,65536}'){0,2048}+)>"""
    r"""|<(?P<close_>/?)(?P<name_>[a-zA-Z][^\s/>]*)(?P<rest_>[^>]*)>|<!--|<[!?][^>]*>"""
)
_ATTRIBUTE = re.compile(r"""([^\s=/"'>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_HIDDEN = {"script": "</script", "style": "</style"}  # and what ends their content
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)%\s+")


@dataclass(frozen=True)
class Marked:
    """What was read from markup: its text, its formulas, and how many formula spans held other ones."""

    text: str
    formulas: tuple[Formula, ...]
    nested: int


class _Span:
    """An open span: of a formula, or an ordinary one that only has to be closed again."""

    def __init__(self, attributes: Mapping[str, str], start: int) -> None:
        self.is_formula = "math-container" in attributes.get("class", "").split()
        self.attributes = attributes
        self.start = start  # index into the pieces of text
        self.inner: list[Formula] = []


class _Markup:
    """The text of a post and its formulas; broken markup is read as far as it goes."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.formulas: list[Formula] = []
        self.nested = 0
        self._spans: list[_Span] = []
        self._open: list[_Span] = []  # those of formulas among them

    def read(self, markup: str) -> None:
        at, last_tag, last_math = 0, markup.rfind(">") + 1, markup.rfind("</math")
        while tag := _TAG.search(markup, at, last_tag):
            self._data(markup[at : tag.start()])
            at = tag.end()
            name = (tag["name"] or tag["name_"] or "").lower()
            if tag[0] == "<!--" or (name in _HIDDEN and not tag["close"]):
                end = markup.find("-->" if not name else _HIDDEN[name], at)
                at = len(markup) if end < 0 else end + (3 if not name else 0)
            elif name == "span":
                self._span(tag)
            elif name == "math" and not tag["close"] and at <= last_math:
                self._mathml(_attributes(tag).get("alttext", ""))
                at = markup.find("</math", at)
            elif name in _BLOCKS:
                self.pieces.append(" ")
        self._data(markup[at:])
        while self._spans:
            self._close(self._spans.pop())

    def _data(self, data: str) -> None:
        if data:
            self.pieces.append(html.unescape(data) if "&" in data else data)

    def _span(self, tag: re.Match[str]) -> None:
        if not (tag["close"] or tag["close_"]):
            self._spans.append(span := _Span(_attributes(tag), len(self.pieces)))
            if span.is_formula:
                self._open.append(span)
        elif self._spans:
            self._close(self._spans.pop())

    def _mathml(self, latex: str) -> None:
        latex = unwrapped(latex)
        self.pieces.append(f"${latex}$" if latex else "")
        if not self._open:
            self.formulas.append(Formula("", latex))

    def _close(self, span: _Span) -> None:
        """End a span. One without an id that holds others was put around them by mistake."""
        if not span.is_formula:
            return
        self._open.pop()
        self.nested += bool(span.inner)
        if span.inner and not span.attributes.get("id"):
            found = span.inner
        else:
            latex = "".join(self.pieces[span.start :]).strip()
            for opening, closing in _DELIMITERS:
                if latex.startswith(opening):
                    latex = latex.removeprefix(opening).removesuffix(closing).strip()
                    break
            found = [Formula(span.attributes.get("id", ""), latex, span.attributes.get("visual_id", ""))]
        (self._open[-1].inner if self._open else self.formulas).extend(found)


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    found = _ATTRIBUTE.findall(tag["rest"] or tag["rest_"] or "")
    return {name.lower(): html.unescape(double or single or bare) for name, double, single, bare in found}


def unwrapped(latex: str) -> str:
    """LaTeX without the line breaks (`%` and a blank) that LaTeXML puts into its `alttext`."""
    if "%" not in latex:
        return latex.strip()

    def join(broken: re.Match[str]) -> str:
        before, after = latex[max(0, broken.start() - 40) : broken.start()], latex[broken.end() : broken.end() + 1]
        command = re.search(r"\\[a-zA-Z]+$", before)
        return broken[1] + (" " if command and after.isalpha() else "")

    return _CONTINUED.sub(join, latex).strip()


_FORMULA = re.compile(
    r"\$\$(.*?)\$\$|\$(.*?)\$|\\\((.*?)\\\)|\\\[(.*?)\\\]|(\\begin\{(\w+\*?)\}.*?\\end\{\6\})", re.DOTALL
)


def formulas_in(text: str) -> tuple[str, ...]:
    """The LaTeX of the formulas in a text, without delimiters; an environment is kept with its begin and end."""
    return tuple(next((part for part in found[:5] if part), "").strip() for found in _FORMULA.findall(text))


def read_markup(markup: str) -> Marked:
    """What HTML says, with formulas in place as LaTeX: spans of the class `math-container`, MathML by its `alttext`.

    Of nested formula spans the outer one is the formula if it has an id, else the inner ones are.
    """
    reader = _Markup()
    reader.read(markup)
    return Marked(" ".join("".join(reader.pieces).split()), tuple(reader.formulas), reader.nested)


def plain(markup: str) -> tuple[str, tuple[Formula, ...]]:
    """The text of HTML with its formulas left in place as LaTeX, and those formulas."""
    marked = read_markup(markup)
    return marked.text, marked.formulas


def arqmath_xml(data: bytes, path: str, language: str = "eng") -> Topics:
    """Topics in the organisers' XML: `Topic` with `number`, `Title`, `Question`, `Tags`; of Task 2 also the formula.

    Document types and entities are refused: they have no place in a topics file and can be made to explode.
    """
    from xml.etree import ElementTree

    for word in (b"<!DOCTYPE", b"<!ENTITY"):
        if word in data:
            at = data.count(b"\n", 0, data.index(word)) + 1
            raise format_error(path, at, f"{word.decode()[2:]} is not allowed in a topics file")
    if b"\x00" in data:
        # Above all UTF-16, in which the words above would not be found.
        raise format_error(path, data.count(b"\n", 0, data.index(b"\x00")) + 1, "byte 0x00 is not UTF-8 text")
    topics: list[tuple[int, Topic]] = []
    parser: ElementTree.XMLPullParser[Element] = ElementTree.XMLPullParser(["end"])
    try:
        # Fed line by line, so that the line on which each topic ends is known.
        for number, line in enumerate(data.splitlines(keepends=True), 1):
            parser.feed(line)
            for _, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
                if element.tag == "Topic":
                    topics.append((number, _from_xml(element, language)))
        parser.close()
    except (LookupError, ValueError) as error:
        raise format_error(path, 1, f"encoding that is not known here: {error}; expected UTF-8") from None
    except ElementTree.ParseError as error:
        raise format_error(path, error.position[0], f"not valid XML: {str(error).partition(':')[0]}") from None
    return unique(topics, path)


def _from_xml(element: Element, language: str) -> Topic:
    parts = {child.tag: "".join(child.itertext()) for child in element}
    title, in_title = plain(parts.get("Title", ""))
    body, in_body = plain(parts.get("Question", ""))
    tags = tuple(tag.strip() for tag in parts.get("Tags", "").split(",") if tag.strip())
    formulas = in_title + in_body
    if asked := parts.get("Formula_Id", "").strip():  # of Task 2: the one formula that is searched for
        formulas = (Formula(asked, parts.get("Latex", "").strip()),)
    return Topic(element.get("number", ""), title, body, tags, formulas, language)


def crossmath_tsv(data: bytes, path: str, language: str) -> Topics:
    """CrossMath's translated topics: id, title, body, tags, tab-separated, one topic a line."""
    topics = []
    for number, line in numbered_lines(data, path):
        fields = line.split("\t")
        if len(fields) != 4:
            raise format_error(path, number, f"{len(fields)} columns, expected 4 (id title body tags)")
        tags = tuple(tag.strip() for tag in fields[3].split(",") if tag.strip())
        topics.append((number, Topic(fields[0], fields[1], fields[2], tags, (), language)))
    return unique(topics, path)


def jsonl(data: bytes, path: str, language: str = "eng") -> Topics:
    """Topics in our own form: a JSON object a line with the fields of `Topic`; `id` and `title` are required."""
    topics = []
    known = ("id", "title", "body", "tags", "formulas", "language", "attributes")
    for number, line in numbered_lines(data, path):
        try:
            row = json.loads(line)
            if not isinstance(row, dict) or not {"id", "title"} <= set(row) <= set(known):
                raise ValueError(f"expected an object with the keys {', '.join(known)}")
            if not all(isinstance(row.get(key, ""), str) for key in ("id", "title", "body", "language")):
                raise ValueError("id, title, body and language must be text")
            if not isinstance(row.get("tags", []), list):
                raise ValueError("tags must be a list")
            tags = tuple(str(tag) for tag in row.get("tags", ()))
            formulas = tuple(Formula(str(f["id"]), str(f["latex"])) for f in row.get("formulas", ()))
            attributes = {str(k): str(v) for k, v in row.get("attributes", {}).items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise format_error(path, number, f"not a topic: {error}") from None
        words = (row["id"], row["title"], row.get("body", ""))
        topics.append((number, Topic(*words, tags, formulas, row.get("language", language), attributes)))
    return unique(topics, path)


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise format_error(path, line, f"byte 0x{data[error.start]:02x} is not UTF-8 text") from None


def numbered_lines(data: bytes, path: str) -> list[tuple[int, str]]:
    """The lines that are not blank, each with its number."""
    # Not splitlines(): questions may hold other line separators than the line feed.
    lines = enumerate(_text(data, path).split("\n"), 1)
    return [(number, line.rstrip("\r")) for number, line in lines if line.strip()]


READERS: Mapping[str, Callable[[bytes, str, str], Topics]] = {
    "arqmath-xml": arqmath_xml,
    "crossmath-tsv": crossmath_tsv,
    "jsonl": jsonl,
}


def attributes_csv(data: bytes, path: str, key: str, columns: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Attributes of topics from a CSV file with a header.

    Parameters
    ----------
    key : the column of topic ids.
    columns : attribute -> column.
    """
    rows = csv.DictReader(io.StringIO(_text(data, path), newline=""))
    out: dict[str, dict[str, str]] = {}
    try:
        found = rows.fieldnames or ()
        for column in (key, *columns.values()):
            if column not in found:
                raise format_error(path, 1, f"column {column!r} is missing; found {', '.join(found) or 'nothing'}")
        for row in rows:
            topic = (row[key] or "").strip()
            if topic in out:
                raise format_error(path, rows.line_num, f"topic {topic!r} is on an earlier line already")
            out[topic] = {name: row[column].strip() for name, column in columns.items() if row[column]}
    except csv.Error as error:
        raise format_error(path, rows.reader.line_num, f"not CSV: {error}") from None
    return out

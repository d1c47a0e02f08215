"""Readers of topic files: ARQMath's XML, TREC's form, tables, JSON lines."""

from __future__ import annotations

import csv
import html
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from harness.data.markup import Marked, numbered_formulas, read_markup, repair_entities, trimmed
from harness.data.records import TOPIC, json_items, json_lines
from harness.data.topics import Formula, Topic, Topics, formulas_given
from harness.errors import counted_text, format_error
from harness.formulas.text.delimiters import Dollars
from harness.io.files import decoded
from harness.io.names import check_id, check_length

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def unique(topics: list[tuple[int, Topic]], path: str, remarks: Mapping[str, int] | None = None) -> Topics:
    """Returns the topics of (line, topic) in order, after checking that ids are valid and unique.

    `remarks` are those of the topics; by default, the numbers of their formulas.
    """
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
    in_order = tuple(topic for _, topic in topics)
    if remarks is None:
        remarks = Marked("", tuple(formula for topic in in_order for formula in topic.formulas)).remarks()
    return Topics(in_order, remarks)


def arqmath_xml(data: bytes, path: str, language: str = "eng") -> Topics:
    """Reads the organisers' XML: `Topic` with `number`, `Title`, `Question`, `Tags`; for Task 2 also the formula.

    Document types and entities are refused: topic files do not need them, and expanded entities can exhaust memory.
    The remarks of the topics are those of titles and questions (`harness.data.markup.Marked.remarks`).
    """
    from xml.etree import ElementTree

    for word in (b"<!DOCTYPE", b"<!ENTITY"):
        if word in data:
            at = data.count(b"\n", 0, data.index(word)) + 1
            raise format_error(path, at, f"{word.decode()[2:]} is not allowed in a topics file")
    if b"\x00" in data:
        # Mainly UTF-16, in which the search above does not find the words.
        raise format_error(path, data.count(b"\n", 0, data.index(b"\x00")) + 1, "byte 0x00 is not UTF-8 text")
    topics: list[tuple[int, Topic]] = []
    remarks: Counter[str] = Counter()
    parser: ElementTree.XMLPullParser[Element] = ElementTree.XMLPullParser(["end"])
    try:
        # Fed line by line, to know the line on which each topic ends.
        for number, line in enumerate(data.splitlines(keepends=True), 1):
            parser.feed(line)
            for _, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
                if element.tag == "Topic":
                    topics.append((number, _from_xml(element, language, remarks)))
        parser.close()
    except (LookupError, ValueError) as error:
        raise format_error(path, 1, f"encoding that is not known here: {error}; expected UTF-8") from None
    except ElementTree.ParseError as error:
        raise format_error(path, error.position[0], f"not valid XML: {str(error).partition(':')[0]}") from None
    return unique(topics, path, remarks)


def _from_xml(element: Element, language: str, remarks: Counter[str]) -> Topic:
    parts = {child.tag: "".join(child.itertext()) for child in element}
    markup = {child.tag: _inner(child) for child in element}
    title, body = read_markup(markup.get("Title", "")), read_markup(markup.get("Question", ""))
    for part in (title, body):
        remarks.update(part.remarks())
    tags = tuple(tag.strip() for tag in parts.get("Tags", "").split(",") if tag.strip())
    formulas = title.formulas + body.formulas
    if asked := parts.get("Formula_Id", "").strip():  # Task 2: the query formula
        formulas = (Formula(asked, trimmed(repair_entities(parts.get("Latex", "")))),)
    return Topic(element.get("number", ""), title.text, body.text, tags, formulas, language)


def _inner(element: Element) -> str:
    """Returns the markup in an element, which is usually escaped text; elements in it are markup too."""
    from xml.etree import ElementTree

    if not len(element):
        return element.text or ""
    return html.escape(element.text or "") + "".join(ElementTree.tostring(child, "unicode") for child in element)


def tsv(data: bytes, path: str, language: str = "eng") -> Topics:
    """Reads lines `id <TAB> text`, without a header; the text is the topic's title."""
    topics = []
    for number, line in numbered_lines(data, path):
        fields = line.split("\t")
        if len(fields) != 2 or not fields[1].strip():
            columns = counted_text(len(fields), "column")
            raise format_error(path, number, f"{columns}, expected an id, a tab and the topic's text")
        name, title = fields[0], fields[1].strip()
        topics.append((number, Topic(name, title, formulas=numbered_formulas("q_", title), language=language)))
    return unique(topics, path)


_TREC_TOPIC = re.compile(r"<top>(?P<inside>.*?)(?P<end></top>|(?=<top>)|\Z)", re.IGNORECASE | re.DOTALL)
_TREC_FIELD = re.compile(r"<(num|title|desc|narr|head|dom|smry|con|fac|nat|def|time)>", re.IGNORECASE)
_TREC_LABEL = {
    name: re.compile(rf"\A{label}:\s*", re.IGNORECASE)
    for name, label in {"num": "Number", "title": "Topic", "desc": "Description", "narr": "Narrative"}.items()
}


def trec(data: bytes, path: str, language: str = "eng") -> Topics:
    """Reads TREC's form: `<top>` ... `</top>` with `<num>`, `<title>`, `<desc>` and `<narr>`, closed or not.

    The labels that TREC puts before the texts (`Number:`, `Description:`) are removed. Description and narrative are
    the body, a line each; other fields of early TRECs (`<dom>`, `<con>`, ...) are ignored.
    Entities such as `&lt;` are kept as they are.
    """
    text = decoded(data, path, encoding="utf-8-sig")
    topics: list[tuple[int, Topic]] = []
    line, end = 1, 0
    for match in [*_TREC_TOPIC.finditer(text), None]:
        between = text[end : match.start() if match else len(text)]
        if words := between.split():
            at = line + between[: between.index(words[0])].count("\n")
            raise format_error(path, at, f"text outside of <top> and </top>: {' '.join(words)[:40]!r}")
        if match is None:
            break
        line += between.count("\n")
        if not match["end"]:
            raise format_error(path, line, "<top> has no </top>")
        topics.append((line, _from_trec(match["inside"], language, path, line)))
        line, end = line + match[0].count("\n"), match.end()
    return unique(topics, path)


def _from_trec(inside: str, language: str, path: str, line: int) -> Topic:
    """Returns the topic of the text between `<top>`, which is on a line, and `</top>`."""
    before, *parts = _TREC_FIELD.split(inside)
    fields: dict[str, str] = {}
    stray = before.strip()
    for tag, text in zip(parts[::2], parts[1::2], strict=True):
        name = tag.lower()
        value, *rest = re.split(rf"</{name}>", text, maxsplit=1, flags=re.IGNORECASE)
        stray = stray or "".join(rest).strip()
        if name in fields:
            raise format_error(path, line, f"the topic that begins here has two fields <{name}>")
        fields[name] = " ".join(value.split())
    if stray:
        raise format_error(path, line, f"the topic that begins here has text outside of its fields: {stray[:40]!r}")
    number, title, desc, narr = (label.sub("", fields.get(key, "")) for key, label in _TREC_LABEL.items())
    for key, value in (("num", number), ("title", title)):
        if not value:
            raise format_error(path, line, f"the topic that begins here has no <{key}>, or an empty one")
    body = "\n".join(filter(None, (desc, narr)))
    return Topic(number, title, body, formulas=numbered_formulas("q_", title, body), language=language)


def with_dollars(topics: Topics, dollars: Dollars) -> Topics:
    """Returns the topics with another rule for dollar signs; formulas that a reader took from the texts are read again.

    Examples
    --------
    >>> topics = with_dollars(tsv(b"q1\\twhat is $5 for $x$ against $10", "q.tsv"), "pandoc")
    >>> [formula.latex for formula in topics.topics[0].formulas]
    ['x']
    """

    def read(topic: Topic) -> Topic:
        taken = topic.formulas == numbered_formulas("q_", topic.title, topic.body, dollars=topic.dollars)
        formulas = numbered_formulas("q_", topic.title, topic.body, dollars=dollars) if taken else topic.formulas
        return replace(topic, formulas=formulas, dollars=dollars)

    return replace(topics, topics=tuple(map(read, topics)))


_FIELDS = {**dict.fromkeys(("_id", *TOPIC), "id"), **dict.fromkeys(("text", "query"), "title")}


def jsonl(data: bytes, path: str, language: str = "eng") -> Topics:
    """Reads JSON lines, or a JSON list of objects, with the fields of `Topic`; `id` and `title` are required.

    Their names may be those of BEIR and ir_datasets (`_id`, `query_id`, `text`, `query`), whose texts are of any
    subject, so that their dollar signs are read by pandoc's rule; `metadata` is ignored.
    """
    topics = []
    known = ("id", "title", "body", "tags", "formulas", "language", "attributes")
    for number, item in _objects(data, path):
        row = {_FIELDS.get(name, name): value for name, value in item.items() if name != "metadata"}
        try:
            if not {"id", "title"} <= set(row) <= set(known) or len(row) + ("metadata" in item) < len(item):
                raise ValueError(f"expected an object with the keys {', '.join(known)}")
            if not all(isinstance(row.get(key, ""), str) for key in ("id", "title", "body", "language")):
                raise ValueError("id, title, body and language must be text")
            if not isinstance(row.get("tags", []), list):
                raise ValueError("tags must be a list")
            tags = tuple(str(tag) for tag in row.get("tags", ()))
            formulas = formulas_given(row.get("formulas", []))
            attributes = {str(k): str(v) for k, v in row.get("attributes", {}).items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise format_error(path, number, f"not a topic: {error}") from None
        words = (row["id"], row["title"], row.get("body", ""))
        dollars: Dollars = "pairs" if item.keys().isdisjoint(_FIELDS) else "pandoc"
        spoken = row.get("language", language)
        topics.append((number, Topic(*words, tags, formulas, spoken, attributes, dollars=dollars)))
    return unique(topics, path)


def _objects(data: bytes, path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the objects of JSON lines or of a JSON list, each with its line."""
    lines = numbered_lines(data, path)
    if lines and lines[0][1].lstrip().startswith("["):
        return json_items(data, path)
    for number, line in lines:
        if line.lstrip()[0] != "{":
            raise format_error(
                path, number, "expected a JSON object on each line; for other formats set reader: tsv or trec"
            )
    return json_lines(lines, path)


def numbered_lines(data: bytes, path: str) -> list[tuple[int, str]]:
    """Returns the lines that are not blank, each with its number."""
    # Not splitlines(): questions may hold other line separators than the line feed.
    lines = enumerate(decoded(data, path, encoding="utf-8-sig").split("\n"), 1)
    return [(number, line.rstrip("\r")) for number, line in lines if line.strip()]


READERS: Mapping[str, Callable[[bytes, str, str], Topics]] = {
    "arqmath-xml": arqmath_xml,
    "jsonl": jsonl,
    "trec": trec,
    "tsv": tsv,
}


def attributes_csv(data: bytes, path: str, key: str, columns: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Reads attributes of topics from a CSV file with a header.

    Parameters
    ----------
    key : the column of topic ids.
    columns : attribute -> column.
    """
    rows = csv.DictReader(io.StringIO(decoded(data, path, encoding="utf-8-sig"), newline=""))
    out: dict[str, dict[str, str]] = {}
    try:
        header = rows.fieldnames or ()
        for column in (key, *columns.values()):
            if column not in header:
                raise format_error(path, 1, f"column {column!r} is missing; found {', '.join(header) or 'nothing'}")
        for row in rows:
            topic = (row[key] or "").strip()
            if topic in out:
                raise format_error(path, rows.line_num, f"topic {topic!r} is on an earlier line already")
            out[topic] = {name: row[column].strip() for name, column in columns.items() if row[column]}
    except csv.Error as error:
        raise format_error(path, rows.reader.line_num, f"not CSV: {error}") from None
    return out

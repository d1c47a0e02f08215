"""Forms of judgments: the columns of TREC and of BEIR, with or without a header, JSON and Parquet.

A form is recognised by the content, never by the name of the file, so that it is the same in a pipe.
"""

from __future__ import annotations

import re
from collections import Counter

from harness.data import preferences, records
from harness.data.columns import BOM
from harness.data.layouts import JUDGMENTS, without_comments
from harness.data.tables import check_text
from harness.errors import format_error
from harness.io.ids import check_id

THREE = ("topic", "document", "grade")
_SAMPLE = 1 << 14  # bytes
_OBJECT = re.compile(rb'\{\s*"')
_LIST = re.compile(rb"\[\s*(\{|$)")


def judgment_table(data: bytes, path: str) -> tuple[bytes, tuple[str, ...]]:
    """Returns judgments of any form as the bytes of a text table, line by line, and the names of its columns.

    Raises
    ------
    FormatError
        The content is empty or no text, a record lacks a column, or preferences have faults.

    Examples
    --------
    >>> judgment_table(b"query-id\\tcorpus-id\\tscore\\nq1\\td1\\t2\\n", "test.tsv")
    (b'\\nq1\\td1\\t2\\n', ('topic', 'document', 'grade'))
    >>> judgment_table(b'{"query_id": "q1", "doc_id": "d1", "relevance": 2}', "test.jsonl")
    (b'q1\\td1\\t2', ('topic', 'document', 'grade'))
    """
    if data.startswith(records.PARQUET) and data.endswith(records.PARQUET):
        return _trec_text(records.parquet_rows(data, path), path), THREE
    table = without_comments(data)
    check_text(table, path)
    start = len(BOM) if table.startswith(BOM) else 0
    start += len(table[start:]) - len(table[start:].lstrip())
    first, end, _ = table[start:].partition(b"\n")
    if _OBJECT.match(first):
        lines = enumerate(table.removeprefix(BOM).split(b"\n"), 1)
        return _trec_text(records.json_lines(lines, path), path), THREE
    if _LIST.match(first):
        return _trec_text(records.json_items(table, path), path), THREE
    if names := _header(first):
        if not table[start + len(first) :].strip():
            raise format_error(path, 0, "holds no judgments after its header")
        return b"\n" * (table.count(b"\n", 0, start) + len(end)) + table[start + len(first) + len(end) :], names
    if preferences.is_five_columns(table):
        rows = preferences.rows(table, path)
        return _placed([(number, "\t".join((topic, doc, repr(level)))) for number, (topic, doc, level) in rows]), THREE
    counts = Counter(len(line.split()) for line in table[start : start + _SAMPLE].split(b"\n")[:100] if line.strip())
    return table, THREE if counts and counts.most_common(1)[0][0] == len(THREE) else JUDGMENTS


def _header(line: bytes) -> tuple[str, ...]:
    """Returns the names of the columns if a line is a header, else nothing."""
    known = {**dict.fromkeys(records.TOPIC, "topic"), **dict.fromkeys(records.DOCUMENT, "document")}
    known |= dict.fromkeys(records.GRADE, "grade")
    names = tuple(known.get(field.decode("utf-8", "replace").lower(), "other") for field in line.split())
    return names if all(names.count(name) == 1 for name in THREE) else ()


def _trec_text(rows: records.Rows, path: str) -> bytes:
    lines = []
    for number, row in rows:
        topic, doc = (records.text_of_columns(row, names, path, number) for names in (records.TOPIC, records.DOCUMENT))
        check_id(topic, "query", path, number)
        check_id(doc, "document", path, number)
        given = records.value(row, records.GRADE, path, number)
        grade = records.as_text(given, path, number)
        if len(grade.split()) != 1:
            raise format_error(path, number, f"grade {grade!r:.40} is not a finite number")
        lines.append((number, "\t".join((topic, doc, grade))))
    if not lines:
        raise format_error(path, 0, "holds no judgments")
    return _placed(lines)


def _placed(lines: list[tuple[int, str]]) -> bytes:
    """Returns a text with each line at its number, so that messages name the lines of the file."""
    out: list[str] = []
    for number, line in lines:
        out += [""] * (number - 1 - len(out))
        out.append(line)
    return "\n".join(out).encode("utf-8", "surrogatepass")

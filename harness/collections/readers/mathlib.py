"""Readers of known-item topics for Mathlib: queries with the declarations that they mean.

`mathlib-qr`: MathlibQR of LeanSearch v2, 200 declarations, each asked for in up to six styles.
`mathlib-names`: the names under which Mathlib's own lists of well-known theorems and concepts have declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness.collections.files import table_rows
from harness.collections.forms import FileForm
from harness.data import topic_files
from harness.data.markup import numbered_formulas
from harness.data.records import json_items
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels
from harness.errors import format_error
from harness.io.files import sha256

# Column of the file -> style, in the order in which they become topics.
STYLES = {
    "q1a_lean": "lean",
    "q1b_latex": "latex",
    "q1c_natural": "natural",
    "q2_slogan": "slogan",
    "q3_nickname": "nickname",
    "q4_special_case": "special-case",
}
NAMES = ("source", "path_or_id", "query", "gold")


def qr_topics(data: bytes, path: str, language: str = "eng") -> Topics:
    """Returns a topic for each non-empty query: id `O1.latex`, attributes style, kind, difficulty, and `item` O1.

    All queries of an item have the same gold declaration, so significance tests use `item` as cluster.
    """
    numbered = []
    for line, row in _valid_rows(data, path):
        known = {key: str(row[key]) for key in ("kind", "difficulty") if row.get(key)}
        for column, style in STYLES.items():
            if query := str(row[column]).strip():
                name = f"{row['id']}.{style}"
                attributes = {"style": style, **known, "item": str(row["id"])}
                numbered.append(
                    (line, Topic(name, query, "", (), numbered_formulas(f"{name}.", query), language, attributes))
                )
    return topic_files.unique(numbered, path)


def qr_qrels(data: bytes, path: str, edition: str) -> Qrels:
    """Returns judgments with grade 1 for the gold declaration of each query."""
    judgments: dict[str, dict[str, float]] = {}
    for _, row in _valid_rows(data, path):
        for column, style in STYLES.items():
            if str(row[column]).strip():
                judgments[f"{row['id']}.{style}"] = {str(row["full_name"]): 1.0}
    return replace(Qrels.from_dict(edition, judgments), sha256=sha256(data))


def _valid_rows(data: bytes, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, row in json_items(data, path):
        for key in ("id", "full_name", *STYLES):
            if not isinstance(row.get(key), str):
                raise format_error(path, line, f"key {key!r} is {row.get(key)!r:.40}, expected text")
        if row["full_name"].split() != [row["full_name"]]:
            raise format_error(path, line, f"full_name {row['full_name']!r:.60} is not a name of a declaration")
        yield line, row


def names_topics(data: bytes, path: str, language: str = "eng") -> Topics:
    """Returns a topic for each name: id `undergrad-012` (list and row), attributes `list` and `section`.

    The section of the name in its list, if any, is not part of the query.
    """
    numbered = []
    for line, name, row in _names(data, path):
        attributes = {"list": row["source"]}
        if not row["source"].isdigit():
            attributes["section"] = row["path_or_id"].split(" / ")[0]
        query = row["query"]
        numbered.append((line, Topic(name, query, "", (), numbered_formulas(f"{name}.", query), language, attributes)))
    return topic_files.unique(numbered, path)


def names_qrels(data: bytes, path: str, edition: str) -> Qrels:
    """Returns judgments with grade 1 for each declaration of a name; some names have several."""
    judgments = {name: dict.fromkeys(row["gold"].split(), 1.0) for _, name, row in _names(data, path)}
    return replace(Qrels.from_dict(edition, judgments), sha256=sha256(data))


def _names(data: bytes, path: str) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Yields line, topic id and columns of each row."""
    count: dict[str, int] = {}
    for line, row in table_rows(topic_files.numbered_lines(data, path), path, NAMES):
        for column in ("source", "query", "gold"):
            if not row[column].strip():
                raise format_error(path, line, f"column {column!r} is empty")
        count[row["source"]] = count.get(row["source"], 0) + 1
        yield line, f"{row['source']}-{count[row['source']]:03d}", row


READERS = (
    FileForm("mathlib-qr", qr_topics, qr_qrels, first=lambda row: isinstance(row, Mapping) and "full_name" in row),
    FileForm("mathlib-names", names_topics, names_qrels, first=lambda first: set(NAMES) <= set(first)),
)

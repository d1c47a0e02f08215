"""Readers of exclusion files: excluded documents per topic, and the order of documents."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from harness.collections import forms
from harness.collections.files import file_content
from harness.data.records import unique_names
from harness.data.topic_files import numbered_lines
from harness.errors import counted_text, format_error
from harness.io.files import read_bytes
from harness.io.ids import check_id

Listed = dict[str, frozenset[str]]
Places = dict[str, float]


def read_listed(path: Path, reader: str = "pairs") -> Listed:
    """Returns topic -> ids of excluded documents.

    Parameters
    ----------
    reader : one of `LISTED`: `pairs` (a topic and a document on each line, separated by blanks or a tab) or `jsonl` (an
        object on each line with `topic` and the list `excluded`).

    Raises
    ------
    HarnessError
        A line has another format or an invalid id; the message names the line.
    """
    return LISTED[reader](read_bytes(path), str(path))


def read_places(path: Path, reader: str = "order") -> Places:
    """Returns id -> position.

    Parameters
    ----------
    reader : one of `known_places`: `order` (an id on each line; its position is the line number), `places` (an id and a
        number on each line, separated by blanks or a tab; equal numbers are the same position) or `stacks-order` (all
        statements of the Stacks project, from its folder).

    Raises
    ------
    HarnessError
        A line has another format, or an id occurs twice; the message names the line.
    """
    return known_places()[reader](file_content(path, reader), str(path))


def _read_columns(data: bytes, path: str, count: int, what: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(data, path):
        columns = line.split()
        if len(columns) != count:
            raise format_error(path, number, f"{counted_text(len(columns), 'column')}, expected {what}")
        yield number, columns


def _read_pairs(data: bytes, path: str) -> Listed:
    out: dict[str, set[str]] = {}
    for _, (topic, doc) in _read_columns(data, path, 2, "a topic and a document"):
        out.setdefault(topic, set()).add(doc)
    return {topic: frozenset(docs) for topic, docs in out.items()}


def _read_jsonl(data: bytes, path: str) -> Listed:
    out: Listed = {}
    for number, line in numbered_lines(data, path):
        try:
            row = json.loads(line, object_pairs_hook=unique_names)
            topic, docs = str(row["topic"]), row["excluded"]
            good = isinstance(docs, list) and all(map(_is_id, (row["topic"], *docs)))
        except (ValueError, KeyError, TypeError, RecursionError):
            good = False
        if not good:
            said = "expected a JSON object with 'topic' and a list 'excluded' of ids, each key once"
            raise format_error(path, number, said)
        check_id(topic, "topic", path, number)
        for doc in docs:
            check_id(str(doc), "document", path, number)
        if topic in out:
            raise format_error(path, number, f"topic {topic!r} is on an earlier line already")
        out[topic] = frozenset(str(doc) for doc in docs)
    return out


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _read_order(data: bytes, path: str) -> Places:
    out: Places = {}
    for number, (name,) in _read_columns(data, path, 1, "an id"):
        _check_first(out, name, path, number)
        out[name] = float(number)
    return out


def _read_places(data: bytes, path: str) -> Places:
    out: Places = {}
    for number, (name, text) in _read_columns(data, path, 2, "an id and a number"):
        _check_first(out, name, path, number)
        try:
            out[name] = float(text)
        except ValueError:
            out[name] = math.nan
        if not math.isfinite(out[name]):
            raise format_error(path, number, f"place {text!r} is not a number")
    return out


def _check_first(known: Places, name: str, path: str, number: int) -> None:
    if name in known:
        raise format_error(path, number, f"{name!r} is on an earlier line already")


LISTED: Mapping[str, Callable[[bytes, str], Listed]] = {"pairs": _read_pairs, "jsonl": _read_jsonl}


def known_places() -> Mapping[str, Callable[[bytes, str], Places]]:
    """Returns name -> reader of positions."""
    return {"order": _read_order, "places": _read_places, **forms.readers("places")}

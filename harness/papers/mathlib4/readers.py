"""The benchmark of A Semantic Search Engine for Mathlib4: 50 queries in 18 groups; a group shares its labels.

It is a manual download that must be converted to a JSON list of groups:

    [{"group": "1",
      "queries": [{"form": "natural description", "query": "If there exist injective maps ..."},
                  {"form": "theorem name", "query": "Schroeder Bernstein Theorem"}],
      "theorems": {"Function.Embedding.schroeder_bernstein": 2, "Function.Embedding.antisymm": 1}}]

Forms are `natural description`, `latex formula`, `theorem name` and `lean 4 term`; labels are 2 (exact match),
1 (relevant) and 0; theorems without a label are irrelevant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.collections.forms import FileForm
from harness.data import topic_files
from harness.data.markup import numbered_formulas
from harness.data.records import json_items
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, format_error, suggestion
from harness.io.files import read_bytes, sha256

# Table 1 of the paper.
FORMS = {"natural description": 18, "latex formula": 15, "theorem name": 7, "lean 4 term": 10}
GROUPS = 18


def read_topics(data: bytes, path: str, language: str = "eng") -> Topics:
    """Returns a topic for each query: id `GROUP.N`, attributes group and form."""
    pairs = []
    for line, group in _valid_groups(data, path):
        for name, query in _named_queries(group):
            text = str(query["query"]).strip()
            attributes = {"group": group["group"], "form": query["form"]}
            pairs.append((line, Topic(name, text, "", (), numbered_formulas(f"{name}.", text), language, attributes)))
    return topic_files.unique(pairs, path)


def read_qrels(data: bytes, path: str, edition: str) -> Qrels:
    """Returns for each query the labels of its group."""
    judgments = {
        name: {theorem: float(label) for theorem, label in group["theorems"].items()}
        for _, group in _valid_groups(data, path)
        for name, _ in _named_queries(group)
    }
    return replace(Qrels.from_dict(edition, judgments), sha256=sha256(data))


def check(path: Path) -> None:
    """Raises `HarnessError` unless a file is the whole benchmark: 18 groups and 50 queries in the paper's forms."""
    groups = list(_valid_groups(read_bytes(path), str(path)))
    forms = Counter(query["form"] for _, group in groups for query in group["queries"])
    if len(groups) != GROUPS or forms != Counter(FORMS):
        counts = ", ".join(f"{forms[form]} {form}" for form in FORMS)
        expected = ", ".join(f"{count} {form}" for form, count in FORMS.items())
        raise HarnessError(f"{path}: {len(groups)} groups with {counts}; expected {GROUPS} with {expected}")


def _named_queries(group: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    for number, query in enumerate(group["queries"], 1):
        yield f"{group['group']}.{number}", query


def _valid_groups(data: bytes, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, group in json_items(data, path):
        if reason := _fault(group):
            raise format_error(path, line, reason)
        yield line, group


def _fault(group: dict[str, Any]) -> str:
    """Returns the first fault of a group, or ""."""
    if set(group) != {"group", "queries", "theorems"}:
        return f"keys {', '.join(group) or 'none'}, expected group, queries, theorems"
    if not isinstance(group["group"], str) or group["group"].split() != [group["group"]]:
        return f"group {group['group']!r:.40} is not an id (text without blanks)"
    if not isinstance(group["queries"], list) or not group["queries"]:
        return "queries must be a list that is not empty"
    for query in group["queries"]:
        if not isinstance(query, dict) or set(query) != {"form", "query"}:
            return "a query must have the keys form and query"
        if query["form"] not in FORMS:
            return f"form {query['form']!r:.40} is unknown; {suggestion(str(query['form']), FORMS)}"
        if not isinstance(query["query"], str) or not query["query"].strip():
            return "a query is empty or no text"
    labels = group["theorems"]
    if not isinstance(labels, dict) or 2 not in labels.values():
        return "theorems must be names with labels, one of them 2: every query has an exact match"
    for name, label in labels.items():
        if name.split() != [name]:
            return f"theorem {name!r:.60} is not a name of a declaration"
        if type(label) is not int or label not in (0, 1, 2):
            return f"theorem {name!r:.60} has the label {label!r:.20}, expected 0, 1 or 2"
    return ""


def _is_group(first: object) -> bool:
    return isinstance(first, Mapping) and "queries" in first


READERS = (FileForm("leansearch", read_topics, read_qrels, first=_is_group, source="leansearch", check=check),)

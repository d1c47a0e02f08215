"""Findings on files as SARIF 2.1.0 (OASIS), the form that code hosts show beside the lines of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


@dataclass(frozen=True)
class SarifRule:
    """A rule: its name, its level (`error`, `warning` or `note`), a title, and what to do about a finding."""

    name: str
    level: str
    title: str
    help: str


@dataclass(frozen=True)
class SarifFinding:
    """A finding of the rule of this name in a file; `line` is from 1, or 0 for the file as a whole."""

    rule: str
    message: str
    path: str
    line: int = 0


def sarif(results: Sequence[SarifFinding], rules: Sequence[SarifRule], tool: str, version: str) -> dict[str, Any]:
    """Returns findings as SARIF: one run of one tool, paths relative where they were given so.

    Examples
    --------
    >>> finding, rule = SarifFinding("ties", "3 results are tied", "a.run", 2), SarifRule("ties", "note", "Ties", "")
    >>> found = sarif([finding], [rule], "x", "1")
    >>> found["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    {'startLine': 2}
    """
    places = {rule.name: place for place, rule in enumerate(rules)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": tool, "version": version, "rules": [_rule_object(rule) for rule in rules]}},
                "columnKind": "unicodeCodePoints",
                "results": [_result_object(each, rules[places[each.rule]], places[each.rule]) for each in results],
            }
        ],
    }


def _rule_object(rule: SarifRule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.title},
        "help": {"text": rule.help or rule.title},
        "defaultConfiguration": {"level": rule.level},
    }


def _result_object(each: SarifFinding, rule: SarifRule, place: int) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": uri(each.path)}}
    if each.line:
        location["region"] = {"startLine": each.line}
    return {
        "ruleId": rule.name,
        "ruleIndex": place,
        "level": rule.level,
        "message": {"text": each.message},
        "locations": [{"physicalLocation": location}],
    }


def uri(path: str) -> str:
    """Returns a path as a URI reference; a relative path stays relative.

    Examples
    --------
    >>> uri("runs/my run.txt"), uri("/data/a.run")
    ('runs/my%20run.txt', 'file:///data/a.run')
    """
    pure = PurePath(path)
    if pure.is_absolute():
        return pure.as_uri()
    return quote(pure.as_posix())

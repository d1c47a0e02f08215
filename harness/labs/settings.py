"""The keys of `lab.yaml`: what they may be, and the file with them."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from harness.collections.corpus import IRDS
from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.io.checks import Words, check_number, check_whole_number
from harness.labs.names import is_address, server_of
from harness.scoring.comparison import Correction
from harness.scoring.measures import parse_measures

Feedback = Literal["noisy", "none"]
Required = Literal["description", "code", "external_data"]
DownloadKind = Literal["topics", "documents", "rules"]


def _known(key: str, value: object) -> str:
    """Checks that a value names a configuration of the group `key`; returns it."""
    if not isinstance(value, str):
        raise HarnessError(f"key {key!r} is {value!r}, expected text")
    known = config.names(key)
    if value not in known and not (key == "collection" and value.startswith(IRDS)):
        near = suggestion(value, known)
        near = f"; {near}" if near.startswith("did you mean") else ""  # a list of all helps nobody who lacks the file
        missing = f"conf/{key}/{value}.yaml is missing; participants get it from the organisers"
        raise HarnessError(f"{key} {value!r} is unknown: {missing}{near}")
    return value


def moment(key: str, value: object) -> datetime:
    """Parses a date and time with its time zone, such as `2026-09-01T23:59:59+02:00`; raises HarnessError otherwise."""
    expected = "expected date, time and time zone such as 2026-09-01T23:59:59+02:00 (Z for UTC, -12:00 for AoE)"
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise HarnessError(f"key {key!r} is {value!r}, {expected}") from None
    if time.tzinfo is None:
        raise HarnessError(f"key {key!r} is {str(value)!r}, which has no time zone; {expected}")
    return time


def _checked_measures(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise HarnessError(f"key {key!r} is {value!r}, expected a list such as [nDCG, AP, P@10]")
    with_names = parse_measures(str(each) for each in value)
    return tuple(str(measure) for measure in with_names)


def _checked_decimals(key: str, value: object) -> int:
    if check_whole_number(key, value, low=1) > 6:
        raise HarnessError(f"key {key!r} is {value!r}, expected a whole number from 1 to 6")
    return int(str(value))


def _checked_positive(key: str, value: object, *, high: float = math.inf) -> float:
    """Returns a number above 0."""
    with suppress(HarnessError):
        if number := check_number(key, value, high=high):
            return number
    most = f", at most {high:g}" if math.isfinite(high) else ""
    raise HarnessError(f"key {key!r} is {value!r}, expected a number above 0{most}")


def _checked_address(key: str, value: object) -> str:
    if not isinstance(value, str) or not is_address(value):
        raise HarnessError(f"key {key!r} is {value!r}, expected an address such as https://example.org/lab/")
    return server_of(value) if key == "server" else value


_Count = Annotated[int, partial(check_whole_number, low=1)]


@dataclass(frozen=True)
class LabFile:
    """Keys of `lab.yaml`.

    Attributes
    ----------
    title : of the lab.
    collection, edition, corpus, protocol, measures : as in `harness.task`; the first measure ranks. Private ones, such
        as Judged@k, are dropped if the judgments are private.
    baseline : submission that others are compared with, as `team / label`; empty for none.
    alpha, correction : level and correction of the tests.
    family : number of tests to correct for, None for those made together.
    deadline : time after which only post-hoc runs are accepted; None for no deadline.
    cap, cap_per_day : maximum number of submissions per team, in all and per day (UTC), including withdrawn ones but
        not refunded ones. None for no limit.
    invalid_cap : maximum number of invalid files per team. None for no limit.
    results, least_results : maximum number of results per topic, and minimum per answered topic.
    most_bytes : maximum size of a run's file, uncompressed.
    decimals : decimals of the means shown.
    private : whether the judgments are private: until the end, participants see only what `feedback` says.
    feedback : with private judgments, `noisy` means of the first measure and ranks by them, or `none`.
    noise : width of the noise of the means; see `shown_scores.width_of`.
    step : to which a lab of an earlier version rounded its means.
    ladder : whether a team sees a mean only if it exceeds the best one shown to it by more than the noise's width.
    held_out : whether half of the topics are held out: participants see means of the others until the end.
    pseudonyms_until : time until which new teams have pseudonyms; None for no pseudonyms.
    per_topic : whether participants see scores per topic.
    require : fields that a submission must fill in: description, code, external_data.
    topic_pages : whether the lab's site shows topics with their judged documents and all runs' scores.
    downloads : what participants may download from its server; None for the default, see `downloads.permitted`.
    about, rules, contact : texts of the lab's site.
    address : where the site is published, empty if unknown.
    server : address of the lab's server, without a slash at its end; empty without one.
    """

    title: Words
    collection: Annotated[str, _known]
    edition: Words | None = None
    corpus: Annotated[str, _known] | None = None
    protocol: Annotated[str, _known] | None = None
    measures: Annotated[tuple[str, ...], _checked_measures] | None = None
    baseline: str | None = None
    alpha: Annotated[float, partial(_checked_positive, high=0.5)] = 0.05
    correction: Correction = "holm"
    family: _Count | None = None
    deadline: Annotated[datetime, moment] | None = None
    cap: _Count | None = None
    cap_per_day: _Count | None = None
    invalid_cap: _Count | None = None
    results: _Count | None = None
    least_results: _Count | None = None
    most_bytes: _Count | None = None
    decimals: Annotated[int, _checked_decimals] | None = None
    private: bool = False
    feedback: Feedback | None = None
    noise: Annotated[float, _checked_positive] | None = None
    step: Annotated[float, partial(_checked_positive, high=1.0)] | None = None
    ladder: bool = False
    held_out: bool = False
    pseudonyms_until: Annotated[datetime, moment] | None = None
    per_topic: bool | None = None
    require: tuple[Required, ...] = ()
    topic_pages: bool | None = None
    downloads: tuple[DownloadKind, ...] | None = None
    about: Words | None = None
    rules: tuple[Words, ...] = ()
    contact: Words | None = None
    address: Annotated[str, _checked_address] = ""
    server: Annotated[str, _checked_address] = ""


_KEYS = Path(__file__).with_name("keys.txt")  # keys in the order of new files, with their comments


def lab_text(settings: dict[str, Any]) -> str:
    """Returns the content of `lab.yaml`: these settings, and the other keys as comments."""
    lines = ["# Settings of a lab. Once there are submissions, change only title, baseline, deadline and caps."]
    for key, _, text in (line.partition(":") for line in _KEYS.read_text(encoding="utf-8").splitlines()):
        comment = f"  #{text}" if text else ""
        if key in settings:
            value = settings[key]
            plain = value.isoformat() if isinstance(value, datetime) else value
            plain = list(plain) if isinstance(plain, tuple) else plain
            shown = yaml.safe_dump(plain, default_flow_style=True, allow_unicode=True, width=1 << 20)
            lines.append(f"{key}: {shown.removesuffix(chr(10)).removesuffix('...').rstrip()}{comment}")
        else:
            lines.append(f"# {key}:{comment}")
    return "\n".join(lines) + "\n"

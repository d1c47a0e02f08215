"""What pages show of the results that were built: the first runs of the leaderboard, and the page of a run."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.labs.board import Mean, Span, leaderboard_from_json, shown_columns
from harness.labs.lab import Lab
from harness.labs.server.lab_snapshot import SITE
from harness.labs.server.service import Service
from harness.labs.submissions import Submission

_FIRST = 5  # runs of the leaderboard that the first page shows


def leaders(service: Service, lab: Lab) -> list[list[str]]:
    """Returns the first rows of the leaderboard, below a heading: rank, run, group, mean and its interval.

    Empty if the leaderboard is not built. It shows what the page of the leaderboard shows; if no run is ranked, the
    other runs.
    """
    content = _json(service.state / SITE / service.base / "leaderboard.json")
    if not content:
        return []
    board = leaderboard_from_json(content)
    shown = (board.ranked or board.others)[:_FIRST]
    if not shown:
        return []
    all_columns = shown_columns(board, "server", board.measures[:1])
    columns = [each for each in all_columns if each.name != "group" or any(run.group for run in shown)]
    spans = [_interval_text(lab, run.mean(board.measures[0])) for run in shown]
    rows = [[each.name for each in columns], *([_cell(lab, each.value(run)) for each in columns] for run in shown)]
    names, last = ["run", *(run.name for run in shown)], ["95% interval", *spans]
    shows = any(spans)
    return [
        [*row[:1], name, *row[1:], *([span] if shows else [])]
        for row, name, span in zip(rows, names, last, strict=True)
    ]


def _interval_text(lab: Lab, mean: Mean) -> str:
    return "" if mean.low is None or mean.high is None else f"{lab.text(mean.low)} to {lab.text(mean.high)}"


def _cell(lab: Lab, value: str | float | Span | Mean | None) -> str:
    match value:
        case Mean():
            return "n/a" if value.value is None else lab.text(value.value)
        case Span():
            return "" if value.low is None else f"{value.low} to {value.high}"
    return "–" if value is None else str(value)


def final_page(service: Service) -> str:
    """Returns the address of the final ranking of a lab with private judgments; empty if it is not built."""
    path = service.state / SITE / service.base / "final.html"
    return f"/site/{service.base}/final.html" if path.is_file() else ""


def result_page(service: Service, run: Submission) -> str:
    """Returns the address of a run's page; empty if it is not built yet."""
    path = _built_file(service, run, "html")
    inside = path.relative_to(service.state / SITE).as_posix()
    return f"/site/{quote(inside)}" if path.is_file() else ""


def rank_and_group(service: Service, run: Submission) -> tuple[int | None, str]:
    """Returns the rank and the group of a run on the leaderboard as built; None and empty if it is not ranked."""
    content = _json(_built_file(service, run, "json"))
    return content.get("rank"), str(content.get("group", ""))


def _built_file(service: Service, run: Submission, ending: str) -> Path:
    from harness.labs.site.lab_view import submission_key

    return service.state / SITE / service.base / "runs" / f"{submission_key(run)}.{ending}"


def _json(path: Path) -> dict[str, Any]:
    """Returns a JSON object of the site; empty if it is not there."""
    try:
        return _read_json(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=16)
def _read_json(path: Path, _: int) -> dict[str, Any]:
    content = json.loads(path.read_bytes())
    return content if isinstance(content, dict) else {}

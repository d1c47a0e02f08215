"""What pages show of the results that were built: the first runs of the leaderboard, and the page of a run."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.labs.lab import Lab
from harness.labs.server.live import SITE
from harness.labs.server.service import Service
from harness.labs.submissions import Submission
from harness.scoring.protocol import load_protocol

_FIRST = 5  # runs of the leaderboard that the first page shows


def leaders(service: Service, lab: Lab) -> list[list[str]]:
    """Returns the first rows of the leaderboard, below a heading: rank, run, group, mean and its interval.

    Empty if the leaderboard is not built. It shows what the page of the leaderboard shows; if no run is ranked, the
    other runs.
    """
    board = _json(service.state / SITE / service.base / "leaderboard.json")
    shown = [each for each in board.get("ranked") or board.get("others", ()) if isinstance(each, dict)][:_FIRST]
    if not shown:
        return []
    measure = shown[0]["means"][0]["measure"]
    grouped, spans = any(each["group"] for each in shown), any(_span(lab, each) for each in shown)
    label = load_protocol(lab.protocol).label(measure)
    rows = [["rank", "run", *(["group"] if grouped else []), label, *(["95% interval"] if spans else [])]]
    for each in shown:
        mean = each["means"][0]["value"]
        group, span = [each["group"]] if grouped else [], [_span(lab, each)] if spans else []
        rows.append([str(each["rank"] or "–"), each["name"], *group, "n/a" if mean is None else lab.text(mean), *span])
    return rows


def _span(lab: Lab, run: dict[str, Any]) -> str:
    low, high = run["means"][0]["low"], run["means"][0]["high"]
    return "" if low is None or high is None else f"{lab.text(low)} to {lab.text(high)}"


def final_page(service: Service) -> str:
    """Returns the address of the final ranking of a lab with private judgments; empty if it is not built."""
    path = service.state / SITE / service.base / "final.html"
    return f"/site/{service.base}/final.html" if path.is_file() else ""


def result_page(service: Service, run: Submission) -> str:
    """Returns the address of a run's page; empty if it is not built yet."""
    path = _path(service, run, "html")
    inside = path.relative_to(service.state / SITE).as_posix()
    return f"/site/{quote(inside)}" if path.is_file() else ""


def place_of(service: Service, run: Submission) -> tuple[int | None, str]:
    """Returns the rank and the group of a run on the leaderboard as built; None and empty if it is not ranked."""
    found = _json(_path(service, run, "json"))
    return found.get("rank"), str(found.get("group", ""))


def _path(service: Service, run: Submission, ending: str) -> Path:
    from harness.labs.site.field import key_of

    return service.state / SITE / service.base / "runs" / f"{key_of(run)}.{ending}"


def _json(path: Path) -> dict[str, Any]:
    """Returns a JSON object of the site; empty if it is not there."""
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=16)
def _read(path: Path, _: int) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    return found if isinstance(found, dict) else {}

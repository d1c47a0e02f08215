"""Sweeps and searches: their records, runs and reports, and how they are killed."""

from __future__ import annotations

import json

from tools import Place

MINI = ("collection=mini-task1", "corpus=mini-answers")


def points(place: Place) -> list[dict[str, object]]:
    """The records of the one sweep in the folder."""
    (folder,) = (place.here / "reports" / "sweeps").iterdir()
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def runs(place: Place) -> dict[str, bytes]:
    return {name: content for name, content in place.files("runs").items() if name.endswith(".run")}


def summary(place: Place) -> dict[str, bytes]:
    """The report of the sweep, whose folder is named after the command line."""
    found = {name.partition("/report/")[2]: content for name, content in place.files("reports").items()}
    return {name: content for name, content in found.items() if name}

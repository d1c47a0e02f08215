"""Sweeps and searches: their records, runs and reports, and how they are killed."""

from __future__ import annotations

import json
import random
import signal
import time

from tools import Place

MINI = ("collection=mini-task1", "corpus=mini-answers")


def points(place: Place) -> list[dict[str, object]]:
    """The records of the one sweep in the folder."""
    (folder,) = (place.here / "reports" / "sweeps").iterdir()
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def runs(place: Place) -> dict[str, bytes]:
    return {name: content for name, content in place.files("runs").items() if name.endswith(".run")}


def made(place: Place) -> int:
    """How many runs are there, by their names: while a sweep goes on, files come and go."""
    return len(list((place.here / "runs").glob("*/*.run")))


def summary(place: Place) -> dict[str, bytes]:
    """The report of the sweep, whose folder is named after the command line."""
    found = {name.partition("/report/")[2]: content for name, content in place.files("reports").items()}
    return {name: content for name, content in found.items() if name}


def killed_at_random(place: Place, arguments: tuple[str, ...], times: int) -> None:
    """Kills a sweep at random moments, and lets it end at last."""
    rng = random.Random(5)
    for _ in range(times):
        before = made(place)
        process = place.start(*arguments)
        target = before + rng.randrange(1, 4)
        deadline = time.monotonic() + 60
        while made(place) < target and process.poll() is None and time.monotonic() < deadline:
            time.sleep(rng.random() / 100)
        assert process.poll() is None, "the sweep ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.communicate()
    done = place.run(*arguments)
    assert done.code == 0, done.err
    assert "reused, same configuration" in done.err

"""Progress over the points of a sweep: jobs of any launcher append to a file, which the command that waits shows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from threading import Event, Thread
from typing import Any

from harness.experiments.overrides import has_several, override_key
from harness.experiments.sweep import SweepPoint, first_label, value_of
from harness.io.console import clock, in_time, log_line
from harness.io.files import write_atomic

FILE = "points.progress"  # in the folder of the sweep: a line of JSON for each point that ended
_POLL = 0.05  # seconds; a line should come before those of the next point
_OVERRIDE = "override /hydra/sweeper"  # in the defaults of a sweep's file


def note_point(folder: Path, point: SweepPoint, varied: Iterable[str]) -> None:
    """Appends a point that ended to the file of a sweep that is shown; does nothing if none is."""
    words = {key: value for key, value in point.overrides.items() if key in set(varied)} or point.overrides
    value = value_of(point, first_label(point)) if point.means else math.nan
    line = {
        "setting": " ".join(f"{key.removeprefix('system.')}={rounded(text)}" for key, text in words.items()),
        "label": first_label(point) if point.means else "",
        "value": None if math.isnan(value) else value,
        "scored_on": point.scored_on,
    }
    with suppress(OSError), (folder / FILE).open("r+", encoding="utf-8") as file:
        file.seek(0, 2)
        file.write(json.dumps(line) + "\n")


@contextmanager
def show_points(folder: Path, total: int | None, *, lowest: bool = False) -> Iterator[None]:
    """Shows a line on standard error for each point that ends in the block.

    Parameters
    ----------
    total : number of points; None if it is unknown.
    lowest : whether the search is for the lowest value.
    """
    write_atomic(folder / FILE, "")
    shown = _Shown(total, lowest)
    ended = Event()

    def look() -> None:
        while not ended.wait(_POLL):
            shown.read(folder / FILE)

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        shown.read(folder / FILE)
        (folder / FILE).unlink(missing_ok=True)


class _Shown:
    """The lines of the file that were shown."""

    def __init__(self, total: int | None, lowest: bool) -> None:
        self.total, self.choose = total, min if lowest else max
        self.word = "lowest" if lowest else "best"
        self.count, self.begin = 0, clock()
        self.best: dict[str, float] = {}

    def read(self, path: Path) -> None:
        """Shows the lines that are new; the last one may be incomplete."""
        lines = path.read_text("utf-8", "replace").split("\n")[:-1] if path.is_file() else []
        for line in lines[self.count :]:
            self.count += 1
            with suppress(ValueError, KeyError):  # two processes may have written at once
                log_line(self.line(json.loads(line)))

    def line(self, point: Mapping[str, str | float | None]) -> str:
        """Returns the line of the latest point."""
        value, of = point["value"], f"{self.count}" if self.total is None else f"{self.count} of {self.total}"
        said = "failed" if not point["label"] else f"{point['label']} undefined"
        if isinstance(value, float):
            where = str(point["scored_on"])
            self.best[where] = self.choose(value, self.best.get(where, value))
            # Means on different topics or judgments are not compared.
            best = f" ({self.word} {self.best[where]:.3f})" if len(self.best) == 1 else ""
            said = f"{point['label']} {value:.3f}{best}"
        left = (self.total or self.count) - self.count
        time = f", {in_time((clock() - self.begin) / self.count * left)} left" if left > 0 else ""
        return f"point {of}, {point['setting']}: {said}{time}"


def rounded(value: str) -> str:
    """Returns a value of a setting with four digits, if it is a number with more.

    >>> rounded("1.0488135039273248"), rounded("0.05"), rounded("12345"), rounded("porter")
    ('1.049', '0.05', '12345', 'porter')
    """
    try:
        number = float(value)
    except ValueError:
        return value
    return min(f"{number:.4g}", value, key=len) if math.isfinite(number) else value


def planned_points(sweep: Mapping[str, Any], words: Iterable[str]) -> tuple[int | None, bool]:
    """Returns the number of points of a sweep (None if it cannot be counted), and whether it searches for the lowest.

    Parameters
    ----------
    sweep : the file of the sweep, if there is one.
    words : the overrides of the command line, which replace those of the file.

    Examples
    --------
    >>> planned_points({}, ["system.k1=0.5,1", "system.b=range(0,1,0.25)", "seed=3"])
    (8, False)
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    settings = (sweep.get("hydra") or {}).get("sweeper") or {}
    given = {key: str(value) for key, value in (settings.get("params") or {}).items()}
    given |= {override_key(word): word.partition("=")[2] for word in words if "=" in word}
    chosen = next((each[_OVERRIDE] for each in sweep.get("defaults", ()) if _OVERRIDE in each), "basic")
    if given.get("hydra/sweeper", chosen) != "basic":
        trials = given.get("hydra.sweeper.n_trials", str(settings.get("n_trials", 20)))
        lowest = "minimize" in given.get("hydra.sweeper.direction", str(settings.get("direction")))
        return int(trials) if trials.isdecimal() else None, lowest
    try:
        several = [f"{key}={value}" for key, value in given.items() if has_several(value)]
        swept = OverridesParser.create().parse_overrides(several)
        return prod(sum(1 for _ in each.sweep_iterator()) for each in swept if each.is_sweep_override()), False
    except Exception:
        return None, False

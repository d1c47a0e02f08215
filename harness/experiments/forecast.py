"""Forecast of an experiment: its cells, which of them are finished, and the estimated time of the others."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.errors import counted_text
from harness.experiments.experiment import CONDITION, Experiment, ExperimentCell


@dataclass(frozen=True)
class Forecast:
    """State of a cell before it is run.

    Attributes
    ----------
    seconds : what its run took; None if it is not finished.
    reason : why it cannot be run here; empty if it can.
    """

    cell: ExperimentCell
    seconds: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class TimeEstimate:
    """Estimated time of the unfinished cells.

    Attributes
    ----------
    seconds : of all of them; None if no cell is finished.
    same, alike, others : how many are estimated by finished cells of the same labels (another seed), by those of their
        own condition, and by all finished cells.
    """

    seconds: float | None
    same: int
    alike: int
    others: int


def forecast_cells(cells: Sequence[Forecast]) -> TimeEstimate:
    """Estimates the time of the unfinished cells: each takes the mean of the nearest finished ones.

    Those of the same labels, or else of its condition, or else of all: a training of 20,000 pairs takes what another
    seed's took, not what those of 1,000 do.

    Examples
    --------
    >>> done = [Forecast(ExperimentCell(("a",), None, ()), 2.0), Forecast(ExperimentCell(("a",), None, ()), 4.0)]
    >>> forecast_cells([*done, Forecast(ExperimentCell(("a",), None, ())), Forecast(ExperimentCell(("b",), None, ()))])
    TimeEstimate(seconds=6.0, same=1, alike=0, others=1)
    """
    took: dict[tuple[str, ...], list[float]] = {}
    for each in cells:
        if each.seconds is not None:
            for key in {each.cell.labels, each.cell.labels[:1], ()}:
                took.setdefault(key, []).append(each.seconds)
    waiting = [each.cell.labels for each in cells if each.seconds is None and not each.reason]
    if not took:
        return TimeEstimate(None if waiting else 0.0, 0, 0, len(waiting))
    keys = [next(key for key in (labels, labels[:1], ()) if key in took) for labels in waiting]
    total = sum(statistics.mean(took[key]) for key in keys)
    same = sum(key == labels for key, labels in zip(keys, waiting, strict=True))
    others = keys.count(())
    return TimeEstimate(float(total), same, len(keys) - same - others, others)


def forecast_lines(name: str, experiment: Experiment, scale: str, cells: Sequence[Forecast]) -> Iterator[str]:
    """Yields the lines of a dry run: the whole experiment, each condition, and the estimate."""
    conditions = list(dict.fromkeys(each.cell.labels[0] for each in cells))
    seeds = list(dict.fromkeys(each.cell.seed for each in cells if each.cell.seed is not None))
    told = [
        counted_text(len(conditions), CONDITION),
        *(f"{axis}: {len(experiment.labels(axis))}" for axis in experiment.axes),
    ]
    told += [f"seeds {', '.join(seeds)}"] if seeds else []
    told += [f"{counted_text(len(cells), 'cell')}, {counted_text(experiment.tests, 'test')}"]
    yield f"experiment {name}, scale {scale}: {'; '.join(told)}"
    if said := experiment.scale_of(scale).says:
        yield f"scale {scale}: {said}"
    for condition in conditions:
        of = [each for each in cells if each.cell.labels[0] == condition]
        done = [each.seconds for each in of if each.seconds is not None]
        lost = list(dict.fromkeys(each.reason for each in of if each.reason))
        line = f"  {condition}: {len(done)} of {counted_text(len(of), 'cell')} finished"
        line += f", {duration(statistics.mean(done))} each" if done else ""
        line += f"; {sum(bool(each.reason) for each in of)} cannot be run here: {'; '.join(lost)}" if lost else ""
        yield line
    yield _in_words(forecast_cells(cells), sum(each.seconds is None and not each.reason for each in cells))


def _in_words(estimate: TimeEstimate, waiting: int) -> str:
    if not waiting:
        return "nothing is left that can be run here"
    left = f"{counted_text(waiting, 'cell')} left to run"
    if estimate.seconds is None:
        return f"{left}; no cell is finished yet, by which their time could be estimated"
    how = [f"{estimate.same} by finished cells of the same labels"] if estimate.same else []
    how += [f"{estimate.alike} by finished cells of their condition"] if estimate.alike else []
    how += [f"{estimate.others} by the mean of all finished cells"] if estimate.others else []
    return f"{left}: about {duration(estimate.seconds)} ({', '.join(how)})"


def duration(seconds: float) -> str:
    """Returns a time in words.

    Examples
    --------
    >>> duration(0.34), duration(75), duration(7300)
    ('0.3 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"

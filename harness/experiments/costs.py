"""Costs of an experiment's rows, from the metadata files of their runs; unknown costs are None, never 0."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.store import cost, sidecar

Side = Mapping[str, Any]
MIB = 2.0**20


@dataclass(frozen=True)
class CostColumn:
    """A column of the table of costs.

    Attributes
    ----------
    title : with the unit shown; `per` is this unit in the units of `of` (s, bytes).
    of : computes the value from the metadata files of a row's runs; None if unknown.
    """

    title: str
    of: Callable[[Sequence[Side]], float | None]
    digits: int = 0
    per: float = 1.0


def of_run(run: Path) -> dict[str, Any]:
    """Returns what the metadata file of a run says of the work; empty if it is damaged."""
    return sidecar.costs(sidecar.sidecar_path(run))


def _with_parts(side: Side) -> Iterator[Side]:
    """Yields what a run notes itself, then what each system of a fusion notes."""
    yield side
    parts = side.get(cost.PARTS)
    for part in parts.values() if isinstance(parts, Mapping) else ():
        if isinstance(part, Mapping):
            yield from _with_parts(part)


def _numbers(value: object) -> list[float]:
    """Returns the numbers of a list; nothing of any other value."""
    items = value if isinstance(value, list) else []
    return [float(number) for number in items if isinstance(number, int | float) and not isinstance(number, bool)]


def _number(side: Side, *names: str) -> float | None:
    """Returns the largest of some values above 0, those of the systems of a fusion included."""
    numbers = [number for one in _with_parts(side) for name in names for number in _numbers([one.get(name)])]
    return max((number for number in numbers if number > 0), default=None)


def _most(*names: str) -> Callable[[Sequence[Side]], float | None]:
    def of(sides: Sequence[Side]) -> float | None:
        return max((value for side in sides if (value := _number(side, *names)) is not None), default=None)

    return of


def _index(sides: Sequence[Side]) -> float | None:
    """Returns the largest index; that of a fusion is unknown if one of its systems counts its own."""
    whole = [side for side in sides if not any(cost.INDEX in part for part in list(_with_parts(side))[1:])]
    sizes = [_number(side, cost.INDEX) or _number(side, cost.STORED) for side in whole]
    return max((value for value in sizes if value is not None), default=None)


def _seconds_of_epochs(side: Side) -> list[float]:
    return [number for one in _with_parts(side) for number in _numbers(one.get(cost.EPOCHS))]


def _seconds_per_epoch(sides: Sequence[Side]) -> float | None:
    seconds = [number for side in sides for number in _seconds_of_epochs(side)]
    return statistics.mean(seconds) if seconds else None


def _training(sides: Sequence[Side]) -> float | None:
    totals = [sum(numbers) for side in sides if (numbers := _seconds_of_epochs(side))]
    return statistics.mean(totals) if totals else None


def together(side: Side) -> int:
    """Returns the number of topics that were searched at one time."""
    return int(_number(side, cost.TOGETHER) or 1)


def latencies(sides: Sequence[Side]) -> list[float]:
    """Returns the seconds of all queries of some runs."""
    recorded = [side.get(cost.LATENCY) for side in sides]
    return [number for value in recorded if isinstance(value, Mapping) for number in _numbers(list(value.values()))]


def _latency(sides: Sequence[Side]) -> float | None:
    seconds = latencies(sides)
    return statistics.median(seconds) if seconds else None


def _rate(sides: Sequence[Side]) -> float | None:
    # The rate of a fusion follows from its latencies, which are sums over its systems.
    said = [number for side in sides for number in _numbers([side.get(cost.RATE)]) if number > 0]
    seconds = latencies(sides)
    if said or not sum(seconds):
        return statistics.mean(said) if said else None
    return len(seconds) / sum(seconds)


# Key `costs` of an experiment -> column.
COLUMNS: Mapping[str, CostColumn] = {
    "pairs": CostColumn("pairs trained on", _most(cost.PAIRS)),
    "epoch": CostColumn("epoch, s", _seconds_per_epoch, 1),
    "training": CostColumn("training, s", _training, 1),
    "parameters": CostColumn("parameters", _most(cost.PARAMETERS)),
    "memory": CostColumn("memory, MiB", _most(cost.MEMORY, cost.TRAINING_MEMORY), 0, MIB),
    "gpu_memory": CostColumn("GPU memory, MiB", _most(cost.GPU_MEMORY, cost.TRAINING_GPU_MEMORY), 0, MIB),
    "index": CostColumn("index, MiB", _index, 2, MIB),
    "vectors": CostColumn("vectors", _most(cost.VECTORS)),
    "latency": CostColumn("a query, ms", _latency, 2, 0.001),
    "rate": CostColumn("queries a second", _rate, 1),
}


def losses(side: Side) -> dict[str, list[tuple[float, float]]]:
    """Returns the recorded losses of trainings: `step: training loss`, `epoch: validation loss` ... -> points (x, y).

    Those of a system of a fusion begin with its name: `bi-encoder, epoch: validation loss`.
    """
    out: dict[str, list[tuple[float, float]]] = {}
    parts = side.get(cost.PARTS)
    for system, part in parts.items() if isinstance(parts, Mapping) else ():
        if isinstance(part, Mapping):
            out |= {f"{system}, {kind}": points for kind, points in losses(part).items()}
    steps = side.get(cost.STEPS)
    for entry in steps if isinstance(steps, list) else []:
        if len(numbers := _numbers(entry)) == 2:
            out.setdefault("step: training loss", []).append((numbers[0], numbers[1]))
    log = side.get(cost.LOG)
    for entry in log if isinstance(log, list) else []:
        at = _numbers([entry.get("epoch")]) if isinstance(entry, Mapping) else []
        for name, value in entry.items() if at else ():
            if str(name).endswith("loss") and (numbers := _numbers([value])):
                out.setdefault(f"epoch: {name}", []).append((at[0], numbers[0]))
    return out

"""What the steps took that made a paper's runs: from their records and the metadata files of their runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.errors import HarnessError
from harness.papers.experiment_runs import CellRun
from harness.papers.rates import Range
from harness.papers.step_runner import Making, StepOutcome, recorded, spent_file
from harness.papers.steps import RunStep
from harness.store import sidecar
from harness.store.llm.limits import recorded_cost


@dataclass(frozen=True)
class StepCost:
    """What a step took.

    Attributes
    ----------
    outcome : its last record.
    device : processors and GPUs by which its runs were made, as their metadata files say; empty if they do not.
    joules : energy of its runs; None if it was not measured.
    calls, dollars : of language models and services.
    estimate : hours of one core that the plan expects; None if not known.
    """

    outcome: StepOutcome
    device: str
    joules: float | None
    calls: int
    dollars: float
    estimate: Range | None


def step_costs(
    making: Making,
    steps: Sequence[RunStep],
    estimates: Mapping[str, Range | None] = MappingProxyType({}),
    experiments: Mapping[str, Sequence[CellRun]] = MappingProxyType({}),
) -> tuple[StepCost, ...]:
    """Returns the costs of the steps that have a record, whichever call carried them out.

    Parameters
    ----------
    estimates : name of a step -> hours of one core.
    experiments : experiment -> its finished runs, which the records of steps do not name.
    """
    costs = []
    for step in steps:
        outcome = recorded(making, step)
        if outcome is None or outcome.command != step.command:  # of another scale
            continue
        made = [*map(Path, outcome.runs), *(each.path for each in experiments.get(step.experiment, ()))]
        runs = [making.work / path for path in made]
        documents = [document for run in runs if (document := _read_metadata(run)) is not None]
        energy = [value for document in documents for value in _joules(document)]
        costs.append(
            StepCost(
                outcome=outcome,
                device=", ".join(dict.fromkeys(name for document in documents if (name := _device_name(document)))),
                joules=math.fsum(energy) if energy else None,
                calls=sum(map(_call_count, runs)),
                dollars=recorded_cost(spent_file(making, step)),
                estimate=estimates.get(step.name),
            )
        )
    return tuple(costs)


def _read_metadata(run: Path) -> dict[str, Any] | None:
    with suppress(HarnessError):
        return sidecar.read(sidecar.sidecar_path(run))
    return None


def _device_name(document: Mapping[str, Any]) -> str:
    with suppress(KeyError, TypeError, AttributeError):
        hardware = document["platform"]["hardware"]
        gpu = hardware.get("gpu") or {}
        cpu = f"{hardware['cpu']['model']}, {hardware['cpu']['number of cores']} cores"
        return ", ".join([*map(str, gpu.get("model", ())), cpu])
    return ""


def _joules(document: Mapping[str, Any]) -> list[float]:
    """Returns the energy of processors, memory and GPUs in a metadata file's resources."""
    parts = document.get("resources")
    joules = []
    for part in parts.values() if isinstance(parts, Mapping) else ():
        text = part.get("energy used system", "") if isinstance(part, Mapping) else ""
        if number := re.fullmatch(r"([0-9.eE+-]+) J", str(text)):
            joules.append(float(number[1]))
    return joules


def _call_count(run: Path) -> int:
    notes = sidecar.costs(sidecar.sidecar_path(run)).values()
    return sum(int(note["calls"]) for note in notes if isinstance(note, Mapping) and "calls" in note)

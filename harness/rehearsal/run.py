"""Rehearses a paper: `harness reproduce paper=NAME make=true` on stand-ins, and what its steps' records say of rows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from harness.errors import HarnessError
from harness.papers import rehearsal_records
from harness.papers.rehearsal_records import Rehearsed
from harness.papers.step_runner import Making, StepOutcome, recorded
from harness.papers.steps import PrintedRow, RunStep
from harness.rehearsal import services, world
from harness.rehearsal.world import World
from harness.store import artefacts


def rehearse_steps(made: World, paper: str, words: Sequence[str]) -> int:
    """Takes the stand-ins by `harness fetch NAME --from FILE`, then makes the paper's runs and tables.

    Parameters
    ----------
    words : further words of the command, such as `rows=msm *`.

    Returns
    -------
    int
        Its exit code.

    Raises
    ------
    HarnessError
        A stand-in is refused.
    """
    with _serving_stand_ins(made):
        for source, paths in made.given.items():
            for path in paths:
                if code := _run_harness(made, "fetch", source, "--from", str(path)):
                    raise HarnessError(f"rehearse: harness fetch {source} --from {path} ended with exit code {code}")
        return _run_harness(made, "reproduce", f"paper={paper}", "make=true", *words)


def _run_harness(made: World, *words: str) -> int:
    command = [sys.executable, "-P", "-m", "harness", *words]
    printed = sys.stderr if words[0] == "fetch" else None
    process = subprocess.Popen(command, cwd=made.work, env=made.environment(os.environ), stdout=printed)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def step_results(
    made: World, paper: str, steps: Sequence[RunStep]
) -> tuple[list[StepOutcome], dict[PrintedRow, StepOutcome]]:
    """Returns the results of steps, and row -> the one that decides: the first that failed, else the last.

    A step without a record was left out, since something that it needs was not there.
    If a step with parts failed, each row has the result of its own part; if all parts passed, the step's.
    """
    making = Making(made.work / "runs" / "making" / paper)
    results: list[StepOutcome] = []
    rows: dict[PrintedRow, StepOutcome] = {}
    for step in steps:
        lost = StepOutcome(step.name, step.command, "was not carried out", 0.0, 0.0, 0, {}, "")
        whole = recorded(making, step) or lost
        parts = [result for part in step.parts if (result := recorded(making, part)) is not None]
        outcomes = [whole, *parts]
        results += outcomes
        blamed = dict.fromkeys(step.rows, whole)
        if not whole.passed and any(not part.passed for part in parts):
            by_name = {part.step: part for part in parts}
            for part in step.parts:
                blamed |= dict.fromkeys(part.rows, by_name.get(part.name, whole))
        for row, result in blamed.items():
            if row not in rows or rows[row].passed:
                rows[row] = result
    return results, rows


def passed(steps: Sequence[RunStep], rows: Mapping[PrintedRow, StepOutcome], scale: str) -> list[Rehearsed]:
    """Returns the records of the rows all of whose commands passed, with the digest of these commands together."""
    named = {step.name for step in steps}
    digests = row_digests(steps)
    systems = row_systems(steps)
    return [
        rehearsal_records.now(row.table, row.label, scale, digests[row], systems[row])
        for row, result in rows.items()
        if result.passed and result.step in named
    ]


def row_digests(steps: Sequence[RunStep]) -> dict[PrintedRow, str]:
    """Returns row -> digest of its commands and their configurations."""
    digests_of: dict[PrintedRow, list[str]] = {}
    for step in steps:
        digest = step.digest() if step.rows else ""
        for row in step.rows:
            digests_of.setdefault(row, []).append(digest)
    return {row: artefacts.key({"commands": digests})[:16] for row, digests in digests_of.items()}


def row_systems(steps: Sequence[RunStep]) -> dict[PrintedRow, set[str]]:
    """Returns row -> names of the systems that its commands run."""
    systems_of: dict[PrintedRow, set[str]] = {}
    for step in steps:
        for part in step.parts or (step,):
            for row in part.rows:
                systems_of.setdefault(row, set()).update(part.chosen("system"))
    return systems_of


@contextmanager
def _serving_stand_ins(made: World) -> Iterator[None]:
    with services.serving(made.seed) if made.services else nullcontext("") as url:
        if url:
            world.overlay_services(made, url)
        yield

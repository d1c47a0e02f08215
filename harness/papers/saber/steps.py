"""Steps of a builder; the output of each is an artifact of the store under the fingerprint of its inputs.

A step runs again if the content of its input, its settings or its code changed. Interrupted work resumes at the first
unfinished step.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, suggestion
from harness.io.files import sha256, write_all, write_atomic
from harness.store import artefacts, code
from harness.store.llm.endpoint import Spent

Folders = Mapping[str, Path]
COUNTS = "counts.json"
FILL = "the same command without --replay requests them"  # answers missing from the cache


@dataclass(frozen=True)
class StepEstimate:
    """Estimated work of a step.

    Attributes
    ----------
    counts : name -> number of the items that the step makes or reads.
    calls, tokens_in, tokens_out, cost : of a language model, for answers not in the cache; the cost is in the unit of
        the endpoint's prices.
    within : half the width of the 95 % interval of the cost, relative to the cost; infinite for a rough estimate.
    basis : data that the estimate was made from.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    cost: float = 0.0
    within: float = 0.0
    basis: str = ""


@dataclass(frozen=True)
class BuilderStep:
    """A step of a builder.

    Attributes
    ----------
    name : of the step; its artifacts have the kind `saber-NAME`.
    needs : earlier steps whose folders it reads.
    settings : everything else that affects its output, as plain values; files by their checksums.
    modules : our modules that affect its output; the source of `make` counts too.
    make : fills an empty folder, given the folders of `needs`.
    plan : estimates the work of `make`, given the existing folders of `needs`; calls no language model.
    free : whether it needs no language model and little time, so that a dry run runs it to plan the next steps.
    """

    name: str
    needs: tuple[str, ...]
    settings: Mapping[str, Any]
    modules: tuple[str, ...]
    make: Callable[[Folders, Path], None]
    plan: Callable[[Folders], StepEstimate]
    free: bool = False

    def spec(self, folders: Folders) -> dict[str, Any]:
        """Returns the specification of its artifact, given the folders of `needs`."""
        inputs = {name: artefact_hash(folders[name]) for name in self.needs}
        made_by = {"code": code.of(*self.modules), "make": sha256(inspect.getsource(self.make).encode())}
        return {"step": self.name, "inputs": inputs, "settings": self.settings, **made_by}

    def kind(self) -> str:
        """Returns the kind of its artifact."""
        return f"saber-{self.name}"

    def made(self, folders: Folders) -> Path | None:
        """Returns the folder of its artifact if the store has it, else None."""
        if any(name not in folders for name in self.needs):
            return None
        folder = artefacts.store_root() / self.kind() / artefacts.key(self.spec(folders))
        return None if artefacts.damage(folder, self.kind()) else folder


@dataclass(frozen=True)
class PlannedBuild:
    """Step in a dry run: whether its output exists, and otherwise the estimated work."""

    step: str
    made: bool
    plan: StepEstimate


def artefact_hash(folder: Path) -> str:
    """Returns a hash of the files of an artifact, independent of how they were made."""
    try:
        files = json.loads((folder / artefacts.SPEC).read_bytes())["files"]
        return artefacts.key({name: entry["sha256"] for name, entry in files.items()})
    except (OSError, ValueError, KeyError, TypeError):
        raise HarnessError(f"{folder}: damaged while the command ran; run the command again to rebuild it") from None


def upto(steps: Sequence[BuilderStep], last: str | None) -> tuple[BuilderStep, ...]:
    """Returns the steps that step `last` needs, in order, and the step itself; all steps if `last` is None."""
    names = [step.name for step in steps]
    if last is None:
        return tuple(steps)
    if last not in names:
        raise HarnessError(f"step {last!r} is unknown; {suggestion(last, names)}")
    wanted = {last}
    for step in reversed(steps):
        if step.name in wanted:
            wanted.update(step.needs)
    return tuple(step for step in steps if step.name in wanted)


def build_steps(
    steps: Sequence[BuilderStep], begun: Callable[[BuilderStep, bool], None] = lambda step, made: None
) -> dict[str, Path]:
    """Runs the steps whose output is not in the store; returns step name -> folder.

    Calls `begun` before each step, with the step and whether its output exists.
    """
    folders: dict[str, Path] = {}
    for step in steps:
        mine = {name: folders[name] for name in step.needs}
        begun(step, step.made(mine) is not None)
        folders[step.name] = artefacts.get_or_build(step.kind(), step.spec(mine), partial(step.make, mine))
    return folders


def dry(steps: Sequence[BuilderStep]) -> list[PlannedBuild]:
    """Plans `build_steps`: estimates each step; runs only steps that are `free`."""
    folders: dict[str, Path] = {}
    out = []
    for step in steps:
        mine = {name: folders[name] for name in step.needs if name in folders}
        built = step.made(mine)
        out.append(PlannedBuild(step.name, built is not None, step.plan(mine) if built is None else StepEstimate()))
        if built is None and step.free and len(mine) == len(step.needs):
            built = artefacts.get_or_build(step.kind(), step.spec(mine), partial(step.make, mine))
        if built is not None:
            folders[step.name] = built
    return out


def write_counts(out: Path, counts: Mapping[str, object]) -> None:
    """Writes the counts of a step to its folder."""
    write_atomic(out / COUNTS, json.dumps(dict(counts), indent=1, ensure_ascii=False) + "\n")


def spent_text(what: str, spent: Spent) -> str:
    """Returns in one line what a pilot asked and what that took."""
    return f"{what}: {spent.calls:,} calls, {spent.tokens:,} tokens, cost {spent.cost:,.4f}"


def copy(folder: Path, to: Path) -> None:
    """Copies the text files of an artifact to a folder; arrays stay in the store."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".npy"]
    write_all({to / path.relative_to(folder): path.read_bytes() for path in files if path.name != artefacts.SPEC})


def total(planned: Sequence[PlannedBuild]) -> StepEstimate:
    """Sums calls, tokens and cost over steps; assumes independent errors."""
    plans = [each.plan for each in planned]
    calls, into, out, cost = map(sum, zip(*((p.calls, p.tokens_in, p.tokens_out, p.cost) for p in plans), strict=True))
    error = math.hypot(*(plan.cost * plan.within for plan in plans if plan.cost))
    within = error / cost if cost else max((plan.within for plan in plans if plan.calls), default=0.0)
    return StepEstimate({}, calls, into, out, cost, within)

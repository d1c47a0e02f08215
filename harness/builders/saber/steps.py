"""Steps of a builder: each is an artefact of the store, kept by the content of what it was made from.

A step whose input, settings or code changed is made again; one whose input was made again with the same content is
not. What is stopped leaves the steps before it as they are.
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

Folders = Mapping[str, Path]
COUNTS = "counts.json"
FILL = "the same command without --replay asks for them"  # answers that a replay lacks


@dataclass(frozen=True)
class Plan:
    """What a step would take.

    Attributes
    ----------
    counts : what it would make or go through, and how many of each.
    calls, tokens_in, tokens_out, cost : of a language model, those that are not answered yet; the cost in the unit of
        the endpoint's prices.
    within : half the width of the 95 % interval of the cost, as a part of it; infinite where it is only rough.
    basis : what that was estimated from.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    cost: float = 0.0
    within: float = 0.0
    basis: str = ""


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes
    ----------
    name : also of its artefacts, as `saber-NAME`.
    needs : the steps before it whose folders it reads.
    settings : all else that decides what it makes, as plain values; for files, their checksums.
    modules : of our code, those that decide what it makes; the text of `make` itself counts too.
    make : given the folders of `needs` and an empty one, fills that.
    plan : given those folders of `needs` that there are, says what `make` would take; asks no language model.
    free : whether it takes no language model and little time, so that a dry run makes it to count what comes next.
    """

    name: str
    needs: tuple[str, ...]
    settings: Mapping[str, Any]
    modules: tuple[str, ...]
    make: Callable[[Folders, Path], None]
    plan: Callable[[Folders], Plan]
    free: bool = False

    def spec(self, folders: Folders) -> dict[str, Any]:
        """What its artefact is kept by, given the folders of `needs`."""
        inputs = {name: content(folders[name]) for name in self.needs}
        made_by = {"code": code.of(*self.modules), "make": sha256(inspect.getsource(self.make).encode())}
        return {"step": self.name, "inputs": inputs, "settings": self.settings, **made_by}

    def kind(self) -> str:
        """The kind of its artefact."""
        return f"saber-{self.name}"

    def made(self, folders: Folders) -> Path | None:
        """The folder of its artefact, if that is in the store."""
        if any(name not in folders for name in self.needs):
            return None
        folder = artefacts.store_root() / self.kind() / artefacts.key(self.spec(folders))
        return None if artefacts.damage(folder, self.kind()) else folder


@dataclass(frozen=True)
class Planned:
    """A step in a dry run: whether it is made already, or what it would take."""

    step: str
    made: bool
    plan: Plan


def content(folder: Path) -> str:
    """A hash of the files of an artefact, whatever it was made from."""
    try:
        files = json.loads((folder / artefacts.SPEC).read_bytes())["files"]
        return artefacts.key({name: entry["sha256"] for name, entry in files.items()})
    except (OSError, ValueError, KeyError, TypeError):
        raise HarnessError(f"{folder}: damaged since it was read; the same command makes it anew") from None


def upto(steps: Sequence[Step], last: str | None) -> tuple[Step, ...]:
    """The steps that a step takes, in their order, itself the last; all of them if no step is named."""
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


def build(steps: Sequence[Step], begun: Callable[[Step, bool], None] = lambda step, made: None) -> dict[str, Path]:
    """Make what is not in the store yet; the folder of each step by its name.

    `begun` is told of each step and whether it is made already.
    """
    folders: dict[str, Path] = {}
    for step in steps:
        mine = {name: folders[name] for name in step.needs}
        begun(step, step.made(mine) is not None)
        folders[step.name] = artefacts.get_or_build(step.kind(), step.spec(mine), partial(step.make, mine))
    return folders


def dry(steps: Sequence[Step]) -> list[Planned]:
    """What `build` would take; only steps that are `free` are made."""
    folders: dict[str, Path] = {}
    out = []
    for step in steps:
        mine = {name: folders[name] for name in step.needs if name in folders}
        found = step.made(mine)
        out.append(Planned(step.name, found is not None, step.plan(mine) if found is None else Plan()))
        if found is None and step.free and len(mine) == len(step.needs):
            found = artefacts.get_or_build(step.kind(), step.spec(mine), partial(step.make, mine))
        if found is not None:
            folders[step.name] = found
    return out


def write_counts(out: Path, counts: Mapping[str, object]) -> None:
    """Write what a step counted into its folder."""
    write_atomic(out / COUNTS, json.dumps(dict(counts), indent=1, ensure_ascii=False) + "\n")


def copy(folder: Path, to: Path) -> None:
    """Write the files of an artefact that hold text to a folder; arrays of numbers stay in the store alone."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".npy"]
    write_all({to / path.relative_to(folder): path.read_bytes() for path in found if path.name != artefacts.SPEC})


def total(planned: Sequence[Planned]) -> Plan:
    """The calls, tokens and cost of all steps; their errors are taken as independent."""
    plans = [each.plan for each in planned]
    cost = sum(plan.cost for plan in plans)
    error = math.hypot(*(plan.cost * plan.within for plan in plans if plan.cost))
    return Plan(
        {},
        sum(plan.calls for plan in plans),
        sum(plan.tokens_in for plan in plans),
        sum(plan.tokens_out for plan in plans),
        cost,
        error / cost if cost else max((plan.within for plan in plans if plan.calls), default=0.0),
    )

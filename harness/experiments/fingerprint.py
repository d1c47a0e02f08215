"""Fingerprints of runs: all inputs that decide the bytes of a run, and whether they are still those of a plan."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.collections.corpus import Corpus
from harness.data.run_writers import run_text
from harness.data.trec import Qrels
from harness.errors import HarnessError
from harness.experiments.task import Task
from harness.io import rehearsal
from harness.io.files import sha256, sha256_known
from harness.scoring.protocol import Exclusions
from harness.store import artefacts, code
from harness.systems import states
from harness.systems.base import Pool
from harness.systems.build import BuiltSystem
from harness.systems.keys import decisive

Plan = Mapping[str, str]
"""Part of a fingerprint -> its hash, as of the moment when the work was planned; in plain values for launchers."""

_WORDS = {
    "system": "the configuration",
    "reads": "files or models",
    "code": "code or libraries",
    "topics": "topics",
    "corpus": "the corpus",
    "columns": "the fields of the corpus",
    "training": "training judgments",
    "pool": "the pool",
    "excluded": "excluded documents",
}


def fingerprint(
    system: BuiltSystem, task: Task, training: Qrels | None = None, pool: Pool | None = None, suffix: str = ""
) -> dict[str, Any]:
    """Returns all inputs of a run, in plain values; `key_of` is their hash.

    Parameters
    ----------
    suffix : of the run's name.
    """
    configuration, corpus, read = system.configuration, task.corpus, system.reads()
    if configuration is not None and configuration.get("name"):
        # One run, whether the system is named so or a sweep or an experiment appends the suffix.
        configuration, suffix = {**configuration, "name": f"{configuration['name']}{suffix}"}, ""
    excluded = task.scorer.exclusions
    read |= dict(_files_named([configuration, read], theirs=not is_ours(system)))  # our systems list theirs in `reads`
    return {
        "system": None if configuration is None else {k: v for k, v in configuration.items() if k not in states.ABOUT},
        "reads": read,
        "code": code_of(system, read, corpus),
        "topics": sha256(repr([asdict(topic) for topic in task.topics]).encode()),
        "corpus": None if corpus is None else {"name": corpus.name, "digest": corpus.digest()},
        "columns": None if corpus is None else [list(corpus.fields), list(corpus.keep)],
        "training": None if training is None else training.sha256,
        "pool": None if pool is None else sha256(repr(sorted((t, sorted(d)) for t, d in pool.items())).encode()),
        "suffix": suffix,
        **({"marks": {rehearsal.MARK: True}} if rehearsal.folder() is not None else {}),
        **({} if excluded is None else {"excluded": [excluded.sha256, code.of(Exclusions.__module__)]}),
    }


def key_of(spec: Mapping[str, Any]) -> str:
    """Returns the hash of a fingerprint, which does not depend on keys that have their defaults."""
    return artefacts.key(decisive(spec))


def is_ours(system: BuiltSystem) -> bool:
    """Returns whether the class of a system is one of this package."""
    return system.module.startswith(f"{code.OURS}.")


def code_of(
    system: BuiltSystem, read: Mapping[str, Any], corpus: Corpus | None = None, *, modules_only: bool = False
) -> str:
    """Returns a digest of the code that makes a run: of the system, its parts, the corpus' reader, and of writing.

    Systems made of other systems list them in `reads`; other parts, such as a view's tokens, are in configurations.
    """
    systems, others = _modules(system, read)
    if corpus is not None and code.known(corpus.reader.read.__module__):
        others.add(corpus.reader.read.__module__)
    return code.digest(systems, others, modules_only=modules_only)


def _modules(system: BuiltSystem, read: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    named = set(code.named([system.configuration, read], theirs=not is_ours(system)))
    systems = {system.module, *(module for module, target in named if target)}
    return systems, {Corpus.__module__, run_text.__module__, *(module for module, target in named if not target)}


def _files_named(value: object, key: str = "", *, theirs: bool) -> Iterator[tuple[str, str]]:
    """Yields path and checksum of the files and folders named in the configurations of systems of other authors."""
    if isinstance(value, Mapping):
        theirs = code.is_theirs(value, theirs)
        for name, inner in value.items():
            yield from _files_named(inner, str(name), theirs=theirs)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _files_named(inner, key, theirs=theirs)
    elif theirs and isinstance(value, str) and value and "\0" not in value and key not in ("name", *states.ABOUT):
        path = Path(value).expanduser()
        if os.path.isfile(path):  # noqa: PTH113  (a name may be too long for a path)
            yield value, sha256_known(path)
        elif os.path.isdir(path) and not Path.cwd().is_relative_to(path.resolve()):  # noqa: PTH112
            files = (each for each in code.files_below(path) if each.is_file())
            lines = (f"{each.relative_to(path).as_posix()} {sha256_known(each)}" for each in files)
            yield value, sha256("\n".join(lines).encode("utf-8", "surrogateescape"))


def unseen_inputs(system: BuiltSystem, read: Mapping[str, Any]) -> list[str]:
    """Returns a line for each place in code of other authors that reads what a fingerprint cannot see.

    That is none if the system has a method `reads`, which lists such inputs. A place that lists files counts only if
    neither the configuration nor the code names a folder.
    """
    if is_ours(system) or hasattr(system.system, "reads"):
        return []
    dependencies = code.depends(*_modules(system, read))
    folder = any(Path(name).expanduser().is_dir() for name in read)
    lists = [] if folder else [f"{place}: lists files" for place in dependencies.lists]
    reads = [*lists, *(f"{place}: reads environment variables" for place in dependencies.unseen)]
    return [f"{each} that are not in the fingerprint of the run; return them by a method reads()" for each in reads]


# ---- plans ------------------------------------------------------------------------------------------------------


def plan_of(spec: Mapping[str, Any], runs: Path) -> dict[str, str]:
    """Returns the parts of a fingerprint that must not change before the work is done.

    Run files below `runs` do not count, since other work of the same plan may make them.
    """
    parts = {name: artefacts.key({"part": _without(spec.get(name), runs)}) for name in _WORDS}
    return {**parts, "device": _device()}


def check_plan(plan: Plan, spec: Mapping[str, Any], runs: Path, name: str) -> None:
    """Raises HarnessError if the inputs of a run are no longer those that were planned."""
    now = plan_of(spec, runs)
    # Neural systems list their kind of device, and the machine that plans may have another one than that which works.
    same_device = now["device"] == plan["device"]
    changed = [_WORDS[part] for part in _WORDS if plan[part] != now[part] and (same_device or part != "reads")]
    if changed:
        raise changed_since(name, changed)


def changed_since(name: str, changed: list[str]) -> HarnessError:
    """Returns the error that inputs have changed since the work on a run was planned or begun."""
    said = f"{' and '.join(changed)} changed since it was planned or begun"
    return HarnessError(f"{name}: {said}; run the same command again, to make all runs from the same inputs")


def _without(value: Any, folder: Path) -> Any:  # noqa: ANN401
    if isinstance(value, Mapping):
        inside = (name for name in value if Path(str(name)).absolute().is_relative_to(folder.absolute()))
        left_out = set(inside)
        return {name: _without(inner, folder) for name, inner in value.items() if name not in left_out}
    return [_without(inner, folder) for inner in value] if isinstance(value, list | tuple) else value


def _device() -> str:
    """Returns the kind of device of this process, if it has loaded torch; else ""."""
    torch = sys.modules.get("torch")
    return "" if torch is None else "cuda" if torch.cuda.is_available() else "cpu"

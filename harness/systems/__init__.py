"""Systems: run producers. One module a family; each is built from its configuration by `_target_`.

A system is called as `(topics, corpus, workspace, training=None, pool=None) -> Run`. It never sees the
judgments it is scored with: `pool` holds document ids without grades, `training` judgments of other topics.
A published system that is not built here has a configuration too: the key `blocked` says what it needs.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from harness import config
from harness.collections.corpus import Corpus
from harness.errors import HarnessError, suggestion
from harness.topics import Topics
from harness.trec import Qrels, Run

Pool = Mapping[str, frozenset[str]]
MARK = "+test-judgments"  # ends the name of a run that learnt from judgments of topics it ranks


class System(Protocol):
    """What every system can do."""

    def __call__(
        self,
        topics: Topics,
        corpus: Corpus | None,
        workspace: Path,
        training: Qrels | None = None,
        pool: Pool | None = None,
    ) -> Run:
        """Rank documents for each topic.

        Parameters
        ----------
        workspace : a folder of the system's own, for what it keeps between calls.
        training : judgments of topics other than `topics`.
        pool : topic -> documents to rank, when the task is re-ranking; None for the whole corpus.
        """
        ...


_ABOUT = ("title", "extra", "needs")
_REGISTERED = ("title", "blocked")
_KINDS: Mapping[type, str] = {bool: "true or false", int: "a whole number", str: "text"}


def missing_module(mapping: Mapping[str, Any]) -> str:
    """What is not installed of what a system needs, and the command that mends it; empty if nothing is missing.

    `needs` names a module, or as `module:function` what tells the lines itself.
    """
    needs = str(mapping.get("needs", ""))
    module, _, function = needs.partition(":")
    if function:
        return "; ".join(getattr(importlib.import_module(module), function)())
    if not needs or _installed(needs):
        return ""
    return f"{needs} is not installed: pip install 'mathir-harness[{mapping.get('extra', '')}]'"


def system_state(mapping: Mapping[str, Any]) -> str:
    """`here`, `blocked: ` with what a system needs that is not to be had here, or what is not installed."""
    return f"blocked: {mapping['blocked']}" if "blocked" in mapping else missing_module(mapping) or "here"


def check_blocked(mapping: Mapping[str, Any], where: str) -> None:
    """Raise HarnessError, with what it needs, if the configuration only registers a system (or does so wrongly)."""
    if "blocked" not in mapping:
        return
    config.check_keys(mapping, _REGISTERED, ("paper",), where)
    needs = mapping["blocked"]
    if not isinstance(needs, str) or not needs.strip() or "\n" in needs.strip():
        raise HarnessError(f"{where}: key 'blocked' is {needs!r}, expected a line that says what the system needs")
    raise HarnessError(f"{where}: {mapping['title']} is blocked: {needs.strip()}")


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a module inside a package that is missing itself
        return False


def build_system(mapping: Mapping[str, Any], where: str) -> System:
    """The system that a configuration describes: `_target_` names a class, the other keys its parameters.

    Raises
    ------
    HarnessError
        A key is missing, unknown to the class or of another type than its default; the class does not exist, it
        needs an extra that is not installed, or the system is only registered (`blocked`).
    """
    check_blocked(mapping, where)
    target = str(mapping.get("_target_", ""))
    module, _, name = target.rpartition(".")
    if not module:
        raise HarnessError(f"{where}: key '_target_' is {target!r}, expected a class such as {__name__}.simple.Overlap")
    try:
        factory = getattr(importlib.import_module(module), name)
    except (ImportError, TypeError) as error:  # TypeError: a relative name, such as ..simple.Overlap
        extra = f"; install it with: pip install 'mathir-harness[{mapping['extra']}]'" if mapping.get("extra") else ""
        raise HarnessError(f"{where}: {target} cannot be loaded: {error}{extra}") from None
    except AttributeError:
        raise HarnessError(f"{where}: key '_target_': {module} has no {name!r}") from None
    if not callable(factory):
        raise HarnessError(f"{where}: key '_target_': {target} is no class")
    parameters = {key: value for key, value in mapping.items() if key != "_target_" and key not in _ABOUT}
    known = inspect.signature(factory).parameters
    for key, value in parameters.items():
        if key not in known:
            raise HarnessError(f"{where}: key {key!r} is unknown to {target}; {suggestion(key, known)}")
        kind = type(known[key].default)
        if kind in _KINDS and type(value) is not kind:
            raise HarnessError(f"{where}: key {key!r} is {value!r}, expected {_KINDS[kind]}")
    for key, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and parameters.get(key) is None:
            raise HarnessError(f"{where}: key {key!r} is missing")
    try:
        system: System = factory(**parameters)
    except HarnessError as error:
        raise HarnessError(f"{where}: {error}") from None
    return system


def load_system(name: str) -> System:
    """A system by the name of its configuration."""
    mapping, where = config.load("system", name)
    return build_system(mapping, where)


def check_cycle(name: object, above: tuple[str, ...] = ()) -> None:
    """Raise HarnessError if a system would be an input of its own, by the keys `runs` and `system`."""
    if not isinstance(name, str) or name not in config.names("system"):
        return
    if name in above:
        raise HarnessError(f"system {name}: is made from itself ({' <- '.join((*above, name))})")
    mapping, _ = config.load("system", name)
    runs = mapping.get("runs")
    for part in (mapping.get("system"), *(runs if isinstance(runs, list | tuple) else ())):
        check_cycle(part, (*above, name))


def reads(system: System) -> dict[str, Any]:
    """What a system's run depends on besides its own configuration: run files by checksum, other systems.

    A system that reads anything of the kind has a method `reads`.
    """
    found = getattr(system, "reads", None)
    return dict(found()) if found is not None else {}


def trains_without(systems: Iterable[System]) -> frozenset[str] | None:
    """The collections whose judged posts none of some systems has seen; None if none of them trains on posts."""
    asked = (getattr(system, "trains_without", None) for system in systems)
    left_out = [found for ask in asked if ask is not None and (found := ask()) is not None]
    return frozenset.intersection(*left_out) if left_out else None


def notes(system: System) -> tuple[str, ...]:
    """What a reader of a system's numbers must know; one that has anything of the kind has a method `notes`."""
    found = getattr(system, "notes", None)
    return tuple(found()) if found is not None else ()

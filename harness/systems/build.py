"""Systems built from their configurations."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.data.trec import TAG, TAG_RULE, Run
from harness.errors import HarnessError, SystemRaisedError, refuse, suggestion, system_raised
from harness.io import config, interrupt
from harness.io.console import NO_READER
from harness.systems.base import Request, System
from harness.systems.states import ABOUT, check_registered, missing_modules

T = TypeVar("T")
_KINDS: Mapping[type, str] = {bool: "true or false", int: "a whole number", str: "text"}


@dataclass(frozen=True)
class Built:
    """A system together with what is known of it: what it was built from, and what holds where it says nothing.

    Attributes
    ----------
    system : what ranks: a function of a `Request`, or an object that is called like one.
    configuration : what it was built from; None if Python made it, whose runs are made anew each time.

    Raises
    ------
    HarnessError
        `system` cannot be called with a request.

    Examples
    --------
    >>> def nothing(request: Request) -> Run:
    ...     return Run.from_dict("nothing", {})
    >>> built = Built(nothing)
    >>> built.name, built.reads(), built.notes(), built.trains_without(), built.searches()
    ('nothing', {}, (), None, True)
    """

    system: System
    configuration: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if fault := _uncallable(self.system):
            raise HarnessError(f"got {fault}")

    @property
    def name(self) -> str:
        """What messages call it: its name if that fits a file name, else that of its class."""
        named = (self.configuration or {}).get("name") or getattr(self.system, "name", None)
        called = str(named or getattr(self.system, "__name__", ""))
        return called if TAG.fullmatch(called) else type(self.system).__name__

    @property
    def module(self) -> str:
        """The module whose code ranks."""
        return self.system.__module__

    def reads(self) -> dict[str, Any]:
        """Returns what its run depends on besides its own configuration: run files by checksum, other systems."""
        return dict(self._said("reads") or {})

    def notes(self) -> tuple[str, ...]:
        """Returns what a reader of its numbers must know."""
        return tuple(self._said("notes") or ())

    def trains_without(self) -> frozenset[str] | None:
        """Returns the collections whose judged posts it has not seen; None if it does not train on posts."""
        left_out = self._said("trains_without")
        return None if left_out is None else frozenset(left_out)

    def searches(self) -> bool:
        """Returns whether it may read a corpus; a system that says nothing may."""
        found = self._said("searches")
        return True if found is None else bool(found)

    def __call__(self, request: Request) -> Run:
        """Returns the run that it makes.

        Raises
        ------
        SystemRaisedError
            The system raises something.
        HarnessError
            What it gives is no run.
        """
        run = guarded(f"system {self.name}", lambda: self.system(request))
        if not isinstance(run, Run):
            raise HarnessError(f"system {self.name}: gave {type(run).__name__}, expected a harness.data.trec.Run")
        return run

    def _said(self, method: str) -> Any:  # noqa: ANN401
        found = getattr(self.system, method, None)
        return None if found is None else guarded(f"system {self.name}: {method}", found)


def _uncallable(made: object) -> str:
    """Returns why something is no system; empty if it is one."""
    if inspect.isclass(made):
        return f"the class {made.__name__}, which is no system: expected an object of it"
    said = f"{type(made).__name__}, which is no system: it cannot be called with one harness.systems.base.Request"
    if not callable(made):
        return said
    try:
        call = inspect.signature(made)
        call.bind(None)
    except TypeError:
        return f"{said}, but with {call}"
    except ValueError:  # written in C, and it does not say
        return ""
    return ""


def build_system(mapping: Mapping[str, Any], where: str) -> Built:
    """Returns the system that a configuration describes: `_target_` names a class, the other keys its parameters.

    Raises
    ------
    HarnessError
        Keys are missing, unknown to the class or of another type than their defaults: all of them, a line each; the
        class does not exist, it needs an extra that is not installed, it makes something else than a system, or the
        system is only registered (`state`).
    SystemRaisedError
        Its module or the class itself raises something.
    """
    check_registered(mapping, where)
    target = str(mapping.get("_target_", ""))
    # Ours say themselves what they lack, when they are run; others would end in a traceback.
    if not target.startswith("harness.") and (lacking := missing_modules([mapping])):
        raise HarnessError(f"{where}: {lacking}")
    factory = _factory(target, mapping, where)
    parameters = {key: value for key, value in mapping.items() if key != "_target_" and key not in ABOUT}
    try:
        known = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # written in C
        raise HarnessError(f"{where}: key '_target_': {target} is no class of a system") from None
    refuse([f"{where}: {fault}" for fault in _faults(target, parameters, known)])
    try:
        system: System = guarded(f"{where}: {target}", lambda: factory(**parameters))
    except SystemRaisedError:
        raise
    except HarnessError as error:
        raise HarnessError(*(f"{where}: {line}" for line in error.lines)) from None
    if fault := _uncallable(system):
        raise HarnessError(f"{where}: key '_target_': {target} gives {fault}")
    return Built(system, mapping)


def _faults(target: str, parameters: Mapping[str, Any], known: Mapping[str, inspect.Parameter]) -> list[str]:
    """Returns what is wrong with the parameters that a class is given, of those that it takes."""
    faults = []
    kinds = {parameter.kind for parameter in known.values()}
    for key, value in parameters.items():
        if key not in known:
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                faults.append(f"key {key!r} is unknown to {target}; {suggestion(key, known)}")
            continue
        kind = type(known[key].default)
        if kind in _KINDS and type(value) is not kind:
            faults.append(f"key {key!r} is {value!r}, expected {_KINDS[kind]}")
    name = parameters.get("name")
    if isinstance(name, str) and not TAG.fullmatch(name):
        faults.append(f"key 'name' is {name!r}, which does not fit a file name: {TAG_RULE}")
    for key, parameter in known.items():
        needed = parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if needed and parameter.default is inspect.Parameter.empty and parameters.get(key) is None:
            if key in ("request", "topics", "corpus"):
                what = "is what ranks; expected a class (or function) that takes the other keys and returns it"
                return [f"key '_target_': {target} {what}"]
            faults.append(f"key {key!r} is missing")
    return faults


OVERLAP = "harness.systems.baselines.Overlap"  # a class that errors name as an example
# Where classes of ours were before they had folders: configurations that people wrote then name these.
_MOVED = {
    "simple": "baselines",
    "lexical": "lexical.system",
    "anserini": "lexical.anserini",
    "approach0": "structural.approach0",
    "formula_tokens": "structural.tokens",
    "fusion": "fusion.system",
    "l2l": "structural.l2l",
    "structural": "structural.tree",
    "tangent": "structural.tangent",
    "theorem": "theorems.declarations",
}


def _moved(module: str, name: str) -> str:
    """The end of an error about a class that is no longer there: where it is now; empty if it was never ours."""
    package, _, old = module.rpartition(".")
    return f"; it is {package}.{_MOVED[old]}.{name} now" if package == "harness.systems" and old in _MOVED else ""


def _factory(target: str, mapping: Mapping[str, Any], where: str) -> Callable[..., Any]:
    """Returns the class, or a function that makes the system, that `_target_` names."""
    module, _, name = target.rpartition(".")
    if not all(part.isidentifier() for part in target.split(".")) or not module:
        raise HarnessError(f"{where}: key '_target_' is {target!r}, expected a class such as {OVERLAP}")
    try:
        found = getattr(guarded(f"{where}: {target}", lambda: importlib.import_module(module)), name)
    except SystemRaisedError as fault:
        if not isinstance(error := fault.__cause__, ModuleNotFoundError):
            raise
        extra = f"; install it with: pip install 'mathir-harness[{mapping['extra']}]'" if mapping.get("extra") else ""
        lacking = f"module {error.name!r} is neither in the current folder ({Path.cwd()}) nor installed"
        why = _moved(module, name).removeprefix("; ") or lacking + extra
        raise HarnessError(f"{where}: {target} cannot be loaded: {why}") from None
    except AttributeError:
        raise HarnessError(f"{where}: key '_target_': {module} has no {name!r}{_moved(module, name)}") from None
    if not callable(found) or inspect.isbuiltin(found) or (inspect.isclass(found) and issubclass(found, BaseException)):
        raise HarnessError(f"{where}: key '_target_': {target} is no class of a system")
    factory: Callable[..., Any] = found
    return factory


def guarded(what: str, call: Callable[[], T]) -> T:
    """Returns what `call` gives, which runs code that is not ours.

    Raises
    ------
    SystemRaisedError
        It raised something else than a HarnessError, or wanted to end the program.
    """
    try:
        return call()
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code == NO_READER:
            raise
        if interrupt.stopping():  # only what some library made of it
            raise KeyboardInterrupt from None
        raise system_raised(what, error) from error


def load_system(name: str, /, **settings: object) -> Built:
    """Returns a system by the name of its configuration.

    Parameters
    ----------
    settings : keys of the configuration with other values than it has; a value that holds keys itself is replaced
        as a whole. They are what YAML can hold: texts, numbers, lists, mappings; numbers of NumPy become plain ones.

    Raises
    ------
    HarnessError
        There is no such configuration, or one of the faults of `build_system`.

    Examples
    --------
    >>> load_system("bm25", k1=1.2, name="bm25-k1").name
    'bm25-k1'
    >>> load_system("bm25", dept=10)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    harness.errors.HarnessError: system bm25: key 'dept' is unknown to ...BM25; did you mean 'depth'?
    """
    mapping, where = config.load("system", name)
    try:  # as YAML would have them: the run's key and side file hold them
        plain = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError) as error:
        expected = "expected texts, finite numbers, lists and mappings"
        raise HarnessError(f"system {name}: settings that no YAML file can hold: {error}; {expected}") from None
    return build_system(mapping | plain, f"system {name}" if settings else where)


def check_cycle(part: object, above: tuple[str, ...] = ()) -> None:
    """Raises HarnessError if a system would be an input of its own, by the keys `runs`, `system` and `first`.

    Parameters
    ----------
    part : the name of a system or the configuration of one; anything else is none.
    above : names of the systems that it is an input of.
    """
    if isinstance(part, str) and part in config.names("system"):
        if part in above:
            raise HarnessError(f"system {part}: is made from itself ({' <- '.join((*above, part))})")
        above = (*above, part)
        part, _ = config.load("system", part)
    if isinstance(part, Mapping):
        runs = part.get("runs")
        for inner in (part.get("system"), part.get("first"), *(runs if isinstance(runs, list | tuple) else ())):
            check_cycle(inner, above)

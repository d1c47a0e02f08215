"""Construction of systems from their configurations."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from harness.data.trec import Run
from harness.errors import HarnessError, SystemRaisedError, gather, refuse, suggestion, system_raised
from harness.io import config, interrupt, memory
from harness.io.arguments import checked_arguments
from harness.io.console import NO_READER
from harness.io.names import NAME_RULE, is_tag
from harness.store.distributions import distribution
from harness.systems.base import Request, System
from harness.systems.dense.training.cards import tuned_folders
from harness.systems.resources import declared
from harness.systems.states import ABOUT, check_registered, missing_modules

T = TypeVar("T")
_KINDS: Mapping[type, str] = {bool: "true or false", int: "a whole number", str: "text"}


def _package_of(system: object) -> tuple[str, ...]:
    """Returns the name of the installed package that a system is from; nothing for ours and for modules of no package.

    A package installed in editable mode is found if it is named as its module.
    """
    kind = system if isinstance(system, FunctionType) else type(system)
    top = kind.__module__.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if top == "harness" or file is None:
        return ()
    place = Path(file).parent if Path(file).stem == "__init__" else Path(file)
    found = distribution(top, place)
    with suppress(metadata.PackageNotFoundError):
        return (metadata.metadata(top if found is None else found.name)["Name"],)
    return ()


@dataclass(frozen=True)
class BuiltSystem:
    """A system with its configuration, and with defaults for the methods that it lacks.

    Attributes
    ----------
    system : a function of a `Request`, or a callable object.
    configuration : configuration of the system; None if Python code made it, in which case its runs are recomputed each
        time.

    Raises
    ------
    HarnessError
        `system` cannot be called with a request.

    Examples
    --------
    >>> def nothing(request: Request) -> Run:
    ...     return Run.from_dict("nothing", {})
    >>> built = BuiltSystem(nothing)
    >>> built.name, built.reads(), built.notes(), built.trains_without(), built.libraries(), built.searches()
    ('nothing', {}, (), None, (), True)
    """

    system: System
    configuration: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if fault := _uncallable(self.system):
            raise HarnessError(f"got {fault}")

    @property
    def name(self) -> str:
        """Name of the system in messages: its own name if it is one word, else the name of its class."""
        named = (self.configuration or {}).get("name") or getattr(self.system, "name", None)
        called = str(named or getattr(self.system, "__name__", ""))
        return called if is_tag(called) else type(self.system).__name__

    @property
    def module(self) -> str:
        """Name of the module that defines the system."""
        return self.system.__module__

    def reads(self) -> dict[str, Any]:
        """Returns the inputs of a run besides the system's configuration: run files by checksum, other systems."""
        return dict(self._optional("reads") or {})

    def notes(self) -> tuple[str, ...]:
        """Returns the system's notes for readers of its results."""
        return tuple(self._optional("notes") or ())

    def trains_without(self) -> frozenset[str] | None:
        """Returns the collections left out of the system's training; None if it does not train on posts.

        A model whose folder any key of the configuration names counts as well, if it was fine-tuned here.
        """
        own = self._optional("trains_without")
        left_out = [frozenset(each) for each in (own,) if each is not None]
        left_out += [known for _, known in tuned_folders(self.configuration)]
        return frozenset.intersection(*left_out) if left_out else None

    def libraries(self) -> tuple[str, ...]:
        """Returns the distributions whose versions the metadata file of a run records: the system's own, and others."""
        return tuple(dict.fromkeys((*(self._optional("libraries") or ()), *_package_of(self.system))))

    def searches(self) -> bool:
        """Returns whether the system may read a corpus; True if it does not say."""
        answer = self._optional("searches")
        return True if answer is None else bool(answer)

    def __call__(self, request: Request) -> Run:
        """Runs the system and returns its run; indexes are built in a quarter of the memory that it declares.

        Raises
        ------
        SystemRaisedError
            The system raises an exception.
        HarnessError
            The system does not return a run.
        """
        with memory.given(declared([self.configuration or {}], f"system {self.name}").memory):
            run = guarded(f"system {self.name}", lambda: self.system(request))
        if not isinstance(run, Run):
            raise HarnessError(f"system {self.name}: gave {type(run).__name__}, expected a harness.data.trec.Run")
        return run

    def _optional(self, method: str) -> Any:  # noqa: ANN401
        """Calls a method of the system if it has it, else returns None."""
        call = getattr(self.system, method, None)
        return None if call is None else guarded(f"system {self.name}: {method}", call)


def _uncallable(made: object) -> str:
    """Returns the reason why an object is not a system; empty if it is one."""
    if inspect.isclass(made):
        return f"the class {made.__name__}, which is not a system: expected an object of it"
    said = f"{type(made).__name__}, which is not a system: it cannot be called with one harness.systems.base.Request"
    if not callable(made):
        return said
    try:
        call = inspect.signature(made)
        call.bind(None)
    except TypeError:
        return f"{said}, but with {call}"
    except ValueError:  # written in C, without a signature
        return ""
    return ""


def build_system(mapping: Mapping[str, Any], where: str) -> BuiltSystem:
    """Returns the system that a configuration describes: `_target_` names a class, the other keys its parameters.

    Raises
    ------
    HarnessError
        Keys are missing, unknown to the class, or of another type than their defaults (one line for each); the class
        does not exist, needs an extra that is not installed, or does not make a system; or the system is only
        registered (`state`).
    SystemRaisedError
        The module or the class raises an exception.
    """
    check_registered(mapping, where)
    target = str(mapping.get("_target_", ""))
    # Our own systems report missing modules when they run; others would end in a traceback.
    if not target.startswith("harness.") and (lacking := missing_modules([mapping])):
        raise HarnessError(f"{where}: {lacking}")
    faults: list[str] = []
    with gather(faults):
        declared([mapping], where)
    try:
        factory, parameters = _called(mapping, target, where)
    except SystemRaisedError:
        raise
    except HarnessError as error:
        raise HarnessError(*faults, *error.lines) from None
    try:
        system: System = guarded(f"{where}: {target}", lambda: factory(**parameters))
    except SystemRaisedError:
        raise
    except HarnessError as error:
        raise HarnessError(*faults, *(f"{where}: {line}" for line in error.lines)) from None
    refuse(faults)
    if fault := _uncallable(system):
        raise HarnessError(f"{where}: key '_target_': {target} gives {fault}")
    return BuiltSystem(system, mapping)


def key_faults(mapping: Mapping[str, Any], where: str) -> list[str]:
    """Returns the faults of a system's class and keys that are found without making it; imports only our classes.

    Keys that are null are given on the command line, and stand here for a text.
    """
    target = str(mapping.get("_target_", ""))
    faults: list[str] = []
    with gather(faults):
        declared([mapping], where)
    if target.startswith("harness."):
        with gather(faults):
            _called({key: key if value is None else value for key, value in mapping.items()}, target, where)
    return faults


def _called(mapping: Mapping[str, Any], target: str, where: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Returns the class of a system and the parameters that it is called with."""
    factory = system_class(mapping, where)
    parameters = {key: value for key, value in mapping.items() if key != "_target_" and key not in ABOUT}
    try:
        known = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # written in C
        raise HarnessError(f"{where}: key '_target_': {target} is not a class of a system") from None
    refuse([f"{where}: {fault}" for fault in _faults(target, parameters, known)])
    if "name" not in known:  # a class need not know the name of its runs
        parameters.pop("name", None)
    return factory, parameters


def _faults(target: str, parameters: Mapping[str, Any], known: Mapping[str, inspect.Parameter]) -> list[str]:
    """Checks parameters against those that a class accepts; returns one line for each fault."""
    faults = []
    kinds = {parameter.kind for parameter in known.values()}
    for key, value in parameters.items():
        if key not in known:
            if key != "name" and inspect.Parameter.VAR_KEYWORD not in kinds:
                faults.append(f"key {key!r} is unknown to {target}; {suggestion(key, known)}")
            continue
        kind = type(known[key].default)
        if kind in _KINDS and type(value) is not kind:
            faults.append(f"key {key!r} is {value!r}, expected {_KINDS[kind]}")
    name = parameters.get("name")
    if isinstance(name, str) and not is_tag(name):
        faults.append(f"key 'name' is {name!r}, which is no tag of a run: expected {NAME_RULE}, and no blanks")
    for key, parameter in known.items():
        needed = parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if needed and parameter.default is inspect.Parameter.empty and parameters.get(key) is None:
            if key in ("request", "topics", "corpus"):
                expected = "expected a class whose objects are called with a request, or a function that returns one"
                return [f"key '_target_': {target} ranks by itself, as it takes {key!r}; {expected}"]
            faults.append(f"key {key!r} is missing")
    return faults


OVERLAP = "harness.systems.baselines.Overlap"  # example of a class in error messages


def system_class(mapping: Mapping[str, Any], where: str) -> Callable[..., Any]:
    """Returns the class, or the function that makes the system, named by `_target_`.

    Raises
    ------
    HarnessError
        It cannot be imported, or is no class of a system.
    """
    target = str(mapping.get("_target_", ""))
    module, _, name = target.rpartition(".")
    if not all(part.isidentifier() for part in target.split(".")) or not module:
        raise HarnessError(f"{where}: key '_target_' is {target!r}, expected a class such as {OVERLAP}")
    try:
        named = getattr(guarded(f"{where}: {target}", lambda: importlib.import_module(module)), name)
    except SystemRaisedError as fault:
        if not isinstance(error := fault.__cause__, ModuleNotFoundError):
            raise
        extra = f"; install it with: pip install 'mathir-harness[{mapping['extra']}]'" if mapping.get("extra") else ""
        lacking = f"module {error.name!r} is neither in the current folder ({Path.cwd()}) nor installed"
        raise HarnessError(f"{where}: {target} cannot be loaded: {lacking}{extra}") from None
    except AttributeError:
        raise HarnessError(f"{where}: key '_target_': {module} has no {name!r}") from None
    if not callable(named) or inspect.isbuiltin(named) or (inspect.isclass(named) and issubclass(named, BaseException)):
        raise HarnessError(f"{where}: key '_target_': {target} is not a class of a system")
    factory: Callable[..., Any] = named
    return factory


def guarded(what: str, call: Callable[[], T]) -> T:
    """Calls code that is not ours and returns its result.

    Raises
    ------
    SystemRaisedError
        The code raised an exception other than HarnessError, or tried to exit the program.
    HarnessError
        There is not enough memory.
    """
    try:
        return call()
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code == NO_READER:
            raise
        if interrupt.stopping():  # a library may turn the interrupt into another exception
            raise KeyboardInterrupt from None
        raise system_raised(what, error) from error


@checked_arguments
def load_system(name: str, /, **settings: object) -> BuiltSystem:
    """Returns a system by the name of its configuration.

    Parameters
    ----------
    settings : overrides of the configuration's keys; a value that is a mapping is replaced as a whole. Values must be
        possible in YAML: texts, numbers, lists, mappings; NumPy numbers are converted.

    Raises
    ------
    HarnessError
        There is no such configuration, or `build_system` fails.

    Examples
    --------
    >>> load_system("bm25", k1=1.2, name="bm25-k1").name
    'bm25-k1'
    >>> load_system("bm25", dept=10)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    harness.errors.HarnessError: system bm25: key 'dept' is unknown to ...BM25; did you mean 'depth'?
    """
    mapping, where = config.load("system", name)
    try:  # plain values as in YAML, because the run's key and metadata file contain them
        plain = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError) as error:
        expected = "expected texts, finite numbers, lists and mappings"
        raise HarnessError(f"system {name}: settings that no YAML file can hold: {error}; {expected}") from None
    return build_system(mapping | plain, f"system {name}" if settings else where)


def check_cycle(part: object, above: tuple[str, ...] = ()) -> None:
    """Raises HarnessError if a system is its own input through the keys `runs`, `system` and `first`.

    Parameters
    ----------
    part : name or configuration of a system; any other value is ignored.
    above : names of the systems that have `part` as an input.
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

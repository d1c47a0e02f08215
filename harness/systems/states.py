"""States of systems: ready, missing modules, models or corpora, or the reason why a system cannot be run."""

from __future__ import annotations

import importlib
import inspect
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.io import checks, config
from harness.io.checks import Words
from harness.io.modules import installed
from harness.systems.crosslingual.scripts import name_of
from harness.systems.resources import RESOURCES

# Keys of a system's configuration that are not parameters.
ABOUT = ("title", "extra", "needs", "paper", "recipe", "by_hand", "example", RESOURCES)
Kind = Literal["ready", "needs", "not implemented", "blocked", "broken"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_WITH_MODELS = ("harness.systems.dense.", "harness.systems.crosslingual.", "harness.systems.mathamr.linearised.")


@dataclass(frozen=True)
class _Registered:
    """Configuration of a system that is only registered; `state` is the reason it cannot be run."""

    title: str
    state: Any
    paper: Any = None


@dataclass(frozen=True)
class RunRecipe:
    """Arguments of `harness run` that reproduce a published run, from the system's key `recipe`.

    Attributes
    ----------
    collection, corpus, edition : topics with their judgments, and documents; without an edition, the default one.
    rerank : whether only judged documents are ranked.
    settings : further arguments, such as `system.mode=live`.

    Raises
    ------
    HarnessError
        The collection or corpus is unknown.
    """

    collection: Words
    corpus: Words
    edition: Words | None = None
    rerank: bool = False
    settings: tuple[Words, ...] = ()

    def __post_init__(self) -> None:
        for group in ("collection", "corpus"):
            checks.choice(group, getattr(self, group), config.names(group))

    def words(self, system: str) -> list[str]:
        """Returns the arguments of the command, unquoted.

        Examples
        --------
        >>> RunRecipe("mini-task1", "mini-answers", rerank=True).words("bm25")
        ['collection=mini-task1', 'corpus=mini-answers', 'rerank=true', 'system=bm25']
        """
        words = [f"collection={self.collection}", f"corpus={self.corpus}"]
        words += [f"edition={self.edition}"] if self.edition else []
        return [*words, *(["rerank=true"] if self.rerank else []), f"system={system}", *self.settings]


def run_command(words: Sequence[str]) -> str:
    """Returns a call of `harness run` as a shell command, with quoted arguments.

    Examples
    --------
    >>> run_command(["system=fusion-rrf", "system.runs=[a,b]"])
    "harness run system=fusion-rrf 'system.runs=[a,b]'"
    """
    return " ".join(["harness run", *map(shlex.quote, words)])


def recipe(mapping: Mapping[str, Any], where: str = "system") -> RunRecipe | None:
    """Returns the key `recipe` of a system's configuration; None without it."""
    return checks.typed(RunRecipe, mapping["recipe"], f"{where}: recipe") if "recipe" in mapping else None


def nested_configurations(mapping: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
    """Yields the configurations of a system and of its parts: nested systems and translators."""
    yield mapping
    for key in ("system", "first", "runs", "translator"):
        value = mapping.get(key)
        for part in value if isinstance(value, list | tuple) else (value,):
            if isinstance(part, Mapping):
                yield from nested_configurations(part, above)
            elif isinstance(part, str) and part not in above and part in config.names("system"):
                yield from nested_configurations(config.load("system", part)[0], (*above, part))


def needed_models(configurations: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the distinct models that systems need, given all `parts` of a system."""
    models: dict[str, None] = {}
    for part in configurations:
        training = part.get("training")
        retriever = training.get("retriever") if isinstance(training, Mapping) else None
        if str(part.get("_target_", "")).startswith(_WITH_MODELS):
            models |= {name: None for name in (part.get("model"), retriever) if isinstance(name, str)}
    return list(models)


def missing_models(configurations: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the needed models that are not available locally."""
    needed = needed_models(configurations)
    if not needed:
        return []
    from harness.systems.dense import models

    return [model for model in needed if models.missing(model)]


def by_hand(configurations: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Maps models that must be obtained manually to instructions, from the key `by_hand` of systems.

    Examples
    --------
    >>> by_hand([{"model": "compubert", "by_hand": "manual download of ..."}, {"model": "witiko/mathberta"}])
    {'compubert': 'manual download of ...'}
    """
    return {str(part["model"]): str(part["by_hand"]) for part in configurations if "by_hand" in part}


def model_lines(model: str, brought: Mapping[str, str]) -> Sequence[str]:
    """Returns what is missing to load a model, one line each; `brought` is the result of `by_hand`."""
    from harness.systems.dense import models

    return [f"needs the model {model}: {brought[model]}"] if model in brought else models.missing(model)


def missing_answers(configurations: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns what is missing to call the language models of systems; empty if they use cached answers."""
    from harness.store.llm.endpoint import load_endpoint

    missing: dict[str, None] = {}
    for part in configurations:
        first = part.get("llm")
        if not isinstance(first, str) or part.get("cache"):
            continue
        second = part.get("augment_llm") or first
        asked = ([first] if part.get("view") != "formal" else []) + ([second] if part.get("augment") else [])
        for name in asked:
            lacking = load_endpoint(name).missing()
            missing |= {f"answers of {name} ({'; '.join(lacking)})": None} if lacking else {}
    return list(missing)


def missing_modules(configurations: Iterable[Mapping[str, Any]]) -> str:
    """Returns the missing modules of systems and the commands that install them; empty if nothing is missing."""
    return "; ".join(module_lines(configurations))


def module_lines(configurations: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns a line `WHAT: COMMAND` for each missing module of systems.

    The key `needs` names modules and files (checked by `config.load`). They are located without being imported, because
    a query of the state must not run code. The exception are our own modules: they may have a function `missing`, which
    may take the configuration.
    """
    return list(dict.fromkeys(line for name, part in _needed(configurations) for line in _lacking(name, part)))


def by_language(configurations: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Maps topic languages to what systems lack for them, "" if nothing; empty if the language makes no difference.

    The answers come from a function `by_language` of our own modules that the key `needs` names.
    """
    lacking: dict[str, str] = {}
    for name, _ in _needed(configurations):
        if name.startswith("harness.") and installed(name):
            function = getattr(importlib.import_module(name), "by_language", None)
            lacking |= {} if function is None else function()
    return lacking


def _needed(configurations: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the modules and files that systems need, each with the configuration that names it."""
    for part in configurations:
        needs = part.get("needs") or []
        yield from ((name, part) for name in ([needs] if isinstance(needs, str) else needs))


def _lacking(name: str, mapping: Mapping[str, Any]) -> Sequence[str]:
    """Returns what a module or file that a system needs lacks on this machine, a line each."""
    if "/" in name:
        return () if Path(name).expanduser().exists() else (f"{name}: no such file",)
    if not installed(name):
        extra = f": pip install 'mathir-harness[{mapping['extra']}]'" if mapping.get("extra") else ""
        return (f"{name} is not installed{extra}",)
    if not name.startswith("harness."):
        return ()
    try:
        missing = getattr(importlib.import_module(name), "missing", None)
        if missing is None:
            return ()
        return tuple(missing(mapping) if "mapping" in inspect.signature(missing).parameters else missing())
    except ImportError as error:
        return (f"{name}: {error}",)


def registered(configurations: Iterable[Mapping[str, Any]], where: str = "system") -> tuple[checks.Lack, str] | None:
    """Returns why a system with these `parts` cannot run, as from `checks.state`; None if it is implemented.

    Raises
    ------
    HarnessError
        The key `state` of the system or of a nested system is invalid.
    """
    for part in configurations:
        if "state" in part:
            return checks.state(part["state"], where)
    return None


def missing_collection(name: str) -> str:
    """Describes a collection that must be obtained manually and is missing; otherwise empty."""
    state = load_collection(name).state()
    return f"the collection {name} ({state})" if state.startswith("manual") else ""


def resources(absent: Sequence[str], corpus: str = "", brought: Mapping[str, str] = MappingProxyType({})) -> str:
    """Describes missing models and a missing corpus; empty if there are none.

    Parameters
    ----------
    brought : see `by_hand`.

    Examples
    --------
    >>> resources(["witiko/mathberta"], "arqmath-posts")
    'the model witiko/mathberta (hub) and corpus arqmath-posts'
    """
    from harness.store.llm.endpoint import load_endpoint

    places: dict[str, list[str]] = {}
    for model in absent:
        place = f"harness fetch {model}" if model in config.names("source") else brought.get(model, "hub")
        if model in config.names("llm"):
            place = "; ".join(load_endpoint(model).missing()) or "endpoint"
        places.setdefault(place, []).append(model)
    groups = [f"{' and '.join(named)} ({place})" for place, named in places.items()]
    if not groups:
        return f"the corpus {corpus}" if corpus else ""
    return f"the model{'s' * (len(absent) > 1)} {' and '.join(groups)}" + (f" and corpus {corpus}" if corpus else "")


def system_state(mapping: Mapping[str, Any], name: str) -> tuple[Kind, str]:
    """Returns the state of a system and its description: `ready`, why it cannot run, or what is missing.

    It is broken if the module of its class is not found; no module is imported.

    A system with a recipe is ready if its published run can be reproduced, which also requires the recipe's corpus if
    that must be obtained manually. If something is missing, the description ends with the command of that run.

    Raises
    ------
    HarnessError
        The key `state` or `recipe` is invalid.
    """
    where = f"system {name}"
    configurations = list(nested_configurations(mapping))
    fixed, made = registered(configurations, where), recipe(mapping, where)
    if fixed is not None:
        kind, why = fixed
        return kind, f"needs {why}" if kind == "needs" else f"{kind}: {why}"
    for part in configurations:
        module = str(part.get("_target_", "")).rpartition(".")[0]
        if module and not part.get("needs") and not installed(module):
            return "broken", f"broken: module {module!r} is neither in the current folder nor installed"
    modules, absent = missing_modules(configurations), missing_models(configurations)
    answers, brought = missing_answers(configurations), by_hand(configurations)
    if made is None:
        lines = [
            modules,
            *(line for model in absent for line in model_lines(model, brought)),
            *(f"needs {a}" for a in answers),
        ]
    else:
        state = load_corpus(made.corpus).state()
        of_hub = state.startswith("needs the data set")  # this state names the data set
        manual = not of_hub and state not in ("here", "fetchable")
        models_and_corpus = resources(absent, made.corpus if manual else "", brought)
        found_by = [models_and_corpus, state.removeprefix("needs ") if of_hub else ""]
        found_by += [*answers, missing_collection(made.collection)]
        lacking = "; ".join(part for part in found_by if part)
        lines = [modules, f"needs {lacking}: {run_command(made.words(name))}" if lacking else ""]
    if missing := "; ".join(line for line in lines if line):
        return "needs", missing
    known = by_language(configurations)
    here = [name_of(language) for language, needs in known.items() if not needs]
    others = [needs for needs in known.values() if needs]
    return "ready", "; ".join([f"ready for {' and '.join(here)}" if others else "ready", *others])


def check_registered(mapping: Mapping[str, Any], where: str) -> None:
    """Raises HarnessError, with the system's state, if a configuration only registers a system, or is invalid."""
    if "state" not in mapping:
        return
    checked = checks.typed(_Registered, mapping, where)
    kind, why = checks.state(checked.state, where)
    reason = f"needs {why}" if kind == "needs" else f"is {kind}: {why}"
    raise HarnessError(f"{where}: {checked.title} {reason}")

"""The facts about one configuration, which the command `show` prints."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from harness.cli import entries
from harness.cli.meanings import comments, settings_of
from harness.io import config
from harness.io.console import out, out_left

if TYPE_CHECKING:
    from harness.sources.resource import Folder, Resource

Facts = dict[str, str]
_EXAMPLES = {  # module of a system -> what it can rank with nothing but this repository
    "harness.systems.theorems.": "collection=mini-theorems corpus=mini-theorems",
    "harness.systems.structural.": "collection=mini-task2 corpus=mini-formulas",
    "harness.systems.crosslingual.": "collection=mini-task1-spa corpus=mini-answers",
    "": "collection=mini-task1 corpus=mini-answers",
}


def show(group: str, name: str, as_json: bool) -> None:
    """Prints the facts about a configuration."""
    folder = entries.GROUPS[group].folder
    mapping, path = config.load(folder, name)
    row = dict(entries.GROUPS[group].row(name))
    facts = {"group": folder, **{key: value for key, value in row.items() if value}}
    facts |= {"file": path, **_FACTS.get(group, _no_facts)(name, mapping)}
    settings = _settings(group, name, mapping)
    files = [_file(each) for each in _files(group, name)]
    example = _example(group, name, mapping)
    if as_json:
        document = {"facts": facts, "configuration": mapping, "settings": settings, "files": files, "example": example}
        out(json.dumps(document, indent=2, ensure_ascii=False, default=str))
        return
    _print(facts, settings, files, example)


def _print(facts: Facts, settings: Sequence[Facts], files: Sequence[Facts], example: str) -> None:
    title = facts.pop("title", "")
    name = facts.pop("name")
    out(f"{name}: {title}" if title else name)
    width = max(map(len, facts))
    for key, value in facts.items():
        out(f"  {key:{width}}  {value}")
    if settings:
        out("")
        rows = [[each["key"], each["value"], each["says"]] for each in settings]
        out_left([["setting", "value", "meaning"], *rows], fold=True)
    if files:
        out("")
        out_left(
            [["file", "size", "state"], *([each["name"], each["size"], each["state"]] for each in files)], fold=True
        )
    if example:
        out("")
        out(f"example: {example}")


def _settings(group: str, name: str, mapping: Mapping[str, Any]) -> list[Facts]:
    """Returns the keys of a configuration with their values; of a system also the parameters it leaves to its class."""
    from harness.systems.states import ABOUT

    hidden = (
        (*ABOUT, "_target_", "name", "title", "licence", "files")
        if group == "systems"
        else ("title", "name", "licence", "files")
    )
    says = comments(entries.GROUPS[group].folder, name)
    made = settings_of(str(mapping.get("_target_", ""))) if group == "systems" else {}
    keys = [key for key in mapping if key not in hidden]
    found = [(key, _shown(mapping[key]), says.get(key) or (made[key].says if key in made else "")) for key in keys]
    unlisted = [key for key in made if key not in (*keys, *hidden)]
    found += [(key, _as_yaml(made[key].default), made[key].says) for key in unlisted]
    return [{"key": key, "value": value, "says": text} for key, value, text in found]


def _as_yaml(code: str) -> str:
    """Returns a default value as YAML; an expression is returned as in the code."""
    try:
        return _shown(ast.literal_eval(code))
    except (ValueError, SyntaxError):
        return code


def _shown(value: object) -> str:
    """Returns a value as YAML on one line; of a long one, its size."""
    text = (
        yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False)
        .strip()
        .removesuffix("\n...")
    )
    if len(text) <= 100:
        return text
    return f"{len(value)} entries" if isinstance(value, Mapping | list) else text[:99] + "…"


def _files(group: str, name: str) -> Sequence[Resource | Folder | Path]:
    if group == "collections":
        from harness.collections.load import load_collection

        return list(load_collection(name).files())
    if group == "corpora":
        from harness.collections.corpora import load_corpus

        return list(load_corpus(name).files())
    if group == "sources":
        from harness.sources.catalogue import source_files

        return source_files(name)
    return ()


def _file(entry: Resource | Folder | Path) -> Facts:
    from harness.sources.fetch import state

    if isinstance(entry, Path):
        return {"name": str(entry), "size": _size(entry.stat().st_size) if entry.exists() else "", "state": "here"}
    size = f"{entry.files:,} files" if hasattr(entry, "files") else _size(entry.size)
    return {"name": entry.name, "size": size, "state": state(entry)}


def _size(count: int) -> str:
    """Returns a number of bytes in the unit that needs one to three digits; empty if it is unknown.

    Examples
    --------
    >>> _size(999), _size(374069), _size(0)
    ('999 B', '374 kB', '')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if count else ""
        count /= 1000  # type: ignore[assignment]
    raise AssertionError


def _example(group: str, name: str, mapping: Mapping[str, Any]) -> str:
    folder = entries.GROUPS[group].folder
    if group == "systems":
        return _run_of(name, mapping)
    if group == "papers":
        return f"harness reproduce paper={name}"
    if group == "builders":
        return f"harness build saber --config {name} --dry-run"
    return {
        "collections": f"harness score RUN --collection {name}",
        "corpora": f"harness run collection=COLLECTION corpus={name} system=bm25",
        "protocols": f"harness score RUN --collection COLLECTION --protocol {name}",
        "experiments": f"harness run experiment={name} --dry-run",
        "sweeps": f"harness run sweep={name} collection=mini-task1 corpus=mini-answers system=bm25",
        "sources": f"harness fetch {name}",
        "llms": f"harness run ... system.llm={name}",
    }.get(group, f"harness run {folder}={name}")


def _run_of(name: str, mapping: Mapping[str, Any]) -> str:
    from harness.systems.states import command, recipe

    if "state" in mapping:
        return ""
    made = recipe(mapping, f"system {name}")
    if made is not None:
        return command(made.words(name))
    target = str(mapping.get("_target_", ""))
    words = next(words for module, words in _EXAMPLES.items() if target.startswith(module))
    return command([*words.split(), f"system={name}"])


def _no_facts(name: str, mapping: Mapping[str, Any]) -> Facts:
    return {}


def _of_system(name: str, mapping: Mapping[str, Any]) -> Facts:
    found = {"class": str(mapping["_target_"])} if "_target_" in mapping else {}
    for key in ("extra", "by_hand"):
        if key in mapping:
            found[{"extra": "install", "by_hand": "by hand"}[key]] = (
                f"pip install 'mathir-harness[{mapping[key]}]'" if key == "extra" else str(mapping[key])
            )
    if "paper" in mapping:
        found["paper"] = f"{config.load('paper', mapping['paper'])[0].get('title', '')} ({mapping['paper']})"
    runs = sorted(Path("runs").glob(f"*/{name}.run"))
    return found | ({"runs here": ", ".join(map(str, runs))} if runs else {})


def _of_collection(name: str, mapping: Mapping[str, Any]) -> Facts:
    from harness.collections.load import load_collection

    found = load_collection(name)
    editions = {
        each: f"{edition.title}; {edition.topics or '?'} topics, {edition.judgments or '?'} judgments"
        for each in found.editions
        for edition in [found.edition(each)]
    }
    return {f"edition {each}": text for each, text in editions.items()}


def _of_protocol(name: str, mapping: Mapping[str, Any]) -> Facts:
    from harness.scoring.protocol import load_protocol

    return {"in words": "; ".join(load_protocol(name).in_words())}


def _of_experiment(name: str, mapping: Mapping[str, Any]) -> Facts:
    from harness.experiments.experiment import load_experiment

    found = load_experiment(name)
    axes = {axis: ", ".join(found.labels(axis)) for axis in found.coordinates}
    return {**axes, "measures": ", ".join(found.measures)}


_FACTS: dict[str, Callable[[str, Mapping[str, Any]], Facts]] = {
    "systems": _of_system,
    "collections": _of_collection,
    "protocols": _of_protocol,
    "experiments": _of_experiment,
}

"""The facts about one configuration, which the command `show` prints."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from harness import systems
from harness.cli import entries
from harness.cli.key_descriptions import comments, settings_of
from harness.errors import HarnessError
from harness.experiments.overrides import OVERRIDE, override_key
from harness.io import config
from harness.io.console import out_left, out_wrapped, print_line
from harness.io.names import file_name

if TYPE_CHECKING:
    from harness.papers.estimate import GroupEstimate
    from harness.sources.resource import RepositoryFolder, Resource

Facts = dict[str, str]
_COMMON = {"depth": "documents returned for each topic", "device": "auto, cpu, cuda"}  # settings of many systems


def show(group: str, name: str, as_json: bool) -> None:
    """Prints the facts about a configuration."""
    document = configuration_facts(group, name)
    if as_json:
        print_line(json.dumps(document, indent=2, ensure_ascii=False, default=str))
        return
    _print(document["facts"], document["settings"], document["files"], document["example"])
    if costs := _estimates(group, name):
        _print_costs(costs, name)


def configuration_facts(group: str, name: str) -> dict[str, Any]:
    """Returns the facts about a configuration as `harness show --json` prints them.

    Examples
    --------
    >>> configuration_facts("systems", "bm25")["settings"][1]
    {'key': 'b', 'value': '0.75', 'says': 'strength of length normalisation, 0 to 1'}
    """
    folder = entries.GROUPS[group].folder
    mapping, path = config.load(folder, name)
    row = dict(entries.GROUPS[group].row(name))
    facts = {"group": folder, **{key: value for key, value in row.items() if value}}
    facts |= {"file": path, **_FACTS.get(group, _no_facts)(name, mapping)}
    made = {
        "facts": facts,
        "configuration": mapping,
        "settings": _settings(group, name, mapping),
        "files": [_file_facts(each) for each in _files(group, name)],
        "example": _example(group, name, mapping, path),
    }
    if costs := _estimates(group, name):
        from harness.papers.estimate import to_json

        made["what it takes"] = to_json(costs, name)
    return made


def _print(facts: Facts, settings: Sequence[Facts], files: Sequence[Facts], example: str) -> None:
    title = facts.pop("title", "")
    name = facts.pop("name")
    print_line(f"{name}: {title}" if title else name)
    width = max(map(len, facts))
    for key, value in facts.items():
        out_wrapped(value, f"  {key:{width}}  ")
    if settings:
        print_line("")
        rows = [[each["key"], each["value"], each["says"]] for each in settings]
        out_left([["setting", "value", "meaning"], *rows], fold=True)
    if files:
        print_line("")
        out_left(
            [["file", "size", "state"], *([each["name"], each["size"], each["state"]] for each in files)], fold=True
        )
    if example:
        print_line("")
        print_line(f"example: {example}")


def _estimates(group: str, name: str) -> Sequence[GroupEstimate]:
    """Returns what the tables of a paper take; nothing of other groups, and of `all` and `demo`."""
    if group != "papers":
        return ()
    from harness.papers.estimate import estimates
    from harness.papers.paper import load_paper, paper_names

    return estimates(load_paper(name)) if name in paper_names() else ()


def _print_costs(costs: Sequence[GroupEstimate], name: str) -> None:
    """Prints what the tables of a paper take: the blocks of the report's section."""
    from harness.papers.paper import load_paper
    from harness.papers.report.estimates import cost_section
    from harness.render.model import Prose, Table
    from harness.systems.hardware import cores

    print_line("")
    archived = bool(load_paper(name).runs)
    print_line("Cost of making the runs" + " again; the published runs need none of this" * archived)
    for block in cost_section(costs, name, cores()).blocks:
        print_line("")
        lines: Sequence[str] = ()
        if isinstance(block, Table):
            print_line(f"{block.caption}:")
            out_left([[c.title for c in block.columns], *([c.text for c in row] for row in block.rows)], fold=True)
            lines = block.notes
        elif isinstance(block, Prose):
            lines = block.paragraphs
        for line in lines:
            out_wrapped(line, "", 3)


def _settings(group: str, name: str, mapping: Mapping[str, Any]) -> list[Facts]:
    """Returns the keys of a configuration with their values; of a system also the parameters it leaves to its class."""
    from harness.systems.states import ABOUT

    hidden = (
        (*ABOUT, "_target_", "name", "title", "licence", "files")
        if group == "systems"
        else ("title", "name", "licence", "files", *{"sweeps": ["hydra"], "papers": ["state"]}.get(group, []))
    )
    says = comments(entries.GROUPS[group].folder, name)
    made = settings_of(str(mapping.get("_target_", ""))) if group == "systems" else {}
    keys = [key for key in mapping if key not in hidden]
    rows = [(key, _shown(mapping[key]), says.get(key) or (made[key].says if key in made else "")) for key in keys]
    unlisted = [key for key in made if key not in (*keys, *hidden)]
    rows += [(key, _as_yaml(made[key].default), made[key].says) for key in unlisted]
    common = _COMMON if group == "systems" else {}
    return [{"key": key, "value": value, "says": text or common.get(key, "")} for key, value, text in rows]


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
    if isinstance(value, Mapping | list):
        return f"{len(value)} entr{'y' if len(value) == 1 else 'ies'}"
    return text[:99] + "…"


def _files(group: str, name: str) -> Sequence[Resource | RepositoryFolder | Path]:
    if group == "collections":
        from harness.collections.load import load_collection

        return load_collection(name).located()
    if group == "corpora":
        from harness.collections.corpora import load_corpus

        return load_corpus(name).located()
    if group == "sources":
        from harness.sources.catalogue import source_files

        return source_files(name)
    return ()


def _file_facts(entry: Resource | RepositoryFolder | Path) -> Facts:
    """Returns the path of a file that is here, else its name, with its size and state."""
    from harness.sources.cache import mirrored
    from harness.sources.fetch import resource_state

    if isinstance(entry, Path):
        here = os.access(entry, os.R_OK)
        size = _size(entry.stat().st_size) if here and entry.is_file() else ""
        return {"name": _absolute(entry), "size": size, "state": "here" if here else "missing"}
    size = f"{entry.files:,} files" if hasattr(entry, "files") else _size(entry.size)
    place = entry.cached if entry.cached.exists() else mirrored(entry)[0]
    return {"name": _absolute(place) if place else entry.name, "size": size, "state": resource_state(entry)}


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100  (links stay)


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


def _example(group: str, name: str, mapping: Mapping[str, Any], path: str) -> str:
    """Returns a command; words in capitals, such as RUN, are to be replaced."""
    folder = entries.GROUPS[group].folder
    if group == "systems":
        return _run_of(name, mapping, path)
    if group == "papers":
        return f"harness reproduce paper={name}"
    if group == "builders":
        return f"harness build saber --config {name} --dry-run"
    return {
        "collections": f"harness score RUN --collection {name}",
        "corpora": f"harness run collection=COLLECTION corpus={name} system=bm25",
        "protocols": f"harness score RUN --collection COLLECTION --protocol {name}",
        "experiments": f"harness run experiment={name} --dry-run",
        "sweeps": f"harness run sweep={name} {systems.EXAMPLE} {_swept(path)}",
        "sources": f"harness fetch {name}",
        "llms": f"harness run ... system.llm={name}",
    }.get(group, f"harness run {folder}={name}")


def _swept(path: str) -> str:
    """Returns the choice of the first system that the comments of a sweep's file name, with what its example adds."""
    named = re.search(r"^#.*\bsystem=([\w.-]*\w)", Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    system = named[1] if named and named[1] in config.names("system") else ""
    words = _words(config.load("system", system)[0], system) if system else []
    return shlex.join([f"system={system or 'SYSTEM'}", *(word for word in words if word.startswith("system."))])


def _words(mapping: Mapping[str, Any], where: str) -> Sequence[str]:
    """Returns the key `example` of a system: words of `harness run` beside or instead of the usual ones."""
    given = mapping.get("example", [])
    if not isinstance(given, list) or not all(isinstance(word, str) and OVERRIDE.fullmatch(word) for word in given):
        raise HarnessError(f"{where}: key 'example' is {given!r}, expected a list of KEY=VALUE")
    return given


def _run_of(name: str, mapping: Mapping[str, Any], path: str) -> str:
    from harness.systems.states import recipe, run_command

    if "state" in mapping:
        return ""
    made = recipe(mapping, f"system {name}")
    if made is not None:
        return run_command(made.words(name))
    target = str(mapping.get("_target_", ""))
    family = target.rpartition(".")[0].rpartition(".")[0]
    ours = importlib.import_module(family) if family.startswith(f"{systems.__name__}.") else systems
    words = getattr(ours, "EXAMPLE", systems.EXAMPLE)
    usual = [*words.split(), f"system={name}"]
    return run_command([*{override_key(word): word for word in (*usual, *_words(mapping, path))}.values()])


def _no_facts(name: str, mapping: Mapping[str, Any]) -> Facts:
    return {}


def _of_system(name: str, mapping: Mapping[str, Any]) -> Facts:
    facts = {"class": str(mapping["_target_"])} if "_target_" in mapping else {}
    for key in ("extra", "by_hand"):
        if key in mapping:
            facts[{"extra": "install", "by_hand": "by hand"}[key]] = (
                f"pip install 'mathir-harness[{mapping[key]}]'" if key == "extra" else str(mapping[key])
            )
    if "paper" in mapping:
        facts["paper"] = f"{config.load('paper', mapping['paper'])[0].get('title', '')} ({mapping['paper']})"
    runs = sorted(Path("runs").glob(f"*/{file_name(name)}.run"))
    return facts | ({"runs here": ", ".join(map(str, runs))} if runs else {})


def _of_collection(name: str, mapping: Mapping[str, Any]) -> Facts:
    from harness.collections.load import load_collection

    collection = load_collection(name)
    editions = {
        each: f"{edition.title}; {edition.topics or '?'} topics, {edition.judgments or '?'} judgments"
        for each in collection.editions
        for edition in [collection.edition(each)]
    }
    return {f"edition {each}": text for each, text in editions.items()}


def _of_protocol(name: str, mapping: Mapping[str, Any]) -> Facts:
    from harness.scoring.protocol import load_protocol

    return {"in words": " ".join(load_protocol(name).in_words())}


def _of_sweep(name: str, mapping: Mapping[str, Any]) -> Facts:
    return {key: str(values) for key, values in entries.swept(mapping, config.load("sweep", name)[1]).items()}


def _of_experiment(name: str, mapping: Mapping[str, Any]) -> Facts:
    from harness.experiments.experiment import load_experiment

    experiment = load_experiment(name)
    axes = {axis: ", ".join(experiment.labels(axis)) for axis in experiment.coordinates}
    return {**axes, "measures": ", ".join(experiment.measures)}


def _of_paper(name: str, mapping: Mapping[str, Any]) -> Facts:
    from harness.papers.records import read_settings, settings_in_words

    settings = read_settings(name)
    return {"compared": f"{settings_in_words(settings)}; in settings/{name}.csv beside this file"} if settings else {}


_FACTS: dict[str, Callable[[str, Mapping[str, Any]], Facts]] = {
    "systems": _of_system,
    "collections": _of_collection,
    "protocols": _of_protocol,
    "experiments": _of_experiment,
    "papers": _of_paper,
    "sweeps": _of_sweep,
}

"""The reference of the keys of configuration files, from the classes that check them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from docs.make.tables import code, plain, table
from harness.cli.key_descriptions import comments, file_comments, settings_of
from harness.collections import beir
from harness.collections.corpora import CorpusFile
from harness.collections.load import CollectionFile
from harness.experiments.experiment import Experiment
from harness.io import config
from harness.labs.settings import LabFile
from harness.papers.map import ArchiveMap
from harness.papers.paper import Config
from harness.papers.saber.pipeline import BuilderSettings
from harness.scoring.protocol import Protocol
from harness.sources.catalogue import SourceFile
from harness.store.llm.endpoint import Endpoint
from harness.systems.keys import defaults, inner_classes
from harness.systems.resources import Resources
from harness.systems.states import RunRecipe

FILES: Mapping[str, tuple[str, type]] = {
    "collection": ("conf/collection/NAME.yaml", CollectionFile),
    "collection-beir": ("conf/collection/NAME.yaml with the key beir", beir.BeirCollectionFile),
    "corpus": ("conf/corpus/NAME.yaml", CorpusFile),
    "corpus-beir": ("conf/corpus/NAME.yaml with the key beir", beir.BeirCorpusFile),
    "protocol": ("conf/protocol/NAME.yaml", Protocol),
    "experiment": ("conf/experiment/NAME.yaml", Experiment),
    "source": ("conf/source/NAME.yaml", SourceFile),
    "llm": ("conf/llm/NAME.yaml", Endpoint),
    "builder": ("conf/builder/NAME.yaml", BuilderSettings),
    "paper": ("conf/paper/NAME.yaml", Config),
    "recipe": ("Key recipe of a system", RunRecipe),
    "resources": ("Key resources of a system", Resources),
    "lab": ("lab.yaml of a lab", LabFile),
    "map": ("map.yaml of runs for the rows of a paper", ArchiveMap),
}  # anchor -> heading, class
HYDRA = ("hydra/launcher", "hydra/callbacks")
_MOST = 3  # entries of a mapping that stand in a row
_TYPES = {str: "text", int: "whole number", float: "number", bool: "true, false", NoneType: "null"}


def page() -> str:
    """Returns the page: a section per kind of file with every key that it may have."""
    lines = [
        "# Keys of all configuration files",
        "",
        "Generated from the classes that check the files; a key that is not here is an error. `NAME` stands for a name"
        " that you choose, and `[]` for each entry of a list. The keys of a system are on [its"
        " page](../systems/index.md).",
    ]
    for anchor, (heading, cls) in FILES.items():
        lines += ["", f"## {heading} {{#{anchor}}}", "", table(["key", "type", "default", "meaning"], list(rows(cls)))]
    for group in HYDRA:
        for name, path in config.names(group).items():
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
            inside = (name,) if list(found) == [name] else ()
            says = file_comments(path, inside)
            for each in inside:
                found = found[each]
            given = [
                [code(key), code(written(value)), plain(says.get(key, ""))]
                for key, value in found.items()
                if key != "_target_"
            ]
            lines += ["", f"## {group}={name}", "", table(["key", "default", "meaning"], given)]
    return "\n".join(lines)


def rows(cls: type, above: str = "") -> Iterator[list[str]]:
    """Yields key, type, default and meaning of the keys of a dataclass, and of those inside them.

    Examples
    --------
    >>> [row[0] for row in rows(Experiment) if "seeds" in row[0]]
    ['`seeds`', '`seeds.key`', '`seeds.values`', '`seeds.only`', '`seeds.best`', '`scale.NAME.seeds`']
    """
    hints = get_type_hints(cls, include_extras=True)
    says = settings_of(f"{cls.__module__}.{cls.__name__}")
    for each in fields(cls):
        kind = hints[each.name]
        made = each.default_factory() if each.default_factory is not MISSING else each.default
        inner, under = _inside(kind)
        default = "required" if made is MISSING else "" if is_dataclass(made) else code(written(made))
        yield [code(above + each.name), plain(_type(kind)), default, plain(says[each.name].says)]
        if inner is not None:
            yield from rows(inner, f"{above}{each.name}{under}.")


def _inside(kind: object) -> tuple[type | None, str]:
    """Returns the dataclass that a key's value or its entries are, and what stands for the entries' names."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _inside(arguments[0])
    if origin in (Union, UnionType):
        return next((found for each in arguments if (found := _inside(each))[0]), (None, ""))
    if origin is tuple:
        entry, under = _inside(arguments[0])
        return entry, f"[]{under}"
    if origin is Mapping:
        entry, under = _inside(arguments[1])
        return entry, f".NAME{under}"
    return (kind, "") if isinstance(kind, type) and is_dataclass(kind) else (None, "")


def _type(kind: object) -> str:
    """Returns a type in words.

    Examples
    --------
    >>> _type(tuple[str, ...] | None), _type(Mapping[str, float]), _type(Literal["a", "b"])
    ('list of text, or null', 'mapping to number', 'a, b')
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (Union, UnionType):
        given = [words for each in arguments if each is not NoneType and (words := _type(each))]
        return ", or ".join(dict.fromkeys([*given, *(["null"] if given and NoneType in arguments else [])]))
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin is tuple:
        return " of ".join(filter(None, ["list", _type(arguments[0])]))
    if origin is Mapping:
        return " to ".join(filter(None, ["mapping", _type(arguments[1])]))
    return _TYPES.get(kind, "mapping" if is_dataclass(kind) else "")  # type: ignore[call-overload,no-any-return]


def inner_rows(name: str) -> Iterator[list[str]]:
    """Yields key, value and meaning of the keys inside the settings of a system, those with defaults too.

    Examples
    --------
    >>> next(row for row in inner_rows("bi-encoder-tuned") if row[0] == "`training.epochs`")
    ['`training.epochs`', '`2`', 'maximum number of epochs, and of epochs without a lower validation loss']
    """
    mapping, _ = config.load("system", name)
    for key, made in inner_classes(mapping).items():
        given: Any = mapping
        for part in key.split("."):
            given = (given or {}).get(part) or {}
        cls = getattr(made, "func", made)  # of a class with other defaults
        documented = settings_of(f"{cls.__module__}.{cls.__qualname__}")
        said = comments("system", name, key.split("."))
        values = {**(defaults(made) or {}), **{each: value for each, value in given.items() if each != "_target_"}}
        for each, value in values.items():
            says = said.get(each) or (documented[each].says if each in documented else "")
            shown = "" if value is MISSING or (isinstance(value, Mapping) and len(value) > _MOST) else written(value)
            yield [code(f"{key}.{each}"), code(shown), plain(says)]


def written(value: Any) -> str:  # noqa: ANN401
    """Returns a value as YAML on one line.

    Examples
    --------
    >>> written((1, "a")), written(None), written({})
    ('[1, a]', 'null', '{}')
    """
    if isinstance(value, Mapping):
        value = {key: list(each) if isinstance(each, tuple) else each for key, each in value.items()}
    value = list(value) if isinstance(value, tuple) else value
    try:
        text = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False)
    except yaml.YAMLError:  # no plain value, such as a reader
        return ""
    return str(text).strip().removesuffix("\n...")

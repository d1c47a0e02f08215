"""The command `new`: collections, systems, protocols and packages to start from, which work at once."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer

from harness.cli.main import MAKING, HelpGroup
from harness.errors import HarnessError, counted_text, refuse
from harness.io.console import print_line

new_app = typer.Typer(
    cls=HelpGroup,
    rich_help_panel=MAKING,
    help="Write commented templates for your own collection, system, protocol or package.",
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name: letters, digits, - and _.")]
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")


@new_app.command()
def collection(
    name: Name,
    beir: Annotated[
        str | None,
        typer.Option(
            "--beir", metavar="FOLDER|HUB-ID", help="Import a data set in BEIR format; the command reads all of it."
        ),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="With --beir HUB-ID: commit of the data set; default: the newest.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="With --beir: split of the judgments; default: test.")] = None,
    subset: Annotated[str | None, typer.Option(help="With --beir: subset, if the data set has several.")] = None,
) -> None:
    """Write a collection and a corpus to conf/: examples to replace by your files, or a data set in BEIR format."""
    conf = _conf()
    if beir is not None:
        _of_data_set(name, conf, beir, revision, split or "test", subset or "")
        return
    if revision or split or subset:
        raise HarnessError("--revision, --split and --subset: need --beir, which names the data set")
    _write(name, ("collection", "corpus"), _collection_files(name, conf))
    print_line(f"next: harness run collection={name} corpus={name} system=bm25")


def _of_data_set(name: str, conf: Path, place: str, revision: str | None, split: str, subset: str) -> None:
    """Writes the configurations of a collection and a corpus that read a data set in BEIR's format."""
    from harness.collections import beir

    files = {conf / "collection" / f"{name}.yaml": "beir_collection.yaml"}
    files |= {conf / "corpus" / f"{name}.yaml": "beir_corpus.yaml"}
    _check(name, ("collection", "corpus"), files)  # before a large data set is read
    data = beir.named(place, revision, split, subset)
    survey = beir.survey(data)
    where = {"folder": _beside(data.folder, conf / "corpus")} if data.folder else {"hub": data.name}
    where |= {"revision": data.revision} if data.revision else {}
    where |= {"subset": subset} if subset else {}
    where |= {"dollars": data.dollars}
    checked = {"split": split, "topics": survey.topics, "judgments": survey.judgments}
    protocol = "beir-listed" if survey.excluded else "beir"
    said = {"title": place, "corpus": where, "split": where | checked}
    values = {key: json.dumps(value, ensure_ascii=False) for key, value in said.items()}  # JSON is YAML
    _write(name, ("collection", "corpus"), files, values=values | {"protocol": protocol})
    excluded = f", {counted_text(survey.excluded, 'pair')} excluded" if survey.excluded else ""
    numbers = ((survey.documents, "document"), (survey.topics, "topic"), (survey.judgments, "judgment"))
    print_line(", ".join(counted_text(number, name) for number, name in numbers) + excluded)
    if any(survey.texts.values()):
        print_line(", ".join(f"{name}: {number:,}" for name, number in survey.texts.items()))
    print_line(f"next: harness run collection={name} corpus={name} system=bm25")


def _beside(folder: Path, conf: Path) -> str:
    """Returns a folder as a file in `conf` names it: relative if it is below the current folder, else absolute."""
    full = Path(os.path.abspath(folder))  # noqa: PTH100  (links stay)
    return os.path.relpath(full, os.path.abspath(conf)) if full.is_relative_to(Path.cwd()) else str(full)  # noqa: PTH100


@new_app.command()
def system(name: Name) -> None:
    """Write a system: a Python module in the current folder, and its configuration in conf/."""
    module = _module(name)
    files = {_conf() / "system" / f"{name}.yaml": "system.yaml", Path(f"{module}.py"): "system.py.txt"}
    _write(name, ("system",), files, module)
    print_line(f"next: harness run collection=mini-task1 corpus=mini-answers system={name}")


@new_app.command()
def protocol(name: Name) -> None:
    """Write a protocol to conf/: measures, depth, gains and ties."""
    _write(name, ("protocol",), {_conf() / "protocol" / f"{name}.yaml": "protocol.yaml"})
    print_line(f"next: harness score RUN... --collection C --protocol {name}")


@new_app.command()
def package(name: Name) -> None:
    """Write a package to install: a system, a collection, a measure and a command, with its tests."""
    module, root = _module(name), Path(name)
    conf = root / module / "conf"
    files = {
        root / "pyproject.toml": "package.toml",
        root / "README.md": "package_readme.md",
        root / module / "__init__.py": "",
        root / module / "system.py": "system.py.txt",
        root / module / "measures.py": "package_measures.py.txt",
        root / module / "commands.py": "package_commands.py.txt",
        root / "tests" / f"test_{module}.py": "package_test.py.txt",
        conf / "system" / f"{name}.yaml": "system.yaml",
        **_collection_files(name, conf),
    }
    if find_spec(module) is not None:
        raise HarnessError(f"{name!r}: Python has a module {module} already; choose another name")
    if root.exists():
        raise HarnessError(f"{root}: exists already, and is left as it is; choose another name")
    measure = f"Gain{module.title().replace('_', '')}"
    values = {"module": f"{module}.system", "package": module, "measure": measure}
    _write(name, ("system", "collection", "corpus"), files, values=values)
    print_line(f"next: pip install -e './{name}[test]'")


def _collection_files(name: str, conf: Path) -> dict[Path, str]:
    """Returns the files of a collection and its corpus below a folder of configurations, and their templates."""
    return {
        conf / "collection" / f"{name}.yaml": "collection.yaml",
        conf / "collection" / f"{name}.topics.jsonl": "topics.jsonl",
        conf / "collection" / f"{name}.qrels": "qrels.txt",
        conf / "corpus" / f"{name}.yaml": "corpus.yaml",
        conf / "corpus" / f"{name}.jsonl": "corpus.jsonl",
    }


def _conf() -> Path:
    """Returns the user's folder of configurations."""
    return Path(os.environ.get("HARNESS_CONF") or "conf")


def _module(name: str) -> str:
    """Returns the name of a system as a Python module name."""
    plain = name.replace("-", "_")
    return f"{plain}_" if iskeyword(plain) else plain


def _check(name: str, groups: tuple[str, ...], files: Mapping[Path, str], module: str = "") -> None:
    """Raises HarnessError if a name is invalid or taken."""
    from harness.io import config

    if not _NAME.fullmatch(name):
        raise HarnessError(f"{name!r}: expected letters, digits, - and _, beginning with a letter, at most 60")
    if config.parse(f"name: {name}".encode(), name)["name"] != name:
        raise HarnessError(f"{name!r}: YAML does not read this as text; choose another name")
    there = [path for path in files if os.path.lexists(path)]
    faults = [f"{path}: exists already, and is left as it is; choose another name" for path in there]
    told = {path.resolve() for path in there}
    for group in groups:
        known = config.names(group)
        if name in known and known[name].resolve() not in told:
            faults.append(f"{known[name]}: a {group} of this name exists already; choose another name")
    if module and not Path(f"{module}.py").exists() and find_spec(module) is not None:
        faults.append(f"{name!r}: Python has a module {module} already; choose another name")
    refuse(faults)


def _write(
    name: str,
    groups: tuple[str, ...],
    files: Mapping[Path, str],
    module: str = "",
    values: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Writes templates to new files, all or none; `{KEY}` in them is replaced by a value."""
    from harness.io.files import read_bytes, write_all

    _check(name, groups, files, module)
    templates = Path(__file__).parent / "templates"
    texts = {path: read_bytes(templates / template).decode() if template else "" for path, template in files.items()}
    for key, value in {"name": name, "module": module, **values}.items():
        texts = {path: text.replace(f"{{{key}}}", value) for path, text in texts.items()}
    write_all(texts)
    for path in files:
        print_line(f"{path}: written")

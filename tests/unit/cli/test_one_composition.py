"""One `harness run` parses each configuration file once, and no private name of a library is used."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import harness
from harness.cli.compose import composed_alone, read_flags
from harness.cli.overrides import GROUPS
from harness.experiments.cell_composition import composer, initialized
from harness.io import config

ROOT = Path(harness.__file__).parent
PUBLIC = {"os._exit", "_typeshed"}  # documented; stubs for type checkers
ALONE = {"experiments/cell_composition.py": {"hydra._internal.callbacks"}}  # a class that a public one is made of
COUNTED = """
import collections, json, sys, yaml
found = collections.Counter()
load = yaml.load
def counted(stream, Loader):
    text = stream if isinstance(stream, str | bytes) else stream.read()
    found[text if isinstance(text, str) else text.decode()] += 1
    return load(text, Loader)
yaml.load = counted
sys.argv = ["harness", *sys.argv[1:]]
from harness.cli.program import main
try:
    main()
finally:
    print(json.dumps(found), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ["system=bm25"],  # with a base
        ["-m", "system=bm25,tfidf-ltn", "system.depth=10,20"],
        ["system=bm25", "--cfg", "job"],
    ],
)
def test_each_file_is_parsed_once(more: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", COUNTED, "run", "collection=mini-task1", *more]
    for _ in ("fresh", "reused"):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        parsed = json.loads(done.stderr.splitlines()[-1])
        ours = [path.read_text(encoding="utf-8") for path in config.folders()[0].rglob("*.yaml")]
        assert {parsed[text] for text in ours if text in parsed} == {1}
        assert parsed.keys() >= {*map(read, ("run", "system/_bm25", "collection/mini-task1"))}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run", ["collection=mini-task1", "corpus=mini-answers", "system=bm25"]),
        ("run", ["collection=mini-theorems", "system=tree", "protocol=crossmath"]),
        ("run", ["collection=arqmath-3-task1", "corpus=mse-pages", "system=mathamr-plus", "-r"]),
        ("reproduce", []),
        ("reproduce", ["paper=crossmath"]),
    ],
)
def test_a_configuration_of_names_is_as_hydra_composes_it(command: str, words: list[str]) -> None:
    with initialized(command):
        theirs = composer(command, GROUPS[command])([word for word in words if word != "-r"])
    assert composed_alone(command, read_flags(command, words)) == OmegaConf.to_container(theirs, resolve=True)


@pytest.mark.parametrize(
    "word", ["system.k1=2", "collection=a,b", "output=there", "-m", "--cfg=job", "sweep=bm25-grid"]
)
def test_what_is_left_to_hydra(word: str) -> None:
    assert composed_alone("run", read_flags("run", ["collection=mini-task1", "system=bm25", word])) is None


def read(name: str) -> str:
    return (config.folders()[0] / f"{name}.yaml").read_text(encoding="utf-8")


def private(tree: ast.Module) -> Iterator[str]:
    """Modules of others with a private part, private names of them, and attributes of them that are replaced."""
    others: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, alias.asname or alias.name.partition(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = [(f"{node.module}.{alias.name}", alias.asname or alias.name) for alias in node.names]
        else:
            continue
        for name, local in names:
            if name.partition(".")[0] != "harness":
                others[local] = name
                if any(part.startswith("_") for part in name.split(".")):
                    yield name.rpartition(".")[0] if isinstance(node, ast.ImportFrom) else name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in others:
            if node.attr.startswith("_") and not node.attr.startswith("__"):
                yield f"{others[node.value.id]}.{node.attr}"
            elif isinstance(node.ctx, ast.Store) and others[node.value.id] not in ("sys", "os"):
                yield f"{others[node.value.id]}.{node.attr} ="


@pytest.mark.slow
def test_no_private_name_of_a_library() -> None:
    found = {}
    for path in ROOT.rglob("*.py"):
        if names := set(private(ast.parse(path.read_text(encoding="utf-8")))) - PUBLIC:
            found[path.relative_to(ROOT).as_posix()] = names
    assert found == ALONE

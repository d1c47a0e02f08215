"""The layers of the package: an import goes down the list of folders, never up and never across."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import harness

ROOT = Path(harness.__file__).parent
# What papers share is in `papers` and `papers/report`; the other folders are one paper each.
PAPERS = tuple(
    f"papers.{path.parent.name}" for path in sorted(ROOT.glob("papers/*/__init__.py")) if path.parent.name != "report"
)
TIERS: tuple[tuple[str, ...], ...] = (
    ("errors", "version"),
    ("io",),
    ("formulas",),
    ("data", "store", "sources", "render"),
    ("scoring",),
    ("collections",),
    ("systems",),
    ("experiments",),
    ("reports",),
    ("labs",),
    ("labs.site",),
    ("papers",),
    PAPERS,
    ("rehearsal",),
    ("labs.server",),
    ("cli",),
    ("__init__", "__main__"),
)
TIER = {folder: tier for tier, folders in enumerate(TIERS) for folder in folders}
# Lower folders that a folder may not import all the same: the modules that it may.
ONLY: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("scoring", "store"): (),
    ("scoring", "sources"): (),
    ("scoring", "formulas"): (),
    ("scoring", "render"): (),
    ("collections", "render"): (),
    ("systems", "render"): (),
    ("systems", "scoring"): ("harness.scoring.measures", "harness.scoring.rankings"),
    ("experiments", "render"): (),
    **{(room, "labs"): () for room in ("papers", *PAPERS)},
}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        if "_data" in path.parts:
            continue
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


KNOWN = dict(modules())


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, module of ours, name) of every import, those inside functions and for type checkers too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "harness":
                    yield node.lineno, alias.name, ""
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "harness":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in KNOWN:
                    yield node.lineno, inner, ""
                else:
                    yield node.lineno, str(node.module), alias.name


def folder(module: str) -> str:
    """Returns the room of a module: the folder below the package, or one below it that is a room of its own."""
    parts = module.split(".")
    inner = ".".join(parts[1:3])
    return inner if inner in TIER else parts[1] if len(parts) > 1 else "__init__"


def faults() -> list[str]:
    found = []
    for module, path in modules():
        mine = folder(module)
        where = path.relative_to(ROOT.parent)
        for line, other, name in imports(path):
            theirs = folder(other)
            if (
                name.startswith("_")
                and not name.startswith("__")
                and other.rpartition(".")[0] != module.rpartition(".")[0]
            ):
                found.append(f"{where}:{line}: takes {name} of {other}")
            if theirs == mine:
                continue
            if mine not in TIER or theirs not in TIER:
                found.append(f"{where}:{line}: {mine} or {theirs} has no tier")
            elif TIER[theirs] >= TIER[mine]:
                found.append(f"{where}:{line}: {mine} imports {other}, which is no lower")
            elif (mine, theirs) in ONLY and other not in ONLY[mine, theirs]:
                found.append(f"{where}:{line}: {mine} imports {other}, which it may not")
            if mine != "cli" and other == "harness.io.console" and name.startswith("out"):
                found.append(f"{where}:{line}: {mine} prints results, as commands alone may")
    return found


def test_imports_go_down() -> None:
    assert faults() == []


def test_no_cycles() -> None:
    """Of files that import each other; type-checking imports count."""
    graph = {module: {other for _, other, _ in imports(path)} & KNOWN.keys() - {module} for module, path in modules()}
    TopologicalSorter(graph).prepare()


def test_general_code_names_no_paper() -> None:
    """In no string or name: a paper is found by its configuration. One family of systems has the name of one."""
    names = [name.removeprefix("papers.") for name in PAPERS]
    papers = re.compile("|".join(name for name in names if not (ROOT / "systems" / name).is_dir()), re.IGNORECASE)
    found = []
    for module, path in modules():
        if TIER[folder(module)] > TIER["papers"] or module.startswith("harness.systems."):
            continue
        tree = parsed(path)
        texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings give examples
        for node in ast.walk(tree):
            named = [getattr(node, key, None) for key in ("id", "name", "attr", "module")]
            named += [node.value] if isinstance(node, ast.Constant) and id(node) not in texts else []
            if any(isinstance(each, str) and papers.search(each) for each in named):
                found.append(f"{path.relative_to(ROOT.parent)}:{getattr(node, 'lineno', 0)}")
    assert found == []


def test_one_module_calls_language_models() -> None:
    calls = [
        name for name, path in modules() if re.search(r"\bimport openai\b|\bfrom openai\b", path.read_text("utf-8"))
    ]
    assert calls == ["harness.store.llm.wire"]


def test_files_have_at_most_500_lines() -> None:
    folders = ("bench", "docs", "examples", "harness", "tests")
    paths = [path for folder in folders for path in (ROOT.parent / folder).rglob("*.py")]
    assert [str(path) for path in paths if len(path.read_text("utf-8").splitlines()) > 500] == []

"""What a result depends on: of our code what is imported, of others' the whole, of libraries the version."""

from __future__ import annotations

import ast
import importlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from case_tables import literals as rows

from harness.collections.corpora import load_corpus
from harness.experiments import fingerprint
from harness.store import artefacts, code
from harness.store.literals import literals
from harness.systems.build import build_system
from harness.systems.lexical.system import BM25, tokens_of

BM25_, L2L = "harness.systems.lexical.system", "harness.systems.structural.l2l"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    code.forget()


@pytest.fixture
def place(tmp_path: Path, importable: Callable[[Path], None]) -> Path:
    """A folder whose modules can be imported."""
    folder = tmp_path / "place"
    folder.mkdir()
    importable(folder)
    return folder


@pytest.fixture
def changes() -> Callable[..., bool]:
    """Whether a file with other content (None: deleted) changes the digest of a module."""

    def changed(module: str, path: Path, content: str | None) -> bool:
        before, old = code.of(module), path.read_text() if path.exists() else None
        path.unlink() if content is None else path.write_text(content)
        code.forget()
        after = code.of(module)
        path.write_text(old) if old is not None else path.unlink()
        code.forget()
        return after != before

    return changed


# ---- imports ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), rows("store/code_imports_of_a_text"))
def test_imports_of_a_text(text: str, expected: str) -> None:
    assert code.imports(text, "p.q") == set(expected.split())


def parsed(text: str) -> set[str]:
    """The absolute imports of a text and what it takes of them, by Python's own parser."""
    out: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        match waiting.pop():
            case ast.If(test=ast.Name("TYPE_CHECKING"), orelse=other):
                waiting += other
            case ast.Import(names=names):
                out |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names, level=0):
                out |= {module, *(f"{module}.{alias.name}" for alias in names)}
            case ast.Call(
                func=ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(str(module)), *_],
            ):
                out.add(module)
            case node:
                waiting += ast.iter_child_nodes(node)
    return out


@pytest.mark.slow
def test_imports_are_those_of_pythons_parser_on_all_our_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in code.ROOT.rglob("*.py")}
    some = sorted(Path(__file__).parents[1].rglob("*.py"))[::4]
    tests = {path: path.read_text(encoding="utf-8") for path in some}
    expected = {path: parsed(text) for path, text in (texts | tests).items()}
    parse, parses = ast.parse, list[str]()

    def counted(text: str) -> ast.Module:
        parses.append(text)
        return parse(text)

    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", counted)
        found = {path: code.imports(text) for path, text in (texts | tests).items()}
    for path in texts:
        assert found[path] == expected[path], path
    for path in tests:  # code inside a string, as tests have it, may be taken for more than it is
        assert found[path] >= expected[path], path
    assert len(parses) < len(found) / 4  # the others are read without the parser, which takes much longer


# ---- our own systems --------------------------------------------------------------------------------------------


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of our modules that counts as ours."""
    copy = tmp_path / "copy" / "harness"
    shutil.copytree(code.ROOT, copy, ignore=shutil.ignore_patterns("__pycache__", "_data"))
    code.forget()
    monkeypatch.setattr(code, "ROOT", copy)
    return copy


@pytest.mark.slow
def test_a_digest_does_not_depend_on_where_the_code_lies(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = code.of(BM25_)
    monkeypatch.undo()
    code.forget()
    assert code.of(BM25_) == copied


@pytest.mark.slow
def test_a_system_depends_on_what_it_imports_and_on_no_other_system(ours: Path, changes: Callable[..., bool]) -> None:
    l2l = ours / "systems" / "structural" / "l2l.py"
    more = l2l.read_text() + "\nMORE = 1\n"
    assert changes(L2L, l2l, more)
    assert not changes(BM25_, l2l, more)
    for name, text in (
        ("systems/lexical/weighting.py", "more"),
        ("data/trec.py", "more"),
        ("systems/__init__.py", "more"),
    ):
        assert changes(BM25_, ours / name, f"# {text}\n"), name
    assert not changes(BM25_, ours / "render" / "html.py", "")
    assert changes(L2L, ours / "systems" / "structural" / "tangent.py", "")  # imported by it
    # A module that is imported inside a function, and one that comes to be imported.
    late = ours / "systems" / "late.py"
    late.write_text("X = 1\n")
    weighting = (ours / "systems" / "lexical" / "weighting.py").read_text()
    (ours / "systems" / "lexical" / "weighting.py").write_text(
        f"{weighting}\n\ndef f():\n    from harness.systems.late import X\n"
    )
    assert changes(BM25_, late, "X = 2\n")


@pytest.mark.slow
def test_tokens_that_are_kept_depend_on_the_code_that_makes_them(ours: Path) -> None:
    corpus = load_corpus("mini-answers")

    def kept() -> int:
        code.forget()
        tokens_of(corpus, ("body",), {"name": "text"})
        return len(artefacts.artefacts())

    assert kept() == kept() == 1
    (ours / "systems" / "structural" / "l2l.py").write_text("")
    assert kept() == 1
    for number, name in enumerate(("text", "symbols", "tokens"), 2):
        path = ours / "systems" / "lexical" / f"{name}.py"
        path.write_text(f"{path.read_text()}\n")
        assert kept() == number


def digest(configuration: Mapping[str, Any]) -> str:
    system = build_system(configuration, "here")
    return fingerprint.code_of(system, system.reads())


@pytest.mark.slow
def test_a_fusion_depends_on_the_systems_it_is_made_of(ours: Path) -> None:
    fusion = {"_target_": "harness.systems.fusion.system.Fusion", "runs": ["bm25", "l2l"], "name": "both"}
    other = {**fusion, "runs": ["bm25", "overlap"]}
    nested = {"_target_": "harness.systems.rerank.RerankPool", "name": "pool", "system": {"_target_": f"{L2L}.L2L"}}
    named = {**nested, "system": "l2l"}
    bm25 = {"_target_": f"{BM25_}.BM25"}
    asked = (fusion, nested, named, other, bm25)
    before = [digest(each) for each in asked]
    path = ours / "systems" / "structural" / "l2l.py"
    path.write_text(path.read_text() + "\n")
    code.forget()
    after = [digest(each) for each in asked]
    assert [a != b for a, b in zip(before, after, strict=True)] == [True, True, True, False, False]


# ---- systems of others ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_package_counts_as_a_whole(place: Path, changes: Callable[..., bool]) -> None:
    package = place / "theirs_a"
    for name, text in (
        ("__init__.py", ""),
        ("system.py", 'TABLE = "weights.tsv"\nimport helper_a\nfrom harness.systems.structural.l2l import L2L\n'),
        ("lazy/plugin.py", "X = 1\n"),
        ("data/weights.tsv", "1\n"),
        ("data/notes.txt", "1\n"),
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (place / "helper_a.py").write_text("import helper_b\n")
    (place / "helper_b.py").write_text("X = 1\n")
    (place / "unrelated.py").write_text("X = 1\n")
    for path in ("theirs_a/lazy/plugin.py", "theirs_a/data/weights.tsv", "helper_a.py", "helper_b.py"):
        assert changes("theirs_a.system", place / path, "X = 2\n"), path
    assert changes("theirs_a.system", package / "new.py", "X = 2\n")
    assert not changes("theirs_a.system", place / "unrelated.py", "X = 2\n")
    assert not changes("theirs_a.system", package / "data" / "notes.txt", "2\n")  # nobody names it
    files = code.depends(["theirs_a.system"]).files
    assert f"harness {L2L}" in files


def test_a_single_file_counts_with_its_siblings_that_it_imports(place: Path, changes: Callable[..., bool]) -> None:
    (place / "mine_b.py").write_text("def f():\n    import sibling_b\n    return open('mine_b.json')\n")
    (place / "sibling_b.py").write_text("import json, numpy\n")
    (place / "mine_b.json").write_text("1")
    (place / "other_b.py").write_text("")
    assert changes("mine_b", place / "sibling_b.py", "import json\n")
    assert changes("mine_b", place / "mine_b.json", "2")
    assert not changes("mine_b", place / "other_b.py", "X = 1\n")
    files, libraries = code.depends(["mine_b"])[:2]
    assert sorted(files) == ["mine_b mine_b.py", "mine_b mine_b.py: mine_b.json", "sibling_b sibling_b.py"]
    assert libraries == {"Python": f"3.{sys.version_info.minor}", "numpy": metadata.version("numpy")}


@pytest.mark.parametrize(("text", "path"), rows("store/code_a_single_file_counts_with_what_its_strings_name"))
def test_a_single_file_counts_with_what_its_strings_name(
    place: Path, changes: Callable[..., bool], request: pytest.FixtureRequest, text: str, path: str
) -> None:
    stem = f"part{abs(hash(request.node.name)) % 10**9}"
    part = place / path.format(stem=stem)
    part.parent.mkdir(exist_ok=True)
    part.write_text("1\n")
    (place / "data").mkdir(exist_ok=True)
    (place / "data" / "other.json").write_text("1\n")
    (place / f"mine_{stem}.py").write_text(text.format(stem=stem))
    assert changes(f"mine_{stem}", part, "2\n")
    assert not changes(f"mine_{stem}", place / "data" / "other.json", "2\n")


def test_folders_that_are_links_count_once(place: Path, changes: Callable[..., bool]) -> None:
    (place / "shared").mkdir()
    (place / "shared" / "part.py").write_text("X = 1\n")
    (place / "linked_c").mkdir()
    (place / "linked_c" / "__init__.py").write_text("from .shared import part\n")
    (place / "linked_c" / "shared").symlink_to(place / "shared")
    (place / "linked_c" / "loop").symlink_to(place / "linked_c")
    assert changes("linked_c", place / "shared" / "part.py", "X = 2\n")
    assert sorted(code.depends(["linked_c"])[0]) == ["linked_c __init__.py", "linked_c shared/part.py"]


def test_installed_libraries_count_by_their_versions(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: Callable[..., bool]
) -> None:
    site = tmp_path / "site-packages"
    for name, text in (
        ("says_c/__init__.py", ""),
        ("Other_Name-1.0.dist-info/top_level.txt", "says_c\n"),
        ("lists_c.py", ""),
        ("listing-3.dist-info/RECORD", "listing-3.dist-info/RECORD,,\nlists_c.py,sha256=x,1\n"),
        ("listless_c-1.dist-info/RECORD", "listless_c.py,,\n"),
        ("lonely_c.py", ""),
        ("system_c/__init__.py", ""),
        ("system_c-5.dist-info/top_level.txt", "system_c\n"),
    ):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.syspath_prepend(str(site))
    (place / "mine_c.py").write_text("import says_c, lists_c, lonely_c, system_c, not_there_c\n")
    libraries = code.depends(["mine_c"]).libraries
    assert libraries.items() >= {"Other_Name": "1.0", "listing": "3", "system_c": "5"}.items()
    assert not changes("mine_c", site / "says_c" / "__init__.py", "X = 1\n")
    assert changes("mine_c", site / "lonely_c.py", "X = 1\n")  # nobody tells its version
    # A system counts by its content even where it is installed.
    assert changes("system_c", site / "system_c" / "__init__.py", "X = 1\n")
    before = code.of("mine_c")
    (site / "Other_Name-1.0.dist-info").rename(site / "Other_Name-1.1.dist-info")
    code.forget()
    assert code.of("mine_c") != before


@pytest.mark.slow
def test_distributions_are_those_that_pythons_own_library_finds() -> None:
    reference = metadata.packages_distributions()
    found = code.depends(
        [], ["numpy", "scipy", "yaml", "hydra", "jinja2", "typer", "pytest", "xxhash", "snowballstemmer"]
    ).libraries
    expected = {"numpy", "scipy", "yaml", "hydra", "jinja2", "typer", "pytest", "xxhash", "snowballstemmer"}
    names = {reference[module][0].lower().replace("-", "_"): reference[module][0] for module in expected}
    assert {name.lower(): version for name, version in found.items() if name.lower() in names} == {
        name: metadata.version(own) for name, own in names.items()
    }


def test_what_a_configuration_names_counts(place: Path, changes: Callable[..., bool]) -> None:
    (place / "tokens_d.py").write_text("def shout(latex):\n    return [latex.upper()]\n")
    configuration = {"_target_": f"{BM25_}.{BM25.__name__}", "view": {"name": "text", "formulas": "tokens_d.shout"}}
    assert set(code.named(configuration)) == {(BM25_, True), ("tokens_d", False)}
    before = digest(configuration)
    (place / "tokens_d.py").write_text("def shout(latex):\n    return [latex.lower()]\n")
    code.forget()
    assert digest(configuration) != before
    assert (
        set(code.named({"a": ["no.such.thing", "os.path", "x", "1.5", "./overlap", "a/b.run", None, 3, "..a"]}))
        == set()
    )


@pytest.mark.parametrize(("text", "names", "variables", "unseen"), rows("store/code_names_in_strings"))
def test_names_in_strings(text: str, names: str, variables: str, unseen: tuple[int, ...]) -> None:
    found = literals(text)
    assert (set(found.variables), found.unseen) == (set(variables.split()), unseen)
    assert {name for name in found.names if " " not in name and ("." in name or name == "data")} == {*names.split()}


def test_a_module_that_is_loaded_again_counts_as_it_is_then(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (place / "mine_f.py").write_text("X = 1\n")
    module = importlib.import_module("mine_f")
    before = code.of("mine_f")
    (place / "mine_f.py").write_text("X = 22\n")
    assert code.of("mine_f") == before  # the process still has the old one
    importlib.reload(module)
    assert code.of("mine_f") != before
    (place / "mine_f.tsv").write_text("1\n")
    (place / "mine_f.py").write_text("def x(): return open('mine_f.tsv')\n")
    importlib.reload(module)
    before = code.of("mine_f")
    (place / "mine_f.tsv").write_text("2\n")
    assert code.of("mine_f") != before  # data are read again without that


def test_a_module_that_cannot_be_found_is_not_known(place: Path) -> None:
    (place / "folder_e").mkdir()
    (place / "mine_e.py").write_text("")
    assert code.known("mine_e")
    assert code.known(BM25_)
    assert not any(code.known(name) for name in ("string", "no_such_module", "folder_e.part", "folder_e", ""))

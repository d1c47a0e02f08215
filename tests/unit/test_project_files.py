"""Project files agree: versions, extras and their page, Pythons of the classifiers and of the workflows, the image."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import __version__

ROOT = Path(__file__).parents[2]
GROUPS = ("words", "neural", "graphs", "server", "cluster", "all")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PYTHONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def libraries(extra: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """The requirements of an extra, through the extras that it names."""
    assert extra not in seen, f"{extra} contains itself"
    found = set()
    for line in EXTRAS[extra]:
        inner = re.fullmatch(r"mathir-harness\[(.+)\]", line)
        for name in inner[1].split(",") if inner else ():
            found |= libraries(name, seen | {extra})
        if not inner:
            found.add(line)
    return found


def test_one_version() -> None:
    assert yaml.safe_load(text("CITATION.cff"))["version"] == __version__
    assert yaml.safe_load(text("recipe/recipe.yaml"))["context"]["version"] == __version__
    newest = re.search(r"^## \[(.+)\] - (\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest.groups() == (__version__, str(yaml.safe_load(text("CITATION.cff"))["date-released"]))


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_an_extra(extra: str) -> None:
    """It names extras that there are, and has a row in the page on installing."""
    assert libraries(extra)
    if extra not in ("test", "dev", "docs", "bench"):
        rows = [line for line in text("docs/installing.md").splitlines() if line.startswith("|")]
        assert any(f"`{extra}`" in row.split("|")[1] for row in rows)


def test_all_holds_the_groups_and_no_library_that_pins_others() -> None:
    for group in GROUPS:
        assert libraries(group) <= libraries("all")
    left_out = ("pyserini", "amr", "tira", "chroma", "wandb")
    for extra in left_out:
        assert not libraries(extra) <= libraries("all")
    comment = " ".join(line.strip("# ") for line in text("pyproject.toml").splitlines() if line.startswith("#"))
    assert all(re.search(rf"\b{extra}\b", comment) for extra in left_out)


def test_workflows_try_every_python() -> None:
    assert f">={PYTHONS[0]}" == PROJECT["requires-python"]
    for name, jobs in (("ci", ("test", "wheel")), ("release", ("try",))):
        document = yaml.safe_load(text(f".github/workflows/{name}.yml"))
        for job in jobs:
            assert document["jobs"][job]["strategy"]["matrix"]["python"] == PYTHONS


def test_workflows_fix_their_actions_and_rights() -> None:
    """Actions by the commit of a version; a job may write only what it says; only the publishing one may sign."""
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
        assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in used)
        assert document["permissions"] == {"contents": "read"}
        rights = {name: job["permissions"] for name, job in document["jobs"].items() if "permissions" in job}
        signs = {"publish": {"id-token": "write", "attestations": "write"}} if path.stem == "release" else {}
        assert rights == signs


def test_the_workflow_runs_what_contributors_run() -> None:
    jobs = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"].values()
    run = {step.get("run", "") for job in jobs for step in job["steps"]}
    assert {f"make {target} PYTHON=python" for target in ("check", "docs", "test", "test-all")} <= run
    (weekly,) = yaml.safe_load(text(".github/workflows/weekly.yml"))["jobs"].values()
    assert weekly["steps"][-1]["run"] == "make test-heavy PYTHON=python"


def test_heavy_tests_are_drawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit draws about one in ten, others than the one before; without git, the version does."""
    plugins = {getattr(each, "__file__", ""): each for each in request.config.pluginmanager.get_plugins()}
    conftest = plugins[str(ROOT / "tests/conftest.py")]
    tests, commits = [f"tests/e2e/test_{n}.py::test" for n in range(200)], [f"commit {n}" for n in range(60)]
    found = [[test for test in tests if conftest.drawn(test, commit)] for commit in commits]
    assert all(5 < len(each) < 40 for each in found)
    assert set().union(*found) == set(tests)
    monkeypatch.setenv("PATH", "")
    assert conftest._commit() == f"version {__version__}"


def test_the_recipe_requires_what_the_package_does() -> None:
    """conda's names: python-xxhash; the condition on the version of Python is written in its own way."""
    run = yaml.safe_load(text("recipe/recipe.yaml"))["requirements"]["run"]
    lines = {line if isinstance(line, str) else line["then"] for line in run} - {f"python {PROJECT['requires-python']}"}
    ours = {re.sub(r"^([\w.-]+)", r"\1 ", line.partition(";")[0].strip()).lower() for line in PROJECT["dependencies"]}
    assert lines == {line.replace("xxhash ", "python-xxhash ") for line in ours}


def test_the_image() -> None:
    """Its base is fixed by a digest, its user is not root, and the files of the build are not ignored."""
    lines = text("Dockerfile").splitlines()
    base = next(line for line in lines if line.startswith("ARG"))
    assert re.fullmatch(r"ARG BASE=[\w.:/-]+@sha256:[0-9a-f]{64}", base)
    assert {line.split()[1] for line in lines if line.startswith("FROM")} == {"${BASE}", "build", "base"}
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
    kept = {line[1:] for line in text(".dockerignore").splitlines() if line.startswith("!")}
    table = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*table["packages"], *table["force-include"], "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"}
    assert needed | {"requirements.lock"} == kept

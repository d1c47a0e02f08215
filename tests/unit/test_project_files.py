"""Project files agree: versions, extras and their page, Pythons of the classifiers and of the workflows, the image."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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


# ---- `make demo` and `make test`, with which the README begins ----


def dry(target: str) -> list[str]:
    """The commands that `make` would run in a folder where nothing was made yet."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    # MAKEFLAGS: these tests themselves may run below `make test`.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", "-n", target, "VENV=none", "PYTHON=python3"]
    said = subprocess.check_output(command, cwd=ROOT, env=inherited, text=True)
    return [line.strip() for line in said.splitlines()]


def test_the_readme_begins_with_demo_and_test() -> None:
    readme = text("README.md")
    blocks = re.findall(r"^```(?:console|sh|bash)\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    commands = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert commands[:2] == ["make demo", "make test"]


def test_demo_makes_the_environment_and_runs_the_main_job() -> None:
    commands = dry("demo")
    assert commands[0] == "python3 -m venv none"
    assert commands[1].startswith("none/bin/python -m pip install ")
    assert commands[1].endswith(" -c requirements.lock -e .")
    job = " ".join(commands[3:])
    probe, main, instead = (
        job.index(f"none/bin/harness {words}")
        for words in ("fetch --probe crossmath", "reproduce paper=crossmath", "reproduce; ")
    )
    assert probe < main < job.index("else") < instead


def test_test_installs_and_leaves_out_what_is_slow_and_test_all_runs_the_rest() -> None:
    commands = dry("test")
    assert any(command.endswith(" -c requirements.lock -e '.[dev]'") for command in commands)
    every = "none/bin/python -m pytest -n auto --maxprocesses 4 --dist worksteal"
    assert commands[-1] == f'{every} -m "not slow and not heavy"'
    assert dry("test-all")[-1] == f"{every} --hypothesis-profile ci --heavy part"
    assert dry("test-heavy")[-1] == f"{every} --hypothesis-profile ci -m heavy"
    configuration = text("pyproject.toml")
    assert 'testpaths = ["tests"]' in configuration
    assert not re.search(r'addopts = ".*(-m |-k |--ignore|--deselect)', configuration)


def test_check_and_ci() -> None:
    commands = [command.removeprefix("none/bin/") for command in dry("check")]
    assert commands[-3:] == ["ruff check .", "ruff format --check .", "mypy"]
    ci = ROOT / ".ci" / "run"
    assert os.access(ci, os.X_OK)
    assert ci.read_text().rstrip().endswith("make check\nmake test-all")


def test_the_lock_names_every_dependency() -> None:
    names = {
        re.split(r"[\[><=!~ ]", line, maxsplit=1)[0]
        for line in (*PROJECT["dependencies"], *EXTRAS["test"], *EXTRAS["dev"])
    }
    locked = {line.partition("==")[0] for line in text("requirements.lock").splitlines()}
    wanted, found = ({re.sub(r"[-_.]+", "-", name).lower() for name in some} for some in (names, locked))
    assert wanted - {"mathir-harness"} <= found

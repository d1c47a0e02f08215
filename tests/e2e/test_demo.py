"""The README begins with `make demo` and `make test`, and these do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


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
    readme = (ROOT / "README.md").read_text()
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


def test_test_installs_and_leaves_out_what_is_slow_and_the_others_run_the_rest() -> None:
    commands = dry("test")
    assert any(command.endswith(" -c requirements.lock -e '.[dev]'") for command in commands)
    every = "none/bin/python -m pytest -n auto --maxprocesses 4 --dist worksteal"
    assert commands[-1] == f'{every} -m "not slow and not heavy"'
    assert dry("test-all")[-1] == f"{every} --hypothesis-profile ci --heavy part"
    assert dry("test-heavy")[-1] == f"{every} --hypothesis-profile ci -m heavy"
    configuration = (ROOT / "pyproject.toml").read_text()
    assert 'testpaths = ["tests"]' in configuration
    assert not re.search(r'addopts = ".*(-m |-k |--ignore|--deselect)', configuration)


def test_check_and_ci() -> None:
    commands = [command.removeprefix("none/bin/") for command in dry("check")]
    assert commands[-3:] == ["ruff check .", "ruff format --check .", "mypy"]
    ci = ROOT / ".ci" / "run"
    assert os.access(ci, os.X_OK)
    assert ci.read_text().rstrip().endswith("make check\nmake test-all")


def test_the_lock_names_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = {
        re.split(r"[\[><=!~ ]", line, maxsplit=1)[0]
        for line in (*project["dependencies"], *extras["test"], *extras["dev"])
    }
    locked = {line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines()}
    wanted, found = ({re.sub(r"[-_.]+", "-", name).lower() for name in some} for some in (names, locked))
    assert wanted - {"mathir-harness"} <= found

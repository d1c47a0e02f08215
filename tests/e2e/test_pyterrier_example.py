"""The example package of PyTerrier pipelines, installed by pip, with its README followed line by line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shown_commands import commands_in
from tools import Place

EXAMPLE = Path(__file__).parents[2] / "examples" / "pyterrier-example"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
PACKAGE = EXAMPLE / "pyterrier_example"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package is installed, without a network."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[test]'")
    pytest.importorskip("pyterrier", reason="pyterrier is not installed (extra pyterrier)")
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, folder / "source")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
    target = ("--target", str(folder / "site"), str(folder / "source"))
    command = [sys.executable, "-m", "pip", "install", *options, *target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.mark.heavy
def test_the_readme(site: Path, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.environment["PYTHONPATH"] = f"{place.environment.get('PYTHONPATH', '')}:{site}"
    commands = commands_in(README)
    assert len(commands) == README.count("$ harness ") == 4
    for arguments, _ in commands:
        place.good(*arguments)
    runs = place.here / "runs" / "mini-task1"
    score = place.good("score", str(runs / "pt-likelihood.run"), "--collection", "mini-task1", "--json")
    assert len(json.loads(score)["scores"][0]["topics"]) == 42
    lines = (runs / "pt-commands.run").read_text().splitlines()
    assert {line.split()[0] for line in lines} >= {"M.1", "M.2"}
    states = {row["name"]: row["state"] for row in json.loads(place.good("list", "--json"))["systems"]}
    assert (states["pt-likelihood"], states["pt-commands"]) == ("ready", "ready")


def test_the_readme_shows_the_files() -> None:
    ((_, shown),) = re.findall(r"^```(yaml)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert shown == (PACKAGE / "conf" / "system" / "pt-likelihood.yaml").read_text()
    linked = re.findall(r"\]\((pyterrier_example/[^)]*)\)", README)
    assert len(linked) == 3
    assert [path for path in linked if not (EXAMPLE / path).is_file()] == []

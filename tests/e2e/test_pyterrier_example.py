"""The example package of PyTerrier pipelines, installed by pip, with its README followed line by line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from extension_tools import pip_installed
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
    return pip_installed(EXAMPLE, tmp_path_factory.mktemp("example"))


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

"""The example packages, installed by pip as people do, with their READMEs followed line by line."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from extension_tools import pip_installed
from shown_commands import commands_in
from tools import Place

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE, PYTERRIER = EXAMPLES / "mathir-example", EXAMPLES / "pyterrier-example"
RUN = ("run", "collection=example-identities", "corpus=example-identities", "formats=[json]")


def followed(package: Path, library: str, folder: Path) -> Place:
    """A place in which the package is installed, without a network, and the commands of its README were run."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[test]'")
    pytest.importorskip(library, reason=f"{library} is not installed")
    place = Place(folder / "place")
    site = pip_installed(package, folder)
    place.environment["PYTHONPATH"] = f"{place.environment.get('PYTHONPATH', '')}:{site}"
    readme = (package / "README.md").read_text(encoding="utf-8")
    commands = commands_in(readme)
    assert len(commands) == readme.count("$ harness ") == 4
    for arguments, expected in commands:
        printed = place.good(*arguments)
        assert expected in ("", printed)
    return place


@pytest.mark.parametrize(
    ("example", "system", "links"), [(EXAMPLE, "example-tfidf", 1), (PYTERRIER, "pt-likelihood", 3)]
)
def test_the_readme_shows_the_files(example: Path, system: str, links: int) -> None:
    """What it quotes of them stands there."""
    readme, module = (example / "README.md").read_text(encoding="utf-8"), example.name.replace("-", "_")
    shown = dict(re.findall(r"^```(yaml|toml)\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL))
    plain = "".join(re.sub(r" +#.*", "", line) + "\n" for line in shown["yaml"].splitlines())
    assert plain == (example / module / "conf" / "system" / f"{system}.yaml").read_text()
    if "toml" in shown:
        given = tomllib.loads((example / "pyproject.toml").read_text())["project"]["entry-points"]
        assert tomllib.loads(shown["toml"])["project"]["entry-points"] == given
    linked = re.findall(rf"\]\(({module}/[^)]*)\)", readme)
    assert len(linked) >= links
    assert [path for path in linked if not (example / path).is_file()] == []


@pytest.mark.heavy
def test_pyterrier(tmp_path: Path) -> None:
    place = followed(PYTERRIER, "pyterrier", tmp_path)
    runs = place.here / "runs" / "mini-task1"
    score = place.good("score", str(runs / "pt-likelihood.run"), "--collection", "mini-task1", "--json")
    assert len(json.loads(score)["scores"][0]["topics"]) == 42
    lines = (runs / "pt-commands.run").read_text().splitlines()
    assert {line.split()[0] for line in lines} >= {"M.1", "M.2"}
    states = {row["name"]: row["state"] for row in json.loads(place.good("list", "--json"))["systems"]}
    assert (states["pt-likelihood"], states["pt-commands"]) == ("ready", "ready")


@pytest.mark.heavy
def test_numbers(tmp_path: Path) -> None:
    """The measure, from the run file and the file of judgments by hand."""
    place = followed(EXAMPLE, "sklearn", tmp_path)
    place.good(*RUN, "system=example-tfidf")
    run = place.here / "runs" / "example-identities" / "example-tfidf.run"
    ranked: dict[str, list[str]] = {}
    for line in run.read_text().splitlines():
        topic, _, doc, *_ = line.split()
        ranked.setdefault(topic, []).append(doc)
    given = (EXAMPLE / "mathir_example" / "data" / "judgments.txt").read_text().splitlines()
    grades = {line.partition(":")[0]: dict(p.split("=") for p in line.partition(":")[2].split()) for line in given}
    expected = {}
    for topic, docs in ranked.items():
        value, reading = 0.0, 1.0
        for rank, doc in enumerate(docs[:10], 1):
            stops = (2 ** int(grades[topic].get(doc, 0)) - 1) / 2**3
            value, reading = value + reading * stops / rank, reading * (1 - stops)
        expected[topic] = value
    command = ("score", str(run), "--collection", "example-identities", "--measures", "Cascade@10", "--json")
    found = json.loads(place.good(*command))["scores"][0]
    values = dict(zip(found["topics"], (row[0] for row in found["values"]), strict=True))
    assert values == pytest.approx(expected, abs=1e-12)
    assert len(values) == 4

"""The example package, installed by pip as people do, with its README followed line by line."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from extension_tools import pip_installed
from shown_commands import commands_in
from tools import Place

EXAMPLE = Path(__file__).parents[2] / "examples" / "mathir-example"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
RUN = ("run", "collection=example-identities", "corpus=example-identities", "formats=[json]")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package is installed, without a network."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[test]'")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install -e '.[test]'")
    return pip_installed(EXAMPLE, tmp_path_factory.mktemp("example"))


@pytest.fixture
def place(site: Path, tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.environment["PYTHONPATH"] = f"{made.environment.get('PYTHONPATH', '')}:{site}"
    return made


@pytest.mark.heavy
def test_the_readme(place: Place) -> None:
    commands = commands_in(README)
    assert len(commands) == README.count("$ harness ") == 4
    for arguments, expected in commands:
        printed = place.good(*arguments)
        assert expected in ("", printed)


@pytest.mark.slow
def test_the_readme_shows_the_files(site: Path) -> None:
    """What it quotes of them stands there."""
    shown = dict(re.findall(r"^```(yaml|toml)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
    plain = "".join(re.sub(r" +#.*", "", line) + "\n" for line in shown["yaml"].splitlines())
    assert plain == (EXAMPLE / "mathir_example" / "conf" / "system" / "example-tfidf.yaml").read_text()
    given = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    assert tomllib.loads(shown["toml"])["project"]["entry-points"] == given
    linked = re.findall(r"\]\((mathir_example/[^)]*)\)", README)
    assert linked
    assert [path for path in linked if not (site / path).is_file()] == []


@pytest.mark.slow
def test_its_numbers(place: Place) -> None:
    """The measure, from the run file and the file of judgments by hand."""
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

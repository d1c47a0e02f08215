"""The example package, installed by pip as people do, with its README followed line by line."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from extension_tools import pip_installed
from shown_commands import commands_in
from tools import Place, table

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
def test_what_it_adds_is_listed_without_importing_it(place: Place, site: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(site, tmp_path / "broken")
    for path in (broken / "mathir_example").glob("*.py"):
        path.write_text("raise RuntimeError\n")
    environment = {"PYTHONPATH": place.environment["PYTHONPATH"].replace(str(site), str(broken))}
    listed = json.loads(place.run("list", "--json", environment=environment).out)
    collections = {row["name"]: row for row in listed["collections"]}
    systems = {row["name"]: row for row in listed["systems"]}
    assert (collections["example-identities"]["state"], collections["example-identities"]["licence"]) == ("here", "CC0")
    assert systems["example-tfidf"]["title"] == "TF-IDF and cosine, by scikit-learn"
    assert systems["example-tfidf"]["state"] == "ready"
    assert ["symbols", "Added by mathir-example 0.1."] in table(place.run("--help", environment=environment).out)


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


@pytest.mark.slow
def test_the_system_ranks_a_pool(place: Place) -> None:
    place.good(*RUN, "system=example-tfidf", "rerank=true")
    run = place.here / "runs" / "example-identities" / "example-tfidf.run"
    judged = (EXAMPLE / "mathir_example" / "data" / "judgments.txt").read_text()
    pairs = {(line.split()[0], line.split()[2]) for line in run.read_text().splitlines()}
    pool = {(line.partition(":")[0], p.split("=")[0]) for line in judged.splitlines() for p in line.split()[1:]}
    assert pairs
    assert pairs <= pool


@pytest.mark.slow
def test_its_faults_are_one_line(place: Place) -> None:
    done = place.run(*RUN, "system=example-tfidf", "system.ngrams=0")
    assert (done.code, done.err) == (2, "harness: run: system: key 'ngrams' is 0, expected a whole number from 1\n")
    done = place.run("symbols", "example-identites")
    said = "corpus 'example-identites' is unknown; did you mean 'example-identities'?"
    assert (done.code, done.err) == (2, f"harness: {said}\n")

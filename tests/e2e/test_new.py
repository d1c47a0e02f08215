"""Starting points: written once, never over anything, and everything works on them at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from case_tables import literals
from extension_tools import pip_installed
from tools import Place

from harness.scoring.protocol import Protocol

WRITTEN = {
    "collection": [
        *(f"conf/collection/mine.{ending}" for ending in ("yaml", "topics.jsonl", "qrels")),
        *("conf/corpus/mine.yaml", "conf/corpus/mine.jsonl"),
    ],
    "system": ["conf/system/mine.yaml", "mine.py"],
    "protocol": ["conf/protocol/mine.yaml"],
}


def test_the_example_is_sound(place: Place) -> None:
    place.good("new", "collection", "mine")
    folder = place.here / "conf" / "collection"
    topics = [json.loads(line) for line in (folder / "mine.topics.jsonl").read_text().splitlines()]
    corpus = (place.here / "conf/corpus/mine.jsonl").read_text().splitlines()
    documents = {json.loads(line)["id"] for line in corpus}
    judged = [line.split() for line in (folder / "mine.qrels").read_text().splitlines()]
    assert {doc for _, _, doc, _ in judged} == documents
    assert {topic for topic, *_ in judged} == {topic["id"] for topic in topics}
    assert all(sum(int(row[3]) >= 2 for row in judged if row[0] == topic["id"]) > 0 for topic in topics)
    said = yaml.safe_load((folder / "mine.yaml").read_text())
    assert said["editions"]["official"]["topics"] == len(topics)
    assert said["editions"]["official"]["judgments"] == len(judged)


def test_a_protocol_names_every_key_with_its_meaning(place: Place) -> None:
    place.good("new", "protocol", "strict")
    text = (place.here / "conf/protocol/strict.yaml").read_text()
    named = set(re.findall(r"^(\w+): .*# ", text, re.MULTILINE)) | {"title", "measures"}
    assert named == set(Protocol.__dataclass_fields__) - {"ties_deduplicate"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_nothing_is_overwritten(place: Place, kind: str) -> None:
    last = WRITTEN[kind][-1]
    place.write(last, "precious")
    assert place.refused("new", kind, "mine") == [f"{last}: exists already, and is left as it is; choose another name"]
    assert place.files() == {last: b"precious"}
    (place.here / last).unlink()
    (place.here / last).symlink_to("nowhere")
    assert place.refused("new", kind, "mine") == [f"{last}: exists already, and is left as it is; choose another name"]
    (place.here / last).unlink()
    place.good("new", kind, "mine")
    assert len(place.refused("new", kind, "mine")) == len(WRITTEN[kind])


@pytest.mark.parametrize(("arguments", "said"), literals("commands/new"))
def test_names_that_cannot_be(place: Place, arguments: tuple[str, str], said: str) -> None:
    (line,) = place.refused("new", *arguments)
    assert said in line
    assert place.files() == {}


def test_missing_files_of_a_collection_come_together(place: Place) -> None:
    place.good("new", "collection", "mine")
    place.write("x.run", "T.1 Q0 d01 1 2.0 x\n")
    for name in ("mine.qrels", "mine.topics.jsonl"):
        (place.here / "conf/collection" / name).unlink()
    found = place.refused("score", "x.run", "-c", "mine")
    assert [line.rpartition("/")[2] for line in found] == [
        f"mine.{name}: no such file" for name in ("qrels", "topics.jsonl")
    ]


@pytest.mark.heavy
def test_a_package_is_installed_and_passes_its_tests(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[test]'")
    place = Place(tmp_path)
    assert place.good("new", "package", "my-ir").endswith("next: pip install -e './my-ir[test]'\n")
    fault = "my-ir: exists already, and is left as it is; choose another name"
    assert place.refused("new", "package", "my-ir") == [fault]
    site = pip_installed(place.here / "my-ir", tmp_path / "installed")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(place.here / "my-ir" / "tests")]
    settings = {**place.environment, "PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # among them that its version is in the metadata of its run
    place.environment["PYTHONPATH"] = f"{place.environment.get('PYTHONPATH', '')}:{site}"
    assert place.good("my-ir-words", "my-ir") == "12 documents, 20.1 words each\n"

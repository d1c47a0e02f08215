"""What the tests of what is wrong share: a folder where all is right, and one fault that a command ends with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tools import Place, run_text

QRELS = b"T1 0 a 1\nT1 0 b 0\n"
COLLECTION = """\
name: mine
title: Mine
licence: CC0
protocol: trec_eval
editions:
  official:
    title: ours
    qrels: {file: ../../judged.txt}
    topics: 1
    judgments: 2
topics: {reader: jsonl, file: ../../topics.jsonl}
"""
PROTOCOL = "name: strict\nmeasures: [AP]\n"
SYSTEM = "title: Ours\n_target_: harness.systems.baselines.Overlap\ndepth: 10\n"
SCORE = ("score", "mine.run", "-c", "mine", "-o", "reports")
RUN = ("run", "collection=mini-task1", "corpus=mini-answers", "system=overlap")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("judged.txt", QRELS)
    made.write("topics.jsonl", '{"id": "T1", "title": "x"}\n{"id": "T2", "title": "y"}\n')
    made.write("mine.run", run_text("me", topics=["T1"], docs="ab"))
    made.write("good.run", run_text())
    made.write("conf/collection/mine.yaml", COLLECTION)
    made.write("conf/protocol/strict.yaml", PROTOCOL)
    made.write("conf/system/ours.yaml", SYSTEM)
    made.write("reports/index.html", "an earlier report")
    made.write("runs/mini-task1/overlap.run", "an earlier run")
    return made


def refused(place: Place, arguments: tuple[str, ...], fault: str, environment: Mapping[str, str] | None = None) -> None:
    """Assert that a command ends with this one fault, prints nothing else, and leaves all files as they were."""
    before = place.files()
    done = place.run(*arguments, environment=environment)
    assert done.err == f"harness: {fault.replace('{here}', str(place.here))}\n"
    assert (done.code, done.out) == (2, "")
    assert place.files() == before

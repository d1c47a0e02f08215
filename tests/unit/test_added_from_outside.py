"""What another package adds is found everywhere: one of each kind, from its folder and its entry points alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from extension_tools import install
from typer.testing import CliRunner

import harness as h
from harness.cli import facts
from harness.cli.main import app
from harness.collections import forms
from harness.papers import work
from harness.papers.cells import HEADER
from harness.papers.paper import load_paper, paper_names
from harness.papers.report.paper import paper_report
from harness.papers.reproduce import recompute_paper
from harness.papers.steps import PlannedRun
from harness.scoring import measures
from harness.store.provenance import provenance

MODULE = '''
"""A package of somebody else."""
import harness as h
from harness.collections.corpus import Document
from harness.data.topics import Topic
from harness.papers.rates import Range
from harness.papers.work import WorkStep
from harness.render.model import Section, Prose
from harness.scoring.measures import register
from harness.scoring.rankings import Measure
import numpy as np


class First:
    """Ranks every document of the corpus in its order."""

    def __init__(self, name="theirs"):
        self.name = name

    def __call__(self, request):
        docs = list(request.corpus.ids())
        return h.Run.from_dict(self.name, {t.id: {d: -float(n) for n, d in enumerate(docs)} for t in request.topics})

    @staticmethod
    def work(part, run):
        yield WorkStep("theirs", "read the corpus", Range(1, 1), "corpora", Range(2, 3), "counted")


def documents(paths):
    for path in paths:
        for line in path.read_text().splitlines():
            yield Document(*line.split("=", 1))


def topics(data, path, language):
    return [Topic(*line.split("=", 1), language=language) for line in data.decode().splitlines()]


def judgments(data, path, edition):
    found = {}
    for line in data.decode().splitlines():
        topic, doc = line.split("=")
        found.setdefault(topic, {})[doc] = 1
    return found


def judged(ranked, judged, k):
    return np.ones(ranked.topics)


def register_all():
    register(Measure("Theirs", judged))


def sections(reproduction):
    return [Section("Theirs", (Prose((f"{len(reproduction.verdicts)} cells",)),))]


def greet():
    """Say hello."""
'''
CELLS = f"{','.join(HEADER)}\ntheirs,1,Means,s,g,c,,,p,single,0.5,,,0,\n"
FILES = {
    "theirs/__init__.py": MODULE,
    "theirs/conf/system/theirs.yaml": "title: Theirs\n_target_: theirs.First\n",
    "theirs/conf/corpus/theirs.yaml": (
        "name: theirs\ntitle: Theirs\nlicence: CC0\nreader: theirs:documents\nfile: {file: ../../docs.txt}\n"
    ),
    "theirs/conf/collection/theirs.yaml": (
        "name: theirs\ntitle: Theirs\nlicence: CC0\nprotocol: trec_eval\n"
        "topics: {reader: theirs:topics, file: ../../topics.txt}\n"
        "editions: {all: {title: All, topics: 1, judgments: 1, "
        "qrels: {file: ../../qrels.txt, reader: theirs:judgments}}}\n"
    ),
    "theirs/docs.txt": "d1=one\nd2=two\n",
    "theirs/topics.txt": "t1=one\n",
    "theirs/qrels.txt": "t1=d2\n",
    "theirs/conf/paper/theirs.yaml": (
        "key: theirs\ntitle: Their paper\nmodule: theirs\nmetrics: {p: Precision}\nstate: needs a run\n"
        "metric_notes: {p: of the first document}\n"
    ),
    "theirs/conf/paper/cells/theirs.csv": CELLS,
}
POINTS = {
    "conf": {"theirs": "theirs:conf"},
    "measures": {"theirs": "theirs:register_all"},
    "commands": {"greet": "theirs:greet"},
}


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, importable: Callable[[Path], None]) -> None:
    (tmp_path / "site").mkdir()
    importable(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measures, "MEASURES", dict(measures.MEASURES))
    install(tmp_path / "site", "theirs", POINTS, FILES)


def test_a_system_its_readers_and_a_measure() -> None:
    assert all("theirs" in h.names(group) for group in ("system", "corpus", "collection", "paper"))
    task = h.task("theirs", "theirs", measures=["Theirs", "RR"])
    scores = h.evaluate(task, h.produce(h.load_system("theirs"), task)).scores[0]
    assert [scores.mean(measure) for measure in ("Theirs", "RR")] == [1.0, 0.5]


def test_what_a_system_says_of_itself() -> None:
    """Its work, as a function of its class; where it says nothing, the example of all systems, and unknown work."""
    found = facts.configuration_facts("systems", "theirs")
    assert found["example"] == "harness run collection=mini-task1 corpus=mini-answers system=theirs"
    run = PlannedRun("theirs", "theirs", "arqmath-posts")
    assert [step.title for step in work._of_part(run.configuration)(run.configuration, run)] == ["read the corpus"]
    for target in ("theirs.Nothing", "harness.systems.baselines.Shuffle"):
        (step,) = work._of_part({"_target_": target})({"_target_": target}, run)
        assert step.hours is None


def test_a_paper_and_its_section() -> None:
    assert "theirs" in paper_names()
    paper = load_paper("theirs")
    report = paper_report(recompute_paper(paper), provenance({}, ["harness"]))
    assert "Theirs" in [section.title for section in report.sections]
    assert any("Precision: of the first document." in table.notes for table in report.tables())


def test_a_command_stands_below_those_of_the_harness() -> None:
    said = CliRunner().invoke(app, ["--help"])
    listed = said.output.partition("Added by packages:")
    assert "greet" in listed[2] and "greet" not in listed[0] and "serve" in listed[0]


def test_modules_of_readers_are_found_by_what_they_declare() -> None:
    """Of the harness, in its own folder of readers and in those of papers; each name once for each kind."""
    names = [(form.name, kind) for form in forms.forms() for kind in ("topics", "judgments", "documents", "places")
             if getattr(form, kind) is not None]  # fmt: skip
    assert len(names) == len(set(names))
    assert {("tsv", "topics"), ("crossmath-tsv", "topics"), ("saber", "documents"), ("lean", "documents")} <= set(names)

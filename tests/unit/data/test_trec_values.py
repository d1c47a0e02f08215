"""Runs and judgments as values: read-only columns, dictionaries and JSON, files written and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from trec_tools import lines, message, same

from harness.data.layouts import FORMATS
from harness.data.run_writers import run_from_json, run_to_json, write_qrels, write_run
from harness.data.trec import Qrels, Run, parse_qrels, parse_run, read_qrels, read_run

JUDGED = b"1 0 a 1\n1 0 b 0\n"
KNOWN = "known: arqmath-task1, arqmath-task2, trec"


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


pytestmark = pytest.mark.usefixtures("_folder")


IDS = st.text(
    st.characters(min_codepoint=33, codec="utf-8", exclude_categories=("Z", "C"), exclude_characters="#"),
    min_size=1,
    max_size=12,
)
SCORES = st.one_of(st.sampled_from([1.0, 2.0, 0.0, -0.0]), st.floats(allow_nan=False, allow_infinity=False))
RANKINGS = st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=8), min_size=1, max_size=4)


def test_the_columns_of_runs_and_judgments_are_read_only() -> None:
    run, qrels = parse_run(b"1 f 7 1 2.0 t\n1 g 7 2 1.0 t\n", "run"), parse_qrels(JUDGED, "qrels", edition="")
    assert run.context is not None
    columns = (run.topic, run.doc, run.score, run.context, qrels.topic, qrels.doc, qrels.grade)
    for column in (*columns, run_from_json(run_to_json(run)).score):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[1]


@pytest.mark.parametrize("column", ["topic", "doc", "score", "grade"])
def test_columns_have_one_length(column: str) -> None:
    """Kernels read as many values of each."""
    run, qrels = parse_run(b"1 0 f 1 2.0 t\n1 0 g 2 1.0 t\n", "run"), parse_qrels(JUDGED, "qrels", edition="e")
    for table, what in ((run, "run t: topics, documents and scores"), (qrels, "judgments e: topics, documents and")):
        if hasattr(table, column):
            with pytest.raises(ValueError, match=what):
                replace(table, **{column: getattr(table, column)[:1]})


def test_equal_pairs_have_equal_keys_in_runs_and_judgments() -> None:
    pairs = {"A.1": ["a", "b", "c" * 30], "é": ["a", "ab"]}
    run = Run.from_dict("r", {topic: dict.fromkeys(docs, 1.0) for topic, docs in pairs.items()})
    qrels = Qrels.from_dict("e", {topic: dict.fromkeys(pairs[topic][::-1], 1) for topic in ("é", "A.1")})
    assert len(set(run.key.tolist())) == 5
    assert sorted(run.key.tolist()) == sorted(qrels.key.tolist())


@given(RANKINGS)
@settings(deadline=None)
def test_runs_come_back_from_dictionaries_and_json(rankings: dict[str, dict[str, float]]) -> None:
    run = Run.from_dict("r", {topic: {d: np.float64(s) for d, s in docs.items()} for topic, docs in rankings.items()})
    assert run.to_dict() == rankings
    assert run.score.tobytes() == np.array([s for docs in rankings.values() for s in docs.values()]).tobytes()
    again = run_from_json(json.loads(json.dumps(run_to_json(run), allow_nan=False)))
    assert same(again, run)
    assert (again.sha256, again.warnings) == (run.sha256, ())


@given(RANKINGS, st.sampled_from([*FORMATS]))
@settings(max_examples=examples(60), deadline=None)
def test_written_runs_are_sorted_and_read_back(rankings: dict[str, dict[str, float]], layout: str) -> None:
    run = Run.from_dict("r", rankings)
    if layout == "arqmath-task2":
        run = run_from_json({**run_to_json(run), "context": [f"post-{i}" for i in range(len(run))]})
    write_run(run, Path("out", "run.txt"), format=layout)
    again = read_run("out/run.txt", format=layout)
    wanted = sorted(lines(run), key=lambda line: (run.topics.index(line[0]), -line[2]))
    assert (lines(again), again.warnings) == (wanted, ())
    assert [repr(line[2]) for line in lines(again)] == [repr(line[2]) for line in wanted]
    if layout == "trec":
        with Path("out/run.txt").open(encoding="utf-8") as stream:
            assert pytrec_eval.parse_run(stream) == rankings
        ranks = [line.split("\t")[3] for line in Path("out/run.txt").read_text("utf-8").splitlines()]
        assert ranks == [str(rank + 1) for docs in rankings.values() for rank in range(len(docs))]


@given(st.dictionaries(IDS, st.dictionaries(IDS, st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_written_judgments_read_back(judgments: dict[str, dict[str, int]]) -> None:
    write_qrels(Qrels.from_dict("e", judgments), Path("qrels.txt"))
    assert read_qrels("qrels.txt").to_dict() == judgments
    with Path("qrels.txt").open(encoding="utf-8") as stream:
        assert pytrec_eval.parse_qrel(stream) == judgments


def test_grades_may_be_fractions_but_not_in_a_trec_file() -> None:
    qrels = Qrels.from_dict("e", {"1": {"a": 0.5, "b": 2.0}})
    said = "qrels.txt: document 'a' of topic '1' has grade 0.5, and TREC files hold whole numbers; --round rounds them"
    assert message(lambda: write_qrels(qrels, Path("qrels.txt"))) == said
    assert not Path("qrels.txt").exists()
    write_qrels(qrels, Path("qrels.txt"), rounded=True)
    assert read_qrels("qrels.txt").to_dict() == {"1": {"a": 1, "b": 2}}


def test_what_cannot_be_written() -> None:
    run = Run.from_dict("r", {"1": {"a": 1.0}})
    assert message(lambda: write_run(run, Path("x"), format="tsv")) == f"format 'tsv' is unknown; {KNOWN}"
    needs = "run r: arqmath-task2 needs the post of each formula, and the run has none"
    assert message(lambda: write_run(run, Path("x"), format="arqmath-task2")) == needs
    Path("folder/inside").mkdir(parents=True)
    assert message(lambda: write_run(run, Path("folder"))) == "folder: cannot be written: Is a directory"
    assert sorted(path.name for path in Path().iterdir()) == ["folder"]  # nothing half-written


def test_dictionaries_are_checked_as_files_are() -> None:
    assert message(lambda: Run.from_dict("r", {"1": {"a": 1.0, "b": np.nan}})) == (
        "run r: topic '1', document 'b': score nan is not a finite number"
    )
    assert message(lambda: Run.from_dict("r", {})) == "run r: no results"
    assert message(lambda: Qrels.from_dict("e", {"1": {"a": np.inf}})) == (
        "judgments e: topic '1', document 'a': grade inf is not a finite number"
    )
    said = "a topic id begins with '#', which begins a comment in files of runs and judgments"
    assert message(lambda: Qrels.from_dict("e", {"#1": {"a": 1}})) == f"judgments e: {said}"
    assert message(lambda: Run.from_dict("r", {"#1": {"a": 1}})) == f"run r: {said}"

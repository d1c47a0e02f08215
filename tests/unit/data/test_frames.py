"""Runs, judgments, topics, scores and comparisons as other libraries have them, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

import harness as h
from harness.data.trec import parse_run

IDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P"), exclude_characters="#"), min_size=1, max_size=8)
SCORES = st.floats(allow_nan=False, allow_infinity=False, width=64)
RANKINGS = st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=6), min_size=1, max_size=4)


KINDS = (("run", "score", "results"), ("judgments", "grade", "judgments"))


@given(RANKINGS)
def test_a_run_comes_back_from_every_form(rankings: dict[str, dict[str, float]]) -> None:
    run = h.Run.from_dict("mine", rankings)
    assert run.to_dict() == rankings
    assert h.Run.from_frame("mine", run.frame()).to_dict() == rankings
    shuffled = run.frame().sample(frac=1, random_state=1)
    assert h.Run.from_frame("mine", shuffled).to_dict() == rankings


@given(RANKINGS)
def test_ranks_are_those_that_are_written(rankings: dict[str, dict[str, float]]) -> None:
    frame = h.Run.from_dict("mine", rankings).frame()
    for _, rows in frame.groupby("query_id"):
        ordered = rows.sort_values("score", ascending=False, kind="stable")
        assert ordered["rank"].tolist() == list(range(1, len(rows) + 1))


def test_columns_and_types_of_a_run_of_formulas() -> None:
    run = parse_run(b"B.1 f1 7 1 2.5 t\nB.1 f2 8 2 1.5 t\nB.2 f1 7 1 0.5 t\n", "x", format="arqmath-task2")
    frame = run.frame()
    assert list(frame.columns) == ["query_id", "doc_id", "score", "rank", "context"]
    assert frame.to_dict("list") == {
        "query_id": ["B.1", "B.1", "B.2"],
        "doc_id": ["f1", "f2", "f1"],
        "score": [2.5, 1.5, 0.5],
        "rank": [1, 2, 1],
        "context": ["7", "8", "7"],
    }
    again = h.Run.from_frame("t", frame)
    assert again.context is not None
    assert run.context is not None
    assert again.context.tolist() == run.context.tolist()


def test_judgments_come_back_and_numbers_become_ids() -> None:
    frame = pd.DataFrame({"query_id": [1, 1, 2], "doc_id": [7, 8, 7], "relevance": [2, 0, 1]})
    qrels = h.Qrels.from_frame("e", frame)
    assert qrels.to_dict() == {"1": {"7": 2, "8": 0}, "2": {"7": 1}}
    assert h.Qrels.from_frame("e", qrels.frame()).to_dict() == qrels.to_dict()


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"query_id": ["1"], "doc_id": ["a"]}, "run r: the frame has no column 'score'; known: doc_id, query_id"),
        ({"query_id": ["1"], "docid": ["a"], "score": [1]}, "the frame has no column 'doc_id'; did you mean 'docid'?"),
        ({"query_id": ["1", "1"], "doc_id": ["a", None], "score": [1, 2]}, "column 'doc_id' has no value in row 1"),
        ({"query_id": ["1", "1"], "doc_id": ["a", "b"], "score": [1, math.nan]}, "'score' has no value in row 1"),
        ({"query_id": ["1"], "doc_id": ["a b"], "score": [1]}, "run r: an id is empty or holds blanks"),
        ({"query_id": ["1", "1"], "doc_id": ["a", "a"], "score": [1, 2]}, "document 'a' of topic '1' is on line 1"),
        (
            {"query_id": ["1"], "doc_id": ["a"], "score": [math.inf]},
            "'1', document 'a': score inf is not a finite number",
        ),
    ],
)
def test_what_is_no_run_is_refused(columns: dict[str, list[object]], fault: str) -> None:
    assert fault in refusal(lambda: h.Run.from_frame("r", pd.DataFrame(columns)))


@pytest.mark.parametrize(
    "rankings", [{"a b": {"": 1.0}}, {"a": {"b\t0\t1\tmine\nc\tQ0\td": 1.0}}, {"": {"a": 1.0}}, {"a": {"b c": 1.0}}]
)
def test_ids_of_a_dictionary_cannot_be_columns_or_lines(rankings: dict[str, dict[str, float]]) -> None:
    assert refusal(lambda: h.Run.from_dict("mine", rankings)) == "run mine: an id is empty or holds blanks"


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"q1": ["d1", "d2"]}, "topic 'q1': expected a mapping of documents to VALUEs, got a list"),
        ({"q1": {"d1": 1}, "q2": None}, "topic 'q2': expected a mapping of documents to VALUEs, got None"),
        ({"q1": "d1"}, "topic 'q1': expected a mapping of documents to VALUEs, got text"),
        ({"q1": {"d1": "x"}}, "topic 'q1', document 'd1': VALUE 'x' is not a number"),
        ({"q1": {"d1": {"a": 1}}}, "topic 'q1', document 'd1': VALUE {'a': 1} is not a number"),
        ({"q1": {"d1": math.nan}}, "topic 'q1', document 'd1': VALUE nan is not a finite number"),
        ({}, "no NOTHING"),
        ({"q1": {}}, "no NOTHING"),
    ],
)
def test_dictionaries_are_named_by_topic_and_document(given: dict[str, Any], fault: str) -> None:
    right = {"q1": {"d1": 1}}
    said = {name: fault.replace("VALUE", value).replace("NOTHING", no) for name, value, no in KINDS}
    assert refusal(lambda: h.evaluate(right, given)) == f"run: {said['run']}"
    assert refusal(lambda: h.Run.from_dict("mine", given)) == f"run mine: {said['run']}"
    assert refusal(lambda: h.evaluate(given, right)) == f"judgments: {said['judgments']}"
    assert refusal(lambda: h.Qrels.from_dict("e", given)) == f"judgments e: {said['judgments']}"


def test_runs_in_a_list_and_measures_in_a_text() -> None:
    assert refusal(lambda: h.evaluate({"q": {"d": 1}}, ["a.run", "b.run"])).endswith("one by one: *runs")
    found = h.evaluate({"q": {"d": 1}}, {"q": {"d": 1.0}}, measures="nDCG,AP")
    assert found.scores[0].measures == h.task("mini-task1", measures="nDCG,AP").scorer.measures == ("nDCG", "AP")


def test_pytrec_eval_and_grades_that_are_not_whole() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="in the extra 'test'")
    task = h.task("mini-task1", measures=["AP"], protocol="trec_eval")
    run = h.read_run("runs/mini/mini-task1/overlap.run")
    found = pytrec_eval.RelevanceEvaluator(task.scorer.qrels.to_dict(), {"map"}).evaluate(run.to_dict())
    scores = h.evaluate(task, run).scores[0]
    values = dict(zip(scores.topics, scores.column("AP").tolist(), strict=True))
    assert {topic: values[topic] for topic in found} == pytest.approx({t: v["map"] for t, v in found.items()}, abs=1e-9)
    half = h.Qrels.from_dict("e", {"1": {"a": 0.5}})
    assert refusal(half.to_dict) == "judgments e: document 'a' of topic '1' has grade 0.5, expected whole grades"


def test_ir_measures_takes_runs_and_judgments_as_they_are() -> None:
    ir_measures = pytest.importorskip("ir_measures", reason="in the extra 'measures'")
    task = h.task("mini-task1", measures=["AP"], protocol="trec_eval")
    run = h.read_run("runs/mini/mini-task1/overlap.run")
    rows = ir_measures.iter_calc([ir_measures.AP], list(task.scorer.qrels.judgments()), list(run.scored_docs()))
    scores = h.evaluate(task, run).scores[0]
    values = dict(zip(scores.topics, scores.column("AP").tolist(), strict=True))
    found = {row.query_id: row.value for row in rows}
    assert found
    assert {topic: values[topic] for topic in found} == pytest.approx(found, abs=1e-9)
    assert h.Run.from_scored_docs("again", run.scored_docs()).to_dict() == run.to_dict()
    again = h.Qrels.from_judgments("again", task.scorer.qrels.judgments())
    assert again.to_dict() == task.scorer.qrels.to_dict()


@pytest.mark.slow
def test_ranx() -> None:
    pytest.importorskip("ranx", reason="in the extra 'ranx'")
    run, qrels = h.Run.from_dict("r", {"1": {"a": 2.0, "b": 1.0}}), h.Qrels.from_dict("e", {"1": {"a": 1, "b": 0}})
    assert h.Run.from_ranx(run.to_ranx()).to_dict() == run.to_dict()
    assert run.to_ranx().name == "r"
    assert h.Qrels.from_ranx("e", qrels.to_ranx()).to_dict() == qrels.to_dict()


def test_frames_of_an_evaluation_hold_every_topic_and_test() -> None:
    runs = [h.read_run(f"runs/mini/mini-task1/{name}.run") for name in ("overlap", "shuffle")]
    evaluation = h.evaluate(h.task("mini-task1"), *runs)
    frame = evaluation.frame()
    assert list(frame.columns) == ["run", "query_id", "measure", "value"]
    scores = evaluation.scores
    assert len(frame) == sum(s.values.size for s in scores)
    for (run, measure), rows in frame.groupby(["run", "measure"]):
        (one,) = (s for s in scores if s.run == run)
        assert np.array_equal(rows["value"].to_numpy(), one.column(str(measure)), equal_nan=True)
        assert rows["value"].mean() == pytest.approx(one.mean(str(measure)), nan_ok=True)
    comparison = h.compare(evaluation, "shuffle")
    tests = comparison.frame()
    assert tests["p_bonferroni"].tolist() == [row.p_bonferroni for row in comparison.rows]
    topics = evaluation.task.topics.frame()
    assert topics["query_id"].tolist() == [topic.id for topic in evaluation.task.topics]
    assert {"title", "body", "tags", "language", "category"} <= set(topics.columns)


def test_a_notebook_shows_the_tables_of_the_report() -> None:
    runs = [f"runs/mini/mini-task1/{name}.run" for name in ("overlap", "shuffle")]
    evaluation = h.evaluate(h.task("mini-task1"), *runs)
    comparison = h.compare(evaluation, "shuffle")
    shown, tests = evaluation._repr_html_(), comparison._repr_html_()
    for scores in evaluation.scores:
        assert scores.run in shown
        assert f"{scores.mean('AP'):.3f}" in shown
    for row in comparison.rows:
        assert f"{row.difference:.4f}" in tests
    hostile = h.Run.from_dict("a", {"M.1": {"<script>": 1.0}})
    page = h.report(evaluation, comparison)
    assert "<svg" in page._repr_html_() and "above the next" in page._repr_html_()
    assert len(repr(page)) < 300
    assert "<script>" not in h.evaluate(h.task("mini-task1"), hostile)._repr_html_()


WRONG_IDS = ("", "d 1", "d1\t0\t1.0\tm\nB\tQ0\td2", None, b"d", 1.0, True, ("d",), "\ufeffd", "\ud800")


@pytest.mark.parametrize("wrong", WRONG_IDS)
def test_an_id_never_becomes_another_one(wrong: object) -> None:
    for pair in ((wrong, "d"), ("A", wrong), (wrong, "d 1")):
        refusal(lambda pair=pair: h.Run.from_dict("m", {pair[0]: {pair[1]: 1.0}}))
        refusal(lambda pair=pair: h.Qrels.from_dict("m", {pair[0]: {pair[1]: 1.0}}))


def test_ids_are_text_or_whole_numbers_and_may_hold_a_no_break_space() -> None:
    assert h.Run.from_dict("m", {1: {np.int64(2): 1.0}}).to_dict() == {"1": {"2": 1.0}}  # type: ignore[dict-item]
    run = h.Run.from_dict("m", {"A": {"a\u00a0b": 1.0}})
    assert h.Run.from_frame("m", run.frame()).to_dict() == run.to_dict()


@pytest.mark.parametrize("wrong", [None, 5, [1], {"A": ["d"]}, {"A": {"d": None}}, {"A": {"d": 10**400}}])
def test_what_is_no_dictionary_of_scores_is_one_line(wrong: object) -> None:
    assert refusal(lambda: h.Run.from_dict("m", wrong)).startswith("run m: ")  # type: ignore[arg-type]
    assert refusal(lambda: h.Qrels.from_dict("m", wrong)).startswith("judgments m: ")  # type: ignore[arg-type]
    assert refusal(lambda: h.Run.from_scored_docs("m", [wrong])).startswith("run m: ")  # type: ignore[list-item]
    assert refusal(lambda: h.Run.from_frame("m", wrong)).startswith("run m: ")


def test_a_column_that_is_there_twice_is_refused() -> None:
    table = pd.DataFrame([["A", "d", 1.0, 2.0]], columns=["query_id", "doc_id", "score", "score"])
    assert refusal(lambda: h.Run.from_frame("m", table)) == "run m: the frame has several columns 'score'"

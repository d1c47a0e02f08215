"""Structural search: against a plain implementation, what must hold for all formulas, and runs by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical_tools import message, rows_corpus
from structural_reference import plain_score, plain_short
from structural_tools import encode, formula_topics, indexed, posts_corpus
from test_tangent import operator_trees, shuffled

from harness.collections.corpora import corpus_reader
from harness.collections.corpus import Corpus, Document
from harness.collections.readers import tangent
from harness.data import topic_files
from harness.data.topics import Formula
from harness.formulas.trees import forest
from harness.formulas.trees.tree import ParseCounts, Tree, parse_tangent
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.structural import formulas, paths
from harness.systems.structural.tree import FormulaQuery, Structural, parts

WHOLE = 1 << 40  # a budget that reads every list


seeds = st.integers(0, 10**6)


def some_trees(number: int, seed: int) -> list[Tree]:
    """Trees of operators, each once."""
    return list(dict.fromkeys(operator_trees(number, seed, 14)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "system", [Structural(budget=WHOLE), Structural(height=1, share=0.6, credit=0.8, budget=WHOLE)]
)
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_a_plain_implementation(system: Structural, seed: int) -> None:
    trees = some_trees(40, seed)
    index = indexed(forest.pack(trees), system.height)
    for query in [*trees[:3], *some_trees(3, seed + 100)]:
        numbers, scores = system.search(FormulaQuery(query, index))
        expected = [plain_score(query, trees[number], trees, system) for number in numbers.tolist()]
        assert scores.tolist() == pytest.approx(expected, abs=2e-6)
        common = [bool(plain_short(query, system.height) & plain_short(tree, system.height)) for tree in trees]
        assert numbers.tolist() == np.flatnonzero(common).tolist()


# ---- what holds for all formulas -----------------------------------------------------------------------------------


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_a_formula_finds_itself_first(seed: int) -> None:
    trees = some_trees(30, seed)
    index = indexed(forest.pack(trees), 2)
    written = [paths.canonical(tree) for tree in trees]
    for number, tree in enumerate(trees[:10]):
        numbers, scores = Structural().search(FormulaQuery(tree, index))
        best = numbers[scores == scores.max()].tolist()
        assert scores.max() == 1
        assert best == [n for n, text in enumerate(written) if text == written[number]]


def test_formulas_with_the_same_paths_are_not_the_same() -> None:
    query, other = (
        parse_tangent(f"[U!times,0[U!plus,0[V!a],1[V!{b}]],1[U!plus,0[V!{c}],1[V!d]]]")
        for b, c in (("b", "c"), ("c", "b"))
    )
    index = indexed(forest.pack([query, other]), 2)
    found = parts(asked := FormulaQuery(query, index), np.arange(2), 0.3)
    assert found.overlap.tolist() == pytest.approx([1, 1])
    assert found.structure.tolist() == [1, 1]
    _, scores = Structural().search(asked)
    assert scores[0] == 1 > scores[1] > 0.99


@pytest.mark.slow
@given(seeds)
@settings(max_examples=40)
def test_the_order_of_unordered_arguments_means_nothing(seed: int) -> None:
    trees = some_trees(15, seed)
    index = indexed(forest.pack(trees), 2)
    other = shuffled(trees[-1], random.Random(seed))
    results = [Structural().search(FormulaQuery(tree, index)) for tree in (trees[-1], other)]
    assert results[0][0].tolist() == results[1][0].tolist()
    assert results[0][1].tolist() == pytest.approx(results[1][1].tolist(), abs=1e-12)
    assert results[1][1].max() == 1


def test_the_order_of_ordered_arguments_counts() -> None:
    query, other = parse_tangent("[O!divide,0[V!a],1[V!b]]"), parse_tangent("[O!divide,0[V!b],1[V!a]]")
    index = indexed(forest.pack([query, other]), 2)
    found = parts(FormulaQuery(query, index), np.arange(2), 0.3)
    assert (found.structure.tolist(), found.symbols.tolist()) == ([1, 1], [1, 0])
    assert found.overlap[1] < found.overlap[0]


# ---- formulas of corpora and topics --------------------------------------------------------------------------------

POSTS: Mapping[str, Sequence[str]] = {"p1": ["x+y", "x+y", r"\frac{a}{b}"], "p2": [], "p3": ["y+x", "}"]}


def test_topics_that_share_no_formula_are_refused(tmp_path: Path) -> None:
    request = Request(formula_topics(A=["7"], B=[]), posts_corpus(tmp_path, POSTS), tmp_path / "workspace")
    said = message(lambda: load_system("tree").system(request))
    assert said == "system tree: no topic shares a part of a formula with the corpus"


def test_formulas_of_a_corpus_are_kept_once_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = posts_corpus(tmp_path, POSTS)
    for _ in range(2):  # the second time from the store
        known = formulas.read(corpus, "opt")
        assert known.ids.tolist() == [b"p1", b"p2", b"p3"]
        assert known.start.tolist() == [0, 3, 3, 5]
        assert known.tree.tolist() == [0, 0, 1, 2, -1]
        assert known.counts.read == 4
        assert sum(known.counts.failed.values()) == 1
        assert known.posts is None
        said = capsys.readouterr().err
        assert "corpus posts: 5 formulas, 3 distinct trees (opt); parsed without errors: 4; with errors: 1 (" in said
    numbers, scores = np.array([0, 2]), np.array([0.5, 0.25])
    assert known.documents(numbers, scores).tolist() == [0.5, 0, 0.25]
    assert known.documents(numbers, scores, "sum").tolist() == [1.0, 0, 0.25]
    assert formulas.read(corpus, "slt").tree.tolist() == [0, 0, 1, 2, -1]


def test_a_corpus_without_formulas_is_refused(tmp_path: Path) -> None:
    told = message(lambda: formulas.read(posts_corpus(tmp_path, {"p": [], "q": []}), "opt"))
    assert told.startswith("the corpus has no formulas: formulas in its texts do not count; name the column of ")
    assert "fields: {COLUMN: formulas}" in told
    assert "key 'kind' is 'mathml'" in message(lambda: formulas.read(posts_corpus(tmp_path, POSTS), "mathml"))


WIDE = "(" + ",".join(map(str, range(300))) + ")"


@pytest.mark.parametrize(
    ("latex", "opt", "slt"),
    [
        (WIDE, formulas.WIDE, ""),
        pytest.param("x" * 66_000, formulas.LARGE, formulas.LARGE, marks=pytest.mark.slow),
        ("x\ud800", None, None),
    ],
)
def test_a_formula_that_cannot_be_stored_does_not_stop_the_others(
    latex: str, opt: str | None, slt: str | None, tmp_path: Path
) -> None:
    documents = [Document(name, formulas=(Formula(name, text),)) for name, text in (("1", "y"), ("2", latex))]
    for kind, reason in (("opt", opt), ("slt", slt)):
        known = encode(documents, kind)
        if reason:
            assert (known.tree.tolist(), known.counts) == ([0, -1], ParseCounts(1, {reason: 1}))
        else:
            assert known.tree.tolist() == [0, 1]
        asked = formulas.queries(formula_topics(T=[latex]), posts_corpus(tmp_path, POSTS), kind)["T"]
        assert len(asked) == (not reason)
    for name in ("tree", "tangent", "l2l"):
        run = load_system(name)(
            Request(formula_topics(T=["\\alpha", latex]), posts_corpus(tmp_path, {"p": ["\\alpha", latex]}), tmp_path)
        )
        assert run.doc.tolist() == [b"p"]


def test_strings_of_tangent_and_trees_that_are_missing() -> None:
    documents = [
        Document("1", columns={"opt": "[V!x]", "slt": "[V!x]"}),
        Document("2", columns={"slt": "[V!y]"}),
        Document("3", columns={"opt": "[V!x", "slt": "[V!y]"}),
        Document("4", columns={"opt": "[E!]"}),
    ]
    known = encode(documents, "opt")
    reasons = {formulas.NO_TREE: 1, formulas.NO_STRING: 1, formulas.ALONE: 1}
    assert (known.tree.tolist(), known.counts) == ([0, -1, -1, -1], ParseCounts(1, reasons))
    assert encode(documents, "slt").tree.tolist() == [0, 1, 1, -1]


def test_topics_ask_with_the_trees_of_the_corpus_or_their_latex(tmp_path: Path) -> None:
    for name, tree in (("opt", "[U!plus,0[V!a],1[V!b]]"), ("slt", "[V!a[+[V!b]]]")):
        (tmp_path / name).write_text(f"Q\tT1\nE\t{tree}\nR\t7\t0\t{tree}\t[1.0]\nQ\tT2\n")
    corpus = Corpus("t", "T", "none", (tmp_path / "opt", tmp_path / "slt"), reader=corpus_reader("tangent"))
    assert tangent.queries(tmp_path / "opt") == {"T1": "[U!plus,0[V!a],1[V!b]]"}
    asked = formulas.queries(formula_topics(T1=["x"], T2=["x", "x", "}", "2"]), corpus, "opt")
    assert asked["T1"] == (parse_tangent("[U!plus,0[V!a],1[V!b]]"),)
    assert [tree.labels for tree in asked["T2"]] == [("V!𝑥",), ("N!2",)]


def test_the_formula_of_a_task_2_topic_is_the_one_that_is_asked_for() -> None:
    text = (
        '<Topics><Topic number="B.1"><Formula_Id>q_2</Formula_Id><Latex>a &lt; b</Latex>'
        "<Title>&lt;span class='math-container' id='q_1'&gt;$c$&lt;/span&gt;</Title></Topic></Topics>"
    )
    (topic,) = topic_files.arqmath_xml(text.encode(), "t.xml")
    assert topic.formulas == (Formula("q_2", "a < b"),)


# ---- runs ----------------------------------------------------------------------------------------------------------


def test_posts_count_with_their_best_formula_or_the_sum(tmp_path: Path) -> None:
    corpus, topics = posts_corpus(tmp_path, POSTS), formula_topics(T=["x+y"], U=["x+y", r"\frac{a}{b}"])
    asked = Request(topics, corpus, tmp_path)
    best, total = (replace(Structural(), aggregate=how)(asked).to_dict() for how in ("best", "sum"))
    assert best["T"] == {"p1": 1.0, "p3": 1.0}
    assert total["T"]["p1"] == pytest.approx(2 + best_of_fraction(corpus))
    assert total["T"]["p3"] == 1.0
    # Of several formulas each counts by the weight of its paths.
    assert best["U"]["p1"] > best["U"]["p3"] > 0


def best_of_fraction(corpus: Corpus) -> float:
    """What the formula a/b alone is worth to x+y."""
    known = formulas.read(corpus, "opt")
    index = indexed(known.trees, 2)
    numbers, scores = Structural().search(FormulaQuery(known.trees[0], index))
    return float(scores[numbers == 1].sum())


def test_a_run_keeps_the_posts_of_formulas(tmp_path: Path) -> None:
    rows = [{"id": "f1", "latex": "x^2", "post": "p9"}, {"id": "f2", "latex": "x^3", "post": "p8"}]
    corpus = rows_corpus(tmp_path / "f.jsonl", rows, "id latex", "post")
    run = Structural()(Request(formula_topics(T=["x^3"]), corpus, tmp_path))
    assert run.context is not None
    assert list(zip(run.doc.tolist(), run.context.tolist(), strict=True)) == [(b"f2", b"p8"), (b"f1", b"p9")]

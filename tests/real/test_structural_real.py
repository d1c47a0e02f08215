"""Structural search on real formulas: the judged formulas of ARQMath-1, the posts of Math Stack Exchange."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.experiments.task import present
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.structural import formulas
from harness.systems.structural.index import index_of
from harness.systems.structural.paths import canonical
from harness.systems.structural.tree import FormulaQuery, Structural

pytestmark = pytest.mark.real


@pytest.mark.slow
def test_judged_formulas_are_found_better_than_by_the_text_of_their_paths(mirror: Path, tmp_path: Path) -> None:
    """BM25 over the paths of the same trees has .76 nDCG'."""
    corpus, collection = load_corpus("arqmath1-formulas"), load_collection("arqmath-1-task2")
    scorer = collection.scorer(ids_are_keys=True)
    judged, coverage = present(scorer.qrels, corpus, None)
    assert (coverage.pairs, coverage.present) == (6074, 6045)
    topics = Topics(tuple(topic for topic in collection.topics() if topic.id in judged.topics))
    assert all(len(topic.formulas) == 1 for topic in topics)
    run = load_system("tree")(Request(topics, corpus, tmp_path))
    assert scorer.on_part(judged)(run).mean("nDCG") > 0.79


@pytest.mark.slow
def test_real_formulas_find_themselves_first(mirror: Path) -> None:
    corpus = load_corpus("arqmath1-formulas")
    known = formulas.read(corpus, "opt")
    index, system = index_of(corpus, known.trees, 2), Structural()
    for number in range(0, len(known.trees), len(known.trees) // 40):
        tree = known.trees[number]
        numbers, scores = system.search(FormulaQuery(tree, index))
        best = numbers[scores == scores.max()].tolist()
        assert number in best
        assert {canonical(known.trees[other]) for other in best} == {canonical(tree)}


@pytest.mark.heavy
def test_posts_are_found_by_the_formulas_of_a_question(mirror: Path, tmp_path: Path) -> None:
    corpus = load_corpus("mse-pages")
    known = formulas.read(corpus, "opt")
    assert (len(known.ids), len(known.tree)) == (3395, 67597)
    assert known.counts.read + sum(known.counts.failed.values()) == 67597
    assert known.counts.read > 0.97 * 67597
    assert int(np.count_nonzero(known.tree < 0)) < 0.005 * 67597
    topics = Topics(tuple(load_collection("arqmath-3-task1").topics())[:3])
    run = load_system("structural")(Request(topics, corpus, tmp_path))
    assert set(run.topics) == topics.ids()

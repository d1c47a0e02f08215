"""Structural search on real formulas: the judged formulas of ARQMath-1, the posts of Math Stack Exchange."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.experiments.task import present
from harness.systems.base import Request
from harness.systems.build import load_system

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

"""Theorem search by its protocol, whose gains are 1, .3 and 0, is trec_eval with the gains 10, 3 and 0."""

from __future__ import annotations

import random

import pytest
import pytrec_eval

from harness.data.trec import Qrels, Run
from harness.scoring.protocol import load_protocol
from harness.scoring.scorer import score_run

GAINS = {0: 0, 1: 3, 2: 10}  # label -> trec_eval's, ten times ours
REFERENCE = {"nDCG@20": "ndcg_cut_20", "P@10": "P_10", "R@10": "recall_10"}


def random_case(seed: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """A run with many ties, and labels of documents that it may have found; a topic may lack exact matches."""
    draw = random.Random(seed)
    run, labels = {}, {}
    for topic in (f"T{number}" for number in range(draw.randint(1, 6))):
        documents = [f"d{number}" for number in range(draw.randint(1, 80))]
        labels[topic] = {
            doc: draw.choice((0, 0, 1, 2)) for doc in draw.sample(documents, draw.randint(1, len(documents)))
        }
        found = draw.sample(documents, draw.randint(1, len(documents)))
        run[topic] = {doc: draw.choice((draw.random(), draw.randint(0, 3))) for doc in found}
    return run, labels


@pytest.mark.parametrize("seed", range(200))
def test_gains_with_fractions_are_those_of_trec_eval_times_ten(seed: int) -> None:
    run, labels = random_case(seed)
    ours = score_run(Run.from_dict("run", run), Qrels.from_dict("labels", labels), load_protocol("mathlib"))
    raised = {topic: {doc: GAINS[label] for doc, label in docs.items()} for topic, docs in labels.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(raised, set(REFERENCE.values()), relevance_level=GAINS[2])
    theirs = evaluator.evaluate(run)
    assert ours.topics == tuple(labels)
    for measure, name in REFERENCE.items():
        expected = [theirs[topic][name] for topic in labels]
        assert ours.column(measure).tolist() == pytest.approx(expected, abs=1e-9), measure

"""ARQMath Task 2 as its organisers score it: a plain script, then trec_eval; on runs full of ties, and on real ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.data.topics import Topics
from harness.data.trec import Qrels, Run, parse_run
from harness.experiments.task import task
from harness.scoring.protocol import Protocol, load_protocol
from harness.scoring.scorer import score_run
from harness.scoring.scores import Scores
from harness.systems.base import Request
from harness.systems.build import load_system

MEASURES = {"nDCG": "ndcg", "AP": "map", "P@10": "P_10", "Bpref": "bpref"}
Line = tuple[str, str, float]  # topic, formula, score
Judgments = Mapping[str, Mapping[str, int]]
Table = dict[str, dict[str, float]]  # topic -> measure -> value


def organisers(lines: Sequence[Line], visual: Mapping[str, str], judged: Judgments, depth: int = 1000) -> Table:
    """0 for a topic without results that were judged. Written without anything of the harness.

    Lines are sorted by score (ties stay as they are), the first formula of each visual id is kept with its score,
    visual ids without judgment are dropped; the rest is trec_eval's, its order of ties too.
    """
    rankings: dict[str, dict[str, float]] = {}
    for topic in judged:
        seen: dict[str, float] = {}
        for _, formula, value in sorted((line for line in lines if line[0] == topic), key=lambda line: -line[2])[
            :depth
        ]:
            if formula in visual and visual[formula] not in seen:
                seen[visual[formula]] = value
        rankings[topic] = {key: value for key, value in seen.items() if key in judged[topic]}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, set(MEASURES.values()), relevance_level=2)
    found = evaluator.evaluate({topic: ranking for topic, ranking in rankings.items() if ranking})
    return {t: {ours: found.get(t, {}).get(theirs, 0.0) for ours, theirs in MEASURES.items()} for t in judged}


def greatest(scores: Scores, wanted: Table) -> float:
    """The largest difference of a topic and measure."""
    rows: Iterator[tuple[str, list[float]]] = zip(scores.topics, scores.values.tolist(), strict=True)
    return max(abs(v - wanted[t][m]) for t, row in rows for m, v in zip(scores.measures, row, strict=True))


TASK2 = replace(load_protocol("arqmath-task2"), measures=tuple(MEASURES))
# Tied in 64 bits, in 32 bits only, or not at all; beyond 32 bits; negative.
VALUES = (2.0, 1.0, 1.0 + 1e-9, 1.0 - 1e-9, 1.0 + 1e-6, 0.0, -0.0, 1e300, 2e300, -1.5)
FORMULAS = tuple(f"{n}" for n in range(24))
LOOKS = ("1", "2", "10", "11", "9", "100", "7a", "é")  # visual ids; some are ids of formulas too
RUNS = st.lists(
    st.tuples(st.sampled_from(("B.1", "B.2")), st.sampled_from(FORMULAS), st.sampled_from(VALUES)),
    min_size=1,
    max_size=30,
    unique_by=lambda line: line[:2],
)
VISUAL = st.dictionaries(st.sampled_from(FORMULAS), st.sampled_from(LOOKS), min_size=4)
JUDGED = st.dictionaries(st.sampled_from(LOOKS), st.integers(0, 3), min_size=1)


def difference(lines: list[Line], visual: dict[str, str], judged: dict[str, dict[str, int]], how: Protocol) -> float:
    text = "".join(f"{topic}\t{formula}\tpost\t0\t{value!r}\tr\n" for topic, formula, value in lines)
    run = parse_run(text.encode(), "run", format="arqmath-task2")
    ours = score_run(run, Qrels.from_dict("e", judged), how, keys=visual)
    return greatest(ours, organisers(lines, visual, judged, how.depth or len(lines)))


@pytest.mark.slow
@given(lines=RUNS, visual=VISUAL, first=JUDGED, second=JUDGED, depth=st.sampled_from((1, 3, 5, 1000)))
@settings(max_examples=examples(250), deadline=None)
def test_scores_are_those_of_the_organisers(
    lines: list[Line], visual: dict[str, str], first: dict[str, int], second: dict[str, int], depth: int
) -> None:
    judged = {"B.1": first, "B.2": second}
    how = replace(TASK2, depth=depth)
    assert difference(lines, visual, judged, how) < 1e-9


@pytest.mark.parametrize(
    "rules",
    [
        {"ties": "file"},  # the file decides the second step too
        {"ties_deduplicate": None},  # trec_eval's order decides the first step too: seen where the depth cuts a tie
    ],
)
def test_the_comparison_notices_another_rule(rules: dict[str, Any]) -> None:
    lines = [("B.1", formula, 1.0) for formula in ("1", "2", "3", "4", "5")]
    visual, judged = {"1": "7", "2": "8", "3": "8", "4": "9", "5": "10"}, {"B.1": {"7": 0, "8": 2, "9": 1, "10": 3}}
    how = replace(TASK2, depth=3)
    assert difference(lines, visual, judged, how) < 1e-9
    assert difference(lines, visual, judged, replace(how, **rules)) > 0.1


def lines_of(run: Run) -> list[Line]:
    rows = zip(run.topic.tolist(), run.doc.tolist(), run.score.tolist(), strict=True)
    return [(run.topics[topic], doc.decode(), value) for topic, doc, value in rows]


@pytest.mark.heavy
@pytest.mark.real
@pytest.mark.parametrize(
    ("collection", "corpus", "moves"),
    [
        ("arqmath-3-task2", "mse-formulas", True),
        ("arqmath-1-task2", "arqmath1-formulas", False),  # a run of visual ids, its ties sorted by them already
    ],
)
def test_real_runs_score_as_with_the_script_of_the_organisers(
    mirror: Path, tmp_path: Path, collection: str, corpus: str, *, moves: bool
) -> None:
    found = task(collection, corpus)
    qrels = found.scorer.qrels
    asked = Topics(tuple(topic for topic in found.collection.topics() if topic.id in qrels.topics))
    run = load_system("bm25")(Request(asked, found.corpus, tmp_path))
    own = {doc.decode(): doc.decode() for doc in run.doc.tolist()}
    visual = own if found.keys is None else dict(found.keys)
    wanted = organisers(lines_of(run), visual, qrels.to_dict())
    scores = score_run(run, qrels, TASK2, keys=visual)
    assert scores.counts["tied results"] > 0
    assert greatest(scores, wanted) < 1e-9
    by_file = score_run(run, qrels, replace(TASK2, ties="file"), keys=visual)
    assert (greatest(by_file, wanted) > 1e-3) == moves

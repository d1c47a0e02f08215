"""Orders of results, and prime measures, which need no order of unjudged results."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.trec import Qrels, Run
from harness.scoring.protocol import Protocol
from harness.scoring.rankings import by_score
from harness.scoring.scorer import Scorer

MEASURES = ("nDCG", "nDCG@3", "AP", "P@2", "Bpref", "RR", "RelRet")
SCORES = st.sampled_from((0.0, -0.0, 1.0, 1.0 + 1e-9, 2.0, -1.0, 1e300, -1e300, 16777217.0, 16777216.0))


@given(
    st.lists(st.tuples(st.integers(0, 4), SCORES), min_size=1, max_size=80), st.permutations(range(4)), st.booleans()
)
def test_results_are_ordered_by_topic_and_score(rows: list[tuple[int, float]], judged: list[int], single: bool) -> None:
    topic = np.array([row[0] for row in rows], dtype=np.int32)
    score = np.array([row[1] for row in rows], dtype=np.float64)
    of_run = np.array([*judged, -1], dtype=np.int64)
    found, places = by_score(topic, of_run, score, single=single)
    with np.errstate(over="ignore"):
        s = score.astype(np.float32) if single else score
    known = [row for row in range(len(rows)) if of_run[topic[row]] >= 0]
    wanted = sorted(known, key=lambda row: (of_run[topic[row]], -s[row]))
    assert found.tolist() == wanted
    alike = [(topic[row], s[row]) for row in wanted]
    assert places.tolist() == [
        at for at, one in enumerate(alike) if one in (*alike[max(at - 1, 0) : at], *alike[at + 1 : at + 2])
    ]


def world(rng: random.Random, topics: int, documents: int) -> tuple[Run, Qrels]:
    """A run with ties, unjudged documents and topics, and long ids; and judgments."""
    docs = [f"{'long-id-' * rng.randrange(3)}{doc}" for doc in range(documents)]
    rows: list[tuple[str, str, float]] = []
    for topic in range(topics + 1):
        found = rng.sample(docs, rng.randrange(1, documents))
        rows += [(f"t{topic}", doc, float(rng.randrange(8))) for doc in found]
    rng.shuffle(rows)
    judged: dict[str, dict[str, float]] = {
        f"t{topic}": {doc: rng.randrange(4) for doc in rng.sample(docs, rng.randrange(1, documents))}
        for topic in range(1, topics + 2)
    }
    run: dict[str, dict[str, float]] = {}
    for name, doc, score in rows:
        run.setdefault(name, {})[doc] = score
    return Run.from_dict("mine", run), Qrels.from_dict("all", judged)


@pytest.mark.parametrize("ties", ["reference", "file"])
def test_prime_measures_are_those_of_the_run_without_unjudged_documents(ties: Literal["reference", "file"]) -> None:
    rng = random.Random(5)
    how = Protocol("p", MEASURES, depth=None, prime=True, ties=ties, relevant_from=2)
    for _ in range(10):
        run, qrels = world(rng, 4, 30)
        judged = qrels.to_dict()
        left = {
            topic: {doc: score for doc, score in docs.items() if doc in judged.get(topic, {})}
            for topic, docs in run.to_dict().items()
        }
        condensed = Run.from_dict("mine", {topic: docs for topic, docs in left.items() if docs})
        scorer = Scorer(qrels, how)
        for ours, wanted in zip(scorer.tie_bounds(run), scorer.tie_bounds(condensed), strict=True):
            assert ours.values.tobytes() == wanted.values.tobytes()
        primed, plain = scorer(run), Scorer(qrels, replace(how, prime=False))(run)
        assert primed.values.tobytes() == scorer(condensed).values.tobytes()
        if ties == "reference":  # the order of lines decides nothing
            shuffled = {topic: dict(rng.sample([*docs.items()], len(docs))) for topic, docs in run.to_dict().items()}
            assert primed.values.tobytes() == scorer(Run.from_dict("mine", shuffled)).values.tobytes()
        for measure in ("nDCG", "nDCG@3", "AP", "P@2"):
            assert (primed.column(measure) >= plain.column(measure)).all()

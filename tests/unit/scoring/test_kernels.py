"""The kernels of scoring and the NumPy code give equal orders, scores and bounds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.trec import Qrels, Run
from harness.io.kernels import VARIABLE, kernel
from harness.scoring.ordering import by_score
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Scorer

pytestmark = pytest.mark.skipif(kernel("harness_by_score") is None, reason="kernels are not used")

Value = TypeVar("Value")
MEASURES = ("nDCG", "nDCG@3", "AP", "P@2", "Bpref", "RR", "RelRet")
SCORES = st.sampled_from((0.0, -0.0, 1.0, 1.0 + 1e-9, 2.0, -1.0, 1e300, -1e300, 16777217.0, 16777216.0))
ROW = st.tuples(st.integers(0, 4), SCORES)


def both(work: Callable[[], Value]) -> tuple[Value, Value]:
    """What the kernels and the NumPy code give."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        ours = work()
        patch.setenv(VARIABLE, "off")
        return ours, work()


@given(
    st.lists(st.tuples(st.integers(0, 4), SCORES), min_size=1, max_size=80), st.permutations(range(4)), st.booleans()
)
def test_results_are_ordered_alike(rows: list[tuple[int, float]], judged: list[int], single: bool) -> None:
    topic = np.array([row[0] for row in rows], dtype=np.int32)
    score = np.array([row[1] for row in rows], dtype=np.float64)
    of_run = np.array([*judged, -1], dtype=np.int64)
    (ours, places), numpy = both(lambda: by_score(topic, of_run, score, single=single))
    assert ours.tolist() == numpy[0].tolist()
    assert places.tolist() == numpy[1].tolist()
    with np.errstate(over="ignore"):
        s = score.astype(np.float32) if single else score
    known = [row for row in range(len(rows)) if of_run[topic[row]] >= 0]
    assert ours.tolist() == sorted(known, key=lambda row: (of_run[topic[row]], -s[row]))


def test_long_rankings_are_ordered_alike() -> None:
    rng = np.random.default_rng(0)
    for values in (3, 50, 10**6):
        topic = np.repeat(np.arange(5, dtype=np.int32), 1000)
        score = rng.integers(values, size=topic.size) / 7
        of_run = np.arange(5)[::-1].copy()
        ours, numpy = both(partial(by_score, topic, of_run, score, single=True))
        assert [part.tolist() for part in ours] == [part.tolist() for part in numpy]


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


def scored(run: Run, qrels: Qrels, protocol: Protocol, keys: dict[str, str]) -> tuple[object, ...]:
    """All that a scorer says of a run, bit by bit."""
    scorer = Scorer(qrels, protocol, keys=keys if protocol.deduplicate else None)
    found = (scorer(run), *scorer.tie_bounds(run))
    return [each.values.tobytes() for each in found], [each.counts for each in found], scorer.rankings(run)


@pytest.mark.parametrize("measures", [MEASURES, (*MEASURES, "Judged@3")])
@pytest.mark.parametrize("deduplicate", [False, True])
@pytest.mark.parametrize("prime", [False, True])
@pytest.mark.parametrize("depth", [None, 5, 1000])
@pytest.mark.parametrize("ties", ["reference", "file"])
def test_scores_and_bounds_are_alike(
    ties: Literal["reference", "file"], depth: int | None, prime: bool, deduplicate: bool, measures: tuple[str, ...]
) -> None:
    rng = random.Random(3)
    how = Protocol("p", measures, depth=depth, prime=prime, ties=ties, deduplicate=deduplicate, relevant_from=2)
    for documents in (3, 12, 60):
        run, qrels = world(rng, 4, documents)
        keys = {doc.decode(): f"k{int(doc[-1:]) % 3}" for doc in run.doc.tolist()[::2]}
        ours, numpy = both(partial(scored, run, qrels, how, keys))
        assert ours == numpy


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

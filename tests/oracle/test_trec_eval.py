"""Agreement with trec_eval (through pytrec_eval), topic by topic, on random runs and judgments."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.data.columns import Floats, Index
from harness.data.trec import Qrels, Run
from harness.scoring import measures as m
from harness.scoring import scorer as scoring
from harness.scoring.protocol import Protocol
from harness.scoring.rankings import Function, Judged, Preference, Ranked, by_score, preferred
from harness.scoring.scorer import score_run

REFERENCE = {
    "nDCG": "ndcg",
    "AP": "map",
    "AP@5": "map_cut_5",
    "RR": "recip_rank",
    "Bpref": "bpref",
    "RelRet": "num_rel_ret",
    **{f"nDCG@{k}": f"ndcg_cut_{k}" for k in (1, 5, 10, 1000)},
    **{f"P@{k}": f"P_{k}" for k in (1, 5, 10, 1000)},
    **{f"R@{k}": f"recall_{k}" for k in (1, 5, 10, 1000)},
}
JUDGED = ("Judged@1", "Judged@5", "Judged@1000")
CLOSE = 1e-9
TREC_EVAL = Protocol("trec_eval", (*REFERENCE, *JUDGED), depth=None)
CASES = 2_000  # random runs, of three topics in the mean
Change = Callable[[Protocol], Protocol]


@dataclass(frozen=True)
class Case:
    """A run and judgments, and how they are scored: `-J` and `-l` of trec_eval's command line."""

    run: Mapping[str, Mapping[str, float]]
    qrels: Mapping[str, Mapping[str, int]]
    prime: bool
    level: int


def judged_share(ranking: Mapping[str, float], judged: Mapping[str, int], k: int) -> float:
    """Judged@k as ir_measures defines it (of the results there are), but in trec_eval's order of ties."""
    order = sorted(ranking, key=lambda doc: (c_float(ranking[doc]).value, doc.encode()), reverse=True)
    return sum(judged.get(doc, -1) >= 0 for doc in order[:k]) / len(order[:k])


def disagreements(case: Case, change: Change = lambda how: how) -> list[str]:
    """Where our scores and the reference's are not the same; `change` spoils our protocol."""
    how = change(replace(TREC_EVAL, prime=case.prime, relevant_from=float(case.level)))
    with np.errstate(divide="raise", invalid="raise"):
        scores = score_run(Run.from_dict("run", case.run), Qrels.from_dict("edition", case.qrels), how)
    evaluator = pytrec_eval.RelevanceEvaluator(
        case.qrels, set(REFERENCE.values()), relevance_level=case.level, judged_docs_only_flag=case.prime
    )
    reference: dict[str, dict[str, float]] = evaluator.evaluate(case.run)
    assert scores.topics == tuple(case.qrels)
    out = []
    for row, topic in enumerate(scores.topics):
        expected = {ours: reference.get(topic, {}).get(theirs, 0.0) for ours, theirs in REFERENCE.items()}
        for measure in JUDGED:
            if topic in case.run:
                expected[measure] = judged_share(case.run[topic], case.qrels[topic], int(measure.partition("@")[2]))
            else:
                expected[measure] = np.nan
        found = dict(zip(scores.measures, scores.values[row].tolist(), strict=True))
        out += [
            f"{topic} {measure}: {found[measure]!r}, reference {value!r}"
            for measure, value in expected.items()
            if not (abs(found[measure] - value) <= CLOSE or np.isnan([found[measure], value]).all())
        ]
    return out


# Ids of 1 to 40 characters, many of them prefixes of each other, some beyond ASCII.
LONG = "A.301-formula-0123456789-abcdefghijklmnopq"
POOL = (
    *(LONG[:n] for n in range(1, 41)),
    *(f"{i}" for i in range(1, 41)),
    *("ä" * n for n in range(1, 6)),
    *"Zz~é中𝔄\uffff",
    "věta-o-zbytku",
    "定理" * 20,
)
TOPICS = ("1", "10", "A.1", "A.10", "тема", "a-topic-id-that-is-longer-than-a-word")
TIED = (3.0, 2.0, 1.0)
NEAR = tuple(1 + i * 1e-9 for i in range(8))  # all the same 32-bit float
ODD = (0.0, -0.0, 1e-50, -1e-46, -1.5, 1e39, 1e300, -1e39, 16777216.0, 16777217.0)
# The third and fourth: none non-relevant, none relevant; the last as in TREC Web: -2 is in the pool and not judged.
GRADES = ((0, 1), (0, 0, 0, 1, 2, 3), (1, 2, 3), (0,), (-2, -1, 0, 1, 2))


def ended(judged: Mapping[str, int]) -> dict[str, int]:
    """The judgments of a topic, one of them from 0 up: trec_eval computes without end if all are below."""
    return dict(judged) if max(judged.values()) >= 0 else {**judged, min(judged): 0}


def random_case(rng: random.Random) -> Case:
    pool = rng.sample(POOL, rng.choice((1, 4, 12, 40, len(POOL))))
    topics = rng.sample(TOPICS, rng.randint(1, len(TOPICS)))
    run, qrels = {}, {}
    for topic in topics:
        values = rng.choice((TIED, NEAR, (*NEAR, *TIED), ODD, None))
        docs = rng.sample(pool, rng.choice((1, rng.randint(1, len(pool)), len(pool))))
        run[topic] = {doc: rng.choice(values) if values else rng.gauss(0, 3) for doc in docs}
        grades = rng.choice(GRADES)
        judged = {doc: rng.choice(grades) for doc in rng.sample(pool, rng.randint(1, len(pool)))}
        qrels[topic] = ended(judged)
    if len(topics) > 1:
        del run[topics[0]]  # a missing topic
    if len(topics) > 2:
        del qrels[topics[1]]  # a topic without judgments
    return Case(run, dict(rng.sample(sorted(qrels.items()), len(qrels))), rng.random() < 0.5, rng.randint(1, 3))


@cache
def random_cases() -> Sequence[Case]:
    rng = random.Random(20)
    return [random_case(rng) for _ in range(CASES)]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_scores_are_those_of_trec_eval(part: int) -> None:
    for case in random_cases()[part::4]:
        assert disagreements(case) == [], case


def test_the_random_cases_have_all_that_is_hard() -> None:
    cases = random_cases()
    rankings = [(case, topic, ranking) for case in cases for topic, ranking in case.run.items() if topic in case.qrels]
    grades = [(case.level, set(judged.values())) for case in cases for judged in case.qrels.values()]
    singles = [{c_float(value).value for value in ranking.values()} for _, _, ranking in rankings]
    kinds = {
        "rankings": len(rankings),
        "one-line runs": sum(sum(map(len, case.run.values())) == 1 for case in cases),
        "missing topics": sum(not case.qrels.keys() <= case.run.keys() for case in cases),
        "topics without judgments": sum(not case.run.keys() <= case.qrels.keys() for case in cases),
        "without relevant": sum(max(seen) < level for level, seen in grades),
        "without non-relevant": sum(min(seen) >= level for level, seen in grades),
        "ties": sum(len(ranking) > len(single) for (_, _, ranking), single in zip(rankings, singles, strict=True)),
        "equal as 32-bit floats only": sum(
            len(set(ranking.values())) > len(single) for (_, _, ranking), single in zip(rankings, singles, strict=True)
        ),
        "below zero": sum(min(seen) < 0 for _, seen in grades),
        "unjudged": sum(not ranking.keys() <= case.qrels[topic].keys() for case, topic, ranking in rankings),
    }
    kinds |= {
        f"prime {p}, level {n}": sum((case.prime, case.level) == (p, n) for case in cases) for p, n in _settings()
    }
    assert kinds.pop("rankings") > 3_900
    assert min(kinds.values()) > 100, kinds


def _settings() -> Sequence[tuple[bool, int]]:
    return list(product((False, True), (1, 2, 3)))


IDS = st.one_of(
    st.integers(1, 40).map(lambda n: LONG[:n]),
    st.text(st.characters(min_codepoint=33, codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=40),
)
SCORES = st.one_of(st.sampled_from((*TIED, *NEAR, *ODD)), st.floats(allow_nan=False, allow_infinity=False))


@pytest.mark.slow
@given(
    run=st.dictionaries(st.sampled_from(TOPICS), st.dictionaries(IDS, SCORES, min_size=1, max_size=12), min_size=1),
    qrels=st.dictionaries(
        st.sampled_from(TOPICS), st.dictionaries(IDS, st.integers(-2, 3), min_size=1, max_size=12), min_size=1
    ),
    shared=st.lists(st.integers(-2, 3), max_size=12),
    prime=st.booleans(),
    level=st.integers(1, 3),
)
@settings(max_examples=examples(100), deadline=None)
def test_scores_are_those_of_trec_eval_on_generated_input(
    run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]], shared: list[int], prime: bool, level: int
) -> None:
    first = next(iter(run))  # so that runs and judgments meet: some documents of the first topic are judged
    judged = dict(zip(sorted(run[first]), shared, strict=False))
    qrels = {**qrels, first: {**qrels.get(first, {}), **judged} or {"none-of-the-run": 1}}
    qrels = {topic: ended(grades) for topic, grades in qrels.items()}
    assert disagreements(Case(run, qrels, prime, level)) == []


# The comparison notices when a measure, the order of ties or the protocol is subtly another.


def divide(a: Floats, b: Floats | Index) -> Floats:
    return np.divide(a, b, out=np.zeros(a.shape), where=np.asarray(b) > 0)


def hits(ranked: Ranked, k: int | None) -> Floats:
    return ranked.total(ranked.relevant, k)


def ndcg_with_discounts(ranked: Ranked, judged: Judged, k: int | None, offset: int) -> Floats:
    dcg, ideal = (each.total(each.gain / np.log2(each.rank + offset), k) for each in (ranked, judged.ideal))
    return divide(dcg, ideal)


def ndcg_of_exponential_gains(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    ideal = replace(judged.ideal, gain=2**judged.ideal.gain - 1)
    return m.ndcg(replace(ranked, gain=2**ranked.gain - 1), replace(judged, ideal=ideal), k)


def ndcg_of_full_ideal(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    return divide(ranked.total(ranked.gain / np.log2(ranked.rank + 2), k), m.ideal_dcg(judged, None))


def ap_of_the_retrieved(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    return divide(m.average_precision(ranked, judged, k) * judged.relevant, hits(ranked, k))


def ap_of_at_most_k(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    most = judged.relevant if k is None else np.minimum(judged.relevant, k)
    return divide(m.average_precision(ranked, judged, k) * judged.relevant, most)


def precision_of_the_retrieved(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    return divide(hits(ranked, k), ranked.total(np.ones(ranked.rank.size), k))


def recall_of_at_most_k(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    return divide(hits(ranked, k), judged.relevant if k is None else np.minimum(judged.relevant, k))


def rr_from_zero(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    return m.reciprocal_rank(replace(ranked, rank=ranked.rank + 1), judged, k)


def rr_of_the_last(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    out = np.full(ranked.topics, np.inf)
    np.minimum.at(out, ranked.topic[ranked.relevant], 1.0 / (ranked.rank[ranked.relevant] + 1))
    return np.where(np.isinf(out), 0.0, out)


def bpref_with(
    ranked: Ranked, judged: Judged, *, bound: Index, most: Index | None = None, unjudged: bool = False
) -> Floats:
    """Bpref with another denominator, another bound of the numerator, or unjudged documents as non-relevant."""
    found = ranked.relevant
    results = ranked.rank + 1 if unjudged else ranked.judged_so_far
    above = (results - ranked.relevant_so_far)[found]
    topic = ranked.topic[found]
    counted = np.minimum(above, (judged.relevant if most is None else most)[topic])
    each = np.where(above > 0, 1.0 - counted / np.maximum(bound[topic], 1), 1.0)
    return divide(np.bincount(topic, each, ranked.topics).astype(np.float64), judged.relevant)


def fewer(judged: Judged) -> Index:
    return np.minimum(judged.relevant, judged.nonrelevant)


def judged_of_k(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    found = ranked.total(np.ones(ranked.rank.size), k)
    return np.where(found > 0, ranked.total(ranked.judged, k) / (k or 1), np.nan)


MUTANTS: dict[str, tuple[str, Function]] = {
    "log2(rank)": ("nDCG", lambda r, j, k: ndcg_with_discounts(replace(r, rank=np.maximum(r.rank, 1)), j, k, 2)),
    "log2(rank + 2)": ("nDCG", lambda r, j, k: ndcg_with_discounts(r, j, k, 3)),
    "exponential gains": ("nDCG", ndcg_of_exponential_gains),
    "ideal not cut": ("nDCG", ndcg_of_full_ideal),
    "AP over retrieved": ("AP", ap_of_the_retrieved),
    "AP over min(R, k)": ("AP", ap_of_at_most_k),
    "P over retrieved": ("P", precision_of_the_retrieved),
    "R over min(R, k)": ("R", recall_of_at_most_k),
    "RR rank + 1": ("RR", rr_from_zero),
    "RR of the last": ("RR", rr_of_the_last),
    "Bpref over R": ("Bpref", lambda r, j, k: bpref_with(r, j, bound=j.relevant)),
    "Bpref over N": ("Bpref", lambda r, j, k: bpref_with(r, j, bound=j.nonrelevant)),
    "Bpref min(n, N)": ("Bpref", lambda r, j, k: bpref_with(r, j, bound=fewer(j), most=j.nonrelevant)),
    "Bpref counts unjudged": ("Bpref", lambda r, j, k: bpref_with(r, j, bound=fewer(j), unjudged=True)),
    "RelRet of judged": ("RelRet", lambda r, j, k: r.total(r.judged, k)),
    "Judged over k": ("Judged", judged_of_k),
}


def notices(change: Change = lambda how: how) -> set[str]:
    """The measures on which the first random cases disagree."""
    found = [line for case in random_cases()[:120] for line in disagreements(case, change)]
    return {line.split(":")[0].split()[1].partition("@")[0] for line in found}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutant"), MUTANTS.values(), ids=MUTANTS.keys())
def test_the_comparison_notices_another_measure(monkeypatch: pytest.MonkeyPatch, name: str, mutant: Function) -> None:
    monkeypatch.setitem(m.MEASURES, name, replace(m.MEASURES[name], function=mutant))
    assert notices() == {name}


@pytest.mark.slow
@pytest.mark.parametrize("change", ["ascending", "64-bit"])
def test_the_comparison_notices_another_order_of_ties(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    def order(topic: npt.NDArray[np.int32], of_run: Index, score: Floats, *, single: bool) -> tuple[Index, Index]:
        return by_score(topic, of_run, score, single=single and change != "64-bit")

    def prefer(rows: Index, places: Index, topic: Index, score: Floats, by: Preference, *, single: bool) -> Index:
        sign = -1 if change == "ascending" else 1
        return preferred(rows, places, topic, score, lambda rows: sign * by(rows), single=single and change != "64-bit")

    monkeypatch.setattr(scoring, "by_score", order)
    monkeypatch.setattr(scoring, "preferred", prefer)
    assert notices() >= {"nDCG", "AP", "P", "R", "RR", "Bpref", "Judged"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (lambda how: replace(how, prime=not how.prime), {"nDCG", "AP", "P", "R", "RR"}),
        (lambda how: replace(how, relevant_from=how.relevant_from + 1), {"AP", "P", "R", "RR", "Bpref", "RelRet"}),
        (lambda how: replace(how, depth=10), {"nDCG", "AP", "P", "R", "RR", "Bpref", "RelRet", "Judged"}),
        (lambda how: replace(how, ideal="retrieved"), {"nDCG"}),
        (lambda how: replace(how, gains=((0.0, 0.0), (1.0, 0.0), (2.0, 1.0), (3.0, 2.0))), {"nDCG"}),
        (lambda how: replace(how, ties="file"), {"nDCG", "AP", "P", "R", "RR", "Bpref", "Judged"}),
        (lambda how: replace(how, no_relevant="skip"), {"nDCG", "AP", "P", "R", "RR", "Bpref"}),
        (lambda how: replace(how, topics="answered"), {measure.partition("@")[0] for measure in REFERENCE}),
    ],
    ids=["prime", "threshold", "depth", "ideal", "gains", "ties", "no_relevant", "topics"],
)
def test_the_comparison_notices_another_protocol(change: Change, noticed: set[str]) -> None:
    assert notices(change) == noticed

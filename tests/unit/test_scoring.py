from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, permutations, product
from typing import Any, Literal

import numpy as np
import pytest

from harness import scoring, trec
from harness.columns import Index, Words
from harness.errors import HarnessError
from harness.protocol import Protocol, Scores
from harness.scoring import Scorer, score
from harness.trec import Qrels, Run, parse_run

BINARY = ("AP", "AP@2", "P@1", "P@2", "R@2", "RR", "RR@2", "Bpref", "Bpref@3", "RelRet")
BOUNDED = ("nDCG", "nDCG@1", "nDCG@2", *BINARY)
ALL = (*BOUNDED, "nDCG@20", "P@20", "Judged@1", "Judged@2", "Judged@5")
PLAIN = Protocol("plain", ALL, depth=None)
GAINS = (
    (),
    ((0.0, 0.0), (1.0, 0.0), (2.0, 1.0), (3.0, 2.0)),
    ((0.0, 0.5), (1.0, 0.3), (2.0, 1.0)),
    ((1.0, 2.0), (2.0, 1.0)),  # exchanged
)
NO_KEY = "no key: "
Ranking = Sequence[tuple[str, float]]
Keys = Mapping[str, str]
Judgments = dict[str, dict[str, float]]


def expected(results: Sequence[str], judged: Mapping[str, float], how: Protocol, m: str) -> float:
    """One topic scored result by result, straight from the definitions; `results` is sorted and cut."""
    name, _, cut = m.partition("@")
    k = int(cut) if cut else None
    if name == "Judged":
        return sum(doc in judged for doc in results[:k]) / len(results[:k]) if results else math.nan
    ideal = list(judged.values()) if how.ideal == "judged" else [judged[doc] for doc in results if doc in judged]
    grades = [judged.get(doc) for doc in results if doc in judged or not how.prime]
    if name == "nDCG":
        gains = dict(how.gains)
        best = _dcg(sorted((gains.get(grade, grade) for grade in ideal), reverse=True)[:k])
        mine = [0.0 if grade is None else gains.get(grade, grade) for grade in grades]
        return _dcg(mine[:k]) / best if best else 0.0
    relevant = [grade is not None and grade >= how.relevant_from for grade in grades]
    hits = [rank for rank, hit in enumerate(relevant[:k], 1) if hit]
    many = sum(grade >= how.relevant_from for grade in judged.values())
    few = min(many, len(judged) - many)
    above = [sum(grade is not None and grade < how.relevant_from for grade in grades[:rank]) for rank in hits]
    return {
        "P": len(hits) / (k or 1),
        "RelRet": float(len(hits)),
        "RR": 1 / hits[0] if hits else 0.0,
        "R": len(hits) / max(many, 1),
        "AP": sum(sum(relevant[:rank]) / rank for rank in hits) / max(many, 1),
        "Bpref": sum(1 - min(n, many) / few if n else 1 for n in above) / max(many, 1),
    }[name]


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def groups(ranking: Ranking, rule: str) -> list[Ranking]:
    """The ranking, best first, tied results together; within a tie in the rule's order."""
    single = rule == "reference"
    found = sorted(ranking, key=lambda item: item[0].removeprefix(NO_KEY).encode(), reverse=True) if single else ranking
    value = {score: float(np.float32(score)) if single else score for _, score in ranking}
    found = sorted(found, key=lambda item: -value[item[1]])
    return [list(group) for _, group in groupby(found, key=lambda item: value[item[1]])]


def first_of_keys(ranking: Ranking, order: Ranking, how: Protocol, keys: Keys) -> Ranking:
    """What is left of a sorted ranking after the cut and the de-duplication, in the order of the file."""
    kept = order[: how.depth]
    if not how.deduplicate:
        return kept
    # A document without a key has no judgment, even if its id is some key.
    best: dict[str, tuple[str, float]] = {}
    for doc, value in kept:
        best.setdefault(keys.get(doc, f"{NO_KEY}{doc}"), (doc, value))
    place = {doc: at for at, (doc, _) in enumerate(ranking)}
    return [(key, value) for key, (doc, value) in sorted(best.items(), key=lambda item: place[item[1][0]])]


def rules(how: Protocol) -> tuple[str, str]:
    return (how.ties_deduplicate or how.ties) if how.deduplicate else how.ties, how.ties


def ranking_of(ranking: Ranking, how: Protocol, keys: Keys) -> list[str]:
    """Documents or keys as the protocol ranks them."""
    before, after = rules(how)
    order = list(chain.from_iterable(groups(ranking, before)))
    left = first_of_keys(ranking, order, how, keys)
    if how.deduplicate:
        left = list(chain.from_iterable(groups(left, after)))
    return [key for key, _ in left]


def run_of(rankings: Mapping[str, Ranking], rng: random.Random | None = None) -> Run:
    """A run of these lines; with a generator the topics' lines are mixed (each topic keeps its order)."""
    queues = {topic: [f"{topic} Q0 {doc} 0 {score!r} r\n" for doc, score in lines] for topic, lines in rankings.items()}
    out = []
    while queues:
        topic = rng.choice(sorted(queues)) if rng else next(iter(queues))
        out.append(queues[topic].pop(0))
        if not queues[topic]:
            del queues[topic]
    return parse_run("".join(out).encode(), "run")


def one(lines: str, judged: Mapping[str, float], how: Protocol, keys: Keys | None = None) -> Scores:
    """Scores of one topic from `document:score` items."""
    ranking = [(doc, float(value)) for doc, _, value in (item.rpartition(":") for item in lines.split())]
    return score(run_of({"t": ranking}), Qrels.from_dict("e", {"t": judged}), how, keys=keys)


def random_protocol(rng: random.Random) -> Protocol:
    return Protocol(
        "random",
        ALL,
        depth=rng.choice((None, 1, 2, 3, 5, 1000)),
        prime=rng.random() < 0.5,
        gains=rng.choice(GAINS),
        relevant_from=rng.choice((1.0, 2.0, 3.0)),
        ideal=rng.choice(("judged", "retrieved")),
        ties=rng.choice(("reference", "file")),
        deduplicate=rng.random() < 0.5,
        ties_deduplicate=rng.choice((None, "reference", "file")),
        topics=rng.choice(("all", "answered")),
        no_relevant=rng.choice(("zero", "skip")),
    )


def random_ranking(rng: random.Random, pool: Sequence[str], most: int) -> Ranking:
    values = (2.0, 1.0, 1.0 + 1e-9, -0.5, 0.0, -0.0)
    return [(doc, rng.choice(values)) for doc in rng.sample(pool, rng.randint(1, min(most, len(pool))))]


def random_case(rng: random.Random, most: int) -> tuple[dict[str, Ranking], Judgments, dict[str, str]]:
    """Rankings, judgments and keys over one small pool of ids, some of which are prefixes of others."""
    pool = ["d", "d1", "d11", "d2", "D", "é", "a-long-identifier-of-thirty-two-b", "a-long-identifier-of-thirty-two-"]
    visual = {doc: rng.choice(("v1", "v2", "v3", "d")) for doc in rng.sample(pool, 5)}
    judgeable = [*pool, "v1", "v2", "v3"]
    topics = rng.sample(("1", "2", "10", "A.1"), 3)
    rankings = {topic: random_ranking(rng, pool, most) for topic in topics[:2]}
    judged = {
        topic: {doc: float(rng.choice((0, 0, 1, 2, 3))) for doc in rng.sample(judgeable, rng.randint(1, 9))}
        for topic in rng.sample(topics, 3)
    }
    return rankings, judged, visual


def test_scores_are_those_of_the_definitions_under_any_protocol() -> None:
    rng = random.Random(4)
    for _ in range(400):
        how = random_protocol(rng)
        rankings, judged, keys = random_case(rng, 8)
        scores = score(run_of(rankings, rng), Qrels.from_dict("e", judged), how, keys=keys)
        assert scores.topics == tuple(judged)
        for (row, topic), measure in product(enumerate(scores.topics), ALL):
            results = ranking_of(rankings.get(topic, ()), how, keys)
            wanted = expected(results, judged[topic], how, measure)
            if how.topics == "answered" and topic not in rankings:
                wanted = math.nan
            if how.no_relevant == "skip" and not measure.startswith(("Judged", "RelRet")):
                gains = [dict(how.gains).get(grade, grade) for grade in judged[topic].values()]
                good = max(gains) > 0 if "nDCG" in measure else max(judged[topic].values()) >= how.relevant_from
                wanted = wanted if good else math.nan
            found = scores.column(measure)[row]
            assert found == pytest.approx(wanted, abs=1e-12, nan_ok=True), (topic, measure, how, rankings, judged)


# The order of operations. Each case would come out as `otherwise` if the two steps changed places.


@pytest.mark.parametrize(
    ("lines", "judged", "changes", "measure", "value"),
    [
        # Sort, then cut at the depth: the best result stands last in the file (else 0).
        ("n:1 x:2 r:3", {"r": 1, "n": 0}, {"depth": 1}, "AP", 1.0),
        # Cut at the depth, then drop unjudged documents: the relevant one is third, first of the judged (else 1).
        ("u:3 x:2 r:1", {"r": 1}, {"depth": 2, "prime": True}, "AP", 0.0),
        ("u:3 x:2 r:1", {"r": 1}, {"depth": 3, "prime": True}, "AP", 1.0),
        # Cut at the depth, then de-duplicate: two formulas of one key fill a depth of 2 (else 1/2).
        ("f1:3 f2:2 f3:1", {"w": 1, "v": 0}, {"depth": 2, "deduplicate": True}, "AP", 0.0),
        # De-duplicate, then cut at k: w is the second key, the third formula (else 0).
        ("f1:3 f2:2 f3:1", {"w": 1, "v": 0}, {"deduplicate": True}, "P@2", 1 / 2),
        # The first result of a key is kept, not the last: v, w, v is v, w (else 1/2).
        ("f1:3 f3:2 f2:1", {"v": 1, "w": 0}, {"deduplicate": True}, "RR", 1.0),
        # De-duplicate, then drop unjudged documents. Judged@k stands between the two, at v (unjudged), w: before both
        # it were 0, after both 1.
        ("f1:3 f2:2 f3:1", {"w": 1}, {"deduplicate": True, "prime": True}, "Judged@2", 1 / 2),
        ("f1:3 f2:2 f3:1", {"w": 1}, {"deduplicate": True, "prime": True}, "RR", 1.0),
        # Drop unjudged documents, then cut at k (else 0).
        ("u:3 x:2 r:1", {"r": 1}, {"prime": True}, "P@1", 1.0),
        ("u:3 x:2 r:1", {"r": 1}, {"prime": True}, "nDCG@1", 1.0),
        # The ideal of the retrieved: those within the depth, before the cut at k (else 1/3, 1).
        ("b:3 a:2 z:1", {"a": 2, "b": 1, "z": 3}, {"depth": 2, "ideal": "retrieved"}, "nDCG@1", 1 / 2),
        ("b:3 a:2 z:1", {"a": 2, "b": 1, "z": 3}, {"depth": 2, "ideal": "judged"}, "nDCG@1", 1 / 3),
    ],
)
def test_the_order_of_operations_is_fixed(
    lines: str, judged: dict[str, float], changes: dict[str, Any], measure: str, value: float
) -> None:
    found = one(lines, judged, replace(PLAIN, **changes), {"f1": "v", "f2": "v", "f3": "w"}).column(measure)
    assert found.tolist() == [pytest.approx(value)]


# Ties.


def first(lines: str, how: Protocol = PLAIN) -> str:
    """Which document stands first, told by which of them makes RR 1."""
    docs = [item.rpartition(":")[0] for item in lines.split()]
    return next(doc for doc in docs if one(lines, {doc: 1}, how).mean("RR") == 1)


@pytest.mark.parametrize(
    ("lines", "reference", "file"),
    [
        ("a:1 b:1", "b", "a"),
        ("b:1 a:1", "b", "b"),
        ("a:1.000000001 b:1", "b", "a"),  # equal as 32-bit floats
        ("a:1.0000002 b:1", "a", "a"),  # not equal as 32-bit floats
        ("a:1e300 b:1e200", "b", "a"),  # both infinite as 32-bit floats
        ("a:0.0 b:-0.0", "b", "a"),
        ("ab:1 a:1", "ab", "ab"),  # a prefix is smaller
        ("12345678:1 123456789:1", "123456789", "12345678"),
        ("10:1 9:1", "9", "10"),  # text, not numbers
        ("Z:1 a:1", "a", "Z"),
        ("z:1 é:1", "é", "z"),  # UTF-8 bytes, unsigned
        ("\uffff:1 \U00010000:1", "\U00010000", "\uffff"),
    ],
)
def test_ties_are_ordered_as_the_protocol_says(lines: str, reference: str, file: str) -> None:
    assert first(lines) == reference
    assert first(lines, replace(PLAIN, ties="file")) == file


TIED = "f1:1 f2:1"  # two formulas, of visual ids 7 (not relevant) and 8 (relevant)
BY_LOOK = Protocol("t2", ("AP", "nDCG", "P@1"), prime=True, deduplicate=True, ties="reference", ties_deduplicate="file")


@pytest.mark.parametrize(
    ("rules", "ndcg"),
    [
        # In trec_eval's order, 8 comes first whatever the file says; in the file's order, second: 1 / log2(3).
        ({}, 1.0),
        ({"ties": "file"}, 1 / math.log2(3)),
        ({"ties_deduplicate": None}, 1.0),
    ],
)
def test_two_tied_formulas_are_scored_in_the_order_of_their_visual_ids(rules: dict[str, Any], ndcg: float) -> None:
    found = one(TIED, {"7": 0, "8": 1}, replace(BY_LOOK, **rules), {"f1": "7", "f2": "8"})
    assert found.column("nDCG").tolist() == [pytest.approx(ndcg, abs=1e-15)]
    assert found.counts["tied results"] == 2


def test_the_first_formula_of_a_visual_id_is_that_of_the_file_and_gives_its_score() -> None:
    """At a depth of 2 the file keeps f1 and f2 of three tied formulas; trec_eval's order would keep f3 and f2."""
    keys = {"f1": "7", "f2": "7", "f3": "8"}
    assert one("f1:1 f2:1 f3:1", {"8": 1}, replace(BY_LOOK, depth=2), keys).mean("AP") == 0
    assert one("f1:1 f2:1 f3:1", {"8": 1}, replace(BY_LOOK, depth=2, ties_deduplicate=None), keys).mean("AP") == 1
    # 7 has its better score, 3: above 9, with which its other formula is tied.
    better = one("f1:1 f2:3 f3:1", {"7": 1, "9": 0}, BY_LOOK, {"f1": "7", "f2": "7", "f3": "9"})
    assert better.mean("AP") == 1


def test_ties_of_32_bits_are_counted_also_where_only_the_second_rule_has_them() -> None:
    scores = one("f1:1 f2:1.000000001 f3:0.5", {"7": 1}, BY_LOOK, {"f1": "7", "f2": "8"})
    assert scores.counts["tied results"] == 2
    scorer = Scorer(Qrels.from_dict("e", {"t": {"7": 1, "8": 0}}), BY_LOOK, keys={"f1": "7", "f2": "8"})
    run = run_of({"t": [("f1", 1.0), ("f2", 1.000000001)]})
    assert scorer.tie_spans(run, scorer(run))["AP"] == (0.5, 1.0)


def test_lines_in_any_order_and_topics_mixed_give_the_same_scores() -> None:
    rng = random.Random(5)
    lines = [f"{t} Q0 d{i} 0 {rng.choice((0.1, 0.2, 0.3))} r\n" for t in ("7", "8", "é") for i in range(30)]
    qrels = Qrels.from_dict("e", {t: {f"d{i}": i % 4 for i in range(0, 30, 2)} for t in ("é", "7", "9", "8")})
    for how in (replace(PLAIN, depth=20, prime=True), replace(PLAIN, depth=20, deduplicate=True)):
        wanted = score(parse_run("".join(lines).encode(), "run"), qrels, how)
        for _ in range(10):
            rng.shuffle(lines)
            found = score(parse_run("".join(lines).encode(), "run"), qrels, how)
            np.testing.assert_array_equal(found.values, wanted.values)
            assert found.counts == wanted.counts
    assert len({tuple(score(run, qrels, replace(PLAIN, ties="file")).values.flat) for run in _shuffles(lines, rng)}) > 1


def _shuffles(lines: list[str], rng: random.Random) -> list[Run]:
    return [parse_run("".join(rng.sample(lines, len(lines))).encode(), "run") for _ in range(5)]


# Topics.

TOPICS = {"a": {"x": 1.0, "y": 0.0}, "missing": {"x": 1.0}, "none relevant": {"x": 0.0}, "b": {"x": 2.0, "y": 1.0}}
JUDGMENTS = {topic.replace(" ", "-"): judged for topic, judged in TOPICS.items()}
ANSWERS = {"b": [("y", 1.0)], "none-relevant": [("x", 1.0)], "not-judged": [("x", 3.0)], "a": [("y", 2.0), ("x", 1.0)]}


@pytest.mark.parametrize(
    ("topics", "no_relevant", "measure", "values"),
    [
        ("all", "zero", "RR", [1 / 2, 0, 0, 1]),
        ("answered", "zero", "RR", [1 / 2, math.nan, 0, 1]),
        ("all", "skip", "RR", [1 / 2, 0, math.nan, 1]),
        ("answered", "skip", "RR", [1 / 2, math.nan, math.nan, 1]),
        ("all", "skip", "RelRet", [1, 0, 0, 1]),
        ("answered", "skip", "RelRet", [1, math.nan, 0, 1]),
        ("all", "zero", "Judged@5", [1, math.nan, 1, 1]),
        ("answered", "skip", "nDCG@1", [0, math.nan, math.nan, 1 / 2]),
        ("all", "skip", "nDCG@1", [0, 0, math.nan, 1 / 2]),
    ],
)
def test_topics_that_are_missing_or_have_no_relevant_documents(
    topics: Literal["all", "answered"], no_relevant: Literal["zero", "skip"], measure: str, values: list[float]
) -> None:
    how = replace(PLAIN, topics=topics, no_relevant=no_relevant)
    scores = score(run_of(ANSWERS), Qrels.from_dict("e", JUDGMENTS), how)
    assert scores.topics == ("a", "missing", "none-relevant", "b")
    np.testing.assert_allclose(scores.column(measure), values, rtol=1e-15)
    counted = [value for value in values if not math.isnan(value)]
    assert scores.n(measure) == len(counted)
    assert scores.mean(measure) == pytest.approx(sum(counted) / len(counted))


def test_skip_looks_at_gains_for_ndcg_and_at_the_threshold_for_the_others() -> None:
    how = replace(PLAIN, no_relevant="skip", relevant_from=2.0, gains=((2.0, 0.0),))
    scores = score(
        run_of({"1": [("x", 1.0)], "2": [("x", 1.0)]}), Qrels.from_dict("e", {"1": {"x": 1}, "2": {"x": 2}}), how
    )
    np.testing.assert_array_equal(scores.column("nDCG"), [1, math.nan])
    np.testing.assert_array_equal(scores.column("AP"), [math.nan, 1])


def test_counts_tell_what_was_seen_on_the_way() -> None:
    rankings = {
        "1": [("f1", 3.0), ("f2", 3.0), ("f3", 3.0), ("f4", 1.0), ("f5", 0.5)],
        "2": [("f1", 1.0), ("w", 0.5)],
        "not-judged": [("f1", 1.0), ("f2", 1.0)],
    }
    qrels = Qrels.from_dict("e", {"1": {"v": 1, "f4": 0}, "2": {"w": 1}, "missing": {"v": 1}})
    keys = {"f1": "v", "f2": "v", "f3": "w"}
    seen = {
        "results": 9,
        "topics answered": 2,
        "topics missing": 1,
        "topics without judgments": 1,
        "tied results": 3,
        "results beyond the depth": 1,
        "topics without relevant documents": 0,
    }
    mapped = {"duplicates removed": 1, "documents without a key": 2, "results without judgment": 4}
    how = replace(PLAIN, depth=4, prime=True, deduplicate=True)
    assert score(run_of(rankings), qrels, how, keys=keys).counts == seen | mapped
    plain = score(run_of(rankings), qrels, replace(how, deduplicate=False), keys=keys)
    assert plain.counts == seen | {"results without judgment": 4}
    del seen["results beyond the depth"]
    assert score(run_of(rankings), qrels, PLAIN).counts == seen | {"results without judgment": 5}


def test_a_run_without_any_judged_topic_is_an_error() -> None:
    with pytest.raises(HarnessError) as caught:
        score(run_of({"7": [("x", 1.0)]}), Qrels.from_dict("e", JUDGMENTS), PLAIN)
    assert str(caught.value) == "run r: none of its topics (7, ...) is judged (a, missing, none-relevant, ...)"


def test_scores_carry_what_they_were_made_from() -> None:
    run, qrels = run_of(ANSWERS), Qrels.from_dict("official", JUDGMENTS)
    scores = Scorer(qrels, PLAIN, collection="c", measures=("AP", "P@5"))(run)
    assert (scores.run, scores.collection, scores.edition, scores.protocol) == ("r", "c", "official", PLAIN)
    assert (scores.measures, scores.values.shape) == (("AP", "P@5"), (4, 2))
    assert (scores.run_sha256, scores.qrels_sha256) == (run.sha256, qrels.sha256)
    assert len(run.sha256) == len(qrels.sha256) == 64


def test_one_scorer_scores_many_runs_and_keeps_nothing_of_them() -> None:
    rng = random.Random(6)
    _, judged, keys = random_case(rng, 8)
    how = replace(PLAIN, prime=True, deduplicate=True, ideal="retrieved")
    scorer = Scorer(Qrels.from_dict("e", judged), how, keys=keys)
    runs = [run_of({topic: random_ranking(rng, ["d", "d1", "é", "x"], 4) for topic in judged}) for _ in range(6)]
    for run in (*runs, *runs):
        np.testing.assert_array_equal(scorer(run).values, score(run, scorer.qrels, how, keys=keys).values)


# The hash table.


def _same_hash(values: Words, topic: Index) -> Words:
    return np.zeros(len(topic), dtype=np.uint64)


def _same_slot(self: object, key: Words) -> Index:
    return np.zeros(len(key), dtype=np.int64)


def _last_slots(self: scoring._Lookup, key: Words) -> Index:
    """Slots at the end of the table, so that probing runs over its edge."""
    return ((1 << self._bits) - 1 - (key & np.uint64(1))).astype(np.int64)


@pytest.mark.parametrize(
    ("where", "name", "collide"),
    [(trec, "hashes", _same_hash), (scoring._Lookup, "_place", _same_slot), (scoring._Lookup, "_place", _last_slots)],
)
def test_colliding_hashes_change_nothing(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, collide: object
) -> None:
    rng = random.Random(7)
    topics = ("1", "2", "a-topic-of-more-than-one-word")
    pool = [f"{prefix}{i}" for prefix in ("", "a-prefix-of-eight-or-more-", "é") for i in range(25)]
    judged = {topic: {doc: float(rng.randint(0, 3)) for doc in rng.sample(pool, 40)} for topic in topics}
    rankings = {topic: [(doc, rng.random()) for doc in rng.sample(pool, 60)] for topic in topics}
    wanted = score(run_of(rankings), Qrels.from_dict("e", judged), PLAIN)
    monkeypatch.setattr(where, name, collide)
    found = score(run_of(rankings), Qrels.from_dict("e", judged), PLAIN)
    np.testing.assert_array_equal(found.values, wanted.values)
    assert found.counts == wanted.counts
    assert 0 < wanted.counts["results without judgment"] < 180


# Best and worst case over the orders of tied results.


def permuted(tied: Sequence[Ranking]) -> Iterator[Ranking]:
    """Every order that ties allow."""
    return (list(chain(*choice)) for choice in product(*(permutations(group) for group in tied)))


def orders(ranking: Ranking, how: Protocol, keys: Keys) -> set[tuple[str, ...]]:
    """Every final ranking that some order of the ties before de-duplication and of those after it gives."""
    before, after = rules(how)
    out: set[tuple[str, ...]] = set()
    for order in permuted(groups(ranking, before)):
        left = first_of_keys(ranking, order, how, keys)
        finals = permuted(groups(left, after)) if how.deduplicate else iter([left])
        out |= {tuple(key for key, _ in final) for final in finals}
    return out


def crosses_depth(ranking: Ranking, how: Protocol) -> bool:
    """Whether a tie stands on both sides of the depth."""
    ends = np.cumsum([len(group) for group in groups(ranking, rules(how)[0])])
    return how.depth is not None and how.depth < len(ranking) and how.depth not in ends


def bounds(
    ranking: Ranking, judged: Mapping[str, float], how: Protocol, keys: Keys, measures: Sequence[str]
) -> list[tuple[float, float, set[float]]]:
    """For each measure the worst, the best, and what all the orders give."""
    scorer = Scorer(Qrels.from_dict("e", {"t": judged}), how, keys=keys, measures=measures)
    worst, best = scorer.tie_bounds(run_of({"t": ranking}))
    every = orders(ranking, how, keys)
    given = [{round(expected(order, judged, how, measure), 10) for order in every} for measure in measures]
    return list(zip(worst.values[0].round(10).tolist(), best.values[0].round(10).tolist(), given, strict=True))


def test_tie_bounds_are_the_extremes_over_all_orders() -> None:
    rng = random.Random(8)
    matters = dict.fromkeys(BOUNDED, 0)
    for _ in range(800):
        how = replace(random_protocol(rng), no_relevant="zero")
        rankings, judged, keys = random_case(rng, 6)
        (ranking, _), (grades, *_) = rankings.values(), judged.values()
        corner = crosses_depth(ranking, how)
        if how.deduplicate and rules(how) == ("reference", "file"):
            continue  # the third case of the next test
        for measure, (worst, best, given) in zip(BOUNDED, bounds(ranking, grades, how, keys, BOUNDED), strict=True):
            assert {worst, best} <= given, (measure, how, ranking, grades, keys)
            if corner and (how.deduplicate or (how.ideal == "retrieved" and "nDCG" in measure)):
                continue  # the two cases of the next test
            assert (worst, best) == (min(given), max(given)), (measure, how, ranking, grades, keys)
            matters[measure] += len(given) > 1
    assert min(matters.values()) > 15, matters  # cases where the order matters at all


@pytest.mark.parametrize(
    ("ranking", "judged", "changes", "measure", "worst", "best", "least", "most"),
    [
        # The ideal is made of what is retrieved: with a it is better than without, and so further away.
        (
            [("p", 2.0), ("n", 1.0), ("a", 1.0)],
            {"p": 1, "a": 3, "n": 0},
            {"ideal": "retrieved"},
            "nDCG",
            1.0,
            (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)),
            (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)),
            1.0,
        ),
        # Two formulas of one key within the depth are one result; with f3 there would be two.
        (
            [("f1", 1.0), ("f2", 1.0), ("f3", 1.0)],
            {"v": 1, "w": 1},
            {"deduplicate": True},
            "AP",
            1 / 2,
            1 / 2,
            1 / 2,
            1.0,
        ),
        # f1 and f2 are one result whose score is either's, above or below that of f3, which is tied with both.
        (
            [("f1", 1.0), ("f2", 1.0 + 2e-9), ("f3", 1.0 + 1e-9)],
            {"v": 1, "w": 0},
            {"deduplicate": True, "ties_deduplicate": "reference", "depth": None},
            "AP",
            1 / 2,
            1 / 2,
            1 / 2,
            1.0,
        ),
    ],
)
def test_tie_bounds_are_not_the_extremes_in_three_corners(
    *,
    ranking: Ranking,
    judged: Mapping[str, float],
    changes: dict[str, Any],
    measure: str,
    worst: float,
    best: float,
    least: float,
    most: float,
) -> None:
    how = replace(PLAIN, **{"depth": 2, "ties": "file", **changes})
    assert crosses_depth(ranking, how) == (how.depth == 2)
    ((found_worst, found_best, given),) = bounds(ranking, judged, how, {"f1": "v", "f2": "v", "f3": "w"}, (measure,))
    assert [found_worst, found_best] == pytest.approx([worst, best])
    assert [min(given), max(given)] == pytest.approx([least, most])


def test_tie_bounds_without_ties_are_the_scores() -> None:
    scorer = Scorer(Qrels.from_dict("e", JUDGMENTS), PLAIN)
    run = run_of(ANSWERS)
    worst, best = scorer.tie_bounds(run)
    np.testing.assert_array_equal(worst.values, scorer(run).values)
    np.testing.assert_array_equal(best.values, scorer(run).values)
    assert worst.counts["tied results"] == 0

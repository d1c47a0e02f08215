"""Scoring from the definitions, one result at a time, and random cases for it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import chain, groupby

import numpy as np

from harness.data.columns import Floats
from harness.data.trec import Qrels, Run, parse_run
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import score_run
from harness.scoring.scores import Scores

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
        assert how.gains != "exponential"
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
    return score_run(run_of({"t": ranking}), Qrels.from_dict("e", {"t": judged}), how, keys=keys)


def ap(run: str, values: Sequence[float] | Floats) -> Scores:
    """Scores of a run by average precision, on topics t000, t001 and so on."""
    column = np.array(values, dtype=np.float64)[:, None]
    return Scores(
        run, "c", "e", Protocol("p", ("AP",)), ("AP",), tuple(f"t{at:03}" for at in range(len(column))), column
    )


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

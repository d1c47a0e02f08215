"""Pools: documents of submitted runs for assessors, in an order independent of the runs.

Source: depth-k pooling (Sparck Jones and van Rijsbergen, 1975; TREC). As ARQMath pooled: one depth for primary runs,
a smaller one for the others, counted in distinct keys where documents are de-duplicated (formulas by visual id).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.io.files import sha256
from harness.scoring.exclusions import Exclusions
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Scorer

Rankings = Mapping[str, Sequence[str]]  # topic -> documents or keys, best first
Pair = tuple[str, str]  # topic, document or key


@dataclass(frozen=True)
class Share:
    """What one run gave to a pool: how deep it was read, its documents in the pool, those no other run gave."""

    run: str
    depth: int
    pooled: int
    alone: int


@dataclass(frozen=True)
class Pool:
    """What is to be judged.

    Attributes
    ----------
    topics : topic -> documents or keys, in the order for the assessor.
    shares : of each run.
    candidates : topic -> how many there were before the cap.
    judged : pairs left out because they are judged already.
    """

    topics: Mapping[str, tuple[str, ...]]
    shares: tuple[Share, ...]
    candidates: Mapping[str, int]
    judged: int = 0

    def __len__(self) -> int:
        return sum(len(docs) for docs in self.topics.values())


def first_results(
    run: Run,
    protocol: Protocol,
    keys: Mapping[str, str] | None,
    depth: int,
    exclusions: Exclusions | None = None,
) -> tuple[Rankings, int]:
    """Returns the first results of each topic in the protocol's order, as scoring takes them; no judgments are needed.

    Parameters
    ----------
    keys : document -> key, where the protocol de-duplicates; None: documents are keys already.
    depth : how many distinct documents or keys.
    exclusions : what the protocol's key `exclude` speaks of; `own` needs none.

    Returns
    -------
    Topic -> documents or keys; and how many results have no key and were passed over, since they cannot be judged.
    """
    lacking = 0
    if protocol.deduplicate and keys is not None:
        known = np.array([doc.decode() in keys for doc in run.doc.tolist()], dtype=bool)
        lacking = int(known.size - np.count_nonzero(known))
        if lacking:
            run = replace(run, topic=run.topic[known], doc=run.doc[known], score=run.score[known], context=None)
    if not len(run):
        return {}, lacking
    # One judgment a topic, so that every topic of the run is one that a scorer ranks.
    every = Qrels.from_rows("", [(topic, "-", 0.0) for topic in run.topics])
    scorer = Scorer(every, protocol, keys=keys, measures=("RelRet",), exclusions=exclusions)
    found = scorer.rankings(run, depth)
    return {topic: ranking.docs for topic, ranking in found.items()}, lacking


def pool(
    runs: Mapping[str, Rankings],
    depths: Mapping[str, int],
    *,
    cap: int | None = None,
    judged: Iterable[Pair] = (),
    seed: int = 0,
) -> Pool:
    """Returns the union of the first results of all runs, topic by topic.

    Topics are sorted; the documents of one stand in the order of a hash of seed, topic and document, so that neither
    the order of the runs nor any rank has a part in it, and another pool with this seed has them in this order too.

    Parameters
    ----------
    runs : run -> its rankings.
    depths : run -> how many of a topic's results it gives.
    cap : the most documents of one topic. Those of the best rank in any run stay; of one rank, those of more runs,
        then by the same hash.
    judged : pairs that need no judgment any more.

    Raises
    ------
    HarnessError
        There are no runs, or a depth or the cap is less than 1.

    Examples
    --------
    >>> runs = {"one": {"A.1": ["d1", "d2", "d3"]}, "two": {"A.1": ["d4", "d1"]}}
    >>> found = pool(runs, {"one": 2, "two": 1})
    >>> sorted(found.topics["A.1"]), found.shares[1]
    (['d1', 'd2', 'd4'], Share(run='two', depth=1, pooled=1, alone=1))
    """
    if not runs:
        raise HarnessError("there are no runs to pool")
    if cap is not None and cap < 1:
        raise HarnessError(f"cap: {cap} is less than 1")
    for name in runs:
        if depths[name] < 1:
            raise HarnessError(f"run {name}: a pool depth of {depths[name]}, expected 1 or more")
    best: dict[str, dict[str, tuple[int, int]]] = {}  # topic -> document -> best rank, minus how many runs
    for name, rankings in runs.items():
        for topic, docs in rankings.items():
            of_topic = best.setdefault(topic, {})
            for rank, doc in enumerate(docs[: depths[name]]):
                before = of_topic.get(doc, (rank, 0))
                of_topic[doc] = (min(before[0], rank), before[1] - 1)
    known = set(judged)
    skipped, candidates, topics = 0, {}, {}
    for topic in sorted(best):
        left = {doc: place for doc, place in best[topic].items() if (topic, doc) not in known}
        skipped += len(best[topic]) - len(left)
        candidates[topic] = len(left)
        topics[topic] = _for_assessor(left, cap, f"{seed}\t{topic}")
    inside = {(topic, doc) for topic, docs in topics.items() for doc in docs}
    shares = []
    for name, rankings in runs.items():
        mine = inside & {(topic, doc) for topic, docs in rankings.items() for doc in docs[: depths[name]]}
        alone = sum(best[topic][doc][1] == -1 for topic, doc in mine)
        shares.append(Share(name, depths[name], len(mine), alone))
    return Pool(topics, tuple(shares), candidates, skipped)


def _for_assessor(places: Mapping[str, tuple[int, int]], cap: int | None, seed: str) -> tuple[str, ...]:
    """Returns the documents of one topic: those that the cap leaves, in the order of their hashes."""
    order = {doc: sha256(f"{seed}\t{doc}".encode()) for doc in places}
    kept = sorted(places, key=lambda doc: (*places[doc], order[doc]))[:cap]
    return tuple(sorted(kept, key=order.__getitem__))

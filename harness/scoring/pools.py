"""Pools: documents from submitted runs for assessment, in an order independent of the runs.

Source: depth-k pooling (Sparck Jones and van Rijsbergen, 1975; TREC), as in ARQMath: one depth for primary runs, a
smaller one for the others, counted in distinct keys if documents are de-duplicated (formulas by visual id).

Pool bias: loss of a team's runs when the judgments contributed only by this team are removed.

This is the leave-one-team-out experiment (Zobel, SIGIR 1998; by teams, Buckley, Dimmick, Soboroff and Voorhees, 2007):
it simulates how the team would have been scored if it had not contributed to the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from harness.data.columns import Bools
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.io.console import track
from harness.io.files import sha256
from harness.scoring.agreement import tau_b
from harness.scoring.measures import without_diagnostics
from harness.scoring.protocol import Exclusions, Protocol
from harness.scoring.scorer import Scorer

Rankings = Mapping[str, Sequence[str]]  # topic -> documents or keys, best first
Pair = tuple[str, str]  # topic, document or key


@dataclass(frozen=True)
class Share:
    """Contribution of one run to a pool: depth, number of documents, number of documents from no other run."""

    run: str
    depth: int
    pooled: int
    alone: int


@dataclass(frozen=True)
class Pool:
    """Pool of documents to be judged.

    Attributes
    ----------
    topics : topic -> documents or keys, in the order for the assessor.
    shares : contribution of each run.
    candidates : topic -> number of documents before the cap.
    judged : number of pairs left out because they are judged already.
    """

    topics: Mapping[str, tuple[str, ...]]
    shares: tuple[Share, ...]
    candidates: Mapping[str, int]
    judged: int = 0

    def __len__(self) -> int:
        return sum(len(docs) for docs in self.topics.values())


def first_results(
    run: Run, protocol: Protocol, keys: Mapping[str, str] | None, depth: int, exclusions: Exclusions | None = None
) -> tuple[Rankings, int]:
    """Returns the first results of each topic in the protocol's order, as used by scoring; needs no judgments.

    Parameters
    ----------
    keys : document -> key, if the protocol de-duplicates; None: documents are keys already.
    depth : number of distinct documents or keys.
    exclusions : data for the protocol's key `exclude`; not needed for `own`.

    Returns
    -------
    Topic -> documents or keys; and the number of results without a key, which are skipped as they cannot be judged.
    """
    lacking = 0
    if protocol.deduplicate and keys is not None:
        known = np.array([doc.decode() in keys for doc in run.doc.tolist()], dtype=bool)
        lacking = int(known.size - np.count_nonzero(known))
        if lacking:
            run = replace(run, topic=run.topic[known], doc=run.doc[known], score=run.score[known], context=None)
    if not len(run):
        return {}, lacking
    # One dummy judgment per topic, because a scorer ranks judged topics only.
    every = Qrels.from_rows("", [(topic, "-", 0.0) for topic in run.topics])
    scorer = Scorer(every, protocol, keys=keys, measures=("RelRet",), exclusions=exclusions)
    rankings = scorer.rankings(run, depth)
    return {topic: ranking.docs for topic, ranking in rankings.items()}, lacking


def all_first_results(
    runs: Iterable[Run],
    protocol: Protocol,
    keys: Mapping[str, str] | None,
    depths: Mapping[str, int],
    exclusions: Exclusions | None = None,
) -> tuple[dict[str, Rankings], dict[str, int]]:
    """Returns the `first_results` of some runs: run -> rankings, and run -> its results without a key, if any."""
    results = {run.name: first_results(run, protocol, keys, depths[run.name], exclusions) for run in runs}
    lacking = {name: count for name, (_, count) in results.items() if count}
    return {name: rankings for name, (rankings, _) in results.items()}, lacking


def judged_pairs(judgments: Iterable[Qrels]) -> Iterator[Pair]:
    """Yields the pairs that some judgments hold."""
    for qrels in (each.judged() for each in judgments):
        for at, doc in zip(qrels.topic.tolist(), qrels.doc.tolist(), strict=True):
            yield qrels.topics[at], doc.decode()


def pool(
    runs: Mapping[str, Rankings],
    depths: Mapping[str, int],
    *,
    cap: int | None = None,
    judged: Iterable[Pair] = (),
    seed: int = 0,
) -> Pool:
    """Returns the union of the first results of all runs, topic by topic.

    Topics are sorted. The documents of a topic are ordered by a hash of seed, topic and document, so the order does not
    depend on runs or ranks, and is the same in all pools with this seed.

    Parameters
    ----------
    runs : run -> its rankings.
    depths : run -> its pool depth.
    cap : maximum number of documents per topic. Documents are kept by their best rank in any run, then by the number of
        runs, then by the same hash.
    judged : pairs that are judged already.

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
    best: dict[str, dict[str, tuple[int, int]]] = {}  # topic -> document -> best rank, negative number of runs
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
    """Returns the documents of one topic after the cap, ordered by hash."""
    order = {doc: sha256(f"{seed}\t{doc}".encode()) for doc in places}
    kept = sorted(places, key=lambda doc: (*places[doc], order[doc]))[:cap]
    return tuple(sorted(kept, key=order.__getitem__))


DIGITS = 12  # means equal to this number of decimals are tied


@dataclass(frozen=True)
class Loss:
    """Means and ranks of one run by one measure: with all judgments, and without those contributed only by its team.

    A rank is 1 plus the number of better runs; for `after`, all runs are scored with the remaining judgments.
    """

    run: str
    measure: str
    before: float
    after: float
    rank_before: int
    rank_after: int

    @property
    def difference(self) -> float:
        """Loss of the run's mean without the team's own judgments: before - after."""
        return self.before - self.after


@dataclass(frozen=True)
class TeamBias:
    """Effect of one team's contribution to the pool.

    Attributes
    ----------
    judgments, relevant : numbers of judgments contributed only by this team, and of relevant ones by the protocol.
    losses : losses of the team's runs, measure by measure.
    tau : measure -> tau-b of the rankings of all runs before and after; NaN for fewer than two runs or if all are tied.
    """

    team: str
    judgments: int
    relevant: int
    losses: tuple[Loss, ...]
    tau: Mapping[str, float]


def only_of_team(qrels: Qrels, given: Mapping[str, Set[Pair]], teams: Mapping[str, str]) -> dict[str, Bools]:
    """Returns team -> mask of the judgments contributed only by its runs, bool, shape (judgments,).

    Judgments that no run contributed (from other sources, or from greater depths) belong to no team.

    Parameters
    ----------
    given : run -> its pairs of topic and document in the pool.
    teams : run -> its team.
    """
    owner: dict[Pair, str | None] = {}
    for name, pairs in given.items():
        for pair in pairs:
            owner[pair] = teams[name] if owner.get(pair, teams[name]) == teams[name] else None
    of = [
        owner.get((qrels.topics[topic], doc.decode()))
        for topic, doc in zip(qrels.topic.tolist(), qrels.doc.tolist(), strict=True)
    ]
    return {team: np.array([name == team for name in of], dtype=bool) for team in dict.fromkeys(teams.values())}


def leave_one_team_out(
    scorer: Scorer, runs: Sequence[Run], depths: Mapping[str, int], teams: Mapping[str, str]
) -> tuple[TeamBias, ...]:
    """Returns the bias of each team, in the order of `teams`.

    Parameters
    ----------
    scorer : scorer with all judgments.
    depths : run -> its pool depth.
    teams : run -> its team.

    Raises
    ------
    HarnessError
        A run has no depth or team, or no judgments would remain without a team.

    Examples
    --------
    >>> import harness as h
    >>> runs = [h.Run.from_dict("a", {"M.1": {"a1088": 2, "a1007": 1}}), h.Run.from_dict("b", {"M.1": {"a1007": 1}})]
    >>> scorer = h.task("mini-task1", measures=["P@1"]).scorer
    >>> found = leave_one_team_out(scorer, runs, {"a": 2, "b": 2}, {"a": "one", "b": "two"})
    >>> [(bias.team, bias.judgments) for bias in found]
    [('one', 1), ('two', 0)]
    """
    if lacking := [run.name for run in runs if run.name not in depths or run.name not in teams]:
        raise HarnessError(f"run {lacking[0]}: its team and the depth of the pool must be given")
    given = {run.name: _judged_pairs(scorer, run, depths[run.name]) for run in runs}
    before = [scorer(run) for run in runs]
    relevant = scorer.qrels.grade >= scorer.protocol.relevant_from
    out = []
    masks = only_of_team(scorer.qrels, given, teams)
    for team, mine in track(masks.items(), "leaving out teams", len(masks)):
        if mine.all():
            raise HarnessError(f"team {team}: only its runs brought judgments into the pool; without it none is left")
        reduced = scorer.on(without(scorer.qrels, mine)) if mine.any() else scorer
        after = [reduced(run) for run in runs] if mine.any() else before
        losses, taus = [], {}
        for measure in without_diagnostics(scorer.measures):
            old, new = (
                np.array([each.aggregate(measure) for each in scores]).round(DIGITS) for scores in (before, after)
            )
            known = ~(np.isnan(old) | np.isnan(new))
            taus[measure] = tau_b(old[known], new[known]) if np.count_nonzero(known) > 1 else float("nan")
            for at, run in enumerate(runs):
                if teams[run.name] == team:
                    ranks = (int(np.count_nonzero(values > values[at])) + 1 for values in (old, new))
                    losses.append(
                        Loss(run.name, measure, before[at].aggregate(measure), after[at].aggregate(measure), *ranks)
                    )
        counted = int(np.count_nonzero(mine)), int(np.count_nonzero(mine & relevant))
        out.append(TeamBias(team, *counted, tuple(losses), taus))
    return tuple(out)


def _judged_pairs(scorer: Scorer, run: Run, depth: int) -> set[Pair]:
    """Returns the judged pairs among the first `depth` results of each topic."""
    if depth < 1:
        raise HarnessError(f"run {run.name}: a pool depth of {depth}, expected 1 or more")
    rankings = scorer.rankings(run, depth)
    return {(topic, doc) for topic, each in rankings.items() for doc, rank in each.judged.items() if rank <= depth}


def without(qrels: Qrels, rows: Bools) -> Qrels:
    """Returns the judgments without some rows (a mask of shape (judgments,)), with a new checksum.

    All topics are kept, even without judgments: the protocol decides how such a topic counts.
    """
    checksum = sha256(f"{qrels.sha256} without\n".encode() + np.packbits(rows).tobytes())
    kept = ~rows
    return Qrels(qrels.edition, qrels.topics, qrels.topic[kept], qrels.doc[kept], qrels.grade[kept], checksum)

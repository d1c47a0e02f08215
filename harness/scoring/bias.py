"""Pool bias: loss of a team's runs when the judgments contributed only by this team are removed.

This is the leave-one-team-out experiment (Zobel, SIGIR 1998; by teams, Buckley, Dimmick, Soboroff and Voorhees, 2007):
it simulates how the team would have been scored if it had not contributed to the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from harness.data.columns import Bools
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.io.console import track
from harness.io.files import sha256
from harness.scoring.agreement import tau_b
from harness.scoring.measures import without_diagnostics
from harness.scoring.pools import Pair
from harness.scoring.scorer import Scorer

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

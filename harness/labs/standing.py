"""Comparison of a submission with the baseline, the best run so far and its team's earlier runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.errors import HarnessError, counted
from harness.experiments.task import Task
from harness.labs.journal import FILE as JOURNAL
from harness.labs.lab import Lab
from harness.labs.submissions import Submission, baseline_of, scores_of
from harness.scoring import compare as stats
from harness.scoring.bootstrap import places
from harness.scoring.scores import Scores

MOST_EARLIER = 10  # latest earlier runs of its team that a submission is compared with


@dataclass(frozen=True)
class Against:
    """Comparison of a submission with another one by the first measure.

    Attributes
    ----------
    name : of the other submission.
    roles : roles of the other submission: `baseline`, `best so far`, `earlier run`, or several of them.
    mean, difference : mean of the other one, and this submission's mean minus it; of the shown means if the judgments
        are private.
    p : corrected p; None if undefined, or if the judgments are private and nothing is tested before the end.
    significant : whether the corrected p is below the lab's alpha; None where `p` is.
    """

    name: str
    roles: tuple[str, ...]
    mean: float
    difference: float
    p: float | None
    significant: bool | None


@dataclass(frozen=True)
class Standing:
    """Rank and comparisons of a submission.

    Attributes
    ----------
    measure : the first measure, which ranks.
    rank, runs : rank among the primary runs of the other teams, the baseline and this run, and their number: the rank
        on the leaderboard if the leaderboard ranks the run, otherwise the one that it would have as its team's primary
        run. Equal means share a rank, runs without a mean are last, as on leaderboards.
    ranked : whether the leaderboard ranks the run: it is its team's primary run, or the baseline.
    rows : comparisons with other submissions.
    tests : description of test and correction; empty without comparisons.
    omitted : number of earlier runs without a comparison.
    """

    measure: str
    rank: int
    runs: int
    ranked: bool
    rows: tuple[Against, ...]
    tests: str
    omitted: int


def standing(
    lab: Lab,
    submission: Submission,
    scores: Scores,
    bench: Task,
    found: Sequence[Submission],
) -> Standing:
    """Ranks a submission and compares it with the baseline, the best run so far and its team's earlier runs.

    Parameters
    ----------
    scores : of this submission; those of others are read from the lab.
    bench : the lab's task.
    found : all submissions up to this one.

    Raises
    ------
    HarnessError
        Stored scores are damaged, or runs cannot be compared.
    """
    measure = scores.measures[0]
    beside = _ranked_beside(lab, submission, found)
    rank = int(places(np.array([each.means[measure] for each in (submission, *beside)]))[0])
    roles, omitted = _others(lab, submission, measure, found)
    rows: tuple[Against, ...] = ()
    tests = ""
    others = [found[place] for place in roles]
    if lab.private:  # one judgment may decide whether a test is significant
        rows = tuple(_against(lab, submission, other, roles[other.place], None, measure) for other in others)
    elif others:
        named = [replace(scores_of(lab, each), run=each.title) for each in others]
        with lab.guarded():
            clusters = bench.collection.clusters()
            all_scores = [replace(scores, run=submission.title), *named]
            if clusters is not None:
                all_scores = [each.by_cluster(clusters) for each in all_scores]
            compared = stats.compare(
                all_scores,
                pairs=[(submission.title, each.title) for each in others],
                measures=[measure],
                alpha=lab.alpha,
                family=max(lab.family or 0, len(others)),
                permutations=1,  # the randomization test is not shown
            )
        rows = tuple(
            _against(lab, submission, other, roles[other.place], row, measure)
            for other, row in zip(others, compared.rows, strict=True)
        )
        family = counted(compared.family, "test")
        tests = f"paired t-test, {_CORRECTIONS[lab.correction]} over {family}, alpha {lab.alpha:g}"
    ranked = submission.primary or submission.name == lab.baseline
    return Standing(measure, rank, 1 + len(beside), ranked, rows, tests, omitted)


_CORRECTIONS = {"holm": "Holm's correction", "bonferroni": "Bonferroni's correction", "none": "not corrected"}


def _ranked_beside(lab: Lab, submission: Submission, found: Sequence[Submission]) -> list[Submission]:
    """Returns the other runs that the leaderboard ranks, without a primary run that the submission would replace."""
    is_baseline = submission.name == lab.baseline
    return [
        each
        for each in found
        if each.current and each.place != submission.place
        if each.name == lab.baseline or (each.primary and (is_baseline or each.team != submission.team))
    ]


def _others(
    lab: Lab, submission: Submission, measure: str, found: Sequence[Submission]
) -> tuple[dict[int, tuple[str, ...]], int]:
    """Selects submissions to compare with; returns place in the journal -> roles, and the number of omitted runs."""
    roles: dict[int, tuple[str, ...]] = {}
    known = [each for each in found if each.place != submission.place and not (each.withdrawn or each.disqualified)]
    baseline = baseline_of(lab, known)
    ranked = [each for each in known if each.current and not math.isnan(each.means[measure])]
    best = max(ranked, key=lambda each: (each.means[measure], -each.place), default=None)
    earlier = [each for each in reversed(known) if each.team == submission.team]
    for role, others in (
        ("baseline", [baseline]),
        ("best so far", [best]),
        ("earlier run", earlier[:MOST_EARLIER]),
    ):
        for other in others:
            if other is not None:
                roles[other.place] = (*roles.get(other.place, ()), role)
    return roles, max(0, len(earlier) - MOST_EARLIER)


def _against(
    lab: Lab,
    submission: Submission,
    other: Submission,
    roles: tuple[str, ...],
    row: stats.Row | None,
    measure: str,
) -> Against:
    """Returns the comparison with another submission; `row` is their test, None if it is not shown."""
    mine, theirs = submission.means[measure], other.means[measure]
    if row is None:
        return Against(other.title, roles, theirs, round(mine - theirs, 9), None, None)
    p, significant = {
        "none": (row.p, row.significant),
        "bonferroni": (row.p_bonferroni, row.significant_bonferroni),
        "holm": (row.p_holm, row.significant_holm),
    }[lab.correction]
    return Against(other.title, roles, theirs, row.difference, p, significant)


def refuse_if_changed(lab: Lab, scores: Scores, found: Sequence[Submission]) -> None:
    """Raises HarnessError if judgments, protocol or measures changed since the first submission, or a mean is lost."""
    if not found:
        return
    first = scores_of(lab, found[0])
    keys = {
        "collection": "collection",
        "edition": "edition",
        "judgments": "qrels_sha256",
        "protocol": "protocol",
        "measures": "measures",
    }
    changed = [name for name, key in keys.items() if getattr(first, key) != getattr(scores, key)]
    if changed:
        reason = f"{' and '.join(changed)} changed since the first submission; scores would not be comparable"
        raise HarnessError(f"{lab.folder}: {reason}; undo the change, or create another lab")
    for each in found:
        if lacking := [measure for measure in lab.measures if measure not in each.means]:
            reason = f"damaged: {each.title} has no mean of {lacking[0]}; restore the journal from a copy"
            raise HarnessError(f"{lab.folder / JOURNAL}: {reason}")

"""How a submission stands: against the baseline, the best run, its team's earlier runs, and on categories of topics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.data.topics import Topic
from harness.errors import HarnessError
from harness.experiments.task import Task
from harness.io.names import in_natural_order
from harness.labs.board import TestVerdict, corrected_for, family_of, ranked_tests, shown_tests, verdicts
from harness.labs.journal import FILE as JOURNAL
from harness.labs.lab import Lab
from harness.labs.submissions import Submission, baseline_of, scores_of
from harness.scoring.comparison import PairDifference
from harness.scoring.resampling import ranks_of_means
from harness.scoring.scores import Scores

MOST_EARLIER = 10  # latest earlier runs of its team that a submission is compared with


@dataclass(frozen=True)
class SubmissionComparison:
    """Comparison of a submission with another one by the first measure.

    Attributes
    ----------
    name : of the other submission.
    roles : roles of the other submission: `baseline`, `best ranked run`, `earlier run`, or several of them.
    mean, difference : mean of the other one, and this submission's mean minus it; of the shown means if the judgments
        are private.
    p : p of the paired t-test, by the leaderboard's correction if `corrected`; None if undefined, or if the judgments
        are private and nothing is tested before the end.
    significant : whether the corrected p is below the lab's alpha; None if undefined, not corrected, or not tested.
    corrected : whether the pair is in the leaderboard's family: both runs are ranked. Else nothing is claimed.
    """

    name: str
    roles: tuple[str, ...]
    mean: float
    difference: float
    p: float | None
    significant: bool | None
    corrected: bool = False


@dataclass(frozen=True)
class SubmissionStanding:
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
    rows: tuple[SubmissionComparison, ...]
    tests: str
    omitted: int


def standing(
    lab: Lab, submission: Submission, scores: Scores, bench: Task, submissions: Sequence[Submission]
) -> SubmissionStanding:
    """Ranks a submission and compares it with the baseline, the best ranked run and its team's earlier runs.

    Parameters
    ----------
    scores : of this submission; those of others are read from the lab.
    bench : the lab's task.
    submissions : all submissions up to this one.

    Raises
    ------
    HarnessError
        Stored scores are damaged, or runs cannot be compared.
    """
    measure = scores.measures[0]
    beside = ranked_beside(lab, submission, submissions)
    rank = int(ranks_of_means(np.array([each.means[measure] for each in (submission, *beside)]))[0])
    roles, omitted = _others(lab, submission, measure, submissions)
    ranked = submission.primary or submission.name == lab.baseline
    rows: tuple[SubmissionComparison, ...] = ()
    tests = ""
    others = [submissions[place] for place in roles]
    if lab.private:  # one judgment may decide whether a test is significant
        rows = tuple(_against(submission, other, roles[other.place], None, None, measure) for other in others)
    elif others:
        clusters, unread = bench.collection.clusters(), False
        in_order = sorted((submission, *beside), key=lambda each: (-_mean_or_least(each.means[measure]), each.title))
        family = in_order if ranked and {each.place for each in others} & {each.place for each in beside} else []
        known = {each.place: scores_of(lab, each) for each in others}
        known[submission.place] = scores
        try:
            known |= {each.place: scores_of(lab, each) for each in family if each.place not in known}
        except HarnessError:  # the comparisons of this submission do not depend on the files of all other teams
            family, unread = [], True
        titles = {each.place: each.title for each in (submission, *others, *family)}
        known = {place: replace(each, run=titles[place]) for place, each in known.items() if place in titles}
        with lab.guarded():
            alone = [
                shown_tests(
                    [known[submission.place], known[each.place]], measures=[measure], alpha=lab.alpha, clusters=clusters
                ).rows[0]
                for each in others
            ]
            of_family = [known[each.place] for each in family]
            made, _ = ranked_tests(of_family, measure, alpha=lab.alpha, declared=lab.family, clusters=clusters)
        found_of = verdicts(made, lab.correction)
        results = [found_of.get(frozenset((submission.title, each.title))) for each in others]
        found = zip(others, alone, results, strict=True)
        rows = tuple(_against(submission, each, roles[each.place], row, result, measure) for each, row, result in found)
        tests = _tests(lab, rows, family_of(len(family), lab.family), unread=unread)
    return SubmissionStanding(measure, rank, 1 + len(beside), ranked, rows, tests, omitted)


def _mean_or_least(mean: float) -> float:
    return -math.inf if math.isnan(mean) else mean


def _tests(lab: Lab, rows: Sequence[SubmissionComparison], family: int, *, unread: bool) -> str:
    """Returns tests and correction in words, and against which runs no p is corrected."""
    if unread:
        return "paired t-test, not corrected: scores of other ranked runs cannot be read"
    alone = [row.name for row in rows if not row.corrected]
    if len(alone) == len(rows):
        return "paired t-test, not corrected: no two of these runs are ranked"
    said = f"paired t-test, {corrected_for(lab.correction, family)}, alpha {lab.alpha:g}"
    return f"{said}; not corrected, since not ranked: {', '.join(alone)}" if alone else said


def ranked_beside(lab: Lab, submission: Submission, submissions: Sequence[Submission]) -> list[Submission]:
    """Returns the other runs that the leaderboard ranks, without a primary run that the submission would replace."""
    others = (each for each in submissions if each.current and each.place != submission.place)
    mine = submission.team if submission.name != lab.baseline else None  # whose primary run it would replace
    return [each for each in others if each.name == lab.baseline or (each.primary and each.team != mine)]


def _others(
    lab: Lab, submission: Submission, measure: str, submissions: Sequence[Submission]
) -> tuple[dict[int, tuple[str, ...]], int]:
    """Selects submissions to compare with; returns place in the journal -> roles, and the number of omitted runs."""
    roles: dict[int, tuple[str, ...]] = {}
    counted = (each for each in submissions if not (each.withdrawn or each.disqualified))
    known = [each for each in counted if each.place != submission.place]
    baseline = baseline_of(lab, known)
    ranked = [each for each in known if each.current and (each.primary or each.name == lab.baseline)]
    ranked = [each for each in ranked if not math.isnan(each.means[measure])]
    best = max(ranked, key=lambda each: (each.means[measure], -each.place), default=None)
    earlier = [each for each in reversed(known) if each.team == submission.team]
    for role, others in (
        ("baseline", [baseline]),
        ("best ranked run", [best]),
        ("earlier run", earlier[:MOST_EARLIER]),
    ):
        for other in others:
            if other is not None:
                roles[other.place] = (*roles.get(other.place, ()), role)
    return roles, max(0, len(earlier) - MOST_EARLIER)


def _against(
    submission: Submission,
    other: Submission,
    roles: tuple[str, ...],
    row: PairDifference | None,
    result: TestVerdict | None,
    measure: str,
) -> SubmissionComparison:
    """Returns the comparison with another submission.

    Parameters
    ----------
    row : their test; None if it is not shown.
    result : the corrected test; None if it is outside the leaderboard's family.
    """
    mine, theirs = submission.means[measure], other.means[measure]
    if row is None:
        return SubmissionComparison(other.title, roles, theirs, round(mine - theirs, 9), None, None)
    p, significant = (row.p, None) if result is None else (result.p, result.significant)
    corrected = result is not None
    return SubmissionComparison(other.title, roles, theirs, row.difference, p, significant, corrected)


def refuse_if_changed(lab: Lab, scores: Scores, submissions: Sequence[Submission]) -> None:
    """Raises HarnessError if judgments, protocol or measures changed since the first submission, or a mean is lost."""
    if not submissions:
        return
    first = scores_of(lab, submissions[0])
    keys = ("collection", "edition", "qrels_sha256", "protocol", "measures")
    changed = [key for key in keys if getattr(first, key) != getattr(scores, key)]
    changed = ["judgments" if key == "qrels_sha256" else key for key in changed]
    if changed:
        reason = f"{' and '.join(changed)} changed since the first submission; scores would not be comparable"
        raise HarnessError(f"{lab.folder}: {reason}; undo the change, or create another lab")
    for each in submissions:
        if lacking := [measure for measure in lab.measures if measure not in each.means]:
            reason = f"damaged: {each.title} has no mean of {lacking[0]}; restore the journal from a copy"
            raise HarnessError(f"{lab.folder / JOURNAL}: {reason}")


_MOST_VALUES = 60  # values of an attribute that make slices; more are no slices but names
SMALL = 10  # topics below which a mean says little
_MOST_SHOWN = 12  # values of an attribute that a receipt shows


@dataclass(frozen=True)
class CategoryScore:
    """Score of a run on the topics with one value of an attribute, beside the other ranked runs.

    Attributes
    ----------
    topics : number of topics that count for the run.
    mean : of the run; NaN if no topic counts.
    median : median of the other runs' means; None without other runs.
    """

    attribute: str
    value: str
    topics: int
    mean: float
    median: float | None

    @property
    def difference(self) -> float:
        """Mean minus median; NaN without either."""
        return math.nan if self.median is None else self.mean - self.median


def topic_slices(topics: Iterable[str], known: Mapping[str, Topic]) -> dict[str, dict[str, list[str]]]:
    """Returns attribute -> value -> topics, for attributes with at least two values; the language is one of them.

    Examples
    --------
    >>> known = {n: Topic(n, "", attributes={"level": level}) for n, level in (("1", "high"), ("2", "low"))}
    >>> topic_slices(known, known)
    {'level': {'low': ['2'], 'high': ['1']}}
    """
    out: dict[str, dict[str, list[str]]] = {}
    for name in topics:
        topic = known.get(name, Topic(name, ""))
        for attribute in topic.attributes:
            for value in topic.values(attribute):
                out.setdefault(attribute, {}).setdefault(value, []).append(name)
        out.setdefault("language", {}).setdefault(topic.language, []).append(name)
    kept = {name: values for name, values in out.items() if 2 <= len(values) <= _MOST_VALUES}
    return {name: {value: values[value] for value in in_natural_order(values)} for name, values in kept.items()}


def scores_by_category(
    scores: Scores, measure: str, others: Sequence[Scores], known: Mapping[str, Topic]
) -> tuple[CategoryScore, ...]:
    """Returns a run's score on each category of topics, for attributes with 2 to 12 values.

    Parameters
    ----------
    others : of the runs that it is compared with.
    known : topic id -> topic.
    """
    rows = []
    for attribute, values in topic_slices(scores.topics, known).items():
        for value, topics in values.items() if len(values) <= _MOST_SHOWN else ():
            mine = scores.select(topics)
            means = [mean for each in others if not math.isnan(mean := each.select(topics).aggregate(measure))]
            median = statistics.median(means) if means else None
            rows.append(CategoryScore(attribute, value, mine.n(measure), mine.aggregate(measure), median))
    return tuple(rows)

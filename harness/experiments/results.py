"""Results of an experiment: scores by row and set of topics, means over seeds, and the tests of its family."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.collections.same_topics import topic_groups, topic_marks
from harness.errors import HarnessError
from harness.experiments.experiment import FULL, Experiment, ExperimentCell, Labels, labels_text
from harness.experiments.task import Task
from harness.scoring.compare import compare, join_comparisons, over_seeds
from harness.scoring.comparison import Comparison, PairDifference, with_cluster_note
from harness.scoring.measures import parse_measure
from harness.scoring.scores import Scores, pooled

POOLED = "all topics"


@dataclass(frozen=True)
class Outcome:
    """Outcome of one cell.

    Attributes
    ----------
    system : configuration that made the run.
    name : of the run, which it would have if it is missing; empty if its system names it.
    reason : why the run is missing, in one line; empty if it exists. lacking : whether a resource is missing, rather
        than an error occurred.
    run, sha256 : file of the run, and its checksum; task : the task that scored it.
    notes : remarks on its numbers, one sentence each; cautions : warnings.
    costs : costs from its metadata file; see `harness.experiments.costs`.
    log : what the process of a launcher printed, if there is no run.
    """

    cell: ExperimentCell
    system: Mapping[str, Any]
    name: str = ""
    reason: str = ""
    lacking: bool = False
    run: Path | None = None
    sha256: str = ""
    task: Task | None = None
    scores: Scores | None = None
    notes: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    costs: Mapping[str, Any] = field(default_factory=dict)
    log: Path | None = None


@dataclass(frozen=True)
class BestSetting:
    """The best of several seeds or tuned settings.

    Attributes
    ----------
    name : the seed, or the settings in words.
    scores : on the reported set of topics.
    value : mean of the first measure over the topics of `on`, by which it was chosen.
    tried : number of seeds or settings tried.
    on : other sets of topics by which it was chosen; empty if it was chosen on the reported topics.
    """

    name: str
    scores: Scores
    value: float
    tried: int
    on: Labels


@dataclass(frozen=True)
class Tested:
    """A test of the family: the two rows, the set of topics, and the result."""

    row: Labels
    against: Labels
    part: str
    result: PairDifference


@dataclass(frozen=True)
class ExperimentResults:
    """Results of an experiment, the input of its report.

    A row is a condition with a label of each axis except the pooled one; a part is a label of the pooled axis, or
    `POOLED`.

    Attributes
    ----------
    outcomes : outcomes of the requested cells, in the order of the file.
    only, extra : labels and overrides that restrict or change the experiment.
    scale : name of the scale; the experiment defines its changes.
    """

    name: str
    experiment: Experiment
    outcomes: tuple[Outcome, ...]
    only: Mapping[str, Labels] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    alpha: float = 0.05
    seed: int = 0
    scale: str = FULL

    @cached_property
    def rows(self) -> tuple[Labels, ...]:
        """Rows in the order of the file."""
        return tuple(dict.fromkeys(self.experiment.row(outcome.cell.labels) for outcome in self.outcomes))

    @cached_property
    def sets(self) -> Labels:
        """Sets of topics in the order of the file; one empty label without a pooled axis."""
        parts = {self.experiment.part(outcome.cell.labels) for outcome in self.outcomes}
        pool = self.experiment.pool
        return ("",) if pool is None else tuple(label for label in self.experiment.labels(pool) if label in parts)

    @property
    def parts(self) -> Labels:
        """Sets of topics, and all topics together if several sets can be pooled."""
        return (*self.sets, POOLED) if len(self.sets) > 1 and not self.unpooled else self.sets

    @cached_property
    def unpooled(self) -> str:
        """Reason why the sets of topics cannot be pooled; empty if they can."""
        for row in self.rows if len(self.sets) > 1 else ():
            firsts = [next((o.scores for o in self.of(row, name) if o.scores is not None), None) for name in self.sets]
            there = [replace(scores, run=labels_text(row)) for scores in firsts if scores is not None]
            try:
                _ = there and pooled(there)
            except HarnessError as error:
                return error.lines[0]
        return ""

    @cached_property
    def _outcomes(self) -> dict[tuple[Labels, str], tuple[Outcome, ...]]:
        outcomes: dict[tuple[Labels, str], tuple[Outcome, ...]] = {}
        for outcome in self.outcomes:
            at = (self.experiment.row(outcome.cell.labels), self.experiment.part(outcome.cell.labels))
            outcomes[at] = (*outcomes.get(at, ()), outcome)
        return outcomes

    def of(self, row: Labels, part: str) -> tuple[Outcome, ...]:
        """Returns the outcomes of a row on a set of topics (`POOLED`: all sets), one per seed."""
        parts = self.sets if part == POOLED else (part,)
        return tuple(outcome for name in parts for outcome in self._outcomes.get((row, name), ()))

    def is_tuned(self, row: Labels) -> bool:
        """Returns whether a row's settings are chosen among several."""
        return any(outcome.cell.point for outcome in self.of(row, POOLED))

    def setting(self, row: Labels, part: str) -> BestSetting | None:
        """Returns the settings of a tuned row, chosen on other topics, and its scores; None if a run is missing."""
        if self.experiment.tune_on == "halves":
            return self._of_halves(row, part)
        return self._best(row, part, [name for name in self._all_sets(row) if name != part])

    def best_seed(self, row: Labels, part: str) -> BestSetting | None:
        """Returns the best of several seeds, by the topics that the experiment specifies; None for a single seed."""
        plan = self.experiment.seeds
        if plan is None or len(self.seeds(row, part)) < 2 or self.is_tuned(row):
            return None
        if plan.best == "evaluation":
            return self._best(row, part, [])
        return None if part == POOLED else self._best(row, part, [name for name in self._all_sets(row) if name != part])

    def _of_halves(self, row: Labels, part: str) -> BestSetting | None:
        """Combines the halves of a set of topics, each with the settings that are best on the other half."""
        measure = self.experiment.measures[0]
        outcomes = self.of(row, part)
        runs = {_name(outcome): outcome.scores for outcome in outcomes}
        first, scored = next(iter(runs.values()), None), outcomes[0].task if outcomes else None
        if first is None or None in runs.values() or scored is None:
            return None
        (group,) = topic_groups(topic_marks(scored.collection, scored.scorer.qrels.edition))
        odd = odd_topics(first.topics, group)
        values, names = np.array(first.values), []
        for half, other in ((odd, ~odd), (~odd, odd)):
            means = {name: _mean(scores.column(measure)[other]) for name, scores in runs.items() if scores is not None}
            best = max(means, key=lambda name: means[name])
            chosen = runs[best]
            if chosen is None or math.isnan(means[best]):
                return None
            values[half] = chosen.values[half]
            names.append(best)
        of = "groups" if len(set(group.values())) < len(group) else "topics"
        name = names[0] if names[0] == names[1] else f"{names[0]} (odd {of}); {names[1]} (even)"
        made = replace(first, run=labels_text(row), values=values, run_sha256="", counts={})
        return BestSetting(name, made, math.nan, len(runs), ("the other half of the topics",))

    def _all_sets(self, row: Labels) -> Labels:
        """Returns the sets of topics of a row in the whole experiment."""
        return tuple(self._whole.get(row, {}))

    @cached_property
    def _whole(self) -> dict[Labels, dict[str, None]]:
        parts: dict[Labels, dict[str, None]] = {}
        for cell in self.experiment.cells():
            parts.setdefault(self.experiment.row(cell.labels), {})[self.experiment.part(cell.labels)] = None
        return parts

    def _best(self, row: Labels, part: str, on: Sequence[str]) -> BestSetting | None:
        """Returns the seed or settings with the best mean on some sets of topics (`on`), or on the reported ones.

        Among equals it is the first. None if a run needed for the choice, or the chosen run, is missing.
        """
        measure = self.experiment.measures[0]
        names = list(dict.fromkeys(_name(outcome) for outcome in self.of(row, POOLED)))
        values = {}
        for name in names:
            scores = self._of_name(row, on or [part], name)
            if scores is None or math.isnan(scores.aggregate(measure)):
                return None
            values[name] = scores.aggregate(measure)
        best = max(values, key=lambda name: values[name], default="")
        scores = self._of_name(row, [part], best) if values else None
        return None if scores is None else BestSetting(best, scores, values[best], len(names), tuple(on))

    def _of_name(self, row: Labels, parts: Sequence[str], name: str) -> Scores | None:
        """Returns the scores of one seed or setting, pooled over sets of topics; None if a run is missing."""
        scores = []
        for part in self.sets if POOLED in parts else parts:
            at = [outcome for outcome in self.of(row, part) if _name(outcome) == name]
            if len(at) != 1 or at[0].scores is None:
                return None
            scores.append(replace(at[0].scores, run=labels_text(row)))
        if len(scores) > 1 and self.unpooled:
            return None
        return pooled(scores) if len(scores) > 1 else scores[0] if scores else None

    def seeds(self, row: Labels, part: str, *, partial: bool = False) -> tuple[Scores, ...]:
        """Returns the scores of each seed under the row's name; empty unless all seeds have runs on all sets.

        Parameters
        ----------
        partial : exclude seeds with a missing run, if at least one seed has all its runs.
        """
        sets = [self._by_seed(row, name) for name in (self.sets if part == POOLED else (part,))]
        names = list(dict.fromkeys(name for seeds in sets for name in seeds))
        by_name = {name: [seeds.get(name) for seeds in sets] for name in names}
        whole = [[scores for scores in of if scores is not None] for of in by_name.values()]
        whole = [of for of in whole if len(of) == len(sets)]
        if not partial and len(whole) < len(names):
            return ()
        return tuple(pooled(of) if part == POOLED else of[0] for of in whole)

    def lost_seeds(self, row: Labels, part: str) -> Labels:
        """Returns the seeds with a missing run if the row has a mean over the other seeds; else empty."""
        if not self.seeds(row, part, partial=True):
            return ()
        of = self.of(row, part)
        return tuple(dict.fromkeys(o.cell.seed for o in of if o.cell.seed and o.scores is None and not o.cell.point))

    def clusters(self, row: Labels, part: str) -> dict[str, str] | None:
        """Returns topic -> its cluster of dependent topics; None if the topics of a row are independent.

        Where only some of the pooled collections have clusters, a topic of the others is a cluster of its own.
        """
        by_topic: dict[str, str] = {}
        clustered = False
        for name in self.sets if part == POOLED else (part,):
            task = next((outcome.task for outcome in self.of(row, name) if outcome.task is not None), None)
            if task is not None:
                known = task.collection.clusters()
                clustered = clustered or known is not None
                by_topic |= {topic: topic for topic in task.scorer.qrels.topics} | (known or {})
        return by_topic if clustered else None

    def _by_seed(self, row: Labels, part: str) -> dict[str, Scores | None]:
        """Returns seed -> its scores on one set of topics, or None without a run; a tuned row has one entry."""
        outcomes = self.of(row, part)
        if self.is_tuned(row):
            chosen = self.setting(row, part)
            outcomes = () if chosen is None else (replace(outcomes[0], scores=chosen.scores),)
        by_seed: dict[str, Scores | None] = {}
        for outcome in outcomes:
            scores = outcome.scores
            seed = "" if self.is_tuned(row) else outcome.cell.seed or ""
            by_seed[seed] = None if scores is None else replace(scores, run=labels_text(row))
        return by_seed

    def scores(self, row: Labels, part: str, *, partial: bool = False) -> Scores | None:
        """Returns the scores of a row, the mean over seeds for each topic; None if a run is missing.

        A topic counts only if it counts in every seed, since a protocol may exclude topics that a run does not answer.

        Parameters
        ----------
        partial : see `seeds`.
        """
        seeds = self.seeds(row, part, partial=partial)
        if not seeds:
            return None
        return replace(seeds[0], values=np.mean([scores.values for scores in seeds], axis=0))

    def deviation(self, row: Labels, part: str, measure: str) -> float | None:
        """Returns the standard deviation (ddof 1) of the seeds' means, or other aggregates; None for a single seed.

        Means are over the topics that count in every seed, as in `scores`.
        """
        seeds = np.array([scores.column(measure) for scores in self.seeds(row, part, partial=True)])
        if len(seeds) < 2 or not (counted := ~np.isnan(seeds).any(axis=0)).any():
            return None
        whole, n = parse_measure(measure), int(counted.sum())
        return float(np.std([whole.of_mean(mean, n) for mean in seeds[:, counted].mean(axis=1)], ddof=1))

    @cached_property
    def _tested(self) -> tuple[tuple[Tested, ...], Comparison | None, tuple[str, ...]]:
        made: list[tuple[Labels, Labels, str, Comparison]] = []
        refused = []
        for row in self.rows if self.experiment.baseline else ():
            at = next(o.cell.labels for o in self.outcomes if self.experiment.row(o.cell.labels) == row)
            against = self.experiment.row(self.experiment.baseline_of(at))
            for part in self._tested_parts(row) if against != row else ():
                try:
                    sides = [self.scores(side, part) for side in (row, against)]
                    if None in sides:
                        continue
                    # Rows may use several collections (topics in several languages) with the same judgments; this is
                    # checked.
                    pair = [replace(side, collection=part) for side in sides if side is not None]
                    seeds = [self.seeds(side, part) for side in (row, against)]
                    made.append((row, against, part, self._compared(pair, seeds, self.clusters(row, part))))
                except HarnessError as error:
                    refused.append(f"{part}{': ' if part else ''}{error.lines[0]}")
        if not made:
            return (), None, tuple(dict.fromkeys(refused))
        whole = join_comparisons([comparison for *_, comparison in made])
        tasks = [o.task for row, _, part, _ in made for o in self.of(row, part) if o.task is not None]
        if clusters := sorted({task.collection.cluster for task in tasks} - {""}):
            whole = with_cluster_note(whole, " or ".join(clusters))
        at_rows = [(row, against, part) for row, against, part, comparison in made for _ in comparison.rows]
        tests = tuple(Tested(*at, result) for at, result in zip(at_rows, whole.rows, strict=True))
        return tests, whole, tuple(dict.fromkeys(refused))

    def _tested_parts(self, row: Labels) -> Sequence[str]:
        """Returns a row's sets, and all topics if the row has every set, as the family counts them."""
        pool = self.experiment.pool
        sets = [part for part in self.sets if self._outcomes.get((row, part))]
        whole = pool is not None and 1 < len(self.experiment.axes[pool]) == len(sets) and not self.unpooled
        return [*sets, POOLED] if whole else sets

    def _compared(
        self, pair: Sequence[Scores], seeds: Sequence[Sequence[Scores]], clusters: Mapping[str, str] | None
    ) -> Comparison:
        comparison = compare(
            pair,
            pairs=[(pair[0].run, pair[1].run)],
            measures=self.experiment.of_tests,
            alpha=self.alpha,
            family=self.experiment.tests,
            seed=self.seed,
            clusters=clusters,
        )
        # Clustered topics keep the test of the means over seeds, which has no form for both.
        return comparison if max(map(len, seeds)) < 2 or clusters is not None else over_seeds(comparison, *seeds)

    @property
    def tests(self) -> tuple[Tested, ...]:
        """Tests of rows against their baselines, corrected over the family of the whole experiment."""
        return self._tested[0]

    @property
    def comparison(self) -> Comparison | None:
        """The tests as one comparison, which describes their correction; None without tests."""
        return self._tested[1]

    @property
    def refused(self) -> tuple[str, ...]:
        """Reasons why topics were not pooled, or tests not made although both runs exist; one line each."""
        return (*((self.unpooled,) if self.unpooled else ()), *self._tested[2])


def odd_topics(topics: Sequence[str], group: Mapping[str, int]) -> npt.NDArray[np.bool_]:
    """Returns which topics have odd numbers at the end of their ids; every other topic if some have no number.

    If topics ask the same, every other group of such topics, in the order of the topics.

    Parameters
    ----------
    group : topic -> number of its group of topics that ask the same, see `harness.collections.same_topics`.

    Examples
    --------
    >>> odd_topics(["B.1", "B.4", "B.5"], {"B.1": 0, "B.4": 1, "B.5": 2}).tolist()
    [True, False, True]
    >>> odd_topics(["B.1", "B.2", "B.3"], {"B.1": 0, "B.2": 0, "B.3": 1}).tolist()
    [True, True, False]
    """
    of = [group.get(topic, topic) for topic in topics]
    place = {number: at for at, number in enumerate(dict.fromkeys(of))}
    if len(place) < len(topics):
        return np.array([place[number] % 2 == 0 for number in of], dtype=bool)
    matches = [re.search(r"\d+$", topic) for topic in topics]
    numbers = [int(match[0]) for match in matches if match is not None]
    if len(numbers) < len(topics):
        numbers = list(range(len(topics)))
    return np.array([number % 2 == 1 for number in numbers], dtype=bool)


def _mean(values: npt.NDArray[np.float64]) -> float:
    """Returns the mean of the values that are not NaN; NaN without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _name(outcome: Outcome) -> str:
    """Returns the setting or seed that distinguishes a run within its row and set of topics."""
    return outcome.cell.point or outcome.cell.seed or ""

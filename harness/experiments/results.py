"""What came of an experiment: scores by row and set of topics, means over seeds, and the tests of its family."""

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

from harness.errors import HarnessError
from harness.experiments.experiment import FULL, Cell, Experiment, Labels, said_of
from harness.experiments.task import Task
from harness.scoring.compare import Comparison, Row, compare, joined
from harness.scoring.scores import Scores, pooled

POOLED = "all topics"


@dataclass(frozen=True)
class Outcome:
    """What came of one cell.

    Attributes
    ----------
    system : the configuration that made the run.
    reason : why there is no run, in one line; empty if there is one. `lacking`: something is not here, no fault.
    run, sha256 : the run's file and its checksum; `task` is what it was scored by.
    notes : what a reader of its numbers must know, a sentence each; `cautions` are warnings.
    costs : what its side file says of the work; see `harness.experiments.costs`.
    """

    cell: Cell
    system: Mapping[str, Any]
    reason: str = ""
    lacking: bool = False
    run: Path | None = None
    sha256: str = ""
    task: Task | None = None
    scores: Scores | None = None
    notes: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    costs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chosen:
    """A seed, or the settings of a condition that is tuned, that is best of several.

    Attributes
    ----------
    name : the seed, or the settings in words.
    scores : on the set of topics that is reported.
    value : the mean of the first measure by which it was chosen, over the topics of `on`.
    tried : of how many.
    on : the other sets of topics, which chose it; empty if the reported topics themselves did.
    """

    name: str
    scores: Scores
    value: float
    tried: int
    on: Labels


@dataclass(frozen=True)
class Tested:
    """A row of the family: what it compares, on which set of topics."""

    row: Labels
    against: Labels
    part: str
    result: Row


@dataclass(frozen=True)
class Results:
    """All that a report of an experiment is made from.

    Attributes
    ----------
    outcomes : of the cells that were to be run, in the order of the file.
    only, extra : the labels and overrides by which this was less, or other, than the whole experiment.
    scale : its name; what it changes says the experiment.

    A row is a condition with a label of each axis but the pooled one; a part is a label of that axis, or `POOLED`.
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
        """The rows, in the order of the file."""
        return tuple(dict.fromkeys(self.experiment.row(outcome.cell.labels) for outcome in self.outcomes))

    @cached_property
    def sets(self) -> Labels:
        """The sets of topics, in the order of the file; one empty label where nothing is pooled."""
        found = {self.experiment.part(outcome.cell.labels) for outcome in self.outcomes}
        pool = self.experiment.pool
        return ("",) if pool is None else tuple(label for label in self.experiment.labels(pool) if label in found)

    @property
    def parts(self) -> Labels:
        """The sets of topics, and all topics together if there are several sets that can be pooled."""
        return (*self.sets, POOLED) if len(self.sets) > 1 and not self.unpooled else self.sets

    @cached_property
    def unpooled(self) -> str:
        """Why the sets of topics cannot be pooled; empty if they can."""
        for row in self.rows if len(self.sets) > 1 else ():
            firsts = [next((o.scores for o in self.of(row, name) if o.scores is not None), None) for name in self.sets]
            there = [replace(scores, run=said_of(row)) for scores in firsts if scores is not None]
            try:
                _ = there and pooled(there)
            except HarnessError as error:
                return error.lines[0]
        return ""

    @cached_property
    def _outcomes(self) -> dict[tuple[Labels, str], tuple[Outcome, ...]]:
        found: dict[tuple[Labels, str], tuple[Outcome, ...]] = {}
        for outcome in self.outcomes:
            at = (self.experiment.row(outcome.cell.labels), self.experiment.part(outcome.cell.labels))
            found[at] = (*found.get(at, ()), outcome)
        return found

    def of(self, row: Labels, part: str) -> tuple[Outcome, ...]:
        """The outcomes of a row on a set of topics (on `POOLED`: on all sets), a seed each."""
        parts = self.sets if part == POOLED else (part,)
        return tuple(outcome for name in parts for outcome in self._outcomes.get((row, name), ()))

    def is_tuned(self, row: Labels) -> bool:
        """Whether its settings are chosen among several."""
        return any(outcome.cell.point for outcome in self.of(row, POOLED))

    def setting(self, row: Labels, part: str) -> Chosen | None:
        """The settings of a tuned row, chosen on other topics, and its scores; None if a run that chooses is lost."""
        if self.experiment.tune_on == "halves":
            return self._of_halves(row, part)
        return self._best(row, part, [name for name in self._all_sets(row) if name != part])

    def best_seed(self, row: Labels, part: str) -> Chosen | None:
        """The best of several seeds, by the topics that the experiment says; None for a single one."""
        plan = self.experiment.seeds
        if plan is None or len(self.seeds(row, part)) < 2 or self.is_tuned(row):
            return None
        if plan.best == "evaluation":
            return self._best(row, part, [])
        return None if part == POOLED else self._best(row, part, [name for name in self._all_sets(row) if name != part])

    def _of_halves(self, row: Labels, part: str) -> Chosen | None:
        """Each half of a set of topics with the settings that are best on the other half; the first of equals."""
        measure = self.experiment.measures[0]
        runs = {_name(outcome): outcome.scores for outcome in self.of(row, part)}
        first = next(iter(runs.values()), None)
        if first is None or None in runs.values():
            return None
        odd = odd_topics(first.topics)
        values, names = np.array(first.values), []
        for half, other in ((odd, ~odd), (~odd, odd)):
            means = {name: _mean(scores.column(measure)[other]) for name, scores in runs.items() if scores is not None}
            best = max(means, key=lambda name: means[name])
            chosen = runs[best]
            if chosen is None or math.isnan(means[best]):
                return None
            values[half] = chosen.values[half]
            names.append(best)
        name = names[0] if names[0] == names[1] else f"{names[0]} (odd topics); {names[1]} (even)"
        made = replace(first, run=said_of(row), values=values, run_sha256="", counts={})
        return Chosen(name, made, math.nan, len(runs), ("the other half of the topics",))

    def _all_sets(self, row: Labels) -> Labels:
        """The sets of topics that a row has in the whole experiment."""
        return tuple(self._whole.get(row, {}))

    @cached_property
    def _whole(self) -> dict[Labels, dict[str, None]]:
        found: dict[Labels, dict[str, None]] = {}
        for cell in self.experiment.cells():
            found.setdefault(self.experiment.row(cell.labels), {})[self.experiment.part(cell.labels)] = None
        return found

    def _best(self, row: Labels, part: str, on: Sequence[str]) -> Chosen | None:
        """The seed or settings with the best mean on some sets of topics, or on the reported ones; the first of equals.

        None if a run by which it is chosen, or that of the chosen one, is missing.
        """
        measure = self.experiment.measures[0]
        names = list(dict.fromkeys(_name(outcome) for outcome in self.of(row, POOLED)))
        values = {}
        for name in names:
            scores = self._of_name(row, on or [part], name)
            if scores is None or math.isnan(scores.mean(measure)):
                return None
            values[name] = scores.mean(measure)
        best = max(values, key=lambda name: values[name], default="")
        scores = self._of_name(row, [part], best) if values else None
        return None if scores is None else Chosen(best, scores, values[best], len(names), tuple(on))

    def _of_name(self, row: Labels, parts: Sequence[str], name: str) -> Scores | None:
        """The scores of one seed or setting on some sets of topics together; None if one is missing, or cannot be."""
        found = []
        for part in self.sets if POOLED in parts else parts:
            at = [outcome for outcome in self.of(row, part) if _name(outcome) == name]
            if len(at) != 1 or at[0].scores is None:
                return None
            found.append(replace(at[0].scores, run=said_of(row)))
        if len(found) > 1 and self.unpooled:
            return None
        return pooled(found) if len(found) > 1 else found[0] if found else None

    def seeds(self, row: Labels, part: str, *, independent: bool = False, partial: bool = False) -> tuple[Scores, ...]:
        """Returns the scores of each seed under the row's name; nothing unless all seeds of all its sets have been run.

        Parameters
        ----------
        independent : as tests need them: means of the topics that share their cluster, where a collection has any.
        partial : without the seeds that lack a run, if at least one seed has all of its runs.
        """
        sets = [self._by_seed(row, name, independent) for name in (self.sets if part == POOLED else (part,))]
        names = list(dict.fromkeys(name for seeds in sets for name in seeds))
        by_name = {name: [seeds.get(name) for seeds in sets] for name in names}
        whole = [[scores for scores in of if scores is not None] for of in by_name.values()]
        whole = [of for of in whole if len(of) == len(sets)]
        if not partial and len(whole) < len(names):
            return ()
        return tuple(pooled(of) if part == POOLED else of[0] for of in whole)

    def lost_seeds(self, row: Labels, part: str) -> Labels:
        """Returns the seeds that lack a run, of a row that has a mean over the others; else nothing."""
        if not self.seeds(row, part, partial=True):
            return ()
        of = self.of(row, part)
        return tuple(dict.fromkeys(o.cell.seed for o in of if o.cell.seed and o.scores is None and not o.cell.point))

    def _by_seed(self, row: Labels, part: str, independent: bool) -> dict[str, Scores | None]:
        """Returns seed -> its scores on one set of topics, or None without a run; a tuned row has one entry."""
        outcomes = self.of(row, part)
        if self.is_tuned(row):
            chosen = self.setting(row, part)
            outcomes = () if chosen is None else (replace(outcomes[0], scores=chosen.scores),)
        found: dict[str, Scores | None] = {}
        for outcome in outcomes:
            scores, task = outcome.scores, outcome.task
            seed = "" if self.is_tuned(row) else outcome.cell.seed or ""
            if scores is None or task is None:
                found[seed] = None
                continue
            clusters = task.collection.clusters() if independent else None
            scores = scores if clusters is None else scores.by_cluster(clusters)
            found[seed] = replace(scores, run=said_of(row))
        return found

    def scores(self, row: Labels, part: str, *, independent: bool = False, partial: bool = False) -> Scores | None:
        """Returns the scores of a row: of each topic, the mean over seeds; None where a run is missing.

        A topic counts where it does in every seed: a protocol may leave out those that a run does not answer.

        Parameters
        ----------
        independent, partial : see `seeds`.
        """
        seeds = self.seeds(row, part, independent=independent, partial=partial)
        if not seeds:
            return None
        return replace(seeds[0], values=np.mean([scores.values for scores in seeds], axis=0))

    def deviation(self, row: Labels, part: str, measure: str) -> float | None:
        """The standard deviation (ddof 1) of the seeds' means; None for a single one.

        All are over the topics that count in every seed, as those of `scores` are.
        """
        seeds = np.array([scores.column(measure) for scores in self.seeds(row, part, partial=True)])
        if len(seeds) < 2 or not (counted := ~np.isnan(seeds).any(axis=0)).any():
            return None
        return float(seeds[:, counted].mean(axis=1).std(ddof=1))

    @cached_property
    def _tested(self) -> tuple[tuple[Tested, ...], Comparison | None, tuple[str, ...]]:
        made: list[tuple[Labels, Labels, str, Comparison]] = []
        refused = []
        for row in self.rows if self.experiment.baseline else ():
            at = next(o.cell.labels for o in self.outcomes if self.experiment.row(o.cell.labels) == row)
            against = self.experiment.row(self.experiment.baseline_of(at))
            for part in self._tested_parts(row) if against != row else ():
                try:
                    sides = [self.scores(side, part, independent=True) for side in (row, against)]
                    if None in sides:
                        continue
                    # Rows may be of several collections (topics in several languages) with the same judgments, which
                    # is checked.
                    pair = [replace(side, collection=part) for side in sides if side is not None]
                    made.append((row, against, part, self._compared(pair)))
                except HarnessError as error:
                    refused.append(f"{part}{': ' if part else ''}{error.lines[0]}")
        if not made:
            return (), None, tuple(dict.fromkeys(refused))
        whole = joined([comparison for *_, comparison in made])
        at_rows = [(row, against, part) for row, against, part, comparison in made for _ in comparison.rows]
        tests = tuple(Tested(*at, result) for at, result in zip(at_rows, whole.rows, strict=True))
        return tests, whole, tuple(dict.fromkeys(refused))

    def _tested_parts(self, row: Labels) -> Sequence[str]:
        """Its sets; and all topics, if that means all of the experiment, for which the family has counted tests."""
        pool = self.experiment.pool
        sets = [part for part in self.sets if self._outcomes.get((row, part))]
        whole = pool is not None and 1 < len(self.experiment.axes[pool]) == len(sets) and not self.unpooled
        return [*sets, POOLED] if whole else sets

    def _compared(self, pair: Sequence[Scores]) -> Comparison:
        return compare(
            pair,
            pairs=[(pair[0].run, pair[1].run)],
            measures=self.experiment.of_tests,
            alpha=self.alpha,
            family=self.experiment.tests,
            seed=self.seed,
        )

    @property
    def tests(self) -> tuple[Tested, ...]:
        """The tests of rows against their baselines, corrected over the family of the whole experiment."""
        return self._tested[0]

    @property
    def comparison(self) -> Comparison | None:
        """The same tests as one comparison, which says how they were corrected; None if none was made."""
        return self._tested[1]

    @property
    def refused(self) -> tuple[str, ...]:
        """Why topics were not pooled, or tests not made although both runs are there, a line each."""
        return (*((self.unpooled,) if self.unpooled else ()), *self._tested[2])


def odd_topics(topics: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which topics have odd numbers at the end of their ids; every other one if some have none.

    Examples
    --------
    >>> odd_topics(["B.1", "B.4", "B.5"]).tolist()
    [True, False, True]
    """
    found = [re.search(r"\d+$", topic) for topic in topics]
    numbers = [int(match[0]) for match in found if match is not None]
    if len(numbers) < len(topics):
        numbers = list(range(len(topics)))
    return np.array([number % 2 == 1 for number in numbers], dtype=bool)


def _mean(values: npt.NDArray[np.float64]) -> float:
    """The mean of those that count; NaN without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _name(outcome: Outcome) -> str:
    """What distinguishes a run from the others of its row and set of topics."""
    return outcome.cell.point or outcome.cell.seed or ""

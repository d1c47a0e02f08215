"""What came of an experiment: scores by row and set of topics, means over seeds, and the tests of its family."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.experiments.experiment import Cell, Experiment, Labels, said_of
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

    A row is a condition with a label of each axis but the pooled one; a part is a label of that axis, or `POOLED`.
    """

    name: str
    experiment: Experiment
    outcomes: tuple[Outcome, ...]
    only: Mapping[str, Labels] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    alpha: float = 0.05
    seed: int = 0

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
            there = [seeds[0] for seeds in (self.seeds(row, name) for name in self.sets) if seeds]
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

    def seeds(self, row: Labels, part: str, *, independent: bool = False) -> tuple[Scores, ...]:
        """The scores of each seed, under the row's name; none unless all seeds of all its sets have been run.

        Parameters
        ----------
        independent : as tests need them: means of the topics that share their cluster, where a collection has any.
        """
        if part == POOLED:
            sets = [self.seeds(row, name, independent=independent) for name in self.sets]
            if len({len(scores) for scores in sets}) != 1:
                return ()
            return tuple(pooled(seed) for seed in zip(*sets, strict=True))
        found = []
        for outcome in self.of(row, part):
            if outcome.scores is None or outcome.task is None:
                return ()
            clusters = outcome.task.collection.clusters() if independent else None
            scores = outcome.scores if clusters is None else outcome.scores.by_cluster(clusters)
            found.append(replace(scores, run=said_of(row)))
        return tuple(found)

    def scores(self, row: Labels, part: str, *, independent: bool = False) -> Scores | None:
        """The scores of a row: of each topic, the mean over seeds; None where a run is missing."""
        seeds = self.seeds(row, part, independent=independent)
        if not seeds:
            return None
        return replace(seeds[0], values=np.mean([scores.values for scores in seeds], axis=0))

    def deviation(self, row: Labels, part: str, measure: str) -> float | None:
        """The standard deviation (ddof 1) of the seeds' means; None for a single one."""
        means = [scores.mean(measure) for scores in self.seeds(row, part)]
        return statistics.stdev(means) if len(means) > 1 else None

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
            family=self.experiment.family or self.experiment.tests,
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

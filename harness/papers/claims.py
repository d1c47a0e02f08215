"""Claims of a paper about its numbers, tested on the recomputed scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import HarnessError, suggestion
from harness.papers.reproduce import PaperReproduction
from harness.scoring.compare import PairDifference, compare
from harness.scoring.scores import Scores, pooled

POOLED = "all topics"


@dataclass(frozen=True)
class Test:
    """One test of a claim on a collection of the paper, or on all topics pooled."""

    collection: str
    row: PairDifference
    supported: bool | None
    supported_corrected: bool | None


@dataclass(frozen=True)
class Claim:
    """A claim and its tests.

    Attributes
    ----------
    expect : `no difference` (no test is significant) or `first better` (every test is, in favour of the first run).
    tests : per collection, then over all topics pooled; the two groups are separate families.
    family, family_pooled : number of tests in the Bonferroni correction of each group.
    """

    title: str
    expect: str
    tests: tuple[Test, ...]
    family: int
    family_pooled: int
    alpha: float

    def count(self, *, corrected: bool, among_pooled: bool) -> tuple[int, int]:
        """Returns the number of tests that agree with the claim, and the number of tests."""
        chosen = [test for test in self.tests if (test.collection == POOLED) == among_pooled]
        agree = [test.supported_corrected if corrected else test.supported for test in chosen]
        return sum(value is True for value in agree), len(chosen)


def check_claims(reproduction: PaperReproduction, alpha: float = 0.05, seed: int = 0) -> tuple[Claim, ...]:
    """Tests every claim in the paper's configuration, per collection and over all topics.

    Raises
    ------
    HarnessError
        A claim names a run that is not in the archive.
    """
    where = f"{reproduction.paper.where}: claims"
    out = []
    runs = {run for _, run in reproduction.scores}
    for entry in reproduction.paper.config.claims:
        if entry.rows:
            continue
        pairs = entry.pairs
        for run in (run for pair in pairs for run in pair):
            if run not in runs:
                raise HarnessError(f"{where}: run {run!r} is not in the archive; {suggestion(run, runs)}")
        by_collection = _group(reproduction.scores, pairs)
        measures = len(next(iter(by_collection.values()))[0].measures)
        family = len(pairs) * measures * len(by_collection)
        tests = []
        for collection, scores in by_collection.items():
            comparison = compare(scores, pairs=pairs, alpha=alpha, family=family, seed=seed)
            tests += [_test(collection, row, entry.expect) for row in comparison.rows]
        named = {score.run for scores in by_collection.values() for score in scores}
        together = [
            pooled([score for scores in by_collection.values() for score in scores if score.run == run])
            for run in sorted(named)
        ]
        comparison = compare(together, pairs=pairs, alpha=alpha, seed=seed)
        tests += [_test(POOLED, row, entry.expect) for row in comparison.rows]
        out.append(Claim(entry.title, entry.expect, tuple(tests), family, comparison.family, alpha))
    return tuple(out)


def _group(scores: Mapping[tuple[str, str], Scores], pairs: Sequence[tuple[str, str]]) -> dict[str, list[Scores]]:
    """Groups the scores of the runs in `pairs` by collection."""
    wanted = {run for pair in pairs for run in pair}
    out: dict[str, list[Scores]] = {}
    for (collection, run), score in scores.items():
        if run in wanted:
            out.setdefault(collection, []).append(score)
    return out


def _test(collection: str, row: PairDifference, expect: str) -> Test:
    return Test(
        collection, row, _agrees(row.significant, row, expect), _agrees(row.significant_bonferroni, row, expect)
    )


def _agrees(significant: bool | None, row: PairDifference, expect: str) -> bool | None:
    if significant is None:
        return None
    return not significant if expect == "no difference" else significant and row.difference > 0

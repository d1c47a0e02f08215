"""Tests of ranked runs: the one family that leaderboards, pages of runs and pairs, and receipts correct for.

Pairs of ranked runs in the measure that ranks have corrected p-values. Tests of any other pair or measure are outside
the family: they have an uncorrected p, and nothing is claimed of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from harness.scoring.compare import compare
from harness.scoring.comparison import Comparison, Correction, PairDifference
from harness.scoring.intervals import numbers_of_names
from harness.scoring.scores import Scores

MOST_LETTERED = 60  # most ranked runs for which every pair is tested
CORRECTIONS: Mapping[str, str] = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "none": "without correction",
}


@dataclass(frozen=True)
class TestVerdict:
    """Result of a test in the family: corrected p, and whether it is below alpha; both None if undefined."""

    p: float | None
    significant: bool | None


def family_of(runs: int, declared: int | None) -> int:
    """Returns the number of tests to correct for: all pairs of ranked runs, or the declared number if it is larger.

    All pairs count even if only those with the best run are tested, since the same scores selected the best run. One
    ranked run has no tests, whatever is declared.
    """
    return 0 if runs < 2 else max(declared or 0, math.comb(runs, 2))


def ranked_tests(
    scores: Sequence[Scores],
    measure: str,
    *,
    alpha: float,
    declared: int | None = None,
    clusters: Mapping[str, str] | None = None,
) -> tuple[Comparison | None, str]:
    """Tests the pairs of ranked runs, or, of too many runs, those with the best; or returns why none is tested.

    Parameters
    ----------
    scores : of the ranked runs, best first, with their names.
    declared : number of tests to correct for, if it exceeds the pairs.
    clusters : topic -> cluster of dependent topics.
    """
    if len(scores) < 2:
        return None, "there is only one ranked run" if scores else "no run is ranked"
    topics = sorted(scores[0].topics)
    of = numbers_of_names(topics if clusters is None else [clusters[topic] for topic in topics])
    counted = [~np.isnan(each.column(measure)[np.argsort(np.array(each.topics))]) for each in scores]
    everyone = len(scores) <= MOST_LETTERED
    pairs = combinations(counted, 2) if everyone else ((counted[0], each) for each in counted[1:])
    if any(np.unique(of[one & other]).size < 2 for one, other in pairs):
        units = "topics" if clusters is None else "clusters of topics"
        return None, f"some runs have fewer than two {units} in common"
    made = compare(
        scores,
        baseline=None if everyone else scores[0].run,
        measures=[measure],
        alpha=alpha,
        family=family_of(len(scores), declared),
        permutations=1,  # the randomization test is not shown
        clusters=clusters,
    )
    return made, ""


def verdict(row: PairDifference, correction: Correction) -> TestVerdict:
    """Returns the result of a test by the declared correction."""
    if correction == "none":
        return TestVerdict(row.p, row.significant)
    return TestVerdict(getattr(row, f"p_{correction}"), getattr(row, f"significant_{correction}"))


def verdicts(made: Comparison | None, correction: Correction) -> dict[frozenset[str], TestVerdict]:
    """Returns pair of runs -> result of its test; empty without tests."""
    rows = () if made is None else made.rows
    return {frozenset((row.a, row.b)): verdict(row, correction) for row in rows}


def corrected_for(correction: str, family: int) -> str:
    """Returns the correction in words.

    Examples
    --------
    >>> corrected_for("holm", 15), corrected_for("none", 15)
    ("Holm's correction over 15 tests", 'without correction')
    """
    over = "" if correction == "none" else f" over {family:,} test{'' if family == 1 else 's'}"
    return f"{CORRECTIONS[correction]}{over}"

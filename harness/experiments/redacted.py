"""Redacted results for private judgments: means rounded to a step, and which differences are significant.

Everything else would reveal judgments: scores of topics; numbers of judged results; exact means and p-values, which
change with a single relevant result; checksums of judgments, which confirm guesses. Rounded means of many similar runs
still reveal something, so the number of runs must be limited.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from harness.errors import HarnessError, counted
from harness.experiments.evaluate import Evaluation
from harness.scoring.compare import Comparison, compact_letters
from harness.scoring.measures import parse_measure
from harness.scoring.protocol import Protocol
from harness.scoring.rounding import beyond_step, decimals_of, least_step, rounded
from harness.scoring.scores import Scores

DECIMALS, MOST_DECIMALS = 2, 3
SCHEMA = "mathir-harness/redacted"
VERSION = 1


def tells(measure: str) -> bool:
    """Returns whether even a rounded value of a measure reveals what is judged: counts, shares and geometric means.

    >>> tells("Judged@10"), tells("RelRet"), tells("GMAP"), tells("nDCG@10")
    (True, True, True, False)
    """
    parsed = parse_measure(measure)
    # Unjudged results may be removed before they are counted; one topic may change a geometric mean a lot.
    return parsed.diagnostic or parsed.aggregate != "mean"


def telling(protocol: Protocol) -> str:
    """Returns why means by a protocol reveal scores of topics, in one line; empty if they do not."""
    if protocol.topics == "all":
        return ""
    reason = "means over answered topics only would reveal the score of a topic"
    return f"protocol {protocol.name}: {reason}; choose one with 'topics: all'"


@dataclass(frozen=True)
class Means:
    """Means of a run: measure -> value, None if no topic counts; `n`: measure -> number of topics that count."""

    run: str
    means: Mapping[str, float | None]
    n: Mapping[str, int]


@dataclass(frozen=True)
class Test:
    """Test of two runs; `difference` is that of the rounded means.

    Never significant if the rounded means differ by at most one step: a test of exact scores that turns significant
    with one document more would tell its judgment. An undefined test is not significant either: it would reveal that
    all topics differ by the same.
    """

    a: str
    b: str
    measure: str
    n: int
    difference: float
    significant_bonferroni: bool
    significant_holm: bool


@dataclass(frozen=True)
class Redacted:
    """Evaluation that does not reveal judgments.

    Attributes
    ----------
    step, decimals : the means are multiples of the step, shown with these decimals; see `step_of`.
    labels : measure -> label.
    means : runs, best first by the first measure; equal rounded means are ordered by name.
    tests, alpha, family : of a comparison; empty, 0 and 0 without one.
    groups : run -> letters for the first measure after Bonferroni's correction, if all pairs were compared.
    coverage : warning about judged documents missing from the corpus; else empty.
    """

    collection: str
    edition: str
    protocol: str
    step: float
    decimals: int
    labels: Mapping[str, str]
    means: tuple[Means, ...]
    coverage: str = ""
    tests: tuple[Test, ...] = ()
    alpha: float = 0.0
    family: int = 0
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def correction(self) -> str:
        """Description of the tests and their correction."""
        family = counted(self.family, "test")
        return f"two-sided paired t-test, alpha {self.alpha:g}; Bonferroni and Holm over a family of {family}"

    @property
    def left_out(self) -> str:
        """Note on the omitted values."""
        return (
            f"The judgments are private: means are rounded to multiples of {self.step:g}, differences are those of "
            "rounded means, and scores of topics, counts of judged results, p-values and checksums of judgments are "
            "left out. Many similar runs could still reveal judgments."
        )


def step_of(scores: Sequence[Scores], decimals: int = DECIMALS) -> float:
    """Returns the step to which means are rounded: 10^-decimals, or a larger one if few topics count.

    Parameters
    ----------
    scores : of runs on one task; measures that reveal what is judged are ignored.
    """
    counted = [each.n(measure) for each in scores for measure in each.measures if not tells(measure)]
    return max(10.0**-decimals, least_step(min(counted, default=0)))


def redact(evaluation: Evaluation, comparison: Comparison | None = None, *, decimals: int = DECIMALS) -> Redacted:
    """Redacts an evaluation and a comparison of its runs.

    Raises
    ------
    HarnessError
        The protocol averages over answered topics only, or all measures count judged results.

    Examples
    --------
    >>> import harness as h
    >>> found = redact(h.evaluate(h.task("mini-task1"), "runs/mini/mini-task1/overlap.run"))
    >>> dict(found.means[0].means)
    {'nDCG': 0.85, 'AP': 0.7, 'P@10': 0.3, 'Bpref': 0.6}
    """
    first = evaluation.scores[0]
    if reason := telling(first.protocol):
        raise HarnessError(f"--redact: {reason}")
    measures = [measure for measure in first.measures if not tells(measure)]
    if not measures:
        raise HarnessError(
            "--redact: every measure reveals how many results are judged or how a topic scores; use others, such as AP"
        )
    step = step_of(evaluation.scores, decimals)
    means = [
        Means(
            scores.run,
            {measure: _rounded(scores.aggregate(measure), step) for measure in measures},
            {measure: scores.n(measure) for measure in measures},
        )
        for scores in evaluation.scores
    ]
    means.sort(key=lambda each: (-(each.means[measures[0]] or 0.0), each.run))
    found = Redacted(
        first.collection,
        first.edition,
        first.protocol.name,
        step,
        decimals_of(step),
        {measure: first.protocol.label(measure) for measure in measures},
        tuple(means),
        evaluation.coverage_sentence(),
    )
    return found if comparison is None else _with_tests(found, comparison)


def _rounded(value: float, step: float) -> float | None:
    return None if math.isnan(value) else rounded(value, step)


def _with_tests(found: Redacted, comparison: Comparison) -> Redacted:
    of = {each.run: each.means for each in found.means}
    tests = []
    for row in comparison.rows:
        a, b = (of[run].get(row.measure) for run in (row.a, row.b))
        if a is not None and b is not None:
            difference = round(a - b, 9)
            clear = beyond_step(a, b, found.step)
            flags = [bool(flag) and clear for flag in (row.significant_bonferroni, row.significant_holm)]
            tests.append(Test(row.a, row.b, row.measure, row.n, difference, flags[0], flags[1]))
    groups = {}
    of_first = [test for test in tests if test.measure == next(iter(found.labels))]
    if comparison.baseline is None and of_first:
        different = [(test.a, test.b) for test in of_first if test.significant_bonferroni]
        # In the order of rounded means, since the order of exact means would reveal which of two equal ones is better.
        groups = compact_letters(list(of), different)
    return replace(found, tests=tuple(tests), alpha=comparison.alpha, family=comparison.family, groups=groups)


def redacted_to_json(found: Redacted) -> dict[str, Any]:
    """Converts redacted results to plain JSON values."""
    return {"schema": SCHEMA, "version": VERSION, "left_out": found.left_out, **asdict(found)}

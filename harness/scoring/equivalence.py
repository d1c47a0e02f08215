"""Equivalence and non-inferiority of runs: is a difference shown to be smaller than a margin?

A test that finds no difference does not show that there is none. Two one-sided paired t-tests (Schuirmann, Journal of
Pharmacokinetics and Biopharmaceutics 15, 1987) reject a difference as large as the margin, in both directions
(equivalence) or in one (non-inferiority: the first run is not worse than the second by the margin).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from harness.errors import HarnessError, counted_text, suggestion
from harness.scoring.comparison import KINDS, EquivalenceTest, Kind, PairDifference
from harness.scoring.measures import parse_measure

Margin = float | Mapping[str, float]


def check_margin(margin: Margin, measures: Sequence[str]) -> dict[str, float]:
    """Returns measure -> margin, of one margin for all measures or of some for some.

    Raises
    ------
    HarnessError
        A margin is not above 0, is as large as any difference in its measure, or names a measure that is not compared.
    """
    given = dict(margin) if isinstance(margin, Mapping) else dict.fromkeys(measures, margin)
    for measure, value in given.items():
        if measure not in measures:
            raise HarnessError(f"margin: measure {measure!r} is not compared; {suggestion(measure, measures)}")
        if not 0.0 < value < parse_measure(measure).highest:
            raise HarnessError(f"margin: {value:g} for {measure}; expected more than 0 and less than its largest value")
    return given


def equivalence_tests(
    rows: Sequence[PairDifference],
    margins: Mapping[str, float],
    *,
    family: int,
    alpha: float,
    kind: Kind = "equivalence",
) -> tuple[EquivalenceTest, ...]:
    """Tests each row of a comparison whose measure has a margin; corrections are over `family` tests."""
    if kind not in KINDS:
        raise HarnessError(f"unknown kind of test {kind!r}; {suggestion(kind, KINDS)}")
    chosen = [row for row in rows if row.measure in margins]
    raw = [_one_sided_p(row, margins[row.measure], kind) for row in chosen]
    holm: dict[int, float] = {}
    largest = 0.0
    for rank, (value, at) in enumerate(sorted((p, at) for at, p in enumerate(raw) if p is not None)):
        holm[at] = largest = max(largest, min(1.0, value * (family - rank)))
    tests = []
    for at, (row, p) in enumerate(zip(chosen, raw, strict=True)):
        half = _half_width(row, alpha / family)
        low, high, margin = row.difference - half, row.difference + half, margins[row.measure]
        corrected = None if p is None else min(1.0, p * family)
        within = corrected is not None and corrected < alpha
        if kind == "non-inferiority":
            least = max(0.0, -low)
            outcome = "not inferior" if within else "inferior" if p is not None and high < -margin else "undecided"
        else:
            least = max(-low, high)
            named = {(True, False): "equivalent", (False, True): "different", (True, True): "both"}
            outcome = named.get((within, bool(row.significant_bonferroni)), "undecided")
        tests.append(
            EquivalenceTest(
                a=row.a,
                b=row.b,
                measure=row.measure,
                n=row.n,
                kind=kind,
                margin=margin,
                difference=row.difference,
                ci_low=low,
                ci_high=high,
                p=p,
                p_bonferroni=corrected,
                p_holm=holm.get(at),
                least_margin=None if p is None else least,
                outcome=outcome,
            )
        )
    return tuple(tests)


def _one_sided_p(row: PairDifference, margin: float, kind: Kind) -> float | None:
    """Returns the p of the one-sided test, or the larger of the two; None where sd is 0 and the difference is not."""
    from scipy import special

    nearest = margin + row.difference if kind == "non-inferiority" else margin - abs(row.difference)
    if row.sd == 0.0 or row.freedom is None:
        return 0.0 if row.difference == 0.0 else None
    return float(special.stdtr(row.freedom, -nearest * math.sqrt(row.n) / row.sd))


def _half_width(row: PairDifference, level: float) -> float:
    """Returns the distance of the end of a one-sided interval at 1 - level from the difference."""
    from scipy import special

    if row.sd == 0.0 or row.freedom is None:
        return 0.0
    return -float(special.stdtrit(row.freedom, level)) * row.sd / math.sqrt(row.n)


def describe_equivalence(tests: Sequence[EquivalenceTest], family: int, alpha: float) -> str:
    """Returns what was tested, in words for captions and methods sections."""
    margins = {test.measure: test.margin for test in tests}
    one = set(margins.values())
    within = f"{one.pop():g}" if len(one) == 1 else ", ".join(f"{name} {value:g}" for name, value in margins.items())
    tests_made = counted_text(family, "test")
    one_sided = any(test.kind == "non-inferiority" for test in tests)
    what = f"non-inferiority by {within}: a one-sided" if one_sided else f"equivalence within {within}: two one-sided"
    return (
        f"{what} paired t-test{'' if one_sided else 's'}, alpha {alpha:g}, Bonferroni over a family of {tests_made}; "
        f"intervals at level {100 * (1 - 2 * alpha / family):.4g} %; least margin: significant for each larger one"
    )

"""Rounding of private means in redacted reports to a step; see docs/private-judgments.md."""

from __future__ import annotations

import math


def least_step(n: int) -> float:
    """Returns the smallest of ..., 0.05, 0.1, 0.2, 0.5, 1, 2 that is at least 2 / n, for means over `n` topics.

    Examples
    --------
    >>> [least_step(n) for n in (6, 39, 42, 78, 100, 1000)]
    [0.5, 0.1, 0.05, 0.05, 0.02, 0.002]
    """
    step, power = 2.0, 10
    while n > 0:
        for digit in (10, 5, 2):  # digit / power is 1, 0.5, 0.2, then a tenth of these
            if digit * n < 2 * power:
                return step
            step = digit / power
        power *= 10
    return step


def rounded_to_step(value: float, step: float) -> float:
    """Rounds to a multiple of the step, halves down, so that a mean of half a step shows as 0.

    Examples
    --------
    >>> rounded_to_step(0.025, 0.05), rounded_to_step(0.026, 0.05), rounded_to_step(0.31, 0.2)
    (0.0, 0.05, 0.4)
    """
    return round(math.ceil(value / step - 0.5 - 1e-9) * step, 9)


def decimals_of(step: float) -> int:
    """Returns the number of decimals of a step's multiples: 2 for 0.05, 1 for 0.5, and 1 for 1."""
    return next((decimals for decimals in range(1, 6) if math.isclose(step, round(step, decimals))), 6)

"""Letter displays: runs that share a letter do not differ significantly (Piepho, 2004)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import get_args

from harness.errors import HarnessError, suggestion
from harness.scoring.compare import Comparison, Correction, Pairs


def groups_not_different(comparison: Comparison, measure: str, correction: Correction) -> dict[str, str]:
    """Returns run -> letters, best mean first; runs share a letter if and only if their difference is not significant.

    Computes the compact letter display by insertion and absorption (Piepho, 2004). Undefined tests are not significant.
    Letters are a to z, then a1 to z1, and so on. Raises HarnessError if the measure or a pair of its runs is missing.
    """
    if correction not in get_args(Correction):
        raise HarnessError(f"unknown correction {correction!r}; {suggestion(correction, get_args(Correction))}")
    rows = [row for row in comparison.rows if row.measure == measure]
    if not rows:
        known = suggestion(measure, {row.measure for row in comparison.rows})
        raise HarnessError(f"measure {measure!r} was not compared; {known}")
    means: dict[str, list[float]] = {}
    for row in rows:
        means.setdefault(row.a, []).append(row.mean_a)
        means.setdefault(row.b, []).append(row.mean_b)
    # A run's means differ between rows only if the common topics do; their average decides the order.
    order = sorted(means, key=lambda run: (-statistics.mean(means[run]), run))
    field = "significant" if correction == "none" else f"significant_{correction}"
    different = {frozenset((row.a, row.b)): getattr(row, field) for row in rows}
    pairs = list(combinations(order, 2))
    for a, b in pairs:
        if frozenset((a, b)) not in different:
            raise HarnessError(f"runs {a} and {b} were not compared for {measure}; letters need all pairs")
    return compact_letters(order, [(a, b) for a, b in pairs if different[frozenset((a, b))]])


def compact_letters(order: Sequence[str], different: Pairs, most: float = math.inf) -> dict[str, str]:
    """Returns run -> letters by insertion and absorption (Piepho, 2004): only pairs in `different` share no letter.

    Parameters
    ----------
    order : order of the runs; the first has the letter a.
    most : maximum number of intermediate letters, which may grow exponentially; if exceeded, an empty mapping is
        returned.

    Examples
    --------
    >>> compact_letters(["x", "y", "z"], [("x", "z")])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    # A set of runs is represented as a bit mask.
    bit = {run: 1 << at for at, run in enumerate(order)}
    sets = {sum(bit.values())}
    for a, b in different:
        both = bit[a] | bit[b]
        split = {s for s in sets if s & both == both}
        if not split:
            continue
        kept = sets - split
        made = {s & ~one for s in split for one in (bit[a], bit[b])}
        # Absorption: drop new sets that are subsets of others. Kept sets need no check: a kept set inside a new set
        # would already have been inside the larger set that the new one was made from.
        sets = kept | {s for s in made if not any(s & other == s != other for other in kept | made)}
        if len(sets) > most:
            return {}
    columns = sorted([at for at in range(len(order)) if s >> at & 1] for s in sets)
    letters = dict.fromkeys(order, "")
    for i, column in enumerate(columns):
        for rank in column:
            letters[order[rank]] += "abcdefghijklmnopqrstuvwxyz"[i % 26] + (str(i // 26) if i >= 26 else "")
    return letters

"""Analysis of variance of scores: systems, topics and residual, and pairs of systems (Tukey's HSD).

It complements paired tests: one error term over all systems instead of one per pair. Sources: its use in
retrieval (Tague-Sutcliffe and Blustein, TREC-3 1994; Carterette, TOIS 2012); honestly significant differences
(Tukey, 1949) with the error of a design with topics as blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError

ROUNDING = 1e-12  # share of the total variance that is attributed to rounding


@dataclass(frozen=True)
class VarianceSource:
    """Row of the ANOVA table for one source of variance.

    Attributes
    ----------
    name : `system`, `topic` or `residual`.
    squares, freedom : sum of squares and degrees of freedom; `mean` is their ratio.
    share : share of the total sum of squares.
    f, p : F test against the residual; None for the residual itself, and if the residual is 0.
    omega : partial omega squared, the estimated population share of variance of this source relative to source and
        residual (below 0 means none); None as `f`.
    """

    name: str
    squares: float
    freedom: int
    mean: float
    share: float
    f: float | None = None
    p: float | None = None
    omega: float | None = None


@dataclass(frozen=True)
class SystemPair:
    """Pair of systems: difference of means, its simultaneous interval, and Tukey's p (None without residual)."""

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float | None
    significant: bool | None


@dataclass(frozen=True)
class Anova:
    """The two-way analysis without replication, and all pairs of systems.

    Attributes
    ----------
    topics : number of topics that count for all systems.
    sources : system, topic, residual.
    hsd : the honestly significant difference of two means at `alpha`.
    """

    topics: int
    means: dict[str, float]
    sources: tuple[VarianceSource, ...]
    alpha: float
    hsd: float
    pairs: tuple[SystemPair, ...]


def anova(values: Floats, systems: Sequence[str], alpha: float = 0.05) -> Anova:
    """Fits score = system + topic + error; returns F tests of both, and Tukey's HSD of all pairs of systems.

    Parameters
    ----------
    values : float64, shape (topics, systems). A topic with NaN is excluded.
    systems : names of the systems.
    alpha : significance level of the family of all pairs.

    Raises
    ------
    HarnessError
        There are fewer than two systems or fewer than two topics that count for all of them, or alpha is out of range.

    Examples
    --------
    >>> found = anova(np.array([[1.0, 2.0, 4.0], [2.0, 4.0, 5.0], [4.0, 5.0, 7.0]]), ("a", "b", "c"))
    >>> [(source.name, round(source.squares, 3), source.freedom) for source in found.sources]
    [('system', 13.556, 2), ('topic', 13.556, 2), ('residual', 0.444, 4)]
    """
    from scipy import stats

    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(systems) or len(systems) < 2:
        raise HarnessError(f"ANOVA: values of shape {table.shape}, expected topics x {len(systems)} systems, 2 or more")
    if not 0 < alpha < 1:
        raise HarnessError(f"alpha: {alpha:g} is not between 0 and 1")
    table = table[~np.isnan(table).any(axis=1)]
    n, k = table.shape
    if n < 2:
        raise HarnessError(f"ANOVA: {n} topics count for all systems; it needs 2 or more")
    grand, of_system, of_topic = float(table.mean()), table.mean(axis=0), table.mean(axis=1)
    rest = table - of_system - of_topic[:, None] + grand
    parts = {
        "system": (n * float(((of_system - grand) ** 2).sum()), k - 1),
        "topic": (k * float(((of_topic - grand) ** 2).sum()), n - 1),
        "residual": (float((rest**2).sum()), (n - 1) * (k - 1)),
    }
    whole = float(((table - grand) ** 2).sum())
    # Rounding errors in a residual of 0 would make every other source significant.
    least = ROUNDING * max(whole, float(np.abs(table).max()) ** 2)
    parts = {name: (squares if squares > least else 0.0, freedom) for name, (squares, freedom) in parts.items()}
    error, freedom = parts["residual"][0] / parts["residual"][1], parts["residual"][1]
    sources = []
    for name, (squares, df) in parts.items():
        mean, share = squares / df, squares / whole if whole > least else 0.0
        if name == "residual" or not error:
            sources.append(VarianceSource(name, squares, df, mean, share))
            continue
        f = mean / error
        omega = df * (f - 1) / (df * (f - 1) + table.size)
        sources.append(VarianceSource(name, squares, df, mean, share, f, float(stats.f.sf(f, df, freedom)), omega))
    scale = math.sqrt(error / n)
    hsd = _critical(alpha, k, freedom) * scale if error else 0.0
    pairs = tuple(combinations(range(k), 2))
    differences = [float(of_system[i] - of_system[j]) for i, j in pairs]
    ps: list[float | None] = [None] * len(pairs)
    if error:
        ps = list(map(float, studentized_range_sf(np.abs(differences) / scale, k, freedom)))
    return Anova(
        n,
        dict(zip(systems, of_system.tolist(), strict=True)),
        tuple(sources),
        alpha,
        hsd,
        tuple(
            SystemPair(systems[i], systems[j], d, d - hsd, d + hsd, p, None if p is None else p < alpha)
            for (i, j), d, p in zip(pairs, differences, ps, strict=True)
        ),
    )


def studentized_range_sf(q: Floats, means: int, freedom: int) -> Floats:
    """Returns the probability that the studentized range of some means exceeds each q; error about 1e-11.

    It is the mean over the error estimate s (by Gauss-Legendre quadrature) of the probability that the range exceeds
    q s (by a trapezoid sum, very accurate for functions that vanish at both ends). scipy's adaptive integral takes a
    hundred times as long.

    >>> studentized_range_sf(np.array([3.578, 4.639]), 3, 20).round(4)  # the 5% and 1% points of printed tables
    array([0.05, 0.01])
    """
    from scipy import special, stats

    nodes, weights = _gauss_legendre(96)
    spread = 9 / math.sqrt(2 * freedom)
    low, high = max(0.0, 1 - spread), 1 + spread
    s = low + (nodes + 1) * (high - low) / 2
    weights = weights * (high - low) / 2 * stats.chi.pdf(s, freedom, scale=1 / math.sqrt(freedom))
    z, step = np.linspace(-9.0, 9.0, 241, retstep=True)
    density, below = means * np.exp(-z * z / 2) * step / math.sqrt(2 * math.pi), special.ndtr(z)
    out = np.empty(np.shape(q))
    for index, value in np.ndenumerate(q):
        inside = (below - special.ndtr(z - value * s[:, None])) ** (means - 1) @ density
        out[index] = weights @ (1 - inside)
    return np.clip(out, 0.0, 1.0)


@cache  # takes as long as twenty of the sums above
def _gauss_legendre(count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def _critical(alpha: float, means: int, freedom: int) -> float:
    """Returns the critical value of the studentized range at level alpha."""
    from scipy import optimize

    def above(q: float) -> float:
        return float(studentized_range_sf(np.array([q]), means, freedom)[0]) - alpha

    high = 4.0
    while above(high) > 0:
        high *= 2
    return float(optimize.brentq(above, 0.0, high))

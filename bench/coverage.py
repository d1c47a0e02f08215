"""Coverage of 95% intervals for few topics: means of runs, and their ranks among eight runs.

    python -m bench.coverage [--samples 2000] [--resamples 1000]

Values of a topic are drawn from a known population: a difficulty that all runs share, and a run's own part, from the
normal copula. P@10 is a share of ten results, RR one over a geometric rank or 0, nDCG a beta variable. An interval of a
mean covers if the population's mean is inside, an interval of a rank if the rank by the populations' means is.
BCa is `scipy.stats.bootstrap`; of ranks, whose bootstrap distribution has a few values only, it is not defined.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import special, stats

from bench.table import show
from harness.data.columns import Floats
from harness.scoring.intervals import mean_intervals
from harness.scoring.resampling import mean_resampled, rank_intervals, ranks_of_means

TOPICS = (5, 10, 20, 50, 80)
QUALITIES = np.linspace(0.16, 0.40, 8)  # of the eight runs: mean precision, or what it is for another measure
SHARED = 0.6  # correlation of runs over topics
LARGE = 400_000  # topics of the population


def values(measure: str, rng: np.random.Generator, topics: int) -> Floats:
    """Draws values of eight runs on topics, shape (runs, topics)."""
    common = rng.standard_normal(topics)
    own = rng.standard_normal((len(QUALITIES), topics))
    u = special.ndtr(np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * own)
    q = QUALITIES[:, None]
    if measure == "nDCG":
        return np.asarray(stats.beta.ppf(u, 3 * q, 3 * (1 - q)), np.float64)
    relevance = stats.beta.ppf(u, 1.2 * q, 1.2 * (1 - q))  # chance that a result is relevant; many topics near 0
    if measure == "P@10":
        return np.asarray(rng.binomial(10, relevance) / 10.0, np.float64)
    ranks = rng.geometric(np.clip(relevance, 1e-9, 1.0))
    return np.where(ranks <= 100, 1.0 / ranks, 0.0).astype(np.float64)


@cache
def population(measure: str) -> Floats:
    """Returns the means of the eight runs over the population."""
    means: Floats = values(measure, np.random.default_rng(0), LARGE).mean(axis=1)
    return means


def percentile(sample: Floats, resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Returns percentile intervals of the means, and of the ranks as floats: the usual percentiles."""
    n = sample.shape[1]
    drawn = np.random.default_rng(seed).integers(n, size=(resamples, n))
    means = sample[:, drawn].mean(axis=2).T
    cut = [int(0.025 * resamples), resamples - 1 - int(0.025 * resamples)]
    return np.sort(means, axis=0)[cut], np.sort(ranks_of_means(means), axis=0)[cut].astype(np.float64)


def bca(sample: Floats, resamples: int, seed: int) -> Floats:
    """Returns BCa intervals of the means; NaN, which covers nothing, where all values are equal."""
    rng = np.random.default_rng(seed)
    found = stats.bootstrap((sample,), np.mean, n_resamples=resamples, axis=1, method="BCa", rng=rng)
    return np.stack([found.confidence_interval.low, found.confidence_interval.high])


def covered(ends: Floats, true: Floats) -> Floats:
    """Returns whether each interval covers, with the tolerance of rounding."""
    inside: Floats = ((ends[0] <= true + 1e-12) & (true <= ends[1] + 1e-12)).astype(np.float64)
    return inside


def measured(measure: str, n: int, samples: int, resamples: int) -> list[str]:
    """Returns a row of the table."""
    rng = np.random.default_rng([n, len(measure)])
    true = population(measure)
    rank = ranks_of_means(true).astype(np.float64)
    ways: dict[str, Callable[[Floats, int], tuple[Floats, Floats]]] = {
        "t": lambda sample, seed: (np.stack(mean_intervals(sample)), true),
        "percentile": lambda sample, seed: (percentile(sample, resamples, seed)[0], true),
        "BCa": lambda sample, seed: (bca(sample, resamples, seed), true),
        "expanded": lambda sample, seed: (np.stack(mean_resampled(sample, resamples=resamples, seed=seed)), true),
        "rank, percentile": lambda sample, seed: (percentile(sample, resamples, seed)[1], rank),
        "rank, expanded": lambda sample, seed: (_ranks(sample, resamples, seed), rank),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for seed in range(samples):
        sample = values(measure, rng, n)
        for name, way in ways.items():
            found[name].append(float(covered(*way(sample, seed)).mean()))
    return [measure, str(n), *(f"{np.mean(each):.3f}" for each in found.values())]


def _ranks(sample: Floats, resamples: int, seed: int) -> Floats:
    found = rank_intervals(sample, resamples=resamples, seed=seed)
    return np.stack([found.low, found.high]).astype(np.float64)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=1000)
    given = parser.parse_args()
    head = ("measure", "topics", "t", "percentile", "BCa", "expanded", "rank, percentile", "rank, expanded")
    rows = [measured(m, n, given.samples, given.resamples) for m in ("P@10", "RR", "nDCG") for n in TOPICS]
    show([head, *rows], markdown=True)


if __name__ == "__main__":
    main()

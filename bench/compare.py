"""Significance tests of all pairs of runs: `harness.scoring.compare` beside a loop over SciPy's permutation test.

    python -m bench.compare --markdown --json bench/results/compare.json

CrossMath's 60 runs are 20 on each of three editions of ARQMath; runs of one edition have topics in common, so all
pairs are 3 x 190. Both sides are asked for the randomization test of nDCG' with 10,000 sign flips. The harness makes a
whole row (t test, interval, effect size, detectable effect, corrections), SciPy the p alone: `permutation_test` of the
differences of topics with `permutation_type="samples"`, a vectorised statistic, and the batch that was fastest. Sides
alternate within each round; CPU seconds are medians over the rounds. `--every N` takes one pair of N only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from bench.scoring import files
from bench.table import Ratio, compared, in_turn, machine, options, save, show
from harness.collections.load import load_collection
from harness.data.trec import read_run
from harness.scoring.compare import compare
from harness.scoring.comparison import Comparison
from harness.scoring.randomization import LEAST as PERMUTATIONS
from harness.scoring.randomization import TOLERANCE
from harness.scoring.scores import Scores

MEASURE = "nDCG"
BATCH = 1000  # sign flips that SciPy makes at a time; 100 takes three times as long, all at once a fourth more
Pairs = list[tuple[str, str]]


def scored() -> dict[str, list[Scores]]:
    """Edition -> scores of its 20 runs, each with a name of its own."""
    scorers, found = {}, dict[str, list[Scores]]()
    for path, collection, edition in files():
        key = f"{collection} {edition}"
        if key not in scorers:
            scorers[key] = load_collection(collection).scorer(edition, "arqmath-task1", measures=(MEASURE,))
        runs = found.setdefault(key, [])
        runs.append(replace(scorers[key](read_run(path)), run=f"{len(runs):02d} {path.stem}"))
    return found


def ours(scores: Sequence[Scores], pairs: Pairs) -> Comparison:
    """`compare`, as `harness compare` calls it."""
    return compare(scores, pairs=pairs, measures=(MEASURE,))


def scipy_loop(scores: Sequence[Scores], pairs: Pairs) -> list[float]:
    """The p of each pair by SciPy."""
    from scipy import stats

    values = {score.run: score.column(MEASURE) for score in scores}
    how = {"permutation_type": "samples", "alternative": "greater", "vectorized": True, "batch": BATCH}
    found = []
    for number, (a, b) in enumerate(pairs):
        sample, mean = (values[a] - values[b],), lambda sample, axis: np.abs(np.mean(sample, axis=axis))
        found.append(float(stats.permutation_test(sample, mean, n_resamples=PERMUTATIONS, rng=number, **how).pvalue))
    return found


def furthest(found: Comparison, peer: Sequence[float]) -> float:
    """The largest difference of p between the sides, in standard errors of a difference of two drawn p."""
    errors = []
    for row, p in zip(found.rows, peer, strict=True):
        most = max(row.p_randomization, p)
        spread = math.sqrt(most * (1 - most) / PERMUTATIONS * (1 if row.p_randomization_error is None else 2))
        errors.append(abs(row.p_randomization - p) / spread if spread else 0.0)
    return max(errors)


def measure(rounds: int, every: int) -> tuple[list[tuple[str, ...]], Ratio]:
    """The table, and its ratio."""
    rows: list[tuple[str, ...]] = [
        ("runs", "pairs", "topics", "harness, CPU s", "SciPy, CPU s", "SciPy / harness", "largest difference of p, SE")
    ]
    sums = {"harness": np.zeros(rounds), "SciPy": np.zeros(rounds)}
    count = 0
    for edition, scores in scored().items():
        assert all(not np.isnan(score.values).any() for score in scores), "the sides would differ in their topics"
        pairs = list(combinations([score.run for score in scores], 2))[::every]
        ours(scores, pairs[:2]), scipy_loop(scores, pairs[:2])  # imported before the clock starts
        both = partial(ours, scores, pairs), partial(scipy_loop, scores, pairs)
        spent = in_turn({"harness": both[0], "SciPy": both[1]}, rounds)
        for name, side in spent.items():
            sums[name] += side.cpu
        line = compared(edition, spent["harness"].cpu, spent["SciPy"].cpu, "SciPy")
        apart = furthest(spent["harness"].result, spent["SciPy"].result)
        sizes = (str(len(scores)), str(len(pairs)), str(len(scores[0].topics)))
        rows.append((*sizes, f"{line.ours:.2f}", f"{line.theirs:.2f}", f"{line.ratio:.1f}", f"{apart:.1f}"))
        count += len(pairs)
    work = f"all pairs of 20 runs of three editions, {PERMUTATIONS:,} sign flips"
    total = compared(work, sums["harness"].tolist(), sums["SciPy"].tolist(), "scipy.stats.permutation_test", 10.0)
    rows.append(("60", str(count), "", f"{total.ours:.2f}", f"{total.theirs:.2f}", f"{total.ratio:.1f}", ""))
    return rows, total


def main() -> None:
    """Print the table."""
    parser = options(__doc__, rounds=5, ratios=True)
    parser.add_argument("--every", type=int, default=1, help="take one pair of so many")
    chosen = parser.parse_args()
    rows, ratio = measure(chosen.rounds, chosen.every)
    show(rows, chosen.markdown)
    print(f"\n{machine(['scipy'])}; tolerance of a tie {TOLERANCE:g}")
    if chosen.json:
        save(chosen.json, [ratio], ["scipy"])


if __name__ == "__main__":
    main()

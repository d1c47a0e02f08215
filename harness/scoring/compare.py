"""Differences between runs: paired tests over topics, and corrections for many tests.

Sources: Fisher's randomization test as used in retrieval (Smucker, Allan and Carterette, CIKM 2007); the Monte Carlo
p-value that is never 0 (Phipson and Smyth, 2010); step-down corrections (Holm, 1979; Westfall and Young, 1993).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np

from harness.data.columns import Floats, Index
from harness.errors import HarnessError, counted_text, suggestion
from harness.io.console import track
from harness.scoring.comparison import MARKS, TESTS, Comparison, Kind, Marks, PairDifference, Pairs, Test
from harness.scoring.equivalence import Margin, check_margin, equivalence_tests
from harness.scoring.intervals import detectable_shift, mean_errors, numbers_of_names, paired_t
from harness.scoring.measures import parse_measure
from harness.scoring.random_effects import seed_test, stratified_error
from harness.scoring.randomization import TOLERANCE, check_flips, child_seed, flips_for, shared_flips, sign_flips
from harness.scoring.scores import Scores, check_alike


def compare(
    scores: Sequence[Scores],
    baseline: str | None = None,
    pairs: Pairs | None = None,
    measures: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    family: int | None = None,
    test: Test = "t",
    permutations: int | None = None,
    seed: int = 0,
    power: float = 0.8,
    confidence: float = 0.95,
    clusters: Mapping[str, str] | None = None,
    strata: Mapping[str, str] | None = None,
    correction: Marks = "bonferroni",
    margin: Margin | None = None,
    kind: Kind = "equivalence",
) -> Comparison:
    """Tests the runs against a baseline, in given pairs, or (by default) all against all.

    Parameters
    ----------
    measures : default: those of the first run. Rows are ordered by pair, then by measure in this order.
    family : number of tests to correct for; None: the number of rows. A larger number includes tests made elsewhere.
    test : test whose p is corrected and decides significance.
    permutations : sign flips drawn per row; if the non-zero differences have no more sign flips, all are enumerated.
        None: 10,000, and for the randomization test as many as a corrected p of alpha needs, 10 x family / alpha.
    clusters : topic -> its cluster of dependent topics; None if topics are independent. Means stay those over topics;
        errors are cluster-robust, and the randomization test flips the signs of whole clusters.
    strata : topic -> its collection (`harness.scoring.random_effects.stratified_error`); None: all topics are of one.
    correction : the one that tables mark; `maxT` adds the max-statistic permutation test over the tests made here.
    margin, kind : also test equivalence, or non-inferiority of `a`, within this margin (`harness.scoring.equivalence`).

    Raises HarnessError for runs of unlike collection, edition, protocol or judgments, unknown or repeated names, a pair
    with fewer than two common topics (clusters), an option out of its range, too few permutations for any significance.
    """
    identity = common_identity(scores)
    runs = {score.run: score for score in scores}
    tested = _pairs(list(runs), baseline, pairs)
    used = common_measures(scores, measures)
    count = len(tested) * len(used)
    family = count if family is None else family
    wanted = flips_for(family if test == "randomization" else 1, alpha)
    plan = Comparison(
        rows=(),
        baseline=baseline,
        family=family,
        test=test,
        alpha=alpha,
        confidence=confidence,
        power=power,
        permutations=wanted if permutations is None else permutations,
        seed=seed,
        marks=correction,
        **identity,
    )
    _check_options(plan, count)
    margins = {} if margin is None else check_margin(margin, used)
    # Sorted, so that the order of topics or of the pair does not change the last digit of a difference.
    topics = sorted({topic for score in scores for topic in score.topics})
    place = {topic: at for at, topic in enumerate(topics)}
    places = {run: np.array([place[topic] for topic in score.topics], dtype=np.int64) for run, score in runs.items()}
    columns = {key: np.full(len(topics), np.nan) for key in product(runs, used)}
    for (run, measure), column in columns.items():
        column[places[run]] = runs[run].column(measure)
    whole = {(run, measure): float(column[places[run]].mean()) for (run, measure), column in columns.items()}
    of = None if clusters is None else numbers_of_names([clusters[topic] for topic in topics])
    parts = None if strata is None else numbers_of_names([strata[topic] for topic in topics])
    tests = [*product(tested, used)]
    shared = shared_flips(tests, columns, of, plan.permutations, seed) if correction == "maxT" else {}
    rows, highest = [], {measure: parse_measure(measure).highest for measure in used}
    for (a, b), measure in track(tests, "significance tests"):
        sides = [(columns[run, measure], places[run], whole[run, measure]) for run in (a, b)]
        rows.append(_row(plan, (a, b, measure), highest[measure], sides, (of, parts), shared.get((a, b, measure))))
    corrected_rows = corrected(plan, rows)
    equivalence = equivalence_tests(corrected_rows, margins, family=family, alpha=alpha, kind=kind)
    return replace(plan, rows=corrected_rows, equivalence=equivalence, correction=_describe(plan, rows, strata))


def over_seeds(comparison: Comparison, a: Sequence[Scores], b: Sequence[Scores]) -> Comparison:
    """Returns a comparison of two runs that are means over seeds, with t-tests over topics and seeds.

    Randomization tests stay those of the means over seeds.

    Parameters
    ----------
    a, b : scores of each seed of the two runs, one for a run without seeds.
    """
    rows = []
    for row in comparison.rows:
        columns = [np.array([scores.column(row.measure) for scores in side]) for side in (a, b)]
        counted = ~np.isnan(np.concatenate(columns)).any(axis=0)
        test = seed_test(columns[0][:, counted], columns[1][:, counted], 1.0 - comparison.confidence)
        sd, family = math.sqrt(row.n) * test.error, comparison.family
        highest = parse_measure(row.measure).highest
        rows.append(
            replace(
                row,
                ci_low=test.low,
                ci_high=test.high,
                sd=sd,
                effect_size=row.difference / sd if sd else None,
                t=row.difference / test.error if test.error else None,
                p=test.p if test.error else None,
                detectable=_detectable(comparison, highest, test.freedom, test.error, comparison.alpha),
                detectable_corrected=_detectable(
                    comparison, highest, test.freedom, test.error, comparison.alpha / family
                ),
                freedom=test.freedom,
                seeds_a=len(a),
                seeds_b=len(b),
            )
        )
    return replace(comparison, rows=corrected(comparison, rows), correction=_describe(comparison, rows))


def join_comparisons(parts: Sequence[Comparison]) -> Comparison:
    """Joins comparisons of one family: concatenates their rows and corrects over all of them.

    Collection, edition and judgments are those of the first comparison.

    Raises
    ------
    HarnessError
        There are no comparisons, or they have more rows than the family of the first one.
    """
    if not parts:
        raise HarnessError("there are no comparisons to join")
    plan, rows = replace(parts[0], rows=()), [row for part in parts for row in part.rows]
    _check_options(plan, len(rows))
    return replace(plan, rows=corrected(plan, rows), correction=_describe(plan, rows))


def _check_options(plan: Comparison, count: int) -> None:
    for name, low, value, high in (
        ("alpha", 0.0, plan.alpha, 1.0),
        ("confidence", 0.0, plan.confidence, 1.0),
        ("power", plan.alpha, plan.power, 0.9999),  # with no difference at all, alpha is the power
    ):
        if not low < value < high:
            raise HarnessError(f"{name}: {value:g} is not between {low:g} and {high:g}")
    if plan.permutations < 1:
        raise HarnessError(f"permutations: {plan.permutations} is less than 1")
    if plan.test not in TESTS:
        raise HarnessError(f"unknown test {plan.test!r}; {suggestion(plan.test, TESTS)}")
    if plan.test == "randomization":
        check_flips(plan.permutations, plan.family, plan.alpha)
    if plan.marks not in MARKS:
        raise HarnessError(f"unknown correction {plan.marks!r}; {suggestion(plan.marks, MARKS)}")
    if plan.marks == "maxT" and plan.family > count:
        raise HarnessError(f"family: maxT corrects for the {count} tests made here; leave the family out")
    if plan.family < count:
        raise HarnessError(f"family: {plan.family} is less than the {count} tests compared here; give {count} or more")


def common_identity(scores: Sequence[Scores]) -> dict[str, Any]:
    """Checks that all scores have the same collection, edition, judgments and protocol, and returns these."""
    if not scores:
        raise HarnessError("there are no runs to compare")
    first, names = scores[0], Counter(score.run for score in scores)
    keys = ("collection", "edition", "qrels_sha256")
    for score in scores:
        if names[score.run] > 1:
            raise HarnessError(f"{names[score.run]} runs are named {score.run!r}; give each its own name")
        check_alike(first, score, keys)
    return {**{key: getattr(first, key) for key in keys}, "protocol": first.protocol.name}


def _pairs(names: Sequence[str], baseline: str | None, pairs: Pairs | None) -> list[tuple[str, str]]:
    if baseline is not None and pairs is not None:
        raise HarnessError("give a baseline or pairs, not both")
    for name in [baseline] if baseline is not None else [name for pair in pairs or () for name in pair]:
        if name not in names:
            raise HarnessError(
                f"unknown run {name!r}; {suggestion(name, names)} (a run is named by its tag, or as NAME=FILE)"
            )
    against = [(name, baseline) for name in names if baseline is not None and name != baseline]
    chosen = against or list(combinations(names, 2) if pairs is None else pairs)
    if not chosen:
        raise HarnessError("there are no pairs of runs to compare; give at least two runs")
    times = Counter(frozenset(pair) for pair in chosen)
    for a, b in chosen:
        if a == b or times[frozenset((a, b))] > 1:
            raise HarnessError(f"pair {a!r}, {b!r}: name two different runs, and each pair once, in either order")
    return chosen


def common_measures(scores: Sequence[Scores], measures: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the measures to compare; raises HarnessError unless every run has all of them."""
    chosen = scores[0].measures if measures is None else tuple(measures)
    if not chosen:
        raise HarnessError("there are no measures to compare")
    if twice := [measure for measure in chosen if chosen.count(measure) > 1]:
        raise HarnessError(f"measure {twice[0]!r} is named twice")
    for measure in chosen:
        for score in scores:
            score.column(measure)  # names the run that lacks it
    return chosen


def _row(
    plan: Comparison,
    named: tuple[str, str, str],
    highest: float,
    sides: Sequence[tuple[Floats, Index, float]],
    groups: tuple[Index | None, Index | None],
    shared: tuple[float, float, float | None] | None,
) -> PairDifference:
    """Returns the tests of a pair and a measure.

    Parameters
    ----------
    sides : of each run, values by topic, the topics in the order of the run, and the mean if all of them count.
    groups : numbers of the topics' clusters and collections; None where there is one topic to each, or one collection.
    """
    clusters, strata = groups
    a, b, measure = named
    counted = [~np.isnan(values) for values, *_ in sides]
    common = counted[0] & counted[1]
    of = None if clusters is None else numbers_of_names(clusters[common].tolist())
    n = int(np.count_nonzero(common)) if of is None else int(of.max(initial=-1)) + 1
    if n < 2:
        has = f"have {counted_text(n, 'topic' if of is None else 'cluster')} for {measure} in common"
        raise HarnessError(f"runs {a} and {b} {has}; a test needs 2 or more")
    x, y = (values[common] for values, *_ in sides)
    differences = x - y
    differences[np.abs(differences) <= TOLERANCE] = 0.0
    difference = float(differences.mean())
    flipped = units_apart = differences
    if of is None:
        sd, freedom = float(differences.std(ddof=1)), n - 1.0
    else:
        _, error, freedoms, _ = mean_errors(differences[None, :], of)
        sd, freedom = math.sqrt(n) * float(error[0]), float(freedoms[0])
        flipped = np.bincount(of, differences).astype(np.float64)
        flipped[np.abs(flipped) <= TOLERANCE] = 0.0
        units_apart = flipped / np.bincount(of)
    if strata is not None:
        of_all, freedom = stratified_error(differences, numbers_of_names(strata[common].tolist()), of)
        if math.isnan(sd := math.sqrt(n) * of_all) or {*strata[common].tolist()} < {*strata.tolist()}:
            raise HarnessError(f"runs {a} and {b} have fewer than two topics for {measure} in common on a collection")
    if sd <= TOLERANCE * max(1.0, float(np.abs(x).max()), float(np.abs(y).max())):
        sd = 0.0
    effect_size, statistic, p, margin = paired_t(difference, sd, n, freedom, plan.confidence)
    p_max_t = None
    if shared is None:
        child = child_seed(plan.seed, a, b, measure)
        p_randomization, p_error = sign_flips(flipped, plan.permutations, child, TOLERANCE)
    else:
        p_randomization, p_max_t, p_error = shared
    n_a, n_b = (int(np.count_nonzero(each)) if clusters is None else len(np.unique(clusters[each])) for each in counted)
    # In the run's own topic order: if no topic is dropped, this equals `Scores.mean` to the last bit.
    every = bool(common.all())
    mean_a, mean_b = (mean if every else float(values[order][common[order]].mean()) for values, order, mean in sides)
    error_of_mean = sd / math.sqrt(n)
    return PairDifference(
        a=a,
        b=b,
        measure=measure,
        n=n,
        n_a=n_a,
        n_b=n_b,
        mean_a=mean_a,
        mean_b=mean_b,
        difference=difference,
        ci_low=difference - margin,
        ci_high=difference + margin,
        sd=sd,
        effect_size=effect_size,
        t=statistic,
        p=p,
        p_randomization=p_randomization,
        p_randomization_error=p_error,
        wins=int(np.count_nonzero(units_apart > 0)),
        ties=int(np.count_nonzero(units_apart == 0)),
        losses=int(np.count_nonzero(units_apart < 0)),
        detectable=_detectable(plan, highest, freedom, error_of_mean, plan.alpha),
        detectable_corrected=_detectable(plan, highest, freedom, error_of_mean, plan.alpha / plan.family),
        freedom=freedom,
        p_max_t=p_max_t,
        significant_max_t=None if p_max_t is None else p_max_t < plan.alpha,
    )


def _detectable(plan: Comparison, highest: float, freedom: float, error: float, alpha: float) -> float | None:
    least = detectable_shift(freedom, alpha, plan.power) * error
    return least if 0.0 < least <= highest else None


def corrected(plan: Comparison, rows: Sequence[PairDifference]) -> tuple[PairDifference, ...]:
    """Returns the rows with corrected p-values. An undefined p stays undefined, and Holm's procedure ranks it last."""
    raw = [row.p if plan.test == "t" else row.p_randomization for row in rows]
    corrected, holm = list(rows), 0.0
    for rank, (p, i) in enumerate(sorted((p, i) for i, p in enumerate(raw) if p is not None)):
        bonferroni = min(1.0, p * plan.family)
        holm = max(holm, min(1.0, p * (plan.family - rank)))
        marks = {"p_bonferroni": bonferroni, "p_holm": holm, "significant": p < plan.alpha}
        marks |= {"significant_bonferroni": bonferroni < plan.alpha, "significant_holm": holm < plan.alpha}
        corrected[i] = PairDifference(**{**vars(rows[i]), **marks})  # several times as fast as `replace`
    return tuple(corrected)


def _describe(plan: Comparison, rows: Sequence[PairDifference], strata: Mapping[str, str] | None = None) -> str:
    name = "paired t-test" if plan.test == "t" else "paired randomization test"
    undefined = sum(row.p is None for row in rows) if plan.test == "t" else 0
    family = f"a family of {counted_text(plan.family, 'test')}"
    words = f"two-sided {name}, alpha {plan.alpha:g}; Bonferroni and Holm over {family}"
    words += f", {len(rows)} of them shown" if plan.family > len(rows) else ""
    words += f", {undefined} of them undefined (constant differences) but counted" if undefined else ""
    if any(max(row.seeds_a, row.seeds_b) > 1 for row in rows):
        words += "; of trained systems the t-test is over topics and seeds, both random"
    words += f"; the t-test is stratified by {len(set(strata.values()))} collections" if strata else ""
    words += "; maxT by sign flips that all tests share" if plan.marks == "maxT" else ""
    errors = [row.p_randomization_error for row in rows if row.p_randomization_error is not None]
    if not errors:
        return f"{words}; randomization tests are exact"
    some = counted_text(len(errors), "randomization test draws", "randomization tests draw")
    which = "randomization tests draw" if len(errors) == len(rows) else some
    return f"{words}; {which} {plan.permutations:,} sign flips, standard error of p at most {max(errors):.2g}"

"""Error rates and power of the tests, by simulation on the scores of real runs.

    HARNESS_MIRROR=... python -m bench.errors [--trials 400] [--markdown]

The scores are those of eight runs of participants of ARQMath-1, Task 1 (77 topics), by four measures. Each trial
permutes the runs within every topic, in all measures alike, so that no run is better than another, whatever the
correlations of topics, measures and runs:

- families: all pairs by all measures (112 tests) at alpha 0.05. Familywise: trials with any rejection. Power: half of
  the runs get a difference that is added to their scores; the share of the pairs that truly differ which are rejected.
- equivalence: two runs, with a true difference of the margin (0.02), of half of it, and of 0; trials in which two
  one-sided tests call them equivalent, by topics, which are drawn with replacement.
- seeds: normal components of variance (topics 0.2, seeds 0.013, seeds by topic 0.05; methods by topic 0 or 0.05), two
  methods on the same topics; trials in which methods that do not differ are called different at alpha 0.05.
- printed: differences of rows that claims of two papers name, which print no values of topics, beside the difference
  that a paired test of 77 topics finds in 80 % of cases, from the runs above (Sakai, 2016).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from scipy import special

from bench.leak import TEAMS, file_of
from bench.table import options, show
from harness.collections.files import local
from harness.data.columns import Floats
from harness.data.trec import read_run
from harness.experiments.task import task
from harness.papers.map import row_labels
from harness.papers.paper import load_paper
from harness.scoring.planning import plan_tests
from harness.scoring.random_effects import seed_test
from harness.scoring.randomization import step_down_max_t
from harness.scoring.scores import values_of
from harness.sources.fetch import fetch_resources

MEASURES = ("nDCG", "AP", "P@10", "Bpref")
ALPHA, FLIPS, MARGIN = 0.05, 1000, 0.02
SHIFTS = (0.0, 0.05, 0.1)
PAPERS = ("mirmu-msm", "mathamr-plus")


def score_matrix() -> Floats:
    """Returns scores of the runs, shape (measures, topics, runs)."""
    fetch_resources([file_of(path) for path in TEAMS])
    bench = task("arqmath-1-task1", measures=list(MEASURES))
    scores = [bench.scorer(read_run(local(file_of(path)), name=str(n))) for n, path in enumerate(TEAMS)]
    out: Floats = np.nan_to_num(np.stack([values_of(scores, measure) for measure in MEASURES]))
    return out


def permuted(matrix: Floats, random: np.random.Generator) -> Floats:
    """Returns the scores with the runs permuted within every topic, in all measures alike."""
    _, topics, runs = matrix.shape
    order = random.permuted(np.tile(np.arange(runs), (topics, 1)), axis=1)
    out: Floats = np.take_along_axis(matrix, order[None, :, :], axis=2)
    return out


def t_test_p(differences: Floats) -> Floats:
    """Returns the two-sided p of paired t-tests, shape (tests,), of differences, shape (topics, tests)."""
    n = len(differences)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = differences.mean(axis=0) / differences.std(axis=0, ddof=1) * np.sqrt(n)
    out: Floats = np.nan_to_num(2.0 * special.stdtr(n - 1.0, -np.abs(t)), nan=1.0)
    return out


def holm(p: Floats) -> Floats:
    """Returns p-values after Holm's correction."""
    order = np.argsort(p)
    out = np.empty(len(p))
    out[order] = np.maximum.accumulate(np.minimum(1.0, p[order] * np.arange(len(p), 0, -1)))
    return out


def families(matrix: Floats, trials: int, shift: float, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Returns correction -> share of trials with a false rejection, and share of true differences rejected."""
    random = np.random.default_rng(seed)
    runs = matrix.shape[2]
    a, b = np.triu_indices(runs, 1)
    better = np.arange(runs) < runs // 2
    true = np.tile((better[a] != better[b]) & (shift > 0), len(matrix))
    wrong: dict[str, list[bool]] = {}
    found: dict[str, list[float]] = {}
    for trial in range(trials):
        scores = permuted(matrix, random) + shift * better
        differences = np.concatenate([each[:, a] - each[:, b] for each in scores], axis=1)
        p = t_test_p(differences)
        _, largest, _ = step_down_max_t(differences, FLIPS, trial)
        by = {"none": p, "Bonferroni": p * len(p), "Holm": holm(p), "maxT": largest}
        for name, corrected in by.items():
            rejected = corrected < ALPHA
            wrong.setdefault(name, []).append(bool(rejected[~true].any()))
            found.setdefault(name, []).append(float(rejected[true].mean()) if true.any() else 0.0)
    return {name: (float(np.mean(wrong[name])), float(np.mean(found[name]))) for name in wrong}


def equivalent(matrix: Floats, trials: int, topics: int, difference: float, seed: int = 0) -> float:
    """Returns the share of trials in which two runs with a true difference in nDCG are called equivalent."""
    random = np.random.default_rng(seed)
    apart = matrix[0][:, 0] - matrix[0][:, 1]
    apart = apart - apart.mean() + difference
    called = 0
    for _ in range(trials):
        drawn = apart[random.integers(0, len(apart), topics)]
        error = drawn.std(ddof=1) / np.sqrt(topics)
        called += float(special.stdtr(topics - 1.0, -(MARGIN - abs(drawn.mean())) / error)) < ALPHA
    return called / trials


def seed_errors(trials: int, seeds: int, by_topic: float, seed: int = 0) -> tuple[float, float]:
    """Returns the shares of equal methods called different: by means over seeds, and over topics and seeds."""
    random = np.random.default_rng(seed)
    wrong = np.zeros(2)
    for _ in range(trials):
        topic = random.normal(0.4, 0.2, 77)
        sides = [
            topic
            + random.normal(0.0, by_topic, 77)
            + random.normal(0.0, 0.013, (seeds, 1))
            + random.normal(0.0, 0.05, (seeds, 77))
            for _ in range(2)
        ]
        means = (sides[0].mean(axis=0) - sides[1].mean(axis=0))[:, None]
        wrong += [float(t_test_p(means)[0]) < ALPHA, seed_test(sides[0], sides[1]).p < ALPHA]
    return float(wrong[0] / trials), float(wrong[1] / trials)


def measures_of(key: str) -> Mapping[str, str]:
    """Returns metric of a paper -> its measure here."""
    scored = load_paper(key).scored
    return {} if scored is None else scored.measures


def printed_differences(key: str) -> Iterator[tuple[str, str, list[float]]]:
    """Yields claim, metric and the printed differences of the rows that the claim names."""
    paper = load_paper(key)
    labels = row_labels(paper)
    known = {
        (f"{c.table}: {labels[c.table, c.group, c.system]}", c.collection, c.slice, c.metric): float(c.value)
        for c in paper.cells
    }
    for claim in paper.config.claims:
        for metric in claim.metrics:
            differences = []
            for first, second in claim.rows:
                for (row, collection, part, of), value in known.items():
                    other = known.get((second, collection, part, of))
                    wanted = claim.collections or (collection,)
                    if (row, of) == (first, metric) and other is not None and collection in wanted:
                        differences.append(value - other)
            if differences:
                yield claim.title, metric, differences


def tables(matrix: Floats, trials: int) -> Iterator[tuple[str, list[list[str]]]]:
    """Yields the title and the rows of each table."""
    rows = [["true difference", "share of searches", "none", "Bonferroni", "Holm", "maxT"]]
    for shift in SHIFTS:
        found = families(matrix, trials, shift)
        rows.append([f"{shift:g}", "familywise error", *(f"{100 * error:.1f} %" for error, _ in found.values())])
        if shift:
            rows.append([f"{shift:g}", "power", *(f"{100 * power:.1f} %" for _, power in found.values())])
    yield f"Families of all pairs of {matrix.shape[2]} runs by {len(matrix)} measures", rows
    rows = [["topics", "difference 0.02 (the margin)", "difference 0.01", "difference 0"]]
    for topics in (77, 300, 1000, 3000):
        rates = [equivalent(matrix, 5 * trials, topics, each) for each in (MARGIN, MARGIN / 2, 0.0)]
        rows.append([f"{topics:,}", *(f"{100 * rate:.1f} %" for rate in rates)])
    yield "Two runs called equivalent within 0.02", rows
    rows = [["methods by topic", "seeds", "paired test of means over seeds", "over topics and seeds"]]
    for by_topic in (0.05, 0.0):
        for seeds in (2, 3, 5, 10):
            errors = seed_errors(5 * trials, seeds, by_topic)
            rows.append([f"{by_topic:g}", str(seeds), *(f"{100 * rate:.1f} %" for rate in errors)])
    yield "Equal methods called different", rows
    rows = [["claim", "measure", "differences in print", "detectable", "as large"]]
    for paper in PAPERS:
        for title, metric, differences in printed_differences(paper):
            measure = measures_of(paper)[metric]
            plan = plan_tests(matrix[MEASURES.index(measure)], measure, [MARGIN])
            least, most = f"{min(differences):.3f}", f"{max(differences):.3f}"
            spread = least if least == most else f"{least} to {most}"
            large = sum(abs(each) >= plan.detectable for each in differences)
            row = [title, measure, spread.replace("-", "\N{MINUS SIGN}"), f"{plan.detectable:.3f}"]
            rows.append([*row, f"{large} of {len(differences)}"])
    yield "Differences in print beside what 77 topics detect", rows


def main() -> None:
    """Print the tables."""
    parser = options(__doc__)
    parser.add_argument("--trials", type=int, default=400)
    asked = parser.parse_args()
    for title, rows in tables(score_matrix(), asked.trials):
        print(f"## {title}\n" if asked.markdown else title)
        show(rows, asked.markdown)
        print(flush=True)


if __name__ == "__main__":
    main()

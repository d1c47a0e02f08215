"""What attackers learn from a lab with private judgments, by attack and defence, and what honest teams lose.

    HARNESS_MIRROR=... python -m bench.leak [--seeds 11] [--trials 1000] [--markdown]

The judgments are those of ARQMath-1, Task 1 (77 topics). Attacks on chosen judgments, each of which is a coin's toss:

- edge: a binary search for the number of own results at which a rounded mean jumps; every other submission adds one
  chosen document in an unused topic. Against noise: one chosen document in a run that scores 0 without it.
- resubmit: five nearly equal runs for each chosen document, to average out the noise.
- weigh 20, weigh 77: each submission has a random half of so many chosen documents, one in a topic; least squares.

Told beyond guessing are the right guesses less half of the chosen judgments. Attacks on the ranking: the attacker has
the first 20 results of each topic of a real run of 2020, and re-ranks them by the shown means. The gain is that of the
exact mean of nDCG' over its own run, by the median over seeds, which draw the held-out half and the attacks' choices:

- probe: one document in one topic, fillers elsewhere; a mean above 0 tells that it is relevant.
- drop: moves one document to the end; if a mean falls, it was relevant and returns.
- climb 1, 10, all: moves a document to the top in 1, 10 or all topics, and keeps that if a mean rises and none falls.
- boost: random documents to the top in all topics at once, and a vote weighted by the sum of the means, after the
  attack of Blum and Hardt (ICML 2015).

What honest teams lose: Kendall's tau of the shown with the exact ranking of eight real teams.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import kendalltau

from bench.table import options, show
from harness.collections.files import local
from harness.data.columns import Floats, Index
from harness.data.trec import Run, read_run
from harness.experiments.task import Task, task
from harness.labs.draw import drawn, least_width
from harness.labs.shown_scores import climbed
from harness.scoring.measures import discounts
from harness.scoring.scores import least_step, rounded_to_step
from harness.sources import catalogue
from harness.sources.fetch import fetch_resources
from harness.sources.resource import Resource

SOURCE, OURS = "arqmath-psu", "notebooks/final_runs/prim_MIRMU-task1-Ensemble-auto-both-A.tsv"
TEAMS = (  # runs of participants of 2020
    OURS,
    *(
        f"final_runs/{name}.tsv"
        for name in ("prim_psu-task1-auto-both-A2", "prim_psu-task1-auto-both-P", "psu-task1-auto-both-A")
    ),
    *(
        f"notebooks/final_runs/{name}.tsv"
        for name in ("DPRL_task1_auto_both_A3", "prim_Approach0", "prim_zbMATH-task1-auto-both-P")
    ),
    "notebooks/final_runs/prim_MathDowsers-task1-alpha05noReRank-auto-both-A.tsv",
)
MEASURES = ("nDCG", "RR", "P@10")
DEPTH = 20
SUBMISSIONS = (20, 100, 1000)


class World:
    """Judgments of the candidates: arrays of shape (topics, DEPTH); a run is an order of them, of the same shape."""

    def __init__(self, bench: Task, run: Run) -> None:
        qrels, ranked = bench.scorer.qrels.to_dict(), run.to_dict()
        self.bench = bench
        self.topics = bench.scorer.qrels.topics
        self.docs = [sorted(ranked.get(t, {}), key=lambda d, t=t: -ranked[t][d])[:DEPTH] for t in self.topics]  # type: ignore[misc]
        shape = (len(self.topics), DEPTH)
        self.gain, self.judged = np.zeros(shape), np.zeros(shape, dtype=bool)
        self.there = np.zeros(shape, dtype=bool)
        for row, (topic, docs) in enumerate(zip(self.topics, self.docs, strict=True)):
            grades = [qrels[topic].get(doc) for doc in docs]
            self.there[row, : len(docs)] = True
            self.judged[row, : len(docs)] = [grade is not None for grade in grades]
            self.gain[row, : len(docs)] = [grade or 0.0 for grade in grades]
        self.relevant = self.gain >= bench.scorer.protocol.relevant_from
        self.ideal = np.array([_dcg(sorted(qrels[t].values(), reverse=True)) for t in self.topics])
        self.start: Index = np.tile(np.arange(DEPTH), (len(self.topics), 1))

    def scores(self, order: Index, kept: npt.NDArray[np.bool_] | None = None) -> Floats:
        """Values of `MEASURES`, shape (topics, measures); `kept`: candidates that are in the run, all by default."""
        judged = self.judged if kept is None else self.judged & kept
        judged = np.take_along_axis(judged, order, 1)
        rank = np.cumsum(judged, axis=1)  # unjudged documents are removed
        gain = np.take_along_axis(self.gain, order, 1) * judged
        relevant = np.take_along_axis(self.relevant, order, 1) & judged
        dcg = (gain / np.log2(np.maximum(rank, 1) + 1)).sum(axis=1)
        first = np.where(relevant, 1.0 / np.maximum(rank, 1), 0.0).max(axis=1)
        out = (np.divide(dcg, self.ideal, out=np.zeros_like(dcg), where=self.ideal > 0), first)
        return np.stack([*out, (relevant & (rank <= 10)).sum(axis=1) / 10], axis=1)

    def ranked(self, order: Index) -> dict[str, dict[str, float]]:
        """The run as topic -> document -> score."""
        return {
            topic: {docs[at]: float(DEPTH - rank) for rank, at in enumerate(row) if at < len(docs)}
            for topic, docs, row in zip(self.topics, self.docs, order.tolist(), strict=True)
            if docs
        }

    def check(self, order: Index) -> None:
        """Fails unless the harness computes the same scores of a run."""
        ours = self.bench.scorer(Run.from_dict("check", self.ranked(order)))
        theirs = np.stack([ours.column(measure) for measure in MEASURES], axis=1)
        assert ours.topics == self.topics
        assert np.allclose(self.scores(order), theirs, atol=1e-9)


def _dcg(grades: Sequence[float]) -> float:
    return float((np.array(grades) * discounts(len(grades))).sum()) if grades else 0.0


@dataclass(frozen=True)
class Defence:
    """What a lab shows: the first measure's means with noise, or nothing.

    Without noise, means are rounded to a step (0: 2 / topics).
    """

    name: str
    step: float = 0.0
    noisy: bool = True
    ladder: bool = False
    held_out: bool = False
    feedback: bool = True


DEFENCES = (
    Defence("none: two decimals", step=0.01, noisy=False),
    Defence("step of 2 / topics", noisy=False),
    Defence("noise"),
    Defence("noise, ladder", ladder=True),
    Defence("noise, held-out half", held_out=True),
    Defence("noise, ladder, held-out half", ladder=True, held_out=True),
    Defence("no feedback (default)", feedback=False),
)


class Lab:
    """One lab as the attacker sees it: submissions in, shown means out."""

    def __init__(self, world: World, defence: Defence, seed: int) -> None:
        half = drawn(f"{seed:064x}", world.topics)
        self.half = np.array([topic in half for topic in world.topics])
        self.world, self.defence = world, defence
        self.public = self.half if defence.held_out else np.ones_like(self.half)
        self.n = int(self.public.sum())
        self.step = defence.step or least_step(self.n)
        self.width = least_width(self.n) if defence.noisy else 0.0
        self.draw = np.random.default_rng(10_000 + seed)
        self.best: float | None = None

    def noise(self) -> float:
        """The noise of one mean, in widths."""
        return self.draw.random() - 0.5

    def shown(self, mean: float) -> float:
        """What is shown of one exact mean; NaN without feedback."""
        if not self.defence.feedback:
            return math.nan
        if not self.defence.noisy:
            return rounded_to_step(mean, self.step)
        noisy = round(mean + self.width * self.noise(), 2)
        if self.defence.ladder:
            noisy = self.best = climbed(noisy, self.best, self.width)
        return noisy

    def __call__(self, order: Index, kept: npt.NDArray[np.bool_] | None = None) -> Floats:
        """The means shown of a submission, shape (shown measures,)."""
        means = self.world.scores(order, kept)[self.public].mean(axis=0)
        return np.array([self.shown(mean) for mean in means[: 1 if self.defence.noisy else None].tolist()])


def ranked(marks: Index | Floats) -> Index:
    """The run that has documents with high marks first, equal ones in the order of the attacker's own run."""
    return np.argsort(-marks, axis=1, kind="stable")


def candidates(world: World) -> Iterator[tuple[int, int]]:
    """Topic and candidate, the first results of all topics first."""
    return ((row, at) for at in range(DEPTH) for row in range(len(world.topics)) if world.there[row, at])


Attack = Callable[[World, Lab, np.random.Generator], Iterator[Index]]


def probe(world: World, lab: Lab, draw: np.random.Generator) -> Iterator[Index]:
    """Asks for one document at a time; fillers below it and elsewhere are ids that were not judged."""
    marks, before = np.zeros(world.start.shape, dtype=np.int64), np.zeros(1)
    for row, at in candidates(world):
        kept = np.zeros(world.start.shape, dtype=bool)
        kept[row, at] = True
        shown = lab(world.start, kept)
        marks[row, at] = 1 if (shown > (before if lab.defence.ladder else 0.0)).any() else -1
        before = shown
        yield ranked(marks) if (marks > 0).any() else world.start  # else nothing was told


def drop(world: World, lab: Lab, draw: np.random.Generator) -> Iterator[Index]:
    """Moves documents to the end one by one, and back if a mean falls."""
    marks = np.zeros(world.start.shape, dtype=np.int64)
    place = np.zeros(world.start.shape)
    before = lab(ranked(place))
    yield world.start
    rows = list(candidates(world))
    draw.shuffle(rows)
    for row, at in rows:
        place[row, at] = -1.0
        shown = lab(ranked(place))
        if (shown < before).any():
            marks[row, at], place[row, at] = 1, 0.0
        else:
            before = shown
        yield ranked(marks)


def climb(many: int | None) -> Attack:
    """Moves a document to the top in some topics (None: in all), and keeps that if a mean rises and none falls."""

    def attack(world: World, lab: Lab, draw: np.random.Generator) -> Iterator[Index]:
        marks, number = np.zeros(world.start.shape), 0.0
        before = lab(world.start)
        yield world.start
        while True:
            tried, number = marks.copy(), number + 1.0
            for row in draw.choice(len(world.topics), many or len(world.topics), replace=False):
                tried[row, draw.integers(DEPTH)] = number
            shown = lab(ranked(tried))
            if (shown > before).any() and not (shown < before).any():
                marks, before = tried, shown
            yield ranked(marks)

    return attack


def boost(world: World, lab: Lab, draw: np.random.Generator) -> Iterator[Index]:
    """Moves a random document to the top in every topic; documents of runs with high means get a vote."""
    size, rows = len(world.topics), np.arange(len(world.topics))
    sums, counts = np.zeros(world.start.shape), np.zeros(world.start.shape)
    mean = second = 0.0
    for number in range(1, 10**9):
        chosen = draw.integers(DEPTH, size=size)
        marks = np.zeros(world.start.shape)
        marks[rows, chosen] = 1.0
        value = float(lab(ranked(marks)).sum())
        sums[rows, chosen] += value
        counts[rows, chosen] += 1
        mean += (value - mean) / number
        second += (value * value - second) / number
        spread = math.sqrt(max(second - mean * mean, 1e-12))
        z = (sums - counts * mean) / (spread * np.sqrt(np.maximum(counts, 1)))
        yield ranked(np.where(np.abs(z) > 1.0, z, 0.0))


ATTACKS: Mapping[str, Attack] = {
    "probe": probe,
    "drop": drop,
    "climb 1": climb(1),
    "climb 10": climb(10),
    "climb all": climb(None),
    "boost": boost,
}


def gains(world: World, defence: Defence, attack: Attack, seed: int) -> dict[int, tuple[float, float]]:
    """Number of submissions -> gain of exact nDCG' on the public and the held-out half."""
    lab = Lab(world, defence, seed)
    begin = world.scores(world.start)[:, 0]
    out, order = {}, world.start
    found = attack(world, lab, np.random.default_rng(seed))
    for number in range(1, max(SUBMISSIONS) + 1):
        order = next(found, order)
        if number in SUBMISSIONS:
            more = world.scores(order)[:, 0] - begin
            out[number] = (float(more[lab.half].mean()), float(more[~lab.half].mean()))
    return out


# ---- chosen judgments: each attack returns right guesses less half of the chosen judgments --------------------------

Question = Callable[[World, Lab, np.random.Generator, int], float]


def _right(guesses: Sequence[bool | float], bits: Sequence[int] | Index) -> float:
    """Right guesses less half of all."""
    return float(np.sum(np.asarray(guesses, dtype=bool) == np.asarray(bits, dtype=bool)) - len(bits) / 2)


def _public(lab: Lab, draw: np.random.Generator) -> bool:
    """Whether the topic of a chosen document is public, which the attacker does not know."""
    return bool(draw.random() < lab.n / len(lab.world.topics))


def _search(reply: Callable[[int], float], most: int) -> tuple[int, int]:
    """The number after which a reply changes, by bisection, and the submissions that this took; -1 if none does."""
    low, high, made, at_low = 0, most, 2, reply(0)
    if reply(most) == at_low:
        return -1, made
    while high - low > 1:
        middle, made = (low + high) // 2, made + 1
        low, high = (middle, high) if reply(middle) == at_low else (low, middle)
    return low, made


def edge(world: World, lab: Lab, draw: np.random.Generator, submissions: int) -> float:
    """Asks for one chosen judgment in each submission, beside own results that bring a rounded mean to an edge."""
    if not lab.defence.feedback:
        return 0.0
    if lab.defence.noisy:
        bits, before, guesses = draw.integers(2, size=submissions), math.nan, []
        for bit in bits.tolist():  # by the measure that one judgment moves most, such as RR
            found = lab.shown(bit * _public(lab, draw) / lab.n)
            guesses.append(draw.random() < 0.5 if found == before and lab.defence.ladder else found > 0.5 / lab.n)
            before = found
        return _right(guesses, bits)
    own = np.where(world.there, world.relevant, False)[:40, :10].ravel()  # other topics are for chosen documents

    def reply(count: int, more: int = 0) -> float:
        return lab.shown((int(own[:count].sum()) + more) / 10 / lab.n)

    at, made = _search(reply, own.size)
    bits = draw.integers(2, size=max(0, submissions - made) if at >= 0 else 0)
    return _right([reply(at, bit) != reply(at) for bit in bits.tolist()], bits)


def resubmit(world: World, lab: Lab, draw: np.random.Generator, submissions: int, times: int = 5) -> float:
    """Asks for each chosen judgment by nearly equal runs, which all but it score 0."""
    bits = draw.integers(2, size=submissions // times if lab.defence.feedback else 0)
    guesses: list[bool] = []
    for bit in bits.tolist():
        mean = bit * _public(lab, draw) / lab.n
        found = [lab.shown(mean) for _ in range(times)]
        least, most = 1 / lab.n - lab.width / 2 - 0.005, lab.width / 2 + 0.005  # rounding to two decimals
        sure = max(found) > most if lab.defence.noisy else found[0] > 0
        guesses.append(sure or (lab.defence.noisy and min(found) >= least and draw.random() < 0.5))
    return _right(guesses, bits)


def weigh(chosen: int) -> Question:
    """Asks for sums of random halves of the chosen judgments, and solves for these by least squares."""

    def attack(world: World, lab: Lab, draw: np.random.Generator, submissions: int) -> float:
        if not lab.defence.feedback:
            return 0.0
        topics = draw.permutation(len(world.topics))[:chosen]
        bits, public = draw.integers(2, size=chosen), lab.public[topics]
        design = draw.integers(2, size=(submissions, chosen))
        found = np.array([lab.shown(float((row * bits)[public].sum()) / lab.n) for row in design])
        new = np.append(True, np.diff(found) != 0) if lab.defence.ladder else np.ones(submissions, bool)
        design, found = design[new], found[new]  # the ladder repeats the best mean
        spread = (lab.n * (lab.width or lab.step)) ** 2 / 12 + 1e-3  # of noise or rounding, in documents
        seen = lab.n * found - design.sum(axis=1) * 0.5 * public.mean()
        solved = np.linalg.solve(design.T @ design + 4 * spread * np.eye(chosen), design.T @ seen)
        return _right((solved > 0).tolist(), bits)

    return attack


QUESTIONS: Mapping[str, Question] = {"edge": edge, "resubmit": resubmit, "weigh 20": weigh(20), "weigh 77": weigh(77)}


def told(world: World, defence: Defence, question: Question, submissions: int, trials: int) -> tuple[float, float]:
    """Judgments told beyond guessing: mean over trials, and its standard error."""
    found: list[float] = []
    for trial in range(max(20, trials * 20 // submissions)):
        if trial == 20 and len(set(found)) == 1:
            break  # nothing is left to chance
        lab = Lab(world, defence, trial)
        found.append(question(world, lab, np.random.default_rng((trial, submissions)), submissions))
    return statistics.fmean(found), statistics.stdev(found) / math.sqrt(len(found))


def tau(world: World, defence: Defence, runs: Sequence[Floats], trials: int) -> tuple[float, float]:
    """Kendall's tau of the shown with the exact ranking, before and at the end; 0 if nothing is shown."""
    exact, found, final = [float(values.mean()) for values in runs], [], []
    for trial in range(trials):
        lab = Lab(world, defence, trial)
        shown = []
        for values in runs:
            lab.best = None  # each is the first of its team
            shown.append(lab.shown(float(values[lab.public].mean())))
        found.append(kendalltau(shown, exact).statistic if defence.feedback else 0.0)
        last = ~lab.half if defence.held_out else lab.public
        final.append(kendalltau([round(float(values[last].mean()), 2) for values in runs], exact).statistic)
    return statistics.fmean(found), statistics.fmean(final)


def file_of(path: str) -> Resource:
    """The resource of a run."""
    found = catalogue.resource({"source": SOURCE, "path": path}, "run")
    assert isinstance(found, Resource)
    return found


def shown(rows: Sequence[Sequence[str]], markdown: bool) -> None:
    """Prints a table with minus signs."""
    show([[re.sub(r"-(?=[0-9])", "\N{MINUS SIGN}", cell) for cell in row] for row in rows], markdown)


def main() -> None:
    """Print the tables."""
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=11)
    parser.add_argument("--trials", type=int, default=1000)
    asked = parser.parse_args()
    fetch_resources([file_of(path) for path in TEAMS])
    bench = task("arqmath-1-task1", measures=list(MEASURES))
    world = World(bench, read_run(local(file_of(OURS)), name="start"))
    draw = np.random.default_rng(0)
    for _ in range(3):
        world.check(draw.permuted(world.start, axis=1))
    world.check(world.start)
    start = world.scores(world.start)[:, 0].mean()
    perfect = world.scores(ranked(world.gain))[:, 0].mean() - start
    print(f"start {start:.3f}, perfect order of the candidates +{perfect:.3f}, n = {len(world.topics)} topics\n")

    def cell(mean: float, error: float, decimals: int) -> str:
        return f"{mean:.{decimals}f}" + (f" \N{PLUS-MINUS SIGN} {error:.{decimals}f}" if error else "")

    print("Judgments told beyond guessing by 20 / 100 / 1,000 submissions, with standard errors\n")
    rows = [["defence", *QUESTIONS]]
    for defence in DEFENCES:
        found = [[told(world, defence, each, n, asked.trials) for n in SUBMISSIONS] for each in QUESTIONS.values()]
        rows.append([defence.name, *(" / ".join(cell(*pair, 2 - n) for n, pair in enumerate(each)) for each in found)])
    shown(rows, asked.markdown)
    print("\nGain in nDCG' of the best attack, and Kendall's tau of eight real teams\n")
    columns = [part for n in SUBMISSIONS for part in (f"{n:,} submissions: public", "held out")]
    rows = [["defence", *columns, f"best attack at {SUBMISSIONS[-1]:,}", "tau shown", "tau at the end"]]
    teams = [bench.scorer(read_run(local(file_of(path)), name=str(n))).column("nDCG") for n, path in enumerate(TEAMS)]
    for defence in DEFENCES:
        by_attack = {
            name: [gains(world, defence, attack, seed) for seed in range(asked.seeds)]
            for name, attack in ATTACKS.items()
        }
        cells, best = [], ""
        for number in SUBMISSIONS:
            medians = {
                name: tuple(statistics.median(one[number][half] for one in found) for half in (0, 1))
                for name, found in by_attack.items()
            }
            best = max(medians, key=lambda name: medians[name][0])
            cells += [f"{each:+.3f}" for each in medians[best]]
        rows.append([defence.name, *cells, best, *(f"{each:.2f}" for each in tau(world, defence, teams, 400))])
    shown(rows, asked.markdown)


if __name__ == "__main__":
    main()

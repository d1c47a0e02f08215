"""What an attacker learns from a lab with private judgments: gains by hill climbing, with and without each defence.

    HARNESS_MIRROR=... python -m bench.leak [--seeds 11] [--markdown]

The judgments are those of ARQMath-1, Task 1 (77 topics); the attacker has a real run of that year, its first 20 results
of each topic, and re-ranks them by what the lab shows of its submissions: means of nDCG', RR and P@10 as
`harness.labs.published.told` makes them. The gain is that of the exact mean of nDCG' over the attacker's own run.
Each cell is the best of six attacks, by the median over seeds, which draw the held-out half and the attacks' choices:

- probe: one document in one topic, fillers elsewhere; a mean above 0 tells that it is relevant.
- edge: moves one document to the end; if a mean falls, it was relevant and returns, else it stays there, so that the
  means settle just above a step of the rounding.
- climb 1, 10, all: moves a document to the top in 1, 10 or all topics, and keeps that if a mean rises and none falls.
- boost: random documents to the top in all topics at once, and a vote weighted by the sum of the means, after the
  attack of Blum and Hardt (ICML 2015).
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.collections.files import local
from harness.data.trec import Run, read_run
from harness.experiments.task import Task, task
from harness.labs.draw import drawn
from harness.labs.published import told
from harness.scoring.measures import discounts
from harness.scoring.rounding import least_step
from harness.sources import catalogue
from harness.sources.fetch import fetch
from harness.sources.resource import Resource

RUN = {"source": "arqmath-psu", "path": "notebooks/final_runs/prim_MIRMU-task1-Ensemble-auto-both-A.tsv"}
MEASURES = ("nDCG", "RR", "P@10")
DEPTH = 20
SUBMISSIONS = (20, 100, 1000)
CAP = 20

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


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
    """What the lab does: step of its means, 0 for that of its number of topics; one ladder; a cap; a public half."""

    name: str
    step: float = 0.01
    ladder: bool = False
    cap: int | None = None
    held_out: bool = False
    least_results: int = 1


DEFENCES = (
    Defence("none: means of two decimals"),
    Defence("at least 10 results", least_results=10),
    Defence("step of 2 / topics", step=0.0),
    Defence(f"roster, cap of {CAP}", cap=CAP),
    Defence("roster, ladder of 0.01", ladder=True),
    Defence("roster, ladder, step of 2 / topics", step=0.0, ladder=True),
    Defence("held-out half", held_out=True),
    Defence("default: step, 10 results, roster, cap", step=0.0, least_results=10, cap=CAP),
    Defence("all", step=0.0, ladder=True, cap=CAP, held_out=True, least_results=10),
)


class Lab:
    """One lab as the attacker sees it: submissions in, shown means out."""

    def __init__(self, world: World, defence: Defence, seed: int) -> None:
        half = drawn(f"{seed:064x}", world.topics)
        self.half = np.array([topic in half for topic in world.topics])
        self.world, self.defence = world, defence
        self.public = self.half if defence.held_out else np.ones_like(self.half)
        self.step = max(defence.step, 0.0) or least_step(int(self.public.sum()))
        self.best: dict[str, float] | None = {} if defence.ladder else None
        self.made = 0

    def __call__(self, order: Index, kept: npt.NDArray[np.bool_] | None = None) -> Floats:
        """The means shown of a submission, shape (measures,)."""
        self.made += 1
        means = self.world.scores(order, kept)[self.public].mean(axis=0)
        shown = told(dict(zip(MEASURES, means.tolist(), strict=True)), self.step, self.best)
        if self.best is not None:
            self.best = {measure: value or 0.0 for measure, value in shown.items()}
        return np.array([shown[measure] or 0.0 for measure in MEASURES])


def ranked(marks: Index | Floats) -> Index:
    """The run that has documents with high marks first, equal ones in the order of the attacker's own run."""
    return np.argsort(-marks, axis=1, kind="stable")


def candidates(world: World) -> Iterator[tuple[int, int]]:
    """Topic and candidate, the first results of all topics first."""
    return ((row, at) for at in range(DEPTH) for row in range(len(world.topics)) if world.there[row, at])


Attack = Callable[[World, Lab, np.random.Generator], Iterator[Index]]


def probe(world: World, lab: Lab, draw: np.random.Generator) -> Iterator[Index]:
    """Asks for one document at a time; fillers below it and elsewhere are ids that were not judged."""
    marks, before = np.zeros(world.start.shape, dtype=np.int64), np.zeros(len(MEASURES))
    for row, at in candidates(world):
        kept = np.zeros(world.start.shape, dtype=bool)
        kept[row, at] = True
        shown = lab(world.start, kept)
        marks[row, at] = 1 if (shown > (before if lab.defence.ladder else 0.0)).any() else -1
        before = shown
        yield ranked(marks) if (marks > 0).any() else world.start  # else nothing was told


def edge(world: World, lab: Lab, draw: np.random.Generator) -> Iterator[Index]:
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
    "edge": edge,
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
        if defence.cap is None or number <= defence.cap:
            order = next(found, order)
        if number in SUBMISSIONS:
            more = world.scores(order)[:, 0] - begin
            out[number] = (float(more[lab.half].mean()), float(more[~lab.half].mean()))
    return out


def told_of_sixteen(world: World, defence: Defence, seed: int) -> int:
    """Of 16 documents, every other one relevant, how many judgments 16 probes tell; without a roster, by 16 teams."""
    draw, right, before = np.random.default_rng(seed), 0, np.zeros(len(MEASURES))
    lab = Lab(world, defence, seed)
    for number in range(16):
        wanted = number % 2 == 0
        rows, ats = np.nonzero(world.there & (world.relevant == wanted))
        at = draw.integers(len(rows))
        kept = np.zeros(world.start.shape, dtype=bool)
        kept[rows[at], ats[at]] = True
        shown = lab(world.start, kept)
        right += bool((shown > (before if defence.ladder else 0.0)).any()) == wanted
        before = shown
    return right


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=11)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    asked = parser.parse_args()
    resource = catalogue.resource(RUN, "run")
    assert isinstance(resource, Resource)
    fetch([resource])
    bench = task("arqmath-1-task1", measures=list(MEASURES))
    world = World(bench, read_run(local(resource), name="start"))
    draw = np.random.default_rng(0)
    for _ in range(3):
        world.check(draw.permuted(world.start, axis=1))
    world.check(world.start)
    start = world.scores(world.start)[:, 0].mean()
    perfect = world.scores(ranked(world.gain))[:, 0].mean() - start
    print(f"start {start:.3f}, perfect order of the candidates +{perfect:.3f}, n = {len(world.topics)} topics\n")
    line = "| {} | {} |" if asked.markdown else "{}: {}"
    heads = [f"{n:,} submissions: public | held out" for n in SUBMISSIONS]
    last = f"best attack at {SUBMISSIONS[-1]:,}"
    print(line.format("defence | judgments told of 16", " | ".join([*heads, last])))
    if asked.markdown:
        print("|" + "---|" * (3 + 2 * len(SUBMISSIONS)))
    seeds = range(asked.seeds)
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
            public, held = medians[best]
            cells.append(f"{public:+.3f} | {held:+.3f}".replace("-", "\N{MINUS SIGN}"))
        sixteen = statistics.median(told_of_sixteen(world, defence, seed) for seed in seeds)
        print(line.format(f"{defence.name} | {sixteen:g}", " | ".join([*cells, best])), flush=True)


if __name__ == "__main__":
    main()

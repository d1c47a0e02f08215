"""Formula search beside Approach0: ARQMath Task 2 of three years, on formulas of which there is LaTeX.

Approach0 reads LaTeX, which the files of `arqmath1-formulas` lack. Here all systems search the formulas of
`mse-formulas` as they are configured in `conf/system`, and the judgments are cut to the visual ids that stand there.
Nothing is chosen on these topics. Tests are paired t-tests against Approach0 over the topics of all years, corrected
over all tests of the three tables: with all judgments, without those of formulas identical to the query, and without
the topics whose formula Approach0 cannot read. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.formula_search import BASELINES, baseline, identical, without
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run
from harness.io import config
from harness.scoring.compare import Comparison, Row, compare
from harness.scoring.coverage import Coverage, restrict
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores
from harness.systems.base import Request
from harness.systems.build import build_system
from harness.systems.fusion.candidates import fuse
from harness.systems.fusion.methods import rrf
from harness.systems.structural import formulas

CORPUS = "mse-formulas"
YEARS = {"2020": "arqmath-1-task2", "2021": "arqmath-2-task2", "2022": "arqmath-3-task2"}
ALL = "all"
AGAINST = "approach0"
OURS = ("tree", "tangent", "l2l")
FUSED = "rrf-" + "-".join(OURS)
MEASURES = ("nDCG", "AP", "P@10")
RANDOM, ORDERS = "random order of the judged", 20
TABLES = 3  # with tests


@dataclass(frozen=True)
class Part:
    """Judgments that the corpus holds, ready to score: of one year, or of all.

    Attributes
    ----------
    coverage : None for all years together.
    """

    scorer: Scorer
    coverage: Coverage | None = None

    @property
    def judged(self) -> Qrels:
        """The judgments."""
        return self.scorer.qrels


def parts_of(keys: Mapping[str, str]) -> tuple[dict[str, Part], Topics]:
    """Each year and all of them together, and the topics that have judgments.

    Parameters
    ----------
    keys : formula -> visual id, of the whole corpus.
    """
    out: dict[str, Part] = {}
    topics: list[Topics] = []
    for year, name in YEARS.items():
        collection = load_collection(name)
        whole = collection.scorer(keys=keys)
        cut, coverage = restrict(whole.qrels, keys.values())
        out[year] = Part(whole.on_part(cut), coverage)
        topics.append(collection.topics())
    merged = Qrels.from_dict(ALL, {t: docs for part in out.values() for t, docs in part.judged.to_dict().items()})
    out[ALL] = Part(next(iter(out.values())).scorer.on_part(merged))
    judged = set(merged.topics)
    return out, Topics(tuple(topic for each in topics for topic in each if topic.id in judged))


def runs_of(topics: Topics, corpus: Corpus) -> list[Run]:
    """The run of every system, Approach0's first."""
    out: dict[str, Run] = {}
    for name in (AGAINST, *OURS):
        begin = time.perf_counter()
        mapping, where = config.load("system", name)
        with tempfile.TemporaryDirectory() as workspace:
            run = build_system(mapping, where)(Request(topics, corpus, Path(workspace)))
        out[name] = replace(run, name=name, context=None)
        print(f"{name}: {time.perf_counter() - begin:.1f} s with indexing", file=sys.stderr)
    fusion, _ = config.load("system", "fusion-rrf")
    fused = fuse([out[name] for name in OURS], lambda found: rrf(found, fusion["k"]), FUSED)
    words = [baseline(name, topics, corpus) for name in BASELINES]
    return [out[AGAINST], *words, *(out[name] for name in OURS), fused]


def same_look(topics: Topics, corpus: Corpus, keys: Mapping[str, str]) -> set[tuple[str, str]]:
    """Topic and visual id of formulas that are the query: the same operator or symbol layout tree."""
    known = {kind: formulas.read(corpus, kind) for kind in formulas.KINDS}
    return {(topic, keys[doc]) for topic, doc in identical(topics, corpus, known) if doc in keys}


def chance(qrels: Qrels, scorer: Scorer) -> list[float]:
    """The means of random orders of all that is judged: what a system gets for finding everything, without ranking."""
    plain = Scorer(qrels, scorer.protocol)  # the judged are named by their visual ids
    rng = np.random.default_rng(0)
    found = []
    for _ in range(ORDERS):
        order = {topic: {doc: float(rng.random()) for doc in docs} for topic, docs in qrels.to_dict().items()}
        scores = plain(Run.from_dict("random", order))
        found.append([scores.mean(measure) for measure in MEASURES])
    return [float(mean) for mean in np.mean(found, axis=0)]


# ---- tables --------------------------------------------------------------------------------------------------------


def coverage_table(parts: Mapping[str, Part]) -> Iterator[str]:
    """What of each year's judgments the corpus holds."""
    heads = "year, judged topics, judged pairs, pairs here, topics with any, topics of nDCG′, of MAP′ and P′@10"
    columns = [*heads.split(", "), "pairs of a topic of nDCG′ (median)"]
    yield "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns)
    for year, part in parts.items():
        if (found := part.coverage) is None:
            continue
        protocol = part.scorer.protocol
        sizes = [count for topic, count in found.judged.items() if max(found.grades[topic]) > 0]
        yield (
            f"| {year} | {found.topics} | {found.pairs:,} | {found.present:,} | {len(found.judged)} "
            f"| {found.with_gain(protocol)} | {found.relevant_from(protocol.relevant_from)} | {np.median(sizes):g} |"
        )


def years_table(runs: Sequence[Run], parts: Mapping[str, Part]) -> Iterator[str]:
    """The means of each year."""
    years = [year for year, part in parts.items() if part.coverage is not None]
    label = [parts[ALL].scorer.protocol.label(measure) for measure in MEASURES]
    heads = ["system", *(f"{year} {name}" for year in years for name in label)]
    yield "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads)
    for run in runs:
        scored = [parts[year].scorer(run) for year in years]
        cells = [f"{scores.mean(measure):.3f}" for scores in scored for measure in MEASURES]
        yield "| " + " | ".join([run.name, *cells]) + " |"
    floor = [f"{mean:.3f}" for year in years for mean in chance(parts[year].judged, parts[year].scorer)]
    yield "| " + " | ".join([RANDOM, *floor]) + " |"


def beside(scores: Sequence[Scores], found: Comparison, against: str, label: Sequence[str]) -> Iterator[str]:
    """Means of runs by `MEASURES`, and their differences from one of them with corrected p-values, line by line."""
    rows: dict[tuple[str, str], Row] = {(row.a, row.measure): row for row in found.rows}
    heads = ["system", *label, *(f"{name} − {against}" for name in label)]
    yield "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads)
    for score in scores:
        cells = [score.run, *(f"{score.mean(measure):.3f}" for measure in MEASURES)]
        for measure in MEASURES:
            row = rows.get((score.run, measure))
            cells.append("" if row is None else f"{row.difference:+.3f} (p = {row.p_bonferroni:.4f})")
        yield "| " + " | ".join(cells) + " |"


def tested_table(runs: Sequence[Run], scorer: Scorer) -> Iterator[str]:
    """The means over the topics of all years, and the differences from Approach0."""
    scores: list[Scores] = [scorer(run) for run in runs]
    found = compared(scores)
    label = [scorer.protocol.label(measure) for measure in MEASURES]
    yield from beside(scores, found, AGAINST, label)
    floor = [f"{mean:.3f}" for mean in chance(scorer.qrels, scorer)]
    yield "| " + " | ".join([RANDOM, *floor, *[""] * len(MEASURES)]) + " |"
    n = ", ".join(f"{scores[0].n(measure)} for {name}" for measure, name in zip(MEASURES, label, strict=True))
    unanswered = [f"{score.run} {len(score.missing)}" for score in scores if score.missing]
    yield f"\nn, topics: {n}. Two-sided paired t-tests, p after Bonferroni over {found.family} tests."
    yield f"Judged topics without any result: {', '.join(unanswered) or 'none'}."


def compared(scores: Sequence[Scores]) -> Comparison:
    """Every other run against Approach0 on every measure; corrected over all tables."""
    pairs = [(score.run, AGAINST) for score in scores if score.run != AGAINST]
    return compare(scores, pairs=pairs, measures=MEASURES, family=TABLES * len(pairs) * len(MEASURES))


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    corpus = load_corpus(CORPUS)
    keys = corpus.keys() or {}
    parts, topics = parts_of(keys)
    runs = runs_of(topics, corpus)
    print("\n".join(coverage_table(parts)))
    print("\n" + "\n".join(years_table(runs, parts)))
    print("\nAll years:\n\n" + "\n".join(tested_table(runs, parts[ALL].scorer)))
    whole = parts[ALL]
    judged = {(topic, doc) for topic, docs in whole.judged.to_dict().items() for doc in docs}
    same = same_look(topics, corpus, keys) & judged
    print(f"\nWithout the {len(same)} judged formulas identical to the query ({len({t for t, _ in same})} topics):\n")
    print("\n".join(tested_table(runs, whole.scorer.on_part(without(whole.judged, same)))))
    missing = set(whole.scorer(runs[0]).missing)
    print(f"\nWithout the topics that Approach0 gives no result for ({', '.join(sorted(missing)) or 'none'}):\n")
    left = without(whole.judged, {(topic, doc) for topic, doc in judged if topic in missing})
    print("\n".join(tested_table(runs, whole.scorer.on_part(left))))


if __name__ == "__main__":
    main()

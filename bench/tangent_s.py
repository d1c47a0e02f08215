"""Tangent-S: its three values beside those of its authors, and its ranking beside `tangent`, ARQMath Task 2.

The first table counts pairs of a topic and a judged formula in the authors' files whose values are theirs. The others
have two collections: the formulas judged for ARQMath-1 (halves of the topics, as in `formula_search`), and those of
`mse-formulas` in three years. Regression weights and settings of `tangent` come from the other half or the other years;
weights of NTCIR-12 are the authors'. Tests are paired t-tests against `tangent`. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.formula_pages import ALL, MEASURES, YEARS, beside, parts_of
from bench.formula_search import COLLECTION, best, halves, joined, on, runs_of
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.collections.readers import tangent as files
from harness.data.columns import Floats
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run
from harness.formulas.trees import forest
from harness.formulas.trees.tree import parse
from harness.scoring.compare import compare
from harness.scoring.coverage import restrict
from harness.scoring.scorer import Scorer
from harness.systems.structural import formulas
from harness.systems.structural.alignments import VALUES, similarities
from harness.systems.structural.tangent_s import TangentS, learn

JUDGED, PAGES = "arqmath1-formulas", "mse-formulas"
AGAINST = "tangent"
LEARNED, PUBLISHED = "tangent-s, learned", "tangent-s, NTCIR-12"


# ---- values --------------------------------------------------------------------------------------------------------


def values_table(corpus: Corpus) -> Iterator[str]:
    """How many values are the authors', by kind of tree; also with quotation marks doubled, as they read these."""
    heads = ["trees", "marks", "pairs", *VALUES, "all three", "share"]
    yield "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads)
    for kind, path in zip(formulas.KINDS, corpus.paths, strict=True):
        queries = files.queries(path)
        results: dict[str, list[files.Result]] = {}
        for result in files.results(path):
            results.setdefault(result.topic, []).append(result)
        for name, mark in (("as written", '"'), ("doubled", '""')):
            equal = []
            for topic, some in results.items():
                query, *candidates = (
                    parse(tree.replace('"', mark)) for tree in (queries[topic], *(each.tree for each in some))
                )
                found = similarities(query, forest.pack(candidates), np.arange(len(candidates)), kind)
                equal.append(found == [json.loads(each.scores) for each in some])
            rows = np.concatenate(equal)
            whole = int(rows.all(axis=1).sum())
            cells = [*(f"{count:,}" for count in rows.sum(axis=0)), f"{whole:,}", f"{whole / len(rows):.4f}"]
            yield "| " + " | ".join([kind.upper(), name, f"{len(rows):,}", *cells]) + " |"


# ---- rankings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """The candidates of every topic with their values, found once for all weights."""

    ids: Sequence[str]
    candidates: Mapping[str, tuple[Sequence[int], Floats]]  # topic -> documents and values

    def judged(self, qrels: Qrels, keys: Mapping[str, str]) -> tuple[Floats, Floats]:
        """Values and grades of the judged candidates of some topics."""
        columns, grades = [], []
        for topic, docs in qrels.to_dict().items():
            for row, values in zip(*self.candidates[topic], strict=True):
                grade = docs.get(keys.get(self.ids[row], ""), -1.0)
                if grade >= 0:
                    columns.append(values)
                    grades.append(grade)
        return np.array(columns), np.array(grades)

    def run(self, system: TangentS, name: str, columns: slice = slice(None)) -> Run:
        """The run of a system from these candidates; `columns` are those of its kind of tree."""
        out = {}
        for topic, (rows, values) in self.candidates.items():
            scores = system.combined(values[:, columns]).tolist()
            found = {self.ids[row]: score for row, score in zip(rows, scores, strict=True)}
            out[topic] = dict(sorted(found.items(), key=lambda each: -each[1])[: system.depth])
        return Run.from_dict(name, {topic: docs for topic, docs in out.items() if docs})


def found_in(topics: Topics, corpus: Corpus) -> Found:
    """All candidates of a corpus whose documents are single formulas."""
    begin = time.perf_counter()
    system = TangentS()
    known = [system.index(formulas.read(corpus, kind)) for kind in system.kinds]
    candidates = {}
    for topic, queries in system.queries(topics, corpus).items():
        some = [system.features(query, known) for query in queries]
        if some:
            candidates[topic] = (some[0][0].tolist(), some[0][1])
    print(f"{corpus.name}: {time.perf_counter() - begin:.0f} s for {len(topics)} topics", file=sys.stderr)
    return Found([doc.decode() for doc in known[0].formulas.ids.tolist()], candidates)


def compared(
    folds: Sequence[frozenset[str]], scorer: Scorer, topics: Topics, corpus: Corpus, keys: Mapping[str, str]
) -> tuple[list[Run], list[str]]:
    """The runs, with weights and settings from the topics of the other folds, and what these are."""
    found = found_in(topics, corpus)
    tried = runs_of(AGAINST, topics, corpus)
    learned, chosen, told = [], [], []
    for fold in folds:
        others = frozenset(scorer.qrels.topics) - fold
        judged = {topic: docs for topic, docs in scorer.qrels.to_dict().items() if topic in others}
        weights = learn(*found.judged(Qrels.from_dict("others", judged), keys))
        learned.append(on(fold, found.run(TangentS(weights=weights), LEARNED), LEARNED))
        setting = best(tried, others, scorer)
        chosen.append(on(fold, tried[setting], AGAINST))
        six = "; ".join(f"{kind} {', '.join(f'{each:.3f}' for each in part)}" for kind, part in weights.items())
        told.append(f"- {len(fold)} topics: `tangent` {setting}; weights {six}")
    single = [found.run(TangentS(kind), f"tangent-s, {kind.upper()}", slice(at, at + 3)) for kind, at in _COLUMNS]
    published = found.run(TangentS(), PUBLISHED)
    return [joined(AGAINST, chosen), joined(LEARNED, learned), published, *single], told


_COLUMNS = (("slt", 0), ("opt", 3))


def table(runs: Sequence[Run], scorer: Scorer) -> Iterator[str]:
    """Means and differences from `tangent`."""
    scores = [scorer(run) for run in runs]
    pairs = [(score.run, AGAINST) for score in scores if score.run != AGAINST]
    comparison = compare(scores, pairs=pairs, measures=MEASURES)
    label = [scorer.protocol.label(measure) for measure in MEASURES]
    yield from beside(scores, comparison, AGAINST, label)
    n = ", ".join(f"{scores[0].n(measure)} for {name}" for measure, name in zip(MEASURES, label, strict=True))
    yield f"\nn, topics: {n}. Two-sided paired t-tests, p after Bonferroni over {comparison.family} tests."


def years_table(runs: Sequence[Run], scorers: Mapping[str, Scorer]) -> Iterator[str]:
    """The means of each year."""
    label = [next(iter(scorers.values())).protocol.label(measure) for measure in MEASURES]
    heads = ["system", *(f"{year} {name}" for year in scorers for name in label)]
    yield "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads)
    for run in runs:
        scored = [scorer(run) for scorer in scorers.values()]
        cells = [f"{scores.mean(measure):.3f}" for scores in scored for measure in MEASURES]
        yield "| " + " | ".join([run.name, *cells]) + " |"


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    corpus = load_corpus(JUDGED)
    print("\n".join(values_table(corpus)))

    collection = load_collection(COLLECTION)
    whole = collection.scorer(ids_are_keys=True)
    ids = [doc.decode() for doc in formulas.read(corpus, "opt").ids.tolist()]
    judged, _ = restrict(whole.qrels, ids)
    scorer = whole.on_part(judged)
    topics = Topics(tuple(topic for topic in collection.topics() if topic.id in judged.topics))
    runs, told = compared(halves(judged.topics), scorer, topics, corpus, dict(zip(ids, ids, strict=True)))
    print("\nARQMath-1, formulas judged for it:\n\n" + "\n".join(table(runs, scorer)) + "\n\n" + "\n".join(told))

    pages = load_corpus(PAGES)
    keys = pages.keys() or {}
    parts, topics = parts_of(keys)
    folds = [frozenset(parts[year].judged.topics) for year in YEARS]
    runs, told = compared(folds, parts[ALL].scorer, topics, pages, keys)
    print("\nThree years, formulas of the pages:\n")
    print("\n".join(years_table(runs, {year: parts[year].scorer for year in YEARS})))
    print("\nAll years:\n\n" + "\n".join(table(runs, parts[ALL].scorer)) + "\n\n" + "\n".join(told))


if __name__ == "__main__":
    main()

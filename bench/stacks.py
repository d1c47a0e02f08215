"""Search in the Stacks project: proofs of statements, and what proofs cite, where all judgments are known.

Systems run one at a time (`--only bm25`, `--collection stacks-proofs`), each as `harness run` would run it with
`DEPTH` results a topic; runs lie below `--runs`, and what lies there is not made again. What is fused, and how, is
chosen on a sample of topics of the training chapters. The tuned bi-encoder learns from the training chapters alone;
it, the fusion that takes it, and what re-ranks have the topics of the test chapters, all others every topic. Without
`--only`, the tables of the runs that are there: Markdown, the test chapters beside all, each row tested against BM25
with paired t-tests, corrected for all rows, measures and sets of topics. `--duplicates` counts statements that say
nearly the same.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from bench.theorems import only, select
from harness.collections.corpora import load_corpus
from harness.data.trec import read_run
from harness.data.written import write_run
from harness.experiments.produce import make
from harness.experiments.task import Task, task
from harness.io import config
from harness.io.files import write_atomic
from harness.reports.parts import shown_p
from harness.scoring.compare import Row, compare
from harness.scoring.scores import Scores
from harness.systems.build import build_system
from harness.systems.dense.engines import PRECISIONS
from harness.systems.fusion.system import Fusion

PROOFS, PREMISES = "stacks-proofs", "stacks-premises"
CORPORA = {PROOFS: "stacks-proofs", PREMISES: "stacks"}
MEASURES = {PROOFS: ("RR", "R@1", "R@10", "R@100"), PREMISES: ("AP", "R@10", "nDCG@10", "RR")}
GOAL = {PROOFS: "RR", PREMISES: "AP"}  # what fusions are chosen by
DEPTH = 200
FIRST = 100  # documents that are re-ranked
SAMPLE, SEED = 1000, 1
BASELINE = "bm25"
ENCODERS = ("bi-encoder-minilm", "bi-encoder-mpnet", "bi-encoder-e5")
UNTUNED, TUNED = ENCODERS[0], "bi-encoder-tuned"
WORDS, OTHERS = ("bm25", "tfidf-ltn", "bm25-phrases"), ("tree", UNTUNED, "nearby")
RERANKED = tuple(f"{name} on the first {FIRST}" for name in ENCODERS[1:])
CHOSEN_TUNED = "fusion-chosen-tuned"
OF_TEST = (*RERANKED, TUNED, CHOSEN_TUNED)  # these rank the topics of the test chapters alone
# How much of a text re-rankers read, to save time: mpnet word pieces, fewer than its 384; E5's engine takes characters.
CUT = {ENCODERS[1]: {"length": 128}, ENCODERS[2]: {"characters": 500}}
PLAIN_RRF, CHOSEN = "rrf-of-four", "fusion-chosen"
KS = (5, 10, 20, 60)
SHARES = (0.05, 0.1, 0.2, 0.35, 0.5)  # of the last run in a weighted sum, the others alike
SHINGLE, SAME, COMMON = 5, 0.8, 50


@cache
def whole(collection: str) -> Task:
    """A collection with all of its topics."""
    return task(collection, CORPORA[collection])


@cache
def of_test(collection: str) -> Task:
    """A collection with the topics of its test chapters."""
    found = task(collection, CORPORA[collection], edition="test")
    return only(found, frozenset(found.scorer.qrels.topics))


def systems(collection: str) -> tuple[str, ...]:
    """What can be named by `--only`, in the order in which one rests on another."""
    others = [name for name in OTHERS if collection == PREMISES or name != "nearby"]
    return (*WORDS, *others, *RERANKED, PLAIN_RRF, CHOSEN, TUNED, CHOSEN_TUNED)


def configured(name: str, collection: str, runs: Path, precision: str) -> dict[str, Any]:
    """The configuration behind a name."""
    mapping = plain(name, collection, runs)
    if "precision" not in mapping or mapping.get("extra") != "sentences":  # the engine of E5 has its own
        return mapping
    training = mapping["training"] and {**mapping["training"], "autocast": precision == "bfloat16"}
    return {**mapping, "precision": precision, "training": training}


def plain(name: str, collection: str, runs: Path) -> dict[str, Any]:
    """The configuration behind a name, in the precision that it has."""
    if name in RERANKED:
        encoder = name.partition(" ")[0]
        changes = {"first": of_test_alone(BASELINE, collection, runs), "k": FIRST, "name": label(name)}
        return {**config.load("system", encoder)[0], **changes, **CUT[encoder]}
    if name == TUNED:
        mapping = config.load("system", TUNED)[0]
        learn = f"{collection}/{'learn' if collection == PREMISES else 'train'}"
        training = {"collections": [learn], "leave_out": [f"{collection}/test"], "relevant": 1, "epochs": 1}
        return {**mapping, "training": {**mapping["training"], **training}}
    if name == PLAIN_RRF:
        paths = [str(path_of(collection, each, runs)) for each in ("bm25", "tfidf-ltn", "tree", UNTUNED)]
        return {**config.load("system", "fusion-rrf")[0], "runs": paths, "name": PLAIN_RRF}
    if name in (CHOSEN, CHOSEN_TUNED):
        best = chosen(collection, runs)
        paths = [str(path_of(collection, each, runs)) for each in best.names]
        if name == CHOSEN_TUNED:  # as it was chosen, with the tuned encoder in the place of the untuned one
            names = [TUNED if each == UNTUNED else each for each in best.names]
            paths = [of_test_alone(each, collection, runs) for each in names]
        mapping = config.load("system", f"fusion-{best.method}")[0]
        return {**mapping, **best.parameters, "runs": paths, "name": name}
    return config.load("system", name)[0]


def of_test_alone(name: str, collection: str, runs: Path) -> str:
    """The path of a run's results for the topics of the test chapters."""
    path = runs / "test" / collection / f"{label(name)}.run"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_run(select(read_run(path_of(collection, name, runs)), of_test(collection).topics.ids()), path)
    return str(path)


def label(name: str) -> str:
    """A name as that of a run."""
    return name.replace(" on the first ", "-first-")


def path_of(collection: str, name: str, runs: Path) -> Path:
    """Where a run lies."""
    return runs / collection / f"{label(name)}.run"


def produce(collection: str, name: str, runs: Path, precision: str) -> None:
    """Make a run, if it is not there."""
    mapping = {**configured(name, collection, runs, precision), "depth": DEPTH}
    topics = of_test(collection) if name in OF_TEST else whole(collection)
    print(make(build_system(mapping, name), topics, runs=runs, say=print).path)


# ---- what is fused ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """A fusion: its method and parameters, and the systems whose runs it takes."""

    method: str
    names: tuple[str, ...]
    parameters: Mapping[str, Any]

    def said(self) -> str:
        """In words."""
        return f"{self.method} of {', '.join(self.names)} with {dict(self.parameters)}"


def candidates(there: Sequence[str]) -> Iterator[Candidate]:
    """One way to weigh words with some of the others that are there, by rank, and with growing weight of the last."""
    others = [name for name in OTHERS if name in there]
    sets = [names for size in range(1, len(others) + 1) for names in combinations(others, size)]
    for names in ((word, *more) for word in WORDS if word in there for more in sets):
        for k in KS:
            yield Candidate("rrf", names, {"k": k})
        for share in SHARES:
            each = (1 - share) / (len(names) - 1)
            yield Candidate("interpolation", names, {"weights": [each] * (len(names) - 1) + [share]})


@cache
def chosen(collection: str, runs: Path) -> Candidate:
    """The best fusion on a sample of the training chapters' topics."""
    there = [name for name in (*WORDS, *OTHERS) if path_of(collection, name, runs).exists()]
    found = whole(collection)
    topics = sorted(topic.id for topic in found.topics if topic.attributes["split"] == "train")
    sample = frozenset(random.Random(SEED).sample(topics, min(SAMPLE, len(topics))))
    cut = {name: select(read_run(path_of(collection, name, runs)), sample) for name in there}

    def value(candidate: Candidate) -> float:
        fusion = Fusion(candidate.names, candidate.method, DEPTH, **candidate.parameters)
        scores = found.scorer(fusion.fused([cut[name] for name in candidate.names]))
        return scores.select(sample).mean(GOAL[collection])

    tried = list(candidates(there))
    best = max(tried, key=value)
    said = f"{best.said()}, the best of {len(tried)} by {GOAL[collection]} on {len(sample):,} topics for training"
    write_atomic(path_of(collection, CHOSEN, runs).with_suffix(".txt"), f"{said}\n")
    return best


# ---- tables -----------------------------------------------------------------------------------------------------


def table(collection: str, runs: Path) -> None:
    """Every run that is there: the test chapters, all topics, and tests against the baseline."""
    found = whole(collection)
    test = frozenset(topic.id for topic in found.topics if topic.attributes["split"] == "test")
    measures = MEASURES[collection]
    there = [name for name in systems(collection) if path_of(collection, name, runs).exists()]
    scored: dict[str, Scores] = {}
    for name in there:
        scores = found.scorer(read_run(path_of(collection, name, runs)))
        scored[name] = replace(scores, run=name)
    of_test = {name: scores.select(test) for name, scores in scored.items()}
    of_all = {name: scores for name, scores in scored.items() if name not in OF_TEST}
    pairs = [(name, BASELINE) for name in of_test if name != BASELINE]
    pairs += [(TUNED, UNTUNED)] if {TUNED, UNTUNED} <= set(there) else []
    pairs += [(CHOSEN_TUNED, CHOSEN)] if {CHOSEN_TUNED, CHOSEN} <= set(there) else []
    pairs += [(CHOSEN, PLAIN_RRF)] if {CHOSEN, PLAIN_RRF} <= set(there) else []
    of_both = [pair for pair in pairs if not {*pair} & {*OF_TEST}]
    family = (len(pairs) + len(of_both)) * len(measures)
    tests = {"test": tested(of_test, pairs, measures, family), "all": tested(of_all, of_both, measures, family)}
    n = {part: next(iter(scores.values())).n(measures[0]) for part, scores in (("test", of_test), ("all", of_all))}
    heads = [f"{name}: {m}" for name in ("test", "all") for m in measures]
    print(f"\n## {collection}\n\n| system | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name in there:
        cells = []
        for side, kept in (("test", of_test), ("all", of_all)):
            for m in measures:
                row = tests[side].get((name, BASELINE, m))
                mark = "*" if row is not None and row.significant_holm else ""
                cells.append(f"{kept[name].mean(m):.3f}{mark}" if name in kept else "")
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\n- n = {n['test']:,} topics of the test chapters, {n['all']:,} of all; {DEPTH} results a topic")
    print(f"- \\* differs from {BASELINE} after Holm over {family} tests (paired t, alpha .05)")
    for side, rows in tests.items():
        for (a, b, m), row in rows.items():
            if m == measures[0] or b != BASELINE:
                print(
                    f"- {side}, {a} − {b}, {m}: {row.difference:+.4f} (95 % {row.ci_low:+.4f} to {row.ci_high:+.4f}), "
                    f"n = {row.n:,}, p {_p(row.p)}, Holm {_p(row.p_holm, '')}"
                )
    if CHOSEN in there:
        said = path_of(collection, CHOSEN, runs).with_suffix(".txt").read_text(encoding="utf-8").strip()
        print(f"- {CHOSEN}: {said}")


def _p(value: float | None, sign: str = "= ") -> str:
    """A p-value; one that is 0 in floating point is too small for it, not 0."""
    return f"{sign}{value:.2g}" if value else shown_p(value).text


def tested(
    scored: Mapping[str, Scores], pairs: Sequence[tuple[str, str]], measures: Sequence[str], family: int
) -> dict[tuple[str, str, str], Row]:
    """(a, b, measure) -> test."""
    if not pairs:
        return {}
    rows = compare(list(scored.values()), pairs=pairs, measures=measures, family=family).rows
    return {(row.a, row.b, row.measure): row for row in rows}


# ---- duplicates -------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\\[A-Za-z]+|\w+|[^\w\s]")


def duplicates() -> None:
    """Count statements of equal letters and digits, and those of nearly the same shingles, also across the splits."""
    split = {topic.id: topic.attributes["split"] for topic in whole(PROOFS).topics}
    texts = {document.id: document.body for document in load_corpus("stacks") if document.id in split}
    equal: dict[str, list[str]] = defaultdict(list)
    for name, text in texts.items():
        equal["".join(filter(str.isalnum, text.casefold()))].append(name)
    groups = [names for names in equal.values() if len(names) > 1]
    alike = near(texts)
    crossing = {name for pair in alike for name in pair if split[name] == "test" and split[pair[0]] != split[pair[1]]}
    many = len({name for pair in alike for name in pair})
    print(f"- {sum(map(len, groups)):,} of {len(texts):,} statements with a proof have the text of another one")
    print(f"- {many:,} share {SAME:.0%} or more of their {SHINGLE}-token shingles (Jaccard) with another one")
    print(f"- {len(crossing):,} of these are of test chapters and share them with one of a training chapter")


def near(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of texts whose sets of shingles have a Jaccard similarity of `SAME` or more.

    Only pairs that share a shingle of at most `COMMON` texts are looked at; what is the same to that degree and
    shares none of them is made of shingles that stand everywhere.
    """
    shingles = {name: shingled(text) for name, text in texts.items()}
    held: dict[int, list[str]] = defaultdict(list)
    for name, found in shingles.items():
        for shingle in found:
            held[shingle].append(name)
    shared: Counter[tuple[str, str]] = Counter()
    for names in held.values():
        if len(names) <= COMMON:
            shared.update(combinations(names, 2))
    return [pair for pair in shared if jaccard(shingles[pair[0]], shingles[pair[1]]) >= SAME]


def shingled(text: str) -> frozenset[int]:
    """Hashes of the runs of `SHINGLE` tokens of a text; of a shorter one, of all it has."""
    tokens = _TOKEN.findall(text)
    return frozenset(hash(tuple(tokens[at : at + SHINGLE])) for at in range(max(1, len(tokens) - SHINGLE + 1)))


def jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    """The share of what two sets hold that both hold."""
    return len(a & b) / len(a | b)


def main(arguments: Iterable[str] | None = None) -> None:
    """Make runs, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--collection", nargs="+", choices=list(CORPORA), default=list(CORPORA))
    parser.add_argument("--only", nargs="+", default=[], metavar="SYSTEM", help="make these runs, and no tables")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32", help="of encoders that have the key")
    parser.add_argument("--duplicates", action="store_true", help="count statements that say nearly the same")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.duplicates:
        duplicates()
        return
    for collection in options.collection:
        known = systems(collection)
        if unknown := [name for name in options.only if name not in known and name != "nearby"]:
            parser.error(f"{unknown[0]!r} is none of {', '.join(known)}")
        for name in options.only:
            if name in known:
                produce(collection, name, options.runs, options.precision)
        if not options.only:
            table(collection, options.runs)


if __name__ == "__main__":
    main()

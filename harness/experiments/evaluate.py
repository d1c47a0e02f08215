"""Runs scored and compared: what the commands, reports and notebooks have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.collections.collection import Collection
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.data.topics import Topics
from harness.data.trec import TAG, TAG_RULE, Run, read_run
from harness.errors import FormatError, HarnessError, Problem
from harness.experiments.task import Task
from harness.io.console import track
from harness.scoring import compare as stats
from harness.scoring.compare import Comparison
from harness.scoring.coverage import Coverage
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores, scores_to_json
from harness.store.provenance import Provenance, provenance

MOST_READ = 1 << 26  # bytes of a corpus, for the texts of documents in a report
SCHEMA = "mathir-harness/evaluation"
VERSION = 1


@dataclass(frozen=True)
class Evaluation:
    """Runs scored on one collection, and what came to light on the way.

    Attributes
    ----------
    bounds : run -> measure -> lowest and highest mean over the orders of its ties, where they differ.
    warnings : what the readers of the runs reported.
    scorer, runs : what scored the runs, and they themselves; without them no topic pages.
    corpus : where the texts of documents are looked up, if anywhere.
    seconds : run -> CPU seconds a topic that its system needed, reading and indexing included; empty if not known.
    coverage, corpus_notes : how much of the judgments the searched corpus holds, and what it says of itself.
    """

    collection: Collection
    topics: Topics
    scores: tuple[Scores, ...]
    bounds: Mapping[str, Mapping[str, tuple[float, float]]]
    warnings: tuple[str, ...] = ()
    scorer: Scorer | None = None
    runs: tuple[Run, ...] = ()
    corpus: Corpus | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    coverage: Coverage | None = None
    corpus_notes: tuple[str, ...] = ()

    def coverage_sentence(self) -> str:
        """What must be said before any number if the corpus holds only part of the judged documents; else empty."""
        if self.coverage is None or self.coverage.complete:
            return ""
        return self.coverage.sentence(self.scores[0].protocol, self.corpus_notes)


def read_runs(
    paths: Iterable[Path],
    *,
    names: Sequence[str] = (),
    format: str | None = None,
    known_topics: frozenset[str] | None = None,
) -> list[Run]:
    """Run files with distinct names: those given, else their tags, or the files' names where tags are shared.

    Parameters
    ----------
    names : of the runs, path by path; empty for one that is named by its tag or file. Default: all are.

    Raises
    ------
    FormatError
        With the problems of all files together.
    HarnessError
        Two runs of one name.
    """
    runs: list[Run] = []
    problems: list[Problem] = []
    paths = list(paths)
    names = list(names) or [""] * len(paths)
    for path, name in track(list(zip(paths, names, strict=True)), "reading runs"):
        try:
            runs.append(read_run(path, name=name or None, format=format, known_topics=known_topics))
        except FormatError as error:
            problems += error.problems
    if problems:
        raise FormatError(problems)
    tags = [run.name for run, name in zip(runs, names, strict=True) if not name]
    if len(set(tags)) < len(tags):
        # Tags often name the model alone; the file then distinguishes the runs.
        stems = [Path(path.stem).stem if path.suffix in (".gz", ".xz", ".zst") else path.stem for path in paths]
        unnamed = [stem for stem, name in zip(stems, names, strict=True) if not name]
        for stem in unnamed:
            if unnamed.count(stem) > 1:
                raise HarnessError(f"{stem}: two run files share this name and a tag; rename one of them")
        runs = [
            run if name else _renamed(run, stem, path)
            for run, name, stem, path in zip(runs, names, stems, paths, strict=True)
        ]
    for name, times in Counter(run.name for run in runs).items():
        if times > 1:
            raise HarnessError(f"{name}: {times} runs have this name; give each its own, as NAME=FILE")
    return runs


def _renamed(run: Run, name: str, path: Path) -> Run:
    if not TAG.fullmatch(name):
        raise HarnessError(f"{path}: run name {name!r} does not fit a file name: {TAG_RULE}")
    return replace(run, name=name)


def evaluate(task: Task, runs: Sequence[Run]) -> Evaluation:
    """Score runs and find out what the order of their ties could change."""
    collection, scorer = task.collection, task.scorer
    scores = tuple(scorer(run) for run in track(runs, "scoring runs"))
    pairs = list(zip(runs, scores, strict=True))
    spans = {run.name: scorer.tie_spans(run, score) for run, score in track(pairs, "ties of runs")}
    bounds = {name: span for name, span in spans.items() if span}
    warnings = tuple(str(warning) for run in runs for warning in run.warnings)
    return Evaluation(
        collection,
        task.topics,
        scores,
        bounds,
        warnings,
        scorer,
        tuple(runs),
        _own_corpus(collection),
        coverage=task.coverage,
        corpus_notes=task.corpus.notes if task.corpus is not None else (),
    )


def cautions(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings on the runs that were scored: faults that readers passed over, results without a key."""
    unknown = {scores.run: scores.counts.get("documents without a key", 0) for scores in evaluation.scores}
    lacking = (f"{run}: {n} results have no key and count as not judged" for run, n in unknown.items() if n)
    return (*evaluation.warnings, *lacking)


def compare(
    evaluation: Evaluation,
    baseline: str | None = None,
    *,
    measures: Sequence[str] = (),
    alpha: float = 0.05,
    family: int | None = None,
    test: stats.Test = "t",
    permutations: int = stats.PERMUTATIONS,
    seed: int = 0,
) -> Comparison:
    """Test the runs of an evaluation against a baseline, or all pairs.

    Topics that share their `cluster`, if the collection has one, are averaged first; tests are then of clusters. See
    `harness.scoring.compare.compare` for the other parameters and what is refused.

    Parameters
    ----------
    measures : those to test; default: all that were scored but Judged@k, which says how much is known of a run.
    """
    if len(evaluation.scores) < 2:
        raise HarnessError("compare: needs two runs or more")
    tested = measures or [measure for measure in evaluation.scores[0].measures if not measure.startswith("Judged")]
    found = stats.compare(
        independent(evaluation),
        baseline,
        measures=tested,
        alpha=alpha,
        family=family,
        test=test,
        permutations=permutations,
        seed=seed,
    )
    name = evaluation.collection.cluster
    if not name:
        return found
    said = f"{found.correction}; topics that share their {name} are averaged first, n counts such groups"
    return replace(found, correction=said)


def independent(evaluation: Evaluation) -> Sequence[Scores]:
    """The scores that are tested: of topics, or means of their clusters if the collection has any."""
    clusters = evaluation.collection.clusters()
    return evaluation.scores if clusters is None else [scores.by_cluster(clusters) for scores in evaluation.scores]


def evaluation_to_json(evaluation: Evaluation, comparison: Comparison | None = None) -> dict[str, Any]:
    """Scores and comparison as plain JSON values; NaN becomes null. Schema: `harness/data/schemas/evaluation.json`."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "coverage": evaluation.coverage_sentence(),
        "warnings": list(cautions(evaluation)),
        "ties": [
            {"run": run, "measure": measure, "low": low, "high": high}
            for run, spans in evaluation.bounds.items()
            for measure, (low, high) in spans.items()
        ],
        "scores": [scores_to_json(scores) for scores in evaluation.scores],
        "comparison": None if comparison is None else stats.to_json(comparison),
    }


def _own_corpus(collection: Collection) -> Corpus | None:
    """The corpus that the collection names, if it is here and small: large ones are not read for texts."""
    if not collection.corpus:
        return None
    corpus = load_corpus(collection.corpus)
    if corpus.state() != "here" or not all(path.is_file() for path in corpus.paths):
        return None
    return corpus if sum(path.stat().st_size for path in corpus.paths) <= MOST_READ else None


def inputs(task: Task, runs: Mapping[str, Run]) -> Provenance:
    """The provenance of scores: the judgments, the run files, and the corpus if there is one."""
    qrels = task.scorer.qrels
    files = {f"{task.collection.name}, edition {qrels.edition}": qrels.sha256}
    files |= {name: run.sha256 for name, run in runs.items()}
    if task.corpus is not None:
        files[f"corpus {task.corpus.name}"] = task.corpus.digest()
    return provenance(files)

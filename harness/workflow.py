"""The arrows of the design put together: runs to scores, systems to runs, both to reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import config, stats
from harness.collections import Collection, load_collection, load_protocol
from harness.collections.corpus import Corpus, load_corpus
from harness.collections.coverage import Coverage
from harness.console import track
from harness.errors import FormatError, HarnessError, Problem
from harness.produce import Produced, Say, present, produce, quiet
from harness.protocol import Protocol, scores_to_json
from harness.report.comparison import Evaluation, compare_runs
from harness.scoring import Scorer
from harness.stats import Comparison
from harness.store import Provenance, provenance
from harness.systems import build_system
from harness.topics import Topics
from harness.trec import TAG, TAG_RULE, Run, read_run

MOST_READ = 1 << 26  # bytes of a corpus, for the texts of documents in a report
SCHEMA = "mathir-harness/evaluation"
VERSION = 1


@dataclass(frozen=True)
class Task:
    """What runs are scored by; with a corpus, the judgments are those of documents that it holds.

    Attributes
    ----------
    topics : of the collection.
    coverage : how much of the judgments the corpus holds; None without a corpus.
    keys : document of the corpus -> key of de-duplication; None if documents are judged under their own ids.
    """

    collection: Collection
    topics: Topics
    corpus: Corpus | None
    scorer: Scorer
    coverage: Coverage | None
    keys: Mapping[str, str] | None


def task(
    collection: Collection | str,
    corpus: Corpus | str | None = None,
    edition: str | None = None,
    protocol: Protocol | str | None = None,
    measures: Sequence[str] | None = None,
    keys: Mapping[str, str] | None = None,
    *,
    ids_are_keys: bool = False,
) -> Task:
    """What runs on a collection are scored by, checked: `score`, `compare` and `run` all score by this.

    Collection, corpus and protocol are values or names. Nothing is kept between calls.

    Parameters
    ----------
    corpus : cuts the judgments to the documents that it holds.
    edition, protocol, measures : instead of the collection's and the protocol's own.
    keys : document -> key of de-duplication, instead of the corpus's or the collection's.
    ids_are_keys : runs name keys (visual ids) already.

    Raises
    ------
    HarnessError
        A name is unknown; keys for a protocol that does not de-duplicate, or none for one that does; judgments of a
        topic that the collection lacks; a corpus that holds none of the judged documents.
    """
    collection = load_collection(collection) if isinstance(collection, str) else collection
    corpus = load_corpus(corpus) if isinstance(corpus, str) else corpus
    chosen = protocol if isinstance(protocol, Protocol) else load_protocol(protocol or collection.protocol)
    deduplicate = chosen.deduplicate
    if not deduplicate and (keys is not None or ids_are_keys):
        raise HarnessError(f"keys: protocol {chosen.name} does not de-duplicate, so keys have no use")
    own = None if corpus is None or not deduplicate else corpus.keys()
    ids_are_keys = ids_are_keys or (corpus is not None and corpus.ids_are_keys)
    if deduplicate and keys is None and not ids_are_keys:
        keys = collection.keys() if own is None else own
    wanted = tuple(measures) if measures else None
    scorer = collection.scorer(edition, chosen, measures=wanted, keys=keys, ids_are_keys=ids_are_keys)
    topics = collection.topics()
    if strange := set(scorer.qrels.topics) - topics.ids():
        raise HarnessError(
            f"collection {collection.name}: the judgments hold topic {min(strange)!r}, which is not among its topics "
            f"({len(strange)} such topics)"
        )
    if corpus is None:
        return Task(collection, topics, None, scorer, None, keys)
    # What runs name and what the corpus names may differ: formulas here, visual ids there.
    held = None
    if deduplicate and not corpus.ids_are_keys:
        held = own if own is not None else keys if keys is not None else collection.keys()
    cut, coverage = present(scorer.qrels, corpus, held)
    return Task(collection, topics, corpus, scorer if coverage.complete else scorer.on_part(cut), coverage, held)


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
    alpha: float = 0.05,
    family: int | None = None,
    seed: int = 0,
) -> Comparison:
    """Test the runs of an evaluation against a baseline, or all pairs, in every measure but Judged@k.

    Topics that share their `cluster`, if the collection has one, are averaged first; tests are then of clusters. See
    `harness.stats.compare` for the other parameters and what is refused.
    """
    if len(evaluation.scores) < 2:
        raise HarnessError("compare: needs two runs or more")
    tested = [measure for measure in evaluation.scores[0].measures if not measure.startswith("Judged")]
    return compare_runs(evaluation, baseline=baseline, measures=tested, alpha=alpha, family=family, seed=seed)


def evaluation_to_json(evaluation: Evaluation, comparison: Comparison | None = None) -> dict[str, Any]:
    """Scores and comparison as plain JSON values; NaN becomes null. Schema: `harness/schemas/evaluation.json`."""
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
    if "corpus" not in collection.config:
        return None
    corpus = load_corpus(str(collection.config["corpus"]))
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


@dataclass(frozen=True)
class Demonstration:
    """The demonstration on one collection: run file -> run, the run to compare with, run -> CPU seconds a topic."""

    task: Task
    runs: Mapping[str, Run]
    baseline: str
    seconds: Mapping[str, float]


def demonstrate(output: Path, say: Say = quiet) -> Iterator[Demonstration]:
    """The systems of `conf/paper/demo.yaml` on the embedded collections, one collection after the other.

    Runs are always made, as their times are reported; those of a fusion include the runs that it reads.
    """
    mapping, where = config.load("paper", "demo")
    for name, entry in mapping["collections"].items():
        collection = load_collection(name)
        corpus = load_corpus(str(collection.config["corpus"]))
        made: dict[str, Produced] = {}
        seconds: dict[str, float] = {}
        for system, changes in entry["systems"].items():
            settings = config.load("system", system)[0] | changes
            read = settings.get("runs") or []
            if read:
                settings["runs"] = [str(made[run].path) for run in read]
            begin = time.process_time()
            built = build_system(settings, f"{where}: {name}: {system}")
            made[system] = produce(built, collection, corpus, output, configuration=settings, reuse=False, say=say)
            seconds[system] = time.process_time() - begin + sum(seconds[run] for run in read)
        runs = {str(produced.path): produced.run for produced in made.values()}
        a_topic = {produced.run.name: seconds[at] / len(produced.run.topics) for at, produced in made.items()}
        yield Demonstration(task(collection), runs, str(entry["baseline"]), a_topic)

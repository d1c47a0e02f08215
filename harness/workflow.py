"""The arrows of the design put together: runs to scores, systems to runs, both to reports."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import config
from harness.collections import Collection, load_collection
from harness.collections.corpus import Corpus, load_corpus
from harness.errors import FormatError, HarnessError, Problem
from harness.produce import Say, produce, quiet
from harness.report.comparison import Evaluation
from harness.scoring import Scorer
from harness.store import Provenance, provenance
from harness.systems import load_system, system_state
from harness.trec import Run, read_run

MOST_READ = 1 << 26  # bytes of a corpus, for the texts of documents in a report


def read_runs(
    paths: Iterable[Path], *, format: str | None = None, known_topics: frozenset[str] | None = None
) -> list[Run]:
    """Run files with distinct names: their tags, or the files' names where tags are shared.

    Raises
    ------
    FormatError
        With the problems of all files together.
    HarnessError
        Two files of one name.
    """
    runs: list[Run] = []
    problems: list[Problem] = []
    read: list[Path] = []
    for path in paths:
        try:
            runs.append(read_run(path, format=format, known_topics=known_topics))
            read.append(path)
        except FormatError as error:
            problems += error.problems
    if problems:
        raise FormatError(problems)
    tags = [run.name for run in runs]
    if len(set(tags)) < len(tags):
        # Tags often name the model alone; the file then tells the runs apart.
        stems = [Path(path.stem).stem if path.suffix in (".gz", ".xz") else path.stem for path in read]
        for stem in stems:
            if stems.count(stem) > 1:
                raise HarnessError(f"{stem}: two run files share this name and a tag; rename one of them")
        runs = [read_run(path, name=stem, format=format) for path, stem in zip(read, stems, strict=True)]
    return runs


def evaluate(collection: Collection, scorer: Scorer, runs: Sequence[Run]) -> Evaluation:
    """Score runs and find out what the order of their ties could change."""
    scores = tuple(scorer(run) for run in runs)
    spans = {run.name: scorer.tie_spans(run, score) for run, score in zip(runs, scores, strict=True)}
    bounds = {name: span for name, span in spans.items() if span}
    warnings = tuple(str(warning) for run in runs for warning in run.warnings)
    rankings = tuple(scorer.rankings(run) for run in runs)
    corpus = _own_corpus(collection)
    return Evaluation(collection, collection.topics(), scores, bounds, warnings, scorer, rankings, corpus)


def _own_corpus(collection: Collection) -> Corpus | None:
    """The corpus that the collection names, if it is here and small: texts in a report are worth no long reading."""
    if "corpus" not in collection.config:
        return None
    corpus = load_corpus(str(collection.config["corpus"]))
    if corpus.state() != "here" or not all(path.is_file() for path in corpus.paths):
        return None
    return corpus if sum(path.stat().st_size for path in corpus.paths) <= MOST_READ else None


def inputs(collection: Collection, scorer: Scorer, runs: Mapping[str, Run]) -> Provenance:
    """The provenance of scores: the judgments and the run files."""
    files = {f"{collection.name}, edition {scorer.qrels.edition}": scorer.qrels.sha256}
    return provenance(files | {name: run.sha256 for name, run in runs.items()})


@dataclass(frozen=True)
class Demonstration:
    """The demonstration on one collection: its scorer, run file -> run, and run -> CPU seconds a topic."""

    collection: Collection
    scorer: Scorer
    runs: Mapping[str, Run]
    seconds: Mapping[str, float]


def demonstrate(output: Path, say: Say = quiet) -> list[Demonstration]:
    """Every installed system of ours that is for the demonstration (`demo: true`), on the embedded collections."""
    out = []
    for name in (name for name in config.names("collection") if name.startswith("mini-")):
        collection = load_collection(name)
        runs: dict[str, Run] = {}
        seconds: dict[str, float] = {}
        for system_name, path in config.names("system").items():
            mapping, _ = config.load("system", system_name)
            # Only `run` executes what a person's own configuration names.
            if not mapping.get("demo") or not path.is_relative_to(config.folders()[0]):
                continue
            if (state := system_state(mapping)) != "here":
                say(f"system {system_name} is left out: {state}")
                continue
            corpus = load_corpus(str(collection.config["corpus"]))
            begin = time.process_time()
            produced = produce(load_system(system_name), collection, corpus, output, say=say)
            seconds[produced.run.name] = (time.process_time() - begin) / len(produced.run.topics)
            runs[str(produced.path)] = produced.run
        out.append(Demonstration(collection, collection.scorer(), runs, seconds))
    return out

"""Runs scored by a task, or by one for each of several collections: the values that all outputs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.data.records import concatenated_columns, frame
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.task import Task
from harness.io.display import table_html
from harness.scoring.comparison import Comparison, with_cluster_note
from harness.scoring.coverage import grade_remarks
from harness.scoring.intervals import numbers_of_names
from harness.scoring.measures import without_diagnostics
from harness.scoring.scores import Scores, pooled

if TYPE_CHECKING:
    from pandas import DataFrame

    from harness.scoring.random_effects import StratifiedTest


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Runs scored by one task, with the warnings found.

    Attributes
    ----------
    runs, scores : one for one, in the order in which they were given.
    bounds : run -> measure -> lowest and highest mean over the orders of its ties, where they differ.
    seconds : run -> CPU seconds a topic that its system needed, reading and indexing included; empty if not known.
    strange : run -> remark that none of its documents is judged.

    Examples
    --------
    >>> import harness as h
    >>> found = h.evaluate(h.task("mini-task1", measures=["AP"]), "runs/mini/mini-task1/overlap.run")
    >>> print(found.frame().head(2).round(3).to_string(index=False))
        run query_id measure  value
    overlap      M.1      AP  0.532
    overlap      M.2      AP  0.722
    """

    task: Task
    runs: tuple[Run, ...]
    scores: tuple[Scores, ...]
    bounds: Mapping[str, Mapping[str, tuple[float, float]]]
    seconds: Mapping[str, float] = field(default_factory=dict)
    strange: Mapping[str, str] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Remarks on the grades of the judgments, and warnings of the readers of the runs."""
        return (*grade_remarks(self.task.scorer), *self.run_warnings)

    @property
    def run_warnings(self) -> tuple[str, ...]:
        """Warnings of the readers of the runs."""
        return tuple(str(warning) for run in self.runs for warning in run.warnings)

    def coverage_sentence(self) -> str:
        """Returns the sentence on coverage if the corpus holds only part of the judged documents; else empty."""
        coverage, corpus = self.task.coverage, self.task.corpus
        if coverage is None or coverage.complete:
            return ""
        return coverage.sentence(self.scores[0].protocol, corpus.notes if corpus is not None else ())

    def tie_spans(self) -> dict[str, dict[str, str]]:
        """Returns run -> measure -> lowest and highest mean in words, where four decimals show that they differ."""
        spans = {
            run: {measure: tuple(f"{end:.4f}" for end in ends) for measure, ends in by_measure.items()}
            for run, by_measure in self.bounds.items()
        }
        return {
            run: {measure: " to ".join(ends) for measure, ends in by_measure.items() if len(set(ends)) > 1}
            for run, by_measure in spans.items()
        }

    def frame(self) -> DataFrame:
        """Returns a data frame with `run`, `query_id`, `measure`, `value`; NaN if the protocol excludes the topic."""
        return frame(concatenated_columns([scores.columns() for scores in self.scores]))

    def __repr__(self) -> str:
        first = self.scores[0]
        runs = ", ".join(scores.run for scores in self.scores)
        return f"<Evaluation of {runs} on {first.collection} by {', '.join(first.measures)}>"

    def _repr_html_(self) -> str:
        return table_html(self)


@dataclass(frozen=True, repr=False)
class JointEvaluation:
    """Runs scored by several tasks.

    Attributes
    ----------
    parts : collection -> evaluation of the runs that have results for it.
    runs : names of the runs, in the order in which they were given.
    measures : measures of all collections, without diagnostics.

    Examples
    --------
    >>> import harness as h
    >>> names = ("mini-task1", "mini-theorems")
    >>> tasks = [h.task(name, protocol="trec_eval", measures=["AP"]) for name in names]
    >>> one, two = ({t.scorer.qrels.topics[0]: {"d": 1.0}} for t in tasks)
    >>> [found] = h.evaluate(tasks, one | two).scores
    >>> found.n("AP"), found.collection
    (82, 'mini-task1 + mini-theorems')
    """

    parts: Mapping[str, Evaluation]
    runs: tuple[str, ...]
    measures: tuple[str, ...]

    def of(self, run: str) -> list[Scores | None]:
        """Returns the scores of a run on each collection; None where it has no results."""
        by_run = [{scores.run: scores for scores in part.scores} for part in self.parts.values()]
        return [scores.get(run) for scores in by_run]

    @property
    def scores(self) -> tuple[Scores, ...]:
        """Scores over the topics of all collections, of the runs that have results for each."""
        parts = [{name: each for name, each in zip(self.parts, self.of(run), strict=True) if each} for run in self.runs]
        return tuple(pooled([self._own(*part) for part in of.items()]) for of in parts if len(of) == len(self.parts))

    def _own(self, collection: str, scores: Scores) -> Scores:
        """Returns the shared measures; topics are named with their collection if two collections share one."""
        columns = [scores.column(measure) for measure in self.measures]
        topics = scores.topics if self._distinct else tuple(f"{collection}/{topic}" for topic in scores.topics)
        # Collections may name other measures in protocols that score alike.
        protocol = replace(scores.protocol, measures=self.measures)
        return replace(
            scores, protocol=protocol, measures=self.measures, topics=topics, values=np.stack(columns, axis=1)
        )

    @property
    def _distinct(self) -> bool:
        names = [topic for part in self.parts.values() for topic in part.scores[0].topics]
        return len(set(names)) == len(names)

    def groups(self) -> tuple[dict[str, str], dict[str, str] | None]:
        """Returns topic -> its collection, and topic -> its cluster of dependent topics; None without any cluster."""
        strata: dict[str, str] = {}
        clusters: dict[str, str] = {}
        known = {name: part.task.collection.clusters() for name, part in self.parts.items()}
        for name, part in self.parts.items():
            for own, topic in zip(self._own(name, part.scores[0]).topics, part.scores[0].topics, strict=True):
                strata[own] = name
                clusters[own] = f"{name}/{(known[name] or {}).get(topic, topic)}"
        return strata, clusters if any(known.values()) else None

    def frame(self) -> DataFrame:
        """Returns a data frame with `collection`, `run`, `query_id`, `measure` and `value`."""
        columns = []
        for name, part in self.parts.items():
            for scores in part.scores:
                values = scores.columns()
                columns.append({"collection": [name] * len(values["run"]), **values})
        return frame(concatenated_columns(columns))

    def __repr__(self) -> str:
        return f"<JointEvaluation of {', '.join(self.runs)} on {', '.join(self.parts)} by {', '.join(self.measures)}>"

    def _repr_html_(self) -> str:
        return table_html(self)


def by_collection(tasks: Sequence[Task], runs: Sequence[tuple[Run, Path | None, str]]) -> dict[str, list[Run]]:
    """Returns collection -> its runs.

    Each result belongs to the collection that has its topic; all of a file belong to one collection if a folder of its
    path has the collection's name. Runs of the same name, in one or several files, are one run; files that share a
    name and a collection are named by their files instead.

    Parameters
    ----------
    runs : each with its file, None if it is none, and the name that it was given, empty without one.

    Raises
    ------
    HarnessError
        A collection is there twice or has no run, a topic is in no collection or in two, or two files of one name
        answer the same collection.
    """
    known = {task.collection.name: task.topics.ids() | frozenset(task.scorer.qrels.topics) for task in tasks}
    if len(known) < max(2, len(tasks)):
        raise HarnessError(f"evaluate: expected two or more collections, each once; found {', '.join(known)}")
    read = [(run, path, label, _divided(run, path, known)) for run, path, label in runs]
    by_name = _by_name([(run.name, parts) for run, _, _, parts in read])
    if by_name is None:  # tags often name the model only
        stems = [path.stem if path is not None and not label else run.name for run, path, label, _ in read]
        by_name = _by_name([(stem, parts) for stem, (*_, parts) in zip(stems, read, strict=True)])
    if by_name is None:
        named = ", ".join(dict.fromkeys(run.name for run, *_ in read))
        raise HarnessError(f"{named}: two runs of one name answer the same collection; name each, as NAME=FILE")
    out = {}
    for name in known:
        out[name] = [replace(parts[name], name=run) for run, parts in by_name.items() if name in parts]
        if not out[name]:
            raise HarnessError(f"collection {name}: no run has results for its topics")
    return out


def checked_parts(parts: Mapping[str, Evaluation]) -> JointEvaluation:
    """Joins evaluations on several collections.

    Raises HarnessError unless they have a measure in common and protocols that score alike.
    """
    first, *others = [part.scores[0] for part in parts.values()]
    measures = [name for name in without_diagnostics(first.measures) if all(name in s.measures for s in others)]
    if not measures:
        raise HarnessError(f"collections {', '.join(parts)} have no measure in common; name one with measures")
    for scores in others:
        if replace(scores.protocol, measures=()) != replace(first.protocol, measures=()):
            both = f"{first.protocol.name} and {scores.protocol.name}"
            raise HarnessError(
                f"collections {first.collection} and {scores.collection} are scored by protocols {both}, which differ; "
                "name one for all: --protocol trec_eval, in Python protocol='trec_eval'"
            )
    runs = dict.fromkeys(scores.run for part in parts.values() for scores in part.scores)
    return JointEvaluation(parts, tuple(runs), tuple(measures))


def _by_name(runs: Sequence[tuple[str, Mapping[str, Run]]]) -> dict[str, dict[str, Run]] | None:
    """Returns name -> collection -> run; None if two runs of one name answer the same collection."""
    by_name: dict[str, dict[str, Run]] = {}
    for name, parts in runs:
        if by_name.setdefault(name, {}).keys() & parts.keys():
            return None
        by_name[name] |= parts
    return by_name


def _divided(run: Run, path: Path | None, known: Mapping[str, frozenset[str]]) -> dict[str, Run]:
    """Returns collection -> the part of a run that answers its topics."""
    folders = [part for part in (path.parent.parts if path is not None else ()) if part in known]
    owners = {topic: [name for name in folders[-1:] or known if topic in known[name]] for topic in run.topics}
    for topic, of in owners.items():
        if not of:
            where = folders[-1] if folders else ", ".join(known)
            raise HarnessError(f"{run.source or run.name}: topic {topic!r} is not among the topics of {where}")
        if len(of) > 1:
            raise HarnessError(
                f"{run.source or run.name}: topic {topic!r} is in {' and in '.join(of)}; put the run file into a "
                "folder with the name of its collection"
            )
    chosen: dict[str, list[int]] = {}
    for at, topic in enumerate(run.topics):
        chosen.setdefault(owners[topic][0], []).append(at)
    if len(chosen) == 1:
        return dict.fromkeys(chosen, run)
    return {name: _only(run, topics) for name, topics in chosen.items()}


def _only(run: Run, topics: Sequence[int]) -> Run:
    """Returns the results of some topics, by their places in `run.topics`."""
    place = np.full(len(run.topics), -1, dtype=np.int32)
    place[topics] = np.arange(len(topics), dtype=np.int32)
    kept = place[run.topic] >= 0
    return replace(
        run,
        topics=tuple(run.topics[at] for at in topics),
        topic=place[run.topic[kept]],
        doc=run.doc[kept],
        score=run.score[kept],
        context=None if run.context is None else run.context[kept],
    )


def compare_jointly(
    evaluation: JointEvaluation, baseline: str | None, measures: Sequence[str], test: Callable[..., Comparison]
) -> Comparison:
    """Tests runs over the topics of all collections: `test` is `harness.scoring.compare.compare` with its options.

    Raises HarnessError as that does, or if fewer than two runs have results for all collections.
    """
    scores = evaluation.scores
    if len(scores) < 2:
        raise HarnessError(f"compare: expected two or more runs with results for each of {', '.join(evaluation.parts)}")
    strata, clusters = evaluation.groups()
    comparison = test(scores, baseline, measures=measures or evaluation.measures, clusters=clusters, strata=strata)
    names = {name: part.task.collection.cluster for name, part in evaluation.parts.items()}
    if clusters is None:
        return comparison
    apart = [name for name, cluster in names.items() if not cluster]
    noted = with_cluster_note(comparison, " or ".join(dict.fromkeys(filter(None, names.values()))))
    return replace(noted, correction=f"{noted.correction} and each topic of {', '.join(apart)}") if apart else noted


def heterogeneity(evaluation: JointEvaluation, comparison: Comparison) -> list[StratifiedTest]:
    """Returns for each test of `compare` how far the collections agree, with a test over collections like these."""
    from harness.scoring.random_effects import stratified_test

    by_run = {scores.run: scores for scores in evaluation.scores}
    strata, clusters = evaluation.groups()
    tests = []
    for row in comparison.rows:
        a, b = by_run[row.a], by_run[row.b]
        apart = a.column(row.measure) - b.column(row.measure)
        places: dict[str, list[int]] = {name: [] for name in evaluation.parts}
        for at, topic in enumerate(a.topics):
            if not np.isnan(apart[at]):
                places[strata[topic]].append(at)
        units = None
        if clusters is not None:
            units = {
                name: numbers_of_names([clusters[a.topics[at]] for at in of]).tolist() for name, of in places.items()
            }
        values = {name: apart[of] for name, of in places.items()}
        tests.append(stratified_test(row.a, row.b, row.measure, values, 1.0 - comparison.confidence, units))
    return tests

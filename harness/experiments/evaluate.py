"""Scoring and comparison of runs, shared by commands, reports and notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from harness.collections.collection import Collection
from harness.collections.load import local_collection
from harness.data.trec import Qrels, Run, read_run
from harness.errors import FormatError, HarnessError, InputFault, counted_text
from harness.experiments.evaluation import Evaluation as Evaluation  # noqa: PLC0414  (for who imports it from here)
from harness.experiments.evaluation import JointEvaluation, by_collection, checked_parts, compare_jointly
from harness.experiments.task import Task
from harness.experiments.task import task as make_task
from harness.io import config
from harness.io.arguments import checked_arguments
from harness.io.console import track
from harness.scoring.comparison import Comparison, Kind, Marks, Test, comparison_to_json, with_cluster_note
from harness.scoring.coverage import not_judged
from harness.scoring.measures import distributions, parse_measures, without_diagnostics
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores, scores_to_json, tie_caution
from harness.scoring.spellings import measure_names
from harness.store.provenance import Provenance, provenance

if TYPE_CHECKING:
    from pandas import DataFrame

    from harness.scoring.reproduction import RunReproduction

SCHEMA = "mathir-harness/evaluation"
VERSION = 1


def read_runs(
    paths: Iterable[Path],
    *,
    names: Sequence[str] = (),
    format: str | None = None,
    known_topics: frozenset[str] | None = None,
) -> list[Run]:
    """Reads run files under distinct names: given names, else tags, or file names where tags are shared.

    Parameters
    ----------
    names : of the runs, path by path; empty for one that is named by its tag or file. Default: all are.

    Raises
    ------
    FormatError
        Files have faults; the error lists those of all files.
    HarnessError
        Two runs share a name.
    """
    runs: list[Run] = []
    problems: list[InputFault] = []
    paths = list(paths)
    names = list(names) or [""] * len(paths)
    for path, name in track(list(zip(paths, names, strict=True)), "reading runs"):
        try:
            runs.append(read_run(path, name=name or None, format=format, known_topics=known_topics))
        except FormatError as error:
            problems += error.problems
    if problems:
        raise FormatError(problems)
    return _named(runs, names, paths)


def _named(runs: Sequence[Run], names: Sequence[str], paths: Sequence[Path | None]) -> list[Run]:
    """Returns runs under distinct names, as `read_runs` says; paths are None for runs that are no files."""
    files = [(run, path) for run, name, path in zip(runs, names, paths, strict=True) if path is not None and not name]
    tags = [run.name for run, _ in files]
    if len(set(tags)) < len(tags):
        # Tags often name the model only; the file then distinguishes the runs.
        stems = {
            id(run): Path(path.stem).stem if path.suffix in (".gz", ".xz", ".zst") else path.stem for run, path in files
        }
        if twice := [stem for stem, times in Counter(stems.values()).items() if times > 1]:
            path = next(path for run, path in files if stems[id(run)] == twice[0])
            said = f"rename one of them, or name one, as NEW={path}"
            raise HarnessError(f"{twice[0]}: two run files share this name and a tag; {said}")
        runs = [replace(run, name=stems.get(id(run), run.name)) for run in runs]
    check_names(runs)
    return list(runs)


def check_names(runs: Iterable[Run]) -> None:
    """Raises HarnessError if two runs share a name."""
    for name, times in Counter(run.name for run in runs).items():
        if times > 1:
            raise HarnessError(f"{name}: {times} runs have this name; give each its own, as NAME=FILE")


@overload
def evaluate(
    task: Sequence[Task],
    *runs: Run | str | Path | Mapping[str, Mapping[str, float]] | DataFrame,
    names: Sequence[str] = (),
    format: str | None = None,
    lines: bool = True,
) -> JointEvaluation: ...


@overload
def evaluate(
    task: Task | Qrels | str | Path | Mapping[str, Mapping[str, float]] | DataFrame,
    *runs: Run | str | Path | Mapping[str, Mapping[str, float]] | DataFrame,
    measures: Sequence[str] = (),
    protocol: Protocol | str | None = None,
    names: Sequence[str] = (),
    format: str | None = None,
    lines: bool = True,
) -> Evaluation: ...


@checked_arguments
def evaluate(
    task: Task | Sequence[Task] | Qrels | str | Path | Mapping[str, Mapping[str, float]] | DataFrame,
    *runs: Run | str | Path | Mapping[str, Mapping[str, float]] | DataFrame,
    measures: Sequence[str] = (),
    protocol: Protocol | str | None = None,
    names: Sequence[str] = (),
    format: str | None = None,
    lines: bool = True,
) -> Evaluation | JointEvaluation:
    """Scores runs, and computes the range of means over the orders of their ties.

    Runs are values, files, mappings topic -> document -> score, or frames with `query_id`, `doc_id` and `score`.

    Parameters
    ----------
    task : what `h.task` returns; or judgments: a value, a file, a mapping topic -> document -> grade, or a frame with
        `query_id`, `doc_id` and `relevance`. Judgments alone are scored by the protocol `trec_eval`. Or a list of
        tasks on several collections: each result then belongs to the collection that has its topic.
    measures, protocol : replace the defaults; those of a task are chosen when it is made.
    names : of the runs, one by one; empty for one that keeps its name: its tag, or its file where tags are shared.
    format : format of run files; default: detected.
    lines : keep the lines of all runs, for reports that show rankings. Without them, one run is in memory at a time,
        and `runs` of the evaluation are empty but for names, topics, checksums and warnings.

    Raises
    ------
    FormatError
        Files have faults; the error lists those of all files.
    HarnessError
        There are no runs, two share a name, or one answers a topic that the collection lacks; or a task is given with
        measures or a protocol.

    Examples
    --------
    >>> import harness as h
    >>> run = h.Run.from_dict("mine", {"M.1": {"a1088": 2.0, "a1007": 1.0}})
    >>> h.evaluate(h.task("mini-task1"), run).scores[0].n("nDCG")
    42
    >>> found = h.evaluate({"q1": {"d1": 1, "d2": 0}}, {"q1": {"d1": 0.5, "d2": 0.9}}, measures=["RR"], names=["mine"])
    >>> found.frame()
        run query_id measure  value
    0  mine       q1      RR    0.5
    """
    if not runs:
        raise HarnessError("evaluate: expected at least one run")
    if isinstance(task, list | tuple):
        if measure_names(measures) or protocol is not None:
            raise HarnessError("evaluate: measures and protocol belong to the tasks; say them where they are made")
        if strange := [each for each in task if not isinstance(each, Task)]:
            raise HarnessError(f"evaluate: {strange[0]!r} is no task; several collections are a list of tasks")
        return _evaluate_jointly(task, runs, names, format, lines)
    if not isinstance(task, Task):
        task = make_task(_judged_by(task), measures=measures, protocol=protocol)
    elif measure_names(measures) or protocol is not None:
        raise HarnessError("evaluate: measures and protocol belong to the task; say them where it is made")
    labels = list(names) or [""] * len(runs)
    if len(labels) != len(runs):
        raise HarnessError(f"evaluate: {counted_text(len(runs), 'run')}, but {counted_text(len(labels), 'name')}")
    known = task.collection.known_topics()
    kept: list[Run] = []
    scored: list[tuple[Scores, Mapping[str, tuple[float, float]], str]] = []
    problems: list[InputFault] = []
    for number, (given, label) in enumerate(track(list(zip(runs, labels, strict=True)), "reading and scoring runs"), 1):
        try:
            run = _run_of(given, label, f"run-{number}" if len(runs) > 1 else "run", format, known)
        except FormatError as error:
            problems += error.problems
            continue
        if problems:  # after a fault, the other files are only checked
            continue
        scores = task.scorer(run)
        scored.append((scores, task.scorer.tie_spans(run, scores), not_judged(task.scorer, run, scores)))
        kept.append(run if lines else run.without_lines())
    if problems:
        raise FormatError(problems)
    named = _named(kept, labels, [Path(given) if isinstance(given, str | Path) else None for given in runs])
    with_scores = list(zip(named, scored, strict=True))
    return Evaluation(
        task,
        tuple(named),
        tuple(replace(scores, run=run.name) for run, (scores, _, _) in with_scores),
        {run.name: spans for run, (_, spans, _) in with_scores if spans},
        strange={run.name: remark for run, (_, _, remark) in with_scores if remark},
    )


def _evaluate_jointly(
    tasks: Sequence[Task], runs: Sequence[Any], names: Sequence[str], format: str | None, lines: bool
) -> JointEvaluation:
    """Scores runs by several tasks; see `harness.experiments.evaluation`."""
    labels = list(names) or [""] * len(runs)
    several_runs = len(runs) > 1
    read = []
    for number, (given, label) in enumerate(zip(runs, labels, strict=True), 1):
        run = _run_of(given, label, f"run-{number}" if several_runs else "run", format, None)
        read.append((run, Path(given) if isinstance(given, str | Path) else None, label))
    parts = by_collection(tasks, read)
    evaluations = {task.collection.name: evaluate(task, *parts[task.collection.name], lines=lines) for task in tasks}
    return checked_parts(evaluations)


def _judged_by(judgments: Qrels | str | Path | Mapping[str, Mapping[str, float]] | DataFrame) -> Collection:
    """Returns the collection of judgments alone."""
    if isinstance(judgments, Qrels | Path):
        return local_collection(judgments)
    if isinstance(judgments, str):
        if judgments in config.names("collection") and not Path(judgments).exists():
            raise HarnessError(f"{judgments}: a collection and no file; evaluate h.task({judgments!r})")
        return local_collection(Path(judgments))
    if isinstance(judgments, Mapping):
        return local_collection(Qrels.from_dict("given", judgments))
    return local_collection(Qrels.from_frame("given", _frame(judgments, "argument 'task'", "Task or Qrels")))


def _frame(table: DataFrame, what: str, value: str) -> DataFrame:
    if not hasattr(table, "columns"):
        raise HarnessError(f"evaluate: {what} is {repr(table)[:60]}, expected {value}, a path, a mapping or a frame")
    return table


def _run_of(
    given: Run | str | Path | Mapping[str, Mapping[str, float]] | DataFrame,
    label: str,
    default: str,
    format: str | None,
    known: frozenset[str] | None,
) -> Run:
    """Returns a run by its label, or its own name, or a default for what has none.

    Raises
    ------
    FormatError, HarnessError
        It has faults, or answers a topic that is not known.
    """
    if isinstance(given, str | Path):
        return read_run(Path(given), name=label or None, format=format, known_topics=known)
    if isinstance(given, Run):
        run = replace(given, name=label) if label else given
    elif isinstance(given, Mapping):
        run = Run.from_dict(label or default, given)
    elif isinstance(given, list | tuple):
        raise HarnessError(f"evaluate: argument 'runs' is {repr(given)[:60]}; pass the runs one by one: *runs")
    else:
        run = Run.from_frame(label or default, _frame(given, "argument 'runs'", "Run"))
    if known is not None and (unknown := [topic for topic in run.topics if topic not in known]):
        raise HarnessError(f"run {run.name}: topic {unknown[0]!r} is not among the collection's topics")
    return run


def cautions(evaluation: Evaluation) -> tuple[str, ...]:
    """Returns warnings on the scored runs: skipped faults, results without a key or judgment, unknown tie bounds."""
    unknown = {scores.run: scores.counts.get("documents without a key", 0) for scores in evaluation.scores}
    lacking = (
        f"{run}: {counted_text(n, 'result has no key and counts', 'results have no key and count')} as not judged"
        for run, n in unknown.items()
        if n
    )
    ties = tie_caution(evaluation.scores)
    strange = [f"{run}: {remark}" for run, remark in evaluation.strange.items()]
    return (*evaluation.warnings, *lacking, *strange, *([ties] if ties else []))


@checked_arguments
def compare(
    evaluation: Evaluation | JointEvaluation,
    baseline: str | None = None,
    *,
    measures: Sequence[str] = (),
    alpha: float = 0.05,
    family: int | None = None,
    test: Test = "t",
    permutations: int | None = None,
    seed: int = 0,
    correction: Marks = "bonferroni",
    margin: float | Mapping[str, float] | None = None,
    kind: Kind = "equivalence",
) -> Comparison:
    """Tests the runs of an evaluation against a baseline, or all pairs.

    On several collections, the runs with results for all of them are tested over all topics; the variance between
    collections is left out of the t-test (`harness.scoring.random_effects`).

    Topics that share their `cluster`, if the collection has one, are dependent: means and differences stay those over
    topics, with cluster-robust errors, and n counts clusters (`harness.scoring.comparison.PairDifference`).

    Parameters
    ----------
    measures : measures to test; default: all scored ones except diagnostic measures such as Judged@k.
    alpha : level of significance.
    family : number of tests to correct for; default: the tests made (pairs times measures).
    test : the corrected test: paired t-test (`"t"`), or Fisher's randomization test (`"randomization"`).
    permutations : number of sign flips that the randomization test draws if it cannot enumerate all; None: 10,000, or
        more if the correction needs them, see `harness.scoring.compare`.
    seed : seed of these draws.
    correction : the one that tables mark. `maxT` adds the max-statistic permutation test, which corrects for all these
        tests together and loses less than Bonferroni's where they are correlated (`harness.scoring.randomization`).
    margin : differences below it are negligible, one for all measures or measure -> margin: adds tests of equivalence,
        or with `kind="non-inferiority"` of whether a run is not worse by it (`harness.scoring.equivalence`).

    Raises
    ------
    HarnessError
        There are fewer than two runs or two common topics, more tests than the family, or an unknown run or measure.

    Examples
    --------
    >>> import harness as h
    >>> runs = [f"runs/mini/mini-task1/{name}.run" for name in ("overlap", "shuffle")]
    >>> found = compare(evaluate(h.task("mini-task1", measures=["nDCG"]), *runs), "shuffle")
    >>> found.frame()[["a", "b", "n", "difference", "significant_bonferroni"]].round(3)
             a        b   n  difference  significant_bonferroni
    0  overlap  shuffle  42       0.618                    True
    """
    from harness.scoring.compare import compare as compare_scores

    asked = [str(measure) for measure in parse_measures(measure_names(measures))]
    test_runs = partial(
        compare_scores,
        alpha=alpha,
        family=family,
        test=test,
        permutations=permutations,
        seed=seed,
        correction=correction,
        margin=_canonical(margin) if isinstance(margin, Mapping) else margin,
        kind=kind,
    )
    if isinstance(evaluation, JointEvaluation):
        return compare_jointly(evaluation, baseline, asked, test_runs)
    if len(evaluation.scores) < 2:
        hint = "" if baseline is None else "; the baseline is one of them, by its name"
        raise HarnessError(f"compare: expected at least two runs{hint}")
    collection = evaluation.task.collection
    wanted = asked or without_diagnostics(evaluation.scores[0].measures)
    comparison = test_runs(evaluation.scores, baseline, measures=wanted, clusters=collection.clusters())
    return comparison if not collection.cluster else with_cluster_note(comparison, collection.cluster)


def _canonical(margin: Mapping[str, float]) -> dict[str, float]:
    """Returns the margins by the names that measures have here."""
    return {str(measure): float(value) for name, value in margin.items() for measure in parse_measures([name])}


def reproduce(original: Evaluation, new: Evaluation, *, persistence: float = 0.9) -> RunReproduction:
    """Measures how far a run reproduces another one: of one evaluation of both, or of two on different topics.

    Parameters
    ----------
    original, new : one and the same evaluation of original and new run, then, if there are any, their baselines; or
        one evaluation of each side, a run and its baseline.
    persistence : the p of rank-biased overlap.

    Raises
    ------
    HarnessError
        As `harness.scoring.reproduction.reproduction`, or there are not as many runs.

    Examples
    --------
    >>> import harness as h
    >>> runs = [f"runs/mini/mini-task1/{name}.run" for name in ("overlap", "overlap-title")]
    >>> found = evaluate(h.task("mini-task1", measures=["nDCG"]), *runs)
    >>> round(reproduce(found, found).effects[0].rmse, 3)
    0.209
    """
    from harness.scoring.reproduction import reproduction

    together = original is new
    if len(original.scores) not in ((2, 4) if together else (1, 2)) or len(new.scores) != len(original.scores):
        raise HarnessError("a reproduction: expected two runs, or two runs and their baselines")
    sides = zip(original.scores, new.scores, strict=True)
    scores = original.scores if together else [each for side in sides for each in side]
    depth = original.task.scorer.protocol.depth or max(len(run) for run in original.runs)
    rankings = None
    if together:
        first, second = (
            {topic: ranking.docs for topic, ranking in original.task.scorer.rankings(run, depth).items()}
            for run in original.runs[:2]
        )
        rankings = first, second
    return reproduction(
        scores[0],
        scores[1],
        rankings,
        (scores[2], scores[3]) if len(scores) == 4 else None,
        measures=without_diagnostics(scores[0].measures),
        clusters=(original.task.collection.clusters(), new.task.collection.clusters()),
        persistence=persistence,
        depth=depth,
    )


def evaluation_to_json(evaluation: Evaluation, comparison: Comparison | None = None) -> dict[str, Any]:
    """Returns scores and comparison as JSON values, NaN as null. Schema: `harness/data/schemas/evaluation.json`."""
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
        "comparison": None if comparison is None else comparison_to_json(comparison),
    }


def inputs(evaluation: Evaluation) -> Provenance:
    """Returns the provenance of scores: the judgments, the runs, and the corpus if there is one."""
    task = evaluation.task
    qrels = task.scorer.qrels
    files = {f"{task.collection.name}, edition {qrels.edition}": qrels.sha256}
    if task.scorer.exclusions is not None:
        files[f"{task.collection.name}, what is excluded"] = task.scorer.exclusions.sha256
    files |= {run.source or run.name: run.sha256 for run in evaluation.runs}
    if task.corpus is not None:
        files[f"corpus {task.corpus.name}"] = task.corpus.digest()
    return provenance(files, libraries=distributions(task.scorer.measures))

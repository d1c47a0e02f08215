"""Scoring and comparison of runs, shared by commands, reports and notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.data.frames import frame, joined
from harness.data.trec import Run, read_run
from harness.errors import FormatError, HarnessError, Problem, counted, several
from harness.experiments.task import Task
from harness.io.arguments import checked_arguments
from harness.io.console import track
from harness.io.display import table_html
from harness.scoring import compare as stats
from harness.scoring.compare import Comparison
from harness.scoring.measures import distributions, parse_measure, parse_measures, without_diagnostics
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores, scores_to_json, tie_caution
from harness.store.provenance import Provenance, provenance

if TYPE_CHECKING:
    from pandas import DataFrame

    from harness.scoring.reproduction import Reproduction

SCHEMA = "mathir-harness/evaluation"
VERSION = 1


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Runs scored by one task, with the warnings found.

    Attributes
    ----------
    runs, scores : one for one, in the order in which they were given.
    bounds : run -> measure -> lowest and highest mean over the orders of its ties, where they differ.
    seconds : run -> CPU seconds a topic that its system needed, reading and indexing included; empty if not known.
    strange : run -> remark that none of its documents is judged; None if `runs` have their lines, which tell it.

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
    strange: Mapping[str, str] | None = None

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
            run: {measure: tuple(f"{end:.4f}" for end in ends) for measure, ends in found.items()}
            for run, found in self.bounds.items()
        }
        return {
            run: {measure: " to ".join(ends) for measure, ends in found.items() if len(set(ends)) > 1}
            for run, found in spans.items()
        }

    def frame(self) -> DataFrame:
        """Returns a data frame with `run`, `query_id`, `measure`, `value`; NaN if the protocol excludes the topic."""
        return frame(joined([scores.columns() for scores in self.scores]))

    def __repr__(self) -> str:
        first = self.scores[0]
        runs = ", ".join(scores.run for scores in self.scores)
        return f"<Evaluation of {runs} on {first.collection} by {', '.join(first.measures)}>"

    def _repr_html_(self) -> str:
        return table_html(self)


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
    return _named(runs, names, paths)


def _named(runs: Sequence[Run], names: Sequence[str], paths: Sequence[Path]) -> list[Run]:
    """Returns runs under distinct names, as `read_runs` says."""
    tags = [run.name for run, name in zip(runs, names, strict=True) if not name]
    if len(set(tags)) < len(tags):
        # Tags often name the model only; the file then distinguishes the runs.
        stems = [Path(path.stem).stem if path.suffix in (".gz", ".xz", ".zst") else path.stem for path in paths]
        unnamed = [stem for stem, name in zip(stems, names, strict=True) if not name]
        for stem in unnamed:
            if unnamed.count(stem) > 1:
                raise HarnessError(f"{stem}: two run files share this name and a tag; rename one of them")
        runs = [run if name else replace(run, name=stem) for run, name, stem in zip(runs, names, stems, strict=True)]
    check_names(runs)
    return list(runs)


def check_names(runs: Iterable[Run]) -> None:
    """Raises HarnessError if two runs share a name."""
    for name, times in Counter(run.name for run in runs).items():
        if times > 1:
            raise HarnessError(f"{name}: {times} runs have this name; give each its own, as NAME=FILE")


@checked_arguments
def evaluate(task: Task, *runs: Run | str | Path) -> Evaluation:
    """Scores runs or run files, and computes the range of means over the orders of their ties.

    Raises
    ------
    FormatError
        Files have faults; the error lists those of all files.
    HarnessError
        There are no runs, two share a name, or one answers a topic that the collection lacks.

    Examples
    --------
    >>> import harness as h
    >>> run = h.Run.from_dict("mine", {"M.1": {"a1088": 2.0, "a1007": 1.0}})
    >>> h.evaluate(h.task("mini-task1"), run).scores[0].n("nDCG")
    42
    """
    files = [Path(run) for run in runs if not isinstance(run, Run)]
    known = task.collection.known_topics()
    read = iter(read_runs(files, known_topics=known) if files else ())
    values = tuple(run if isinstance(run, Run) else next(read) for run in runs)
    if not values:
        raise HarnessError("evaluate: expected at least one run")
    check_names(values)
    for run in values:  # as of the files
        if known is not None and (strange := [topic for topic in run.topics if topic not in known]):
            raise HarnessError(f"run {run.name}: topic {strange[0]!r} is not among the collection's topics")
    scorer = task.scorer
    scores = tuple(scorer(run) for run in track(values, "scoring runs"))
    pairs = list(zip(values, scores, strict=True))
    spans = {run.name: scorer.tie_spans(run, score) for run, score in track(pairs, "ties of runs")}
    return Evaluation(task, values, scores, {name: span for name, span in spans.items() if span})


def evaluate_files(
    task: Task,
    paths: Sequence[Path],
    *,
    names: Sequence[str] = (),
    format: str | None = None,
    lines: bool = True,
) -> Evaluation:
    """Reads and scores run files, named as by `read_runs`.

    Parameters
    ----------
    lines : keep the lines of all runs, for reports that show rankings. Without them, one run is in memory at a time,
        and `runs` of the evaluation are empty but for names, topics, checksums and warnings.

    Raises
    ------
    FormatError, HarnessError
        As `read_runs` and `evaluate`.
    """
    known = task.collection.known_topics()
    if lines:
        return evaluate(task, *read_runs(paths, names=names, format=format, known_topics=known))
    names = list(names) or [""] * len(paths)
    runs: list[Run] = []
    found: list[tuple[Scores, Mapping[str, tuple[float, float]], str]] = []
    problems: list[Problem] = []
    for path, name in track(list(zip(paths, names, strict=True)), "reading and scoring runs"):
        try:
            run = read_run(path, name=name or None, format=format, known_topics=known)
        except FormatError as error:
            problems += error.problems
            continue
        if not problems:  # after a fault, the other files are only checked
            scores = task.scorer(run)
            found.append((scores, task.scorer.tie_spans(run, scores), _strange(task.scorer, run, scores)))
            runs.append(run.without_lines())
    if problems:
        raise FormatError(problems)
    if not runs:
        raise HarnessError("evaluate: expected at least one run")
    named = _named(runs, names, paths)
    given = list(zip(named, found, strict=True))
    return Evaluation(
        task,
        tuple(named),
        tuple(replace(scores, run=run.name) for run, (scores, _, _) in given),
        {run.name: spans for run, (_, spans, _) in given if spans},
        strange={run.name: remark for run, (_, _, remark) in given if remark},
    )


def cautions(evaluation: Evaluation) -> tuple[str, ...]:
    """Returns warnings on the scored runs: skipped faults, results without a key or judgment, unknown tie bounds."""
    unknown = {scores.run: scores.counts.get("documents without a key", 0) for scores in evaluation.scores}
    lacking = (
        f"{run}: {counted(n, 'result has no key and counts', 'results have no key and count')} as not judged"
        for run, n in unknown.items()
        if n
    )
    ties = tie_caution(evaluation.scores)
    if evaluation.strange is None:
        scored = zip(evaluation.runs, evaluation.scores, strict=False)
        strange = [said for run, scores in scored if (said := unjudged(evaluation.task.scorer, run, scores))]
    else:
        strange = [f"{run}: {remark}" for run, remark in evaluation.strange.items()]
    return (*evaluation.warnings, *lacking, *strange, *([ties] if ties else []))


def grade_remarks(scorer: Scorer) -> list[str]:
    """Returns how grades below 0, and those that are not whole numbers, are taken by a scorer's measures."""
    grade, protocol = scorer.qrels.grade, scorer.protocol
    out = []
    if below := int(np.count_nonzero(grade < 0)):
        several = counted(below, "judgment has a grade below 0 and counts", "judgments have a grade below 0 and count")
        out.append(f"{several} as not judged, as in trec_eval")
    broken = grade[(grade != np.floor(grade)) & (grade > 0)]
    binary = [protocol.label(name) for name in scorer.measures if _has_threshold(name)]
    if broken.size and binary:
        out.append(
            f"grades are not whole numbers, such as {broken[0]:g}; relevant from {protocol.relevant_from:g} in "
            f"{', '.join(binary)} (key relevant_from of protocol {protocol.name})"
        )
    return out


def _has_threshold(name: str) -> bool:
    measure = parse_measure(name)
    return not measure.graded and not measure.diagnostic and measure.relevant_from is None


def unjudged(scorer: Scorer, run: Run, scores: Scores) -> str:
    """Returns the warning on a run none of whose documents is judged for any topic; empty if one is."""
    remark = _strange(scorer, run, scores)
    return f"{run.name}: {remark}" if remark else ""


def _strange(scorer: Scorer, run: Run, scores: Scores) -> str:
    """Returns the remark that none of a run's documents is judged; empty if one is."""
    # Other measures are not 0 if nothing is judged.
    found = [not (m := parse_measure(name)).diagnostic and m.aggregate != "geometric" for name in scores.measures]
    if not scores.counts.get("results without judgment") or np.nan_to_num(scores.values[:, found]).any():
        return ""
    docs = {doc.decode() for doc in run.doc.tolist()}
    if not {scorer.key(doc).encode() for doc in docs}.isdisjoint(scorer.qrels.judged().doc.tolist()):
        return ""
    return f"none of its {len(docs):,} documents is judged, such as {min(docs)!r}; is it a run on {scorer.collection}?"


@checked_arguments
def compare(
    evaluation: Evaluation,
    baseline: str | None = None,
    *,
    measures: Sequence[str] = (),
    alpha: float = 0.05,
    family: int | None = None,
    test: stats.Test = "t",
    permutations: int | None = None,
    seed: int = 0,
) -> Comparison:
    """Tests the runs of an evaluation against a baseline, or all pairs.

    Topics that share their `cluster`, if the collection has one, are dependent: means and differences stay those over
    topics, with cluster-robust errors, and n counts clusters (`harness.scoring.compare.Row`).

    Parameters
    ----------
    measures : measures to test; default: all scored ones except diagnostic measures such as Judged@k.
    alpha : level of significance.
    family : number of tests to correct for; default: the tests made (pairs times measures).
    test : the corrected test: paired t-test (`"t"`), or Fisher's randomization test (`"randomization"`).
    permutations : number of sign flips that the randomization test draws if it cannot enumerate all; None: 10,000, or
        more if the correction needs them, see `harness.scoring.compare`.
    seed : seed of these draws.

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
    if len(evaluation.scores) < 2:
        hint = "" if baseline is None else "; the baseline is one of them, by its name"
        raise HarnessError(f"compare: expected at least two runs{hint}")
    asked = [str(measure) for measure in parse_measures(several(measures))]
    collection = evaluation.task.collection
    found = stats.compare(
        evaluation.scores,
        baseline,
        measures=asked or without_diagnostics(evaluation.scores[0].measures),
        alpha=alpha,
        family=family,
        test=test,
        permutations=permutations,
        seed=seed,
        clusters=collection.clusters(),
    )
    return found if not collection.cluster else stats.said_clustered(found, collection.cluster)


def reproduce(original: Evaluation, new: Evaluation, *, persistence: float = 0.9) -> Reproduction:
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
        "comparison": None if comparison is None else stats.to_json(comparison),
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

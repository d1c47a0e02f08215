"""The command `run`: produces, scores and reports one configuration, or the points of a sweep.

With `tune`, the points of a sweep are scored on other collections than the one that is reported: the configuration is
chosen there, and the reported topics see the chosen one only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.cli.settings import RunSettings, checked, fixed, import_from_here, sweep_folder, sweep_overrides, unvaried
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.collections.same_topics import in_words, shared, topic_marks
from harness.errors import HarnessError, counted_text, suggestion
from harness.experiments import spread
from harness.experiments.evaluate import cautions, evaluate
from harness.experiments.fingerprint import Plan
from harness.experiments.produce import Produced, make
from harness.experiments.sweep import (
    ScoredPart,
    adaptive_sampler,
    best_of,
    failure_lines,
    is_minimized,
    note_point,
    read_points,
    run_suffix,
    scored_point,
    searched_values,
    tuned_remark,
    write_point,
)
from harness.experiments.task import Task, task, task_without_judgments
from harness.experiments.trackers import Finished, Record, tracker_record
from harness.io import checks, config
from harness.io.console import log_line, print_line
from harness.io.names import file_name
from harness.render.write import first_page
from harness.reports.changed_reports import write_changed
from harness.reports.comparison import comparison_headline
from harness.reports.comparison import report as comparison_report
from harness.scoring.protocol import Protocol, load_protocol
from harness.scoring.scores import Scores
from harness.store import sidecar
from harness.store.provenance import provenance
from harness.systems import states
from harness.systems.base import MARK
from harness.systems.build import BuiltSystem, build_system
from harness.systems.resources import declared

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from harness.collections.corpus import Corpus


def run(cfg: DictConfig | dict[str, Any]) -> float | None:
    """Runs one configuration; of a point of a sweep, returns the mean of the first measure."""
    import_from_here()
    settings = checked(RunSettings, cfg, "run")
    overrides = sweep_overrides()
    check_run_settings(settings, sweeping=bool(overrides))
    check_needs(settings)
    settings = with_corpus(settings)
    if overrides:
        return point(settings, overrides, unvaried(cast("DictConfig", cfg)), sweep_folder())
    return run_and_report(settings)


def check_run_settings(settings: RunSettings, sweeping: bool) -> None:
    """Raises HarnessError if a key is missing or has no meaning here."""
    for group in ("collection", "system"):
        if not getattr(settings, group):
            known = suggestion("", config.names(group))
            raise HarnessError(f"run: key {group!r} is missing; name one with {group}=NAME ({known})")
    words = {"only": "key 'only' restricts", "scale": "key 'scale' is that of", "dry": "--dry-run (dry=true) is for"}
    for word, does in words.items():
        if getattr(settings, word) not in (None, False) and not settings.experiment:
            raise HarnessError(f"run: {does} an experiment; name one with experiment=NAME")
    if settings.tune and not sweeping:
        raise HarnessError("run: key 'tune' is for sweeps; add -m and several values of a key, or sweep=NAME")
    if settings.tune:
        check_tune(name_of(settings.collection), settings.edition, settings.tune)


def check_tune(collection: str, edition: str | None, tune: Sequence[str]) -> None:
    """Raises HarnessError if a collection of `tune` is unknown, or judges topics that are reported."""
    reported = topic_marks(collection, edition)
    for name in tune:
        try:
            chosen = topic_marks(name)
        except HarnessError as error:
            raise HarnessError(f"run: key 'tune': {error}") from None
        if same := shared(reported, chosen):
            raise HarnessError(
                f"run: key 'tune': {name} judges {in_words(same)}, which is to be reported "
                f"({counted_text(len(same), 'such topic')}); tune on other topics"
            )


def check_needs(settings: RunSettings) -> None:
    """Raises HarnessError if a module that the system needs is missing, or a model that is downloaded by hand.

    The line names all that is missing, each with the command that installs or fetches it.
    """
    parts = list(states.nested_configurations(settings.system or {}))
    if states.registered(parts) is not None:  # which is reported when the system is built
        return
    modules, brought = states.missing_modules(parts), states.by_hand(parts)
    # Without the modules nothing is fetched either; else the other models are, or say themselves what is missing.
    absent = states.missing_models(parts if modules else [part for part in parts if "by_hand" in part])
    if modules or absent:
        lines = [modules, *(line for model in absent for line in states.model_lines(model, brought))]
        raise HarnessError(f"run: system: {'; '.join(filter(None, lines))}")


def with_corpus(settings: RunSettings) -> RunSettings:
    """Returns the settings with the corpus that the collection names, if none is given and the system may read one.

    Raises
    ------
    HarnessError
        The collections of `tune` name another corpus than the one that is reported.
    """
    if settings.corpus:
        return settings
    reported = name_of(settings.collection)
    names = dict.fromkeys([reported, *(entry.partition("/")[0] for entry in settings.tune or ())])
    named = {name: corpus for name in names if (corpus := load_collection(name).corpus)}
    if not named or not _searches(settings.system or {}):
        return settings
    if len({*named.values()}) > 1 or len(named) < len(names):
        corpora = ", ".join(f"{corpus} ({name})" for name, corpus in named.items())
        raise HarnessError(f"run: key 'corpus' is missing; name one with corpus=NAME; the collections name {corpora}")
    _say_corpus(reported, named[reported])
    return replace(settings, corpus=config.load("corpus", named[reported])[0])


def _searches(system: Mapping[str, object]) -> bool:
    """Returns whether a system may read a corpus; True if it cannot be built, whose faults are reported later."""
    try:
        return build_system(system, "run: system").searches()
    except HarnessError:
        return True


@cache  # once for all points of a sweep, or cells of an experiment
def _say_corpus(collection: str, corpus: str) -> None:
    log_line(f"corpus: {corpus}, which collection {collection} names; corpus=NAME takes another one")


def run_and_report(settings: RunSettings, suffix: str = "", remarks: Sequence[str] = ()) -> Finished | None:
    """Produces, scores and reports one run; returns its record, or None if its judgments are withheld."""
    # Before the task, whose files may have to be fetched: faults of the system's keys are found at once.
    system = build_system(settings.system or {}, "run: system")
    collection = load_collection(name_of(settings.collection))
    if collection.withheld(settings.edition) and not settings.rerank:
        edition = collection.edition(settings.edition).name
        with _spread(settings):
            made = produce_run(
                settings, system, task_without_judgments(collection, *_given(settings, settings.edition)), suffix
            )
        print_line(f"run: {made.path}")
        private = f"the judgments of {collection.name}, edition {edition}, are private: the run is made and not scored"
        print_line(f"{private}; send it to the organisers, who submit it with 'harness submit'")
        return None
    this_task = task_of(settings, name_of(settings.collection), settings.edition, {})
    with _spread(settings):
        produced = produce_run(settings, system, this_task, suffix)
    evaluation = evaluate(this_task, produced.run)
    commands = {produced.run.name: provenance({}).command}
    page = comparison_report(
        evaluation, remarks=(*run_remarks(settings, system, produced), *remarks), commands=commands
    )
    if said := evaluation.coverage_sentence():
        print_line(said)
    for caution in cautions(evaluation):
        log_line(f"warning: {caution}")
    print_line(comparison_headline(evaluation))
    print_line(f"run: {produced.path}")
    folder = Path(settings.output) / this_task.collection.name / file_name(produced.run.name)
    shown = first_page(write_changed(page, folder, settings.formats, log_line))
    print_line(f"report: {shown}")
    scores = evaluation.scores[0]
    return Finished(scores.aggregate(scores.measures[0]), [_record(settings, this_task, scores, produced.path, shown)])


def _record(settings: RunSettings, this_task: Task, scores: Scores, run: Path, page: Path | None = None) -> Record:
    """Returns what a tracker logs of a run."""
    private = this_task.collection.edition(this_task.scorer.qrels.edition).private
    given = {
        "corpus": None if this_task.corpus is None else this_task.corpus.name,
        "system": settings.system,
        "training": ", ".join(settings.training or ()) or None,
        "rerank": settings.rerank or None,
        "seed": settings.seed,
    }
    return tracker_record(scores, run, given, private=private, page=page)


def _spread(settings: RunSettings) -> AbstractContextManager[None]:
    """Returns a block in which the long maps of a run are made by the chosen launcher, if there is one."""
    need = declared(states.nested_configurations(settings.system or {}), "run: system")
    return spread.maps(Path(settings.runs), need, settings.jobs)


def run_remarks(settings: RunSettings, system: BuiltSystem, produced: Produced) -> tuple[str, ...]:
    """Returns the remarks on a run, a sentence each: training, re-ranking, models, approximate search."""
    remarks = (*system.notes(), *sidecar.remarks(sidecar.sidecar_path(produced.path)))
    if settings.training:
        remarks = (f"Learnt from the judgments of {', '.join(settings.training)}.", *remarks)
    if produced.run.name.endswith(MARK):
        said = "Trained on judgments of the ranked topics: every number is optimistic."
        remarks = (said, *remarks)
    if settings.rerank:
        remarks = ("The system ranked the judged documents of each topic, nothing else.", *remarks)
    return remarks


def point(settings: RunSettings, overrides: Mapping[str, str], rest: Mapping[str, object], folder: Path) -> float:
    """Produces and scores one configuration of a sweep; returns the mean of the first measure.

    Parameters
    ----------
    rest : the configuration without the system's parameters that vary.
    """
    named = [(name_of(settings.collection), settings.edition)]
    if settings.tune:
        named = [(name, edition or None) for name, _, edition in (entry.partition("/") for entry in settings.tune)]
    system = build_system(settings.system or {}, "run: system")
    suffix, parts, records = run_suffix(overrides, fixed()), [], []
    for name, edition in named:
        this_task = task_of(settings, name, edition, _SHARED)
        produced = produce_run(settings, system, this_task, suffix)
        # That of the scorer is another one where a corpus holds a part of the judgments.
        protocol = load_protocol(name_of(settings.protocol) if settings.protocol else this_task.collection.protocol)
        parts.append(ScoredPart(name, this_task, protocol, produced, this_task.scorer(produced.run)))
        records.append(_record(settings, this_task, parts[-1].scores, produced.path))
    made = scored_point(overrides, parts, asdict(settings), rest, overrides.keys() - fixed())
    write_point(folder, made)
    note_point(folder, made, overrides.keys() - fixed())
    label, first = next(iter((made.means or {}).items()))
    where = ", ".join(name for name, _ in named)
    shown = "undefined" if first is None else f"{first:.4f}"
    print_line(f"{made.text()}: {label} {shown} on {where} (n = {made.n})")
    return Finished(float("nan") if first is None else first, records)


def summarise(folder: Path, formats: Sequence[str]) -> None:
    """Reports a sweep; with `tune`, runs the best configuration. Raises HarnessError for points that failed."""
    from harness.reports.sweep import sweep_report

    points = read_points(folder, log_line)
    done = [point for point in points if point.means]
    if done:
        tuned = (done[0].settings or {}).get("tune")
        files = {name: checksum for point in done for name, checksum in point.files.items()}
        lowest = is_minimized(folder)
        made = provenance(files)
        page = sweep_report(points, "Sweep", made, tuned, lowest, searched_values(folder), adaptive_sampler(folder))
        print_line(page.headline)
        print_line(f"report: {first_page(page.write(folder / 'report', formats, log_line))}")
        if tuned:
            best = best_of(points, lowest)
            settings = checks.typed(RunSettings, best.settings, "run")
            run_and_report(replace(settings, tune=None), "-tuned", (tuned_remark(points, best, tuned, lowest),))
    if failed := failure_lines(points):
        raise HarnessError(*failed)


# What the points of a sweep are scored by, kept for the next point: they are jobs of one process.
_SHARED: dict[str, Task] = {}
_MOST_SHARED = 8


def task_of(
    settings: RunSettings, collection: str, edition: str | None, made: dict[str, Task], measures: Sequence[str] = ()
) -> Task:
    """Returns the task of a configuration; `made` keeps tasks of the same content."""
    given = (load_collection(collection), *_given(settings, edition))
    if (known := repr(given)) not in made:
        if len(made) >= _MOST_SHARED:
            made.clear()
        searched, how = given[1], given[3]
        made[known] = task(given[0], searched, edition=edition, protocol=how, measures=measures)
    return made[known]


def _given(settings: RunSettings, edition: str | None) -> tuple[Corpus | None, str | None, Protocol | None]:
    """Returns the corpus, the edition and the protocol of a task."""
    corpus = load_corpus(name_of(settings.corpus)) if settings.corpus else None
    return corpus, edition, load_protocol(name_of(settings.protocol)) if settings.protocol else None


def name_of(configuration: Mapping[str, object] | None) -> str:
    """Returns the name of a chosen configuration."""
    return str((configuration or {}).get("name"))


def produce_run(
    settings: RunSettings, system: BuiltSystem, this_task: Task, suffix: str, plan: Plan | None = None
) -> Produced:
    """Produces the run of a system on a task, as the settings say; `plan` as in `harness.experiments.produce.make`."""
    return make(
        system,
        this_task,
        runs=Path(settings.runs),
        reuse=settings.reuse,
        training=settings.training or (),
        rerank=settings.rerank,
        allow_test_judgments=settings.allow_test_judgments,
        suffix=suffix,
        plan=plan,
        say=log_line,
    )

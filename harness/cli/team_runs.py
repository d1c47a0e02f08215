"""The commands `organise pool`, `analyse`, `correlate`, `kappa` and `power`: what organisers of a shared task need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.leaderboard import LAB
from harness.cli.main import TASKS, HelpGroup
from harness.cli.organiser_commands import lab_with_readers
from harness.cli.scoring_options import find_readers, labelled, measure_list, note_unless
from harness.cli.written_files import print_table
from harness.errors import HarnessError, counted_text, gather, refuse, suggestion
from harness.io.console import print_line

if TYPE_CHECKING:
    from harness.data.trec import Run
    from harness.experiments.task import Task
    from harness.render.write import Report
import json
from dataclasses import asdict

from harness.cli.scoring_options import ScoringOptions, check_one_collection, evaluate_options, with_scoring_options

organise_app = typer.Typer(
    cls=HelpGroup,
    rich_help_panel=TASKS,
    help="For organisers: pools, difficulty of topics, pool bias, agreement of assessors.",
)
LISTED = 10  # topics printed

Runs = Annotated[
    list[str] | None,
    typer.Argument(help="Run files, or the folder of a lab.", metavar="[NAME=]FILE|LAB", show_default=False),
]
Team = Annotated[
    list[str] | None,
    typer.Option(metavar="TEAM=[NAME=]FILE", help="The team of a run; a run without a team counts as its own team."),
]
Primary = Annotated[list[str] | None, typer.Option(metavar="NAME", help="A primary run, read to --primary-depth.")]
PrimaryDepth = Annotated[int | None, typer.Option(min=1, help="Pool depth of primary runs; default: --depth.")]


@dataclass(frozen=True)
class TeamRun:
    """A run with its team, named `team / label`, or by the run's own name without a team."""

    team: str
    run: Run
    primary: bool = False


@organise_app.command()
def pool(
    runs: Runs = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Pool depth: number of results per topic and run.")] = None,
    team: Team = None,
    primary: Primary = None,
    primary_depth: PrimaryDepth = None,
    collection: options.CollectionName = None,
    topics: Annotated[
        Path | None,
        typer.Option(parser=options.to_path, metavar="FILE", help="The topics; results for other topics are errors."),
    ] = None,
    protocol: options.ProtocolName = None,
    keys: options.Keys = None,
    format: options.Format = None,
    cap: Annotated[int | None, typer.Option(min=1, help="Maximum number of documents per topic.")] = None,
    judged: Annotated[
        list[Path] | None,
        typer.Option(parser=options.to_path, metavar="FILE", help="Existing judgments (TREC), which are excluded."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the order in which assessors see the documents.")] = 0,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> None:
    """Make a pool: the first results of all runs, in an order that reveals nothing about them."""
    from harness.collections.files import read_key_pairs, read_topics
    from harness.collections.load import load_collection
    from harness.data.trec import read_qrels
    from harness.io.files import sha256_file, write_atomic
    from harness.reports.organisers import pool_report, pool_rules, pool_tables
    from harness.scoring import pools
    from harness.scoring.protocol import load_protocol
    from harness.store.provenance import provenance

    note = note_unless(quiet)
    if depth is None:
        raise HarnessError("--depth: how many results of each topic a run gives; such as --depth 20")
    if output is None:
        raise HarnessError("--output FOLDER: where the pool is written")
    source = None if collection is None else load_collection(collection)
    if source is not None:
        find_readers(source, None)
    known = None if source is None else source.known_topics()
    if topics is not None:
        known = read_topics(topics).ids()
    declared = {"--collection": collection, "--topics": topics, "--protocol": protocol, "--keys": keys}
    entries, task = _entries(runs or [], team or [], format, known, output, declared)
    if task is not None:
        source, chosen, mapping = task.collection, task.scorer.protocol, task.keys
        excluded = task.scorer.exclusions
    else:
        chosen = load_protocol(protocol or ("trec_eval" if source is None else source.protocol))
        mapping = None if keys in (None, "none") else read_key_pairs(Path(str(keys)))
        if chosen.deduplicate and mapping is None and keys != "none":
            mapping = None if source is None else source.keys()
            if mapping is None:
                raise HarnessError(f"protocol {chosen.name} de-duplicates by keys: give --keys FILE, or --keys none")
        excluded = None if source is None else source.exclusions(None, chosen)
    depths = _depths(entries, depth, primary_depth, primary or [])
    rankings, lacking = pools.all_first_results((entry.run for entry in entries), chosen, mapping, depths, excluded)
    for name, count in lacking.items():
        note(f"{name}: {counted_text(count, 'result has', 'results have')} no key, passed over")
    before = pools.judged_pairs(read_qrels(path) for path in judged or [])
    made = pools.pool(rankings, depths, cap=cap, judged=before, seed=seed)
    if known and (silent := sorted(known - made.topics.keys())):
        note(f"{counted_text(len(silent), 'topic has', 'topics have')} no document in the pool, such as {silent[0]}")
    how = pool_rules(chosen, depth, primary_depth, cap, seed)
    files = {entry.run.source or entry.run.name: entry.run.sha256 for entry in entries}
    files |= {str(path): sha256_file(path) for path in judged or []}
    report = pool_report(made, "Pool" if source is None else f"Pool of {source.name}", how, provenance(files))
    lines = [f"{topic}\t{doc}\n" for topic, docs in made.topics.items() for doc in docs]
    write_atomic(output / "pool.tsv", "".join(["topic\tdocument\n", *lines]))
    print_line(report.headline)
    print_table(pool_tables(made)[0])
    print_line(f"for assessors: {output / 'pool.tsv'}")
    _write(report, output)


@organise_app.command()
def analyse(
    runs: Runs = None,
    collection: options.CollectionName = None,
    edition: options.Edition = None,
    protocol: options.ProtocolName = None,
    measures: options.Measures = None,
    keys: options.Keys = None,
    format: options.Format = None,
    team: Team = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Depth of the judged pool; also estimates pool bias.")
    ] = None,
    primary: Primary = None,
    primary_depth: PrimaryDepth = None,
    alpha: options.Level = 0.05,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> None:
    """Analysis of variance, difficulty of topics, correlations of measures and, with --depth, pool bias."""
    from harness.collections.files import read_key_pairs
    from harness.collections.load import load_collection
    from harness.experiments.evaluate import cautions, evaluate
    from harness.experiments.task import task as make_task
    from harness.reports.organisers import analysis_report
    from harness.scoring.pools import leave_one_team_out

    note = note_unless(quiet)
    task = None
    if collection is not None:
        wanted = () if measures is None else measure_list(measures)
        mapping = None if keys in (None, "none") else read_key_pairs(Path(str(keys)))
        find_readers(load_collection(collection), None)
        task = make_task(
            collection, edition=edition, protocol=protocol, measures=wanted, keys=mapping, ids_are_keys=keys == "none"
        )
    known = None if task is None else task.collection.known_topics()
    declared = {"--collection": collection, "--edition": edition, "--protocol": protocol, "--keys": keys}
    entries, own = _entries(runs or [], team or [], format, known, output, {"--measures": measures, **declared})
    task = task or own
    if task is None:
        raise HarnessError("no judgments: name a collection with --collection NAME")
    if len(entries) < 2:
        raise HarnessError("an analysis needs two runs or more")
    if depth is None and (primary or primary_depth is not None):
        raise HarnessError("--primary and --primary-depth go with --depth, the depth of the pool")
    evaluation = evaluate(task, *(entry.run for entry in entries))
    for caution in cautions(evaluation):
        note(f"warning: {caution}")
    bias, said = None, []
    if depth is not None:
        depths = _depths(entries, depth, primary_depth, primary or [])
        teams = {entry.run.name: entry.team for entry in entries}
        bias = leave_one_team_out(task.scorer, evaluation.runs, depths, teams)
        primaries = "" if primary_depth is None else f" ({primary_depth} for primary runs)"
        said = [f"Pool bias: the pool is taken to be {depth} deep{primaries}; what no run here gave, stays."]
    else:
        note("no pool bias without --depth, the depth of the judged pool")
    report = analysis_report(evaluation, bias, alpha, said)
    _show(report, output)


@organise_app.command()
def correlate(
    scores: Annotated[
        list[str], typer.Argument(metavar="[NAME=]FILE", help="Output of 'harness score --json', or a report.json.")
    ],
    measures: options.Measures = None,
    output: options.Output = None,
) -> None:
    """Correlate rankings of runs: by measures (one file), or by editions and years (several; runs match by name)."""
    from harness.experiments.result_files import scores_in
    from harness.io.files import sha256_file
    from harness.reports.organisers import rankings_report
    from harness.scoring.compare import common_identity
    from harness.store.provenance import provenance

    names, paths = labelled(scores)
    stems = [name or path.name.removesuffix(".json") for name, path in zip(names, paths, strict=True)]
    for name in stems:
        if stems.count(name) > 1:
            raise HarnessError(f"{name}: two files have this name; give each its own, as NAME=FILE")
    given = {name: scores_in(path) for name, path in zip(stems, paths, strict=True)}
    for path, read in zip(paths, given.values(), strict=True):
        try:
            common_identity(read)  # a report of a paper has runs of one name on several collections
        except HarnessError as error:
            raise HarnessError(*(f"{path}: {line}" for line in error.lines)) from None
    wanted = () if measures is None else measure_list(measures)
    made = provenance({str(path): sha256_file(path) for path in paths})
    _show(rankings_report(given, wanted, made), output)


@organise_app.command(name="kappa")
def kappa_(
    judgments: Annotated[list[str], typer.Argument(metavar="[NAME=]FILE", help="Two files of judgments (TREC).")],
    relevant_from: Annotated[float, typer.Option(min=0, help="The lowest grade that counts as relevant.")] = 1,
    output: options.Output = None,
) -> None:
    """Agreement of two assessors on what both judged: Cohen's kappa, plain and weighted."""
    from harness.data.trec import read_qrels
    from harness.reports.organisers import kappa_report
    from harness.store.provenance import provenance

    names, paths = labelled(judgments)
    if len(paths) != 2:
        raise HarnessError(f"kappa: {len(paths)} files; expected the judgments of two assessors")
    shown = [name or path.stem for name, path in zip(names, paths, strict=True)]
    if shown[0] == shown[1]:
        raise HarnessError(f"{shown[0]}: two files have this name; give each its own, as NAME=FILE")
    first, second = (read_qrels(path, edition=name).judged() for name, path in zip(shown, paths, strict=True))
    made = provenance({str(path): qrels.sha256 for path, qrels in zip(paths, (first, second), strict=True)})
    _show(kappa_report(first, second, relevant_from, (shown[0], shown[1]), made), output)


def _entries(
    runs: Sequence[str],
    teams: Sequence[str],
    format: str | None,
    known: frozenset[str] | None,
    output: Path | None,
    declared: Mapping[str, object],
) -> tuple[list[TeamRun], Task | None]:
    """Reads the runs with their teams, and the task of a lab; raises HarnessError with the faults of all files.

    `declared` are the options that a lab's settings stand for.
    """
    from harness.data.trec import read_run
    from harness.experiments.evaluate import check_names, read_runs

    if len(runs) == 1 and os.path.isfile(os.path.join(runs[0], LAB)):  # noqa: PTH113, PTH118  (as in `leaderboard`)
        if teams:
            raise HarnessError("--team: a lab's submissions have their teams already")
        for name, value in {**declared, "--format": format}.items():
            if value is not None:
                raise HarnessError(f"{name}: {Path(runs[0]) / LAB} says this for the lab's runs; leave it out")
        return _of_lab(Path(runs[0]), output)
    faults: list[str] = []
    entries: list[TeamRun] = []
    names, paths = labelled(runs)
    if paths:
        with gather(faults):
            read = read_runs(paths, names=names, format=format, known_topics=known)
            entries += [TeamRun(run.name, run) for run in read]
    for text in teams:
        with gather(faults):
            name, _, file = text.partition("=")
            if not name or not file or "/" in name:
                raise HarnessError(f"--team {text}: expected TEAM=FILE or TEAM=NAME=FILE, no '/' in the team")
            (label,), (path,) = labelled([file])
            run = read_run(path, name=label or None, format=format, known_topics=known)
            entries.append(TeamRun(name, replace(run, name=f"{name} / {run.name}")))
    refuse(faults)
    if not entries:
        reason = "there are no runs: name files, with --team TEAM=FILE those of a team, or the folder of a lab"
        raise HarnessError(reason)
    check_names(entry.run for entry in entries)
    return entries, None


def _of_lab(folder: Path, output: Path | None) -> tuple[list[TeamRun], Task]:
    """Returns the latest version of each submission that was not withdrawn, and the lab's task."""
    from harness.labs.submissions import stored_run, submissions

    lab = lab_with_readers(folder)
    if lab.private and output is not None and output.resolve().is_relative_to(folder.resolve()):
        reason = f"--output {output}: the lab's judgments are private; write for organisers outside its folder"
        raise HarnessError(reason)
    current = [each for each in submissions(lab) if each.current]
    if not current:
        raise HarnessError(f"{folder}: has no submissions yet")
    faults: list[str] = []
    entries = []
    for each in current:
        with gather(faults):
            entries.append(TeamRun(each.team, stored_run(each), each.primary))
    refuse(faults)
    return entries, lab.task()


def _depths(
    entries: Sequence[TeamRun], depth: int, primary_depth: int | None, primary: Sequence[str]
) -> dict[str, int]:
    """Returns run -> pool depth."""
    names = [entry.run.name for entry in entries]
    for name in primary:
        if name not in names:
            raise HarnessError(f"--primary {name}: no such run; {suggestion(name, names)}")
    if primary and primary_depth is None:
        raise HarnessError("--primary: say how deep primary runs are read with --primary-depth")
    first = {entry.run.name for entry in entries if entry.primary} | set(primary)
    if primary_depth is not None and not first:
        raise HarnessError("--primary-depth: name the primary runs with --primary NAME")
    return {name: primary_depth if primary_depth is not None and name in first else depth for name in names}


def _show(report: Report, output: Path | None) -> None:
    """Prints the headline and the tables, of many topics the first; writes the report, if one is requested."""
    print_line(report.headline)
    for table in report.tables():
        if not table.collapsed:
            print_line("")
            print_table(replace(table, rows=table.rows[:LISTED]) if table.id == "difficulty" else table)
    if output is not None:
        _write(report, output)


def _write(report: Report, output: Path) -> None:
    print_line(f"report: {report.write(output)['html']}")


@organise_app.command()
@with_scoring_options("redact")
def power(
    asked: ScoringOptions,
    differences: Annotated[str, typer.Option(help="Mean differences to find.")] = "0.01,0.02,0.05",
    family: Annotated[int, typer.Option(min=1, help="Number of tests to correct for (Bonferroni).")] = 1,
    alpha: options.Level = 0.05,
    probability: Annotated[float, typer.Option("--power", help="Probability of finding the difference.")] = 0.8,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
) -> None:
    """How many topics a paired test needs for a difference, from runs of a pilot; and what the topics here find."""
    from harness.reports.pair_tests import plan_table
    from harness.scoring.measures import without_diagnostics
    from harness.scoring.planning import plan_tests
    from harness.scoring.scores import values_of

    try:
        wanted = [float(part) for part in differences.split(",")]
    except ValueError:
        raise HarnessError(f"--differences: {differences!r}; expected numbers such as 0.01,0.02,0.05") from None
    check_one_collection(asked, "organise power")
    evaluation = evaluate_options(asked)
    if evaluation.task.collection.clusters() is not None:
        name, by = evaluation.task.collection.name, evaluation.task.collection.cluster
        reason = f"power: topics of {name} depend on each other within {by}, and the plan takes them as independent"
        raise HarnessError(reason)
    names = without_diagnostics(evaluation.scores[0].measures)
    plans = [
        plan_tests(values, name, wanted, family=family, alpha=alpha, power=probability, seed=seed)
        for name, values in ((name, values_of(evaluation.scores, name)) for name in names)
    ]
    if asked.json:
        print_line(json.dumps([asdict(plan) for plan in plans], indent=1))
    else:
        print_table(plan_table(plans, family, evaluation.scores[0].protocol.label))

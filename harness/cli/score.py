"""The commands `score` and `compare`: run files that anyone made, scored and tested. Thin, as `harness.cli.main` is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.main import RUNS, in_panel
from harness.cli.options import Level, Unjudged
from harness.cli.scoring_options import (
    ScoringOptions,
    check_one_collection,
    evaluate_on_collections,
    evaluate_options,
    exists,
    labelled,
    log_private_judgments,
    parse_margin,
    with_scoring_options,
)
from harness.cli.written_files import WrittenFiles, print_table, table_lines, with_written_files
from harness.errors import HarnessError
from harness.io.console import out_table, out_wrapped, print_line

if TYPE_CHECKING:
    from harness.experiments.evaluate import Evaluation
    from harness.experiments.evaluation import JointEvaluation
    from harness.render.model import Table
    from harness.scoring.comparison import Comparison
    from harness.scoring.unjudged import UnjudgedBounds


_ROLES = ("original", "new", "baseline-original", "baseline-new")


@in_panel(RUNS)
@with_scoring_options(several=True)
@with_written_files("latex_tests")
def score(
    asked: ScoringOptions,
    written: WrittenFiles,
    per_topic: Annotated[bool, typer.Option("--per-topic", help="Print every topic instead of means.")] = False,
    unjudged: Unjudged = False,
) -> None:
    """Score run files of any system."""
    written.check(report_only=asked.redact, joint=len(asked.collections) > 1)
    _check_unjudged(asked, unjudged, {"--per-topic": per_topic})
    if len(asked.collections) > 1:
        if per_topic:
            raise HarnessError("--per-topic: goes with one collection; --json has the values of all")
        _finish_jointly(asked, evaluate_on_collections(asked), None, written)
        return
    evaluation = evaluate_options(replace(asked, lines=unjudged or written.output is not None))
    bounds = _bounds(evaluation, unjudged)
    if asked.redact:
        if per_topic:
            raise HarnessError("--per-topic and --redact: say one of them; values of topics reveal judgments")
        _finish_redacted(asked, evaluation, written)
        return
    if per_topic and not asked.json:
        print_line("\t".join(("run", "topic", *evaluation.scores[0].measures)))
        for scores in evaluation.scores:
            for topic, row in zip(scores.topics, scores.values.tolist(), strict=True):
                print_line("\t".join((scores.run, topic, *(repr(value) for value in row))))
    elif not asked.json:
        _print_means(evaluation, asked)
    label = evaluation.scores[0].protocol.label
    for run, by_measure in evaluation.tie_spans().items():
        if spans := ", ".join(f"{label(measure)} {span}" for measure, span in by_measure.items()):
            asked.note(f"ties: {run}: {spans}, depending on the order of tied results")
    _print_unjudged(evaluation, None, bounds)
    _finish(asked, evaluation, None, written, unjudged)


@in_panel(RUNS)
@with_scoring_options(several=True)
@with_written_files()
def compare(
    asked: ScoringOptions,
    baseline: Annotated[
        str | None, typer.Option("--baseline", "-b", help="Run to compare with; default: all pairs.")
    ] = None,
    *,
    written: WrittenFiles,
    alpha: Level = 0.05,
    family: Annotated[int | None, typer.Option(help="Number of tests to correct for; default: the tests made.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the randomization test.")] = 0,
    correction: Annotated[
        Literal["bonferroni", "maxT"], typer.Option(help="Correction that marks differences; maxT adds its p-values.")
    ] = "bonferroni",
    equivalence: Annotated[
        str | None,
        typer.Option(metavar="MARGIN", help="Also test equivalence: 0.02, or by measure: nDCG=0.02,P@10=0.05."),
    ] = None,
    non_inferiority: Annotated[
        str | None,
        typer.Option(metavar="MARGIN", help="Also test whether each first run is not worse than the second by it."),
    ] = None,
    unjudged: Unjudged = False,
    reproduction: Annotated[
        bool,
        typer.Option(
            "--reproduction", help="Measure how closely the second of two runs, ORIGINAL NEW, reproduces the first."
        ),
    ] = False,
    baseline_original: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --reproduction: the baseline of the original run.")
    ] = None,
    baseline_new: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --reproduction: the baseline of the new run.")
    ] = None,
    new_collection: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --reproduction: the new run's collection, if it has other topics."),
    ] = None,
    persistence: Annotated[
        float, typer.Option(metavar="P", help="With --reproduction: the p of rank-biased overlap.")
    ] = 0.9,
) -> None:
    """Significance tables: paired t-tests, Bonferroni and Holm, randomization tests; or a reproduction."""
    from harness.experiments import evaluate as workflow

    written.check(report_only=asked.redact or reproduction, joint=len(asked.collections) > 1)
    _check_unjudged(asked, unjudged, {"--reproduction": reproduction})
    if equivalence is not None and non_inferiority is not None:
        raise HarnessError("--equivalence and --non-inferiority: say one of them")
    if reproduction and (equivalence or non_inferiority or correction != "bonferroni"):
        raise HarnessError("--reproduction: makes no tests; leave out --correction, --equivalence, --non-inferiority")
    if reproduction:
        if asked.redact:
            raise HarnessError("--redact: a reproduction shows values per topic, which a redacted report must not")
        if baseline is not None or family is not None:
            raise HarnessError("--reproduction: has baselines of its own, --baseline-original and --baseline-new")
        if (alpha, seed) != (0.05, 0):
            raise HarnessError("--reproduction: makes no test that has a level or a seed; leave out --alpha and --seed")
        _reproduce(asked, (baseline_original, baseline_new), new_collection, persistence, written)
        return
    if (baseline_original, baseline_new, new_collection) != (None, None, None):
        raise HarnessError("--baseline-original, --baseline-new and --new-collection go with --reproduction")
    test_runs = partial(
        workflow.compare,
        baseline=baseline,
        alpha=alpha,
        family=family,
        seed=seed,
        correction=correction,
        margin=parse_margin(equivalence or non_inferiority),
        kind="equivalence" if non_inferiority is None else "non-inferiority",
    )
    if len(asked.collections) > 1:
        joint = evaluate_on_collections(asked)
        _finish_jointly(asked, joint, test_runs(joint), written)
        return
    evaluation = evaluate_options(replace(asked, lines=unjudged or written.output is not None))
    bounds, comparison = _bounds(evaluation, unjudged), test_runs(evaluation)
    if asked.redact:
        _finish_redacted(asked, evaluation, written)
        return
    if not asked.json:
        _print_means(evaluation, asked)
        print_line("")
        _print_tests(comparison, evaluation.scores[0].protocol.label)
    _print_unjudged(evaluation, comparison, bounds)
    _finish(asked, evaluation, comparison, written, unjudged)


def _reproduce(
    asked: ScoringOptions,
    baselines: tuple[str | None, str | None],
    new_collection: str | None,
    persistence: float,
    written: WrittenFiles,
) -> None:
    """Compares two runs, or two runs with their baselines, as a reproduction: tables, report or JSON document."""
    from harness.experiments.evaluate import inputs, reproduce
    from harness.reports.reproduction import effects_table, orders_table, reproduction_headline, reproduction_report
    from harness.scoring.reproduction import to_json

    check_one_collection(asked, "compare --reproduction")
    if len(asked.runs) != 2:
        raise HarnessError(f"--reproduction: {len(asked.runs)} runs; expected two, ORIGINAL NEW")
    if None in baselines and baselines != (None, None):
        raise HarnessError("--baseline-original and --baseline-new: give both or none; effects are of two pairs")
    files = [*asked.runs, *(text for text in baselines if text is not None)]
    named = list(zip(_ROLES, *labelled(files), strict=False))
    if lacking := [path for _, _, path in named if not exists(str(path))]:
        raise HarnessError(f"{lacking[0]}: no such file")
    texts = [f"{name or role}={path}" for role, name, path in named]
    if new_collection is None:
        evaluations = [evaluate_options(replace(asked, runs=texts))]
    else:
        there = replace(asked, runs=texts[1::2], collection=new_collection, edition=None)
        evaluations = [evaluate_options(replace(asked, runs=texts[::2])), evaluate_options(there)]
    reproduction = reproduce(evaluations[0], evaluations[-1], persistence=persistence)
    protocol = evaluations[0].scores[0].protocol
    if not asked.json:
        print_line(reproduction_headline(reproduction, protocol.label))
        print_line("")
        print_table(effects_table(reproduction, protocol.label))
        if reproduction.orders:
            print_line("")
            print_table(orders_table(reproduction))
    if written.output is not None:
        files_of = [inputs(each) for each in evaluations]
        whole = replace(files_of[0], files={**files_of[0].files, **files_of[-1].files})
        said = [f"{name}: {text.partition('=')[2]}." for name, text in zip(_ROLES, texts, strict=False)]
        written.write_report(reproduction_report(reproduction, protocol, whole, said), _tell(asked), asked.note)
    if asked.json:
        print_line(json.dumps(to_json(reproduction), allow_nan=False, indent=1))


def _print_means(evaluation: Evaluation, asked: ScoringOptions) -> None:
    from harness.reports.means import paper_means_table

    out_table(table_lines(paper_means_table(evaluation, decimals=4, form="command")))
    first = evaluation.scores[0]
    named = first.collection if asked.qrels is not None else f"{first.collection}, edition {first.edition}"
    default = ", the default with --qrels" if asked.qrels is not None and asked.protocol is None else ""
    print_line(f"{named} (judgments {first.qrels_sha256[:12]}), protocol {first.protocol.name}{default}")


def _print_tests(comparison: Comparison, label: Callable[[str], str]) -> None:
    from harness.reports.pair_tests import correction_name, equivalence_table, not_means, tests_table

    out_table(table_lines(tests_table(comparison, label, form="command")))
    said = "* significant" if any(row.marked for row in comparison.rows) else "none is significant"
    out_wrapped(f"{said} after {correction_name(comparison)}: {comparison.correction}")
    for line in not_means((row.measure for row in comparison.rows), label):
        out_wrapped(line)
    if comparison.equivalence:
        print_line("")
        print_table(equivalence_table(comparison, label))


def _finish_jointly(
    asked: ScoringOptions, evaluation: JointEvaluation, comparison: Comparison | None, written: WrittenFiles
) -> None:
    """Prints runs on several collections, writes their tables and report, or prints the JSON document."""
    from harness.experiments.evaluation import heterogeneity
    from harness.reports.joint import heterogeneity_table, joint_document, joint_means_table, joint_report

    parts = list(evaluation.parts.values())
    label = parts[0].scores[0].protocol.label

    def means(**how: int) -> list[Table]:
        return [joint_means_table(evaluation, measure, comparison, **how) for measure in evaluation.measures]

    if not asked.json:
        for table in means():
            print_table(replace(table, notes=table.notes[:1]))  # the tests are described below theirs
            print_line("")
        if comparison is not None:
            _print_tests(comparison, label)
            print_line("")
            print_table(heterogeneity_table(heterogeneity(evaluation, comparison), label))
            print_line("")
        print_line(f"protocol {parts[0].scores[0].protocol.name}")
    tell = _tell(asked)
    written.write_means(means(decimals=3 if written.decimals is None else written.decimals), tell)
    if written.output is not None:
        written.write_report(joint_report(evaluation, comparison), tell, asked.note)
        for part in parts:
            log_private_judgments(asked, part)
    if asked.json:
        print_line(json.dumps(joint_document(evaluation, comparison), allow_nan=False, indent=1))


def _finish_redacted(asked: ScoringOptions, evaluation: Evaluation, written: WrittenFiles) -> None:
    """Prints or writes what participants may see of private judgments."""
    from harness.experiments.redacted_scores import redact, redacted_to_json
    from harness.reports.redacted_report import redacted_means_table, redacted_report

    redacted = redact(evaluation)
    if written.output is not None:
        written.write_report(redacted_report(redacted, evaluation), _tell(asked), asked.note)
    if asked.json:
        print_line(json.dumps(redacted_to_json(redacted), allow_nan=False, indent=1))
        return
    out_table(table_lines(redacted_means_table(redacted)))
    print_line(redacted.left_out)


def _check_unjudged(asked: ScoringOptions, unjudged: bool, others: dict[str, bool]) -> None:
    """Refuses --unjudged where it has no table, and for participants, to whom bounds would tell what is judged."""
    if unjudged and asked.redact:
        raise HarnessError("--unjudged: not allowed with --redact, since bounds tell which documents are judged")
    if unjudged and len(asked.collections) > 1:
        raise HarnessError("--unjudged: goes with one collection")
    if unjudged and (given := [name for name, value in {"--json": asked.json, **others}.items() if value]):
        raise HarnessError(f"--unjudged: prints tables; leave out {', '.join(given)}")


def _bounds(evaluation: Evaluation, unjudged: bool) -> UnjudgedBounds | None:
    """Returns the bounds if they are asked for; refuses judgments that have none before a mean is printed."""
    if not unjudged:
        return None
    from harness.reports.sections import unjudged_bounds

    return unjudged_bounds(evaluation)


def _print_unjudged(evaluation: Evaluation, comparison: Comparison | None, bounds: UnjudgedBounds | None) -> None:
    if bounds is None:
        return
    from harness.reports.sections import bounds_table, order_table

    print_line("")
    print_table(bounds_table(evaluation, bounds))
    if len(evaluation.scores) > 1:
        print_line("")
        print_table(order_table(evaluation, bounds, comparison))


def _finish(
    asked: ScoringOptions, evaluation: Evaluation, comparison: Comparison | None, written: WrittenFiles, unjudged: bool
) -> None:
    """Writes the files that are asked for, then prints the JSON document."""
    written.write_parts(evaluation, comparison, _tell(asked))
    if written.output is not None:
        from harness.reports.comparison import report

        page = report(evaluation, comparison, commands=asked.commands(evaluation), unjudged=unjudged)
        written.write_report(page, _tell(asked), asked.note)
        log_private_judgments(asked, evaluation)
    if asked.json:
        from harness.reports.means import evaluation_document

        # ASCII only, so that no terminal's encoding can make the document another one.
        print_line(json.dumps(evaluation_document(evaluation, comparison), allow_nan=False, indent=1))


def _tell(asked: ScoringOptions) -> Callable[[str], None]:
    """Returns the function for lines on written files, which go beside a JSON document."""
    return asked.note if asked.json else print_line

"""The command `build saber`: a collection made from problems with solutions, step by step."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.main import MAKING, HelpGroup
from harness.errors import HarnessError
from harness.io.console import log_line, out_table, print_line

if TYPE_CHECKING:
    from harness.papers.saber.steps import BuilderStep, PlannedBuild

build_app = typer.Typer(cls=HelpGroup, rich_help_panel=MAKING, help="Build collections from data.")
STEPS = "databank, annotate, ontology, pairs, select, judge, rate, collection"


@build_app.callback()
def build() -> None:
    """Build collections from data."""


@build_app.command()
def saber(
    config: Annotated[str, typer.Option(metavar="NAME", help="Builder: conf/builder/NAME.yaml.")],
    step: Annotated[str | None, typer.Argument(metavar="[STEP]", help=f"The last step: {STEPS}; default: all.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Copy the results of the steps to this folder, one subfolder per step."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate the cost of the steps; calls no language model.")
    ] = False,
    pilot: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Only annotate N problems (STEP judge: N comparisons; databank: N texts), as a basis for --dry-run.",
        ),
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Use only cached answers of language models.")] = False,
    trec: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the ratings as TREC judgments, which must be whole numbers."),
    ] = None,
    rounded: Annotated[bool, typer.Option("--round", help="With --trec: round the ratings.")] = False,
) -> None:
    """Build a re-ranking collection from problems with solutions, as for SABER-Math; steps are cached and resumed."""
    from harness.papers.saber import judging, pipeline, steps

    settings, where = pipeline.load_settings(config)
    chosen = steps.upto(pipeline.steps(settings, where, "replay" if replay else "live"), step)
    if trec is not None and (step not in (None, "rate", "collection") or dry_run or pilot is not None):
        raise HarnessError("--trec: needs the ratings; name the step rate or collection, or none, and make it")
    if rounded and trec is None:
        raise HarnessError("--round: rounds what --trec FILE writes; give that too")
    if dry_run and pilot is not None:
        raise HarnessError("--dry-run and --pilot cannot both be given: ask the pilot first, then run dry")
    if dry_run:
        _planned(steps.dry(chosen))
        return
    if pilot is not None:
        if step == "databank":
            print_line(f"pilot: {pipeline.pilot_dollars(settings, where, pilot)}")
            return
        if not chosen[0].free and chosen[0].made({}) is None:
            raise HarnessError("--pilot: a language model makes the databank, whole; make that first: STEP databank")
        made = steps.build_steps(steps.upto(chosen, "select" if step == "judge" else "databank"), _begun)
        if step == "judge":
            print_line(f"pilot: {judging.pilot(settings.judge, made, pilot)}")
        else:
            print_line(f"pilot: {pipeline.pilot(settings, made['databank'], pilot)}")
        return
    folders = steps.build_steps(chosen, _begun)
    for name, folder in folders.items():
        counts = pipeline.counts_of(folder)
        print_line(f"{name}: {', '.join(f'{key} {_number(value)}' for key, value in counts.items())}")
        if output is not None:
            steps.copy(folder, output / name)
    if output is not None:
        print_line(f"written to {output}")
    if trec is not None:
        from harness.data.run_writers import write_qrels
        from harness.papers.saber.collection import as_qrels
        from harness.papers.saber.rate import RATINGS, read_ratings

        write_qrels(as_qrels(read_ratings(folders["rate"] / RATINGS)), trec, rounded=rounded)
        print_line(f"written to {trec}")


@build_app.command()
def compare(
    config: Annotated[str, typer.Option(metavar="NAME", help="Builder: conf/builder/NAME.yaml.")],
    person: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the person who compares, for the file of choices.")
    ],
    pairs: Annotated[int, typer.Option(min=1, metavar="N", help="Number of pairs of candidates.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the pairs and of the candidate shown first.")] = 0,
    choices: Annotated[Path, typer.Option(metavar="FILE", help="File to append the choices to.")] = Path(
        "choices.jsonl"
    ),
    exhaustive: Annotated[
        bool,
        typer.Option(
            "--exhaustive", help="Let the judge compare all pairs, and also report the agreement with that order."
        ),
    ] = False,
) -> None:
    """Let a person compare pairs of candidates with a target, and report the agreement with the ratings."""
    from harness.papers.saber import people, pipeline, steps
    from harness.papers.saber.databank import PROBLEMS, read_problems
    from harness.papers.saber.pipeline import exhaustive as of_all_pairs
    from harness.papers.saber.rate import RATINGS, read_ratings

    if not person.strip():
        raise HarnessError("NAME is empty; give the name of who compares")
    settings, where = pipeline.load_settings(config)
    people.read_choices(choices)  # what is wrong with them is said before any work
    folders = steps.build_steps(steps.upto(pipeline.steps(settings, where), "rate"), _begun)
    rated = {"Swiss order": read_ratings(folders["rate"] / RATINGS)}
    if exhaustive:
        rated["exhaustive order"] = of_all_pairs(settings.judge, settings.rate, folders)
    orders = {name: {each.target: each.by_candidate() for each in ratings} for name, ratings in rated.items()}
    drawn = people.pairs_to_judge(orders["Swiss order"], pairs, seed)
    problems = read_problems(folders["databank"] / PROBLEMS)
    made = people.ask(drawn, problems, person, choices, input, print_line)
    print_line(f"\n{made} choices added to {choices}")
    for name, order in orders.items():
        agreement = people.people_agreement(people.read_choices(choices), order)
        if agreement.choices:
            said = f"{agreement.agreed} of {agreement.choices} choices agree with the {name}"
            print_line(f"{said} (95% interval {agreement.low:.3f} to {agreement.high:.3f})")
        if agreement.unknown:
            print_line(f"{agreement.unknown} choices are of candidates that the {name} does not have: left out")


@build_app.command()
def report(
    config: Annotated[str, typer.Option(metavar="NAME", help="Builder: conf/builder/NAME.yaml.")],
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the report.")],
    target: Annotated[str, typer.Option(metavar="ID", help="Target whose candidates the report shows.")] = "",
    formulas: Annotated[
        list[str] | None,
        typer.Option(metavar="[LABEL=]RUN", help="Run for collection NAME-formulas on corpus NAME-joined; repeatable."),
    ] = None,
    words: Annotated[
        list[str] | None, typer.Option(metavar="RUN", help="Run of the same system for NAME-words, in the same order.")
    ] = None,
    leaderboard: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Output of 'harness leaderboard --json'; the first is compared with each other one."
        ),
    ] = None,
    choices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Choices of people from 'harness build compare'.")
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Builder whose judge makes the same comparisons; reports their agreement."),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Collection whose topics are targets; reports whether its relevant documents are rated higher.",
        ),
    ] = None,
) -> None:
    """Report on a built collection: tournament, ranks by signal, domains, tokens, preferences, leaderboards, people."""
    from harness.cli.scoring_options import labelled
    from harness.data.trec import read_run
    from harness.papers.saber import judging, people, pipeline, steps
    from harness.papers.saber.analyses import relevant_above
    from harness.papers.saber.rate import RATINGS, read_ratings
    from harness.papers.saber.report import Beside, built_report
    from harness.render.write import first_page

    settings, where = pipeline.load_settings(config)
    (labels, of_formulas), (_, of_words) = labelled(formulas or []), labelled(words or [])
    if len(of_formulas) != len(of_words):
        raise HarnessError("--formulas and --words: one of each for each system, in the same order")
    if len(leaderboard or [""] * 2) < 2:
        raise HarnessError("--leaderboard: two files or more, to hold the first against the others")
    folders = steps.build_steps(steps.upto(pipeline.steps(settings, where), "rate"), _begun)
    rated = read_ratings(folders["rate"] / RATINGS)
    pairs = zip(labels, of_formulas, of_words, strict=True)
    runs = {label or path.stem: (read_run(path), read_run(other)) for label, path, other in pairs}
    if len(runs) < len(labels):
        raise HarnessError("--formulas: two runs have the same label; give each its own, as LABEL=RUN")
    boards = [(path.stem, _board(path)) for path in leaderboard or []]
    beside = Beside(target, runs, [(*boards[0], *other) for other in boards[1:]])
    if choices is not None:
        if not choices.is_file():
            raise HarnessError(f"--choices: {choices}: no such file; 'harness build compare' writes one")
        orders = {each.target: each.by_candidate() for each in rated}
        beside = replace(beside, people={"Swiss order": people.people_agreement(people.read_choices(choices), orders)})
    if truth is not None:
        agreement = relevant_above(rated, _relevant(truth, [source.name for source in settings.databank.sources]))
        beside = replace(beside, truth=(truth, agreement))
    if judge is not None:
        other = pipeline.load_settings(judge)[0].judge
        beside = replace(beside, second=(other.named(), *judging.second_opinion(other, folders)))
    page = built_report(settings, folders, beside)
    written = page.write(output)
    print_line(page.headline)
    print_line(f"report: {first_page(written)}")


def _relevant(collection: str, sources: Sequence[str]) -> dict[str, list[str]]:
    """Returns target -> documents that another collection judges relevant, matched by the ids of their sources."""
    from harness.collections.load import load_collection
    from harness.scoring.protocol import load_protocol

    judged_collection = load_collection(collection)
    least = load_protocol(judged_collection.protocol).relevant_from
    return {
        f"{source}-{topic}": [f"{source}-{doc}" for doc, grade in docs.items() if grade >= least]
        for source in sources
        for topic, docs in judged_collection.qrels().to_dict().items()
    }


def _board(path: Path) -> dict[str, float]:
    """Returns system -> mean of the main measure, from the first leaderboard of a file."""
    from harness.io.files import read_bytes
    from harness.labs.board import leaderboard_from_json

    try:
        content = json.loads(read_bytes(path))
    except ValueError as error:
        raise HarnessError(f"{path}: not valid JSON: {error}") from None
    board = leaderboard_from_json(content[0] if isinstance(content, list) and content else content, str(path))
    return {each.name: value for each in board.ranked if (value := each.mean(board.main).value) is not None}


def _begun(step: BuilderStep, made: bool) -> None:
    log_line(f"{step.name}: {'kept from before' if made else 'making'}")


def _number(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _planned(planned: list[PlannedBuild]) -> None:
    from harness.papers.saber.steps import total

    rows = [["step", "state", "calls", "tokens in", "tokens out", "cost"]]
    whole = total(planned)
    for name, state, plan in (
        *((each.step, "made" if each.made else "to make", each.plan) for each in planned),
        ("all", "", whole),
    ):
        numbers = [f"{value:,.0f}" for value in (plan.calls, plan.tokens_in, plan.tokens_out)]
        rows.append([name, state, *numbers, f"{plan.cost:,.4f}"])
    out_table(rows)
    for each in planned:
        counts = ", ".join(f"{key} {_number(value)}" for key, value in each.plan.counts.items())
        if counts or each.plan.basis:
            basis = f"from {each.plan.basis}" if each.plan.calls else each.plan.basis
            print_line(f"{each.step}: {'; '.join(filter(None, (counts, basis)))}")
    if whole.calls:
        print_line(
            f"cost: {whole.cost:,.4f} " + (f"± {whole.within:.1%}" if math.isfinite(whole.within) else "(rough)")
        )

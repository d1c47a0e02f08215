"""The command `leaderboard`: the runs of labs and folders, ranked. Thin, as `harness.cli.main` is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import (
    CollectionName,
    CorpusName,
    Edition,
    Format,
    Judgments,
    Keys,
    Measures,
    ProtocolName,
    Quiet,
    TopicFile,
    to_report_folder,
)
from harness.cli.plugin_commands import TASKS, in_panel
from harness.cli.scoring_options import (
    ScoringOptions,
    evaluate_options,
    find_readers,
    log_private_judgments,
    measure_list,
    note_unless,
)
from harness.errors import HarnessError, suggestion
from harness.io.console import log_line, out_table, out_wrapped, print_line

if TYPE_CHECKING:
    from harness.collections.collection import Collection
    from harness.labs.board import Leaderboard
    from harness.labs.journal import Event
    from harness.labs.lab import Lab
    from harness.labs.leaderboard import LeaderboardEntry, LeaderboardSettings
    from harness.scoring.protocol import Protocol

ENDINGS = (".run", ".tsv", ".txt", ".trec", ".res")
PACKED = (".gz", ".xz", ".zst")
LAB = "lab.yaml"
Places = Annotated[
    list[str],
    typer.Argument(help="Labs, folders of run files, or run files.", metavar="LAB|FOLDER|[NAME=]FILE"),
]


@dataclass(frozen=True)
class _Source:
    """Runs to rank, the settings of their leaderboards, and the provenance."""

    title: str
    entries: Sequence[LeaderboardEntry]
    settings: LeaderboardSettings
    remarks: Sequence[str]
    files: Mapping[str, str]


@in_panel(TASKS)
def leaderboard(
    places: Places,
    collection: CollectionName = None,
    qrels: Judgments = None,
    topics: TopicFile = None,
    edition: Edition = None,
    protocol: ProtocolName = None,
    format: Format = None,
    measures: Measures = None,
    keys: Keys = None,
    corpus: CorpusName = None,
    main: Annotated[str | None, typer.Option(help="Measure that ranks and is tested; default: the first.")] = None,
    baseline: Annotated[str | None, typer.Option("--baseline", "-b", help="Run to mark as the baseline.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Level of significance; default: 0.05.")] = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples for the intervals of ranks.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=to_report_folder,
            metavar="FOLDER",
            help="Write a report to this folder; default: leaderboard/ of a single lab, otherwise no report.",
        ),
    ] = None,
    formats: Annotated[str, typer.Option(help="Formats of the report: some of html, md, tex, json, csv, pdf.")] = "",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print only a JSON list of leaderboards (schema mathir-harness/leaderboard)."),
    ] = False,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="For participants, if judgments are private: only rounded means and ranks."),
    ] = False,
    final: Annotated[
        bool,
        typer.Option(
            "--final",
            help="Rank the primary runs of a private lab that has ended, by its held-out topics if any.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Rank runs of a lab or a folder: groups that do not differ, intervals of ranks and means."""
    from harness.labs.leaderboard import LeaderboardSettings, leaderboards
    from harness.labs.leaderboard_report import leaderboard_report
    from harness.render.write import first_page
    from harness.store.provenance import provenance

    note = note_unless(quiet)
    chosen = _formats(formats)
    places = list(dict.fromkeys(places))
    # Path's own would raise for what is too long to be a file's name.
    labs = [Path(place) for place in places if os.path.isfile(os.path.join(place, LAB))]  # noqa: PTH113, PTH118
    others = [place for place in places if Path(place) not in labs]
    asked = ScoringOptions(
        runs=[],
        collection=collection,
        qrels=qrels,
        topics=topics,
        edition=edition,
        protocol=protocol,
        format=format,
        measures=measures,
        keys=keys,
        corpus=corpus,
        json=as_json,
        redact=redact,
        note=note,
    )
    options = ("collection", "qrels", "topics", "edition", "protocol", "format", "measures", "keys", "corpus")
    given = {f"--{name}": getattr(asked, name) for name in options}
    given |= {"--main": main, "--baseline": baseline, "--alpha": alpha, "--redact": redact or None}
    if not others and (told := [name for name, value in given.items() if value is not None]):
        raise HarnessError(f"{told[0]}: {labs[0] / LAB} says this for the lab's runs; leave it out")
    drawn = LeaderboardSettings(resamples=resamples, seed=seed)
    unscored = others if collection is None and qrels is None else []  # else who reads the run says it
    if absent := [place for place in unscored if "=" not in place and not os.path.exists(place)]:  # noqa: PTH110
        raise HarnessError(f"{absent[0]}: no such lab, folder or run file")
    if final and others:
        raise HarnessError("--final: only labs have an end; leave it out, or name labs only")
    sources = [_final_of_lab(lab, drawn) if final else _of_lab(lab, drawn, note) for lab in labs]
    if others:
        files = [file for place in others for file in _files(place, note)]
        wanted = replace(drawn, main=main, baseline=baseline, alpha=0.05 if alpha is None else alpha)
        wanted = replace(wanted, private=True) if redact else wanted
        sources.append(_of_files(replace(asked, runs=files), wanted))
    boards = [board for source in sources for board in leaderboards(source.entries, source.settings)]
    _print_boards(boards, as_json, note)
    alone = labs[0] / ("final" if final else "leaderboard") if len(sources) == len(labs) == 1 and not as_json else None
    if (folder := output or alone) is None:
        return
    title = sources[0].title if len(sources) == 1 else ""
    remarks = tuple(dict.fromkeys(remark for source in sources for remark in source.remarks))
    checksums = {name: digest for source in sources for name, digest in source.files.items()}
    page = leaderboard_report(boards, provenance(checksums), title=title, remarks=remarks)
    written = page.write(folder, chosen, log_line)
    (note if as_json else print_line)(f"report: {first_page(written)}")


def _formats(formats: str) -> Sequence[str]:
    """Returns the chosen formats of the report, the default ones if none is chosen."""
    from harness.render.write import DEFAULT, FORMATS

    chosen = [name.strip() for name in formats.split(",") if name.strip()]
    for name in chosen:
        if name not in FORMATS:
            raise HarnessError(f"--formats: {name!r} is unknown; {suggestion(name, FORMATS)}")
    return chosen or DEFAULT


def _print_boards(boards: Sequence[Leaderboard], as_json: bool, note: Callable[[str], None]) -> None:
    """Prints leaderboards with how to read them, or as JSON; incomplete runs are warned of."""
    from harness.labs.board import leaderboard_to_json
    from harness.labs.leaderboard_report import conditions_text, incomplete, reading

    for sentence in dict.fromkeys(sentence for board in boards for sentence in incomplete(board)):
        note(f"warning: {sentence}")
    if as_json:
        # ASCII only, so that no terminal's encoding can make the document another one.
        print_line(json.dumps([leaderboard_to_json(board) for board in boards], allow_nan=False, indent=1))
    for number, board in enumerate(() if as_json else boards):
        for line in ("",) * (number > 0):
            print_line(line)
        _print(board)
        judged = f" (judgments {board.qrels_sha256[:12]})" if board.qrels_sha256 else ""
        for line in (f"{conditions_text(board)}{judged}", *reading(board), *([board.privacy] if board.privacy else [])):
            out_wrapped(line)


def _of_files(asked: ScoringOptions, settings: LeaderboardSettings) -> _Source:
    """Scores run files, the share of judged results included."""
    from harness.collections.load import load_collection
    from harness.experiments.evaluate import inputs
    from harness.experiments.redacted_scores import LEFT_OUT, step_of
    from harness.labs.leaderboard import LeaderboardEntry, floor
    from harness.labs.shown_scores import UNTESTED
    from harness.scoring.protocol import load_protocol
    from harness.scoring.rounding import decimals_of

    if not settings.private:
        default = load_collection(asked.collection).protocol if asked.collection is not None else "trec_eval"
        protocol = load_protocol(asked.protocol or default)
        names = protocol.measures if asked.measures is None else measure_list(asked.measures)
        asked = replace(asked, measures=",".join((*names, *_shares_judged(names, protocol))))
    evaluation = evaluate_options(replace(asked, lines=False))
    if not settings.private:
        log_private_judgments(asked, evaluation)
    collection = evaluation.task.collection
    entries = [
        LeaderboardEntry(each.run, each, bounds=evaluation.bounds.get(each.run, {})) for each in evaluation.scores
    ]
    found = replace(settings, clusters=collection.clusters(), cluster=collection.cluster)
    said = "" if settings.private else evaluation.coverage_sentence()
    remarks = (*([f"{said[0].upper()}{said[1:]}."] if said else []), *collection.notes)
    files = inputs(evaluation).files
    if settings.private:
        step = step_of(evaluation.scores)
        said = LEFT_OUT.format(step=step)
        found = replace(found, step=step, decimals=decimals_of(step), untested=UNTESTED, privacy=said)
        # Checksums of judgments would prove a guess.
        files = {run.source or run.name: run.sha256 for run in evaluation.runs}
    else:
        found = replace(found, floor=floor(evaluation.task))
    return _Source(f"Leaderboard: {collection.title}", entries, found, remarks, files)


def _shares_judged(names: Sequence[str], protocol: Protocol) -> tuple[str, ...]:
    """Returns the Judged@k measures that are not among the measures."""
    from harness.scoring.measures import parse_measures

    found = parse_measures(names)
    added = []
    if not any(measure.name == "Judged" for measure in found):
        added.append(f"Judged@{min((m.k for m in found if m.name == 'P' and m.k is not None), default=10)}")
    added.append(f"Judged@{protocol.depth or 1000}")
    return tuple(name for name in dict.fromkeys(added) if name not in map(str, found))


def _of_lab(
    folder: Path, settings: LeaderboardSettings, note: Callable[[str], None], journal: Sequence[Event] | None = None
) -> _Source:
    """Returns the current submissions of a lab and its settings; of private judgments nothing that reveals them.

    `journal` are the lab's events, if the caller has read them: another one may come at any time.
    """
    import math

    import numpy as np

    from harness.collections.load import load_collection
    from harness.experiments.evaluate import not_judged
    from harness.labs.lab import read_lab
    from harness.labs.leaderboard import LeaderboardEntry, floor
    from harness.labs.roster import public_names
    from harness.labs.shown_scores import UNTESTED, concealed, protection, public_and_held_out, spent_budget, width_of
    from harness.labs.standing import refuse_if_changed
    from harness.labs.submissions import events, from_events, scores_of, stored_run
    from harness.labs.testing import MOST_LETTERED
    from harness.scoring.protocol import load_protocol

    lab = read_lab(folder)
    find_readers(load_collection(lab.collection), lab.corpus)
    journal = events(lab) if journal is None else journal
    found = from_events(journal, lab.folder)
    current = [each for each in found if each.current]
    if not current:
        raise HarnessError(f"{folder}: has no submissions yet")
    names = public_names(lab)
    ranked = {each.name for each in current if each.primary or each.name == lab.baseline}
    everyone = {each.name for each in current}
    with lab.guarded():
        chance = floor(lab.task())
    refuse_if_changed(lab, chance[0], found)
    topics, _ = public_and_held_out(lab, journal, chance[0].topics)
    with lab.guarded():
        # Ties, and how much was judged, are told of runs as long as they are not too many to be scored here.
        scored = everyone if len(everyone) <= MOST_LETTERED else ranked
        told = scored if not lab.private and len(scored) <= MOST_LETTERED else set()
        more = _shares_judged(lab.measures, load_protocol(lab.protocol)) if told else ()
        task = replace(lab, measures=(*lab.measures, *more)).task()
        entries = []
        # Exact scores have no way to the leaderboard of a private lab.
        main, blank = lab.measures[0], lab.private and not lab.per_topic
        known = [name for name in lab.measures if any(not math.isnan(each.means[name]) for each in current)]
        nothing = concealed(chance[0], task.topics.ids(), known or [main])
        for each in current:
            scores, bounds = nothing if blank else scores_of(lab, each).select(topics), None
            if each.name in told:
                run = stored_run(each)
                bounds, shares = task.scorer.tie_spans(run, scores), task.scorer(run)
                remark = not_judged(task.scorer, run, shares)
                if remark and each.name in ranked:
                    note(f"warning: {each.name}: {remark}")
                columns = [scores.values, *(shares.column(name)[:, None] for name in more)]
                scores = replace(scores, measures=(*scores.measures, *more), values=np.hstack(columns))
            team = names.get(each.team, each.team)
            name, primary = f"{team} / {each.label}", each.name in ranked and not (lab.private and main not in known)
            shown = each.means if lab.private else None
            entries.append(
                LeaderboardEntry(name, replace(scores, run=each.name), team, each.kind, primary, bounds, shown)
            )
        baseline = next((e.name for e, each in zip(entries, current, strict=True) if each.name == lab.baseline), None)
        declared = replace(
            _declared(lab, task.collection, settings, baseline),
            floor=[] if lab.private else floor(task) if more else chance,
            private=lab.private,
            decimals=lab.decimals,
            untested=f"{UNTESTED}; runs are tested at the end of the lab" if lab.private else "",
            privacy=" ".join(
                (protection(lab, width_of(lab, chance[0].select(topics))), spent_budget(lab, found))
            ).strip(),
        )
    files = {f"{each.name}, version {each.version}": each.sha256 for each in current}
    return _Source(f"Leaderboard: {lab.title}", entries, declared, task.collection.notes, files)


def _final_of_lab(folder: Path, settings: LeaderboardSettings) -> _Source:
    """Returns the primary runs of a private lab that has ended, with their scores on the held-out topics, if any."""
    from harness.collections.load import load_collection
    from harness.labs.lab import read_lab
    from harness.labs.leaderboard import LeaderboardEntry
    from harness.labs.roster import public_names
    from harness.labs.shown_scores import FINAL_DECIMALS, final_runs, public_and_held_out
    from harness.labs.submissions import events, scores_of

    lab = read_lab(folder)
    collection = load_collection(lab.collection)
    find_readers(collection, lab.corpus)
    journal = events(lab)
    names, entries, files, baseline = public_names(lab), [], {}, None
    for each in final_runs(lab, journal):
        scores, team = scores_of(lab, each), names.get(each.team, each.team)
        public, held_out = public_and_held_out(lab, journal, scores.topics)
        held = scores.select(held_out or public)
        entries.append(LeaderboardEntry(f"{team} / {each.label}", held, team, each.kind))
        baseline = entries[-1].name if each.name == lab.baseline else baseline
        files[f"{each.name}, version {each.version}"] = each.sha256
    if not entries:
        raise HarnessError(f"{folder}: no run is ranked, since none was a primary run when the lab ended")
    declared = _declared(lab, collection, settings, baseline)
    said = "The judgments are private: final means are rounded to two decimals, and nothing else is shown."
    declared = replace(declared, private=True, decimals=FINAL_DECIMALS, step=10.0**-FINAL_DECIMALS, privacy=said)
    where = " on held-out topics" if lab.held_out else ""
    return _Source(f"Final ranking{where}: {lab.title}", entries, declared, collection.notes, files)


def _declared(
    lab: Lab, collection: Collection, settings: LeaderboardSettings, baseline: str | None
) -> LeaderboardSettings:
    """Returns the settings with what a lab declares; `baseline` is the name of the baseline's entry."""
    return replace(
        settings,
        main=lab.measures[0],
        baseline=baseline,
        alpha=lab.alpha,
        correction=lab.correction,
        family=lab.family,
        clusters=collection.clusters(),
        cluster=collection.cluster,
    )


def _files(place: str, note: Callable[[str], None]) -> list[str]:
    """Returns the run files of a folder, sorted by name; a path that is not a folder is returned itself."""
    if not os.path.isdir(place):  # noqa: PTH112  (Path's raises for what is too long to be a file's name)
        return [place]
    there = sorted(path for path in Path(place).iterdir() if path.is_file() and not path.name.startswith("."))
    runs = [path for path in there if _stem(path).suffix.lower() in ENDINGS]
    if not runs:
        raise HarnessError(f"{place}: holds no run files (their names end in {', '.join(ENDINGS)}, packed or not)")
    left = [path.name for path in there if path not in runs and not path.name.endswith((".md", ".yml", ".yaml"))]
    if left:
        note(f"{place}: left out, as their names do not end in {', '.join(ENDINGS)}: {', '.join(left)}")
    return [str(path) for path in runs]


def _stem(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


def _print(board: Leaderboard) -> None:
    """Prints the table in the width of the terminal."""
    from harness.labs.board import Mean, Span, shown_columns
    from harness.scoring.measures import shown_decimals

    def text(value: object) -> str:
        match value:
            case Mean():
                return (
                    "n/a" if value.value is None else f"{value.value:.{shown_decimals(value.measure, board.decimals)}f}"
                )
            case Span():
                return "" if value.low is None else f"{value.low}-{value.high}"
        return "-" if value is None else str(value)

    columns = shown_columns(board, "command", board.measures)
    rows = [["run", *(column.name for column in columns)]]
    for each in (*board.ranked, *board.others):
        name = f"{each.name}{' (baseline)' if each.baseline else ''}"
        rows.append([name, *(text(column.value(each)) for column in columns)])
    if board.floor:
        floor = {board.protocol.label(mean.measure): mean.value for mean in board.floor}
        means = (floor.get(column.name) for column in columns)
        rows.append(["random floor", *("" if mean is None else f"{mean:.{board.decimals}f}" for mean in means)])
    out_table(rows)
    if board.others:
        print_line("rank -: not the team's primary run, or post-hoc; neither ranked nor tested")

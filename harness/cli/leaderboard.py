"""The command `leaderboard`: the runs of labs and folders, ranked. Thin, as `harness.cli.main` is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import scoring_options
from harness.cli.main import TASKS, in_panel
from harness.cli.options import Formats, MaybeLevel, to_report_folder
from harness.cli.organiser_commands import lab_with_readers
from harness.cli.written_files import chosen_formats
from harness.errors import HarnessError
from harness.io.console import log_line, out_table, out_wrapped, print_line
from harness.labs.names import is_address

if TYPE_CHECKING:
    from harness.experiments.evaluate import Evaluation
    from harness.labs.board import Leaderboard
    from harness.labs.leaderboard import LeaderboardSettings

ENDINGS = (".run", ".tsv", ".txt", ".trec", ".res")
PACKED = (".gz", ".xz", ".zst")
LAB = "lab.yaml"
Places = Annotated[
    list[str] | None,
    typer.Argument(
        help="Labs, folders of run files, run files, or the address of a server.", metavar="LAB|FOLDER|[NAME=]FILE|URL"
    ),
]


@in_panel(TASKS)
@scoring_options.with_scoring_options("runs", "json", "redact")
def leaderboard(
    asked: scoring_options.ScoringOptions,
    places: Places = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of a lab's server, whose leaderboard is shown.")
    ] = None,
    main: Annotated[str | None, typer.Option(help="Measure that ranks and is tested; default: the first.")] = None,
    baseline: Annotated[str | None, typer.Option("--baseline", "-b", help="Run to mark as the baseline.")] = None,
    alpha: MaybeLevel = None,
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
    formats: Formats = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only a JSON list of leaderboards (schema mathir-harness/leaderboard).")
    ] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="For participants, if judgments are private: only rounded means and ranks.")
    ] = False,
    final: Annotated[
        bool,
        typer.Option(
            "--final", help="Rank the primary runs of a private lab that has ended, by its held-out topics if any."
        ),
    ] = False,
) -> None:
    """Rank runs of a lab or a folder: groups that do not differ, intervals of ranks and means."""
    from harness.labs.board_sources import files_source, final_source, lab_source
    from harness.labs.leaderboard import LeaderboardSettings, leaderboards
    from harness.labs.leaderboard_report import leaderboard_report
    from harness.render.write import first_page
    from harness.store.provenance import provenance

    note, asked = asked.note, replace(asked, json=as_json, redact=redact)
    chosen = chosen_formats(formats)
    scoring_options.check_one_collection(asked, "leaderboard")
    labs, others, address = _places(places or (), server)
    options = ("collection", "qrels", "topics", "edition", "protocol", "format", "measures", "keys", "corpus")
    given = {f"--{name}": getattr(asked, name) for name in options}
    given |= {"--main": main, "--baseline": baseline, "--alpha": alpha, "--redact": redact or None}
    if address:
        given |= {"--final": final or None, "--seed": seed or None}
        given |= {"--resamples": None if resamples == LeaderboardSettings.resamples else resamples}
    if (address or not others) and (told := [name for name, value in given.items() if value is not None]):
        whose = f"the lab of {address} says this for its" if address else f"{labs[0] / LAB} says this for the lab's"
        raise HarnessError(f"{told[0]}: {whose} runs; leave it out")
    drawn = LeaderboardSettings(resamples=resamples, seed=seed)
    unscored = others if asked.collection is None and asked.qrels is None else []  # else who reads the run says it
    if absent := [place for place in unscored if "=" not in place and not os.path.exists(place)]:  # noqa: PTH110
        raise HarnessError(f"{absent[0]}: no such lab, folder or run file")
    if final and others:
        raise HarnessError("--final: only labs have an end; leave it out, or name labs only")
    read = map(lab_with_readers, labs)
    sources = [final_source(lab, drawn) if final else lab_source(lab, drawn, note) for lab in read]
    if others:
        files = [file for place in others for file in _files(place, note)]
        wanted = replace(drawn, main=main, baseline=baseline, alpha=0.05 if alpha is None else alpha, private=redact)
        sources.append(files_source(_evaluation(replace(asked, runs=files), wanted), wanted))
    boards = []
    if address:
        from harness.labs.remote import read_leaderboard

        boards.append(read_leaderboard(address))
    boards += [board for source in sources for board in leaderboards(source.entries, source.settings)]
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


def _places(places: Sequence[str], server: str | None) -> tuple[list[Path], list[str], str]:
    """Returns the labs, the other places, and the address of a server, which stands alone; empty if there is none."""
    places = list(dict.fromkeys([*places, *([] if server is None else [server])]))
    if not places:
        raise HarnessError("leaderboard: name a lab, a folder, run files, or --server URL")
    addresses = [place for place in places if place == server or is_address(place)]
    if addresses and len(places) > 1:
        raise HarnessError(f"{addresses[0]}: the leaderboard of a server is shown alone; leave out the other names")
    # Path's own would raise for what is too long to be a file's name.
    labs = [Path(place) for place in places if os.path.isfile(os.path.join(place, LAB))]  # noqa: PTH113, PTH118
    return labs, [place for place in places if Path(place) not in labs and place not in addresses], "".join(addresses)


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


def _evaluation(asked: scoring_options.ScoringOptions, settings: LeaderboardSettings) -> Evaluation:
    """Scores run files, the share of judged results included unless judgments are private."""
    from harness.collections.load import load_collection
    from harness.labs.board_sources import shares_judged
    from harness.scoring.protocol import load_protocol

    if settings.private:
        return scoring_options.evaluate_options(replace(asked, lines=False))
    default = load_collection(asked.collection).protocol if asked.collection is not None else "trec_eval"
    protocol = load_protocol(asked.protocol or default)
    names = protocol.measures if asked.measures is None else scoring_options.measure_list(asked.measures)
    measures = ",".join((*names, *shares_judged(names, protocol)))
    evaluation = scoring_options.evaluate_options(replace(asked, measures=measures, lines=False))
    scoring_options.log_private_judgments(asked, evaluation)
    return evaluation


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
        floor = {board.protocol.label(mean.measure): text(mean) for mean in board.floor if mean.value is not None}
        rows.append(["random floor", *(floor.get(column.name, "") for column in columns)])
    out_table(rows)
    if board.others:
        print_line("rank -: not the team's primary run, or post-hoc; neither ranked nor tested")

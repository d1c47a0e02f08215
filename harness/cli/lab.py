"""The commands of a lab: `lab new|primary|check|appeal`, `submit`, `withdraw`. Thin, as all commands are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.main import TASKS, HelpGroup, in_panel
from harness.cli.options import MaybeLevel, of, to_path
from harness.cli.organiser_commands import VARIABLE, Version, add_to, lab_with_readers
from harness.cli.scoring_options import find_readers, labelled
from harness.errors import HarnessError, counted_text
from harness.io.console import log_line, out_left, out_table, print_line

if TYPE_CHECKING:
    from harness.labs.lab import Lab
    from harness.labs.receipts import Shown
    from harness.labs.submissions import Submission

lab_app = typer.Typer(
    cls=HelpGroup,
    rich_help_panel=TASKS,
    help="Create and check labs: folders in which teams submit runs on one collection.",
)


LabFolder = Annotated[
    Path | None,
    typer.Option(
        "--lab", "-l", parser=to_path, metavar="FOLDER", help="Folder of the lab, as made by 'harness lab new'."
    ),
]
Server = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Address of the lab's server, in place of its folder; needs the token."),
]
_NAMES = "Letters, digits and _.+=,@()~#%- only."
Team = Annotated[
    str | None, typer.Option("--team", "-t", help=f"Team that submitted the run, in labs without a roster. {_NAMES}")
]
Token = Annotated[
    str | None,
    typer.Option(envvar=VARIABLE, show_envvar=False, help=f"The team's token; better set the variable {VARIABLE}."),
]
Organiser = Annotated[
    bool, typer.Option("--organiser", help="Act for the --team as the lab's organiser, without its token.")
]
Label = Annotated[str, typer.Option(help="Label of the team's run.")]


@lab_app.command()
def new(
    folder: Annotated[Path, typer.Argument(parser=to_path, metavar="NAME", help="Folder to create.")],
    collection: Annotated[
        str,
        typer.Option(
            "--collection", "-c", autocompletion=of("collection"), help="Collection; see 'harness list collections'."
        ),
    ],
    title: Annotated[str | None, typer.Option(help="Title; default: the collection's.")] = None,
    edition: Annotated[str | None, typer.Option(help="Edition of the judgments; default: the collection's.")] = None,
    corpus: Annotated[str | None, typer.Option(help="Restrict the judgments to the documents of this corpus.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Protocol; default: the collection's.")] = None,
    measures: Annotated[str | None, typer.Option(help="Measures such as nDCG@10,AP; the first one ranks.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="[LABEL=]RUN", help="Baseline run that others are compared with; submitted immediately."),
    ] = None,
    deadline: Annotated[str | None, typer.Option(help="Deadline, such as 2026-09-01T23:59:59+02:00.")] = None,
    cap: Annotated[int | None, typer.Option(help="Maximum number of submissions per team.")] = None,
    cap_per_day: Annotated[int | None, typer.Option(help="Maximum number of submissions per team and day.")] = None,
    least_results: Annotated[
        int | None, typer.Option(help="Minimum results per answered topic; default: 1, or 10 with private judgments.")
    ] = None,
    decimals: Annotated[
        int | None, typer.Option(help="Decimals of means; default: 4, or by the noise with private judgments.")
    ] = None,
    private: Annotated[
        bool | None,
        typer.Option(
            "--private",
            help="Keep judgments private: before the end show no scores, or noisy means; editions may require it.",
        ),
    ] = None,
    ladder: Annotated[
        bool | None,
        typer.Option("--ladder", help="Show a private mean only if it exceeds the team's best by the noise's width."),
    ] = None,
    feedback: Annotated[
        str | None,
        typer.Option(
            help="With private judgments: none (no score before the end) or noisy (means with noise); default: none."
        ),
    ] = None,
    held_out: Annotated[
        bool | None,
        typer.Option("--held-out", help="Hold out half of the topics, with private judgments, for the end."),
    ] = None,
    per_topic: Annotated[
        bool | None, typer.Option("--per-topic/--no-per-topic", help="Whether to show values per topic.")
    ] = None,
    alpha: MaybeLevel = None,
    correction: Annotated[
        str | None, typer.Option(help="Correction of tests: holm (default), bonferroni, none.")
    ] = None,
) -> None:
    """Make a lab: lab.yaml, submissions/ and a journal; private/ if the judgments are private."""
    settings = locals().copy()  # options have the names of the keys in lab.yaml
    from harness.collections.load import load_collection
    from harness.labs.submit import open_lab
    from harness.scoring.spellings import split_measures

    del settings["folder"], settings["baseline"]
    known = load_collection(collection)
    find_readers(known, corpus)
    settings |= {
        "title": title or known.title,
        "measures": None if measures is None else list(split_measures(measures)),
    }
    (label,), (run,) = labelled([baseline]) if baseline is not None else (("",), (None,))
    lab = open_lab(folder, settings, run, label or None)
    print_line(f"{lab.folder}: a lab on {lab.collection}, edition {lab.edition}; settings: {lab.folder / 'lab.yaml'}")
    if lab.private:
        print_line(f"the judgments are private: publish all of {lab.folder} but {lab.folder / 'private'}")
        noisy = f"shown means have uniform noise of width {lab.noise:g}"
        noisy = "no score is shown before the end" if lab.feedback == "none" else noisy
        print_line(f"{noisy}; add teams with 'harness lab team add {lab.folder} TEAM'")


@lab_app.command()
def primary(
    label: Label,
    lab: LabFolder = None,
    server: Server = None,
    team: Team = None,
    token: Token = None,
    organiser: Organiser = False,
) -> None:
    """Choose a team's primary run; without a choice it is the first one that the team submitted."""
    from harness.labs.submit import choose_primary

    if (place := _place(lab, server, team, token, organiser)) is None:
        _act_on_server(server, token, "primary", label=label)
        return
    chosen = choose_primary(*place, label)
    print_line(f"{chosen.title}: is the primary run of {chosen.team}")


@lab_app.command("check")
def check_(
    folder: Annotated[Path, typer.Argument(parser=to_path, metavar="LAB", help="Folder of the lab.")],
    database: Annotated[
        str,
        typer.Option(
            envvar="HARNESS_DATABASE",
            help="Database of the lab's server, postgresql://... or a file; default: LAB.server/server.sqlite, if any.",
        ),
    ] = "",
) -> None:
    """For organisers: verify that no file changed, that all runs score as before, and that no upload is held."""
    from harness.labs.acts import lab_faults
    from harness.labs.submissions import submissions

    lab = lab_with_readers(folder)
    if faults := [*lab_faults(lab), *_troubled(folder, database)]:
        raise HarnessError(*faults)
    print_line(f"{lab.folder}: {_counted(lab, submissions(lab))}; all files and scores are unchanged")


def _troubled(folder: Path, address: str) -> list[str]:
    """Returns a line for each upload to the lab's server that could not be scored, for no fault of the run."""
    from harness.labs.server.database import Database
    from harness.labs.server.lab_snapshot import DATABASE, state_folder
    from harness.labs.server.queue import Queue

    state = state_folder(folder)
    if not address and not (state / DATABASE).is_file():
        return []
    if address and "://" not in address and not Path(address).is_file():  # it would be made
        raise HarnessError(f"--database {address}: no such file; expected a database of 'harness serve'")
    database = Database(address or str(state / DATABASE))
    uploads = Queue(database, state).troubled()
    database.close()
    states = {"held": "is held until you decide on the page Organise", "running": "is being scored again"}
    return [
        f"upload {each.id} of team {each.team} ({each.file}, received {each.received}): could not be scored, "
        f"{states.get(each.state, 'is tried again')}: {each.reason}"
        for each in uploads
    ]


def _counted(lab: Lab, runs: Sequence[Submission]) -> str:
    """Returns the numbers of submissions and teams, without withdrawn submissions and the baseline, which it adds."""
    standing = [each for each in runs if not each.withdrawn and each.name != lab.baseline]
    teams = len({each.team for each in standing})
    parts = [f"{counted_text(len(standing), 'submission')} of {counted_text(teams, 'team')}"]
    if withdrawn := sum(each.withdrawn for each in runs):
        parts.append(f"{withdrawn} withdrawn")
    if any(each.name == lab.baseline and not each.withdrawn for each in runs):
        parts.append("the baseline")
    return ", ".join(parts)


@in_panel(TASKS)
def submit(
    given: Annotated[
        str,
        typer.Argument(
            metavar="[LABEL=]RUN",
            help="A run file (TREC or ARQMath; plain, gzip, xz or zstd), or a folder or archive of TIRA.",
        ),
    ],
    lab: LabFolder = None,
    server: Server = None,
    team: Team = None,
    token: Token = None,
    organiser: Organiser = False,
    label: Annotated[str | None, typer.Option(help=f"The team's label for the run; default: its tag. {_NAMES}")] = None,
    description: Annotated[str | None, typer.Option(help="How the run was made, in one or two sentences.")] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="Kind of run: automatic (nobody adapted queries or results to these topics), manual (somebody did), "
            "post-hoc (listed without a rank, as all runs after the deadline)."
        ),
    ] = "automatic",
    code: Annotated[str | None, typer.Option(metavar="URL", help="Address of the code that made the run.")] = None,
    external_data: Annotated[str | None, typer.Option(help="Data used besides the collection, in words.")] = None,
    primary: Annotated[bool, typer.Option("--primary", help="Make it the team's primary run.")] = False,
    format: Annotated[str | None, typer.Option(help="Format of the file: trec, arqmath-task1, arqmath-task2.")] = None,
) -> None:
    """Submit a run to a lab: check, score, compare and add it; if a step fails, the lab does not change."""
    from harness.labs.receipts import team_receipt
    from harness.labs.submit import Offer, submit_run

    (named,), (run,) = labelled([given])
    if named and label is not None:
        raise HarnessError(f"{given}: has a label, and so has --label; leave one out")
    label = named or label
    details = (label, description, kind, code, external_data, primary, format)
    if (place := _place(lab, server, team, token, organiser)) is None:
        from harness.labs.names import server_of
        from harness.labs.remote import submit_to

        made = submit_to(str(server), str(token), Offer(run, "", *details))
        _print_receipt(made, server_of(str(server)))
        return
    this_lab, name = place
    receipt = submit_run(this_lab, Offer(run, name, *details))
    _print_receipt(team_receipt(this_lab, receipt), str(receipt.submission.run.parent))


def _place(
    folder: Path | None, server: str | None, team: str | None, token: str | None, organiser: bool
) -> tuple[Lab, str] | None:
    """Returns the lab and the team that acts; None if a server is named, for which a token is needed."""
    if (folder is None) == (server is None):
        raise HarnessError("--lab FOLDER or --server URL: name one of them")
    if folder is not None and not folder.exists():
        raise HarnessError(f"--lab {folder}: no such folder; check the path; for a server, use --server URL")
    if server is not None and (team is not None or organiser):
        raise HarnessError("--server: the token tells the team; leave --team and --organiser out")
    if server is not None and not token:
        raise HarnessError(f"--server: needs the token of your team; set {VARIABLE}")
    if folder is None:
        return None
    lab = lab_with_readers(folder)
    return lab, _team(lab, team, token, organiser)


def _act_on_server(server: str | None, token: str | None, action: str, **arguments: object) -> None:
    from harness.labs.remote import act_on

    print_line(act_on(str(server), str(token), action, arguments))


def _team(lab: Lab, team: str | None, token: str | None, organiser: bool) -> str:
    """Returns the team that acts: the token's if the lab has a roster, else the one named."""
    from harness.labs.roster import has_roster, known_as, team_of
    from harness.labs.submissions import events

    if organiser and team is None:
        raise HarnessError("--organiser: for which team? add --team TEAM")
    if organiser or not has_roster(lab, events(lab)):
        if team is None:
            raise HarnessError(f"--team: is missing; {lab.folder} has no roster, so name the team")
        return known_as(lab, team) if organiser else team
    if token is None:
        reason = "has a roster, so a team's name is not enough" if team else "has a roster"
        raise HarnessError(f"{lab.folder}: {reason}; set {VARIABLE} to the team's token (organisers: --organiser)")
    owner = team_of(lab, token)
    if team not in (None, owner):
        raise HarnessError(f"--team {team}: the token is that of {owner}; leave --team out")
    return owner


@in_panel(TASKS)
def withdraw(
    label: Label,
    lab: LabFolder = None,
    server: Server = None,
    team: Team = None,
    token: Token = None,
    organiser: Organiser = False,
    version: Version = None,
    reason: Annotated[str, typer.Option(help="Reason, in one sentence.")] = "",
) -> None:
    """Withdraw a run from a lab: it is no longer ranked; its files and journal entries stay."""
    from harness.labs.submit import withdraw_run

    if (place := _place(lab, server, team, token, organiser)) is None:
        _act_on_server(server, token, "withdraw", label=label, version=version, reason=reason)
        return
    done = withdraw_run(*place, label, version, reason)
    print_line(f"{done.title}: withdrawn; it stays in {done.run.parent}")


@lab_app.command()
def appeal(
    label: Label,
    reason: Annotated[str, typer.Option(help="Why the run should be ranked, in a few sentences.")],
    lab: LabFolder = None,
    server: Server = None,
    team: Team = None,
    token: Token = None,
    organiser: Organiser = False,
    version: Version = None,
) -> None:
    """Appeal against the disqualification of a run; the organisers read appeals in the journal."""
    from harness.labs.acts import act
    from harness.labs.journal import Appealed

    if (place := _place(lab, server, team, token, organiser)) is None:
        _act_on_server(server, token, "appeal", label=label, version=version, reason=reason)
        return
    this_lab, name = place
    done = act(this_lab, Appealed, name, label, version, reason)
    print_line(f"{done.title}: your appeal is recorded")


add_to(lab_app)


def _print_receipt(made: Shown, place: str) -> None:
    print_line(made.headline(place))
    for note in made.notes:
        log_line(f"note: {note}")
    if made.scores:
        out_table(made.scores)
        print_line(made.ranked)
    if made.against:
        out_left(made.against)
    if made.tests:
        print_line(made.tests)
    if made.by_category:
        out_table(made.by_category)
    for line in (*made.category_notes, made.remark):
        if line:
            print_line(line)

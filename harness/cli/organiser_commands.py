"""The commands of a lab's organisers: `lab team`, refunds, disqualifications, re-judging, the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.main import HelpGroup
from harness.cli.options import to_path
from harness.cli.scoring_options import find_readers
from harness.errors import HarnessError
from harness.io.console import out_table, print_line

if TYPE_CHECKING:
    from harness.labs.lab import Lab

team_app = typer.Typer(
    cls=HelpGroup,
    help="The roster of a lab: teams that may submit, each with a token.",
)

Folder = Annotated[Path, typer.Argument(parser=to_path, metavar="LAB", help="Folder of the lab.")]
TeamName = Annotated[str, typer.Argument(metavar="TEAM", help="The team.")]
LabelName = Annotated[str, typer.Argument(metavar="LABEL", help="Label of the team's run.")]
Version = Annotated[int | None, typer.Option(help="Version; default: the latest one.")]
Reason = Annotated[str, typer.Option(help="Reason, in one sentence.")]
VARIABLE = "HARNESS_TOKEN"  # environment variable with a team's token


def lab_with_readers(folder: Path) -> Lab:
    """Reads a lab, and lets the reader functions that its collection names be imported from the current folder."""
    from harness.collections.load import load_collection
    from harness.labs.lab import read_lab

    lab = read_lab(folder)
    find_readers(load_collection(lab.collection), lab.corpus)
    return lab


@team_app.command()
def add(folder: Folder, team: TeamName) -> None:
    """Add a team and print its token, which is stored nowhere; also for a team whose token was revoked."""
    from harness.labs.roster import add_team

    name, token = add_team(lab_with_readers(folder), team)
    known = f", in this lab {name}" if name != team else ""
    print_line(f"team {team}{known}: may submit with {VARIABLE}={token}")


@team_app.command()
def revoke(folder: Folder, team: TeamName, reason: Reason = "") -> None:
    """Revoke a team's token; its submissions stay."""
    from harness.labs.roster import revoke_team

    revoke_team(lab_with_readers(folder), team, reason)
    print_line(f"team {team}: its token is revoked")


@team_app.command("list")
def list_(folder: Folder) -> None:
    """List the teams on the roster with their numbers of submissions and invalid files."""
    from harness.labs.journal import Refused
    from harness.labs.roster import real_names, roster
    from harness.labs.submissions import events, from_events

    lab = lab_with_readers(folder)
    journal, names = events(lab), real_names(lab)
    submissions = from_events(journal, lab.folder)
    known = roster(journal)
    rows = [["team", "name", "token", "submissions", "refunded", "invalid files"]]
    for team in sorted({*known, *(each.team for each in submissions)}):
        mine = [each for each in submissions if each.team == team]
        sent = sum(isinstance(event, Refused) and event.team == team for event in journal)
        refunded = sum(each.refunded for each in mine)
        state = "valid" if team in known else "none"
        rows.append([team, names.get(team, team), state, str(len(mine)), str(refunded), str(sent)])
    if len(rows) == 1:
        print_line(f"{folder}: no team was added yet")
        return
    out_table(rows)


def _act_command(kind: str, said: str, doc: str) -> Callable[..., None]:
    """Returns the command of an act on a version of a run, by the name of its event."""

    def command(folder: Folder, team: TeamName, label: LabelName, version: Version = None, reason: Reason = "") -> None:
        from harness.labs import journal
        from harness.labs.acts import act

        done = act(lab_with_readers(folder), getattr(journal, kind), team, label, version, reason)
        print_line(f"{done.title}: {said.format(team=done.team)}")

    command.__doc__ = doc
    return command


refund = _act_command(
    "Refunded",
    "does not count towards the caps of {team}",
    "Refund a submission: it no longer counts towards the team's caps.",
)
disqualify = _act_command(
    "Disqualified",
    "disqualified; the team can appeal with 'harness lab appeal'",
    "Disqualify a run: it is no longer ranked; its files and journal entries stay.",
)
reinstate = _act_command("Reinstated", "reinstated", "Lift the disqualification of a run.")


def rejudge(
    folder: Folder,
    new: Annotated[Path, typer.Argument(parser=to_path, metavar="NEW", help="Folder of the new lab.")],
    edition: Annotated[str, typer.Option(help="Edition of the new judgments.")],
    reason: Reason = "",
) -> None:
    """Score all submissions by another edition of the judgments, in a new lab; the old lab takes no more runs."""
    from harness.labs.acts import rejudge

    made = rejudge(lab_with_readers(folder), new, edition, reason)
    print_line(f"{made.folder}: the submissions of {folder}, scored by edition {made.edition}")


def reveal(folder: Folder) -> None:
    """End a lab with private judgments: 'harness leaderboard --final' then ranks, by the held-out topics if any."""
    from harness.labs.acts import reveal

    lab = lab_with_readers(folder)
    seed = reveal(lab)
    print_line(f"seed of the held-out topics: {seed}" if lab.held_out else f"{folder}: has ended")
    print_line(f"next: harness leaderboard {folder} --final")


def freeze(folder: Folder, reason: Reason = "") -> None:
    """Freeze a lab: teams can neither submit, withdraw, choose a primary run nor appeal, until it is reopened."""
    from harness.labs.closing import freeze

    said = f"{folder}: frozen since {freeze(lab_with_readers(folder), reason).at}; reopen it with 'harness lab reopen'"
    print_line(said)


def reopen(folder: Folder, reason: Reason = "") -> None:
    """Reopen a frozen lab."""
    from harness.labs.closing import reopen

    print_line(f"{folder}: reopened at {reopen(lab_with_readers(folder), reason).at}")


def extend(
    folder: Folder,
    deadline: Annotated[
        str, typer.Argument(metavar="DEADLINE", help="The new deadline, such as 2026-09-01T23:59:59+02:00.")
    ],
    reason: Reason = "",
) -> None:
    """Set a later deadline in lab.yaml and record it."""
    from harness.labs.closing import extend
    from harness.labs.settings import moment

    lab = extend(lab_with_readers(folder), moment("deadline", deadline), reason)
    print_line(f"{folder}: the deadline is {'' if lab.deadline is None else lab.deadline.isoformat()}")


def topics(folder: Folder) -> None:
    """List the public and the held-out topics, drawn from the seed after checking it against its commitment."""
    from harness.collections.load import load_collection
    from harness.experiments.task import task
    from harness.labs.journal import Revealed
    from harness.labs.shown_scores import commitment, public_and_held_out, seed_of
    from harness.labs.submissions import events

    lab = lab_with_readers(folder)
    if not lab.held_out:
        raise HarnessError(f"{folder}: has no held-out topics; create a lab with 'harness lab new --held-out'")
    journal = events(lab)
    seed = seed_of(lab, journal)
    committed = commitment(journal)
    collection = load_collection(lab.collection)
    if collection.withheld(lab.edition):
        raise HarnessError(f"{folder}: the judgments are not here, and with them the list of judged topics")
    judged = task(lab.collection, lab.corpus, edition=lab.edition, protocol=lab.protocol).scorer.qrels.topics
    public, held = public_and_held_out(lab, journal, judged)
    shown = seed if any(isinstance(event, Revealed) for event in journal) else "not revealed yet"
    print_line(f"seed: {shown}; its SHA-256 is that in the journal: {committed.seed_sha256 if committed else ''}")
    print_line(f"public ({len(public)}): {' '.join(sorted(public))}")
    print_line(f"held out ({len(held)}): {' '.join(sorted(held))}")


def add_to(app: typer.Typer) -> None:
    """Adds these commands to `harness lab`."""
    for name in ("refund", "disqualify", "reinstate", "rejudge", "reveal", "freeze", "reopen", "extend", "topics"):
        app.command(name)(globals()[name])
    app.add_typer(team_app, name="team")

"""The commands. Thin: they read arguments, call the workflow and print."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from harness.cli.added import Commands
from harness.cli.build import build_app
from harness.cli.fetch import fetch
from harness.cli.lab import lab_app, submit, withdraw
from harness.cli.leaderboard import leaderboard
from harness.cli.list import doctor, list_
from harness.cli.new import new_app
from harness.cli.organise import organise_app
from harness.cli.score import ScoreCommand, compare, score
from harness.cli.store import store_app
from harness.errors import HarnessError, SystemRaisedError
from harness.io import interrupt
from harness.io.console import leave_pipe, out, say, tell
from harness.version import __version__

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Evaluate mathematical information retrieval: reproduce papers, score and compare runs.",
)
HYDRA_COMMANDS = ("reproduce", "run")
app.command(cls=ScoreCommand)(score)
app.command(cls=ScoreCommand)(compare)
app.command(cls=ScoreCommand)(leaderboard)
app.command()(fetch)
app.command(name="list")(list_)
app.add_typer(new_app, name="new", rich_help_panel=None)
app.add_typer(store_app, name="store", rich_help_panel=None)
app.add_typer(lab_app, name="lab", rich_help_panel=None)
app.command()(submit)
app.command()(withdraw)
app.command()(doctor)
app.add_typer(organise_app, name="organise", rich_help_panel=None)
app.add_typer(build_app, name="build", rich_help_panel=None)


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
def reproduce() -> None:
    """Recompute a paper's tables: paper=crossmath, or paper=all; without a paper, the embedded demonstration."""


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
def run() -> None:
    """Produce, score and report one run: collection=... corpus=... system=...; -m sweeps."""


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the version when asked, and what there is to ask without a command."""
    if show:
        out(f"mathir-harness {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        out(context.get_help())
        raise typer.Exit


def main() -> None:
    """The program `harness`: exit code 0, or 2 after one clear line (a line a fault) on standard error.

    What a system raises is shown with the traceback of its own frames; with HYDRA_FULL_ERROR=1, any fault with all.
    """
    full = os.environ.get("HYDRA_FULL_ERROR") == "1"  # Hydra's commands set it
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character (such as the prime of nDCG′) gets its escape, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        if len(sys.argv) > 1 and sys.argv[1] in HYDRA_COMMANDS:
            from harness.cli.compose import main as hydra_main

            hydra_main(sys.argv[1], sys.argv[2:])
            return
        code = app(standalone_mode=False)
        if code == interrupt.CODE:  # Typer has caught it
            interrupt.tell()
        sys.exit(code if isinstance(code, int) else 0)
    except (HarnessError, typer.TyperException) as error:
        if interrupt.stopping():  # only what some library made of it
            interrupt.leave()
        _tell(error, full)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        interrupt.tell()
        sys.exit(interrupt.CODE)
    except BrokenPipeError:
        leave_pipe(sys.stdout)


def _tell(error: HarnessError | typer.TyperException, full: bool) -> None:
    if full:
        import traceback

        tell("".join(traceback.format_exception(error)))
    elif isinstance(error, SystemRaisedError):
        tell(error.trace)
    lines = error.lines if isinstance(error, HarnessError) else (" ".join(error.format_message().split()),)
    for line in lines:
        say(f"harness: {line}")

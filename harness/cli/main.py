"""The commands. Thin: they read arguments, call the workflow and print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from harness.cli.complete import overrides
from harness.cli.plugin_commands import DATA, RUNS, Commands, LoadedCommands, in_panel
from harness.errors import HarnessError
from harness.io.console import print_line
from harness.version import __version__

Commands.ours = LoadedCommands(  # name -> module and function or group, in the order of the help
    {
        "run": "main:run",
        "score": "score:score",
        "compare": "score:compare",
        "check": "check:check_command",
        "reproduce": "main:reproduce",
        "rehearse": "rehearse:rehearse",
        "list": "list:list_",
        "show": "list:show",
        "doctor": "doctor:doctor",
        "fetch": "fetch:fetch",
        "export": "export:export_app",
        "leaderboard": "leaderboard:leaderboard",
        "submit": "lab:submit",
        "withdraw": "lab:withdraw",
        "lab": "lab:lab_app",
        "organise": "team_runs:organise_app",
        "site": "site:site_app",
        "serve": "serve:serve",
        "new": "new:new_app",
        "build": "build:build_app",
        "store": "store:store_app",
        "version": "main:version",
    }
)
app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Evaluate mathematical information retrieval: reproduce papers, score and compare runs.",
)
_HYDRA = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _words(command: str) -> Callable[[typer.Context, list[str], str], list[str]]:
    """Returns the completions of a word, given the words before it."""
    return lambda ctx, args, incomplete: overrides(command, ctx.params.get("words") or args, incomplete)


@in_panel(RUNS, context_settings=_HYDRA)
def run(
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...", autocompletion=_words("run"))] = None,
) -> None:
    """Make, score and report a run: collection=NAME corpus=NAME system=NAME; or experiment=NAME; -m sweeps."""


@in_panel(RUNS, context_settings=_HYDRA)
def reproduce(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", autocompletion=_words("reproduce"))
    ] = None,
) -> None:
    """Recompute a paper's tables: paper=NAME, or paper=all; without a paper, the embedded example."""


@in_panel(DATA)
def version() -> None:
    """Print the version."""
    print_line(f"mathir-harness {__version__}")


@app.callback(invoke_without_command=True)
def version_option(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Print the version when asked."""
    if show:
        version()
        raise typer.Exit


def run_app() -> int:
    """Runs the command that the command line names, other than Hydra's; returns its exit code.

    Raises
    ------
    HarnessError
        The words are none of the command's, or the command raises one.
    """
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        raise HarnessError(" ".join(error.format_message().split())) from error
    except typer.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0

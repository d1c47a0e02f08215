"""The commands. Thin: they read arguments, call the workflow and print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from harness.cli.build import build_app
from harness.cli.check import check_command
from harness.cli.complete import overrides
from harness.cli.doctor import doctor
from harness.cli.export import export_app
from harness.cli.fetch import fetch
from harness.cli.lab import lab_app, submit, withdraw
from harness.cli.leaderboard import leaderboard
from harness.cli.list import list_
from harness.cli.new import new_app
from harness.cli.plugin_commands import DATA, RUNS, Commands, in_panel
from harness.cli.power import power
from harness.cli.rehearse import rehearse
from harness.cli.score import ScoreCommand, compare, score
from harness.cli.serve import serve
from harness.cli.show import show
from harness.cli.site import site_app
from harness.cli.store import store_app
from harness.cli.team_runs import organise_app
from harness.errors import HarnessError
from harness.io.console import print_line
from harness.version import __version__

app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Evaluate mathematical information retrieval: reproduce papers, score and compare runs.",
)
_HYDRA = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _add(command: Callable[..., object] | typer.Typer, name: str = "", **how: Any) -> None:  # noqa: ANN401
    Commands.order.append(name or getattr(command, "__name__", ""))
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, rich_help_panel=command.rich_help_panel)
    else:
        app.command(name or None, rich_help_panel=getattr(command, "panel", None), **how)(command)


def _words(command: str) -> Callable[[typer.Context, list[str], str], list[str]]:
    """Returns the completions of a word, given the words before it."""
    return lambda ctx, args, incomplete: overrides(command, ctx.params.get("words") or args, incomplete)


@in_panel(RUNS)
def run(
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...", autocompletion=_words("run"))] = None,
) -> None:
    """Make, score and report a run: collection=NAME corpus=NAME system=NAME; or experiment=NAME; -m sweeps."""


_add(run, context_settings=_HYDRA)
_add(score, cls=ScoreCommand)
_add(compare, cls=ScoreCommand)
_add(check_command, "check")


@in_panel(RUNS)
def reproduce(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", autocompletion=_words("reproduce"))
    ] = None,
) -> None:
    """Recompute a paper's tables: paper=NAME, or paper=all; without a paper, the embedded example."""


_add(reproduce, context_settings=_HYDRA)
_add(rehearse)
_add(list_, "list")
_add(show)
_add(doctor)
_add(fetch)
_add(export_app, "export")
_add(leaderboard, cls=ScoreCommand)
_add(submit)
_add(withdraw)
_add(lab_app, "lab")
organise_app.command()(power)
_add(organise_app, "organise")
_add(site_app, "site")
_add(serve)
_add(new_app, "new")
_add(build_app, "build")
_add(store_app, "store")


@in_panel(DATA)
def version() -> None:
    """Print the version."""
    print_line(f"mathir-harness {__version__}")


_add(version)


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

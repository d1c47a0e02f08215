"""The commands. Thin: they read arguments, call the workflow and print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from harness.cli.added import Commands
from harness.cli.build import build_app
from harness.cli.check import check
from harness.cli.complete import overrides
from harness.cli.doctor import doctor
from harness.cli.export import export_app
from harness.cli.fetch import fetch
from harness.cli.lab import lab_app, submit, withdraw
from harness.cli.leaderboard import leaderboard
from harness.cli.list import list_
from harness.cli.new import new_app
from harness.cli.organise import organise_app
from harness.cli.rehearse import rehearse
from harness.cli.score import ScoreCommand, compare, score
from harness.cli.serve import serve
from harness.cli.show import show
from harness.cli.site import site_app
from harness.cli.store import store_app
from harness.errors import HarnessError
from harness.io.console import out
from harness.version import __version__

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


@app.command(context_settings=_HYDRA)
def run(
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...", autocompletion=_words("run"))] = None,
) -> None:
    """Make, score and report a run: collection=NAME corpus=NAME system=NAME; or experiment=NAME; -m sweeps."""


app.command(cls=ScoreCommand)(score)
app.command(cls=ScoreCommand)(compare)
app.command()(check)


@app.command(context_settings=_HYDRA)
def reproduce(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", autocompletion=_words("reproduce"))
    ] = None,
) -> None:
    """Recompute a paper's tables: paper=NAME, or paper=all; without a paper, the embedded example."""


app.command()(rehearse)
app.command(name="list")(list_)
app.command()(show)
app.command()(doctor)
app.command()(fetch)
app.add_typer(new_app, name="new")
app.add_typer(store_app, name="store")
app.command(cls=ScoreCommand)(leaderboard)
app.command()(submit)
app.command()(withdraw)
app.command()(serve)
app.add_typer(lab_app, name="lab")
app.add_typer(organise_app, name="organise")
app.add_typer(site_app, name="site")
app.add_typer(build_app, name="build")
app.add_typer(export_app, name="export")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Print the version when asked."""
    if show:
        out(f"mathir-harness {__version__}")
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

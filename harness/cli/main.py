"""The commands. Thin: they read arguments, call the workflow and print."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from harness.cli.added import RUNS, Commands, in_panel
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
from harness.errors import DryRunError, HarnessError, SystemRaisedError, lacks_memory, out_of_memory
from harness.io import interrupt
from harness.io.compression import keep_pipes
from harness.io.console import leave_pipe, out, say, tell
from harness.version import __version__

app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Evaluate mathematical information retrieval: reproduce papers, score and compare runs.",
)
HYDRA_COMMANDS = ("reproduce", "run")
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
_add(check)


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
_add(organise_app, "organise")
_add(site_app, "site")
_add(serve)
_add(new_app, "new")
_add(build_app, "build")
_add(store_app, "store")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Print the version when asked."""
    if show:
        out(f"mathir-harness {__version__}")
        raise typer.Exit


def main() -> None:
    """The program `harness`: exit code 0, or 2 after one clear line (a line a fault) on standard error.

    What a system raises is shown with the traceback of its own frames; with HYDRA_FULL_ERROR=1, any fault with all.
    """
    full = os.environ.get("HYDRA_FULL_ERROR") == "1"  # Hydra's commands set it
    keep_pipes()
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
        if isinstance(error, DryRunError):
            for line in error.lines:
                out(line)
            sys.exit(0)
        _tell(error, full)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        interrupt.tell()
        sys.exit(interrupt.CODE)
    except BrokenPipeError:
        leave_pipe(sys.stdout)
    except Exception as error:
        if not lacks_memory(error):
            raise
        _tell(out_of_memory(error), full)
        sys.exit(2)


def _tell(error: HarnessError | typer.TyperException, full: bool) -> None:
    if full:
        import traceback

        tell("".join(traceback.format_exception(error)))
    elif isinstance(error, SystemRaisedError):
        tell(error.trace)
    lines = error.lines if isinstance(error, HarnessError) else (" ".join(error.format_message().split()),)
    for line in lines:
        say(f"harness: {line}")

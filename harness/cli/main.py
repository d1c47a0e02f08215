"""The application: commands by name, imported when they are called or listed: ours, and those of other packages.

The latter are entry points of the group `mathir_harness.commands`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from harness.cli.options import overrides
from harness.errors import HarnessError
from harness.io import extensions
from harness.io.console import log_line, print_line
from harness.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.io.extensions import Extension

_LEFT = (typer.TyperException, typer.Exit, typer.Abort, BrokenPipeError, SystemExit)  # which `main` understands


# Headings of the list of commands, in the order in which `main` names the first command of each.
RUNS = "Runs and scores"
DATA = "Information and data"
TASKS = "Shared tasks"
MAKING = "Templates, builders, cache"

Function = TypeVar("Function", bound=Callable[..., object])


def in_panel(panel: str, **settings: Any) -> Callable[[Function], Function]:  # noqa: ANN401
    """Returns a decorator of a command: the heading under which the list of commands has it, and typer's settings."""

    def named(function: Function) -> Function:
        function.settings = {"rich_help_panel": panel, **settings}  # type: ignore[attr-defined]
        return function

    return named


class LoadedCommands(dict[str, Any]):
    """Our commands by name, each made by typer when it is first asked for, since to make all takes 0.1 s.

    Until then the value is the place of its function or group, such as `score:compare` in this folder.
    """

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  (its type is private to typer)
        command = super().__getitem__(name)
        if isinstance(command, str):
            module, _, attribute = command.partition(":")
            function = getattr(import_module(f"harness.cli.{module}"), attribute)
            app = typer.Typer(rich_markup_mode=None)
            if isinstance(function, typer.Typer):
                app.add_typer(function, name=name, rich_help_panel=function.rich_help_panel)
            else:
                app.command(name, **function.settings)(function)
            command = self[name] = _plain(get_group(app).commands[name])
        return command

    def items(self) -> Any:  # noqa: ANN401
        """Returns names and commands."""
        return [(name, self[name]) for name in self]


def _first(command: Any) -> str:  # noqa: ANN401
    """Returns the first paragraph of a command's help; typer's own would cut it to the width of the terminal."""
    text = command.short_help or command.help or ""
    return " ".join(text.partition("\n\n")[0].split())


class HelpGroup(TyperGroup):
    """Command group whose help shows whole descriptions; without a command it prints its help."""

    unnamed: ClassVar[str] = "Commands"  # heading of commands that name none

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  (its type is private to typer)
        """Parses the arguments; without any, prints the help, as `--help` does."""
        if args in ([], ["--"]) and not ctx.resilient_parsing:
            print_line(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Writes the list of commands under their headings."""
        names = self.list_commands(ctx)
        width = max(map(len, names))
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            command = self.get_command(ctx, name)
            heading = getattr(command, "rich_help_panel", None) or self.unnamed
            panels.setdefault(heading, []).append((name.ljust(width), _first(command)))
        for heading, rows in panels.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class Commands(HelpGroup):
    """The harness's commands, then those of installed packages, which are imported when they are called."""

    unnamed = "Added by packages"
    ours: ClassVar[LoadedCommands]  # set by `main`

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(**settings)
        _plain(self)
        self.commands = self.ours

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401  (its type is private to typer)
        """Returns the names of all commands, those of the harness first."""
        return [*self.commands, *sorted(_added().keys() - self.commands.keys())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Returns the command of a name; None if there is none."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        entry = _added().get(cmd_name)
        return None if entry is None else _Added(cmd_name, entry)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Writes the list of commands; a package's command with a name of the harness is excluded with a warning."""
        for name in sorted(_added().keys() & self.commands.keys()):
            for entry in _added()[name]:
                log_line(
                    f"{entry.distribution}: command {name!r} is a command of the harness; the package's is ignored"
                )
        super().format_commands(ctx, formatter)


def _plain(command: Any) -> Any:  # noqa: ANN401
    """Returns the command with the type of one value where several may be given: `<str>`, not `<list[str]>`."""
    params = command.get_params
    command.get_params = lambda ctx: [_read_plainly(parameter) for parameter in params(ctx)]
    for parameter in command.params:
        if parameter.type_descriptor.is_list:
            (of,) = get_args(parameter.type_descriptor.annotation)
            parameter.display_type = lambda _, of=of: f"<{of.__name__}>"
    for inner in getattr(command, "commands", {}).values():
        _plain(inner)
    return command


def _read_plainly(parameter: Any) -> Any:  # noqa: ANN401
    """Returns an argument that takes texts and defaults as they are; typer's way imports pydantic, for 0.06 s."""
    if "get_runtime_param" in vars(parameter):
        return parameter
    typers, described = parameter.get_runtime_param, parameter.type_descriptor
    parse, of = described.parameter_info.parser, described.annotation
    many = parameter.multiple or parameter.nargs == -1

    def coerce(value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401
        if value is None:
            return () if many else None
        if parse is not None and isinstance(value, str) and not many:
            return parse(value)
        if parse is None and type(value) is of:
            return value
        if parse is None and of == list[str] and isinstance(value, list | tuple):
            return list(value)
        return typers().coerce(value, param=param, ctx=ctx)

    parameter.get_runtime_param = lambda: SimpleNamespace(coerce=coerce)
    return parameter


class _Added(TyperCommand):
    """A command of another package. Its arguments are parsed when it has been imported."""

    def __init__(self, name: str, entries: Sequence[Extension]) -> None:
        self.entries = entries
        super().__init__(name, short_help=f"Added by {' and by '.join(entry.distribution for entry in entries)}.")

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:  # noqa: ANN401
        """Returns a context with unparsed arguments."""
        context = self.context_class(self, info_name=info_name, parent=parent, **extra)
        context.args = args
        return context

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Imports and runs the command."""
        first, *others = self.entries
        if others:
            both = " and by ".join(entry.distribution for entry in self.entries)
            raise HarnessError(f"command {self.name!r} is added by {both}; uninstall one of the two")
        what = f"{first.distribution}: command {self.name!r}"
        command = _command(first, what)
        with extensions.guarded(what, _LEFT), command.make_context(ctx.info_name, ctx.args, ctx.parent) as context:
            return command.invoke(context)


def _added() -> dict[str, list[Extension]]:
    """Returns the commands of installed packages by name."""
    out: dict[str, list[Extension]] = {}
    for entry in extensions.extensions("commands"):
        out.setdefault(entry.name, []).append(entry)
    return out


def _command(entry: Extension, what: str) -> Any:  # noqa: ANN401
    loaded = extensions.load(entry.value, f"{what}: {entry.value}")
    if inspect.isfunction(loaded):
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(entry.name)(loaded)
        loaded = app
    if not isinstance(loaded, typer.Typer):
        said = f"{entry.value} is of type {type(loaded).__name__}, expected a typer.Typer or a function"
        raise HarnessError(f"{what}: {said}")
    with extensions.guarded(what):
        command = get_command(loaded)
    # It is part of a program, which has no completion to install.
    command.params = [option for option in command.params if not str(option.name).endswith("_completion")]
    return command


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

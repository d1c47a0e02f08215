"""The reference of commands, from the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from docs.make.tables import code, plain, table


@dataclass(frozen=True)
class Option:
    """An option or argument of a command: its names, what stands for its value, its default and its help."""

    names: tuple[str, ...]
    value: str
    default: str
    says: str
    argument: bool


@dataclass(frozen=True)
class Command:
    """A command: its words after `harness`, its help and its options."""

    words: str
    says: str
    options: tuple[Option, ...]


def commands() -> list[Command]:
    """Returns the program itself and all its commands, those of groups by their full names."""
    from harness.cli.main import app

    top = typer.main.get_command(app)
    if not isinstance(top, TyperGroup):
        return []
    return [Command("", " ".join((top.help or "").split()), tuple(_options(top))), *_below(top, "")]


def _below(group: TyperGroup, words: str) -> Iterator[Command]:
    for name, inner in sorted(group.commands.items()):
        full = f"{words} {name}".strip()
        if isinstance(inner, TyperGroup):
            yield from _below(inner, full)
        elif isinstance(inner, TyperCommand) and not inner.hidden:
            yield Command(full, " ".join((inner.help or "").split()), tuple(_options(inner)))


def _options(command: TyperCommand | TyperGroup) -> Iterator[Option]:
    for each in command.params:
        if not isinstance(each, TyperArgument | TyperOption) or each.hidden or "--help" in each.opts:
            continue
        shown = _default(each)
        if isinstance(each, TyperArgument):
            yield Option((each.metavar or str(each.name).upper(),), "", shown, each.help or "", argument=True)
        else:
            value = "" if each.is_flag else each.metavar or each.display_type(typer.Context(command))
            yield Option((*each.opts, *each.secondary_opts), value, shown, each.help or "", argument=False)


def _default(option: TyperArgument | TyperOption) -> str:
    """Returns the default as the help text shows it: in words, as the name of a switch, or as a value."""
    default = option.default
    if isinstance(option.show_default, str):
        return option.show_default
    if default is True and option.secondary_opts:
        return option.opts[0]
    # A default of 0 is shown; it equals False.
    without = callable(default) or default is None or default is False or default in ("", (), [])
    return "" if without else str(default)


def page() -> str:
    """Returns the page: a section per command with its arguments, options and defaults."""
    lines = [
        "# Options of all commands",
        "",
        "Generated from the program. `harness COMMAND --help` prints the same.",
        "",
    ]
    lines += ["`run` and `reproduce` take `KEY=VALUE` words; [their keys](configuration.md#keys-of-harness-run).", ""]
    for command in commands():
        arguments = " ".join(each.names[0] for each in command.options if each.argument)
        options = "[OPTIONS]" * any(not each.argument for each in command.options)
        usage = " ".join(word for word in ("harness", command.words, arguments, options) if word)
        lines += [f"## harness {command.words}".rstrip(), "", plain(command.says), "", "```text", usage, "```", ""]
        rows = [[_named(each), code(each.default), plain(each.says)] for each in command.options if each.says]
        if rows:
            lines += [table(["option", "default", "meaning"], rows), ""]
    return "\n".join(lines)


def _named(option: Option) -> str:
    return ", ".join(code(name) for name in option.names) + (f" {plain(option.value)}" if option.value else "")

"""The reference of commands, from the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import typer

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
    """Returns all commands of the program, those of groups by their full names."""
    from harness.cli.main import app

    return list(_below(typer.main.get_command(app), ""))


def _below(command: typer.core.TyperCommand | typer.core.TyperGroup, words: str) -> Iterator[Command]:
    inner = getattr(command, "commands", None)
    if inner:
        for name in sorted(inner):
            yield from _below(inner[name], f"{words} {name}".strip())
    elif not command.hidden:
        yield Command(words, " ".join((command.help or "").split()), tuple(_options(command)))


def _options(command: typer.core.TyperCommand | typer.core.TyperGroup) -> Iterator[Option]:
    for each in command.params:
        argument = each.param_type_name == "argument"
        flag = bool(getattr(each, "is_flag", False))
        names = tuple(each.opts if not argument else [each.metavar or each.human_readable_name])
        names += tuple(getattr(each, "secondary_opts", ()))
        default = each.default
        shown = "" if callable(default) or default in (None, False, "", (), []) else str(default)
        value = "" if argument or flag else str(each.metavar or each.display_type(typer.Context(command)))
        if not getattr(each, "hidden", False) and "--help" not in names:
            yield Option(names, value, shown, getattr(each, "help", None) or "", argument)


def page() -> str:
    """Returns the page: a section per command with its arguments, options and defaults."""
    lines = ["# Commands and options", "", "Generated from the program. `harness COMMAND --help` prints the same.", ""]
    lines += ["`run` and `reproduce` take `KEY=VALUE` words; [their keys](configuration.md#keys-of-harness-run).", ""]
    for command in commands():
        arguments = " ".join(each.names[0] for each in command.options if each.argument)
        usage = (
            f"harness {command.words} {arguments}".rstrip()
            + f"{' [OPTIONS]' * any(not o.argument for o in command.options)}"
        )
        lines += [f"## harness {command.words}", "", plain(command.says), "", "```text", usage.strip(), "```", ""]
        rows = [[_named(each), code(each.default), plain(each.says)] for each in command.options if each.says]
        if rows:
            lines += [table(["option", "default", "meaning"], rows), ""]
    return "\n".join(lines)


def _named(option: Option) -> str:
    return ", ".join(code(name) for name in option.names) + (f" {plain(option.value)}" if option.value else "")

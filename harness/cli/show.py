"""The command `show`: the facts about one configuration."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.complete import anything
from harness.cli.plugin_commands import DATA, in_panel
from harness.io.console import out_wrapped


@in_panel(DATA)
def show(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[GROUP] NAME",
            autocompletion=anything,
            help="A name such as bm25, or a group and a name such as paper crossmath.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Describe a configuration: settings, files, licence, state and an example command."""
    from harness.cli import entries, facts

    if len(names) > 2:
        raise typer.BadParameter("expected [GROUP] NAME")
    group, name = entries.find(names[-1], names[0] if len(names) == 2 else None)
    facts.show(group, name, as_json)
    others = [each for each in entries.groups_with(name) if each != group]
    if len(names) == 1 and others and not as_json:
        out_wrapped(f"others of this name: {', '.join(entries.show_commands(name, others))}")

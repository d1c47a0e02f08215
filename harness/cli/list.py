"""The command `list`: what exists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.complete import groups, papers
from harness.errors import HarnessError, suggestion
from harness.io.console import on_terminal, out, out_left

if TYPE_CHECKING:
    from harness.cli.entries import Row

_FIRST = ("name", "state", "title")  # the columns on a terminal, without --wide


def list_(
    group: Annotated[
        str | None,
        typer.Argument(metavar="[GROUP]", autocompletion=groups, help="Such as systems or collections; default: all."),
    ] = None,
    ready: Annotated[bool, typer.Option("--ready", help="Only what can be used at once.")] = False,
    paper: Annotated[str, typer.Option(metavar="NAME", autocompletion=papers, help="Only systems of this paper.")] = "",
    needs: Annotated[
        str, typer.Option(metavar="WORD", help="Only what lacks something, such as model, corpus or java.")
    ] = "",
    wide: Annotated[bool, typer.Option("--wide", help="All columns, not cut to the terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """List what exists: groups with their counts, or the entries of a group."""
    from harness.cli import entries
    from harness.io import config

    shown = None if group is None else entries.group_of(group)
    filters = {"ready": ready, "paper": paper, "needs": needs}
    if shown is None and any(filters.values()):
        shown = "systems"
    if paper:
        if shown != "systems":
            raise HarnessError(f"--paper: {shown} are of no paper; only systems are")
        if paper not in (known := config.names("paper")):
            raise HarnessError(f"paper {paper!r} is unknown; {suggestion(paper, known)}")
    if as_json:
        chosen = [shown] if shown else list(entries.GROUPS)
        found = {each: entries.chosen(entries.rows(each), ready=ready, paper=paper, needs=needs) for each in chosen}
        out(json.dumps(found[shown] if shown else found, indent=2, ensure_ascii=False))
    elif shown is None:
        _overview()
    else:
        _print(entries.chosen(entries.rows(shown), ready=ready, paper=paper, needs=needs), shown, wide)


def _overview() -> None:
    from harness.cli import entries
    from harness.io import config

    table = [["group", "count", "most used"]]
    for name, group in entries.GROUPS.items():
        known = config.names(group.folder)
        own = [each for each, path in known.items() if not path.is_relative_to(config.folders()[0])]
        used = [*own[:3], *(each for each in group.used if each in known)]
        table.append([name, str(len(known)), ", ".join(used) + (", ..." if len(used) < len(known) else "")])
    out_left(table, cut=True)
    out("")
    for command, says in (
        ("harness list GROUP", "one line per entry; --ready, --needs WORD, --paper NAME, --wide, --json"),
        ("harness show NAME", "settings, files, licence, state and an example command of one entry"),
        ("harness doctor", "what is installed here, and the commands that install the rest"),
    ):
        out(f"{command:20}{says}")


def _print(found: Sequence[Row], group: str, wide: bool) -> None:
    if not found:
        out(f"no {group} match")
        return
    columns = list(dict.fromkeys(column for row in found for column in row))
    if on_terminal() and not wide:
        columns = [column for column in columns if column in (*_FIRST, "runs", "tests")]
    cut = on_terminal() and not wide
    out_left([columns, *([row.get(column, "") for column in columns] for row in found)], cut=cut)

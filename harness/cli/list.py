"""The commands `list` and `show`: what exists, and the facts about one configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.main import DATA, in_panel
from harness.cli.options import anything, complete_groups, papers
from harness.errors import HarnessError, suggestion
from harness.io.console import out_left, out_wrapped, print_line, width

if TYPE_CHECKING:
    from harness.cli.entries import Row

_FIRST = ("name", "state", "runs", "tests", "varies", "title")  # the columns on a terminal, without --wide
_BRIEF = {"not implemented": "no code", "manual download": "manual"}  # states on a terminal, without --wide
_LACKS = {  # what an entry lacks -> the pattern that says so
    "package": r"\b(pip|apt|apt-get) install\b|not installed",
    "model": r"\bmodels?\b|\bweights\b",
    "key": r"\bno key\b",
    "data": r"\b(corpus|collection|data sets?|checkout|benchmark|runs)\b",
}


@in_panel(DATA)
def list_(
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="[GROUP]",
            autocompletion=complete_groups,
            help="A group such as systems or collections; default: an overview.",
        ),
    ] = None,
    ready: Annotated[bool, typer.Option("--ready", help="Only entries that can be used immediately.")] = False,
    paper: Annotated[str, typer.Option(metavar="NAME", autocompletion=papers, help="Only systems of this paper.")] = "",
    needs: Annotated[
        str, typer.Option(metavar="WORD", help="Only entries that lack a resource, such as model, corpus or java.")
    ] = "",
    wide: Annotated[bool, typer.Option("--wide", help="Print all columns, not cut to the terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List configurations: groups with their counts, or the entries of a group."""
    from harness.cli import entries
    from harness.io import config

    shown = None if group is None else entries.group_of(group)
    filters = {"ready": ready, "paper": paper, "needs": needs}
    if shown is None and any(filters.values()):
        shown = "systems"
    if paper:
        if shown != "systems":
            raise HarnessError(f"--paper: {shown} do not belong to a paper; use it with systems")
        if paper not in (known := config.names("paper")):
            raise HarnessError(f"paper {paper!r} is unknown; {suggestion(paper, known)}")
    if as_json:
        chosen = [shown] if shown else list(entries.GROUPS)
        rows = {each: entries.chosen(entries.rows(each), ready=ready, paper=paper, needs=needs) for each in chosen}
        print_line(json.dumps(rows[shown] if shown else rows, indent=2, ensure_ascii=False))
    elif shown is None:
        _overview()
    else:
        _print(entries.chosen(entries.rows(shown), ready=ready, paper=paper, needs=needs), shown, wide)


_USED = 70  # characters of the examples, so that piped lines stay below 100


def _overview() -> None:
    from harness.cli import entries
    from harness.io import config

    table = [["group", "count", "examples"]]
    longest = min(_USED, (width() or 100) - 25)
    for name, group in entries.GROUPS.items():
        known = config.names(group.folder)
        own = [each for each, path in known.items() if not path.is_relative_to(config.folders()[0])]
        used = [*own[:3], *(each for each in group.used if each in known)]
        while used and len(", ".join(used)) > longest:
            used.pop()
        table.append([name, str(len(known)), ", ".join(used) + (", ..." if len(used) < len(known) else "")])
    out_left(table, cut=True)
    print_line("")
    for command, says in (
        ("harness list GROUP", "entries of a group; options: harness list --help"),
        ("harness show NAME", "settings, files, licence and state of one entry"),
        ("harness doctor", "what is installed, and commands that install the rest"),
    ):
        print_line(f"{command:20}{says}")


def _brief(row: Row) -> Row:
    """Returns a row with a state of two words: `no model` of an entry that needs one, `no model+` if also others.

    Examples
    --------
    >>> _brief({"state": "needs", "missing": "needs the model m (hub) and corpus c"})["state"]
    'no model+'
    """
    if row.get("state") != "needs":
        return {**row, "state": _BRIEF.get(row.get("state", ""), row.get("state", ""))}
    missing = row.get("missing", "").partition(": harness ")[0]  # not the command
    lacks = [what for what, pattern in _LACKS.items() if re.search(pattern, missing)]
    return {**row, "state": f"no {lacks[0]}{'+' * (len(lacks) > 1)}" if lacks else "needs"}


def _print(rows: Sequence[Row], group: str, wide: bool) -> None:
    if not rows:
        print_line(f"no {group} match")
        return
    columns = list(dict.fromkeys(column for row in rows for column in row))
    whole = None if wide else width()
    if whole is None:
        out_left([columns, *([row.get(column, "") for column in columns] for row in rows)])
        return
    first = [column for column in columns if column in _FIRST]
    lines = [first, *([_brief(row).get(column, "") for column in first] for row in rows)]
    out_left(lines, cut=True)
    if first != columns or sum(max(map(len, column)) + 2 for column in zip(*lines, strict=True)) - 2 > whole:
        print_line("")
        states = [row[first.index("state")] for row in lines[1:]] if "state" in first else []
        legend = {"no code": "no code: not implemented", "+": "+: several resources are missing"}
        if said := [meaning for sign, meaning in legend.items() if any(sign in state for state in states)]:
            print_line("; ".join(said))
        print_line(f"all columns, not cut: harness list {group} --wide")


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

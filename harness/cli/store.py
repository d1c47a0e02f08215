"""The commands `store ls` and `store gc`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from harness.cli.main import MAKING, HelpGroup
from harness.io.console import out_left, print_line

store_app = typer.Typer(
    cls=HelpGroup,
    rich_help_panel=MAKING,
    help="Cached artifacts, such as indexes and vectors: list them, delete unused ones.",
)


@store_app.command(name="ls")
def store_ls() -> None:
    """List cached artifacts, the least recently used first, then those that are being made."""
    from harness.store.artefacts import artefacts, being_made, store_root

    cached = artefacts()
    rows = [[a.kind, a.key[:12], _size(a.size), _day(a.used), _corpus(a.spec)] for a in cached]
    if rows:
        out_left([["kind", "key", "size", "last used", "corpus"], *rows])
    if made := being_made(store_root()):
        held = [[kind, key[:12], by.machine, str(by.process or ""), by.user] for kind, key, by in made]
        out_left([["being made", "key", "machine", "process", "user"], *held])
    print_line(f"{_counted(len(cached))}, {_size(sum(artefact.size for artefact in cached))} in {store_root()}")


@store_app.command(name="gc")
def store_gc(
    days: Annotated[float, typer.Option(min=0, help="Delete artifacts unused for this many days; 0: all.")] = 30,
) -> None:
    """Delete unused artifacts, and leftovers of killed processes.

    What a process is making or reads for it is kept.
    """
    from harness.store.artefacts import collect

    gone = collect(days)
    print_line(f"{_counted(len(gone))} deleted, {_size(sum(artefact.size for artefact in gone))} freed")


def _corpus(spec: Mapping[str, Any]) -> str:
    """Returns the corpus that an artifact was made of, which may be stated by what it was made from.

    Examples
    --------
    >>> _corpus({"counts": {"min_count": 0, "tokens": {"corpus": "mini-answers"}}})
    'mini-answers'
    """
    if isinstance(name := spec.get("corpus"), str):
        return name
    return next((corpus for each in spec.values() if isinstance(each, Mapping) and (corpus := _corpus(each))), "")


def _counted(number: int) -> str:
    return f"{number} artifact{'s' * (number != 1)}"


def _size(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")

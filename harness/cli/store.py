"""The commands `store ls` and `store gc`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from harness.cli.added import Group
from harness.io.console import out, out_left

store_app = typer.Typer(cls=Group, help="What is kept so that it need not be computed again: indexes and the like.")


@store_app.command(name="ls")
def store_ls() -> None:
    """Everything in the store, the longest unused first."""
    from harness.store.artefacts import artefacts, store_root

    found = artefacts()
    rows = [[a.kind, a.key[:12], _size(a.size), _day(a.used), str(a.spec.get("corpus", ""))] for a in found]
    if rows:
        out_left([["kind", "key", "size", "last used", "of"], *rows])
    out(f"{len(found)} artefacts, {_size(sum(artefact.size for artefact in found))} in {store_root()}")


@store_app.command(name="gc")
def store_gc(
    days: Annotated[float, typer.Option(min=0, help="Delete what has not been used for so many days; 0: all.")] = 30,
) -> None:
    """Delete what has not been used for long, and what killed processes left."""
    from harness.store.artefacts import collect

    gone = collect(days)
    out(f"{len(gone)} artefacts deleted, {_size(sum(artefact.size for artefact in gone))} freed")


def _size(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")

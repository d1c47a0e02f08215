"""The commands. Thin: they read arguments, call the workflow and print."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import __version__, interrupt
from harness.cli_score import register
from harness.console import leave_pipe, out, say, tell
from harness.errors import HarnessError, SystemRaisedError, suggestion

if TYPE_CHECKING:
    from harness.fetch import Resource
    from harness.folders import Folder

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Evaluate mathematical information retrieval: reproduce papers, score and compare runs.",
)
HYDRA_COMMANDS = ("reproduce", "run")
register(app)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Collections, corpora, papers or sources; see 'harness list'.")],
    probe: Annotated[bool, typer.Option("--probe", help="Only say whether the files can be had.")] = False,
    brought: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A manually downloaded file: checked, then kept."),
    ] = None,
) -> None:
    """Fetch the files of collections, corpora, papers and sources, checked against their checksums."""
    from harness import config, fetch

    if brought is not None:
        out(str(_accept(names, brought)))
        return
    files = [file for name in names for file in _files(name)]
    if probe:
        if any(fetch.state(file) == "fetchable" for file in files) and not fetch.reachable():
            raise HarnessError(f"{', '.join(names)}: not here, and the network does not answer")
        out(f"{', '.join(names)}: here or reachable")
        return
    paths = fetch.fetch(files, progress=say)
    for path in sorted(set(paths)) if all(name in config.names("source") for name in names) else ():
        out(str(path))
    out(f"{len(set(paths))} files, checksums right")


def _files(name: str) -> list[Resource | Folder]:
    from harness import config
    from harness.collections import load_collection
    from harness.collections.corpus import load_corpus
    from harness.papers import load_paper, paper_names

    if name in config.names("collection"):
        return [*load_collection(name).files()]
    if name in config.names("corpus"):
        return load_corpus(name).files()
    if name in paper_names():
        return [*load_paper(name).files()]
    if name in config.names("source"):
        return [*config.source_files(name)]
    known = [name for group in ("collection", "corpus", "paper", "source") for name in config.names(group)]
    raise HarnessError(
        f"fetch {name!r}: neither a collection nor a corpus nor a paper nor a source; {suggestion(name, known)}"
    )


def _accept(names: Sequence[str], path: Path) -> Path:
    """Take a manually downloaded file of a source, or for a collection or corpus that needs just one such source."""
    from harness import config
    from harness.collections.accept import accept, by_hand

    if len(names) != 1:
        raise HarnessError(f"fetch {' '.join(names)}: --from brings one file for one name")
    name = names[0]
    if name in config.names("source"):
        return accept(path, name)
    needed = sorted({source for source in by_hand() if set(config.source_files(source)) & set(_files(name))})
    if len(needed) != 1:
        found = f"several, name one of them: {', '.join(needed)}" if needed else f"none (known: {', '.join(by_hand())})"
        raise HarnessError(f"fetch {name!r}: --from takes a file of a source with manual download, and it has {found}")
    return accept(path, needed[0])


@app.command(name="list")
def list_() -> None:
    """What exists: collections, corpora, papers, systems, with licence and state."""
    from harness import config
    from harness.collections import load_collection
    from harness.collections.corpus import load_corpus
    from harness.papers import load_paper, paper_names
    from harness.systems import system_state

    collections = [(name, load_collection(name)) for name in config.names("collection")]
    corpora = [(name, load_corpus(name)) for name in config.names("corpus")]
    papers = [(name, load_paper(name)) for name in paper_names()]
    systems = [(name, config.load("system", name)[0]) for name in config.names("system")]
    sources = [(name, config.load("source", name)[0]) for name in config.names("source")]
    # Everything is read before anything is printed: half a list looks like a whole one.
    tables = {
        "collections": [
            ["  name", "state", "licence", "editions"],
            *([f"  {name}", c.state(), c.licence, "/".join(c.editions)] for name, c in collections),
        ],
        "corpora": [
            ["  name", "state", "licence", "title"],
            *([f"  {name}", c.state(), c.licence, c.title] for name, c in corpora),
        ],
        "papers": [
            ["  name", "state", "licence of its runs", "published", "title"],
            *([f"  {name}", p.state(), p.licence(), f"{len(p.cells)} cells", p.title] for name, p in papers),
        ],
        "systems": [
            ["  name", "title", "state"],
            *([f"  {name}", str(s.get("title", "")), system_state(s, f"system {name}")] for name, s in systems),
        ],
        "sources": [
            ["  name", "licence", "title"],
            *([f"  {name}", str(s.get("licence", "")), str(s.get("title", ""))] for name, s in sources),
        ],
    }
    for heading, rows in tables.items():
        out(heading)
        _print_left(rows)


def _print_left(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        out("  ".join(field.ljust(width) for field, width in zip(row, widths, strict=True)).rstrip())


store_app = typer.Typer(help="What is kept so that it need not be computed again: indexes and the like.")
app.add_typer(store_app, name="store", rich_help_panel=None)


@store_app.command(name="ls")
def store_ls() -> None:
    """Everything in the store, the longest unused first."""
    from harness.store import artefacts, store_root

    found = artefacts()
    rows = [[a.kind, a.key[:12], _size(a.size), _day(a.used), str(a.spec.get("corpus", ""))] for a in found]
    if rows:
        _print_left([["kind", "key", "size", "last used", "of"], *rows])
    out(f"{len(found)} artefacts, {_size(sum(artefact.size for artefact in found))} in {store_root()}")


@store_app.command(name="gc")
def store_gc(
    days: Annotated[float, typer.Option(min=0, help="Delete what has not been used for so many days; 0: all.")] = 30,
) -> None:
    """Delete what has not been used for long, and what killed processes left."""
    from harness.store import collect

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


@app.command()
def doctor() -> None:
    """What is missing on this machine, and the command that installs it."""
    from harness.doctor import findings

    rows = findings()
    _print_left([["check", "state", "what to do"], *rows])


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
def reproduce() -> None:
    """Recompute a paper's tables: paper=crossmath, or paper=all; without a paper, the embedded demonstration."""


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
def run() -> None:
    """Produce, score and report one run: collection=... corpus=... system=...; -m sweeps."""


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the version when asked, and what there is to ask without a command."""
    if show:
        out(f"mathir-harness {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        out(context.get_help())
        raise typer.Exit


def main() -> None:
    """The program `harness`: exit code 0, or 2 after one clear line (a line a fault) on standard error.

    What a system raises is shown with the traceback of its own frames; with HYDRA_FULL_ERROR=1, any fault with all.
    """
    full = os.environ.get("HYDRA_FULL_ERROR") == "1"  # Hydra's commands set it
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character (such as the prime of nDCG′) gets its escape, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        if len(sys.argv) > 1 and sys.argv[1] in HYDRA_COMMANDS:
            from harness.hydra_main import main as hydra_main

            hydra_main(sys.argv[1], sys.argv[2:])
            return
        code = app(standalone_mode=False)
        if code == interrupt.CODE:  # Typer has caught it
            interrupt.tell()
        sys.exit(code if isinstance(code, int) else 0)
    except (HarnessError, typer.TyperException) as error:
        if interrupt.stopping():  # only what some library made of it
            interrupt.leave()
        _tell(error, full)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        interrupt.tell()
        sys.exit(interrupt.CODE)
    except BrokenPipeError:
        leave_pipe(sys.stdout)


def _tell(error: HarnessError | typer.TyperException, full: bool) -> None:
    if full:
        import traceback

        tell("".join(traceback.format_exception(error)))
    elif isinstance(error, SystemRaisedError):
        tell(error.trace)
    lines = error.lines if isinstance(error, HarnessError) else (" ".join(error.format_message().split()),)
    for line in lines:
        say(f"harness: {line}")


if __name__ == "__main__":
    main()

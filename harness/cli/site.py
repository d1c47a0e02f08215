"""The command `site build`: static pages of labs and of papers. Thin, as all commands are."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.main import TASKS, HelpGroup
from harness.cli.options import Quiet, to_path
from harness.cli.organiser_commands import lab_with_readers
from harness.cli.scoring_options import note_unless
from harness.errors import HarnessError, counted_text
from harness.io.console import log_line, print_line, track

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.labs.leaderboard import LeaderboardSettings
    from harness.labs.site.lab_view import LabView
    from harness.render.pages import BuildFolder
    from harness.render.site_html import PaperLine

    Note = Callable[[str], None]

site_app = typer.Typer(
    cls=HelpGroup,
    rich_help_panel=TASKS,
    help="Static pages of labs and papers, for any file server or from disk.",
)


@site_app.callback()
def site() -> None:
    """Static pages of labs and papers, for any file server or from disk."""


@site_app.command()
def build(
    labs: Annotated[
        list[Path] | None, typer.Argument(parser=to_path, metavar="LAB...", help="Folders of labs.", show_default=False)
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", parser=to_path, metavar="FOLDER", help="Folder of the pages.", show_default="site"
        ),
    ] = Path("site"),
    papers: Annotated[
        bool, typer.Option("--papers", help="Recompute the tables of all papers, with a page for each table.")
    ] = False,
    reproduced: Annotated[
        Path | None,
        typer.Option(
            parser=to_path,
            metavar="FOLDER",
            help="Runs that the harness made again; equal submissions get the badge 'reproducible'.",
        ),
    ] = None,
    server: Annotated[
        str, typer.Option(metavar="URL", help="Address of the lab's server, for labs whose lab.yaml names none.")
    ] = "",
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples for the intervals of ranks.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Build the pages of labs and, with --papers, of papers; a later build writes only what changed.

    One command builds a whole site: pages of an earlier build that are not made again are deleted.
    """
    from harness.labs.folders import lab_around
    from harness.labs.leaderboard import LeaderboardSettings
    from harness.labs.names import is_address, server_of
    from harness.labs.site.files import home_page, lab_files, schema_files
    from harness.render.pages import BuildFolder

    if not labs and not papers:
        raise HarnessError("nothing to build; name one or more labs, or give --papers")
    if server and not is_address(server):
        raise HarnessError(f"--server {server}: expected an address such as https://lab.example.org")
    bases = _bases(labs or [])
    for taken in (output, *(output / base for base in ("papers", "schemas", *bases.values()))):
        if (lab := lab_around(taken)) is not None:
            reason = f"pages would be written into the lab {lab}; choose another folder"
            raise HarnessError(f"--output {output}: {reason}")
    note = note_unless(quiet)
    drawn, again = LeaderboardSettings(resamples=resamples, seed=seed), _reproduced(reproduced, note)
    with BuildFolder(output) as folder:
        fields: list[LabView] = []
        for lab, base in bases.items():
            fields.append(_view(lab, base, server_of(server), again, drawn, note))
            for files in track(lab_files(fields[-1]), f"pages of {fields[-1].lab.title}"):
                folder.write(files)
        lines = _write_papers(folder) if papers else []
        for files in schema_files():
            folder.write(files)
        folder.write(home_page(fields, lines).files())
    counts = f"{counted_text(folder.written, 'file')} written, {folder.same} unchanged, {folder.deleted} deleted"
    print_line(f"{output / 'index.html'}: {counts}")


def _bases(labs: list[Path]) -> dict[Path, str]:
    """Returns lab -> its folder in the site, from the name of the lab's folder."""
    from harness.render.pages import file_stem

    out_of: dict[str, Path] = {}
    for lab in labs:
        base = file_stem(Path(os.path.realpath(lab)).name)
        if base in ("papers", "schemas"):
            base = f"{base}-lab"
        if base in out_of and os.path.realpath(out_of[base]) != os.path.realpath(lab):
            raise HarnessError(f"{lab}: has the same folder in the site as {out_of[base]}: {base}; rename one of them")
        out_of.setdefault(base, lab)
    return {lab: base for base, lab in out_of.items()}


def _view(
    folder: Path, base: str, server: str, reproduced: frozenset[str], drawn: LeaderboardSettings, note: Note
) -> LabView:
    from harness.labs.board_sources import final_source, lab_source
    from harness.labs.journal import Revealed
    from harness.labs.leaderboard import leaderboards
    from harness.labs.shown_scores import final_runs
    from harness.labs.site.lab_view import field_of
    from harness.labs.submissions import events

    lab = lab_with_readers(folder)
    journal = events(lab)  # once: while pages are made, submissions may come
    source = lab_source(lab, drawn, note, journal)
    (board,) = leaderboards(source.entries, source.settings)
    final = None
    if lab.private and any(isinstance(event, Revealed) for event in journal) and final_runs(lab, journal):
        held = final_source(lab, drawn)
        (final,) = leaderboards(held.entries, held.settings)
    return field_of(
        replace(lab, server=lab.server or server),
        board,
        source.entries,
        journal,
        base,
        remarks=source.remarks,
        reproduced=reproduced,
        final=final,
    )


def _reproduced(folder: Path | None, note: Note) -> frozenset[str]:
    """Returns the checksums of runs that the harness made, by their metadata; other files are left out."""
    from harness.data.trec import read_run
    from harness.labs.submissions import normal
    from harness.store import sidecar

    if folder is None:
        return frozenset()
    if not folder.is_dir():
        raise HarnessError(f"--reproduced: {folder}: no such folder")
    checksums = set()
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or not sidecar.sidecar_path(path).is_file() or path == sidecar.sidecar_path(path):
            continue
        run = read_run(path)
        if sidecar.claimed(sidecar.sidecar_path(path))[1] == run.sha256:
            checksums.add(normal(run, run.name)[0].sha256)
        else:
            note(f"{path}: left out, since its metadata is not that of a run of the harness")
    return frozenset(checksums)


def _write_papers(folder: BuildFolder) -> list[PaperLine]:
    """Recomputes all papers and writes their pages."""
    from harness.papers import paper
    from harness.papers.report.pages import paper_files, paper_line, papers_page
    from harness.papers.reproduce import recompute_paper

    lines = []
    for key in paper.paper_names():
        reproduction = recompute_paper(paper.load_paper(key), log_line, track)
        for files in paper_files(reproduction):
            folder.write(files)
        lines.append(paper_line(reproduction))
    folder.write(papers_page(lines).files())
    return lines

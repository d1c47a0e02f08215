"""Runs of experiments as the runs behind the rows of a paper's tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.io import rehearsal
from harness.papers.cells import PublishedCell
from harness.papers.map import PaperRow, paper_rows, row_labels
from harness.papers.paper import Paper, PaperCollection
from harness.papers.steps import PlannedRun, PrintedRow, RunStep


@dataclass(frozen=True)
class CellRun:
    """The finished run of an experiment's cell.

    Attributes
    ----------
    labels : of the row, without that of the set of topics.
    seed : empty for a cell without one.
    collection, edition : ours, by which it is scored.
    corpus : that it searched.
    """

    labels: tuple[str, ...]
    seed: str
    collection: str
    edition: str
    corpus: str
    path: Path


Searched = CellRun | PlannedRun


def substituted(paper: Paper, run: Searched) -> str:
    """Returns what the paper searched in place of a run's corpus; empty if a number of the paper may be the run's.

    In a rehearsal each corpus stands for the paper's.
    """
    return "" if paper.scored is None or rehearsal.folder() else paper.scored.substitutes.get(run.corpus, "")


def _is_scored_by(judged: PaperCollection, run: Searched) -> bool:
    return run.collection == judged.collection and run.edition in ("", judged.edition)


def has_number(paper: Paper, experiment: str, labels: tuple[str, ...], run: Searched) -> bool:
    """Returns whether the paper prints a number of a run of an experiment's row; of numbers not scored, any run's."""
    scored = paper.scored
    if scored is None or substituted(paper, run):
        return scored is None
    return any(
        cell.table in paper.config.experiments[experiment]
        and (not (place := scored.place(cell)) or _is_scored_by(scored.collections[place], run))
        and any(matching_rows(cell, [labels]))
        for cell in paper.cells
    )


def matching_rows(cell: PublishedCell, rows: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yields the rows of an experiment, given by their labels, that a published number belongs to."""
    for row in rows:
        names = [plain_label(label) for label in row]
        if plain_label(cell.system) in names and (not cell.group or plain_label(cell.group) in names):
            yield row


def rows_to_bring(paper: Paper, steps: Sequence[RunStep]) -> dict[PrintedRow, str]:
    """Returns the rows whose runs can be had but not made, such as other teams' -> what they need.

    Parameters
    ----------
    steps : all of the paper, at its own scale.
    """
    known, labels, scored = paper_rows(paper), row_labels(paper), paper.scored
    if paper.runs or scored is None:
        return {}
    at = {cell: (cell.table, labels[cell.table, cell.group, cell.system]) for cell in paper.cells if scored.place(cell)}
    printed = {(table, row.label) for step in steps for row in step.rows for table in row.table.split(", ")}
    for step in (step for step in steps if step.experiment):
        of = [cell for cell in at if cell.table in paper.config.experiments[step.experiment]]
        printed |= {at[cell] for cell in of if any(matching_rows(cell, step.labels))}
    made = {known[place].name for place in printed & known.keys()}
    lacking = {place: paper.lack(cell) for cell, place in at.items() if known[place].name not in made}
    return {PrintedRow(*place): why for place, (kind, why) in lacking.items() if kind == "needs"}


def plain_label(name: str) -> str:
    """Returns a row's name normalised over the spellings in the tables of a paper."""
    return re.sub(r"[\s-]", "", name.removesuffix(" (ef = 128)")).casefold()


@dataclass(frozen=True)
class RowRuns:
    """The runs of a row on a collection (a key in `Scored.collections`), one for each seed, and their corpora."""

    row: PaperRow
    collection: str
    paths: tuple[Path, ...]
    corpora: frozenset[str]


def runs_of_rows(paper: Paper, made: Mapping[str, Sequence[CellRun]]) -> list[RowRuns]:
    """Returns the runs behind the rows of tables that experiments compute, on corpora that are the paper's.

    Parameters
    ----------
    made : experiment -> its finished runs.
    """
    scored, known, labels = paper.scored, paper_rows(paper), row_labels(paper)
    if scored is None:
        return []
    runs_by_place: dict[tuple[str, str, str], RowRuns] = {}
    for name, runs in made.items():
        tables = paper.config.experiments[name]
        rows = tuple(dict.fromkeys(run.labels for run in runs))
        for cell in paper.cells:
            place = scored.place(cell)
            at = (cell.table, labels.get((cell.table, cell.group, cell.system), ""))
            if cell.table not in tables or not place or at not in known or (*at, place) in runs_by_place:
                continue
            judged = scored.collections[place]
            for labels_ in matching_rows(cell, rows):
                same = [run for run in runs if run.labels == labels_ and _is_scored_by(judged, run)]
                by_seed = {run.seed: run for run in same if not substituted(paper, run)}
                if by_seed:
                    row = replace(known[at], seeds=len(by_seed))
                    paths, corpora = zip(*((run.path, run.corpus) for run in by_seed.values()), strict=True)
                    runs_by_place[*at, place] = RowRuns(row, place, paths, frozenset(corpora))
    return list(runs_by_place.values())

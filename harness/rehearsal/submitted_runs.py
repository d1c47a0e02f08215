"""Stand-ins for runs that a person brings, such as those of other teams: judged documents in a random order."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path

from harness.collections.load import load_collection
from harness.data.run_writers import write_run
from harness.data.trec import Run
from harness.papers.map import paper_rows
from harness.papers.paper import Paper
from harness.papers.steps import PrintedRow
from harness.sources.fetch import fetch_resources


def write_submitted_runs(folder: Path, paper: Paper, rows: Collection[PrintedRow], seed: int) -> None:
    """Writes the runs of rows by names that `harness reproduce brought=FOLDER` recognises; fetches judgments.

    Parameters
    ----------
    rows : of `harness.papers.experiment_runs.rows_to_bring`.

    Raises
    ------
    HarnessError
        The judgments of a collection cannot be had.
    """
    known, places = paper_rows(paper), {} if paper.scored is None else paper.scored.collections
    wanted = {
        (name, known[row.table, row.label].name): place
        for row in rows
        for name, place in known[row.table, row.label].collections.items()
    }
    for (_, name), place in wanted.items():
        judged = places[place]
        collection = load_collection(judged.collection)
        fetch_resources(collection.files())
        grades = collection.qrels(judged.edition).to_dict()
        rng = random.Random(f"{place} {name}:{seed}")
        ranked = {topic: {doc: rng.random() for doc in docs} for topic, docs in grades.items()}
        path = folder / place.replace("/", "-") / f"{name}.run"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_run(Run.from_dict(name, ranked), path)

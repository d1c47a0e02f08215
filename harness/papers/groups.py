"""Groups of a paper's tables that need the same runs: the systems of each run, its collection and its corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from harness.collections.load import load_collection
from harness.papers.paper import Paper
from harness.papers.steps import EVERYTHING, PlannedRun, RunStep, Selection, paper_steps


@dataclass(frozen=True)
class TableGroup:
    """Tables that need the same runs.

    Attributes
    ----------
    source : where the runs are listed, such as `experiment=crossmath-paper`.
    runs : runs to make; fusions are not listed, since they only read the runs of other rows.
    """

    tables: tuple[str, ...]
    source: str
    runs: tuple[PlannedRun, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems, each once."""
        return tuple(dict.fromkeys(run.system for run in self.runs))

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the corpora, each once."""
        return tuple(dict.fromkeys(run.corpus for run in self.runs))

    @property
    def collections(self) -> tuple[str, ...]:
        """Names of the collections, each once."""
        return tuple(dict.fromkeys(run.collection for run in self.runs))


@cache
def _topics_and_judgments(collection: str, edition: str) -> tuple[int, int]:
    judged = load_collection(collection).edition(edition or None)
    return judged.topics, judged.judgments


def topic_and_judgment_counts(runs: Iterable[PlannedRun]) -> tuple[int, int]:
    """Returns the number of topics and of judgments over all tasks of some runs."""
    tasks = dict.fromkeys((run.collection, run.edition) for run in runs)
    sizes = [_topics_and_judgments(collection, edition) for collection, edition in tasks]
    return sum(count for count, _ in sizes), sum(judged for _, judged in sizes)


def table_groups(paper: Paper, part: Selection = EVERYTHING, scale: str = "") -> tuple[TableGroup, ...]:
    """Returns the groups of a paper's tables, in the paper's order; tables that are blocked as a whole are omitted.

    A table needs the runs of its rows' steps and the runs that these read; a fusion itself is no work.
    """
    made, _ = paper_steps(paper, part, scale)
    by_file = {step.file: step for step in made if step.file}
    by_table: dict[str, dict[str, PlannedRun]] = {}
    source: dict[str, str] = {}
    for step in made:
        tables = dict.fromkeys(table for row in step.rows for table in row.table.split(", ") if table)
        kind = f"experiment={step.experiment}" if step.experiment else "rows" if paper.available else "systems"
        for table in tables:
            source.setdefault(table, kind)
            for each in _with_inputs(step, by_file):
                by_table.setdefault(table, {}).update({repr(run): run for run in each.runs})  # settings may be lists
    same: dict[tuple[str, frozenset[str]], list[str]] = {}
    rows = paper.cells if paper.available is None else paper.available.rows
    for table in dict.fromkeys(row.table for row in rows if row.table in by_table):
        runs = by_table[table]
        if not str(paper.config.states.get(table, "")).startswith("blocked"):
            same.setdefault((source[table], frozenset(runs)), []).append(table)
    return tuple(TableGroup(tuple(t), kind, tuple(by_table[t[0]].values())) for (kind, _), t in same.items())


def _with_inputs(step: RunStep, by_file: Mapping[str, RunStep]) -> Iterator[RunStep]:
    """Yields the steps with work of its own behind a step: itself, or what it fuses or learns from."""
    inputs = [by_file[file] for file in step.reads() if file in by_file]
    if not step.reads():
        yield step
    for each in inputs:
        yield from _with_inputs(each, by_file)

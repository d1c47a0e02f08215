"""Groups of a paper's tables that need the same runs: the systems of each run, its collection and its corpus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from harness.collections.load import load_collection
from harness.experiments.experiment import load_experiment
from harness.io import config
from harness.papers.paper import Paper
from harness.papers.rows import Available, Row
from harness.systems.states import recipe, registered

_SYSTEM = "system."


@dataclass(frozen=True)
class Run:
    """One run of a table: a system with its settings, on a collection and a corpus.

    Attributes
    ----------
    settings : key below the system's configuration, with dots -> value.
    edition : empty for the collection's own.
    rerank : whether only judged documents are ranked.
    """

    system: str
    collection: str
    corpus: str
    settings: tuple[tuple[str, Any], ...] = ()
    edition: str = ""
    rerank: bool = False

    @cached_property
    def configuration(self) -> Mapping[str, Any]:
        """Configuration of the system with the settings of the run."""
        found = dict(config.load("system", self.system)[0])
        for key, value in self.settings:
            found = _replaced(found, key.split("."), value)
        return found


@dataclass(frozen=True)
class Group:
    """Tables that need the same runs.

    Attributes
    ----------
    source : where the runs are listed, such as `experiment=crossmath-paper`.
    runs : runs to make; fusions are not listed, since they only read the runs of other rows.
    """

    tables: tuple[str, ...]
    source: str
    runs: tuple[Run, ...]

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

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Number of topics and of judgments over all tasks, see `topics`; each run's work asks for them."""
        return topics(self.runs)


def topics(runs: Iterable[Run]) -> tuple[int, int]:
    """Returns the number of topics and of judgments over all tasks of some runs."""
    tasks = dict.fromkeys((run.collection, run.edition) for run in runs)
    found = [load_collection(collection).edition(edition or None) for collection, edition in tasks]
    return sum(each.topics for each in found), sum(each.judgments for each in found)


def groups(paper: Paper) -> tuple[Group, ...]:
    """Returns the groups of a paper's tables, in the paper's order; tables that are blocked as a whole are omitted.

    The runs are those of the rows in `available.tables`, else of the experiments in `experiments`, else of the
    systems that name the paper and have a recipe.
    """
    if paper.available is not None:
        found = _of_rows(paper.available)
    elif paper.config.experiments:
        found = [Group(t, f"experiment={name}", _of_experiment(name)) for name, t in paper.config.experiments.items()]
    else:
        found = _of_recipes(paper)
    kept = [(group, tuple(t for t in group.tables if not _blocked(paper, t))) for group in found]
    return tuple(Group(tables, group.source, group.runs) for group, tables in kept if tables and group.runs)


def _blocked(paper: Paper, table: str) -> bool:
    return str(paper.config.states.get(table, "")).startswith("blocked")


def _of_rows(available: Available) -> list[Group]:
    by_table: dict[str, dict[str, Run]] = {}
    for row in available.rows:
        made = [run for each in (row.inputs or (row,)) for run in _of_row(each, available.corpus, row.collections)]
        by_table.setdefault(row.table, {}).update({repr(run): run for run in made})  # settings may be lists
    same: dict[frozenset[str], list[str]] = {}
    for table, runs in by_table.items():
        same.setdefault(frozenset(runs), []).append(table)
    return [Group(tuple(tables), "rows", tuple(by_table[tables[0]].values())) for tables in same.values()]


def _of_row(row: Row, corpus: str, collections: Sequence[str]) -> list[Run]:
    """Returns the runs of a row of a single system; its name is no part of them, as it changes no cost."""
    if row.registered() is not None or not row.system:
        return []
    settings = tuple((key, value) for key, value in row.settings if key != "name")
    return [Run(row.system, collection, corpus, settings) for collection in collections]


def _of_experiment(name: str) -> tuple[Run, ...]:
    return tuple(_of_words(cell.overrides) for cell in load_experiment(name).cells())


def _of_words(words: Sequence[str]) -> Run:
    """Returns the run of a command.

    Examples
    --------
    >>> _of_words(["system=bm25", "collection=mini-task1", "corpus=mini-answers", "system.k1=0.9"]).settings
    (('k1', 0.9),)
    """
    given = {key: value for key, _, value in (word.partition("=") for word in words)}
    settings = [(key.removeprefix(_SYSTEM), value) for key, value in given.items() if key.startswith(_SYSTEM)]
    return Run(
        given["system"],
        given["collection"],
        given["corpus"],
        tuple((key, yaml.safe_load(value)) for key, value in settings),
        given.get("edition", ""),
        given.get("rerank") == "true",
    )


def _of_recipes(paper: Paper) -> list[Group]:
    runs = []
    for name in sorted(config.names("system")):
        mapping, _ = config.load("system", name)
        made = recipe(mapping, f"system {name}")
        if mapping.get("paper") == paper.key and made is not None and registered([mapping]) is None:
            runs.append(Run(name, made.collection, made.corpus, (), made.edition or "", made.rerank))
    scored = paper.scored
    tables = dict.fromkeys(cell.table for cell in paper.cells if scored is not None and scored.place(cell))
    return [Group(tuple(tables), "systems", tuple(runs))] if runs else []


def _replaced(mapping: Mapping[str, Any], keys: Sequence[str], value: object) -> dict[str, Any]:
    """Returns a mapping with the value at a path of keys.

    Examples
    --------
    >>> _replaced({"training": {"seed": 1, "batch": 32}}, ["training", "seed"], 2)
    {'training': {'seed': 2, 'batch': 32}}
    """
    first, *rest = keys
    below = mapping.get(first)
    if rest:
        return {**mapping, first: _replaced(below if isinstance(below, Mapping) else {}, rest, value)}
    return {**mapping, first: value}

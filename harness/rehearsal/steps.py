"""The steps of a rehearsal: the commands that make a paper's rows, as its report prints them, in a working order."""

from __future__ import annotations

import fnmatch
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import HarnessError, suggestion
from harness.experiments.experiment import CONDITION, load_experiment
from harness.io import config
from harness.io.files import sha256
from harness.papers.paper import Paper
from harness.papers.rows import Row as PaperRow
from harness.systems import states


@dataclass(frozen=True)
class Row:
    """A row of a paper: the table and the label in print, or for systems without a table the system's title."""

    table: str
    label: str

    def __str__(self) -> str:
        return f"{self.table}: {self.label}" if self.table else self.label


@dataclass(frozen=True)
class Step:
    """A command that makes the runs of some rows.

    Attributes
    ----------
    name : unique within a paper; names its log file.
    words : of the command, without `harness`.
    rows : that need its runs.
    parts : the same in smaller commands, which are run if it fails, to find the rows that fail.
    condition : of an experiment, if the command is limited to one.
    """

    name: str
    words: tuple[str, ...]
    rows: tuple[Row, ...]
    parts: tuple[Step, ...] = ()
    condition: str = ""

    @property
    def command(self) -> str:
        """The line for a shell."""
        return shlex.join(["harness", *self.words])

    def digest(self) -> str:
        """Returns a hash of the command and of all configurations that it names; for records of what was rehearsed.

        Keys that only describe, such as titles and licences, are left out.
        """
        named = {
            f"{group}/{name}": _acting(config.load(group, name)[0])
            for group, name in _choices(self.words)
            if name in config.names(group)
        }
        content = [self.words, named, [_acting(part) for part in self.systems()]]
        return sha256(json.dumps(content, sort_keys=True, default=str).encode())[:16]

    def systems(self) -> Iterator[Mapping[str, Any]]:
        """Yields the configurations of its systems and of their parts, with the overrides of the command."""
        for words in self._composed():
            choice = dict(_choices(words))
            if "system" not in choice:
                continue
            mapping = dict(config.load("system", choice["system"])[0])
            for word in words:
                key, _, value = word.partition("=")
                if key.startswith("system."):
                    _put(
                        mapping, key.removeprefix("system.").split("."), config.parse(f"x: {value}".encode(), word)["x"]
                    )
            yield from states.parts(mapping)

    def chosen(self, group: str) -> set[str]:
        """Returns the names of a group's configurations that its words, or its experiment's cells, choose."""
        return {name for words in self._composed() for kind, name in _choices(words) if kind == group}

    def corpora(self) -> set[str]:
        """Returns the corpora and collections whose files it reads, by name."""
        found = self.chosen("corpus") | self.chosen("collection")
        for part in self.systems():
            found |= {str(name) for name in (part.get("pairs") or {}) if (part.get("pairs") or {})[name] is not None}
            found |= {str(part[key]) for key in ("posts", "unanswered") if isinstance(part.get(key), str)}
        return found

    def _composed(self) -> Iterator[tuple[str, ...]]:
        choice = dict(_choices(self.words))
        if "experiment" not in choice:
            yield self.words
            return
        for cell in load_experiment(choice["experiment"]).cells():
            if self.condition in ("", cell.labels[0]):
                yield cell.overrides


def _acting(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in (*states.ABOUT, "licence", "link", "notes")}


def _choices(words: Sequence[str]) -> list[tuple[str, str]]:
    groups = ("collection", "corpus", "system", "protocol", "experiment")
    pairs = (word.partition("=") for word in words)
    return [(key, value) for key, _, value in pairs if key in groups]


def _put(mapping: dict[str, Any], keys: Sequence[str], value: object) -> None:
    *above, last = keys
    for key in above:
        inner = mapping.get(key)
        mapping[key] = mapping = dict(inner) if isinstance(inner, Mapping) else {}
    mapping[last] = value


def steps(paper: Paper, rows: str = "") -> tuple[list[Step], dict[Row, str]]:
    """Returns the steps of a paper, and row -> the reason of the rows that no command makes.

    Parameters
    ----------
    rows : pattern of labels or tables, such as `mirmu*`; the runs that these rows fuse are made too. Empty for all.

    Raises
    ------
    HarnessError
        No row fits the pattern.
    """
    made, left = _of_rows(paper)
    made += _of_experiments(paper)
    covered = {key for step in made for part in step.systems() for key in [part.get("name")]}
    made += _of_systems(paper, covered)
    if rows:
        made = _chosen(made, rows, paper)
        left = {row: why for row, why in left.items() if _fits(row, rows)}
    return made, left


def _fits(row: Row, pattern: str) -> bool:
    known = (row.label, str(row), row.table, *row.table.split(", "))
    return any(fnmatch.fnmatchcase(each.lower(), pattern.lower()) for each in known)


def _chosen(made: Sequence[Step], pattern: str, paper: Paper) -> list[Step]:
    """Returns the steps of the rows that fit, and of those whose runs they read, without their rows."""
    wanted = {row for step in made for row in step.rows if _fits(row, pattern)}
    if not wanted:
        known = [row.label for step in made for row in step.rows]
        raise HarnessError(f"rehearse {paper.key}: no row fits {pattern!r}; {suggestion(pattern, known)}")
    needed: list[Step] = []
    read: set[str] = set()  # by the chosen steps: run files, and names of systems
    for step in reversed(made):
        mine = tuple(row for row in step.rows if row in wanted)
        if mine or _written(step) & read:
            parts = [part for part in step.parts if set(part.rows) & set(mine)]
            if len(parts) < len(step.parts):
                needed += (replace(part, rows=tuple(r for r in part.rows if r in wanted)) for part in reversed(parts))
            else:
                needed.append(replace(step, rows=mine))
            collection = dict(_choices(step.words)).get("collection", "")
            listed = [name for word in step.words if "runs=" in word for name in _listed(word)]
            read |= {name if name.endswith(".run") else f"runs/{collection}/{name}.run" for name in listed}
    return needed[::-1]


def _listed(word: str) -> list[str]:
    return [part for part in word.partition("=")[2].strip("[]").split(",") if part]


def _written(step: Step) -> set[str]:
    """Returns the run file that a command of one system writes, relative to the current folder."""
    choice = dict(_choices(step.words))
    if "system" not in choice:
        return set()
    name = next((word.partition("=")[2] for word in step.words if word.startswith("system.name=")), None)
    return {f"runs/{choice['collection']}/{name or next(step.systems()).get('name')}.run"}


# ---- rows with a command ----------------------------------------------------------------------------------------


def _of_rows(paper: Paper) -> tuple[list[Step], dict[Row, str]]:
    """Returns a step for each run behind the rows of `available`, single systems first, and the rows without one."""
    available = paper.available
    if available is None:
        return [], {}
    sharing: dict[tuple[str, str], list[PaperRow]] = {}
    for row in available.rows:
        sharing.setdefault(row.run, []).append(row)
    made: list[Step] = []
    left: dict[Row, str] = {}
    single = [found for found in sharing.values() if not found[0].inputs]
    for found in (*single, *(found for found in sharing.values() if found[0].inputs)):
        rows = tuple(Row(row.table, row.label) for row in found)
        first = next((row for row in found if (row.table, row.label) == row.run), found[0])
        if (lack := first.registered()) is not None:
            left |= dict.fromkeys(rows, f"{lack[0]}: {lack[1]}")
            continue
        for collection in available.collections(first):
            words = tuple(shlex.split(available.full(first, collection)))[1:]
            made.append(Step(f"{first.table} {first.label} {collection}", words, rows))
    # Runs that a fusion learns from are made before it.
    return sorted(made, key=lambda step: any("training_runs" in word for word in step.words)), left


# ---- experiments ------------------------------------------------------------------------------------------------


def _of_experiments(paper: Paper) -> list[Step]:
    """Returns a step for each experiment that has rows of the paper, with the first seed alone.

    Its parts are the experiment's conditions.
    """
    made = []
    for name, tables in paper.config.experiments.items():
        found = load_experiment(name)
        cells = found.cells()
        words = ("run", f"experiment={name}", "scale=full") if found.scale else ("run", f"experiment={name}")
        table = ", ".join(tables)
        seed = f"seed:[{found.seeds.values[0]}]" if found.seeds else ""
        rows = {found.row(cell.labels): Row(table, ", ".join(found.row(cell.labels))) for cell in cells}
        parts = tuple(
            Step(
                f"{name} {condition}",
                (*words, _only(f"{CONDITION}:[{_quoted(condition)}]", seed)),
                tuple(dict.fromkeys(rows[found.row(cell.labels)] for cell in cells if cell.labels[0] == condition)),
                condition=condition,
            )
            for condition in found.conditions
        )
        whole = (*words, _only(seed)) if seed else words
        made.append(Step(name, whole, tuple(dict.fromkeys(rows.values())), parts))
    return made


def _only(*parts: str) -> str:
    return f"only={{{','.join(filter(None, parts))}}}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"\'") + "'"


# ---- systems with a recipe --------------------------------------------------------------------------------------


def _of_systems(paper: Paper, covered: Iterable[object]) -> list[Step]:
    """Returns a step for each system of the paper with a recipe that no other step runs."""
    made = []
    for name in config.names("system"):
        mapping, where = config.load("system", name)
        if mapping.get("paper") != paper.key or name in set(covered):
            continue
        found = states.recipe(mapping, where)
        if found is None or states.registered(list(states.parts(mapping)), where) is not None:
            continue
        title = str(mapping.get("title", name))
        scored = [cell for cell in paper.cells if paper.scored is not None and paper.scored.place(cell)]
        printed = [cell for cell in scored if cell.system in title.split(", ")]
        row = Row(printed[0].table, printed[0].system) if printed else Row("", title)
        made.append(Step(name, ("run", *found.words(name)), (row,)))
    return made

"""What of a paper's tables can be run here: for each row its system, its inputs, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Protocol

from harness.collections.corpora import load_corpus
from harness.errors import HarnessError, suggestion
from harness.io import checks, config
from harness.io.checks import Words
from harness.systems import states
from harness.systems.states import by_hand, command, missing_models, missing_modules, parts, registered, resources

State = Literal["runs", "in part", "needs", "not implemented", "blocked"]
_LEAST = 2  # inputs that a fusion needs


@dataclass(frozen=True)
class Entry:
    """What a paper's configuration says of a row; see `parse`."""

    system: str = ""
    set: Mapping[str, Any] | None = None
    inputs: tuple[Words, ...] | None = None
    trained: bool = False
    state: Any = None
    same_as: str = ""
    note: str = ""


# (table, label) -> its entry, the collections that it has numbers on, and its place in the file
Entries = dict[tuple[str, str], tuple[Entry, tuple[str, ...], str]]


@dataclass(frozen=True)
class Listed:
    """The key `available` of a paper's configuration; see `parse`."""

    corpus: str
    collections: Mapping[str, Words]
    tables: Mapping[str, Mapping[str, Entry]]
    instead: str = ""
    without_numbers: tuple[Words, ...] = ()
    instead_training: Mapping[str, Any] = field(default_factory=dict)


class Printed(Protocol):
    """The coordinates of a published number that identify its row."""

    @property
    def table(self) -> str: ...  # noqa: D102
    @property
    def group(self) -> str: ...  # noqa: D102
    @property
    def system(self) -> str: ...  # noqa: D102
    @property
    def collection(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class Row:
    """A row of a paper's table and what makes its run.

    Attributes
    ----------
    label : as the paper prints it; with its group where a table has two of one label.
    collections : ours, on which the paper has numbers of it, in the paper's order.
    system : of `conf/system/`; empty where `lack` says why there is none.
    settings : its parameters that are not those of its configuration.
    inputs : the rows whose runs it fuses.
    trained : whether it learns from the judgments of another collection.
    lack : (state, why) of a row without a system, as `config.state` gives them.
    run : the table and label of the row whose run it is: its own, or those of the row that it is the same as.
    """

    table: str
    label: str
    collections: tuple[str, ...]
    system: str = ""
    settings: tuple[tuple[str, Any], ...] = ()
    inputs: tuple[Row, ...] = ()
    trained: bool = False
    lack: tuple[checks.Lack, str] | None = None
    note: str = ""
    run: tuple[str, str] = ("", "")

    @property
    def short(self) -> str:
        """The label up to its colon, by which texts call a row."""
        return self.label.partition(":")[0]

    def registered(self) -> tuple[checks.Lack, str] | None:
        """(state, why) if no code makes its run; an input of such a kind has to come from elsewhere."""
        return self.lack or registered(self._parts, f"system {self.system}")

    def elsewhere(self) -> tuple[Row, ...]:
        """The inputs whose runs have to come from elsewhere."""
        return tuple(row for row in self.inputs if row.registered() is not None)

    def state(self) -> State:
        """`in part`: a fusion whose rule runs, while some of its inputs have to come from elsewhere."""
        found = self.registered()
        if found is not None:
            return found[0]
        if self.elsewhere():
            return "in part"
        return "needs" if self.why() else "runs"

    def why(self, corpus: str = "") -> str:
        """What keeps it from running: why no code does, or what is missing here; empty if nothing is.

        Parameters
        ----------
        corpus : one that is missing, too.
        """
        found = self.registered()
        if found is not None:
            return "; ".join(part for part in (found[1], resources([], corpus)) if part)
        made = [part for row in (self, *self.inputs) if row.registered() is None for part in row._parts]
        runs = ", ".join(row.short for row in self.elsewhere())
        lacking = (
            missing_modules(made),
            resources(missing_models(made), corpus, by_hand(made)),
            "; ".join(states.missing_answers(made)),
            "; ".join(filter(None, map(states.missing_collection, self.collections))),
            f"the runs of {runs}" if runs else "",
        )
        return "; ".join(part for part in lacking if part)

    def apart(self, collection: str) -> bool:
        """Whether a fusion takes the file of its run there, since the name of its system would not make it.

        A model that is fine-tuned leaves out the collections that its configuration names, and runs on these alone.
        """
        if self.registered() or self.settings:
            return True
        tunings = (part.get("training") for part in self._parts)
        return any(collection not in (how.get("leave_out") or ()) for how in tunings if isinstance(how, Mapping))

    def tuned(self) -> bool:
        """Whether its own model is fine-tuned."""
        return isinstance(self.configuration.get("training"), Mapping)

    @property
    def run_name(self) -> str:
        """What its run is called by the system that makes it."""
        return str(dict(self.settings).get("name") or self.configuration.get("name", self.system))

    @property
    def configuration(self) -> Mapping[str, Any]:
        """That of its system."""
        return self._parts[0]

    @cached_property
    def _parts(self) -> Sequence[Mapping[str, Any]]:
        """The configuration of its system, and those of the systems that this is made from."""
        return tuple(parts({**config.load("system", self.system)[0], **dict(self.settings)}))


@dataclass(frozen=True)
class Available:
    """The rows of a paper's tables; `corpus` is the one the paper used, `instead` a small one that is here, if any.

    `instead_training` are settings of a system's fine-tuning that the small corpus asks for.
    """

    corpus: str
    instead: str
    rows: tuple[Row, ...]
    instead_training: Mapping[str, Any] = field(default_factory=dict)

    def lacks(self, cell: Printed) -> str:
        """What a printed number lacks here, if a command of ours makes the run of its row; else empty."""
        labels = (cell.system, f"{cell.group} / {cell.system}")
        return next((self._lacking[cell.table, label] for label in labels if (cell.table, label) in self._lacking), "")

    def lack(self, cell: Printed) -> tuple[checks.Lack, str] | None:
        """Why no code makes the run of a printed number, if its own row says so."""
        labels = (cell.system, f"{cell.group} / {cell.system}")
        return next((row.lack for row in self.rows if row.table == cell.table and row.label in labels), None)

    @cached_property
    def _lacking(self) -> Mapping[tuple[str, str], str]:
        made = [row for row in self.rows if not row.registered()]
        return {(row.table, row.label): self.why(row) or "a run, which the command of its row makes" for row in made}

    def why(self, row: Row) -> str:
        """What keeps a row's run on the full collection from being made here; empty if nothing does."""
        return row.why("" if load_corpus(self.corpus).state() == "here" else self.corpus)

    def full(self, row: Row) -> str:
        """The command that makes a row's run on the full collection (the last of its collections); else empty.

        Runs that have to come from elsewhere are files in capitals.
        """
        return "" if row.registered() else _command(row, self.corpus, row.inputs)

    def small(self, row: Row) -> str:
        """The same on the small corpus, with the inputs that code of ours makes; empty if these are too few."""
        inputs = tuple(item for item in row.inputs if item not in row.elsewhere())
        if not self.instead or row.registered() or (row.inputs and len(inputs) < _LEAST):
            return ""
        return _command(row, self.instead, inputs, self.instead_training)


def _command(row: Row, corpus: str, inputs: Sequence[Row], training: Mapping[str, Any] = MappingProxyType({})) -> str:
    """A fusion takes the names of systems, and files where a run is from elsewhere or of other settings."""
    collection = row.collections[-1]
    words = [f"collection={collection}", f"corpus={corpus}", f"system={row.system}"]
    for key, value in row.settings:
        words.append(f"system.{key}={str(value).lower() if isinstance(value, bool) else value}")
    if row.tuned():
        words += [f"system.training.{key}={value}" for key, value in training.items()]
    if inputs:
        apart = [item.apart(collection) or bool(training and item.tuned()) for item in inputs]
        runs = [_file(item, collection) if by else item.system for item, by in zip(inputs, apart, strict=True)]
        words.append(f"system.runs=[{','.join(runs)}]")
    if row.trained:
        before = row.collections[-2]
        words.append(f"training=[{before}]")
        words.append(f"system.training_runs=[{','.join(_file(item, before) for item in inputs)}]")
    return command(words)


def _file(row: Row, collection: str) -> str:
    """Where the run of a row is if its own command made it; in capitals if it has to come from elsewhere."""
    if row.registered():
        return f"{collection}/{row.short.replace(' ', '-').upper()}.run"
    return f"runs/{collection}/{row.run_name}.run"


def parse(listed: Listed, cells: Sequence[Printed], where: str) -> Available:
    """The value of a paper's key `available`; `cells` are the paper's.

    Every row of a listed table has an entry: `system` (with `set`, `inputs`, `trained`), or `state`, or `same_as`
    another row (`TABLE: ROW` where several tables have it). Tables without numbers are named in `without_numbers`.

    Raises
    ------
    HarnessError
        A row has no entry, an entry has no row, a key is unknown, or what it names does not exist.
    """
    for corpus in filter(None, (listed.corpus, listed.instead)):
        _known(corpus, config.names("corpus"), "corpus", where)
    for collection in listed.collections.values():
        _known(collection, config.names("collection"), "collection", where)
    entries: Entries = {}
    for table, rows in listed.tables.items():
        place = f"{where}: tables: {table}"
        printed = _printed(table, cells, listed.collections, place)
        without = table in listed.without_numbers
        if without == bool(printed):
            has = "has cells, yet 'without_numbers' names it" if without else "has no cells; see 'without_numbers'"
            raise HarnessError(f"{place}: the table {has}")
        for label, entry in rows.items():
            if printed:
                _known(label, printed, "row", place)
            _check_row(entry, f"{place}: {label}")
            entries[table, label] = (entry, printed.get(label, tuple(listed.collections.values())), f"{place}: {label}")
        for label in printed:
            if (table, label) not in entries:
                raise HarnessError(f"{place}: row {label!r} is missing; give it a system, or a 'state'")
    made: dict[tuple[str, str], Row] = {}
    found = tuple(_row(key, entries, made) for key in entries)
    return Available(listed.corpus, listed.instead, found, listed.instead_training)


def _known(name: object, known: Mapping[str, object], kind: str, where: str) -> None:
    if name not in known:
        raise HarnessError(f"{where}: {kind} {name!r} is unknown; {suggestion(str(name), known)}")


def _printed(
    table: str, cells: Sequence[Printed], collections: Mapping[str, str], where: str
) -> dict[str, tuple[str, ...]]:
    """Label -> the collections its numbers are on, for the rows of a table."""
    on: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        if cell.table == table:
            _known(cell.collection, collections, "collection", where)
            on.setdefault((cell.group, cell.system), {})[collections[cell.collection]] = None
    named = labels(on)
    return {named[row]: tuple(found) for row, found in on.items()}


def labels(rows: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """(group, system) of each row of one table -> its label: the system, with the group where that is of several rows.

    Examples
    --------
    >>> labels([("eng", "BM25"), ("spa", "BM25"), ("spa", "E5")])
    {('eng', 'BM25'): 'eng / BM25', ('spa', 'BM25'): 'spa / BM25', ('spa', 'E5'): 'E5'}
    """
    times = Counter(system for _, system in rows)
    return {(group, system): system if times[system] == 1 else f"{group} / {system}" for group, system in rows}


def _check_row(entry: Entry, where: str) -> None:
    given = [key for key in ("system", "state", "same_as") if getattr(entry, key)]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise HarnessError(f"{where}: expected one of the keys 'system', 'state' and 'same_as', found {found}")
    for key in ("set", "inputs", "trained"):
        if getattr(entry, key) not in (None, False) and given != ["system"]:
            raise HarnessError(f"{where}: key {key!r} needs the key 'system'")
    if given == ["state"]:
        checks.state(entry.state, where)
    if given != ["system"]:
        return
    mapping, _ = config.load("system", entry.system, where)
    for key in entry.set or ():
        _known(key, mapping, "parameter", f"{where}: set")
    if ("runs" in mapping) != (entry.inputs is not None):
        has = "fuses runs; name their rows in 'inputs'" if "runs" in mapping else "fuses no runs: it has no 'inputs'"
        raise HarnessError(f"{where}: system {entry.system!r} {has}")
    if entry.trained and "training_runs" not in mapping:
        raise HarnessError(f"{where}: system {entry.system!r} does not learn: it is not 'trained'")


def _row(key: tuple[str, str], entries: Entries, made: dict[tuple[str, str], Row]) -> Row:
    """The row of a key, made once."""
    if key not in made:
        made[key] = _made(key, entries, made)
    return made[key]


def _made(key: tuple[str, str], entries: Entries, made: dict[tuple[str, str], Row]) -> Row:
    entry, collections, where = entries[key]
    run = key
    if entry.same_as:
        run = _find(entry.same_as, entries, where)
        other = entries[run][0]
        if other.same_as:
            raise HarnessError(f"{where}: same_as: {entry.same_as!r} is itself the same as another row")
        entry = replace(other, note=entry.note or other.note)
    inputs = [_find(label, entries, where) for label in entry.inputs or ()]
    for source in inputs:
        if entries[source][0].inputs is not None or entries[source][0].same_as:
            raise HarnessError(f"{where}: inputs: {source[1]!r} is no row of a single system")
    if entry.inputs is not None and len(set(inputs)) < max(_LEAST, len(inputs)):
        raise HarnessError(f"{where}: inputs: expected two rows or more, each once")
    if entry.trained and len(collections) < _LEAST:
        raise HarnessError(f"{where}: trained: there is no other collection to learn from")
    return Row(
        *key,
        collections,
        system=entry.system,
        settings=tuple((entry.set or {}).items()),
        inputs=tuple(_row(source, entries, made) for source in inputs),
        trained=entry.trained,
        lack=checks.state(entry.state, where) if entry.state else None,
        note=entry.note,
        run=run,
    )


def _find(label: str, entries: Mapping[tuple[str, str], object], where: str) -> tuple[str, str]:
    """The row of a label, in whichever table it is."""
    found = [key for key in entries if label in (key[1], f"{key[0]}: {key[1]}")]
    if len(found) != 1:
        known = suggestion(label, {key[1] for key in entries}) if not found else "it is in several tables"
        raise HarnessError(f"{where}: there is no one row {label!r}; {known}")
    return found[0]

"""Rows of a paper's tables that can be run: the system and inputs of each row, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from harness.collections.corpora import load_corpus
from harness.errors import HarnessError, suggestion
from harness.io import checks, config
from harness.io.checks import Words
from harness.papers.cells import PublishedCell
from harness.papers.paper_settings import Here
from harness.systems import states

State = Literal["runs", "in part", "needs", "not implemented", "blocked"]
_LEAST = 2  # minimum number of inputs of a fusion


@dataclass(frozen=True)
class RowConfiguration:
    """Configuration of a row; see `parse`.

    Attributes
    ----------
    system, set : system that makes its run, and parameters that differ from the system's configuration.
    inputs : rows whose runs it fuses.
    trained : whether it learns from the judgments of another collection.
    state : why no system makes its run.
    same_as : row whose run it uses, as `ROW` or `TABLE: ROW`.
    note : remark on the row.
    """

    system: str = ""
    set: Mapping[str, Any] | None = None
    inputs: tuple[Words, ...] | None = None
    trained: bool = False
    state: Any = None
    same_as: str = ""
    note: str = ""


# (table, label) -> entry, collections with numbers in this row, and its path in the file for messages
Entries = dict[tuple[str, str], tuple[RowConfiguration, tuple[str, ...], str]]


@dataclass(frozen=True)
class Listed:
    """Key `available` of a paper's configuration; see `parse`.

    Attributes
    ----------
    corpus : our corpus that equals the paper's.
    collections : the paper's name -> our collection.
    tables : table -> row -> how its run is made.
    without_numbers : tables without published numbers.
    retrained : collection -> settings of training of the runs on it.
    """

    corpus: str
    collections: Mapping[str, Words]
    tables: Mapping[str, Mapping[str, RowConfiguration]]
    without_numbers: tuple[Words, ...] = ()
    retrained: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class SystemRow:
    """A row of a paper's table and the system that makes its run.

    Attributes
    ----------
    label : as printed in the paper; with its group if a table has the label twice.
    collections : our collections for which the paper prints numbers in this row, in the paper's order.
    system : name in `conf/system/`; empty for a row without a system (see `lack`).
    settings : parameters that differ from the system's configuration.
    inputs : rows whose runs it fuses.
    trained : whether it learns from the judgments of another collection.
    lack : (state, reason) of a row without a system, as in `config.state`.
    run : (table, label) of the row whose run it uses: itself, or the row in `same_as`.
    """

    table: str
    label: str
    collections: tuple[str, ...]
    system: str = ""
    settings: tuple[tuple[str, Any], ...] = ()
    inputs: tuple[SystemRow, ...] = ()
    trained: bool = False
    lack: tuple[checks.Lack, str] | None = None
    note: str = ""
    run: tuple[str, str] = ("", "")

    @property
    def short(self) -> str:
        """Label up to its colon, as used in running text."""
        return self.label.partition(":")[0]

    def registered(self) -> tuple[checks.Lack, str] | None:
        """Returns (state, reason) if no code makes its run, which must then come from elsewhere; else None."""
        return self.lack or states.registered(self._parts, f"system {self.system}")

    def elsewhere(self) -> tuple[SystemRow, ...]:
        """Returns the inputs whose runs must come from elsewhere."""
        return tuple(row for row in self.inputs if row.registered() is not None)

    def state(self) -> State:
        """Returns the state; `in part` is a fusion that runs but needs some inputs from elsewhere."""
        registration = self.registered()
        if registration is not None:
            return registration[0]
        if self.elsewhere():
            return "in part"
        return "needs" if self.why() else "runs"

    def why(self, corpus: str = "") -> str:
        """Returns why it cannot run: no code exists, or a resource is missing; empty if it can.

        Parameters
        ----------
        corpus : name of a missing corpus; empty if the corpus is available.
        """
        registration = self.registered()
        if registration is not None:
            return "; ".join(part for part in (registration[1], states.resources([], corpus)) if part)
        made = [part for row in (self, *self.inputs) if row.registered() is None for part in row._parts]
        runs = ", ".join(row.short for row in self.elsewhere())
        lacking = (
            states.missing_modules(made),
            states.resources(states.missing_models(made), corpus, states.by_hand(made)),
            "; ".join(states.missing_answers(made)),
            "; ".join(filter(None, map(states.missing_collection, self.collections))),
            f"the runs of {runs}" if runs else "",
        )
        return "; ".join(part for part in lacking if part)

    def apart(self, collection: str) -> bool:
        """Returns whether a fusion on `collection` needs this row's run as a file instead of by its system's name.

        A fine-tuned model runs only on the collections that its configuration excludes from training.
        """
        return bool(self.registered() or self.settings) or self.learns_from(collection)

    def learns_from(self, collection: str) -> bool:
        """Returns whether a model of its system is fine-tuned without leaving out the judgments of a collection."""
        tunings = (part.get("training") for part in self._parts) if self.system else ()
        return any(collection not in (how.get("leave_out") or ()) for how in tunings if isinstance(how, Mapping))

    def tuned(self) -> bool:
        """Returns whether its own model is fine-tuned."""
        return isinstance(self.configuration.get("training"), Mapping)

    @property
    def run_name(self) -> str:
        """Name that its system gives to the run."""
        return str(dict(self.settings).get("name") or self.configuration.get("name", self.system))

    @property
    def configuration(self) -> Mapping[str, Any]:
        """Configuration of its system."""
        return self._parts[0]

    @cached_property
    def _parts(self) -> Sequence[Mapping[str, Any]]:
        """Configurations of its system and of that system's parts."""
        return tuple(states.nested_configurations({**config.load("system", self.system)[0], **dict(self.settings)}))


@dataclass(frozen=True)
class Available:
    """Rows of a paper's tables that can be run.

    Attributes
    ----------
    corpus : corpus used by the paper.
    here : what replaces it at the scale `here`; None if nothing does.
    retrained : collection that the systems' configurations learn from -> settings of fine-tuning that leave it out.
    """

    corpus: str
    here: Here | None
    rows: tuple[SystemRow, ...]
    retrained: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def lack(self, cell: PublishedCell) -> tuple[checks.Lack, str] | None:
        """Returns (state, reason) why the run of a printed number is missing; None without a row that says it."""
        labels = (cell.system, f"{cell.group} / {cell.system}")
        return next(
            (self._lacking[cell.table, label] for label in labels if (cell.table, label) in self._lacking), None
        )

    @cached_property
    def _lacking(self) -> Mapping[tuple[str, str], tuple[checks.Lack, str]]:
        """(table, label) -> why the run of a row is missing: no code makes it, or a command that lacks a resource."""
        known = {(row.table, row.label): row.lack for row in self.rows if row.lack is not None}
        made = [row for row in self.rows if not row.registered()]
        return known | {
            (row.table, row.label): ("needs", self.why(row) or "a run; the command of its row makes it") for row in made
        }

    def why(self, row: SystemRow) -> str:
        """Returns why a row cannot run on the full collection; empty if it can."""
        return row.why("" if load_corpus(self.corpus).state() == "here" else self.corpus)

    def full(self, row: SystemRow, collection: str = "") -> str:
        """Returns the command that makes a row's run on the full collection; empty if no code makes it.

        Runs that must come from elsewhere appear as file names in capitals.

        Parameters
        ----------
        collection : one of `collections`; by default the last one of the row.
        """
        if row.registered():
            return ""
        retrained = self.retrained.get(collection or row.collections[-1], {})
        return _command(row, self.corpus, row.inputs, retrained, None, collection)

    def collections(self, row: SystemRow) -> tuple[str, ...]:
        """Returns the collections for which commands make the row's run.

        A model that learns from a collection must be `retrained` without it; a fusion that is trained needs another
        collection.
        """
        parts = (row, *row.inputs)
        return tuple(
            each
            for each in row.collections
            if (each in self.retrained or not any(part.learns_from(each) for part in parts))
            and (not row.trained or taught_by(row.collections, each))
        )

    def small(self, row: SystemRow, collection: str = "") -> str:
        """Returns the command at the scale `here`, with the inputs that our code makes; empty if these are too few."""
        inputs = tuple(item for item in row.inputs if item not in row.elsewhere())
        if self.here is None or row.registered() or (row.inputs and len(inputs) < _LEAST):
            return ""
        retrained = self.retrained.get(collection or row.collections[-1], {})
        return _command(row, self.here.corpus, inputs, retrained, self.here, collection)


def taught_by(collections: Sequence[str], collection: str) -> str:
    """Returns the collection that a trained fusion learns from: the one before, of the first one the next; else empty.

    >>> taught_by(["2020", "2021", "2022"], "2022"), taught_by(["2020", "2021"], "2020"), taught_by(["2020"], "2020")
    ('2021', '2021', '')
    """
    at = collections.index(collection)
    return collections[at - 1] if at else "".join(collections[1:2])


def _command(
    row: SystemRow,
    corpus: str,
    inputs: Sequence[SystemRow],
    retrained: Mapping[str, Any],
    here: Here | None,
    collection: str,
) -> str:
    """Formats a row's command; inputs of a fusion are names of systems, or files (see `SystemRow.apart`)."""
    collection = collection or row.collections[-1]
    training = {} if here is None else here.training
    ours = here.collection if here is not None else str
    words = [f"collection={ours(collection)}", f"corpus={corpus}", f"system={row.system}"]
    for key, value in row.settings:
        words.append(f"system.{key}={str(value).lower() if isinstance(value, bool) else value}")
    words += () if here is None else here.systems.get(row.system, ())
    if row.tuned():
        words += [f"system.training.{key}={value}" for key, value in training.items()]
    if row.learns_from(collection):
        words += _retrained(row.configuration, retrained)
    if inputs:
        apart = [
            item.apart(collection)
            or (here is not None and (item.system in here.systems or bool(training and item.tuned())))
            for item in inputs
        ]
        runs = [_file(item, ours(collection)) if by else item.system for item, by in zip(inputs, apart, strict=True)]
        words.append(f"system.runs=[{','.join(runs)}]")
    if row.trained:
        teacher = taught_by(row.collections, collection)
        words.append(f"training=[{ours(teacher)}]")
        words.append(f"system.training_runs=[{','.join(_file(item, ours(teacher)) for item in inputs)}]")
    return states.run_command(words)


def _retrained(configuration: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Returns overrides of a system's fine-tuning and of its first stage's, each for the settings that it has.

    Examples
    --------
    >>> _retrained({"training": {"collections": ["a", "b"]}}, {"collections": ["b"], "validate_on": []})
    ['system.training.collections=[b]']
    """
    first = configuration.get("first")
    tunings = {"training": configuration.get("training")}
    tunings |= {"first.training": first.get("training")} if isinstance(first, Mapping) else {}
    return [
        f"system.{key}.{name}=[{','.join(value)}]"
        for key, tuning in tunings.items()
        for name, value in settings.items()
        if isinstance(tuning, Mapping) and name in tuning
    ]


def _file(row: SystemRow, collection: str) -> str:
    """Returns the file of a row's run; in capitals if it must come from elsewhere."""
    if row.registered():
        return f"{collection}/{row.short.replace(' ', '-').upper()}.run"
    return f"runs/{collection}/{row.run_name}.run"


def parse(listed: Listed, cells: Sequence[PublishedCell], where: str, here: Here | None = None) -> Available:
    """Parses a paper's key `available`, given the paper's cells.

    Every row of a listed table needs an entry: `system` (with `set`, `inputs`, `trained`), or `state`, or `same_as`
    another row (`TABLE: ROW` if several tables have it). `without_numbers` names tables without numbers.

    Raises
    ------
    HarnessError
        A row has no entry, an entry has no row, a key is unknown, or a named configuration does not exist.
    """
    _check_known(listed.corpus, config.names("corpus"), "corpus", where)
    for collection in listed.collections.values():
        _check_known(collection, config.names("collection"), "collection", where)
    entries: Entries = {}
    for table, rows in listed.tables.items():
        place = f"{where}: tables: {table}"
        printed = _printed(table, cells, listed.collections, place)
        without = table in listed.without_numbers
        if without and printed:
            raise HarnessError(f"{place}: the table has cells, but 'without_numbers' names it")
        if not without and not printed:
            raise HarnessError(f"{place}: the table has no cells; add it to 'without_numbers'")
        for label, entry in rows.items():
            if printed:
                _check_known(label, printed, "row", place)
            _check_row(entry, f"{place}: {label}")
            entries[table, label] = (entry, printed.get(label, tuple(listed.collections.values())), f"{place}: {label}")
        for label in printed:
            if (table, label) not in entries:
                raise HarnessError(f"{place}: row {label!r} is missing; add it with a 'system' or a 'state'")
    system_rows = tuple(_row(key, entries) for key in entries)
    for collection in listed.retrained:
        _check_known(collection, dict.fromkeys(listed.collections.values()), "collection", f"{where}: retrained")
    return Available(listed.corpus, here, system_rows, listed.retrained)


def _check_known(name: object, known: Mapping[str, object], kind: str, where: str) -> None:
    if name not in known:
        raise HarnessError(f"{where}: {kind} {name!r} is unknown; {suggestion(str(name), known)}")


def _printed(
    table: str, cells: Sequence[PublishedCell], collections: Mapping[str, str], where: str
) -> dict[str, tuple[str, ...]]:
    """Returns label -> collections with numbers, for the rows of a table."""
    on: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        if cell.table == table:
            _check_known(cell.collection, collections, "collection", where)
            on.setdefault((cell.group, cell.system), {})[collections[cell.collection]] = None
    named = labels(on)
    return {named[row]: tuple(columns) for row, columns in on.items()}


def labels(rows: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Returns (group, system) -> label for the rows of a table: the system, with the group if it is ambiguous.

    Examples
    --------
    >>> labels([("eng", "BM25"), ("spa", "BM25"), ("spa", "E5")])
    {('eng', 'BM25'): 'eng / BM25', ('spa', 'BM25'): 'spa / BM25', ('spa', 'E5'): 'E5'}
    """
    times = Counter(system for _, system in rows)
    return {(group, system): system if times[system] == 1 else f"{group} / {system}" for group, system in rows}


def _check_row(entry: RowConfiguration, where: str) -> None:
    given = [key for key in ("system", "state", "same_as") if getattr(entry, key)]
    if len(given) != 1:
        given_keys = " and ".join(given) or "none of them"
        raise HarnessError(f"{where}: expected one of the keys 'system', 'state' and 'same_as', found {given_keys}")
    for key in ("set", "inputs", "trained"):
        if getattr(entry, key) not in (None, False) and given != ["system"]:
            raise HarnessError(f"{where}: key {key!r} needs the key 'system'")
    if given == ["state"]:
        checks.state(entry.state, where)
    if given != ["system"]:
        return
    mapping, _ = config.load("system", entry.system, where)
    for key in entry.set or ():
        _check_known(key, mapping, "parameter", f"{where}: set")
    if ("runs" in mapping) != (entry.inputs is not None):
        has = "fuses runs; name their rows in 'inputs'" if "runs" in mapping else "fuses no runs; remove 'inputs'"
        raise HarnessError(f"{where}: system {entry.system!r} {has}")
    if entry.trained and "training_runs" not in mapping:
        raise HarnessError(f"{where}: system {entry.system!r} does not learn; remove 'trained'")


def _row(key: tuple[str, str], entries: Entries) -> SystemRow:
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
            raise HarnessError(f"{where}: inputs: {source[1]!r} is not a row of a single system")
    if entry.inputs is not None and len(set(inputs)) < max(_LEAST, len(inputs)):
        raise HarnessError(f"{where}: inputs: expected at least two different rows")
    if entry.trained and len(collections) < _LEAST:
        raise HarnessError(f"{where}: trained: the row has no other collection to learn from")
    return SystemRow(
        *key,
        collections,
        system=entry.system,
        settings=tuple((entry.set or {}).items()),
        inputs=tuple(_row(source, entries) for source in inputs),
        trained=entry.trained,
        lack=checks.state(entry.state, where) if entry.state else None,
        note=entry.note,
        run=run,
    )


def _find(label: str, entries: Mapping[tuple[str, str], object], where: str) -> tuple[str, str]:
    """Finds the row of a label in any table."""
    matching = [key for key in entries if label in (key[1], f"{key[0]}: {key[1]}")]
    if len(matching) != 1:
        known = suggestion(label, {key[1] for key in entries}) if not matching else "it is in several tables"
        raise HarnessError(f"{where}: row {label!r} is unknown or ambiguous; {known}")
    return matching[0]

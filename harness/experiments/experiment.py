"""Experiments: the files of `conf/experiment/`, checked, and their cells. This module makes no runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations, product
from math import isfinite, prod
from typing import Annotated, Any, Literal

from harness.errors import HarnessError, counted_text, gather, refuse, suggestion
from harness.experiments.overrides import (
    Condition,
    ExperimentScale,
    Only,
    Overrides,
    Seeds,
    checked_override,
    has,
    hides,
    override_key,
    unclear,
)
from harness.io import config
from harness.io.checks import Words, check_whole_number, typed
from harness.scoring.measures import parse_measures, without_diagnostics

SEED = "seed"  # in `only`, beside the coordinates
CONDITION = "condition"  # the first coordinate of a cell; the others are the axes
FULL = "full"  # the scale of the file as written
ALL = "all"  # value of `pages`: all topics
NUMERIC = "numeric"  # in an axis: its labels are numbers
SCALE = re.compile(r"[a-z][a-z0-9-]*")  # a part of names of runs and folders
JUDGES = ("collection", "edition", "protocol")  # decide scores, so neither tuned nor a seed
_MOST = 10_000  # limit on cells without seeds; our experiments have about a hundred
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?$")
Labels = tuple[str, ...]
Cost = Literal[
    "pairs", "epoch", "training", "parameters", "memory", "gpu_memory", "index", "vectors", "latency", "rate"
]


@dataclass(frozen=True)
class ExperimentCell:
    """One run of an experiment.

    Attributes
    ----------
    labels : of the condition and of each axis, in the order of `Experiment.coordinates`.
    overrides : the words of `harness run`, all of them; no key is there twice.
    point : of a condition that is tuned, the values that are tried, in words; else empty.
    """

    labels: Labels
    seed: str | None
    overrides: tuple[str, ...]
    point: str = ""


@dataclass(frozen=True)
class Experiment:
    """Conditions, each crossed with all axes, scored by the same measures, tested against a baseline.

    Attributes
    ----------
    title : of the report.
    conditions : label -> condition; each is crossed with all axes.
    measures : measures that are shown.
    shared : overrides of every cell; those of axes and conditions come after them.
    axes : axis -> label -> overrides.
    pool : the axis whose labels are sets of topics; they are shown side by side, and over all topics together.
    seeds : the key that takes the seed, and its values.
    tested : measures that are tested; default: all but diagnostic ones such as Judged@k.
    baseline : the coordinates of a cell that are replaced to get the cell that it is tested against; none: no tests.
    family : how many tests the whole experiment makes, for which all are corrected however little of it is run; said
        here, it is checked.
    breakdown : attributes of topics by which means are broken down.
    sections : further sections of the report: `seeds` (components of variance), `collections` (agreement of the sets of
        topics), or functions of `ExperimentResults`, as MODULE.FUNCTION.
    numeric : axes whose labels are numbers; means are drawn over them. In a file: `numeric: true` among the labels.
    costs : columns of the table of costs.
    scale : what other scales than `full` change; `full` itself may say what it needs.
    curves : draw the losses of trainings.
    pages : topics that have a page each, by id, or `all`.
    tune_on : what chooses the settings of conditions that are tuned: the other sets of topics, or within each set the
        other half of it; the halves are the topics with odd and with even numbers.

    Raises
    ------
    HarnessError
        All that contradicts itself, a line each.

    Examples
    --------
    >>> k1 = {"low": ("system.k1=0.6",), "high": ("system.k1=1.8",)}
    >>> found = Experiment("k1", {"bm25": Condition(("system=bm25",))}, ("nDCG", "AP"), axes={"k1": k1},
    ...                    baseline={"k1": "low"})
    >>> found.cells()[1]
    ExperimentCell(labels=('bm25', 'high'), seed=None, overrides=('system.k1=1.8', 'system=bm25'), point='')
    >>> found.baseline_of(("bm25", "high")), found.tests
    (('bm25', 'low'), 2)
    """

    title: str
    conditions: Mapping[str, Condition]
    measures: tuple[Words, ...]
    shared: Overrides = ()
    axes: Mapping[str, Mapping[str, Overrides]] = field(default_factory=dict)
    pool: Words | None = None
    seeds: Seeds | None = None
    tested: tuple[Words, ...] | None = None
    baseline: Mapping[str, Words] | None = None
    family: Annotated[int, partial(check_whole_number, low=1)] | None = None
    breakdown: tuple[Words, ...] = ()
    sections: tuple[Words, ...] = ()
    numeric: tuple[Words, ...] = ()
    costs: tuple[Cost, ...] = ()
    scale: Mapping[str, ExperimentScale] = field(default_factory=dict)
    curves: bool = False
    pages: tuple[Words, ...] = ()
    tune_on: Literal["sets", "halves"] = "sets"

    def __post_init__(self) -> None:
        faults: list[str] = []
        with gather(faults):
            for key in ("measures", "tested"):  # in the spelling of scores
                if given := getattr(self, key):
                    object.__setattr__(self, key, tuple(map(str, parse_measures(given))))
        faults += [] if self.measures else ["key 'measures' names no measure"]
        if more := self._too_many():
            raise HarnessError(*faults, *more)  # the rest counts them one by one
        if CONDITION in self.axes:
            faults.append(f"key 'axes': no axis can be called {CONDITION!r}; the conditions are one already")
        if self.pool is not None and self.pool not in self.axes:
            faults.append(f"key 'pool': no axis is called {self.pool!r}; {suggestion(self.pool, self.axes)}")
        for name, condition in self.conditions.items():
            faults += self._unknown_labels(condition.only, f"key 'conditions': {name}: only", self.axes)
        if self.seeds is not None:
            faults += self._unknown_labels(self.seeds.only, "key 'seeds': only", self.coordinates)
            with gather(faults):
                for value in (*self.seeds.values, *(value for each in self.scale.values() for value in each.seeds)):
                    checked_override("seeds", f"{self.seeds.key}={value}")
            if self.seeds.key in JUDGES:
                said = "says what runs are scored by; make its values labels of an axis"
                faults.append(f"key 'seeds': {self.seeds.key!r} {said}")
            if not self.seeds.values or len(set(self.seeds.values)) < len(self.seeds.values):
                faults.append("key 'seeds': 'values' is empty or has a value twice")
            if self.seeds.best == "others" and self.pool is None:
                faults.append("key 'seeds': best: others: there is no 'pool', which has the other sets of topics")
        faults += [
            *self._twice(),
            *self._scale_faults(),
            *self._tuning_faults(),
            *self._axis_faults(),
            *self._name_faults(),
        ]
        for measure in self.tested or ():
            if measure not in self.measures:
                faults.append(f"key 'tested': {measure!r} is not measured; {suggestion(measure, self.measures)}")
        refuse(faults)  # the rest stands on these
        refuse(self._test_faults())

    def _too_many(self) -> list[str]:
        """Returns a fault if the experiment has too many cells."""
        cells = 0
        for condition in self.conditions.values():
            chosen = [len((condition.only or {}).get(axis, of)) for axis, of in self.axes.items()]
            cells += prod((*chosen, *map(len, (condition.tune or {}).values())))
        return [f"has {cells:,} cells, all labels crossed; at most {_MOST:,} can be run"] if cells > _MOST else []

    def _unknown_labels(self, only: Only | None, where: str, known: Iterable[str]) -> list[str]:
        """Returns faults of labels by coordinate."""
        faults, names = [], tuple(known)
        for coordinate, labels in (only or {}).items():
            if coordinate not in names:
                faults.append(f"{where}: no axis is called {coordinate!r}; {suggestion(coordinate, names)}")
                continue
            there = self.labels(coordinate)
            strange = [label for label in labels if label not in there]
            faults += [f"{where}: {coordinate} has no {label!r}; {suggestion(label, there)}" for label in strange]
            faults += [] if labels else [f"{where}: {coordinate} has no label left"]
        return faults

    def _twice(self) -> list[str]:
        """Returns faults of keys that two parts of one cell set, of which one would have no effect."""
        lists: dict[str, dict[str, Overrides]] = {f"axis {axis!r}": dict(of) for axis, of in self.axes.items()}
        tuned = {name: tuple(f"{key}=" for key in each.tune or ()) for name, each in self.conditions.items()}
        lists["a condition"] = {name: (*each.overrides, *tuned[name]) for name, each in self.conditions.items()}
        faults, sets = [], {}
        for part, of in {**lists, "the shared overrides": {"": self.shared}}.items():
            sets[part] = {override_key(word) for overrides in of.values() for word in overrides}
            for label, overrides in of.items():
                keys = [override_key(word) for word in overrides]
                which = f"{part}{f', {label!r}' if label else ''}"
                faults += [f"key {key!r} is set twice by {which}" for key in dict.fromkeys(keys) if keys.count(key) > 1]
        for one, two in combinations(lists, 2):
            faults += [f"key {key!r} is set by {one} and by {two}" for key in sorted(sets[one] & sets[two])]
        faults += self._replaced_keys()
        for name, scale in self.scale.items():
            changed = [override_key(word) for word in scale.changes]
            faults += [f"key {key!r} is set by scale {name!r} and by {part}" for part in lists for key in changed
                       if key in sets[part]]  # fmt: skip
        if self.seeds is not None:
            faults += [
                f"key {self.seeds.key!r} is set by the seeds and by {part}"
                for part in sets
                if self.seeds.key in sets[part]
            ]
        return faults

    def _replaced_keys(self) -> list[str]:
        """Returns faults of keys that an axis sets inside of one that a later part of the same cell replaces."""
        faults = []
        for condition in self.conditions.values():
            only = condition.only or {}
            for at, (axis, of) in enumerate(self.axes.items()):
                inner = {override_key(word) for word in _labelled(of, only.get(axis))}
                outer = [("a condition", word) for word in condition.overrides]
                for other in list(self.axes)[at + 1 :]:
                    outer += [(f"axis {other!r}", word) for word in _labelled(self.axes[other], only.get(other))]
                for key, (part, word) in product(sorted(inner), outer):
                    if hides(word, key):
                        faults.append(
                            f"key {key!r} is set by axis {axis!r}, and {override_key(word)!r} above it by {part}"
                        )
        return list(dict.fromkeys(faults))

    def _scale_faults(self) -> list[str]:
        """Returns faults of scales."""
        faults = []
        for name, scale in self.scale.items():
            where = f"key 'scale': {name}"
            if not SCALE.fullmatch(name):
                faults.append(f"{where}: expected a name of small letters, digits and '-', such as here")
            if name == FULL and (scale.changes or scale.seeds):
                faults.append(f"{where} is the unchanged experiment, and cannot change it")
            if name != FULL and not (scale.says and (scale.changes or scale.seeds)):
                faults.append(f"{where}: 'says' in words what 'changes' or 'seeds' change; give both")
            if scale.seeds and (self.seeds is None or len(set(scale.seeds)) < len(scale.seeds)):
                faults.append(f"{where}: 'seeds' has a value twice, or the experiment has no seeds")
        return faults

    def _tuning_faults(self) -> list[str]:
        """Returns faults of tuned conditions."""
        faults = []
        for name, condition in self.conditions.items():
            if condition.tune is None:
                continue
            where = f"key 'conditions': {name}: tune"
            sets = (
                () if self.pool is None else (condition.only or {}).get(self.pool, tuple(self.axes.get(self.pool, ())))
            )
            if len(sets) < 2 and self.tune_on == "sets":
                said = "name an axis of several in 'pool', or say 'tune_on: halves'"
                faults.append(f"{where} chooses on the other sets of topics; {said}")
            with gather(faults):
                for word in (word for point in condition.points() for word in point or ()):
                    checked_override("conditions", word)
            said = "says what runs are scored by, and cannot be chosen by their scores"
            faults += [f"{where}: {key!r} {said}" for key in condition.tune if key in JUDGES]
            if not all(values and len(set(values)) == len(values) for values in condition.tune.values()):
                faults.append(f"{where}: a key has no value, or one twice")
            if self.seeds is not None and name in (self.seeds.only or {}).get(CONDITION, self.conditions):
                faults.append(f"{where}: a condition that is tuned has no seeds; name the others in 'only' of 'seeds'")
        return faults

    def _axis_faults(self) -> list[str]:
        """Returns faults of numeric axes."""
        wrong = [axis for axis in self.numeric if axis not in self.axes or axis == self.pool]
        faults = [f"key 'numeric': {axis!r} is not an axis, or is that of the sets of topics" for axis in wrong]
        labels = [
            (axis, label)
            for axis in self.numeric
            for label in self.axes.get(axis, {})
            if not (_NUMBER.match(label) and isfinite(float(label)))
        ]
        said = "is not a number; take out 'numeric'"
        faults += [f"key 'axes': {axis}: the label {label!r} {said}" for axis, label in labels]
        for axis in () if faults else self.numeric:
            distinct = {float(label) for label in self.axes[axis]}
            faults += [f"key 'axes': {axis}: two labels are one number"] if len(distinct) < len(self.axes[axis]) else []
        return faults

    def _name_faults(self) -> list[str]:
        """Returns faults of names: labels with control characters, and names that a list has twice."""
        faults = [] if self.title.strip() else ["key 'title' is empty; it heads the report"]
        for axis in self.coordinates:
            faulty = [label for label in self.labels(axis) if not label.strip() or not label.isprintable()]
            where = f"key 'axes': {axis}" if axis in self.axes else "key 'conditions'"
            faults += [f"{where}: the label {label!r} is empty or more than one line" for label in faulty]
        for key in ("tested", "breakdown", "sections", "costs", "pages"):
            names = getattr(self, key) or ()
            faults += [
                f"key {key!r}: {name!r} is named twice" for name in dict.fromkeys(names) if names.count(name) > 1
            ]
        return faults

    def _test_faults(self) -> list[str]:
        """Returns faults of the baseline and the family of tests."""
        if self.baseline is None:
            return [f"key {key!r} has no use without a baseline" for key in ("tested", "family") if getattr(self, key)]
        faults = self._unknown_labels(
            {name: (label,) for name, label in self.baseline.items()}, "key 'baseline'", self.coordinates
        )
        if self.pool in self.baseline:
            faults.append(
                f"key 'baseline': {self.pool!r} is the axis of the sets of topics; tests compare like with like"
            )
        if faults:
            return faults
        there = {cell.labels for cell in self.cells()}
        for labels in dict.fromkeys(cell.labels for cell in self.cells()):
            if (wanted := self.baseline_of(labels)) not in there:
                said = "which the experiment does not have; see 'only'"
                faults.append(
                    f"key 'baseline': {labels_text(labels)} would be tested against {labels_text(wanted)}, {said}"
                )
        if not faults and not self.tests:
            faults.append("key 'baseline': there is nothing to test against it")
        if not faults and self.family is not None and self.family != self.tests:
            faults.append(f"key 'family' is {self.family}, and the experiment makes {counted_text(self.tests, 'test')}")
        return faults

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The coordinates of a cell: the condition, then each axis."""
        return (CONDITION, *self.axes)

    def labels(self, coordinate: str) -> Labels:
        """Returns the labels of a coordinate."""
        return tuple(self.conditions if coordinate == CONDITION else self.axes[coordinate])

    @property
    def of_tests(self) -> tuple[str, ...]:
        """The measures that are tested."""
        return tuple(self.tested or without_diagnostics(self.measures)) if self.baseline else ()

    def cells(self, extra: Sequence[str] = (), scale: str = FULL) -> tuple[ExperimentCell, ...]:
        """Returns all cells, in the order of the file.

        Parameters
        ----------
        extra : overrides of all of them that win over shared ones.
        scale : whose changes win over all others.

        Raises
        ------
        HarnessError
            There is no such scale, or no cell has the key that it changes.
        """
        changes = self.scale_of(scale).changes
        all_cells, made = [], set()
        for name, condition in self.conditions.items():
            only = condition.only or {}
            chosen = [[label for label in self.axes[axis] if label in only.get(axis, (label,))] for axis in self.axes]
            for labels in product([name], *chosen):
                parts = [self.axes[axis][label] for axis, label in zip(self.axes, labels[1:], strict=True)]
                given = [*self.shared, *extra, *(o for part in parts for o in part), *condition.overrides]
                for seed, point in product(self._seeds(labels, scale), condition.points()):
                    words = [*given, f"{self.seeds.key}={seed}"] if self.seeds is not None and seed else given
                    last = {override_key(word): word for word in (*words, *(point or ()))}  # in the place of the first
                    changed = [word for word in changes if has(last, word)]
                    made |= {*changed}
                    last |= {override_key(word): word for word in changed}
                    said = ", ".join(word.removeprefix("system.") for word in point or ())
                    all_cells.append(ExperimentCell(labels, seed, tuple(last.values()), said))
        refuse([f"key 'scale': {scale}: {word}: no system has this key" for word in changes if word not in made])
        return tuple(all_cells)

    def scale_of(self, name: str) -> ExperimentScale:
        """Returns a scale by its name; raises HarnessError if there is none."""
        known = (FULL, *(scale for scale in self.scale if scale != FULL))
        if name not in known:
            raise HarnessError(f"run: key 'scale': the experiment has no scale {name!r}; {suggestion(name, known)}")
        return self.scale.get(name, ExperimentScale())

    def _seeds(self, labels: Labels, scale: str) -> tuple[str | None, ...]:
        if self.seeds is None or not self._within(labels, self.seeds.only or {}):
            return (None,)
        return self.scale_of(scale).seeds or self.seeds.values

    def _within(self, labels: Labels, only: Only) -> bool:
        at = dict(zip(self.coordinates, labels, strict=True))
        return all(at[name] in known for name, known in only.items())

    def restricted(self, cells: Iterable[ExperimentCell], only: Only | None) -> tuple[ExperimentCell, ...]:
        """Returns the cells with these labels, and those of their baselines; `seed` names those of cells with a seed.

        Raises
        ------
        HarnessError
            There is no such axis, label or seed, or no cell has them all.
        """
        cells, only = tuple(cells), dict(only or {})
        known = () if SEED in self.axes else tuple(dict.fromkeys(cell.seed for cell in cells if cell.seed is not None))
        seeds = only.pop(SEED, ()) if known else ()
        strange = [f"run: key 'only': no seed is {each}; {suggestion(each, known)}" for each in {*seeds} - {*known}]
        refuse(self._unknown_labels(only, "run: key 'only'", self.coordinates) + strange)
        cells = tuple(cell for cell in cells if not seeds or cell.seed in (None, *seeds))
        wanted = {cell.labels for cell in cells if self._within(cell.labels, only)}
        if not wanted:
            raise HarnessError("run: key 'only': no cell of the experiment has all of these labels")
        wanted |= {self.baseline_of(labels) for labels in wanted} if self.baseline else set()
        return tuple(cell for cell in cells if cell.labels in wanted)

    def row(self, labels: Labels) -> Labels:
        """Returns the labels without that of the set of topics."""
        return tuple(label for name, label in zip(self.coordinates, labels, strict=True) if name != self.pool)

    def part(self, labels: Labels) -> str:
        """Returns the label of the set of topics; empty if there is only one set."""
        return labels[self.coordinates.index(self.pool)] if self.pool is not None else ""

    def baseline_of(self, labels: Labels) -> Labels:
        """Returns the labels of the baseline of a cell; of the baseline itself, its own."""
        at = dict(zip(self.coordinates, labels, strict=True)) | dict(self.baseline or {})
        return tuple(at[name] for name in self.coordinates)

    @cached_property
    def tests(self) -> int:
        """Returns the size of the family: rows x tested measures x sets of topics, all topics among them.

        A row is one of the all-together ones if it has every set.
        """
        sets: dict[Labels, int] = {}
        for labels in dict.fromkeys(cell.labels for cell in self.cells()):
            if self.baseline is not None and self.baseline_of(labels) != labels:
                sets[self.row(labels)] = sets.get(self.row(labels), 0) + 1
        whole_ = len(self.axes[self.pool]) if self.pool is not None else 0
        return len(self.of_tests) * sum(n + (n == whole_ > 1) for n in sets.values())


def _labelled(labels: Mapping[str, Overrides], only: Sequence[str] | None) -> list[str]:
    """Returns the overrides of some labels; of all without `only`."""
    return [word for label, overrides in labels.items() if only is None or label in only for word in overrides]


def labels_text(labels: Iterable[str]) -> str:
    """Returns labels in one line."""
    return ", ".join(labels)


def load_experiment(name: str) -> Experiment:
    """Reads an experiment by the name of its file.

    Raises
    ------
    HarnessError
        There is no such file, or it has faults: all of them, a line each.
    """
    mapping, where = config.load("experiment", name)
    lifted = _lifted(mapping)
    axes = lifted.get("axes")
    labels = {f"axes: {axis}": of for axis, of in axes.items()} if isinstance(axes, Mapping) else {}
    labels |= {key: lifted.get(key) for key in ("conditions", "axes")}
    refuse([f"{where}: {line}" for key, of in labels.items() for line in unclear(key, of)])
    return typed(Experiment, lifted, where)


def _lifted(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the keys of a file, with the axes that say `numeric: true` under the key `numeric`."""
    axes = mapping.get("axes")
    if not isinstance(axes, Mapping):
        return mapping
    marked = [axis for axis, of in axes.items() if isinstance(of, Mapping) and of.get(NUMERIC) is True]
    plain = {
        axis: {label: words for label, words in of.items() if label != NUMERIC} if axis in marked else of
        for axis, of in axes.items()
    }
    return {**mapping, "axes": plain, "numeric": marked} if marked else mapping

"""The tables "paper says, code says": what they say of our configurations and code is there.

A cell of `ours` in `conf/paper/settings/PAPER.csv` names what it says in one of these forms, in any words:

- `` `msm-bm25`: `k1` = `1.5`, `view.stem` = `porter` ``: values of a configuration, as YAML; of another group than
  system with its name (`protocol/saber`). A part of a key that has dots or blanks stands in double quotes. A key that
  the YAML does not list has the default of its class.
- `` `harness.systems.dense.texts.VIEWS` ``: a module, class, function or constant; with `` = `VALUE` `` its value.
- `none: WHY`: the harness has nothing for it.

A cell of `same` is no, unknown or chosen with a reason, or yes with what compares it: names of tests (`FILE::TEST`);
`value`, where `settings_values.yaml` has the value that the paper or the authors' file states; or `read, not compared`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from case_tables import literals

from harness.errors import FormatError, HarnessError
from harness.experiments.experiment import load_experiment
from harness.io import config
from harness.papers.paper import load_paper, paper_names
from harness.papers.records import ComparedSetting, read_settings, settings_in_words
from harness.systems.dense.training.settings import Tuning
from harness.systems.lexical.text import view
from harness.systems.mathamr.encoder.settings import Schedule

PAGE = Path(__file__).parents[3] / "docs/settings.md"
TEST = r"`(\w+)::(\w+)`"
EVIDENCE = rf"(?:value|{TEST})(?:, {TEST})*"
SAME = re.compile(rf"(?:yes: (?P<how>read, not compared|{EVIDENCE})(?:; \S.*)?|(?:no|unknown|chosen): \S.*)$")
VALUES = yaml.safe_load((Path(__file__).parent / "settings_values.yaml").read_text(encoding="utf-8"))
TESTS = {path.stem: path for path in Path(__file__).parents[2].rglob("test_*.py")}
PAIR = r"`[^`]+` = `[^`]+`"
SETTINGS = re.compile(rf"`([\w./+-]+)`: ({PAIR}(?:, {PAIR})*)")
CODE = re.compile(r"`(harness(?:\.\w+)+)`(?: = `([^`]+)`)?")
STEP = re.compile(r'"([^"]+)"|([^."]+)')
# What reads the keys below a key of a system's class, where the YAML does not say its name.
READ_BY: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("harness.systems.dense", "training"): Tuning,
    ("harness.systems.mathamr", "training"): Schedule,
    ("harness.systems.lexical", "view"): view,
}
MISSING = object()


def default(reader: object, key: str) -> object:
    """The default of a class's parameter."""
    try:
        found = inspect.signature(reader).parameters[key].default  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError):
        return MISSING
    if type(found).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
        return reader.__dataclass_fields__[key].default_factory()  # type: ignore[attr-defined]
    return MISSING if found is inspect.Parameter.empty else found


def named(path: str) -> object:
    """A module, or what a module or class holds."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name, MISSING)
        return found
    return MISSING


def configured(name: str, key: str) -> object:
    """The value of a key of a configuration, or the default where its YAML does not list it."""
    group, _, own = name.rpartition("/")
    value: object = config.load(group or "system", own)[0]
    reader: object = None
    for quoted, plain in STEP.findall(key):
        step = quoted or plain
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = value[int(step)] if step.isdecimal() and int(step) < len(value) else MISSING
            continue
        if not isinstance(value, Mapping):
            return MISSING
        target = str(value.get("_target_", ""))
        reader = named(target) if target else reader
        value = value[step] if step in value else default(reader, step)
        reader = next((read for (place, of), read in READ_BY.items() if target.startswith(place) and of == step), None)
    return value


def same(found: object, said: object) -> bool:
    """Whether two values are equal, as YAML would write them: tuples as lists, but true is not 1."""
    if isinstance(found, Mapping) and isinstance(said, Mapping):
        return set(found) == set(said) and all(same(value, said[key]) for key, value in found.items())
    if isinstance(found, list | tuple) and isinstance(said, list | tuple):
        return len(found) == len(said) and all(map(same, found, said))
    return isinstance(found, bool) == isinstance(said, bool) and found == said


def wrong(cell: str) -> Iterator[str]:
    """What a cell of `ours` says that is not so."""
    if re.match(r"none: \S", cell):
        return
    left = cell
    for found in SETTINGS.finditer(cell):
        left = left.replace(found[0], "")
        for pair in re.findall(PAIR, found[2]):
            key, said = pair[1:-1].split("` = `")
            try:
                value = configured(found[1], key)
            except HarnessError as error:
                yield str(error)
                continue
            if value is MISSING:
                yield f"{found[1]}: no key {key}"
            elif not same(value, yaml.safe_load(said)):
                yield f"{found[1]}: {key} is {value!r} in the configuration, {said} in the table"
    for found in CODE.finditer(left):
        left = left.replace(found[0], "")
        value = named(found[1])
        if value is MISSING:
            yield f"{found[1]}: no such module, class, function or constant"
        elif found[2] and not same(value, yaml.safe_load(found[2])):
            yield f"{found[1]} is {value!r}, {found[2]} in the table"
    if "`: `" in left or "` = `" in left or re.search("`=`|`:`", left):
        yield f"{left!r} is not as `NAME`: `KEY` = `VALUE`"
    elif left == cell:
        yield f"{cell!r} names no configuration and no code, and does not begin with 'none: '"


def unlike(cell: str, stated: object) -> Iterator[str]:
    """What a cell of `ours` has otherwise than the paper or the authors' file."""
    found = {
        (name, key): yaml.safe_load(value)
        for name, pairs in SETTINGS.findall(cell)
        for key, value in re.findall(r"`([^`]+)` = `([^`]+)`", pairs)
    } | {("", path.rpartition(".")[2]): yaml.safe_load(value) for path, value in CODE.findall(cell) if value}
    for wanted, value in (stated if isinstance(stated, Mapping) else {"": stated}).items():
        here = {key: own for key, own in found.items() if wanted in ("", key[1], ":".join(key))}
        yield from (f"{key[1]} is {own!r}, and {value!r} there" for key, own in here.items() if not same(own, value))
        if not here:
            yield f"no value of {wanted or 'a key'}"


def uncompared(row: ComparedSetting, values: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """What is wrong with the evidence of a `yes`."""
    how = (SAME.match(row.same) or {"how": None})["how"]
    known = row.setting in values.get(row.part, {})
    if how and how.startswith("value"):
        yield from unlike(row.ours, values[row.part][row.setting]) if known else ["no value of it is stated"]
    elif known:
        yield "a value of it is stated, and 'same' does not say so"
    for file, test in re.findall(TEST, how or ""):
        if file not in TESTS or f"\ndef {test}(" not in TESTS[file].read_text(encoding="utf-8"):
            yield f"no test {file}::{test}"


def faults(row: ComparedSetting, values: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """What is wrong with a setting."""
    yield from wrong(row.ours)
    if not SAME.match(row.same):
        yield f"'same' is {row.same!r}, expected yes with tests, or no, unknown or chosen: WHY"
    yield from uncompared(row, values)


@pytest.mark.parametrize("paper", VALUES)
def test_what_a_table_says_of_ours_is_so(paper: str) -> None:
    rows = read_settings(paper)
    assert [(row.part, row.setting, fault) for row in rows for fault in faults(row, VALUES[paper])] == []
    stated = {(part, setting) for part, settings in VALUES[paper].items() for setting in settings}
    assert stated <= {(row.part, row.setting) for row in rows}
    assert sum(bool(SETTINGS.search(row.ours)) for row in rows) >= 10


def test_the_page_has_the_counts_of_each_table() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert VALUES.keys() == set(paper_names())
    assert [paper for paper in VALUES if f"(../conf/paper/settings/{paper}.csv)" not in text] == []
    assert [paper for paper in VALUES if f"{settings_in_words(read_settings(paper))}." not in text] == []


def test_baselines_are_those_of_the_tables() -> None:
    """The rows of MathAMR+ that its tables mark are the baselines of its experiments."""
    cells = [cell for cell in load_paper("mathamr-plus").cells if cell.baseline]
    marked = {(cell.table, cell.system.partition(" (ef")[0]) for cell in cells}
    tables = {"formulas": "6", "structure": "9", "edges": "10", "initialisation": "13", "strategy": "15", "loss": "17"}
    baselines = {f"4.{table}": load_experiment(f"mathamr-{name}").baseline for name, table in tables.items()}
    assert {(table, str((baseline or {})["condition"])) for table, baseline in baselines.items()} == marked


@pytest.mark.parametrize(("ours", "fault"), literals("papers/settings_faults"))
def test_what_is_not_so_is_found(ours: str, fault: str) -> None:
    found = list(faults(ComparedSetting("", "k1", "1.5 (3.3)", "not public", ours, "yes: read, not compared"), {}))
    assert len(found) == bool(fault)
    assert all(fault in line for line in found)


STATED = {"": {"k1": {"msm-bm25:k1": 1.5}, "b": 0.75, "k3": {"k3": 1}}}


@pytest.mark.parametrize(("setting", "same", "fault"), literals("papers/settings_evidence"))
def test_the_evidence_of_a_setting(setting: str, same: str, fault: str) -> None:
    found = list(faults(ComparedSetting("", setting, "1.5", "-", "`msm-bm25`: `k1` = `1.5`", same), STATED))
    assert len(found) == bool(fault)
    assert all(fault in line for line in found)


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (b"part,setting,paper,code,ours,same\nA,x,1.5,,y,no: a\n", "a.csv:2: expected the columns part, setting"),
        (b"part,setting,paper,code,ours,same\nA,x,1.5,y,no: a\n", "a.csv:2: expected the columns part, setting"),
        (b"part,setting\n", "a.csv:1: expected the columns part, setting, paper"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_table_has_its_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: bytes, fault: str) -> None:
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings/a.csv").write_bytes(table)
    monkeypatch.setattr(config, "names", lambda group: {name: tmp_path / f"{name}.yaml" for name in "ab"})
    with pytest.raises(FormatError, match=fault):
        read_settings("a")
    assert read_settings("b") == ()

"""Tables beside the configurations of papers: settings compared, and rows whose commands passed a rehearsal."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from harness.errors import format_error
from harness.io import config
from harness.io.files import read_bytes, write_atomic


def _read_table(path: Path, header: tuple[str, ...], *, full: bool = False) -> list[list[str]]:
    """Returns the rows below the header of a CSV file; none if there is no file. `full`: no cell may be empty."""
    if not path.is_file():
        return []
    try:
        rows = list(csv.reader(io.StringIO(read_bytes(path).decode(), newline="")))
    except UnicodeDecodeError:
        raise format_error(path, 0, "not UTF-8") from None
    for number, row in enumerate(rows or [[]] * full, 1):
        if len(row) != len(header) or (number == 1 and tuple(row) != header) or (full and not all(row)):
            empty = ", none of them empty" if full else ""
            raise format_error(path, number, f"expected the columns {', '.join(header)}{empty}")
    return rows[1:]


def _beside(paper: str, folder: str) -> Path:
    return config.names("paper")[paper].parent / folder / f"{paper}.csv"


# ---- settings ---------------------------------------------------------------------------------------------------


class ComparedSetting(NamedTuple):
    """A setting of a system or of the scoring; the columns of the file, with code in backticks.

    Attributes
    ----------
    part : table of the paper that the setting belongs to, with its topic.
    paper, code : what the paper and its authors' code say.
    ours : the keys of configurations, classes or constants of the harness, with their values.
    same : `yes`, `no`, `unknown` or `chosen` (paper and code leave the setting open), then what compares it or why.
    """

    part: str
    setting: str
    paper: str
    code: str
    ours: str
    same: str


def read_settings(paper: str) -> tuple[ComparedSetting, ...]:
    """Returns the settings of `conf/paper/settings/PAPER.csv` in order; none if the paper has no such file.

    Raises
    ------
    FormatError
        The file is not UTF-8, has other columns or an empty cell.
    """
    rows = _read_table(_beside(paper, "settings"), ComparedSetting._fields, full=True)
    return tuple(map(ComparedSetting._make, rows))


def settings_in_words(settings: tuple[ComparedSetting, ...]) -> str:
    """Returns how many settings are the same.

    Examples
    --------
    >>> said = ["yes: value", "yes: read, not compared", "no: cut"]
    >>> settings_in_words(tuple(ComparedSetting("Table 1", "k1", "1.2", "1.2", "bm25", each) for each in said))
    '3 settings: 2 yes (1 compared by tests, 1 read, not compared), 1 no, 0 chosen, 0 unknown'
    """
    counts = Counter(each.same.partition(":")[0] for each in settings)
    read = sum(each.same.startswith("yes: read, not compared") for each in settings)
    yes = f"{counts['yes']} yes ({counts['yes'] - read} compared by tests, {read} read, not compared)"
    return ", ".join(
        [f"{len(settings)} settings: {yes}", *(f"{counts[key]} {key}" for key in ("no", "chosen", "unknown"))]
    )


# ---- rehearsals -------------------------------------------------------------------------------------------------


class Rehearsed(NamedTuple):
    """A row whose command passed.

    Attributes
    ----------
    tables : of the paper, joined by `, `; empty for a system that is rehearsed by its own recipe.
    digest : of the command and all configurations that it names; a row whose digest has changed has to be rehearsed
        again.
    systems : names in `conf/system/` of the systems that its commands run, separated by blanks.
    """

    tables: str
    row: str
    version: str
    scale: str
    digest: str
    systems: str


def read_rehearsed(paper: str) -> tuple[Rehearsed, ...]:
    """Returns the record of a paper, `conf/paper/rehearsed/PAPER.csv`; empty without one.

    Raises
    ------
    FormatError
        The file is not UTF-8 or has other columns.
    """
    return tuple(map(Rehearsed._make, _read_table(_beside(paper, "rehearsed"), Rehearsed._fields)))


def write_rehearsed(path: Path, rows: Iterable[Rehearsed], tried: Iterable[tuple[str, str]]) -> None:
    """Writes a record of rows that passed; other rows of the file are kept, unless they were tried and failed.

    Parameters
    ----------
    tried : tables and label of the rows that were rehearsed.
    """
    known = map(Rehearsed._make, _read_table(path, Rehearsed._fields))
    failed = set(tried)
    kept = {row[:2]: row for row in known if row[:2] not in failed} | {row[:2]: row for row in rows}
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([Rehearsed._fields, *sorted(kept.values())])
    write_atomic(path, text.getvalue())


@cache
def _versions(paper: str) -> Mapping[tuple[str, str], str]:
    return {(table, row.row): row.version for row in read_rehearsed(paper) for table in row.tables.split(", ")}


def rehearsed_version(paper: str, table: str, labels: Iterable[str]) -> str:
    """Returns at which version a row was rehearsed; empty if it was not.

    Parameters
    ----------
    labels : the names that the row may have.
    """
    known = _versions(paper)
    versions = (known.get((where, label), "") for label in labels for where in (table, ""))
    return next(filter(None, versions), "")


@cache
def _systems() -> Mapping[str, str]:
    version_of: dict[str, str] = {}
    for paper in config.names("paper"):
        for row in read_rehearsed(paper):
            version_of |= dict.fromkeys(row.systems.split(), row.version)
    return version_of


def of_system(name: str) -> str:
    """Returns at which version a recipe that runs a system was rehearsed; empty if none was."""
    return _systems().get(name, "")


def marked(needs: str, version: str) -> str:
    """Returns what is needed and at which version the recipe was rehearsed, before the command if there is one.

    Examples
    --------
    >>> marked("needs the model m (hub): harness fetch m", "0.1.0")
    'needs the model m (hub) (rehearsed at 0.1.0): harness fetch m'
    >>> marked("the model m (no key: set KEY)", "0.1.0")
    'the model m (no key: set KEY) (rehearsed at 0.1.0)'
    """
    depths = accumulate((char == "(") - (char == ")") for char in needs)
    at = next((at for at, depth in enumerate(depths) if not depth and needs[at : at + 2] == ": "), len(needs))
    return f"{needs[:at]} (rehearsed at {version}){needs[at:]}" if version else needs

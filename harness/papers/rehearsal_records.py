"""Records of rows whose commands passed a rehearsal, kept in `conf/paper/rehearsed/`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

from harness.errors import format_error
from harness.io import config
from harness.io.files import read_bytes, write_atomic
from harness.version import __version__

HEADER = ("tables", "row", "version", "scale", "digest", "systems")


@dataclass(frozen=True)
class Rehearsed:
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


def read(paper: str) -> tuple[Rehearsed, ...]:
    """Returns the record of a paper; empty without one.

    Raises
    ------
    FormatError
        The file is not UTF-8 or has other columns.
    """
    return _read_records(config.names("paper")[paper].parent / "rehearsed" / f"{paper}.csv")


def _read_records(path: Path) -> tuple[Rehearsed, ...]:
    if not path.is_file():
        return ()
    try:
        rows = list(csv.reader(io.StringIO(read_bytes(path).decode(), newline="")))
    except UnicodeDecodeError:
        raise format_error(path, 0, "not UTF-8") from None
    for number, row in enumerate(rows, 1):
        if len(row) != len(HEADER) or (number == 1 and tuple(row) != HEADER):
            raise format_error(path, number, f"expected the columns {', '.join(HEADER)}")
    return tuple(Rehearsed(*row) for row in rows[1:])


def write(path: Path, rows: Iterable[Rehearsed], tried: Iterable[tuple[str, str]]) -> None:
    """Writes a record of rows that passed; other rows of the file are kept, unless they were tried and failed.

    Parameters
    ----------
    tried : tables and label of the rows that were rehearsed.
    """
    kept = {(row.tables, row.row): row for row in _read_records(path)}
    for each in tried:
        kept.pop(each, None)
    kept |= {(row.tables, row.row): row for row in rows}
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(astuple(row) for _, row in sorted(kept.items()))
    write_atomic(path, text.getvalue())


@cache
def _versions(paper: str) -> Mapping[tuple[str, str], str]:
    return {(table, row.row): row.version for row in read(paper) for table in row.tables.split(", ")}


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
        for row in read(paper):
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


def now(tables: str, row: str, scale: str, digest: str, systems: Iterable[str]) -> Rehearsed:
    """Returns the record of a row that passes with this version.

    Examples
    --------
    >>> now("4", "Moogle", "tiny", "0" * 16, ["e5-mistral"]).version == __version__
    True
    """
    return Rehearsed(tables, row, __version__, scale, digest, " ".join(sorted(set(systems))))

"""The settings of a paper beside its authors' code and the harness, kept in `conf/paper/settings/PAPER.csv`."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import NamedTuple

from harness.errors import format_error
from harness.io import config
from harness.io.files import read_bytes


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
    """Returns the settings in the order of the file; none if the paper has no such file.

    Raises
    ------
    FormatError
        The file is not UTF-8, has other columns or an empty cell.
    """
    path = config.names("paper")[paper].parent / "settings" / f"{paper}.csv"
    if not path.is_file():
        return ()
    try:
        header, *rows = csv.reader(io.StringIO(read_bytes(path).decode(), newline=""))
    except ValueError:
        raise format_error(path, 0, "not a table in UTF-8") from None
    for number, row in enumerate([header, *rows], 1):
        if tuple(header) != ComparedSetting._fields or len(row) != len(header) or not all(row):
            raise format_error(path, number, f"expected {', '.join(ComparedSetting._fields)}, none of them empty")
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

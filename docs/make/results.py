"""Pages of results: where their numbers come from; of a long table the first rows, with all in a CSV file beside it."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import subprocess
from contextlib import suppress
from pathlib import Path

_MOST = 24  # rows of a table that stand on the page
_FIRST = 12  # of a longer one
_TABLE = re.compile(r"^\|.*\|\n\|[ :|-]+\|\n((?:\|.*\|\n?)+)", re.MULTILINE)


def shortened(text: str, name: str) -> tuple[str, dict[str, str]]:
    """Returns a page whose long tables are cut, and file -> CSV of all rows of each.

    Parameters
    ----------
    name : of the page without its suffix; the files are `NAME-1.csv`, `NAME-2.csv`, ...

    Examples
    --------
    >>> page, files = shortened("| a |\\n|---|\\n" + "| 1 |\\n" * 30, "b")
    >>> page.count("| 1 |"), files["b-1.csv"].splitlines()[:2], len(files["b-1.csv"].splitlines())
    (12, ['a', '1'], 31)
    """
    files: dict[str, str] = {}

    def cut(found: re.Match[str]) -> str:
        lines = found[0].rstrip("\n").split("\n")
        if len(lines) - 2 <= _MOST:
            return found[0]
        file = f"{name}-{len(files) + 1}.csv"
        files[file] = _as_csv([lines[0], *lines[2:]])
        shown = "\n".join(lines[: 2 + _FIRST])
        return f"{shown}\n\nThe first {_FIRST} of {len(lines) - 2} rows; [all rows as CSV]({file}).\n"

    return _TABLE.sub(cut, text), files


def provenance(page: Path) -> str:
    """Returns a paragraph on the data beside a page, with commit and machine as far as they are recorded.

    In a repository it also has the commit that last changed the page.
    """
    said = []
    data = page.with_suffix(".json")
    if data.is_file():
        found = json.loads(data.read_text(encoding="utf-8"))
        commit = str(found.get("commit", "")).replace("-dirty", " with uncommitted changes")
        made = [f"commit {commit}" if commit else "", str(found.get("machine", ""))]
        said.append(f"Data: [{data.name}]({data.name}); {', '.join(filter(None, made)) or 'commit not recorded'}.")
    with suppress(OSError, subprocess.CalledProcessError):
        command = ["git", "log", "-1", "--format=%cs in commit %h", "--", page.name]
        changed = subprocess.check_output(command, cwd=page.parent, stderr=subprocess.DEVNULL, text=True).strip()
        said += [f"Page last changed on {changed}."] if changed else []
    return f"\n*{' '.join(said)}*\n" if said else ""


def _as_csv(lines: list[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for line in lines:
        cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        writer.writerow([_text(cell) for cell in cells])
    return out.getvalue()


def _text(cell: str) -> str:
    """Returns the text of a cell without its markup.

    Examples
    --------
    >>> _text(" **0.5** [a](a.md), &lt;.0001 "), _text(r" `b` x\\_y ")
    ('0.5 a, <.0001', 'b x_y')
    """
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell)
    return html.unescape(re.sub(r"\\(.)", r"\1", re.sub(r"\*\*|`", "", words))).strip()

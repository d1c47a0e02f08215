"""Commands that a page of the documentation shows, and whether they print what the page says. Standard library only."""

from __future__ import annotations

import re
import shlex


def commands_in(page: str) -> list[tuple[list[str], str]]:
    """The commands that a page of the documentation shows: arguments, and what it says that they print, if it does."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    shown = (part.partition("\n") for block in blocks for part in re.split(r"^\$ (?:harness )?", block, flags=re.M)[1:])
    return [(shlex.split(arguments), printed) for arguments, _, printed in shown]


def differences(shown: str, out: str, err: str) -> list[str]:
    """Lines that a page shows and the command did not print; where nothing is left out (`...`), also the reverse."""
    lines = [line for line in shown.splitlines() if line and line != "..."]
    printed = [line for line in out.splitlines() if line]
    lacking = [f"not printed: {line}" for line in lines if line not in (*printed, *err.splitlines())]
    if shown and "..." not in shown.splitlines():
        lacking += [f"not shown: {line}" for line in printed if line not in lines]
    return lacking

"""The command `doctor`: what works on this machine, and the commands that install the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from harness.io.console import out, out_left
from harness.io.files import cache_root

_FETCH = "harness fetch "
_SHOWN = 5  # names on a line


def doctor(as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """Check this machine: what works, and the commands that install what is missing."""
    from harness.cli.findings import findings, writable

    works, missing = _split(findings())
    if as_json:
        out(json.dumps({"works": works, "missing": missing}, indent=2, ensure_ascii=False))
    else:
        out_left([["works", ""], *([f"  {check}", state] for check, state in works.items())])
        if missing:
            out("")
            out("missing, which only matters to the systems that need it")
        for command, gives in missing.items():
            out(f"  {command}")
            out(f"    {_listed(gives)}")
    if not writable(cache_root()):
        raise typer.Exit(2)


def _split(found: Sequence[Sequence[str]]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Returns check -> state of what works, and the command that installs something -> what it makes available."""
    works = {check: state for check, state, remedy in found if not remedy}
    missing: dict[str, dict[str, None]] = {}
    for check, state, remedy in found:
        kind, _, name = check.partition(" ")
        if kind == "model" and remedy.startswith(_FETCH):
            missing.setdefault(f"{_FETCH}MODEL", {})[name] = None
        elif remedy:
            what = name if kind in ("model", "llm") else state if state.startswith(check) else f"{check}: {state}"
            missing.setdefault(remedy.removeprefix("no key: "), {})[what] = None
    return works, {command: list(gives) for command, gives in missing.items()}


def _listed(names: Sequence[str]) -> str:
    """Returns a few names and their number."""
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more (--json lists all)"

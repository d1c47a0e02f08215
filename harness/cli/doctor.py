"""The command `doctor`: what works on this machine, and the commands that install the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from harness.cli.main import DATA, in_panel
from harness.io.console import out_wrapped, print_line
from harness.io.files import cache_root

_FETCH = "harness fetch "
_COMMANDS = (_FETCH, "pip ", "apt ", "apt-get ")  # how remedies begin that are commands
_SHOWN = 5  # names on a line


@in_panel(DATA)
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """Check this machine: what works, and the commands that install what is missing."""
    from harness.cli.findings import findings, writable

    works, missing, manual = _split(findings())
    if as_json:
        document = {"works": works, "missing": missing, "manual": manual}
        print_line(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print_line("works")
        for check, state in works.items():
            out_wrapped(state, f"  {check:{max(map(len, works))}}  ")
        if missing:
            print_line("")
            out_wrapped("missing, by the command that installs it; only the systems named need it")
        for command, gives in missing.items():
            print_line(f"  {command}")
            for line in [_listed(gives)] if command.startswith(_FETCH) else gives:
                out_wrapped(line, "    ", 2)
        if manual:
            print_line("")
            print_line("settings and manual steps")
        for step, gives in manual.items():
            what = _listed(gives)
            out_wrapped(f"{what}{';' if ': ' in what else ':'} {step}", "  ", 2)
    if not writable(cache_root()):
        raise typer.Exit(2)


def _split(checks: Sequence[Sequence[str]]) -> tuple[dict[str, str], dict[str, list[str]], dict[str, list[str]]]:
    """Returns check -> state of what works; command -> what it installs; manual step -> what it makes available."""
    works = {check: state for check, state, remedy in checks if not remedy}
    missing: dict[str, dict[str, None]] = {}
    manual: dict[str, dict[str, None]] = {}
    for check, state, remedy in checks:
        kind, _, name = check.partition(" ")
        if kind == "model" and remedy.startswith(_FETCH):
            missing.setdefault(f"{_FETCH}MODEL", {})[name] = None
        elif remedy:
            what = name if kind in ("model", "llm") else state if state.startswith(check) else f"{check}: {state}"
            command, _, more = remedy.partition(", and ")
            if command.startswith(_COMMANDS):
                missing.setdefault(command, {})[f"{what}; also {more}" if more else what] = None
            else:
                named = f"{name}: {state}" if kind == "llm" and state != "no key" else what
                manual.setdefault(remedy.removeprefix("no key: "), {})[named] = None
    return (
        works,
        {key: list(gives) for key, gives in missing.items()},
        {key: list(gives) for key, gives in manual.items()},
    )


def _listed(names: Sequence[str]) -> str:
    """Returns a few names and their number."""
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more (--json lists all)"

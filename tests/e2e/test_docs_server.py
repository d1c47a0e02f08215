"""The example of the page about a lab's server: its commands in order, against the server that one of them starts."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from harness.cli.main import app
from harness.labs.server.guard import OVERHEAD
from harness.labs.server.service import ServerSettings

PAGE = Path(__file__).parents[2] / "docs" / "server.md"


def test_the_pages_name_the_options_that_there_are() -> None:
    """The table of settings has all of them; units, the image and the examples use no other."""
    command = typer.main.get_command(app).get_command(None, "serve")  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts} - {"lab"}
    table = PAGE.read_text(encoding="utf-8").partition("## Settings")[2].partition("\n## ")[0]
    rows = "".join(line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `"))
    assert set(re.findall("--[a-z-]+", rows)) == {option for option in known if option.startswith("--")} - {"--help"}
    shown = PAGE.with_name("deploying.md").read_text(encoding="utf-8")
    lines = [line for line in shown.splitlines() if re.search(r"harness serve |^ +serve ", line)]
    assert {option for line in lines for option in re.findall("--[a-z][a-z-]+", line)} <= known
    assert (
        f"{(ServerSettings().most_upload + OVERHEAD) >> 20}m; " in shown
        and f"{(256 << 20) + OVERHEAD >> 20}MiB" in shown
    )

"""The example of the page about a lab's server: its commands in order, against the server that one of them starts."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import typer
from tools import Place

from harness.cli.main import app
from harness.server.guard import OVERHEAD
from harness.server.service import Settings

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
ADDRESS = "127.0.0.1:8000"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def matches(shown: str, printed: str) -> bool:
    """Whether a text is the shown one, in which an ellipsis stands for anything on a line."""
    return re.fullmatch(".*".join(map(re.escape, shown.strip().split("…"))), printed.strip()) is not None


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
    assert f"{(Settings().most_upload + OVERHEAD) >> 20}m; " in shown and f"{(256 << 20) + OVERHEAD >> 20}MiB" in shown


@pytest.mark.heavy
def test_the_example(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Example")[2].partition("\n## ")[0]
    place, here = Place(tmp_path), f"127.0.0.1:{free_port()}"
    for name, content in re.findall(r"^`(\S+)`:\n\n```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        place.write(name, content)
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = [part.partition("\n") for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(commands) == 10
    server: subprocess.Popen[str] | None = None
    token = ""
    try:
        for command, _, expected in commands:
            arguments = shlex.split(command.replace(ADDRESS, here).replace("$HARNESS_TOKEN", token))
            shown = expected.replace(ADDRESS, here)
            if arguments[-1] == "&":
                server = place.start(*arguments[1:-1], "--port", here.rpartition(":")[2])
                assert server.stdout is not None
                assert matches(shown, server.stdout.readline())
            elif arguments[0] == "export":
                place.environment["HARNESS_TOKEN"] = token
            elif arguments[0] == "harness":
                done = place.run(*arguments[1:])
                assert done.code == (2 if expected.startswith("harness: ") else 0), done.err
                said = done.err.splitlines()
                assert matches("\n".join(line for line in shown.splitlines() if line not in said), done.out)
                token = token or (re.findall("HARNESS_TOKEN=(.+)", done.out) or [""])[0]
            else:
                printed = subprocess.check_output(arguments, cwd=place.here, env=place.environment, text=True)
                assert matches(shown, printed)
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=60)

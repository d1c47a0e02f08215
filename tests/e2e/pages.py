"""Pages of the documentation as a reader follows them: files are written, commands and programs run, outputs compared.

| block of a page | meaning |
|---|---|
| after a line "`PATH`:" | the content of a file, which is written |
| after a line that ends with "`PATH` contains:" | lines of a file of the reader's, or else of the harness, in order |
| `console` | commands behind `$`, with what they print |
| `python` | a program; a block `text` right after it is what it prints |

In what is printed, a line `...` stands for any lines and `…` for any characters. Lines of standard error may be left
out. A line that begins with `harness: ` is an error: the command ends with exit code 2, otherwise with 0. A comment
`<!-- needs: network -->` before a block names what it cannot do without; it is skipped elsewhere. `PROVIDED` has what
tests can provide; of blocks that need more, such as a cluster, only the options and settings are checked.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pytest
from shown_commands import blocks, check, commands, holds
from tools import Place

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "127.0.0.1:8000"  # of the servers that pages start
SHELL = ("cat", "cp", "curl", "head", "ls", "mkdir", "python", "tar")
# A need -> the module without which it is not met, if there is one. `network`: real data; `time`: some minutes.
PROVIDED = {
    **{"network": "", "time": "", "apertium": "", "model": "httpx", "server": "uvicorn", "graphs": "torch"},
    **{"joblib": "joblib", "optuna": "optuna", "pyterrier": "pyterrier", "ranx": "ranx"},
}
_TOKEN = re.compile(r"HARNESS_TOKEN=(\S+)")


def unused(page: str) -> list[int]:
    """The lines of blocks that no test would run."""
    found, last = [], ""
    for block in blocks(page):
        is_output = block.kind == "text" and last == "python" and not block.before
        if not (block.file or block.part_of or block.kind in ("console", "python") or is_output):
            found.append(block.line)
        last = block.kind
    return found


def follow(place: Place, page: str, have: Collection[str] = ()) -> None:
    """Follow a page; blocks that need what is not in `have` are skipped."""
    here = f"127.0.0.1:{_free_port()}"
    reader = _Reader(place, here)
    printed = ""
    try:
        for block in blocks(page.replace(ADDRESS, here)):
            if not block.needs <= set(have):
                continue
            if block.file.startswith("/"):
                place.write(f"root{block.file}", block.text)  # of a machine that is not this one
            elif block.file:
                place.write(block.file, block.text)
            elif block.part_of:
                own = place.here / block.part_of
                content = (own if own.is_file() else DOCS.parent / block.part_of).read_text(encoding="utf-8")
                assert holds(block.text.splitlines(), content.splitlines()), content
            elif block.kind == "console":
                for arguments, shown in commands(block.text):
                    reader.command(arguments, shown)
            elif block.kind == "python":
                printed = program(place, block.text)
            elif block.kind == "text":
                check(block.text, printed)
    finally:
        reader.close()


def program(place: Place, text: str) -> str:
    """What a program prints that runs in the folder of a place."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.chdir(place.here)
        for name in ("HARNESS_CACHE", "HARNESS_OFFLINE"):
            patch.setenv(name, place.environment[name])
        exec(compile(text, "page", "exec"), {"__name__": "__main__"})  # noqa: S102
    return said.getvalue()


class _Reader:
    """Who follows a page: the current token, and the server that was started."""

    def __init__(self, place: Place, address: str) -> None:
        self.place, self.address = place, address
        self.token = ""
        self.server: subprocess.Popen[str] | None = None

    def command(self, arguments: list[str], shown: str) -> None:
        place = self.place
        known = {**place.environment, "HARNESS_TOKEN": self.token, "PWD": str(place.here)}
        arguments = [Template(each).safe_substitute(known) for each in arguments]
        match arguments:
            case ["cd", folder]:
                place.here = (place.here / folder).resolve()
            case ["pip", "install", folder] if folder.startswith("./"):
                self._install(folder)
            case ["pip", "install", *_]:
                pass  # what it installs is compared with the project's extras
            case ["export", setting]:
                name, _, value = setting.partition("=")
                place.environment[name] = self.token if value == "…" else value
            case ["harness", "serve", *rest, "&"]:
                self.server = place.start("serve", *rest, "--port", self.address.rpartition(":")[2])
                assert self.server.stdout is not None
                check(shown, self.server.stdout.readline())
            case ["harness", *rest]:
                done = place.run(*rest)
                assert done.code == (2 if re.search("^harness: ", shown, re.MULTILINE) else 0), done.err
                self.token = (_TOKEN.findall(done.out) or [self.token])[-1]
                check(shown, done.out, done.err)
            case [command, *rest] if command in SHELL:
                program = sys.executable if command == "python" else command
                done_ = [program, *rest]
                check(shown, subprocess.check_output(done_, cwd=place.here, env=place.environment, text=True))
            case _:
                raise AssertionError(f"no test knows the command {shlex.join(arguments)}")

    def _install(self, folder: str) -> None:
        """Install a package of the page for the commands that follow, without a network."""
        site = self.place.here / "site"
        options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
        command = [sys.executable, "-m", "pip", "install", *options, "--target", str(site), folder]
        subprocess.run(command, cwd=self.place.here, check=True)
        given = self.place.environment.get("PYTHONPATH", "")
        self.place.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (given, str(site))))

    def close(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.communicate(timeout=60)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def marked(path: Path, slow: Collection[str] = (), heavy: Collection[str] = ()) -> ParameterSet:
    """A page as a parameter of a test, marked as slow or heavy if its name is among `slow` or `heavy`."""
    marks = [pytest.mark.slow] * (path.stem in slow) + [pytest.mark.heavy] * (path.stem in heavy)
    return pytest.param(path, marks=marks, id=_name(path))


def with_needs(paths: Collection[Path]) -> list[ParameterSet]:
    """Pages with what some of their blocks need and tests can provide, as parameters of a test."""
    made = []
    for path in paths:
        found = {block.needs for block in blocks(path.read_text(encoding="utf-8"))}
        for needs in sorted(sorted(each) for each in found if each and each <= PROVIDED.keys()):
            marks = [pytest.mark.real] * ("network" in needs)
            made.append(pytest.param(path, frozenset(needs), marks=marks, id="-".join([_name(path), *needs])))
    return made


def _name(path: Path) -> str:
    if DOCS in path.parents:
        return path.relative_to(DOCS).with_suffix("").as_posix()
    return path.relative_to(DOCS.parent).as_posix()

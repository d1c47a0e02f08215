"""Pages of the documentation as a reader follows them: files are written, commands and programs run, outputs compared.

| block of a page | meaning |
|---|---|
| after a line "`PATH`:" | the content of a file, which is written |
| after a line that ends with "`PATH` contains:" | lines of a file, in order; `...` stands for others |
| `console` | commands behind `$`, with what they print |
| `python` | a program; a block `text` right after it is what it prints |

In what is printed, a line `...` stands for any lines and `…` for any characters. Lines of standard error may be left
out. A line that begins with `harness: ` is an error: the command ends with exit code 2, otherwise with 0. A comment
`<!-- needs: network -->` before a block names what it cannot do without; it is skipped elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tools import Place

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "127.0.0.1:8000"  # of the servers that pages start
SHELL = ("cat", "cp", "curl", "head", "ls", "mkdir", "python", "tar")
_TOKEN = re.compile(r"HARNESS_TOKEN=(\S+)")


@dataclass(frozen=True)
class Block:
    """A block of code on a page.

    Attributes
    ----------
    before : the last line of text before it; empty if it follows another block.
    needs : what it cannot do without, such as `network`.
    line : number of its first line.
    """

    kind: str
    text: str
    before: str
    needs: frozenset[str]
    line: int

    @property
    def file(self) -> str:
        """The file whose content it is, or an empty text."""
        found = re.fullmatch(r"`(\S+)`:", self.before)
        return found[1] if found else ""

    @property
    def part_of(self) -> str:
        """The file of which it shows lines, or an empty text."""
        found = re.search(r"`(\S+)` contains:$", self.before)
        return found[1] if found else ""


def blocks(page: str) -> Iterator[Block]:
    """The blocks of code of a page, in order."""
    before, needs, inside, start = "", frozenset[str](), None, 0
    text: list[str] = []
    for number, line in enumerate(page.splitlines(), 1):
        if inside is not None:
            if line == "```":
                yield Block(inside, "".join(f"{each}\n" for each in text), before, needs, start)
                before, needs, inside = "", frozenset(), None
            else:
                text.append(line)
        elif line.startswith("```"):
            inside, text, start = line[3:], [], number + 1
        elif found := re.fullmatch(r"<!-- needs: (.+) -->", line):
            needs = frozenset(found[1].split(", "))
        elif line.strip():
            before = line.strip()


def commands(block: str) -> Iterator[tuple[list[str], str]]:
    """The commands of a console block: arguments, and what is said that they print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.replace("\\\n", " ").partition("\n")
        yield shlex.split(command), printed


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
            if block.file:
                place.write(block.file, block.text)
            elif block.part_of:
                content = (place.here / block.part_of).read_text(encoding="utf-8")
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


def check(shown: str, printed: str, said: str = "") -> None:
    """Compare what a page shows with what a command wrote to standard output and standard error."""
    lines, out, err = shown.splitlines(), printed.splitlines(), said.splitlines()
    if not lines:
        return
    of_out = [line for line in lines if line == "..." or any(_same(line, each) for each in out)]
    lost = [line for line in lines if line not in of_out and not any(_same(line, each) for each in err)]
    assert not lost, f"{lost}\nnot in\n{said}{printed}"
    assert holds(of_out, out), f"{shown}\nis not\n{printed}"


def holds(shown: list[str], lines: list[str]) -> bool:
    """Whether lines are the shown ones, in order, with others only where `...` stands.

    Examples
    --------
    >>> holds(["a", "...", "d"], ["a", "b", "c", "d"]), holds(["a", "d"], ["a", "b", "c", "d"])
    (True, False)
    """
    pattern = "".join("(?:.*\n)*?" if line == "..." else f"{_pattern(line)}\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split("…")))


def _same(shown: str, printed: str) -> bool:
    return re.fullmatch(_pattern(shown), printed) is not None


class _Reader:
    """Who follows a page: the current token, and the server that was started."""

    def __init__(self, place: Place, address: str) -> None:
        self.place, self.address = place, address
        self.token = ""
        self.server: subprocess.Popen[str] | None = None

    def command(self, arguments: list[str], shown: str) -> None:
        place = self.place
        arguments = [each.replace("$HARNESS_TOKEN", self.token) for each in arguments]
        match arguments:
            case ["cd", folder]:
                place.here = (place.here / folder).resolve()
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

    def close(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.communicate(timeout=60)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def marked(path: Path, slow: Collection[str] = ()) -> ParameterSet:
    """A page as a parameter of a test, marked as slow if its name is among `slow`."""
    return pytest.param(path, marks=[pytest.mark.slow] if path.stem in slow else [], id=path.stem)


def needing(folders: Collection[str], need: str) -> list[ParameterSet]:
    """Pages of some folders that have blocks with a need, as parameters of a test."""
    paths = sorted(path for folder in folders for path in (DOCS / folder).glob("*.md"))
    return [
        marked(path) for path in paths if any(need in block.needs for block in blocks(path.read_text(encoding="utf-8")))
    ]

"""Commands that a page of the documentation shows, and whether they print what the page says. Standard library only."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass


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
    """The commands of a console block, without comments: arguments, and what is said that they print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.replace("\\\n", " ").partition("\n")
        yield shlex.split(command, comments=True), printed


def commands_in(page: str) -> list[tuple[list[str], str]]:
    """The commands that a page of the documentation shows: arguments, and what it says that they print, if it does."""
    shown = (each for block in blocks(page) if block.kind == "console" for each in commands(block.text))
    return [(words[words[0] == "harness" :], printed) for words, printed in shown]


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

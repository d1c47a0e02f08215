"""The numbers that README and docs take from bench/results are there, in the line that has what they are of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"((?:bench/results|docs/results)(?:/\w+)?)\.md")
SUMMARY = "docs/results"  # what README draws together from it stands there in several lines
# No part of a name (`ARQMath-3`, `P@10`), a version (0.8.7), a power (1e-10) or a word; `96th` is 96.
NUMBER = re.compile(
    r"(?<![\w.,^@-])(?<!\d[eE]-)((?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?)(?:st|nd|rd|th)?(?!\w|[.,]\d|-\d)"
)


@dataclass(frozen=True)
class Block:
    """A paragraph or a table of a page; `row` of a table, each by itself.

    Attributes
    ----------
    files : the results that it, or the text around its table, names.
    """

    text: str
    table: bool
    files: tuple[str, ...]


def numbers(text: str) -> list[str]:
    """The numbers of a text as they are written, without those of code, links and comments."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)|\[[^\]]*\.md\]|<!--.*?-->", " ` ", text)
    return [found[1] for found in NUMBER.finditer(plain) if found[1]]


def blocks(page: str) -> list[Block]:
    """The paragraphs and tables of a page that stand with a link to results: a table, the paragraph before it if that
    ends with a colon, and the one behind it belong together."""
    text = re.sub(r"^```.*?^```", "\n\n", page, flags=re.MULTILINE | re.DOTALL)
    parts = [part.strip() for part in re.split(r"\n\s*\n|^(?=#)", text, flags=re.MULTILINE) if part.strip()]
    group, groups = 0, []
    for number, part in enumerate(parts):
        before = parts[number - 1] if number else "#"
        joined = before.startswith("|") or (part.startswith("|") and before.endswith(":"))
        group += not joined or "#" in (before[0], part[0])
        groups.append(group)
    files: dict[int, set[str]] = {}
    for number, part in zip(groups, parts, strict=True):
        files.setdefault(number, set()).update(LINK.findall(part))
    return [
        Block(part, part.startswith("|"), tuple(sorted(files[number])))
        for number, part in zip(groups, parts, strict=True)
        if files[number]
    ]


@cache
def known(file: str) -> tuple[tuple[Decimal, ...], ...]:
    """The numbers of each line of a page of results."""
    text = (ROOT / f"{file}.md").read_text(encoding="utf-8")
    return tuple(tuple(value(each) for each in numbers(line)) for line in text.splitlines())


def value(number: str) -> Decimal:
    return Decimal(number.replace(",", ""))


def is_in(number: str, line: Iterable[Decimal]) -> bool:
    """Whether a line has the number, with as many digits or rounded to it."""
    wanted = value(number)
    half = Decimal(5).scaleb(wanted.as_tuple().exponent - 1)  # type: ignore[operator]
    return any(abs(each - wanted) <= half for each in line)


def holds(line: Iterable[Decimal], values: Iterable[str]) -> bool:
    """Whether a line has all of the numbers, each of them another one of its own."""
    left = list(line)
    for each in values:
        found = next((number for number in left if is_in(each, [number])), None)
        if found is None:
            return False
        left.remove(found)
    return True


def faults(page: str) -> Iterator[str]:
    """What is said with a link to results and not found there; a row's values must stand in one line of them."""
    for block in blocks(page):
        lines = [line for file in block.files for line in known(file)]
        for row in block.text.splitlines()[2:] if block.table else [block.text]:
            found = numbers(row)
            absent = [each for each in found if not any(is_in(each, line) for line in lines)]
            if absent:
                yield f"{', '.join(absent)} in {row[:60]!r} not in {', '.join(block.files)}"
            one_line = block.table and set(block.files) != {SUMMARY}
            values = numbers(row.lstrip("|").partition("|")[2]) if one_line else []  # without the row's name
            if not any(holds(line, values) for line in lines):
                yield f"{row[:60]!r}: its numbers stand in no line of {', '.join(block.files)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_numbers_are_those_of_the_results(page: Path) -> None:
    assert list(faults(page.read_text(encoding="utf-8"))) == []


def test_there_are_numbers_to_compare() -> None:
    found = [block for page in PAGES for block in blocks(page.read_text(encoding="utf-8"))]
    named = {file for block in found for file in block.files}
    wanted = ("answers", "foreign", "formulas", "graph", "leak", "maxsim", "scoring")
    assert {SUMMARY, *(f"bench/results/{name}" for name in wanted)} <= named
    assert sum(len(numbers(block.text)) for block in found if block.table) > 100
    assert sum(len(numbers(block.text)) for block in found if not block.table) > 50
    assert not list(faults("34,000 documents\n`bench/results/maxsim.md`"))
    assert list(faults("34,001 documents\n`bench/results/maxsim.md`"))  # a number that is changed is found

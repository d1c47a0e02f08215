"""Sentences of the pages with a strong word have a test, or say nothing about what the program does.

`tests/data/promises.tsv` has a line for each: the page, a distinctive part of the sentence, and the test that proves it
(several with blanks between them), or the kind of a sentence that promises nothing. Further promises may be listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STRONG = re.compile(
    r"\b(always|bit by bit|every\w*|exactly|identical(ly)?|never|nobody|nothing|same bytes|whatever)\b"
    r"|\ball (errors|faults)\b",
    re.IGNORECASE,
)
# What was measured or published, and how others' programs differ.
RECORDS = re.compile(r"docs/(results|settings|site-compared)\.md|docs/reference/.*")
NO_PROMISE = {
    "advice": "tells a person what to do, or how to read a number",
    "data": "counts or measurements; numbers are compared with their sources elsewhere",
    "others": "says what other software does",
    "policy": "says how the project decides",
    "term": "defines a word, a format or a setting, or explains mathematics",
}


def pages() -> list[str]:
    """README, SECURITY, CONTRIBUTING and the documentation, but for records and generated references."""
    named = ["CONTRIBUTING.md", "README.md", "SECURITY.md"]
    named += sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return [name for name in named if not RECORDS.fullmatch(name)]


@cache
def sentences(page: str) -> tuple[str, ...]:
    """The sentences of a page, and the rows of its tables as they are, without code blocks and comments."""
    text = re.sub(r"^ *```.*?^ *```|<!--.*?-->", "\n\n", (ROOT / page).read_text("utf-8"), flags=re.M | re.S)
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n|^(?=#|\||\s*- |\s*\d+\. )", text, flags=re.M)]
    ends = re.compile(r"(?<=[.:;?!]) (?=[A-Z`*\[(])")
    return tuple(each for block in blocks for each in ([block] if block[:1] == "|" else ends.split(block)) if each)


@cache
def promises() -> tuple[tuple[str, str, str], ...]:
    lines = (ROOT / "tests/data/promises.tsv").read_text(encoding="utf-8").splitlines()
    return tuple((page, part, proof) for page, part, proof in (line.split("\t") for line in lines))


def strong(page: str) -> Iterator[str]:
    """The sentences with a strong word outside of code."""
    return (sentence for sentence in sentences(page) if STRONG.search(re.sub(r"`[^`]*`", "`", sentence)))


@pytest.mark.parametrize("page", pages())
def test_sentences_with_a_strong_word_are_listed(page: str) -> None:
    listed = [part for name, part, _ in promises() if name == page]
    assert [sentence for sentence in strong(page) if not any(part in sentence for part in listed)] == []


def test_listed_sentences_are_on_their_pages_once() -> None:
    rows = promises()
    assert list(rows) == sorted(set(rows))
    assert {page for page, _, _ in rows} <= {*pages()}
    found = {(page, part): [each for each in sentences(page) if part in each] for page, part, _ in rows}
    assert {place: len(each) for place, each in found.items() if len(each) != 1} == {}


def test_tests_that_are_named_exist() -> None:
    proofs = [proof for _, _, proof in promises() if proof not in NO_PROMISE]
    assert len(proofs) > 100
    for name in dict.fromkeys(name for proof in proofs for name in proof.split()):
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), name

"""Compact letters beyond what comparisons need of them (see test_stats): their number, and when it is too large."""

from __future__ import annotations

from itertools import product

from harness.scoring.letters import compact_letters


def test_twins_double_the_letters() -> None:
    """Of k pairs of runs that differ within the pair alone, a group takes one of each: 2^k groups."""
    order = [f"{pair}{twin}" for pair in range(5) for twin in "xy"]
    different = [(f"{pair}x", f"{pair}y") for pair in range(5)]
    letters = compact_letters(order, different)
    names = sorted({letter for text in letters.values() for letter in split(text)})
    assert len(names) == 32
    members = {frozenset(run for run in order if name in split(letters[run])) for name in names}
    assert members == {frozenset(f"{pair}{twin}" for pair, twin in enumerate(each)) for each in product("xy", repeat=5)}
    assert compact_letters(order, different, most=32) == letters
    assert compact_letters(order, different, most=31) == {}


def split(text: str) -> list[str]:
    out: list[str] = []
    for char in text:
        if char.isdigit():
            out[-1] += char
        else:
            out.append(char)
    return out


def test_none_and_one() -> None:
    assert compact_letters(["only"], []) == {"only": "a"}
    assert compact_letters(["x", "y"], [("y", "x")]) == {"x": "a", "y": "b"}

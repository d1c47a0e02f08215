"""Comparisons as values: documents, also of an earlier version, and letters for groups of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, product
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from scoring_tools import ap

from harness.scoring.compare import compare
from harness.scoring.comparison import (
    Comparison,
    Correction,
    compact_letters,
    comparison_from_json,
    comparison_to_json,
    groups_not_different,
)

RUNS = [ap("a", [0.1, 0.9, 0.4]), ap("b", [0.2, 0.5, 0.4]), ap("c", [0.5] * 3), ap("d", [0.6] * 3)]


def written(options: Mapping[str, Any] = MappingProxyType({})) -> tuple[Comparison, dict[str, Any]]:
    """A comparison with defined and undefined tests, and what a reader finds in its file."""
    comparison = compare(RUNS, **options)
    return comparison, json.loads(json.dumps(comparison_to_json(comparison), allow_nan=False))


ALSO = {"test": "randomization", "seed": 5}, {"correction": "maxT", "margin": 0.1}


@pytest.mark.parametrize("options", [{}, {"baseline": "a"}, *ALSO])
def test_json_round_trip(options: dict[str, Any]) -> None:
    comparison, data = written(options)
    assert (data["schema"], data["version"]) == ("mathir-harness/comparison", 3)
    assert comparison_from_json(data) == comparison


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"schema": "run"}, "comparison: schema is 'run', expected 'mathir-harness/comparison'"),
        ({"version": 1}, "comparison: version is 1, expected 3"),
        ({"sead": 1}, "comparison: unknown key 'sead'; did you mean 'seed'?"),
        ({"seed": 1.5}, "comparison: key 'seed' is 1.5, expected int"),
        ({"seed": True}, "comparison: key 'seed' is True, expected int"),
        ({"alpha": "x"}, "comparison: key 'alpha' is 'x', expected float"),
        ({"alpha": float("nan")}, "comparison: key 'alpha' is nan, expected float"),
        ({"baseline": 3}, "comparison: key 'baseline' is 3, expected str | None"),
        ({"edition": None}, "comparison: key 'edition' is None, expected str"),
        ({"test": "u"}, "comparison: key 'test' is 'u', expected t | randomization"),
        ({"rows": {}}, "comparison: key 'rows' is {}, expected list"),
        ({"rows": [7]}, "comparison: rows[0] is 7, expected an object"),
        ({"rows": [{}]}, "comparison: rows[0]: key 'a' is missing"),
    ],
)
def test_broken_json(change: dict[str, Any], expected: str) -> None:
    assert refusal(comparison_from_json, written()[1] | change) == expected


def test_broken_json_rows() -> None:
    _, data = written()
    assert data["rows"][-1]["p"] is None
    data["rows"][1]["significant"] = 1
    assert refusal(comparison_from_json, data) == "comparison: rows[1]: key 'significant' is 1, expected bool | None"
    del data["rows"][0]["ties"], data["power"]
    assert refusal(comparison_from_json, data) == "comparison: key 'power' is missing"
    assert refusal(comparison_from_json, [1]) == "comparison: schema is None, expected 'mathir-harness/comparison'"


def test_a_document_of_version_2_is_read() -> None:
    """It lacks what version 3 added, which then is as without the options that need it."""
    comparison, data = written()
    added = {"freedom", "p_max_t", "significant_max_t", "seeds_a", "seeds_b"}
    old = {key: value for key, value in data.items() if key not in ("marks", "equivalence")} | {"version": 2}
    old["rows"] = [{key: value for key, value in row.items() if key not in added} for row in data["rows"]]
    rows = tuple(replace(row, freedom=None) for row in comparison.rows)
    assert comparison_from_json(old) == replace(comparison, rows=rows)
    assert refusal(comparison_from_json, old | {"version": 3}) == "comparison: key 'equivalence' is missing"


def judged(means: Mapping[str, float], different: set[frozenset[str]], otherwise: bool | None = False) -> Comparison:
    """An all-pairs comparison in which exactly these pairs differ significantly."""
    whole = compare(RUNS[:2])
    base = replace(whole.rows[0], significant_holm=False)
    rows = []
    for a, b in combinations(means, 2):
        mark = frozenset((a, b)) in different or otherwise
        rows.append(replace(base, a=a, b=b, mean_a=means[a], mean_b=means[b], significant=mark))
    return replace(whole, rows=tuple(rows))


def test_letters_by_hand() -> None:
    # Piepho's pattern: the best differs from the two worst, the second from the worst.
    different = {frozenset(pair) for pair in (("w", "y"), ("w", "z"), ("x", "z"))}
    comparison = judged({"z": 0.1, "y": 0.2, "x": 0.3, "w": 0.4}, different)
    letters = groups_not_different(comparison, "AP", "none")
    assert list(letters.items()) == [("w", "a"), ("x", "ab"), ("y", "bc"), ("z", "c")]
    assert groups_not_different(comparison, "AP", "holm") == dict.fromkeys("wxyz", "a")
    undefined = judged({"x": 0.5, "y": 0.4}, set(), otherwise=None)
    assert groups_not_different(undefined, "AP", "none") == {"x": "a", "y": "a"}


def test_letters_go_on_after_z() -> None:
    means = {f"r{i:02}": 1 - i / 100 for i in range(28)}
    letters = groups_not_different(judged(means, set(map(frozenset, combinations(means, 2)))), "AP", "none")
    assert list(letters.values()) == [*"abcdefghijklmnopqrstuvwxyz", "a1", "b1"]


@given(st.integers(2, 7), st.data())
def test_letters_are_the_maximal_cliques(n: int, data: st.DataObject) -> None:
    names = [f"r{i}" for i in range(n)]
    means = {name: data.draw(st.integers(0, 1000)) / 1000 for name in names}
    different = {frozenset(p) for p in combinations(names, 2) if data.draw(st.booleans())}
    comparison = judged(means, different)
    letters = groups_not_different(comparison, "AP", "none")
    assert list(letters) == sorted(names, key=lambda name: (-means[name], name))
    groups = {frozenset(r for r in names if letter in letters[r]) for letter in set("".join(letters.values()))}
    cliques = {
        frozenset(group)
        for size in range(1, n + 1)
        for group in combinations(names, size)
        if not any(frozenset(p) in different for p in combinations(group, 2))
    }
    assert groups == {c for c in cliques if not any(c < other for other in cliques)}
    turned = replace(comparison, rows=comparison.rows[::-1])
    assert groups_not_different(turned, "AP", "none") == letters


@pytest.mark.parametrize(
    ("measure", "correction", "said"),
    [
        ("AP", "none", "runs b and c were not compared for AP; letters need all pairs"),
        ("ap", "none", "measure 'ap' was not compared; did you mean 'AP'?"),
        ("AP", "Holm", "unknown correction 'Holm'; did you mean 'holm'?"),
    ],
)
def test_letters_need_all_pairs(measure: str, correction: Correction, said: str) -> None:
    assert (
        refusal(groups_not_different, compare(RUNS[:3], baseline="a"), measure, correction).replace(
            "c and b", "b and c"
        )
        == said
    )


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

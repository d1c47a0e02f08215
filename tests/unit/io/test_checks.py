"""Configurations as values: every key checked, all faults of a mapping together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from case_tables import literals
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.io.checks import Words, check_whole_number, typed


@dataclass(frozen=True)
class Inner:
    title: Words
    depth: int = 1


@dataclass(frozen=True)
class Outer:
    name: str
    order: Literal["up", "down"] = "up"
    share: float = 0.5
    flag: bool = False
    cut: Annotated[int, partial(check_whole_number, low=1)] = 1
    anything: Any = None
    one: Inner | None = None
    words: tuple[str, ...] = ()
    several: tuple[Inner, ...] = ()
    named: Mapping[str, Inner] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    nested: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    as_given: Mapping[object, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.flag and self.cut == 1:
            raise HarnessError("flag needs a cut")


def lines(mapping: object) -> list[str]:
    with pytest.raises(HarnessError) as caught:
        typed(Outer, mapping, "f: part")
    return [line.removeprefix("f: part: ") for line in caught.value.lines]


def test_a_value_from_keys_and_values() -> None:
    mapping = {
        "name": "n",
        "order": "down",
        "share": 1,
        "flag": True,
        "cut": 5,
        "anything": [{}],
        "one": {"title": 5},
        "words": ["a", "b"],
        "several": [{"title": "a", "depth": 2}],
        "named": {7: {"title": "t"}},
        "numbers": {"a": 1},
        "nested": {1: {2: 3}},
        "as_given": {1: None},
    }
    value = typed(Outer, mapping, "f")
    assert asdict(value) == {
        **mapping,
        "one": {"title": "5", "depth": 1},
        "words": ("a", "b"),
        "several": ({"title": "a", "depth": 2},),
        "named": {"7": {"title": "t", "depth": 1}},
        "nested": {"1": {"2": 3}},
    }
    assert isinstance(value.share, float)
    assert typed(Outer, {"name": "n", "one": None}, "f") == Outer("n")


@pytest.mark.parametrize(
    ("change", "fault"), [*literals("io/checks_a_fault_is_one_line"), ({"share": 10**400}, "key 'share' is 1000000")]
)
def test_a_fault_is_one_line(change: dict[Any, object], fault: str) -> None:
    (line,) = lines({"name": "n", **change})
    assert line.startswith(fault)


def test_all_faults_come_together() -> None:
    assert lines(5) == ["expected keys and values, found 5"]
    wrong = {"nam": 1, "share": "x", "one": {"depth": "2"}, "named": {"a": {"title": "t", "depht": 3}}}
    assert lines(wrong) == [
        "key 'nam' is unknown; did you mean 'name'?",
        "key 'name' is missing",
        "key 'share' is 'x', expected a number",
        "one: key 'title' is missing",
        "one: key 'depth' is '2', expected a whole number",
        "named: a: key 'depht' is unknown; did you mean 'depth'?",
    ]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["title", "a", 1]), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*Outer.__dataclass_fields__, "other", 3]), ANY))
def test_whatever_is_given_ends_in_a_value_or_in_lines(mapping: dict[Any, object]) -> None:
    try:
        value = typed(Outer, mapping, "f: part")
    except HarnessError as error:
        assert all(line.startswith("f: part: ") for line in error.lines)
    else:
        assert set(mapping) <= set(Outer.__dataclass_fields__)
        assert isinstance(value.name, str) and isinstance(value.words, tuple)
        assert all(isinstance(entry, Inner) for entry in (*value.several, *value.named.values()))

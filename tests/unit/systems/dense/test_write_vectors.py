"""Vectors that are written document by document are those that are stacked in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from harness.systems.dense.maxsim import stack, write_vectors

Item = tuple[str, Any, int, str]


def _items(count: int) -> Iterator[Item]:
    generator = np.random.default_rng(0)
    for number in range(count):
        values = generator.standard_normal((number % 4, 8), np.float32)
        yield f"d{number}", values, len(values) - 1, f"post{number}"


@pytest.mark.parametrize("posts", [False, True])
def test_files_are_those_of_a_stack(tmp_path: Path, posts: bool) -> None:
    context = [post for _, _, _, post in _items(30)] if posts else None
    stack(((name, values, single) for name, values, single, _ in _items(30)), context).save(tmp_path / "stacked")
    assert write_vectors(_items(30), tmp_path / "written", posts=posts) == 30
    names = sorted(path.name for path in (tmp_path / "stacked").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "written").iterdir())
    assert len(names) == 4 + posts
    for name in names:
        assert (tmp_path / "stacked" / name).read_bytes() == (tmp_path / "written" / name).read_bytes(), name


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ([], "there is none"),
        ([("a", np.zeros((0, 2)), -1, "")], "there is none"),
        ([("a", np.ones((1, 2)), 0, ""), ("b", np.ones((1, 3)), 0, "")], r"document b: .* found \(3,\) after \(2,\)"),
        ([("a", np.ones(2), 0, "")], "document a: .*one number of dimensions"),
        ([("a", np.ones((1, 2)), 0, ""), ("a", np.ones((1, 2)), 0, "")], "an id occurs twice"),
        ([("a", np.full((1, 2), np.nan), 0, "")], "document a: a value is infinite or not a number"),
        ([("a", np.ones((1, 2)), 1, "")], "document a: its single vector is not one of its vectors"),
    ],
)
def test_what_a_stack_refuses_is_refused(tmp_path: Path, items: list[Item], fault: str) -> None:
    refuses(fault, lambda: write_vectors(items, tmp_path / "vectors"))


def test_memory_does_not_hold_the_vectors(tmp_path: Path) -> None:
    values = np.ones((100, 128), np.float32)
    tracemalloc.start()
    try:
        write_vectors(((f"d{number}", values, 0, "") for number in range(1000)), tmp_path / "vectors")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "vectors" / "values.npy").stat().st_size > 50_000_000
    assert most < 5_000_000

"""Lists of entries merged from blocks, for any division of keys."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.systems import blocks
from harness.systems.blocks import BlockFiles

keys = st.one_of(st.integers(0, 40), st.integers(0, 2**64 - 1))


@given(st.lists(st.dictionaries(keys, st.integers(1, 4), max_size=30), max_size=6), st.integers(0, 60), st.booleans())
def test_lists_are_merged_by_key_then_block(parts: list[dict[int, int]], most: int, few: bool) -> None:
    expected: dict[int, list[int]] = defaultdict(list)
    number = 0
    found: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks, "_FENCE", 3 if few else 1 << 10)
        with BlockFiles(Path(name) / "blocks", 1 << 64, (np.int32, np.uint8)) as made:
            for part in parts:
                entries: list[int] = []
                for key in sorted(part):
                    expected[key] += range(number, number + part[key])
                    entries += range(number, number + part[key])
                    number += part[key]
                often = np.array([part[key] for key in sorted(part)], np.int64)
                column = np.array(entries, np.int32)
                made.add(np.array(sorted(part), np.uint64), often, column, column % 7)
            for lists in made.merged(most):
                assert len(lists.key)
                assert lists.columns[1].tolist() == (lists.columns[0] % 7).tolist()
                found += zip(np.repeat(lists.key, lists.often).tolist(), lists.columns[0].tolist(), strict=True)
        assert list(Path(name).iterdir()) == []
    assert found == [(key, entry) for key in sorted(expected) for entry in expected[key]]


def test_ranges_are_no_larger_than_wanted(tmp_path: Path) -> None:
    with BlockFiles(tmp_path / "blocks", 1000, (np.int32,)) as made:
        for _ in range(3):
            made.add(np.arange(1000, dtype=np.uint64), np.full(1000, 2), np.arange(2000))
        sizes = [len(lists.columns[0]) for lists in made.merged(60)]
    assert (sum(sizes), max(sizes), len(sizes)) == (6000, 60, 100)

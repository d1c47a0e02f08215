"""Files of NumPy written piece by piece, and the limit of memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.io import arrays, memory
from harness.io.arrays import ArrayFile, Texts, mapped, ranges, release
from harness.systems.base import Request
from harness.systems.build import build_system


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.uint32, np.int64, np.float64, "S3"])
@pytest.mark.parametrize("sizes", [(), (0,), (1, 0, 5), (12345, 1)])
def test_a_column_is_the_file_of_numpy(tmp_path: Path, kind: type, sizes: tuple[int, ...]) -> None:
    pieces: list[arrays.Array] = [np.arange(size).astype(kind) for size in sizes]
    with ArrayFile(tmp_path / "a.npy", kind) as column:
        for piece in pieces:
            column.add(piece)
    np.save(tmp_path / "b.npy", np.concatenate([np.empty(0, kind), *pieces]))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert mapped(tmp_path / "a.npy").tolist() == np.load(tmp_path / "b.npy").tolist()


def test_numbers_are_collected_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "PIECE", 4)
    with ArrayFile(tmp_path / "a.npy", np.int32) as column:
        for number in range(0, 12, 3):
            column.extend(range(number, number + 2))
            column.add([number + 2])
            assert len(column) == number + 3
    assert mapped(tmp_path / "a.npy").tolist() == list(range(12))
    with ArrayFile(tmp_path / "b.npy", "S3") as texts, pytest.raises(TypeError, match="takes no whole numbers"):
        texts.extend([1])


@given(st.lists(st.binary(max_size=9)))
def test_texts_are_those_of_numpy(tmp_path_factory: pytest.TempPathFactory, texts: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("texts")
    with Texts(folder / "a.npy") as column:
        for text in texts:
            column.add(text)
    np.save(folder / "b.npy", np.array(texts, dtype=np.bytes_))
    assert (folder / "a.npy").read_bytes() == (folder / "b.npy").read_bytes()
    assert [path.name for path in sorted(folder.iterdir())] == ["a.npy", "b.npy"]


def test_an_error_leaves_no_files_beside(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Texts(tmp_path / "a.npy") as column:
        column.add(b"x")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_released_arrays_are_read_again(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(10_000))
    array = mapped(tmp_path / "a.npy")
    part = array[5:9]
    release(array, part, np.zeros(3))
    assert part.tolist() == [5, 6, 7, 8]


@given(st.lists(st.integers(0, 9)), st.integers(0, 30))
def test_ranges_hold_all_groups_and_no_more_than_wanted(sizes: list[int], most: int) -> None:
    start = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    found = list(ranges(start, most))
    assert [group for first, last in found for group in range(first, last)] == list(range(len(sizes)))
    assert all(sum(sizes[first:last]) <= most or last == first + 1 for first, last in found)


def test_the_limit_is_a_quarter_of_what_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = memory.available()
    assert memory.limit() == max(machine // 4, memory.LEAST)
    (tmp_path / "limit").write_text(f"{machine // 2}\n")
    (tmp_path / "none").write_text("max\n")
    monkeypatch.setattr(memory, "_CGROUPS", (tmp_path / "none", tmp_path / "missing"))
    assert memory.available() >= machine
    monkeypatch.setattr(memory, "_CGROUPS", (tmp_path / "limit",))
    assert memory.available() == machine // 2
    with memory.given(8):
        assert memory.limit() == 2 * 10**9
        with memory.given(None):
            assert memory.limit() == 2 * 10**9
    assert memory.limit() == max(machine // 8, memory.LEAST)


def test_a_system_builds_in_a_quarter_of_its_resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("harness.systems.baselines.Shuffle.__call__", lambda self, request: seen.append(memory.limit()))
    for resources in ({"resources": {"memory": 4}}, {}):
        built = build_system({"_target_": "harness.systems.baselines.Shuffle", **resources}, "system")
        with pytest.raises(Exception, match="gave NoneType"):
            built(Request(None, None, tmp_path))  # type: ignore[arg-type]
    assert seen == [10**9, memory.limit()]

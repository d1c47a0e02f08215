"""The memory allocator during training, with a library that records its calls."""

from __future__ import annotations

import ctypes

import pytest

from harness.systems.mathamr.training.memory import freed_memory_kept


class Library:
    """In the place of glibc."""

    def __init__(self) -> None:
        self.thresholds: dict[int, int] = {}
        self.returned = 0

    def mallopt(self, parameter: int, value: int) -> int:
        self.thresholds[parameter] = value
        return 1

    def malloc_trim(self, padding: int) -> int:
        assert padding == 0
        self.returned += 1
        return 1


def test_memory_is_kept_inside_and_returned_after_an_error_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    with pytest.raises(KeyError), freed_memory_kept():
        inside = dict(library.thresholds)
        assert not library.returned
        raise KeyError
    assert inside == {-3: 32 << 20, -1: (1 << 31) - 1}
    assert library.thresholds == {-3: 32 << 20, -1: 64 << 20}
    assert library.returned == 1


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with freed_memory_kept():
        pass

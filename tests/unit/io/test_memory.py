"""Errors that say that memory is missing become one line, wherever they were raised."""

from __future__ import annotations

import errno

import pytest

from harness.errors import HarnessError, SystemRaisedError, lacks_memory, out_of_memory, system_raised
from harness.systems.build import guarded


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"), True),
        (ImportError("libx.so: failed to map segment from shared object"), True),
        (caused(ValueError("in a library"), MemoryError()), True),
        (ValueError("not enough memory of the past"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (RuntimeError("shapes differ"), False),
    ],
)
def test_which_errors_say_so(error: Exception, expected: bool) -> None:
    assert lacks_memory(error) is expected


def test_a_context_counts_unless_it_is_hidden() -> None:
    def fails(hidden: bool) -> None:
        try:
            raise MemoryError
        except MemoryError:
            if hidden:
                raise ValueError("x") from None
            raise ValueError("x")  # noqa: B904

    for hidden in (True, False):
        with pytest.raises(ValueError, match="x") as caught:
            fails(hidden)
        assert lacks_memory(caught.value) is not hidden


def test_a_system_without_memory_is_one_line_and_no_traceback() -> None:
    def greedy() -> None:
        raise MemoryError("Unable to allocate 3 TiB")

    with pytest.raises(HarnessError) as caught:
        guarded("system greedy", greedy)
    assert not isinstance(caught.value, SystemRaisedError)
    (line,) = caught.value.lines
    assert line.startswith("system greedy: not enough memory (MemoryError: Unable to allocate 3 TiB); free memory")
    assert isinstance(system_raised("system x", ValueError("y")), SystemRaisedError)


def test_an_error_without_words_of_its_own() -> None:
    (line,) = out_of_memory(MemoryError()).lines
    assert line.startswith("not enough memory (MemoryError); ")

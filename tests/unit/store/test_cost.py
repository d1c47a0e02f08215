"""What work costs: the peak of memory is that of the work measured, not of what the process did before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.store.cost import measuring

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process forget its peak")
MANY = 64 << 20  # bytes


def held(size: int) -> int:
    """The peak of a block that holds so many bytes."""
    with measuring() as meter:
        block = bytearray(size)
        block[::4096] = b"x" * len(block[::4096])  # each page is written, so that it is held
    assert meter.memory is not None
    return meter.memory


def test_a_peak_is_forgotten_by_the_next_work() -> None:
    large, small = held(MANY), held(1)
    assert large > MANY
    assert small < large - MANY // 2


def test_a_process_that_was_started_counts() -> None:
    with measuring() as alone:
        pass
    with measuring() as meter:
        subprocess.run([sys.executable, "-c", f"b'x' * {2 * MANY}"], check=True)
    assert alone.memory is not None
    assert meter.memory is not None
    assert meter.memory > 2 * MANY

"""What work costs: the peak of memory is that of the work measured, not of what the process did before."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from harness.store import cost
from harness.store.cost import measuring

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process forget its peak")
MANY = 64 << 20  # bytes


# In a process of its own, as what other tests left in the heap is given to a block again, and no peak grows.
PEAKS = f"""
from harness.store.cost import measuring

def held(size):
    with measuring() as meter:
        block = bytearray(size)
        block[::4096] = b"x" * len(block[::4096])  # each page is written, so that it is held
    return meter.memory

print(held({MANY}), held(1))
"""


def peaks() -> tuple[int, int]:
    """The peaks of a block that holds many bytes, and of the next one, that holds none."""
    done = subprocess.run([sys.executable, "-c", PEAKS], check=True, capture_output=True, text=True)
    large, small = done.stdout.split()
    return int(large), int(small)


def test_a_peak_is_forgotten_by_the_next_work() -> None:
    large, small = peaks()
    assert large > MANY
    assert small < large - MANY // 2


# Blocks so small that the allocator does not ask the system for each, and one above them that is held to the end.
FREED = f"""
from harness.store.cost import measuring

many = [bytearray(50_000) for _ in range(8 * {MANY} // 50_000)]
for block in many:
    block[::4096] = b"x" * len(block[::4096])
last = bytearray(50_000)
del many
with measuring() as meter:
    pass
print(meter.memory)
"""


@pytest.mark.slow
def test_what_was_freed_before_does_not_count() -> None:
    done = subprocess.run([sys.executable, "-c", FREED], check=True, capture_output=True, text=True)
    assert 0 < int(done.stdout) < 4 * MANY


@pytest.mark.slow
def test_the_peak_of_whoever_started_the_process_is_not_its_own() -> None:
    held = bytearray(8 * MANY)
    held[::4096] = b"x" * len(held[::4096])
    large, _ = peaks()
    assert MANY < large < 8 * MANY


@pytest.mark.slow
def test_a_process_that_was_started_counts() -> None:
    with measuring() as alone:
        pass
    with measuring() as meter:
        subprocess.run([sys.executable, "-c", f"b'x' * {2 * MANY}"], check=True)
    assert alone.memory is not None
    assert meter.memory is not None
    assert meter.memory > 2 * MANY


def test_a_system_that_does_not_tell_the_peak_has_that_of_getrusage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmRSS:\t1 kB\n")
    monkeypatch.setattr(cost, "Path", lambda _: status)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert used <= cost.own_peak() <= used + MANY

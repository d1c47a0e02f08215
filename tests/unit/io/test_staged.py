"""Temporary files of killed processes are deleted by who writes next into the folder; those of running ones are not."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from harness.io import locks, staging_names
from harness.io.files import cache_root, write_atomic


def left(path: Path) -> Path:
    """The temporary file of a process that was killed while it wrote `path`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, str(staging_names.new_file(path)[1]).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    found = Path(os.read(reading, 4096).decode())
    os.close(reading)
    os.close(writing)
    assert found.exists()
    return found


@pytest.fixture(autouse=True)
def _never_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_names, "_CLEARED", set())


def test_the_next_write_deletes_what_a_killed_process_left(tmp_path: Path) -> None:
    first, folder = left(tmp_path / "a.run"), left(tmp_path / "b")
    folder.unlink()
    folder.mkdir()
    (folder / "part").touch()
    write_atomic(tmp_path / "c.run", "content")
    assert not first.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["c.run"]


def test_what_running_processes_write_stays(tmp_path: Path) -> None:
    descriptor, mine = staging_names.new_file(tmp_path / "a.run")
    os.close(descriptor)
    staging_names._CLEARED.clear()
    write_atomic(tmp_path / "a.run", "content")
    assert mine.exists()
    assert not staging_names.is_left(mine)


def test_files_of_other_machines_are_deleted_after_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HOST", "far")
    theirs = left(tmp_path / "a.run")
    monkeypatch.setenv("HARNESS_HOST", "here")
    write_atomic(tmp_path / "a.run", "content")
    assert theirs.exists()
    old = time.time() - 8 * 86400
    os.utime(theirs, (old, old))
    staging_names._CLEARED.clear()
    write_atomic(tmp_path / "a.run", "content")
    assert not theirs.exists()


def test_the_cache_is_cleared_everywhere() -> None:
    place = cache_root() / "terms" / "inner" / "agreed"
    place.parent.mkdir(parents=True)
    remains = left(place)
    locks.clear_remains(0)
    assert not remains.exists()


def test_long_names_have_room(tmp_path: Path) -> None:
    write_atomic(tmp_path / ("ø" * 120 + ".run"), "content")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["content"]


def test_a_temporary_folder_is_deleted_and_so_is_that_of_a_killed_process(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with staging_names.folder("trial", tmp_path) as made:
            (made / "part").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (remains,) = tmp_path.iterdir()
    with staging_names.folder("trial", tmp_path) as made:
        assert not remains.exists()
        assert list(tmp_path.iterdir()) == [made]
    assert not list(tmp_path.iterdir())

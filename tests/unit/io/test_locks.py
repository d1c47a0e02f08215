"""Locks: one of several processes or threads has one, it ends with its process, and remains stop nobody."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from process_tools import holding

from harness.errors import HarnessError
from harness.io import staging_names as processes
from harness.io.locks import HeldError, Holder, alone, clear_remains, fetching, held, is_held, read


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_lock_is_there_while_it_is_held_and_nothing_after(tmp_path: Path) -> None:
    path = tmp_path / "new" / ".a.lock"
    with held(tmp_path / "new", "a", "makes index") as lock:
        lock.note("index/1", "index/2")
        lock.note("index/2", "index/3")
        assert is_held(path)
        uses = ("index/1", "index/2", "index/3")
        assert read(path) == Holder(processes.host_name(), os.getpid(), processes.user(), "makes index", uses)
        with held(tmp_path / "new", "b"), held(tmp_path, "a"):
            pass
        assert names(tmp_path / "new") == [".a.lock"]
    assert names(tmp_path / "new") == []
    assert not is_held(path)


def test_threads_exclude_each_other(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with held(tmp_path, "a", pause=lambda _: time.sleep(0.001)):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (80, 1)
    assert names(tmp_path) == []


def test_who_does_not_wait_is_told_whom_for(tmp_path: Path) -> None:
    with held(tmp_path, "a", "makes index"):
        with pytest.raises(HeldError) as caught, held(tmp_path, "a", wait=False):
            pass
        by = f"{processes.host_name()}, process {os.getpid()}, which makes index"
        assert str(caught.value) == f"{tmp_path}: in use by {by}"
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301
    with held(tmp_path, "a", wait=False):
        pass


def test_who_waits_says_so_once_and_can_be_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def pause(seconds: float) -> None:
        now[0] += seconds
        if now[0] > 100:
            raise KeyboardInterrupt

    with held(tmp_path, "a", "makes x"), pytest.raises(KeyboardInterrupt), held(tmp_path, "a", "y", pause=pause):
        pass
    with held(tmp_path, "a"), pytest.raises(KeyboardInterrupt), held(tmp_path, "a", pause=pause):  # silently
        pass
    by = f"{processes.host_name()}, process {os.getpid()}, which makes x"
    assert capsys.readouterr().err == f"waiting for {by}\n"


def test_a_lock_ends_with_its_process_but_not_with_a_pause(tmp_path: Path) -> None:
    with holding(tmp_path, "a") as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(HeldError, match=f"process {process.pid}, which makes index"):
            stack = ExitStack()
            stack.enter_context(held(tmp_path, "a", wait=False))
        process.kill()
        process.wait()
        assert names(tmp_path) == [".a.lock"]
        assert not is_held(tmp_path / ".a.lock")
        with held(tmp_path, "a", wait=False):
            assert read(tmp_path / ".a.lock").process == os.getpid()
    assert names(tmp_path) == []


def test_a_forked_child_neither_keeps_nor_ends_the_lock_of_its_parent(tmp_path: Path) -> None:
    with ExitStack() as stack:
        lock = stack.enter_context(held(tmp_path, "a"))
        child = os.fork()
        if child == 0:
            lock.note("x")
            stack.close()  # what the end of the block does
            (tmp_path / "done").touch()
            time.sleep(600)
        while not (tmp_path / "done").exists():
            time.sleep(0.01)
        with pytest.raises(HeldError), held(tmp_path, "a", wait=False):
            pass
        assert read(tmp_path / ".a.lock").uses == ()
    try:
        with held(tmp_path, "a", wait=False):  # the child lives
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe{", b"[" * 100_000, b'{"process": "x"}\n', b"7\n"])
def test_a_damaged_file_has_a_holder_without_a_name(content: bytes, tmp_path: Path) -> None:
    with held(tmp_path, "a", "makes index"):
        (tmp_path / ".a.lock").write_bytes(content)
        assert str(read(tmp_path / ".a.lock")) == "another machine, process 0"
    with held(tmp_path, "a", wait=False):
        pass


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("content")
    (tmp_path / ".a.lock").symlink_to(tmp_path / "there")
    with pytest.raises(OSError, match="symbolic link"), held(tmp_path, "a"):
        pass
    assert (tmp_path / "there").read_text() == "content"


def test_a_full_disk_and_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(number: int) -> object:
        def fail(*_: object) -> int:
            raise OSError(number, os.strerror(number))

        return fail

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fails(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"), held(tmp_path, "a"):
            pass
    assert names(tmp_path) == []
    monkeypatch.setattr(fcntl, "flock", fails(errno.ENOLCK))
    with held(tmp_path, "a"), held(tmp_path, "a"):  # nobody waits, which may repeat work
        pass
    assert names(tmp_path) == []


def test_one_process_is_alone_in_a_folder(tmp_path: Path) -> None:
    again, said = alone(tmp_path / "new", "another call"), r"new: is in use by another call; name another folder$"
    with alone(tmp_path / "new", "another call"), pytest.raises(HarnessError, match=said), again:
        pass
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match="file: cannot be written: "), alone(tmp_path / "file", ""):
        pass


# ---- the cache --------------------------------------------------------------------------------------------------


def test_files_are_not_fetched_twice_but_a_folder_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fetching(tmp_path), pytest.raises(HeldError), held(tmp_path, "fetch", wait=False):
        pass

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with fetching(tmp_path):
        pass


def test_remains_are_cleared_and_locks_that_are_held_are_not() -> None:
    folder = Path(os.environ["HARNESS_CACHE"]) / "store" / "index"
    folder.mkdir(parents=True)
    (folder / ".left.lock").write_text("{}\n")
    with held(folder, "mine"):
        clear_remains(time.time())
        assert names(folder) == [".mine.lock"]

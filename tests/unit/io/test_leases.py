"""Leases: of several owners, on one machine or on several, one has it; what is gone or garbage stops nobody."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from lease_tools import Clock, foreign, names, on, tick
from process_tools import same_paths

from harness.errors import HarnessError
from harness.io import holders, leases, processes, temporary
from harness.io.leases import HeldError, Lease, held

HOLD = """
import sys, time
from pathlib import Path
from harness.io.leases import held
with held(Path(sys.argv[1]), "a", "makes index"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(holders, "clock", lambda: made.now)
    monkeypatch.setattr(holders, "sleep", made.sleep)
    monkeypatch.setattr(holders, "_SEEN", {})
    return made


def test_a_lease_is_there_while_it_is_held_and_nothing_after(tmp_path: Path) -> None:
    with held(tmp_path / "new", "a", "makes index") as lease:
        assert lease.holds()
        assert names(tmp_path / "new") == [".a.1.lease"]
        assert lease.path is not None
        found = holders.read(lease.path)
        assert found is not None
        assert (found.process, found.user, found.what, found.beats) == (
            os.getpid(),
            processes.user(),
            "makes index",
            0,
        )
        assert found.state() == "running"
        lease.beat()
        lease.note("index/1", "index/2")
        lease.beat()
        again = holders.read(lease.path)
        assert again is not None
        assert (again.beats, again.uses) == (2, ("index/1", "index/2"))
        assert again.token != found.token
        with held(tmp_path / "new", "b"), held(tmp_path, "a"):
            pass
    assert not lease.holds()
    assert names(tmp_path / "new") == []


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
    assert len(most) == 80
    assert max(most) == 1
    assert names(tmp_path) == []


def test_who_does_not_wait_is_told_whom_for(tmp_path: Path) -> None:
    with held(tmp_path, "a", "makes index"):
        with pytest.raises(HeldError) as caught, held(tmp_path, "a", wait=False):
            pass
        assert str(caught.value) == (
            f"{tmp_path}: in use by {processes.host_name()}, process {os.getpid()}, which makes index"
        )
        assert pickle.loads(pickle.dumps(caught.value)).holder == caught.value.holder  # noqa: S301
    with held(tmp_path, "a", wait=False):
        pass


def test_who_waits_says_so_once_and_can_be_interrupted(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    file = foreign(tmp_path)

    def during() -> None:
        tick(file)
        if clock.now > 1600:
            raise KeyboardInterrupt

    clock.during = during
    with pytest.raises(KeyboardInterrupt), held(tmp_path, "a", "makes index"):
        pass
    assert capsys.readouterr().err == "waiting for far, process 7, which makes x\n"
    assert names(tmp_path) == [".a.1.lease"]


def test_an_owner_of_another_machine_is_gone_when_there_was_no_beat_for_the_time(tmp_path: Path, clock: Clock) -> None:
    file = foreign(tmp_path)
    beats = iter([1001.0, 1020.0, 1055.0])
    due = [next(beats)]

    def during() -> None:
        if due[0] and clock.now >= due[0]:
            tick(file)
            due[0] = next(beats, 0.0)

    clock.during = during
    with held(tmp_path, "a"):
        assert 1055 + 60 <= clock.now <= 1055 + 62
        assert names(tmp_path) == [".a.2.lease"]


def test_clock_steps_change_nothing(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign(tmp_path)
    steps = iter([600.0, -1200.0, 86400.0] * 1000)
    monkeypatch.setattr(time, "time", lambda: 1.7e9 + next(steps))
    clock.during = lambda: os.utime(tmp_path / ".a.1.lease", (next(steps) + 1e9,) * 2)  # nor do times of the folder
    with held(tmp_path, "a"):
        assert 1060 <= clock.now <= 1062


def test_a_beat_changes_the_time_of_the_file_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with held(tmp_path, "a") as lease:
        assert lease.path is not None
        before = holders.read(lease.path)
        os.utime(lease.path / lease.owner, (1, 1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            lease.beat()
        after = holders.read(lease.path)
        assert before is not None
        assert after is not None
        assert after.token != (len((lease.path / lease.owner).read_bytes()), 10**9)


def test_who_was_paused_does_not_take_its_own_pause_for_that_of_the_owner(tmp_path: Path, clock: Clock) -> None:
    file = foreign(tmp_path)
    paused: list[float] = []

    def during() -> None:
        if clock.now > 1030 and not paused:
            clock.now += 3600
            paused.append(clock.now)
        elif paused and clock.now > paused[0] + 5 and len(paused) == 1:
            tick(file)  # the owner was paused too, as both are on a machine that slept
            paused.append(clock.now)

    clock.during = during
    with held(tmp_path, "a"):
        assert len(paused) == 2
        assert clock.now >= paused[1] + 60


def test_of_two_that_take_over_one_wins(tmp_path: Path, clock: Clock) -> None:
    foreign(tmp_path)
    first, second = Lease(tmp_path, "a"), Lease(tmp_path, "a")
    assert first.claim(2)
    assert not second.claim(2)
    assert not second.holds() or second.path is None
    assert first.holds()
    second.drop()
    first.drop()
    assert names(tmp_path) == [".a.1.lease"]


def test_two_that_took_different_numbers_do_not_both_go_on(tmp_path: Path, clock: Clock) -> None:
    """Another owner appears between the first look and the claim, with a smaller number."""
    other = Lease(tmp_path, "a")
    holders.OURS.add(other.owner)
    claim = Lease.claim
    came: list[bool] = []

    def late(self: Lease, number: int) -> bool:
        if self is not other and not came:
            came.append(claim(other, 1))
            return claim(self, 5)
        return claim(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lease, "claim", late)
        clock.during = lambda: other.drop() if clock.now > 1003 else None
        with held(tmp_path, "a"):
            assert clock.now > 1003  # it withdrew and waited
            assert names(tmp_path) == [".a.1.lease"]
    holders.OURS.discard(other.owner)


def test_an_owner_that_lost_its_lease_ends_without_harm_to_the_next_one(tmp_path: Path, clock: Clock) -> None:
    with ExitStack() as stack:
        with on("one"):
            lost = stack.enter_context(held(tmp_path, "a"))
        with on("two"), held(tmp_path, "a") as mine:  # the first is paused: it does not beat
            assert not lost.holds()
            assert mine.path == tmp_path / ".a.2.lease"
            mine.drop()
            assert mine.claim(1)  # the number of the first is used again
            lost.beat()
            lost.drop()
            assert mine.holds()
            found = holders.read(tmp_path / ".a.1.lease")
            assert found is not None
            assert (found.owner, found.beats) == (mine.owner, 0)
    assert names(tmp_path) == []


@contextmanager
def another(folder: Path, host: str = "") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(folder)]
    environment = {**same_paths(), **({"HARNESS_HOST": host} if host else {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_the_lease_of_a_killed_process_of_this_machine_is_taken_at_once(tmp_path: Path, clock: Clock) -> None:
    buried: list[str] = []
    with another(tmp_path) as process:
        with pytest.raises(HeldError), held(tmp_path, "a", wait=False):
            pass
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # still a zombie
        owner = next((tmp_path / ".a.1.lease").iterdir()).name
        with held(tmp_path, "a", wait=False, bury=buried.append):
            assert names(tmp_path) == [".a.2.lease"]
        assert buried == [owner]
    assert clock.now == 1000


def test_a_number_that_another_process_has_now_does_not_keep_a_lease(tmp_path: Path, clock: Clock) -> None:
    here = processes.host()
    foreign(tmp_path, host=here, process=os.getppid(), start="1")
    with held(tmp_path, "a", wait=False):
        pass
    assert processes.gone(os.getpid(), "1") is (processes.started(os.getpid()) != "")
    assert not processes.gone(os.getpid(), processes.started(os.getpid()))
    assert not processes.gone(os.getpid(), "")


def test_a_process_of_this_machine_that_is_stopped_loses_its_lease_after_the_time(tmp_path: Path, clock: Clock) -> None:
    with another(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        with held(tmp_path, "a"):
            assert 1060 <= clock.now <= 1062


OWNER = "0" * 16
# Name in the folder -> content; None: a folder. Without a name: the content of a file in the place of the folder.
GARBAGE: tuple[tuple[str, bytes | None], ...] = (
    ("", b"\0"),
    ("x", b"x"),
    ("x", None),
    (OWNER, b"\xff\xfe{"),
    (OWNER, b"[" * 100_000),
    (OWNER, b'{"host": "x", "process": -1}\n'),
    (OWNER, b'{"host": 1e999}\n'),
    (OWNER, None),
)


def free_after_the_time(folder: Path, clock: Clock) -> None:
    with held(folder, "a", "makes index"):
        assert 1060 <= clock.now <= 1062
    with held(folder, "a", wait=False):  # what was there is deleted
        pass


@pytest.mark.parametrize(("name", "content"), GARBAGE)
def test_garbage_in_the_place_of_a_lease_stops_nobody_for_longer_than_a_dead_owner(
    name: str, content: bytes | None, tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / ".a.3.lease" / name
    path.parent.mkdir(exist_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    free_after_the_time(tmp_path, clock)


def test_links_and_pipes_in_the_place_of_a_lease_neither_block_nor_are_followed(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").touch()
    (tmp_path / ".a.3.lease").symlink_to(tmp_path / "there")
    (tmp_path / ".a.4.lease").mkdir()
    os.mkfifo(tmp_path / ".a.4.lease" / OWNER)
    free_after_the_time(tmp_path, clock)
    assert names(tmp_path) == ["there"]
    assert names(tmp_path / "there") == ["x"]


def test_a_lease_that_is_being_released_or_was_left_empty_is_free(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / ".a.1.lease").mkdir()
    (tmp_path / ".a.7.lease").mkdir()
    with held(tmp_path, "a", wait=False):
        assert names(tmp_path) == [".a.1.lease"]
    assert names(tmp_path) == []


def test_a_full_disk_when_the_lease_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left"), held(tmp_path, "a"):
            pass
    with held(tmp_path, "a", wait=False):
        pass
    assert not [name for name in names(tmp_path) if name.endswith(".lease")]


def test_files_are_not_fetched_twice_but_a_folder_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with temporary.fetching(tmp_path), pytest.raises(HeldError), held(tmp_path, "fetch", wait=False):
        pass

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    with temporary.fetching(tmp_path):
        pass


@pytest.mark.parametrize("text", ["x", "0", "-1", "nan", "inf", "1e9"])
def test_the_time_is_a_number_of_seconds(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_LEASE_SECONDS", text)
    with pytest.raises(HarnessError, match=f"HARNESS_LEASE_SECONDS={text}: expected"), held(tmp_path, "a"):
        pass
    assert names(tmp_path) == []


# ---- processes --------------------------------------------------------------------------------------------------


def test_beats_are_made_by_a_thread_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_LEASE_SECONDS", "0.3")
    with held(tmp_path, "a") as lease:
        assert lease.path is not None
        beats = 0
        while beats < 3:
            time.sleep(0.01)
            found = holders.read(lease.path)
            assert found is not None
            beats = found.beats
        threads = [thread for thread in threading.enumerate() if thread.name == "leases"]
        assert [thread.daemon for thread in threads] == [True]
    threads[0].join(60)
    assert not threads[0].is_alive()


def _child(folder: str, owner: str) -> None:
    assert not holders.OURS
    assert not leases._HELD
    found = holders.read(Path(folder, ".a.1.lease"))
    assert found is not None
    assert (found.owner, found.state()) == (owner, "running")
    with pytest.raises(HeldError), held(Path(folder), "a", wait=False):
        pass
    with held(Path(folder), "b"):  # it can have its own
        pass


def test_a_forked_child_neither_beats_nor_ends_the_lease_of_its_parent(tmp_path: Path) -> None:
    with ExitStack() as stack:
        lease = stack.enter_context(held(tmp_path, "a"))
        process = multiprocessing.get_context("fork").Process(target=_child, args=(str(tmp_path), lease.owner))
        process.start()
        process.join()
        assert process.exitcode == 0
        child = os.fork()
        if child == 0:
            try:
                lease.beat()
                lease.note("x")
                stack.close()  # what the end of the block does
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert lease.holds()
        assert lease.path is not None
        found = holders.read(lease.path)
        assert found is not None
        assert (found.beats, found.uses) == (0, ())
        with pytest.raises(HeldError), held(tmp_path, "a", wait=False):
            pass


# ---- remains ----------------------------------------------------------------------------------------------------


def test_remains_are_cleared_and_leases_that_beat_are_not(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Path(os.environ["HARNESS_CACHE"])
    dead, alive = foreign(cache / "store" / "index"), foreign(cache / "store" / "index", name="b")
    left = cache / "files" / f".{'1' * 16}.tmp"
    foreign(cache / "files", name="1" * 16)
    left.write_text("x")
    busy = cache / "files" / f".{'2' * 16}.tmp"
    beating = foreign(cache / "files", name="2" * 16)
    busy.write_text("x")
    half = cache / "files" / f".c.{'3' * 16}.new"
    half.mkdir()
    prepared = foreign(cache / "llm", name="d").parent
    prepared.rename(prepared.with_name(f".d.{'4' * 16}.new"))
    (cache / "llm" / f".e.{'4' * 16}.new").write_text("garbage")
    with held(cache / "store" / "index", "mine"):

        def during() -> None:
            if clock.now - 1000 < 30:
                tick(alive)
                tick(beating)

        clock.during = during
        temporary.clear(time.time())
        assert names(cache / "store" / "index") == [".b.1.lease", ".mine.1.lease"]
    assert not dead.exists()
    assert names(cache / "files") == [f".{'2' * 16}.1.lease", busy.name]
    assert names(cache / "llm") == []
    assert capsys.readouterr().err == "watching 6 leases of other machines for up to 60 s\n"


@pytest.mark.parametrize("killed", ["empty", "prepared", "held", "released"])
def test_remains_of_a_killed_process_go_with_the_next_lease_of_the_name(tmp_path: Path, killed: str) -> None:
    """A process can be killed after each step of taking and releasing a lease."""
    here: dict[str, object] = {
        "host": processes.host(),
        "process": os.getpid(),
        "start": "1",
    }  # a process that had this number before
    path = foreign(tmp_path, 1, "a", **here)
    for name, others in (
        ("a", here),
        ("a.b", {}),
        ("other", here),
    ):  # the last two: neither of this name nor of this machine: kept
        prepared = foreign(tmp_path, 2, name, **others).parent
        prepared.rename(prepared.with_name(f".{name}.{'2' * 16}.new"))
    if killed in ("empty", "released"):
        path.unlink()
    if killed in ("empty", "prepared"):
        path.parent.rename(path.parent.with_name(f".a.{path.name}.new"))
    with held(tmp_path, "a", wait=False):
        assert len(names(tmp_path)) == 3
    kept = [f".a.b.{'2' * 16}.new", f".other.{'2' * 16}.new"]
    assert names(tmp_path) == kept
    leases.clear_remains(tmp_path, {"a.b", "other"})
    assert names(tmp_path) == kept[:1]

"""Processes of a server end with it and are started again; pages are built whenever the lab changes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.labs.lab import new_lab
from harness.labs.server import processes
from harness.labs.server.lab_snapshot import lab_state, make_private, set_site_state, site_state, state_folder
from harness.labs.server.processes import Place, run_server, service, until_stopped
from harness.labs.server.service import ServerSettings


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_a_process_ends_when_its_server_is_gone_even_before_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SERVER_PID", str(os.getppid()))
    assert not until_stopped()()
    monkeypatch.setenv("HARNESS_SERVER_PID", "999999999")
    assert until_stopped()()
    monkeypatch.delenv("HARNESS_SERVER_PID")  # a worker on another machine has no server beside it
    stopped = until_stopped()
    assert not stopped()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stopped()


def test_a_process_that_ends_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    log = tmp_path / "log"
    program.write_text(f"#!/bin/sh\necho $HARNESS_SERVER_PID >> {log}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(processes, "_PAUSE", 0.01)
    stop = threading.Event()
    keeper = threading.Thread(target=processes._keep, args=(["serve", "x"], dict(os.environ), stop))
    keeper.start()
    until = time.monotonic() + 60
    while not log.exists() or len(log.read_text().splitlines()) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    stop.set()
    keeper.join()
    assert set(log.read_text().split()) == {str(os.getpid())}


def test_a_port_that_is_taken_gets_a_line(tmp_path: Path) -> None:
    lab = new_lab(tmp_path / "lab", {"title": "Lab", "collection": "mini-task1"})
    place = Place(lab.folder, state_folder(lab.folder))
    made = service(place, ServerSettings(), None)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(HarnessError, match="cannot serve there"):
        run_server(made, place, "127.0.0.1", taken.getsockname()[1], lambda _: [], print)


def test_the_servers_own_files_are_its_users_alone(tmp_path: Path) -> None:
    make_private(tmp_path / "state")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    (tmp_path / "state").chmod(0o750)
    with pytest.raises(HarnessError, match=r"state: others may read it \(mode 750\); chmod 700 it"):
        make_private(tmp_path / "state")
    assert state_folder(tmp_path / "labs" / "mini") == tmp_path / "labs" / "mini.server"


class Builds:
    """Stands in for `site build`; counts, and changes the lab while it builds if it is told to."""

    def __init__(self, lab: Path, outcomes: list[tuple[str, bool]]) -> None:
        self.lab, self.outcomes, self.made = lab, outcomes, 0
        self.meanwhile: Callable[[], None] = lambda: None

    def __call__(self, *_: object) -> tuple[str, bool]:
        self.made += 1
        self.meanwhile()
        return self.outcomes.pop(0)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(processes.os, "nice", lambda _: 0)  # type: ignore[attr-defined]
    monkeypatch.setattr(processes, "POLL", 0.001)
    return new_lab(tmp_path / "lab", {"title": "Lab", "collection": "mini-task1"}).folder


def run(
    lab: Path, state: Path, builds: Builds, rounds: int, monkeypatch: pytest.MonkeyPatch, address: str = ""
) -> None:
    monkeypatch.setattr(processes, "build_pages", builds)
    left = iter(range(rounds))
    processes.publish(lab, state, address, lambda: next(left, None) is None, pause=0.0)


def test_one_build_for_each_state_of_the_lab(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = Builds(lab, [("made", True)] * 2)
    run(lab, tmp_path, builds, 20, monkeypatch)
    assert builds.made == 1
    assert site_state(tmp_path)["of"] == lab_state(lab) and not site_state(tmp_path)["error"]
    (lab / "lab.yaml").write_text((lab / "lab.yaml").read_text() + "\n")
    run(lab, tmp_path, builds, 20, monkeypatch)
    assert builds.made == 2


def test_pages_are_built_again_for_a_server_at_another_address(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = Builds(lab, [("made", True)] * 2)
    run(lab, tmp_path, builds, 20, monkeypatch, "http://127.0.0.1:8000")
    run(lab, tmp_path, builds, 20, monkeypatch, "https://lab.example.org")
    run(lab, tmp_path, builds, 20, monkeypatch, "https://lab.example.org")
    assert builds.made == 2


def test_pages_that_somebody_deleted_are_built_again(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = Builds(lab, [("made", True)] * 3)
    site = tmp_path / "site"

    def pages() -> None:
        site.mkdir(exist_ok=True)
        for name in ("manifest.json", "index.html"):
            (site / name).write_text("")

    builds.meanwhile = pages
    run(lab, tmp_path, builds, 20, monkeypatch)
    assert builds.made == 1
    shutil.rmtree(site)
    run(lab, tmp_path, builds, 20, monkeypatch)
    assert builds.made == 2
    (site / "index.html").unlink()
    run(lab, tmp_path, builds, 20, monkeypatch)
    assert builds.made == 3


def test_of_two_servers_one_builds(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each at its own address: they would build in turn without end."""
    builds = Builds(lab, [("made", True)] * 3)

    def beside() -> None:
        with ThreadPoolExecutor(1) as pool:  # a second file of the lock, as of another process
            other = iter(range(20))
            pool.submit(processes.publish, lab, tmp_path, "http://two", lambda: next(other, None) is None, 0.0).result()

    builds.meanwhile = beside
    run(lab, tmp_path, builds, 20, monkeypatch, "http://one")
    assert builds.made == 1 and site_state(tmp_path)["server"] == "http://one"
    builds.meanwhile = lambda: None
    run(lab, tmp_path, builds, 20, monkeypatch, "http://two")  # the first one has ended
    assert builds.made == 2 and site_state(tmp_path)["server"] == "http://two"


def test_a_change_during_a_build_is_followed_by_another(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = Builds(lab, [("made", True)] * 2)

    def change() -> None:
        with (lab / "journal.jsonl").open("a") as stream:
            stream.write("x" if builds.made == 1 else "")

    builds.meanwhile = change
    run(lab, tmp_path, builds, 20, monkeypatch)
    assert builds.made == 2


def test_a_failure_is_told_and_tried_again_after_a_while(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = Builds(lab, [("lab: has no submissions yet", False), ("made", True)])
    run(lab, tmp_path, builds, 20, monkeypatch)
    assert builds.made == 1
    assert site_state(tmp_path)["error"] == "lab: has no submissions yet"
    monkeypatch.setattr(processes, "RETRY", 0.0)
    run(lab, tmp_path, builds, 20, monkeypatch)
    assert builds.made == 2
    assert not site_state(tmp_path)["error"]


def test_a_damaged_state_is_none(tmp_path: Path) -> None:
    assert site_state(tmp_path) == {}
    (tmp_path / "site.json").write_text("[1")
    assert site_state(tmp_path) == {}
    set_site_state(tmp_path, {"of": [1, 2]})
    assert site_state(tmp_path) == {"of": [1, 2]}

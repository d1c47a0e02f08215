"""Processes of a server end with it, are started again, and a server that cannot start says why."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.labs.lab import new_lab
from harness.labs.server import processes
from harness.labs.server.lab_snapshot import make_private, state_folder
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

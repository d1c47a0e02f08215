"""A lab's server in this process, with its client and worker; and as a program of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import scipy.stats  # noqa: F401  (else each child process would spend seconds on it)
import uvicorn
from starlette.testclient import TestClient

from harness.labs.lab import Lab
from harness.labs.roster import add_team
from harness.labs.server.accounts import Accounts, Outbox
from harness.labs.server.app import application
from harness.labs.server.database import Database
from harness.labs.server.lab_snapshot import Live, make_private, state_folder
from harness.labs.server.queue import Queue
from harness.labs.server.service import ServerSettings, Service
from harness.labs.server.worker import Limits, UploadWorker

ADDRESS = "http://localhost"
FAST = ServerSettings(rate=1_000_000, uploads=1_000_000, attempts=1_000_000)


@dataclass
class Served:
    """A lab's server without processes of its own: `score` scores what waits."""

    lab: Lab
    service: Service
    limits: Limits = field(default_factory=Limits)
    seconds: float = 0.0  # of the clock of the queue

    def wait(self) -> None:
        """Scores what waits after the longest pause of the queue."""
        self.service.queue.claim("who only looks")
        self.seconds += 86400.0
        self.score()

    def client(self, token: str = "") -> TestClient:
        """Returns a client that keeps cookies, with a token unless it is empty."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        app = application(self.service)
        return TestClient(app, ADDRESS, headers=headers, follow_redirects=False, raise_server_exceptions=False)

    def team(self, name: str) -> str:
        """Adds a team; returns its token."""
        return add_team(self.lab, name)[1]

    def organiser(self, name: str = "org") -> str:
        """Adds an organiser; returns the token."""
        return self.service.accounts.add_organiser(name)

    def score(self) -> None:
        """Scores all uploads that wait, in child processes."""
        worker = UploadWorker(self.lab.folder, self.service.queue, self.limits)
        while worker.ready() and (upload := self.service.queue.claim(worker.name)) is not None:
            worker.score(upload)

    def submit(self, token: str, run: Path | bytes, file: str = "my.run", **fields: str) -> dict[str, Any]:
        """Uploads a run, scores it, and returns the upload as its team sees it."""
        client = self.client(token)
        content = run.read_bytes() if isinstance(run, Path) else run
        answer = client.post("/api/v1/submissions", files={"run": (file, content)}, data=fields)
        if answer.status_code != 202:
            return {"state": str(answer.status_code), **answer.json()}
        self.score()
        found: dict[str, Any] = client.get(f"/api/v1/submissions/{answer.json()['id']}").json()
        return found


def served(lab: Lab, settings: ServerSettings = FAST, limits: Limits | None = None) -> Served:
    """Opens the server of a lab in this process."""
    state = state_folder(lab.folder)
    make_private(state)
    database = Database(str(state / "server.sqlite"))
    folder = lab.folder.resolve()
    queue = Queue(database, state)
    service = Service(Live(folder), state, Accounts(database), queue, settings, Outbox(state / "outbox"))
    made = Served(replace(lab, folder=folder), service, limits or Limits())
    queue.clock = lambda: made.seconds
    return made


@dataclass
class Program:
    """A running `harness serve`."""

    address: str
    organiser: str
    process: subprocess.Popen[str]

    def client(self, token: str = "") -> httpx.Client:
        """Returns a client, with a token unless it is empty."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.address, headers=headers, timeout=60)


@contextmanager
def program(lab: Path, *options: str, port: int = 0, organiser: str = "", wait: float = 60) -> Iterator[Program]:
    """Runs `harness serve`; ends it, and all of its processes, at the end of the block."""
    made = start(lab, *options, port=port, organiser=organiser, wait=wait)
    try:
        yield made
    finally:
        stop(made)


def start(lab: Path, *options: str, port: int = 0, organiser: str = "", wait: float = 60) -> Program:
    """Starts `harness serve`; `organiser` is the organiser's token of an earlier start."""
    command: Sequence[str] = (sys.executable, "-m", "harness", "serve", str(lab), "--port", str(port), *options)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    until = time.monotonic() + wait
    for line in process.stdout:
        if found := re.search("with the token (.+)", line):
            organiser = found[1]
        if found := re.search("served at (.+)", line):
            return Program(found[1], organiser, process)
        assert time.monotonic() < until
    raise AssertionError(f"harness serve ended with {process.wait()}")


def stop(made: Program) -> None:
    """Stops a program as Ctrl-C does, and kills what is left of it."""
    made.process.send_signal(signal.SIGINT)
    try:
        made.process.wait(30)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(made.process.pid, signal.SIGKILL)
        if made.process.stdout is not None:
            made.process.stdout.close()


@contextmanager
def listening(site: Served) -> Iterator[str]:
    """Answers requests on a free port, in a thread of this process; yields the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(application(site.service), lifespan="off", log_level="warning", timeout_keep_alive=5)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()

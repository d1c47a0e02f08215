"""The processes of a server: one that answers, workers that score, one that builds the pages by `site build`.

The first one starts the others and starts them again if they end. Each of them ends when the first one is gone.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from harness.errors import HarnessError
from harness.io.console import hide_progress, log_line
from harness.labs.downloads import write_downloads
from harness.labs.lab import read_lab
from harness.labs.server import lab_snapshot
from harness.labs.server.accounts import Accounts, Outbox
from harness.labs.server.app import application
from harness.labs.server.database import Database
from harness.labs.server.guard import patient
from harness.labs.server.queue import Queue
from harness.labs.server.service import ServerSettings, Service
from harness.labs.server.worker import Limits, UploadWorker
from harness.render.pages import MANIFEST

_PARENT = "HARNESS_SERVER_PID"
DATABASE_VARIABLE = "HARNESS_DATABASE"
_PAUSE = 1.0  # seconds before a process that ended is started again
_MOST_CONNECTIONS = 400
_GRACE = 10  # seconds for requests that run when the server is stopped


@dataclass(frozen=True)
class Place:
    """Where a lab's server has its files.

    Attributes
    ----------
    lab : folder of the lab.
    state : folder of the server's own files: database, uploads, pages.
    database : address of a PostgreSQL database; empty for SQLite in `state`.
    """

    lab: Path
    state: Path
    database: str = ""

    def open(self) -> Database:
        """Opens the database; creates the folder if it is new."""
        lab_snapshot.make_private(self.state)
        return Database(self.database or str(self.state / lab_snapshot.DATABASE))


def until_stopped() -> Callable[[], bool]:
    """Returns a function that tells whether this process was told to stop, or the server that started it is gone."""
    # By the number that the server has given: it may be gone before this process asks for its parent.
    stop, parent = threading.Event(), os.environ.get(_PARENT)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.set())
    return lambda: stop.is_set() or parent not in (None, str(os.getppid()))


def run_worker(place: Place, limits: Limits) -> None:
    """Scores uploads until it is stopped."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # children are forks, and threads do not survive a fork
    queue = Queue(place.open(), place.state)
    stopped = until_stopped()
    queue.sweep()
    hide_progress()
    UploadWorker(place.lab, queue, limits).work(stopped)


def run_publisher(place: Place, address: str) -> None:
    """Builds the pages until it is stopped; `address` is that of the server, empty if unknown."""
    lab_snapshot.make_private(place.state)
    publish(place.lab.resolve(), place.state, address, until_stopped())


def service(place: Place, settings: ServerSettings, outbox: Path | None) -> Service:
    """Opens what pages and API share."""
    database = place.open()
    live = lab_snapshot.Live(place.lab.resolve())
    live.lab()
    live.events()
    return Service(live, place.state, Accounts(database), Queue(database, place.state), settings, Outbox(outbox))


def run_server(
    made: Service,
    place: Place,
    host: str,
    port: int,
    commands: Callable[[str], Sequence[Sequence[str]]],
    told: Callable[[str], None],
) -> None:
    """Answers requests until the process is stopped; starts the processes of `commands` and keeps them running.

    Parameters
    ----------
    port : 0 for any free port.
    commands : called with the address of the server.
    told : called with the address once requests are answered.

    Raises
    ------
    HarnessError
        The port is taken, or the host is not of this machine.
    """
    import uvicorn

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise HarnessError(f"{host}:{port}: cannot serve there: {error.strerror or error}") from None
    stop = threading.Event()
    # Not as an option, which all users of the machine can read: it may hold a password.
    environment = {**os.environ, **({DATABASE_VARIABLE: place.database} if place.database else {})}
    shown = f"[{host}]" if ":" in host else host
    address = made.settings.url or f"http://{shown}:{listening.getsockname()[1]}"
    keepers = [threading.Thread(target=_keep, args=(list(each), environment, stop)) for each in commands(address)]
    config = uvicorn.Config(
        application(made, (host,)),
        http=patient(made.settings.idle),
        ws="none",
        lifespan="off",
        access_log=False,  # addresses hold invitations
        log_level="warning",
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=32 << 10,
    )
    server = uvicorn.Server(config)
    try:
        for keeper in keepers:
            keeper.start()
        told(address)
        server.run(sockets=[listening])
    finally:
        stop.set()
        for keeper in keepers:
            keeper.join()


def _keep(command: list[str], environment: Mapping[str, str], stop: threading.Event) -> None:
    """Runs a process, and again whenever it ends, until `stop`."""
    while not stop.is_set():
        line = [sys.executable, "-P", "-m", "harness", *command]
        own = {**environment, _PARENT: str(os.getpid())}
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, env=own)
        while process.poll() is None and not stop.wait(0.2):
            pass
        if stop.is_set():
            _end_process(process)
            return
        log_line(f"{' '.join(command[:2])}: a process ended with code {process.returncode} and is started again")
        stop.wait(_PAUSE)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
    process.wait()


POLL = 0.5  # seconds
PAUSE = 2.0  # least number of seconds between two builds
LOCK = "site.lock"
RETRY = 10.0  # seconds after which a failed build is tried again


def publish(lab: Path, state: Path, address: str, stopped: Callable[[], bool], pause: float = PAUSE) -> None:
    """Builds the pages of a lab below `state` until `stopped()`, at a lower priority than what answers and scores.

    Pages that were built for a server at another address are built again, and so are pages that somebody deleted. Of
    several servers with one `state`, the first one builds; another begins when that one has ended.
    """
    os.nice(5)
    with (state / LOCK).open("ab") as lock:
        said = False
        while not _is_first(lock):
            if not said:
                log_line(
                    f"pages: another server builds those in {state / lab_snapshot.SITE}; this one waits until it ends"
                )
            said = True
            if stopped():
                return
            time.sleep(POLL)
        _publish(lab, state, address, stopped, pause)


def _is_first(lock: IO[bytes]) -> bool:
    """Returns whether no other process builds these pages; the lock of a process ends with it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)  # else the file system has no locks
    return True


def _publish(lab: Path, state: Path, address: str, stopped: Callable[[], bool], pause: float) -> None:
    failed = tried = 0.0
    written: tuple[int, tuple[str, ...]] | None = None  # time of the settings, and lines on what is not offered
    while not stopped():
        now, published = lab_snapshot.lab_state(lab), lab_snapshot.site_state(state)
        if written is None or written[0] != now[0] or (written[1] and time.monotonic() - tried > 60 * RETRY):
            written, tried = (now[0], _offer(lab, state, written)), time.monotonic()
        same = published.get("of") == now and published.get("server") == address
        same = same and (not published.get("there", True) or _is_there(state / lab_snapshot.SITE))
        if same and (not published.get("error") or time.monotonic() - failed < RETRY):
            time.sleep(POLL)
            continue
        ended = build_pages(lab, state / lab_snapshot.SITE, address, stopped)
        if ended is None:
            return
        said, ok = ended
        at = datetime.now(UTC).isoformat(timespec="seconds")
        there = _is_there(state / lab_snapshot.SITE)
        lab_snapshot.set_site_state(
            state, {"of": now, "server": address, "at": at, "error": "" if ok else said, "there": there}
        )
        if not ok:
            failed = time.monotonic()
            if said != published.get("error"):  # it is tried again and again
                log_line(f"pages: {said}")
        until = time.monotonic() + pause
        while time.monotonic() < until and not stopped():
            time.sleep(POLL / 5)


def _offer(lab: Path, state: Path, before: tuple[int, tuple[str, ...]] | None) -> tuple[str, ...]:
    """Writes the files that the lab offers for download; logs and returns why others are not offered."""
    try:
        lines = tuple(write_downloads(read_lab(lab), state / lab_snapshot.DOWNLOADS))
    except HarnessError as error:
        lines = error.lines
    if before is None or before[1] != lines:  # it is tried again and again
        for line in lines:
            log_line(f"downloads: {line}")
    return lines


def _is_there(site: Path) -> bool:
    """Returns whether the pages are there; the list of files is written last."""
    return all((site / name).is_file() for name in (MANIFEST, "index.html"))


def build_pages(lab: Path, site: Path, address: str, stopped: Callable[[], bool]) -> tuple[str, bool] | None:
    """Builds the pages once; returns the last line of the command and whether it succeeded, None if it was stopped."""
    command = [sys.executable, "-P", "-m", "harness", "site", "build", str(lab), "--output", str(site), "--quiet"]
    command += ["--server", address] if address else []
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    while True:
        try:
            text, _ = process.communicate(timeout=POLL)
            break
        except subprocess.TimeoutExpired:
            if stopped():
                process.terminate()
                process.communicate()
                return None
    lines = [line.removeprefix("harness: ") for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else f"exit code {process.returncode}"), process.returncode == 0

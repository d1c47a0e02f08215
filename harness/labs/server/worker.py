"""Workers: processes that score uploaded runs, one at a time, each in a child process with limits of time and memory.

A child is a fork of its worker, which holds the lab's task, so that a run costs no start of Python. What a run does to
its child - memory, time, a crash of a library - ends with the child.

Only an `OfferError` is a fault of the upload, and final. After anything else the upload stays in the queue: it is tried
again, or the organisers decide.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.data.trec import parse_run, run_bytes
from harness.errors import HarnessError, lacks_memory
from harness.experiments.task import Task
from harness.io.console import log_line, log_text
from harness.io.files import sha256_file
from harness.labs.closing import is_frozen
from harness.labs.journal import Journal, Submitted
from harness.labs.lab import Lab, read_lab
from harness.labs.receipts import team_receipt
from harness.labs.server import database
from harness.labs.server.lab_snapshot import Live, UnreadableError, without_folders
from harness.labs.server.queue import Queue, Upload, worker_name
from harness.labs.submissions import events, from_events, normal
from harness.labs.submit import Offer, OfferError, Receipt, submit_run

POLL = 0.2  # seconds between two looks at an empty queue
AGAIN = 2.0  # seconds until a lab that cannot be read is tried again
_RENEW = 5.0  # seconds between two signs that the worker is at work
_MOST_RESULT = 1 << 22  # bytes of an outcome
# States of outcomes that are none: the lab cannot be scored by now; the attempt failed, for no fault of the run.
_WAIT, _FAILED = "wait", "failed"
Outcome = tuple[str, Mapping[str, Any]]  # state, result


@dataclass(frozen=True)
class Limits:
    """Limits of scoring one run: seconds of wall time, and MiB of memory beyond those of the worker itself."""

    seconds: float = 300.0
    memory: int = 4096


class UploadWorker:
    """Scores uploads of the lab in a folder until it is told to stop."""

    def __init__(self, folder: Path, queue: Queue, limits: Limits) -> None:
        self.folder, self.queue, self.limits = folder.resolve(), queue, limits
        self.live = Live(self.folder)
        self.name = worker_name()
        self._tasks: dict[tuple[object, ...], Task] = {}
        self._said = ""
        self._mended = False

    def work(self, stopped: Callable[[], bool]) -> None:
        """Scores uploads until `stopped()`; a run that is being scored then is given back to the queue."""
        import scipy.stats  # noqa: F401  (seconds, which each child would spend again)

        unusable = database.errors()

        while not stopped():
            pause = AGAIN
            with suppress(*unusable):  # what is claimed is taken over later
                # Uploads wait until the lab can be read: what is wrong with it is no fault of theirs.
                if self.ready():
                    upload = self.queue.claim(self.name)
                    pause = POLL if upload is None else 0.0 if self.score(upload, stopped) else AGAIN
            time.sleep(pause)

    def ready(self) -> bool:
        """Returns whether the lab can be read and scored by, and is not frozen; otherwise the reason is said once.

        What the end of the journal has lost is written again; see `Journal`.
        """
        try:
            self.live.lab()
            if is_frozen(self.live.events()):
                return False
            if not self._mended:
                self._mended = True
                with suppress(HarnessError), Journal(self.folder).locked():
                    pass  # otherwise the next submission does it, or says why it cannot
            self._task()
        except UnreadableError:
            return False
        except HarnessError as error:
            if self._said != str(error):
                self._said = str(error)
                log_text(self._said)
            self.queue.delay("; ".join(error.lines))
            return False
        return True

    def score(self, upload: Upload, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Scores one claimed upload and records the outcome; returns False if it must be scored again."""
        begun = time.monotonic()
        outcome = None
        if self.ready():
            outcome = self._in_child(upload, self._task(), stopped)
        if outcome is None or outcome[0] == _WAIT:
            self.queue.give_back(upload, self.name)
            return False
        (state, result), seconds = outcome, time.monotonic() - begun
        if state == _FAILED:
            reason = str(result["reason"])
            log_line(f"upload {upload.id} of team {upload.team}, attempt {upload.attempts}: {reason}")
            self.queue.fail(upload, self.name, reason, seconds)
            return False
        self.queue.finish(upload, self.name, state, result, seconds)  # type: ignore[arg-type]
        return True

    def _task(self) -> Task:
        """Returns the lab's task, made again only if settings that it depends on have changed."""
        lab = self.live.lab()
        key = (lab.collection, lab.corpus, lab.edition, lab.protocol, lab.measures)
        if key not in self._tasks:
            with lab.guarded():
                self._tasks = {key: lab.task()}
        return self._tasks[key]

    def _in_child(self, upload: Upload, task: Task, stopped: Callable[[], bool]) -> Outcome | None:
        """Scores an upload in a child process; None if it must be scored again, or is another worker's by now."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent, child = os.getpid(), os.fork()
        if child == 0:
            os.close(reading)
            _child(parent, writing, lambda: self._outcome(upload, task), self.limits)  # never returns
        os.close(writing)
        try:
            return self._wait(upload, reading, stopped)
        finally:
            os.close(reading)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _wait(self, upload: Upload, reading: int, stopped: Callable[[], bool]) -> Outcome | None:
        """Waits for the outcome from a child."""
        ends, renewed, data = time.monotonic() + self.limits.seconds, time.monotonic(), b""
        while True:
            ready, _, _ = select.select([reading], [], [], POLL)
            if ready:
                part = os.read(reading, 1 << 16)
                if not part:
                    break
                data += part
                if len(data) > _MOST_RESULT:
                    return _failed("the outcome is too long")
            now = time.monotonic()
            if now > ends:
                return _failed(f"scoring takes more than {self.limits.seconds:g} s (--seconds)")
            if stopped():
                return None
            if now - renewed > _RENEW:
                renewed = now
                if not self.queue.renew(upload, self.name):
                    return None
        try:
            state, result = json.loads(data)
        except ValueError:
            reason = f"perhaps since it needs more than {self.limits.memory:,} MiB of memory (--memory)"
            return _failed(f"scoring ended unexpectedly, {reason}")
        return str(state), result

    def _outcome(self, upload: Upload, task: Task) -> Outcome:
        """Scores an upload, in the child process."""
        place = self.queue.folder / upload.id
        try:
            lab = read_lab(self.folder)
            offer = Offer(place / upload.file, upload.team, **upload.fields)
            if sha256_file(offer.run) != upload.sha256:
                return _failed(f"{offer.run}: damaged: the file is not the one that was uploaded")
            receipt = _submitted_before(lab, upload, offer)
            try:
                now = datetime.fromisoformat(upload.received)
                receipt = receipt or submit_run(lab, offer, bench=task, now=now)
            except HarnessError:
                # An attempt whose worker was killed may have ended meanwhile.
                if (receipt := _submitted_before(lab, upload, offer)) is None:
                    raise
            made = asdict(team_receipt(lab, receipt))
            made["notes"] = list(without_folders(made["notes"], {place: "", self.folder: "lab"}))
            return "done", {"receipt": made}
        except Exception as error:
            if not _is_open(self.folder):
                return _WAIT, {}
            if lacks_memory(error):
                return _failed(f"scoring needs more than {self.limits.memory:,} MiB of memory (--memory)")
            if isinstance(error, OfferError) and _is_intact(place / upload.file, upload.sha256):
                # Its lines hold no paths but these two, and quote what the team has sent as it is.
                return "refused", {"lines": list(without_folders(error.lines, {place: "", self.folder: "lab"}, False))}
            if isinstance(error, HarnessError):
                return _failed("; ".join(error.lines))
            import traceback

            log_text(traceback.format_exc())
            return _failed(f"an error of the harness: {type(error).__name__}: {error}; the server's log has more")


def _is_intact(path: Path, checksum: str) -> bool:
    """Returns whether an upload is on the disk as it was sent; otherwise an error says nothing about the run."""
    try:
        return sha256_file(path) == checksum
    except (OSError, HarnessError):
        return False


def _failed(reason: str) -> Outcome:
    """Returns the outcome of an attempt that failed for no fault of the run; the reason is for organisers."""
    return _FAILED, {"reason": reason}


def _submitted_before(lab: Lab, upload: Upload, offer: Offer) -> Receipt | None:
    """Returns the receipt of a submission that an earlier attempt made before it was killed; None if there is none.

    It has no rank, since other runs may have come since.
    """
    journal = events(lab)
    mine = [each for each in journal if isinstance(each, Submitted) and each.team == upload.team]
    at = [each for each in mine if each.at == upload.received and offer.label in (None, each.label)]
    if not at:
        return None
    try:
        data = run_bytes(offer.run, lab.most_bytes)
        digest = normal(parse_run(data, str(offer.run), name="run", format=offer.format), "run")[0].sha256
    except HarnessError:
        return None  # another upload of the same second was submitted
    submissions = from_events(journal, lab.folder)
    for event in at:
        if event.sha256 == digest:
            version = (event.team, event.label, event.version)
            submission = next(each for each in submissions if (each.team, each.label, each.version) == version)
            made = sum(each.team == upload.team and not each.refunded for each in submissions)
            return Receipt(submission, made, None, ("the rank is on the leaderboard",))
    return None


def _is_open(folder: Path) -> bool:
    """Returns whether the lab can be read and is not frozen; otherwise an error says nothing about a run."""
    try:
        return not is_frozen(events(read_lab(folder)))
    except HarnessError:
        return False


def _child(parent: int, writing: int, outcome: Callable[[], Outcome], limits: Limits) -> None:
    """Writes an outcome as JSON to the parent and leaves the process."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a child ends with its worker
        if os.getppid() != parent:  # which was killed before that call
            os._exit(1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent decides
        _limit_process(limits)
        data = json.dumps(outcome(), allow_nan=False).encode()
        while data:
            data = data[os.write(writing, data) :]
        os._exit(0)
    finally:
        os._exit(1)


def _limit_process(limits: Limits) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (limits.memory << 20)
    seconds = int(limits.seconds) + 1
    for kind, value in ((resource.RLIMIT_AS, most), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))

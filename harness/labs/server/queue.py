"""The queue of uploaded runs: from the upload to its score or refusal.

A row is written after the files are on disk, and the server acknowledges an upload after that, so that what was
acknowledged is kept in spite of kills, full disks and clocks that are set: until it is scored, refused for a fault of
its own, or decided by an organiser. `received` is the time of submission in the lab, by which a later attempt
recognizes a submission that an earlier one made before it was killed.

No time of a row is compared with a clock. A worker counts `lease` up while it scores; whoever has seen a row unchanged
for some seconds of its own monotonic clock takes it over, or tries it again. A worker of this machine that has ended is
recognized at once.

Teams take turns: next is the team whose runs were scored for the fewest seconds, where a team that comes back starts
with at least as many as the team that was served last (start-time fair queueing).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import HarnessError
from harness.io.files import sha256, sync
from harness.io.staging_names import gone, host, started
from harness.labs.names import stamp
from harness.labs.server.database import Database, Session, record_action

State = Literal["queued", "running", "done", "refused", "held"]
UPLOADS = "uploads"
LEASE = 20.0  # seconds without a sign of a worker after which another one takes its upload
PAUSE, SLOWER = 5.0, 6.0  # seconds before the second attempt; the factor from each pause to the next
MOST_ATTEMPTS = 5  # within half an hour
MOST_WAITING = 10  # uploads of a team that wait
_COLUMNS = "id, team, key, sha256, file, fields, received, state, attempts, finished, result"
_ID = re.compile("[A-Za-z0-9_-]+")
_ORPHAN = 3600.0  # seconds after which files without a row are deleted
_WAITING = "state IN ('queued', 'running')"
_CLOCK = ""  # row of `shares` with the seconds of the team that was served last, as teams have names


@dataclass(frozen=True)
class Upload:
    """An uploaded run.

    Attributes
    ----------
    id : random, unguessable.
    key : chosen by the client; a second upload of a team with the same key is the same upload.
    sha256 : of the file's bytes.
    file : name of the file as shown to the team.
    fields : of `labs.submit.Offer`.
    received : time of submission, UTC.
    state : `held` if no attempt could score it, for no fault of its own: its files are kept for the organisers.
    attempts : number of times that a worker has begun.
    result : `lines` of a refusal, `reason` of the last attempt that failed (for organisers), or `receipt`.
    """

    id: str
    team: str
    key: str
    sha256: str
    file: str
    fields: Mapping[str, Any]
    received: str
    state: State
    attempts: int
    finished: str
    result: Mapping[str, Any]

    @property
    def reason(self) -> str:
        """Why the last attempt to score it failed; empty if none did."""
        return str(self.result.get("reason", ""))


def _upload_from_row(row: tuple[Any, ...]) -> Upload:
    id_, team, key, sha256, file, fields, received, state, attempts, finished, result = row
    told = json.loads(result) if result else {}
    return Upload(id_, team, key, sha256, file, json.loads(fields), received, state, attempts, finished, told)


def worker_name() -> str:
    """Returns a name for a worker of this process, by which others on this machine recognize that it has ended."""
    process = os.getpid()
    machine = sha256(host().encode())[:16]
    return f"{machine}:{process}:{started(process)}:{secrets.token_hex(4)}"


def _has_ended(worker: str) -> bool:
    """Returns whether a worker was one of this machine whose process has ended."""
    machine, _, rest = worker.partition(":")
    process, _, rest = rest.partition(":")
    own = machine == sha256(host().encode())[:16] and process.isdecimal()
    return own and gone(int(process), rest.partition(":")[0])


class Queue:
    """The queue in a database, with files below `folder`.

    Parameters
    ----------
    clock : seconds of a clock that is never set.
    """

    def __init__(self, database: Database, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.database, self.folder, self.clock = database, folder / UPLOADS, clock
        self._seen: dict[str, tuple[tuple[Any, ...], float]] = {}  # see `_since`

    def new_folder(self) -> tuple[str, Path]:
        """Creates the folder of an upload; returns its id and the folder."""
        id_ = secrets.token_urlsafe(18)
        folder = self.folder / id_
        folder.mkdir(mode=0o700, parents=True)
        return id_, folder

    def add(
        self, id_: str, team: str, key: str, sha256: str, file: str, fields: Mapping[str, Any], received: str
    ) -> Upload:
        """Adds an upload whose files are in its folder; returns the earlier one if the team has used the key before.

        Raises
        ------
        HarnessError
            The key was used for another file, or too many uploads of the team wait.
        """
        folder = self.folder / id_
        sync(*folder.iterdir(), folder, self.folder)
        with self.database.transaction() as session:
            session.alone()
            same = session.rows(f"SELECT {_COLUMNS} FROM uploads WHERE team = ? AND key = ?", team, key)
            count = "SELECT COUNT(*) FROM uploads WHERE team = ? AND"
            waiting, held = (session.rows(f"{count} {which}", team)[0][0] for which in (_WAITING, "state = 'held'"))
            if not same and waiting + held < MOST_WAITING:
                if not (self.folder / id_ / file).is_file():
                    raise FileNotFoundError(id_)
                if not waiting:
                    _enter(session, team)
                session.rows(
                    "INSERT INTO uploads (id, team, key, sha256, file, fields, received, state, attempts, worker, "
                    "lease, finished, result) VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', 0, '', 0, '', '') "
                    "ON CONFLICT (team, key) DO NOTHING",
                    *(id_, team, key, sha256, file, json.dumps(fields), received),
                )
                same = session.rows(f"SELECT {_COLUMNS} FROM uploads WHERE team = ? AND key = ?", team, key)
                record_action(
                    session, f"team {team}", "upload", {"id": id_, "file": file, "label": fields.get("label", "")}
                )
        stored = _upload_from_row(same[0]) if same else None
        if stored is None or stored.id != id_:
            shutil.rmtree(self.folder / id_, ignore_errors=True)
        if stored is None:
            many = f"{waiting + held} uploads are waiting to be scored"
            asked = f", {held} of them for the organisers; write to them" if held else "; wait until they are"
            raise HarnessError(f"team {team}: {many}{asked}")
        if stored.sha256 != sha256 or stored.fields != json.loads(json.dumps(fields)):
            raise HarnessError(f"the idempotency key {key!r} was used for another upload; choose another key")
        return stored

    def find(self, id_: str) -> Upload | None:
        """Returns an upload; None if there is none."""
        rows = self.database.rows(f"SELECT {_COLUMNS} FROM uploads WHERE id = ?", id_) if _ID.fullmatch(id_) else []
        return _upload_from_row(rows[0]) if rows else None

    def of_team(self, team: str, most: int = 50) -> list[Upload]:
        """Returns the latest uploads of a team, the latest first."""
        sql = f"SELECT {_COLUMNS} FROM uploads WHERE team = ? ORDER BY number DESC LIMIT ?"
        return [_upload_from_row(row) for row in self.database.rows(sql, team, most)]

    def ahead(self, upload: Upload) -> int:
        """Returns the number of uploads that are scored before a waiting one, if teams take turns run by run."""
        rows = self.database.rows(
            "SELECT u.team, COUNT(*), MIN(u.number), COALESCE(MAX(s.seconds), 0), "
            "SUM(CASE WHEN u.number < (SELECT number FROM uploads WHERE id = ?) THEN 1 ELSE 0 END) "
            f"FROM uploads AS u LEFT JOIN shares AS s ON s.team = u.team WHERE u.{_WAITING} GROUP BY u.team",
            upload.id,
        )
        mine = next((row for row in rows if row[0] == upload.team), None)
        if mine is None:
            return 0
        _, _, first, seconds, before = mine
        others = (row for row in rows if row[0] != upload.team)
        ahead = (min(int(row[1]), int(before) + ((row[3], row[2]) < (seconds, first))) for row in others)
        return int(before) + sum(ahead)

    def waiting(self) -> int:
        """Returns the number of uploads that are not scored yet, without those that are held."""
        return int(self.database.rows(f"SELECT COUNT(*) FROM uploads WHERE {_WAITING}")[0][0])

    def troubled(self) -> list[Upload]:
        """Returns the uploads that could not be scored, for no fault of their own, the oldest first."""
        which = f"state = 'held' OR ({_WAITING} AND result <> '') ORDER BY number"
        rows = self.database.rows(f"SELECT {_COLUMNS} FROM uploads WHERE {which}")
        return [_upload_from_row(row) for row in rows]

    def refuse(self, team: str, line: str) -> None:
        """Refuses all uploads of a team that wait, such as those of a stolen token."""
        change = "UPDATE uploads SET state = 'refused', finished = ?, result = ?"
        sql = f"{change} WHERE team = ? AND state IN ('queued', 'held') RETURNING id"
        rows = self.database.rows(sql, stamp(), json.dumps({"lines": [line]}), team)
        for (id_,) in rows:
            shutil.rmtree(self.folder / id_, ignore_errors=True)

    # ---- organisers ----------------------------------------------------------------------------------------------

    def retry(self, id_: str) -> Upload:
        """Lets a held upload, or one whose last attempt failed, be scored again at once.

        Raises
        ------
        HarnessError
            There is no such upload.
        """
        return self._decide(id_, "state = 'queued', attempts = 0, finished = '', result = ''")

    def discard(self, id_: str, line: str) -> Upload:
        """Refuses a held upload, or one whose last attempt failed, and deletes its files.

        Raises
        ------
        HarnessError
            There is no such upload.
        """
        given = (stamp(), json.dumps({"lines": [line]}))
        upload = self._decide(id_, "state = 'refused', finished = ?, result = ?", *given)
        shutil.rmtree(self.folder / upload.id, ignore_errors=True)
        return upload

    def _decide(self, id_: str, change: str, *values: str) -> Upload:
        which = "(state = 'held' OR (state = 'queued' AND result <> ''))"
        sql = f"UPDATE uploads SET {change} WHERE id = ? AND {which} RETURNING {_COLUMNS}"
        rows = self.database.rows(sql, *values, id_.replace("\0", ""))
        if not rows:
            raise HarnessError(f"upload {id_:.40}: does not exist, is being scored, or was decided already")
        return _upload_from_row(rows[0])

    # ---- workers -------------------------------------------------------------------------------------------------

    def claim(self, worker: str) -> Upload | None:
        """Gives the next upload to a worker; None if none can be scored now. Holds those that failed too often.

        Uploads of a team are scored one after the other, so that versions of a label keep their order.
        """
        with self.database.transaction() as session:
            sql = f"SELECT id, team, state, attempts, worker, lease FROM uploads WHERE {_WAITING} ORDER BY number"
            rows = session.rows(sql)
            seconds = dict(session.rows("SELECT team, seconds FROM shares"))
            first: dict[str, tuple[Any, ...]] = {}
            for row in rows:
                first.setdefault(row[1], row)
            self._seen = {row[0]: self._since(row) for row in first.values()}
            for row in sorted(first.values(), key=lambda row: float(seconds.get(row[1], 0.0))):
                if (taken := self._take(session, row, worker)) is not None:
                    share = float(seconds.get(taken.team, 0.0))
                    _set_seconds_used(session, _CLOCK, max(share, float(seconds.get(_CLOCK, 0.0))))
                    return taken
        return None

    def _since(self, row: tuple[Any, ...]) -> tuple[tuple[Any, ...], float]:
        """Returns what a row is now, and since when it was seen to be so."""
        now = (row, self.clock())
        before = self._seen.get(row[0], now)
        return before if before[0] == row else now

    def _take(self, session: Session, row: tuple[Any, ...], worker: str) -> Upload | None:
        """Gives the first upload of a team to a worker, if it can be scored now."""
        id_, _, state, attempts, owner, lease = row
        waited = self.clock() - self._seen[id_][1]
        same = "id = ? AND state = ? AND worker = ? AND lease = ?"  # else another worker was faster
        if state == "queued" and attempts and waited < PAUSE * SLOWER ** (attempts - 1):
            return None
        if state == "running":
            if waited < LEASE and not _has_ended(owner):
                return None
            if attempts >= MOST_ATTEMPTS:
                sql = f"UPDATE uploads SET state = 'held', finished = ?, result = ? WHERE {same}"
                reason = f"the worker was stopped {attempts} times"
                session.rows(sql, stamp(), json.dumps(_hold(reason)), id_, state, owner, lease)
                return None
        change = "UPDATE uploads SET state = 'running', worker = ?, lease = lease + 1, attempts = attempts + 1"
        rows = session.rows(f"{change} WHERE {same} RETURNING {_COLUMNS}", worker, id_, state, owner, lease)
        return _upload_from_row(rows[0]) if rows else None

    def renew(self, upload: Upload, worker: str) -> bool:
        """Shows that a worker is at work; returns False if another worker has the upload."""
        sql = "UPDATE uploads SET lease = lease + 1 WHERE id = ? AND state = 'running' AND worker = ? RETURNING id"
        return bool(self.database.rows(sql, upload.id, worker))

    def give_back(self, upload: Upload, worker: str) -> None:
        """Gives an upload back to the queue as if this attempt had not begun."""
        self._finish(upload, worker, "state = 'queued', worker = '', attempts = attempts - 1", 0.0)

    def delay(self, reason: str) -> None:
        """Records why nothing can be scored now, for organisers."""
        sql = "UPDATE uploads SET result = ? WHERE state = 'queued' AND result = ''"
        self.database.rows(sql, json.dumps({"reason": reason}))

    def fail(self, upload: Upload, worker: str, reason: str, seconds: float = 0.0) -> None:
        """Gives an upload back for another attempt, after a pause; holds it for the organisers after the last one.

        Parameters
        ----------
        reason : why it could not be scored, for organisers.
        seconds : that the attempt took.
        """
        if upload.attempts >= MOST_ATTEMPTS:
            change = "state = 'held', finished = ?, result = ?"
            self._finish(upload, worker, change, seconds, stamp(), json.dumps(_hold(reason)))
        else:
            change = "state = 'queued', worker = '', result = ?"
            self._finish(upload, worker, change, seconds, json.dumps({"reason": reason}))

    def finish(
        self, upload: Upload, worker: str, state: State, result: Mapping[str, Any], seconds: float = 0.0
    ) -> None:
        """Records the outcome of an upload and deletes its files; what another worker has is left alone.

        Parameters
        ----------
        seconds : that the last attempt took.
        """
        given = (state, stamp(), json.dumps(result))
        if self._finish(upload, worker, "state = ?, finished = ?, result = ?", seconds, *given):
            shutil.rmtree(self.folder / upload.id, ignore_errors=True)

    def _finish(self, upload: Upload, worker: str, change: str, seconds: float, *values: str) -> bool:
        with self.database.transaction() as session:
            sql = f"UPDATE uploads SET {change} WHERE id = ? AND state = 'running' AND worker = ? RETURNING id"
            rows = session.rows(sql, *values, upload.id, worker)
            if rows and seconds:
                _set_seconds_used(session, upload.team, _seconds_used(session, upload.team) + seconds)
        return bool(rows)

    def sweep(self) -> None:
        """Deletes files of uploads that were never acknowledged, or are finished."""
        with suppress(FileNotFoundError):
            for folder in self.folder.iterdir():
                with suppress(OSError), self.database.transaction() as session:  # another process deletes it too
                    session.alone()
                    sql = f"SELECT id FROM uploads WHERE id = ? AND ({_WAITING} OR state = 'held')"
                    kept = session.rows(sql, folder.name)
                    if not kept and time.time() - folder.stat().st_mtime > _ORPHAN:
                        shutil.rmtree(folder)


def _hold(reason: str) -> dict[str, object]:
    """Returns the result of an upload that is held until the organisers decide; `reason` is for them."""
    line = "it could not be scored, for no fault of the run; its file is kept, and the organisers decide"
    return {"lines": [line], "reason": reason}


def _seconds_used(session: Session, team: str) -> float:
    rows = session.rows("SELECT seconds FROM shares WHERE team = ?", team)
    return float(rows[0][0]) if rows else 0.0


def _set_seconds_used(session: Session, team: str, seconds: float) -> None:
    sql = "INSERT INTO shares VALUES (?, ?) ON CONFLICT (team) DO UPDATE SET seconds = excluded.seconds"
    session.rows(sql, team, seconds)


def _enter(session: Session, team: str) -> None:
    """Lets a team whose uploads were all scored start with the seconds of the team that was served last."""
    _set_seconds_used(session, team, max(_seconds_used(session, team), _seconds_used(session, _CLOCK)))

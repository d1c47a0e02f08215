"""The queue of uploaded runs: from the upload to its score or refusal.

A row is written after the files are on disk, and the server acknowledges an upload after that, so that what was
acknowledged is scored in spite of kills. A worker has a lease on a row, which it renews; a row whose lease has ended is
given to another worker. `received` is the time of submission in the lab, by which a second attempt recognizes a
submission that the first one made before it was killed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import HarnessError
from harness.server.database import Database, record

State = Literal["queued", "running", "done", "refused", "failed"]
UPLOADS = "uploads"
LEASE = 20.0  # seconds
MOST_ATTEMPTS = 3
MOST_WAITING = 10  # uploads of a team that wait
_COLUMNS = "id, team, key, sha256, file, fields, received, state, attempts, finished, result"
_ID = re.compile("[A-Za-z0-9_-]+")
_ORPHAN = 3600.0  # seconds after which files without a row are deleted


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
    attempts : number of times that a worker has begun.
    result : `lines` of a refusal or failure, or `receipt`; empty while it waits.
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


def _upload(row: tuple[Any, ...]) -> Upload:
    id_, team, key, sha256, file, fields, received, state, attempts, finished, result = row
    told = json.loads(result) if result else {}
    return Upload(id_, team, key, sha256, file, json.loads(fields), received, state, attempts, finished, told)


class Queue:
    """The queue in a database, with files below `folder`."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.folder = database, folder / UPLOADS

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
        sync(self.folder / id_)
        with self.database.transaction() as session:
            same = session.rows(f"SELECT {_COLUMNS} FROM uploads WHERE team = ? AND key = ?", team, key)
            waiting = session.rows(
                "SELECT COUNT(*) FROM uploads WHERE team = ? AND state IN ('queued', 'running')", team
            )[0][0]
            if not same and waiting < MOST_WAITING:
                session.rows(
                    "INSERT INTO uploads (id, team, key, sha256, file, fields, received, state, attempts, worker, "
                    "lease, finished, result) VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', 0, '', 0, '', '') "
                    "ON CONFLICT (team, key) DO NOTHING",
                    *(id_, team, key, sha256, file, json.dumps(fields), received),
                )
                same = session.rows(f"SELECT {_COLUMNS} FROM uploads WHERE team = ? AND key = ?", team, key)
                record(session, f"team {team}", "upload", {"id": id_, "file": file, "label": fields.get("label", "")})
        found = _upload(same[0]) if same else None
        if found is None or found.id != id_:
            shutil.rmtree(self.folder / id_, ignore_errors=True)
        if found is None:
            raise HarnessError(f"team {team}: {waiting} uploads are waiting to be scored; wait until they are")
        if found.sha256 != sha256 or found.fields != json.loads(json.dumps(fields)):
            raise HarnessError(f"the idempotency key {key!r} was used for another upload; choose another key")
        return found

    def find(self, id_: str) -> Upload | None:
        """Returns an upload; None if there is none."""
        with self.database.transaction() as session:
            rows = session.rows(f"SELECT {_COLUMNS} FROM uploads WHERE id = ?", id_) if _ID.fullmatch(id_) else []
        return _upload(rows[0]) if rows else None

    def of_team(self, team: str, most: int = 50) -> list[Upload]:
        """Returns the latest uploads of a team, the latest first."""
        with self.database.transaction() as session:
            rows = session.rows(
                f"SELECT {_COLUMNS} FROM uploads WHERE team = ? ORDER BY number DESC LIMIT ?", team, most
            )
        return [_upload(row) for row in rows]

    def ahead(self, upload: Upload) -> int:
        """Returns the number of uploads that are scored before a waiting one."""
        with self.database.transaction() as session:
            sql = (
                "SELECT COUNT(*) FROM uploads WHERE state IN ('queued', 'running') "
                "AND number < (SELECT number FROM uploads WHERE id = ?)"
            )
            return int(session.rows(sql, upload.id)[0][0])

    def waiting(self) -> int:
        """Returns the number of uploads that are not scored yet."""
        with self.database.transaction() as session:
            return int(session.rows("SELECT COUNT(*) FROM uploads WHERE state IN ('queued', 'running')")[0][0])

    def refuse(self, team: str, line: str) -> None:
        """Refuses all uploads of a team that wait, such as those of a stolen token."""
        with self.database.transaction() as session:
            rows = session.rows(
                "UPDATE uploads SET state = 'refused', finished = ?, result = ? WHERE team = ? AND state = 'queued' "
                "RETURNING id",
                *(_utc(), json.dumps({"lines": [line]}), team),
            )
        for (id_,) in rows:
            shutil.rmtree(self.folder / id_, ignore_errors=True)

    # ---- workers -------------------------------------------------------------------------------------------------

    def claim(self, worker: str) -> Upload | None:
        """Gives the oldest waiting upload to a worker; None if none waits. Marks those that failed too often.

        Uploads of a team are scored one after the other, so that versions of a label keep their order.
        """
        now = time.time()
        with self.database.transaction() as session:
            session.rows(
                "UPDATE uploads SET state = 'failed', finished = ?, result = ? "
                "WHERE state = 'running' AND lease < ? AND attempts >= ?",
                *(_utc(), json.dumps({"lines": [_STOPPED]}), now, MOST_ATTEMPTS),
            )
            rows = session.rows(
                "UPDATE uploads SET state = 'running', worker = ?, lease = ?, attempts = attempts + 1 WHERE id = ("
                "SELECT id FROM uploads AS next WHERE (state = 'queued' OR (state = 'running' AND lease < ?)) "
                "AND NOT EXISTS (SELECT 1 FROM uploads AS before WHERE before.team = next.team "
                "AND before.number < next.number AND before.state IN ('queued', 'running')) "
                f"ORDER BY number LIMIT 1 {session.skip_locked()}) RETURNING {_COLUMNS}",
                *(worker, now + LEASE, now),
            )
        return _upload(rows[0]) if rows else None

    def renew(self, upload: Upload, worker: str) -> bool:
        """Renews a lease; returns False if another worker has the upload."""
        with self.database.transaction() as session:
            rows = session.rows(
                "UPDATE uploads SET lease = ? WHERE id = ? AND state = 'running' AND worker = ? RETURNING id",
                *(time.time() + LEASE, upload.id, worker),
            )
        return bool(rows)

    def give_back(self, upload: Upload, worker: str) -> None:
        """Gives an upload back to the queue, for another attempt."""
        with self.database.transaction() as session:
            session.rows(
                "UPDATE uploads SET state = 'queued', worker = '' WHERE id = ? AND state = 'running' AND worker = ?",
                *(upload.id, worker),
            )

    def finish(self, upload: Upload, worker: str, state: State, result: Mapping[str, Any]) -> None:
        """Records the outcome of an upload and deletes its files; what another worker has is left alone."""
        with self.database.transaction() as session:
            rows = session.rows(
                "UPDATE uploads SET state = ?, finished = ?, result = ? WHERE id = ? AND worker = ? RETURNING id",
                *(state, _utc(), json.dumps(result), upload.id, worker),
            )
        if rows:
            shutil.rmtree(self.folder / upload.id, ignore_errors=True)

    def sweep(self) -> None:
        """Deletes files of uploads that were never acknowledged, or are finished."""
        with self.database.transaction() as session:
            wanted = {row[0] for row in session.rows("SELECT id FROM uploads WHERE state IN ('queued', 'running')")}
        with suppress(FileNotFoundError):
            for folder in self.folder.iterdir():
                with suppress(OSError):  # another process deletes it too
                    if folder.name not in wanted and time.time() - folder.stat().st_mtime > _ORPHAN:
                        shutil.rmtree(folder)


_STOPPED = "scoring was stopped several times; the organisers can see why in the server's log"


def _utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


def sync(folder: Path) -> None:
    """Flushes a folder, its files and its entry in the parent folder to disk."""
    for path in (*folder.iterdir(), folder, folder.parent):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

"""What pages and API share: the lab, its accounts, its queue, and the settings of the server."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from harness.errors import HarnessError
from harness.io.console import log_line
from harness.io.files import sha256_file
from harness.labs.closing import frozen, has_ended, is_frozen
from harness.labs.downloads import Downloads, offered
from harness.labs.lab import Lab
from harness.labs.names import stamp
from harness.labs.roster import BASELINE, Allowance, allowance, roster
from harness.labs.server.accounts import Accounts, Caller, Outbox
from harness.labs.server.lab_snapshot import DOWNLOADS, Live, UnavailableError, site_state, without_folders
from harness.labs.server.queue import Queue, Upload
from harness.labs.submission_storage import MOST_BYTES as MOST_METADATA
from harness.labs.submissions import Submission
from harness.render.pages import file_stem
from harness.store import sidecar

_KEY = re.compile("[A-Za-z0-9._~-]{1,100}")
FIELDS = ("label", "description", "kind", "code", "external_data", "primary", "format")
_MOST_FILE_NAME = 100
PUBLISHED = "The results are published."  # reason of the freeze by which organisers publish


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server.

    Attributes
    ----------
    url : address at which people reach it; empty for that of the request.
    most_upload : maximum size of an uploaded file in bytes, as it is sent.
    rate : requests per minute and address; uploads : uploads per minute and team; attempts : wrong tokens per minute
        and address.
    idle : seconds without a byte of a request's body, or until its headers are complete, after which it is ended.
    least_speed : bytes per second that an upload must reach on average after `idle` seconds.
    asking : whether teams may ask to join; otherwise only invited teams can.
    """

    url: str = ""
    most_upload: int = 1 << 28
    rate: int = 600
    uploads: int = 30
    attempts: int = 10
    idle: float = 20.0
    least_speed: int = 8 << 10
    asking: bool = True

    @property
    def secure(self) -> bool:
        """Whether people reach the server by HTTPS, though the last proxy may use HTTP."""
        return self.url.startswith("https://")


@dataclass(frozen=True)
class Service:
    """A lab's server."""

    live: Live
    state: Path
    accounts: Accounts
    queue: Queue
    settings: ServerSettings
    outbox: Outbox

    @property
    def base(self) -> str:
        """Folder of the lab in its site."""
        return file_stem(self.live.folder.name)

    def lab(self) -> Lab:
        """Returns the lab with its present settings."""
        return self.live.lab()

    def shown(self, lines: Iterable[str]) -> tuple[str, ...]:
        """Returns messages without the server's folders."""
        return without_folders(lines, {self.live.folder: "lab", self.state: "server"})

    def allowance(self, team: str, now: datetime | None = None) -> Allowance:
        """Returns how many submissions a team has made and may make; uploads that wait are not counted."""
        submissions = self.live.submissions()
        return allowance(self.lab(), submissions, self.live.events(), team, now or datetime.now(UTC))

    def of_teams(self) -> list[Submission]:
        """Returns the submissions of all teams in the order of the journal; the baseline is the organisers'."""
        return [each for each in self.live.submissions() if each.team != BASELINE]

    def of_team(self, team: str) -> list[Submission]:
        """Returns the submissions of a team, the latest first."""
        return [each for each in self.live.submissions() if each.team == team][::-1]

    def run(self, team: str, label: str, version: str) -> Submission | None:
        """Returns a version of a run, whose number may be any text; None if there is none."""
        wanted = (team, label, version)
        matching = (each for each in self.live.submissions() if (each.team, each.label, str(each.version)) == wanted)
        return next(matching, None)

    def frozen(self) -> bool:
        """Returns whether the lab is frozen."""
        return is_frozen(self.live.events())

    def revealed(self) -> bool:
        """Returns whether a lab with private judgments has ended; the lab then takes post-hoc runs only."""
        return has_ended(self.live.events())

    def published(self) -> bool:
        """Returns whether the results are final: the lab has ended, or is frozen to publish."""
        freezing = frozen(self.live.events())
        return self.revealed() or (freezing is not None and freezing.reason == PUBLISHED)

    def site(self) -> Mapping[str, Any]:
        """Returns which state of the lab the pages show."""
        return site_state(self.state)

    def downloads(self) -> Downloads:
        """Returns the files that the lab offers to everybody at present."""
        return offered(self.lab(), self.state / DOWNLOADS)

    def by_token(self, token: str) -> Caller | None:
        """Returns who has a token."""
        return self.accounts.holder(token, self.live.events())

    def by_session(self, secret: str) -> Caller | None:
        """Returns who has a session."""
        return self.accounts.in_session(secret, self.live.events())

    def upload(
        self,
        team: str,
        run: tuple[str, IO[bytes]],
        metadata: IO[bytes] | None,
        fields: Mapping[str, Any],
        key: str = "",
    ) -> Upload:
        """Takes an uploaded run into the queue; when it returns, the run is on disk.

        Parameters
        ----------
        run : its file name, and its content.
        metadata : content of its ir_metadata file.
        fields : of `FIELDS`.
        key : makes the upload idempotent; empty for none.

        Raises
        ------
        HarnessError
            The lab is frozen, or the key or a field has a wrong form, or too many uploads wait.
        UnavailableError
            The files cannot be written.
        """
        if key and not _KEY.fullmatch(key):
            raise HarnessError("idempotency key: expected 1 to 100 letters, digits or ._~-")
        if self.frozen():
            raise HarnessError("the lab is frozen; it takes no submissions")
        if team not in roster(self.live.events()):  # the token was revoked while the file was received
            raise HarnessError(f"team {team}: its token was revoked; the organisers can issue another")
        name = file_name(run[0])
        id_, folder = self.queue.new_folder()
        try:
            path = folder / name
            with path.open("wb") as out:
                shutil.copyfileobj(run[1], out)
            if metadata is not None:
                content = metadata.read(MOST_METADATA + 1)
                if len(content) > MOST_METADATA:
                    raise HarnessError(f"metadata: larger than {MOST_METADATA:,} bytes")
                sidecar.sidecar_path(path).write_bytes(content)
            digest = sha256_file(path)
            given = {name: fields[name] for name in FIELDS if fields.get(name) is not None}
            received = stamp()
            return self.queue.add(id_, team, key or secrets.token_urlsafe(18), digest, name, given, received)
        except BaseException as error:
            if self.queue.find(id_) is None:
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                log_line(f"an upload of team {team} could not be kept: {error}")
                raise UnavailableError("the server cannot keep the upload at present; try again later") from None
            raise

    def may_see(self, caller: Caller | None, team: str) -> bool:
        """Returns whether a caller may see uploads and runs of a team: the team itself, and organisers."""
        return caller is not None and (caller.role == "organiser" or caller.name == team)


def file_name(given: str) -> str:
    """Returns the name of an uploaded file without folders and without characters that mean something elsewhere.

    Examples
    --------
    >>> file_name("../../etc/passwd"), file_name("C:\\\\runs\\\\my run.txt.gz"), file_name(".."), file_name("")
    ('passwd', 'my_run.txt.gz', 'run.txt', 'run.txt')
    """
    last = re.split(r"[/\\\\]", given)[-1]
    name = re.sub(r"[^A-Za-z0-9._+=-]", "_", last)[-_MOST_FILE_NAME:].lstrip(".-")
    return name if name.strip("._") and not name.endswith(sidecar.ENDING) else "run.txt"


def same(one: str, other: str) -> bool:
    """Returns whether two secrets are equal, in constant time."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def upload_json(service: Service, upload: Upload) -> dict[str, Any]:
    """Returns an upload as its team sees it, as JSON values."""
    waiting = upload.state in ("queued", "running")
    return {
        "id": upload.id,
        "team": upload.team,
        "file": upload.file,
        "received": upload.received,
        "state": upload.state,
        "ahead": service.queue.ahead(upload) if waiting else None,
        "finished": upload.finished or None,
        "errors": list(upload.result.get("lines", ())),
        "receipt": json.loads(json.dumps(upload.result["receipt"])) if "receipt" in upload.result else None,
    }

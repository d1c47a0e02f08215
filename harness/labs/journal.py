"""The journal of a lab: all events in order, one JSON line each.

Only the journal decides what was submitted. A line is appended and flushed to disk under a lock, after the files that
it refers to be in place. A killed process leaves at most a truncated line, which the next process with the lock
removes. Each line ends with a checksum of itself and the line before it, so that changed, lost and moved lines are
detected.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from harness.errors import HarnessError, format_error
from harness.io.files import sha256
from harness.io.names import PLAIN_NAME

FILE = "journal.jsonl"
Kind = Literal["automatic", "manual", "post-hoc"]
KINDS: tuple[str, ...] = get_args(Kind)
KIND_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "automatic": "nobody adapted queries or results to these topics",
        "manual": "somebody did",
        "post-hoc": "listed without a rank, as all runs after the deadline",
    }
)
LONGEST_NAME = 60  # characters of a team's name or of a label
NAME_RULE = f"letters, digits and _.+=,@()~#%- only, beginning with a letter, digit or _, at most {LONGEST_NAME}"
_SHA = re.compile("[0-9a-f]{64}")


def is_name(text: str) -> bool:
    """Returns whether a text may name a team or a label, and thus a folder."""
    return len(text) <= LONGEST_NAME and PLAIN_NAME.fullmatch(text) is not None


@dataclass(frozen=True)
class Submitted:
    """Event: a run was submitted.

    Attributes
    ----------
    sha256 : of the run's canonical text, independent of the file's name, compression and order.
    checksum : SHA-256 of the file `SHA256SUMS` in its folder, which lists the other files.
    means : measure -> mean; None if no topic counts. Rounded if the judgments are private.
    answered : number of topics of the collection that the run answers.
    primary : whether the team chose it as its primary run.
    harness : version of the harness that scored it.
    at : time of submission, UTC.
    """

    team: str
    label: str
    version: int
    kind: Kind
    description: str
    code: str
    external_data: str
    sha256: str
    checksum: str
    means: Mapping[str, float | None]
    answered: int
    primary: bool
    harness: str
    at: str
    event: Literal["submitted"] = field(default="submitted", kw_only=True)


@dataclass(frozen=True)
class _OfVersion:
    """What an event on one version tells."""

    team: str
    label: str
    version: int
    reason: str
    at: str


@dataclass(frozen=True)
class Withdrawn(_OfVersion):
    """Event: a version was withdrawn; its folder stays."""

    event: Literal["withdrawn"] = field(default="withdrawn", kw_only=True)


@dataclass(frozen=True)
class Chosen:
    """Event: a team chose the label of its primary run."""

    team: str
    label: str
    at: str
    event: Literal["primary"] = field(default="primary", kw_only=True)


@dataclass(frozen=True)
class Joined:
    """Event: an organiser put a team on the roster; `token`: SHA-256 of its token."""

    team: str
    token: str
    at: str
    event: Literal["joined"] = field(default="joined", kw_only=True)


@dataclass(frozen=True)
class Revoked:
    """Event: an organiser revoked a team's token; its submissions stay."""

    team: str
    reason: str
    at: str
    event: Literal["revoked"] = field(default="revoked", kw_only=True)


@dataclass(frozen=True)
class Committed:
    """Event: the lab committed to the seed of its held-out topics; `seed_sha256`: SHA-256 of the seed's text."""

    seed_sha256: str
    at: str
    event: Literal["committed"] = field(default="committed", kw_only=True)


@dataclass(frozen=True)
class Revealed:
    """Event: an organiser revealed the seed of the held-out topics."""

    seed: str
    at: str
    event: Literal["revealed"] = field(default="revealed", kw_only=True)


@dataclass(frozen=True)
class Refused:
    """Event: a team sent an invalid file, which counts towards the lab's `invalid_cap`."""

    team: str
    at: str
    event: Literal["refused"] = field(default="refused", kw_only=True)


@dataclass(frozen=True)
class Refunded(_OfVersion):
    """Event: an organiser decided that a version does not count towards the team's caps."""

    event: Literal["refunded"] = field(default="refunded", kw_only=True)


@dataclass(frozen=True)
class Disqualified(_OfVersion):
    """Event: an organiser disqualified a version; its folder stays."""

    event: Literal["disqualified"] = field(default="disqualified", kw_only=True)


@dataclass(frozen=True)
class Appealed(_OfVersion):
    """Event: a team appealed against a disqualification."""

    event: Literal["appealed"] = field(default="appealed", kw_only=True)


@dataclass(frozen=True)
class Reinstated(_OfVersion):
    """Event: an organiser lifted a disqualification."""

    event: Literal["reinstated"] = field(default="reinstated", kw_only=True)


@dataclass(frozen=True)
class Rejudged:
    """Event: an organiser replaced the lab by one with other judgments; it takes no more runs."""

    edition: str
    reason: str
    at: str
    event: Literal["rejudged"] = field(default="rejudged", kw_only=True)


@dataclass(frozen=True)
class Frozen:
    """Event: an organiser froze the lab: teams can neither submit, withdraw, choose a primary run nor appeal."""

    reason: str
    at: str
    event: Literal["frozen"] = field(default="frozen", kw_only=True)


@dataclass(frozen=True)
class Reopened:
    """Event: an organiser reopened a frozen lab."""

    reason: str
    at: str
    event: Literal["reopened"] = field(default="reopened", kw_only=True)


@dataclass(frozen=True)
class Extended:
    """Event: an organiser set a later deadline, with its time zone; `lab.yaml` has it since then."""

    deadline: str
    reason: str
    at: str
    event: Literal["extended"] = field(default="extended", kw_only=True)


Act = Withdrawn | Refunded | Disqualified | Appealed | Reinstated  # on one version
LabAct = Frozen | Reopened | Extended  # on the lab
Event = Submitted | Act | LabAct | Chosen | Joined | Revoked | Committed | Revealed | Refused | Rejudged
_EVENTS: Mapping[str, type[Event]] = {each.event: each for each in get_args(Event)}
_KEYS: Mapping[str, set[str]] = {name: {each.name for each in fields(event)} for name, event in _EVENTS.items()}


def _is_event(body: Mapping[str, Any]) -> bool:
    """Returns whether a line has the keys and types of an event; names are checked since they become paths."""
    if body.keys() != _KEYS.get(body["event"], set()):
        return False
    for key, value in body.items():
        if key in ("team", "label"):
            right = isinstance(value, str) and is_name(value)
        elif key in ("version", "answered"):
            right = type(value) is int and value >= 1
        elif key == "kind":
            right = value in KINDS
        elif key in ("sha256", "checksum", "token", "seed_sha256", "seed"):
            right = isinstance(value, str) and _SHA.fullmatch(value) is not None
        elif key == "means":
            right = isinstance(value, dict) and all(each is None or type(each) is float for each in value.values())
        elif key == "primary":
            right = type(value) is bool
        else:
            right = isinstance(value, str)
        if not right:
            return False
    return True


class Journal:
    """Journal of the lab in a folder, as of the last read.

    Attributes
    ----------
    events : events in order.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.events: list[Event] = []
        self._end = 0  # bytes read
        self._check = ""  # checksum of the last line read
        self._handle = -1  # file descriptor while the journal is locked

    def catch_up(self) -> None:
        """Reads new lines; ignores a last line without a newline, which is still being written.

        Raises
        ------
        FormatError
            The journal is missing, or one of its lines was changed.
        """
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._end)
                data = stream.read()
        except OSError as error:
            raise format_error(self.path, 0, f"cannot be read: {error.strerror or error}") from None
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            self.events.append(self._event(line))
            self._end += len(line)

    def _event(self, line: bytes) -> Event:
        try:
            body = json.loads(line)
            check = body.pop("check")
            right = line == _line(body, self._check) and _is_event(body)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            right = False
        if not right:
            reason = "damaged: the line was changed, or a line before it is missing; restore the journal from a copy"
            raise format_error(self.path, len(self.events) + 1, reason)
        self._check = str(check)
        return _EVENTS[body["event"]](**body)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of the journal for the block; first removes a line that a killed process left truncated.

        Raises
        ------
        HarnessError
            The journal cannot be written or locked, or is damaged.
        """
        try:
            self._handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise HarnessError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        try:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX)
            except OSError as error:
                reason = f"cannot be locked ({error.strerror or error}); keep the lab on a local disk"
                raise HarnessError(f"{self.path}: {reason}") from None
            self.mend()
            yield
        finally:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def mend(self) -> None:
        """Reads new lines and removes a truncated last line; requires the lock."""
        self.catch_up()
        if os.fstat(self._handle).st_size > self._end:
            os.ftruncate(self._handle, self._end)
            os.fsync(self._handle)

    def append(self, event: Event) -> None:
        """Appends an event and flushes it to disk; requires the lock. On an error nothing is added."""
        line = _line(asdict(event), self._check)
        try:
            done = os.write(self._handle, line) == len(line)
            os.fsync(self._handle)
        except OSError as error:
            self._undo()
            raise HarnessError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        if not done:
            self._undo()
            raise HarnessError(f"{self.path}: cannot be written: the disk is full")
        self.catch_up()

    def _undo(self) -> None:
        os.ftruncate(self._handle, self._end)


def _line(body: Mapping[str, Any], before: str) -> bytes:
    """Formats a line with the checksum of itself and the line before it."""
    text = json.dumps(body, allow_nan=False, sort_keys=True)
    check = sha256(f"{before}\n{text}".encode())[:16]
    return f'{text[:-1]}, "check": "{check}"}}\n'.encode()

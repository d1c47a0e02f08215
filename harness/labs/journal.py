"""The journal of a lab: what happened, a JSON line each, in the order in which it happened.

It alone says what was submitted. A line is appended and flushed to the disk under a lock, after all that it speaks of
lies in its place; a process that is killed before leaves a line that is cut short at most, which the next one that
has the lock removes. Each line ends with a checksum of itself and the line before it, so that a line that was changed,
lost or moved is noticed.
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
from typing import Any, Literal, get_args

from harness.data.trec import TAG
from harness.errors import HarnessError, format_error
from harness.io.files import sha256

FILE = "journal.jsonl"
Kind = Literal["automatic", "manual", "post-hoc"]
KINDS: tuple[str, ...] = get_args(Kind)
LONGEST_NAME = 60  # characters of a team, of a label
NAME_RULE = f"letters, digits and _.+=,@()~#%- only, beginning with a letter, digit or _, at most {LONGEST_NAME}"
_SHA = re.compile("[0-9a-f]{64}")


def is_name(text: str) -> bool:
    """Whether a text may name a team or label, and with them a folder."""
    return len(text) <= LONGEST_NAME and TAG.fullmatch(text) is not None


@dataclass(frozen=True)
class Submitted:
    """A run was submitted.

    Attributes
    ----------
    sha256 : of its content: the rankings, whatever their file was called, packed or sorted like.
    checksum : of the file `SHA256SUMS` in its folder, which has those of all other files.
    means : measure -> mean; None where no topic counts. Rounded where the judgments are private.
    answered : topics of the collection that it answers.
    primary : its team chose it as its primary run.
    harness : the version that scored it.
    at : when, UTC.
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
class Withdrawn:
    """A version was withdrawn; its folder stays."""

    team: str
    label: str
    version: int
    reason: str
    at: str
    event: Literal["withdrawn"] = field(default="withdrawn", kw_only=True)


@dataclass(frozen=True)
class Chosen:
    """A team chose the label of its primary run."""

    team: str
    label: str
    at: str
    event: Literal["primary"] = field(default="primary", kw_only=True)


Event = Submitted | Withdrawn | Chosen
_EVENTS: Mapping[str, type[Event]] = {"submitted": Submitted, "withdrawn": Withdrawn, "primary": Chosen}
_KEYS: Mapping[str, set[str]] = {name: {each.name for each in fields(event)} for name, event in _EVENTS.items()}


def _is_event(body: Mapping[str, Any]) -> bool:
    """Whether a line says what an event says: a journal of others is no place for paths."""
    if body.keys() != _KEYS.get(body["event"], set()):
        return False
    for key, value in body.items():
        if key in ("team", "label"):
            right = isinstance(value, str) and is_name(value)
        elif key in ("version", "answered"):
            right = type(value) is int and value >= 1
        elif key == "kind":
            right = value in KINDS
        elif key in ("sha256", "checksum"):
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
    """The journal of the lab in a folder, read as far as it went when it was last looked at.

    Attributes
    ----------
    events : in their order.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.events: list[Event] = []
        self._end = 0  # bytes read
        self._check = ""  # of the last line read
        self._handle = -1  # of the journal, while it is locked

    def catch_up(self) -> None:
        """Read what was added since; a last line without an end is not there yet.

        Raises
        ------
        FormatError
            There is no journal, or one of its lines is not as it was written.
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
            reason = (
                "damaged: is not as it was written, or a line before it is missing; restore the journal from a copy"
            )
            raise format_error(self.path, len(self.events) + 1, reason)
        self._check = str(check)
        return _EVENTS[body["event"]](**body)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Inside of the block nobody else adds anything; a line that a killed process cut short is removed first.

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
        """With the lock: read what was added, and remove what stands behind the last whole line."""
        self.catch_up()
        if os.fstat(self._handle).st_size > self._end:
            os.ftruncate(self._handle, self._end)
            os.fsync(self._handle)

    def append(self, event: Event) -> None:
        """With the lock: add a line, which is on the disk when this returns; after a fault nothing was added."""
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
    """A line, with the checksum of itself and the line before it."""
    text = json.dumps(body, allow_nan=False, sort_keys=True)
    check = sha256(f"{before}\n{text}".encode())[:16]
    return f'{text[:-1]}, "check": "{check}"}}\n'.encode()

"""The journal of a lab: all events in order, one JSON line each.

Only the journal decides what was submitted. A line is appended and flushed to disk under a lock, after the files that
it refers to are in place. Each line ends with a checksum of itself and the line before it, so that changed, lost and
moved lines are detected. What is lost at the end, in the middle of a line or whole lines, is found by the folders of
submissions, each of which has a copy of its event: readers add these events and say so; the next process with the lock
writes them again, and keeps a line that is cut short in the file `TORN`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

from harness.errors import HarnessError, format_error, os_errors, shortened
from harness.io.console import log_line
from harness.io.files import sha256
from harness.io.names import PLAIN_NAME, file_name
from harness.labs import folders
from harness.labs.folders import ENTRY, SUBMISSIONS, folder_of

FILE = "journal.jsonl"
TORN = "journal.torn"  # the lines that were cut short
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


def label_of_tag(tag: str) -> str:
    """Returns the label of a run without one: its tag, or the name of a file for it (`harness.io.names.file_name`).

    Examples
    --------
    >>> label_of_tag("trees"), label_of_tag("intfloat/e5-base")
    ('trees', 'intfloat-e5-base~a9fb05b6bf351f8a')
    """
    name = unicodedata.normalize("NFC", tag)
    return name if is_name(name) else file_name(name, LONGEST_NAME)


class RecordedEvent:
    """What all events have: a name, under which the journal records them."""

    event: ClassVar[str]

    def __init_subclass__(cls, event: str = "") -> None:
        cls.event = event


@dataclass(frozen=True)
class Submitted(RecordedEvent, event="submitted"):
    """Event: a run was submitted.

    Attributes
    ----------
    sha256 : of the run's canonical text, independent of the file's name, compression and order.
    checksum : SHA-256 of the file `SHA256SUMS` in its folder, which lists the other files.
    means : measure -> mean, None if no topic counts; of private judgments as shown: with noise, or None before the end.
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


@dataclass(frozen=True)
class _OfVersion(RecordedEvent):
    """What an event on one version tells."""

    team: str
    label: str
    version: int
    reason: str
    at: str


class Withdrawn(_OfVersion, event="withdrawn"):
    """Event: a version was withdrawn; its folder stays."""


@dataclass(frozen=True)
class PrimaryRunChosen(RecordedEvent, event="primary"):
    """Event: a team chose the label of its primary run."""

    team: str
    label: str
    at: str


@dataclass(frozen=True)
class TeamJoined(RecordedEvent, event="joined"):
    """Event: an organiser put a team on the roster; `token`: SHA-256 of its token."""

    team: str
    token: str
    at: str


@dataclass(frozen=True)
class Revoked(RecordedEvent, event="revoked"):
    """Event: an organiser revoked a team's token; its submissions stay."""

    team: str
    reason: str
    at: str


@dataclass(frozen=True)
class Committed(RecordedEvent, event="committed"):
    """Event: the lab committed to a seed, by its SHA-256, and noise; `held_out`: whether it draws held-out topics."""

    seed_sha256: str
    at: str
    held_out: bool = True  # as in all earlier versions


@dataclass(frozen=True)
class Revealed(RecordedEvent, event="revealed"):
    """Event: an organiser ended a lab with private judgments, and revealed its seed; empty if it has none."""

    seed: str
    at: str


@dataclass(frozen=True)
class Refused(RecordedEvent, event="refused"):
    """Event: a team sent an invalid file, which counts towards the lab's `invalid_cap`."""

    team: str
    at: str


class Refunded(_OfVersion, event="refunded"):
    """Event: an organiser decided that a version does not count towards the team's caps."""


class Disqualified(_OfVersion, event="disqualified"):
    """Event: an organiser disqualified a version; its folder stays."""


class Appealed(_OfVersion, event="appealed"):
    """Event: a team appealed against a disqualification."""


class Reinstated(_OfVersion, event="reinstated"):
    """Event: an organiser lifted a disqualification."""


@dataclass(frozen=True)
class Rejudged(RecordedEvent, event="rejudged"):
    """Event: an organiser replaced the lab by one with other judgments; it takes no more runs."""

    edition: str
    reason: str
    at: str


@dataclass(frozen=True)
class Frozen(RecordedEvent, event="frozen"):
    """Event: an organiser froze the lab: teams can neither submit, withdraw, choose a primary run nor appeal."""

    reason: str
    at: str


@dataclass(frozen=True)
class Reopened(RecordedEvent, event="reopened"):
    """Event: an organiser reopened a frozen lab."""

    reason: str
    at: str


@dataclass(frozen=True)
class Extended(RecordedEvent, event="extended"):
    """Event: an organiser set a later deadline, with its time zone; `lab.yaml` has it since then."""

    deadline: str
    reason: str
    at: str


Act = Withdrawn | Refunded | Disqualified | Appealed | Reinstated  # on one version
LabAct = Frozen | Reopened | Extended  # on the lab
Event = Submitted | Act | LabAct | PrimaryRunChosen | TeamJoined | Revoked | Committed | Revealed | Refused | Rejudged
_EVENTS: Mapping[str, type[Event]] = {each.event: each for each in get_args(Event)}
_KEYS: Mapping[str, set[str]] = {name: {"event", *(f.name for f in fields(kind))} for name, kind in _EVENTS.items()}


def _is_sha(value: object) -> bool:
    return isinstance(value, str) and _SHA.fullmatch(value) is not None


_RIGHT: Mapping[str, Callable[[Any], bool]] = {  # by key of an event; other keys are texts
    **dict.fromkeys(("team", "label"), lambda value: isinstance(value, str) and is_name(value)),  # they become paths
    **dict.fromkeys(("version", "answered"), lambda value: type(value) is int and value >= 1),
    "kind": lambda value: value in KINDS,
    **dict.fromkeys(("sha256", "checksum", "token", "seed_sha256"), _is_sha),
    "seed": lambda value: value == "" or _is_sha(value),
    "means": lambda value: isinstance(value, dict) and {type(mean) for mean in value.values()} <= {float, type(None)},
    **dict.fromkeys(("primary", "held_out"), lambda value: type(value) is bool),
}


def _is_event(body: Mapping[str, Any]) -> bool:
    """Returns whether a line has the keys and types of an event."""
    keys = _KEYS.get(body["event"], set())
    if not keys - {"held_out"} <= body.keys() <= keys:  # earlier versions did not write that key
        return False
    return all(_RIGHT.get(key, lambda text: isinstance(text, str))(value) for key, value in body.items())


def _made(body: Mapping[str, Any]) -> Event:
    """Returns the event of a line that is one."""
    return _EVENTS[body["event"]](**{name: value for name, value in body.items() if name != "event"})


def _body(event: Event) -> dict[str, Any]:
    return {"event": event.event, **asdict(event)}


def submitted(events: Sequence[Event]) -> set[str]:
    """Returns the folders of all submissions in a journal."""
    return {folder_of(each.team, each.label, each.version) for each in events if isinstance(each, Submitted)}


def entry_text(event: Submitted) -> str:
    """Formats the copy of an event in the folder of its submission."""
    return _canonical_json(_body(event)) + "\n"


class Journal:
    """Journal of the lab in a folder, as of the last read.

    Attributes
    ----------
    events : events in order.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / FILE
        self.events: list[Event] = []
        self._end = 0  # bytes read
        self._tail = b""  # what follows the last whole line
        self._check = ""  # checksum of the last line read
        self._handle = -1  # file descriptor while the journal is locked

    def catch_up(self) -> None:
        """Reads new lines; ignores a last line without a newline, which is still being written, or was cut short.

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
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines(keepends=True):
            self.events.append(self._parse_event(line))
            self._end += len(line)
        self._tail = data[whole:]

    def _parse_event(self, line: bytes) -> Event:
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
        return _made(body)

    # ---- what is lost at the end -------------------------------------------------------------------------------------

    def lost(self) -> tuple[list[Event], list[str]]:
        """Returns the events that the end of the journal has lost, and a line for each loss; reads new lines first.

        The lines also name folders of submissions whose event cannot be found. Nothing is lost while another process
        writes the journal.
        """
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return [], []
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            self.catch_up()
            events, lines = self._lost()
        except OSError:  # another process has the lock
            return [], []
        finally:
            os.close(handle)
        return events, [line.format("is added by the next command that changes the lab") for line in lines]

    def _lost(self) -> tuple[list[Event], list[str]]:
        """Returns what `lost` does; requires a lock. The lines have a place for what becomes of the event."""
        # Of a process that was killed before its line began, all is deleted; see `storing.settle`.
        places = folders.places(self.folder) - submitted(self.events)
        places -= set() if self._tail else folders.unfinished(self.folder)
        whole = self._whole_tail()
        read = {place: self._entry(place, whole) for place in places}
        entries = {place: each for place, each in read.items() if isinstance(each, Submitted)}
        events: list[Event] = []
        versions = {(each.team, each.label): each.version for each in self.events if isinstance(each, Submitted)}
        for place, event in sorted(entries.items(), key=lambda each: (each[1].at, each[1].version, each[0])):
            if event.version == versions.get((event.team, event.label), 0) + 1:
                versions[event.team, event.label] = event.version
                events.append(event)
            else:
                read[place] = "an earlier version has no entry either"
        explained = not self._tail or any(self._is_cut(event) for event in events)
        if not explained and whole is not None and not isinstance(whole, Submitted):
            events.append(whole)
            explained = True
        cut = "the last line is cut off" if self._tail else "the last lines are missing"
        lines = [f"{_escaped(self.path)}: {cut}; {_escaped(_named(event))} {{}}" for event in events]
        for place, reason in read.items():
            if isinstance(reason, str):
                where = _escaped(self.folder / SUBMISSIONS / place)
                lines.append(f"{where}: has no entry in the journal, and none can be made: {_escaped(reason)}")
        if not explained:
            said = shortened(self._tail.decode("utf-8", "replace"), 120)
            lines.append(f"{_escaped(self.path)}: the last line is cut off, and what it said is lost: {_escaped(said)}")
        return events, lines

    def _whole_tail(self) -> Event | None:
        """Returns the event of a last line that lost nothing but its checksum, or a part of it; else None."""
        comma = self._tail.rfind(b",")
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            body = json.loads(self._tail[:comma] + b"}")
            if _is_event(body) and _line(body, self._check).startswith(self._tail):
                return _made(body)
        return None

    def _is_cut(self, event: Event) -> bool:
        """Returns whether the last line is the beginning of an event's."""
        text = _canonical_json(_body(event)).encode()[:-1]
        return text.startswith(self._tail[: len(text)])

    def _entry(self, place: str, whole: Event | None) -> Submitted | str:
        """Returns the event of a submission from its folder, or from the last line; otherwise why there is none."""
        event = None
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
            body = json.loads((self.folder / SUBMISSIONS / place / ENTRY).read_bytes())
            event = _made(body) if _is_event(body) else None
        event = whole if event is None else event
        if not isinstance(event, Submitted) or folder_of(event.team, event.label, event.version) != place:
            return f"{ENTRY} is missing or damaged"
        return folders.fault(self.folder, place, event.checksum) or event

    # ---- writing -----------------------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of the journal for the block; first writes again what its end has lost, and says so.

        Raises
        ------
        HarnessError
            The journal cannot be written or locked, or is damaged.
        """
        with os_errors(self.path, "written"):
            self._handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX)
            except OSError as error:
                reason = f"cannot be locked ({error.strerror or error}); keep the lab on a local disk"
                raise HarnessError(f"{self.path}: {reason}") from None
            self._mend()
            yield
        finally:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def _mend(self) -> None:
        """Reads new lines, keeps a line that is cut short aside, and appends the events that are lost."""
        self.catch_up()
        events, lines = self._lost()
        torn = self._tail
        if torn:
            with os_errors(self.folder / TORN, "written"), (self.folder / TORN).open("ab") as stream:
                stream.write(torn + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            self.undo()
        for event in events:
            self.append(event)
        kept = f"; the cut line is kept in {self.folder / TORN}" if torn else ""
        for line in lines:
            log_line(line.format("is added again") + kept)

    def undo(self) -> None:
        """Reads new lines and removes what this process has written of a line; requires the lock."""
        self.catch_up()
        if self._tail:
            os.ftruncate(self._handle, self._end)
            os.fsync(self._handle)
            self._tail = b""

    def append(self, event: Event) -> None:
        """Appends an event and flushes it to disk; requires the lock. On an error nothing is added."""
        line = _line(_body(event), self._check)
        try:
            done = os.write(self._handle, line) == len(line)
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, self._end)
            raise HarnessError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        if not done:
            os.ftruncate(self._handle, self._end)
            raise HarnessError(f"{self.path}: cannot be written: the disk is full")
        self.catch_up()


def _named(event: Event) -> str:
    """Returns what an event is of, for messages."""
    if isinstance(event, Submitted):
        return f"{SUBMISSIONS}/{folder_of(event.team, event.label, event.version)}"
    return f"the event {event.event!r}"


def _escaped(text: object) -> str:
    """Returns text for a line that is formatted once more."""
    return str(text).replace("{", "{{").replace("}", "}}")


def _canonical_json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, allow_nan=False, sort_keys=True)


def _line(body: Mapping[str, Any], before: str) -> bytes:
    """Formats a line with the checksum of itself and the line before it."""
    text = _canonical_json(body)
    check = sha256(f"{before}\n{text}".encode())[:16]
    return f'{text[:-1]}, "check": "{check}"}}\n'.encode()

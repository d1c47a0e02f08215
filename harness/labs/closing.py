"""Freezing and reopening a lab, and extending its deadline: acts of organisers that concern all teams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from harness.errors import HarnessError
from harness.io import config
from harness.io.files import read_bytes, write_atomic
from harness.labs.journal import Event, Extended, Frozen, Journal, Reopened, Revealed
from harness.labs.lab import FILE, Lab, read_lab
from harness.labs.names import normalised_reason, stamp
from harness.labs.settings import moment
from harness.labs.submission_storage import clear
from harness.labs.submissions import refuse_if_rejudged

_LINE = re.compile(r"(?:#[ \t]*)?deadline:(?:[ \t][^#\r\n]*)?(?P<rest>[ \t]#[^\r\n]*)?(?P<end>\r?\n?)")


def frozen(events: Sequence[Event]) -> Frozen | None:
    """Returns the event that froze the lab; None if the lab is open."""
    last = next((each for each in reversed(events) if isinstance(each, Frozen | Reopened)), None)
    return last if isinstance(last, Frozen) else None


def is_frozen(events: Sequence[Event]) -> bool:
    """Returns whether a lab is frozen: teams can neither submit, withdraw, choose a primary run nor appeal."""
    return frozen(events) is not None


def refuse_if_frozen(lab: Lab, events: Sequence[Event]) -> None:
    """Raises HarnessError if the lab is frozen."""
    if (since := frozen(events)) is not None:
        reason = f" ({since.reason})" if since.reason else ""
        raise HarnessError(
            f"the lab is frozen by the organisers since {since.at}{reason}; nothing can be changed until they reopen it"
        )


def has_ended(events: Sequence[Event]) -> bool:
    """Returns whether the organisers have ended the lab; later runs are post-hoc."""
    return any(isinstance(event, Revealed) for event in events)


@contextmanager
def changed(lab: Lab, *, by_team: bool = False) -> Iterator[Journal]:
    """Locks the journal of a lab for one change, and deletes what killed processes left of theirs.

    Raises
    ------
    HarnessError
        The lab was re-judged; or it is frozen, and a team would change it.
    """
    journal = Journal(lab.folder)
    with journal.locked():
        clear(lab, journal)
        refuse_if_rejudged(lab, journal.events)
        if by_team:
            refuse_if_frozen(lab, journal.events)
        yield journal


def freeze(lab: Lab, reason: str = "", *, now: datetime | None = None) -> Frozen:
    """Freezes a lab: teams can neither submit, withdraw, choose a primary run nor appeal. Organisers can still act.

    Raises
    ------
    HarnessError
        The lab is frozen already or was re-judged, or the reason is unprintable or too long.

    Examples
    --------
    >>> from pathlib import Path
    >>> from harness.labs.lab import new_lab
    >>> lab = new_lab(Path("labs/frozen"), {"title": "Frozen", "collection": "mini-task1"})
    >>> freeze(lab, "The results are checked.").reason, reopen(lab).event
    ('The results are checked.', 'reopened')
    """
    event = Frozen(normalised_reason(reason), stamp(now))
    with changed(lab) as journal:
        if (earlier := frozen(journal.events)) is not None:
            raise HarnessError(f"{lab.folder}: is frozen already, since {earlier.at}")
        journal.append(event)
    return event


def reopen(lab: Lab, reason: str = "", *, now: datetime | None = None) -> Reopened:
    """Ends the freezing of a lab.

    Raises
    ------
    HarnessError
        The lab is not frozen or was re-judged, or the reason is unprintable or too long.
    """
    event = Reopened(normalised_reason(reason), stamp(now))
    with changed(lab) as journal:
        if not is_frozen(journal.events):
            raise HarnessError(f"{lab.folder}: is not frozen")
        journal.append(event)
    return event


def extend(lab: Lab, deadline: datetime, reason: str = "", *, now: datetime | None = None) -> Lab:
    """Sets a later deadline in `lab.yaml`, whose other lines stay as they are, and records it; returns the changed lab.

    If the process is killed between the two, the same call completes them.

    Parameters
    ----------
    deadline : with time zone; in a lab without a deadline, its first one.

    Raises
    ------
    HarnessError
        The deadline has no time zone, is over already, or is not later than the present one; the lab has ended
        or was re-judged; `lab.yaml` is not written with one key per line; or the reason is unprintable
        or too long.

    Examples
    --------
    >>> from pathlib import Path
    >>> from harness.labs.lab import new_lab
    >>> lab = new_lab(Path("labs/later"), {"title": "Later", "collection": "mini-task1"})
    >>> extend(lab, datetime(2099, 12, 31, tzinfo=UTC), "A holiday.").deadline.year
    2099
    """
    now, reason = now or datetime.now(UTC), normalised_reason(reason)
    text = moment("deadline", deadline).isoformat()
    if deadline <= now:
        local = now.astimezone(deadline.tzinfo).isoformat(timespec="seconds")
        raise HarnessError(f"deadline {text}: is over already, the time is {local}; expected a later one")
    path = lab.folder / FILE
    with changed(lab) as journal:
        if has_ended(journal.events):
            # Later runs could be tuned on the final means.
            raise HarnessError(f"{lab.folder}: the lab has ended; the deadline can no longer be changed")
        present = read_lab(lab.folder).deadline
        last = next((each.deadline for each in reversed(journal.events) if isinstance(each, Extended)), None)
        unrecorded = present == deadline and (last is None or moment("deadline", last) != deadline)
        if present is not None and deadline <= present and not unrecorded:
            hint = "expected a later one; to close the lab earlier, freeze it with 'harness lab freeze'"
            raise HarnessError(f"deadline {text}: the present deadline is {present.isoformat()}; {hint}")
        before = read_bytes(path, most=1 << 20)
        write_atomic(path, _with_deadline(before, text, str(path)))
        try:
            journal.append(Extended(text, reason, stamp(now)))
        except BaseException:
            write_atomic(path, before)
            raise
    return replace(lab, deadline=deadline)


def _with_deadline(data: bytes, deadline: str, path: str) -> bytes:
    """Returns the content of `lab.yaml` with another deadline; a commented key is uncommented, a missing one added."""
    lines = data.decode("utf-8").splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if _LINE.fullmatch(line)]
    # A commented key counts only if there is no other.
    at = next((at for at in places if not lines[at].startswith("#")), places[0] if places else None)
    if at is None:
        end = "" if not lines or lines[-1].endswith("\n") else "\n"
        lines.append(f"{end}deadline: '{deadline}'\n")
    elif (match := _LINE.fullmatch(lines[at])) is not None:
        rest = match["rest"]
        lines[at] = f"deadline: '{deadline}'{' ' + rest if rest else ''}{match['end']}"
    made = "".join(lines).encode()
    try:
        right = config.parse(made, path) == {**config.parse(data, path), "deadline": deadline}
    except HarnessError:
        right = False
    if not right:
        raise HarnessError(f"{path}: key 'deadline' cannot be replaced; write it in a line of its own")
    return made

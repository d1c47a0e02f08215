"""Who may do what: tokens, sessions of browsers, invitations, contacts with their outbox, and the audit trail.

Tokens have 256 random bits; only their SHA-256 is stored. Teams' hashes are in the lab's journal, the others here.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.errors import MessageError
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal

from harness.errors import HarnessError
from harness.io.console import log_line
from harness.io.files import sha256, write_atomic
from harness.labs.journal import NAME_RULE, Event, is_name
from harness.labs.names import nfc, normalised_reason, stamp
from harness.labs.roster import check_form, roster, team_with
from harness.labs.server.database import Database, record_action

Role = Literal["team", "organiser"]
SESSION_HOURS = 12
_MOST_CONTACT = 254  # characters of an e-mail address
# Quotes, brackets and colons are left out: they mean something in the header of a message.
_CONTACT = re.compile(r"[^\s@,;:<>\"()\[\]\\]+@[^\s@,;:<>\"()\[\]\\]+")
_ID = "substr(hash, 1, 16)"
_COLUMNS = f"{_ID}, team, contact, state, created, expires"
_MOST_REQUESTS = 200  # requests to join that wait


@dataclass(frozen=True)
class Caller:
    """Who makes a request: a team by its name in the lab, or an organiser.

    Attributes
    ----------
    csrf : token that forms of a browser's session must send; empty for a caller with a token of its own.
    """

    role: Role
    name: str
    csrf: str = ""

    @property
    def actor(self) -> str:
        """Name in the audit trail."""
        return f"{self.role} {self.name}"


@dataclass(frozen=True)
class Invitation:
    """An invitation to join, or a request to.

    Attributes
    ----------
    id : beginning of the SHA-256 of its code.
    team : the team's name; empty if the team chooses it.
    state : `asked` (waits for an organiser), `open`, `used` or `refused`.
    """

    id: str
    team: str
    contact: str
    state: str
    created: str
    expires: str

    def expired(self, now: datetime) -> bool:
        """Returns whether its time is over."""
        return stamp(now) > self.expires


def hashed(secret: str) -> str:
    """Returns the SHA-256 of a token, code or session; any text has one."""
    return sha256(secret.strip().encode("utf-8", "surrogatepass"))


class Accounts:
    """Accounts of a lab's server."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # ---- tokens --------------------------------------------------------------------------------------------------

    def holder(self, token: str, events: Sequence[Event]) -> Caller | None:
        """Returns who has a token; None if nobody has. Compares with every hash, each in constant time."""
        digest = hashed(token)
        known = self.database.rows("SELECT name, hash FROM organisers")
        holders = [Caller("organiser", name) for name, hash_ in known if hmac.compare_digest(hash_, digest)]
        team = team_with(events, token)
        holders += [Caller("team", team)] if team is not None else []
        return holders[0] if holders else None

    def add_organiser(self, name: str) -> str:
        """Adds an organiser, or gives one another token; returns the token, which is stored nowhere.

        Raises
        ------
        HarnessError
            The name has a wrong form.
        """
        name = nfc(name)
        if not is_name(name):
            raise HarnessError(f"organiser {name!r}: expected {NAME_RULE}")
        token = secrets.token_urlsafe(32)
        with self.database.transaction() as session:
            session.rows("DELETE FROM organisers WHERE name = ?", name)
            session.rows("DELETE FROM sessions WHERE role = 'organiser' AND name = ?", name)
            session.rows("INSERT INTO organisers VALUES (?, ?, ?)", name, hashed(token), stamp())
        return token

    def remove_organiser(self, name: str) -> None:
        """Removes an organiser with all sessions.

        Raises
        ------
        HarnessError
            There is no such organiser, or no other one.
        """
        with self.database.transaction() as session:
            names = [row[0] for row in session.rows("SELECT name FROM organisers")]
            if name not in names:
                raise HarnessError(f"organiser {name!r}: there is none; the organisers are {', '.join(sorted(names))}")
            if len(names) == 1:
                raise HarnessError(f"organiser {name}: is the only one; add another first")
            session.rows("DELETE FROM organisers WHERE name = ?", name)
            session.rows("DELETE FROM sessions WHERE role = 'organiser' AND name = ?", name)

    def organisers(self) -> list[str]:
        """Returns the names of the organisers."""
        return [row[0] for row in self.database.rows("SELECT name FROM organisers ORDER BY name")]

    # ---- sessions ------------------------------------------------------------------------------------------------

    def log_in(self, token: str, events: Sequence[Event]) -> tuple[str, Caller] | None:
        """Opens a session for the holder of a token; returns its secret, which is always a new one."""
        holder = self.holder(token, events)
        if holder is None:
            return None
        secret, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        expires = stamp(datetime.now(UTC) + timedelta(hours=SESSION_HOURS))
        with self.database.transaction() as session:
            session.rows("DELETE FROM sessions WHERE expires < ?", stamp())
            row = (hashed(secret), holder.role, holder.name, hashed(token), csrf, expires)
            session.rows("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", *row)
        self.record(holder.actor, "log in", {})
        return secret, Caller(holder.role, holder.name, csrf)

    def in_session(self, secret: str, events: Sequence[Event]) -> Caller | None:
        """Returns who has a session; None if it is unknown, expired, or its token was revoked since."""
        sql = "SELECT role, name, token, csrf FROM sessions WHERE hash = ? AND expires >= ?"
        if not (rows := self.database.rows(sql, hashed(secret), stamp())):
            return None
        role, name, token, csrf = rows[0]
        known = roster(events) if role == "team" else dict(self.database.rows("SELECT name, hash FROM organisers"))
        current = known.get(name, "")
        return Caller(role, name, csrf) if hmac.compare_digest(current, token) else None

    def log_out(self, secret: str) -> None:
        """Ends a session."""
        with self.database.transaction() as session:
            rows = session.rows("DELETE FROM sessions WHERE hash = ? RETURNING role, name", hashed(secret))
            for role, name in rows:
                record_action(session, f"{role} {name}", "log out", {})

    # ---- invitations ---------------------------------------------------------------------------------------------

    def invite(self, team: str, contact: str, days: int) -> str:
        """Makes an invitation, which one team may use once; returns its code, which is stored nowhere.

        Raises
        ------
        HarnessError
            The team's name or the contact has a wrong form, or the number of days is not from 1 to 365.
        """
        if not 1 <= days <= 365:
            raise HarnessError(f"days: is {days}, expected 1 to 365")
        return self._add(team, contact, "open", days)

    def ask(self, team: str, contact: str) -> str:
        """Makes a request to join, which waits for an organiser; returns its code.

        Raises
        ------
        HarnessError
            The team's name or the contact has a wrong form, or too many requests wait.
        """
        if not team:
            raise HarnessError(f"team: is empty; expected {NAME_RULE}")
        now = datetime.now(UTC)
        if sum(each.state == "asked" and not each.expired(now) for each in self.invitations()) >= _MOST_REQUESTS:
            raise HarnessError(f"{_MOST_REQUESTS} requests to join are waiting; ask the organisers")
        return self._add(team, contact, "asked", 90)

    def _add(self, team: str, contact: str, state: str, days: int) -> str:
        team, contact = nfc(team), normalised_reason(contact)
        if team:
            check_form(team)
        if contact and (len(contact) > _MOST_CONTACT or not _CONTACT.fullmatch(contact)):
            raise HarnessError(f"contact {contact!r}: expected an e-mail address, or nothing")
        code, now = secrets.token_urlsafe(24), datetime.now(UTC)
        row = (hashed(code), team, contact, state, stamp(now), stamp(now + timedelta(days=days)))
        with self.database.transaction() as session:
            session.rows("INSERT INTO invitations VALUES (?, ?, ?, ?, ?, ?)", *row)
            if state == "asked":
                record_action(session, "visitor", "ask", {"id": row[0][:16], "team": team, "contact": contact})
        return code

    def invitation(self, code: str) -> Invitation | None:
        """Returns the invitation with a code; None if there is none."""
        rows = self.database.rows(f"SELECT {_COLUMNS} FROM invitations WHERE hash = ?", hashed(code))
        return Invitation(*rows[0]) if rows else None

    def invitations(self) -> list[Invitation]:
        """Returns all invitations and requests, the latest first."""
        sql = f"SELECT {_COLUMNS} FROM invitations ORDER BY created DESC, hash"
        return [Invitation(*row) for row in self.database.rows(sql)]

    def decide(self, id_: str, state: Literal["open", "refused"]) -> Invitation:
        """Accepts or refuses a request to join, or refuses an open invitation.

        Raises
        ------
        HarnessError
            There is no such request or invitation, or a request that would be accepted has expired.
        """
        before = ("asked",) if state == "open" else ("asked", "open")
        with self.database.transaction() as session:
            which = f"{_ID} = ? AND state IN ({', '.join('?' * len(before))})"
            sql = f"UPDATE invitations SET state = ? WHERE {which} RETURNING {_COLUMNS}"
            rows = session.rows(sql, state, id_.replace("\0", ""), *before)
            if not rows:
                raise HarnessError(f"request {id_:.12}: does not exist, or was decided already")
            if state == "open" and Invitation(*rows[0]).expired(datetime.now(UTC)):
                raise HarnessError(f"request {id_:.12}: has expired; invite the team instead")
        return Invitation(*rows[0])

    def use(self, code: str) -> Invitation:
        """Marks an open invitation as used.

        Raises
        ------
        HarnessError
            It does not exist, is used, refused or expired, or waits for an organiser.
        """
        invitation = self.invitation(code)
        sql = "UPDATE invitations SET state = 'used' WHERE hash = ? AND state = 'open' AND expires >= ? RETURNING 1"
        if not self.database.rows(sql, hashed(code), stamp()) or invitation is None:
            raise HarnessError("the invitation does not exist, is used, or has expired; ask the organisers for another")
        return invitation

    def unuse(self, code: str) -> None:
        """Opens an invitation again whose team could not be added."""
        self.database.rows("UPDATE invitations SET state = 'open' WHERE hash = ? AND state = 'used'", hashed(code))

    def contact(self, team: str) -> str:
        """Returns the address of a team; empty if it gave none."""
        rows = self.database.rows("SELECT address FROM contacts WHERE team = ?", team)
        return rows[0][0] if rows else ""

    def set_contact(self, team: str, address: str) -> None:
        """Sets the address of a team."""
        sql = "INSERT INTO contacts VALUES (?, ?) ON CONFLICT (team) DO UPDATE SET address = excluded.address"
        self.database.rows(sql, team, address)

    # ---- audit ---------------------------------------------------------------------------------------------------

    def record(self, actor: str, action: str, details: Mapping[str, Any]) -> None:
        """Adds a line to the audit trail."""
        with self.database.transaction() as session:
            record_action(session, actor, action, details)

    def trail(self, most: int = 200) -> list[dict[str, Any]]:
        """Returns the latest lines of the audit trail, the latest first, with the columns of the table as keys."""
        names = ("number", "at", "actor", "action", "details")
        rows = self.database.rows(f"SELECT {', '.join(names)} FROM audit ORDER BY number DESC LIMIT ?", most)
        return [{**dict(zip(names, row, strict=True)), "details": json.loads(row[-1])} for row in rows]


@dataclass(frozen=True)
class Outbox:
    """A folder of messages; None for no messages."""

    folder: Path | None = None

    def send(self, to: str, subject: str, text: str) -> None:
        """Writes a message; nothing without an address.

        Examples
        --------
        >>> Outbox(Path("outbox")).send("a@example.org", "Accepted", "Your team was accepted.")
        >>> len(list(Path("outbox").glob("*.eml")))
        1
        """
        if self.folder is None or not to:
            return
        message = EmailMessage()  # refuses headers of several lines
        try:
            message["To"], message["Subject"] = to, " ".join(subject.split())
            message.set_content(text)
            data = message.as_bytes()
        except (ValueError, IndexError, AttributeError, MessageError) as error:  # the parser of addresses is fragile
            log_line(f"{self.folder}: a message to {to} could not be made: {error}")
            return
        name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(6)}.eml"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self.folder / name, data)
        except OSError as error:
            log_line(f"{self.folder}: cannot be written: {error.strerror or error}; a message was not kept")

"""Who may submit: the teams on a lab's roster, their tokens and names, and how many submissions each may make.

A token has 256 random bits, so its hash needs no salt and may be public. `submit` trusts the team's name that it is
given; whoever calls it for a participant takes the name from `team_of`.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.errors import HarnessError, format_error, suggestion
from harness.io.files import read_bytes, sha256, write_atomic
from harness.labs.closing import changed
from harness.labs.folders import PRIVATE
from harness.labs.journal import NAME_RULE, Event, Refused, Revoked, Submitted, TeamJoined, is_name
from harness.labs.lab import Lab
from harness.labs.names import confusable, mentions, nfc, normalised_reason, stamp
from harness.labs.submission_storage import private_folder
from harness.labs.submissions import Submission, events

BASELINE = "baseline"  # team of the baseline run, which organisers submit
_PSEUDONYM = re.compile("team-[0-9a-f]{8}")
NAMES = ".names.json"  # pseudonym -> name, in the private folder


def roster(events: Sequence[Event]) -> dict[str, str]:
    """Returns the teams on the roster: team -> SHA-256 of its token."""
    token_of: dict[str, str] = {}
    for event in events:
        if isinstance(event, TeamJoined):
            token_of[event.team] = event.token
        elif isinstance(event, Revoked):
            token_of.pop(event.team, None)
    return token_of


def has_roster(lab: Lab, events: Sequence[Event]) -> bool:
    """Returns whether only teams on the roster may submit: with private judgments, and once a team was added."""
    return lab.private or any(isinstance(event, TeamJoined) for event in events)


def fault(lab: Lab, events: Sequence[Event], team: str) -> str:
    """Returns why a team may not submit, in one line; empty if it may."""
    if team == BASELINE or not has_roster(lab, events):
        return ""
    known = roster(events)
    if team in known:
        return ""
    if any(isinstance(event, Revoked) and event.team == team for event in events):
        return f"team {team}: its token was revoked; the organisers can add the team again"
    near = suggestion(team, known) if known else f"add teams with 'harness lab team add {lab.folder} TEAM'"
    return f"team {team!r}: is not on the roster; {near}"


def team_of(lab: Lab, token: str) -> str:
    """Returns the team that a token belongs to.

    Raises
    ------
    HarnessError
        No team on the roster has this token.
    """
    team = team_with(events(lab), token)
    if team is None:
        raise HarnessError(f"{lab.folder}: the token is unknown or was revoked; the organisers can issue another")
    return team


def team_with(given: Sequence[Event], token: str) -> str | None:
    """Returns the team that a token belongs to, by the events of a journal; None if there is none."""
    # Bytes of the environment that are no UTF-8 are surrogates here; such a token is unknown, as others are.
    digest = sha256(token.strip().encode("utf-8", "surrogatepass"))
    # Every hash is compared in constant time, so that the time tells nothing about a token.
    teams = [team for team, known in roster(given).items() if hmac.compare_digest(known, digest)]
    return teams[0] if teams else None


def add_team(lab: Lab, name: str, *, new: bool = False, now: datetime | None = None) -> tuple[str, str]:
    """Puts a team on the roster; returns its name in the lab, which may be a pseudonym, and its token.

    The token is stored nowhere. A team whose token was revoked gets another one.

    Parameters
    ----------
    new : for a name that a participant has chosen: refuses a team of the lab even if its token was revoked, since its
        runs belong to others, and names no team behind a pseudonym.

    Raises
    ------
    HarnessError
        The name has a wrong form, is on the roster, or looks like another team's.

    Examples
    --------
    >>> from pathlib import Path
    >>> from harness.labs.lab import new_lab
    >>> lab = new_lab(Path("labs/listed"), {"title": "Listed", "collection": "mini-task1"})
    >>> team, token = add_team(lab, "DPRL")
    >>> team, len(token), team_of(lab, token)
    ('DPRL', 43, 'DPRL')
    """
    now, token, given = now or datetime.now(UTC), secrets.token_urlsafe(32), nfc(name)
    check_form(given)
    with changed(lab) as journal:
        names = real_names(lab)
        taken = roster(journal.events)
        team = _pseudonym_of(names, given)
        there = {event.team for event in journal.events if isinstance(event, TeamJoined | Submitted)}
        if new and team in there:
            raise HarnessError(f"team {given}: is in the lab already; choose another name, or ask its organisers")
        if team in taken:
            raise HarnessError(f"team {given}: is on the roster; revoke its token before you issue another")
        named = not _hides(lab, now)
        check_name(lab, journal.events, given, hide=new and not named)
        if not named and team not in names and team not in there:  # else it would have two names, and two caps
            team = f"team-{secrets.token_hex(4)}"
            names = {**names, team: given}
            write_atomic(private_folder(lab) / NAMES, json.dumps(names, indent=1, sort_keys=True) + "\n")
        journal.append(TeamJoined(team, sha256(token.encode()), stamp(now)))
    return team, token


def check_form(name: str) -> None:
    """Raises HarnessError if a name has a wrong form, or is that of the organisers' team."""
    if not is_name(name):
        raise HarnessError(f"team {name!r}: expected {NAME_RULE}")
    if name == BASELINE:
        raise HarnessError(f"team {BASELINE!r}: is the organisers'; choose another name")


def check_name(lab: Lab, events: Sequence[Event], name: str, *, hide: bool = False) -> None:
    """Checks that a team can join by a name.

    Parameters
    ----------
    hide : whether the message names no other team.

    Raises
    ------
    HarnessError
        The name has a wrong form, or looks like another team's.
    """
    given, names = nfc(name), real_names(lab)
    check_form(given)
    team = _pseudonym_of(names, given)
    there = {event.team for event in events if isinstance(event, TeamJoined | Submitted)}
    for other in {BASELINE, *there, *names.values()} - {given, team, names.get(team)}:
        if alike := confusable(given, other):
            like = "another team" if hide else f"the existing team {alike[1]}"
            raise HarnessError(f"team {alike[0]}: resembles {like}; choose another name")


def is_known(lab: Lab, events: Sequence[Event], team: str) -> bool:
    """Returns whether a team was ever in the lab, by its name or its pseudonym."""
    name = known_as(lab, team)
    return any(isinstance(event, TeamJoined | Submitted) and event.team == name for event in events)


def revoke_team(lab: Lab, team: str, reason: str = "", *, now: datetime | None = None) -> None:
    """Revokes the token of a team; its submissions stay.

    Raises
    ------
    HarnessError
        The team is not on the roster, or the reason is unprintable or too long.
    """
    team, reason = known_as(lab, team), normalised_reason(reason)
    with changed(lab) as journal:
        known = roster(journal.events)
        if team not in known:
            raise HarnessError(f"team {team!r}: is not on the roster; {suggestion(team, known)}")
        journal.append(Revoked(team, reason, stamp(now)))


def real_names(lab: Lab) -> dict[str, str]:
    """Returns the teams' names, pseudonym -> name; empty for a participant, who lacks the private folder.

    Raises
    ------
    FormatError
        The file is damaged.
    """
    path = lab.folder / PRIVATE / NAMES
    if not path.is_file():
        return {}
    try:
        names = json.loads(read_bytes(path, most=1 << 20))
    except ValueError:
        names = None
    right = isinstance(names, dict) and all(isinstance(name, str) and is_name(name) for name in names.values())
    if not isinstance(names, dict) or not right:
        raise format_error(path, 0, "damaged: expected pseudonyms and names; restore it from a copy")
    return names


def known_as(lab: Lab, team: str) -> str:
    """Returns the name of a team in the lab: its pseudonym if it has one, else the name itself, in NFC."""
    return _pseudonym_of(real_names(lab), nfc(team))


def _pseudonym_of(names: Mapping[str, str], team: str) -> str:
    return team if team in names else next((pseudonym for pseudonym, real in names.items() if real == team), team)


def _hides(lab: Lab, now: datetime | None) -> bool:
    return lab.pseudonyms_until is not None and (now or datetime.now(UTC)) < lab.pseudonyms_until


def public_names(lab: Lab, now: datetime | None = None) -> Mapping[str, str]:
    """Returns pseudonym -> name after the lab's `pseudonyms_until`; empty before, and without the private folder."""
    return {} if lab.pseudonyms_until is None or _hides(lab, now) else real_names(lab)


def hidden_names(lab: Lab, now: datetime | None = None) -> Mapping[str, str]:
    """Returns pseudonym -> name before the lab's `pseudonyms_until`; empty after, and without the private folder."""
    return real_names(lab) if _hides(lab, now) else {}


@dataclass(frozen=True)
class Allowance:
    """Numbers of submissions of a team with the maximum of each; None for no maximum.

    Attributes
    ----------
    made, cap : in all, without refunded ones.
    today, cap_per_day : of the present day, UTC.
    invalid, invalid_cap : invalid files.
    """

    made: int
    cap: int | None
    today: int
    cap_per_day: int | None
    invalid: int
    invalid_cap: int | None

    def faults(self, team: str) -> list[str]:
        """Returns a line for each maximum of submissions that is reached."""
        out = []
        if self.cap is not None and self.made >= self.cap:
            out.append(f"team {team}: has made {self.made} of {self.cap} submissions, including withdrawn ones")
        if self.cap_per_day is not None and self.today >= self.cap_per_day:
            out.append(f"team {team}: has made {self.today} of {self.cap_per_day} submissions of this day (UTC)")
        return out


def allowance(
    lab: Lab, submissions: Sequence[Submission], events: Sequence[Event], team: str, now: datetime
) -> Allowance:
    """Counts the submissions of a team.

    Parameters
    ----------
    submissions, events : all submissions and events of the lab's journal.
    """
    counted = [each for each in submissions if each.team == team and not each.refunded]
    today = sum(each.submitted[:10] == stamp(now)[:10] for each in counted)
    invalid = sum(isinstance(event, Refused) and event.team == team for event in events)
    return Allowance(len(counted), lab.cap, today, lab.cap_per_day, invalid, lab.invalid_cap)


@dataclass(frozen=True)
class Names:
    """Names of teams at one time.

    Attributes
    ----------
    public : pseudonym -> name, once names are public.
    hidden : names behind pseudonyms that are not public yet; unknown without the lab's private folder.
    """

    lab: Lab
    now: datetime
    public: Mapping[str, str]
    hidden: tuple[str, ...]

    def team(self, team: str) -> str:
        """Returns the name of a team as leaderboards show it; addresses of pages keep the pseudonym."""
        return self.public.get(team, team)

    def is_hidden(self, team: str) -> bool:
        """Returns whether a team has a pseudonym that still hides its name."""
        return _hides(self.lab, self.now) and _PSEUDONYM.fullmatch(team) is not None

    def text(self, text: str) -> str:
        """Returns a text; empty if it has a hidden name in it."""
        return "" if any(mentions(text, name) for name in self.hidden) else text

    @property
    def until(self) -> str:
        """Time at which names become public."""
        until = self.lab.pseudonyms_until
        return "" if until is None else until.strftime("%Y-%m-%d %H:%M %Z")


def names_of(lab: Lab, now: datetime) -> Names:
    """Returns the names of a lab's teams as they are shown at a time."""
    return Names(lab, now, public_names(lab, now), tuple(hidden_names(lab, now).values()))

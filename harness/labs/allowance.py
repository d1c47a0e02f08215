"""How many submissions a team has made, and how many it may make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.labs.journal import Event, Refused
from harness.labs.lab import Lab
from harness.labs.names import stamp
from harness.labs.submissions import Submission


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

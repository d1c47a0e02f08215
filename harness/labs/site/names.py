"""Names of a lab's teams as its site shows them, and which texts of teams must wait until pseudonyms end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from harness.labs.lab import Lab
from harness.labs.names import mentions
from harness.labs.roster import hidden_names, is_pseudonym, public_names


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
        return is_pseudonym(self.lab, team, self.now)

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

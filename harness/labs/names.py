"""Names of teams and labels: Unicode form, names that people would confuse, and time stamps of events."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime

# Greek and Cyrillic letters that look like a Latin one, in lower or upper case.
_LATIN = str.maketrans("αβεζηικμνορτυχавеѕіјкмнорстухһԁԛԝ", "abezhikmnoptyxabesijkmhopctyxhdqw")


_LEAST = 4  # letters of a name that is found within words


def nfc(name: str) -> str:
    """Normalises a name to Unicode form NFC."""
    return unicodedata.normalize("NFC", name)


def confusable(one: str, other: str) -> tuple[str, str] | None:
    """Returns two names as messages show them if people would confuse them, else None."""
    if one.casefold() == other.casefold():
        return repr(one), repr(other)
    first, second = (unicodedata.normalize("NFKC", name).casefold().translate(_LATIN) for name in (one, other))
    return (ascii(one), ascii(other)) if first == second else None  # they look the same when printed


def mentions(text: str, name: str) -> bool:
    """Returns whether a text has a name in it, in any case; a name of four letters or more also within words.

    Examples
    --------
    >>> mentions("https://github.com/dp-rl/ours", "DPRL"), mentions("the upper bound", "PE"), mentions("by PE.", "PE")
    (True, False, True)
    """
    said, wanted = (unicodedata.normalize("NFKC", each).casefold() for each in (text, name))
    if re.search(rf"(?<![^\W_]){re.escape(wanted)}(?![^\W_])", said):
        return True
    compact, short = ("".join(filter(str.isalnum, each)) for each in (said, wanted))
    return len(short) >= _LEAST and short in compact


def stamp(now: datetime) -> str:
    """Formats the time of an event, in UTC and to the second."""
    return now.astimezone(UTC).isoformat(timespec="seconds")

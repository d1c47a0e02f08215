"""Names of teams and labels, addresses of sites and servers, reasons and times as a lab writes them."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from urllib.parse import urlsplit

from harness.errors import HarnessError

LONGEST_REASON = 2_000  # characters

# Greek and Cyrillic letters that look like a Latin one, in lower or upper case.
_LATIN = str.maketrans("αβεζηικμνορτυχавеѕіјкмнорстухһԁԛԝ", "abezhikmnoptyxabesijkmhopctyxhdqw")
_UNSEEN = dict.fromkeys(map(ord, "\u115f\u1160\u3164\uffa0"))  # letters, fillers of Hangul, that are shown as nothing
_LEAST = 4  # letters of a name that is found within words


def nfc(name: str) -> str:
    """Normalises a name to Unicode form NFC."""
    return unicodedata.normalize("NFC", name)


def confusable(one: str, other: str) -> tuple[str, str] | None:
    """Returns two names as messages show them if people would confuse them, else None."""
    if one.casefold() == other.casefold():
        return repr(one), repr(other)
    plain = (unicodedata.normalize("NFKC", name.translate(_UNSEEN)).casefold() for name in (one, other))
    first, second = (name.translate(_LATIN) for name in plain)
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


def normalised_reason(reason: str) -> str:
    """Normalises the reason of an act to one line.

    Raises
    ------
    HarnessError
        It is unprintable or too long.
    """
    line = " ".join(nfc(reason).split())
    if not line.isprintable() or len(line) > LONGEST_REASON:
        raise HarnessError(f"reason: expected printable text of at most {LONGEST_REASON:,} characters")
    return line


def zoned(time: datetime) -> str:
    """Returns a time with its zone in words.

    Examples
    --------
    >>> zoned(datetime.fromisoformat("2026-09-01T23:59:59-12:00"))
    '2026-09-01 23:59:59 (anywhere on Earth)'
    """
    offset = time.strftime("%z")
    zones = {"-1200": "anywhere on Earth", "+0000": "UTC"}
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} ({zones.get(offset, f'UTC{offset[:3]}:{offset[3:]}')})"


def stamp(now: datetime | None = None) -> str:
    """Formats the time of an event, by default the present, in UTC and to the second."""
    return (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")


def utc(time: str) -> str:
    """Returns a time of the journal for readers.

    Examples
    --------
    >>> utc("2026-06-20T10:03:00+00:00")
    '2026-06-20 10:03:00 UTC'
    """
    return time.replace("T", " ").replace("+00:00", " UTC")


_HOST = r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._~-]+)?\]"  # a name, or a number of IPv4 or IPv6
_WEB = re.compile(rf"https?://(?:{_HOST})(?::[0-9]{{1,5}})?(?:/[A-Za-z0-9._~/-]*)?")
_FORM = "/submit"  # page of a server on which runs are submitted


def is_address(text: str) -> bool:
    """Returns whether a text is an address of the web, without a query.

    Examples
    --------
    >>> is_address("https://example.org/lab/"), is_address("http://127.0.0.1:99999"), is_address("example.org")
    (True, False, False)
    """
    if not _WEB.fullmatch(text):
        return False
    try:
        return urlsplit(text).port != 0
    except ValueError:  # the port is above 65535, or the address of IPv6 is none
        return False


def server_of(address: str) -> str:
    """Returns the address of a server, given that address or the one of its form.

    Examples
    --------
    >>> server_of("https://lab.example.org/"), server_of("https://example.org/lab/submit/")
    ('https://lab.example.org', 'https://example.org/lab')
    """
    return address.rstrip("/").removesuffix(_FORM).rstrip("/")


def form_of(server: str) -> str:
    """Returns the address of a server's form.

    Examples
    --------
    >>> form_of("https://lab.example.org")
    'https://lab.example.org/submit'
    """
    return f"{server}{_FORM}"

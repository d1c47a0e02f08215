"""Names of runs and systems: labels of any script, the safe names of their files; ids: one printable word each."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable

from harness.errors import HarnessError, format_error, shortened

LONGEST_NAME = 255  # bytes
NAME_RULE = f"1 to {LONGEST_NAME} bytes without control characters or line breaks, and without a blank at either end"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # categories of characters that are refused
_JOINERS = "\u200c\u200d"  # parts of words in Persian and of emoji
# Letters of all scripts and digits, then these signs; `~` with a hash marks names that were changed.
PLAIN_NAME = re.compile(r"\w[\w.+=,@()~#%-]{0,127}")
_DIGITS = 16  # of the hash
_CHANGED = re.compile(rf".*~[0-9a-f]{{{_DIGITS}}}", re.DOTALL)
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?", re.IGNORECASE | re.DOTALL)
_LONGEST_FILE = 200  # bytes, so that endings fit too


# Words of a scale, whose order is not that of the alphabet.
_SCALES = (
    ("none", "very low", "low", "medium", "high", "very high"),
    ("very easy", "easy", "medium", "hard", "very hard"),
    ("short", "medium", "long"),
    ("small", "medium", "large"),
)


def in_natural_order(values: Iterable[str]) -> list[str]:
    """Returns different values in the order that people expect: degrees of a scale by degree, numbers by value.

    Examples
    --------
    >>> in_natural_order(["High", "Low", "Medium"]), in_natural_order(["B.10", "B.9", "A"])
    (['Low', 'Medium', 'High'], ['A', 'B.9', 'B.10'])
    """
    distinct = set(values)
    for scale in _SCALES:
        if all(value.casefold() in scale for value in distinct):
            return sorted(distinct, key=lambda value: (scale.index(value.casefold()), value))
    return sorted(distinct, key=_by_number)


def _by_number(text: str) -> tuple[list[tuple[float, str]], str]:
    """Returns a sort key that orders numbers, also within texts, by value and before words."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    try:
        return [(float(text), "")], text
    except ValueError:
        return [(float(part), "") if part.isdecimal() else (math.inf, part.casefold()) for part in parts], text


def without_accents(text: str) -> str:
    """Returns a text in lower case without accents: `Česká` becomes `ceska`; other scripts stay."""
    split = unicodedata.normalize("NFKD", text.lower())
    return "".join(char for char in split if not unicodedata.combining(char))


def is_name(text: str) -> bool:
    """Returns whether a text may name a run or a system: any characters that people see, on one line.

    Examples
    --------
    >>> [is_name(text) for text in ("intfloat/e5-base", "Česká skupina", "", " a", "a\\nb", "a\\0")]
    [True, True, False, False, False, False]
    """
    if not text or text != text.strip() or len(text.encode("utf-8", "replace")) > LONGEST_NAME:
        return False
    return text.isprintable() or not any(
        unicodedata.category(char) in _HIDDEN and char not in _JOINERS for char in text
    )


def is_tag(text: str) -> bool:
    """Returns whether a text is a name without blanks, which fits the last column of a run file."""
    return is_name(text) and len(text.split()) == 1


def check_name(text: str, where: object) -> None:
    """Raises HarnessError if a text cannot name a run; `where` is the file or the argument."""
    if not is_name(text):
        raise HarnessError(f"{where}: run name {shortened(text, 80)!r} is not a name: expected {NAME_RULE}")


def file_name(name: str, longest: int = _LONGEST_FILE) -> str:
    """Returns the name of a file or folder for a label: the label itself if it is safe on every system.

    Otherwise unsafe characters become `-`, and 16 digits of the label's SHA-256 are added after `~`, so that no two
    labels have the same file. A label that looks like such a name is changed too. `longest` is in bytes.

    Examples
    --------
    >>> [file_name(name) for name in ("bm25-k1=0.9", "Česká-skupina", "intfloat/e5-base", "../../etc")]
    ['bm25-k1=0.9', 'Česká-skupina', 'intfloat-e5-base~a9fb05b6bf351f8a', 'etc~74ccf3c5b4c19a81']
    """
    normal = unicodedata.normalize("NFC", name)
    safe = PLAIN_NAME.fullmatch(name) and name == normal and name[-1] != "." and len(name.encode()) <= longest
    if safe and not _DEVICE.fullmatch(name) and not _CHANGED.fullmatch(name):
        return name
    plain = re.sub(r"[^\w.+=,@()~#%-]+", "-", normal).strip("-.~") or "run"
    plain = f"run-{plain}" if _DEVICE.fullmatch(plain) else plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{plain.encode()[: longest - _DIGITS - 1].decode('utf-8', 'ignore')}~{digest}"


LONGEST_ID = 255  # bytes


def check_id(name: str, what: str, path: object, line: int) -> None:
    """Raises `FormatError` unless a name is a valid id in a run file."""
    if name.isascii() and name.isprintable() and " " not in name and 0 < len(name) <= LONGEST_ID:
        return  # the usual case, found faster
    if name.split() != [name] or not name.isprintable():
        raise format_error(path, line, f"{what} id {name!r} is empty or holds blanks or unprintable characters")
    check_length(name, what, path, line)


def check_length(name: str, what: str, path: object, line: int) -> None:
    """Raises `FormatError` if a name exceeds the maximum length of an id."""
    length = len(name) if name.isascii() else len(name.encode(errors="replace"))
    if length > LONGEST_ID:
        raise format_error(path, line, f"{what} id of {length} bytes, at most {LONGEST_ID}")

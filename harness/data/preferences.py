"""Reader of preference judgments in five columns, as trec_eval takes them: topic, group, subgroup, document, level.

A document of a higher level is preferred to one of a lower level of the same group; levels are any numbers from 0.
Within one group they are grades, in which only the order has a meaning; levels of several groups cannot be compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from harness.data.layouts import LARGEST_GRADE
from harness.data.tables import Faults
from harness.errors import counted_text, format_error
from harness.io.ids import LONGEST_ID

NAMES = ("topic", "group", "subgroup", "document", "level")
_SAMPLE = 1 << 14  # bytes
_SAMPLED = "topic document grade method probability"
Row = tuple[str, str, float]


def is_five_columns(data: bytes) -> bool:
    """Returns whether most of the first lines have five columns.

    Examples
    --------
    >>> is_five_columns(b"q1 g1 s1 d1 2\\nq1 g1 s1 d2 1\\n"), is_five_columns(b"q1 0 d1 2\\n")
    (True, False)
    """
    counts = Counter(len(line.split()) for line in data[:_SAMPLE].split(b"\n")[:100] if line.strip())
    return bool(counts) and counts.most_common(1)[0][0] == len(NAMES)


def rows(data: bytes, path: str) -> list[tuple[int, Row]]:
    """Returns (line, (topic, document, level)) of preference judgments.

    Raises
    ------
    FormatError
        Lines have other numbers of columns, invalid levels or ids, a document twice, or a topic has several groups; or
        the columns are those of sampled judgments, whose probabilities no measure here takes.
    """
    lines = list(_columns_of_lines(data))
    if all(len(fields) == 5 and _is_sampled(fields) for _, fields in lines):
        raise format_error(
            path,
            lines[0][0],
            f"5 columns like judgments that were sampled ({_SAMPLED}); the probabilities would be ignored, so leave "
            f"them out: 'topic 0 document grade', or preferences as '{' '.join(NAMES)}'",
        )
    faults = Faults(path)
    out: list[tuple[int, Row]] = []
    first: dict[tuple[str, str], int] = {}
    groups: dict[str, tuple[str, int]] = {}
    mixed: set[str] = set()
    for number, fields in lines:
        if len(fields) != len(NAMES):
            faults.add(number, f"{counted_text(len(fields), 'column')}, expected {len(NAMES)} ({' '.join(NAMES)})")
            continue
        topic, group, subgroup, doc, text = fields
        for what, name in (("topic", topic), ("document", doc)):
            if (size := len(name.encode())) > LONGEST_ID:
                faults.add(number, f"{what} id of {size} bytes, at most {LONGEST_ID}")
        level = _level(text)
        if not math.isfinite(level):
            faults.add(number, f"level {text!r:.40} is not a finite number")
        elif level < 0 or level > LARGEST_GRADE:
            faults.add(number, f"level {text:.40} is not between 0 and {LARGEST_GRADE:,}")
        if (topic, doc) in first:
            faults.add(number, f"document {doc!r} of topic {topic!r} is judged on line {first[topic, doc]} already")
        first.setdefault((topic, doc), number)
        mine = f"{group} {subgroup}"
        other, line = groups.setdefault(topic, (mine, number))
        if other != mine and topic not in mixed:
            mixed.add(topic)
            faults.add(
                number,
                f"topic {topic!r} has preferences of the groups {other!r} (line {line}) and {mine!r}, whose levels "
                "cannot be compared; expected one group a topic",
            )
        out.append((number, (topic, doc, level)))
    faults.close()
    return out


def _columns_of_lines(data: bytes) -> Iterator[tuple[int, list[str]]]:
    text = data.decode("utf-8-sig", "replace")
    for number, line in enumerate(text.split("\n"), 1):
        if fields := line.split():
            yield number, fields


def _is_sampled(fields: list[str]) -> bool:
    """Returns whether a line may be one of sampled judgments: a whole grade, a method, a probability."""
    _, _, grade, method, probability = fields
    return grade.isdigit() and method in ("0", "1", "2", "3") and "." in probability and 0 < _level(probability) <= 1


def _level(text: str) -> float:
    """Returns the number of a field; NaN for anything else."""
    try:
        return float(text)
    except ValueError:
        return math.nan

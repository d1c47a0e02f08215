"""Reader of CrossMath's translated topics."""

from __future__ import annotations

from collections.abc import Mapping

from harness.collections.forms import FileForm
from harness.data.markup import numbered_formulas
from harness.data.topic_files import numbered_lines, unique
from harness.data.topics import Topic, Topics
from harness.errors import counted_text, format_error


def crossmath_tsv(data: bytes, path: str, language: str = "eng") -> Topics:
    """Returns topics of lines id, title, body, tags, tab-separated, one topic a line."""
    topics = []
    for number, line in numbered_lines(data, path):
        fields = line.split("\t")
        if len(fields) != 4:
            raise format_error(path, number, f"{counted_text(len(fields), 'column')}, expected 4 (id title body tags)")
        name, title, body, last = fields
        tags = tuple(tag.strip() for tag in last.split(",") if tag.strip())
        topics.append((number, Topic(name, title, body, tags, numbered_formulas("q_", title, body), language)))
    return unique(topics, path)


READERS = (
    FileForm("crossmath-tsv", crossmath_tsv, first=lambda first: not isinstance(first, Mapping) and len(first) == 4),
)

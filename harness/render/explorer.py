"""Writes an `Explorer` as compressed JSON, which the script of the HTML page draws."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from harness.io.console import track
from harness.render.formulas import RenderedFormula, located, segments, to_mathml
from harness.render.model import Explorer, TopicPage, TopicPages, TopicVersion, visible

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_FIRST, _SECOND = [digit for digit in _DIGITS for _ in _DIGITS], [*_DIGITS] * len(_DIGITS)  # of numbers below 64^2
_PLAIN = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_SCALE = 100_000  # values are written as integers, in units of 1/100,000


def to_json(block: Explorer) -> str:
    """Returns the block as JSON.

    - A text is a list of strings and of indices into `formulas`.
    - A formula is its LaTeX, whether it is displayed and, unless conversion failed, its MathML as nested lists: index
      into `kinds` (element and attributes), then children: texts or lists.
    - A list of numbers is a string with `width` base-64 digits per number: the first digits of all, then the second.
    - Values are in units of 1/100,000. A grade is an index into the topic's `judged`, or its length without judgment.
    - A wording of a topic refers to titles and bodies by index into `texts`. In a literal text, a list of one string
      marks a part that reads left to right in any context.
    """
    formulas = _Formulas()
    data = {
        "pair": [visible(run) for run in block.pair],
        "collections": [_collection_json(collection, formulas) for collection in block.collections],
        "documents": {
            visible(doc): [formulas.text(title), formulas.text(body)]
            for doc, (title, body) in sorted(block.documents.items())
        },
        "texts": formulas.texts,
        "formulas": formulas.made,
        "kinds": list(formulas.kinds),
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _collection_json(pages: TopicPages, formulas: _Formulas) -> dict[str, object]:
    ranks_shown = [rank for page in pages.topics for ranks in page.ranks for rank in ranks]
    ranks_shown += [rank for page in pages.topics for first in page.judged_firsts for _, rank in first]
    highest = max((*ranks_shown, *(len(page.docs) for page in pages.topics)), default=0)
    width = 2 if highest < len(_DIGITS) ** 2 else 4
    # Ids that are plain numbers, such as those of posts, take half the space as base-64 numbers.
    numbers = all(_PLAIN.fullmatch(doc) for page in pages.topics for doc in page.docs)
    return {
        "name": visible(pages.name),
        "title": visible(pages.title),
        "note": visible(pages.note),
        "measures": [[name, visible(label)] for name, label in pages.measures],
        "runs": [visible(run) for run in pages.runs],
        "relevantFrom": pages.relevant_from,
        "link": visible(pages.link),
        "language": visible(pages.language),
        "direction": pages.direction,
        "versions": [_version_json(version) for version in pages.versions],
        "width": width,
        "topics": [
            _topic(page, pages.versions, width, numbers, formulas) for page in track(pages.topics, "pages of topics")
        ],
    }


def _version_json(version: TopicVersion) -> dict[str, object]:
    return {
        "name": visible(version.name),
        "runs": [visible(run) for run in version.runs],
        "steps": [
            {"label": visible(step.label), "language": visible(step.language), "direction": step.direction}
            for step in version.steps
        ],
    }


def _topic(
    page: TopicPage, versions: Sequence[TopicVersion], width: int, numbers: bool, formulas: _Formulas
) -> dict[str, object]:
    """Returns a topic as JSON values, with rankings and grades as strings of digits."""
    place = {grade: index for index, (grade, _) in enumerate(page.judged)}
    broad = 1 if len(place) < len(_DIGITS) else 2
    return {
        "id": visible(page.id),
        "title": formulas.text(page.title),
        "body": formulas.text(page.body),
        "tags": [visible(tag) for tag in page.tags],
        "attributes": [[visible(name), visible(value)] for name, value in page.attributes],
        "docs": _digits([int(doc) for doc in page.docs], 4) if numbers else [visible(doc) for doc in page.docs],
        "grades": _digits([len(place) if grade is None else place[grade] for grade in page.grades], broad),
        "relevant": page.relevant,
        "judged": [[int(grade) if grade == int(grade) else grade, count] for grade, count in page.judged],
        "values": [[None if math.isnan(v) else round(v * _SCALE) for v in run] for run in page.values],
        "firsts": [_digits(ranking, width) for ranking in page.firsts],
        "ranks": [_digits(ranks, width) for ranks in page.ranks],
        "judgedFirsts": [_digits([n for pair in first for n in pair], width) for first in page.judged_firsts],
        "wordings": [
            wording
            and {
                "texts": [
                    formulas.placed(texts, version.placeholder if step.literal else None)
                    for step, texts in zip(version.steps, wording.texts, strict=True)
                ],
                "facts": [[visible(name), visible(value)] for name, value in wording.facts],
            }
            for version, wording in zip(versions, page.wordings, strict=False)
        ],
    }


def _digits(numbers: Sequence[int], width: int) -> str:
    """Encodes numbers in `width` base-64 digits: the first digits of all, then the second ones, which compress less."""
    if width == 1:
        return "".join([_DIGITS[n] for n in numbers])
    if width == 2:
        return "".join([_FIRST[n] for n in numbers] + [_SECOND[n] for n in numbers])
    return _digits([n >> 12 for n in numbers], 2) + _digits([n & 4095 for n in numbers], 2)


def _written(text: str, placeholder: str) -> list[object]:
    """Returns a literal text as strings, and lists of one string for parts that read left to right."""
    spans = [(start, end) for start, end, _ in located(text)]
    if placeholder:
        marks = re.finditer(rf"{re.escape(placeholder)}\d+", text, re.ASCII)
        spans += [mark.span() for mark in marks if not any(a < mark.end() and mark.start() < b for a, b in spans)]
    out: list[object] = []
    at = 0
    for start, end in sorted(spans):
        out += [visible(text[at:start]), [visible(text[start:end])]]
        at = end
    return [part for part in (*out, visible(text[at:])) if part]


class _Formulas:
    """Indexes of distinct formulas, kinds of MathML elements, and texts."""

    def __init__(self) -> None:
        self.texts: list[list[object]] = []
        self._placed: dict[tuple[str, str, str | None], int] = {}
        self.kinds: dict[tuple[str, ...], int] = {}
        self.made: list[list[object]] = []
        self._known: dict[RenderedFormula, int] = {}

    def text(self, text: str) -> list[str | int]:
        """Returns a text as strings and indices of formulas."""
        return [visible(part) if isinstance(part, str) else self._index_of(part) for part in segments(text)]

    def placed(self, texts: tuple[str, str], placeholder: str | None) -> int:
        """Returns the index of a title and body in `texts`; with a prefix of placeholders they are shown literally."""
        key = (*texts, placeholder)
        if key not in self._placed:
            self._placed[key] = len(self.texts)
            self.texts.append([self.text(t) if placeholder is None else _written(t, placeholder) for t in texts])
        return self._placed[key]

    def _index_of(self, formula: RenderedFormula) -> int:
        if formula not in self._known:
            self._known[formula] = len(self.made)
            element = to_mathml(formula.latex, formula.display)
            tree = [] if element is None else [self._as_lists(element)]
            self.made.append([visible(formula.latex), int(formula.display), *tree])
        return self._known[formula]

    def _as_lists(self, element: Element) -> list[object]:
        kind = (element.tag, *chain.from_iterable(element.items()))
        place = self.kinds.setdefault(kind, len(self.kinds))
        return [place, *([element.text] if element.text else []), *[self._as_lists(child) for child in element]]

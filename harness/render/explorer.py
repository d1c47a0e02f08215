"""Writes an `Explorer` as compact JSON, which the script of the HTML page draws."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.io.console import track
from harness.render.formulas import Formula, located, segments, to_mathml
from harness.render.model import Explorer, TopicPage, TopicPages, Version, visible

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]
_PLAIN = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_SCALE = 100_000  # values are written as integers, in units of 1/100,000


def to_json(block: Explorer) -> str:
    """Returns the block as JSON that is safe inside a script element: no `<`, `>`, `&` and no line separators.

    - A text is a list of strings and of indices into `formulas`.
    - A formula is its LaTeX, whether it is displayed and, unless conversion failed, its MathML as nested lists: index
      into `kinds` (element and attributes), then children: texts, lists, or indices into `parts`, which holds the
      elements that occur more than once.
    - A list of numbers is a string with `width` base-64 digits per number.
    - Values are in units of 1/100,000. A grade is an index into the topic's `judged`, or its length without judgment.
    - A wording of a topic refers to titles and bodies by index into `texts`. In a literal text, a list of one string
      marks a part that reads left to right in any context.
    """
    formulas = _Formulas()
    data = {
        "pair": [visible(run) for run in block.pair],
        "collections": [_collection(collection, formulas) for collection in block.collections],
        "documents": {
            visible(doc): [formulas.text(title), formulas.text(body)]
            for doc, (title, body) in sorted(block.documents.items())
        },
        "texts": formulas.texts,
        **formulas.shared(),
        "kinds": list(formulas.kinds),
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _collection(pages: TopicPages, formulas: _Formulas) -> dict[str, object]:
    found = [rank for page in pages.topics for ranks in page.ranks for rank in ranks]
    found += [rank for page in pages.topics for first in page.judged_firsts for _, rank in first]
    highest = max((*found, *(len(page.docs) for page in pages.topics)), default=0)
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
        "versions": [_version(version) for version in pages.versions],
        "width": width,
        "topics": [
            _topic(page, pages.versions, width, numbers, formulas) for page in track(pages.topics, "pages of topics")
        ],
    }


def _version(version: Version) -> dict[str, object]:
    return {
        "name": visible(version.name),
        "runs": [visible(run) for run in version.runs],
        "steps": [
            {"label": visible(step.label), "language": visible(step.language), "direction": step.direction}
            for step in version.steps
        ],
    }


def _topic(
    page: TopicPage, versions: Sequence[Version], width: int, numbers: bool, formulas: _Formulas
) -> dict[str, object]:
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
    """Encodes numbers as a string of `width` base-64 digits each: 1, 2 or 4."""
    if not numbers:
        return ""
    if width == 1:
        return "".join([_DIGITS[n] for n in numbers])
    if width == 2:
        return "".join([_PAIRS[n] for n in numbers])
    return "".join([_PAIRS[n >> 12] + _PAIRS[n & 4095] for n in numbers])


def _written(text: str, placeholder: str) -> list[object]:
    """Returns a literal text as strings, and lists of one string for parts that read left to right."""
    found = [(start, end) for start, end, _ in located(text)]
    if placeholder:
        marks = re.finditer(rf"{re.escape(placeholder)}\d+", text, re.ASCII)
        found += [mark.span() for mark in marks if not any(a < mark.end() and mark.start() < b for a, b in found)]
    out: list[object] = []
    at = 0
    for start, end in sorted(found):
        out += [visible(text[at:start]), [visible(text[start:end])]]
        at = end
    return [part for part in (*out, visible(text[at:])) if part]


class _Formulas:
    """Indexes of distinct formulas, kinds of MathML elements, and texts."""

    def __init__(self) -> None:
        self.texts: list[list[object]] = []
        self._placed: dict[tuple[str, str, str | None], int] = {}
        self.kinds: dict[tuple[str, ...], int] = {}
        self._made: list[tuple[str, int, int]] = []  # LaTeX, display, index of an element or -1
        self._elements: dict[
            tuple[int, str, tuple[int, ...]], int
        ] = {}  # kind, text (maybe empty), indices of children -> index
        self._uses: list[int] = []
        self._known: dict[Formula, int] = {}

    def text(self, text: str) -> list[str | int]:
        """Returns a text as strings and indices of formulas."""
        return [visible(part) if isinstance(part, str) else self._place(part) for part in segments(text)]

    def placed(self, texts: tuple[str, str], placeholder: str | None) -> int:
        """Returns the index of a title and body in `texts`; with a prefix of placeholders they are shown literally."""
        key = (*texts, placeholder)
        if key not in self._placed:
            self._placed[key] = len(self.texts)
            self.texts.append([self.text(t) if placeholder is None else _written(t, placeholder) for t in texts])
        return self._placed[key]

    def _place(self, formula: Formula) -> int:
        if formula not in self._known:
            self._known[formula] = len(self._made)
            element = to_mathml(formula.latex, formula.display)
            tree = -1 if element is None else self._element(element)
            self._made.append((visible(formula.latex), int(formula.display), tree))
        return self._known[formula]

    def _element(self, element: Element) -> int:
        """Returns the index of an element; equal elements have the same one."""
        kind = (element.tag, *(part for pair in element.attrib.items() for part in pair))
        place = self.kinds.setdefault(kind, len(self.kinds))
        children = tuple([self._element(child) for child in element])
        index = self._elements.setdefault((place, element.text or "", children), len(self._uses))
        if index == len(self._uses):
            self._uses.append(0)
            for child in children:
                self._uses[child] += 1
        return index

    def shared(self) -> dict[str, list[list[object]]]:
        """Returns the formulas, and the parts that they share: elements with more than one parent, the most first."""
        elements = list(self._elements)
        often = sorted((n for n, uses in enumerate(self._uses) if uses > 1), key=lambda n: -self._uses[n])
        place = {element: index for index, element in enumerate(often)}

        def tree(index: int) -> list[object]:
            kind, text, children = elements[index]
            below = (place[n] if n in place else tree(n) for n in children)
            return [kind, *([text] if text else []), *below]

        made = [[latex, display, *([] if root < 0 else [tree(root)])] for latex, display, root in self._made]
        return {"formulas": made, "parts": [tree(index) for index in often]}

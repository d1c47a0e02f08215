"""Topics of a collection: queries with their text, formulas, language and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.data.records import frame
from harness.formulas.text.delimiters import Dollars

if TYPE_CHECKING:
    from pandas import DataFrame


SEPARATOR = "; "  # separates several values of one attribute


@dataclass(frozen=True)
class Formula:
    """A formula of a topic or a document.

    Attributes
    ----------
    id : id in the collection, or its number in the topic or document, such as `f1`.
    latex : LaTeX without delimiters.
    visual_id : id that formulas of the same appearance share; empty if the collection has none.

    Examples
    --------
    >>> Formula("f1", "n^2").latex
    'n^2'
    """

    id: str
    latex: str
    visual_id: str = ""


def formulas_given(value: object, column: str = "formulas") -> tuple[Formula, ...]:
    """Returns the formulas of a JSON list: LaTeX as text, numbered `f1`, `f2`, ..., or objects with `id` and `latex`.

    Raises
    ------
    TypeError
        The value is no such list; the message names the column.

    Examples
    --------
    >>> [formula.id for formula in formulas_given(["n^2", {"id": "f7", "latex": "2n"}])]
    ['f1', 'f7']
    """
    parsed = [_formula(each, number) for number, each in enumerate(value, 1)] if isinstance(value, list) else [None]
    formulas = tuple(each for each in parsed if each is not None)
    if len(formulas) < len(parsed) or len({each.id for each in formulas}) < len(formulas):
        right = '["n^2"] or [{"id": "f1", "latex": "n^2"}]'
        raise TypeError(f"column {column!r} is {value!r:.60}, expected formulas such as {right}")
    return formulas


def _formula(given: object, number: int) -> Formula | None:
    """Returns a formula of a JSON list; None if it is none."""
    if isinstance(given, str):
        given = {"id": f"f{number}", "latex": given}
    if not isinstance(given, Mapping):
        return None
    named, latex, visual = given.get("id"), given.get("latex"), given.get("visual_id")
    if not isinstance(named, str | int) or named in ("", True, False) or not isinstance(latex, str):
        return None
    return Formula(str(named), latex, "" if visual is None else str(visual))


@dataclass(frozen=True)
class Topic:
    """A topic (query).

    Attributes
    ----------
    id : id in the judgments.
    title, body : text with LaTeX in `$...$`; markup removed.
    tags : subject tags.
    formulas : formulas in order of appearance, title first; for formula search, only the query formula.
    language : ISO 639-3 code.
    attributes : attributes for slices, such as category, difficulty, dependency. Several values are separated by `; `,
        and the topic is in the slice of each.
    dollars : which dollar signs of the texts enclose formulas, see `harness.formulas.text.delimiters`.
    """

    id: str
    title: str
    body: str = ""
    tags: tuple[str, ...] = ()
    formulas: tuple[Formula, ...] = ()
    language: str = "eng"
    attributes: Mapping[str, str] = field(default_factory=dict)
    dollars: Dollars = "pairs"

    def values(self, attribute: str) -> tuple[str, ...]:
        """Returns the values of an attribute; none if the topic lacks it.

        >>> Topic("q", "", attributes={"domain": "Algebra; Geometry"}).values("domain")
        ('Algebra', 'Geometry')
        """
        return tuple(filter(None, self.attributes.get(attribute, "").split(SEPARATOR)))


@dataclass(frozen=True)
class Topics:
    """The topics of a collection, in the order of their file; ids are unique.

    Attributes
    ----------
    remarks : number of formulas and of irregularities in the file, by name; empty if the reader counts none.

    Examples
    --------
    >>> Topics((Topic("A.1", "What is $i$?", attributes={"category": "concept"}),)).frame()
      query_id         title body tags language category
    0      A.1  What is $i$?                eng  concept
    """

    topics: tuple[Topic, ...]
    remarks: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __len__(self) -> int:
        return len(self.topics)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self.topics)

    def ids(self) -> frozenset[str]:
        """Returns all topic ids."""
        return frozenset(topic.id for topic in self.topics)

    def by_id(self) -> dict[str, Topic]:
        """Returns topic id -> topic."""
        return {topic.id: topic for topic in self.topics}

    def with_attributes(self, attributes: Mapping[str, Mapping[str, str]]) -> Topics:
        """Returns the same topics with further attributes, by topic id."""
        topics = tuple(replace(t, attributes={**t.attributes, **attributes.get(t.id, {})}) for t in self.topics)
        return replace(self, topics=topics)

    def frame(self) -> DataFrame:
        """Returns `query_id`, `title`, `body`, `tags`, `language`, a column for each attribute (None: lacks it)."""
        columns: dict[str, list[str | None]] = {
            "query_id": [topic.id for topic in self],
            "title": [topic.title for topic in self],
            "body": [topic.body for topic in self],
            "tags": [" ".join(topic.tags) for topic in self],
            "language": [topic.language for topic in self],
        }
        for name in dict.fromkeys(name for topic in self for name in topic.attributes if name not in columns):
            columns[name] = [topic.attributes.get(name) for topic in self]
        return frame(columns)

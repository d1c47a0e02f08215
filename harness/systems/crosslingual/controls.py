"""Controls for translators: human translations, untranslated topics, and formulas only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from harness.collections.load import load_collection
from harness.data.markup import formulas_in
from harness.data.topics import Topic
from harness.errors import HarnessError
from harness.io.files import sha256


@runtime_checkable
class Control(Protocol):
    """Control that replaces a topic's words without translating it."""

    @property
    def name(self) -> str:
        """Name in messages and reports."""

    def identity(self) -> Mapping[str, Any]:
        """Returns the inputs of its texts besides the topics and this code."""

    def texts(self, topic: Topic) -> tuple[str, str]:
        """Returns title and body."""


@dataclass(frozen=True)
class Human:
    """Topics with the same ids in another collection, written by people in the target language.

    Examples
    --------
    >>> Human("mini-task1").texts(Topic("M.1", "irgendwas"))[0][:30]
    'Fifth powers of the roots of a'
    """

    collection: str
    name: str = "human"

    def identity(self) -> Mapping[str, Any]:
        """Returns the collection, and a checksum of its topics."""
        content = repr(sorted((name, asdict(topic)) for name, topic in self._topics.items()))
        return {"collection": self.collection, "topics": sha256(content.encode("utf-8", "surrogatepass"))}

    def texts(self, topic: Topic) -> tuple[str, str]:
        """Returns title and body of the topic with the same id.

        Raises
        ------
        HarnessError
            There is no such topic.
        """
        translated = self._topics.get(topic.id)
        if translated is None:
            raise HarnessError(f"key 'translator.collection': {self.collection} has no topic {topic.id!r}")
        return translated.title, translated.body

    @cached_property
    def _topics(self) -> dict[str, Topic]:
        return load_collection(self.collection).topics().by_id()


@dataclass(frozen=True)
class Identity:
    """Untranslated topics."""

    name: str = "identity"

    def identity(self) -> Mapping[str, Any]:
        """Returns an empty mapping: the text depends on the topic alone."""
        return {}

    def texts(self, topic: Topic) -> tuple[str, str]:
        """Returns title and body unchanged."""
        return topic.title, topic.body


@dataclass(frozen=True)
class FormulasOnly:
    """Topics reduced to their formulas, to measure how much of a score comes from formulas alone.

    Examples
    --------
    >>> FormulasOnly().texts(Topic("1", "La raíz de $x^2$", "Sea $x$, o $y$."))
    ('$x^2$', '$x$ $y$')
    """

    name: str = "formulas-only"

    def identity(self) -> Mapping[str, Any]:
        """Returns an empty mapping: the text depends on the topic alone."""
        return {}

    def texts(self, topic: Topic) -> tuple[str, str]:
        """Returns the formulas of title and body, each in dollars."""
        return _formulas_alone(topic.title), _formulas_alone(topic.body)


def _formulas_alone(text: str) -> str:
    """Returns the formulas of a text in dollar signs, without the other text."""
    return " ".join(f"${latex}$" for latex in formulas_in(text))

"""What stands beside a translator so that its numbers can be read: a person's topics, none, and formulas alone."""

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
    """What gives a topic other words without translating it."""

    @property
    def name(self) -> str:
        """What messages and reports call it."""
        ...

    def identity(self) -> Mapping[str, Any]:
        """Returns what decides its texts besides the topics and our code."""
        ...

    def texts(self, topic: Topic) -> tuple[str, str]:
        """Returns title and body."""
        ...


@dataclass(frozen=True)
class Human:
    """The topics of the same ids as people wrote them in the target language, in another collection.

    Examples
    --------
    >>> Human("mini-task1").texts(Topic("M.1", "irgendwas"))[0][:30]
    'Fifth powers of the roots of a'
    """

    collection: str
    name: str = "human"

    def identity(self) -> Mapping[str, Any]:
        """Returns the collection, and its topics by content."""
        content = repr(sorted((name, asdict(topic)) for name, topic in self._topics.items()))
        return {"collection": self.collection, "topics": sha256(content.encode("utf-8", "surrogatepass"))}

    def texts(self, topic: Topic) -> tuple[str, str]:
        """Returns title and body of the topic with the same id.

        Raises
        ------
        HarnessError
            There is none.
        """
        found = self._topics.get(topic.id)
        if found is None:
            raise HarnessError(f"key 'translator.collection': {self.collection} has no topic {topic.id!r}")
        return found.title, found.body

    @cached_property
    def _topics(self) -> dict[str, Topic]:
        return load_collection(self.collection).topics().by_id()


@dataclass(frozen=True)
class Identity:
    """The topics as they are, untranslated."""

    name: str = "identity"

    def identity(self) -> Mapping[str, Any]:
        """Returns nothing."""
        return {}

    def texts(self, topic: Topic) -> tuple[str, str]:
        """Returns title and body as they are."""
        return topic.title, topic.body


@dataclass(frozen=True)
class FormulasOnly:
    """The formulas of the topics and no word: what of a score they earn without any language.

    Examples
    --------
    >>> FormulasOnly().texts(Topic("1", "La raíz de $x^2$", "Sea $x$, o $y$."))
    ('$x^2$', '$x$ $y$')
    """

    name: str = "formulas-only"

    def identity(self) -> Mapping[str, Any]:
        """Returns nothing."""
        return {}

    def texts(self, topic: Topic) -> tuple[str, str]:
        """Returns the formulas of title and body, each in dollars."""
        return _formulas(topic.title), _formulas(topic.body)


def _formulas(text: str) -> str:
    return " ".join(f"${latex}$" for latex in formulas_in(text))

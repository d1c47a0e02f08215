"""What encoders of topics and documents report: topics without text, truncated texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from harness.data.topics import Topic
from harness.errors import HarnessError, counted_text
from harness.io.console import log_line
from harness.store.cost import note
from harness.systems.dense import texts


def worded(
    name: str, topics: Iterable[Topic], text: Callable[[Topic], str], fields: Sequence[str], *, reranks: bool = False
) -> list[tuple[Topic, str]]:
    """Returns the topics that have a text, with their texts; prints how many have none.

    Parameters
    ----------
    name : name of the system, for messages.
    fields : fields of a topic that are read, for messages.
    reranks : whether topics without a text keep the order of a first ranking instead of being left out.

    Raises
    ------
    HarnessError
        No topic has a text.
    """
    read = [(topic, text(topic)) for topic in topics]
    if without := [topic.id for topic, topic_text in read if not topic_text]:
        fate = "ordered as in the first ranking" if reranks else "left out"
        log_line(
            f"{name}: {counted_text(len(without), 'topic has', 'topics have')} no text, {fate}, such as {without[0]}"
        )
    if len(without) == len(read):
        raise HarnessError(f"system {name}: no topic has a text in the fields {', '.join(fields)}")
    return [(topic, topic_text) for topic, topic_text in read if topic_text]


class TopicTexts:
    """Base of systems that read a text of each topic, by their keys `query` and `view`."""

    name: str
    query: Sequence[str]
    view: str

    def _asked(self, topic: Topic) -> str:
        """Returns the text of a topic that is encoded."""
        return texts.of_topic(topic, self.query, self.view).strip()

    def _worded(self, topics: Iterable[Topic]) -> list[tuple[Topic, str]]:
        """Returns the topics that have a text, with their texts."""
        reranks = getattr(self, "first", None) is not None
        return worded(self.name, topics, self._asked, self.query, reranks=reranks)


def note_cut(name: str, what: str, cut: int, count: int, limits: Mapping[str, int]) -> None:
    """Prints and records how many texts are truncated.

    Parameters
    ----------
    name, what : name of the system, and kind of the texts.
    limits : unit -> maximum of a text in it, such as `word pieces`; 0 for no limit.
    """
    said: dict[str, Any] = {"word pieces": limits.get("word pieces") or "all"}
    said |= {key: value for key, value in limits.items() if value}
    note(f"{name}: texts cut, {what}", {"cut": cut, "texts": count} | said)
    if cut:
        read = " and ".join(f"{value:,} {key}" for key, value in limits.items() if value)
        log_line(f"{name}: {cut:,} of {count:,} texts ({what}) are longer than the {read} read")

"""CrossMath's translated topics: their reader, and the check for missing topics, English bodies, damaged formulas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from harness.collections.forms import FileForm
from harness.data.markup import formulas_in, numbered_formulas
from harness.data.topic_files import numbered_lines, unique
from harness.data.topics import Topic, Topics
from harness.errors import counted_text, format_error
from harness.formulas.text.delimiters import split_formulas


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


@dataclass(frozen=True)
class Damage:
    """Numbers of a topic's formulas that were lost, changed or added in translation."""

    lost: int
    changed: int
    added: int


@dataclass(frozen=True)
class TranslationComparison:
    """Comparison of translated topics with the English ones.

    Attributes
    ----------
    language, title : ISO 639-3 code and name of the language.
    checked : ids of the topics compared, in order.
    missing : topics that the translation lacks.
    english_bodies : topics whose body outside formulas equals the English one.
    formulas : number of formulas in the English versions of the translated topics.
    damaged : topics whose formulas differ from the English ones; order and blanks do not count.
    """

    language: str
    title: str
    checked: tuple[str, ...]
    missing: tuple[str, ...]
    english_bodies: tuple[str, ...]
    formulas: int = 0
    damaged: Mapping[str, Damage] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Number of formulas lost, over all topics."""
        return sum(damage.lost for damage in self.damaged.values())

    @property
    def changed(self) -> int:
        """Number of formulas changed, over all topics."""
        return sum(damage.changed for damage in self.damaged.values())

    @property
    def added(self) -> int:
        """Number of formulas added, over all topics."""
        return sum(damage.added for damage in self.damaged.values())


@lru_cache(512)  # of English topics, which every language is compared with
def words_only(text: str) -> str:
    """Returns the letters and digits of a text outside its formulas, in lower case; a translation changes them."""
    return re.sub(r"[\W_]+", "", " ".join(prose for prose, _ in split_formulas(text))).lower()


@lru_cache(512)
def _formulas(title: str, body: str) -> Counter[str]:
    """Counts the formulas of title and body, without blanks."""
    formulas = (*formulas_in(title), *formulas_in(body))
    return Counter(re.sub(r"\s+", "", latex) for latex in formulas)


def damage(translated: Topic, english: Topic) -> Damage:
    """Compares the formulas of two topics; a missing and a new formula together count as one changed formula."""
    here, there = _formulas(translated.title, translated.body), _formulas(english.title, english.body)
    missing, new = (there - here).total(), (here - there).total()
    changed = min(missing, new)
    return Damage(missing - changed, changed, new - changed)


def check_translation(
    language: str, title: str, translated: Topics, english: Topics, wanted: Collection[str]
) -> TranslationComparison:
    """Compares translated topics with the English ones, for the topics in `wanted`.

    A body without letters outside formulas cannot be classified and does not count as English. Missing topics do not
    contribute to `formulas`.
    """
    here, there = translated.by_id(), english.by_id()
    order = [topic.id for topic in english if topic.id in wanted]
    same, formulas, damaged = [], 0, {}
    for topic in order:
        if topic in here:
            formulas += _formulas(there[topic].title, there[topic].body).total()
            if (difference := damage(here[topic], there[topic])) != Damage(0, 0, 0):
                damaged[topic] = difference
            mine = words_only(here[topic].body)
            if mine and mine == words_only(there[topic].body):
                same.append(topic)
    missing = tuple(topic for topic in order if topic not in here)
    return TranslationComparison(language, title, tuple(order), missing, tuple(same), formulas, damaged)

"""What the tests of lexical systems share: small corpora and topics, errors as messages."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import TypeVar

import pytest

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.errors import HarnessError
from harness.systems.base import Pool, Request, System

Test = TypeVar("Test", bound=Callable[..., None])
PLAIN = {"name": "whitespace", "lower": False}


def message(call: Callable[[], object]) -> str:
    with pytest.raises(HarnessError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def marked(*marks: pytest.MarkDecorator) -> Callable[[Test], Test]:
    """Several marks as one decorator."""
    return lambda test: reduce(lambda made, mark: mark(made), marks, test)


def corpus_of(folder: Path, documents: Mapping[str, str], **columns: Mapping[str, str]) -> Corpus:
    """A corpus of documents by id; each further column by name, id -> value."""
    path = folder / "corpus.jsonl"
    rows = [
        {"id": name, "body": body, **{column: values.get(name, "") for column, values in columns.items()}}
        for name, body in documents.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Corpus("c", "C", "CC0", path, (("id", "id"), ("body", "body")), keep=tuple(columns))


def field_corpus(folder: Path, *texts: Mapping[str, str]) -> Corpus:
    """A corpus of documents d0, d1, ... by their fields."""
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": f"d{n}", **text}) + "\n" for n, text in enumerate(texts)))
    return Corpus("c", "C", "CC0", path, (("id", "id"), ("body", "body"), ("title", "title")))


def topics_of(**titles: str) -> Topics:
    return Topics(tuple(Topic(name, title) for name, title in titles.items()))


def found(
    system: System, topics: Topics, corpus: Corpus, folder: Path, pool: Pool | None = None
) -> dict[str, dict[str, float]]:
    return system(Request(topics, corpus, folder, pool=pool)).to_dict()


def random_texts(rng: random.Random, count: int, words: int = 20, length: int = 30) -> list[list[str]]:
    """Texts of random words, low numbers more often."""
    vocabulary = [f"w{n}" for n in range(words)]
    return [rng.choices(vocabulary, range(words, 0, -1), k=rng.randint(1, length)) for _ in range(count)]

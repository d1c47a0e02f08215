"""What the tests of lexical systems share: small corpora and topics, errors as messages."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import TypeVar

import pytest
from refusals import refusal

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.systems.base import Pool, Request, System

message = refusal
Test = TypeVar("Test", bound=Callable[..., None])
PLAIN = {"name": "whitespace", "lower": False}


def marked(*marks: pytest.MarkDecorator) -> Callable[[Test], Test]:
    """Several marks as one decorator."""
    return lambda test: reduce(lambda made, mark: mark(made), marks, test)


def rows_corpus(path: Path, rows: Iterable[Mapping[str, object]], fields: str = "id body", keep: str = "") -> Corpus:
    """A corpus of rows that are written to a JSONL file, by whose name it is called."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Corpus(path.stem, "C", "CC0", path, tuple((name, name) for name in fields.split()), tuple(keep.split()))


def corpus_of(folder: Path, documents: Mapping[str, str], **columns: Mapping[str, str]) -> Corpus:
    """A corpus of documents by id; each further column by name, id -> value."""
    rows = [
        {"id": name, "body": body, **{column: values.get(name, "") for column, values in columns.items()}}
        for name, body in documents.items()
    ]
    return rows_corpus(folder / "c.jsonl", rows, keep=" ".join(columns))


def field_corpus(folder: Path, *texts: Mapping[str, str]) -> Corpus:
    """A corpus of documents d0, d1, ... by their fields."""
    return rows_corpus(folder / "c.jsonl", ({"id": f"d{n}", **text} for n, text in enumerate(texts)), "id body title")


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

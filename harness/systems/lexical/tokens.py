"""A corpus as token numbers, stored on disk and shared by all systems with the same view of the same text.

Tokens are written as they are made. The words are in memory, once each; everything else is mapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.collections.corpus import Corpus, Document
from harness.data.columns import Ids
from harness.errors import HarnessError, suggestion
from harness.io.arrays import ArrayFile, Texts, mapped
from harness.systems.lexical.numbering import Numbering, Numbers, Offsets, spread
from harness.systems.lexical.text import Tokenise

FIELDS = ("id", "title", "body", "tags")
_BATCH = 1 << 20  # characters of texts that are tokenised at a time


@dataclass(frozen=True, eq=False)
class FieldTokens:
    """The tokens of one field of all documents.

    Attributes
    ----------
    start : int64, shape (documents + 1,). Where each document's tokens begin in `token`, and their end.
    token : int32, shape (tokens,). Word numbers, in the order of the text.
    """

    start: Offsets
    token: Numbers


@dataclass(frozen=True, eq=False)
class CorpusTokens:
    """A corpus as token numbers.

    Attributes
    ----------
    ids : bytes, shape (documents,). In corpus order.
    words : words by number, in order of first appearance.
    fields : name of a document field -> its tokens.
    """

    ids: Ids
    words: tuple[str, ...]
    fields: Mapping[str, FieldTokens]

    @staticmethod
    def load(folder: Path) -> CorpusTokens:
        """Loads tokens that `write_tokens` wrote; the arrays are memory-mapped.

        Raises
        ------
        HarnessError
            A file is missing or damaged.
        """
        try:
            names = unpacked(folder / "fields.npy")
            fields = {
                name: FieldTokens(mapped(folder / f"start-{n}.npy"), mapped(folder / f"token-{n}.npy"))
                for n, name in enumerate(names)
            }
            return CorpusTokens(mapped(folder / "ids.npy"), unpacked(folder / "words.npy"), fields)
        except (OSError, ValueError, EOFError) as error:
            remedy = "delete this folder, and it is recomputed"
            raise HarnessError(f"{folder}: not the tokens of a corpus: {error}; {remedy}") from None


def packed(path: Path, names: Iterable[str]) -> None:
    """Writes names, without line breaks in them, to a file."""
    np.save(path, np.frombuffer("\n".join(names).encode(), np.uint8))


def unpacked(path: Path) -> tuple[str, ...]:
    """Returns the names in a file that `packed` wrote."""
    text = np.load(path).tobytes().decode()
    return tuple(text.split("\n")) if text else ()


def field_text(document: Document, field: str) -> str | None:
    """Returns the text of a document's field: id, title, body, tags, or a column that the corpus keeps."""
    if field == "tags":
        return " ".join(document.tags)
    if field in FIELDS:
        return str(getattr(document, field))
    return document.columns.get(field)


def write_tokens(corpus: Corpus, fields: Iterable[str], tokenise: Tokenise, folder: Path) -> None:
    """Tokenises fields of all documents of a corpus and writes the tokens to an empty folder.

    Raises
    ------
    HarnessError
        The corpus has no documents, a field occurs in no document, or there are no tokens.
    """
    numbering = Numbering(tokenise)
    seen = set[str]()
    names = list(fields)
    documents = 0
    with ExitStack() as files:
        ids = files.enter_context(Texts(folder / "ids.npy"))
        columns = []
        for number in range(len(names)):
            start = files.enter_context(ArrayFile(folder / f"start-{number}.npy", np.int64))
            start.extend((0,))
            columns.append((start, files.enter_context(ArrayFile(folder / f"token-{number}.npy", np.int32))))
        for some in _batches(corpus, names, seen):
            documents += len(some.ids)
            ids.extend(some.ids)
            _append(columns, *numbering.take(some.texts))
    if not documents:
        raise HarnessError(f"corpus {corpus.name}: has no documents")
    check_fields(corpus, names, seen)
    if not numbering.words:
        raise HarnessError(f"corpus {corpus.name}: its fields {', '.join(names)} hold no tokens")
    packed(folder / "words.npy", numbering.words)
    packed(folder / "fields.npy", names)


@dataclass
class _Batch:
    """Ids of some documents, and their texts: all fields of the first, then those of the next."""

    ids: list[bytes] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def _batches(corpus: Corpus, names: Sequence[str], seen: set[str]) -> Iterator[_Batch]:
    """Yields the documents of a corpus in batches of some length; adds the names of their columns to `seen`."""
    some, size = _Batch(), 0
    for document in corpus:
        some.ids.append(document.id.encode())
        seen.update(document.columns)
        for name in names:
            text = field_text(document, name) or ""
            some.texts.append(text)
            size += len(text)
        if size >= _BATCH:
            yield some
            some, size = _Batch(), 0
    yield some


def _append(columns: Sequence[tuple[ArrayFile, ArrayFile]], token: Numbers, lengths: Offsets) -> None:
    """Appends the tokens of some documents, with all fields of one after the other, to the files of the fields."""
    begin = np.cumsum(lengths) - lengths
    for number, (start, column) in enumerate(columns):
        own = lengths[number :: len(columns)]
        before = len(column)
        column.add(token if len(columns) == 1 else token[spread(begin[number :: len(columns)], own)])
        start.add(before + np.cumsum(own))


def check_fields(corpus: Corpus, wanted: Iterable[str], seen: Iterable[str]) -> None:
    """Raises HarnessError if a field is neither a standard field nor a column of any document."""
    known = {*FIELDS, *seen}
    for name in wanted:
        if name not in known:
            raise HarnessError(f"corpus {corpus.name}: no document has the field {name!r}; {suggestion(name, known)}")

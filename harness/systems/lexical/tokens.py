"""A corpus as token numbers, stored on disk and shared by all systems with the same view of the same text.

Tokens are written as they are made. The words are in memory, once each; everything else is mapped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.collections.corpus import Corpus, Document
from harness.data.columns import Ids
from harness.errors import HarnessError, suggestion
from harness.io.arrays import Column, Texts, mapped
from harness.systems.lexical.text import Tokenise

Numbers = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
FIELDS = ("id", "title", "body", "tags")


@dataclass(frozen=True, eq=False)
class Field:
    """The tokens of one field of all documents.

    Attributes
    ----------
    start : int64, shape (documents + 1,). Where each document's tokens begin in `token`, and their end.
    token : int32, shape (tokens,). Word numbers, in the order of the text.
    """

    start: Offsets
    token: Numbers


@dataclass(frozen=True, eq=False)
class Tokens:
    """A corpus as token numbers.

    Attributes
    ----------
    ids : bytes, shape (documents,). In corpus order.
    words : words by number, in order of first appearance.
    fields : name of a document field -> its tokens.
    """

    ids: Ids
    words: tuple[str, ...]
    fields: Mapping[str, Field]

    @staticmethod
    def load(folder: Path) -> Tokens:
        """Loads tokens that `write` wrote; the arrays are memory-mapped.

        Raises
        ------
        HarnessError
            A file is missing or damaged.
        """
        try:
            names = unpacked(folder / "fields.npy")
            fields = {
                name: Field(mapped(folder / f"start-{n}.npy"), mapped(folder / f"token-{n}.npy"))
                for n, name in enumerate(names)
            }
            return Tokens(mapped(folder / "ids.npy"), unpacked(folder / "words.npy"), fields)
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


def write(corpus: Corpus, fields: Iterable[str], tokenise: Tokenise, folder: Path) -> None:
    """Tokenises fields of all documents of a corpus and writes the tokens to an empty folder.

    Raises
    ------
    HarnessError
        The corpus has no documents, a field occurs in no document, or there are no tokens.
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new word gets the next number
    seen = set[str]()
    names = list(fields)
    with ExitStack() as files:
        ids = files.enter_context(Texts(folder / "ids.npy"))
        columns = []
        for number, name in enumerate(names):
            start = files.enter_context(Column(folder / f"start-{number}.npy", np.int64))
            start.extend((0,))
            columns.append((name, start, files.enter_context(Column(folder / f"token-{number}.npy", np.int32))))
        documents = 0
        for documents, document in enumerate(corpus, 1):  # noqa: B007
            ids.add(document.id.encode())
            seen.update(document.columns)
            for name, start, token in columns:
                token.extend(map(numbers.__getitem__, tokenise(field_text(document, name) or "")))
                start.extend((len(token),))
    if not documents:
        raise HarnessError(f"corpus {corpus.name}: has no documents")
    check_fields(corpus, names, seen)
    if not numbers:
        raise HarnessError(f"corpus {corpus.name}: its fields {', '.join(names)} hold no tokens")
    packed(folder / "words.npy", numbers)
    packed(folder / "fields.npy", names)


def check_fields(corpus: Corpus, wanted: Iterable[str], seen: Iterable[str]) -> None:
    """Raises HarnessError if a field is neither a standard field nor a column of any document."""
    known = {*FIELDS, *seen}
    for name in wanted:
        if name not in known:
            raise HarnessError(f"corpus {corpus.name}: no document has the field {name!r}; {suggestion(name, known)}")

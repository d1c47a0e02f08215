"""Base of lexical systems: a corpus as token numbers, and weighted postings.

`encode` tokenises a corpus once; its `Tokens` are stored on disk and shared by all systems with the same view of the
same text. `Postings` hold the contribution of each word to each document's score, which is summed over the query.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.collections.corpus import Corpus, Document
from harness.data.columns import Floats, Ids
from harness.errors import HarnessError, suggestion
from harness.systems.lexical.text import Tokenise
from harness.systems.ranking import Scored

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

    @property
    def lengths(self) -> Offsets:
        """Number of tokens of each document, shape (documents,)."""
        lengths: Offsets = np.diff(self.start)
        return lengths


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

    def save(self, folder: Path) -> None:
        """Writes the tokens to a folder as NumPy arrays."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "ids.npy", self.ids)
        np.save(folder / "words.npy", _packed(self.words))
        np.save(folder / "fields.npy", _packed(self.fields))
        for number, field in enumerate(self.fields.values()):
            np.save(folder / f"start-{number}.npy", field.start)
            np.save(folder / f"token-{number}.npy", field.token)

    @staticmethod
    def load(folder: Path) -> Tokens:
        """Loads tokens that `save` wrote; the large arrays are memory-mapped.

        Raises
        ------
        HarnessError
            A file is missing or damaged.
        """
        try:
            names = _unpacked(np.load(folder / "fields.npy"))
            fields = {
                name: Field(np.load(folder / f"start-{n}.npy"), np.load(folder / f"token-{n}.npy", mmap_mode="r"))
                for n, name in enumerate(names)
            }
            return Tokens(np.load(folder / "ids.npy"), _unpacked(np.load(folder / "words.npy")), fields)
        except (OSError, ValueError, EOFError) as error:
            remedy = "delete this folder, and it is recomputed"
            raise HarnessError(f"{folder}: not the tokens of a corpus: {error}; {remedy}") from None


def _packed(names: Iterable[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer("\n".join(names).encode(), np.uint8)


def _unpacked(data: npt.NDArray[np.uint8]) -> tuple[str, ...]:
    text = data.tobytes().decode()
    return tuple(text.split("\n")) if text else ()


def field_text(document: Document, field: str) -> str | None:
    """Returns the text of a document's field: id, title, body, tags, or a column that the corpus keeps."""
    if field == "tags":
        return " ".join(document.tags)
    if field in FIELDS:
        return str(getattr(document, field))
    return document.columns.get(field)


def encode(corpus: Corpus, fields: Iterable[str], tokenise: Tokenise) -> Tokens:
    """Tokenises fields of all documents of a corpus.

    Raises
    ------
    HarnessError
        The corpus has no documents, a field occurs in no document, or there are no tokens.
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new word gets the next number
    ids: list[bytes] = []
    wanted = {name: (array("q", [0]), array("i")) for name in fields}
    seen = set[str]()
    for document in corpus:
        ids.append(document.id.encode())
        seen.update(document.columns)
        for name, (start, token) in wanted.items():
            token.extend(map(numbers.__getitem__, tokenise(field_text(document, name) or "")))
            start.append(len(token))
    if not ids:
        raise HarnessError(f"corpus {corpus.name}: has no documents")
    check_fields(corpus, wanted, seen)
    if not numbers:
        raise HarnessError(f"corpus {corpus.name}: its fields {', '.join(wanted)} hold no tokens")
    packed = {
        name: Field(np.frombuffer(start, np.int64), np.frombuffer(token, np.int32) if token else np.zeros(0, np.int32))
        for name, (start, token) in wanted.items()
    }
    return Tokens(np.array(ids), tuple(numbers), packed)


def check_fields(corpus: Corpus, wanted: Iterable[str], seen: Iterable[str]) -> None:
    """Raises HarnessError if a field is neither a standard field nor a column of any document."""
    known = {*FIELDS, *seen}
    for name in wanted:
        if name not in known:
            raise HarnessError(f"corpus {corpus.name}: no document has the field {name!r}; {suggestion(name, known)}")


@dataclass(frozen=True, eq=False)
class Bag:
    """Each document as one sequence of tokens: fields joined, too frequent and too rare words removed.

    Attributes
    ----------
    numbers : word -> its number in `field`.
    """

    ids: Ids
    numbers: Mapping[str, int]
    field: Field


def join(tokens: Tokens, weights: Mapping[str, int], *, min_count: int = 0, max_share: float = 1.0) -> Bag:
    """Joins the fields of each document, each repeated as often as its weight says.

    Parameters
    ----------
    min_count : words with fewer occurrences in the whole corpus, counting repeated fields, are excluded.
    max_share : words in a larger share of the documents are excluded.

    Raises
    ------
    HarnessError
        No words remain.
    """
    copies = [tokens.fields[name] for name, weight in weights.items() for _ in range(weight)]
    start = np.sum([copy.start for copy in copies], axis=0)
    token = np.empty(int(start[-1]), np.int32)
    at = start[:-1].copy()
    for copy in copies:
        token[_spread(at, copy.lengths)] = copy.token
        at += copy.lengths
    keep = np.ones(len(tokens.words), dtype=bool)
    if min_count > 1:
        keep &= np.bincount(token, minlength=keep.size) >= min_count
    if max_share < 1:
        word, _, _ = count(Field(start, token))
        keep &= np.bincount(word, minlength=keep.size) <= max_share * len(tokens.ids)
    stays = keep[token]
    if not stays.any():
        raise HarnessError(f"no word is left with min_count={min_count} and max_share={max_share:g}")
    if not stays.all():
        start = np.concatenate(([0], np.cumsum(stays)))[start]
        token = (np.cumsum(keep, dtype=np.int32) - np.int32(1))[token[stays]]
    kept = [word for word, stay in zip(tokens.words, keep.tolist(), strict=True) if stay]
    return Bag(tokens.ids, {word: number for number, word in enumerate(kept)}, Field(start, token))


def _spread(start: Offsets, lengths: Offsets) -> Offsets:
    """Returns the indices start[i], start[i] + 1, ..., start[i] + lengths[i] - 1 for each i in turn, concatenated."""
    before = np.cumsum(lengths) - lengths
    spread: Offsets = np.arange(int(lengths.sum())) + np.repeat(start - before, lengths)
    return spread


def count(field: Field) -> tuple[Numbers, Numbers, Numbers]:
    """Counts each word in each document; returns word, document and count, sorted by word, then document."""
    documents = len(field.start) - 1
    key = field.token.astype(np.int64) * documents + np.repeat(np.arange(documents), field.lengths)
    key, tf = np.unique(key, return_counts=True)
    return (key // documents).astype(np.int32), (key % documents).astype(np.int32), tf.astype(np.int32)


@dataclass(frozen=True, eq=False)
class Postings:
    """Weighted postings: the contribution of each query word to each document's score.

    Attributes
    ----------
    ids : bytes, shape (documents,).
    numbers : word -> its number.
    start : int64, shape (words + 1,). Where each word's entries begin in `doc` and `weight`, and their end.
    doc : int32, shape (entries,). Indices into `ids`, ascending within a word.
    weight : float64, shape (entries,). Contribution of an occurrence in the query, beyond `floor`.
    floor : float64, shape (words,). Contribution to every document, even without the word; zero in most models.
    """

    ids: Ids
    numbers: Mapping[str, int]
    start: Offsets
    doc: Numbers
    weight: Floats
    floor: Floats

    def score(self, query: Mapping[str, float]) -> Scored:
        """Returns each document's score minus that of an empty document, and the score of an empty document.

        Words are summed in the order of the query, so that results are bitwise reproducible.

        Parameters
        ----------
        query : word -> weight; unknown words contribute nothing.
        """
        scores = np.zeros(len(self.ids))
        floor = 0.0
        for word, weight in query.items():
            number = self.numbers.get(word)
            if number is not None:
                begin, end = self.start[number], self.start[number + 1]
                scores[self.doc[begin:end]] += weight * self.weight[begin:end]
                floor += weight * float(self.floor[number])
        return scores, floor

"""Counts of words in documents, and weighted postings: the contribution of each word to each document's score.

Both are made in bounded memory and mapped from files. Beyond the limit, memory holds a few numbers for each document
and each word, and the postings of one word at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.data.columns import Floats, Ids, Index
from harness.errors import HarnessError
from harness.io import memory
from harness.io.arrays import ArrayFile, mapped, ranges, release
from harness.io.kernels import Kernel, kernel
from harness.systems.blocks import BlockFiles
from harness.systems.lexical.numbering import Numbers, Offsets, spread
from harness.systems.lexical.tokens import CorpusTokens, packed, unpacked
from harness.systems.ranking import Best, Scored, top

_MOST = 1 << 21  # tokens counted, or entries merged, at a time; more are slower to sort, and need memory
BYTES = 80  # bytes of memory that counting, or weighting, takes for a token or an entry
_WIDTH = 8192  # documents whose sums the kernel has at a time
Block = tuple[int, Offsets, Numbers]


def token_sequences(tokens: CorpusTokens, weights: Mapping[str, int], most: int = _MOST) -> Iterator[Block]:
    """Yields blocks of documents as sequences of tokens, each field repeated as often as its weight says.

    A block is the number of its first document, where each document's tokens begin in the block (and their end), and
    the tokens.

    Parameters
    ----------
    most : maximum number of tokens of a block of several documents.
    """
    copies = [tokens.fields[name] for name, weight in weights.items() for _ in range(weight)]
    total = np.sum([copy.start for copy in copies], axis=0)
    for first, last in ranges(total, most):
        start = total[first : last + 1] - total[first]
        token = np.empty(int(start[-1]), np.int32)
        at = start[:-1].copy()
        for copy in copies:
            own = copy.start[first : last + 1]
            lengths = np.diff(own)
            token[spread(at, lengths)] = copy.token[own[0] : own[-1]]
            at += lengths
        yield first, start, token
        release(*(copy.token for copy in copies))


@dataclass(frozen=True, eq=False)
class WordCounts:
    """How often each word occurs in each document: entries by word, then document.

    Attributes
    ----------
    ids : bytes, shape (documents,).
    words : words by number.
    lengths : int64, shape (documents,). Number of tokens.
    start : int64, shape (words + 1,). Where each word's entries begin in `doc` and `tf`, and their end.
    doc : int32, shape (entries,). Indices into `ids`, ascending within a word.
    tf : int32, shape (entries,).
    """

    ids: Ids
    words: tuple[str, ...]
    lengths: Offsets
    start: Offsets
    doc: Numbers
    tf: Numbers

    @property
    def df(self) -> Offsets:
        """Number of documents with each word, shape (words,)."""
        df: Offsets = np.diff(self.start)
        return df

    def read(self, first: int, last: int) -> tuple[Offsets, Numbers, Numbers]:
        """Reads the entries of words `first` to `last - 1`: word, document and count of each."""
        some = slice(int(self.start[first]), int(self.start[last]))
        word = np.repeat(np.arange(first, last), np.diff(self.start[first : last + 1]))
        entries = word, np.array(self.doc[some]), np.array(self.tf[some])
        release(self.doc, self.tf)
        return entries

    @staticmethod
    def load(folder: Path, ids: Ids) -> WordCounts:
        """Loads counts that `count` wrote. Raises HarnessError if a file is missing or damaged."""
        try:
            arrays = [mapped(folder / f"{name}.npy") for name in ("lengths", "start", "doc", "tf")]
            return WordCounts(ids, unpacked(folder / "words.npy"), *arrays)
        except (OSError, ValueError, EOFError) as error:
            raise HarnessError(f"{folder}: not the counts of words: {error}") from None


def count(
    tokens: CorpusTokens,
    weights: Mapping[str, int],
    folder: Path,
    *,
    min_count: int = 0,
    max_share: float = 1.0,
    limit: int | None = None,
) -> None:
    """Counts the words of each document, fields repeated by their weights, and writes `WordCounts` to an empty folder.

    Parameters
    ----------
    min_count : words with fewer occurrences in the whole corpus, counting repeated fields, are excluded.
    max_share : words in a larger share of the documents are excluded.
    limit : bytes of memory for blocks; by default `harness.io.memory.limit`.

    Raises
    ------
    HarnessError
        No words remain.
    """
    most = min((memory.limit() if limit is None else limit) // BYTES, _MOST)
    documents, words = len(tokens.ids), len(tokens.words)
    lengths = np.zeros(documents, np.int64)
    often, df = np.zeros(words, np.int64), np.zeros(words, np.int64)
    with BlockFiles(folder / "blocks", words, (np.int32, np.int32)) as blocks:
        for first, start, token in token_sequences(tokens, weights, most):
            lengths[first : first + len(start) - 1] = np.diff(start)
            here, doc, tf = _counted(start, token, words)
            some = np.flatnonzero(here)
            df += here
            often += np.bincount(token, minlength=words)
            blocks.add(some.astype(np.uint64), here[some], doc + np.int32(first), tf)
        keep = (often >= min_count) if min_count > 1 else np.ones(words, bool)
        if max_share < 1:
            keep &= df <= max_share * documents
        if often.any() and not often[keep].any():
            raise HarnessError(f"no word is left with min_count={min_count} and max_share={max_share:g}")
        with ArrayFile(folder / "doc.npy", np.int32) as docs, ArrayFile(folder / "tf.npy", np.int32) as tfs:
            for lists in blocks.merged(most):
                doc, tf = lists.columns
                stay = keep[lists.key]
                if not stay.all():
                    out = np.repeat(~stay, lists.often)
                    lengths -= np.bincount(doc[out], tf[out], documents).astype(np.int64)
                    doc, tf = doc[~out], tf[~out]
                docs.add(doc)
                tfs.add(tf)
    np.save(folder / "lengths.npy", lengths)
    np.save(folder / "start.npy", np.concatenate(([0], np.cumsum(df[keep]))))
    packed(folder / "words.npy", (word for word, stay in zip(tokens.words, keep.tolist(), strict=True) if stay))


def _counted(start: Offsets, token: Numbers, words: int) -> tuple[Offsets, Numbers, Numbers]:
    """Counts each word in each document of a block.

    Returns
    -------
    The number of documents with each word, shape (words,); document and count of each entry, by word, then document.
    """
    documents = len(start) - 1
    if compiled := kernel("harness_counts"):
        df, doc, tf = np.zeros(words, np.int64), np.empty(len(token), np.int32), np.empty(len(token), np.int32)
        entries = compiled(start, documents, token, words, df, np.empty((2, words), np.int64), doc, tf)
        if entries >= 0:
            return df, doc[:entries], tf[:entries]
    key = token.astype(np.int64) * documents + np.repeat(np.arange(documents), np.diff(start))
    key.sort()
    first = np.flatnonzero(np.concatenate((np.ones(min(len(key), 1), bool), key[1:] != key[:-1])))
    word, place = np.divmod(key[first], documents)
    often = np.diff(first, append=len(key))
    return np.bincount(word, minlength=words), place.astype(np.int32), often.astype(np.int32)


@dataclass(frozen=True, eq=False)
class Postings:
    """Weighted postings: the contribution of each query word to each document's score.

    Attributes
    ----------
    ids : bytes, shape (documents,).
    words : words by number.
    start : int64, shape (words + 1,). Where each word's entries begin in `doc` and `weight`, and their end.
    doc : int32, shape (entries,). Indices into `ids`, ascending within a word.
    weight : float64, shape (entries,). Contribution of an occurrence in the query, beyond `floor`.
    floor : float64, shape (words,). Contribution to every document, even without the word; zero in most models.
    most : float64, shape (words,). Largest weight of each word; infinite if one is negative.
    """

    ids: Ids
    words: tuple[str, ...]
    start: Offsets
    doc: Numbers
    weight: Floats
    floor: Floats
    most: Floats

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Number of each word."""
        return {word: number for number, word in enumerate(self.words)}

    @staticmethod
    def load(folder: Path, counts: WordCounts) -> Postings:
        """Loads postings; documents and where words begin are those of the counts, unless the folder has its own.

        Raises HarnessError if a file is missing or damaged.
        """
        start, doc = counts.start, counts.doc
        try:
            with suppress(FileNotFoundError):
                start, doc = mapped(folder / "start.npy"), mapped(folder / "doc.npy")
            weight, floor, most = (mapped(folder / f"{name}.npy") for name in ("weight", "floor", "most"))
        except (OSError, ValueError, EOFError) as error:
            raise HarnessError(f"{folder}: not the postings of a corpus: {error}") from None
        return Postings(counts.ids, counts.words, start, doc, weight, floor, most)

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

    def best(self, query: Mapping[str, float], place: Index, k: int) -> Best:
        """Returns the top k of the documents that score above an empty document, and their scores.

        They are those of `score`, ranked by `harness.systems.ranking.top`; the kernel in `postings.c` finds them
        without the scores of all documents.

        Parameters
        ----------
        query : see `score`.
        place : int64, shape (documents,). See `harness.systems.ranking.positions_by_id`.
        """
        search = kernel("harness_best")
        ranked = None if search is None else self._searched(search, query, place, k)
        if ranked is None:
            above, floor = self.score(query)
            rows = np.flatnonzero(above > 0)
            ranked = top(rows, (above[rows] + floor).astype(np.float32), place, k)
        return ranked

    def _searched(self, search: Kernel, query: Mapping[str, float], place: Index, k: int) -> Best | None:
        """Returns what `best` returns; None if the NumPy code has to do, as the postings are damaged or negative."""
        size = min(len(self.doc), len(self.weight))
        arrays = (self.doc, np.int32), (self.weight, np.float64)
        if any(array.dtype != kind or array.ndim != 1 for array, kind in arrays) or len(self.most) != len(self.floor):
            return None
        pairs = [(self.numbers[word], float(weight)) for word, weight in query.items() if word in self.numbers]
        number, factor = np.array([n for n, _ in pairs], np.int64), np.array([weight for _, weight in pairs])
        floor = 0.0
        for weight, each in zip(factor.tolist(), self.floor[number].tolist(), strict=True):
            floor += weight * each
        bound = factor * self.most[number]
        if not (np.isfinite(bound).all() and (factor >= 0).all()):
            bound = np.full(len(pairs), np.inf)
        rank = np.argsort(bound, kind="stable")
        rest = np.concatenate(([0.0], np.cumsum(bound[rank])))
        begin, end = (self.start[at].astype(np.int64, copy=False) for at in (number, number + 1))
        k = min(k, len(self.ids))
        sums, room, part = np.zeros(_WIDTH), np.empty(3 * len(pairs), np.int64), np.empty(len(pairs))
        best = np.empty((2 * k, 2), np.int64)
        lists = (len(pairs), begin, end, factor, rank, rest)
        count = search(self.doc, self.weight, size, len(self.ids), *lists, place, floor, k, sums, room, part, best)
        if count < 0:
            return None
        best = best[np.argsort(best[:count, 0])[::-1]]
        return best[:, 1], (best[:, 0] >> 32).astype(np.int32).view(np.float32)

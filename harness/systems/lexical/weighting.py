"""Term weighting models: the contribution of each query word to each document's score.

BM25 variants, BM25F over fields, and TF-IDF in SMART notation. Postings are weighted some words at a time, and written
to files. Sums over the words of a document are in the order of the words, so that the size of the parts changes no bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.data.columns import Floats, Ids, Index
from harness.errors import HarnessError
from harness.io import memory
from harness.io.arrays import ArrayFile, ranges
from harness.systems.lexical.numbering import Numbers, Offsets
from harness.systems.lexical.postings import BYTES, Postings, WordCounts
from harness.systems.ranking import Best, Scored

VARIANTS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
TERM_FREQUENCY = "bnaldL"
DOCUMENT_FREQUENCY = "nftp"
NORMALISATION = "nc"
_MOST = 1 << 17  # entries weighted at a time; more of them leave the cache
Part = tuple[Offsets, Numbers, Numbers]  # word, document and count of some entries


def _some_words(start: Offsets, limit: int | None) -> Iterator[tuple[int, int]]:
    """Yields ranges of words whose entries are weighted at a time."""
    return ranges(start, min((memory.limit() if limit is None else limit) // BYTES, _MOST))


def _parts(counts: WordCounts, limit: int | None) -> Iterator[Part]:
    """Yields all entries, some words at a time."""
    return (counts.read(first, last) for first, last in _some_words(counts.start, limit))


class _Weights:
    """The weights of postings and the largest of each word, written to a folder.

    Parameters
    ----------
    words : number of words.
    """

    def __init__(self, folder: Path, words: int) -> None:
        self._most = np.zeros(words)
        self._path = folder / "most.npy"
        self._column = ArrayFile(folder / "weight.npy", np.float64)

    def add(self, word: Offsets, weight: Floats) -> None:
        """Appends the weights of some words' entries."""
        self._column.add(weight)
        np.maximum.at(self._most, word, np.where(weight >= 0, weight, np.inf))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._column.__exit__(kind, value, trace)
        if kind is None:
            np.save(self._path, self._most)


# ---- BM25 -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BM25Weights:
    """BM25 in float64; for the variants see Kamphuis et al. (ECIR 2020).

    Parameters
    ----------
    variant : one of `VARIANTS`; `bm25+` with k1 = 1.5, b = 0.75, delta = 1 is rank_bm25's BM25Plus.
    delta : parameter of `bm25l` and `bm25+`.
    """

    variant: str
    k1: float
    b: float
    delta: float

    def write(self, counts: WordCounts, folder: Path, limit: int | None = None) -> None:
        """Writes the weights of postings to an empty folder.

        Parameters
        ----------
        limit : bytes of memory for the entries of some words; by default `harness.io.memory.limit`.
        """
        documents, mean = len(counts.ids), counts.lengths.mean()
        norm, normal = (1 - self.b + self.b * length / mean for length in (counts.lengths, np.array([mean])))
        df, place = np.unique(counts.df, return_inverse=True)
        idf = np.array([self._word_idf(each, documents) if each else 0.0 for each in df.tolist()])[place]
        floor = np.zeros(len(idf))
        if self.variant in ("bm25l", "bm25+"):
            floor = idf * self._saturated(np.zeros(1), normal)
        with _Weights(folder, len(idf)) as weights:
            for word, doc, tf in _parts(counts, limit):
                weight = idf[word] * self._saturated(tf.astype(np.float64), norm[doc])
                weights.add(word, weight - floor[word] if floor.any() else weight)
        np.save(folder / "floor.npy", floor)

    def _word_idf(self, df: int, documents: int) -> float:
        if self.variant == "lucene":
            return math.log(1 + (documents - df + 0.5) / (df + 0.5))
        if self.variant == "robertson":  # not negative
            return math.log(max((documents - df + 0.5) / (df + 0.5), 1))
        if self.variant == "atire":
            return math.log(documents / df)
        return math.log((documents + 1) / (df + 0.5 if self.variant == "bm25l" else df))

    def _saturated(self, tf: Floats, norm: Floats) -> Floats:
        """Returns the part of the weight that depends on the document and its length, of which `norm` is a function."""
        if self.variant in ("lucene", "robertson"):
            out = tf / (self.k1 * norm + tf)
        elif self.variant == "atire":
            out = tf * (self.k1 + 1) / (tf + self.k1 * norm)
        elif self.variant == "bm25l":
            out = (self.k1 + 1) * (tf / norm + self.delta) / (self.k1 + tf / norm + self.delta)
        else:
            out = (self.k1 + 1) * tf / (self.k1 * norm + tf) + self.delta
        return out


def bm25f(
    fields: Mapping[str, WordCounts],
    weights: Mapping[str, float],
    b: Mapping[str, float],
    k1: float,
    folder: Path,
    limit: int | None = None,
) -> None:
    """Writes BM25F postings: BM25 over weighted fields (Zaragoza et al., TREC 2004), with Lucene's IDF.

    The frequency of a word is the sum over fields of weight * tf / (1 - b + b * length / mean length).

    Parameters
    ----------
    fields : field -> its counts, of the same words and documents.
    weights, b : field -> its weight, and its length normalisation (0 to 1).
    limit : bytes of memory for the entries of some words; by default `harness.io.memory.limit`.
    """
    documents = len(next(iter(fields.values())).ids)
    norms = {}
    for name, counts in fields.items():
        mean = max(float(counts.lengths.mean()), 1e-9)
        norms[name] = 1 - b[name] + b[name] * counts.lengths / mean
    together = np.sum([counts.start for counts in fields.values()], axis=0)
    df = np.zeros(len(together) - 1, np.int64)
    with ArrayFile(folder / "doc.npy", np.int32) as docs, _Weights(folder, len(df)) as added:
        for first, last in _some_words(together, limit):
            keys, parts = [], []
            for name, weight in weights.items():
                word, doc, tf = fields[name].read(first, last)
                keys.append((word - first) * documents + doc)
                parts.append(float(weight) * tf / norms[name][doc])
            key, place = np.unique(np.concatenate(keys), return_inverse=True)
            frequency = np.bincount(place, np.concatenate(parts))
            words = key // documents
            own = df[first:last] = np.bincount(words, minlength=last - first)
            idf = np.log(1 + (documents - own + 0.5) / (own + 0.5))
            docs.add(key % documents)
            added.add(words + first, frequency / (frequency + k1) * idf[words])
    np.save(folder / "start.npy", np.concatenate(([0], np.cumsum(df))))
    np.save(folder / "floor.npy", np.zeros(len(df)))


# ---- TF-IDF -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TfIdfWeights:
    """TF-IDF document vectors as postings, and the weighting of query vectors.

    Attributes
    ----------
    letters : SMART letters for queries.
    """

    postings: Postings
    letters: str

    @property
    def ids(self) -> Ids:
        """Ids of the documents."""
        return self.postings.ids

    @cached_property
    def idf(self) -> Floats:
        """Document-frequency weight of words in queries, by the second letter, shape (words,)."""
        return _smart_idf(np.diff(self.postings.start), len(self.ids), self.letters)

    def score(self, query: Mapping[str, float]) -> Scored:
        """Returns the inner product of the query's vector with each document's; unknown words are excluded first."""
        return self.postings.score(self._query_vector(query))

    def best(self, query: Mapping[str, float], place: Index, k: int) -> Best:
        """Returns the top k of the documents whose product is above zero, and their scores; see `Postings.best`."""
        return self.postings.best(self._query_vector(query), place, k)

    def _query_vector(self, query: Mapping[str, float]) -> dict[str, float]:
        """Returns the weights of a query's words that the corpus has."""
        known = {word: tf for word, tf in query.items() if word in self.postings.numbers}
        number = np.array([self.postings.numbers[word] for word in known], dtype=np.int64)
        tf = np.array(list(known.values()), float)
        most, mean = (np.full(len(tf), function(tf)) if len(tf) else tf for function in (np.max, _mean_tf))
        weight = _local(tf, most, mean, self.letters) * self.idf[number]
        if self.letters[2] == "c":
            norm = np.sqrt(np.bincount(np.zeros(len(tf), np.int32), weight * weight, 1))
            weight = weight / np.where(norm > 0, norm, 1.0)
        return dict(zip(known, weight.tolist(), strict=True))


def _mean_tf(tf: Floats) -> Floats:
    """Returns the mean of term frequencies, summed from the first to the last."""
    out: Floats = np.bincount(np.zeros(len(tf), np.int32), tf, 1)[0] / len(tf)
    return out


def tfidf(counts: WordCounts, letters: str, folder: Path, limit: int | None = None) -> None:
    """Writes the weights of TF-IDF vectors, as defined by Gensim's TfidfModel, to an empty folder.

    Parameters
    ----------
    letters : SMART letters for documents, see `smart_letters`.
    limit : bytes of memory for the entries of some words; by default `harness.io.memory.limit`.
    """
    documents = len(counts.ids)
    idf = _smart_idf(counts.df, documents, letters)
    most = mean = np.zeros(documents)
    if letters[0] == "a":
        for _, doc, tf in _parts(counts, limit):
            np.maximum.at(most, doc, tf)
    if letters[0] == "L":
        distinct = np.zeros(documents, np.int64)
        for _, doc, _ in _parts(counts, limit):
            distinct += np.bincount(doc, minlength=documents)
        mean = counts.lengths.astype(np.float64) / np.maximum(distinct, 1)

    def weighted(part: Part) -> tuple[Offsets, Numbers, Floats]:
        word, doc, tf = part
        return word, doc, _local(tf.astype(np.float64), most[doc], mean[doc], letters) * idf[word]

    norm = np.ones(documents)
    if letters[2] == "c":
        norm = np.zeros(documents)
        for _, doc, weight in map(weighted, _parts(counts, limit)):
            np.add.at(norm, doc, weight * weight)  # one after the other, so in the order of the words
        norm = np.sqrt(norm)
        norm = np.where(norm > 0, norm, 1.0)
    with _Weights(folder, len(idf)) as weights:
        for word, doc, weight in map(weighted, _parts(counts, limit)):
            weights.add(word, weight / norm[doc])
    np.save(folder / "floor.npy", np.zeros(len(idf)))


def smart_letters(smart: object) -> tuple[str, str]:
    """Parses SMART notation; returns the letters for documents and queries: `lnc` for both, or `DDD.QQQ`.

    Term frequency: b binary, n (or t) natural, a augmented, l logarithm, d double logarithm, L log average. Document
    frequency: n (or x) none, f idf, t zero-corrected idf, p probabilistic idf. Normalisation: n (or x) none,
    c cosine. Logarithms have base 2.

    Raises
    ------
    HarnessError
        The letters are not SMART notation, or are not supported.
    """
    parts = str(smart).split(".")
    plain = [_plain(letters) for letters in parts]
    if len(parts) > 2 or not all(plain):
        known = f"one of {TERM_FREQUENCY}, one of {DOCUMENT_FREQUENCY}, one of {NORMALISATION}"
        raise HarnessError(f"key 'smart' is {smart!r}, expected letters such as lnc or lnc.ltc: {known}")
    return plain[0], plain[-1]


def _plain(letters: str) -> str:
    """Returns three SMART letters with aliases resolved; empty if they are not supported."""
    if len(letters) != 3:
        return ""
    tf, df, norm = letters[0].replace("t", "n"), letters[1].replace("x", "n"), letters[2].replace("x", "n")
    return tf + df + norm if tf in TERM_FREQUENCY and df in DOCUMENT_FREQUENCY and norm in NORMALISATION else ""


def _smart_idf(df: npt.NDArray[np.int64], documents: int, letters: str) -> Floats:
    """Returns the inverse document frequency that the second SMART letter names; 1 for other letters than f, t, p."""
    share = documents / df
    if letters[1] == "f":
        return np.log2(share)
    if letters[1] == "t":
        return np.log2((documents + 1) / df)
    if letters[1] == "p":
        return np.log2(np.maximum(share - 1, 1.0))
    return np.ones(len(df))


def _local(tf: Floats, most: Floats, mean: Floats, letters: str) -> Floats:
    """Weights term frequencies by the first letter; `most` and `mean` are those of each entry's document."""
    local = tf
    if letters[0] == "b":
        local = np.ones_like(tf)
    elif letters[0] == "l":
        local = 1 + np.log2(tf)
    elif letters[0] == "d":
        local = 1 + np.log2(1 + np.log2(tf))
    elif letters[0] == "a":
        local = 0.5 + 0.5 * tf / most
    elif letters[0] == "L":
        local = (1 + np.log2(tf)) / (1 + np.log2(mean))
    return local

"""Term weighting models: the contribution of each query word to each document's score.

BM25 variants (computed by bm25s), BM25F over fields, and TF-IDF in SMART notation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from harness.data.columns import Floats, Ids
from harness.errors import HarnessError
from harness.systems.lexical.postings import Bag, Field, Numbers, Postings, Tokens, count
from harness.systems.ranking import Scored

VARIANTS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
TERM_FREQUENCY = "bnaldL"
DOCUMENT_FREQUENCY = "nftp"
NORMALISATION = "nc"


class _Lists(Sequence[list[int]]):
    """Documents of a bag as lists, created on access, because bm25s iterates over them more than once."""

    def __init__(self, field: Field) -> None:
        self.field = field

    def __len__(self) -> int:
        return len(self.field.start) - 1

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | Sequence[list[int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        tokens: list[int] = self.field.token[self.field.start[index] : self.field.start[index + 1]].tolist()
        return tokens

    def __iter__(self) -> Iterator[list[int]]:
        return (self[index] for index in range(len(self)))


def bm25(bag: Bag, variant: str, k1: float, b: float, delta: float) -> Postings:
    """Returns BM25 postings, computed by bm25s in float64; for the variants see Kamphuis et al. (ECIR 2020).

    Parameters
    ----------
    variant : one of `VARIANTS`; `bm25+` with k1 = 1.5, b = 0.75, delta = 1 is rank_bm25's BM25Plus.
    delta : parameter of `bm25l` and `bm25+`.
    """
    import bm25s
    from bm25s.tokenization import Tokenized

    model = bm25s.BM25(k1=k1, b=b, delta=delta, method=variant, dtype="float64")
    documents = Tokenized(ids=_Lists(bag.field), vocab=dict(bag.numbers))
    model.index(documents, create_empty_token=False, show_progress=False)
    parts, floor = model.scores, model.nonoccurrence_array
    return Postings(
        bag.ids,
        bag.numbers,
        np.asarray(parts["indptr"], np.int64),
        np.asarray(parts["indices"], np.int32),
        np.asarray(parts["data"], np.float64),
        np.zeros(len(bag.numbers)) if floor is None else np.asarray(floor, np.float64),
    )


def bm25f(tokens: Tokens, weights: Mapping[str, float], b: Mapping[str, float], k1: float) -> Postings:
    """Returns BM25F postings: BM25 over weighted fields (Zaragoza et al., TREC 2004), with Lucene's IDF.

    The frequency of a word is the sum over fields of weight * tf / (1 - b + b * length / mean length).

    Parameters
    ----------
    weights, b : field -> its weight, and its length normalisation (0 to 1).
    """
    documents = len(tokens.ids)
    keys, parts = [], []
    for name, weight in weights.items():
        field = tokens.fields[name]
        word, doc, tf = count(field)
        mean = max(float(field.lengths.mean()), 1e-9)
        norm = 1 - b[name] + b[name] * field.lengths / mean
        keys.append(word.astype(np.int64) * documents + doc)
        parts.append(float(weight) * tf / norm[doc])
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    frequency = np.bincount(place, np.concatenate(parts))
    words = key // documents
    df = np.bincount(words, minlength=len(tokens.words))
    idf = np.log(1 + (documents - df + 0.5) / (df + 0.5))
    added = frequency / (frequency + k1) * idf[words]
    numbers = {name: number for number, name in enumerate(tokens.words)}
    start = np.concatenate(([0], np.cumsum(df))).astype(np.int64)
    return Postings(tokens.ids, numbers, start, (key % documents).astype(np.int32), added, np.zeros(len(df)))


@dataclass(frozen=True, eq=False)
class TfIdf:
    """TF-IDF document vectors as postings, and the weighting of query vectors.

    Attributes
    ----------
    letters : SMART letters for queries.
    idf : float64, shape (words,). Document-frequency weight of words in queries, by the second letter.
    """

    postings: Postings
    letters: str
    idf: Floats

    @property
    def ids(self) -> Ids:
        """Ids of the documents."""
        return self.postings.ids

    def score(self, query: Mapping[str, float]) -> Scored:
        """Returns the inner product of the query's vector with each document's; unknown words are excluded first."""
        known = {word: tf for word, tf in query.items() if word in self.postings.numbers}
        number = np.array([self.postings.numbers[word] for word in known], dtype=np.int64)
        one = np.zeros(len(known), np.int32)
        vector = _vectors(one, np.array(list(known.values()), float), self.idf[number], self.letters, 1)
        return self.postings.score(dict(zip(known, vector.tolist(), strict=True)))


def tfidf(bag: Bag, smart: str) -> TfIdf:
    """Computes TF-IDF vectors in SMART notation, as defined by Gensim's TfidfModel: see `smart_letters`."""
    of_documents, of_queries = smart_letters(smart)
    word, doc, tf = count(bag.field)
    df = np.bincount(word, minlength=len(bag.numbers))
    weight = _vectors(doc, tf.astype(float), _idf(df, len(bag.ids), of_documents)[word], of_documents, len(bag.ids))
    start = np.concatenate(([0], np.cumsum(df))).astype(np.int64)
    postings = Postings(bag.ids, bag.numbers, start, doc, weight, np.zeros(len(df)))
    return TfIdf(postings, of_queries, _idf(df, len(bag.ids), of_queries))


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


def _idf(df: npt.NDArray[np.int64], documents: int, letters: str) -> Floats:
    share = documents / df
    if letters[1] == "f":
        return np.log2(share)
    if letters[1] == "t":
        return np.log2((documents + 1) / df)
    if letters[1] == "p":
        return np.log2(np.maximum(share - 1, 1.0))
    return np.ones(len(df))


def _vectors(group: Numbers, tf: Floats, idf: Floats, letters: str, groups: int) -> Floats:
    """Returns the weights of words in documents, shape (entries,); `group` is the document of each entry."""
    local = tf
    if letters[0] == "b":
        local = np.ones_like(tf)
    elif letters[0] == "l":
        local = 1 + np.log2(tf)
    elif letters[0] == "d":
        local = 1 + np.log2(1 + np.log2(tf))
    elif letters[0] == "a":
        most = np.zeros(groups)
        np.maximum.at(most, group, tf)
        local = 0.5 + 0.5 * tf / most[group]
    elif letters[0] == "L":
        mean = np.bincount(group, tf, groups) / np.maximum(np.bincount(group, minlength=groups), 1)
        local = (1 + np.log2(tf)) / (1 + np.log2(mean[group]))
    weight: Floats = local * idf
    if letters[2] == "c":
        norm = np.sqrt(np.bincount(group, weight * weight, groups))
        weight = weight / np.where(norm > 0, norm, 1.0)[group]
    return weight

"""Postings computed in memory at once, by plain NumPy and by bm25s, which those of bounded memory must equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Texts = Sequence[Mapping[str, Sequence[str]]]  # field -> words of each document


@dataclass(frozen=True)
class Expected:
    """Postings: word numbers in order of first appearance, and the weights of words in documents."""

    words: list[str]
    start: list[int]
    doc: list[int]
    weight: list[float]
    floor: list[float]


def vocabulary(texts: Texts, fields: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(word for text in texts for field in sorted(fields) for word in text[field]))


def bags(
    texts: Texts, weights: Mapping[str, int], min_count: int, max_share: float
) -> tuple[list[str], list[list[int]]]:
    """The words that are kept, and each document as a list of their numbers."""
    joined = [[word for field, n in weights.items() for _ in range(n) for word in text[field]] for text in texts]
    words = vocabulary(texts, list(weights))
    often = {word: sum(doc.count(word) for doc in joined) for word in words}
    df = {word: sum(word in doc for doc in joined) for word in words}
    kept = [word for word in words if often[word] >= min_count and df[word] <= max_share * len(texts)]
    numbers = {word: n for n, word in enumerate(kept)}
    return kept, [[numbers[word] for word in doc if word in numbers] for doc in joined]


def bm25(words: list[str], docs: list[list[int]], variant: str, k1: float, b: float, delta: float) -> Expected:
    import bm25s
    from bm25s.tokenization import Tokenized

    model = bm25s.BM25(k1=k1, b=b, delta=delta, method=variant, dtype="float64")
    vocab = {word: number for number, word in enumerate(words)}
    model.index(Tokenized(ids=docs, vocab=vocab), create_empty_token=False, show_progress=False)
    made, floor = model.scores, model.nonoccurrence_array
    parts = (made["indptr"].tolist(), made["indices"].tolist(), made["data"].tolist())
    return Expected(words, *parts, [0.0] * len(words) if floor is None else floor.tolist())


def _counted(docs: Sequence[Sequence[int]]) -> tuple[Array, Array, Array]:
    pairs = sorted((word, doc) for doc, numbers in enumerate(docs) for word in set(numbers))
    tf = [docs[doc].count(word) for word, doc in pairs]
    word, doc = np.array(pairs, np.int64).reshape(-1, 2).T
    return word, doc, np.array(tf, np.int64)


def tfidf(words: list[str], docs: list[list[int]], letters: str) -> Expected:
    word, doc, count = _counted(docs)
    n, tf = len(docs), count.astype(float)
    df = np.bincount(word, minlength=len(words))
    share = n / df
    logs = {"f": share, "t": (n + 1) / df, "p": np.maximum(share - 1, 1.0)}
    idf = np.log2(logs[letters[1]]) if letters[1] in logs else np.ones(len(df))
    most = np.zeros(n)
    np.maximum.at(most, doc, tf)
    mean = np.bincount(doc, tf, n) / np.maximum(np.bincount(doc, minlength=n), 1)
    local = {
        "n": tf,
        "b": np.ones_like(tf),
        "l": 1 + np.log2(tf),
        "d": 1 + np.log2(1 + np.log2(tf)),
        "a": 0.5 + 0.5 * tf / most[doc],
        "L": (1 + np.log2(tf)) / (1 + np.log2(mean[doc])),
    }[letters[0]]
    weight = local * idf[word]
    if letters[2] == "c":
        norm = np.sqrt(np.bincount(doc, weight * weight, n))
        weight = weight / np.where(norm > 0, norm, 1.0)[doc]
    return Expected(words, [0, *np.cumsum(df).tolist()], doc.tolist(), weight.tolist(), [0.0] * len(words))


def bm25f(texts: Texts, weights: Mapping[str, float], b: Mapping[str, float], k1: float) -> Expected:
    words = vocabulary(texts, list(weights))
    numbers = {word: n for n, word in enumerate(words)}
    n, keys, parts = len(texts), [], []
    for name, weight in weights.items():
        docs = [[numbers[word] for word in text[name]] for text in texts]
        word, doc, tf = _counted(docs)
        lengths = np.array([len(each) for each in docs])
        norm = 1 - b[name] + b[name] * lengths / max(float(lengths.mean()), 1e-9)
        keys.append(word * n + doc)
        parts.append(float(weight) * tf / norm[doc])
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    frequency = np.bincount(place, np.concatenate(parts))
    df = np.bincount(key // n, minlength=len(words))
    idf = np.log(1 + (n - df + 0.5) / (df + 0.5))
    weight = frequency / (frequency + k1) * idf[key // n]
    return Expected(words, [0, *np.cumsum(df).tolist()], (key % n).tolist(), weight.tolist(), [0.0] * len(words))

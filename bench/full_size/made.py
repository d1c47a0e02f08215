r"""Generated inputs with the statistics of real posts and formulas, at any size, from a seed.

Lengths and frequencies are those of the 3,395 answers of corpus mse-pages with their questions (67,596 formulas,
399,379 words); no text of theirs is used. Words and formulas are drawn by rank: the share of occurrences beyond a rank
is given at some ranks and interpolated on logarithmic axes; beyond the last one it is a power of the rank. The power of
the formulas is chosen so that 28 million of them are expected to have 9 million distinct ones. Equal ranks are equal
words or formulas.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from html import escape
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
import numpy.typing as npt

SEED = 11
BLOCK = 2000  # posts or formulas drawn at a time
QUESTIONS = 1_020_585 / 2_466_080  # share of the posts
ACCEPTED = 545_638 / 1_020_585  # share of the questions
TITLE = 8  # words
_RANKS = (1, 3, 10, 30, 100, 300, 1000, 3000, 6640)
_WORDS = ((0.93994, 0.87454, 0.74021, 0.5962, 0.44338, 0.29258, 0.1431, 0.05156), 1.4)
_FORMULAS = ((0.98774, 0.96793, 0.93239, 0.88748, 0.83589, 0.79461, 0.74295, 0.67847, 0.61132), 0.11)
_SHARES = (0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
_ANSWER_WORDS = (0, 6, 11, 20, 31, 42, 56, 74, 101, 147, 265, 437, 985, 1364)
_ANSWER_FORMULAS = (0, 0, 1, 2, 3, 5, 6, 9, 12, 17, 26, 40, 96, 127)
_QUESTION_WORDS = (1, 13, 18, 28, 38, 47, 58, 70, 90, 118, 177, 240, 521, 656)
_QUESTION_FORMULAS = (0, 0, 0, 1, 2, 3, 4, 5, 7, 10, 15, 23, 41, 64)
# Characters of distinct formulas at the shares, for ranks from a given one on.
_LENGTH_RANKS = (10, 100, 1000, 4000)
_LENGTHS = (
    (0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1),
    (1, 1, 1, 1, 6, 9, 14, 20),
    (2, 3, 5, 7, 12, 23, 80, 120),
    (2, 4, 6, 11, 21, 40, 116, 200),
    (3, 6, 11, 21, 42, 78, 252, 600),
)
_SHORTER = 0.65  # `_expression` returns more characters than it is asked for
_LETTERS = "xnafkpbyctgzijmrsABXSGRFNTPMVLE"
_SYMBOLS = ("\\alpha", "\\beta", "\\lambda", "\\epsilon", "\\pi", "\\theta", "\\infty", "\\mathbb{R}", "\\mathbb{N}")
_OPERATORS = ("+", "-", "=", "=", "<", " \\cdot ", " \\le ", " \\in ", " \\to ", ",")
_SYLLABLES = [first + vowel for first in "bdfghjklmnprstvwxyzc" for vowel in "aeiou"]
Ranks = npt.NDArray[np.int64]


class Zipf:
    """Ranks, drawn by the share of occurrences beyond some ranks, and by a power of the rank beyond the last one.

    Examples
    --------
    >>> drawn = Zipf((0.5, 0.25), 1.0).draw(np.random.default_rng(0), 1000)
    >>> bool(400 < (drawn == 0).sum() < 600), int(drawn.min())
    (True, 0)
    """

    def __init__(self, beyond: tuple[float, ...], power: float) -> None:
        last = np.log(beyond[-1]) - power * 50  # e^50 times the last rank
        self._rank = np.log([*_RANKS[: len(beyond)], _RANKS[len(beyond) - 1] * np.exp(50)])
        self._beyond = np.array([*np.log(beyond), last])
        self._first = beyond[0]

    def draw(self, generator: np.random.Generator, count: int) -> Ranks:
        """Returns ranks from 0 on, shape (count,)."""
        share = 1 - generator.random(count)
        log = np.interp(np.log(share), self._beyond[::-1], self._rank[::-1])
        ranks: Ranks = np.where(share > self._first, 0, np.minimum(np.exp(log), 2.0**61)).astype(np.int64)
        rare = ranks >= 1 << 61  # each occurs once
        ranks[rare] = generator.integers(1 << 61, 1 << 62, int(rare.sum()))
        return ranks


WORDS, FORMULAS = Zipf(*_WORDS), Zipf(*_FORMULAS)


@lru_cache(1 << 18)
def word(rank: int) -> str:
    """Returns the word of a rank: two syllables for the 10,000 most frequent ones, else more.

    Examples
    --------
    >>> word(0), word(1), word(123456)
    ('baba', 'babe', 'fikure')
    """
    syllables: list[str] = []
    while rank or len(syllables) < 2:
        rank, syllable = divmod(rank, 100)
        syllables.append(_SYLLABLES[syllable])
    return "".join(reversed(syllables))


@lru_cache(1 << 17)
def latex(rank: int) -> str:
    """Returns the LaTeX of a rank; frequent formulas are short."""
    if rank < len(_LETTERS) + len(_SYMBOLS):
        return str((*_LETTERS, *_SYMBOLS)[rank])
    rng = random.Random(rank)
    lengths = _LENGTHS[1 + bisect_right(_LENGTH_RANKS[1:], rank)]
    length = max(2, int(_SHORTER * np.interp(rng.random(), _LENGTHS[0], lengths)))
    while len(text := _expression(rng, length)) == 1 or text in _SYMBOLS:  # those have ranks of their own
        continue
    return text


def _expression(rng: random.Random, length: int) -> str:
    """Returns an expression of about `length` characters."""
    if length <= 1:
        return _LETTERS[int(len(_LETTERS) * rng.random() ** 2)]
    if length <= 3:
        return rng.choice((f"{_expression(rng, 1)}_{rng.randrange(10)}", f"{rng.randrange(1000)}"))
    if length <= 8 and rng.random() < 0.2:
        return rng.choice(_SYMBOLS)
    kind = rng.random()
    if kind < 0.5 or length < 6:
        left = rng.randint(1, max(1, length - 2))
        return _expression(rng, left) + rng.choice(_OPERATORS) + _expression(rng, length - left - 1)
    if kind < 0.65:
        return f"{_expression(rng, 1)}({_expression(rng, length - 3)})"
    if kind < 0.8:
        return f"{_expression(rng, max(1, length // 3))}^{{{_expression(rng, length - length // 3 - 3)}}}"
    if length < 14:
        return f"({_expression(rng, length - 2)})"
    if kind < 0.9:
        top = rng.randint(1, length - 8)
        return f"\\frac{{{_expression(rng, top)}}}{{{_expression(rng, length - top - 9)}}}"
    if kind < 0.95:
        return f"\\sqrt{{{_expression(rng, length - 7)}}}"
    if kind < 0.98:
        return f"\\sum_{{i={rng.randrange(3)}}}^{{n}} {_expression(rng, length - 15)}"
    return f"\\int_{{a}}^{{b}} {_expression(rng, length - 13)}\\,dx"


# ---- posts --------------------------------------------------------------------------------------------------------


def posts(path: Path, count: int, seed: int = SEED) -> int:
    """Writes posts in the form of the organisers' file; returns the number of their formulas."""
    generator = np.random.default_rng(seed)
    formula, questions = 0, [1]
    with path.open("w", encoding="utf-8") as stream:
        stream.write('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n')
        for begin in range(1, count + 1, BLOCK):
            ids = range(begin, min(begin + BLOCK, count + 1))
            asks = generator.random(len(ids)) < QUESTIONS
            asks[:1] |= begin == 1
            shares, parts = generator.random((2, len(ids))), generator.random(len(ids))
            words = _lengths(shares[0], asks, _QUESTION_WORDS, _ANSWER_WORDS)
            formulas = _lengths(shares[1], asks, _QUESTION_FORMULAS, _ANSWER_FORMULAS)
            drawn = WORDS.draw(generator, int(words.sum()) + TITLE * len(ids)).tolist()
            ranks = FORMULAS.draw(generator, int(formulas.sum())).tolist()
            lines, taken, used = [], 0, 0
            for post, question, share, n, m in zip(ids, asks, parts, words.tolist(), formulas.tolist(), strict=True):
                title = " ".join(map(word, drawn[taken : taken + TITLE]))
                taken += TITLE
                body = _body(drawn[taken : taken + n], ranks[used : used + m], formula + used)
                taken, used = taken + n, used + m
                if question:
                    accepted = f' AcceptedAnswerId="{post + 1}"' if share < ACCEPTED else ""
                    kind = f'PostTypeId="1"{accepted} Title={quoteattr(title)} Tags="&lt;calculus&gt;&lt;limits&gt;"'
                    questions.append(post)
                else:
                    parent = questions[-1 - int(share * min(1000, len(questions)))]
                    kind = f'PostTypeId="2" ParentId="{parent}"'
                lines.append(
                    f'  <row Id="{post}" {kind} CreationDate="2015-01-01" Score="1" Body={quoteattr(body)} />\n'
                )
            formula += used
            stream.write("".join(lines))
        stream.write("</posts>\n")
    return formula


def _lengths(
    share: npt.NDArray[np.float64], asks: npt.NDArray[np.bool_], question: tuple[int, ...], answer: tuple[int, ...]
) -> Ranks:
    found: Ranks = np.where(asks, np.interp(share, _SHARES, question), np.interp(share, _SHARES, answer)).astype(
        np.int64
    )
    return found


def _body(words: list[int], formulas: list[int], number: int) -> str:
    """Returns the HTML of a post with its formulas spread evenly over its words, a sentence every twelve words."""
    pieces = [word(rank) + ("." if place % 12 == 11 else "") for place, rank in enumerate(words)]
    for place, rank in enumerate(formulas):
        text = f'<span class="math-container" id="{number + place}">${escape(latex(rank), quote=False)}$</span>'
        pieces.insert((place + 1) * len(words) // (len(formulas) + 1) + place, text)
    return f"<p>{' '.join(pieces)}</p>\n"


# ---- formulas -----------------------------------------------------------------------------------------------------


def formulas(count: int, seed: int = SEED) -> Iterator[str]:
    """Yields the LaTeX of formulas as they occur in posts, with repetitions."""
    generator = np.random.default_rng([seed, 1])
    for begin in range(0, count, BLOCK):
        yield from map(latex, FORMULAS.draw(generator, min(BLOCK, count - begin)).tolist())


def formula_lines(path: Path, count: int) -> int:
    """Writes formulas as JSON lines with id, LaTeX and post; returns the number of distinct ones."""
    seen: set[int] = set()
    with path.open("w", encoding="utf-8") as stream:
        for number, text in enumerate(formulas(count)):
            seen.add(hash(text))
            row = {"id": f"f{number}", "latex": text, "post": str(number // 12)}
            stream.write(json.dumps(row) + "\n")
    return len(seen)


def distinct_formulas(path: Path, count: int) -> int:
    """Writes formulas that occur at least once, each once, a line each; returns their number."""
    generator, seen, written = np.random.default_rng([SEED, 2]), set[int](), 0
    with path.open("w", encoding="utf-8") as stream:
        while written < count:
            for rank in FORMULAS.draw(generator, BLOCK).tolist():
                text = latex(rank)
                if (known := hash(text)) not in seen and written < count:
                    seen.add(known)
                    written += 1
                    stream.write(text + "\n")
    return written


def topics(count: int, seed: int = SEED) -> list[tuple[str, str, str]]:
    """Returns topics: title, words of the body, and a formula of at least ten characters."""
    generator = np.random.default_rng([seed, 3])
    out = []
    for _ in range(count):
        words = [word(rank) for rank in WORDS.draw(generator, TITLE + 58).tolist()]
        found: list[str] = []
        while not found:
            found += [text for text in map(latex, FORMULAS.draw(generator, 20).tolist()) if len(text) >= 10]
        out.append((" ".join(words[:TITLE]), " ".join(words[TITLE:]), found[0]))
    return out


# ---- vectors ------------------------------------------------------------------------------------------------------

DIMENSIONS, CENTRES, EACH = 128, 2000, 15  # vectors of a document


def vector_blocks(count: int, seed: int = SEED, size: int = 1 << 14) -> Iterator[npt.NDArray[np.float32]]:
    """Yields unit vectors around 2,000 centres, shape (up to `size`, 128), float32."""
    make = near_centres(seed)
    for begin in range(0, count, size):
        yield make(min(size, count - begin), begin)


def near_centres(seed: int = SEED) -> Callable[[int, int], npt.NDArray[np.float32]]:
    """Returns a function: number of unit vectors and seed of the draw -> vectors around the same centres."""
    centres = np.random.default_rng(seed).standard_normal((CENTRES, DIMENSIONS), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)

    def make(count: int, number: int) -> npt.NDArray[np.float32]:
        generator = np.random.default_rng([seed, number])
        noise = generator.standard_normal((count, DIMENSIONS), np.float32) * np.float32(0.5 / DIMENSIONS**0.5)
        values = centres[generator.integers(CENTRES, size=count)] + noise
        unit: npt.NDArray[np.float32] = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
        return unit

    return make


def vector_folder(folder: Path, vectors: int) -> int:
    """Writes vectors of documents in the form that `Vectors.load` reads; returns the number of documents.

    A document has 15 vectors; its last one stands for the whole document.
    """
    documents = max(1, vectors // EACH)
    folder.mkdir(parents=True)
    shape = (documents * EACH, DIMENSIONS)
    values = np.lib.format.open_memmap(folder / "values.npy", mode="w+", dtype=np.float32, shape=shape)
    at = 0
    for block in vector_blocks(shape[0]):
        values[at : at + len(block)] = block
        at += len(block)
    values.flush()
    start = np.arange(documents + 1, dtype=np.int64) * EACH
    np.save(folder / "ids.npy", np.array([b"%d" % number for number in range(documents)]))
    np.save(folder / "start.npy", start)
    np.save(folder / "document.npy", start[1:] - 1)
    return documents

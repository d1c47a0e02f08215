"""Step 4, pair similarity: finds all pairs of problems with similar topics or similar core ideas.

Topics are compared by Best-Match Average with Lin's similarity, core ideas by the Jaccard similarity of their words.
Words, rounding and thresholds are those of the authors' code (`nygeorgiev/sabermath` at 9f015a7).
The matrix of all pairs is computed in tiles: sums of best matches are products of a sparse matrix (problem x tag) and a
dense one (tag x problem), shared words are a product of two sparse ones. Only pairs that reach a threshold are kept.
Each row of tiles is its own artifact, so that interrupted work resumes. Sums are made in the order of the tags in
float64, so the values equal those computed one pair at a time.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.io.checks import check_number, check_whole_number
from harness.io.console import progress
from harness.papers.saber.ontology import Information
from harness.store import artefacts, code

Rows = npt.NDArray[np.int32]
Kinds = npt.NDArray[np.uint8]
TOPIC, SUMMARY = 1, 2  # flags of the similarities that reach their threshold; added if both do
KIND = "saber-pairs-row"
_WORD = re.compile(r"[a-z0-9^_]+")
_MOST_TAGS = 15_000  # their similarity matrix takes 1.8 GB


@dataclass(frozen=True)
class PairSettings:
    """Settings of pair similarity (key `pairs`).

    Attributes
    ----------
    bma, jaccard : thresholds at or above which a similarity is high; None uses the quantile over pairs. SABER-Math has
        0.8579101562504547 and 0.21057128906295475 for its own corpus.
    quantile : quantile of the similarities; 0.99 as in the authors' code.
    sample, seed : number of problems whose pairs give the quantile, and the seed that draws them; the authors take all
        problems.
    block : number of problems in a tile; does not affect the result.
    threads : tiles computed in parallel; does not affect the result.
    """

    bma: Annotated[float, partial(check_number, low=1e-7, high=1.0)] | None = None
    jaccard: Annotated[float, partial(check_number, low=1e-7, high=1.0)] | None = None
    quantile: Annotated[float, partial(check_number, high=1.0)] = 0.99
    sample: Annotated[int, partial(check_whole_number, low=2)] = 2000
    seed: Annotated[int, check_whole_number] = 0
    block: Annotated[int, partial(check_whole_number, low=1)] = 2048
    threads: Annotated[int, partial(check_whole_number, low=1)] = 2

    def deciding(self) -> dict[str, Any]:
        """Returns the settings that affect which pairs are kept, for the fingerprint."""
        return {key: value for key, value in asdict(self).items() if key not in ("block", "threads")}


class Thresholds(NamedTuple):
    """Thresholds at or above which a similarity is high, both rounded to half precision, as the authors store them."""

    bma: float
    jaccard: float

    def least(self) -> Thresholds:
        """Returns the least similarities, unrounded, that are high.

        >>> found = Thresholds(0.8579101562504547, 1.0).least()
        >>> round(found.bma, 9), round(found.jaccard, 9)
        (0.857666016, 0.999755859)
        """
        return Thresholds(*map(_least_rounded_up, self))


def _least_rounded_up(threshold: float) -> float:
    """Returns the least number that a float16 rounds to at least the threshold."""
    high = np.float16(threshold)
    middle = (float(high) + float(np.nextafter(high, np.float16(0)))) / 2
    return middle if np.float16(middle) >= high else float(np.nextafter(middle, 1.0))  # a tie rounds to even


class SimilarPairs(NamedTuple):
    """Pairs that reach a threshold, ordered by row, then column.

    Attributes
    ----------
    left, right : numbers of the two problems, left < right.
    bma, jaccard : their similarities.
    """

    left: Rows
    right: Rows
    bma: Floats
    jaccard: Floats

    def kinds(self, thresholds: Thresholds) -> Kinds:
        """Returns the flags of the similarities that are high: TOPIC, SUMMARY or their sum."""
        least = thresholds.least()
        topic = (self.bma >= least.bma).astype(np.uint8) * np.uint8(TOPIC)
        return topic + (self.jaccard >= least.jaccard).astype(np.uint8) * np.uint8(SUMMARY)


@dataclass(frozen=True, eq=False)
class Features:
    """Features of problems that are compared.

    Attributes
    ----------
    tags : for each problem the columns of its tags, ascending.
    lins : Lin's similarities, float64, shape (tags, tags).
    ideas : shape (problems, words), 1 where the core idea has the word.
    """

    tags: tuple[Rows, ...]
    lins: Floats
    ideas: sparse.csr_array

    def __len__(self) -> int:
        return len(self.tags)

    def part(self, rows: npt.NDArray[np.int64]) -> Features:
        """Returns the features of some problems."""
        return Features(tuple(self.tags[i] for i in rows), self.lins, self.ideas[rows])

    def digest(self) -> str:
        """Returns a hash of all features."""
        import xxhash

        state = xxhash.xxh3_128()
        lengths = np.array([len(each) for each in self.tags], np.int64)
        flat = np.concatenate([*self.tags, np.empty(0, np.int32)]).astype(np.int32)
        for part in (lengths, flat, self.lins, self.ideas.indptr, self.ideas.indices):
            state.update(np.ascontiguousarray(part).tobytes())
            state.update(str((part.shape, part.dtype)).encode())
        return state.hexdigest()


def idea_words(idea: str) -> frozenset[str]:
    """Returns the words of a core idea in lower case, without stop words; `x^2` and `a_1` are words.

    >>> sorted(idea_words("Use the symmetry of the two roots of x^2 = a_1."))
    ['a_1', 'roots', 'symmetry', 'use', 'x^2']
    """
    return frozenset(_WORD.findall(idea.lower())) - STOP_WORDS


def features(tags: Sequence[Iterable[str]], ideas: Sequence[str], info: Information) -> Features:
    """Builds the features of problems from their tags and core ideas, given in the same order; ideas may be empty.

    Raises
    ------
    HarnessError
        The problems have too many different tags for memory.
    """
    sorted_tags = [sorted(set(each)) for each in tags]
    known = sorted({tag for each in sorted_tags for tag in each})
    if len(known) > _MOST_TAGS:
        raise HarnessError(f"pairs: {len(known):,} different tags, at most {_MOST_TAGS:,}")
    column = {tag: i for i, tag in enumerate(known)}
    rows = tuple(np.array([column[tag] for tag in each], np.int32) for each in sorted_tags)
    bags = [sorted(idea_words(idea)) for idea in ideas]
    word = {each: i for i, each in enumerate(sorted({each for bag in bags for each in bag}))}
    starts = np.concatenate([[0], np.cumsum([len(bag) for bag in bags])]).astype(np.int64)
    columns = np.array([word[each] for bag in bags for each in bag], np.int64)
    matrix = sparse.csr_array(
        (np.ones(len(columns), np.float64), columns, starts), shape=(len(bags), max(len(word), 1))
    )
    return Features(rows, info.lins(known), matrix)


# ---- tiles ------------------------------------------------------------------------------------------------------


class _ProblemBlock(NamedTuple):
    """Features of consecutive problems."""

    start: int
    tags: tuple[Rows, ...]
    matrix: sparse.csr_array  # problem x tag
    counts: Floats  # number of tags of each problem
    ideas: sparse.csr_array
    words: Floats  # number of words of each core idea


class _TileRow(NamedTuple):
    """First block of a row of tiles, with the values that all its tiles share.

    Attributes
    ----------
    matrix : shape (problems, used tags); a used tag occurs in the block.
    near : similarity of each tag to each used tag; shape (tags, used tags).
    best : best similarity of each tag to a tag of each problem; shape (tags, problems).
    """

    block: _ProblemBlock
    matrix: sparse.csr_array
    near: Floats
    best: Floats


def _problem_block(features: Features, start: int, stop: int) -> _ProblemBlock:
    mine = features.tags[start:stop]
    counts = np.array([len(each) for each in mine], np.int64)
    flat = np.concatenate([*mine, np.empty(0, np.int32)]).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    matrix = sparse.csr_array((np.ones(len(flat)), flat, starts), shape=(len(mine), len(features.lins)))
    ideas = features.ideas[start:stop]
    return _ProblemBlock(start, mine, matrix, counts.astype(float), ideas, np.diff(ideas.indptr).astype(float))


def _tiles(lins: Floats, block: _ProblemBlock) -> _TileRow:
    """Returns a block of problems with the information contents of the topics that it uses, as a row of tiles."""
    used, positions = np.unique(block.matrix.indices, return_inverse=True)
    matrix = sparse.csr_array((block.matrix.data, positions, block.matrix.indptr), shape=(len(block.tags), len(used)))
    return _TileRow(block, matrix, np.ascontiguousarray(lins[:, used]), _best(lins, block.tags))


def _best(near: Floats, tags: Sequence[Rows]) -> Floats:
    """Returns the maximum of `near` over each problem's tags; shape (columns of near, problems); 0 without tags."""
    out = np.zeros((len(tags), near.shape[1]))
    for row, mine in zip(out, tags, strict=True):
        if len(mine):
            np.maximum.reduce(near.take(mine, axis=0), axis=0, out=row)
    return np.ascontiguousarray(out.T)


def _bma(row: _TileRow, other: _ProblemBlock) -> Floats:
    """Computes the Best-Match Averages, shape (problems of the row, problems of the other)."""
    out: Floats = row.matrix @ _best(row.near, other.tags)
    out += (other.matrix @ row.best).T
    out /= np.maximum(row.block.counts[:, None] + other.counts[None, :], 1)
    return out


def _shared(one: _ProblemBlock, other: _ProblemBlock) -> sparse.csr_array:
    """Counts the words that core ideas share, shape (problems of one, problems of the other)."""
    return (one.ideas @ other.ideas.T).tocsr()


def _jaccard(shared: Floats, mine: Floats, theirs: Floats) -> Floats:
    """Computes Jaccard similarities from numbers of words; 1 if neither idea has a word, as in the authors' code."""
    union = mine + theirs - shared
    out: Floats = np.where(union > 0, shared / np.maximum(union, 1), 1.0)
    return out


def _tile(row: _TileRow, other: _ProblemBlock, least: Thresholds) -> SimilarPairs:
    """Returns the pairs of a tile that are high; in a diagonal tile those above the diagonal."""
    one = row.block
    bma = _bma(row, other)
    shared = _shared(one, other)
    height, width = bma.shape
    left = np.repeat(np.arange(height), np.diff(shared.indptr))
    right = shared.indices.astype(np.int64)
    high = _jaccard(shared.data, one.words[left], other.words[right]) >= least.jaccard
    no_words = np.flatnonzero(one.words == 0)[:, None] * width + np.flatnonzero(other.words == 0)
    at = np.union1d(np.flatnonzero(bma >= least.bma), left[high] * width + right[high])
    at = np.union1d(at, no_words)
    if one.start == other.start:
        at = at[at % width > at // width]
    rows, columns = at // width, at % width
    both = shared.toarray().reshape(-1)[at]
    jaccard = _jaccard(both, one.words[rows], other.words[columns])
    left, right = (one.start + rows).astype(np.int32), (other.start + columns).astype(np.int32)
    return SimilarPairs(left, right, bma.reshape(-1)[at], jaccard)


def row_of_tiles(features: Features, start: int, block: int, thresholds: Thresholds) -> SimilarPairs:
    """Returns the high pairs of a block of problems, from `start` on, with all later problems."""
    mine = _problem_block(features, start, start + block)
    row, least = _tiles(features.lins, mine), thresholds.least()
    parts = []
    for begin in range(start, len(features), block):
        other = mine if begin == start else _problem_block(features, begin, begin + block)
        parts.append(_tile(row, other, least))
    joined = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    order = np.argsort(joined[0], kind="stable")  # columns ascend within a tile and from tile to tile
    return SimilarPairs(*(each[order] for each in joined))


# ---- thresholds and the step ------------------------------------------------------------------------------------


def thresholds(features: Features, settings: PairSettings) -> Thresholds:
    """Returns the thresholds: those of the settings, or the quantile over all pairs of a random sample of problems.

    As in the authors' code, the quantile is the value of rank ceil(quantile x n^2) among all n^2 similarities in half
    precision: each pair counts twice, and each problem once with itself.

    Raises
    ------
    HarnessError
        The quantile is 0, so that dissimilar pairs would be high; or there are fewer than two problems.
    """
    count = len(features)
    if count < 2:
        raise HarnessError(f"pairs: {count} problem, expected at least 2")
    if settings.bma is not None and settings.jaccard is not None:
        return Thresholds(settings.bma, settings.jaccard)
    rng = np.random.default_rng(settings.seed)
    rows = np.sort(rng.choice(count, size=min(settings.sample, count), replace=False))
    mine = _problem_block(features.part(rows), 0, len(rows))
    ideas = _jaccard(_shared(mine, mine).toarray(), mine.words[:, None], mine.words[None, :])
    out = []
    pairs = {"bma": (settings.bma, _bma(_tiles(features.lins, mine), mine)), "jaccard": (settings.jaccard, ideas)}
    for name, (given, similarities) in pairs.items():
        value = given if given is not None else _quantile(similarities, settings.quantile)
        if value <= 0:
            raise HarnessError(
                f"pairs: the quantile {settings.quantile:g} of the similarities {name!r} is 0: "
                f"raise key 'quantile', or set key {name!r}"
            )
        out.append(value)
    return Thresholds(*out)


def _quantile(similarities: Floats, quantile: float) -> float:
    values = similarities.astype(np.float16).ravel()
    rank = max(math.ceil(quantile * values.size), 1)
    return float(np.partition(values, rank - 1)[rank - 1])


def find_pairs(features: Features, settings: PairSettings, out: Path, limits: Thresholds) -> dict[str, int]:
    """Writes the pairs that reach a threshold to a folder; returns their counts by similarity.

    Writes `left-START.npy`, `right-START.npy` (int32) and `kind-START.npy` (uint8) for each row of tiles. Rows of an
    earlier call come from the store.
    """
    spec = {
        "features": features.digest(),
        "thresholds": list(limits),
        "block": settings.block,
        "code": code.of(__name__),
    }
    starts = range(0, len(features), settings.block)
    total = len(features) * (len(features) - 1) / 2 / 1e6
    counts = np.zeros(4, np.int64)
    stop = Event()

    def make(start: int, folder: Path) -> None:
        row_pairs = row_of_tiles(features, start, settings.block, limits)
        for name, values in (("left", row_pairs.left), ("right", row_pairs.right), ("kind", row_pairs.kinds(limits))):
            np.save(folder / f"{name}-{start:09d}.npy", values)

    with progress("pairs of problems", total, " million") as shown, ThreadPoolExecutor(settings.threads) as pool:

        def one(start: int) -> Path | None:
            if stop.is_set():
                return None
            try:
                made = row(start)
            except BaseException:
                stop.set()
                raise
            size = min(settings.block, len(features) - start)
            shown.add(size * (len(features) - start - (size + 1) / 2) / 1e6)
            return made

        def row(start: int) -> Path:
            return artefacts.get_or_build(KIND, {**spec, "start": start}, partial(make, start))

        futures = [pool.submit(one, start) for start in starts]
        try:
            folders = [future.result() for future in futures]
        finally:
            stop.set()
    for folder in filter(None, folders):
        for path in sorted(folder.glob("*.npy")):
            _link(path, out / path.name)
            if path.name.startswith("kind-"):
                counts += np.bincount(np.load(path), minlength=4)
    return {"topic": int(counts[TOPIC]), "summary": int(counts[SUMMARY]), "both": int(counts[TOPIC + SUMMARY])}


def _link(path: Path, to: Path) -> None:
    """Makes a hard link to a file, or a copy where links are not possible."""
    with suppress(OSError):
        os.link(path, to)
        return
    shutil.copyfile(path, to)


def read_pairs(folder: Path) -> Iterable[tuple[Rows, Rows, Kinds]]:
    """Yields left, right and kind from the files of `find_pairs`, one row of tiles at a time."""
    for path in sorted(folder.glob("kind-*.npy")):
        start = path.stem.removeprefix("kind-")
        yield np.load(folder / f"left-{start}.npy"), np.load(folder / f"right-{start}.npy"), np.load(path)


# Words that do not count in core ideas: the 337 of the authors' code (`nygeorgiev/sabermath` at 9f015a7). The
# English ones are the list of the University of Glasgow's group, which scikit-learn has as `ENGLISH_STOP_WORDS`.
_ENGLISH = """
a about above across after afterwards again against all almost alone along already also although always am among amongst
amoungst amount an and another any anyhow anyone anything anyway anywhere are around as at back be became because become
becomes becoming been before beforehand behind being below beside besides between beyond bill both bottom but by call
can cannot cant co con could couldnt cry de describe detail do done down due during each eg eight either eleven else
elsewhere empty enough etc even ever every everyone everything everywhere except few fifteen fifty fill find fire first
five for former formerly forty found four from front full further get give go had has hasnt have he hence her here
hereafter hereby herein hereupon hers herself him himself his how however hundred i ie if in inc indeed interest into is
it its itself keep last latter latterly least less ltd made many may me meanwhile might mill mine more moreover most
mostly move much must my myself name namely neither never nevertheless next nine no nobody none noone nor not nothing
now nowhere of off often on once one only onto or other others otherwise our ours ourselves out over own part per
perhaps please put rather re same see seem seemed seeming seems serious several she should show side since sincere six
sixty so some somehow someone something sometime sometimes somewhere still such system take ten than that the their them
themselves then thence there thereafter thereby therefore therein thereupon these they thick thin third this those
though three through throughout thru thus to together too top toward towards twelve twenty two un under until up upon us
very via was we well were what whatever when whence whenever where whereafter whereas whereby wherein whereupon wherever
whether which while whither who whoever whole whom whose why will with within without would yet you your yours yourself
yourselves
"""
_MATHEMATICAL = """
and approach assume but compute consider determine equation expression find given hence if lemma let method or result
show so solution solve step suppose term then theorem therefore thus value
"""
STOP_WORDS = frozenset(_ENGLISH.split()) | frozenset(_MATHEMATICAL.split())

"""Step 1, the databank: problems with solutions in one format, without duplicates, balanced over sources."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import xxhash

from harness.collections.corpora import load_corpus
from harness.errors import HarnessError, suggestion
from harness.io.checks import Words, check_number, check_whole_number
from harness.io.console import track
from harness.io.files import sha256_file
from harness.io.names import check_id
from harness.papers.saber.dollars import in_dollars, without_dollars
from harness.papers.saber.lines import read_lines, write_lines
from harness.sources.catalogue import resource
from harness.sources.fetch import fetch_resources

PROBLEMS = "problems.jsonl"


@dataclass(frozen=True)
class MathProblem:
    """A problem with its solution.

    Attributes
    ----------
    id : one word, unique in a databank.
    statement, solution : text with LaTeX between dollar signs.
    source : origin, such as a contest; the databank is balanced over sources.
    subject : subject as given by the source; may be empty.

    Examples
    --------
    >>> MathProblem("p1", "Find $x$ with $2x=4$.", "Halve both sides: $x=2$.", "school").subject
    ''
    """

    id: str
    statement: str
    solution: str
    source: str = ""
    subject: str = ""


def write_problems(path: Path, problems: Iterable[MathProblem]) -> None:
    """Writes problems as JSON lines with the keys of `MathProblem`."""
    write_lines(path, map(asdict, problems))


def read_problems(path: Path) -> dict[str, MathProblem]:
    """Reads id -> problem in the order of the file.

    Raises
    ------
    FormatError
        A line is not a problem, or an id occurs twice.
    """
    out: dict[str, MathProblem] = {}

    def problem(row: dict[str, Any]) -> MathProblem:
        made = MathProblem(**row)
        if not all(isinstance(value, str) for value in row.values()):
            raise TypeError("every value must be text")
        _check_new_id(made.id, out, path)
        return made

    for each in read_lines(path, problem):
        out[each.id] = each
    return out


def _check_new_id(name: str, known: Container[str], path: Path) -> None:
    check_id(name, "problem", path, 0)
    if name in known:
        raise HarnessError(f"problem {name!r} is on an earlier line already")


def problem_named(problems: Mapping[str, MathProblem], name: str, where: str = "") -> MathProblem:
    """Returns a problem by its id; raises HarnessError, which begins with `where`, if there is none."""
    if name not in problems:
        raise HarnessError(f"{where}problem {name!r} is not in the databank")
    return problems[name]


# ---- sources of problems ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProblemSource:
    """One source of problems: a corpus or a file of JSON lines (key `databank.sources`).

    Attributes
    ----------
    name : prefix of the ids of a corpus's documents, and the source of problems that name none.
    corpus : name of a corpus; excludes `file`.
    file : `{source: NAME, path: P}`, `{embedded: P}` or `{file: P}`.
    id, statement, solution, subject, source : columns of the file, or fields and columns of the corpus's documents.
    """

    name: Words
    corpus: Words = ""
    file: Mapping[str, Any] | None = None
    id: Words = "id"
    statement: Words = "statement"
    solution: Words = "solution"
    subject: Words = "subject"
    source: Words = "source"

    def __post_init__(self) -> None:
        if bool(self.corpus) == (self.file is not None):
            raise HarnessError("expected either key 'corpus' or key 'file'")


@dataclass(frozen=True)
class Duplicates:
    """Settings of duplicate detection (key `databank.duplicates`).

    Attributes
    ----------
    threshold : Jaccard similarity of word n-grams from which on two statements are duplicates.
    run : n, the number of words in an n-gram.
    permutations, seed : of MinHash.
    """

    threshold: Annotated[float, partial(check_number, low=0.1, high=1.0)] = 0.8
    run: Annotated[int, partial(check_whole_number, low=1)] = 3
    permutations: Annotated[int, partial(check_whole_number, low=16)] = 128
    seed: Annotated[int, check_whole_number] = 0


@dataclass(frozen=True)
class Balance:
    """Limit on large sources (key `databank.balance`).

    Attributes
    ----------
    sources, ratio : these sources give at most so many times the problems of the others.
    seed : of the draw of the kept problems.
    """

    sources: tuple[str, ...]
    ratio: Annotated[float, check_number] = 1.0
    seed: Annotated[int, check_whole_number] = 0


@dataclass(frozen=True)
class DatabankSettings:
    """Settings of the databank (key `databank`).

    Attributes
    ----------
    sources : corpora and files of problems.
    delimiters : how dollar signs are put around mathematics: by `rule`, by a language model (`llm`), or `none`.
    duplicates, balance : settings of duplicate detection, and of the limit on large sources.
    endpoint, budget : name of the language model and its maximum cost, in the unit of the endpoint's prices.
    most : maximum number of problems, drawn at random with the seed of `balance`; None keeps all.
    """

    sources: tuple[ProblemSource, ...]
    delimiters: Literal["rule", "llm", "none"] = "rule"
    duplicates: Duplicates = Duplicates()
    balance: Balance | None = None
    endpoint: Words = ""
    budget: Annotated[float, check_number] | None = None
    most: Annotated[int, partial(check_whole_number, low=1)] | None = None

    def __post_init__(self) -> None:
        if not self.sources:
            raise HarnessError("key 'sources': expected at least one")
        if self.delimiters == "llm" and not self.endpoint:
            raise HarnessError("key 'endpoint' is missing: a language model of conf/llm/")


def read_source(source: ProblemSource, where: str = "databank") -> Iterator[MathProblem]:
    """Reads the problems of a source, unchanged.

    Raises
    ------
    HarnessError
        The corpus or file does not exist, or a line lacks a column.
    """
    if source.corpus:
        yield from _read_corpus(source, where)
        return
    place = resource(source.file, where)
    path = place if isinstance(place, Path) else fetch_resources([place])[0]

    seen: set[str] = set()

    def problem(row: dict[str, Any]) -> MathProblem:
        name = row[source.id]
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise TypeError(f"{source.id!r} is {name!r:.40}, expected text or a whole number")
        name = str(name)
        _check_new_id(name, seen, path)
        seen.add(name)
        texts = [row[source.statement], row[source.solution]]
        texts += [row.get(source.source, source.name), row.get(source.subject, "")]
        for key, text in zip((source.statement, source.solution, source.source, source.subject), texts, strict=True):
            if not isinstance(text, str):
                raise TypeError(f"{key!r} is {text!r:.40}, expected text")
        # Halves of surrogate pairs, which JSON can escape and no file can hold, become `?`.
        return MathProblem(name, *(text.encode("utf-8", "replace").decode() for text in texts))

    yield from read_lines(path, problem)


def _read_corpus(source: ProblemSource, where: str) -> Iterator[MathProblem]:
    """Reads problems from the documents of a corpus; a missing part is empty, unless every document lacks it."""
    missing = {source.statement, source.solution}
    known: set[str] = set()
    for document in load_corpus(source.corpus):
        parts = {"title": document.title, "body": document.body, "tags": " ".join(document.tags)}
        parts |= document.columns
        known |= parts.keys()
        missing -= parts.keys()
        texts = (parts.get(source.statement, ""), parts.get(source.solution, ""))
        name = parts.get(source.source, source.name)
        yield MathProblem(f"{source.name}-{document.id}", *texts, name, parts.get(source.subject, ""))
    for key in sorted(missing):
        raise HarnessError(f"{where}: no document of {source.corpus} has {key!r}; {suggestion(key, known)}")


def digest(source: ProblemSource, where: str = "databank") -> dict[str, Any]:
    """Returns the settings of a source and the checksum of its data, which together decide its problems."""
    if source.corpus:
        return {**asdict(source), "digest": load_corpus(source.corpus).identity()}
    place = resource(source.file, where)
    return {**asdict(source), "digest": sha256_file(place) if isinstance(place, Path) else place.sha256}


# ---- from sources to a databank ---------------------------------------------------------------------------------


def databank(
    problems: Iterable[MathProblem],
    settings: DatabankSettings,
    rewrite: Callable[[Sequence[MathProblem]], tuple[list[MathProblem], Counter[str]]] | None = None,
) -> tuple[list[MathProblem], dict[str, int]]:
    """Builds a databank; returns its problems in order and the counts of problems read, dropped and kept.

    Parameters
    ----------
    rewrite : puts dollar signs around mathematics and counts changes; required if `settings.delimiters` is `llm`.

    Raises
    ------
    HarnessError
        Two sources share an id, or every problem was dropped.

    Examples
    --------
    >>> kept, counts = databank(
    ...     [MathProblem("a", r"Find \\(x\\).", "It is 2."), MathProblem("b", "Find $x$.", "It is 2.")],
    ...     DatabankSettings((ProblemSource("s", corpus="c"),)),
    ... )
    >>> kept[0].statement, counts["exact duplicates"]
    ('Find $x$.', 1)
    """
    counts: Counter[str] = Counter()
    by_id: dict[str, MathProblem] = {}
    for each in problems:
        counts["read"] += 1
        if each.id in by_id:
            raise HarnessError(f"databank: problem {each.id!r} occurs twice; ids must differ between sources")
        if each.statement.strip() and each.solution.strip():
            by_id[each.id] = each
        else:
            counts["without statement or solution"] += 1
    rewritten = list(by_id.values())
    if rewrite is not None or settings.delimiters != "none":
        rewritten, made = (rewrite or by_rule)(rewritten)
        counts.update(made)
    kept = _without_repeats(rewritten, settings.duplicates, counts)
    if settings.balance:
        kept = _balanced(kept, settings.balance, counts)
    if settings.most is not None and len(kept) > settings.most:
        counts["over the limit 'most'"] = len(kept) - settings.most
        kept = _drawn(kept, settings.most, settings.balance.seed if settings.balance else 0)
    if not kept:
        raise HarnessError("databank: no problem was kept; check the sources and the key 'duplicates'")
    counts["kept"] = len(kept)
    for source, count in sorted(Counter(each.source for each in kept).items()):
        counts[f"kept from {source or 'no source'}"] = count
    return kept, dict(counts)


def by_rule(problems: Sequence[MathProblem]) -> tuple[list[MathProblem], Counter[str]]:
    """Puts dollar signs around mathematics by rule; counts the texts that were changed or could not be."""
    counts: Counter[str] = Counter()

    def put(text: str) -> str:
        out, good = in_dollars(text)
        counts["texts with dollars added"] += out != text
        counts["texts with an unpaired delimiter, unchanged"] += not good
        return out

    return [replace(each, statement=put(each.statement), solution=put(each.solution)) for each in problems], counts


def _without_repeats(problems: Sequence[MathProblem], settings: Duplicates, counts: Counter[str]) -> list[MathProblem]:
    seen: dict[str, MathProblem] = {}
    for each in problems:
        key = without_dollars(each.statement).casefold()
        counts["exact duplicates"] += key in seen
        seen.setdefault(key, each)
    left = list(seen.values())
    words = [each.statement.replace("$", " ").casefold().split() for each in left]
    sets = [shingles(each, settings.run) for each in words]
    near = earlier(sets, settings.threshold, settings.permutations, settings.seed)
    counts["near duplicates"] = len(near)
    return [each for i, each in enumerate(left) if i not in near]


def _balanced(problems: Sequence[MathProblem], balance: Balance, counts: Counter[str]) -> list[MathProblem]:
    """Draws problems of the sources that `balance` names so that they are at most `ratio` times the others."""
    known = {each.source for each in problems}
    for name in balance.sources:
        if name not in known:
            where = "databank: key 'balance.sources'"
            raise HarnessError(f"{where}: no problem comes from {name!r}; {suggestion(name, known)}")
    large = [each for each in problems if each.source in balance.sources]
    most = math.floor(balance.ratio * (len(problems) - len(large)))
    if len(large) <= most:
        return list(problems)
    counts["dropped for balance"] = len(large) - most
    drawn = {each.id for each in _drawn(large, most, balance.seed)}
    return [each for each in problems if each.source not in balance.sources or each.id in drawn]


def _drawn(problems: Sequence[MathProblem], count: int, seed: int) -> list[MathProblem]:
    chosen = sorted(random.Random(seed).sample(range(len(problems)), count))  # noqa: S311  (no secret)
    return [problems[i] for i in chosen]


SURE = 0.99  # minimum probability that two texts at exactly the threshold share a band


def shingles(words: Sequence[str], size: int) -> frozenset[int]:
    """Returns the word n-grams (n = `size`) as 32-bit hashes; a shorter text is one n-gram.

    >>> len(shingles("a b c a b c".split(), 3))
    3
    """
    runs = range(max(len(words) - size + 1, 1)) if words else range(0)
    return frozenset(
        xxhash.xxh32_intdigest("\x1f".join(words[i : i + size]).encode("utf-8", "surrogatepass")) for i in runs
    )


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Computes the Jaccard similarity, intersection over union; 0 for two empty sets.

    >>> jaccard(frozenset((1, 2)), frozenset((2, 3))) == 1 / 3
    True
    """
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0


def band_rows(permutations: int, threshold: float) -> int:
    """Returns the most rows per band with which texts at the threshold share a band with probability `SURE`.

    >>> band_rows(128, 0.8), band_rows(128, 1.0)
    (6, 128)
    """
    fits = [r for r in range(1, permutations + 1) if 1 - (1 - threshold**r) ** (permutations // r) >= SURE]
    if not fits:
        raise HarnessError(f"{permutations} permutations are too few for the similarity {threshold:g}; use more")
    return max(fits)


def earlier(sets: Sequence[frozenset[int]], threshold: float, permutations: int = 128, seed: int = 0) -> dict[int, int]:
    """Returns duplicate -> the first kept text before it with at least the threshold's Jaccard similarity.

    MinHash with banding proposes pairs, their exact similarity decides (Broder 1997; Leskovec, Rajaraman, Ullman,
    Mining of Massive Datasets, ch. 3). Texts are compared in order with the kept ones; a duplicate is not kept. Every
    pair reaches the threshold; one exactly at the threshold is missed with a probability below 1 - `SURE`.

    Raises
    ------
    HarnessError
        The permutations are too few for the threshold.

    Examples
    --------
    >>> earlier([frozenset((1, 2, 3)), frozenset((7, 8)), frozenset((1, 2, 3))], 0.8)
    {2: 0}
    """
    rows = band_rows(permutations, threshold)
    rng = np.random.default_rng(seed)
    factors = rng.integers(1 << 63, size=permutations, dtype=np.uint64) * 2 + 1
    offsets = rng.integers(1 << 63, size=permutations, dtype=np.uint64)
    buckets: dict[bytes, list[int]] = {}
    out: dict[int, int] = {}
    for i, mine in enumerate(track(sets, "near duplicates")):
        if not mine:
            continue
        signature = _signature(mine, factors, offsets)
        bands = [
            band.to_bytes(4) + signature[band * rows : (band + 1) * rows].tobytes()
            for band in range(permutations // rows)
        ]
        before = {j for band in bands for j in buckets.get(band, ())}
        first = min((j for j in before if jaccard(mine, sets[j]) >= threshold), default=None)
        if first is not None:
            out[i] = first
            continue
        for band in bands:
            buckets.setdefault(band, []).append(i)
    return out


def _signature(
    mine: frozenset[int], factors: npt.NDArray[np.uint64], offsets: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint32]:
    """Returns the smallest hash of each permutation: multiply-shift (Dietzfelbinger et al. 1997), 32 bits."""
    values = np.fromiter(mine, np.uint64, len(mine))
    hashed = (factors[:, None] * values[None, :] + offsets[:, None]) >> np.uint64(32)
    out: npt.NDArray[np.uint32] = hashed.min(axis=1).astype(np.uint32)
    return out

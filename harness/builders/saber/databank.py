"""Step 1, the databank: problems with solutions in one form, balanced over sources, without duplicates."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from harness.builders.saber.dollars import in_dollars, without_dollars
from harness.builders.saber.duplicates import earlier, shingles
from harness.builders.saber.lines import read_lines, write_lines
from harness.collections.corpora import load_corpus
from harness.errors import HarnessError, suggestion
from harness.io.checks import Words, number, whole
from harness.io.files import sha256_file
from harness.io.ids import check_id
from harness.sources.catalogue import resource
from harness.sources.fetch import fetch

PROBLEMS = "problems.jsonl"


@dataclass(frozen=True)
class Problem:
    """A problem with its solution.

    Attributes
    ----------
    id : one word, unique in a databank.
    statement, solution : text with LaTeX in dollars.
    source : where it comes from, such as a contest; what the databank is balanced over.
    subject : as its source calls it; empty if it says none.

    Examples
    --------
    >>> Problem("p1", "Find $x$ with $2x=4$.", "Halve both sides: $x=2$.", "school").subject
    ''
    """

    id: str
    statement: str
    solution: str
    source: str = ""
    subject: str = ""


def write_problems(path: Path, problems: Iterable[Problem]) -> None:
    """JSON lines with the keys of `Problem`."""
    write_lines(path, map(asdict, problems))


def read_problems(path: Path) -> dict[str, Problem]:
    """The problems of a databank by their ids, in order.

    Raises
    ------
    FormatError
        A line that is no problem, or an id that comes twice.
    """
    out: dict[str, Problem] = {}

    def problem(row: dict[str, Any]) -> Problem:
        made = Problem(**row)
        if not all(isinstance(value, str) for value in row.values()):
            raise TypeError("every value must be text")
        check_id(made.id, "problem", path, 0)
        if made.id in out:
            raise HarnessError(f"problem {made.id!r} is on an earlier line already")
        return made

    for each in read_lines(path, problem):
        out[each.id] = each
    return out


# ---- where problems come from -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Problems of one place: a corpus by its name, or a file of JSON lines; key `databank.sources`.

    Attributes
    ----------
    name : stands before the ids of a corpus, and is the source of problems that name none.
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
    """Key `databank.duplicates`: statements are the same from this Jaccard similarity of their runs of words on."""

    threshold: Annotated[float, partial(number, low=0.1, high=1.0)] = 0.8
    run: Annotated[int, partial(whole, low=1)] = 3
    permutations: Annotated[int, partial(whole, low=16)] = 128
    seed: Annotated[int, whole] = 0


@dataclass(frozen=True)
class Balance:
    """Key `databank.balance`: of these sources together no more than `ratio` problems for each one of the others."""

    sources: tuple[str, ...]
    ratio: Annotated[float, number] = 1.0
    seed: Annotated[int, whole] = 0


@dataclass(frozen=True)
class DatabankSettings:
    """Key `databank`.

    Attributes
    ----------
    delimiters : how mathematics gets its dollars: by `rule`, by a language model (`llm`), or `none` of it.
    endpoint, budget : of the language model, and the most that it may cost, in the unit of its prices.
    most : problems, drawn at random with the seed of `balance`; None for all.
    """

    sources: tuple[Source, ...]
    delimiters: Literal["rule", "llm", "none"] = "rule"
    duplicates: Duplicates = Duplicates()
    balance: Balance | None = None
    endpoint: Words = ""
    budget: Annotated[float, number] | None = None
    most: Annotated[int, partial(whole, low=1)] | None = None

    def __post_init__(self) -> None:
        if not self.sources:
            raise HarnessError("key 'sources': expected at least one")
        if self.delimiters == "llm" and not self.endpoint:
            raise HarnessError("key 'endpoint' is missing: a language model of conf/llm/")


def read_source(source: Source, where: str = "databank") -> Iterator[Problem]:
    """The problems of a source as they stand there.

    Raises
    ------
    HarnessError
        There is no such corpus or file, or a line lacks a column: one line.
    """
    if source.corpus:
        yield from _of_corpus(source, where)
        return
    place = resource(source.file, where)
    path = place if isinstance(place, Path) else fetch([place])[0]

    seen: set[str] = set()

    def problem(row: dict[str, Any]) -> Problem:
        name = row[source.id]
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise TypeError(f"{source.id!r} is {name!r:.40}, expected text or a whole number")
        name = str(name)
        check_id(name, "problem", path, 0)
        if name in seen:
            raise HarnessError(f"problem {name!r} is on an earlier line already")
        seen.add(name)
        texts = [row[source.statement], row[source.solution]]
        texts += [row.get(source.source, source.name), row.get(source.subject, "")]
        for key, text in zip((source.statement, source.solution, source.source, source.subject), texts, strict=True):
            if not isinstance(text, str):
                raise TypeError(f"{key!r} is {text!r:.40}, expected text")
        # Halves of surrogate pairs, which JSON can escape and no file can hold, become `?`.
        return Problem(name, *(text.encode("utf-8", "replace").decode() for text in texts))

    yield from read_lines(path, problem)


def _of_corpus(source: Source, where: str) -> Iterator[Problem]:
    """Problems of documents; one that lacks a part has it empty, but a part that none has is a mistake."""
    missing = {source.statement, source.solution}
    known: set[str] = set()
    for document in load_corpus(source.corpus):
        parts = {"title": document.title, "body": document.body, "tags": " ".join(document.tags)}
        parts |= document.columns
        known |= parts.keys()
        missing -= parts.keys()
        texts = (parts.get(source.statement, ""), parts.get(source.solution, ""))
        name = parts.get(source.source, source.name)
        yield Problem(f"{source.name}-{document.id}", *texts, name, parts.get(source.subject, ""))
    for key in sorted(missing):
        raise HarnessError(f"{where}: no document of {source.corpus} has {key!r}; {suggestion(key, known)}")


def digest(source: Source, where: str = "databank") -> dict[str, Any]:
    """What decides the problems of a source: its settings and the checksum of what it reads."""
    if source.corpus:
        return {**asdict(source), "digest": load_corpus(source.corpus).identity()}
    place = resource(source.file, where)
    return {**asdict(source), "digest": sha256_file(place) if isinstance(place, Path) else place.sha256}


# ---- from sources to a databank ---------------------------------------------------------------------------------


def databank(
    problems: Iterable[Problem],
    settings: DatabankSettings,
    rewrite: Callable[[Sequence[Problem]], tuple[list[Problem], Counter[str]]] | None = None,
) -> tuple[list[Problem], dict[str, int]]:
    """The problems of a databank in their order, and counts of what was read, left out and kept.

    Parameters
    ----------
    rewrite : puts mathematics in dollars, and counts; default: by `settings.delimiters`, which then is not `llm`.

    Raises
    ------
    HarnessError
        An id that two sources have, or nothing is left.

    Examples
    --------
    >>> kept, counts = databank(
    ...     [Problem("a", r"Find \\(x\\).", "It is 2."), Problem("b", "Find $x$.", "It is 2.")],
    ...     DatabankSettings((Source("s", corpus="c"),)),
    ... )
    >>> kept[0].statement, counts["exact duplicates"]
    ('Find $x$.', 1)
    """
    counts: Counter[str] = Counter()
    found: dict[str, Problem] = {}
    for each in problems:
        counts["read"] += 1
        if each.id in found:
            raise HarnessError(f"databank: problem {each.id!r} comes twice; ids of two sources must differ")
        if each.statement.strip() and each.solution.strip():
            found[each.id] = each
        else:
            counts["without statement or solution"] += 1
    if rewrite is None:
        rewrite = unchanged if settings.delimiters == "none" else by_rule
    rewritten, made = rewrite(list(found.values()))
    counts.update(made)
    kept = _distinct(rewritten, settings.duplicates, counts)
    if settings.balance:
        kept = _balanced(kept, settings.balance, counts)
    if settings.most is not None and len(kept) > settings.most:
        counts["beyond the most"] = len(kept) - settings.most
        kept = _drawn(kept, settings.most, settings.balance.seed if settings.balance else 0)
    if not kept:
        raise HarnessError("databank: no problem is left")
    counts["kept"] = len(kept)
    for source, count in sorted(Counter(each.source for each in kept).items()):
        counts[f"kept of {source or 'no source'}"] = count
    return kept, dict(counts)


def unchanged(problems: Sequence[Problem]) -> tuple[list[Problem], Counter[str]]:
    """The problems as they are."""
    return list(problems), Counter()


def by_rule(problems: Sequence[Problem]) -> tuple[list[Problem], Counter[str]]:
    """The problems with their mathematics in dollars, and how many texts were changed or could not be."""
    counts: Counter[str] = Counter()

    def put(text: str) -> str:
        out, good = in_dollars(text)
        counts["texts with dollars put"] += out != text
        counts["texts with delimiters without a pair, left as they are"] += not good
        return out

    return [replace(each, statement=put(each.statement), solution=put(each.solution)) for each in problems], counts


def _distinct(problems: Sequence[Problem], settings: Duplicates, counts: Counter[str]) -> list[Problem]:
    seen: dict[str, Problem] = {}
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


def _balanced(problems: Sequence[Problem], balance: Balance, counts: Counter[str]) -> list[Problem]:
    known = {each.source for each in problems}
    for name in balance.sources:
        if name not in known:
            raise HarnessError(f"databank: key 'balance.sources': no problem is of {name!r}; {suggestion(name, known)}")
    large = [each for each in problems if each.source in balance.sources]
    most = math.floor(balance.ratio * (len(problems) - len(large)))
    if len(large) <= most:
        return list(problems)
    counts["left out for balance"] = len(large) - most
    drawn = {each.id for each in _drawn(large, most, balance.seed)}
    return [each for each in problems if each.source not in balance.sources or each.id in drawn]


def _drawn(problems: Sequence[Problem], count: int, seed: int) -> list[Problem]:
    chosen = sorted(random.Random(seed).sample(range(len(problems)), count))  # noqa: S311  (no secret)
    return [problems[i] for i in chosen]

"""Reader of collections in SABER-Math format: queries with fixed candidates and real-valued ratings, and documents.

Two files of JSON lines, as written by `harness build saber` and in the authors' data sets. A query:

    {"id": "q1", "problem": "Find ...", "solution": "Let ...", "domains": ["Algebra"],
     "candidates": ["d7", "d3"], "relevance_scores": [4.25, 0.5]}

`candidates` are ids of documents and `relevance_scores` their ratings, real numbers from 0 up. A document:

    {"id": "d7", "problem": "Show ...", "solution": "By ..."}

If no line has an `id`, ids are line numbers from 0, also in `candidates`. Ids are text or whole numbers. The keys
`domains` and `solution` are optional: all lines have them, or none; other keys are ignored. Texts are those of the
authors' scripts (`transform` in `src/sabermath/benchmark.py` at 9f015a7): a statement alone is the unchanged problem;
with its solution, it is `Problem: ...`, an empty line and `Solution: ...`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.collections.corpus import Corpus, CorpusReader, Document, Documents, Remarks, numbered_lines
from harness.collections.forms import FileForm
from harness.data import topic_files
from harness.data.layouts import LARGEST_GRADE
from harness.data.markup import numbered_formulas
from harness.data.records import unique_names
from harness.data.topics import SEPARATOR, Topic, Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, format_error
from harness.io.files import read_bytes, sha256
from harness.io.names import check_id

_ALIKE = ("id", "domains", "solution")  # keys that may be missing, but not from some lines alone


@dataclass(frozen=True)
class SaberQuery:
    """Query with its texts, its domains (of which it may have several), and the rating of each candidate."""

    id: str
    problem: str
    solution: str
    domains: tuple[str, ...]
    ratings: dict[str, float]


def worded(problem: str, solution: str = "") -> str:
    """Returns the text of a problem with its solution, if any.

    >>> worded("Is 7 prime?", "Yes.")
    'Problem: Is 7 prime?\\n\\nSolution: Yes.'
    """
    return f"Problem: {problem}" + (f"\n\nSolution: {solution}" if solution else "")


def read_topics(data: bytes, path: str, language: str = "eng", *, full: bool = False) -> Topics:
    """Returns the queries: the statement as `body`, with the solution if `full`; attribute `domain`."""
    numbered = []
    for line, query in queries(data, path):
        text = worded(query.problem, query.solution) if full else query.problem
        attributes = {"domain": SEPARATOR.join(query.domains)} if query.domains else {}
        formulas = numbered_formulas(f"{query.id}.", text)
        numbered.append((line, Topic(query.id, "", text, (), formulas, language, attributes)))
    return topic_files.unique(numbered, path)


def read_qrels(data: bytes, path: str, edition: str) -> Qrels:
    """Returns the ratings of the candidates as judgments with real-valued grades."""
    judgments = {query.id: query.ratings for _, query in queries(data, path)}
    return replace(Qrels.from_dict(edition, judgments), sha256=sha256(data))


def check(path: Path) -> None:
    """Raises `HarnessError` unless a file of queries or documents is complete and has unique ids.

    The file's name, `queries.jsonl` or `documents.jsonl`, determines its kind; for other names, its first line does.
    """
    first = next((line for line in read_bytes(path).split(b"\n") if line.strip()), b"")
    rated = path.name == "queries.jsonl" or (path.name != "documents.jsonl" and b'"candidates"' in first)
    seen: dict[str, int] = {}
    ids = ((n, query.id) for n, query in queries(read_bytes(path), str(path))) if rated else _ids_of_documents(path)
    for number, name in ids:
        if name in seen:
            what = "query" if rated else "document"
            raise format_error(path, number, f"{what} {name!r} is on line {seen[name]} already")
        seen[name] = number
    if not seen:
        raise HarnessError(f"{path}: holds no {'queries' if rated else 'documents'}")


def _ids_of_documents(path: Path) -> Iterator[tuple[int, str]]:
    for number, row in _rows(_lines_of(path), str(path)):
        if "candidates" in row or "relevance_scores" in row:
            raise format_error(path, number, "is a query, expected a document")
        _problem_and_solution(row, str(path), number)
        yield number, row["id"]


def queries(data: bytes, path: str) -> Iterator[tuple[int, SaberQuery]]:
    """Yields the queries with their lines.

    Raises
    ------
    FormatError
        A line is not a query: a key is missing or has the wrong type, lists differ in length, a candidate occurs twice,
        or a rating is not a number from 0 up.
    """
    lines = ((number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip())
    for number, row in _rows(lines, path):
        candidates, scores = row.get("candidates"), row.get("relevance_scores")
        if not isinstance(candidates, list) or not isinstance(scores, list) or len(candidates) != len(scores):
            raise format_error(path, number, "'candidates' and 'relevance_scores' must be lists of one length")
        ratings: dict[str, float] = {}
        for candidate, score in zip(candidates, scores, strict=True):
            name = _name(candidate, "document", path, number)
            if name in ratings:
                raise format_error(path, number, f"candidate {name!r} occurs twice")
            if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= LARGEST_GRADE:
                raise format_error(path, number, f"candidate {name!r} has the rating {score!r:.30}, expected 0 or more")
            ratings[name] = float(score)
        if not ratings:
            raise format_error(path, number, "has no candidates")
        domains = row.get("domains") or []
        if not isinstance(domains, list) or any(not isinstance(each, str) or ";" in each for each in domains):
            raise format_error(path, number, "'domains' must be a list of names without ';'")
        yield number, SaberQuery(row["id"], *_problem_and_solution(row, path, number), tuple(domains), ratings)


def _lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in numbered_lines(path) if line.strip())


def _read_documents(corpus: Corpus, remarks: Remarks, *, full: bool) -> Documents:
    for number, row in _rows(_lines_of(corpus.path), str(corpus.path)):
        name, (problem, solution) = row["id"], _problem_and_solution(row, str(corpus.path), number)
        text = worded(problem, solution) if full else problem
        yield (corpus.path, number), Document(name, "", text, (), numbered_formulas(f"{name}.", text))


FULL = CorpusReader("saber", partial(_read_documents, full=True), version=2)
STATEMENTS = CorpusReader("saber-statements", partial(_read_documents, full=False), version=2)
READERS = (
    FileForm(FULL.name, read_topics, read_qrels, FULL, source="saber-math-data", check=check),
    FileForm("saber-full", partial(read_topics, full=True)),
    FileForm(STATEMENTS.name, documents=STATEMENTS),
)


def _rows(numbered: Iterable[tuple[int, bytes]], path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the object of each line with its `id`; if no line has one, ids are line numbers from 0."""
    have: dict[str, bool] = {}
    for place, (number, line) in enumerate(numbered):
        try:
            row = json.loads(line, parse_constant=lambda _: math.nan, object_pairs_hook=unique_names)
        except (ValueError, RecursionError) as error:
            raise format_error(path, number, f"not valid JSON: {error}") from None
        if not isinstance(row, dict):
            raise format_error(path, number, f"expected an object, found {row!r:.40}")
        for key in _ALIKE:
            if have.setdefault(key, key in row) is not (key in row):
                said = f"{'lacks' if have[key] else 'has'} the key {key!r}, unlike the lines before it"
                raise format_error(path, number, said)
        yield number, {**row, "id": _name(row["id"], "problem", path, number) if have["id"] else str(place)}


def _name(value: object, what: str, path: str, number: int) -> str:
    """Validates an id, which is text or a whole number, and returns it as text."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise format_error(path, number, f"{what} id {value!r:.40}, expected text or a whole number")
    check_id(str(value), what, path, number)
    return str(value)


def _problem_and_solution(row: dict[str, Any], path: str, number: int) -> tuple[str, str]:
    texts = (row.get("problem"), row.get("solution", ""))
    for key, text in zip(("problem", "solution"), texts, strict=True):
        if not isinstance(text, str) or (key == "problem" and not text.strip()):
            raise format_error(path, number, f"key {key!r} is missing, empty or no text")
    return str(texts[0]), str(texts[1])

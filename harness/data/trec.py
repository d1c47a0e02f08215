"""Runs and judgments, and readers of their files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.data.columns import Floats, Ids, Index, Words, duplicates, pair_hashes, strings
from harness.data.layouts import (
    FORMATS,
    JUDGMENTS,
    judgment_table,
    read_columns,
    run_content,
    run_format,
    without_comments,
)
from harness.data.records import (
    Judgment,
    ScoredDoc,
    check_ids,
    checked,
    columns_of,
    encoded,
    flat,
    frame,
    import_library,
    name_of_judgments,
    name_of_run,
    numeric,
)
from harness.data.tables import Faults, LineNumbers, check_text
from harness.errors import HarnessError, InputFault, counted_text, shortened
from harness.io import rehearsal
from harness.io.arguments import checked_arguments
from harness.io.files import read_bytes, sha256
from harness.io.names import NAME_RULE, check_name, is_name

if TYPE_CHECKING:
    import ir_measures
    import ranx
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Run:
    """Rankings of one system, in file order; sorting is left to the protocol.

    Attributes
    ----------
    name : name of the run, a label of any characters (`harness.io.names`).
    topics : distinct topic ids, in order of first appearance.
    topic : int32, shape (lines,). Index into `topics`.
    doc : bytes, shape (lines,). Document ids in UTF-8.
    score : float64, shape (lines,). Finite.
    context : bytes, shape (lines,), or None. The post of each formula in ARQMath Task 2.
    sha256 : checksum of the file's (decompressed) bytes; without a file, of the run's text form.
    warnings : irregularities that do not prevent scoring.
    source : the file that it was read from, or a name for messages.

    Examples
    --------
    >>> run = Run.from_dict("mine", {"A.1": {"d1": 2.0, "d2": 1.5}})
    >>> len(run), run.topics
    (2, ('A.1',))
    >>> run.frame()
      query_id doc_id  score  rank
    0      A.1     d1    2.0     1
    1      A.1     d2    1.5     2
    """

    name: str
    topics: tuple[str, ...]
    topic: npt.NDArray[np.int32]
    doc: Ids
    score: Floats
    context: Ids | None = None
    sha256: str = ""
    warnings: tuple[InputFault, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        if not self.topic.shape == self.doc.shape == self.score.shape:
            raise ValueError(f"run {self.name}: topics, documents and scores differ in number")
        for column in (self.topic, self.doc, self.score, self.context):
            if column is not None:
                column.setflags(write=False)

    def __len__(self) -> int:
        return int(self.topic.size)

    @cached_property
    def key(self) -> Words:
        """Hash of each line's (topic, document); equal pairs have equal hashes in runs and judgments."""
        return pair_hashes(self.topics, self.topic, self.doc)

    def without_lines(self) -> Run:
        """Returns the run with its name, topics and origin alone, to save memory once it is scored."""
        empty = np.zeros(0)
        return replace(self, topic=empty.astype(np.int32), doc=empty.astype(np.bytes_), score=empty, context=None)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Returns topic -> document -> score, the format of pytrec_eval."""
        out: dict[str, dict[str, float]] = {topic: {} for topic in self.topics}
        for topic, doc, score in zip(self.topic.tolist(), self.doc.tolist(), self.score.tolist(), strict=True):
            out[self.topics[topic]][doc.decode()] = score
        return out

    @staticmethod
    def from_dict(name: str, rankings: Mapping[str, Mapping[str, float]]) -> Run:
        """Returns a run from topic -> document -> score, validated like a file."""
        return _run_of_rows(name, lambda: flat(rankings, "scores"))

    def rank(self) -> Index:
        """Returns the rank of each line in its topic, from 1: by score, equal scores in the order of the file."""
        order = np.lexsort((-self.score, self.topic))
        out = np.empty(len(self), dtype=np.int64)
        out[order] = np.arange(1, len(self) + 1) - np.searchsorted(self.topic[order], self.topic[order])
        return out

    def frame(self) -> DataFrame:
        """`query_id`, `doc_id`, `score`, `rank` (as `rank()`) and, if there is one, `context`, in the file's order."""
        columns = {**_id_columns(self), "score": self.score, "rank": self.rank()}
        if self.context is not None:
            columns["context"] = [name.decode() for name in self.context.tolist()]
        return frame(columns)

    @staticmethod
    def from_frame(name: str, table: DataFrame) -> Run:
        """Returns a run from columns `query_id`, `doc_id`, `score` and optionally `context`; validated like a file."""
        what = name_of_run(name)
        names = ["query_id", "doc_id", "score", *(["context"] if "context" in getattr(table, "columns", ()) else [])]
        columns = columns_of(table, names, what)
        topics, docs, scores, *context = columns

        def make() -> Run:
            rows = numeric(zip(topics, docs, scores, strict=True), "score")
            return run_from_columns(name, topics, docs, [score for *_, score in rows], *context, path=what)

        return checked(what, make)

    def to_ranx(self) -> ranx.Run:
        """Returns the run as an object of ranx. Needs `pip install 'mathir-harness[ranx]'`."""
        return import_library("ranx", "ranx").Run(self.to_dict(), name=self.name)

    @staticmethod
    def from_ranx(run: ranx.Run, name: str | None = None) -> Run:
        """Converts a run of ranx, under its own name or another one."""
        return Run.from_dict(name or str(run.name), run.to_dict())

    def scored_docs(self) -> Iterator[ir_measures.ScoredDoc]:
        """Yields the lines as objects of ir_measures. Needs `pip install 'mathir-harness[measures]'`."""
        kind = import_library("ir_measures", "measures").ScoredDoc
        for topic, doc, score in zip(self.topic.tolist(), self.doc.tolist(), self.score.tolist(), strict=True):
            yield kind(self.topics[topic], doc.decode(), score)

    @staticmethod
    def from_scored_docs(name: str, docs: Iterable[ScoredDoc]) -> Run:
        """Returns a run from values with `query_id`, `doc_id` and `score`."""
        return _run_of_rows(name, lambda: ((each.query_id, each.doc_id, each.score) for each in docs))


@dataclass(frozen=True, eq=False)
class Qrels:
    """Relevance judgments of one edition of a collection.

    Attributes
    ----------
    edition : name of the edition, which is recorded in all scores.
    topics : distinct topic ids, in order of first appearance.
    topic : int32, shape (judgments,). Index into `topics`.
    doc : bytes, shape (judgments,). Document ids in UTF-8.
    grade : float64, shape (judgments,). Below 0: not judged, as in trec_eval; see `judged`.
    sha256 : checksum of the file's bytes (unpacked).

    Examples
    --------
    >>> Qrels.from_dict("official", {"A.1": {"d1": 3, "d2": 0}}).frame()
      query_id doc_id  relevance
    0      A.1     d1        3.0
    1      A.1     d2        0.0
    """

    edition: str
    topics: tuple[str, ...]
    topic: npt.NDArray[np.int32]
    doc: Ids
    grade: Floats
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.topic.shape == self.doc.shape == self.grade.shape:
            raise ValueError(f"judgments {self.edition}: topics, documents and grades differ in number")
        for column in (self.topic, self.doc, self.grade):
            column.setflags(write=False)

    def __len__(self) -> int:
        return int(self.topic.size)

    @cached_property
    def key(self) -> Words:
        """Hash of each judgment's (topic, document), as `Run.key`."""
        return pair_hashes(self.topics, self.topic, self.doc)

    @cached_property
    def doc_names(self) -> list[str]:
        """The document id of each judgment."""
        return [doc.decode() for doc in self.doc.tolist()]

    def judged(self) -> Qrels:
        """Returns the judgments without grades below 0, which mean not judged; all topics stay."""
        kept = self.grade >= 0
        if kept.all():
            return self
        return replace(self, topic=self.topic[kept], doc=self.doc[kept], grade=self.grade[kept])

    def to_dict(self) -> dict[str, dict[str, int]]:
        """Returns topic -> document -> grade, the format of pytrec_eval.

        Raises
        ------
        HarnessError
            A grade is not a whole number.
        """
        if (broken := self.grade != np.floor(self.grade)).any():
            row = int(broken.argmax())
            where = f"document {self.doc[row].decode()!r} of topic {self.topics[self.topic[row]]!r}"
            raise HarnessError(
                f"judgments {self.edition}: {where} has grade {self.grade[row]:g}, expected whole grades"
            )
        out: dict[str, dict[str, int]] = {topic: {} for topic in self.topics}
        for topic, doc, grade in zip(self.topic.tolist(), self.doc.tolist(), self.grade.tolist(), strict=True):
            out[self.topics[topic]][doc.decode()] = int(grade)
        return out

    @staticmethod
    def from_dict(edition: str, judgments: Mapping[str, Mapping[str, float]]) -> Qrels:
        """Returns judgments from topic -> document -> grade; validated like a file."""
        return Qrels.from_rows(edition, checked(name_of_judgments(edition), lambda: list(flat(judgments, "grades"))))

    def frame(self) -> DataFrame:
        """Returns `query_id`, `doc_id`, `relevance` (the grade, a float), in the order of the file."""
        return frame({**_id_columns(self), "relevance": self.grade})

    @staticmethod
    def from_frame(edition: str, table: DataFrame) -> Qrels:
        """Returns judgments from the columns `query_id`, `doc_id` and `relevance`; validated like a file."""
        columns = columns_of(table, ("query_id", "doc_id", "relevance"), name_of_judgments(edition))
        return Qrels.from_rows(edition, list(zip(*columns, strict=True)))

    def to_ranx(self) -> ranx.Qrels:
        """Returns the judgments as an object of ranx; grades must be whole. Needs `mathir-harness[ranx]`."""
        return import_library("ranx", "ranx").Qrels(self.to_dict())

    @staticmethod
    def from_ranx(edition: str, qrels: ranx.Qrels) -> Qrels:
        """Converts judgments of ranx."""
        return Qrels.from_dict(edition, qrels.to_dict())

    def judgments(self) -> Iterator[ir_measures.Qrel]:
        """Yields the judgments as objects of ir_measures; grades must be whole."""
        kind = import_library("ir_measures", "measures").Qrel
        for topic, docs in self.to_dict().items():
            for doc, grade in docs.items():
                yield kind(topic, doc, grade)

    @staticmethod
    def from_judgments(edition: str, judgments: Iterable[Judgment]) -> Qrels:
        """Returns judgments from objects with `query_id`, `doc_id` and `relevance`."""
        what = name_of_judgments(edition)
        rows = checked(what, lambda: [(each.query_id, each.doc_id, each.relevance) for each in judgments])
        return Qrels.from_rows(edition, rows)

    @staticmethod
    def from_rows(edition: str, rows: Sequence[tuple[object, object, float]]) -> Qrels:
        """Returns judgments from (topic, document, grade); validated like a file."""
        what = name_of_judgments(edition)
        checked(what, lambda: check_ids(row[:2] for row in rows))
        graded = checked(what, lambda: numeric(rows, "grade"))
        lines = [f"{topic}\t0\t{doc}\t{grade!r}" for topic, doc, grade in graded]
        data = checked(what, lambda: encoded(lines))
        return _qrels_of(data, JUDGMENTS, what, edition, sha256(data))


def _id_columns(lines: Run | Qrels) -> dict[str, Any]:
    names = np.array(lines.topics, dtype=object)
    return {"query_id": names[lines.topic], "doc_id": [name.decode() for name in lines.doc.tolist()]}


def _run_of_rows(name: str, rows: Callable[[], Iterable[tuple[object, object, float]]]) -> Run:
    def make() -> Run:
        columns: list[Any] = list(zip(*numeric(rows(), "score"), strict=True))
        return run_from_columns(name, *columns, path=name_of_run(name))

    return checked(name_of_run(name), make)


def run_from_columns(
    name: str,
    topics: Iterable[object],
    docs: Iterable[object],
    scores: Iterable[float],
    context: Iterable[object] | None = None,
    *,
    path: str = "run",
) -> Run:
    """Returns a run from columns of equal length, validated like a run file (errors name the row as a line).

    Parameters
    ----------
    path : name of the run in messages.

    Raises
    ------
    TypeError, ValueError
        The columns are of unequal length, an id is empty, holds blanks or is neither text nor a whole number, a score
        is not a number.
    FormatError
        As `parse_run`.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name is {name!r}, expected text")
    columns = [list(column) for column in ((topics, docs) if context is None else (topics, docs, context))]
    check_ids(columns)
    rows: Iterable[Any] = zip(*columns, map(float, scores), strict=True)
    if context is None:
        lines = [f"{topic}\tQ0\t{doc}\t0\t{score!r}\t-" for topic, doc, score in rows]
    else:
        lines = [f"{topic}\t{doc}\t{post}\t0\t{score!r}\t-" for topic, doc, post, score in rows]
    return parse_run(encoded(lines), path, name=name, format="trec" if context is None else "arqmath-task2")


def parse_run(
    data: bytes,
    path: str,
    *,
    name: str | None = None,
    format: str | None = None,
    known_topics: Collection[str] | None = None,
) -> Run:
    """Parses a run from the (decompressed) bytes of its file; lines that begin with `#` are comments.

    Parameters
    ----------
    path : name of the file in messages.
    name : name of the run; default: its tag (last column).
    format : `trec` (any column 2), `arqmath-task1` or `arqmath-task2`; default: detected from the columns.
    known_topics : the topics of the collection; other topics are reported as problems.

    Raises
    ------
    FormatError
        With every problem found, up to `PROBLEM_LIMIT`.
    """
    table = without_comments(data)
    check_text(table, path)
    names = FORMATS[run_format(table, format, path)]
    faults = Faults(path)
    columns = read_columns(table, names, faults, strict=format is None)
    n, tag = columns.rows, columns.tag
    if name is None and n and not is_name(tag):
        faults.add(columns.line[0], f"run tag {shortened(tag, 80)!r} is not a name: expected {NAME_RULE}")
    if name is not None:
        check_name(name, path)
    if not n:
        faults.close()
    run = Run(
        name or tag,
        columns.topic.names(),
        columns.topic.index[:n],
        strings(columns.doc.words[:n]),
        columns.value[:n],
        None if columns.context is None else strings(columns.context.words[:n]),
        sha256(data),
        source=path,
    )
    del data, table  # frees the text before the following steps allocate memory
    line = columns.line
    warnings = _check_ranks(columns.rank[:n], line, path, run)
    del columns
    if known_topics is not None:
        # Reported once per topic, so that one wrong name does not hide other faults.
        strange = [index for index, name in enumerate(run.topics) if name not in known_topics]
        if len(strange) == len(run.topics) > 1:
            which = f"none of its {len(strange):,} topics, such as {run.topics[0]!r}, is among the collection's"
            faults.add(0, f"{which}; is it a run of another collection?")
        elif strange:
            _, first, count = np.unique(run.topic, return_index=True, return_counts=True)
            for index in strange:
                many = f" ({count[index]} lines)" if count[index] > 1 else ""
                what = f"topic {run.topics[index]!r} is not among the collection's topics{many}"
                faults.add(line[int(first[index])], what)
    _report_duplicates(faults, run.key, run, line, "is")
    faults.close()
    return replace(run, warnings=warnings) if warnings else run  # which keeps its hashes


def _report_duplicates(
    faults: Faults, key: npt.NDArray[np.uint64], table: Run | Qrels, line: LineNumbers, verb: str
) -> None:
    for row, first in duplicates(key, table.topic, table.doc).items():
        what = f"document {table.doc[row].decode('utf-8', 'replace')!r} of topic {table.topics[table.topic[row]]!r}"
        faults.add(line[row], f"{what} {verb} on line {line[first]} already")


def _check_ranks(rank: npt.NDArray[np.int32], line: LineNumbers, path: str, run: Run) -> tuple[InputFault, ...]:
    """Returns a warning if ranks disagree with the order of scores, which is decisive."""
    same, score, ordered = run.topic[1:] == run.topic[:-1], run.score, rank
    rows = None
    if (run.topic[1:] < run.topic[:-1]).any() or (rank[1:] < rank[:-1])[same].any():
        rows = np.lexsort((rank, run.topic))
        same = run.topic[rows][1:] == run.topic[rows][:-1]
        score, ordered = run.score[rows], rank[rows]
    # Equal ranks (such as 0 on every line) do not imply an order.
    rising = np.flatnonzero(same & (score[1:] > score[:-1]) & (ordered[1:] != ordered[:-1])) + 1
    if not rising.size:
        return ()
    row = int(rising[0] if rows is None else rows[rising[0]])
    reason = (
        f"rank {rank[row]} of topic {run.topics[run.topic[row]]!r} has a higher score than the rank before it; "
        f"scores decide the order ({counted_text(rising.size, 'such line')})"
    )
    return (InputFault(path, line[row], reason),)


@checked_arguments
def read_run(
    path: Path | str, *, name: str | None = None, format: str | None = None, known_topics: Collection[str] | None = None
) -> Run:
    """Reads a run file (TREC, ARQMath Task 1 or Task 2; plain, gzip, xz or zstd). See `parse_run`.

    A folder or an archive of TIRA holds the file as `run.txt`. A run that was made from stand-ins, by its metadata
    file, is refused outside of a rehearsal.

    Examples
    --------
    >>> run = read_run("runs/mini/mini-task1/overlap.run")
    >>> run.name, len(run.topics)
    ('overlap', 42)
    """
    return parse_run(run_bytes(Path(path)), str(path), name=name, format=format, known_topics=known_topics)


def run_bytes(path: Path, most: int | None = None) -> bytes:
    """Returns the unpacked content of a run file, or of the run in a folder or archive; see `read_run`.

    Parameters
    ----------
    most : maximum size of the content in bytes; default: as in `read_bytes`.
    """
    rehearsal.refuse(path)
    return run_content(path, most)


def parse_qrels(data: bytes, path: str, *, edition: str) -> Qrels:
    """Parses judgments from the (decompressed) bytes of a file; `harness.data.layouts` lists the forms.

    Grades are numbers: those below 0 mean not judged, as in trec_eval, and those that are not whole are gains as they
    are. Levels of preferences (`harness.data.layouts`) become grades. Lines that begin with `#` are comments.

    Raises
    ------
    FormatError
        The file has problems, all of which are listed: wrong numbers of columns, invalid grades, duplicates.
    """
    return _qrels_of(*judgment_table(data, path), path, edition, sha256(data))


def _qrels_of(table: bytes, names: tuple[str, ...], path: str, edition: str, checksum: str) -> Qrels:
    check_text(table, path)
    faults = Faults(path)
    columns = read_columns(table, names, faults)
    topic, n = columns.topic, columns.rows
    doc, grade = strings(columns.doc.words[:n]), columns.value[:n]
    qrels = Qrels(edition, topic.names(), topic.index[:n], doc, grade, checksum)
    _report_duplicates(faults, qrels.key, qrels, columns.line, "is judged")
    faults.close()
    return qrels


@checked_arguments
def read_qrels(path: Path | str, *, edition: str = "") -> Qrels:
    """Reads judgments: TREC's columns, BEIR's, JSON lines or Parquet (plain, gzip, xz, zstd or zip). See `parse_qrels`.

    Examples
    --------
    >>> len(read_qrels("qrels/mini-task1.txt").topics)
    42
    """
    return parse_qrels(read_bytes(Path(path)), str(path), edition=edition)

"""Runs and judgments: the values, and the readers and writers of their files."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.data.columns import Floats, Words, hashes, integers, line_ends, pieces, split, strings, words_of
from harness.data.columns import words as as_words
from harness.data.tables import Faults, Groups, IdColumn, LineNumbers, Table, check_text, refuse_binary, tables
from harness.errors import HarnessError, Problem, format_error, suggestion
from harness.io.files import read_bytes, sha256, write_atomic
from harness.io.ids import LONGEST_ID

Ids = npt.NDArray[np.bytes_]
FORMATS: Mapping[str, tuple[str, ...]] = {
    "trec": ("topic", "Q0", "document", "rank", "score", "tag"),
    "arqmath-task1": ("topic", "post", "rank", "score", "tag"),
    "arqmath-task2": ("topic", "formula", "post", "rank", "score", "tag"),
}
SCHEMA = "mathir-harness/run"
VERSION = 1
ITERATIONS = (b"Q0", b"0", b"_")  # what column 2 of a TREC run may hold
FORMAT_SAMPLE = 1 << 14  # bytes
ROWS = 1 << 14  # lines worked on at a time, few enough to stay in the cache
LARGEST_GRADE = 1 << 53  # whole numbers are exact up to here, and no sum of gains is infinite
TAG = re.compile(r"\w[\w.+=,@()~#%-]{0,127}")
TAG_RULE = "letters, digits and _.+=,@()~#%- only, beginning with a letter, digit or _, at most 128"


@dataclass(frozen=True, eq=False)
class Run:
    """One system's rankings, in the order of their file; only a protocol sorts.

    Attributes
    ----------
    name : the run's name, fit for a file name.
    topics : distinct topic ids, in order of first appearance.
    topic : int32, shape (lines,). Index into `topics`.
    doc : bytes, shape (lines,). Document ids in UTF-8.
    score : float64, shape (lines,). Finite.
    context : bytes, shape (lines,), or None. The post of each formula in ARQMath Task 2.
    sha256 : checksum of the file's bytes (unpacked); of the written form if there was no file.
    warnings : what is odd but does not keep the run from being scored.
    """

    name: str
    topics: tuple[str, ...]
    topic: npt.NDArray[np.int32]
    doc: Ids
    score: Floats
    context: Ids | None = None
    sha256: str = ""
    warnings: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        for column in (self.topic, self.doc, self.score, self.context):
            if column is not None:
                column.setflags(write=False)

    def __len__(self) -> int:
        return int(self.topic.size)

    @cached_property
    def key(self) -> Words:
        """A hash of each line's (topic, document); equal pairs have equal hashes, in runs and judgments alike."""
        return pair_hashes(self.topics, self.topic, self.doc)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """topic -> document -> score, as pytrec_eval takes it."""
        out: dict[str, dict[str, float]] = {topic: {} for topic in self.topics}
        for topic, doc, score in zip(self.topic.tolist(), self.doc.tolist(), self.score.tolist(), strict=True):
            out[self.topics[topic]][doc.decode()] = score
        return out

    @staticmethod
    def from_dict(name: str, rankings: Mapping[str, Mapping[str, float]]) -> Run:
        """A run from topic -> document -> score, checked as a file is (errors name the line it would have)."""
        lines = [f"{t}\tQ0\t{d}\t0\t{float(s)!r}\t{name}" for t, docs in rankings.items() for d, s in docs.items()]
        return parse_run("\n".join(lines).encode(), f"run {name}", format="trec")


@dataclass(frozen=True, eq=False)
class Qrels:
    """Relevance judgments of one edition of a collection.

    Attributes
    ----------
    edition : which edition these are, for every score made with them.
    topics : distinct topic ids, in order of first appearance.
    topic : int32, shape (judgments,). Index into `topics`.
    doc : bytes, shape (judgments,). Document ids in UTF-8.
    grade : float64, shape (judgments,). Zero or above.
    sha256 : checksum of the file's bytes (unpacked).
    """

    edition: str
    topics: tuple[str, ...]
    topic: npt.NDArray[np.int32]
    doc: Ids
    grade: Floats
    sha256: str = ""

    def __post_init__(self) -> None:
        for column in (self.topic, self.doc, self.grade):
            column.setflags(write=False)

    def __len__(self) -> int:
        return int(self.topic.size)

    @cached_property
    def key(self) -> Words:
        """A hash of each judgment's (topic, document), as `Run.key`."""
        return pair_hashes(self.topics, self.topic, self.doc)

    def to_dict(self) -> dict[str, dict[str, int]]:
        """topic -> document -> grade, as pytrec_eval takes it; grades must be whole."""
        out: dict[str, dict[str, int]] = {topic: {} for topic in self.topics}
        for topic, doc, grade in zip(self.topic.tolist(), self.doc.tolist(), self.grade.tolist(), strict=True):
            out[self.topics[topic]][doc.decode()] = int(grade)
        return out

    @staticmethod
    def from_dict(edition: str, judgments: Mapping[str, Mapping[str, float]]) -> Qrels:
        """Judgments from topic -> document -> grade; grades may be any number from 0 up."""
        lines = [f"{t}\t0\t{d}\t{float(g)!r}" for t, docs in judgments.items() for d, g in docs.items()]
        return parse_qrels("\n".join(lines).encode(), f"judgments {edition}", edition=edition, whole=False)


def pair_hashes(topics: Sequence[str], topic: npt.NDArray[np.int32], doc: Ids) -> Words:
    """A 64-bit hash of each (topic, document), shape of `topic`."""
    if not topics:
        return np.zeros(0, dtype=np.uint64)
    names = np.array([name.encode() for name in topics], dtype=np.bytes_)
    of_topic = hashes(as_words(names), np.zeros(names.size, dtype=np.uint64))
    out = np.empty(topic.size, dtype=np.uint64)
    for at in range(0, topic.size, ROWS):  # a stretch at a time, whose intermediate results stay small
        part = slice(at, at + ROWS)
        out[part] = hashes(as_words(doc[part]), of_topic[topic[part]])
    return out


def _duplicates(key: npt.NDArray[np.uint64], topic: npt.NDArray[np.int32], doc: Ids) -> dict[int, int]:
    """Row of each repeated (topic, document) -> row where the pair stands first."""
    ordered = np.sort(key)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not repeated.size:
        return {}
    seen: dict[tuple[int, bytes], int] = {}
    out = {}
    for row in np.flatnonzero(np.isin(key, repeated)).tolist():
        first = seen.setdefault((int(topic[row]), doc[row]), row)
        if first != row:
            out[row] = first
    return out


def _run_format(data: bytes, asked: str | None, path: str) -> str:
    """Which of the three layouts a run has, recognised by the columns of its first lines."""
    if asked is not None:
        if asked not in FORMATS:
            raise HarnessError(f"--format {asked}: no such format; {suggestion(asked, FORMATS)}")
        return asked
    parts = ((piece, split(piece)) for piece in pieces(data, FORMAT_SAMPLE))
    source, lines = next((piece, lines) for piece, lines in parts if lines.line.size or lines.controls.size)
    refuse_binary(source, lines, path)
    usual = int(np.bincount(lines.count).argmax())
    if usual not in (5, 6):
        expected = "; ".join(f"{len(names)} for {name} ({' '.join(names)})" for name, names in FORMATS.items())
        raise format_error(path, int(lines.line[lines.count == usual][0]), f"{usual} columns, expected {expected}")
    rows = lines.first[lines.count == usual] + 1
    fields = strings(words_of(source, lines.start[rows], np.minimum(lines.length[rows], LONGEST_ID)))
    second = set(fields[:1].tolist() if (fields == fields[0]).all() else fields.tolist())
    if usual == 5:
        if second <= set(ITERATIONS):
            trec = " ".join(FORMATS["trec"])
            raise format_error(
                path,
                0,
                f"5 columns like a TREC run ({trec}) that lacks one; if column 2 is a post, say --format arqmath-task1",
            )
        return "arqmath-task1"
    if second & set(ITERATIONS):
        return "trec"
    if len(second) == 1:
        constant = second.pop().decode("utf-8", "backslashreplace")
        say = "say which it is with --format trec or --format arqmath-task2"
        raise format_error(path, 0, f"column 2 is {constant!r} on every line, neither Q0, 0, _ nor formula ids; {say}")
    return "arqmath-task2"


class _Columns:
    """The columns of a run while it is read: of a size for all its lines, filled block by block.

    `strict`: column 2 of a TREC run is looked at.
    """

    def __init__(self, lines: int, names: tuple[str, ...], *, strict: bool) -> None:
        self.names, self.strict = names, strict
        self.topic, self.doc = Groups(lines), IdColumn(lines)
        self.context = IdColumn(lines) if "formula" in names else None
        self.score: Floats = np.empty(lines)
        self.rank, self.line = np.empty(lines, dtype=np.int32), LineNumbers()
        self.rows = 0
        self.tag = ""

    def put(self, table: Table) -> None:
        """Add the columns of one block, whose faults go to the table's."""
        names, at = self.names, slice(self.rows, self.rows + len(table.line))
        if not self.rows:
            self.tag = table.text(0, len(names) - 1)
        self.line.put(self.rows, table.line)
        doc_column = 1 if "Q0" not in names else 2
        self.topic.put(self.rows, table.ids(0, "topic"))
        self.doc.put(self.rows, table.ids(doc_column, names[doc_column]))
        if self.context is not None:
            self.context.put(self.rows, table.ids(2, "post"))
        self.score[at] = table.numbers(names.index("score"), "score")
        rank_column, tag_column = names.index("rank"), names.index("tag")
        rank, whole = integers(table.source, table.start[rank_column], table.length[rank_column])
        table.each(~whole, lambda row: f"rank {table.text(row, rank_column)!r} is not a whole number of 1 to 8 digits")
        self.rank[at] = rank
        if self.strict and doc_column == 2:
            first = table.text(0, 1).encode()
            if first not in ITERATIONS or not table.equals(1, first).all():
                odd = ~np.isin(strings(table.words(1)), ITERATIONS)
                table.each(odd, lambda row: f"column 2 is {table.text(row, 1)!r}, expected Q0, 0 or _")
        other = ~table.equals(tag_column, self.tag.encode())
        table.each(
            other,
            lambda row: f"run tag {table.text(row, tag_column)!r} differs from line {self.line[0]}'s {self.tag!r}",
        )
        self.rows += len(table.line)


def _columns(data: bytes, names: tuple[str, ...], faults: Faults, *, strict: bool) -> _Columns:
    columns = _Columns(line_ends(data) + 1, names, strict=strict)
    for table in tables(data, names, faults):
        columns.put(table)
    return columns


def parse_run(
    data: bytes,
    path: str,
    *,
    name: str | None = None,
    format: str | None = None,
    known_topics: Collection[str] | None = None,
) -> Run:
    """A run from the bytes of its file (already unpacked).

    Parameters
    ----------
    path : what messages call the file.
    name : the run's name; default its tag (last column).
    format : `trec` (any column 2), `arqmath-task1` or `arqmath-task2`; default: recognised by the columns.
    known_topics : the topics of the collection; a line with another one is a problem.

    Raises
    ------
    FormatError
        With every problem found, up to `PROBLEM_LIMIT`.
    """
    check_text(data, path)
    names = FORMATS[_run_format(data, format, path)]
    faults = Faults(path)
    columns = _columns(data, names, faults, strict=format is None)
    n, tag = columns.rows, columns.tag
    if name is None and n and not TAG.fullmatch(tag):
        faults.add(columns.line[0], f"run tag {tag!r} does not fit a file name: {TAG_RULE}")
    if name is not None and not TAG.fullmatch(name):
        raise HarnessError(f"{path}: run name {name!r} does not fit a file name: {TAG_RULE}")
    if not n:
        faults.close()
    run = Run(
        name or tag,
        columns.topic.names(),
        columns.topic.index[:n],
        strings(columns.doc.words[:n]),
        columns.score[:n],
        None if columns.context is None else strings(columns.context.words[:n]),
        sha256(data),
    )
    del data  # the text goes before what follows needs memory of its own
    line = columns.line
    warnings = _check_ranks(columns.rank[:n], line, path, run)
    del columns
    if known_topics is not None:
        # Once a topic, so that one wrong name does not hide other faults.
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
    return replace(run, warnings=warnings)


def _report_duplicates(
    faults: Faults, key: npt.NDArray[np.uint64], table: Run | Qrels, line: LineNumbers, verb: str
) -> None:
    for row, first in _duplicates(key, table.topic, table.doc).items():
        what = f"document {table.doc[row].decode('utf-8', 'replace')!r} of topic {table.topics[table.topic[row]]!r}"
        faults.add(line[row], f"{what} {verb} on line {line[first]} already")


def _check_ranks(rank: npt.NDArray[np.int32], line: LineNumbers, path: str, run: Run) -> tuple[Problem, ...]:
    """Where ranks disagree with the order of the scores: a warning, since scores decide."""
    same, score, ordered = run.topic[1:] == run.topic[:-1], run.score, rank
    rows = None
    if (run.topic[1:] < run.topic[:-1]).any() or (rank[1:] < rank[:-1])[same].any():
        rows = np.lexsort((rank, run.topic))
        same = run.topic[rows][1:] == run.topic[rows][:-1]
        score, ordered = run.score[rows], rank[rows]
    # Equal ranks (a file that has 0 on every line) claim no order.
    rising = np.flatnonzero(same & (score[1:] > score[:-1]) & (ordered[1:] != ordered[:-1])) + 1
    if not rising.size:
        return ()
    row = int(rising[0] if rows is None else rows[rising[0]])
    reason = (
        f"rank {rank[row]} of topic {run.topics[run.topic[row]]!r} has a higher score than the rank before it; "
        f"scores decide the order ({rising.size} such lines)"
    )
    return (Problem(path, line[row], reason),)


def read_run(
    path: Path | str,
    *,
    name: str | None = None,
    format: str | None = None,
    known_topics: Collection[str] | None = None,
) -> Run:
    """Read a run file (TREC, ARQMath Task 1 or Task 2; plain, gzip, xz or zstd). See `parse_run`."""
    return parse_run(read_bytes(Path(path)), str(path), name=name, format=format, known_topics=known_topics)


def parse_qrels(data: bytes, path: str, *, edition: str, whole: bool = True) -> Qrels:
    """Judgments from the bytes of a four-column file: topic, iteration, document, grade.

    Parameters
    ----------
    whole : refuse grades that are not whole numbers (`2.0` is whole), as TREC files hold.

    Raises
    ------
    FormatError
        With every problem found: columns, grades that are no number, negative or not whole, duplicates.
    """
    check_text(data, path)
    faults = Faults(path)
    lines = line_ends(data) + 1
    topic, doc, grade, line, n = Groups(lines), IdColumn(lines), np.empty(lines), LineNumbers(), 0
    for table in tables(data, ("topic", "iteration", "document", "grade"), faults):
        at = slice(n, n + len(table.line))
        topic.put(n, table.ids(0, "topic"))
        doc.put(n, table.ids(2, "document"))
        grade[at] = table.numbers(3, "grade")
        _check_grades(table, grade[at], whole)
        line.put(n, table.line)
        n += len(table.line)
    qrels = Qrels(edition, topic.names(), topic.index[:n], strings(doc.words[:n]), grade[:n], sha256(data))
    _report_duplicates(faults, qrels.key, qrels, line, "is judged")
    faults.close()
    return qrels


def _check_grades(table: Table, grade: Floats, whole: bool) -> None:
    table.each(grade > LARGEST_GRADE, lambda row: f"grade {table.text(row, 3)} is above {LARGEST_GRADE:,}")
    table.each(grade < 0, lambda row: f"grade {table.text(row, 3)} is negative, expected 0 or more")
    if whole:
        broken = np.isfinite(grade) & (grade != np.floor(grade))
        table.each(broken, lambda row: f"grade {table.text(row, 3)} is not a whole number")


def read_qrels(path: Path | str, *, edition: str = "") -> Qrels:
    """Read judgments in TREC form with whole grades (plain, gzip, xz or zstd). See `parse_qrels`."""
    return parse_qrels(read_bytes(Path(path)), str(path), edition=edition)


def write_run(run: Run, path: Path, *, format: str = "trec") -> None:
    """Write a run to a file; see `run_text`. Raises HarnessError also if the file cannot be written."""
    write_atomic(path, run_text(run, format=format))


def run_text(run: Run, *, format: str = "trec") -> str:
    """A run as trec_eval (or ARQMath) reads it: topics as they come, scores descending, ranks from 1.

    Equal scores keep their order in `run`; scores are written so that they read back the same.

    Raises
    ------
    HarnessError
        The format needs a context that the run lacks.
    """
    if format not in FORMATS:
        raise HarnessError(f"format {format!r} is unknown; {suggestion(format, FORMATS)}")
    if format == "arqmath-task2" and run.context is None:
        raise HarnessError(f"run {run.name}: arqmath-task2 needs the post of each formula, and the run has none")
    order = np.lexsort((-run.score, run.topic))
    rank = np.arange(len(run)) - np.searchsorted(run.topic[order], run.topic[order])
    posts = run.context[order].tolist() if run.context is not None else [b""] * len(run)
    columns = zip(
        run.topic[order].tolist(), run.doc[order].tolist(), posts, rank.tolist(), run.score[order].tolist(), strict=True
    )
    layout = {
        "trec": "{topic}\tQ0\t{doc}\t{rank}\t{score!r}\t{name}\n",
        "arqmath-task1": "{topic}\t{doc}\t{rank}\t{score!r}\t{name}\n",
        "arqmath-task2": "{topic}\t{doc}\t{post}\t{rank}\t{score!r}\t{name}\n",
    }[format]
    return "".join(
        layout.format(topic=run.topics[t], doc=d.decode(), post=p.decode(), rank=r + 1, score=s, name=run.name)
        for t, d, p, r, s in columns
    )


def write_qrels(qrels: Qrels, path: Path) -> None:
    """Write judgments in TREC form; whole grades are written as integers."""
    columns = zip(qrels.topic.tolist(), qrels.doc.tolist(), qrels.grade.tolist(), strict=True)
    lines = [f"{qrels.topics[t]}\t0\t{d.decode()}\t{int(g) if g == int(g) else g}\n" for t, d, g in columns]
    write_atomic(path, "".join(lines))


def run_to_json(run: Run) -> dict[str, Any]:
    """A run as plain JSON values, in the order of its file. Schema: `harness/data/schemas/run.json`."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "name": run.name,
        "sha256": run.sha256,
        "topic": [run.topics[t] for t in run.topic.tolist()],
        "doc": [d.decode() for d in run.doc.tolist()],
        "score": run.score.tolist(),
        "context": None if run.context is None else [c.decode() for c in run.context.tolist()],
    }


def run_from_json(data: Mapping[str, Any]) -> Run:
    """The inverse of `run_to_json`, checked as a run file is.

    Raises
    ------
    HarnessError
        For another schema or version, columns of unequal length, or what `parse_run` refuses.
    """
    if not isinstance(data, Mapping):
        raise HarnessError(f"run: is a {type(data).__name__}, expected an object")
    if data.get("schema") != SCHEMA or data.get("version") != VERSION:
        found = f"{data.get('schema')!r} version {data.get('version')!r}"
        raise HarnessError(f"run: schema is {found}, expected {SCHEMA!r} version {VERSION}")
    try:
        name, context = str(data["name"]), data["context"]
        columns = [data["topic"], data["doc"], data["doc"] if context is None else context, data["score"]]
        if any(isinstance(field, str) and (not field or field.split() != [field]) for c in columns for field in c):
            raise ValueError("an id is empty or holds blanks")
        rows = list(zip(*columns, strict=True))
        lines = [f"{topic}\t{doc}\t{post}\t0\t{float(score)!r}\t{name}" for topic, doc, post, score in rows]
        run = parse_run("\n".join(lines).encode(), "run", name=name, format="arqmath-task2")
        return replace(run, context=None if context is None else run.context, sha256=str(data["sha256"]))
    except (KeyError, TypeError, ValueError) as error:
        raise HarnessError(f"run: damaged, {type(error).__name__}: {error}") from None

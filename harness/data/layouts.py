"""Layouts of files of runs and judgments: detection, and reading of columns.

Judgments have the columns of TREC or of BEIR, with or without a header, are JSON or Parquet, or preferences in five
columns, as trec_eval takes them. A form is recognised by the content, never by the name of the file, so that it is the
same in a pipe. Runs may be in a folder or an archive (zip, tar), as TIRA and TIREx keep them: `run.txt` with
`ir-metadata.yml`. Members of an archive are read in memory; nothing is extracted, so that no name in it can lead
anywhere.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from harness.data import records
from harness.data.columns import (
    BOM,
    WIDE,
    Floats,
    TextBlock,
    integers,
    pieces,
    smaller_blocks,
    split,
    strings,
    words_of,
)
from harness.data.tables import (
    BlockTable,
    Faults,
    Groups,
    IdColumn,
    LineNumbers,
    Scratch,
    check_text,
    plain_rows,
    put_topics,
    refuse_binary,
    roles,
    table_of,
    tag_of,
)
from harness.errors import HarnessError, counted_text, format_error, suggestion
from harness.io.files import read_bytes, read_member
from harness.io.names import LONGEST_ID, check_id

FORMATS: Mapping[str, tuple[str, ...]] = {
    "trec": ("topic", "Q0", "document", "rank", "score", "tag"),
    "arqmath-task1": ("topic", "post", "rank", "score", "tag"),
    "arqmath-task2": ("topic", "formula", "post", "rank", "score", "tag"),
}
JUDGMENTS = ("topic", "iteration", "document", "grade")
LARGEST_GRADE = 1 << 53  # whole numbers are exact up to here, and no sum of gains is infinite
ITERATIONS = (b"Q0", b"0", b"_")  # valid values of column 2 in a TREC run
_SAMPLE = 1 << 14  # bytes by which a form is recognised
_COMMENT = re.compile(rb"^#[^\n]*", re.MULTILINE)


def run_format(data: bytes, asked: str | None, path: str) -> str:
    """Detects which of the three layouts a run has from the columns of its first lines."""
    if asked is not None:
        if asked not in FORMATS:
            raise HarnessError(f"--format {asked}: no such format; {suggestion(asked, FORMATS)}")
        return asked
    parts = ((piece, split(piece)) for piece in pieces(data, _SAMPLE))
    source, lines = next((piece, lines) for piece, lines in parts if lines.line.size or lines.controls.size)
    refuse_binary(source, lines, path)
    usual = int(np.bincount(lines.count).argmax())
    if usual not in (5, 6):
        expected = "; ".join(f"{len(names)} for {name} ({' '.join(names)})" for name, names in FORMATS.items())
        line = int(lines.line[lines.count == usual][0])
        raise format_error(path, line, f"{counted_text(usual, 'column')}, expected {expected}")
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


class LineColumns:
    """Columns of a run or of judgments while they are read: preallocated for all lines, filled block by block.

    Parameters
    ----------
    names : the file's columns, those of `FORMATS` or `JUDGMENTS`, or of a header.
    strict : column 2 of a TREC run is validated.
    """

    def __init__(self, lines: int, names: tuple[str, ...], *, strict: bool = False) -> None:
        self.names, self.strict = names, strict
        self.topic, self.doc = Groups(lines), IdColumn(lines)
        self.context = IdColumn(lines) if "formula" in names else None
        self.value: Floats = np.empty(lines)  # scores or grades
        self.rank, self.line = np.empty(lines if "rank" in names else 0, dtype=np.int32), LineNumbers()
        self.rows = 0
        self.tag = ""
        self._roles, self._scratch = roles(names, strict=strict), Scratch()

    def put_plain(self, source: TextBlock) -> bool:
        """Adds a block by the kernel, if all of its lines are plain; else returns False, and nothing is added."""
        at, scratch, tag = self.rows, self._scratch, self.tag.encode()
        columns = (self.doc, self.context, self.value, self.rank)
        rows = plain_rows(source, at, self._roles, *columns, tag if self.rows else b"", scratch)
        if not rows or ("grade" in self.names and (self.value[at : at + rows] > LARGEST_GRADE).any()):
            return False
        if not at and "tag" in self.names:
            self.tag = tag_of(source, scratch)
        put_topics(self.topic, source, at, rows, scratch)
        self.line.put_range(at, source.line + 1, rows)
        self.rows += rows
        return True

    def put(self, table: BlockTable) -> None:
        """Adds the columns of one block; faults are added to those of the table."""
        names, at = self.names, slice(self.rows, self.rows + len(table.line))
        self.line.put(self.rows, table.line)
        doc = next(name for name in ("document", "formula", "post") if name in names)
        self.topic.put(self.rows, table.ids(names.index("topic"), "topic"))
        self.doc.put(self.rows, table.ids(names.index(doc), doc))
        if self.context is not None:
            self.context.put(self.rows, table.ids(2, "post"))
        if "grade" in names:
            column = names.index("grade")
            self.value[at] = grade = table.numbers(column, "grade")
            table.each(grade > LARGEST_GRADE, lambda row: f"grade {table.text(row, column)} is above {LARGEST_GRADE:,}")
        else:
            self.value[at] = table.numbers(names.index("score"), "score")
            self._put_rank(table, at)
            self._check_constants(table)
        self.rows += len(table.line)

    def _put_rank(self, table: BlockTable, at: slice) -> None:
        column = self.names.index("rank")
        rank, whole = integers(table.source, table.start[column], table.length[column])
        table.each(~whole, lambda row: f"rank {table.text(row, column)!r} is not a whole number of 1 to 8 digits")
        self.rank[at] = rank

    def _check_constants(self, table: BlockTable) -> None:
        """Checks column 2 of a TREC run, and that all lines have one tag."""
        column = self.names.index("tag")
        if not self.rows:
            self.tag = table.text(0, column)
        if self.strict and "Q0" in self.names:
            first = table.text(0, 1).encode()
            if first not in ITERATIONS or not table.equals(1, first).all():
                odd = ~np.isin(strings(table.words(1)), ITERATIONS)
                table.each(odd, lambda row: f"column 2 is {table.text(row, 1)!r}, expected Q0, 0 or _")
        table.each(
            ~table.equals(column, self.tag.encode()),
            lambda row: f"run tag {table.text(row, column)!r} differs from line {self.line[0]}'s {self.tag!r}",
        )


def without_comments(data: bytes) -> bytes:
    """Returns a file with blank lines in place of comments, lines that begin with `#`, as trec_eval 10 reads it.

    Examples
    --------
    >>> without_comments(b"# topic iteration document grade\\n1 0 d1 2\\n")
    b'\\n1 0 d1 2\\n'
    """
    body = data.removeprefix(BOM)
    if b"#" not in body or (not body.startswith(b"#") and b"\n#" not in body):  # one byte is found much faster than two
        return data
    return _COMMENT.sub(b"", body)


def line_numbers(data: bytes) -> list[int]:
    """Returns the number of each line that is neither blank nor a comment, from 1."""
    content = without_comments(data).removeprefix(BOM).split(b"\n")
    return [number for number, line in enumerate(content, 1) if line.strip()]


def read_columns(data: bytes, names: tuple[str, ...], faults: Faults, *, strict: bool = False) -> LineColumns:
    """Reads the columns of a run or of judgments with these names; faults of lines are added to `faults`."""
    blocks = list(pieces(data, WIDE))  # which counts their lines
    lines = blocks[-1].line_of(blocks[-1].size)
    columns = LineColumns(lines, names, strict=strict)
    for wide in blocks:
        if columns.put_plain(wide):
            continue
        for source in smaller_blocks(wide):
            if not columns.put_plain(source) and (table := table_of(source, names, faults)) is not None:
                columns.put(table)
    return columns


_PREFERENCES = ("topic", "group", "subgroup", "document", "level")
_SAMPLED = "topic document grade method probability"
Row = tuple[str, str, float]


def usual_columns(table: bytes) -> int:
    """Returns how many columns most of the first lines have; 0 without any.

    Examples
    --------
    >>> usual_columns(b"q1 g1 s1 d1 2\\nq1 g1 s1 d2 1\\n")
    5
    """
    counts = Counter(len(line.split()) for line in table[:_SAMPLE].split(b"\n")[:100] if line.strip())
    return counts.most_common(1)[0][0] if counts else 0


def preference_rows(data: bytes, path: str) -> list[tuple[int, Row]]:
    """Returns (line, (topic, document, level)) of preference judgments.

    A document of a higher level is preferred to one of a lower level of the same group; levels are any numbers from 0.
    Within one group they are grades, in which only the order has a meaning; levels of several groups cannot be
    compared.

    Raises
    ------
    FormatError
        Lines have other numbers of columns, invalid levels or ids, a document twice, or a topic has several groups; or
        the columns are those of sampled judgments, whose probabilities no measure here takes.
    """
    lines = list(_columns_of_lines(data))
    if all(len(fields) == 5 and _is_sampled(fields) for _, fields in lines):
        raise format_error(
            path,
            lines[0][0],
            f"5 columns like judgments that were sampled ({_SAMPLED}); the probabilities would be ignored, so leave "
            f"them out: 'topic 0 document grade', or preferences as '{' '.join(_PREFERENCES)}'",
        )
    faults = Faults(path)
    out: list[tuple[int, Row]] = []
    first: dict[tuple[str, str], int] = {}
    groups: dict[str, tuple[str, int]] = {}
    mixed: set[str] = set()
    for number, fields in lines:
        if len(fields) != len(_PREFERENCES):
            faults.add(number, f"{counted_text(len(fields), 'column')}, expected 5 ({' '.join(_PREFERENCES)})")
            continue
        topic, group, subgroup, doc, text = fields
        for what, name in (("topic", topic), ("document", doc)):
            if (size := len(name.encode())) > LONGEST_ID:
                faults.add(number, f"{what} id of {size} bytes, at most {LONGEST_ID}")
        level = _level(text)
        if not math.isfinite(level):
            faults.add(number, f"level {text!r:.40} is not a finite number")
        elif level < 0 or level > LARGEST_GRADE:
            faults.add(number, f"level {text:.40} is not between 0 and {LARGEST_GRADE:,}")
        if (topic, doc) in first:
            faults.add(number, f"document {doc!r} of topic {topic!r} is judged on line {first[topic, doc]} already")
        first.setdefault((topic, doc), number)
        mine = f"{group} {subgroup}"
        other, line = groups.setdefault(topic, (mine, number))
        if other != mine and topic not in mixed:
            mixed.add(topic)
            faults.add(
                number,
                f"topic {topic!r} has preferences of the groups {other!r} (line {line}) and {mine!r}, whose levels "
                "cannot be compared; expected one group a topic",
            )
        out.append((number, (topic, doc, level)))
    faults.close()
    return out


def _columns_of_lines(data: bytes) -> Iterator[tuple[int, list[str]]]:
    text = data.decode("utf-8-sig", "replace")
    for number, line in enumerate(text.split("\n"), 1):
        if fields := line.split():
            yield number, fields


def _is_sampled(fields: list[str]) -> bool:
    """Returns whether a line may be one of sampled judgments: a whole grade, a method, a probability."""
    _, _, grade, method, probability = fields
    return grade.isdigit() and method in ("0", "1", "2", "3") and "." in probability and 0 < _level(probability) <= 1


def _level(text: str) -> float:
    """Returns the number of a field; NaN for anything else."""
    try:
        return float(text)
    except ValueError:
        return math.nan


THREE = ("topic", "document", "grade")
_OBJECT = re.compile(rb'\{\s*"')
_LIST = re.compile(rb"\[\s*(\{|$)")


def judgment_table(data: bytes, path: str) -> tuple[bytes, tuple[str, ...]]:
    """Returns judgments of any form as the bytes of a text table, line by line, and the names of its columns.

    Raises
    ------
    FormatError
        The content is empty or no text, a record lacks a column, or preferences have faults.

    Examples
    --------
    >>> judgment_table(b"query-id\\tcorpus-id\\tscore\\nq1\\td1\\t2\\n", "test.tsv")
    (b'\\nq1\\td1\\t2\\n', ('topic', 'document', 'grade'))
    >>> judgment_table(b'{"query_id": "q1", "doc_id": "d1", "relevance": 2}', "test.jsonl")
    (b'q1\\td1\\t2', ('topic', 'document', 'grade'))
    """
    if data.startswith(records.PARQUET) and data.endswith(records.PARQUET):
        return _trec_text(records.parquet_rows(data, path), path), THREE
    table = without_comments(data)
    check_text(table, path)
    start = len(BOM) if table.startswith(BOM) else 0
    start += len(table[start:]) - len(table[start:].lstrip())
    first, end, _ = table[start:].partition(b"\n")
    if _OBJECT.match(first):
        lines = enumerate(table.removeprefix(BOM).split(b"\n"), 1)
        return _trec_text(records.json_lines(lines, path), path), THREE
    if _LIST.match(first):
        return _trec_text(records.json_items(table, path), path), THREE
    if names := _header(first):
        if not table[start + len(first) :].strip():
            raise format_error(path, 0, "holds no judgments after its header")
        return b"\n" * (table.count(b"\n", 0, start) + len(end)) + table[start + len(first) + len(end) :], names
    if usual_columns(table) == len(_PREFERENCES):
        rows = preference_rows(table, path)
        return _placed([(number, "\t".join((topic, doc, repr(level)))) for number, (topic, doc, level) in rows]), THREE
    return table, THREE if usual_columns(table[start:]) == len(THREE) else JUDGMENTS


def _header(line: bytes) -> tuple[str, ...]:
    """Returns the names of the columns if a line is a header, else nothing."""
    known = {**dict.fromkeys(records.TOPIC, "topic"), **dict.fromkeys(records.DOCUMENT, "document")}
    known |= dict.fromkeys(records.GRADE, "grade")
    names = tuple(known.get(field.decode("utf-8", "replace").lower(), "other") for field in line.split())
    return names if all(names.count(name) == 1 for name in THREE) else ()


def _trec_text(rows: records.Rows, path: str) -> bytes:
    lines = []
    for number, row in rows:
        topic, doc = (records.text_of_columns(row, names, path, number) for names in (records.TOPIC, records.DOCUMENT))
        check_id(topic, "query", path, number)
        check_id(doc, "document", path, number)
        given = records.value(row, records.GRADE, path, number)
        grade = records.as_text(given, path, number)
        if len(grade.split()) != 1:
            raise format_error(path, number, f"grade {grade!r:.40} is not a finite number")
        lines.append((number, "\t".join((topic, doc, grade))))
    if not lines:
        raise format_error(path, 0, "holds no judgments")
    return _placed(lines)


def _placed(lines: list[tuple[int, str]]) -> bytes:
    """Returns a text with each line at its number, so that messages name the lines of the file."""
    out: list[str] = []
    for number, line in lines:
        out += [""] * (number - 1 - len(out))
        out.append(line)
    return "\n".join(out).encode("utf-8", "surrogatepass")


RUNS = ("run.txt", "run.txt.gz")
METADATA = "ir-metadata.yml"
_METADATA = (METADATA, "ir_metadata.yml", ".ir-metadata.yml", "ir-metadata.yaml", "ir_metadata.yaml")
MOST_METADATA = 1 << 26  # bytes


def run_content(path: Path, most: int | None = None) -> bytes:
    """Returns the bytes of a run file, or of the run in a folder or archive, unpacked.

    An archive with a single file may name it as it likes.

    Parameters
    ----------
    most : maximum size of the content in bytes; default: as in `read_bytes`.

    Raises
    ------
    HarnessError
        There is no run or several, the archive is damaged or unsafe, or the content is too large.
    """
    return read_bytes(files_in(path)[0] if path.is_dir() else path, most=most, members=RUNS)


def metadata_content(path: Path, most: int = MOST_METADATA) -> bytes | None:
    """Returns the bytes of the metadata file in a folder or archive; None if there is none. Raises as `run_content`."""
    if path.is_dir():
        path_of_metadata = _file_in(path, _METADATA)
        return None if path_of_metadata is None else read_bytes(path_of_metadata, most=most)
    return None if path.is_fifo() or not path.exists() else read_member(path, _METADATA, most)


def files_in(folder: Path) -> tuple[Path, Path | None]:
    """Returns the run file and the metadata file in a folder, None without one. Raises as `run_content`."""
    if (run := _file_in(folder, RUNS)) is None:
        what = f"is a folder without {' or '.join(RUNS)}, expected a file, or a folder of TIRA"
        raise format_error(folder, 0, what)
    return run, _file_in(folder, _METADATA)


def _file_in(folder: Path, names: tuple[str, ...]) -> Path | None:
    present = [each for part in (folder, folder / "output") for name in names if (each := part / name).is_file()]
    if len(present) > 1:
        first, second = (each.relative_to(folder) for each in present[:2])
        raise format_error(folder, 0, f"has {first} and {second}; expected one of them")
    return present[0] if present else None

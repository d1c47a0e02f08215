"""Reader of data sets in BEIR format: finds and reads the files of corpus, queries, judgments and exclusions.

In a folder (or a repository of the hub), each part is one file or a folder of files: JSON lines, a tab-separated table
with a header, or Parquet:

    corpus.jsonl         {"_id": "d1", "title": "", "text": "..."}         or corpus/*.parquet, corpus.tsv
    queries.jsonl        {"_id": "q1", "text": "..."}                      or queries/*.parquet, queries.tsv
    qrels/SPLIT.tsv      query-id, corpus-id, score                        or qrels/SPLIT.jsonl, qrels/SPLIT-*.parquet
    excluded_ids.jsonl   {"query-id": "q1", "excluded-ids": ["d7", "d9"]}  (MIRB; no set needs it)
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from harness.collections.corpus import Corpus, Document, Documents, Reader, Remarks
from harness.collections.readers.streams import lines
from harness.data import topic_files
from harness.data.frames import library
from harness.data.layouts import LARGEST_GRADE
from harness.data.markup import numbered
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, counted, format_error
from harness.formulas.text.delimiters import Dollars
from harness.io.console import say
from harness.io.files import sha256, sha256_file
from harness.io.ids import check_id

Row = Mapping[str, Any]
Rows = Iterator[tuple[Path, int, Row]]  # file, line number (Parquet: row number) from 1, row
SPLIT = "test"  # default split
FORMS = (".jsonl", ".tsv", ".parquet")  # in order of preference, if a part has several
PARTS: Mapping[str, tuple[str, ...]] = {
    "corpus": ("corpus",),
    "queries": ("queries", "query"),
    "qrels": ("qrels",),
    "excluded": ("excluded_ids", "excluded-ids", "exclusions"),
}
_UNNAMED = ("default", "data")  # folders of judgments of data sets with a single unnamed configuration
_PACKED = (".gz", ".xz", ".zst")
_SHARD = re.compile(r"(.*?)-(\d{3,6})-of-(\d{3,6})")
ID = ("_id", "id")
TEXT = ("text", "content", "query")
TOPIC = ("query-id", "query_id")
DOCUMENT = ("corpus-id", "corpus_id")
GRADE = ("score", "relevance")
EXCLUDED = ("excluded-ids", "excluded_ids")


@dataclass(frozen=True)
class Files:
    """The files of each part of a data set; `excluded` is empty if it has none."""

    corpus: tuple[Path, ...]
    queries: tuple[Path, ...]
    qrels: tuple[Path, ...]
    excluded: tuple[Path, ...] = ()


# ---- which files ------------------------------------------------------------------------------------------------


def find(names: Iterable[str], where: str, split: str = SPLIT, subset: str = "") -> dict[str, tuple[str, ...]]:
    """Returns part -> its files, given the relative paths of all files of a data set.

    Parameters
    ----------
    where : name of the data set in messages.
    split : split of the judgments; a single file `qrels` is the split `test`.
    subset : subset of a repository with several data sets: files such as `SUBSET-corpus`, or in a folder `SUBSET`.

    Raises
    ------
    HarnessError
        A part, the split or a shard is missing, or there are several splits of documents or queries and none of them
        has the requested name.

    Examples
    --------
    >>> find(["corpus.jsonl.gz", "queries.jsonl", "qrels/dev.tsv", "qrels/test.tsv", "README.md"], "scifact")["qrels"]
    ('qrels/test.tsv',)
    """
    found: dict[str, dict[tuple[str, str], list[str]]] = {part: {} for part in PARTS}
    there = set(names)
    for name in sorted(there):
        inner = _within(name, subset)
        if inner is None or not (form := _form(inner)) or (_unpacked(name) != name and _unpacked(name) in there):
            continue
        stem, ending = form
        shard = _SHARD.fullmatch(stem)
        group = shard[1] if shard else stem
        parts = PurePosixPath(inner).parts
        for part, called in PARTS.items():
            if len(parts) == 1 and group in called:
                found[part].setdefault((ending, ""), []).append(name)
            elif len(parts) == 2 and (parts[0] in called or (part == "qrels" and parts[0] in _UNNAMED)):
                found[part].setdefault((ending, group), []).append(name)
    of = f" of subset {subset!r}" if subset else ""
    out: dict[str, tuple[str, ...]] = {}
    for part, groups in found.items():
        if not groups and part == "excluded":
            out[part] = ()
            continue
        if not groups:
            expected = f"qrels/{split}.tsv" if part == "qrels" else f"{PARTS[part][0]}.jsonl"
            raise HarnessError(f"{where}: no {part}{of}; expected {expected}, or one of the other forms of BEIR's sets")
        group = _chosen(part, {group for _, group in groups}, split, where)
        ending = next(form for form in FORMS if (form, group) in groups)
        out[part] = tuple(groups[ending, group])
        _check_shards(out[part], where)
    return out


def _within(name: str, subset: str) -> str | None:
    """Returns a path relative to a subset; None if it is outside the subset."""
    if not subset:
        return name
    for before in (f"{subset}/", f"{subset}-"):
        if name.startswith(before):
            return name.removeprefix(before)
    return None


def _form(name: str) -> tuple[str, str] | None:
    """Returns a file's name without extensions, and the extension of its format; None for other formats."""
    plain = _unpacked(PurePosixPath(name).name)
    return next(((plain.removesuffix(form), form) for form in FORMS if plain.endswith(form)), None)


def _unpacked(name: str) -> str:
    """Returns a file's name without the extension of its compression."""
    return next((name.removesuffix(packed) for packed in _PACKED if name.endswith(packed)), name)


def _chosen(part: str, groups: set[str], split: str, where: str) -> str:
    if part == "qrels":
        wanted = [split] if split != SPLIT else [split, ""]  # a data set with one split need not name it
    else:
        wanted = ["", split, *PARTS[part], *(groups if len(groups) == 1 else ())]
    for group in wanted:
        if group in groups:
            return group
    there = ", ".join(sorted(group or SPLIT for group in groups))
    raise HarnessError(f"{where}: {part}: no split {split!r}; there are: {there}")


def _check_shards(names: Sequence[str], where: str) -> None:
    shards = [_SHARD.fullmatch((_form(name) or ("", ""))[0]) for name in names]
    many = {int(shard[3]) for shard in shards if shard}
    if many and (len(many) > 1 or len(names) != many.pop()):
        raise HarnessError(f"{where}: {len(names)} files such as {names[0]}, whose name says how many there should be")


def in_folder(folder: Path, where: str, split: str = SPLIT, subset: str = "") -> Files:
    """Returns the parts of a data set in a folder. Raises HarnessError as `find`, or if the folder is missing."""
    if not folder.is_dir():
        raise HarnessError(f"{folder}: no such folder")
    below = [folder / subset] if subset and (folder / subset).is_dir() else [folder]
    entries = [path for base in below for path in (*base.iterdir(), *base.glob("*/*")) if path.is_file()]
    found = find((path.relative_to(folder).as_posix() for path in entries), where, split, subset)
    return Files(**{part: tuple(folder / name for name in names) for part, names in found.items()})


# ---- contents ---------------------------------------------------------------------------------------------------


def rows(paths: Sequence[Path]) -> Rows:
    """Yields the rows of files in the formats of `FORMS`, file by file.

    Raises
    ------
    HarnessError
        A file is damaged or has another format; the message names the line.
    """
    read = {".jsonl": _json_rows, ".tsv": _table_rows, ".parquet": _parquet_rows}
    for path in paths:
        form = _form(path.name)
        if form is None:
            raise format_error(path, 0, f"its name ends in none of {', '.join(FORMS)}")
        for number, row in read[form[1]](path):
            yield path, number, row


def _json_rows(path: Path) -> Iterator[tuple[int, Row]]:
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise format_error(path, number, f"not valid JSON: {getattr(error, 'msg', error)}") from None
        if not isinstance(row, dict):
            raise format_error(path, number, f"expected a JSON object, found {row!r:.40}")
        yield number, row


def _table_rows(path: Path) -> Iterator[tuple[int, Row]]:
    header: list[str] = []
    for number, line in lines(path):
        try:
            fields = line.decode("utf-8-sig" if number == 1 else "utf-8").split("\t")
        except UnicodeDecodeError:
            raise format_error(path, number, "not UTF-8 text") from None
        if not header:
            header = fields
        elif len(fields) != len(header):
            if line.strip():
                found_columns = counted(len(fields), "column")
                raise format_error(path, number, f"{found_columns}, expected {len(header)} as in the header")
        else:
            yield number, dict(zip(header, fields, strict=True))


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    parquet = library("pyarrow.parquet", "hub")
    try:
        number = 0
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (OSError, ValueError) as error:  # base classes of pyarrow's errors
        raise format_error(path, 0, f"no whole Parquet file: {' '.join(str(error).split()):.100}") from None


def _value(row: Row, names: tuple[str, ...], path: Path, number: int) -> Any:  # noqa: ANN401
    """Returns the value of the first of some columns that is not empty in a row."""
    for name in names:
        if not _empty(row.get(name)):
            return row[name]
    if empty := [name for name in names if name in row]:
        raise format_error(path, number, f"column {empty[0]!r} has no value")
    raise format_error(path, number, f"no column {' or '.join(map(repr, names))}; found {', '.join(row) or 'none'}")


def _empty(value: object) -> bool:
    """Returns whether a value is missing: None, or NaN in tables written by pandas."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _text(value: object, path: Path, number: int) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise format_error(path, number, f"{value!r:.60} is neither text nor a number")
    return str(value)


def _words(row: Row, names: tuple[str, ...], path: Path, number: int) -> str:
    return _text(_value(row, names, path, number), path, number)


def _documents(corpus: Corpus, _: Remarks) -> Documents:
    paths = corpus.paths
    empty = True
    for path, number, row in rows(paths):
        name, text = _words(row, ID, path, number), _words(row, TEXT, path, number)
        title = "" if _empty(row.get("title")) else _text(row["title"] or "", path, number)
        empty = False
        yield (path, number), Document(name, title, text, (), numbered(f"{name}.", title, text, dollars=corpus.dollars))
    if empty:
        raise format_error(paths[0], 0, "holds no documents")


DOCUMENTS = Reader("beir", _documents, version=2, dollars="pandoc")


def topics(files: Files, judged: Iterable[str], language: str = "eng", dollars: Dollars = "pandoc") -> Topics:
    """Returns the judged queries in file order; the file holds the queries of all splits.

    Raises
    ------
    HarnessError
        A row is damaged, an id is invalid or occurs twice, or a judged query is missing; the message names the line.
    """
    wanted, others = set(judged), False
    found = []
    for path, number, row in rows(files.queries):
        name = _words(row, ID + TOPIC, path, number)
        if name not in wanted:
            check_id(name, "query", path, number)
            others = True
            continue
        text = _words(row, TEXT, path, number)
        formulas = numbered(f"{name}.", text, dollars=dollars)
        found.append((number, Topic(name, text, "", (), formulas, language, dollars=dollars)))
    out = topic_files.unique(found, str(files.queries[0])) if found or not others else Topics(())
    if lacking := sorted(wanted - out.ids()):
        many = f"{len(lacking):,} such queries"
        raise format_error(files.qrels[0], 0, f"query {lacking[0]!r} is not in {files.queries[0].name} ({many})")
    return out


def qrels(files: Files, edition: str) -> Qrels:
    """Returns the judgments; drops and reports grades below 0: such documents count as not judged.

    Raises
    ------
    HarnessError
        A row is damaged, an id is invalid, a grade is not a number, or a pair is judged twice; the message names the
        line.
    """
    judged: dict[tuple[str, str], tuple[Path, int]] = {}
    found = []
    below = 0
    for path, number, row in rows(files.qrels):
        topic, doc = _words(row, TOPIC, path, number), _words(row, DOCUMENT, path, number)
        check_id(topic, "query", path, number)
        check_id(doc, "document", path, number)
        grade = _grade(_value(row, GRADE, path, number), path, number)
        if before := judged.get((topic, doc)):
            other = "" if before[0] == path else f" of {before[0].name}"
            reason = f"document {doc!r} of topic {topic!r} is judged on line {before[1]}{other} already"
            raise format_error(path, number, reason)
        judged[topic, doc] = path, number
        if grade < 0:
            below += 1
            continue
        found.append((topic, doc, grade))
    if not found:
        raise format_error(
            files.qrels[0], 0, "holds no judgments of a grade from 0 up; a table has a header before them"
        )
    if below:
        several = counted(below, "judgment has a grade below 0 and counts", "judgments have a grade below 0 and count")
        say(f"{files.qrels[0]}: {several} as not judged")
    checksum = sha256("\n".join(sha256_file(path) for path in files.qrels).encode())
    if len(files.qrels) == 1:
        checksum = sha256_file(files.qrels[0])
    return replace(Qrels.from_rows(edition, found), sha256=checksum)


def _grade(value: object, path: Path, number: int) -> float:
    try:
        grade = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise format_error(path, number, f"grade {value!r:.40} is not a number") from None
    if not grade <= LARGEST_GRADE:
        raise format_error(path, number, f"grade {grade:g} is not a number up to {LARGEST_GRADE:,}")
    return grade


def excluded(files: Files) -> dict[str, frozenset[str]]:
    """Returns topic -> ids of excluded documents.

    Raises
    ------
    HarnessError
        A row is damaged, or a query occurs twice; the message names the line.
    """
    out: dict[str, frozenset[str]] = {}
    for path, number, row in rows(files.excluded):
        name, docs = _words(row, TOPIC, path, number), _value(row, EXCLUDED, path, number)
        if not isinstance(docs, list):
            raise format_error(path, number, f"column {EXCLUDED[0]!r} is {docs!r:.40}, expected a list of ids")
        if name in out:
            raise format_error(path, number, f"query {name!r} is on an earlier line already")
        out[name] = frozenset(_text(doc, path, number) for doc in docs)
        for doc in (name, *out[name]):
            check_id(doc, "excluded", path, number)
    return out

"""Reads the files of collections: topics, judgments, keys and exclusions; accepts files that are downloaded by hand."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from harness.collections import forms
from harness.data import topic_files
from harness.data.layouts import without_comments
from harness.data.records import json_items, unique_names
from harness.data.tables import check_text
from harness.data.topic_files import numbered_lines
from harness.data.topics import Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, counted_text, format_error, os_errors, suggestion
from harness.formulas.text.delimiters import Dollars
from harness.io import config, rehearsal, staging_names
from harness.io.files import read_bytes, sha256_file
from harness.io.names import check_id
from harness.sources import catalogue
from harness.sources.catalogue import Located
from harness.sources.resource import RepositoryFolder, Resource

Lines = list[tuple[int, str]]  # number and text
Listed = dict[str, frozenset[str]]
Places = dict[str, float]


def read_topics(path: Path, reader: str = "", language: str = "eng", dollars: Dollars | None = None) -> Topics:
    """Returns the topics of a file.

    Parameters
    ----------
    reader : name of a form, or `package.module:function` (`harness.collections.forms`); default: detected
        from the beginning of the file.
    language : ISO 639-3 code of topics that do not specify their language.
    dollars : which dollar signs of the texts enclose formulas; default: `pandoc` for `trec`, `tsv` and JSON with the
        names of BEIR or ir_datasets, else `pairs`.

    Raises
    ------
    FormatError
        The format is unknown, or the file has faults; the message names the lines.
    """
    data = file_content(path, reader)
    form = reader or _topics_form(data, path)
    read = forms.foreign_topics(form) if forms.is_foreign(form) else forms.reader(form, "topics")
    topics = read(data, str(path), language)
    rule = dollars or forms.dollars_of(form)
    return topic_files.with_dollars(topics, rule) if rule else topics


def read_judgments(path: Path, reader: str, edition: str) -> Qrels:
    """Returns the judgments of a file; `reader` is the name of a form or of a function, as of topics.

    Raises
    ------
    HarnessError
        The file has faults or the function fails; one line per fault.
    """
    read = forms.foreign_judgments(reader) if forms.is_foreign(reader) else forms.reader(reader, "judgments")
    return read(file_content(path, reader), str(path), edition)


def file_content(path: Path, reader: str) -> bytes:
    """Returns the content of a file for a reader; empty for a folder, which the reader opens itself.

    Raises
    ------
    HarnessError
        The reader takes files and the path is a folder, or vice versa.
    """
    if forms.of_folder(reader):
        if not path.is_dir():
            raise HarnessError(f"{path}: reader {reader!r} reads a folder: name all files of a source, or a folder")
        return b""
    if path.is_dir():
        raise HarnessError(f"{path}: a folder, and reader {reader or 'auto'!r} reads a file; name its path")
    return read_bytes(path)


def _topics_form(data: bytes, path: Path) -> str:
    """Returns the name of the reader of a file of topics, detected from its first item or line."""
    text = data[:65536].decode("utf-8-sig", "replace").lstrip()
    if text.startswith("<"):
        return "trec" if text[:5].lower() == "<top>" else "arqmath-xml"
    if text.startswith("{"):
        return "jsonl"
    if text.startswith("["):
        _, first = next(json_items(data, str(path)), (1, {}))
        return forms.recognised(first) or "jsonl"
    columns = text.partition("\n")[0].rstrip("\r").split("\t")
    if form := forms.recognised(columns) or ("tsv" if len(columns) == 2 else ""):
        return form
    known = ", ".join(sorted(forms.readers("topics")))
    raise format_error(path, 1, f"no form of topics that is known here ({known})")


def local(file: Located) -> Path:
    """Returns the path of a file, fetching it if necessary; for all files of a source, their common folder."""
    if isinstance(file, Path):
        return file
    from harness.sources.fetch import fetch_resources

    paths = fetch_resources([file] if isinstance(file, Resource) else file)
    return paths[0] if len(paths) == 1 else Path(os.path.commonpath(paths))


def read_keys(path: Path, id_column: str, key_column: str) -> dict[str, str]:
    """Returns id -> key from a tab-separated file with a header, or from JSON lines; omits ids with an empty key.

    Raises
    ------
    HarnessError
        A column is missing, a line is not a JSON object, an id or key contains blanks, or an id has two keys; the
        message names the line.
    """
    data = read_bytes(path).decode("utf-8-sig", "replace")
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(data.split("\n"), 1) if line.strip()]
    out: dict[str, str] = {}
    rows: Iterable[tuple[int, str, str]]
    if ".jsonl" in path.suffixes:
        rows = _keys_jsonl(lines, path, id_column, key_column)
    else:
        table = table_rows(lines, str(path), (id_column, key_column))
        rows = ((number, row[id_column], row[key_column]) for number, row in table)
    for number, name, key in rows:
        _add_key(out, name, key, path, number)
    return out


def read_key_pairs(path: Path) -> dict[str, str]:
    """Returns id -> key from lines of two columns; omits ids with an empty key.

    A header is read as one more pair, which no document of a run has, or is skipped if it cannot be one.

    Raises
    ------
    HarnessError
        A line has another number of columns, an id or key contains blanks, or an id has two keys; the message names
        the line.
    """
    data = without_comments(read_bytes(path))
    check_text(data, str(path))
    out: dict[str, str] = {}
    lines = [(number, line) for number, line in enumerate(data.decode("utf-8-sig").split("\n"), 1) if line.strip()]
    for number, line in lines:
        fields = line.rstrip("\r").split("\t") if "\t" in line else line.split()
        if len(fields) != 2:
            columns = counted_text(len(fields), "column")
            raise format_error(path, number, f"{columns}, expected two: the id of a document and its key (visual id)")
        if number > lines[0][0] or all(len(field.split()) < 2 for field in fields):
            _add_key(out, fields[0], fields[1], path, number)
    return out


def _add_key(out: dict[str, str], name: str, key: str, path: Path, number: int) -> None:
    check_id(name, "document", path, number)
    if not key:  # treated like a missing document
        return
    check_id(key, "key", path, number)  # a key with a trailing blank, for example, would match no judged key
    if out.setdefault(name, key) != key:
        raise format_error(path, number, f"{name!r} has the key {out[name]!r} on an earlier line, {key!r} here")


def _keys_jsonl(lines: Lines, path: Path, id_column: str, key_column: str) -> Iterator[tuple[int, str, str]]:
    for number, line in lines:
        try:
            row = json.loads(line)
            key = row[key_column]
            yield number, str(row[id_column]), "" if key is None else str(key)
        except (ValueError, KeyError, TypeError, RecursionError):
            reason = f"expected a JSON object with {id_column!r} and {key_column!r}"
            raise format_error(path, number, reason) from None


def table_rows(lines: Lines, path: str, columns: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields line number and columns of the rows of a tab-separated table, whose first line is its header.

    Raises FormatError if a column is missing or there twice, or a row has another number of columns than the header.
    """
    header = lines[0][1].split("\t") if lines else []
    for column in columns:
        if column not in header:
            first = lines[0][0] if lines else 1
            raise format_error(path, first, f"column {column!r} is missing; found {', '.join(header) or 'nothing'}")
        if header.count(column) > 1:
            raise format_error(path, lines[0][0], f"column {column!r} is there {header.count(column)} times")
    for number, line in lines[1:]:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise format_error(path, number, f"{counted_text(len(fields), 'column')}, expected {len(header)}")
        yield number, dict(zip(header, fields, strict=True))


def read_listed(path: Path, reader: str = "pairs") -> Listed:
    """Returns topic -> ids of excluded documents.

    Parameters
    ----------
    reader : one of `LISTED`: `pairs` (a topic and a document on each line, separated by blanks or a tab) or `jsonl` (an
        object on each line with `topic` and the list `excluded`).

    Raises
    ------
    HarnessError
        A line has another format or an invalid id; the message names the line.
    """
    return LISTED[reader](read_bytes(path), str(path))


def read_places(path: Path, reader: str = "order") -> Places:
    """Returns id -> position.

    Parameters
    ----------
    reader : one of `known_places`: `order` (an id on each line; its position is the line number), `places` (an id and a
        number on each line, separated by blanks or a tab; equal numbers are the same position) or `stacks-order` (all
        statements of the Stacks project, from its folder).

    Raises
    ------
    HarnessError
        A line has another format, or an id occurs twice; the message names the line.
    """
    return known_places()[reader](file_content(path, reader), str(path))


def _read_columns(data: bytes, path: str, count: int, what: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(data, path):
        columns = line.split()
        if len(columns) != count:
            raise format_error(path, number, f"{counted_text(len(columns), 'column')}, expected {what}")
        yield number, columns


def _read_pairs(data: bytes, path: str) -> Listed:
    out: dict[str, set[str]] = {}
    for _, (topic, doc) in _read_columns(data, path, 2, "a topic and a document"):
        out.setdefault(topic, set()).add(doc)
    return {topic: frozenset(docs) for topic, docs in out.items()}


def _read_jsonl(data: bytes, path: str) -> Listed:
    out: Listed = {}
    for number, line in numbered_lines(data, path):
        try:
            row = json.loads(line, object_pairs_hook=unique_names)
            topic, docs = str(row["topic"]), row["excluded"]
            good = isinstance(docs, list) and all(map(_is_id, (row["topic"], *docs)))
        except (ValueError, KeyError, TypeError, RecursionError):
            good = False
        if not good:
            said = "expected a JSON object with 'topic' and a list 'excluded' of ids, each key once"
            raise format_error(path, number, said)
        check_id(topic, "topic", path, number)
        for doc in docs:
            check_id(str(doc), "document", path, number)
        if topic in out:
            raise format_error(path, number, f"topic {topic!r} is on an earlier line already")
        out[topic] = frozenset(str(doc) for doc in docs)
    return out


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _read_order(data: bytes, path: str) -> Places:
    out: Places = {}
    for number, (name,) in _read_columns(data, path, 1, "an id"):
        _check_first(out, name, path, number)
        out[name] = float(number)
    return out


def _read_places(data: bytes, path: str) -> Places:
    out: Places = {}
    for number, (name, text) in _read_columns(data, path, 2, "an id and a number"):
        _check_first(out, name, path, number)
        try:
            out[name] = float(text)
        except ValueError:
            out[name] = math.nan
        if not math.isfinite(out[name]):
            raise format_error(path, number, f"place {text!r} is not a number")
    return out


def _check_first(known: Places, name: str, path: str, number: int) -> None:
    if name in known:
        raise format_error(path, number, f"{name!r} is on an earlier line already")


LISTED: Mapping[str, Callable[[bytes, str], Listed]] = {"pairs": _read_pairs, "jsonl": _read_jsonl}


def known_places() -> Mapping[str, Callable[[bytes, str], Places]]:
    """Returns name -> reader of positions."""
    return {"order": _read_order, "places": _read_places, **forms.readers("places")}


def by_hand() -> list[str]:
    """Returns the sources whose files must be downloaded manually."""
    return [name for name in config.names("source") if config.load("source", name)[0].get("by_hand")]


def accept(path: Path, source: str) -> Path:
    """Checks a file of a source and copies it to the cache; returns its path there.

    Raises
    ------
    HarnessError
        The source is unknown or is not a manual download, or the file is unreadable, is the wrong file, or cannot be
        copied.
    """
    rehearsal.refuse_resource(path)
    mapping, _ = config.load("source", source)
    if not mapping.get("by_hand"):
        raise HarnessError(f"source {source!r} is fetched, not downloaded manually; {suggestion(source, by_hand())}")
    wanted = _wanted(path, source, list(mapping["files"]))
    resource = catalogue.resource({"source": source, "path": wanted}, f"source {source}")
    if not isinstance(resource, Resource):
        raise HarnessError(f"source {source!r}: {wanted} is not a manual download")
    if not path.is_file():
        raise HarnessError(f"{path}: {'is a folder, expected a file' if path.is_dir() else 'no such file'}")
    checksum = sha256_file(path) if resource.sha256 else ""
    if checksum != resource.sha256:
        raise HarnessError(f"{path}: expected sha256 {resource.sha256} for {wanted} of {source}, found {checksum}")
    for name, check in forms.checks():
        if name == source:
            check(path)
    _copy_to_cache(path, resource.cached)
    return resource.cached


def check_arrived(files: Iterable[Resource | RepositoryFolder]) -> None:
    """Raises HarnessError if a file downloaded from the hub fails the check of its source."""
    arrived = {file for file in files if isinstance(file, Resource) and file.hub}
    for name, check in forms.checks() if arrived else ():
        for file in arrived.intersection(catalogue.source_files(name)):
            check(file.cached)


def _wanted(path: Path, source: str, files: list[str]) -> str:
    """Returns the source's file that a path stands for: the only one, or the one with the same name."""
    same = [file for file in files if Path(file).name == path.name]
    if len(files) == 1 or len(same) == 1:
        return (same or files)[0]
    raise HarnessError(f"{path}: source {source!r} has the files {', '.join(files)}; name it as one of them")


def _copy_to_cache(path: Path, target: Path) -> None:
    with os_errors(target, "written"), path.open("rb") as content, staging_names.opened(target) as (made, stream):
        shutil.copyfileobj(content, stream, 1 << 20)
        stream.flush()
        os.fsync(stream.fileno())
        made.replace(target)

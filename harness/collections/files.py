"""Reads topics and judgments of collections, and selects the reader of a file."""

from __future__ import annotations

import os
from pathlib import Path

from harness.collections import foreign, forms
from harness.data import topic_files
from harness.data.records import json_items
from harness.data.topics import Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, format_error
from harness.formulas.text.delimiters import Dollars
from harness.io.files import read_bytes
from harness.sources.catalogue import Located
from harness.sources.resource import Resource


def read_topics(path: Path, reader: str = "", language: str = "eng", dollars: Dollars | None = None) -> Topics:
    """Returns the topics of a file.

    Parameters
    ----------
    reader : name of a form (`harness.collections.forms`) or function (`harness.collections.foreign`); default: detected
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
    read = foreign.topics(form) if foreign.named(form) else forms.reader(form, "topics")
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
    read = foreign.judgments(reader) if foreign.named(reader) else forms.reader(reader, "judgments")
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

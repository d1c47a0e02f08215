"""Reads topics and judgments of collections, and selects the reader of a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from harness.collections import foreign
from harness.collections.readers import mathlib, ntcir, stacks
from harness.data import topic_files
from harness.data.records import json_items
from harness.data.topics import Topics
from harness.data.trec import Qrels, parse_qrels
from harness.errors import HarnessError, format_error
from harness.formulas.text.delimiters import Dollars
from harness.io.files import read_bytes
from harness.papers.mathlib4 import readers as leansearch
from harness.papers.saber import readers as saber
from harness.sources.catalogue import Located
from harness.sources.fetch import fetch
from harness.sources.resource import Resource


def _trec(data: bytes, path: str, edition: str) -> Qrels:
    return parse_qrels(data, path, edition=edition)


JUDGMENTS: Mapping[str, Callable[[bytes, str, str], Qrels]] = {
    "trec": _trec,
    "mathlib-qr": mathlib.qr_qrels,
    "mathlib-names": mathlib.names_qrels,
    "leansearch": leansearch.read_qrels,
    "stacks-proofs": stacks.proofs_qrels,
    "stacks-premises": stacks.premises_qrels,
    "saber": saber.read_qrels,
}
TOPICS: Mapping[str, Callable[[bytes, str, str], Topics]] = {
    **topic_files.READERS,
    "mathlib-qr": mathlib.qr_topics,
    "mathlib-names": mathlib.names_topics,
    "leansearch": leansearch.read_topics,
    "ntcir-12": ntcir.read_topics,
    "stacks-proofs": stacks.proofs_topics,
    "stacks-premises": stacks.premises_topics,
    "saber": saber.read_topics,
    "saber-full": partial(saber.read_topics, full=True),
}
# Readers of topics, judgments, orders and documents that take a folder, or all files of a source, instead of a file.
OF_FOLDERS = frozenset({"stacks", "stacks-proofs", "stacks-premises", "stacks-order"})


_PANDOC = frozenset({"trec", "tsv"})  # readers of topics of any subject, whose texts may hold amounts of money


def read_topics(path: Path, reader: str = "", language: str = "eng", dollars: Dollars | None = None) -> Topics:
    """Returns the topics of a file.

    Parameters
    ----------
    reader : one of `TOPICS`, or the name of a function (see `harness.collections.foreign`); default: detected from the
        beginning of the file.
    language : ISO 639-3 code of topics that do not specify their language.
    dollars : which dollar signs of the texts enclose formulas; default: `pandoc` for `trec`, `tsv` and JSON with the
        names of BEIR or ir_datasets, else `pairs`.

    Raises
    ------
    FormatError
        The format is unknown, or the file has faults; the message names the lines.
    """
    data = content(path, reader)
    form = reader or _topics_form(data, path)
    read = foreign.topics(form) if foreign.named(form) else TOPICS[form]
    found = read(data, str(path), language)
    rule = dollars or ("pandoc" if form in _PANDOC else None)
    return topic_files.with_dollars(found, rule) if rule else found


def read_judgments(path: Path, reader: str, edition: str) -> Qrels:
    """Returns the judgments of a file; `reader` is one of `JUDGMENTS` or a function (`harness.collections.foreign`).

    Raises
    ------
    HarnessError
        The file has faults or the function fails; one line per fault.
    """
    read = foreign.judgments(reader) if foreign.named(reader) else JUDGMENTS[reader]
    return read(content(path, reader), str(path), edition)


def content(path: Path, reader: str) -> bytes:
    """Returns the content of a file for a reader; empty for a folder, which the reader opens itself.

    Raises
    ------
    HarnessError
        The reader takes files and the path is a folder, or vice versa.
    """
    if reader in OF_FOLDERS:
        if not path.is_dir():
            raise HarnessError(f"{path}: reader {reader!r} reads a folder: name all files of a source, or a folder")
        return b""
    if path.is_dir():
        raise HarnessError(f"{path}: a folder, and reader {reader or 'auto'!r} reads a file; name its path")
    return read_bytes(path)


def _topics_form(data: bytes, path: Path) -> str:
    """Returns the reader in `TOPICS` for a file, detected from its first item or line."""
    text = data[:65536].decode("utf-8-sig", "replace").lstrip()
    if text.startswith("<"):
        return "trec" if text[:5].lower() == "<top>" else "arqmath-xml"
    if text.startswith("{"):
        return "jsonl"
    if text.startswith("["):
        _, first = next(json_items(data, str(path)), (1, {}))
        return "leansearch" if "queries" in first else "mathlib-qr" if "full_name" in first else "jsonl"
    columns = text.partition("\n")[0].rstrip("\r").split("\t")
    if set(mathlib.NAMES) <= set(columns):
        return "mathlib-names"
    if len(columns) in (2, 4):
        return "crossmath-tsv" if len(columns) == 4 else "ntcir-12" if text.startswith("NTCIR") else "tsv"
    raise format_error(path, 1, f"no form of topics that is known here ({', '.join(sorted(TOPICS))})")


def local(file: Located) -> Path:
    """Returns the path of a file, fetching it if necessary; for all files of a source, their common folder."""
    if isinstance(file, Path):
        return file
    paths = fetch([file] if isinstance(file, Resource) else file)
    return paths[0] if len(paths) == 1 else Path(os.path.commonpath(paths))

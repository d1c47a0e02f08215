"""The posts of ARQMath: the organisers' XML of Math Stack Exchange, one `row` a question or answer.

    <posts>
      <row Id="5" PostTypeId="1" Title="..." Tags="&lt;calculus&gt;&lt;limits&gt;" Body="..." />
      <row Id="9" PostTypeId="2" ParentId="5" Body="..." />

Documents are the answers, with the title and tags of their question. The file is read twice: first for the titles,
which wait in a temporary file, then for the answers. What stays in memory is 8 bytes a post and 24 a question.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from harness.collections.corpus import Corpus, Document, Documents, Remarks
from harness.collections.streams import BLOCK, opened
from harness.errors import HarnessError, format_error
from harness.topics import read_markup

VERSION = 1
QUESTION, ANSWER = "1", "2"
LARGEST_ID = 1 << 62
Row = tuple[int, dict[str, str]]


def rows(path: Path, wanted: Callable[[dict[str, str]], bool] = lambda _: True) -> Iterator[Row]:
    """Line and attributes of each wanted `row`, in order; memory for one block of the file at a time.

    Document types and entities are refused: they have no place in such a file and can be made to explode.

    Raises
    ------
    FormatError
        The file is not XML, is cut short, or declares a document type.
    """
    from xml.parsers import expat

    parser = expat.ParserCreate()
    found: list[Row] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "row" and wanted(attributes):
            found.append((parser.CurrentLineNumber, attributes))

    def refuse(*_: object) -> None:
        raise format_error(path, parser.CurrentLineNumber, "DOCTYPE is not allowed in a file of posts")

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    with opened(path) as stream:
        try:
            while block := stream.read(BLOCK):
                parser.Parse(block, False)
                yield from found
                found.clear()
            parser.Parse(b"", True)
        except (LookupError, ValueError) as error:
            raise format_error(path, 1, f"encoding that is not known here: {error}; expected UTF-8") from None
        except expat.ExpatError as error:
            raise format_error(path, error.lineno, f"not valid XML: {expat.ErrorString(error.code)}") from None
    yield from found


def number(attributes: dict[str, str], key: str, path: Path, line: int) -> int:
    """A post id from an attribute that must be there."""
    text = attributes.get(key)
    if text is None:
        raise format_error(path, line, f"post {attributes.get('Id', '?')} has no {key}")
    if not (text.isascii() and text.isdigit() and int(text[:20]) < LARGEST_ID):
        raise format_error(path, line, f"{key} {text[:30]!r} is not a whole number")
    return int(text)


class Questions:
    """Titles and tags of the questions by id, kept in a temporary file."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed when collected)
        self._ids = array("q")
        self._ends = array("q")
        self._order = array("q")
        self._length = 0

    def add(self, post: int, title: str, tags: str) -> None:
        """Remember a question. Raises `HarnessError` if the temporary file cannot be written."""
        try:
            self._length += self._file.write(f"{title}\0{tags}".encode())
        except OSError as error:
            raise HarnessError(f"temporary file of titles: cannot be written: {error.strerror or error}") from None
        self._ids.append(post)
        self._ends.append(self._length)

    def close(self) -> None:
        """No more are added; from now on they can be looked up."""
        try:
            self._file.flush()
        except OSError as error:
            raise HarnessError(f"temporary file of titles: cannot be written: {error.strerror or error}") from None
        order = np.argsort(np.frombuffer(self._ids, dtype=np.int64), kind="stable") if self._ids else np.zeros(0)
        self._order = array("q", order.astype(np.int64).tobytes())
        self._ids = array("q", (self._ids[i] for i in self._order))

    def get(self, post: int) -> tuple[str, str] | None:
        """Title and tags as they stand in the file, or None."""
        at = bisect_left(self._ids, post)
        if at == len(self._ids) or self._ids[at] != post:
            return None
        place = self._order[at]
        start = self._ends[place - 1] if place else 0
        title, _, tags = os.pread(self._file.fileno(), self._ends[place] - start, start).decode().partition("\0")
        return title, tags


def read(corpus: Corpus, remarks: Remarks) -> Documents:
    """The answers in the order of the file."""
    path = corpus.path
    questions = _questions(path, remarks)
    for line, attributes in rows(path, lambda row: row.get("PostTypeId") == ANSWER):
        found = questions.get(number(attributes, "ParentId", path, line))
        if found is None:
            remarks["answers without their question"] += 1
        if "Body" not in attributes:
            raise format_error(path, line, f"post {attributes['Id']} has no Body")
        title, tags = found or ("", "")
        head, body = read_markup(title), read_markup(attributes["Body"])
        formulas = head.formulas + body.formulas
        remarks["answers"] += 1
        remarks["formulas"] += len(formulas)
        remarks["formulas without LaTeX"] += sum(not formula.latex for formula in formulas)
        remarks["formula spans around others"] += head.nested + body.nested
        words = tuple(tags.replace("<", " ").replace(">", " ").replace("|", " ").split())
        yield (path, line), Document(str(int(attributes["Id"])), head.text, body.text, words, formulas)


def _questions(path: Path, remarks: Remarks) -> Questions:
    """The first reading: titles and tags, and a check that no post id comes twice."""
    questions = Questions()
    ids = array("q")
    for line, attributes in rows(path):
        post = number(attributes, "Id", path, line)
        ids.append(post)
        kind = attributes.get("PostTypeId")
        if kind is None:
            raise format_error(path, line, f"post {post} has no PostTypeId")
        if kind == QUESTION:
            if "Title" not in attributes:
                raise format_error(path, line, f"post {post} has no Title")
            questions.add(post, attributes["Title"], attributes.get("Tags", ""))
        elif kind != ANSWER:
            remarks["posts of other kinds"] += 1
    if not ids:
        raise format_error(path, 0, "no posts found")
    _check_unique(ids, path)
    questions.close()
    return questions


def _check_unique(ids: array[int], path: Path) -> None:
    ordered = np.sort(np.frombuffer(ids, dtype=np.int64))
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:
        post = str(twice[0])
        places = [line for line, _ in rows(path, lambda row: row.get("Id", "").lstrip("0") == post.lstrip("0"))]
        raise format_error(path, places[1], f"post {post} stands on line {places[0]} already")


def check(path: Path) -> None:
    """Raise `FormatError` unless the whole file can be read; a file cut short is found here, not after an index."""
    if not sum(1 for _ in Corpus("arqmath-posts", "", "", path, reader="arqmath-posts")):
        raise format_error(path, 0, "no answers found")

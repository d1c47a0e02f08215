"""Reader of ARQMath posts: the organisers' XML of Math Stack Exchange, one `row` per question or answer.

    <posts>
      <row Id="5" PostTypeId="1" Title="..." Tags="&lt;calculus&gt;&lt;limits&gt;" Body="..." />
      <row Id="9" PostTypeId="2" ParentId="5" Body="..." />

Documents are the answers, with the title and tags of their question. The file is read twice: first for the titles,
which are kept in a temporary file, then for the answers. Memory use is 8 bytes per post and 24 per question.
The reader `arqmath-unanswered` yields the questions without an answer.

A corpus may `keep` further columns: of the answer its unchanged HTML `html` and its votes `score` (empty if missing in
the file); of the question its text `question`, its id `question_id`, and `accepted`, which is `yes` for the answer in
the question's AcceptedAnswerId and `no` for others. Texts of questions are kept compressed in the same temporary file,
at about half their size. If `question` is kept, a document's formulas are those of title, question and answer, in this
order, as in `harness.collections.readers.mse`.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from harness.collections.corpus import (
    BLOCK,
    LONGEST_LINE,
    Corpus,
    CorpusReader,
    Document,
    Documents,
    Remarks,
    open_decompressed,
)
from harness.collections.forms import FileForm
from harness.data.markup import Marked, read_markup
from harness.errors import HarnessError, format_error, os_errors

VERSION = 3
QUESTION, ANSWER = "1", "2"
LARGEST_ID = 1 << 62
COLUMNS = ("question", "question_id", "accepted", "score", "html")
_BRACKETS = str.maketrans("<>|", "   ")  # around tags and between them
Row = tuple[int, dict[str, str]]


def arqmath_rows(path: Path, wanted: Callable[[dict[str, str]], bool] = lambda _: True) -> Iterator[Row]:
    """Yields line and attributes of each wanted `row`, in order; keeps one block of the file in memory.

    Document types and entities are refused: such files do not need them, and expanded entities can exhaust memory.

    Raises
    ------
    FormatError
        The file is not XML, is cut short, or declares a document type.
    """
    from xml.parsers import expat

    parser = expat.ParserCreate()
    parsed: list[Row] = []
    fed = begun = 0  # bytes passed to the parser in total, and before the last tag

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal begun
        begun = fed
        if name == "row" and wanted(attributes):
            parsed.append((parser.CurrentLineNumber, attributes))

    def refuse(*_: object) -> None:
        raise format_error(path, parser.CurrentLineNumber, "DOCTYPE is not allowed in a file of posts")

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    with open_decompressed(path) as stream:
        try:
            while block := stream.read(BLOCK):
                parser.Parse(block, False)
                fed += len(block)
                if fed - begun > LONGEST_LINE:
                    raise format_error(path, parser.CurrentLineNumber, f"a post of more than {LONGEST_LINE} bytes")
                yield from parsed
                parsed.clear()
            parser.Parse(b"", True)
        except (LookupError, ValueError) as error:
            raise format_error(path, 1, f"encoding that is not known here: {error}; expected UTF-8") from None
        except expat.ExpatError as error:
            raise format_error(path, error.lineno, f"not valid XML: {expat.ErrorString(error.code)}") from None
    yield from parsed


def number(attributes: dict[str, str], key: str, path: Path, line: int) -> int:
    """Returns a post id from a required attribute."""
    text = attributes.get(key)
    if text is None:
        raise format_error(path, line, f"post {attributes.get('Id', '?')} has no {key}")
    if not (text.isascii() and text.isdigit() and int(text[:20]) < LARGEST_ID):
        raise format_error(path, line, f"{key} {text[:30]!r} is not a whole number")
    return int(text)


class Question(NamedTuple):
    """Fields of a question that its answers share.

    Attributes
    ----------
    title, tags, body : unchanged from the file; the body is "" if it is not kept.
    accepted : the id of the accepted answer, "" if there is none or it is not kept.
    """

    title: str
    tags: str
    accepted: str = ""
    body: str = ""


class Questions:
    """Questions by id, in a temporary file."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed when collected)
        self._ids = array("q")
        self._ends = array("q")
        self._order = array("q")
        self._length = 0

    def add(self, post: int, question: Question) -> None:
        """Stores a question. Raises `HarnessError` if the temporary file cannot be written."""
        record = "\0".join((*question[:3], "")).encode()  # XML has no NUL
        if question.body:
            record += zlib.compress(question.body.encode(), 1)
        with os_errors("temporary file of titles", "written"):
            self._length += self._file.write(record)
        self._ids.append(post)
        self._ends.append(self._length)

    def close(self) -> None:
        """Ends the additions and sorts the index, so that questions can be looked up."""
        with os_errors("temporary file of titles", "written"):
            self._file.flush()
        order = np.argsort(np.frombuffer(self._ids, dtype=np.int64), kind="stable") if self._ids else np.zeros(0)
        self._order = array("q", order.astype(np.int64).tobytes())
        self._ids = array("q", (self._ids[i] for i in self._order))

    def get(self, post: int) -> Question | None:
        """Returns the question of an id, or None."""
        at = bisect_left(self._ids, post)
        if at == len(self._ids) or self._ids[at] != post:
            return None
        place = self._order[at]
        start = self._ends[place - 1] if place else 0
        record = os.pread(self._file.fileno(), self._ends[place] - start, start)
        title, tags, accepted, packed = record.split(b"\0", 3)
        body = zlib.decompress(packed) if packed else b""
        return Question(title.decode(), tags.decode(), accepted.decode(), body.decode())


def read(corpus: Corpus, remarks: Remarks) -> Documents:
    """Yields the answers in file order, with the columns that the corpus keeps.

    An answer whose question is missing is kept, with an empty `question` and `no` as `accepted`.

    Raises
    ------
    HarnessError
        The corpus keeps a column that is not in `COLUMNS`, or the temporary file cannot be written.
    FormatError
        The file is damaged, or a post lacks a required attribute.
    """
    corpus.check_kept(COLUMNS)
    path = corpus.path
    questions = _questions(path, remarks, corpus.keep)
    for line, attributes in arqmath_rows(path, lambda row: row.get("PostTypeId") == ANSWER):
        parent = number(attributes, "ParentId", path, line)
        question = questions.get(parent)
        if question is None:
            remarks["answers without their question"] += 1
        if "Body" not in attributes:
            raise format_error(path, line, f"post {attributes['Id']} has no Body")
        yield (path, line), _document(attributes, parent, question or Question("", ""), corpus.keep, remarks)


def unanswered(corpus: Corpus, remarks: Remarks) -> Documents:
    """Yields the questions without an answer, in file order; raises the errors of `read`, also if `keep` is set."""
    if corpus.keep:
        raise HarnessError(f"corpus {corpus.name}: keep: questions have no further columns; leave the key out")
    path = corpus.path
    _questions(path, remarks, ())  # validates the posts
    answered = array("q")
    for line, row in arqmath_rows(path, lambda row: row.get("PostTypeId") == ANSWER):
        answered.append(number(row, "ParentId", path, line))
    known = np.unique(np.frombuffer(answered, np.int64)) if answered else np.zeros(0, np.int64)
    for line, row in arqmath_rows(path, lambda row: row.get("PostTypeId") == QUESTION):
        post = number(row, "Id", path, line)
        at = int(np.searchsorted(known, post))
        if at < known.size and known[at] == post:
            continue
        head, body = read_markup(row["Title"]), read_markup(row.get("Body", ""))
        remarks["questions without an answer"] += 1
        remarks.update(head.remarks())
        remarks.update(body.remarks())
        words = _parse_tags(row.get("Tags", ""))
        yield (path, line), Document(str(post), head.text, body.text, words, head.formulas + body.formulas)


def _parse_tags(text: str) -> tuple[str, ...]:
    return tuple(text.translate(_BRACKETS).split())


def _document(
    attributes: dict[str, str], parent: int, question: Question, keep: tuple[str, ...], remarks: Remarks
) -> Document:
    """Returns an answer; parses its question's body, which is slow, only if it is kept."""
    head, body = read_markup(question.title), read_markup(attributes["Body"])
    asked = read_markup(question.body) if "question" in keep else Marked("")
    formulas = head.formulas + asked.formulas + body.formulas
    answer = str(int(attributes["Id"]))
    accepted = question.accepted == answer
    remarks["answers"] += 1
    if "accepted" in keep:
        remarks["accepted answers"] += accepted
    for part in (head, asked, body):
        remarks.update(part.remarks())
    words = _parse_tags(question.tags)
    known = {"question": asked.text, "question_id": str(parent), "accepted": "yes" if accepted else "no"}
    known |= {"score": attributes.get("Score", ""), "html": attributes["Body"]}
    return Document(answer, head.text, body.text, words, formulas, {column: known[column] for column in keep})


def _questions(path: Path, remarks: Remarks, keep: tuple[str, ...]) -> Questions:
    """Reads the file a first time: collects the questions, and checks that post ids are unique."""
    questions = Questions()
    ids = array("q")
    for line, attributes in arqmath_rows(path):
        post = number(attributes, "Id", path, line)
        ids.append(post)
        kind = attributes.get("PostTypeId")
        if kind is None:
            raise format_error(path, line, f"post {post} has no PostTypeId")
        if kind == QUESTION:
            questions.add(post, _question(attributes, path, line, keep, remarks))
        elif kind != ANSWER:
            remarks["posts of other kinds"] += 1
    if not ids:
        raise format_error(path, 0, "no posts found")
    _check_unique(ids, path)
    questions.close()
    return questions


def _question(attributes: dict[str, str], path: Path, line: int, keep: tuple[str, ...], remarks: Remarks) -> Question:
    """Returns the kept parts of a question; counts a missing body, and raises an error for a missing title."""
    if "Title" not in attributes:
        raise format_error(path, line, f"post {attributes['Id']} has no Title")
    accepted = body = ""
    if "question" in keep:
        body = attributes.get("Body", "")
        remarks["questions without text"] += not body
    if "accepted" in keep and "AcceptedAnswerId" in attributes:
        accepted = str(number(attributes, "AcceptedAnswerId", path, line))
        remarks["questions with an accepted answer"] += 1
    return Question(attributes["Title"], attributes.get("Tags", ""), accepted, body)


def _check_unique(ids: array[int], path: Path) -> None:
    ordered = np.sort(np.frombuffer(ids, dtype=np.int64))
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:
        post = str(twice[0])
        places = [line for line, _ in arqmath_rows(path, lambda row: row.get("Id", "").lstrip("0") == post.lstrip("0"))]
        raise format_error(path, places[1], f"post {post} is on line {places[0]} already")


def check_arqmath_file(path: Path) -> None:
    """Raises `FormatError` unless the whole file can be read, to find truncated files before indexing."""
    if not sum(1 for _ in Corpus("arqmath-posts", "", "", path, keep=COLUMNS, reader=POSTS)):
        raise format_error(path, 0, "no answers found")


POSTS = CorpusReader("arqmath-posts", read, VERSION, unique=True)
UNANSWERED = CorpusReader("arqmath-unanswered", unanswered, VERSION, unique=True)
READERS = (
    FileForm(POSTS.name, documents=POSTS, source="arqmath-posts", check=check_arqmath_file),
    FileForm(UNANSWERED.name, documents=UNANSWERED),
)

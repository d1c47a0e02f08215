"""Math Stack Exchange pages as MathDowsers rendered them: one HTML file for each answer, `QUESTION_ANSWER.html`.

Formulas are Presentation MathML whose `alttext` is LaTeX, in spans with the `id` and `visual_id` of ARQMath.
"""

from __future__ import annotations

import re
from pathlib import Path

from harness.collections.corpus import Corpus, Document, Documents, Remarks
from harness.errors import format_error
from harness.topics import read_markup

VERSION = 1
_NAME = re.compile(r"(\d+)_(\d+)\.html")
# The parts of a page in their order; each ends where the next one begins.
_PARTS = ("question-title", "question", "tags", "question-comments", "answer", "answer-comments")
_DIVISION = {part: re.compile(rf'<div\b[^>]*\sid="{part}"[^>]*>') for part in _PARTS}

# Where the organisers took the text between two formulas for one.
_TAG = re.compile(r"</?(?:p|em|strong|li|ul|ol|h\d|blockquote)>")


def read(corpus: Corpus, remarks: Remarks) -> Documents:
    """The answers by question and answer id; the question's text is the column `question`."""
    folder = corpus.path
    pages = []
    for path in folder.iterdir():
        name = _NAME.fullmatch(path.name)
        if name is None:
            raise format_error(path, 0, "the file's name is not QUESTION_ANSWER.html")
        pages.append((int(name[1]), int(name[2]), path))
    for question, answer, path in sorted(pages):
        yield (path, 0), _document(path, str(question), str(answer), remarks)


def _document(path: Path, question: str, answer: str, remarks: Remarks) -> Document:
    parts = _parts(path, question, answer)
    title, asked, body = (read_markup(parts[part]) for part in ("question-title", "question", "answer"))
    formulas = title.formulas + asked.formulas + body.formulas
    remarks["answers"] += 1
    remarks["answers with formula spans around others"] += bool(body.nested)
    remarks["formula spans around others"] += title.nested + asked.nested + body.nested
    remarks["formulas"] += len(formulas)
    remarks["formulas without LaTeX"] += sum(not formula.latex for formula in formulas)
    remarks["formulas without a visual id"] += sum(not formula.visual_id for formula in formulas)
    remarks["formulas with tags of HTML in their LaTeX"] += sum(bool(_TAG.search(f.latex)) for f in formulas)
    tags = tuple(read_markup(parts["tags"]).text.split())
    return Document(answer, title.text, body.text, tags, formulas, {"question": asked.text})


def _parts(path: Path, question: str, answer: str) -> dict[str, str]:
    """The markup of each part of a page."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise format_error(path, line, f"byte 0x{error.object[error.start]:02x} is not UTF-8 text") from None
    except OSError as error:
        raise format_error(path, 0, f"cannot be read: {error.strerror or error}") from None
    begins, ends, at = [], [], 0
    for part in _PARTS:
        tag = _DIVISION[part].search(text, at)
        if tag is None:
            raise format_error(path, 0, f"the page has no part {part!r} where it should be, or is cut short")
        for key, expected in (("question", question), ("answer", answer)):
            if part == key and f'{key}_id="{expected}"' not in tag[0]:
                line = text.count("\n", 0, tag.start()) + 1
                raise format_error(path, line, f"the {key} is not {expected}, which the file's name says")
        at = tag.end()
        begins.append(at)
        ends.append(tag.start())
    return {part: text[begins[i] : ends[i + 1]] for i, part in enumerate(_PARTS[:-1])}

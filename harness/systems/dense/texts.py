"""Texts of documents and topics for neural models: joined fields, with or without formulas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from harness.errors import HarnessError, suggestion
from harness.formulas.text.delimiters import Dollars, split_formulas
from harness.io import checks

if TYPE_CHECKING:
    from harness.collections.corpus import Document
    from harness.data.topics import Topic

View = Literal["latex", "text", "mathberta"]
VIEWS: tuple[View, ...] = get_args(View)
TOPIC_FIELDS = ("title", "body", "tags", "formulas")


def check(key: str, fields: object, known: Sequence[str] | None = None) -> tuple[str, ...]:
    """Checks a list of field names; returns the names.

    Raises
    ------
    HarnessError
        The fields are not a list of names, or a name is not among `known`.
    """
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not fields:
        raise HarnessError(f"key {key!r} is {fields!r}, expected a list of fields, such as [title, body]")
    for name in fields:
        if not isinstance(name, str) or (known is not None and name not in known):
            raise HarnessError(f"key {key!r}: {name!r} is unknown; {suggestion(str(name), known or TOPIC_FIELDS)}")
    return tuple(fields)


def check_join(key: str, join: object) -> None:
    """Raises HarnessError if the separator of fields is not a text."""
    if not isinstance(join, str) or not join:
        raise HarnessError(f"key {key!r} is {join!r}, expected the separator of fields, such as a blank")


ViewName = Annotated[str, partial(checks.choice, known=VIEWS)]
Fields = Annotated[Sequence[str], check]
TopicFields = Annotated[Sequence[str], partial(check, known=TOPIC_FIELDS)]
Join = Annotated[str, check_join]


def of_document(document: Document, fields: Sequence[str], view: str = "latex") -> str:
    """Returns the text of a document: fields (title, body, tags, id, columns kept by its corpus), joined by spaces.

    Parameters
    ----------
    view : `latex`: unchanged, with formulas as LaTeX in dollars. `text`: without formulas. `mathberta`: see
        `with_math_tokens`.

    Raises
    ------
    HarnessError
        The corpus does not keep a column of that name.

    Examples
    --------
    >>> from harness.collections.corpus import Document
    >>> document = Document("d1", "Even numbers", "Let $n$ be even.")
    >>> of_document(document, ["title", "body"])
    'Even numbers Let $n$ be even.'
    >>> of_document(document, ["body"], "text")
    'Let be even.'
    >>> of_document(document, ["body"], "mathberta")
    'Let [MATH] n [/MATH] be even.'
    """
    return _joined_fields([_document_field(document, name) for name in fields], view, document.dollars)


def of_topic(topic: Topic, fields: Sequence[str], view: str = "latex") -> str:
    """Returns the text of a topic: fields title, body, tags and formulas (in formula search, the query formula).

    See `of_document`.

    Examples
    --------
    >>> from harness.data.topics import Formula, Topic
    >>> topic = Topic("B.1", "Roots", "Solve $x^2 = 2$ for $x$.", formulas=(Formula("q_1", "x^2 = 2"),))
    >>> of_topic(topic, ["title", "formulas"])
    'Roots $x^2 = 2$'
    """
    return _joined_fields([_topic_field(topic, name) for name in fields], view, topic.dollars)


def _topic_field(topic: Topic, name: str) -> str:
    if name == "tags":
        return " ".join(topic.tags)
    if name == "formulas":
        return " ".join(f"${formula.latex}$" for formula in topic.formulas)
    return str(getattr(topic, name))


def _document_field(document: Document, name: str) -> str:
    if name == "tags":
        return " ".join(document.tags)
    if name in ("id", "title", "body"):
        return str(getattr(document, name))
    if name not in document.columns:
        known = ("title", "body", "tags", "id", *document.columns)
        raise HarnessError(f"document {document.id}: has no field {name!r}; {suggestion(name, known)}")
    return document.columns[name]


def with_math_tokens(text: str, dollars: Dollars = "pairs") -> str:
    """Returns a text in MathBERTa's training format: formulas between ` [MATH] ` and ` [/MATH]` in place of dollars.

    The format follows the model's authors (github.com/Witiko/scm-at-arqmath3, `system/prepare_arxiv_dataset.py`,
    `read_document_text_latex`, at 20446dd) and the examples of the model card. Whitespace is collapsed to single
    spaces. Formulas separated only by whitespace are merged. A formula at the end of the text has no closing token. A
    text that begins with a formula keeps the space before it, because the special tokens include their spaces
    (`system/train_extended_tokenizer.py`). The authors convert paragraph by paragraph, this function the whole text.

    Examples
    --------
    >>> with_math_tokens("Solve $x^2 = 2$ for $x$.")
    'Solve [MATH] x^2 = 2 [/MATH] for [MATH] x [/MATH] .'
    >>> with_math_tokens("$a$ $b$ or $c$")
    ' [MATH] a b [/MATH] or [MATH] c'
    """
    segments = split_formulas(text, dollars)
    parts = (f"{prose} [MATH] {latex} [/MATH] " if latex.strip() else prose for prose, latex in segments)
    whole = re.sub(r"\s+", " ", "".join(parts)).rstrip()
    if not whole.startswith(" [MATH] "):
        whole = whole.lstrip()
    return whole.replace(" [/MATH] [MATH] ", " ").removesuffix(" [/MATH]")


def _joined_fields(parts: Sequence[str], view: str, dollars: Dollars) -> str:
    whole = " ".join(part for part in parts if part)
    if view == "latex":
        return whole
    if view == "mathberta":
        return with_math_tokens(whole, dollars)
    return " ".join(" ".join(prose for prose, _ in split_formulas(whole, dollars)).split())

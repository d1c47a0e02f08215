"""Tokeniser of Lean 4 sources, which recognises comments and strings.

Comments nest, `/--` begins a doc string, a prime belongs to the preceding name, and any other `'` starts a character
literal or is part of a symbol such as `⁻¹'`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.errors import format_error

NAME, FIELD, DOC, STRING, SYMBOL = "name", "field", "doc", "string", "symbol"
OPENING, CLOSING = "([{⟨⦃", ")]}⟩⦄"
ATTRIBUTES = "@["

# Letters of names as in Lean's lexer; λ, Π, Σ and superscripts are not letters.
_LETTER = (
    "A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017f\u0391-\u039f\u03a1\u03a2\u03a4-\u03a9\u03b1-\u03ba\u03bc-\u03fb"
    "\u1f00-\u1ffe\u2100-\u214f\U0001d49c-\U0001d59f"
)
_REST = rf"{_LETTER}0-9'!?\u2080-\u2089\u2090-\u209c\u1d62-\u1d6a\u2c7c"
_PART = rf"(?:«[^»\n]*»|[{_LETTER}][{_REST}]*+)"
_TOKEN = re.compile(
    rf"""(?P<blank>[\ \t\r\f]++)
    |(?P<line>\n)
    |(?P<comment>--[^\n]*+)
    |(?P<block>/-)
    |(?P<string>"(?:[^"\\]++|\\.)*+"|r"[^"]*"|r(?P<hash>\#++)".*?"(?P=hash))
    |(?P<open>"|r\#*+")
    |(?P<name>{_PART}(?:\.{_PART})*+)
    |(?P<field>(?:\.\.+)|\.{_PART}(?:\.{_PART})*+)
    |(?P<quoted>`+{_PART}(?:\.{_PART})*+)
    |(?P<prime>''|(?<![\s(\[{{⟨,;|=<])'(?!\\?"'))
    |(?P<character>'(?:\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|.)|[^\\'\n])')
    |(?P<number>[0-9]++)
    |(?P<symbol>@\[|:=|=>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS = re.compile("/-|-/")
NAME_OF_PART = re.compile(_PART)


class Token(NamedTuple):
    """One token.

    Attributes
    ----------
    kind : `name` (with dots), `field` (`.foo`, of a term or of the expected type), `doc`, `string` (or a character),
        `symbol`.
    start, end : span in the source.
    line : line number from 1.
    column : column from 0 for the first token of a line; -1 for others.
    depth : number of enclosing brackets; a bracket does not enclose itself.
    """

    kind: str
    text: str
    start: int
    end: int
    line: int
    column: int
    depth: int


def tokens(source: str, path: object) -> list[Token]:
    """Returns the tokens of a source, including doc strings but no other comments.

    Raises
    ------
    FormatError
        A comment or a string is not terminated; the message names the line where it begins.

    Examples
    --------
    >>> [token.text for token in tokens("/- a /- b -/ c -/ x' := '\\\\n' -- d", "A.lean")]
    ["x'", ':=', "'\\\\n'"]
    """
    out: list[Token] = []
    at, line, begin, fresh, depth, size = 0, 1, 0, True, 0, len(source)
    match = _TOKEN.match
    while at < size:
        matched = match(source, at)
        kind = matched.lastgroup if matched is not None else None
        if matched is None or kind is None:  # every character is at least a symbol
            raise format_error(path, line, f"unexpected character {source[at]!r}")
        end = matched.end()
        if kind == "line":
            line, begin, fresh = line + 1, end, True
        elif kind == "block":
            end = _block(source, at, line, path)
            text = source[at:end]
            if text.startswith("/--") and text != "/--/":
                out.append(Token(DOC, text, at, end, line, at - begin if fresh else -1, depth))
                fresh = False
            if breaks := text.count("\n"):
                line, begin, fresh = line + breaks, at + text.rindex("\n") + 1, True
        elif kind == "open":
            raise format_error(path, line, 'the string that begins here has no end (")')
        elif kind not in ("blank", "comment"):
            text = matched.group()
            column = at - begin if fresh else -1
            if text[-1] in OPENING and kind == "symbol":
                out.append(Token(SYMBOL, text, at, end, line, column, depth))
                depth += 1
            elif text in CLOSING and kind == "symbol":
                depth = max(depth - 1, 0)
                out.append(Token(SYMBOL, text, at, end, line, column, depth))
            else:
                out.append(Token(_KINDS.get(kind, SYMBOL), text, at, end, line, column, depth))
            fresh = False
            if kind == "name" and text[-1] == "!" and source.startswith('"', end):
                at, end = end, _interpolated(source, end, line, path)
                text, kind = source[at:end], "string"
                out.append(Token(STRING, text, at, end, line, -1, depth))
            if kind == "string" and (breaks := text.count("\n")):
                line, begin = line + breaks, at + text.rindex("\n") + 1
        at = end
    return out


_KINDS = {"name": NAME, "field": FIELD, "string": STRING, "character": STRING, "hash": STRING}


def _block(source: str, at: int, line: int, path: object) -> int:
    """Returns the end of the comment that begins at `at`."""
    depth, here = 1, at + (3 if source.startswith("/--/", at) else 2)
    if here == at + 3:
        return at + 4
    while depth:
        delimiter = _ENDS.search(source, here)
        if delimiter is None:
            raise format_error(path, line, "the comment that begins here has no end (-/)")
        depth += 1 if delimiter.group() == "/-" else -1
        here = delimiter.end()
    return here


def _interpolated(source: str, at: int, line: int, path: object) -> int:
    """Returns the end of the string `s!"..."` that begins at `at`; code between its braces may contain strings."""
    here, braces = at + 1, [0]  # number of open braces in each open string
    while braces and here < len(source):
        if not braces[-1]:
            sign = source[here]
            here += 2 if sign == "\\" else 1
            if sign == '"':
                braces.pop()
            elif sign == "{":
                braces[-1] = 1
            continue
        matched = _TOKEN.match(source, here)
        if matched is None or matched.lastgroup == "open":
            break
        text, begin, here = matched.group(), here, matched.end()
        braces[-1] += (text == "{") - (text == "}")
        if matched.lastgroup == "block":
            here = _block(source, begin, line + source.count("\n", at, begin), path)
        elif text[-1] == "!" and source.startswith('"', here):
            braces.append(0)
            here += 1
    if braces:
        raise format_error(path, line, 'the string that begins here has no end (")')
    return here


def closing(stream: Sequence[Token], at: int) -> int:
    """Returns the index of the closing bracket for the one at `at`; the last index if it is not closed."""
    depth = stream[at].depth
    for index in range(at + 1, len(stream)):
        token = stream[index]
        if token.depth <= depth and token.text in CLOSING:
            return index
    return len(stream) - 1


def tokens_text(stream: Iterable[Token]) -> str:
    """Returns the text of tokens; blanks and comments between tokens become one blank.

    >>> tokens_text(tokens("(x :  Nat) -- why\\n  : x = x", "A.lean"))
    '(x : Nat) : x = x'
    """
    pieces: list[str] = []
    last = None
    for token in stream:
        if token.kind == DOC:
            continue
        if last is not None and token.start > last:
            pieces.append(" ")
        pieces.append(token.text)
        last = token.end
    return "".join(pieces)


def doc_text(text: str) -> str:
    """Returns the text of a doc string without its delimiters.

    >>> doc_text("/-- One line. -/")
    'One line.'
    """
    return text.removeprefix("/--").removesuffix("-/").strip()


def join_name_parts(*parts: str) -> str:
    """Joins the non-empty parts of a name with dots; `_root_` discards all parts before it.

    >>> join_name_parts("A", "", "B.c"), join_name_parts("A", "_root_.b")
    ('A.B.c', 'b')
    """
    whole = ".".join(part for part in parts if part)
    return whole.rpartition("_root_.")[2]

"""Markup that is not trusted, walked element by element: no document type, no depth beyond a limit, nothing fetched.

It need not be XML: pages of HTML have `<mo><</mo>`, so a `<` that begins no tag is text. Characters may be written as
HTML names them; there are no other entities.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Generic, TypeVar

DEPTH = 200
DEEP = f"deeper than {DEPTH} levels"
UNREADABLE = "the markup cannot be read"

Value = TypeVar("Value")

_TAG = re.compile(
    r"""<(?:(?P<comment>!--)|(?P<forbidden>!DOCTYPE|!ENTITY|\?xml-stylesheet)"""
    r"""|(?P<end>/?)(?:[\w.-]++:)?(?P<name>[A-Za-z][\w.-]*+)"""
    r"""(?P<attributes>(?:\s++[\w:.-]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'))?+)*+)\s*+(?P<empty>/?)>)""",
)
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


class Fault(Exception):  # noqa: N818 - a reason, caught where a formula is read
    """Why nothing of a formula can be read."""


class Element(Generic[Value]):
    """An element.

    Attributes
    ----------
    text : what stands before its first part.
    names, parts : of its parts, what they are called and what was made of them.
    reason : why one of its parts could not be read, or "".
    """

    __slots__ = ("attributes", "name", "names", "parts", "reason", "text")

    def __init__(self, name: str, attributes: str) -> None:
        self.name = name
        self.attributes = attributes
        self.text = ""
        self.names: list[str] = []
        self.parts: list[Value] = []
        self.reason = ""

    def attribute(self, name: str, default: str = "") -> str:
        """Returns the value of an attribute."""
        for match in _ATTRIBUTE.finditer(self.attributes):
            if match[1] == name:
                return html.unescape(match[2] if match[2] is not None else match[3])
        return default


def walk(text: str, make: Callable[[Element[Value], list[Element[Value]]], Value]) -> tuple[Value, str]:
    """Returns what `make` gives for the first element of the text, and the reason of its faults ("" without any).

    `make` is called at the end of each element with those around it, outermost first; it may set `reason`.

    Raises
    ------
    Fault
        Tags that do not match, a document type, more than `DEPTH` levels.
    """
    open_: list[Element[Value]] = []
    at = 0
    while match := _TAG.search(text, at):
        if open_ and not open_[-1].parts:
            open_[-1].text += text[at : match.start()]
        at = match.end()
        if match["comment"]:
            at = text.find("-->", at) + 3
            if at < 3:
                break
            continue
        if match["forbidden"]:
            raise Fault("a document type or entity is declared")
        if not match["end"]:
            if len(open_) == DEPTH:
                raise Fault(DEEP)
            open_.append(Element(match["name"], match["attributes"]))
            if not match["empty"]:
                continue
        elif not open_ or open_[-1].name != match["name"]:
            break
        element = open_.pop()
        if "&" in element.text:
            element.text = html.unescape(element.text)
        value = make(element, open_)
        if not open_:
            return value, element.reason
        above = open_[-1]
        above.names.append(element.name)
        above.parts.append(value)
        above.reason = above.reason or element.reason
    raise Fault(UNREADABLE)

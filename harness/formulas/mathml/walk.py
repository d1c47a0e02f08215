"""A safe parser for untrusted markup: it rejects document types and deep nesting, and fetches nothing.

The markup need not be valid XML: HTML pages contain `<mo><</mo>`, so a `<` that begins no tag is text. Of entities,
only HTML's named characters are supported.
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
    r"""<(?:(?P<aside>!--|!\[CDATA\[|\?(?!xml-stylesheet))|(?P<forbidden>!DOCTYPE|!ENTITY|\?xml-stylesheet)"""
    r"""|(?P<end>/?)(?:[\w.-]++:)?(?P<name>[A-Za-z][\w.-]*+)"""
    r"""(?P<attributes>(?:\s++[\w:.-]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'))?+)*+)\s*+(?P<empty>/?)>)"""
)
_ASIDE = {"!--": "-->", "![CDATA[": "]]>", "?": "?>"}  # beginning and end of what is no element
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


class Fault(Exception):  # noqa: N818 - a reason, caught where a formula is read
    """The reason why a formula cannot be parsed at all."""


class Element(Generic[Value]):
    """An element of the markup.

    Attributes
    ----------
    text : text before the first child.
    after : text after each child.
    names, parts : names of the children, and the values made from them.
    reason : why one of the children could not be parsed, or "".
    """

    __slots__ = ("after", "attributes", "name", "names", "parts", "reason", "text")

    def __init__(self, name: str, attributes: str) -> None:
        self.name = name
        self.attributes = attributes
        self.text = ""
        self.after: list[str] = []
        self.names: list[str] = []
        self.parts: list[Value] = []
        self.reason = ""

    def say(self, text: str) -> None:
        """Adds text after the last child so far."""
        if not self.parts:
            self.text += text
        elif text:
            self.after[-1] += text

    def attribute(self, name: str, default: str = "") -> str:
        """Returns the value of an attribute."""
        for match in _ATTRIBUTE.finditer(self.attributes):
            if match[1] == name:
                return html.unescape(match[2] if match[2] is not None else match[3])
        return default


def walk(text: str, make: Callable[[Element[Value], list[Element[Value]]], Value]) -> tuple[Value, str]:
    """Parses markup; returns the value that `make` gives for the first element, and the reason of a failure or "".

    `make` is called at the end of each element, with the enclosing elements, outermost first; it may set `reason`.

    Raises
    ------
    Fault
        Tags do not match, there is a document type, or elements are nested more than `DEPTH` levels deep.
    """
    open_: list[Element[Value]] = []
    at = 0
    while match := _TAG.search(text, at):
        if open_:
            open_[-1].say(text[at : match.start()])
        at = match.end()
        if begin := match["aside"]:
            end = text.find(_ASIDE[begin], at)
            if end < 0:
                break
            if begin == "![CDATA[" and open_:  # text, in which nothing is a tag or an entity
                open_[-1].say(html.escape(text[at:end]))
            at = end + len(_ASIDE[begin])
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
        element.text = html.unescape(element.text)
        element.after = [html.unescape(each) for each in element.after]
        value = make(element, open_)
        if not open_:
            return value, element.reason
        above = open_[-1]
        above.names.append(element.name)
        above.parts.append(value)
        above.after.append("")
        above.reason = above.reason or element.reason
    raise Fault(UNREADABLE)

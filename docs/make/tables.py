"""Markdown tables of generated pages."""

from __future__ import annotations

import re
from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table; columns in which no row has anything are left out.

    Examples
    --------
    >>> print(table(["a", "b", "c"], [["1", "", "x|y"]]))
    | a | c |
    |---|---|
    | 1 | x\\|y |
    """
    kept = [at for at in range(len(head)) if any(row[at] for row in rows)]
    lines = [[head[at] for at in kept], ["---"] * len(kept), *([_cell(row[at]) for at in kept] for row in rows)]
    drawn = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([drawn[0], drawn[1].replace(" ", ""), *drawn[2:]])


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def code(text: str) -> str:
    """Returns a text as inline code; an empty one stays empty.

    Examples
    --------
    >>> code("a`b"), code("")
    ('``a`b``', '')
    """
    return (f"``{text}``" if "`" in text else f"`{text}`") if text else ""


def plain(text: str) -> str:
    """Returns a text whose characters mean nothing in Markdown; code in backticks stays.

    Examples
    --------
    >>> plain("a_b <x> `c_d`")
    'a\\\\_b &lt;x> `c_d`'
    """
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if at % 2 else re.sub(r"([\\*_\[\]#])", r"\\\1", part).replace("<", "&lt;")
        for at, part in enumerate(parts)
    )

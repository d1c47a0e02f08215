"""Extension of griffe: parameters and attributes in docstrings, `name : meaning`, as mkdocstrings shows them.

In numpydoc's form a type follows the colon, so that a table would have our meanings in its column of types. Types and
defaults are in the signature, from which griffe takes them where a docstring has none.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"^((?:Attributes|Parameters)\n-+\n)(.*?)(?=^\w[\w ]*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.*(?:\n[ \t]+.*)*)", re.MULTILINE)


def without_types(text: str) -> str:
    r"""Returns a docstring whose parameters and attributes have their meaning as description, a name to each.

    Examples
    --------
    >>> without_types("Sums.\n\nParameters\n----------\na, b : terms, of\n    one kind.")
    'Sums.\n\nParameters\n----------\na\n    terms, of one kind.\nb\n    terms, of one kind.\n'
    """
    return _SECTION.sub(lambda section: section[1] + _ENTRY.sub(_entries, section[2]), text)


def _entries(entry: re.Match[str]) -> str:
    meaning = " ".join(entry[2].split())
    return "".join(f"{name}\n    {meaning}\n" for name in entry[1].split(", "))


class Meanings(griffe.Extension):
    """Rewrites the docstrings of functions and classes before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401
        """Rewrites the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = without_types(obj.docstring.value)

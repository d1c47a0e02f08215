"""Guards taken out of functions, to see that an attack succeeds without them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any


@contextmanager
def without(function: Callable[..., Any], old: str, new: str = "") -> Iterator[None]:
    """Replaces a part of a function's text for the block, wherever the function is used."""
    bare = inspect.unwrap(function)
    module = sys.modules[bare.__module__]
    whole, part = inspect.getsource(module), inspect.getsource(bare)
    assert part.count(old) == 1, f"{bare.__qualname__} has {part.count(old)} times: {old}"
    changed = compile(whole.replace(part, part.replace(old, new)), str(module.__file__), "exec")
    (found,) = _codes(changed, bare.__qualname__)
    before = bare.__code__
    bare.__code__ = found
    try:
        yield
    finally:
        bare.__code__ = before


def _codes(code: CodeType, name: str) -> list[CodeType]:
    """Returns the code of the functions of a name, also of those within classes."""
    within = [each for each in code.co_consts if isinstance(each, CodeType)]
    found = [code] if code.co_qualname == name else []
    return found + [one for each in within for one in _codes(each, name)]

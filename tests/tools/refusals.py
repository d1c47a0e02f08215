"""Calls that end in one line."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from harness.errors import HarnessError


def refusal(call: Callable[..., object], *given: object, **options: object) -> str:
    """The one line in which a call with these arguments ends."""
    with pytest.raises(HarnessError) as caught:
        call(*given, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refuses(match: str, call: Callable[[], object]) -> None:
    """Checks that a call ends in one line, in which the pattern is found."""
    line = refusal(call)
    assert re.search(match, line), line

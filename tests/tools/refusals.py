"""Calls that end in one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.errors import HarnessError


def refuses(match: str, call: Callable[[], object]) -> None:
    """Checks that a call raises an error of one line, which the pattern fits."""
    with pytest.raises(HarnessError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)

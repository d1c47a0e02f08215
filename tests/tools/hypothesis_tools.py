"""Numbers of examples that Hypothesis tries, by profile."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> int:
    """Returns `count` in profile `ci`, and a third of it, but at least ten, in profile `dev`."""
    return count if settings().max_examples > 25 else max(count // 3, 10)

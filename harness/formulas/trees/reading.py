"""What a conversion gives, and how many formulas it could read: a failed formula is never dropped silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.formulas.trees.tree import Tree

ERROR = "E!"


@dataclass(frozen=True, slots=True)
class Reading:
    """A formula as it was read.

    Attributes
    ----------
    tree : always there; a part that could not be read is a node `E!`.
    reason : why a part or all of the formula could not be read, in words that are the same for all such formulas; ""
        if everything was read.
    """

    tree: Tree
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Formulas read as a whole, and those with a fault by its reason."""

    read: int
    failed: Mapping[str, int]


def failed(reason: str) -> Reading:
    """Returns a formula of which nothing could be read."""
    return Reading(Tree((ERROR,), (-1,), ("",)), reason)


def count(readings: Iterable[Reading]) -> Counts:
    """Returns how many formulas were read, and how many failed for each reason (most frequent first)."""
    reasons = Counter(reading.reason for reading in readings)
    read = reasons.pop("", 0)
    return Counts(read, dict(reasons.most_common()))

"""Results of parsing formulas, with counts of failures, so that no failed formula is dropped silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.formulas.trees.tree import Tree

ERROR = "E!"


@dataclass(frozen=True, slots=True)
class ParsedFormula:
    """Result of parsing a formula.

    Attributes
    ----------
    tree : the tree, even after a failure; a part that could not be parsed is a node `E!`.
    reason : why the formula could not be parsed wholly or in part, in the same words for all such formulas; "" if it
        was parsed completely.
    """

    tree: Tree
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ParseCounts:
    """Numbers of formulas parsed completely, and of failures by reason."""

    read: int
    failed: Mapping[str, int]


def failed(reason: str) -> ParsedFormula:
    """Returns the result for a formula that could not be parsed at all."""
    return ParsedFormula(Tree((ERROR,), (-1,), ("",)), reason)


def count(readings: Iterable[ParsedFormula]) -> ParseCounts:
    """Counts the formulas that were parsed completely, and failures by reason (most frequent first)."""
    reasons = Counter(reading.reason for reading in readings)
    read = reasons.pop("", 0)
    return ParseCounts(read, dict(reasons.most_common()))

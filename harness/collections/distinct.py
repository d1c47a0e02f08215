"""Detection of repeated document ids in 8 bytes an id, however many there are."""

from __future__ import annotations

from array import array

import numpy as np

FEW = 1 << 20  # ids that are kept as they are


class Distinct:
    """Ids seen so far: the ids of a small corpus, hashes of those of a large one.

    A million ids of 15 characters as a set take about 100 MB, their hashes 8 MB. A hash can be that of another id, so
    ids whose hash occurs twice are suspects only.

    Examples
    --------
    >>> ids = Distinct(few=2)
    >>> [ids.add(name) for name in ("a", "a", "b", "b", "c")]
    [False, True, False, False, False]
    >>> ids.suspects() == {hash("b")}
    True
    """

    def __init__(self, few: int = FEW) -> None:
        self._most = few
        self._few: set[str] | None = set()
        self._hashes = array("q")

    def add(self, name: str) -> bool:
        """Adds an id; returns True if it surely was added before, which only the first `few` ids can tell."""
        if self._few is None:
            self._hashes.append(hash(name))
            return False
        if name in self._few:
            return True
        self._few.add(name)
        if len(self._few) == self._most:
            self._hashes.extend(map(hash, self._few))
            self._few = None
        return False

    def suspects(self) -> frozenset[int]:
        """Returns the hashes that were added more than once."""
        if not self._hashes:
            return frozenset()
        ordered = np.sort(np.frombuffer(self._hashes, np.int64))
        return frozenset(ordered[1:][ordered[1:] == ordered[:-1]].tolist())

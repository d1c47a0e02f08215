"""Which posts and formulas are judged anywhere in a collection, without their grades: what training must leave out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.collections.corpus import Document
from harness.collections.load import load_collection
from harness.io.files import sha256
from harness.scoring.protocol import load_protocol


@dataclass(frozen=True)
class Judged:
    """Ids that some edition judges.

    Attributes
    ----------
    documents : ids of documents.
    keys : visual ids of formulas, from collections whose protocol maps formulas to them.
    """

    documents: frozenset[str]
    keys: frozenset[str]

    def holds(self, document: Document) -> bool:
        """Returns whether a document is judged, or holds a formula that looks like a judged one."""
        return document.id in self.documents or any(formula.visual_id in self.keys for formula in document.formulas)

    def digest(self) -> str:
        """Returns a SHA-256 of all ids."""
        return sha256(repr((sorted(self.documents), sorted(self.keys))).encode())


@dataclass(frozen=True)
class JudgedBy:
    """What some collections judge, read when it is asked for: the part of a corpus that is cut to it."""

    collections: tuple[str, ...]

    def read(self) -> Judged:
        """Returns the ids."""
        return judged(self.collections)


def judged(names: Iterable[str]) -> Judged:
    """Returns what the collections of these names judge, in any of their editions, or in that of `COLLECTION/EDITION`.

    Raises
    ------
    HarnessError
        There is no such collection or edition.
    """
    documents: set[str] = set()
    keys: set[str] = set()
    for name in names:
        called, _, only = name.partition("/")
        collection = load_collection(called)
        into = keys if load_protocol(collection.protocol).deduplicate else documents
        for edition in (only,) if only else collection.editions:
            into.update(doc.decode() for doc in collection.qrels(edition).doc.tolist())
    return Judged(frozenset(documents), frozenset(keys))

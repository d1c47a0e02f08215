"""Ids of posts and formulas judged in any edition of a collection, which training must exclude."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.collections.corpus import Document
from harness.collections.load import load_collection
from harness.io.files import sha256
from harness.scoring.protocol import load_protocol


@dataclass(frozen=True)
class JudgedDocuments:
    """Ids judged in at least one edition.

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
    """Documents judged by some collections, read on first use; restricts a corpus to them."""

    collections: tuple[str, ...]

    def read(self) -> JudgedDocuments:
        """Returns the ids."""
        return judged(self.collections)


def judged(names: Iterable[str]) -> JudgedDocuments:
    """Returns the ids judged by collections: in all their editions, or in one edition for `COLLECTION/EDITION`.

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
    return JudgedDocuments(frozenset(documents), frozenset(keys))

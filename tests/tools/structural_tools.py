"""Formulas and indexes of paths made for a test, in temporary folders."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from harness.collections.corpus import Document
from harness.formulas.trees.forest import Forest
from harness.systems.structural import formulas, index
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.index import Index


def encode(documents: Iterable[Document], kind: str, route: str = formulas.OWN) -> Formulas:
    with tempfile.TemporaryDirectory() as folder:
        formulas.write(documents, kind, Path(folder), route)
        return Formulas.load(Path(folder))  # its files stay mapped


def indexed(trees: Forest, height: int, limit: int | None = None) -> Index:
    with tempfile.TemporaryDirectory() as folder:
        index.write(trees, height, Path(folder), limit=limit)
        return Index.load(Path(folder), trees, height)

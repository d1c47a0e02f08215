"""Formulas and indexes of paths made for a test, in temporary folders."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from formula_tools import Nested, tree_from_tuples
from lexical_tools import rows_corpus

from harness.collections.corpus import Corpus, Document
from harness.data.topics import Formula, Topic, Topics
from harness.formulas.trees.forest import Forest
from harness.formulas.trees.tree import Tree, argument_edge
from harness.systems.structural import formulas, index
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.index import PathIndex


def encode(documents: Iterable[Document], kind: str, route: str = formulas.OWN) -> Formulas:
    with tempfile.TemporaryDirectory() as folder:
        formulas.write(documents, kind, Path(folder), route)
        return Formulas.load(Path(folder))  # its files stay mapped


def formula_topics(**latex: Sequence[str]) -> Topics:
    """Topics by id that ask with formulas."""
    return Topics(
        tuple(
            Topic(name, "", formulas=tuple(Formula(f"q{n}", each) for n, each in enumerate(some)))
            for name, some in latex.items()
        )
    )


def formula_corpus(folder: Path, latex: Mapping[str, str]) -> Corpus:
    """A corpus whose documents are formulas."""
    return rows_corpus(folder / "f.jsonl", ({"id": name, "latex": each} for name, each in latex.items()), "id latex")


def posts_corpus(folder: Path, posts: Mapping[str, Sequence[str]]) -> Corpus:
    """A corpus of posts with formulas."""
    rows = [
        {"id": name, "formulas": [{"id": f"{name}.{n}", "latex": latex} for n, latex in enumerate(texts)]}
        for name, texts in posts.items()
    ]
    return rows_corpus(folder / "posts.jsonl", rows, "id formulas")


def indexed(trees: Forest, height: int, limit: int | None = None) -> PathIndex:
    with tempfile.TemporaryDirectory() as folder:
        index.write_path_index(trees, height, Path(folder), limit=limit)
        return PathIndex.load(Path(folder), trees, height)


def sums(terms: int, label: str = "V!x") -> Tree:
    """The sum of a symbol with itself."""
    return Tree(("U!plus", *[label] * terms), (-1, *[0] * terms), ("", *["0"] * terms))


def repeating_trees(number: int, seed: int, most: int = 200) -> list[Tree]:
    """Distinct trees of few symbols, each of which occurs up to `most` times below an operator."""
    rng = random.Random(seed)

    def nested(deep: int) -> Nested:
        parts: list[Nested] = [
            (label, [])
            for label in ("V!x", "V!y", "N!2")
            for _ in range(rng.choice((0, 1, 14, 15, 16, rng.randint(1, most))))
        ]
        parts += [nested(deep - 1) for _ in range(rng.randint(0, 3) if deep else 0)]
        parts = parts or [("V!z", [])]
        rng.shuffle(parts)
        name = rng.choice(("U!plus", "U!times", "O!minus"))
        return name, [(argument_edge(n % 9), part) for n, part in enumerate(parts)]

    found: dict[Tree, None] = {}
    while len(found) < number:
        found[tree_from_tuples(nested(rng.randint(0, 2)))] = None
    return list(found)

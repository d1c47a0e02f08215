"""BM25 with parts of formula trees as words: a baseline for formula search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Annotated

import numpy as np

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees.tree import Tree, tuples
from harness.io import checks, staging_names
from harness.systems.base import Request
from harness.systems.lexical.system import BM25
from harness.systems.structural import formulas, paths
from harness.systems.structural.formulas import Formulas

KINDS = {"operator_paths": "opt", "symbol_pairs": "slt"}
_REMEMBERED = 1 << 16
WINDOW = 2  # maximum edges between the symbols of a pair


@dataclass(frozen=True)
class TreeBM25(checks.Checked):
    """BM25 (k1 = 1.2, b = 0.75) over parts of trees, for corpora in which each document is one formula.

    Parameters
    ----------
    pieces : parts that serve as words: `operator_paths`, paths with symbols from each leaf of the operator tree to all
        its ancestors; or `symbol_pairs`, pairs of symbols of the layout tree at most two edges apart, with end marks.
    """

    pieces: Annotated[str, partial(checks.choice, known=KINDS)] = "operator_paths"
    depth: checks.Positive = 1000
    name: str = "bm25-trees"

    def __call__(self, request: Request) -> Run:
        """Ranks the formulas of the corpus; those without a tree are not returned.

        Raises HarnessError if a document of the corpus is not one formula.
        """
        corpus, kind = request.corpus_for(self.name), KINDS[self.pieces]
        asked, known = formulas.queries(request.topics, corpus, kind), formulas.read(corpus, kind)
        if (np.diff(known.start) != 1).any():
            fault = "a document with none or several of them"
            raise HarnessError(f"system {self.name}: expected a corpus of formulas; {corpus.name} has {fault}")
        path = request.workspace / f"{self.name}-{corpus.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with staging_names.opened(path) as (made_in, stream):
            for line in _lines(known, kind):
                stream.write(line)
            stream.flush()
            made_in.replace(path)
        made = Corpus(self.name, self.name, "", path, (("id", "id"), ("body", "body")))
        topics = Topics(tuple(Topic(topic, " ".join(words(t, kind) for t in trees)) for topic, trees in asked.items()))
        view = {"name": "whitespace", "lower": False}
        system = BM25(view=view, query={"title": 1}, document={"body": 1}, depth=self.depth, name=self.name)
        return system(replace(request, topics=topics, corpus=made))


def _lines(known: Formulas, kind: str) -> Iterator[bytes]:
    """Yields each formula as a line of a corpus; the words of the trees that occur most often are made once."""

    @lru_cache(_REMEMBERED)
    def text(number: int) -> str:
        return words(known.trees[number], kind) if number >= 0 else ""

    for row in range(len(known.ids)):
        yield json.dumps({"id": known.ids[row].decode(), "body": text(int(known.tree[row]))}).encode() + b"\n"


def words(tree: Tree, kind: str) -> str:
    """Returns the parts of a tree as words: hashes of paths (`opt`), or pairs of symbols (`slt`)."""
    if kind == "opt":
        own = forest.pack([tree])
        tree_paths = paths.paths(own, paths.Codes.of(own), np.zeros(1, np.int64), 0, full=True)
        return " ".join(f"{number:x}" for number in tree_paths.symbol[tree_paths.leaf[tree_paths.node]].tolist())
    return " ".join("\t".join(each).replace(" ", "_").replace("\t", "|") for each in tuples(tree, WINDOW, ends=True))

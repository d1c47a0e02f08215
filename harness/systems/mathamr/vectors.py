"""Document vectors from a trained model, kept in the store under the model, the corpus and the parser.

This module does not depend on search, so that a change of the search does not cause re-encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.errors import HarnessError
from harness.io.console import log_line
from harness.store import artefacts, code
from harness.systems import hardware
from harness.systems.dense import maxsim
from harness.systems.mathamr.encoder.pack import Pack, encode_posts, write_pack
from harness.systems.mathamr.graphs import build, data
from harness.systems.mathamr.graphs.graph import Graph, restrict_graph
from harness.systems.mathamr.model import ModelRecipe, Trained

PACK, TYPES = "graphs.pack", "types.npy"  # temporary pack of graphs; types of all documents' vectors
TOGETHER = 1 << 14  # graphs encoded before their vectors are written


def identities(posts: Sequence[str]) -> list[dict[str, Any]] | None:
    """Returns the identities of the corpora that contain the formulas; None if posts are ranked."""
    return [load_corpus(name).identity() for name in posts] or None


def of_documents(recipe: ModelRecipe, corpus: Corpus, trained: Trained, posts: Sequence[str] = ()) -> Path:
    """Returns the folder of document vectors; encodes them if they are not in the store.

    Parameters
    ----------
    posts : to rank formulas: the corpus of the answers that contain them, and one of unanswered questions if wanted.

    Raises
    ------
    HarnessError
        A package, weights, a GPU or memory are missing, or formulas are to be ranked and no document is a formula.
    """
    spec = {
        "model": trained.digest,
        "corpus": corpus.identity(),
        "posts": identities(posts),
        "task": "formulas" if posts else "posts",
        "code": code.of(__name__),
        "arithmetic": hardware.arithmetic(recipe.runs_on),
    }

    def make(folder: Path) -> None:
        if not posts:
            items = build.read_graphs(data.graphs(corpus, "answers", recipe.sentences, workers=recipe.cores))
            pack, vectors = _encoded(recipe, items, trained, folder)
            single = recipe.structure != "none"
            named = zip(pack.ids, vectors, strict=True)
            maxsim.write_vectors(((name, rows, len(rows) - 1 if single else -1, "") for name, rows in named), folder)
            np.save(folder / TYPES, np.concatenate([item.types for item in pack]))
        else:
            answers, *unanswered = map(load_corpus, posts)
            column = recipe.sources.get(posts[0], "question")
            items = data.post_graphs(answers, recipe.sentences, column, recipe.cores, *unanswered)
            wanted = {document.id: document.columns.get("post", "") for document in corpus}
            formulas = _of_formulas(*_encoded(recipe, items, trained, folder), wanted)
            first = next(formulas, None)
            if first is None:
                said = f"no document of corpus {corpus.name} is a formula of the posts of {posts[0]}"
                raise HarnessError(f"key 'task' is 'formulas', but {said}; take a corpus of their formulas")
            count = maxsim.write_vectors(chain([first], formulas), folder, posts=True)
            log_line(f"corpus {corpus.name}: {count:,} of {len(wanted):,} formulas found in graphs")
        (folder / PACK).unlink()

    return artefacts.get_or_build("mathamr-vectors", spec, make)


def _encoded(
    recipe: ModelRecipe, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path
) -> tuple[Pack, Iterator[Any]]:
    """Packs graphs; returns the pack, and the vectors of each graph in order: float32, shape (vectors, out)."""
    restricted = ((name, restrict_graph(graph, recipe.formulas)) for name, graph in items)
    encoded = encode_posts(restricted, trained.vocabulary, recipe.structure, recipe.auxiliary)
    for name, reason in write_pack(folder / PACK, encoded, keep_going=True):
        log_line(f"left out: {name}: {reason}")
    pack = Pack(folder / PACK)
    return pack, _vectors(recipe, pack, trained)


def _vectors(recipe: ModelRecipe, pack: Pack, trained: Trained) -> Iterator[Any]:
    """Encodes the graphs of a pack, some at a time, so that memory does not grow with their number."""
    from harness.systems.mathamr.training import trainer as training

    for begin in range(0, len(pack), TOGETHER):
        numbers = range(begin, min(begin + TOGETHER, len(pack)))
        tensors = training.encode(trained.model, pack, numbers, trained.model.settings, recipe.runs_on)
        yield from (tensor.numpy() for tensor in tensors)


def _of_formulas(pack: Pack, vectors: Iterator[Any], wanted: Mapping[str, str]) -> Iterator[tuple[str, Any, int, str]]:
    """Yields id, vector of shape (1, out), 0 and post of each formula of the corpus; of duplicates, the first."""
    seen: set[str] = set()
    for number, rows in enumerate(vectors):
        for place, name in enumerate(pack.formula_ids(number)):
            if name in wanted and name not in seen:
                seen.add(name)
                yield name, rows[place : place + 1], 0, wanted[name] or pack.ids[number]

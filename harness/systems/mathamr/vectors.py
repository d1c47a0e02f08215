"""Document vectors from a trained model, kept in the store under the model, the corpus and the parser.

This module does not depend on search, so that a change of the search does not cause re-encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from harness.systems.mathamr.model import Trained

if TYPE_CHECKING:
    from harness.systems.mathamr.configured import Configured


PACK, TYPES = "graphs.pack", "types.npy"  # temporary pack of graphs; types of all documents' vectors
TOGETHER = 1 << 14  # graphs encoded before their vectors are written


def posts_read(system: Configured) -> list[dict[str, Any]] | None:
    """Returns the identities of the corpora that contain the formulas; None if posts are ranked."""
    if system.task != "formulas":
        return None
    return [load_corpus(name).identity() for name in (system.posts, system.unanswered) if name]


def of_documents(system: Configured, corpus: Corpus, trained: Trained) -> Path:
    """Returns the folder of document vectors; encodes them if they are not in the store.

    Raises
    ------
    HarnessError
        A package, weights, a GPU or memory are missing, or formulas are to be ranked and no document is a formula.
    """
    spec = {
        "model": trained.digest,
        "corpus": corpus.identity(),
        "posts": posts_read(system),
        "task": system.task,
        "code": code.of(__name__),
        "arithmetic": hardware.arithmetic(system.runs_on),
    }

    def make(folder: Path) -> None:
        if system.task == "posts":
            graph_folder = data.graphs(corpus, "answers", system.sentences, workers=system.cores)
            items = build.read_graphs(graph_folder)
            maxsim.write_vectors(_of_posts(system, items, trained, folder), folder)
            pack = Pack(folder / PACK)
            np.save(folder / TYPES, np.concatenate([item.types for item in pack]))
        else:
            column = system.sources.get(system.posts, "question")
            others = None if system.unanswered is None else load_corpus(system.unanswered)
            of = (load_corpus(system.posts), system.sentences, column, system.cores, others)
            items = data.post_graphs(*of)
            wanted = {document.id: document.columns.get("post", "") for document in corpus}
            rows = _of_formulas(system, items, trained, folder, wanted)
            first = next(rows, None)
            if first is None:
                said = f"no document of corpus {corpus.name} is a formula of the posts of {system.posts}"
                raise HarnessError(f"key 'task' is 'formulas', but {said}; take a corpus of their formulas")
            count = maxsim.write_vectors(chain([first], rows), folder, posts=True)
            log_line(f"corpus {corpus.name}: {count:,} of {len(wanted):,} formulas found in graphs")
        (folder / PACK).unlink()

    return artefacts.get_or_build("mathamr-vectors", spec, make)


def _encoded(
    system: Configured, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path
) -> tuple[Pack, Iterator[Any]]:
    """Packs graphs; returns the pack, and the vectors of each graph in order: float32, shape (vectors, out)."""
    restricted = ((name, restrict_graph(graph, system.formulas)) for name, graph in items)
    encoded = encode_posts(restricted, trained.vocabulary, system.structure, system.auxiliary)
    written = write_pack(folder / PACK, encoded, keep_going=True)
    for name, reason in written.refused:
        log_line(f"left out: {name}: {reason}")
    pack = Pack(folder / PACK)
    return pack, _vectors(system, pack, trained)


def _vectors(system: Configured, pack: Pack, trained: Trained) -> Iterator[Any]:
    """Encodes the graphs of a pack, some at a time, so that memory does not grow with their number."""
    from harness.systems.mathamr.training import trainer as training

    for begin in range(0, len(pack), TOGETHER):
        numbers = list(range(begin, min(begin + TOGETHER, len(pack))))
        tensors = training.encode(trained.model, pack, numbers, trained.model.settings, system.runs_on)
        yield from (tensor.numpy() for tensor in tensors)


def _of_posts(
    system: Configured, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path
) -> Iterator[tuple[str, Any, int, str]]:
    """Yields id, vectors, single vector and no post of each post."""
    pack, vectors = _encoded(system, items, trained, folder)
    single = system.structure != "none"
    for name, rows in zip(pack.ids, vectors, strict=True):
        yield name, rows, len(rows) - 1 if single else -1, ""


def _of_formulas(
    system: Configured, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path, wanted: Mapping[str, str]
) -> Iterator[tuple[str, Any, int, str]]:
    """Yields id, vector of shape (1, out), 0 and post of each formula of the corpus; of duplicates, the first."""
    pack, vectors = _encoded(system, items, trained, folder)
    seen: set[str] = set()
    for number, rows in enumerate(vectors):
        for place, name in enumerate(pack.formula_ids(number)):
            if name in wanted and name not in seen:
                seen.add(name)
                yield name, rows[place : place + 1], 0, wanted[name] or pack.ids[number]

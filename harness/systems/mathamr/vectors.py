"""The vectors of documents: encoded by a trained model, and kept by the store under it, the corpus and the parser.

Nothing here knows of search, so that a change there encodes nothing again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.errors import HarnessError
from harness.io.console import say
from harness.store import artefacts, code
from harness.systems import hardware
from harness.systems.dense import maxsim
from harness.systems.mathamr.encoder.pack import Pack, encode_posts, write
from harness.systems.mathamr.graphs import build, data
from harness.systems.mathamr.graphs.graph import Graph, restrict
from harness.systems.mathamr.model import Trained

if TYPE_CHECKING:
    from harness.systems.mathamr.configured import Configured


PACK, TYPES = "graphs.pack", "types.npy"  # the graphs while they are made, the types of each document's vectors


def posts_read(system: Configured) -> list[dict[str, Any]] | None:
    """Returns what decides the posts that formulas stand in; None where posts are ranked."""
    if system.task != "formulas":
        return None
    return [load_corpus(name).identity() for name in (system.posts, system.unanswered) if name]


def of_documents(system: Configured, corpus: Corpus, trained: Trained, workspace: Path) -> Path:
    """Returns the folder of the documents' vectors; made if the store has none.

    Raises
    ------
    HarnessError
        A package, weights, a GPU or memory are missing; formulas are to be ranked, and no document is one.
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
            found = data.graphs(corpus, "answers", system.sentences, workspace, workers=system.cores)
            items = build.read_graphs(found)
            maxsim.stack(_of_posts(system, items, trained, folder)).save(folder)
            pack = Pack(folder / PACK)
            np.save(folder / TYPES, np.concatenate([item.types for item in pack]))
        else:
            column = system.sources.get(system.posts, "question")
            others = None if system.unanswered is None else load_corpus(system.unanswered)
            of = (load_corpus(system.posts), system.sentences, workspace, column, system.cores, others)
            items = data.post_graphs(*of)
            wanted = {document.id: document.columns.get("post", "") for document in corpus}
            rows = list(_of_formulas(system, items, trained, folder, wanted))
            say(f"corpus {corpus.name}: {len(rows):,} of {len(wanted):,} formulas found in graphs")
            if not rows:
                said = f"no document of corpus {corpus.name} is a formula of the posts of {system.posts}"
                raise HarnessError(f"key 'task' is 'formulas', but {said}; take a corpus of their formulas")
            maxsim.stack(((name, row, 0) for name, row, _ in rows), [post for _, _, post in rows]).save(folder)
        (folder / PACK).unlink()

    return artefacts.get_or_build("mathamr-vectors", spec, make)


def _encoded(
    system: Configured, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path
) -> tuple[Pack, list[Any]]:
    """Returns a pack of graphs, and the vectors of each: float32, shape (vectors, out)."""
    from harness.systems.mathamr.training import trainer as training

    restricted = ((name, restrict(graph, system.formulas)) for name, graph in items)
    encoded = encode_posts(restricted, trained.vocabulary, system.structure, system.auxiliary)
    written = write(folder / PACK, encoded, keep_going=True)
    for name, reason in written.refused:
        say(f"left out: {name}: {reason}")
    pack = Pack(folder / PACK)
    tensors = training.encode(trained.model, pack, list(range(len(pack))), trained.model.settings, system.runs_on)
    return pack, [tensor.numpy() for tensor in tensors]


def _of_posts(
    system: Configured, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path
) -> Iterator[tuple[str, Any, int]]:
    pack, vectors = _encoded(system, items, trained, folder)
    single = system.structure != "none"
    for name, rows in zip(pack.ids, vectors, strict=True):
        yield name, rows, len(rows) - 1 if single else -1


def _of_formulas(
    system: Configured, items: Iterator[tuple[str, Graph]], trained: Trained, folder: Path, wanted: Mapping[str, str]
) -> Iterator[tuple[str, Any, str]]:
    """Id, vector of shape (1, out) and post of each formula of the corpus; of one that stands twice the first."""
    pack, vectors = _encoded(system, items, trained, folder)
    seen: set[str] = set()
    for number, rows in enumerate(vectors):
        for place, name in enumerate(pack.formula_ids(number)):
            if name in wanted and name not in seen:
                seen.add(name)
                yield name, rows[place : place + 1], wanted[name] or pack.ids[number]

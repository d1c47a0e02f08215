"""Candidates for MaxSim from a PLAID index, by the package fast-plaid, the engine of PyLate.

PLAID clusters token vectors and stores each as its cluster and a quantised residual (Santhanam et al. 2022). Its scores
are approximate: the candidates it returns are scored again by exact MaxSim.
"""

from __future__ import annotations

import importlib
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.io import staged
from harness.store import artefacts
from harness.systems.dense.maxsim import Rows, Vectors
from harness.systems.dense.search import Hits, Query, best_among

PACKAGE = "fast-plaid"
BITS = 4  # of a dimension of a residual
SEED = 42  # of the clustering


@dataclass(frozen=True, eq=False)
class Plaid:
    """A PLAID index.

    Attributes
    ----------
    index : the package's index.
    documents : int64, shape (indexed,). Rows of the documents with vectors, which PLAID numbers from 0.
    size : bytes of its files.
    """

    index: Any
    documents: Rows
    size: int

    def search(self, queries: Sequence[Query], vectors: Vectors, k: int, candidates: int | None = None) -> list[Hits]:
        """Returns the best k of the documents that PLAID ranks first, by exact MaxSim.

        Parameters
        ----------
        vectors : the vectors that the index was made from.
        candidates : number of documents that PLAID ranks; None for 2 k.
        """
        import torch

        most = min(candidates or 2 * k, self.documents.size)
        asked = [torch.from_numpy(np.array(query.values, np.float32)) for query in queries]
        ranked = self.index.search(
            queries_embeddings=asked, top_k=most, n_full_scores=max(4096, 4 * most), show_progress=False
        )
        rows = [self.documents[np.array([row for row, _ in found], np.int64)] for found in ranked]
        return [best_among(query, vectors, np.sort(some), k) for query, some in zip(queries, rows, strict=True)]


def check(_: str = "plaid") -> None:
    """Raises HarnessError if the package is missing, or does not fit the installed PyTorch."""
    if lines := missing():
        raise HarnessError(lines[0])


def missing() -> list[str]:
    """Returns what is missing for a PLAID index, one line each."""
    try:
        version = metadata.version(PACKAGE)
        torch = metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        return [f"{PACKAGE} is not installed: pip install 'mathir-harness[plaid]'"]
    # The compiled module is made for one PyTorch: the last number of the version, 2110 for 2.11.0. With another one it
    # ends the process without an error.
    built = version.rpartition(".")[2]
    if len(built) < 3:
        return [f"{PACKAGE} {version} does not say for which PyTorch it is built; take a version such as 1.4.6.2110"]
    if torch.replace(".", "") != built:
        wanted = f"{built[0]}.{built[1:-1]}.{built[-1]}"
        return [
            f"{PACKAGE} {version} is built for PyTorch {wanted}, and {torch} is installed; take an environment of both"
        ]
    try:
        importlib.import_module("fast_plaid.search")
    except ImportError as error:
        return [f"{PACKAGE} {version} cannot be loaded: {str(error).splitlines()[0][:120]}"]
    return []


@contextmanager
def kept(vectors: Vectors, folder: Path) -> Iterator[Plaid]:
    """Opens the PLAID index of vectors that are stored as an artifact; builds it if the store has none.

    It is a temporary copy, because the package writes to an index that it searches.

    Parameters
    ----------
    folder : folder of the vectors' artifact.

    Raises
    ------
    HarnessError
        The package is missing, or the disk is full.
    """
    check()
    rows = np.flatnonzero(np.diff(vectors.start) > 0)
    spec = {"vectors": folder.name, PACKAGE: metadata.version(PACKAGE), "bits": BITS, "seed": SEED}
    at = artefacts.get_or_build("plaid-index", spec, lambda made: _build(vectors, rows, made))
    size = sum(path.stat().st_size for path in at.rglob("*") if path.is_file())
    with staged.folder("harness-plaid") as copy:
        shutil.copytree(at, copy, dirs_exist_ok=True)
        yield Plaid(_opened(copy), rows, size)


def _build(vectors: Vectors, rows: Rows, folder: Path) -> None:
    import torch

    parts = [
        torch.from_numpy(vectors.take(np.arange(vectors.start[row], vectors.start[row + 1]))) for row in rows.tolist()
    ]
    _opened(folder).create(documents_embeddings=parts, nbits=BITS, seed=SEED)


def _opened(folder: Path) -> Any:  # noqa: ANN401
    plaid = importlib.import_module("fast_plaid.search")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plaid.FastPlaid(index=str(folder), device="cpu")

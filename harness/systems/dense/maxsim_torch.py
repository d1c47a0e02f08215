"""Exact MaxSim with PyTorch, for GPUs; also runs on the CPU.

Documents are padded in blocks as in `maxsim` and copied to the device once. The module imports torch, which is slow, so
it should be imported only when needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from typing import ParamSpec, TypeVar

import numpy as np
import torch

from harness.errors import HarnessError
from harness.systems.dense.maxsim import Floats32, Rows, Vectors, blocks, padded, queries_of, query_ranges
from harness.systems.dense.search import Rough

GROUP = 1 << 19  # vectors of a block, padded
WIDTH = 512  # query vectors of one matrix product: with GROUP, 1 GiB of products in float32
_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True, eq=False)
class DeviceBlock:
    """A block of documents with similar numbers of vectors, on the device.

    Attributes
    ----------
    rows : int64, shape (documents,). Rows of the documents.
    values : shape (longest x documents, dimensions). Vector i of document j in row i x documents + j.
    """

    rows: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True, eq=False)
class Resident:
    """The vectors of documents on a device.

    Attributes
    ----------
    place : int64, shape (documents,), in main memory. Rank of each document in ties.
    """

    place: Rows
    dimensions: int
    groups: tuple[DeviceBlock, ...]
    device: torch.device


def _memory_checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Makes a function report that the device's memory is too small as a `HarnessError` that names remedies."""

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except torch.OutOfMemoryError:
            remedy = "use fewer topics in a batch (key 'together'), or NumPy (key 'maxsim')"
            raise HarnessError(f"MaxSim: the device has not enough memory; {remedy}") from None

    return checked


def device_of(name: str) -> torch.device:
    """Returns a device by name, such as `cpu` or `cuda`; raises HarnessError if there is no such device."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise HarnessError(f"key 'device' is {name!r}: this machine or this PyTorch has no such device") from None
    return device


@_memory_checked
def resident(vectors: Vectors, device: str = "cuda", group: int = GROUP) -> Resident:
    """Copies vectors to a device.

    Parameters
    ----------
    group : maximum vectors of a block; with `WIDTH` it bounds the memory for inner products.

    Raises
    ------
    HarnessError
        There is no such device, or it has too little memory.
    """
    target = device_of(device)
    lengths = np.diff(vectors.start)
    groups = []
    for rows in blocks(lengths, group):
        values = torch.from_numpy(vectors.take(padded(vectors.start[rows], lengths[rows]).ravel())).to(target)
        groups.append(DeviceBlock(torch.from_numpy(rows).to(target), values))
    return Resident(vectors.place, vectors.dimensions, tuple(groups), target)


def rough(vectors: Vectors, device: str, *, mean: bool = False) -> Rough:
    """Returns a function for the parameter `rough` of `search.search` that computes float32 scores on a device."""
    held = resident(vectors, device)
    return lambda queries: scores(queries, held, mean=mean).cpu().numpy()


@_memory_checked
@torch.inference_mode()
def scores(queries: Sequence[Floats32], documents: Resident, *, mean: bool = False) -> torch.Tensor:
    """Returns exact MaxSim scores on the device, float32, shape (queries, documents).

    The score of a document without vectors is minus infinity.

    Raises
    ------
    HarnessError
        A query has no vectors or another number of dimensions; the device's memory is too small.
    """
    table, start = queries_of(queries, documents.dimensions)
    out = torch.full((len(queries), len(documents.place)), -torch.inf, device=documents.device)
    chunks = []
    for a, b in query_ranges(start, WIDTH):
        chunk = torch.from_numpy(table[start[a] : start[b]].T).to(documents.device)
        chunks.append((a, (start[a : b + 1] - start[a]).tolist(), chunk))
    for group in documents.groups:
        for a, edges, chunk in chunks:
            best = (group.values @ chunk).view(-1, len(group.rows), chunk.shape[1]).amax(0)
            # Summed in float64: the error of a float32 sum would grow with the number of query vectors.
            for number, (begin, end) in enumerate(pairwise(edges), a):
                total = best[:, begin:end].sum(1, dtype=torch.float64)
                out[number, group.rows] = (total / (end - begin) if mean else total).float()
    return out

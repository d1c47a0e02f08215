"""Losses: binary cross-entropy for judged pairs, and the multiple-negatives ranking loss with in-batch negatives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

Ints = npt.NDArray[np.int64]


def binary_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Returns the mean of -(y log s(x) + (1 - y) log(1 - s(x))), where s is the logistic function.

    Parameters
    ----------
    logits, labels : shape (pairs,). Labels from 0 to 1.

    Examples
    --------
    >>> round(binary_cross_entropy(torch.zeros(2), torch.tensor([1.0, 0.0])).item(), 4)
    0.6931
    """
    return functional.binary_cross_entropy_with_logits(logits, labels)


def multiple_negatives_ranking(
    queries: torch.Tensor, documents: torch.Tensor, out: torch.Tensor, scale: float = 20.0
) -> torch.Tensor:
    """Returns the mean cross-entropy of each query's own document among the documents of the batch, by scaled cosines.

    Parameters
    ----------
    queries, documents : shape (pairs, dimensions). Row i of `documents` belongs to row i of `queries`.
    out : bool, shape (pairs, pairs). True where a document must not serve as a negative for a query, such as another
        answer to it; false on the diagonal.
    """
    cosines = functional.normalize(queries, dim=1) @ functional.normalize(documents, dim=1).T
    scores = (scale * cosines).masked_fill(out, -torch.inf)
    return functional.cross_entropy(scores, torch.arange(len(queries), device=queries.device))


def excluded(query: Ints, document: Ints, known: frozenset[tuple[int, int]] = frozenset()) -> npt.NDArray[np.bool_]:
    """Returns which documents of a batch must not serve as negatives for which query, shape (pairs, pairs).

    Excluded are documents of the same query, duplicates of the query's own document, and documents known to be
    relevant to the query.

    Parameters
    ----------
    query, document : shape (pairs,). Indices of texts; equal texts have equal indices.
    known : relevant (query, document) pairs.
    """
    same: npt.NDArray[np.bool_] = query[:, None] == query[None, :]
    same |= document[:, None] == document[None, :]
    if known:
        same |= np.array([[(q, d) in known for d in document.tolist()] for q in query.tolist()])
    np.fill_diagonal(same, False)
    return same

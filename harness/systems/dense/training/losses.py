"""What is minimised: binary cross-entropy of judged pairs, and the ranking of a query's own document in its batch."""

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
    """Returns the mean cross-entropy of each query's own document among all of the batch, by scaled cosines.

    Parameters
    ----------
    queries, documents : shape (pairs, dimensions). Documents in the order of the queries they belong to.
    out : bool, shape (pairs, pairs). Which documents are no negatives of which query, such as other answers to it; its
        diagonal is false.
    """
    cosines = functional.normalize(queries, dim=1) @ functional.normalize(documents, dim=1).T
    scores = (scale * cosines).masked_fill(out, -torch.inf)
    return functional.cross_entropy(scores, torch.arange(len(queries), device=queries.device))


def excluded(query: Ints, document: Ints, known: frozenset[tuple[int, int]] = frozenset()) -> npt.NDArray[np.bool_]:
    """Returns which of a batch's documents are no negatives of which query, shape (pairs, pairs).

    Those of the same question, duplicates of its own document, and any document known to be relevant to it.

    Parameters
    ----------
    query, document : shape (pairs,). Numbers of texts; equal texts have equal numbers.
    known : relevant pairs.
    """
    same: npt.NDArray[np.bool_] = query[:, None] == query[None, :]
    same |= document[:, None] == document[None, :]
    if known:
        same |= np.array([[(q, d) in known for d in document.tolist()] for q in query.tolist()])
    np.fill_diagonal(same, False)
    return same

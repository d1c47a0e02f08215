"""Contrastive loss over the MaxSim of sets of vectors (MathAMR+, equations 3.4-3.8, 4.1 and 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from harness.errors import HarnessError
from harness.systems.mathamr.encoder.batch import Batch

LEAST = -1.0  # similarity to a document without vectors: the least that a cosine can be


def maxsim(q: Tensor, q_mask: Tensor, d: Tensor, d_mask: Tensor, normalise: bool = True) -> Tensor:
    """MaxSim of each query with each document (equations 3.4, 3.5 and, normalised, 3.7).

    Parameters
    ----------
    q, d : shape (queries, k, p) and (documents, l, p). Vectors of length 1, padded with anything.
    q_mask, d_mask : bool, shape (queries, k) and (documents, l). False for padding.
    normalise : divide by the number of the query's vectors.

    Returns
    -------
    Shape (queries, documents). A query without vectors scores 0; a document without vectors is as unlike as can be.
    """
    rows = q[q_mask]
    similarity = (rows @ d.reshape(-1, d.shape[2]).T).view(len(rows), *d_mask.shape)
    # In place: the product's gradient does not need its result. Minus infinity, since all similarities may be negative.
    best = similarity.masked_fill_(~d_mask, -torch.inf).max(dim=2).values
    best = torch.where(d_mask.any(dim=1), best, LEAST)
    owner = q_mask.nonzero()[:, 0]
    total = best.new_zeros(len(q), len(d)).index_add(0, owner, best)
    return total / q_mask.sum(dim=1, keepdim=True).clamp(min=1) if normalise else total


def info_nce(scores: Tensor, temperature: Tensor | float, excluded: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of each query's own document among the batch's (equation 3.6).

    Parameters
    ----------
    scores : shape (b, b). The i-th document is the i-th query's.
    excluded : bool, shape (b, b). Documents that are no negatives of a query, such as other answers of its question;
        its own document counts whatever the diagonal says.
    """
    logits = scores / temperature
    own = torch.arange(len(scores), device=scores.device)
    if excluded is not None:
        others = excluded & (own[:, None] != own[None, :])
        logits = logits.masked_fill(others, -torch.inf)
    return functional.cross_entropy(logits, own)


def document_vectors(vectors: Tensor, batch: Batch) -> Tensor:
    """The document's (or global) vector of each graph, shape (g, p).

    Raises
    ------
    HarnessError
        A graph has none.
    """
    if bool((batch.document < 0).any()):
        raise HarnessError("graphs without a document vector: beta must be 1 with structure 'none'")
    return vectors[torch.arange(len(vectors), device=vectors.device), batch.document]


def objective(
    vectors: Tensor,
    batch: Batch,
    queries: int,
    temperature: Tensor | float,
    beta: float = 1.0,
    normalise: bool = True,
    excluded: Tensor | None = None,
) -> Tensor:
    """beta times the loss of MaxSim plus 1 - beta times that of the document vectors (equation 4.2).

    What has no weight is not computed.

    Parameters
    ----------
    vectors : shape (2b, k, p). What the model gives for the batch: b queries, then their b documents.
    queries : b.
    excluded : as of `info_nce`.

    Raises
    ------
    HarnessError
        beta is not from 0 to 1, the halves differ in size, or beta is below 1 and a graph has no document vector.
    """
    if not 0 <= beta <= 1:
        raise HarnessError(f"key 'beta' is {beta!r}, expected a number from 0 to 1")
    if len(vectors) != 2 * queries:
        raise HarnessError(f"{len(vectors)} graphs are not {queries} queries and as many documents")
    parts = []
    if beta > 0:
        q, d = vectors[:queries], vectors[queries:]
        scores = maxsim(q, batch.mask[:queries], d, batch.mask[queries:], normalise)
        parts.append((beta, info_nce(scores, temperature, excluded)))
    if beta < 1:
        single = document_vectors(vectors, batch)
        parts.append((1 - beta, info_nce(single[:queries] @ single[queries:].T, temperature, excluded)))
    if len(parts) == 1:
        return parts[0][1]
    return parts[0][0] * parts[0][1] + parts[1][0] * parts[1][1]

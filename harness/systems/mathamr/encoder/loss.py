"""Contrastive loss over MaxSim scores (MathAMR+, equations 3.4-3.8, 4.1 and 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from harness.systems.mathamr.encoder.batch import Batch

TEACHER = 0.05  # temperature of a teacher's similarities, equal to that of the untrained model
LEAST = -1.0  # similarity to a document without vectors: the minimum of a cosine


def maxsim(q: Tensor, q_mask: Tensor, d: Tensor, d_mask: Tensor, normalise: bool = True) -> Tensor:
    """Returns the MaxSim score of each query with each document (equations 3.4, 3.5 and, normalised, 3.7).

    Parameters
    ----------
    q, d : shape (queries, k, p) and (documents, l, p). Unit vectors; padding may hold any value.
    q_mask, d_mask : bool, shape (queries, k) and (documents, l). False for padding.
    normalise : divide by the number of the query's vectors.

    Returns
    -------
    Shape (queries, documents). A query without vectors scores 0; a document without vectors has similarity LEAST.
    """
    rows = q[q_mask]
    places = torch.arange(1, d_mask.shape[1] + 1, device=d_mask.device)
    lengths = (d_mask * places).amax(dim=1).tolist()
    # Documents of similar length are compared together, so that a long one does not pad all others.
    blocks: dict[int, list[int]] = {}
    for number, length in enumerate(lengths):
        blocks.setdefault(min(1 << max(length - 1, 0).bit_length(), d.shape[1]), []).append(number)
    parts = []
    for width, numbers in blocks.items():
        chosen = torch.tensor(numbers, device=d.device)
        vectors, real = d[:, :width].index_select(0, chosen), d_mask[chosen, :width]
        similarity = (rows @ vectors.flatten(0, 1).T).view(len(rows), len(numbers), width)
        # In place, because the gradient of a product does not need its result. Padding becomes minus infinity, because
        # all real similarities may be negative.
        parts.append(similarity.masked_fill_(~real, -torch.inf).max(dim=2).values)
    order = torch.tensor([number for numbers in blocks.values() for number in numbers], device=d.device)
    best = torch.cat(parts, dim=1).index_select(1, torch.argsort(order))
    best = torch.where(d_mask.any(dim=1), best, LEAST)
    owner = q_mask.nonzero()[:, 0]
    total = best.new_zeros(len(q), len(d)).index_add(0, owner, best)
    return total / q_mask.sum(dim=1, keepdim=True).clamp(min=1) if normalise else total


def info_nce(scores: Tensor, temperature: Tensor | float, excluded: Tensor | None = None) -> Tensor:
    """Returns the mean cross-entropy of each query's own document among those of the batch (equation 3.6).

    Parameters
    ----------
    scores : shape (b, d), d >= b. Document i belongs to query i; documents after the b-th belong to no query.
    excluded : bool, shape (b, d). Documents that are not negatives of a query, such as other answers to its question.
        The diagonal is ignored: a query's own document is never excluded.
    """
    logits = scores / temperature
    own = torch.arange(len(scores), device=scores.device)
    if excluded is not None:
        others = excluded & (own[:, None] != torch.arange(scores.shape[1], device=scores.device)[None, :])
        logits = logits.masked_fill(others, -torch.inf)
    return functional.cross_entropy(logits, own)


def objective(
    vectors: Tensor,
    batch: Batch,
    queries: int,
    temperature: Tensor | float,
    beta: float = 1.0,
    normalise: bool = True,
    excluded: Tensor | None = None,
) -> Tensor:
    """Returns beta times the MaxSim loss plus 1 - beta times the loss of the document vectors (equation 4.2).

    A term with weight 0 is not computed.

    Parameters
    ----------
    vectors : shape (2b or more, k, p). The model's output for the batch: b queries, their b documents, then documents
        that belong to no query.
    queries : b.
    excluded : as in `info_nce`.
    """
    parts = []
    if beta > 0:
        q, d = vectors[:queries], vectors[queries:]
        scores = maxsim(q, batch.mask[:queries], d, batch.mask[queries:], normalise)
        parts.append((beta, info_nce(scores, temperature, excluded)))
    if beta < 1:
        single = vectors[torch.arange(len(vectors), device=vectors.device), batch.document]
        parts.append((1 - beta, info_nce(single[:queries] @ single[queries:].T, temperature, excluded)))
    return parts[0][1] if len(parts) == 1 else parts[0][0] * parts[0][1] + parts[1][0] * parts[1][1]


def formula_loss(vectors: Tensor, keys: Tensor, queries: int, temperature: Tensor | float) -> Tensor | None:
    """Returns the contrastive loss that pulls query formulas towards document formulas with equal keys.

    For each query formula, the loss is minus the log of the softmax mass of the matching document formulas among all
    document formulas. The mean is over query formulas with at least one match and one mismatch; None without any.

    Parameters
    ----------
    vectors : shape (g, k, p). The model's output for the batch: queries, then documents.
    keys : int64, shape (g, k). Equal for formulas with the same nodes; -1 for vectors that are not formulas.
    """
    asked, in_documents = keys[:queries], keys[queries:]
    left, right = asked[asked >= 0], in_documents[in_documents >= 0]
    alike = left[:, None] == right[None, :]
    some = alike.any(dim=1) & ~alike.all(dim=1)
    if not bool(some.any()):
        return None
    scores = vectors[:queries][asked >= 0][some] @ vectors[queries:][in_documents >= 0].T / temperature
    likes = scores.masked_fill(~alike[some], -torch.inf)
    return (scores.logsumexp(dim=1) - likes.logsumexp(dim=1)).mean()


def divergence(scores: Tensor, temperature: Tensor | float, teacher: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Returns the mean Kullback-Leibler divergence of a query's distribution over documents from the teacher's.

    Parameters
    ----------
    scores, teacher : shape (b, d). Similarities; the teacher's use the temperature TEACHER.
    excluded : as in `info_nce`; excluded documents have zero probability in both distributions.
    """
    ours, theirs = scores / temperature, teacher / TEACHER
    if excluded is not None:
        ours, theirs = (each.masked_fill(excluded, -1e9) for each in (ours, theirs))
    target = theirs.log_softmax(dim=1)
    return (target.exp() * (target - ours.log_softmax(dim=1))).sum(dim=1).mean()

"""Estimate of a dry run's tokens from similar calls, without a tokenizer.

Tokenizers of hosted models differ and would have to be downloaded. Token counts of cached calls reflect the tokenizer,
the chat template and the length of answers: a regression of tokens on characters predicts the counts of new requests.
With a random sample of the same requests (`sample`), it is the regression estimator of survey sampling (Cochran,
Sampling Techniques, 3rd ed., ch. 7), whose error is known.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.store.llm.endpoint import Endpoint

ENOUGH = 20  # minimum number of calls for an estimate
_PER_TOKEN = 3.5  # default number of characters per token, for models without cached calls
_ANSWER = 256  # default number of tokens per answer, for models without cached calls
T = TypeVar("T")


@dataclass(frozen=True)
class Taken:
    """Size of one request in letters and in other characters, and its calls and tokens."""

    sizes: tuple[int, int]
    calls: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True)
class CallEstimate:
    """Estimated calls, tokens and cost of a dry run.

    Attributes
    ----------
    asks : number of requests that are not cached.
    calls, tokens_in, tokens_out, cost : expected totals; repairs make more calls than requests.
    within : relative half-width of the 95 % confidence interval of the cost (of the tokens if they are free); infinite
        for an unknown model.
    basis : description of the data used for the estimate.
    """

    asks: int
    calls: float
    tokens_in: float
    tokens_out: float
    cost: float
    within: float
    basis: str

    def __str__(self) -> str:
        sure = f"± {self.within:.1%}" if math.isfinite(self.within) else "(rough)"
        tokens = f"{self.tokens_in:,.0f} tokens in, {self.tokens_out:,.0f} out"
        return f"{self.calls:,.0f} calls, {tokens}, cost {self.cost:,.4f} {sure}, from {self.basis}"


def sample(asks: Sequence[T], count: int = 30, seed: int = 0) -> tuple[T, ...]:
    """Returns a random sample of requests in order, to be sent before the dry run of the others for a good estimate.

    >>> sample(range(1000), 5)
    (394, 430, 776, 864, 911)
    """
    chosen = random.Random(seed).sample(range(len(asks)), min(count, len(asks)))  # noqa: S311  (no secret)
    return tuple(asks[i] for i in sorted(chosen))


def character_counts(text: str) -> tuple[int, int]:
    """Returns the numbers of letters and blanks, and of other characters: formulas have more tokens per character.

    >>> character_counts("if x = 1")
    (6, 2)
    """
    plain = sum(c.isascii() and (c.isalpha() or c.isspace()) for c in text)
    return plain, len(text) - plain


def estimate_calls(
    endpoint: Endpoint, wanted: Sequence[tuple[int, int]], seen: Sequence[Taken], basis: str
) -> CallEstimate:
    """Estimates calls, tokens and cost of requests from those seen; with fewer than `ENOUGH`, uses defaults."""
    count = len(wanted)
    if not count:
        return CallEstimate(0, 0.0, 0.0, 0.0, 0.0, 0.0, "the cache")
    if len(seen) < ENOUGH:
        tokens_in = sum(sum(each) for each in wanted) / _PER_TOKEN
        tokens_out = float(count * min(endpoint.longest or _ANSWER, _ANSWER))
        cost = endpoint.cost(tokens_in, tokens_out)
        rough = f"{_PER_TOKEN} characters a token: ask {ENOUGH} of them first to learn how this model counts"
        return CallEstimate(count, float(count), tokens_in, tokens_out, cost, math.inf, rough)
    import numpy as np

    took = np.array([[each.calls, each.tokens_in, each.tokens_out] for each in seen], dtype=float)
    known = np.array([[1, *each.sizes] for each in seen], dtype=float)
    new = np.array([[1, *each] for each in wanted], dtype=float)
    weights, _, rank, _ = np.linalg.lstsq(known, took, rcond=None)
    calls, tokens_in, tokens_out = np.maximum((new @ weights).sum(axis=0), 0.0).tolist()
    prices = np.array([0.0, endpoint.price_in, endpoint.price_out]) / 1e6
    if not prices.any():
        prices = np.array([0.0, 1.0, 1.0])
    left = (took - known @ weights) @ prices
    spread = math.sqrt(float(left @ left) / max(len(seen) - int(rank), 1))
    total = float(np.array([calls, tokens_in, tokens_out]) @ prices)
    # Combines the error of the mean of the seen requests and the deviation of the new ones.
    error = 1.96 * spread * count * math.sqrt(1 / len(seen) + 1 / count)
    within = error / total if total else 0.0
    return CallEstimate(count, calls, tokens_in, tokens_out, endpoint.cost(tokens_in, tokens_out), within, basis)

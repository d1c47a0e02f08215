"""The price of a search: how much of a tuned setting's mean is the luck of having been chosen among many.

Source: nested cross-validation (Varma and Simon, BMC Bioinformatics 7:91, 2006), over topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.scoring.randomization import TOLERANCE

FOLDS, REPEATS = 5, 20


@dataclass(frozen=True)
class SelectionPrice:
    """What a best of several settings is worth on other topics.

    Attributes
    ----------
    best : index of the setting with the largest mean.
    settings, topics : how many were compared, on how many topics.
    value : its mean over the topics that it was chosen on.
    cross_validated : mean over topics that the setting was not chosen on: topics in folds, the best of the others
        scored on each, over 20 divisions into folds.
    optimism : how far `value` is better than that.
    chosen_again : share of these choices that are `best`.
    """

    best: int
    settings: int
    topics: int
    value: float
    cross_validated: float
    optimism: float
    chosen_again: float


def price_of_selection(
    values: Floats,
    *,
    groups: Sequence[int] | None = None,
    maximize: bool = True,
    folds: int = FOLDS,
    seed: int = 0,
) -> SelectionPrice:
    """Returns the mean of the best setting with its bias of selection.

    Parameters
    ----------
    values : float64, shape (topics, settings). Topics with NaN are left out.
    groups : number of each topic's cluster of dependent topics, which no division separates; None if topics are
        independent.
    maximize : whether larger values are better.
    folds : parts of the topics for cross-validation.

    Raises
    ------
    HarnessError
        There are fewer than two settings, or fewer topics (clusters) than folds.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> found = price_of_selection(random.normal(0.3, 0.1, (50, 40)))  # settings that do not differ
    >>> round(found.value, 3), round(found.cross_validated, 3), round(found.optimism, 3)
    (0.33, 0.303, 0.027)
    """
    table = np.asarray(values, dtype=np.float64)
    counted = ~np.isnan(table).any(axis=1)
    table = table[counted] * (1.0 if maximize else -1.0)
    n, settings = table.shape
    of = np.arange(n) if groups is None else np.unique(np.asarray(groups)[counted], return_inverse=True)[1]
    units = int(of.max(initial=-1)) + 1
    if settings < 2 or units < folds or folds < 2:
        raise HarnessError(f"a search over {settings} settings and {units} topics has no price; it needs 2 and {folds}")
    means = table.mean(axis=0)
    best = int(np.argmax(means))
    random = np.random.default_rng(seed)
    held, again = 0.0, 0
    for _ in range(REPEATS):
        fold = (random.permutation(units) % folds)[of]
        for part in range(folds):
            out = fold == part
            choice = int(np.argmax(table[~out].mean(axis=0)))
            held += float(table[out, choice].sum())
            again += choice == best
    sign = 1.0 if maximize else -1.0
    cross_validated = held / (n * REPEATS)
    optimism = float(means[best]) - cross_validated
    return SelectionPrice(
        best=best,
        settings=settings,
        topics=n,
        value=sign * float(means[best]),
        cross_validated=sign * cross_validated,
        optimism=optimism if abs(optimism) > TOLERANCE else 0.0,
        chosen_again=again / (folds * REPEATS),
    )

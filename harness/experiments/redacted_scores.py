"""Redacted results for private judgments: means rounded to a step, and nothing else.

Everything else would reveal judgments: scores of topics; numbers of judged topics and results; exact means, tests and
p-values, which change with a single relevant result; checksums of judgments, which confirm guesses. Rounded means of
similar runs reveal judgments too: what is shown to teams again and again needs a lab.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import HarnessError
from harness.experiments.evaluate import Evaluation
from harness.scoring.measures import without_private
from harness.scoring.protocol import telling
from harness.scoring.scores import Scores, decimals_of, least_step, rounded_to_step

DECIMALS = 2
SCHEMA = "mathir-harness/redacted"
VERSION = 2
LEFT_OUT = (
    "The judgments are private: means are rounded to multiples of {step:g}; tests, scores of topics, counts of judged "
    "topics and results, and checksums of judgments are left out. Reports on similar runs would reveal judgments all "
    "the same: publish few, and give teams feedback by a lab."
)


@dataclass(frozen=True)
class Means:
    """Means of a run: measure -> value, None if no topic counts."""

    run: str
    means: Mapping[str, float | None]


@dataclass(frozen=True)
class Redacted:
    """Means of runs under private judgments.

    Attributes
    ----------
    step, decimals : the means are multiples of the step, shown with these decimals; see `step_of`.
    labels : measure -> label.
    means : runs, best first by the first measure; equal rounded means are ordered by name.
    """

    collection: str
    edition: str
    protocol: str
    step: float
    decimals: int
    labels: Mapping[str, str]
    means: tuple[Means, ...]

    @property
    def left_out(self) -> str:
        """Note on the omitted values."""
        return LEFT_OUT.format(step=self.step)


def step_of(scores: Sequence[Scores], decimals: int = DECIMALS) -> float:
    """Returns the step to which means are rounded: 10^-decimals, or a larger one if few topics count.

    Parameters
    ----------
    scores : of runs on one task; private measures are ignored.
    """
    counted = [each.n(measure) for each in scores for measure in without_private(each.measures)]
    return max(10.0**-decimals, least_step(min(counted, default=0)))


def redact(evaluation: Evaluation, *, decimals: int = DECIMALS) -> Redacted:
    """Redacts an evaluation.

    Raises
    ------
    HarnessError
        The protocol reveals judgments (`telling`), or all measures are private.

    Examples
    --------
    >>> import harness as h
    >>> found = redact(h.evaluate(h.task("mini-task1"), "runs/mini/mini-task1/overlap.run"))
    >>> dict(found.means[0].means)
    {'nDCG': 0.85, 'AP': 0.7, 'P@10': 0.3, 'Bpref': 0.6}
    """
    first = evaluation.scores[0]
    if reason := telling(first.protocol):
        raise HarnessError(f"--redact: {reason}")
    measures = without_private(first.measures)
    if not measures:
        raise HarnessError("--redact: every measure is private, such as counts of judged results; use others, as AP")
    step = step_of(evaluation.scores, decimals)
    means = []
    for scores in evaluation.scores:
        values = {measure: scores.aggregate(measure) for measure in measures}
        rounded = {key: None if math.isnan(value) else rounded_to_step(value, step) for key, value in values.items()}
        means.append(Means(scores.run, rounded))
    means.sort(key=lambda each: (-(each.means[measures[0]] or 0.0), each.run))
    labels = {measure: first.protocol.label(measure) for measure in measures}
    names = (first.collection, first.edition, first.protocol.name)
    return Redacted(*names, step, decimals_of(step), labels, tuple(means))


def redacted_to_json(redacted: Redacted) -> dict[str, Any]:
    """Converts redacted results to plain JSON values."""
    return {"schema": SCHEMA, "version": VERSION, "left_out": redacted.left_out, **asdict(redacted)}

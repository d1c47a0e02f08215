"""The command `organise power`: how many topics find a difference between runs like these."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from harness.cli.options import Level
from harness.cli.scoring_options import ScoringOptions, check_one_collection, evaluate_options, with_scoring_options
from harness.cli.tables import print_table
from harness.errors import HarnessError
from harness.io.console import print_line


@with_scoring_options("redact")
def power(
    asked: ScoringOptions,
    differences: Annotated[str, typer.Option(help="Mean differences to find.")] = "0.01,0.02,0.05",
    family: Annotated[int, typer.Option(min=1, help="Number of tests to correct for (Bonferroni).")] = 1,
    alpha: Level = 0.05,
    probability: Annotated[float, typer.Option("--power", help="Probability of finding the difference.")] = 0.8,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
) -> None:
    """How many topics a paired test needs for a difference, from runs of a pilot; and what the topics here find."""
    from harness.reports.pair_tests import plan_table
    from harness.scoring.anova import plan_tests
    from harness.scoring.measures import without_diagnostics
    from harness.scoring.scores import values_of

    try:
        wanted = [float(part) for part in differences.split(",")]
    except ValueError:
        raise HarnessError(f"--differences: {differences!r}; expected numbers such as 0.01,0.02,0.05") from None
    check_one_collection(asked, "organise power")
    evaluation = evaluate_options(asked)
    if evaluation.task.collection.clusters() is not None:
        name, by = evaluation.task.collection.name, evaluation.task.collection.cluster
        raise HarnessError(
            f"power: topics of {name} depend on each other within {by}, and the plan takes them as independent"
        )
    names = without_diagnostics(evaluation.scores[0].measures)
    plans = [
        plan_tests(values, name, wanted, family=family, alpha=alpha, power=probability, seed=seed)
        for name, values in ((name, values_of(evaluation.scores, name)) for name in names)
    ]
    if asked.json:
        print_line(json.dumps([asdict(plan) for plan in plans], indent=1))
    else:
        print_table(plan_table(plans, family, evaluation.scores[0].protocol.label))

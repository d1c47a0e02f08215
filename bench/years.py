"""What the scripts on the three years of ARQMath Task 1 over `mse-pages` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness.experiments.produce import make
from harness.experiments.task import Task, task
from harness.io import config
from harness.scoring.scores import Scores
from harness.systems.build import build_system

YEARS = (1, 2, 3)
CORPUS = "mse-pages"
TESTED = ("nDCG", "AP", "P@10")
NAMES = {"nDCG": "nDCG′", "AP": "MAP′", "P@10": "P′@10"}  # their means under the protocol arqmath-task1
SEEDS = 20


@cache
def year_task(year: int) -> Task:
    """Collection, corpus and judgments of a year."""
    return task(f"arqmath-{year}-task1", CORPUS)


def made(year: int, name: str, changes: Mapping[str, Any], runs: Path, *, pool: bool = False) -> tuple[Scores, Path]:
    """A configured system on a year: its scores and its run file."""
    found = year_task(year)
    mapping = {**config.load("system", name)[0], **changes}
    produced = make(build_system(mapping, name), found, runs=runs, rerank=pool)
    return found.scorer(produced.run), produced.path

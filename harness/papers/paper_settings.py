"""Parts of a paper's configuration: its claims, costs, translations, re-runs and breakdowns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from harness.errors import HarnessError
from harness.experiments.costs import COLUMNS
from harness.io import checks, config
from harness.io.checks import Words
from harness.sources import catalogue
from harness.sources.resource import Resource
from harness.systems.crosslingual.authors import Script


def _checked_pairs(key: str, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list) or not value or any(not isinstance(p, list) or len(p) != 2 for p in value):
        raise HarnessError(f"{key} is {value!r}, expected a list of pairs of runs such as [[a, b], [a, c]]")
    return tuple((str(a), str(b)) for a, b in value)


@dataclass(frozen=True)
class ClaimSettings:
    """A claim of the paper, about runs of its archive (`pairs`) or about rows of its tables (`rows`).

    Attributes
    ----------
    title : the claim in words.
    expect : expected outcome of the test of each pair; of rows, the first is better.
    pairs : pairs of runs.
    rows, metrics : pairs of rows, as `TABLE: ROW`, and the paper's metrics in which they are compared.
    collections, slices : by the paper's names, on which they are compared; empty for all.
    margin : of a claim of no difference: differences below it are negligible, and equivalence within it is tested.
    """

    title: Words
    expect: Literal["no difference", "first better"] = "first better"
    pairs: Annotated[tuple[tuple[str, str], ...], _checked_pairs] = ()
    rows: Annotated[tuple[tuple[str, str], ...], _checked_pairs] = ()
    metrics: tuple[Words, ...] = ()
    collections: tuple[Words, ...] = ()
    slices: tuple[Words, ...] = ()
    margin: float | None = None

    def __post_init__(self) -> None:
        if self.margin is not None and (self.expect != "no difference" or not 0 < self.margin < 1):
            raise HarnessError("margin: belongs to a claim of no difference, and is above 0 and below 1")
        if bool(self.pairs) == bool(self.rows) or bool(self.rows) != bool(self.metrics):
            raise HarnessError("a claim has either pairs of runs, or pairs of rows with metrics")


@dataclass(frozen=True)
class Language:
    """Topics in another language.

    Attributes
    ----------
    title : name of the language.
    path : file of the topics.
    """

    title: Words
    path: Words


@dataclass(frozen=True)
class Translations:
    """Files of topics in several languages.

    Attributes
    ----------
    source : name in `conf/source/`.
    english : file of the English topics.
    languages : ISO 639-3 code -> translated topics.
    """

    source: Words
    english: Words
    languages: Mapping[str, Language]

    def file(self, path: str, where: str) -> Resource | Path:
        """Returns one of its files."""
        return catalogue.resource({"source": self.source, "path": path}, where)


@dataclass(frozen=True)
class RerunSettings:
    """Settings of the re-run of archived runs: a bi-encoder and its input.

    Attributes
    ----------
    title : description of model and documents.
    model, corpus : encoder, and the documents that are encoded.
    column : column of the corpus that is encoded.
    runs : archived run -> the authors' function that translated its topics (`nllb`, `mbart`; see
        `harness.systems.crosslingual.authors`).
    cost : duration of the first re-run, in words.
    """

    title: Words
    model: Words
    corpus: Words
    column: Words
    runs: Mapping[Words, Script]
    cost: Words


@dataclass(frozen=True)
class Breakdown:
    """Settings of a breakdown: means of some runs over the topics with each value of an attribute.

    Attributes
    ----------
    title : of the table.
    attribute, values : attribute of topics, and those of its values that are shown.
    measure, runs : what is averaged.
    """

    title: Words
    attribute: Words
    values: tuple[Words, ...]
    measure: Words
    runs: tuple[Words, ...]


def _positive_number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise HarnessError(f"{key}: expected a number above 0, found {value!r}")
    return float(value)


def _checked_cost_column(key: str, value: object) -> str:
    return checks.choice(key, str(value), COLUMNS)


@dataclass(frozen=True)
class CostUnit:
    """What a metric of costs counts.

    Attributes
    ----------
    column : key in `harness.experiments.costs.COLUMNS`.
    unit : one of the metric in units of the column (seconds, bytes): 60 for minutes.
    """

    column: Annotated[str, _checked_cost_column]
    unit: Annotated[float, _positive_number] = 1.0


@dataclass(frozen=True)
class Here:
    """Key `here` of a paper's configuration: what replaces its resources at the scale `here`.

    Attributes
    ----------
    says : what differs, in words, for the report.
    corpus : small public corpus.
    collections : our collection of the paper -> one that replaces it; the others are used as they are.
    systems : name of a system -> overrides of its command, such as `system.model=all-minilm-l6-v2`.
    training : settings of fine-tuning.

    Raises
    ------
    HarnessError
        A corpus, collection or system is unknown.
    """

    says: Words
    corpus: Words
    collections: Mapping[str, Words] = field(default_factory=dict)
    systems: Mapping[str, tuple[Words, ...]] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.choice("corpus", self.corpus, config.names("corpus"))
        for collection in (*self.collections, *self.collections.values()):
            checks.choice("collections", collection, config.names("collection"))
        for system in self.systems:
            checks.choice("systems", system, config.names("system"))

    def other_model(self, system: str) -> bool:
        """Returns whether another model than the paper's stands for a system."""
        return any(word.partition("=")[0].endswith("model") for word in self.systems.get(system, ()))

    def collection(self, name: str) -> str:
        """Returns the collection that replaces another one, else that one."""
        return self.collections.get(name, name)

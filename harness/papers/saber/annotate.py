"""Step 2, annotations: the core idea of each solution, and its topics in an ontology with their relevance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from harness.errors import HarnessError
from harness.io.checks import Words, check_number, check_whole_number
from harness.papers.saber.lines import read_lines, write_lines
from harness.papers.saber.ontology import most_specific

ANNOTATIONS = "annotations.jsonl"


@dataclass(frozen=True)
class Annotation:
    """Annotation of one problem.

    Attributes
    ----------
    core : main idea of the solution as a hint of up to 30 words; None if the solution has none (`noCoreIdea`).
    supporting : up to three short phrases that name techniques.
    tags : node of the ontology -> relevance in [0, 1]; the most relevant tag has 1, the least relevant 0.
    """

    core: str | None = None
    supporting: tuple[str, ...] = ()
    tags: Mapping[str, float] = field(default_factory=dict)


def write_annotations(path: Path, annotations: Mapping[str, Annotation]) -> None:
    """Writes annotations as JSON lines with the keys `id` (of the problem), `core`, `supporting`, `tags`."""
    rows = (
        {"id": name, "core": each.core, "supporting": list(each.supporting), "tags": dict(each.tags)}
        for name, each in annotations.items()
    )
    write_lines(path, rows)


def read_annotations(path: Path) -> dict[str, Annotation]:
    """Reads problem -> annotation in the order of the file; raises what `lines.read_lines` raises."""
    return dict(
        read_lines(path, lambda row: (row["id"], Annotation(row["core"], tuple(row["supporting"]), dict(row["tags"]))))
    )


def comparable(annotations: Mapping[str, Annotation]) -> dict[str, Annotation]:
    """Returns the problems with both a core idea and a topic, each with its most specific topics only.

    As in the authors' code, the other problems are left out of all further steps.

    >>> p, q = Annotation("Symmetry.", (), {"A": 0.0, "A/x": 1.0}), Annotation(None, (), {"A": 1.0})
    >>> {name: each.tags for name, each in comparable({"p": p, "q": q}).items()}
    {'p': {'A/x': 1.0}}
    """
    return {
        name: replace(each, tags={tag: each.tags[tag] for tag in most_specific(each.tags)})
        for name, each in annotations.items()
        if each.tags and (each.core or "").strip()
    }


@dataclass(frozen=True)
class AnnotateSettings:
    """Settings of the annotations (key `annotate`).

    Attributes
    ----------
    by : `llm` for a language model, `local` for the deterministic keyword annotator that replaces one.
    endpoint : name of the language model in `conf/llm/`.
    budget : maximum cost, in the unit of the endpoint's prices.
    threshold : minimum relevance at which the language model's walk keeps a topic and descends below it; 0.85 as in the
        authors' code.
    encoder : encoder with which the local annotator compares titles.
    device : where the encoder runs.
    beam, share : of the local annotator's walk, see `harness.papers.saber.local.annotated`.
    """

    by: Literal["local", "llm"] = "local"
    endpoint: Words = ""
    budget: Annotated[float, check_number] | None = None
    threshold: Annotated[float, partial(check_number, low=0.01, high=1.0)] = 0.85
    encoder: Words | None = None
    device: Literal["cpu", "cuda"] = "cpu"
    beam: Annotated[int, partial(check_whole_number, low=1)] = 2
    share: Annotated[float, partial(check_number, high=1.0)] = 0.85

    def __post_init__(self) -> None:
        if self.by == "llm" and not self.endpoint:
            raise HarnessError("key 'endpoint' is missing: a language model of conf/llm/")

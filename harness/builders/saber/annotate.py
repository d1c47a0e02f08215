"""Step 2, annotations: the core idea of each solution, and topics of an ontology with their relevance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from harness.builders.saber.lines import read_lines, write_lines
from harness.errors import HarnessError
from harness.io.checks import Words, number, whole

ANNOTATIONS = "annotations.jsonl"


@dataclass(frozen=True)
class Annotation:
    """What is said of a problem.

    Attributes
    ----------
    core : the main idea as a hint of up to 30 words; None if there is none (`noCoreIdea`).
    supporting : up to three short phrases on techniques.
    tags : id of a node of the ontology -> relevance in [0, 1]; the most relevant has 1, the least 0.
    """

    core: str | None = None
    supporting: tuple[str, ...] = ()
    tags: Mapping[str, float] = field(default_factory=dict)


def write_annotations(path: Path, annotations: Mapping[str, Annotation]) -> None:
    """JSON lines: `id` of the problem, `core`, `supporting`, `tags`."""
    rows = (
        {"id": name, "core": each.core, "supporting": list(each.supporting), "tags": dict(each.tags)}
        for name, each in annotations.items()
    )
    write_lines(path, rows)


def read_annotations(path: Path) -> dict[str, Annotation]:
    """The annotations by problem, in order; raises as `lines.read_lines`."""
    return dict(
        read_lines(path, lambda row: (row["id"], Annotation(row["core"], tuple(row["supporting"]), dict(row["tags"]))))
    )


@dataclass(frozen=True)
class AnnotateSettings:
    """Key `annotate`.

    Attributes
    ----------
    by : a language model (`llm`), or the deterministic annotator by keywords (`local`), which stands in for one.
    endpoint : of the language model, in `conf/llm/`.
    budget : the most that it may cost, in the unit of the endpoint's prices.
    threshold : relevance from which on the model's walk takes a topic and goes on below it; 0.85 as the authors' code.
    encoder : an encoder that the local annotator compares titles with; `device`: where it runs.
    beam, share : of its walk, see `harness.builders.saber.local.annotations`.
    """

    by: Literal["local", "llm"] = "local"
    endpoint: Words = ""
    budget: Annotated[float, number] | None = None
    threshold: Annotated[float, partial(number, low=0.01, high=1.0)] = 0.85
    encoder: Words | None = None
    device: Literal["cpu", "cuda"] = "cpu"
    beam: Annotated[int, partial(whole, low=1)] = 2
    share: Annotated[float, partial(number, high=1.0)] = 0.85

    def __post_init__(self) -> None:
        if self.by == "llm" and not self.endpoint:
            raise HarnessError("key 'endpoint' is missing: a language model of conf/llm/")

"""Metadata of a submission as ir_metadata: the team's details, and the run's provenance if known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.tira import metadata_of
from harness.labs.journal import Kind
from harness.labs.lab import Lab
from harness.store import cost, sidecar

MOST_BYTES = 1 << 21  # limit on a metadata file
MOST_TAKEN = 1 << 18  # characters that are taken from it, wherever an alias repeats them
_TAKEN = ("platform", "research goal", "implementation", "method", "data", "resources")
_COSTS = (cost.PARAMETERS, cost.MEMORY, cost.GPU_MEMORY, cost.STORED)


@dataclass(frozen=True)
class Details:
    """Details of a submission given by its team, checked."""

    team: str
    label: str
    kind: Kind
    description: str
    code: str
    external_data: str

    @property
    def name(self) -> str:
        """Name of the run: `team / label`."""
        return f"{self.team} / {self.label}"

    @property
    def tag(self) -> str:
        """Tag on each line of the run: `team-label`."""
        return f"{self.team}-{self.label}"


def beside(path: Path, run: Run) -> tuple[Mapping[str, Any], str]:
    """Reads a run's provenance from its metadata file; returns it and a note if the metadata file is ignored.

    Parameters
    ----------
    path : the run's file, or a folder or archive of TIRA; the metadata is that of `tira.metadata_of`, which
        `harness run` has written, or any other ir_metadata file.
    """
    try:
        metadata, file = metadata_of(path, MOST_BYTES)
    except HarnessError as error:
        return {}, f"{error.lines[0]}; ignored"
    if file is not None and "harness" in metadata and sidecar.claimed(file)[1] != run.sha256:
        return {}, f"{file}: belongs to another run, or the run was changed; ignored"
    taken = {name: metadata[name] for name in _TAKEN if isinstance(metadata.get(name), Mapping)}
    if file is not None and "harness" in metadata and (costs := _costs(metadata["harness"])):
        taken["resources"] = {**costs, **taken.get("resources", {})}
    if _left(taken, MOST_TAKEN) < 0:
        return {}, f"{file or path}: {', '.join(taken)}: more than {MOST_TAKEN:,} characters; ignored"
    return taken, ""


def _left(value: object, most: int) -> int:
    """Returns how many of `most` characters the texts and numbers of a value leave; negative if they are more."""
    if isinstance(value, Mapping | list | tuple | set):
        parts = (*value, *value.values()) if isinstance(value, Mapping) else value
        most -= 2
        for each in parts:
            if most < 0:
                break
            most = _left(each, most)
        return most
    return most - (len(value) if isinstance(value, str | bytes) else len(str(value)))


def _costs(part: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the costs of a run that the harness made; latencies of topics as their mean."""
    costs = {name: part[name] for name in _COSTS if isinstance(part.get(name), int)}
    latency = part.get(cost.LATENCY)
    if isinstance(latency, Mapping) and latency:
        costs["latency"] = {"mean": f"{math.fsum(latency.values()) / len(latency):.6f} s"}
    return costs


def of_judged_alone(path: Path, run: Run) -> bool:
    """Returns whether a run's metadata file says that it ranks judged documents only."""
    try:
        claims = sidecar.sidecar_of_document(metadata_of(path, MOST_BYTES)[0])
    except HarnessError:
        return False
    return claims is not None and claims.pool is True and claims.sha256 == run.sha256


def text(lab: Lab, details: Details, run: Run, made: Mapping[str, Any]) -> str:
    """Returns the content of the metadata file; nothing in it depends on judgments.

    Parameters
    ----------
    run : in canonical form.
    made : provenance from `beside`.
    """
    content = {name: dict(made.get(name, {})) for name in _TAKEN}
    if lab.private:
        content["data"].pop("training data", None)  # a checksum of judgments would confirm guesses
    content["method"]["automatic"] = details.kind == "automatic"
    content["data"]["test collection"] = {"name": lab.collection, "edition": lab.edition}
    if details.external_data:
        content["data"]["external data"] = details.external_data
    if details.code:
        source = content["implementation"].get("source")
        content["implementation"]["source"] = {
            **(source if isinstance(source, Mapping) else {}),
            "repository": details.code,
        }
    document = {
        "tag": details.tag,
        **{name: part for name, part in content.items() if part},
        "actor": {"team": details.team},
        "lab": {
            "title": lab.title,
            "run": details.name,
            "kind": details.kind,
            **({"description": details.description} if details.description else {}),
            "content sha256": run.sha256,
        },
    }
    out: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return out

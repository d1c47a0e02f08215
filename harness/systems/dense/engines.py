"""Local text encoders: sentence-transformers models in PyTorch, and a C engine for the CPU.

This module imports little, because stored vectors, which can take hours to compute, depend on all imported code.

A model's own files define its modules, its similarity, the prefixes of queries and documents, the dimensions that are
kept and the maximum length, as sentence-transformers reads them; `EncoderSettings` overrides each. Vectors are such
that their inner product is the model's similarity: of length 1 if it is the cosine. Texts are sorted by length to
reduce padding. Up to rounding, a vector does not depend on the other texts of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError, suggestion
from harness.io import checks
from harness.systems.dense import variants, word_pieces
from harness.systems.dense.variants import PRECISIONS
from harness.systems.dense.word_pieces import ROLES, in_passes

if TYPE_CHECKING:
    import torch

    from harness.systems.dense.models import AvailableModel

__all__ = ["PRECISIONS", "EncodedTexts", "EncoderSettings", "TextEncoder", "transformer"]
POOLINGS = ("cls", "mean", "last")
TOKENS = {"cpu": 4096, "cuda": 1 << 17}  # word pieces of a batch, padding included
Matrix = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]


def check_prefixes(key: str, prefixes: Mapping[str, str]) -> None:
    """Raises HarnessError if prefixes are not texts by role."""
    if not isinstance(prefixes, Mapping):
        raise HarnessError(f"key {key!r} is {prefixes!r}, expected query and document with their texts")
    for role, text in prefixes.items():
        if role not in ROLES:
            raise HarnessError(f"key '{key}.{role}' is unknown; {suggestion(str(role), ROLES)}")
        checks.text(f"{key}.{role}", text)


Prefixes = Annotated[Mapping[str, str], check_prefixes]
Precision = Annotated[str, partial(checks.choice, known=PRECISIONS)]
Length = Annotated[int, partial(checks.check_whole_number, low=3)]  # one word piece between two special tokens


@dataclass(frozen=True)
class EncoderSettings(checks.Checked):
    """Overrides of a model's own settings; None keeps the model's setting.

    Attributes
    ----------
    pooling : pooling of token vectors: `cls` (the first), `mean`, or `last` (that of the last word piece).
    prefixes : role (`query`, `document`) -> prefix of its texts, such as an instruction.
    normalise : whether vectors are scaled to length 1; None: if the model's similarity is the cosine.
    length : maximum word pieces of a text; the rest is truncated.
    eos : whether to append the tokenizer's end-of-sequence token, which models with `last` pooling need.
    precision : number format of weights and arithmetic; vectors are always float32.
    windows : whether to split longer texts into windows of `length` word pieces and average the windows' vectors. Each
        window is decoded to text and encoded again, as by the authors of SABER-Math
        (`src/sabermath/processors/st_processor.py` at 9f015a7, `chunk_to_context`).
    dimensions : number of first dimensions that are kept, for models trained with Matryoshka losses; None for all.
    devices : devices on which sentence-transformers encodes at the same time, such as `[cuda:0, cuda:1]`; None for one.

    Raises
    ------
    HarnessError
        A value is invalid.

    Examples
    --------
    >>> EncoderSettings(pooling="first")
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'pooling' is 'first'; known: cls, last, mean
    """

    pooling: Annotated[str, partial(checks.choice, known=POOLINGS)] | None = None
    prefixes: Prefixes | None = None
    normalise: bool | None = None
    length: Length | None = None
    eos: bool = False
    precision: Precision = "float32"
    windows: bool = False
    dimensions: checks.Positive | None = None
    devices: Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        variants.check(self.devices)
        if self.devices is not None and (self.pooling is not None or self.windows or self.eos):
            raise HarnessError("key 'devices' keeps the model's own pooling; leave out 'pooling', 'windows' and 'eos'")
        if self.normalise not in (None, True, False):
            raise HarnessError(f"key 'normalise' is {self.normalise!r}, expected true, false or null")

    def overridden(self) -> list[str]:
        """Returns the keys that have another value than by default."""
        return [each.name for each in fields(self) if getattr(self, each.name) != each.default]


class EncodedTexts(NamedTuple):
    """Vectors of texts.

    Attributes
    ----------
    vectors : float32, shape (texts, dimensions); of texts with several vectors each, shape (vectors, dimensions).
    cut : bool, shape (texts,). Whether a text is truncated.
    start : int64, shape (texts + 1,). Where each text's vectors begin, and their end. None: one vector for each text.
    """

    vectors: Matrix
    cut: Bools
    start: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """A loaded encoder.

    Attributes
    ----------
    name : name of the model.
    length : maximum word pieces of a text; 0 for no limit.
    dimensions : dimensions of a vector.
    encoded : texts, their role -> vectors.
    query_length : maximum word pieces of a query, if it differs from `length`; 0 if not.
    described : what the model's files and the settings decided, for the metadata of a run; empty if they say nothing.
    """

    name: str
    length: int
    dimensions: int
    encoded: Callable[[Sequence[str], str], EncodedTexts]
    query_length: int = 0
    described: Mapping[str, Any] = field(default_factory=dict)

    def encode(self, texts: Sequence[str], role: str = "document") -> Matrix:
        """Returns the vectors of texts, float32, shape (texts, dimensions).

        Parameters
        ----------
        role : `query` or `document`: selects the prefix of the texts.

        Raises
        ------
        HarnessError
            A vector is not finite, or memory runs out.
        """
        return self.encoded(texts, checks.choice("role", role, ROLES)).vectors


# ---- sentence-transformers --------------------------------------------------------------------------------------


def sentence_transformer(stored: AvailableModel, device: str, precision: str = "float32") -> Any:  # noqa: ANN401
    """Loads a model with sentence-transformers, in a precision that does not depend on that of its files.

    Raises
    ------
    HarnessError
        The model cannot be loaded.
    """
    import torch
    from sentence_transformers import SentenceTransformer

    # transformers from version 5 on would compute in the precision of the files; layers behind have their own.
    more: dict[str, Any] = {"model_kwargs": {"dtype": getattr(torch, precision)}, "local_files_only": True}
    return word_pieces.opened(stored, lambda: SentenceTransformer(str(stored.folder), device=device, **more), precision)


def transformer(
    stored: AvailableModel,
    settings: EncoderSettings,
    device: str = "cpu",
    batch: int = 1 << 30,
    most: int = TOKENS["cpu"],
) -> TextEncoder:
    """Loads an encoder of the sentence-transformers family.

    Parameters
    ----------
    batch, most : maximum texts and word pieces in one forward pass.

    Raises
    ------
    HarnessError
        The model cannot be loaded, or does not allow a setting.
    """
    import torch

    loaded = sentence_transformer(stored, device, settings.precision)
    unit = is_unit(loaded, settings.normalise, stored.name)
    kept = settings.dimensions or loaded.truncate_dim
    prefixes = {role: prefix(loaded, settings.prefixes, role) for role in ROLES}
    described = {
        "modules": [type(module).__name__ for module in loaded],
        "similarity": "cosine" if unit else "inner product",
        "prefixes": prefixes,
    }
    if not is_plain(loaded):
        return _by_library(loaded, stored.name, settings, prefixes, unit, batch, described)
    tokenizer = loaded.tokenizer
    length = _length(loaded, settings, stored.name)
    _check_settings(loaded, settings, stored)
    marks = {role: prompt_mark(loaded, text) for role, text in prefixes.items()}

    together = None if settings.devices is None else variants.pooled(loaded, settings.devices, stored.name)
    if together is not None:
        loaded.max_seq_length = length

    def pieces(whole: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        return _word_pieces(tokenizer, whole, length, eos=settings.eos)

    def forward(rows: list[list[int]], role: str) -> torch.Tensor:
        features = dict(tokenizer.pad({"input_ids": rows}, return_tensors="pt").to(device))
        if settings.pooling is None:
            out = loaded(features | marks[role])["sentence_embedding"].float()
        else:
            first = loaded[0](features)
            out = _pooled(settings.pooling, first["token_embeddings"].float(), features["attention_mask"])
        out = variants.cut(out, kept, stored.name)
        # Windows of a model without its own normalisation are averaged first.
        normalise = unit and (not settings.windows or _normalises(loaded))
        return torch.nn.functional.normalize(out, dim=1) if normalise else out

    def encoded(texts: Sequence[str], role: str) -> EncodedTexts:
        if not texts:
            return EncodedTexts(np.empty((0, dimensions), np.float32), np.zeros(0, bool))
        whole = [f"{prefixes[role]}{text}" for text in texts]
        if together is not None:
            return spread(together, texts, whole, role)
        if not settings.windows:
            return once(whole, role)
        parts, owner = _windows(tokenizer, whole, length - settings.eos)
        stored = once(parts, role)
        out = np.zeros((len(texts), dimensions), np.float32)
        np.add.at(out, owner, stored.vectors)
        out /= np.bincount(owner, minlength=len(texts))[:, None]
        if unit:
            out = _normalised(out)
        return EncodedTexts(out, np.bincount(owner[stored.cut], minlength=len(texts)) > 0)

    def spread(pool: variants.Together, texts: Sequence[str], whole: Sequence[str], role: str) -> EncodedTexts:
        """Encodes each text in a single pass, on one of several devices."""
        out = variants.cut(pool(texts, prefixes[role], max(1, min(batch, most // length))), kept, stored.name)
        out = _normalised(out) if unit else out
        cut = np.isin(np.arange(len(whole)), pieces(whole)[1])
        return EncodedTexts(finite_texts(out, whole, stored.name), cut)

    def once(whole: Sequence[str], role: str) -> EncodedTexts:
        """Encodes each text in a single pass; longer texts are truncated."""
        ids, long = pieces(whole)
        cut = np.zeros(len(ids), bool)
        cut[long] = True

        def encode(part: npt.NDArray[np.int64]) -> Sequence[Matrix]:
            return list(forward([ids[number] for number in part.tolist()], role).cpu().numpy())

        out = np.array(in_passes(stored.name, np.array(list(map(len, ids))), most, encode, batch=batch))
        return EncodedTexts(finite_texts(out, whole, stored.name), cut)

    with torch.inference_mode():
        dimensions = int(forward(pieces([f"{prefixes['document']}a"])[0], "document").shape[1])
    return TextEncoder(stored.name, length, dimensions, encoded, described=described | {"dimensions": dimensions})


def _check_settings(loaded: Any, settings: EncoderSettings, stored: AvailableModel) -> None:  # noqa: ANN401
    """Raises HarnessError for a setting that a plain model does not allow."""
    name, behind = stored.name, [type(module).__name__ for module in list(loaded)[2:]]
    others = [each for each in behind if each != "Normalize"]
    if settings.pooling is not None and others:
        more = f"model {name} has a module {others[0]} behind its own pooling; leave it null"
        raise HarnessError(f"key 'pooling' is {settings.pooling!r}, and {more}")
    if settings.pooling is None and not (stored.folder / "modules.json").is_file():
        more = "set the key 'pooling' (the default of sentence-transformers is mean)"
        raise HarnessError(f"model {name}: no modules.json states its pooling; {more}")
    if settings.eos and loaded.tokenizer.eos_token_id is None:
        raise HarnessError(f"key 'eos' is true, and the tokenizer of model {name} has no such token")
    if settings.normalise is False and settings.pooling is None and _normalises(loaded):
        raise HarnessError(f"key 'normalise' is false, and model {name} normalises itself; say 'pooling' as well")


def _word_pieces(
    tokenizer: Any,  # noqa: ANN401
    texts: Sequence[str],
    length: int,
    *,
    eos: bool,
) -> tuple[list[list[int]], list[int]]:
    """Returns the word pieces of texts, `length` at most, and the indices of the texts that were truncated.

    With `eos`, the token of a text's end is appended where it is not the last one already.
    """
    end = tokenizer.eos_token_id
    ids: list[list[int]] = tokenizer(texts, truncation=False)["input_ids"]
    long = [number for number, row in enumerate(ids) if len(row) + (eos and row[-1:] != [end]) > length]
    if long:
        short = tokenizer([texts[number] for number in long], truncation=True, max_length=length - eos)
        for number, row in zip(long, short["input_ids"], strict=True):
            ids[number] = row
    return [[*row, end] if eos and row[-1:] != [end] else row for row in ids], long


def is_plain(loaded: Any) -> bool:  # noqa: ANN401
    """Returns whether a model is a transformer with modules behind it, all the same for queries and documents."""
    return hasattr(loaded[0], "auto_model") and not any(type(module).__name__ == "Router" for module in loaded)


def _by_library(
    loaded: Any,  # noqa: ANN401
    name: str,
    settings: EncoderSettings,
    prefixes: Mapping[str, str],
    unit: bool,
    batch: int,
    described: Mapping[str, Any],
) -> TextEncoder:
    """Returns an encoder by sentence-transformers' own `encode`, for models such as those with a module for each role.

    How many texts are truncated is not known.
    """
    if own := [key for key in settings.overridden() if key in ("pooling", "length", "eos", "windows", "devices")]:
        kind = type(loaded[0]).__name__
        raise HarnessError(f"key {own[0]!r}: model {name} has its own, by its module {kind}; leave the key out")

    def encoded(texts: Sequence[str], role: str) -> EncodedTexts:
        if not texts:
            return EncodedTexts(np.empty((0, dimensions), np.float32), np.zeros(0, bool))
        vectors = loaded.encode(
            list(texts), prompt=prefixes[role], task=role, batch_size=min(batch, 32), show_progress_bar=False
        )
        out = variants.cut(np.asarray(vectors, np.float32), settings.dimensions, name)
        return EncodedTexts(finite_texts(_normalised(out) if unit else out, texts, name), np.zeros(len(texts), bool))

    dimensions = 0
    dimensions = int(encoded(["a"], "document").vectors.shape[1])
    return TextEncoder(name, 0, dimensions, encoded, described={**described, "dimensions": dimensions})


def is_unit(loaded: Any, normalise: bool | None, name: str) -> bool:  # noqa: ANN401
    """Returns whether vectors are scaled to length 1, so that their inner product is the model's similarity.

    Raises HarnessError if that is a distance, and no setting replaces it.
    """
    if normalise is not None:
        return normalise
    similarity = loaded.similarity_fn_name
    if similarity not in ("cosine", "dot"):
        raise HarnessError(
            f"model {name}: its files say similarity {similarity!r}, which ranks nothing here; set the key "
            "'normalise': true for cosines, false for inner products"
        )
    return similarity == "cosine" or _normalises(loaded)


def _normalised(vectors: Matrix) -> Matrix:
    scaled: Matrix = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled


def _windows(tokenizer: Any, texts: Sequence[str], length: int) -> tuple[list[str], npt.NDArray[np.int64]]:  # noqa: ANN401
    """Splits texts into windows of `length` word pieces, special tokens included; returns windows and text indices."""
    most = length - tokenizer.num_special_tokens_to_add(pair=False)
    parts: list[str] = []
    owner: list[int] = []
    for number, text in enumerate(texts):
        ids = tokenizer.encode(text, add_special_tokens=False, truncation=False)
        for begin in range(0, len(ids), most) or (0,):
            part = ids[begin : begin + most]
            parts.append(tokenizer.decode(part, skip_special_tokens=True, clean_up_tokenization_spaces=False))
            owner.append(number)
    return parts, np.array(owner, np.int64)


def _length(loaded: Any, settings: EncoderSettings, name: str) -> int:  # noqa: ANN401
    """Returns the maximum word pieces of a text."""
    positions = word_pieces.positions(loaded[0].auto_model.config)
    own = loaded.max_seq_length or positions or 512
    if settings.length is not None and positions is not None and settings.length > positions:
        raise HarnessError(f"key 'length' is {settings.length}, and model {name} reads {positions} word pieces at most")
    return int(settings.length or min(own, positions or own))


def prefix(loaded: Any, given: Mapping[str, str] | None, role: str) -> str:  # noqa: ANN401
    """Returns the prefix of a role's texts: the override, else the model's prompt for the role, else its default.

    As in sentence-transformers, the first prompt of a role counts, also if it is empty.
    """
    if given is not None:
        return given.get(role, "")
    prompts = getattr(loaded, "prompts", None) or {}
    names = ("query",) if role == "query" else ("document", "passage", "corpus")
    own = next((name for name in names if name in prompts), getattr(loaded, "default_prompt_name", None) or "")
    return str(prompts.get(own) or "")


def prompt_mark(loaded: Any, text: str) -> dict[str, int]:  # noqa: ANN401
    """Returns the extra model input that excludes prefixes from pooling."""
    if not text or all(getattr(module, "include_prompt", True) for module in loaded):
        return {}
    ids = loaded.tokenizer(text)["input_ids"]
    return {"prompt_length": len(ids) - (ids[-1] in loaded.tokenizer.all_special_ids)}


def _normalises(loaded: Any) -> bool:  # noqa: ANN401
    """Returns whether a model of sentence-transformers ends in a module that normalises vectors."""
    return any(type(module).__name__ == "Normalize" for module in loaded)


def _pooled(pooling: str, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Pools the token vectors of each text into one vector.

    Parameters
    ----------
    tokens : shape (texts, pieces, dimensions).
    mask : shape (texts, pieces). 1 for word pieces, 0 for padding on either side.
    """
    import torch

    here = torch.arange(len(tokens), device=tokens.device)
    if pooling == "mean":
        weight = mask.to(tokens.dtype).unsqueeze(-1)
        return (tokens * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
    if pooling == "cls":
        return tokens[here, mask.int().argmax(1)]
    last = mask.shape[1] - 1 - mask.flip(1).int().argmax(1)
    return tokens[here, last]


def finite_texts(
    vectors: Matrix, texts: Sequence[str], name: str, start: npt.NDArray[np.int64] | None = None
) -> Matrix:
    """Returns the vectors of texts; raises HarnessError if one is not finite, and shows its text."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
        owner = int(bad[0]) if start is None else int(np.searchsorted(start, bad[0], side="right")) - 1
        shown = " ".join(texts[owner].split())[:60]
        raise HarnessError(f"model {name}: the vector of the text {shown!r} has numbers that are not finite")
    return vectors

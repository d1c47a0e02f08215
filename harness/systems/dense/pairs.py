"""Scoring of text pairs by a cross-encoder, a classifier that reads both texts together.

Longer pairs are truncated and counted. Pairs are sorted by length to reduce padding. Up to rounding, a score does not
depend on the other pairs of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools, Index
from harness.errors import HarnessError
from harness.io import checks
from harness.io.console import progress
from harness.systems.dense import word_pieces
from harness.systems.dense.encoder import missing
from harness.systems.dense.engines import TOKENS, Precision
from harness.systems.dense.models import AvailableModel

if TYPE_CHECKING:
    import torch

TRUNCATIONS = ("longest_first", "only_second")
_UNBOUNDED = 1 << 30  # tokenizers without a maximum length report a number larger than this


@dataclass(frozen=True)
class PairScorerSettings(checks.Checked):
    """Settings for reading pairs.

    Attributes
    ----------
    length : maximum word pieces of a pair, special tokens included; None for the model's maximum.
    truncation : how longer pairs are truncated: `longest_first` removes word pieces from the end of the currently
        longer text; `only_second` shortens the second text.
    precision : number format of the model except its classification head, whose scores would tie in 16 bits.

    Raises
    ------
    HarnessError
        A value is invalid.

    Examples
    --------
    >>> PairScorerSettings(truncation="first")
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'truncation' is 'first'; known: longest_first, only_second
    """

    length: checks.Positive | None = None
    truncation: Annotated[str, partial(checks.choice, known=TRUNCATIONS)] = "longest_first"
    precision: Precision = "float32"


class PairScores(NamedTuple):
    """Scores of pairs.

    Attributes
    ----------
    logits : float32, shape (pairs, labels). Finite.
    cut : bool, shape (pairs,). Whether a pair is truncated.
    """

    logits: npt.NDArray[np.float32]
    cut: Bools


@dataclass(frozen=True, eq=False)
class PairScorer:
    """A loaded cross-encoder.

    Attributes
    ----------
    length : maximum word pieces of a pair.
    labels : names of the columns of `PairScores.logits`.
    scored : first texts, second texts (as many) -> scores.
    """

    length: int
    labels: tuple[str, ...]
    scored: Callable[[Sequence[str], Sequence[str]], PairScores]


def identity(model: AvailableModel, settings: PairScorerSettings) -> dict[str, Any]:
    """Returns the inputs of a model's scores besides texts and code: its files' checksums, and the settings."""
    return {**model.identity, **asdict(settings)}


def load_pair_scorer(
    model: AvailableModel, settings: PairScorerSettings | None = None, device: str = "cpu", tokens: int = 0
) -> PairScorer:
    """Loads a cross-encoder with its tokenizer.

    Parameters
    ----------
    model : a transformers model for sequence classification: see `harness.systems.dense.models.find_model`.
    device : `cpu` or `cuda`.
    tokens : maximum word pieces in one forward pass; 0 for the default of the device. A longer pair has a pass of its
        own.

    Raises
    ------
    HarnessError
        A package is missing; or the model is damaged, is not a classifier, or does not allow a setting.

    Examples
    --------
    >>> scorer = load_pair_scorer(find_model("cross-encoder/qnli-distilroberta-base"))  # doctest: +SKIP
    >>> scorer.scored(["How many primes are there?"], ["There are infinitely many."]).logits.shape  # doctest: +SKIP
    (1, 1)
    """
    settings = settings or PairScorerSettings()
    if lines := missing():
        raise HarnessError(lines[0])
    classifier, tokenizer = _loaded(model)
    special = int(tokenizer.num_special_tokens_to_add(pair=True))
    length = _length(classifier, tokenizer, settings, model.name, special)
    if settings.precision != "float32":
        _halve(classifier, settings.precision)
    classifier.to(device).eval()
    labels = tuple(str(classifier.config.id2label[number]) for number in range(classifier.config.num_labels))

    def scored(queries: Sequence[str], documents: Sequence[str]) -> PairScores:
        first, second = _sizes(tokenizer, queries), _sizes(tokenizer, documents)
        size = first + second + special
        if settings.truncation == "only_second" and (first + special >= length).any():
            worst = int(first.argmax())
            raise HarnessError(
                f"key 'truncation' is 'only_second', and the text {quoted_start(queries[worst])} has {first[worst]} "
                "word "
                f"pieces, which leaves no room in {length}; say longest_first"
            )

        def forward(part: Index) -> torch.Tensor:
            pairs = [queries[row] for row in part], [documents[row] for row in part]
            features = tokenizer(
                *pairs, truncation=settings.truncation, max_length=length, padding=True, return_tensors="pt"
            )
            logits: torch.Tensor = classifier(**features.to(device)).logits
            return logits

        of = (model.name, forward, np.minimum(size, length), tokens or TOKENS[device], (queries, documents))
        return PairScores(in_passes(*of, len(labels)), size > length)

    return PairScorer(length, labels, scored)


def in_passes(
    name: str,
    forward: Callable[[Index], torch.Tensor],
    size: Index,
    most: int,
    texts: tuple[Sequence[str], Sequence[str]],
    labels: int = 2,
) -> npt.NDArray[np.float32]:
    """Returns the logits of pairs, computed in passes of similar length, float32, shape (pairs, labels).

    Parameters
    ----------
    forward : numbers of pairs -> their logits, shape (some, labels).
    size, most : word pieces of each pair, and the maximum of a pass with padding.
    texts : first and second texts, for messages.

    Raises
    ------
    HarnessError
        A score is not finite, or a pass does not fit into the memory of the GPU.
    """
    import torch

    out = np.empty((len(size), labels), np.float32)
    with progress("scoring pairs", len(size)) as bar, torch.inference_mode():
        for part in batches_of(size, most):
            try:
                out[part] = forward(part).float().cpu().numpy()
            except torch.OutOfMemoryError:
                raise HarnessError(
                    f"model {name}: {len(part)} pairs of {size[part[0]]} word pieces do not fit into the memory of the "
                    "GPU; lower the key 'tokens'"
                ) from None
            bar.add(len(part))
    if not (good := np.isfinite(out).all(axis=1)).all():
        row = int(good.argmin())
        pair = ", ".join(quoted_start(side[row]) for side in texts)
        raise HarnessError(f"model {name}: the score of the pair {pair} is not finite")
    return out


def _loaded(model: AvailableModel) -> tuple[Any, Any]:
    """Loads the classifier in float32, and its tokenizer."""
    if model.engine != "transformers":
        raise HarnessError(f"model {model.name}: is not a cross-encoder, but runs in {model.engine}")
    classifier, tokenizer, report = word_pieces.pretrained(model, "AutoModelForSequenceClassification")
    if name := word_pieces.lacking(classifier, report):
        raise HarnessError(
            f"model {model.name}: its weights lack {name!r}: it cannot classify pairs before it is fine-tuned"
        )
    word_pieces.check(tokenizer, classifier, model)
    return classifier.float(), tokenizer


def _length(classifier: torch.nn.Module, tokenizer: Any, settings: PairScorerSettings, name: str, special: int) -> int:  # noqa: ANN401
    """Returns the maximum word pieces of a pair."""
    most = _positions(classifier)
    own = min(most, int(tokenizer.model_max_length))
    if settings.length is None and own >= _UNBOUNDED:
        raise HarnessError(f"model {name}: does not say how many word pieces it reads; give the key 'length'")
    length = own if settings.length is None else settings.length
    if length > most:
        raise HarnessError(f"key 'length' is {length}, and model {name} reads {most} word pieces at most")
    if length < special + 2:
        raise HarnessError(f"key 'length' is {length}, and a pair of model {name} takes {special + 2} pieces at least")
    return length


def _positions(classifier: Any) -> int:  # noqa: ANN401
    """Returns the number of positions for word pieces in a model."""
    most = int(getattr(classifier.config, "max_position_embeddings", None) or _UNBOUNDED)
    for name, module in classifier.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            most = min(most, int(module.num_embeddings) - padding - 1)  # positions start after the padding index
    return most


def _halve(classifier: Any, precision: str) -> None:  # noqa: ANN401
    """Converts a model to 16 bits except its classification head: logits with 8 significant bits would often tie."""
    import torch

    def widened(_: object, __: object, out: Any) -> Any:  # noqa: ANN401
        for key, value in out.items():
            if torch.is_tensor(value) and value.is_floating_point():
                out[key] = value.float()
        return out

    classifier.base_model.to(getattr(torch, precision))
    classifier.base_model.register_forward_hook(widened)


def _sizes(tokenizer: Any, texts: Sequence[str]) -> Index:  # noqa: ANN401
    """Counts the word pieces of each text, without special tokens; shape (texts,)."""
    different = list(dict.fromkeys(texts))
    if not different:
        return np.empty(0, np.int64)
    ids = tokenizer(different, add_special_tokens=False, truncation=False, padding=False)["input_ids"]
    size = {text: len(row) for text, row in zip(different, ids, strict=True)}
    return np.array([size[text] for text in texts], dtype=np.int64)


def batches_of(size: Index, most: int) -> Iterator[Index]:
    """Yields batches of pairs by descending length, each with at most `most` word pieces including padding."""
    order = np.argsort(-size, kind="stable")
    begin = 0
    while begin < len(order):
        count = max(1, most // int(size[order[begin]]))
        yield order[begin : begin + count]
        begin += count


def quoted_start(text: str) -> str:
    """Returns the beginning of a text, quoted, for messages."""
    return repr(" ".join(text.split())[:40])

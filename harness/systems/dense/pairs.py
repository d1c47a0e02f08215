"""Pairs of texts scored by a classifier that reads both at once: a cross-encoder.

A pair that is longer than the model reads is cut, which is counted. Pairs are sorted by their numbers of word pieces,
so that little is padded; a score does not depend on what else is scored with it, up to rounding.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools, Index
from harness.errors import HarnessError
from harness.io import checks
from harness.io.console import progress
from harness.systems.dense import word_pieces
from harness.systems.dense.encoder import missing
from harness.systems.dense.engines import PRECISIONS, TOKENS
from harness.systems.dense.models import Model

if TYPE_CHECKING:
    import torch

TRUNCATIONS = ("longest_first", "only_second")
_UNBOUNDED = 1 << 30  # libraries write a larger number where a tokenizer knows no length


@dataclass(frozen=True)
class Settings:
    """How pairs are read.

    Attributes
    ----------
    length : word pieces that are read of a pair, the model's own marks included; None: as many as it can.
    truncation : what is cut of a longer one: `longest_first`: the end of the text that is longer at the time, piece by
        piece; `only_second`: the end of the second text.
    precision : of the model but for its last layers, whose scores would tie in `bfloat16`.

    Raises
    ------
    HarnessError
        A value is none of the known ones.

    Examples
    --------
    >>> Settings(truncation="first")
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'truncation' is 'first'; known: longest_first, only_second
    """

    length: int | None = None
    truncation: str = "longest_first"
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.length is not None:
            checks.whole("length", self.length, low=1)
        checks.choice("truncation", self.truncation, TRUNCATIONS)
        checks.choice("precision", self.precision, PRECISIONS)


class Scored(NamedTuple):
    """What a model makes of pairs.

    Attributes
    ----------
    logits : float32, shape (pairs, labels). Finite.
    cut : bool, shape (pairs,). Which are longer than the model reads.
    """

    logits: npt.NDArray[np.float32]
    cut: Bools


@dataclass(frozen=True, eq=False)
class PairScorer:
    """A loaded model.

    Attributes
    ----------
    length : word pieces that are read of a pair.
    labels : names of the columns of `Scored.logits`.
    scored : first texts, second texts (as many) -> scores.
    """

    length: int
    labels: tuple[str, ...]
    scored: Callable[[Sequence[str], Sequence[str]], Scored]


def identity(model: Model, settings: Settings) -> dict[str, Any]:
    """Returns what decides a model's scores besides the code: its files by checksum, and how pairs are read."""
    return {**model.identity, **asdict(settings)}


def load(model: Model, settings: Settings | None = None, device: str = "cpu", tokens: int = 0) -> PairScorer:
    """Loads a model with its tokenizer.

    Parameters
    ----------
    model : see `harness.systems.dense.models.find`; of transformers, for sequence classification.
    device : `cpu` or `cuda`.
    tokens : the most word pieces that go through the model at one time; 0 leaves it to the device. A pair that is
        longer goes alone.

    Raises
    ------
    HarnessError
        A package is missing, there is no such model, it is damaged or no classifier, or it does not allow a setting.

    Examples
    --------
    >>> scorer = load(find("cross-encoder/qnli-distilroberta-base"))  # doctest: +SKIP
    >>> scorer.scored(["How many primes are there?"], ["There are infinitely many."]).logits.shape  # doctest: +SKIP
    (1, 1)
    """
    settings = settings or Settings()
    if lines := missing():
        raise HarnessError(lines[0])
    import torch

    classifier, tokenizer = _loaded(model)
    special = int(tokenizer.num_special_tokens_to_add(pair=True))
    length = _length(classifier, tokenizer, settings, model.name, special)
    if settings.precision == "bfloat16":
        _halve(classifier)
    classifier.to(device).eval()
    labels = tuple(str(classifier.config.id2label[number]) for number in range(classifier.config.num_labels))

    def scored(queries: Sequence[str], documents: Sequence[str]) -> Scored:
        first, second = _sizes(tokenizer, queries), _sizes(tokenizer, documents)
        size = first + second + special
        if settings.truncation == "only_second" and (first + special >= length).any():
            worst = int(first.argmax())
            raise HarnessError(
                f"key 'truncation' is 'only_second', and the text {_shown(queries[worst])} has {first[worst]} word "
                f"pieces, which leaves no room in {length}; say longest_first"
            )
        out = np.empty((len(size), len(labels)), np.float32)
        with progress("scoring pairs", len(size)) as told, torch.inference_mode():
            for part in _batches(np.minimum(size, length), tokens or TOKENS[device]):
                pairs = [queries[row] for row in part], [documents[row] for row in part]
                features = tokenizer(
                    *pairs, truncation=settings.truncation, max_length=length, padding=True, return_tensors="pt"
                )
                try:
                    out[part] = classifier(**features.to(device)).logits.float().cpu().numpy()
                except torch.OutOfMemoryError:
                    raise HarnessError(
                        f"model {model.name}: {len(part)} pairs of {features['input_ids'].shape[1]} word pieces do not "
                        "fit into the memory of the GPU; lower the key 'tokens'"
                    ) from None
                told.add(len(part))
        if not (good := np.isfinite(out).all(axis=1)).all():
            row = int(good.argmin())
            pair = f"{_shown(queries[row])}, {_shown(documents[row])}"
            raise HarnessError(f"model {model.name}: the score of the pair {pair} is not finite")
        return Scored(out, size > length)

    return PairScorer(length, labels, scored)


def _loaded(model: Model) -> tuple[Any, Any]:
    """Returns the classifier, in float32, and its tokenizer."""
    if model.engine != "transformers":
        raise HarnessError(f"model {model.name}: is no cross-encoder, but runs in {model.engine}")
    import transformers

    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # it would warn of every long text; they are counted
    auto: Any = transformers.AutoModelForSequenceClassification
    tokenizer = word_pieces.load(model)
    try:
        classifier, report = auto.from_pretrained(str(model.folder), local_files_only=True, output_loading_info=True)
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(f"model {model.name}: cannot be loaded: {word_pieces.reason(error)}") from None
    # Libraries fill in at random what the files lack, and go on.
    if lacking := sorted(set(report["missing_keys"]) & {name for name, _ in classifier.named_parameters()}):
        raise HarnessError(
            f"model {model.name}: its weights lack {lacking[0]!r}: it is no classifier of pairs before it is fine-tuned"
        )
    word_pieces.check(tokenizer, classifier, model)
    return classifier.float(), tokenizer


def _length(classifier: torch.nn.Module, tokenizer: Any, settings: Settings, name: str, special: int) -> int:  # noqa: ANN401
    """Word pieces that are read of a pair."""
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
    """Returns how many word pieces a model has places for."""
    most = int(getattr(classifier.config, "max_position_embeddings", None) or _UNBOUNDED)
    for name, module in classifier.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            most = min(most, int(module.num_embeddings) - padding - 1)  # the first place comes after that of padding
    return most


def _halve(classifier: Any) -> None:  # noqa: ANN401
    """Lets a model compute in bfloat16, but for its classifier: logits of 8 bits would tie where nothing is equal."""
    import torch

    def widened(_: object, __: object, out: Any) -> Any:  # noqa: ANN401
        for key, value in out.items():
            if torch.is_tensor(value) and value.is_floating_point():
                out[key] = value.float()
        return out

    classifier.base_model.to(torch.bfloat16)
    classifier.base_model.register_forward_hook(widened)


def _sizes(tokenizer: Any, texts: Sequence[str]) -> Index:  # noqa: ANN401
    """Word pieces of each text, without the model's marks. Shape (texts,)."""
    different = list(dict.fromkeys(texts))
    if not different:
        return np.empty(0, np.int64)
    ids = tokenizer(different, add_special_tokens=False, truncation=False, padding=False)["input_ids"]
    size = {text: len(row) for text, row in zip(different, ids, strict=True)}
    return np.array([size[text] for text in texts], dtype=np.int64)


def _batches(size: Index, most: int) -> Iterator[Index]:
    """Pairs by descending length, as many at a time as fit when padded to the longest; at least one."""
    order = np.argsort(-size, kind="stable")
    begin = 0
    while begin < len(order):
        count = max(1, most // int(size[order[begin]]))
        yield order[begin : begin + count]
        begin += count


def _shown(text: str) -> str:
    return repr(" ".join(text.split())[:40])

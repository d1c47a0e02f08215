"""Scoring of text pairs by a cross-encoder, a classifier that reads both texts together, or by a sequence model.

A sequence model, as in monoT5 (Nogueira et al. 2020), reads both texts in a template. The scores of a pair are the
logits of two words, such as `false` and `true`, at the first position of the output.

Longer pairs are truncated and counted. Pairs are sorted by length to reduce padding. Up to rounding, a score does not
depend on the other pairs of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from harness.systems.dense.encoder import check_installed
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
    check_installed()
    if model.engine != "transformers":
        raise HarnessError(f"model {model.name}: is not a cross-encoder, but runs in {model.engine}")
    classifier, tokenizer, report = word_pieces.pretrained(model, "AutoModelForSequenceClassification")
    if name := word_pieces.lacking(classifier, report):
        raise HarnessError(
            f"model {model.name}: its weights lack {name!r}: it cannot classify pairs before it is fine-tuned"
        )
    word_pieces.check(tokenizer, classifier, model)
    classifier = classifier.float()
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
                f"key 'truncation' is 'only_second', and the text {_quoted_start(queries[worst])} has {first[worst]} "
                f"word pieces, which leaves no room in {length}; say longest_first"
            )

        def forward(part: Index) -> torch.Tensor:
            pairs = [queries[row] for row in part], [documents[row] for row in part]
            features = tokenizer(
                *pairs, truncation=settings.truncation, max_length=length, padding=True, return_tensors="pt"
            )
            logits: torch.Tensor = classifier(**features.to(device)).logits
            return logits

        most = tokens or TOKENS[device]
        return PairScores(
            _logits(model.name, forward, np.minimum(size, length), most, (queries, documents)), size > length
        )

    return PairScorer(length, labels, scored)


def _logits(
    name: str,
    forward: Callable[[Index], torch.Tensor],
    size: Index,
    most: int,
    texts: tuple[Sequence[str], Sequence[str]],
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
    with progress("scoring pairs", len(size)) as bar:

        def scored(part: Index) -> Sequence[npt.NDArray[np.float32]]:
            bar.add(len(part))
            return list(forward(part).float().cpu().numpy())

        out = np.array(word_pieces.in_passes(name, size, most, scored, "pairs"))
    if not (good := np.isfinite(out).all(axis=1)).all():
        row = int(good.argmin())
        pair = ", ".join(_quoted_start(side[row]) for side in texts)
        raise HarnessError(f"model {name}: the score of the pair {pair} is not finite")
    return out


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


def _quoted_start(text: str) -> str:
    """Returns the beginning of a text, quoted, for messages."""
    return repr(" ".join(text.split())[:40])


# ---- sequence models --------------------------------------------------------------------------------------------


TEMPLATE = "Query: {query} Document: {document} Relevant:"
LENGTH = 512  # word pieces, if the model's files state none


@dataclass(frozen=True)
class PairReading:
    """How a pair is read.

    Attributes
    ----------
    template : text with `{query}` and `{document}`, in this order, each once.
    words : two words, each a single word piece of the model; the names of the scores.

    Raises
    ------
    HarnessError
        A value is invalid.

    Examples
    --------
    >>> PairReading("Query: {query}")
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'template' is 'Query: {query}', expected a text with {query} and {document} in it
    """

    template: str = TEMPLATE
    words: Sequence[str] = ("false", "true")

    def __post_init__(self) -> None:
        text = self.template
        once = isinstance(text, str) and text.count("{query}") == 1 and text.count("{document}") == 1
        if not once or text.index("{query}") > text.index("{document}"):
            raise HarnessError(f"key 'template' is {text!r}, expected a text with {{query}} and {{document}} in it")
        named = isinstance(self.words, list | tuple) and all(isinstance(word, str) and word for word in self.words)
        if not named or len(set(self.words)) != 2:
            raise HarnessError(
                f"key 'words' is {self.words!r}, expected two words in quotes, such as ['false', 'true']"
            )

    def filled(self, query: str, document: str) -> tuple[str, int, int]:
        """Returns the text of a pair, and where the document begins and ends in it."""
        before, _, rest = self.template.partition("{query}")
        between, _, after = rest.partition("{document}")
        start = before + query + between
        return start + document + after, len(start), len(start) + len(document)


def load_sequence_scorer(
    model: AvailableModel,
    reading: PairReading,
    settings: PairScorerSettings | None = None,
    device: str = "cpu",
    tokens: int = 0,
) -> PairScorer:
    """Loads a sequence model with its tokenizer.

    Documents are truncated so that the template and the query stay whole.

    Parameters
    ----------
    model : a transformers model for conditional generation: see `harness.systems.dense.models.find_model`.
    device : `cpu` or `cuda`.
    tokens : maximum word pieces in one forward pass; 0 for the default of the device.

    Raises
    ------
    HarnessError
        A package is missing; or the model is damaged, is no encoder-decoder, or does not allow a setting.

    Examples
    --------
    >>> scorer = load_sequence_scorer(find_model("castorini/monot5-base-msmarco"), PairReading())  # doctest: +SKIP
    >>> scorer.scored(["How many primes are there?"], ["Infinitely many."]).logits.shape  # doctest: +SKIP
    (1, 2)
    """
    settings = settings or PairScorerSettings()
    check_installed()
    if settings.precision != "float32":
        raise HarnessError(f"key 'precision' is {settings.precision!r}, and logits of two words would tie; say float32")
    import torch

    if model.engine != "transformers":
        raise HarnessError(f"model {model.name}: is not a sequence model, but runs in {model.engine}")
    sequence, tokenizer, report = word_pieces.pretrained(model, "AutoModelForSeq2SeqLM")
    if name := word_pieces.lacking(sequence, report):
        raise HarnessError(f"model {model.name}: its weights lack {name!r}, which its config.json asks for")
    if sequence.config.decoder_start_token_id is None:
        raise HarnessError(f"model {model.name}: its config.json has no 'decoder_start_token_id'")
    word_pieces.check(tokenizer, sequence, model)
    own = int(tokenizer.model_max_length)
    # T5's positions are relative; models with a table of positions end there.
    most = int(getattr(sequence.config, "max_position_embeddings", 0) or 0)
    if most and settings.length and settings.length > most:
        raise HarnessError(f"key 'length' is {settings.length}, and model {model.name} has {most} positions; lower it")
    usual = own if own < (1 << 30) else LENGTH
    length = settings.length or (min(usual, most) if most else usual)
    columns = [_piece(tokenizer, word, model.name) for word in reading.words]
    sequence.float().to(device).eval()

    def pieces(query: str, document: str) -> tuple[list[int], bool]:
        """Returns the word pieces of a pair, and whether its document is truncated."""
        text, begin, end = reading.filled(query, document)
        offsets = tokenizer(text, truncation=False, return_offsets_mapping=True)
        ids, excess = offsets["input_ids"], len(offsets["input_ids"]) - length
        if excess <= 0:
            return ids, False
        inside = [at for at, (a, b) in enumerate(offsets["offset_mapping"]) if begin <= a < b <= end]
        if excess > len(inside):
            raise HarnessError(
                f"key 'length' is {length}, and the text {_quoted_start(query)} takes {len(ids) - len(inside)} word "
                "pieces with its template; raise it"
            )
        gone = set(inside[len(inside) - excess :])
        return [piece for at, piece in enumerate(ids) if at not in gone], True

    def scored(queries: Sequence[str], documents: Sequence[str]) -> PairScores:
        read = [pieces(query, document) for query, document in zip(queries, documents, strict=True)]
        size = np.array([len(ids) for ids, _ in read], dtype=np.int64)

        def forward(part: Index) -> torch.Tensor:
            features = tokenizer.pad({"input_ids": [read[row][0] for row in part]}, return_tensors="pt").to(device)
            first = torch.full((len(part), 1), sequence.config.decoder_start_token_id, device=device)
            logits: torch.Tensor = sequence(**features, decoder_input_ids=first).logits[:, 0, columns]
            return logits

        logits = _logits(model.name, forward, size, tokens or TOKENS[device], (queries, documents))
        return PairScores(logits, np.array([cut for _, cut in read], dtype=bool))

    return PairScorer(length, tuple(reading.words), scored)


def _piece(tokenizer: Any, word: str, name: str) -> int:  # noqa: ANN401
    """Returns the number of a word's only word piece."""
    pieces = tokenizer(word, add_special_tokens=False)["input_ids"]
    if len(pieces) != 1 or pieces[0] == tokenizer.unk_token_id:
        raise HarnessError(f"key 'words': {word!r} is not a single word piece of model {name}, but {len(pieces)}")
    return int(pieces[0])

"""Scoring of text pairs by a sequence model, as in monoT5 (Nogueira et al. 2020).

An encoder-decoder reads both texts in a template. The scores of a pair are the logits of two words, such as `false` and
`true`, at the first position of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.data.columns import Index
from harness.errors import HarnessError
from harness.systems.dense import word_pieces
from harness.systems.dense.encoder import missing
from harness.systems.dense.engines import TOKENS
from harness.systems.dense.models import AvailableModel
from harness.systems.dense.pairs import PairScorer, PairScorerSettings, PairScores, in_passes, quoted_start

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


def load(
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
    >>> scorer = load(find_model("castorini/monot5-base-msmarco"), PairReading())  # doctest: +SKIP
    >>> scorer.scored(["How many primes are there?"], ["Infinitely many."]).logits.shape  # doctest: +SKIP
    (1, 2)
    """
    settings = settings or PairScorerSettings()
    if lines := missing():
        raise HarnessError(lines[0])
    if settings.precision != "float32":
        raise HarnessError(f"key 'precision' is {settings.precision!r}, and logits of two words would tie; say float32")
    import torch

    sequence, tokenizer = _loaded(model)
    own = int(tokenizer.model_max_length)
    # T5's positions are relative; models with a table of positions end there.
    most = int(getattr(sequence.config, "max_position_embeddings", 0) or 0)
    if most and settings.length and settings.length > most:
        raise HarnessError(f"key 'length' is {settings.length}, and model {model.name} has {most} positions; lower it")
    usual = own if own < (1 << 30) else LENGTH
    length = settings.length or (min(usual, most) if most else usual)
    columns = [_piece(tokenizer, word, model.name) for word in reading.words]
    sequence.to(device).eval()

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
                f"key 'length' is {length}, and the text {quoted_start(query)} takes {len(ids) - len(inside)} word "
                "pieces "
                "with its template; raise it"
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

        logits = in_passes(model.name, forward, size, tokens or TOKENS[device], (queries, documents))
        return PairScores(logits, np.array([cut for _, cut in read], dtype=bool))

    return PairScorer(length, tuple(reading.words), scored)


def _loaded(model: AvailableModel) -> tuple[Any, Any]:
    """Loads the sequence model in float32, and its tokenizer."""
    if model.engine != "transformers":
        raise HarnessError(f"model {model.name}: is not a sequence model, but runs in {model.engine}")
    sequence, tokenizer, report = word_pieces.pretrained(model, "AutoModelForSeq2SeqLM")
    if name := word_pieces.lacking(sequence, report):
        raise HarnessError(f"model {model.name}: its weights lack {name!r}, which its config.json asks for")
    if sequence.config.decoder_start_token_id is None:
        raise HarnessError(f"model {model.name}: its config.json has no 'decoder_start_token_id'")
    word_pieces.check(tokenizer, sequence, model)
    return sequence.float(), tokenizer


def _piece(tokenizer: Any, word: str, name: str) -> int:  # noqa: ANN401
    """Returns the number of a word's only word piece."""
    pieces = tokenizer(word, add_special_tokens=False)["input_ids"]
    if len(pieces) != 1 or pieces[0] == tokenizer.unk_token_id:
        raise HarnessError(f"key 'words': {word!r} is not a single word piece of model {name}, but {len(pieces)}")
    return int(pieces[0])

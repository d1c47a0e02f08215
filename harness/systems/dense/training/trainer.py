"""Fine-tuning of cross-encoders and bi-encoders; see `loop` for early stopping and checkpoints.

Every text or pair is tokenised once. The pairs of a step are grouped by length and go through the model in several
passes with little padding. The gradients are still those of the whole batch: those of the cross-entropy are summed
over the passes, and the ranking loss is computed from all vectors together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from harness.errors import HarnessError
from harness.io.console import progress, track
from harness.systems.dense import engines, word_pieces
from harness.systems.dense.models import AvailableModel
from harness.systems.dense.training.data import Examples
from harness.systems.dense.training.loop import (
    BEST,
    VALIDATION,
    Log,
    Loop,
    Numbers,
    finite_loss,
    learning_rate,
    parameter_groups,
    read_checkpoint,
    seeded_globally,
    shuffled,
    update,
    write_checkpoint,
)
from harness.systems.dense.training.settings import Tuning

ORDER = "validation order"
_TOKENISED = 256  # texts or pairs in one call of the tokenizer
_HEAD, _MIXED = 0x4EAD, 0x317D  # random streams: the weights of a new head, the order of validation pairs
Scores = npt.NDArray[np.float64]


class Learner(ABC):
    """A model in training on pairs, which all methods take by their indices in the examples.

    Attributes
    ----------
    model : the model, on its device.
    examples : the pairs of training and validation.
    """

    model: Any
    tokenizer: Any

    def __init__(self, examples: Examples, tuning: Tuning, device: str) -> None:
        self.examples, self.tuning, self.device = examples, tuning, device

    @abstractmethod
    def learn(self, numbers: Numbers) -> float:
        """Computes the gradients of the loss of some pairs and returns the loss."""

    @abstractmethod
    def loss(self, numbers: Numbers) -> float:
        """Returns the loss of some pairs without computing gradients."""

    @abstractmethod
    def scores(self, numbers: Numbers) -> Scores:
        """Returns the relevance score of each of some pairs, shape (pairs,)."""

    @abstractmethod
    def pieces(self) -> list[list[int]]:
        """Returns the word-piece ids of all inputs: of each pair, or of each query and each document."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Saves the model in the format of its library."""

    def trained(self, epoch: int) -> Numbers:
        """Returns the training pairs of an epoch: the judged ones and those sampled for the epoch."""
        return np.concatenate((self.examples.train, self.examples.epochs[epoch]))

    def validating(self) -> Numbers:
        """Returns the pairs of the validation loss, held out from training."""
        return self.examples.held

    def passes(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Groups inputs by length into forward passes of at most `tokens` word pieces with padding; yields indices."""
        return (part.tolist() for part in word_pieces.batches(np.array(lengths), self.tuning.tokens))

    def padded(self, rows: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        """Pads tokenised inputs to the longest and returns the model's input tensors."""
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        return dict(self.tokenizer.pad(columns, return_tensors="pt").to(self.device))

    def autocast(self) -> AbstractContextManager[Any]:
        """Returns the context of a forward pass: bfloat16 if the setting `autocast` is on."""
        return torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.tuning.autocast)


class Cross(Learner):
    """A cross-encoder: question and document go through the model together."""

    def __init__(self, base: AvailableModel, examples: Examples, tuning: Tuning, device: str) -> None:
        super().__init__(examples, tuning, device)
        self.model, self.tokenizer = cross_encoder(base, tuning.seed)
        self.model.to(device)
        self._rows = tokenised(
            self.tokenizer,
            ([examples.texts[i] for i in examples.query], [examples.texts[i] for i in examples.document]),
            length_of(self.tokenizer, self.model.config, tuning.length, base.name),
        )

    def _logits(self, numbers: Numbers) -> Iterator[tuple[Numbers, torch.Tensor]]:
        """Yields the pairs of each forward pass with their logits."""
        rows = [self._rows[i] for i in numbers.tolist()]
        for part in self.passes([len(row["input_ids"]) for row in rows]):
            with self.autocast():
                out = self.model(**self.padded([rows[i] for i in part])).logits
            yield numbers[part], out[:, 0].float()

    def _losses(self, numbers: Numbers) -> Iterator[torch.Tensor]:
        """Yields the share of each forward pass in the mean loss of all pairs."""
        for part, logits in self._logits(numbers):
            labels = torch.from_numpy(self.examples.label[part]).to(self.device)
            yield binary_cross_entropy(logits, labels) * (len(part) / len(numbers))

    def learn(self, numbers: Numbers) -> float:
        """Computes the gradients of the loss of some pairs and returns the loss."""
        total = 0.0
        for loss in self._losses(numbers):
            total += finite_loss(loss.item())
            loss.backward()  # type: ignore[no-untyped-call]
        return total

    def loss(self, numbers: Numbers) -> float:
        """Returns the loss of some pairs without computing gradients."""
        return sum(loss.item() for loss in self._losses(numbers))

    def scores(self, numbers: Numbers) -> Scores:
        """Returns the relevance score of each of some pairs, shape (pairs,)."""
        out = np.empty(len(numbers))
        place = {number: i for i, number in enumerate(numbers.tolist())}
        for part, logits in self._logits(numbers):
            out[[place[number] for number in part.tolist()]] = logits.cpu().numpy()
        return out

    def pieces(self) -> list[list[int]]:
        """Returns the word-piece ids of each pair."""
        return [row["input_ids"] for row in self._rows]

    def save(self, folder: Path) -> None:
        """Saves the model in the format of its library."""
        self.model.save_pretrained(folder)
        self.tokenizer.model_max_length = min(self.tuning.length, self.tokenizer.model_max_length)
        self.tokenizer.save_pretrained(folder)


class Bi(Learner):
    """A bi-encoder: question and document are encoded separately, each as one vector."""

    def __init__(self, base: AvailableModel, examples: Examples, tuning: Tuning, device: str) -> None:
        super().__init__(examples, tuning, device)
        self.model = engines.sentence_transformer(base, device)
        if not engines.is_plain(self.model):
            kind = type(self.model[0]).__name__
            raise HarnessError(f"model {base.name}: its module {kind} is not fine-tuned here; name another model")
        # The loss and the ranking that follows are by cosines, of the dimensions that the model keeps.
        self.model.similarity_fn_name = "cosine"
        self.tokenizer = self.model.tokenizer
        word_pieces.check(self.tokenizer, self.model[0].auto_model, base)
        query, document = (engines.prefix(self.model, tuning.prefixes, role) for role in word_pieces.ROLES)
        # The prefixes are saved with the model and apply whenever the trained model is loaded.
        self.model.prompts, self.model.default_prompt_name = {"query": query, "document": document}, None
        self._marks = tuple(engines.prompt_mark(self.model, text) for text in (query, document))
        length = length_of(self.tokenizer, self.model[0].auto_model.config, tuning.length, base.name)
        self.model.max_seq_length = length
        # A text that is both a query and a document may have two different prefixes.
        self._queries = self._tokenised(examples.query, query, length)
        self._documents = self._tokenised(examples.document, document, length)
        self._known = frozenset(
            zip(examples.query[examples.positive].tolist(), examples.document[examples.positive].tolist(), strict=True)
        )

    def _tokenised(self, numbers: Numbers, prefix: str, length: int) -> dict[int, dict[str, list[int]]]:
        """Returns text number -> word pieces, for distinct texts behind a prefix."""
        different = sorted(set(numbers.tolist()))
        rows = tokenised(self.tokenizer, ([prefix + self.examples.texts[i] for i in different],), length)
        return dict(zip(different, rows, strict=True))

    def validating(self) -> Numbers:
        """Returns the relevant held-out pairs, shuffled: documents of one question are no negatives of each other."""
        held = self.examples.held[self.examples.positive[self.examples.held]]
        return held[np.random.default_rng([self.tuning.seed, _MIXED]).permutation(len(held))]

    def _vectors(self, numbers: Numbers) -> tuple[torch.Tensor, torch.Tensor]:
        """Encodes the questions and documents of pairs, each of shape (pairs, dimensions); equal texts only once."""
        out = []
        sides = (self.examples.query, self._queries), (self.examples.document, self._documents)
        for (of, kept), mark in zip(sides, self._marks, strict=True):
            different, back = np.unique(of[numbers], return_inverse=True)
            rows = [kept[i] for i in different.tolist()]
            parts = list(self.passes([len(row["input_ids"]) for row in rows]))
            batches = []
            for part in parts:
                with self.autocast():
                    out_of = self.model(self.padded([rows[i] for i in part]) | mark)["sentence_embedding"]
                    batches.append(out_of[:, : self.model.truncate_dim].float())
            place = np.argsort(np.concatenate(parts))[back]
            # Indexing with brackets would sum the gradients in a nondeterministic order.
            out.append(torch.index_select(torch.cat(batches), 0, torch.from_numpy(place).to(self.device)))
        return out[0], out[1]

    def _batch_loss(self, numbers: Numbers) -> torch.Tensor:
        """Returns the loss of a batch; a document known to be relevant for another query is no negative of it."""
        out = excluded(self.examples.query[numbers], self.examples.document[numbers], self._known)
        queries, documents = self._vectors(numbers)
        return multiple_negatives_ranking(queries, documents, torch.from_numpy(out).to(self.device), self.tuning.scale)

    def learn(self, numbers: Numbers) -> float:
        """Computes the gradients of the loss of some pairs and returns the loss."""
        loss = self._batch_loss(numbers)
        value = finite_loss(loss.item())
        loss.backward()  # type: ignore[no-untyped-call]
        return value

    def loss(self, numbers: Numbers) -> float:
        """Returns the loss of some pairs without computing gradients."""
        parts = [numbers[i : i + self.tuning.batch] for i in range(0, len(numbers), self.tuning.batch)]
        return sum(self._batch_loss(part).item() * len(part) for part in parts) / len(numbers)

    def scores(self, numbers: Numbers) -> Scores:
        """Returns the relevance score of each of some pairs, shape (pairs,)."""
        out = []
        for begin in range(0, len(numbers), self.tuning.batch):
            queries, documents = self._vectors(numbers[begin : begin + self.tuning.batch])
            out.append(torch.nn.functional.cosine_similarity(queries, documents).double().cpu().numpy())
        return np.concatenate(out)

    def pieces(self) -> list[list[int]]:
        """Returns the word-piece ids of each question, then of each document."""
        return [row["input_ids"] for side in (self._queries, self._documents) for row in side.values()]

    def save(self, folder: Path) -> None:
        """Saves the model in the format of its library."""
        self.model.save(str(folder), create_model_card=False)


def learner(kind: str, base: AvailableModel, examples: Examples, tuning: Tuning, device: str) -> Learner:
    """Loads a base model for fine-tuning.

    Raises
    ------
    HarnessError
        The model cannot be loaded, or the setting `length` exceeds its maximum length.
    """
    return {"bi": Bi, "cross": Cross}[kind](base, examples, tuning, device)


def train(learner: Learner, folder: Path, identity: Mapping[str, str], say: Callable[[str], None]) -> Log:
    """Trains to the end, from the folder's last checkpoint if there is one, and then loads the best weights.

    Raises
    ------
    HarnessError
        See `Loop.run`.
    """
    tuning, model = learner.tuning, learner.model
    optimizer = torch.optim.AdamW(parameter_groups(model, tuning.weight_decay), lr=tuning.rate)
    least = 2 if isinstance(learner, Bi) else 1

    def batches(epoch: int) -> list[Numbers]:
        return shuffled(learner.trained(epoch), tuning.batch, tuning.seed, epoch, least)

    def step(batch: Numbers, epoch: int, number: int) -> float:
        model.train()
        optimizer.zero_grad(set_to_none=True)
        with seeded_globally(tuning.seed, epoch, number):
            loss = learner.learn(batch)
        update(model, optimizer, tuning.clip)
        return loss

    def rate(number: int, steps: int) -> float:
        warmup = round(tuning.warmup * steps)
        return learning_rate(number, steps, tuning.rate, tuning.least_rate, warmup=warmup, shape=tuning.schedule)

    loop = Loop(
        model,
        optimizer,
        folder,
        identity,
        tuning.epochs,
        tuning.patience,
        tuning.every,
        rate,
        batches,
        step,
        lambda: validate(learner),
        lambda path: write_checkpoint(path, {"model": model.state_dict(), "identity": dict(identity)}),
        line,
        f"with passes of {tuning.tokens:,} word pieces: lower the key 'tokens' or 'batch'",
    )
    log = loop.run(say)
    model.load_state_dict(read_checkpoint(folder / BEST)["model"])
    model.eval()
    return log


def validate(learner: Learner) -> dict[str, float]:
    """Returns the validation loss, and the share of held-out document pairs in the right order (see `in_order`)."""
    learner.model.eval()
    held, examples = learner.examples.held, learner.examples
    with torch.no_grad(), progress("validation"):
        loss = learner.loss(learner.validating())
        order = in_order(learner.scores(held), examples.positive[held], examples.query[held])
    return {VALIDATION: loss, ORDER: order}


def in_order(scores: Scores, positive: npt.NDArray[np.bool_], query: Numbers) -> float:
    """Returns the share of document pairs (relevant, non-relevant) of a query in which the relevant one scores higher.

    Ties count half. Chance level is 0.5, which is also returned if there are no such pairs.

    Examples
    --------
    >>> in_order(np.array([0.9, 0.1, 0.5]), np.array([True, False, False]), np.array([1, 1, 2]))
    1.0
    """
    right = count = 0.0
    for number in np.unique(query):
        here = query == number
        good, bad = scores[here & positive], scores[here & ~positive]
        right += float((good[:, None] > bad).sum() + 0.5 * (good[:, None] == bad).sum())
        count += len(good) * len(bad)
    return right / count if count else 0.5


def line(entry: Mapping[str, Any]) -> str:
    """Formats a log entry for display."""
    what = "untrained model" if entry["epoch"] == 0 else f"epoch {entry['epoch']}, loss {entry['training loss']:.4f}"
    return f"{what}: validation loss {entry[VALIDATION]:.4f}, order {entry[ORDER]:.4f} (chance .5)"


def tokenised(tokenizer: Any, columns: tuple[list[str], ...], length: int) -> list[dict[str, list[int]]]:  # noqa: ANN401
    """Returns the word pieces of texts, or of pairs of texts, truncated to a length, a pair's longer text first.

    Fast tokenizers would also return the truncated rest, for a pair in every combination of its parts; therefore the
    truncation is done here.
    """
    out: list[dict[str, list[int]]] = []
    for begin in track(range(0, len(columns[0]), _TOKENISED), "tokenising, parts"):
        part = [column[begin : begin + _TOKENISED] for column in columns]
        if not tokenizer.is_fast:  # tokenizers in Python return no rest, and no text index for each piece
            pieces = tokenizer(*part, truncation=True, max_length=length)
            out += [{key: pieces[key][i] for key in pieces} for i in range(len(part[0]))]
            continue
        pieces = tokenizer(*part, truncation=False)
        special = tokenizer.num_special_tokens_to_add(pair=len(columns) > 1)
        for i in range(len(part[0])):
            side = np.array([-1 if text is None else text for text in pieces.sequence_ids(i)])
            kept = side == -1
            for text, most in enumerate(longest_first([int((side == n).sum()) for n in (0, 1)], length - special)):
                kept[np.flatnonzero(side == text)[:most]] = True
            out.append({key: np.array(pieces[key][i])[kept].tolist() for key in pieces})
    return out


def longest_first(sizes: Sequence[int], most: int) -> tuple[int, int]:
    """Returns how many word pieces of two texts fit within `most`: the longer text is cut until both are equally long.

    Examples
    --------
    >>> longest_first([100, 4], 20), longest_first([30, 40], 21), longest_first([40, 30], 21)
    ((16, 4), (10, 11), (11, 10))
    """
    low, high = sorted(sizes)
    if low + high > most:
        low, high = (low, most - low) if 2 * low <= most else (most // 2, most - most // 2)
    return (low, high) if sizes[0] <= sizes[1] else (high, low)


def length_of(tokenizer: Any, config: Any, length: int, name: str) -> int:  # noqa: ANN401
    """Returns a maximum length in word pieces, checked against the positions of the model."""
    most = int(tokenizer.model_max_length)
    most = min(most, word_pieces.positions(config) or most)
    if length > most:
        raise HarnessError(f"key 'training': key 'length' is {length}, and model {name} reads {most} word pieces")
    return length


def cross_encoder(base: AvailableModel, seed: int) -> tuple[Any, Any]:
    """Loads a cross-encoder with one output, and its tokenizer; a missing head is initialised from the seed.

    Raises
    ------
    HarnessError
        The model cannot be loaded, its tokenizer does not fit, or weights other than those of the head are missing.
    """
    kind: dict[str, Any] = {"num_labels": 1, "ignore_mismatched_sizes": True, "dtype": torch.float32}
    with seeded_globally(seed, _HEAD):
        model, tokenizer, report = word_pieces.pretrained(base, "AutoModelForSequenceClassification", **kind)
    lacking = [*report["missing_keys"], *(entry[0] for entry in report["mismatched_keys"])]
    body = [key for key in sorted(lacking) if key.startswith(f"{model.base_model_prefix}.") and ".pooler." not in key]
    if body:
        raise HarnessError(f"model {base.name}: its file lacks {body[0]!r}, or has it in another shape")
    word_pieces.check(tokenizer, model, base)
    return model, tokenizer


# ---- losses -----------------------------------------------------------------------------------------------------


Ints = npt.NDArray[np.int64]


def binary_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Returns the mean of -(y log s(x) + (1 - y) log(1 - s(x))), where s is the logistic function.

    Parameters
    ----------
    logits, labels : shape (pairs,). Labels from 0 to 1.

    Examples
    --------
    >>> round(binary_cross_entropy(torch.zeros(2), torch.tensor([1.0, 0.0])).item(), 4)
    0.6931
    """
    return functional.binary_cross_entropy_with_logits(logits, labels)


def multiple_negatives_ranking(
    queries: torch.Tensor, documents: torch.Tensor, out: torch.Tensor, scale: float = 20.0
) -> torch.Tensor:
    """Returns the mean cross-entropy of each query's own document among the documents of the batch, by scaled cosines.

    Parameters
    ----------
    queries, documents : shape (pairs, dimensions). Row i of `documents` belongs to row i of `queries`.
    out : bool, shape (pairs, pairs). True where a document must not serve as a negative for a query, such as another
        answer to it; false on the diagonal.
    """
    cosines = functional.normalize(queries, dim=1) @ functional.normalize(documents, dim=1).T
    scores = (scale * cosines).masked_fill(out, -torch.inf)
    return functional.cross_entropy(scores, torch.arange(len(queries), device=queries.device))


def excluded(query: Ints, document: Ints, known: frozenset[tuple[int, int]] = frozenset()) -> npt.NDArray[np.bool_]:
    """Returns which documents of a batch must not serve as negatives for which query, shape (pairs, pairs).

    Excluded are documents of the same query, duplicates of the query's own document, and documents known to be
    relevant to the query.

    Parameters
    ----------
    query, document : shape (pairs,). Indices of texts; equal texts have equal indices.
    known : relevant (query, document) pairs.
    """
    same: npt.NDArray[np.bool_] = query[:, None] == query[None, :]
    same |= document[:, None] == document[None, :]
    if known:
        same |= np.array([[(q, d) in known for d in document.tolist()] for q in query.tolist()])
    np.fill_diagonal(same, False)
    return same

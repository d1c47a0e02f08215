"""A cross-encoder or bi-encoder learns from examples; see `loop` for how it stops and goes on.

Every text or pair is tokenised once. A step's pairs are taken apart by length and go through the model in passes of
little padding; what is learnt is that of the whole batch: the gradients of a cross-entropy are added up, and the
ranking loss is of all vectors together.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from harness.errors import HarnessError
from harness.io.console import progress, track
from harness.systems.dense import engines, word_pieces
from harness.systems.dense.models import Model
from harness.systems.dense.training import checkpoint, losses
from harness.systems.dense.training.data import Examples
from harness.systems.dense.training.loop import (
    BEST,
    VALIDATION,
    Log,
    Loop,
    Numbers,
    finite,
    learning_rate,
    parameter_groups,
    seeded_globally,
    update,
)
from harness.systems.dense.training.settings import Tuning

ORDER = "validation order"
_AFTER_PADDING = ("roberta", "xlm-roberta", "mpnet", "camembert")  # their first position is behind that of padding
_TOKENISED = 256  # texts or pairs at one time
_HEAD, _MIXED = 0x4EAD, 0x317D  # what is drawn: the weights of a new head, the order of pairs that validate
Scores = npt.NDArray[np.float64]


class Learner(ABC):
    """A model that learns pairs.

    Attributes
    ----------
    model : on its device.
    examples : that it may be asked for, by number.
    """

    model: Any
    tokenizer: Any

    def __init__(self, examples: Examples, tuning: Tuning, device: str) -> None:
        self.examples, self.tuning, self.device = examples, tuning, device

    @abstractmethod
    def learn(self, numbers: Numbers) -> float:
        """Gradients of the loss of some pairs, which is returned."""

    @abstractmethod
    def loss(self, numbers: Numbers) -> float:
        """Returns the loss of some pairs, without gradients."""

    @abstractmethod
    def scores(self, numbers: Numbers) -> Scores:
        """Returns how well the documents of some pairs fit, shape (pairs,)."""

    @abstractmethod
    def pieces(self) -> list[list[int]]:
        """Returns the numbers of the word pieces that are read: of each pair, or of each text on its side."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Writes the model as its library reads it."""

    def trained(self, epoch: int) -> Numbers:
        """Returns the pairs of an epoch."""
        return np.concatenate((self.examples.train, self.examples.epochs[epoch]))

    def validating(self) -> Numbers:
        """Returns the held-out pairs whose loss validates."""
        return self.examples.held

    def passes(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Indices by length, as many together as fit with their padding; at least one."""
        order = sorted(range(len(lengths)), key=lambda i: lengths[i])
        part: list[int] = []
        for i in order:
            if part and (len(part) + 1) * lengths[i] > self.tuning.tokens:
                yield part
                part = []
            part.append(i)
        if part:
            yield part

    def padded(self, rows: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        """Returns word pieces as the model takes them."""
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        return dict(self.tokenizer.pad(columns, return_tensors="pt").to(self.device))

    def autocast(self) -> AbstractContextManager[Any]:
        """Returns the arithmetic of a forward pass."""
        return torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.tuning.autocast)


class Cross(Learner):
    """A cross-encoder: question and document go through the model together."""

    def __init__(self, found: Model, examples: Examples, tuning: Tuning, device: str) -> None:
        super().__init__(examples, tuning, device)
        self.model, self.tokenizer = cross_encoder(found, tuning.seed)
        self.model.to(device)
        self._rows = tokenised(
            self.tokenizer,
            ([examples.texts[i] for i in examples.query], [examples.texts[i] for i in examples.document]),
            length_of(self.tokenizer, self.model.config, tuning.length, found.name),
        )

    def _logits(self, numbers: Numbers) -> Iterator[tuple[Numbers, torch.Tensor]]:
        """Yields some of the pairs at a time, and their logits."""
        rows = [self._rows[i] for i in numbers.tolist()]
        for part in self.passes([len(row["input_ids"]) for row in rows]):
            with self.autocast():
                out = self.model(**self.padded([rows[i] for i in part])).logits
            yield numbers[part], out[:, 0].float()

    def _losses(self, numbers: Numbers) -> Iterator[torch.Tensor]:
        """Parts of the mean over all pairs."""
        for part, logits in self._logits(numbers):
            labels = torch.from_numpy(self.examples.label[part]).to(self.device)
            yield losses.binary_cross_entropy(logits, labels) * (len(part) / len(numbers))

    def learn(self, numbers: Numbers) -> float:
        """Gradients of the loss of some pairs, which is returned."""
        total = 0.0
        for loss in self._losses(numbers):
            total += finite(loss.item())
            loss.backward()  # type: ignore[no-untyped-call]
        return total

    def loss(self, numbers: Numbers) -> float:
        """Returns the loss of some pairs, without gradients."""
        return sum(loss.item() for loss in self._losses(numbers))

    def scores(self, numbers: Numbers) -> Scores:
        """Returns how well the documents of some pairs fit, shape (pairs,)."""
        out = np.empty(len(numbers))
        place = {number: i for i, number in enumerate(numbers.tolist())}
        for part, logits in self._logits(numbers):
            out[[place[number] for number in part.tolist()]] = logits.cpu().numpy()
        return out

    def pieces(self) -> list[list[int]]:
        """Returns the numbers of the word pieces that are read of each pair."""
        return [row["input_ids"] for row in self._rows]

    def save(self, folder: Path) -> None:
        """Writes the model as its library reads it."""
        self.model.save_pretrained(folder)
        self.tokenizer.model_max_length = min(self.tuning.length, self.tokenizer.model_max_length)
        self.tokenizer.save_pretrained(folder)


class Bi(Learner):
    """A bi-encoder: a vector of each text."""

    def __init__(self, found: Model, examples: Examples, tuning: Tuning, device: str) -> None:
        super().__init__(examples, tuning, device)
        self.model = engines.sentence_transformer(found, device)
        self.tokenizer = self.model.tokenizer
        word_pieces.check(self.tokenizer, self.model[0].auto_model, found)
        query, document = (engines.prefix(self.model, tuning.prefixes, role) for role in engines.ROLES)
        # It is read with them from now on.
        self.model.prompts, self.model.default_prompt_name = {"query": query, "document": document}, None
        self._marks = tuple(engines.prompt_mark(self.model, text) for text in (query, document))
        length = length_of(self.tokenizer, self.model[0].auto_model.config, tuning.length, found.name)
        self.model.max_seq_length = length
        # A text may stand on both sides, with another prefix on each.
        self._queries = self._tokenised(examples.query, query, length)
        self._documents = self._tokenised(examples.document, document, length)
        self._known = frozenset(
            zip(examples.query[examples.positive].tolist(), examples.document[examples.positive].tolist(), strict=True)
        )

    def _tokenised(self, numbers: Numbers, prefix: str, length: int) -> dict[int, dict[str, list[int]]]:
        different = sorted(set(numbers.tolist()))
        rows = tokenised(self.tokenizer, ([prefix + self.examples.texts[i] for i in different],), length)
        return dict(zip(different, rows, strict=True))

    def validating(self) -> Numbers:
        """Returns the relevant ones; not a question after the other, whose documents are no negatives of each other."""
        held = self.examples.held[self.examples.positive[self.examples.held]]
        return held[np.random.default_rng([self.tuning.seed, _MIXED]).permutation(len(held))]

    def _vectors(self, numbers: Numbers) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the questions and documents of some pairs, shape (pairs, dimensions); equal texts go in once."""
        out = []
        sides = (self.examples.query, self._queries), (self.examples.document, self._documents)
        for (of, kept), mark in zip(sides, self._marks, strict=True):
            different, back = np.unique(of[numbers], return_inverse=True)
            rows = [kept[i] for i in different.tolist()]
            parts = list(self.passes([len(row["input_ids"]) for row in rows]))
            found = []
            for part in parts:
                with self.autocast():
                    found.append(self.model(self.padded([rows[i] for i in part]) | mark)["sentence_embedding"].float())
            place = np.argsort(np.concatenate(parts))[back]
            # Not by brackets, whose gradients are added up in any order.
            out.append(torch.index_select(torch.cat(found), 0, torch.from_numpy(place).to(self.device)))
        return out[0], out[1]

    def _loss(self, numbers: Numbers) -> torch.Tensor:
        out = losses.excluded(self.examples.query[numbers], self.examples.document[numbers], self._known)
        queries, documents = self._vectors(numbers)
        return losses.multiple_negatives_ranking(
            queries, documents, torch.from_numpy(out).to(self.device), self.tuning.scale
        )

    def learn(self, numbers: Numbers) -> float:
        """Gradients of the loss of some pairs, which is returned."""
        loss = self._loss(numbers)
        value = finite(loss.item())
        loss.backward()  # type: ignore[no-untyped-call]
        return value

    def loss(self, numbers: Numbers) -> float:
        """Returns the loss of some pairs, without gradients."""
        parts = [numbers[i : i + self.tuning.batch] for i in range(0, len(numbers), self.tuning.batch)]
        return sum(self._loss(part).item() * len(part) for part in parts) / len(numbers)

    def scores(self, numbers: Numbers) -> Scores:
        """Returns how well the documents of some pairs fit, shape (pairs,)."""
        out = []
        for begin in range(0, len(numbers), self.tuning.batch):
            queries, documents = self._vectors(numbers[begin : begin + self.tuning.batch])
            out.append(torch.nn.functional.cosine_similarity(queries, documents).double().cpu().numpy())
        return np.concatenate(out)

    def pieces(self) -> list[list[int]]:
        """Returns the numbers of the word pieces that are read of each question, then of each document."""
        return [row["input_ids"] for side in (self._queries, self._documents) for row in side.values()]

    def save(self, folder: Path) -> None:
        """Writes the model as its library reads it."""
        self.model.save(str(folder), create_model_card=False)


def learner(kind: str, found: Model, examples: Examples, tuning: Tuning, device: str) -> Learner:
    """Returns the model that is to be tuned, as it is before.

    Raises
    ------
    HarnessError
        It cannot be loaded, or does not read so many word pieces.
    """
    return {"bi": Bi, "cross": Cross}[kind](found, examples, tuning, device)


def train(learner: Learner, folder: Path, identity: Mapping[str, str], say: Callable[[str], None]) -> Log:
    """Trains to the end, from the last checkpoint of the folder if there is one; the model has the best weights then.

    Raises
    ------
    HarnessError
        As `Loop.run`.
    """
    tuning, model = learner.tuning, learner.model
    optimizer = torch.optim.AdamW(parameter_groups(model, tuning.weight_decay), lr=tuning.rate)
    least = 2 if isinstance(learner, Bi) else 1

    def batches(epoch: int) -> list[Numbers]:
        numbers = learner.trained(epoch)
        order = numbers[np.random.default_rng([tuning.seed, epoch]).permutation(len(numbers))]
        parts = (order[begin : begin + tuning.batch] for begin in range(0, len(order), tuning.batch))
        return [part for part in parts if len(part) >= least]

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
        lambda path: checkpoint.write(path, {"model": model.state_dict(), "identity": dict(identity)}),
        line,
        f"with passes of {tuning.tokens:,} word pieces: lower the key 'tokens' or 'batch'",
    )
    log = loop.run(say)
    model.load_state_dict(checkpoint.read(folder / BEST)["model"])
    model.eval()
    return log


def validate(learner: Learner) -> dict[str, float]:
    """The loss of the held-out pairs, and how often a relevant document of a question comes before another one."""
    learner.model.eval()
    held, examples = learner.examples.held, learner.examples
    with torch.no_grad(), progress("validation"):
        loss = learner.loss(learner.validating())
        order = in_order(learner.scores(held), examples.positive[held], examples.query[held])
    return {VALIDATION: loss, ORDER: order}


def in_order(scores: Scores, positive: npt.NDArray[np.bool_], query: Numbers) -> float:
    """Returns the share of pairs of a relevant and another document of one question whose scores are in that order.

    Ties count half; chance is .5, which also stands for there being no such pairs.

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
    """Returns an entry of the log for a person."""
    what = "untrained model" if entry["epoch"] == 0 else f"epoch {entry['epoch']}, loss {entry['training loss']:.4f}"
    return f"{what}: validation loss {entry[VALIDATION]:.4f}, order {entry[ORDER]:.4f} (chance .5)"


def tokenised(tokenizer: Any, columns: tuple[list[str], ...], length: int) -> list[dict[str, list[int]]]:  # noqa: ANN401
    """Returns the word pieces of texts, or of pairs of texts, cut to a length; the longer one of a pair is cut first.

    They are cut here: the library would also make what is left over, of a pair in every combination of its parts.
    """
    out: list[dict[str, list[int]]] = []
    for begin in track(range(0, len(columns[0]), _TOKENISED), "tokenising, parts"):
        part = [column[begin : begin + _TOKENISED] for column in columns]
        if not tokenizer.is_fast:  # those in Python leave nothing over, and do not say which piece is of which text
            found = tokenizer(*part, truncation=True, max_length=length)
            out += [{key: found[key][i] for key in found} for i in range(len(part[0]))]
            continue
        found = tokenizer(*part, truncation=False)
        special = tokenizer.num_special_tokens_to_add(pair=len(columns) > 1)
        for i in range(len(part[0])):
            of = np.array([-1 if text is None else text for text in found.sequence_ids(i)])
            kept = of == -1
            for text, most in enumerate(longest_first([int((of == n).sum()) for n in (0, 1)], length - special)):
                kept[np.flatnonzero(of == text)[:most]] = True
            out.append({key: np.array(found[key][i])[kept].tolist() for key in found})
    return out


def longest_first(sizes: Sequence[int], most: int) -> tuple[int, int]:
    """Returns how many pieces are kept of two texts, of `most` together: the longer one is cut until both are as long.

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
    """Returns the word pieces that are read, which must be no more than a model has positions for."""
    most = int(tokenizer.model_max_length)
    if (positions := getattr(config, "max_position_embeddings", None)) is not None:
        before = config.pad_token_id + 1 if config.model_type in _AFTER_PADDING else 0
        most = min(most, positions - before)
    if length > most:
        raise HarnessError(f"key 'training': key 'length' is {length}, and model {name} reads {most} word pieces")
    return length


def cross_encoder(found: Model, seed: int) -> tuple[Any, Any]:
    """A model that gives a pair of texts one number, and its tokenizer; a head that it lacks is drawn from the seed.

    Raises
    ------
    HarnessError
        It cannot be loaded, its tokenizer does not fit, or its file lacks more than a head.
    """
    from transformers import AutoModelForSequenceClassification

    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    tokenizer = word_pieces.load(found)
    try:
        with seeded_globally(seed, _HEAD):
            model, report = AutoModelForSequenceClassification.from_pretrained(
                str(found.folder),
                num_labels=1,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                dtype=torch.float32,
                local_files_only=True,
            )
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(f"model {found.name}: cannot be loaded: {word_pieces.reason(error)}") from None
    lacking = [*report["missing_keys"], *(entry[0] for entry in report["mismatched_keys"])]
    body = [key for key in sorted(lacking) if key.startswith(f"{model.base_model_prefix}.") and ".pooler." not in key]
    if body:
        raise HarnessError(f"model {found.name}: its file lacks {body[0]!r}, or has it in another shape")
    word_pieces.check(tokenizer, model, found)
    return model, tokenizer

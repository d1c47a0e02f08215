"""Contrastive training of the encoder (thesis, section 3.4); resumes exactly after an interruption at any moment.

The untrained model is validated first, in the same way as after each epoch: the mean reciprocal rank of each held-out
query's own document among the documents of all held-out pairs, reported alongside the expected value of a random order.

Checkpoints of encoders on disk, with the identity of their training inputs.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from harness.errors import HarnessError
from harness.io.console import progress
from harness.systems.dense.maxsim import scores_many, stack
from harness.systems.dense.training import loop as loops
from harness.systems.dense.training.loop import (
    VALIDATION,
    Loop,
    Numbers,
    check_identity,
    finite_loss,
    read_checkpoint,
    write_checkpoint,
)
from harness.systems.mathamr.encoder import batch as batches
from harness.systems.mathamr.encoder import loss
from harness.systems.mathamr.encoder.batch import Batch
from harness.systems.mathamr.encoder.model import GraphEncoder
from harness.systems.mathamr.encoder.pack import Pack
from harness.systems.mathamr.encoder.settings import GraphEncoderSettings, Schedule
from harness.systems.mathamr.encoder.virtual import formula_keys

# Parameters of mallopt, from malloc.h; the values are the largest that glibc takes, and chooses, by itself.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP = 32 << 20
_LARGEST_TRIM = 2 * _LARGEST_MMAP
_NEVER = (1 << 31) - 1


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keeps freed memory in the process inside the block, and returns it to the system afterwards.

    Each step frees what it allocated. Without this, glibc returns most of it to the system, and the next step spends up
    to a fifth of its time in faults of new pages. Has no effect with other allocators, and none on results.
    """
    libc = ctypes.CDLL(None)
    with suppress(AttributeError):  # not glibc
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP)
        libc.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        with suppress(AttributeError):
            libc.mallopt(_TRIM_THRESHOLD, _LARGEST_TRIM)
            libc.malloc_trim(0)


def save_model(path: Path, model: GraphEncoder, identity: Mapping[str, str]) -> None:
    """Writes the weights of a model with its settings and identity."""
    write_checkpoint(
        path, {"model": model.state_dict(), "settings": asdict(model.settings), "identity": dict(identity)}
    )


def load_model(path: Path, identity: Mapping[str, str]) -> GraphEncoder:
    """Reads a model written by `save_model`.

    Raises
    ------
    HarnessError
        The file is damaged, is not a checkpoint, or has another identity, such as another vocabulary.
    """
    content = read_checkpoint(path)
    check_identity(path, content.get("identity", {}), identity)
    try:
        model = GraphEncoder(GraphEncoderSettings(**content["settings"]))
        model.load_state_dict(content["model"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise HarnessError(f"{path}: no checkpoint of this model: {str(error).splitlines()[0]}") from None
    return model.eval()


Say = Callable[[str], None]
NODES = 10_000  # maximum total number of nodes of graphs encoded together


@dataclass(frozen=True, eq=False)
class QuestionAnswerPairs:
    """Pairs of questions and answers, as indices into a pack.

    Attributes
    ----------
    query, document : int64, shape (pairs,). Indices into the pack.
    group : int64, shape (pairs,). Equal for pairs of one question, which are not negatives of each other.
    block : int64, shape (pairs,). Equal for pairs that are held out together; None: equal to `group`.
    hard : int64, shape (pairs, n). Hard negatives as indices into the pack, padded with -1; None: no hard negatives.
    """

    query: Numbers
    document: Numbers
    group: Numbers
    block: Numbers | None = None
    hard: Numbers | None = None

    def __len__(self) -> int:
        return len(self.query)

    def take(self, which: Numbers) -> QuestionAnswerPairs:
        """Returns some of the pairs."""
        more = (None if each is None else each[which] for each in (self.block, self.hard))
        return QuestionAnswerPairs(self.query[which], self.document[which], self.group[which], *more)


def split(pairs: QuestionAnswerPairs, share: float, seed: int) -> tuple[QuestionAnswerPairs, QuestionAnswerPairs]:
    """Splits pairs into training and validation by block: questions, answers and chapters are on one side only.

    If a group spans several chapters and some of its pairs are trained on, its held-out pairs are dropped.
    """
    block = pairs.group if pairs.block is None else pairs.block
    blocks = np.unique(block)
    order = np.random.default_rng([seed, 0xD1]).permutation(len(blocks))
    held = blocks[order[: round(share * len(blocks))]]
    out = np.isin(block, held)
    alone = ~np.isin(pairs.group, pairs.group[~out])
    return pairs.take(np.flatnonzero(~out)), pairs.take(np.flatnonzero(out & alone))


def excluded(pairs: QuestionAnswerPairs) -> npt.NDArray[np.bool_]:
    """Returns a mask of documents in a batch that are not negatives of a query: other answers to it, and duplicates.

    Shape (pairs, pairs). The pack stores equal graphs once, so duplicates have equal indices.
    """
    same: npt.NDArray[np.bool_] = pairs.group[:, None] == pairs.group[None, :]
    same |= pairs.document[:, None] == pairs.document[None, :]
    same |= pairs.query[:, None] == pairs.query[None, :]
    np.fill_diagonal(same, False)
    return same


def extra_documents(pairs: QuestionAnswerPairs) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Returns the hard negatives outside a batch's documents, once each, and a mask of queries they do not apply to.

    Returns
    -------
    Indices into the pack, shape (n,), and bool, shape (pairs, n): true where a document is not a negative. It is a
        negative only of the pairs that it was retrieved for; it might be an answer to others.
    """
    if pairs.hard is None:
        return np.zeros(0, np.int64), np.zeros((len(pairs), 0), bool)
    negatives = np.setdiff1d(pairs.hard[pairs.hard >= 0], pairs.document)
    return negatives, ~(pairs.hard[:, :, None] == negatives[None, None, :]).any(axis=1)


def epoch_batches(pairs: QuestionAnswerPairs, schedule: Schedule, epoch: int) -> list[Numbers]:
    """Returns the batches of an epoch; a last batch of a single pair is dropped."""
    return loops.shuffled(np.arange(len(pairs)), schedule.batch, schedule.seed, epoch, 2)


def initial(
    settings: GraphEncoderSettings, seed: int, embedding: npt.NDArray[np.float32] | None = None
) -> GraphEncoder:
    """Returns the untrained model for a seed; leaves the global random state unchanged.

    Parameters
    ----------
    embedding : shape (nodes, dim). Initial embeddings of node types; rows of NaN are initialised at random.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GraphEncoder(settings)
    if embedding is not None:
        given = torch.from_numpy(embedding)
        with torch.no_grad():
            model.embedding.weight.copy_(torch.where(given.isnan(), model.embedding.weight, given))
    return model


def optimizer_of(model: GraphEncoder, schedule: Schedule) -> torch.optim.AdamW:
    """Returns the optimizer of a training; fused, it passes over the parameters once instead of seven times."""
    fused = model.t.device.type in {"cpu", "cuda"}
    return torch.optim.AdamW(loops.parameter_groups(model, schedule.weight_decay), lr=schedule.rate, fused=fused)


@dataclass(frozen=True, eq=False)
class Trainer:
    """Training run: inputs and settings that stay constant during training.

    Attributes
    ----------
    pack : the graphs of queries and documents.
    identity : digests of the inputs that checkpoints must match, such as those of the vocabulary and the pack.
    embedding : see `initial`.
    teacher : float32, shape (posts of the pack, any). Unit vectors whose similarities are distilled.
    relations : number of forward relations in the vocabulary; needed for the formula loss.
    """

    pack: Pack
    train: QuestionAnswerPairs
    held: QuestionAnswerPairs
    settings: GraphEncoderSettings
    schedule: Schedule
    folder: Path
    identity: Mapping[str, str]
    device: str = "cpu"
    embedding: npt.NDArray[np.float32] | None = None
    teacher: npt.NDArray[np.float32] | None = None
    relations: int = 0

    def run(self, say: Say) -> list[dict[str, Any]]:
        """Trains to the end, resuming from the last checkpoint, and returns the log with one entry per epoch.

        Afterwards the folder holds the best weights (`best.pt`), the log and the last checkpoint.

        Raises
        ------
        HarnessError
            The checkpoint is damaged or belongs to another training run, fewer than two pairs are held out, the loss is
            not finite, or memory runs out.
        """
        if len(self.held) < 2:
            raise HarnessError(f"training: {len(self.held)} pairs are held out, expected 2 or more; raise 'validation'")
        model = initial(self.settings, self.schedule.seed, self.embedding).to(self.device)
        schedule = self.schedule
        optimizer = optimizer_of(model, schedule)
        loop = Loop(
            model,
            optimizer,
            self.folder,
            self._identity(),
            schedule.epochs,
            schedule.patience,
            schedule.every,
            lambda step, steps: loops.learning_rate(step, steps, schedule.rate, schedule.least_rate),
            lambda epoch: epoch_batches(self.train, schedule, epoch),
            lambda batch, epoch, step: self.step(
                model, optimizer, self.train.take(batch), loops.seeded(schedule.seed, epoch, step)
            ),
            lambda: self.validate(model),
            lambda path: save_model(path, model, self.identity),
            _log_text,
            f"with batches of {schedule.batch}: lower the key 'batch'",
        )
        with freed_memory_kept():
            return loop.run(say)

    def step(
        self,
        model: GraphEncoder,
        optimizer: torch.optim.Optimizer,
        pairs: QuestionAnswerPairs,
        generator: torch.Generator,
    ) -> float:
        """Trains on one batch and returns its loss before the update."""
        model.train()
        joined, keys = self._batch(pairs)
        schedule = self.schedule
        joined = batches.augment(joined, schedule.node_mask, schedule.edge_dropout, generator, schedule.together)
        optimizer.zero_grad(set_to_none=True)
        value = self._loss(model, joined.to(self.device), pairs, keys)
        finite_loss(value.item())
        value.backward()  # type: ignore[no-untyped-call]
        loops.update(model, optimizer, schedule.clip)
        return value.item()

    def _batch(self, pairs: QuestionAnswerPairs) -> tuple[Batch, torch.Tensor | None]:
        """Returns queries, documents and hard negatives as one disconnected graph, and the keys of formulas."""
        extra, _ = extra_documents(pairs)
        items = [self.pack[i] for i in (*pairs.query.tolist(), *pairs.document.tolist(), *extra.tolist())]
        joined = batches.collate(items, self.settings)
        if not self.schedule.formulas:
            return joined, None
        known: dict[bytes, int] = {b"": -1}
        keys = np.full(tuple(joined.mask.shape), -1)
        for row, item in enumerate(items):
            for place, key in enumerate(formula_keys(item, self.relations)):
                keys[row, place] = known.setdefault(key, len(known))
        return joined, torch.from_numpy(keys)

    def _loss(
        self, model: GraphEncoder, joined: Batch, pairs: QuestionAnswerPairs, keys: torch.Tensor | None
    ) -> torch.Tensor:
        """Returns the loss of a batch; in training mode, with the formula and distillation terms."""
        kind = torch.device(self.device).type
        with torch.autocast(kind, torch.bfloat16, enabled=self.schedule.autocast):
            encoded = model(joined)
        encoded, half, schedule = encoded.float(), len(pairs), self.schedule
        extra, none = extra_documents(pairs)
        out = torch.from_numpy(np.concatenate((excluded(pairs), none), axis=1)).to(self.device)
        temperature, mean = model.temperature(), self.settings.normalise
        value = loss.objective(encoded, joined, half, temperature, schedule.beta, mean, out)
        if not model.training:
            return value
        weight = 1 - schedule.formulas - schedule.distil
        value = weight * value if weight < 1 else value
        if keys is not None:
            alike = loss.formula_loss(encoded, keys.to(self.device), half, temperature)
            value = value if alike is None else value + schedule.formulas * alike
        if self.teacher is not None and schedule.distil:
            mask = joined.mask
            scores = loss.maxsim(encoded[:half], mask[:half], encoded[half:], mask[half:], mean)
            documents = np.concatenate((pairs.document, extra))
            theirs = torch.from_numpy(self.teacher[pairs.query] @ self.teacher[documents].T).to(self.device)
            value = value + schedule.distil * loss.divergence(scores, temperature, theirs, out)
        return value

    def validate(self, model: GraphEncoder) -> dict[str, Any]:
        """Returns the measures for the log: the loss over held-out batches in a fixed order, and the mean reciprocal
        rank of each query's own document among those of all pairs, except other answers; ties count half.
        """
        model.eval()
        losses, weights = [], []
        with torch.no_grad():
            for begin in range(0, len(self.held), self.schedule.batch):
                pairs = self.held.take(np.arange(begin, min(begin + self.schedule.batch, len(self.held))))
                if len(pairs) > 1:
                    joined, _ = self._batch(pairs)
                    losses.append(self._loss(model, joined.to(self.device), pairs, None).item())
                    weights.append(len(pairs))
        value = finite_loss(float(np.average(losses, weights=weights)), VALIDATION)
        mrr, chance = reciprocal_rank(self.held_scores(model), excluded(self.held))
        temperature = float(model.temperature().detach())
        return {VALIDATION: value, "validation MRR": mrr, "chance": chance, "temperature": temperature}

    def held_scores(self, model: GraphEncoder) -> npt.NDArray[np.float64]:
        """Returns the scores of all held-out documents for all held-out queries, shape (pairs, pairs)."""
        sides = [self.held.query.tolist(), self.held.document.tolist()]
        queries, documents = (
            [rows.numpy() for rows in encode(model, self.pack, numbers, self.settings, self.device)]
            for numbers in sides
        )
        if self.schedule.beta == 0:
            singles = [np.stack([rows[-1] for rows in side]).astype(np.float64) for side in (queries, documents)]
            single: npt.NDArray[np.float64] = singles[0] @ singles[1].T
            return single
        vectors = stack((str(i), rows, -1) for i, rows in enumerate(documents))
        return scores_many(queries, vectors, mean=True).astype(np.float64)

    def _identity(self) -> dict[str, str]:
        return {
            **self.identity,
            "settings": json.dumps(asdict(self.settings), sort_keys=True),
            "schedule": json.dumps(asdict(self.schedule), sort_keys=True),
        }


def reciprocal_rank(scores: npt.NDArray[np.float64], out: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Returns the mean reciprocal rank of the diagonal of `scores` in its rows, and that of a random order.

    Parameters
    ----------
    out : mask of documents left out of the ranking, with the shape of `scores`. Each tie counts as half a rank.
    """
    own = np.diag(scores)[:, None]
    competes = ~out
    np.fill_diagonal(competes, False)
    above = ((scores > own) & competes).sum(axis=1) + 0.5 * ((scores == own) & competes).sum(axis=1)
    numbers = competes.sum(axis=1) + 1
    harmonic = np.cumsum(1 / np.arange(1, int(numbers.max()) + 1))
    return float(np.mean(1 / (1 + above))), float(np.mean(harmonic[numbers - 1] / numbers))


def encode(
    model: GraphEncoder,
    pack: Pack,
    numbers: Sequence[int],
    settings: GraphEncoderSettings,
    device: str = "cpu",
    nodes: int = NODES,
) -> list[torch.Tensor]:
    """Encodes some graphs of a pack, in the given order; returns one tensor (vectors, p) per graph, on the CPU.

    Graphs of similar size are batched, with at most `nodes` nodes in total unless a single graph has more; if memory
    runs out, the batch is halved.

    Raises
    ------
    HarnessError
        Memory runs out with one graph.
    """
    model.eval()
    sizes = pack.sizes()[np.asarray(numbers, np.int64), 0]
    waiting = list(_parts(np.argsort(sizes, kind="stable").tolist(), sizes, nodes))[::-1]
    out: dict[int, torch.Tensor] = {}
    with torch.no_grad(), progress("encoding graphs", len(numbers)) as told:
        while waiting:
            part = waiting.pop()
            joined = batches.collate([pack[numbers[i]] for i in part], settings)
            try:
                encoded = model(joined.to(device)).float().cpu()
            except RuntimeError as error:
                if not loops.is_memory(error):
                    raise
                if len(part) == 1:
                    raise HarnessError(f"out of memory while encoding a graph of {sizes[part[0]]:,} nodes") from None
                waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
                continue
            for row, i in enumerate(part):
                out[i] = encoded[row][joined.mask[row]]
            told.add(len(part))
    return [out[i] for i in range(len(numbers))]


def _parts(order: Sequence[int], sizes: Numbers, most: int) -> Iterator[list[int]]:
    """Groups indices into runs of at most `most` nodes; a larger graph is its own run."""
    part: list[int] = []
    total = 0
    for i in order:
        if part and total + int(sizes[i]) > most:
            yield part
            part, total = [], 0
        part.append(i)
        total += int(sizes[i])
    if part:
        yield part


def _log_text(entry: Mapping[str, Any]) -> str:
    what = "untrained model" if entry["epoch"] == 0 else f"epoch {entry['epoch']}, loss {entry['training loss']:.4f}"
    return (
        f"{what}: validation loss {entry['validation loss']:.4f}, MRR {entry['validation MRR']:.4f} "
        f"(chance {entry['chance']:.4f}), temperature {entry['temperature']:.4f}"
    )

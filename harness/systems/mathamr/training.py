"""Contrastive training of the encoder (thesis, section 3.4), which can be stopped at any moment and goes on exactly.

Nothing random has a state that would have to be kept: the order of an epoch is drawn from (seed, epoch), the
augmentation of a step from (seed, epoch, step). A checkpoint therefore holds the weights, the optimizer and the place,
and a training that was killed ends with the weights of one that was not.

Every training begins with the untrained model, scored as the trained one is: a held-out query's own document among the
documents of all held-out pairs, by the mean reciprocal rank; chance is given beside it.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from harness.errors import HarnessError
from harness.files import write_atomic
from harness.systems.mathamr import batch as batches
from harness.systems.mathamr import loss
from harness.systems.mathamr.batch import Batch
from harness.systems.mathamr.model import Encoder, Settings, parameter_groups
from harness.systems.mathamr.pack import Pack
from harness.systems.mathamr.schedule import Schedule

LAST, BEST, LOG = "last.pt", "best.pt", "log.jsonl"
Numbers = npt.NDArray[np.int64]
Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Questions and answers as numbers of a pack.

    Attributes
    ----------
    query, document : int64, shape (pairs,). Numbers in the pack.
    group : int64, shape (pairs,). Pairs of one question have one number; none is a negative of another.
    """

    query: Numbers
    document: Numbers
    group: Numbers

    def __len__(self) -> int:
        return len(self.query)

    def take(self, which: Numbers) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.query[which], self.document[which], self.group[which])


@dataclass(frozen=True)
class Ranked:
    """How well a model finds the documents of held-out queries.

    Attributes
    ----------
    loss : validation loss.
    mrr : mean reciprocal rank of a query's own document among those of all pairs, other answers of its question left
        out; ties count half.
    chance : what a random order would give.
    """

    loss: float
    mrr: float
    chance: float


def split(pairs: Pairs, share: float, seed: int) -> tuple[Pairs, Pairs]:
    """Pairs to train on and pairs held out, by question: no question is on both sides."""
    groups = np.unique(pairs.group)
    order = np.random.default_rng([seed, 0xD1]).permutation(len(groups))
    held = groups[order[: round(share * len(groups))]]
    out = np.isin(pairs.group, held)
    return pairs.take(np.flatnonzero(~out)), pairs.take(np.flatnonzero(out))


def excluded(pairs: Pairs) -> npt.NDArray[np.bool_]:
    """Which of a batch's documents are no negatives of which query: other answers of its question, and duplicates.

    Shape (pairs, pairs). The pack holds equal graphs once, so duplicates are equal numbers.
    """
    same: npt.NDArray[np.bool_] = pairs.group[:, None] == pairs.group[None, :]
    same |= pairs.document[:, None] == pairs.document[None, :]
    same |= pairs.query[:, None] == pairs.query[None, :]
    np.fill_diagonal(same, False)
    return same


def _order(pairs: Pairs, schedule: Schedule, epoch: int) -> list[Numbers]:
    """The batches of an epoch; what is left over and smaller than two pairs is left out."""
    order = np.random.default_rng([schedule.seed, epoch]).permutation(len(pairs))
    steps = range(0, len(order), schedule.batch)
    return [part for begin in steps if len(part := order[begin : begin + schedule.batch]) > 1]


def _generator(*numbers: int) -> torch.Generator:
    state = np.random.SeedSequence(numbers).generate_state(2, np.uint32)
    return torch.Generator().manual_seed(int(state[0]) << 32 | int(state[1]))


def _rate(schedule: Schedule, step: int, steps: int) -> float:
    share = 0.5 * (1 + math.cos(math.pi * min(step / max(steps, 1), 1.0)))
    return schedule.least_rate + (schedule.rate - schedule.least_rate) * share


def initial(settings: Settings, seed: int) -> Encoder:
    """The untrained model of a seed; the global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Encoder(settings)


@dataclass
class _State:
    """The place a training has come to."""

    epoch: int = 0
    step: int = 0  # within the epoch
    best: float = math.inf
    best_epoch: int = 0
    total: float = 0.0  # of the losses of the epoch so far


@dataclass(frozen=True, eq=False)
class Trainer:
    """A training: everything that does not change on its way.

    Attributes
    ----------
    pack : the graphs of queries and documents.
    identity : what the checkpoints belong to, such as the digests of the vocabulary and of the pack.
    """

    pack: Pack
    train: Pairs
    held: Pairs
    settings: Settings
    schedule: Schedule
    folder: Path
    identity: Mapping[str, str]
    device: str = "cpu"

    def run(self, say: Say) -> list[dict[str, Any]]:
        """Train to the end, from the last checkpoint if there is one; the log, one entry an epoch.

        The folder then holds the best weights (`best.pt`), the log and the last checkpoint.

        Raises
        ------
        HarnessError
            The checkpoint belongs to another training, or memory runs out.
        """
        model = initial(self.settings, self.schedule.seed).to(self.device)
        optimizer = torch.optim.AdamW(parameter_groups(model, self.schedule.weight_decay), lr=self.schedule.rate)
        if (self.folder / LAST).exists():
            state, log = self._resume(model, optimizer)
            say(f"training goes on at epoch {state.epoch + 1}, step {state.step + 1}")
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            state, log = _State(), [self._entry(0, model, None)]
            say(_line(log[0]))
        while state.epoch < self.schedule.epochs and state.epoch - state.best_epoch < self.schedule.patience:
            try:
                self._epoch(model, optimizer, state, log)
            except RuntimeError as error:
                _check_memory(error, f"epoch {state.epoch + 1}, step {state.step + 1}", self.schedule.batch)
                raise
            say(_line(log[-1]))
        write_atomic(self.folder / LOG, "".join(json.dumps(entry) + "\n" for entry in log))
        return log

    def _epoch(
        self, model: Encoder, optimizer: torch.optim.Optimizer, state: _State, log: list[dict[str, Any]]
    ) -> None:
        order = _order(self.train, self.schedule, state.epoch)
        steps = self.schedule.epochs * len(order)
        while state.step < len(order):
            rate = _rate(self.schedule, state.epoch * len(order) + state.step, steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            pairs = self.train.take(order[state.step])
            generator = _generator(self.schedule.seed, state.epoch, state.step)
            state.total += self._step(model, optimizer, pairs, generator)
            state.step += 1
            if state.step % self.schedule.every == 0 and state.step < len(order):
                self._save(model, optimizer, state, log)
        mean = state.total / max(len(order), 1)
        state.epoch, state.step, state.total = state.epoch + 1, 0, 0.0
        log.append(self._entry(state.epoch, model, mean))
        if log[-1]["validation loss"] < state.best:
            state.best, state.best_epoch = log[-1]["validation loss"], state.epoch
            save_model(self.folder / BEST, model, self.identity)
        self._save(model, optimizer, state, log)

    def _step(
        self, model: Encoder, optimizer: torch.optim.Optimizer, pairs: Pairs, generator: torch.Generator
    ) -> float:
        model.train()
        joined = self._batch(pairs)
        schedule = self.schedule
        joined = batches.augment(joined, schedule.node_mask, schedule.edge_dropout, generator, schedule.together)
        optimizer.zero_grad(set_to_none=True)
        value = self._loss(model, joined.to(self.device), pairs)
        if not math.isfinite(value.item()):
            raise HarnessError(f"training: the loss is {value.item()}; lower the learning rate (key 'rate')")
        value.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        optimizer.step()
        return value.item()

    def _batch(self, pairs: Pairs) -> Batch:
        """Queries, then documents, as one disconnected graph."""
        numbers = [*pairs.query.tolist(), *pairs.document.tolist()]
        return batches.collate([self.pack[i] for i in numbers], self.settings)

    def _loss(self, model: Encoder, joined: Batch, pairs: Pairs) -> torch.Tensor:
        kind = torch.device(self.device).type
        with torch.autocast(kind, torch.bfloat16, enabled=self.schedule.autocast):
            encoded = model(joined)
        out = torch.from_numpy(excluded(pairs)).to(self.device)
        half = len(pairs)
        return loss.objective(
            encoded.float(), joined, half, model.temperature(), self.schedule.beta, self.settings.normalise, out
        )

    def _entry(self, epoch: int, model: Encoder, mean: float | None) -> dict[str, Any]:
        ranked = self._validate(model)
        return {
            "epoch": epoch,
            "training loss": mean,
            "validation loss": ranked.loss,
            "validation MRR": ranked.mrr,
            "chance": ranked.chance,
            "temperature": float(model.temperature().detach()),
        }

    def _validate(self, model: Encoder) -> Ranked:
        """Loss over batches in a fixed order, and the rank of each query's document among all that are held out."""
        model.eval()
        losses, weights = [], []
        with torch.no_grad():
            for begin in range(0, len(self.held), self.schedule.batch):
                pairs = self.held.take(np.arange(begin, min(begin + self.schedule.batch, len(self.held))))
                if len(pairs) > 1:
                    losses.append(self._loss(model, self._batch(pairs).to(self.device), pairs).item())
                    weights.append(len(pairs))
        scores = self._scores(model) if len(self.held) > 1 else np.zeros((1, 1))
        mrr, chance = reciprocal_rank(scores, excluded(self.held)) if len(self.held) > 1 else (math.nan, math.nan)
        value = float(np.average(losses, weights=weights)) if losses else math.inf
        return Ranked(value, mrr, chance)

    def _scores(self, model: Encoder) -> npt.NDArray[np.float64]:
        """Scores of all held-out documents for all held-out queries, shape (pairs, pairs)."""
        queries = encode(model, self.pack, self.held.query.tolist(), self.settings, self.device, self.schedule.batch)
        documents = encode(
            model, self.pack, self.held.document.tolist(), self.settings, self.device, self.schedule.batch
        )
        q, q_mask = _padded(queries)
        d, d_mask = _padded(documents)
        rows = [
            loss.maxsim(q[i : i + 16], q_mask[i : i + 16], d, d_mask, normalise=True)
            if self.schedule.beta > 0
            else torch.stack([x[-1] for x in queries[i : i + 16]]) @ torch.stack([x[-1] for x in documents]).T
            for i in range(0, len(queries), 16)
        ]
        return torch.cat(rows).double().numpy()

    def _save(self, model: Encoder, optimizer: torch.optim.Optimizer, state: _State, log: list[dict[str, Any]]) -> None:
        content = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "state": asdict(state),
            "log": log,
            "identity": self._identity(),
        }
        _write(self.folder / LAST, content)

    def _resume(self, model: Encoder, optimizer: torch.optim.Optimizer) -> tuple[_State, list[dict[str, Any]]]:
        content = _read(self.folder / LAST)
        _check_identity(self.folder / LAST, content.get("identity", {}), self._identity())
        model.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        return _State(**content["state"]), list(content["log"])

    def _identity(self) -> dict[str, str]:
        return {
            **self.identity,
            "settings": json.dumps(asdict(self.settings), sort_keys=True),
            "schedule": json.dumps(asdict(self.schedule), sort_keys=True),
        }


def reciprocal_rank(scores: npt.NDArray[np.float64], out: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """The mean reciprocal rank of the diagonal of `scores` in its rows, and that of a random order.

    Parameters
    ----------
    out : shape as `scores`; what does not compete. Equal scores count as half a rank each.
    """
    own = np.diag(scores)[:, None]
    competes = ~out
    np.fill_diagonal(competes, False)
    above = ((scores > own) & competes).sum(axis=1) + 0.5 * ((scores == own) & competes).sum(axis=1)
    numbers = competes.sum(axis=1) + 1
    harmonic = np.cumsum(1 / np.arange(1, int(numbers.max()) + 1))
    return float(np.mean(1 / (1 + above))), float(np.mean(harmonic[numbers - 1] / numbers))


def encode(
    model: Encoder, pack: Pack, numbers: Sequence[int], settings: Settings, device: str = "cpu", size: int = 64
) -> list[torch.Tensor]:
    """The vectors of some graphs of a pack, in that order: a tensor (vectors, p) each, on the CPU.

    Graphs of like size are encoded together, at most `size` at a time.

    Raises
    ------
    HarnessError
        Memory runs out.
    """
    model.eval()
    order = sorted(range(len(numbers)), key=lambda i: len(pack[numbers[i]].nodes))
    out: dict[int, torch.Tensor] = {}
    with torch.no_grad():
        for part in _parts(order, size):
            joined = batches.collate([pack[numbers[i]] for i in part], settings)
            try:
                encoded = model(joined.to(device)).float().cpu()
            except RuntimeError as error:
                _check_memory(error, f"graphs of up to {len(pack[numbers[part[-1]]].nodes):,} nodes", size)
                raise
            for row, i in enumerate(part):
                out[i] = encoded[row][joined.mask[row]]
    return [out[i] for i in range(len(numbers))]


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def _padded(rows: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return padded, torch.arange(padded.shape[1])[None, :] < lengths[:, None]


def save_model(path: Path, model: Encoder, identity: Mapping[str, str]) -> None:
    """Write the weights of a model with its settings and what it belongs to."""
    _write(path, {"model": model.state_dict(), "settings": asdict(model.settings), "identity": dict(identity)})


def load_model(path: Path, identity: Mapping[str, str]) -> Encoder:
    """The inverse of `save_model`.

    Raises
    ------
    HarnessError
        The file is damaged or no checkpoint, or belongs to something else, such as another vocabulary.
    """
    content = _read(path)
    _check_identity(path, content.get("identity", {}), identity)
    try:
        model = Encoder(Settings(**content["settings"]))
        model.load_state_dict(content["model"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise HarnessError(f"{path}: no checkpoint of this model: {str(error).splitlines()[0]}") from None
    return model.eval()


def _check_identity(path: Path, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    for key, value in wanted.items():
        if found.get(key) != value:
            raise HarnessError(
                f"{path}: the checkpoint belongs to another {key} ({str(found.get(key))[:60]!r}, here {value[:60]!r}); "
                "take the one it was trained with, or train again in an empty folder"
            )


def _write(path: Path, content: Mapping[str, Any]) -> None:
    buffer = io.BytesIO()
    torch.save(dict(content), buffer)
    write_atomic(path, buffer.getvalue())


def _read(path: Path) -> dict[str, Any]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such checkpoint") from None
    except Exception as error:  # torch raises what the damaged bytes happen to lead to
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise HarnessError(f"{path}: not a checkpoint, or damaged: {reason[:120]}") from None
    if not isinstance(content, dict):
        raise HarnessError(f"{path}: not a checkpoint: holds a {type(content).__name__}")
    return content


def _check_memory(error: RuntimeError, where: str, batch: int) -> None:
    """Raise one line if it was memory that ran out, on a GPU or here."""
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in text or "out of memory" in text:
        raise HarnessError(
            f"out of memory at {where} with batches of {batch}: lower the key 'batch'; the last checkpoint is kept"
        ) from None


def _line(entry: Mapping[str, Any]) -> str:
    what = "untrained model" if entry["epoch"] == 0 else f"epoch {entry['epoch']}, loss {entry['training loss']:.4f}"
    return (
        f"{what}: validation loss {entry['validation loss']:.4f}, MRR {entry['validation MRR']:.4f} "
        f"(chance {entry['chance']:.4f}), temperature {entry['temperature']:.4f}"
    )

"""The training loop of all models: epochs, early stopping, and checkpoints from which training resumes exactly.

No random state has to be saved: the order of an epoch is seeded with (seed, epoch), and each step with (seed, epoch,
step). A checkpoint therefore holds the weights, the optimizer and the position in training. A training that was killed
and resumed ends with the same weights as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch

from harness.errors import HarnessError
from harness.io import staging_names
from harness.io.console import clock, in_time, progress
from harness.io.files import write_atomic
from harness.store import cost

LAST, BEST, LOG = "last.pt", "best.pt", "log.jsonl"
COST = "cost.json"  # time and memory: these differ between repetitions of the same training
VALIDATION = "validation loss"
Numbers = npt.NDArray[np.int64]
Log = list[dict[str, Any]]


def shuffled(numbers: Numbers, batch: int, seed: int, epoch: int, least: int) -> list[Numbers]:
    """Returns the batches of an epoch, in an order of seed and epoch; a last batch of fewer than `least` is dropped."""
    order = numbers[np.random.default_rng([seed, epoch]).permutation(len(numbers))]
    parts = (order[begin : begin + batch] for begin in range(0, len(order), batch))
    return [part for part in parts if len(part) >= least]


def drop_damaged(folder: Path, say: Callable[[str], None]) -> None:
    """Deletes the checkpoints of a stopped training if one of them is damaged, so that the training starts again."""
    if damaged := [name for name in (LAST, BEST) if not is_intact_checkpoint(folder / name)]:
        say(f"{folder / damaged[0]}: damaged; the training starts again")
        for name in (LAST, BEST):
            (folder / name).unlink(missing_ok=True)


def seeded(*numbers: int) -> torch.Generator:
    """Returns a random generator seeded with several numbers, such as seed, epoch and step."""
    return torch.Generator().manual_seed(_generator_seed(numbers))


@contextmanager
def seeded_globally(*numbers: int) -> Iterator[None]:
    """Seeds torch's random numbers inside the block; restores its global state afterwards."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(_generator_seed(numbers))
        yield


def _generator_seed(numbers: Sequence[int]) -> int:
    state = np.random.SeedSequence(numbers).generate_state(2, np.uint32)
    return int(state[0]) << 32 | int(state[1])


def learning_rate(
    step: int, steps: int, rate: float, least: float = 0.0, *, warmup: int = 0, shape: str = "cosine"
) -> float:
    """Returns the learning rate of a step: rises to `rate` over `warmup` steps, then falls to `least`.

    Parameters
    ----------
    step, steps : the step, from 0, and the number of all steps.
    shape : of the decay: `cosine` (half a period) or `linear`.

    Examples
    --------
    >>> [learning_rate(step, 6, 1.0, warmup=2, shape="linear") for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step < warmup:
        return rate * (step + 1) / warmup
    share = min((step - warmup) / max(steps - warmup, 1), 1.0)
    left = 1 - share if shape == "linear" else 0.5 * (1 + math.cos(math.pi * share))
    return least + (rate - least) * left


def parameter_groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Returns the parameter groups for AdamW: scalars, biases and LayerNorm have no weight decay, all others have.

    Embeddings have weight decay, as other matrices do.
    """
    norms = {id(p) for module in model.modules() if isinstance(module, torch.nn.LayerNorm) for p in module.parameters()}
    with_decay: list[torch.nn.Parameter] = []
    without: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        free = id(parameter) in norms or parameter.ndim == 0 or name.split(".")[-1] == "bias"
        (without if free else with_decay).append(parameter)
    return [{"params": with_decay, "weight_decay": weight_decay}, {"params": without, "weight_decay": 0.0}]


def update(model: torch.nn.Module, optimizer: torch.optim.Optimizer, clip: float) -> None:
    """Clips the gradients to a norm of `clip` and takes one optimizer step."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()


def finite_loss(loss: float, what: str = "loss") -> float:
    """Returns a loss; raises HarnessError if it is infinite or not a number."""
    if not math.isfinite(loss):
        raise HarnessError(f"training: the {what} is {loss}; lower the learning rate (key 'rate')")
    return loss


def is_memory(error: RuntimeError) -> bool:
    """Returns whether an error means that memory ran out, on the GPU or on the CPU."""
    text = str(error)
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in text or "out of memory" in text


@dataclass
class _State:
    """Position and statistics of a running training, as saved in checkpoints."""

    epoch: int = 0
    step: int = 0  # within the epoch
    best: float = math.inf  # lowest validation loss so far
    best_epoch: int = 0
    total: float = 0.0  # sum of the losses of the epoch so far
    losses: list[list[float]] = field(default_factory=list)  # [step over all epochs, mean loss since the last entry]
    since: float = 0.0  # `total` when the last entry was added to `losses`
    spent: float = 0.0  # seconds of the epoch so far
    seconds: list[float] = field(default_factory=list)  # of each finished epoch, without validation


@dataclass(frozen=True, eq=False)
class Loop:
    """The constant parts of a training: model, optimizer, limits and callbacks.

    Attributes
    ----------
    folder : folder of the checkpoint, the best weights (`best.pt`) and the log.
    identity : identity of the training, which a checkpoint must have to be resumed.
    epochs, patience : largest number of epochs, and of epochs without a lower validation loss before training stops;
        the loss of the untrained model is not compared.
    every : steps between two checkpoints.
    rate : step (from 0, over all epochs), number of steps -> learning rate.
    batches : epoch (from 0) -> its batches.
    step : batch, epoch, step of the epoch -> loss before the update; updates the weights.
    validate : returns the validation results for the log; includes `VALIDATION`.
    keep : writes the current weights to a file, as those of the best epoch.
    line : formats a log entry for display.
    relief : advice for when memory runs out, which describes the batch size; part of the error message.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    folder: Path
    identity: Mapping[str, str]
    epochs: int
    patience: int
    every: int
    rate: Callable[[int, int], float]
    batches: Callable[[int], Sequence[Numbers]]
    step: Callable[[Numbers, int, int], float]
    validate: Callable[[], Mapping[str, Any]]
    keep: Callable[[Path], None]
    line: Callable[[Mapping[str, Any]], str]
    relief: str

    def run(self, say: Callable[[str], None]) -> Log:
        """Trains to the end, from the last checkpoint if there is one, and returns the log.

        The log has one entry for each epoch; epoch 0 is the untrained model. Time and memory are written to a file
        beside the log (`COST`), under the names of `harness.store.cost`.

        Raises
        ------
        HarnessError
            The checkpoint belongs to another training or is damaged, the loss is no longer a number, or memory runs
            out.
        """
        if (self.folder / LAST).exists():
            state, log = self._resume()
            say(f"training resumes at epoch {state.epoch + 1}, step {state.step + 1}")
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._memory(lambda: "the validation of the untrained model"):
                state, log = _State(), [self._entry(0, None)]
            say(self.line(log[0]))
        while state.epoch < self.epochs and state.epoch - state.best_epoch < self.patience:
            with self._memory(lambda: f"epoch {state.epoch + 1}, step {state.step + 1}"):
                self._train_epoch(state, log)
            say(self._epoch_line(log[-1], state))
        write_atomic(self.folder / LOG, "".join(json.dumps(entry) + "\n" for entry in log))
        write_atomic(self.folder / COST, json.dumps(self._cost(state)) + "\n")
        return log

    def _epoch_line(self, entry: Mapping[str, Any], state: _State) -> str:
        """Returns the line printed after an epoch: log entry, final learning rate, time taken and time remaining."""
        rate = self.optimizer.param_groups[0]["lr"]
        ended = state.epoch == self.epochs or state.epoch - state.best_epoch >= self.patience
        left = 0.0 if ended else sum(state.seconds) / len(state.seconds) * (self.epochs - state.epoch)
        after = "the last" if ended else f"at most {in_time(left)} left"
        return f"{self.line(entry)}; learning rate {rate:.1e}, {in_time(state.seconds[-1])}, {after}"

    def _cost(self, state: _State) -> dict[str, Any]:
        """Returns the costs of the training so far, for the run's metadata."""
        said: dict[str, Any] = {
            cost.PARAMETERS: sum(each.numel() for each in self.model.parameters() if each.requires_grad),
            cost.EPOCHS: [round(seconds, 3) for seconds in state.seconds],
            cost.STEPS: [[int(step), round(loss, 6)] for step, loss in state.losses],
            cost.TRAINING_MEMORY: cost.own_peak(),
        }
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            said[cost.TRAINING_GPU_MEMORY] = torch.cuda.max_memory_allocated()
        return said

    def _train_epoch(self, state: _State, log: Log) -> None:
        """Trains one epoch, or what is left of it, saves the state now and then, and keeps the best model."""
        order = self.batches(state.epoch)
        steps = self.epochs * len(order)
        first, begin = state.step, clock()
        mark = begin
        with progress(f"epoch {state.epoch + 1} of {self.epochs}, steps", len(order) - first) as told:
            while state.step < len(order):
                place = state.epoch * len(order) + state.step
                rate = self.rate(place, steps)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                state.total += self.step(order[state.step], state.epoch, state.step)
                state.step += 1
                pace = (clock() - begin) / (state.step - first)
                left = in_time(pace * (steps - place - 1))
                told.detail = f"; loss {state.total / state.step:.4f}, rate {rate:.1e}, training at most {left} left"
                told.add()
                if state.step % self.every == 0 or state.step == len(order):
                    count = (state.step - 1) % self.every + 1
                    state.losses.append([place + 1, (state.total - state.since) / count])
                    state.spent, mark, state.since = state.spent + clock() - mark, clock(), state.total
                if state.step % self.every == 0 and state.step < len(order):
                    self._save(state, log)
        state.seconds.append(state.spent)
        state.spent = state.since = 0.0
        mean = state.total / max(len(order), 1)
        state.epoch, state.step, state.total = state.epoch + 1, 0, 0.0
        log.append(self._entry(state.epoch, mean))
        if log[-1][VALIDATION] < state.best:
            state.best, state.best_epoch = log[-1][VALIDATION], state.epoch
            self.keep(self.folder / BEST)
        self._save(state, log)

    def _entry(self, epoch: int, mean: float | None) -> dict[str, Any]:
        """Validates the model; returns the epoch's entry in the log."""
        losses = self.validate()
        finite_loss(losses[VALIDATION], VALIDATION)
        return {"epoch": epoch, "training loss": mean, **losses}

    def _save(self, state: _State, log: Log) -> None:
        content = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "state": asdict(state),
            "log": log,
            "identity": dict(self.identity),
        }
        write_checkpoint(self.folder / LAST, content)

    def _resume(self) -> tuple[_State, Log]:
        path = self.folder / LAST
        content = read_checkpoint(path)
        check_identity(path, content.get("identity", {}), self.identity)
        try:
            self.model.load_state_dict(content["model"])
            self.optimizer.load_state_dict(content["optimizer"])
            return _State(**content["state"]), list(content["log"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise HarnessError(f"{path}: no checkpoint of a training: {str(error).splitlines()[0]}") from None

    @contextmanager
    def _memory(self, where: Callable[[], str]) -> Iterator[None]:
        """Turns an out-of-memory error into a HarnessError of one line."""
        try:
            yield
        except RuntimeError as error:
            if not is_memory(error):
                raise
            raise HarnessError(f"out of memory at {where()} {self.relief}; the last checkpoint is kept") from None


# ---- checkpoints ------------------------------------------------------------------------------------------------


_MAGIC = b"harness checkpoint 2\n"
_END = len(_MAGIC) + 32  # bytes behind the content: the magic number and the SHA-256
_PART = 1 << 20


def check_identity(path: Path, given: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises HarnessError if a checkpoint's identity differs from the expected one in any of its keys."""
    for key, value in wanted.items():
        if given.get(key) != value:
            raise HarnessError(
                f"{path}: the checkpoint belongs to another {key} ({str(given.get(key))[:60]!r}, here {value[:60]!r}); "
                "take the one it was trained with, or train again in an empty folder"
            )


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Writes values and tensors to a checkpoint file atomically: a failed write leaves any previous file unchanged.

    Raises
    ------
    HarnessError
        The folder cannot be written to, or the disk is full.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = staging_names.new_file(path)
        with os.fdopen(descriptor, "w+b") as stream:
            torch.save(dict(content), stream)
            digest = _digest(stream, stream.seek(0, os.SEEK_END))
            stream.write(_MAGIC + digest)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:  # torch reports a wrong file position if the disk is full
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise HarnessError(f"{path}: cannot be written: {reason}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def is_intact_checkpoint(path: Path) -> bool:
    """Returns whether a checkpoint file is missing, and thus still to be written, or intact by its checksum."""
    if not path.exists():
        return True
    with path.open("rb") as stream:
        return not _fault(stream)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint that `write_checkpoint` made; never runs code that the file contains.

    Raises
    ------
    HarnessError
        The file is missing, is not a checkpoint, or is damaged.
    """
    if not path.exists():
        raise HarnessError(f"{path}: no such checkpoint")
    try:
        with path.open("rb") as stream:
            if fault := _fault(stream):
                raise HarnessError(f"{path}: not a checkpoint, or damaged: {fault}")
            stream.seek(0)
            content = torch.load(stream, map_location="cpu", weights_only=True)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error.strerror or error}") from None
    return dict(content)


def _fault(stream: IO[bytes]) -> str:
    """Describes the damage of an open checkpoint file; empty if the file is intact."""
    size = stream.seek(0, os.SEEK_END) - _END
    stream.seek(max(size, 0))
    end = stream.read()
    if size < 0 or not end.startswith(_MAGIC):
        return "it ends otherwise"
    return "" if _digest(stream, size) == end[len(_MAGIC) :] else "its checksum does not fit"


def _digest(stream: IO[bytes], size: int) -> bytes:
    """Returns the SHA-256 of the first bytes of a file, and leaves its position behind them."""
    stream.seek(0)
    digest = hashlib.sha256()
    while block := stream.read(min(_PART, size)):
        digest.update(block)
        size -= len(block)
    return digest.digest()

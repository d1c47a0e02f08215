"""Checks of a base model before training, so that faults do not surface only when the trained model is loaded.

The untrained model scores a pair of texts, is saved in the way the trained model will be, and is loaded again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from harness.errors import HarnessError
from harness.io import staging_names
from harness.store import artefacts
from harness.systems.dense import models, word_pieces
from harness.systems.dense.models import AvailableModel
from harness.systems.dense.training import trainer
from harness.systems.dense.training.data import Examples
from harness.systems.dense.training.loop import BEST, LAST
from harness.systems.dense.training.settings import Tuning

# Several scripts, a formula, a text long enough to be truncated, and spaces that a tokenizer may strip.
_TEXTS = (
    "Is $x^2+1 \\geq \\frac{1}{2}$ prime?",
    "  Řešení, čđšž: 你好, नमस्ते.\n" + "Let $n$ be even, then so is $n^2$. " * 200,
)
_CHECKPOINTS = 7  # copies of the weights on disk: weights and two moments, twice during replacement, and the best ones


class _Trial(NamedTuple):
    """Word pieces of the two trial texts, and the score of the pair."""

    pieces: list[list[int]]
    score: float


def rehearse(
    kind: str, base: AvailableModel, tuning: Tuning, work: Path, read: Callable[[str], object] | None = None
) -> None:
    """Checks that a model can be trained, saved and loaded again, without changing existing files.

    Parameters
    ----------
    kind : `cross` or `bi`.
    work : folder of the checkpoints, which may exist already. The trial model is saved temporarily beside it.
    read : loads a model folder in the way the system that uses the trained model will.

    Raises
    ------
    HarnessError
        The tokenizer cannot be loaded, is incomplete, or has word pieces without a row in the weights; a text cannot be
        scored; the saved model cannot be loaded or gives other word pieces or scores; a folder cannot be written to, or
        its disk is too small.
    """
    workspace = work.parent
    word_pieces.load(base)  # first and alone: when a whole model fails to load, the library does not name the file
    try:
        workspace.mkdir(parents=True, exist_ok=True)
        with staging_names.folder("rehearsal", workspace) as folder:
            saved = folder / "saved"
            before = _tried(kind, base, tuning, saved, work)
            try:
                after = _tried(kind, models.find_model(str(saved)), tuning)
                if read is not None:
                    read(str(saved))
            except HarnessError as error:
                raise HarnessError(error.lines[0].replace(str(saved), base.name)) from None
    except OSError as error:
        raise HarnessError(f"{error.filename or workspace}: cannot be written: {error.strerror or error}") from None
    where = f"model {base.name}: {word_pieces.file(base)}"
    if before.pieces != after.pieces:
        raise HarnessError(
            f"{where}: its tokenizer, saved and loaded again, gives other word pieces; expected the same, such as from "
            "a tokenizer.json that the installed transformers has written"
        )
    if not np.isclose(before.score, after.score, rtol=1e-3, atol=1e-5):
        raise HarnessError(
            f"model {base.name}: saved and loaded again, it scores a pair {after.score:.4f}, before {before.score:.4f}"
        )


def _tried(
    kind: str, base: AvailableModel, tuning: Tuning, saved: Path | None = None, work: Path | None = None
) -> _Trial:
    """Scores the pair of trial texts with a model, and saves the model if a folder is given."""
    first = np.zeros(1, np.int64)
    example = Examples(
        _TEXTS, first, first + 1, np.ones(1, np.float32), np.ones(1, bool), first, first, (first,), (("", ""),), {}
    )
    doing = "cannot read a pair of texts"
    try:
        learner = trainer.learner(kind, base, example, tuning, "cpu")
        learner.model.eval()
        with torch.no_grad():
            score = float(learner.scores(first)[0])
        if not np.isfinite(score):
            raise HarnessError(f"model {base.name}: the score of a pair of texts is {score}; expected a finite number")
        if saved is not None and work is not None:
            size = sum(each.numel() * each.element_size() for each in learner.model.parameters())
            _check_room(size, work)
            doing = "cannot be saved"
            learner.save(saved)
    except (HarnessError, OSError):
        raise
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(f"model {base.name}: {doing}: {word_pieces.reason(error)}") from None
    return _Trial(learner.pieces(), score)


def _check_room(size: int, work: Path) -> None:
    """Raises HarnessError if the disk has no room for the checkpoints, or for the trained model of `size` bytes."""
    there = sum(path.stat().st_size for path in (work / LAST, work / BEST) if path.is_file())
    checkpoints = (work.parent, _CHECKPOINTS * size - there, "its checkpoints")
    for folder, needed, what in (checkpoints, (artefacts.store_root(), size, "the trained model")):
        place = next(path for path in (folder, *folder.parents) if path.exists())
        if (free := shutil.disk_usage(place).free) < needed:
            room = f"{needed / 1e9:.2f} GB there for {what}, and {free / 1e9:.2f} GB are free"
            raise HarnessError(f"{place}: the training needs {room}")

"""Fine-tuned models as artifacts: model folders in the format of their library, with a model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.io import staging_names
from harness.io.console import log_line
from harness.store import artefacts, code
from harness.systems import hardware
from harness.systems.dense import documents, encoder, models, word_pieces
from harness.systems.dense.engines import EncoderSettings
from harness.systems.dense.models import AvailableModel
from harness.systems.dense.training import data
from harness.systems.dense.training.cards import CARD, left_out_of
from harness.systems.dense.training.data import Examples, guard
from harness.systems.dense.training.settings import Tuning, tuning

_LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy")
_OBJECTIVES = {"bi": "multiple-negatives ranking loss", "cross": "binary cross-entropy with logits"}
_TITLES = {"bi": "bi-encoder", "cross": "cross-encoder"}


def tuned(
    kind: str,
    model: str,
    settings: Mapping[str, Any],
    corpus: Corpus,
    workspace: Path,
    device: str = "cpu",
    read: Callable[[str], object] | None = None,
) -> Path:
    """Returns the folder of a fine-tuned model from the store, or trains it; an interrupted training resumes.

    Parameters
    ----------
    kind : `cross` or `bi`.
    model : the base model: see `harness.systems.dense.models.find_model`.
    settings : see `Tuning`.
    corpus : corpus with the judged documents, and with the threads from which additional pairs are sampled.
    workspace : folder of the checkpoints until the training ends.
    device : `cpu` or `cuda`.
    read : loads a model folder in the way the system will; used to test the base model, see `_rehearse`.

    Raises
    ------
    HarnessError
        A setting is wrong, the model cannot be fine-tuned, saved or loaded again, the corpus holds too few pairs, or
        memory runs out.
    """
    wanted = tuning(kind, settings)
    if lines := encoder.missing():
        raise HarnessError(lines[0])
    base = _base_model(model, wanted)
    spec = {
        **reads(kind, model, settings),
        "corpus": corpus.identity(),
        "code": code.of(__name__),
        "arithmetic": hardware.arithmetic(device, wanted.autocast),
    }
    key = artefacts.key(spec)
    work = workspace / f"tuning-{key[:16]}"

    def make(folder: Path) -> None:
        # All randomness comes from the seed; on the CPU a repeated training gives identical numbers.
        from harness.systems.dense.training import trainer
        from harness.systems.dense.training.loop import VALIDATION, drop_damaged

        _rehearse(kind, base, wanted, work, read)
        examples = data.examples(kind, wanted, corpus, lambda texts: _similar(texts, wanted, corpus, work, device))
        drop_damaged(work, log_line)
        if kind == "bi":
            encoder.check_weights(base)
        learner = trainer.learner(kind, base, examples, wanted, device)
        log = trainer.train(learner, work, {"training": key}, log_line)
        learner.save(folder)
        best = min(log[1:], key=lambda entry: float(entry[VALIDATION]))
        card = {
            "kind": _TITLES[kind],
            "base": {"name": _named(base.name), **base.identity},
            "corpus": corpus.name,
            "objective": _OBJECTIVES[kind],
            "settings": asdict(wanted) | {"retriever": _named(wanted.retriever)},
            "data": examples.counts,
            "epochs": log,
            "best epoch": best["epoch"],
            VALIDATION: best[VALIDATION],
            trainer.ORDER: best[trainer.ORDER],
            "arithmetic": spec["arithmetic"],
            "libraries": {name: metadata.version(name) for name in _LIBRARIES},
        }
        (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(readme(card), encoding="utf-8")

    folder = artefacts.get_or_build(f"tuned-{_TITLES[kind]}", spec, make)
    shutil.rmtree(work, ignore_errors=True)
    return folder


def loaded(
    kind: str,
    model: str,
    training: Mapping[str, Any] | None,
    corpus: Corpus,
    workspace: Path,
    device: str,
    read: Callable[[str], object],
) -> str:
    """Returns the model that a system loads: the named one or, with the key `training`, the folder of the tuned one.

    Parameters
    ----------
    read : loads a model folder in the way the system does.
    """
    return model if training is None else str(tuned(kind, model, training, corpus, workspace, device, read))


def reads(kind: str, model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the inputs of a fine-tuned model besides corpus, code and device, without training it."""
    wanted = tuning(kind, settings)
    retriever = None
    if wanted.additional and wanted.positive_ratio < 1:  # negatives are drawn by the retriever
        retriever = models.find_model(wanted.retriever)
        _check_left_out(retriever, wanted)
    return {
        "kind": kind,
        "model": dict(_base_model(model, wanted).identity),
        "retriever": None if retriever is None else dict(retriever.identity),
        "settings": {key: value for key, value in asdict(wanted).items() if key != "retriever"},
        "judgments": [_judgments_identity(name) for name in wanted.collections],
        "left out": guard(wanted.leave_out).digest(),
    }


def trains_without(kind: str, model: str, training: Mapping[str, Any] | None) -> frozenset[str] | None:
    """Returns the collections left out of the training of a system's model; None if it was not fine-tuned here."""
    return left_out(model) if training is None else tuning(kind, training).trains_without()


def left_out(model: str) -> frozenset[str] | None:
    """Returns the collections left out of a model's training, from the model card in its folder; None without a card.

    A system that loads a fine-tuned model counts as trained even if its configuration has no key `training`; its
    `trains_without` must return these collections. For a model that is not downloaded yet the answer is None, so it
    must be asked for again once the model is available.

    Raises
    ------
    HarnessError
        The card, or a file of the model, is damaged.
    """
    return None if models.missing(model) else left_out_of(models.find_model(model).folder)


def _base_model(model: str, wanted: Tuning) -> models.AvailableModel:
    """Returns the base model; if it is fine-tuned already, its training must have left out the same collections."""
    base = models.find_model(model)
    if base.engine != "transformers":
        raise HarnessError(f"model {base.name}: its engine {base.engine} cannot be fine-tuned; take another model")
    _check_left_out(base, wanted)
    return base


def _check_left_out(base: models.AvailableModel, wanted: Tuning) -> None:
    before = left_out_of(base.folder)
    if before is not None and (seen := sorted(set(wanted.leave_out) - before)):
        raise HarnessError(
            f"model {base.name}: was tuned without leaving out {', '.join(seen)}, which 'leave_out' names; start from "
            "another one"
        )


def _named(model: str) -> str:
    """Returns the name of a model; for a folder only its last part, as the path differs between machines."""
    return Path(model).name if Path(model).is_dir() else model


def _judgments_identity(name: str) -> list[str]:
    """Returns what identifies the judgments and topics of `COLLECTION` or `COLLECTION/EDITION` in a model's key."""
    collection, _, edition = name.partition("/")
    loaded = load_collection(collection)
    topics = artefacts.key({"topics": [[t.id, t.title, t.body, list(t.tags)] for t in loaded.topics()]})
    return [name, loaded.qrels(edition or None).sha256, topics]


def _similar(
    texts: Sequence[str], wanted: Tuning, corpus: Corpus, work: Path, device: str
) -> Iterator[npt.NDArray[np.float32]]:
    """Yields, for each text, its cosine with every document, computed by the untuned retriever."""
    loaded = encoder.load(wanted.retriever, device=device)
    source = documents.EncoderSource(wanted.retriever, EncoderSettings(), device)
    made = documents.vectors_of(corpus, wanted.document, wanted.retriever_view, source, lambda: loaded).vectors
    row = np.asarray(made.document)
    for query in loaded.encode(texts, "query"):
        yield np.where(row >= 0, (np.asarray(made.values) @ query)[row], np.float32(-np.inf))


# ---- the card ---------------------------------------------------------------------------------------------------


def readme(card: Mapping[str, Any]) -> str:
    """Returns the model card as Markdown in the format of the Hugging Face hub."""
    settings, counts = card["settings"], card["data"]
    rows = "\n".join(_epoch_row(entry, card["best epoch"]) for entry in card["epochs"])
    numbers = "\n".join(f"- {name}: {value:,}" for name, value in counts.items() if isinstance(value, int))
    sampled = counts["sampled positives and negatives of each epoch"]
    said = ", ".join(f"{positive} and {negative}" for positive, negative in sampled)
    keys = "\n".join(f"- `{key}`: `{json.dumps(value)}`" for key, value in settings.items())
    libraries = ", ".join(f"{name} {version}" for name, version in card["libraries"].items())
    return f"""---
library_name: sentence-transformers
pipeline_tag: {"text-ranking" if card["kind"] == "cross-encoder" else "sentence-similarity"}
---

# {card["kind"].capitalize()} fine-tuned on judgments

Started from `{card["base"]["name"]}` with {card["objective"]}, seed {settings["seed"]}.

Trained on the judgments of {", ".join(settings["collections"])} over the corpus {card["corpus"]}. Left out, as they
are evaluated: the topics and judged posts of {", ".join(settings["leave_out"]) or "no collection"}. Numbers on any
other collection say nothing about what it has learnt.

{numbers}
- sampled positives and negatives of each epoch: {said}

## Training

| epoch | training loss | validation loss | order (chance .5) |
|---|---|---|---|
{rows}

Kept is epoch {card["best epoch"]}, which has the lowest validation loss. The order is the share of pairs of a relevant
and another document of a held-out question that the model puts in that order.

## Settings

{keys}

Computed on {" in ".join(card["arithmetic"])} with {libraries}.
"""


def _epoch_row(entry: Mapping[str, Any], best: int) -> str:
    """Returns an epoch as a row of a Markdown table."""
    loss = "untrained" if entry["training loss"] is None else f"{entry['training loss']:.4f}"
    mark = " (kept)" if entry["epoch"] == best else ""
    return f"| {entry['epoch']}{mark} | {loss} | {entry['validation loss']:.4f} | {entry['validation order']:.4f} |"


# ---- trial of the base model ------------------------------------------------------------------------------------


# Several scripts, a formula, a text long enough to be truncated, and spaces that a tokenizer may strip.
_TEXTS = (
    "Is $x^2+1 \\geq \\frac{1}{2}$ prime?",
    "  Řešení, čđšž: 你好, नमस्ते.\n" + "Let $n$ be even, then so is $n^2$. " * 200,
)
_CHECKPOINTS = 7  # copies of the weights on disk: weights and two moments, twice during replacement, and the best ones


def _rehearse(
    kind: str, base: AvailableModel, wanted: Tuning, work: Path, read: Callable[[str], object] | None = None
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
            before = _tried(kind, base, wanted, saved, work)
            try:
                after = _tried(kind, models.find_model(str(saved)), wanted)
                if read is not None:
                    read(str(saved))
            except HarnessError as error:
                raise HarnessError(error.lines[0].replace(str(saved), base.name)) from None
    except OSError as error:
        raise HarnessError(f"{error.filename or workspace}: cannot be written: {error.strerror or error}") from None
    where = f"model {base.name}: {word_pieces.file(base)}"
    if before[0] != after[0]:
        raise HarnessError(
            f"{where}: its tokenizer, saved and loaded again, gives other word pieces; expected the same, such as from "
            "a tokenizer.json that the installed transformers has written"
        )
    if not np.isclose(before[1], after[1], rtol=1e-3, atol=1e-5):
        raise HarnessError(
            f"model {base.name}: saved and loaded again, it scores a pair {after[1]:.4f}, before {before[1]:.4f}"
        )


def _tried(
    kind: str, base: AvailableModel, wanted: Tuning, saved: Path | None = None, work: Path | None = None
) -> tuple[list[list[int]], float]:
    """Returns the word pieces of the trial texts and the score of the pair; saves the model if a folder is given."""
    import torch

    from harness.systems.dense.training import trainer

    first = np.zeros(1, np.int64)
    example = Examples(
        _TEXTS, first, first + 1, np.ones(1, np.float32), np.ones(1, bool), first, first, (first,), (("", ""),), {}
    )
    doing = "cannot read a pair of texts"
    try:
        learner = trainer.learner(kind, base, example, wanted, "cpu")
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
    return learner.pieces(), score


def _check_room(size: int, work: Path) -> None:
    """Raises HarnessError if the disk has no room for the checkpoints, or for the trained model of `size` bytes."""
    from harness.systems.dense.training.loop import BEST, LAST

    there = sum(path.stat().st_size for path in (work / LAST, work / BEST) if path.is_file())
    checkpoints = (work.parent, _CHECKPOINTS * size - there, "its checkpoints")
    for folder, needed, what in (checkpoints, (artefacts.store_root(), size, "the trained model")):
        place = next(path for path in (folder, *folder.parents) if path.exists())
        if (free := shutil.disk_usage(place).free) < needed:
            room = f"{needed / 1e9:.2f} GB there for {what}, and {free / 1e9:.2f} GB are free"
            raise HarnessError(f"{place}: the training needs {room}")

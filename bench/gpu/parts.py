"""What is measured on a GPU: each part yields its lines one by one, so that those before a time limit are kept.

Models have the sizes of published ones and random weights, on which no time depends. Libraries are imported by the
parts, because each part runs in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bench.table import Ratio

LENGTH = 256  # word pieces of a text, and of a pair
THESIS = {"epoch": 455.0, "MaxSim": 2.66}  # tables 4.14 and 4.20: seconds, queries a second
GOALS = {"epoch": 15.0, "MaxSim": 300.0}
FORMS = {"bi": "all-minilm-l6-v2", "cross": "cross-encoder/qnli-distilroberta-base"}
WIDTHS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


@dataclass(frozen=True)
class Sizes:
    """Sizes of the inputs: shape of models -> keys of config.json, and numbers."""

    shapes: Mapping[str, Mapping[str, int]]
    graphs: int  # of a batch of the relational encoder
    steps: int  # that are timed
    pairs: int  # of its epoch
    vectors: int
    texts: int
    tuned: int  # steps of an epoch of fine-tuning
    resumed: int  # steps of an epoch of the training that is resumed


FULL = Sizes(
    {
        name: {**dict(zip(WIDTHS, widths, strict=True)), "vocab_size": 30522, "initializer_range": 0.02}  # type: ignore[dict-item]
        for name, widths in {"MiniLM-L6": (384, 6, 12, 1536), "BERT-base": (768, 12, 12, 3072)}.items()
    },
    **{"graphs": 32, "steps": 50, "pairs": 45_000, "vectors": 21_900_000, "texts": 4096, "tuned": 50, "resumed": 40},
)
SMALL = Sizes({"tiny": {}}, graphs=4, steps=0, pairs=12, vectors=17_000, texts=16, tuned=2, resumed=2)


@dataclass(frozen=True)
class Line:
    """A line of the table; without a value, `note` says why. `theirs` and `goal` have the unit of the value."""

    part: str
    work: str
    value: float | None = None
    unit: str = ""
    note: str = ""
    peer: str = ""
    theirs: float | None = None
    goal: float | None = None

    def cells(self) -> tuple[str, ...]:
        """The cells of the table."""
        value = "-" if self.value is None else f"{self.value:,.4g} {self.unit}"
        theirs = f"{self.peer}: {self.theirs:,.4g}" if self.theirs else ""
        return (self.part, self.work, value, theirs, f"{self.goal:g}" if self.goal else "", self.note)

    def ratio(self, device: str) -> Ratio | None:
        """The line of the results file, if there is another side; rates become seconds, which are better if smaller."""
        if not self.value or not self.theirs:
            return None
        ours, theirs, unit = self.value, self.theirs, self.unit
        if unit.endswith("/s"):
            ours, theirs, unit = 1 / ours, 1 / theirs, f"s/{unit[:-2]}"
        goal = None if self.goal is None else max(self.goal, self.theirs) / min(self.goal, self.theirs)
        return Ratio(f"{self.work}, {device}", ours, theirs, self.peer, goal, unit)


def step(device: str, sizes: Sizes, folder: Path) -> Iterator[Line]:
    """A training step of the relational encoder, beside PyTorch Geometric's faster convolution."""
    from bench import graph

    work, peer = f"training step of {sizes.graphs} graphs", graph.PEER
    milliseconds: dict[str, float] = {}
    for variant in ("ours", "ours, bf16", peer) if device == "cuda" else ("ours", peer):
        if variant == peer and not find_spec("torch_geometric"):
            yield Line("step", f"{work}, {variant}", note="left out: torch_geometric is not installed")
            continue
        found = graph.measure(variant, sizes.graphs, device, min(sizes.steps, 5) if variant == peer else sizes.steps)
        milliseconds[variant] = 1000 * found["wall"]
        note = f"peak memory {found['memory'] / 1e6:,.0f} MB, loss of the first step {found['loss']:.4f}"
        yield Line("step", f"{work}, {variant}", milliseconds[variant], "ms", note)
    if peer in milliseconds:
        both = {"peer": peer, "theirs": milliseconds[peer]}
        yield Line("step", f"{work}, ours beside {peer}", milliseconds["ours"], "ms", **both)  # type: ignore[arg-type]


def epoch(device: str, sizes: Sizes, folder: Path) -> Iterator[Line]:
    """An epoch of the relational encoder."""
    from bench import graph

    found = graph.epoch(sizes.pairs, min(32, sizes.pairs // 2), device)
    note = f"{found['steps']} steps, {'bfloat16' if device == 'cuda' else 'float32'}, {found['cpu']:.1f} CPU s"
    given = {"peer": "thesis", "theirs": THESIS["epoch"], "goal": GOALS["epoch"]} if sizes is FULL else {}
    yield Line("epoch", f"training epoch of {sizes.pairs:,} pairs", found["wall"], "s", note, **given)  # type: ignore[arg-type]


def maxsim(device: str, sizes: Sizes, folder: Path) -> Iterator[Line]:
    """Exact MaxSim over vectors made on the device."""
    from bench.maxsim import on_device

    given = {"peer": "thesis, approximate", "theirs": THESIS["MaxSim"], "goal": GOALS["MaxSim"]}
    for row in on_device(device, sizes.vectors):
        note = f"scores alone {row.scored:,.1f}, largest error {row.error}, first ten in common {row.shared}"
        work = f"MaxSim over {row.vectors:,} vectors in {row.precision}, first 1,000"
        yield Line("maxsim", work, row.searched, "queries/s", note, **given if sizes is FULL else {})  # type: ignore[arg-type]


def texts(count: int) -> tuple[str, ...]:
    """Texts of words that are one word piece of the stand-ins, each with as many words as a graph has nodes."""
    from bench.graph import sizes

    rng = np.random.default_rng(0)
    words = np.array(
        ("and", "are", "can", "each", "finite", "have", "if", "number", "prime", "square", "theorem", "the")
    )
    return tuple(" ".join(rng.choice(words, number).tolist()) for number in sizes(count))


def made(kind: str, folder: Path, shape: Mapping[str, int]) -> Any:  # noqa: ANN401
    """A bi-encoder or cross-encoder of a shape with random weights, found in its folder."""
    from harness.rehearsal import models as stand_ins
    from harness.systems.dense import models

    return models.find_model(str(stand_ins.make_model(FORMS[kind], folder, 0, **shape)))


def encoders(device: str, sizes: Sizes, folder: Path) -> Iterator[Line]:
    """Texts a second of bi-encoders, pairs a second of cross-encoders."""
    from bench.maxsim import timed
    from harness.systems.dense import engines, pairs, word_pieces

    some = texts(2 * sizes.texts)
    queries, documents = [text[:90] for text in some[: sizes.texts]], some[sizes.texts :]  # 30 words
    for shape, keys in sizes.shapes.items():
        for kind in FORMS:
            found = made(kind, folder / f"{shape}-{kind}", keys)
            given = (documents,) if kind == "bi" else (queries, documents)
            read = word_pieces.load(found)(*given, truncation=True, max_length=LENGTH)["input_ids"]
            note = f"{np.mean([len(row) for row in read]):.0f} word pieces in the mean, {LENGTH} at most"
            for precision in engines.PRECISIONS:
                if kind == "bi":
                    settings = engines.EncoderSettings(length=LENGTH, precision=precision)
                    encoder = engines.transformer(found, settings, device, most=engines.TOKENS[device])
                    seconds, _ = timed(partial(encoder.encode, documents))
                else:
                    scorer = pairs.load_pair_scorer(
                        found, pairs.PairScorerSettings(LENGTH, precision=precision), device
                    )
                    seconds, _ = timed(partial(scorer.scored, queries, documents))
                rate, unit = sizes.texts / seconds, "texts/s" if kind == "bi" else "pairs/s"
                yield Line("encoders", f"{kind}-encoder, {shape}, {precision}", rate, unit, note)


def tuning(device: str, sizes: Sizes, folder: Path) -> Iterator[Line]:
    """Steps of fine-tuning, in the default settings."""
    from harness.store import cost
    from harness.systems.dense.training import loop, trainer
    from harness.systems.dense.training.data import Examples
    from harness.systems.dense.training.settings import Tuning

    past, future, none = ("arqmath-1-task1",), ("arqmath-2-task1",), np.zeros(0, np.int64)
    for shape, keys in sizes.shapes.items():
        for kind in FORMS:
            found = made(kind, folder / f"{shape}-{kind}", keys)
            for precision, autocast in (("float32", False), ("bfloat16", True)):
                settings = Tuning(past, future, epochs=2, length=LENGTH, autocast=autocast, every=1 << 30)
                pairs = sizes.tuned * settings.batch
                numbers = np.arange(pairs + settings.batch)
                positive = (numbers % 2 == 0) | (kind == "bi")
                ids = tuple((str(number), str(number)) for number in numbers)
                held, label = numbers[pairs:], positive.astype(np.float32)
                sides = numbers, len(numbers) + numbers, label, positive, numbers[:pairs], held
                examples = Examples(texts(2 * len(numbers)), *sides, (none, none), ids, {})
                where = folder / f"{shape}-{kind}-{precision}"
                trainer.train(trainer.learner(kind, found, examples, settings, device), where, {}, lambda _: None)
                seconds = json.loads((where / loop.COST).read_text("utf-8"))[cost.EPOCHS][-1]
                work = f"fine-tuning of a {kind}-encoder, {shape}, {precision}"
                note = f"a step of {settings.batch} pairs: {1000 * seconds / sizes.tuned:,.1f} ms"
                yield Line("tuning", work, pairs / seconds, "pairs/s", note)


def resume(device: str, sizes: Sizes, folder: Path) -> Iterator[Line]:
    """A training of the relational encoder that is stopped and resumed, beside uninterrupted ones."""
    import torch

    from bench import graph
    from harness.systems.dense.training import loop
    from harness.systems.mathamr.training import trainer

    batch, every = min(sizes.graphs, 32), max(sizes.resumed // 4, 1)
    last = sizes.resumed + every + max(every // 2, 1)  # in the second epoch, after a checkpoint

    class Stopped(Exception):  # noqa: N818
        """In the place of a kill."""

    class Interrupted(trainer.Trainer):
        """A training that stops before a step."""

        def step(self, *arguments: Any) -> float:  # noqa: ANN401
            taken.append(1)
            if len(taken) == last:
                raise Stopped
            return super().step(*arguments)

    def weights(name: str, *, interrupted: bool = False) -> dict[str, Any]:
        """Of a finished training."""
        pairs = sizes.resumed * batch
        whole = graph.training(pairs, batch, device, folder / name, batch, epochs=2, every=every)
        if interrupted:
            with contextlib.suppress(Stopped):
                Interrupted(**vars(whole)).run(lambda _: None)
        whole.run(said.append)
        found: dict[str, Any] = loop.read_checkpoint(folder / name / loop.LAST)["model"]
        return found

    # On a processor the default algorithms are deterministic.
    for mode in ("default", "deterministic") if device == "cuda" else ("default",):
        said, taken = list[str](), list[int]()
        torch.use_deterministic_algorithms(mode == "deterministic", warn_only=True)
        try:
            first = weights(f"{mode}-first")
            others = {"repeated": weights(f"{mode}-second")}
            said.clear()
            others["stopped and resumed"] = weights(f"{mode}-third", interrupted=True)
        finally:
            torch.use_deterministic_algorithms(False)
        for name, other in others.items():
            differences = [(first[key].double() - other[key].double()).abs().max().item() for key in first]
            equal = all(torch.equal(first[key], other[key]) for key in first)
            note = "all weights equal, bit by bit" if equal else "not equal"
            note += f"; {2 * sizes.resumed} steps" + (f"; {said[0]}" if "resumed" in name else "")
            yield Line("resume", f"training {name}, {mode} algorithms", max(differences), "at most", note)


# Part -> what it runs, and its seconds.
PARTS: Mapping[str, tuple[Callable[[str, Sizes, Path], Iterator[Line]], float]] = {
    "step": (step, 50),
    "epoch": (epoch, 140),
    "maxsim": (maxsim, 100),
    "resume": (resume, 80),
    "encoders": (encoders, 110),
    "tuning": (tuning, 120),
}

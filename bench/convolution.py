"""MathAMR+ with its own convolution and with PyTorch Geometric's (`model.convolution: own | pyg`), in turn in one run.

The batch is the synthetic one of `bench.graph`. Both models begin with the same weights. Measured are a training step
(grouping of edges, forward, loss, backward, AdamW) and the encoding of the batch, in CPU time, alternating, and how far
values and gradients differ in float32 and in float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from bench.graph import SEED, SETTINGS, batch, described
from bench.table import compared, in_turn, machine, save
from harness.systems.mathamr.encoder import loss
from harness.systems.mathamr.encoder.batch import Batch
from harness.systems.mathamr.encoder.model import Encoder, groups_of
from harness.systems.mathamr.training import trainer
from harness.systems.mathamr.training.schedule import Schedule

CONVOLUTIONS = ("own", "pyg")
PACKAGES = ("torch", "torch_geometric")


def model(convolution: str) -> Encoder:
    """The encoder of the thesis' experiments; both convolutions begin with the same weights."""
    torch.manual_seed(SEED)
    return Encoder(replace(SETTINGS, convolution=convolution))


def step(encoder: Encoder, optimizer: torch.optim.Optimizer | None, data: Batch, queries: int) -> torch.Tensor:
    """Vectors of a step; without an optimizer, the gradients are left in the model."""
    vectors = encoder(data, groups_of(data, SETTINGS))
    encoder.zero_grad(set_to_none=True)
    loss.objective(vectors, data, queries, encoder.temperature()).backward()  # type: ignore[no-untyped-call]
    if optimizer is not None:
        optimizer.step()
    detached: torch.Tensor = vectors.detach()
    return detached


def differences(data: Batch, queries: int, kind: torch.dtype) -> dict[str, float]:
    """The largest differences of vectors and of gradients, and the largest gradient."""
    found = []
    for convolution in CONVOLUTIONS:
        encoder = model(convolution).to(kind)
        vectors = step(encoder, None, data, queries)
        found.append((vectors, [p.grad for p in encoder.parameters() if p.grad is not None]))
    (ours, own), (theirs, other) = found
    worst = max(float((a - b).abs().max()) for a, b in zip(own, other, strict=True))
    return {
        "vectors": float((ours - theirs).abs().max()),
        "gradients": worst,
        "largest gradient": max(float(a.abs().max()) for a in own),
    }


def sides(data: Batch, queries: int, encodes: bool) -> dict[str, Callable[[], object]]:
    """A training step, or the encoding of the batch, by each convolution."""
    made: dict[str, Callable[[], object]] = {}
    for name in CONVOLUTIONS:
        encoder = model(name)
        optimizer = trainer.optimizer_of(encoder, Schedule())
        run = partial(encode, encoder, data) if encodes else partial(step, encoder, optimizer, data, queries)
        run()  # the first time is not counted
        made[name] = run
    return made


def encode(encoder: Encoder, data: Batch) -> torch.Tensor:
    """The vectors of the batch."""
    with torch.inference_mode():
        vectors: torch.Tensor = encoder(data)
    return vectors


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=32, help="graphs of a batch, half of them queries (default: 32)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds in which both are measured (default: 7)")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU (default: 1)")
    parser.add_argument("--json", type=Path, help="file for the ratios")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    data, queries = batch(asked.graphs), asked.graphs // 2
    print(f"{machine(PACKAGES)}; {asked.threads} thread(s).\n\n{described(asked.graphs)}.\n")
    print("| work | own, CPU s | pyg, CPU s | pyg over own |\n|---|---|---|---|")
    found = []
    for what, encodes in (("training step", False), ("encoding", True)):
        seconds, _ = in_turn(sides(data, queries, encodes), asked.rounds)
        work = f"{what} of {asked.graphs} graphs, {asked.threads} thread(s)"
        ratio = compared(work, seconds["own"], seconds["pyg"], "model.convolution=pyg")
        found.append(ratio)
        print(f"| {what} | {ratio.ours:.3g} | {ratio.theirs:.3g} | {ratio.ratio:.1f} |", flush=True)
    print("\n| arithmetic | vectors differ by | gradients differ by | largest gradient |\n|---|---|---|---|")
    for name, kind in (("float32", torch.float32), ("float64", torch.float64)):
        own = differences(data, queries, kind)
        print(f"| {name} | {own['vectors']:.1g} | {own['gradients']:.1g} | {own['largest gradient']:.2g} |")
    if asked.json:
        save(asked.json, found, PACKAGES)


if __name__ == "__main__":
    main()

"""MathAMR+ with its own convolution and with PyTorch Geometric's (`model.convolution: own | pyg`), in turn in one run.

The batch is the synthetic one of `bench.graph`. Both models begin with the same weights. Measured are a training step
(grouping of edges, forward, loss, backward, AdamW) and the encoding of the batch, in CPU time, alternating, and how far
values and gradients differ in float32 and in float64.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench.graph import SEED, SETTINGS, batch, described, processor
from harness.systems.mathamr.encoder import loss
from harness.systems.mathamr.encoder.batch import Batch
from harness.systems.mathamr.encoder.model import Encoder, groups_of
from harness.systems.mathamr.training import trainer
from harness.systems.mathamr.training.schedule import Schedule

CONVOLUTIONS = ("own", "pyg")
FOLDER = Path(__file__).parent / "results"


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
    return vectors.detach()


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


def measured(data: Batch, queries: int, rounds: int) -> dict[str, dict[str, Any]]:
    """CPU seconds of steps and encodings of both, in turn; the first round is not counted."""
    models = {name: model(name) for name in CONVOLUTIONS}
    optimizers = {name: trainer.optimizer_of(models[name], Schedule()) for name in CONVOLUTIONS}
    times: dict[str, dict[str, list[float]]] = {name: {"step": [], "encode": []} for name in CONVOLUTIONS}
    for _ in range(rounds + 1):
        for name in CONVOLUTIONS:
            begin = time.process_time()
            step(models[name], optimizers[name], data, queries)
            times[name]["step"].append(time.process_time() - begin)
            begin = time.process_time()
            with torch.inference_mode():
                models[name](data)
            times[name]["encode"].append(time.process_time() - begin)
    return {name: {key: median(each[1:]) for key, each in own.items()} for name, own in times.items()}


def main() -> None:
    """Measure, and write bench/results/convolution.json and .md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=32, help="graphs of a batch, half of them queries (default: 32)")
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds (default: 7)")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU (default: 1)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results are written")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    data, queries, load = batch(asked.graphs), asked.graphs // 2, os.getloadavg()[0]
    times = measured(data, queries, asked.rounds)
    apart = {
        name: differences(data, queries, kind)
        for name, kind in (("float32", torch.float32), ("float64", torch.float64))
    }
    versions = f"torch {torch.__version__}, torch_geometric {version('torch_geometric')}"
    machine = f"{processor()}, {asked.threads} thread(s), load before: {load:.1f}"
    found = {"times": times, "differences": apart, "versions": versions, "machine": machine, "rounds": asked.rounds}
    lines = [
        "# Convolutions of MathAMR+: own and PyTorch Geometric's",
        "",
        f"`python -m bench.convolution`, {versions}, {machine}.",
        "",
        f"One batch: {described(asked.graphs)}. The model is that of the thesis' experiments. CPU seconds, medians of",
        f"{asked.rounds} rounds in which both are measured in turn.",
        "",
        "| `model.convolution` | training step, s | encoding, s | step over own | encoding over own |",
        "|---|---|---|---|---|",
    ]
    for name, own in times.items():
        ratios = " | ".join(f"{own[key] / times['own'][key]:.1f}" for key in ("step", "encode"))
        lines.append(f"| {name} | {own['step']:.3g} | {own['encode']:.3g} | {ratios} |")
    lines += [
        "",
        "The largest differences between both, from the same weights:",
        "",
        "| arithmetic | vectors | gradients | largest gradient |",
        "|---|---|---|---|",
        *(
            f"| {name} | {own['vectors']:.1g} | {own['gradients']:.1g} | {own['largest gradient']:.2g} |"
            for name, own in apart.items()
        ),
        "",
        "Both have the same weights by name, shape and initial value; a state of one is loaded into the other.",
    ]
    (asked.folder / "convolution.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (asked.folder / "convolution.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

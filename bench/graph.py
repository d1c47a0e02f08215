"""A training step of the relational encoder: time and peak memory, ours beside PyTorch Geometric's convolution.

The graphs are synthetic. Their sizes are quantiles of a log-normal distribution with the mean and the median that the
thesis gives for its graphs (156 and 101 nodes). Formulas (8.7 a graph) and sentences (6.6), as its section 3.5.1
counts them, are in proportion to the size; virtual nodes and their edges come on top. Relations are drawn from 262 with
weights that fall as the inverse of their rank, so that a batch has nearly all of the 532 directed ones.

Each convolution is measured in a process of its own, one after the other, on the same batch with the same parameters:
forward, loss, backward and a step of AdamW. Only the convolution differs. Peak memory is what the steps add to a
process that has the model, the batch and the libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.table import Ratio, machine, options, save, show
from harness.store.cost import own_peak
from harness.systems.dense.training.loop import seeded
from harness.systems.mathamr.encoder import loss
from harness.systems.mathamr.encoder.batch import Batch, collate
from harness.systems.mathamr.encoder.convolution import EdgePlan, RelationalConv
from harness.systems.mathamr.encoder.model import GraphEncoder, GraphEncoderSettings, edge_plan
from harness.systems.mathamr.encoder.pack import Pack
from harness.systems.mathamr.encoder.settings import Schedule
from harness.systems.mathamr.encoder.virtual import EncodedGraph
from harness.systems.mathamr.training import trainer
from harness.systems.mathamr.training.trainer import freed_memory_kept

MEAN, MEDIAN = 156.0, 101.0  # nodes of a graph: table 4.2
FORMULAS, SENTENCES = 8.7, 6.6  # a graph: section 3.5.1
CONTENT_RELATIONS = 262
SETTINGS = GraphEncoderSettings(reserved=False)  # 2 (262 + 4) = 532 relations, 64 bases
SEED = 7
PEER = "FastRGCNConv"  # the faster convolution of PyTorch Geometric


def sizes(graphs: int) -> list[int]:
    """Nodes of each graph: middles of equal shares of the log-normal distribution, in random order."""
    sigma = float(np.sqrt(2 * np.log(MEAN / MEDIAN)))
    normal = NormalDist(float(np.log(MEDIAN)), sigma)
    values = np.array([np.exp(normal.inv_cdf((i + 0.5) / graphs)) for i in range(graphs)])
    # The middle of the last share lies below its mean: what a finite number of graphs lacks is given to the largest.
    values[-1] += max(MEAN * graphs - values.sum(), 0.0)
    return [max(round(float(value)), 4) for value in np.random.default_rng(SEED).permutation(values)]


def graph(rng: np.random.Generator, nodes: int) -> EncodedGraph:
    """A post of so many content nodes: sentences as trees under a root, formulas as two trees below placeholders."""
    formulas, sentences = (max(round(each * nodes / MEAN), 1) for each in (FORMULAS, SENTENCES))
    formulas = min(formulas, max(nodes // 8, 1))
    text = max(nodes * 2 // 5, formulas + 1)
    of_text = np.arange(text) * min(sentences, text) // text
    of_tree = np.arange(nodes - text) * 2 * formulas // max(nodes - text, 1)  # operator tree, then layout tree
    parent = np.full(nodes, -1)
    for first, owner in ((0, of_text), (text, of_tree)):
        starts = np.searchsorted(owner, owner)
        inside = np.arange(len(owner)) - starts
        parent[first : first + len(owner)] = first + starts + np.floor(rng.random(len(owner)) * inside).astype(int)
        roots = np.flatnonzero(inside == 0)
        placeholders = rng.permutation(np.arange(1, text))[:formulas] if text > formulas else np.zeros(formulas, int)
        parent[first + roots] = 0 if first == 0 else placeholders[owner[roots] // 2]
    source, target = parent[1:], np.arange(1, nodes)
    weights = 1 / np.arange(1, CONTENT_RELATIONS + 1)
    relation = rng.choice(CONTENT_RELATIONS, size=len(source), p=weights / weights.sum())
    kinds = [0] * formulas + [1] * (int(of_text[-1]) + 1) + [2]
    number = len(kinds)
    virtual = nodes + np.arange(number)
    up = [virtual[: number - 1], np.array([0])]
    above = [virtual[of_tree // 2], virtual[formulas + of_text], np.full(number, virtual[-1])]
    kind = np.repeat([0, 1, 2], [len(of_tree), text, number])
    below = np.concatenate((np.arange(text, nodes), np.arange(text), *up))
    small = np.uint16
    return EncodedGraph(
        nodes=np.concatenate((rng.integers(6, SETTINGS.nodes, nodes), SETTINGS.nodes + np.array(kinds))).astype(small),
        content=nodes,
        source=np.concatenate((source, *above)).astype(small),
        relation=np.concatenate((relation, CONTENT_RELATIONS + kind)).astype(small),
        target=np.concatenate((target, below)).astype(small),
        content_edges=len(source),
        vectors=virtual.astype(small),
        types=np.array(kinds, np.uint8),
        formulas=("",) * formulas,
    )


def batch(graphs: int) -> Batch:
    """The batch of the measurement."""
    rng = np.random.default_rng(SEED)
    return collate([graph(rng, nodes) for nodes in sizes(graphs)], SETTINGS)


class Peer(nn.Module):
    """PyTorch Geometric's convolution in the place of ours, with the same parameters."""

    def __init__(self, ours: RelationalConv) -> None:
        super().__init__()
        from torch_geometric.nn import FastRGCNConv

        bases, dim_in, dim_out = ours.weight.shape
        relations = len(ours.comp)
        self.conv = FastRGCNConv(dim_in, dim_out, relations, num_bases=bases, aggr="mean")
        self.conv.load_state_dict(ours.state_dict())

    def forward(self, x: Tensor, groups: EdgePlan, edge_vectors: Tensor | None) -> Tensor:
        """As `RelationalConv.forward`; the edges are those of the plan."""
        assert edge_vectors is None
        target = groups.target if groups.nodes is None else groups.nodes[groups.target]
        edges = torch.stack((groups.source, target[groups.group]))
        out: Tensor = self.conv(x, edges, groups.relation[groups.group])
        return out if groups.nodes is None else out[groups.nodes]


def model(variant: str, device: str) -> GraphEncoder:
    """The encoder with a variant's convolution; all variants begin with the same parameters."""
    torch.manual_seed(SEED)
    encoder = GraphEncoder(SETTINGS)
    if not variant.startswith("ours"):
        for layer in encoder.layers:
            layer.conv = Peer(layer.conv)  # type: ignore[arg-type]
    return encoder.to(device)


def peak(device: str) -> int:
    """Bytes in use at most so far."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else own_peak()


def in_use(device: str) -> int:
    """Bytes in use now."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def wait(device: str) -> None:
    """Until the device has nothing left to do."""
    if device == "cuda":
        torch.cuda.synchronize()


def measure(variant: str, graphs: int, device: str, steps: int) -> dict[str, Any]:
    """Loss of the first step, seconds of the steps after it, peak memory. Half of the graphs are queries."""
    data = batch(graphs).to(device)
    encoder = model(variant, device)
    optimizer = trainer.optimizer_of(encoder, Schedule())
    before = in_use(device)
    losses, wall, cpu = [], [], []
    for _ in range(steps + 1):
        wait(device)
        begin = time.perf_counter(), time.process_time()
        groups = edge_plan(data)
        with torch.autocast(device, torch.bfloat16, enabled=variant.endswith("bf16")):
            vectors = encoder(data, groups)
        optimizer.zero_grad(set_to_none=True)
        value = loss.objective(vectors, data, graphs // 2, encoder.temperature())
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        wait(device)
        wall.append(time.perf_counter() - begin[0])
        cpu.append(time.process_time() - begin[1])
        losses.append(value.item())
    wall, cpu = (wall[1:], cpu[1:]) if steps else (wall, cpu)
    return {
        "variant": variant,
        "loss": losses[0],
        "wall": float(np.median(wall)),
        "cpu": float(np.median(cpu)),
        "memory": peak(device) - before,
    }


def described(graphs: int) -> str:
    """The batch in a line."""
    data, nodes = batch(graphs), np.array(sizes(graphs))
    groups = edge_plan(data)
    return (
        f"{graphs} graphs of {nodes.mean():.0f} content nodes in the mean, {np.median(nodes):.0f} in the median, "
        f"{nodes.max():,} at most; {int(data.content.sum()):,} content and {int((~data.content).sum()):,} virtual "
        f"nodes, {len(data.source):,} directed edges of {len(groups.present)} relations in {len(groups.target):,} "
        "groups"
    )


def alone(variant: str, graphs: int, threads: int, steps: int) -> dict[str, Any]:
    """Returns what `measure` finds of a variant in a process of its own."""
    arguments = ["--only", variant, "--graphs", str(graphs), "--threads", str(threads), "--steps", str(steps)]
    done = subprocess.run([sys.executable, "-m", "bench.graph", *arguments], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def training(
    pairs: int,
    size: int,
    device: str,
    folder: Path = Path(),
    held: int = 2,
    **schedule: Any,  # noqa: ANN401
) -> trainer.Trainer:
    """A training over so many synthetic pairs in a pack, `size` a batch; `held` of them validate it as well."""
    rng = np.random.default_rng(SEED)
    nodes = rng.permutation(sizes(2 * pairs)).tolist()
    pack = Pack.memory((str(number), graph(rng, count)) for number, count in enumerate(nodes))
    numbers = np.arange(pairs)
    train = trainer.QuestionAnswerPairs(2 * numbers, 2 * numbers + 1, numbers)
    settings = Schedule(seed=SEED, batch=size, **schedule)
    return trainer.Trainer(pack, train, train.take(numbers[:held]), SETTINGS, settings, folder, {}, device)


def epoch(pairs: int, size: int, device: str) -> dict[str, float]:
    """Seconds of the steps of one epoch over so many synthetic pairs, read from a pack as a training reads them."""
    made = training(pairs, size, device, autocast=device == "cuda")
    encoder = trainer.initial(SETTINGS, SEED).to(device)
    optimizer = trainer.optimizer_of(encoder, made.schedule)
    order = trainer.epoch_batches(made.train, made.schedule, 0)
    with freed_memory_kept():
        wall, cpu = time.perf_counter(), time.process_time()
        for step, part in enumerate(order):
            made.step(encoder, optimizer, made.train.take(part), seeded(SEED, 0, step))
        wait(device)
        return {"steps": len(order), "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def main() -> None:
    """Measure."""
    parser = options(__doc__, ratios=True)
    parser.add_argument("--graphs", type=int, default=32, help="graphs of a batch, half of them queries (default: 32)")
    parser.add_argument("--steps", type=int, default=20, help="measured steps after a first one (default: 20)")
    parser.add_argument("--peer-steps", type=int, default=3, help="the same of FastRGCNConv (default: 3)")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU (default: 2)")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.only:
        print(json.dumps(measure(asked.only, asked.graphs, "cpu", asked.steps)))
        return
    steps = {"ours": asked.steps, PEER: asked.peer_steps}
    found = [alone(variant, asked.graphs, asked.threads, number) for variant, number in steps.items()]
    rows = [("convolution", "step, s: wall", "CPU", "peak memory, MB", "loss of the first step", "CPU over ours")]
    for row in found:
        seconds = f"{row['wall']:.4g}", f"{row['cpu']:.4g}"
        rest = f"{row['memory'] / 1e6:,.0f}", f"{row['loss']:.6f}", f"{row['cpu'] / found[0]['cpu']:.1f}"
        rows.append((row["variant"], *seconds, *rest))
    show(rows, asked.markdown)
    threads = f"{asked.threads} thread{'s' * (asked.threads > 1)}"
    print(f"\n{described(asked.graphs)}; {threads}; {machine(('torch', 'torch_geometric'))}")
    if asked.json:
        work = f"a training step of {asked.graphs} graphs, {threads}"
        save(asked.json, [Ratio(work, found[0]["cpu"], found[1]["cpu"], PEER)], ("torch",))


if __name__ == "__main__":
    main()

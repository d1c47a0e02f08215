"""How scoring grows: seconds and memory for 1,000 to 100,000 topics and up to ten million lines; pytrec_eval beside.

    python -m bench.scale                 the table, by a process of its own for each size and side
    python -m bench.scale --most 1000000  without the largest files
    python -m bench.scale --json FILE     the numbers also as JSON

The files are made once, in a temporary folder: topics of equally many results, the documents of each drawn at random,
ten judgments for each topic. All sides read the files and score nDCG', MAP', P'@10 and Bpref topic by topic; the
reader of pytrec_eval's side checks nothing. "Without kernels" is the harness with HARNESS_KERNELS=off. "Ties" is what
`harness score` finds out besides: the best and the worst means over the orders of tied results. Sides that score
differently end the program.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.scoring import MEASURES, quick_read
from bench.table import ROOT, Ratio, machine, options, save, show
from harness.io.kernels import VARIABLE
from harness.store.cost import own_peak

SIZES = [
    (1_000, 1_000),
    (10_000, 10_000),
    (100_000, 100_000),
    (1_000, 100_000),
    (10_000, 1_000_000),
    (1_000, 1_000_000),
    (100_000, 1_000_000),
    (1_000, 10_000_000),
    (100_000, 10_000_000),
]
DOCUMENTS = 3_000_000


def files(folder: Path, topics: int, lines: int) -> tuple[Path, Path]:
    """A run of so many topics and lines, and judgments; half of the judged documents are results."""
    run, qrels = folder / f"{topics}-{lines}.run", folder / f"{topics}-{lines}.qrels"
    rng, each = np.random.default_rng(0), lines // topics
    with run.open("w") as results, qrels.open("w") as judgments:
        for topic in range(topics):
            docs = rng.choice(DOCUMENTS, each, replace=False).tolist()
            scores = np.sort(rng.random(each) * 50)[::-1].tolist()
            found = enumerate(zip(docs, scores, strict=True), 1)
            results.write("".join(f"A.{topic}\tQ0\t{doc}\t{rank}\t{s:.6f}\tsystem\n" for rank, (doc, s) in found))
            judged = dict.fromkeys([*rng.choice(docs, min(5, each), replace=False).tolist(), *range(5)])
            judgments.write("".join(f"A.{topic}\t0\t{doc}\t{(doc + topic) % 4}\n" for doc in judged))
    return run, qrels


def harness(run: Path, qrels: Path) -> tuple[list[float], list[float]]:
    """CPU seconds of judgments, run, scoring and ties; and the means."""
    from harness.data.trec import read_qrels, read_run
    from harness.scoring.protocol import Protocol
    from harness.scoring.scorer import Scorer

    marks = [time.process_time()]
    scorer = Scorer(read_qrels(qrels), Protocol("p", MEASURES, depth=None, prime=True, relevant_from=2))
    marks.append(time.process_time())
    made = read_run(run)
    marks.append(time.process_time())
    scores = scorer(made)
    marks.append(time.process_time())
    scorer.tie_spans(made, scores)
    marks.append(time.process_time())
    return np.diff(marks).tolist(), [scores.mean(measure) for measure in MEASURES]


def peer(run: Path, qrels: Path) -> tuple[list[float], list[float]]:
    """The same of pytrec_eval, which knows no ties."""
    import pytrec_eval

    marks = [time.process_time()]
    judged: dict[str, dict[str, int]] = {}
    for topic, _, doc, grade in (line.split() for line in qrels.read_text().splitlines()):
        judged.setdefault(topic, {})[doc] = int(grade)
    names = ("ndcg", "map", "P_10", "bpref")
    evaluator = pytrec_eval.RelevanceEvaluator(judged, set(names), relevance_level=2, judged_docs_only_flag=True)
    marks.append(time.process_time())
    rankings = quick_read(run)
    marks.append(time.process_time())
    found = evaluator.evaluate(rankings).values()
    means = [sum(topic[name] for topic in found) / len(judged) for name in names]
    marks.append(time.process_time())
    return np.diff(marks).tolist(), means


SIDES = {"mathir-harness": harness, "without kernels": harness, "pytrec-eval-terrier": peer}


def alone(side: str, run: Path, qrels: Path) -> tuple[list[float], list[float], float]:
    """One side in a process of its own: seconds, means, and the peak of its memory in MiB."""
    command = [sys.executable, "-m", "bench.scale", "--side", side, "--files", str(run), str(qrels)]
    kernels = {VARIABLE: "off" if side == "without kernels" else "on"}
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=os.environ | kernels)
    seconds, means, peak = json.loads(done.stdout)
    return seconds, means, peak


def measured(topics: int, lines: int) -> tuple[list[tuple[str, ...]], list[Ratio]]:
    """Rows of the table for a size; ratios of the harness to the other sides, without the bounds of ties."""
    rows, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        run, qrels = files(Path(folder), topics, lines)
        size = f"{run.stat().st_size / 2**20:.0f}"
        found = {side: alone(side, run, qrels) for side in SIDES}
    ours, wanted, _ = found["mathir-harness"]
    for side, (seconds, means, peak) in found.items():
        if not np.allclose(means, wanted, atol=1e-9, rtol=0):
            sys.exit(f"{topics} topics, {lines} lines: {side} has {means}, the harness {wanted}")
        shown = [*(f"{s:.2f}" for s in seconds), ""][:4]
        rows.append(
            (f"{topics:,}", f"{lines:,}", size, side, *shown, f"{sum(seconds) / topics * 1e6:,.0f}", f"{peak:,.0f}")
        )
        if seconds is not ours:
            work = f"read, check and score {lines:,} lines of {topics:,} topics, beside {side}"
            ratios.append(Ratio(work, sum(ours[:3]), sum(seconds[:3]), side))
    return rows, ratios


def main() -> None:
    """Print the table, or (as a process of its own) what one side needs."""
    parser = options(__doc__, ratios=True)
    parser.add_argument("--most", type=int, default=10_000_000, help="lines of the largest file")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--files", nargs=2, type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.side is not None:
        print(json.dumps([*SIDES[chosen.side](*chosen.files), own_peak() / 2**20]))
        return
    found = [measured(*size) for size in SIZES if size[1] <= chosen.most]
    head = ("topics", "lines", "MiB", "side", "judgments, s", "read, s", "score, s", "ties, s", "all, µs a topic")
    show([(*head, "peak, MiB"), *(row for rows, _ in found for row in rows)], chosen.markdown)
    print(f"\nCPU seconds; {machine(['pytrec-eval-terrier'])}")
    if chosen.json:
        save(chosen.json, [ratio for _, ratios in found for ratio in ratios], ["pytrec-eval-terrier"])


if __name__ == "__main__":
    main()

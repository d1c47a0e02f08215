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
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.scoring import MEASURES, quick_read
from bench.table import Ratio, save
from harness.io.kernels import VARIABLE

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
Row = dict[str, Any]


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
    root = Path(__file__).parent.parent
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root, env=os.environ | kernels)
    seconds, means, peak = done.stdout.splitlines()[-3:]
    return [float(s) for s in seconds.split()], [float(m) for m in means.split()], float(peak)


def table(most: int, file: Path | None) -> None:
    """Measure all sizes, print a Markdown table, and write the numbers to a file if one is given."""
    rows = []
    print("| topics | lines | MiB | side | judgments, s | read, s | score, s | ties, s | all, µs a topic | peak, MiB |")
    print("|" + "---|" * 10)
    for topics, lines in (size for size in SIZES if size[1] <= most):
        with tempfile.TemporaryDirectory() as folder:
            run, qrels = files(Path(folder), topics, lines)
            size = run.stat().st_size / 2**20
            wanted: list[float] = []
            for side in SIDES:
                seconds, means, peak = alone(side, run, qrels)
                wanted = wanted or means
                rows.append(
                    {
                        "topics": topics,
                        "lines": lines,
                        "side": side,
                        "s": [round(s, 4) for s in seconds],
                        "peak_mib": round(peak),
                    }
                )
                if not np.allclose(means, wanted, atol=1e-9, rtol=0):
                    sys.exit(f"{topics} topics, {lines} lines: {side} has {means}, the harness {wanted}")
                shown = " | ".join(f"{s:.2f}" for s in seconds) + (" | " if len(seconds) == 3 else "")
                each = sum(seconds) / topics * 1e6
                print(
                    f"| {topics:,} | {lines:,} | {size:.0f} | {side} | {shown} | {each:,.0f} | {peak:,.0f} |",
                    flush=True,
                )
    print(f"\nCPU seconds; Python {platform.python_version()}, {platform.machine()}")
    if file is not None:
        save(file, ratios(rows), ("pytrec-eval-terrier",))


def ratios(rows: Sequence[Row]) -> Iterator[Ratio]:
    """The ratios of the harness to each other side, both without the bounds of ties."""
    for row in rows:
        ours = next(each for each in rows if (each["topics"], each["lines"]) == (row["topics"], row["lines"]))
        if row is not ours:
            work = f"read, check and score {row['lines']:,} lines of {row['topics']:,} topics, beside {row['side']}"
            yield Ratio(work, sum(ours["s"][:3]), sum(row["s"][:3]), row["side"])


def main() -> None:
    """Print the table, or (as a process of its own) what one side needs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=10_000_000, help="lines of the largest file")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--files", nargs=2, type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.side is None:
        table(chosen.most, chosen.json)
        return
    seconds, means = SIDES[chosen.side](*chosen.files)
    print(*seconds)
    print(*(repr(mean) for mean in means))
    # Not getrusage: its maximum is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    print(next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")))


if __name__ == "__main__":
    main()

"""A lab's static site: CPU time and memory of building it, of building it again, and the time until a topic is shown.

    python -m bench.site [--runs 60] [--collection arqmath-3-task1] [--depth 1000] [--browser] [--markdown]

Simulated runs rank the judged documents of each topic among others, half of them with metadata. The lab and its runs
are made first and not counted. Build times are CPU times of the command `harness site build`; memory is its peak. With
`--browser`, each topic's page is opened in Chromium from disk, and the time is that until it is complete.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml

from harness.data.trec import Run
from harness.data.written import run_text
from harness.experiments.task import Task
from harness.labs.lab import Lab, new_lab
from harness.labs.submit import Offer, submit

CHROMIUM = "/usr/bin/chromium"
METHODS = ("BM25 over text", "dense bi-encoder", "operator trees", "interpolation of two runs")


def simulated(number: int, judged: Mapping[str, Sequence[str]], docs: Sequence[str], depth: int) -> Run:
    """A run: judged documents of each topic among others; the higher the number, the more of them."""
    draw = random.Random(number)
    skill = 0.2 + 0.6 * draw.random()
    ranked = {}
    for topic, own in judged.items():
        found = [doc for doc in own if draw.random() < skill]
        others = draw.sample(docs, min(len(docs), depth))
        mixed = list(dict.fromkeys(draw.sample([*found, *others], len(found) + len(others))))[:depth]
        ranked[topic] = {doc: float(depth - rank) for rank, doc in enumerate(mixed)}
    return Run.from_dict(f"run-{number}", ranked)


def made_lab(folder: Path, collection: str, runs: int, depth: int) -> Lab:
    """A lab with simulated runs, each of a team of its own."""
    lab = new_lab(folder / "lab", {"title": "Bench", "collection": collection})
    task: Task = lab.task()
    judged = {topic: sorted(docs) for topic, docs in task.scorer.qrels.to_dict().items()}
    docs = sorted({doc for own in judged.values() for doc in own})
    for number in range(runs):
        path = folder / f"run-{number}.run"
        path.write_text(run_text(simulated(number, judged, docs, depth)))
        if number % 2:
            retrieval = [{"name": f"system {number}", "method": METHODS[number % 4]}]
            costs = {"latency": {"mean": f"{10 + 37 * number} ms"}, "parameters": 1_000_000 * (1 + number)}
            text = yaml.safe_dump({"method": {"retrieval": retrieval}, "resources": costs})
            path.with_suffix(".ir-metadata.yml").write_text(text)
        offer = Offer(path, f"team{number}", description="A simulated run.")
        submit(lab, offer, bench=task, now=datetime(2026, 1, 1, tzinfo=UTC))
        path.unlink()
    return lab


def built(lab: Lab, output: Path) -> tuple[float, float, str]:
    """CPU seconds and peak memory in MiB of one build, and what it prints last."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "harness", "site", "build", str(lab.folder), "--output", str(output), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, said
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds or used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, said.strip().splitlines()[-1]


def opened(pages: Sequence[Path]) -> list[float]:
    """Milliseconds until each page is complete, in a browser that has opened one before."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(pages[0].as_uri())
        for path in pages:
            page.goto(path.as_uri())
            ended = "performance.getEntriesByType('navigation')[0].loadEventEnd"
            times.append(float(page.evaluate(ended)))
        browser.close()
    return times


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--collection", default="arqmath-3-task1")
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--browser", action="store_true", help="open the pages of topics in Chromium")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lab = made_lab(folder, asked.collection, asked.runs, asked.depth)
        first, memory, _ = built(lab, folder / "site")
        again, _, said = built(lab, folder / "site")
        assert ": 0 files written" in said, said
        assert said.endswith(" 0 deleted"), said
        files = [path for path in (folder / "site").rglob("*") if path.is_file()]
        topics = sorted((folder / "site" / "lab" / "topics").glob("*.html"))
        size = sum(path.stat().st_size for path in files) / 2**20
        largest = max(path.stat().st_size for path in topics) / 2**10
        rows = [
            ("runs x topics, results a topic", f"{asked.runs} x {len(topics) - 1}, {asked.depth:,}"),
            ("files, MiB", f"{len(files)}, {size:.0f}"),
            ("largest page of a topic, KiB", f"{largest:.0f}"),
            ("build, CPU s", f"{first:.1f}"),
            ("build again, CPU s (nothing written)", f"{again:.1f}"),
            ("peak memory, MiB", f"{memory:.0f}"),
        ]
        if asked.browser:
            times = opened(topics)
            shown = (
                f"{statistics.median(times):.0f}, {sorted(times)[int(0.95 * (len(times) - 1))]:.0f}, {max(times):.0f}"
            )
            rows.append(("a topic opens: median, 95%, slowest, ms", shown))
    line = "| {} | {} |" if asked.markdown else "{}: {}"
    if asked.markdown:
        print(line.format("what", "value"))
        print(line.format("---", "---"))
    for row in rows:
        print(line.format(*row))


if __name__ == "__main__":
    main()

"""A lab's static site: CPU time and memory of building it, of building it again, and the time until a topic is shown.

    python -m bench.site [--runs 60] [--teams 60] [--collection arqmath-3-task1] [--depth 1000] [--real]
                         [--browser] [--markdown]

Simulated runs rank the judged documents of each topic among others, half of them with metadata. With `--real`, the runs
are perturbed copies of nine runs of ARQMath-1 participants. The lab and its runs are made first and not counted. Build
times are CPU times of the command `harness site build`; memory is its peak. With `--browser`, each topic's page is
opened in Chromium from disk: CPU time of the page's process, and time until the page is complete.
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
from typing import Any

import yaml

from bench.table import show
from harness.data.run_writers import run_text
from harness.data.trec import Run, read_run
from harness.experiments.task import Task
from harness.labs.lab import Lab, new_lab, read_lab
from harness.labs.submit import Offer, submit_run
from harness.sources import catalogue
from harness.sources.fetch import fetch_resources

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


def perturbed(number: int, given: Run) -> Run:
    """A copy of a run with other ranks: the lower a result, the further it moves; one in twenty is lost."""
    draw = random.Random(number)
    ranked: dict[str, dict[str, float]] = {}
    kept: dict[str, list[str]] = {}
    for topic, doc in zip(given.topic.tolist(), given.doc.tolist(), strict=True):
        kept.setdefault(given.topics[topic], []).append(doc.decode())
    for topic, docs in kept.items():
        ranked[topic] = {
            doc: -(rank + draw.gauss(0, 0.5 + 0.3 * rank))
            for rank, doc in enumerate(docs)
            if rank == 0 or draw.random() > 0.05
        }
    return Run.from_dict(f"run-{number}", ranked)


def real_runs() -> list[Run]:
    """The nine public runs of ARQMath-1 Task 1."""
    return [read_run(path) for path in fetch_resources(catalogue.source_files("arqmath-psu"))]


def made_lab(
    folder: Path, collection: str, runs: int, depth: int, *, teams: int | None = None, real: Sequence[Run] = ()
) -> Lab:
    """A lab with simulated runs, or perturbed copies of real ones, of as many teams, by default each of its own."""
    lab = new_lab(folder / "lab", {"title": "Bench", "collection": collection})
    task: Task = lab.task()
    judged = {topic: sorted(docs) for topic, docs in task.scorer.qrels.to_dict().items()}
    docs = sorted({doc for own in judged.values() for doc in own})
    for number in range(runs):
        path = folder / f"run-{number}.run"
        run = perturbed(number, real[number % len(real)]) if real else simulated(number, judged, docs, depth)
        path.write_text(run_text(run))
        if number % 2:
            retrieval = [{"name": f"system {number}", "method": METHODS[number % 4]}]
            costs = {"latency": {"mean": f"{10 + 37 * number} ms"}, "parameters": 1_000_000 * (1 + number)}
            text = yaml.safe_dump({"method": {"retrieval": retrieval}, "resources": costs})
            path.with_suffix(".ir-metadata.yml").write_text(text)
        offer = Offer(path, f"team{number % (teams or runs)}", f"run-{number}", description="A simulated run.")
        submit_run(lab, offer, bench=task, now=datetime(2026, 1, 1, tzinfo=UTC))
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


def opened(pages: Sequence[Path]) -> tuple[list[float], list[float]]:
    """For each page: milliseconds until it is complete, and CPU milliseconds of its process until it is drawn.

    The browser has opened a page before. The CPU time comes in steps of 10 ms.
    """
    from playwright.sync_api import sync_playwright

    times, work = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        session = browser.new_browser_cdp_session()

        def used() -> float:
            known = session.send("SystemInfo.getProcessInfo")["processInfo"]
            return 1000 * sum(float(each["cpuTime"]) for each in known if each["type"] == "renderer")

        page.goto(pages[0].as_uri())
        for path in pages:
            page.goto("about:blank")
            page.wait_for_timeout(50)
            before = used()
            page.goto(path.as_uri())
            page.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
            times.append(float(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")))
            page.wait_for_timeout(100)
            work.append(used() - before)
        browser.close()
    return times, work


def spread(values: Sequence[float]) -> str:
    """Median, 95th percentile and largest value."""
    ordered = sorted(values)
    return f"{statistics.median(ordered):.0f}, {ordered[int(0.95 * (len(ordered) - 1))]:.0f}, {ordered[-1]:.0f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--collection", default="arqmath-3-task1")
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--teams", type=int, help="default: as many as runs")
    parser.add_argument("--real", action="store_true", help="perturbed copies of the public runs of ARQMath-1")
    parser.add_argument("--browser", action="store_true", help="open the pages of topics in Chromium")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--folder", type=Path, help="a folder for the lab and the site, which stay; default: temporary")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measured(asked, asked.folder or Path(name))
    rows = [(what, value if isinstance(value, str) else f"{value:,}") for what, value in found.items()]
    show([("what", "value"), *rows], asked.markdown)


def measured(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Builds the site twice, and opens its pages if that is asked for."""
    collection = "arqmath-1-task1" if asked.real else asked.collection
    given = {"teams": asked.teams, "real": real_runs() if asked.real else ()}
    kept = folder / "lab"
    lab = read_lab(kept) if kept.exists() else made_lab(folder, collection, asked.runs, asked.depth, **given)
    first, memory, _ = built(lab, folder / "site")
    again, _, said = built(lab, folder / "site")
    assert ": 0 files written" in said, said
    assert said.endswith(" 0 deleted"), said
    files = [path for path in (folder / "site").rglob("*") if path.is_file()]
    topics = sorted(path for path in (folder / "site" / "lab" / "topics").glob("*.html") if path.stem != "index")
    found: dict[str, Any] = {
        "runs": asked.runs,
        "teams": asked.teams or asked.runs,
        "topics": len(topics),
        "results": sum(1 for path in kept.rglob("run.txt") for _ in path.open("rb")),
        "files": len(files),
        "size, MiB": round(sum(path.stat().st_size for path in files) / 2**20),
        "build, CPU s": round(first, 1),
        "build again, nothing written, CPU s": round(again, 1),
        "peak memory, MiB": round(memory),
    }
    if asked.browser:
        times, work = opened(topics)
        found["a topic opens, ms (median, 95%, most)"], found["CPU of its process, ms"] = spread(times), spread(work)
    return found


if __name__ == "__main__":
    main()

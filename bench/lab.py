"""A lab under load: teams that submit at once, some of them killed; what is lost, what that takes, its leaderboard.

    python -m bench.lab [--teams 200] [--runs 5] [--workers 16] [--kills 10] [--private] [--markdown]

Simulated teams submit random rankings of the mini collection's answers, each process for its share of the teams. Now
and then one of the processes gets SIGKILL and another one takes over its share: what the journal does not have yet is
submitted again. Latencies are those of whole submissions (read, check, score, keep, compare), with the lab's task at
hand, as a server has it. Fails if a submission is lost, is there twice or is damaged, or if the leaderboard of the kept
scores is not that of the runs scored from scratch.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.data.trec import Run
from harness.data.written import run_text
from harness.experiments.task import Task, corpus_ids
from harness.labs.board import Leaderboard
from harness.labs.check import check
from harness.labs.form import normal
from harness.labs.lab import Lab
from harness.labs.leaderboard import Entry, leaderboard
from harness.labs.roster import BASELINE, add_team
from harness.labs.submissions import scores_of, submissions
from harness.labs.submit import Offer, open_lab, submit
from harness.scoring.scores import Scores

DEPTH = 50  # results of a topic
Share = Sequence[tuple[int, int]]


def simulated(team: int, number: int, topics: Sequence[str], docs: Sequence[str], judged: dict[str, list[str]]) -> Run:
    """A run: some of the judged documents of each topic among others, more of them the better the team is."""
    draw = random.Random(f"{team} {number}")
    skill = (team % 40) / 80 + draw.random() / 10
    ranked = {}
    for topic in topics:
        found = [doc for doc in judged.get(topic, []) if draw.random() < skill]
        others = [doc for doc in draw.sample(docs, DEPTH) if doc not in found][: DEPTH - len(found)]
        mixed = draw.sample(found + others, len(found) + len(others))
        ranked[topic] = {doc: float(DEPTH - rank) for rank, doc in enumerate(mixed)}
    return Run.from_dict(f"run-{number}", ranked)


class World:
    """What all processes share: the lab, its task, and how runs are made."""

    def __init__(self, lab: Lab, bench: Task, folder: Path) -> None:
        import_module("scipy.stats")  # once for all, as the task is read once: processes are forked
        self.lab, self.bench, self.folder = lab, bench, folder
        assert bench.corpus is not None
        self.docs = list(corpus_ids(bench.corpus))
        self.topics = bench.scorer.qrels.topics
        self.judged = {topic: sorted(docs) for topic, docs in bench.scorer.qrels.to_dict().items()}

    def run(self, team: int, number: int) -> Run:
        """A run of a team, by its number."""
        return simulated(team, number, self.topics, self.docs, self.judged)

    def work(self, worker: int, share: Share) -> None:
        """Submit what the journal lacks of a share; the seconds that each took go to the worker's file, a line each."""
        there = {(each.team, each.label) for each in submissions(self.lab)}
        with (self.folder / f"{worker}.seconds").open("a", buffering=1) as log:
            for team, number in share:
                if (f"team{team}", f"run-{number}") in there:
                    continue
                path = self.folder / f"{team}-{number}.run"
                path.write_text(run_text(self.run(team, number)))
                begin = time.perf_counter()
                submit(self.lab, Offer(path, f"team{team}"), bench=self.bench)
                log.write(f"{time.perf_counter() - begin}\n")
                path.unlink()


def submitted_by_all(world: World, shares: Sequence[Share], kills: int) -> float:
    """Let all workers submit, killing one of them now and then; seconds."""
    context, draw = multiprocessing.get_context("fork"), random.Random(1)
    total = sum(len(share) for share in shares)
    journal = world.lab.folder / "journal.jsonl"

    def start(at: int) -> Any:  # noqa: ANN401  (the class depends on the context)
        process = context.Process(target=world.work, args=(at, shares[at]))
        process.start()
        return process

    begin = time.perf_counter()
    workers = [start(at) for at in range(len(shares))]
    before = journal.read_bytes().count(b"\n")
    for kill in range(kills):
        while journal.read_bytes().count(b"\n") - before < (kill + 1) * total // (kills + 1):
            time.sleep(0.02)
        living = [at for at, worker in enumerate(workers) if worker.is_alive()]
        if not living:
            break
        at = draw.choice(living)
        os.kill(workers[at].pid, signal.SIGKILL)
        workers[at].join()
        workers[at] = start(at)
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - begin
    assert all(worker.exitcode == 0 for worker in workers), [worker.exitcode for worker in workers]
    return seconds


def from_scratch(world: World, teams: int, runs: int) -> Iterator[tuple[str, Scores]]:
    """Every run made and scored anew, by its name."""
    scorer = world.lab.task().scorer
    for team in range(teams):
        for number in range(runs):
            name = f"team{team} / run-{number}"
            yield name, scorer(normal(world.run(team, number), name)[0])


def board(found: dict[str, Scores]) -> Leaderboard:
    """The leaderboard of scores by name."""
    entries = [Entry(name, each, name.partition(" / ")[0], "automatic") for name, each in found.items()]
    return leaderboard(entries)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("teams", 200), ("runs", 5), ("workers", 16), ("kills", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--private", action="store_true", help="private judgments")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    asked = parser.parse_args()
    total = asked.teams * asked.runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {
            "title": "Load",
            "collection": "mini-task1",
            "corpus": "mini-answers",
            "cap": asked.runs,
            "private": asked.private or None,
        }
        lab = open_lab(folder / "lab", settings, Path("runs/mini/mini-task1/shuffle.run"))
        world = World(lab, lab.task(), folder)
        if lab.private:
            for team in range(asked.teams):
                add_team(lab, f"team{team}")
        jobs = [(team, number) for team in range(asked.teams) for number in range(asked.runs)]
        by_worker = [[job for job in jobs if job[0] % asked.workers == at] for at in range(asked.workers)]
        seconds = submitted_by_all(world, [share for share in by_worker if share], asked.kills)
        latencies = [float(line) for path in folder.glob("*.seconds") for line in path.read_text().splitlines()]
        found = [each for each in submissions(lab) if each.team != BASELINE]
        times = Counter(each.name for each in found)
        wanted = {f"team{team} / run-{number}" for team, number in jobs}
        assert set(times) == wanted, f"lost: {sorted(wanted - set(times))[:5]}"
        assert max(times.values()) == 1, "some are there twice"
        faults = check(lab)
        assert not faults, faults[:5]
        kept = {each.name: scores_of(lab, each) for each in found}
        scratch = dict(from_scratch(world, asked.teams, asked.runs))
        begin = time.perf_counter()
        first = board(kept)
        board_seconds = time.perf_counter() - begin
        assert first == board(scratch), "the leaderboard is not that of the runs scored from scratch"
        command = [sys.executable, "-m", "harness", "leaderboard", str(lab.folder)]
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        command_seconds = time.perf_counter() - begin
        rows = [
            ("teams x submissions", f"{asked.teams} x {asked.runs}"),
            ("processes, of them killed", f"{asked.workers}, {asked.kills}"),
            ("lost, twice, damaged", "0, 0, 0"),
            ("submissions a second", f"{total / seconds:.1f}"),
            ("median of a submission, ms", f"{1000 * statistics.median(latencies):.0f}"),
            ("95% of submissions below, ms", f"{1000 * sorted(latencies)[int(0.95 * (len(latencies) - 1))]:.0f}"),
            (f"leaderboard of {total} runs, s", f"{board_seconds:.2f}"),
            ("the same from scratch", "yes"),
            ("harness leaderboard LAB, all formats written, s", f"{command_seconds:.1f}"),
        ]
    line = "| {} | {} |" if asked.markdown else "{}: {}"
    if asked.markdown:
        print(line.format("what", "value"))
        print(line.format("---", "---"))
    for row in rows:
        print(line.format(*row))


if __name__ == "__main__":
    main()

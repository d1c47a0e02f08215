"""The demonstration: the systems of `conf/paper/demo.yaml` on the embedded collections."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.collections.load import load_collection
from harness.data.trec import Run
from harness.experiments.produce import Produced, Say, make, quiet
from harness.experiments.task import Task, task
from harness.io import config
from harness.systems.build import build_system


@dataclass(frozen=True)
class Demonstration:
    """Evaluation of the demonstration on one collection: runs by file, the baseline, and CPU seconds a topic by run."""

    task: Task
    runs: Mapping[str, Run]
    baseline: str
    seconds: Mapping[str, float]


def demonstrate(output: Path, say: Say = quiet) -> Iterator[Demonstration]:
    """Yields the evaluation of the systems of `conf/paper/demo.yaml` on each embedded collection.

    Runs are never reused, since their times are reported; the time of a fusion includes its inputs.
    """
    mapping, where = config.load("paper", "demo")
    for name, entry in mapping["collections"].items():
        collection = load_collection(name)
        searched = task(collection, collection.corpus)
        made: dict[str, Produced] = {}
        seconds: dict[str, float] = {}
        for system, changes in entry["systems"].items():
            settings = config.load("system", system)[0] | changes
            read = settings.get("runs") or []
            if read:
                settings["runs"] = [str(made[run].path) for run in read]
            begin = time.process_time()
            built = build_system(settings, f"{where}: {name}: {system}")
            made[system] = make(built, searched, runs=output, reuse=False, say=say)
            seconds[system] = time.process_time() - begin + sum(seconds[run] for run in read)
        runs = {str(produced.path): produced.run for produced in made.values()}
        a_topic = {produced.run.name: seconds[at] / len(produced.run.topics) for at, produced in made.items()}
        yield Demonstration(task(collection), runs, str(entry["baseline"]), a_topic)

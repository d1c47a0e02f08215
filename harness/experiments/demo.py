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
from harness.systems.states import run_command


@dataclass(frozen=True)
class Demonstration:
    """Evaluation of the demonstration on one collection.

    Attributes
    ----------
    runs : file -> run.
    seconds : run -> CPU seconds a topic.
    commands : run -> the command that makes it.
    """

    task: Task
    runs: Mapping[str, Run]
    baseline: str
    seconds: Mapping[str, float]
    commands: Mapping[str, str]


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
        commands: dict[str, str] = {}
        for system, own in entry["systems"].items():
            read = own.get("runs") or []
            changes = {**own, **({"runs": [str(made[run].path) for run in read]} if read else {})}
            settings = config.load("system", system)[0] | changes
            begin = time.process_time()
            built = build_system(settings, f"{where}: {name}: {system}")
            made[system] = make(built, searched, runs=output, reuse=False, say=say)
            seconds[system] = time.process_time() - begin + sum(seconds[run] for run in read)
            commands[made[system].run.name] = _command(name, system, own)
        runs = {str(produced.path): produced.run for produced in made.values()}
        a_topic = {produced.run.name: seconds[at] / len(produced.run.topics) for at, produced in made.items()}
        yield Demonstration(task(collection), runs, str(entry["baseline"]), a_topic, commands)


def _command(collection: str, system: str, changes: Mapping[str, object]) -> str:
    """Returns the command that makes a run alone, from runs in the folder where such commands write theirs.

    It is that of the demonstration if overrides cannot express the changes.
    """
    if any(isinstance(value, Mapping) for value in changes.values()):  # a mapping's keys cannot be replaced by others
        return "harness reproduce"
    shown = {
        key: f"[{','.join(f'runs/{collection}/{run}.run' for run in value)}]" if isinstance(value, list) else value
        for key, value in changes.items()
    }
    words = [f"system.{key}={value}" for key, value in shown.items()]
    return run_command([f"collection={collection}", f"system={system}", *words])

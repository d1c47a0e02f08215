"""An experiment with topics in two languages and a dictionary between them, run on the mini collection's answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.collections.load import load_collection, local_collection
from harness.data.topics import Topic
from harness.experiments.experiment import Experiment
from harness.experiments.overrides import Condition
from harness.experiments.produce import make
from harness.experiments.results import ExperimentResults, Outcome
from harness.experiments.task import Task, task
from harness.systems.build import build_system

ENGLISH = (
    Topic("M.1", "Sum of $n$ odd numbers", "Let $n$ be odd. Show that $n^2$ is odd."),
    Topic("M.4", "A prime", "Is $2$ a prime, and $3$?"),
    Topic("M.5", "$x$", "Prove $x=1$."),
)
SPANISH = (
    Topic("M.1", "Suma de $n$ impares", "Sea $n$ impar. Muestra que $n^2$ es impar.", language="spa"),
    Topic("M.4", "Un primo", "¿Es $2$ un primo, y $4$?", language="spa"),
    Topic("M.5", "$x$", "Demuestra $x=1$ <script>alert(1)</script>", language="spa"),
)
# Of two placeholders in a text the second is lost.
WORDS = {
    **{"Suma": "Sum", "de": "of", "impares": "odd numbers", "Sea": "Let", "impar.": "odd.", "Muestra": "Show"},
    **{"que": "that", "es": "is", "Un": "A", "un": "a", "primo,": "prime,", "primo": "prime", "¿Es": "Is", "y": "and"},
    **{"Demuestra": "Prove", "QZ2": ""},
}
JUDGED = ("M.1", "M.4")
CROSS = "harness.systems.crosslingual.system.CrossLingual"
CONTROLS = "harness.systems.crosslingual.controls."


def system(name: str, translator: Mapping[str, Any] | str, **keys: Any) -> dict[str, Any]:  # noqa: ANN401
    """The configuration of a cross-lingual system; a control by its class alone."""
    made = {"_target_": f"{CONTROLS}{translator}"} if isinstance(translator, str) else dict(translator)
    return {"_target_": CROSS, "translator": made, "system": "overlap", "masking": "QZ", "name": name} | keys


def dictionary(words: Mapping[str, str] = WORDS, **keys: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"_target_": "spoken.Dictionary", "words": dict(words), **keys}


# Condition -> system, and the languages that it is run on.
SYSTEMS: Mapping[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "as they are": (system("kept", "Identity"), ("English", "Foreign")),
    "formulas": (system("formulas", "FormulasOnly"), ("Foreign",)),
    "dictionary": (system("dictionary", dictionary()), ("Foreign",)),
}


def scored_by(folder: Path, name: str, topics: Sequence[Topic]) -> Task:
    """The mini collection's judgments of two topics, with other texts."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"id": t.id, "title": t.title, "body": t.body, "language": t.language} for t in topics]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    judged = load_collection("mini-task1").qrels().to_dict()
    lines = [f"{topic} 0 {doc} {grade:g}\n" for topic in JUDGED for doc, grade in judged[topic].items()]
    (folder / f"{name}.txt").write_text("".join(lines))
    made = local_collection(folder / f"{name}.txt", folder / f"{name}.jsonl")
    return task(replace(made, name=name), "mini-answers", protocol="arqmath-task1", measures=("nDCG", "AP"))


def results(
    folder: Path,
    foreign: Sequence[Topic] = SPANISH,
    systems: Mapping[str, tuple[dict[str, Any], tuple[str, ...]]] = SYSTEMS,
) -> ExperimentResults:
    """The experiment, run; the first condition on English is the baseline."""
    tasks = {"English": scored_by(folder, "first", ENGLISH), "Foreign": scored_by(folder, "second", foreign)}
    plan = Experiment(
        "Two languages",
        {
            name: Condition((f"system.name={made['name']}",), {"language": languages})
            for name, (made, languages) in systems.items()
        },
        ("nDCG", "AP"),
        axes={"language": {"English": ("collection=first",), "Foreign": ("collection=second",)}},
        baseline={"condition": next(iter(systems)), "language": "English"},
    )
    outcomes = []
    for cell in plan.cells():
        condition, language = cell.labels
        configuration = systems[condition][0]
        produced = make(build_system(configuration, "test"), tasks[language], runs=folder / "runs")
        scores = tasks[language].scorer(produced.run)
        outcomes.append(Outcome(cell, configuration, run=produced.path, sha256="", task=tasks[language], scores=scores))
    return ExperimentResults("two", plan, tuple(outcomes))

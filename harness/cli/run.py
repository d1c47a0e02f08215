"""The command `run`: one configuration produced, scored and reported; or the points of a sweep, and what came of them.

With `tune`, the points of a sweep are scored on other collections than the one that is reported: the configuration is
chosen there, and the reported topics see the chosen one alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.settings import checked_settings, import_from_here, sweep_folder, swept
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.trec import TAG
from harness.errors import HarnessError, suggestion
from harness.experiments.evaluate import cautions, evaluate, inputs
from harness.experiments.produce import Produced, produce
from harness.experiments.sweep import Point, best_of, read_points, write_point
from harness.experiments.task import Task, task
from harness.io import config
from harness.io.console import out, say
from harness.render.write import first_page, write_report
from harness.report.comparison import comparison_report, headline
from harness.report.sweep import sweep_report
from harness.scoring.protocol import load_protocol
from harness.scoring.scores import Scores
from harness.store.artefacts import key
from harness.store.provenance import provenance
from harness.systems.base import MARK
from harness.systems.build import Built, build_system

if TYPE_CHECKING:
    from omegaconf import DictConfig


def run(cfg: DictConfig) -> float | None:
    """One run, or one point of a sweep: then the mean of the first measure."""
    import_from_here()
    settings = checked_settings(cfg, "run")
    overrides = swept()
    check(settings, sweeping=bool(overrides))
    if overrides:
        return point(settings, overrides, sweep_folder(settings["output"]))
    report(settings)
    return None


def check(settings: Mapping[str, Any], sweeping: bool) -> None:
    """Raise HarnessError if a key is missing or cannot be meant."""
    for group in ("collection", "system"):
        if not settings.get(group):
            known = suggestion("", config.names(group))
            raise HarnessError(f"run: key {group!r} is missing; name one with {group}=NAME ({known})")
    for name in ("tune", "training"):
        value = settings[name]
        if value is not None and not (isinstance(value, list) and value and all(isinstance(v, str) for v in value)):
            raise HarnessError(f"run: key {name!r} is {value!r}, expected a list of collections, such as [mini-task1]")
    if settings["tune"] and not sweeping:
        raise HarnessError("run: key 'tune' is for sweeps; add -m and several values of a key, or sweep=NAME")
    if settings["tune"]:
        reported = load_collection(str(settings["collection"]["name"])).topics().ids()
        for name in settings["tune"]:
            if shared := reported & load_collection(name.partition("/")[0]).topics().ids():
                raise HarnessError(
                    f"run: key 'tune': {name} holds topic {min(shared)!r}, which is to be reported "
                    f"({len(shared)} such topics); tune on other topics"
                )


def report(settings: Mapping[str, Any], suffix: str = "", remarks: Sequence[str] = ()) -> None:
    """Produce, score and report one run."""
    edition = None if settings["edition"] is None else str(settings["edition"])
    found = _task(settings, str(settings["collection"]["name"]), edition, {})
    system = build_system(settings["system"], "run: system")
    produced = _produce(settings, system, found, suffix)
    evaluation = evaluate(found, [produced.run])
    remarks = (*system.notes(), *remarks)
    if settings["training"]:
        remarks = (f"Learnt from the judgments of {', '.join(settings['training'])}.", *remarks)
    if produced.run.name.endswith(MARK):
        said = (
            "Something here was learnt from judgments of the very topics that are ranked: every number is optimistic."
        )
        remarks = (said, *remarks)
    if settings["rerank"]:
        remarks = ("The system ranked the judged documents of each topic, nothing else.", *remarks)
    page = comparison_report(evaluation, None, inputs(found, {str(produced.path): produced.run}), remarks=remarks)
    if said := evaluation.coverage_sentence():
        out(said)
    for caution in cautions(evaluation):
        say(f"warning: {caution}")
    out(headline(evaluation))
    out(f"run: {produced.path}")
    folder = Path(settings["output"]) / found.collection.name / produced.run.name
    out(f"report: {first_page(write_report(page, folder, settings['formats']))}")


def point(settings: Mapping[str, Any], overrides: Mapping[str, str], folder: Path) -> float:
    """One configuration of a sweep, produced and scored; the mean of the first measure."""
    edition = None if settings["edition"] is None else str(settings["edition"])
    named = [(str(settings["collection"]["name"]), edition)]
    if settings["tune"]:
        named = [(name, edition or None) for name, _, edition in (entry.partition("/") for entry in settings["tune"])]
    scored: list[Scores] = []
    files: dict[str, str] = {}
    basis, said = [], []
    for name, edition in named:
        found = _task(settings, name, edition, _SHARED)
        produced = _produce(settings, build_system(settings["system"], "run: system"), found, run_suffix(overrides))
        scored.append(found.scorer(produced.run))
        files[str(produced.path)] = produced.run.sha256
        basis += [produced.basis, found.scorer.qrels.sha256]
        if found.corpus is not None and found.coverage is not None and not found.coverage.complete:
            said.append(f"{name}: {found.coverage.sentence(found.scorer.protocol, found.corpus.notes)}.")
    protocol = scored[0].protocol
    means = {protocol.label(measure): _pooled(scored, measure) for measure in scored[0].measures}
    n = sum(scores.n(scored[0].measures[0]) for scores in scored)
    digest = key({"basis": basis})
    made = Point(overrides, files, means, n, settings=settings, basis=digest, said=tuple(said))
    write_point(folder, made)
    first = means[protocol.label(scored[0].measures[0])]
    where = ", ".join(name for name, _ in named)
    shown = "undefined" if first is None else f"{first:.4f}"
    out(f"{made.text()}: {protocol.label(scored[0].measures[0])} {shown} on {where} (n = {n})")
    return float("nan") if first is None else first


def _pooled(scored: Sequence[Scores], measure: str) -> float | None:
    """The mean over the topics of all collections."""
    n = [scores.n(measure) for scores in scored]
    if not sum(n):
        return None
    return sum(scores.mean(measure) * count for scores, count in zip(scored, n, strict=True) if count) / sum(n)


def run_suffix(overrides: Mapping[str, str]) -> str:
    """What distinguishes the runs of a sweep's points: `-k1=0.9-b=0.4`; a digest stands for what fits no file name."""
    parts = []
    varied = set(json.loads(os.environ.get("HARNESS_VARIED", "[]"))) - {"system", "collection"}
    for name, value in overrides.items():
        if "." in name or name in varied:
            plain = value if TAG.fullmatch(f"x{value}") else key({"value": value})[:8]
            parts.append(f"-{name.rpartition('.')[2]}={plain}")
    suffix = "".join(parts)
    return (
        suffix if TAG.fullmatch(f"{'x' * 60}{suffix}") or not suffix else f"-{key({'overrides': dict(overrides)})[:12]}"
    )


def summarise(folder: Path, formats: Sequence[str]) -> None:
    """The report of a sweep; with `tune`, then the run of the best configuration. Raises HarnessError for failures."""
    points = read_points(folder)
    done = [point for point in points if point.means]
    if done:
        tuned = (done[0].settings or {}).get("tune")
        files = {name: checksum for point in done for name, checksum in point.files.items()}
        page = sweep_report(points, "Sweep", provenance(files), tuned_on=tuned)
        out(page.headline)
        out(f"report: {first_page(write_report(page, folder / 'report', formats))}")
        if tuned:
            best = best_of(points)
            label, value = next(iter((best.means or {}).items()))
            chosen = (
                f"Tuned: {len(points)} configurations were tried on {', '.join(tuned)} ({best.n} topics); "
                f"{best.text()} was best there ({label} {value:.4f}) and is the only one that was run on these topics."
            )
            report({**(best.settings or {}), "tune": None}, "-tuned", (chosen,))
    failed: dict[str, list[str]] = {}
    for point in points:
        if point.error:
            failed.setdefault(point.error, []).append(point.text())
    if failed:
        lines = [f"{at[0]}{f' and {len(at) - 1} more points' if at[1:] else ''}: {why}" for why, at in failed.items()]
        raise HarnessError(*lines)


# What the points of a sweep are scored by, kept for the next point: they are jobs of one process.
_SHARED: dict[str, Task] = {}
_MOST_SHARED = 8


def _task(settings: Mapping[str, Any], collection: str, edition: str | None, made: dict[str, Task]) -> Task:
    """The task of a configuration; from `made` if one of the same content stands there, else put there."""
    corpus, protocol = settings.get("corpus") or {}, settings.get("protocol") or {}
    given = (
        load_collection(collection),
        load_corpus(corpus["name"]) if corpus.get("name") is not None else None,
        edition,
        load_protocol(protocol["name"]) if protocol.get("name") is not None else None,
    )
    if (known := repr(given)) not in made:
        if len(made) >= _MOST_SHARED:
            made.clear()
        made[known] = task(*given)
    return made[known]


def _produce(settings: Mapping[str, Any], system: Built, found: Task, suffix: str) -> Produced:
    switches = {name: settings[name] for name in ("reuse", "training", "rerank", "allow_test_judgments")}
    return produce(system, found, runs=Path(settings["runs"]), suffix=suffix, say=say, **switches)

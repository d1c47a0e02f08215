"""The runs that a leaderboard ranks: submissions of a lab, its primary runs at the end, and files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.collections.collection import Collection
from harness.collections.load import load_collection
from harness.errors import HarnessError, capitalised
from harness.experiments.evaluate import Evaluation, inputs
from harness.experiments.redacted_scores import LEFT_OUT, step_of
from harness.labs.board import MOST_LETTERED
from harness.labs.journal import Event
from harness.labs.lab import Lab
from harness.labs.leaderboard import LeaderboardEntry, LeaderboardSettings, floor
from harness.labs.roster import public_names
from harness.labs.shown_scores import (
    FINAL_DECIMALS,
    UNTESTED,
    concealed,
    final_runs,
    protection,
    public_and_held_out,
    spent_budget,
    width_of,
)
from harness.labs.standing import refuse_if_changed
from harness.labs.submissions import events, from_events, scores_of, stored_run
from harness.scoring.coverage import not_judged
from harness.scoring.measures import parse_measures
from harness.scoring.protocol import Protocol, load_protocol
from harness.scoring.scores import decimals_of


@dataclass(frozen=True)
class BoardSource:
    """Runs to rank, the settings of their leaderboards, and the checksums of their files."""

    title: str
    entries: Sequence[LeaderboardEntry]
    settings: LeaderboardSettings
    remarks: Sequence[str]
    files: Mapping[str, str]


def files_source(evaluation: Evaluation, settings: LeaderboardSettings) -> BoardSource:
    """Returns scored run files to rank; of private judgments only rounded means are shown."""

    collection = evaluation.task.collection
    spans = evaluation.bounds
    entries = [LeaderboardEntry(each.run, each, bounds=spans.get(each.run, {})) for each in evaluation.scores]
    board_settings = replace(settings, clusters=collection.clusters(), cluster=collection.cluster)
    said = "" if settings.private else evaluation.coverage_sentence()
    remarks = (*([f"{capitalised(said)}."] if said else []), *collection.notes)
    files = inputs(evaluation).files
    if settings.private:
        step = step_of(evaluation.scores)
        said = LEFT_OUT.format(step=step)
        board_settings = replace(board_settings, step=step, decimals=decimals_of(step), untested=UNTESTED, privacy=said)
        # Checksums of judgments would prove a guess.
        files = {run.source or run.name: run.sha256 for run in evaluation.runs}
    else:
        board_settings = replace(board_settings, floor=floor(evaluation.task))
    return BoardSource(f"Leaderboard: {collection.title}", entries, board_settings, remarks, files)


def shares_judged(names: Sequence[str], protocol: Protocol) -> tuple[str, ...]:
    """Returns the Judged@k measures that are not among the measures."""

    parsed = parse_measures(names)
    added = []
    if not any(measure.name == "Judged" for measure in parsed):
        added.append(f"Judged@{min((m.k for m in parsed if m.name == 'P' and m.k is not None), default=10)}")
    added.append(f"Judged@{protocol.depth or 1000}")
    return tuple(name for name in dict.fromkeys(added) if name not in map(str, parsed))


def lab_source(
    lab: Lab, settings: LeaderboardSettings, note: Callable[[str], None], journal: Sequence[Event] | None = None
) -> BoardSource:
    """Returns the current submissions of a lab and its settings; of private judgments nothing that reveals them.

    `journal` are the lab's events, if the caller has read them: another one may come at any time.
    """

    journal = events(lab) if journal is None else journal
    submissions = from_events(journal, lab.folder)
    current = [each for each in submissions if each.current]
    if not current:
        raise HarnessError(f"{lab.folder}: has no submissions yet")
    names = public_names(lab)
    ranked = {each.name for each in current if each.primary or each.name == lab.baseline}
    everyone = {each.name for each in current}
    with lab.guarded():
        chance = floor(lab.task())
    refuse_if_changed(lab, chance[0], submissions)
    topics, _ = public_and_held_out(lab, journal, chance[0].topics)
    with lab.guarded():
        # Ties, and how much was judged, are told of runs as long as they are not too many to be scored here.
        scored = everyone if len(everyone) <= MOST_LETTERED else ranked
        told = scored if not lab.private and len(scored) <= MOST_LETTERED else set()
        more = shares_judged(lab.measures, load_protocol(lab.protocol)) if told else ()
        task = replace(lab, measures=(*lab.measures, *more)).task()
        entries = []
        # Exact scores have no way to the leaderboard of a private lab.
        main, blank = lab.measures[0], lab.private and not lab.per_topic
        known = [name for name in lab.measures if any(not math.isnan(each.means[name]) for each in current)]
        nothing = concealed(chance[0], task.topics.ids(), known or [main])
        for each in current:
            scores, bounds = nothing if blank else scores_of(lab, each).select(topics), None
            if each.name in told:
                run = stored_run(each)
                bounds, shares = task.scorer.tie_spans(run, scores), task.scorer(run)
                remark = not_judged(task.scorer, run, shares)
                if remark and each.name in ranked:
                    note(f"warning: {each.name}: {remark}")
                columns = [scores.values, *(shares.column(name)[:, None] for name in more)]
                scores = replace(scores, measures=(*scores.measures, *more), values=np.hstack(columns))
            team = names.get(each.team, each.team)
            name, primary = f"{team} / {each.label}", each.name in ranked and not (lab.private and main not in known)
            shown = each.means if lab.private else None
            scores = replace(scores, run=each.name)
            entries.append(LeaderboardEntry(name, scores, team, each.kind, primary, bounds, shown))
        baseline = next((e.name for e, each in zip(entries, current, strict=True) if each.name == lab.baseline), None)
        declared = _declared(lab, task.collection, settings, baseline=baseline, decimals=lab.decimals)
        if lab.private:
            words = (protection(lab, width_of(lab, chance[0].select(topics))), spent_budget(lab, submissions))
            untested = f"{UNTESTED}; runs are tested at the end of the lab"
            declared = replace(declared, private=True, untested=untested, privacy=" ".join(words).strip())
        else:
            declared = replace(declared, floor=floor(task) if more else chance)
    files = {f"{each.name}, version {each.version}": each.sha256 for each in current}
    return BoardSource(f"Leaderboard: {lab.title}", entries, declared, task.collection.notes, files)


def final_source(lab: Lab, settings: LeaderboardSettings) -> BoardSource:
    """Returns the primary runs of a private lab that has ended, with their scores on the held-out topics, if any."""

    collection, journal = load_collection(lab.collection), events(lab)
    names, entries, files, baseline = public_names(lab), [], {}, None
    for each in final_runs(lab, journal):
        scores, team = scores_of(lab, each), names.get(each.team, each.team)
        public, held_out = public_and_held_out(lab, journal, scores.topics)
        held = scores.select(held_out or public)
        entries.append(LeaderboardEntry(f"{team} / {each.label}", held, team, each.kind))
        baseline = entries[-1].name if each.name == lab.baseline else baseline
        files[f"{each.name}, version {each.version}"] = each.sha256
    if not entries:
        raise HarnessError(f"{lab.folder}: no run is ranked, since none was a primary run when the lab ended")
    said = "The judgments are private: final means are rounded to two decimals, and nothing else is shown."
    declared = _declared(lab, collection, settings, baseline=baseline, private=True, privacy=said)
    declared = replace(declared, decimals=FINAL_DECIMALS, step=10.0**-FINAL_DECIMALS)
    where = " on held-out topics" if lab.held_out else ""
    return BoardSource(f"Final ranking{where}: {lab.title}", entries, declared, collection.notes, files)


def _declared(lab: Lab, collection: Collection, settings: LeaderboardSettings, **more: Any) -> LeaderboardSettings:  # noqa: ANN401
    """Returns the settings with what a lab declares, and more."""
    declared: dict[str, Any] = {name: getattr(lab, name) for name in ("alpha", "correction", "family")}
    declared |= {"main": lab.measures[0], "clusters": collection.clusters(), "cluster": collection.cluster}
    return replace(settings, **declared, **more)

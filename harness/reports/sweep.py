"""The report of a sweep: all configurations, best first, with a curve for each swept number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import HarnessError, counted_text
from harness.experiments.sweep import SweepPoint, first_label, natural, point_sort_key, rounded, same_topics, value_of
from harness.render import figures
from harness.render.model import Block, Cell, Column, Figure, Prose, Section, Table, number_cell, slug
from harness.render.svg import SERIES
from harness.render.write import Report
from harness.reports.parts import equal, highest, provenance_section
from harness.reports.sweep_parts import (
    claim_words,
    importance_table,
    many_key_figures,
    price_section,
    search_claim,
    search_figure,
)
from harness.scoring.measures import parse_measure
from harness.store.provenance import Provenance
from harness.systems.base import MARK
from harness.systems.states import run_command

_NOT_COMPARABLE = (
    "They were scored on different topics, judgments or protocols, so their values are not comparable and none is "
    "marked as best."
)


def sweep_report(
    points: Sequence[SweepPoint],
    title: str,
    provenance: Provenance,
    tuned_on: Sequence[str] | None = None,
    lowest: bool = False,
    searched_values: Sequence[float | None] = (),
    sampler: str = "",
) -> Report:
    """Builds the report of every configuration tried, the best first; with one swept number, a curve.

    No configuration is called the best where they were scored on different topics, judgments or protocols.

    Parameters
    ----------
    tuned_on : the collections that the points were scored on, if another one is to be reported.
    lowest : whether the search was for the lowest value.
    searched_values : means in the order of a search, as `harness.experiments.sweep.searched_values` returns them.
    sampler : what proposed points by the values of earlier ones (`harness.experiments.sweep.adaptive_sampler`).
    """
    done = [point for point in points if point.means]
    failed = [point for point in points if point.error]
    if not done:
        raise HarnessError(f"{title}: no point of the sweep was computed")
    labels = list(dict.fromkeys(label for point in done for label in point.means or {}))
    names = _varied(points)
    groups = list(dict.fromkeys(point.scored_on for point in done))
    ranked = sorted(done, key=lambda point: (groups.index(point.scored_on), point_sort_key(point, lowest)))
    comparable = same_topics(done)
    unranked = len(done) == 1 or not comparable
    best = {
        label: math.nan if unranked or _is_coverage(label) else highest(value_of(p, label) for p in done)
        for label in labels
    }
    chosen = "lowest" if lowest else "best"
    if lowest:  # of the measure that was searched, where the values differ
        best = {labels[0]: math.nan if math.isnan(best[labels[0]]) else value_of(ranked[0], labels[0])}
    rows = []
    for point in ranked:
        cells = [
            number_cell(
                value := value_of(point, label), 4, (chosen,) if equal(value, best.get(label, math.nan)) else ()
            )
            if label in (point.means or {})
            else Cell("")
            for label in labels
        ]
        rows.append((*(Cell(rounded(point.overrides.get(name, ""))) for name in names), *cells))
    columns = (*(Column(name) for name in names), *(Column(label, kind="number") for label in labels))
    tried = f"{counted_text(len(points), 'configuration')} tried, {len(failed)} failed; n = {_topics(done)} topics"
    notes = (f"{tried}{_how_chosen(chosen, tuned_on, comparable=comparable)}", *_blank(done, labels))
    table = Table("points", "Configurations", columns, tuple(rows), notes, row_headers=len(names))
    blocks: list[Block] = []
    firsts = list(dict.fromkeys(map(first_label, done)))
    for label in firsts:
        of = [point for point in done if label in (point.means or {})]
        after = "" if label == firsts[0] else f"-{slug(label)}"
        blocks += _curves(of, names, label, lowest, after)
        valued = [point for point in of if not math.isnan(value_of(point, label))]
        if comparable and len(valued) > 1:
            blocks += many_key_figures(valued, names, label, lowest=lowest, after=after)
            searched = search_figure(searched_values, label, lowest=lowest)
            blocks += [block for block in (searched, importance_table(valued, names, label)) if block is not None]
    lines = () if unranked else _lead_sentence(ranked, names, lowest)
    lines += tuple(dict.fromkeys(line for point in done for line in point.said))
    sections = [Section("Configurations", (*((Prose(lines),) if lines else ()), *blocks, table))]
    claim = None if unranked else search_claim(ranked, lowest, sampler, searched=bool(searched_values))
    if claim is not None:
        sections.append(price_section(claim, lambda point: _setting(point, names), tuned_on or ()))
    if failed:
        lines = tuple(f"{point.text(rounded)}: {point.error}" for point in failed)
        sections.append(Section("Failed configurations", (Prose(lines),)))
    if not tuned_on:
        sections.append(_commands_section(ranked))
    sections.append(provenance_section(provenance))
    where = f"tuned on {', '.join(tuned_on)}" if tuned_on else "chosen on the same topics"
    systems, collections = (_named(done, group) for group in ("system", "collection"))
    subject = (f" of {systems}" if systems else "") + (f" on {collections}" if collections else "")
    # The values belong to the tuning collections; the title names the reported one.
    scored = f" of {systems}" if tuned_on and systems else "" if tuned_on else subject
    scored += f", {len(failed)} more failed" if failed else ""
    repeated = f" in {len(searched_values)} points" if len(searched_values) > len(points) else ""
    headline = f"{counted_text(len(done), 'configuration')}{scored}{repeated}: "
    if comparable:
        first = value_of(ranked[0], first_label(ranked[0]))
        headline += f"{'' if unranked else f'{chosen} '}{first_label(ranked[0])} "
        headline += "undefined" if math.isnan(first) else f"{first:.4f}"
        same = sum(equal(value_of(point, first_label(point)), first) for point in done)
        tied = f", which ties with {counted_text(same - 1, 'other')}" if same > 1 else ""
        headline += "" if unranked else f" with {_setting(ranked[0], names)}{tied}, {where}"
        headline += "" if claim is None else f"; {claim_words(claim)}"
    else:
        headline += f"{', '.join(firsts)} on different topics, judgments or protocols, so none is the best"
    return Report(f"{title}{subject}", headline, tuple(sections))


def _how_chosen(chosen: str, tuned_on: Sequence[str] | None, *, comparable: bool) -> str:
    """Returns the end of a note: on which topics the best or the lowest configuration was chosen."""
    if not comparable:
        return f". {_NOT_COMPARABLE}"
    if tuned_on:
        return f" of {', '.join(tuned_on)}, which are not reported. The {chosen} is run on the reported topics."
    return (
        f". The {chosen} of them was chosen on these topics themselves: its value is optimistic and says nothing about "
        "other topics."
    )


def _lead_sentence(ranked: Sequence[SweepPoint], names: Sequence[str], lowest: bool) -> tuple[str, ...]:
    """Returns a sentence on how far the first configuration is from the next; nothing if all have its value."""
    label = first_label(ranked[0])
    first = value_of(ranked[0], label)
    for point in ranked:
        if not math.isnan(away := abs(value_of(point, label) - first)) and not equal(away, 0):
            side = "below" if lowest else "above"
            return (
                f"{_setting(ranked[0], names)} is {away:.4f} {side} the next, {_setting(point, names)} (not tested).",
            )
    return ()


def _commands_section(points: Sequence[SweepPoint]) -> Section:
    """Returns the command of each configuration alone, the best first; it makes the same run under the same name."""
    rows = tuple((Cell(point.text(rounded)), Cell(run_command(_command_words(point)))) for point in points)
    columns = (Column("configuration"), Column("command"))
    table = Table("commands", "Commands of the configurations", columns, rows, collapsed=True)
    return Section("Commands", (table,))


def _command_words(point: SweepPoint) -> list[str]:
    """Returns the overrides of a point, and the name of its run, so that the system's default run is not replaced."""
    words = [f"{name}={value}" for name, value in point.overrides.items() if name != "system.name"]
    name = Path(next(iter(point.files), "")).stem.removesuffix(MARK) or point.overrides.get("system.name", "")
    return words if name in ("", _names(point)["system"]) else [*words, f'system.name="{name}"']


def _is_coverage(label: str) -> bool:
    """Returns whether a label is that of a diagnostic such as Judged@k, which has no best value."""
    try:
        return parse_measure(label).diagnostic
    except HarnessError:
        return False  # the label of a mean, such as MAP′


def _blank(points: Sequence[SweepPoint], labels: Sequence[str]) -> list[str]:
    """Returns a line for each collection whose points are not scored by all measures of the table."""
    lines: dict[str, None] = {}
    for point in points:
        if lacking := [label for label in labels if label not in (point.means or {})]:
            names = _names(point)
            by = (
                f"protocol {names['protocol']}, which does not have"
                if names["protocol"]
                else "measures that do not include"
            )
            which = names["collection"] or point.text(rounded)
            lines[f"Left blank: {which} is scored by {by} {', '.join(lacking)}."] = None
    return list(lines)


def _names(point: SweepPoint) -> dict[str, str]:
    """Returns the names of a point's collection and system, and of the protocol, which may be the collection's."""
    settings = {group: part for group, part in (point.settings or {}).items() if isinstance(part, Mapping)}
    names = {group: str(settings.get(group, {}).get("name", "")) for group in ("system", "collection", "protocol")}
    return {**names, "protocol": names["protocol"] or str(settings.get("collection", {}).get("protocol", ""))}


def _setting(point: SweepPoint, names: Sequence[str]) -> str:
    """Returns the values of a point for the keys that vary, in the order of the command line."""
    return ", ".join(
        f"{key.removeprefix('system.')}={rounded(v)}" for key, v in point.overrides.items() if key in names
    )


def _topics(points: Sequence[SweepPoint]) -> str:
    """Returns the number of topics behind the means, or its range."""
    least, most = min(point.n for point in points), max(point.n for point in points)
    return f"{least}" if least == most else f"{least} to {most}"


def _named(points: Sequence[SweepPoint], group: str) -> str:
    """Returns the systems or collections of the points in words; empty where the points have no settings."""
    distinct = dict.fromkeys(_names(point)[group] for point in points)
    names = [name for name in distinct if name]
    return counted_text(len(names), group) if len(names) > 3 else ", ".join(names)


def _varied(points: Sequence[SweepPoint]) -> list[str]:
    """Returns the keys whose values differ between points; all of them if none does."""
    names = sorted({name for point in points for name in point.overrides})
    varied = [name for name in names if len({point.overrides.get(name) for point in points}) > 1]
    return varied or names


def _curves(points: Sequence[SweepPoint], names: Sequence[str], label: str, lowest: bool, after: str) -> list[Figure]:
    """Returns figures of a measure against each swept number, a line for each choice of the other keys.

    Where there are more lines than can be distinguished, one line shows the best of them at each value, if all were
    scored on the same topics and judgments. Points without a value are left out.
    """
    out = []
    points = [point for point in points if not math.isnan(value_of(point, label))]
    for name in names if len(points) > 1 else ():
        at = [natural(point.overrides.get(name, ""))[0] for point in points]
        if any(math.isinf(x) for x in at):
            continue
        lines: dict[str, list[tuple[float, float]]] = {}
        for point, x in zip(points, at, strict=True):
            others = ", ".join(f"{key}={rounded(point.overrides.get(key, ''))}" for key in names if key != name)
            lines.setdefault(others, []).append((x, value_of(point, label)))
        title = f"{label} against {name}"
        if len({*at}) == len(at) > SERIES and len(names) > 1 and same_topics(points):  # sampled
            drawn = figures.curves(
                [("", [(x, value_of(point, label)) for point, x in zip(points, at, strict=True)])],
                name,
                label,
                unjoined=("",),
            )
            out.append(Figure(f"curve-{slug(name)}{after}", title, drawn))
            continue
        if len(lines) > SERIES and not same_topics(points):
            continue
        if len(lines) > SERIES:
            best: dict[float, float] = {}
            for x, y in (pair for line in lines.values() for pair in line):
                best[x] = (min if lowest else max)(y, best.get(x, y))
            title += f": {'lowest' if lowest else 'best'} over all values of the other keys"
            lines = {"": list(best.items())}
        out.append(Figure(f"curve-{slug(name)}{after}", title, figures.curves(list(lines.items()), name, label)))
    return out

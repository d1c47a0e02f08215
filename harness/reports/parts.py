"""Parts shared by several kinds of report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.data.topics import Topic
from harness.errors import counted
from harness.render.model import Cell, Column, Facts, Section, Table, Text, number_cell, slug
from harness.scoring.compare import Row
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores
from harness.store.provenance import Provenance

MOST_UNDEFINED = 5  # pairs of runs without a defined test that are named


def shown_p(value: float | None) -> Cell:
    """Returns the cell of a p-value, or `undefined`."""
    if value is None:
        return Cell("undefined")
    return Cell("<.0001" if value < 0.0001 else f"{value:.4f}", value)


def shown_drawn_p(value: float, error: float | None) -> Cell:
    """Returns the p-value of a randomization test; if it was sampled, with its standard error."""
    shown = shown_p(value)
    return shown if error is None else replace(shown, text=f"{shown.text} ± {error:.4f}")


DETECTABLE = Column("detectable / Bonferroni", parts=("detectable", "detectable, Bonferroni"))


def detectable_cell(row: Row) -> Cell:
    """Returns the least difference that a test finds, at its own level and at that of Bonferroni's correction."""
    if not row.sd:
        return Cell("n/a")
    found = (row.detectable, row.detectable_corrected)
    values = tuple(math.nan if value is None else value for value in found)
    return Cell(" / ".join("none" if value is None else f"{value:.3f}" for value in found), values=values)


def undefined_sentence(pairs: Sequence[tuple[str, str]]) -> str:
    """Returns a sentence on pairs of runs without a defined test; empty without any."""
    if not pairs:
        return ""
    named = "; ".join(f"{a} and {b}" for a, b in pairs[:MOST_UNDEFINED])
    more = f"; and {len(pairs) - MOST_UNDEFINED:,} more pairs" if len(pairs) > MOST_UNDEFINED else ""
    return (
        f"The t-test is undefined, so that nothing is known about significance, for {counted(len(pairs), 'pair')} of "
        f"runs whose differences do not vary: {named}{more}."
    )


def protocol_text(protocol: Protocol) -> Text:
    """Returns a protocol in words."""
    return Text((f"Protocol {protocol.name}: {protocol.title}.", " ".join(s for s in protocol.in_words() if s)))


def per_topic_table(name: str, runs: Mapping[str, Scores], topics: Mapping[str, Topic]) -> Table:
    """Returns the first measure of every run on every topic; without `topics` there is no column of titles."""
    first = next(iter(runs.values()))
    measure = first.measures[0]
    rows = []
    for index, topic in enumerate(first.topics):
        title = topics[topic].title if topic in topics else ""
        values = [float(scores.column(measure)[index]) for scores in runs.values()]
        top = max((v for v in values if not math.isnan(v)), default=math.nan) if len(values) > 1 else math.nan
        cells = tuple(number_cell(v, 3, ("best",) if v == top and v > 0 else ()) for v in values)
        shown = (Cell(title if len(title) <= 90 else title[:89] + "…"),) if topics else ()
        rows.append((Cell(topic), *shown, *cells))
    columns = (Column("topic"), *((Column("title"),) if topics else ()), *(Column(run, kind="number") for run in runs))
    caption = f"{first.protocol.label(measure)} by topic, {name} (edition {first.edition})"
    return Table(f"topics-{slug(name)}", caption, columns, tuple(rows), row_headers=1, collapsed=True)


def provenance_section(provenance: Provenance) -> Section:
    """Returns versions, machine, command and checksums."""
    entries = (("command", provenance.command), *provenance.versions.items(), ("machine", provenance.machine))
    facts = Facts(tuple((name, value) for name, value in entries if value))
    files = Table(
        "checksums",
        "Input files",
        (Column("file"), Column("SHA-256")),
        tuple((Cell(name), Cell(digest)) for name, digest in provenance.files.items()),
        collapsed=True,
    )
    return Section("Provenance", (facts, files) if provenance.files else (facts,))

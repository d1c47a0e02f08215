"""The report of a run that reproduces another one: effects, scores per topic, rankings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.render.model import Block, Cell, Column, Prose, Section, Table, cells, columns, number_cell
from harness.render.write import Report
from harness.reports.pair_tests import shown_p
from harness.reports.parts import protocol_text, provenance_section
from harness.scoring.protocol import Protocol
from harness.scoring.reproduction import RunReproduction, to_json
from harness.store.provenance import Provenance

_ORDERS = (
    ("tau", "Kendall's tau-b of the union", "documents missing from a ranking are tied at its end"),
    (
        "ktu",
        "Kendall's tau union (repro_eval)",
        "correlates positions in the sorted union of documents, so it depends on the document ids",
    ),
    ("rbo", "rank-biased overlap", "extrapolated beyond the end of the rankings"),
    ("rbo_cut", "rank-biased overlap (repro_eval)", "not extrapolated, so below 1 even for equal short rankings"),
)


def reproduction_report(
    reproduction: RunReproduction, protocol: Protocol, provenance: Provenance, remarks: Sequence[str] = ()
) -> Report:
    """Builds the report of all that `harness.scoring.reproduction` computes.

    Parameters
    ----------
    remarks : what a reader of the numbers must know, a sentence each.
    """
    blocks: list[Block] = [effects_table(reproduction, protocol.label)]
    if reproduction.orders:
        blocks.append(orders_table(reproduction))
    lines = [_collections(reproduction), *remarks]
    if reproduction.unanswered:
        lines.append(f"Answered by only one of the runs: {', '.join(reproduction.unanswered)}.")
    sections = [
        Section("Agreement with the original", tuple(blocks)),
        Section("Data and protocol", (Prose(tuple(lines)), protocol_text(protocol))),
    ]
    if reproduction.orders:
        sections.append(Section("Per-topic results", (topics_table(reproduction),)))
    sections.append(provenance_section(provenance))
    kind = "Reproduction" if reproduction.paired else "Replication"
    return Report(
        f"{kind} of {reproduction.original} by {reproduction.new}",
        reproduction_headline(reproduction, protocol.label),
        tuple(sections),
        data={"reproduction": to_json(reproduction)},
    )


def reproduction_headline(reproduction: RunReproduction, label: Callable[[str], str] = str) -> str:
    """Returns the main result in one line."""
    first = reproduction.effects[0]
    parts = [f"{label(first.measure)} {first.new:.4f} for {first.original:.4f}"]
    if first.rmse is not None:
        parts.append(f"RMSE {first.rmse:.4f}")
    if first.effect_ratio is not None:
        parts.append(f"effect ratio {first.effect_ratio:.3f}")
    overlap, _ = reproduction.mean("rbo")
    if overlap is not None:
        parts.append(f"rank-biased overlap {overlap:.3f}")
    return f"{reproduction.new} against {reproduction.original}: {', '.join(parts)}"


def _collections(reproduction: RunReproduction) -> str:
    where = f"{reproduction.collection}, edition {reproduction.edition}"
    if reproduction.paired:
        return f"A reproduction: both runs are on the same topics and judgments ({where})."
    other = f"{reproduction.collection_new}, edition {reproduction.edition_new}"
    return f"A replication: the original is on {where}, the new run on other topics ({other})."


def effects_table(reproduction: RunReproduction, label: Callable[[str], str] = str) -> Table:
    """Returns means, differences, tests, and effects over the baselines if there are any, by measure."""
    based = reproduction.baseline_original is not None
    rows = []
    for each in reproduction.effects:
        both = Cell(f"{each.n} / {each.n_new}", values=(each.n, each.n_new))
        n = Cell(f"{each.n:,}", each.n) if reproduction.paired else both
        row = [Cell(label(each.measure)), n, *(number_cell(x, 4) for x in (each.original, each.new))]
        row.append(Cell(f"{each.difference:+.4f}", each.difference))
        if reproduction.paired:
            row += [*(number_cell(x, 4) for x in (each.rmse, each.nrmse, each.largest)), Cell(each.topic or "")]
        row.append(shown_p(each.p))
        if based:
            row += [number_cell(each.baseline_original, 4), number_cell(each.baseline_new, 4)]
            row += [number_cell(each.effect_ratio, 3), number_cell(each.delta_ri, 4)]
        rows.append(tuple(row))
    counted = Column("n", kind="number") if reproduction.paired else Column("n", parts=("n original", "n new"))
    heads = [Column("measure"), counted, *columns(numbers=("original mean", "new mean", "difference"))]
    if reproduction.paired:
        heads += [*columns(numbers=("RMSE", "nRMSE", "largest difference")), Column("at topic")]
    heads += columns(numbers=["p"])
    if based:
        heads += columns(numbers=("original baseline", "new baseline", "effect ratio", "delta RI"))
    independent = "t-test of independent samples, one variance (Welch's if topics are clustered)"
    test = "paired t-test" if reproduction.paired else independent
    notes = [f"p: two-sided {test}, not corrected; a large p does not prove equality."]
    if reproduction.paired:
        notes.append(
            "RMSE and largest difference: of the topics' differences; RMSE is their root mean square; "
            "nRMSE divides it by the largest possible one."
        )
    if based:
        notes.append(
            f"Baselines: {reproduction.baseline_original}, {reproduction.baseline_new}. "
            "Effect ratio: improvement over the baseline, new over original (1: the same). "
            "Delta RI: relative improvement, original - new (0: the same)."
        )
    caption = f"{reproduction.new} against {reproduction.original}"
    return Table("effects", caption, tuple(heads), tuple(rows), tuple(notes))


def orders_table(reproduction: RunReproduction) -> Table:
    """Returns the similarity of rankings: mean, lowest and highest of each coefficient over topics."""
    rows = []
    for name, title, note in _ORDERS:
        mean, n = reproduction.mean(name)
        values = [value for each in reproduction.orders if (value := getattr(each, name)) is not None]
        shown = (number_cell(x, 4) for x in (mean, min(values, default=None), max(values, default=None)))
        rows.append(cells(Cell(title, note=note), *shown, n))
    heads = columns("rankings", numbers=("mean", "lowest", "highest", "topics"))
    note = (
        f"Rankings as the protocol orders them, for {len(reproduction.orders)} topics that both runs answer. "
        f"Rank-biased overlap has p = {reproduction.persistence:g}; "
        f"that of repro_eval stops at depth {reproduction.depth}."
    )
    return Table("rankings", "Similarity of the rankings", heads, tuple(rows), (note,))


def topics_table(reproduction: RunReproduction) -> Table:
    """Returns the similarity of rankings for each topic."""
    rows = tuple(
        cells(
            *(each.topic, each.original, each.new, each.common),
            *(number_cell(getattr(each, name), 4) for name, _, _ in _ORDERS),
        )
        for each in reproduction.orders
    )
    documents = columns("topic", numbers=("original", "new", "common"), group="documents")
    heads = (*documents, *columns(numbers=(title for _, title, _ in _ORDERS)))
    return Table("orders", "Rankings by topic", heads, rows, collapsed=True)

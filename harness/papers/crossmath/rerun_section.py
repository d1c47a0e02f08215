"""Archived runs beside recomputed ones: agreement and differences of their scores."""

from __future__ import annotations

from collections.abc import Sequence

from harness.papers.crossmath.rerun import SAME, RerunAgreement, ScorePair, correlation, differences, swapped
from harness.papers.paper_settings import RerunSettings
from harness.render.model import Block, Cell, Column, Prose, Section, Table, number_cell

TITLE = "Re-run of the pipeline"
NEAR = 0.02  # topics with a larger median difference are considered changed by the authors' pipeline
GAP = 0.02  # pairs of documents further apart are also counted separately
LARGEST = 10


def agreement_section(paper: str, settings: RerunSettings, reruns: Sequence[RerunAgreement]) -> Section:
    """Returns the agreement of recomputed runs with the archived ones; what is missing if none were recomputed.

    Parameters
    ----------
    paper : its key.
    reruns : by run and collection; the first run is looked at more closely.
    """
    runs = " and ".join(settings.runs)
    if not reruns:
        needs = (
            f"A re-run needs the model {settings.model} (harness fetch {settings.model}) and takes {settings.cost} the "
            f"first time: harness reproduce paper={paper} rerun=true"
        )
        return Section(TITLE, (Prose((f"Not re-run: {runs}, by {settings.title}.", needs)),))
    summary = f"{runs} were re-run: {settings.title}, scored on the same judged answers as the archived runs."
    first = [agreement for agreement in reruns if agreement.run == next(iter(settings.runs))]
    blocks: list[Block] = [Prose((summary,)), _table(reruns), _by_translation(reruns), _causes(first), _largest(first)]
    return Section(TITLE, tuple(blocks))


def _table(reruns: Sequence[RerunAgreement]) -> Table:
    """Returns the agreement of each run's measures and scores."""
    rows = []
    for agreement in reruns:
        measure = agreement.theirs.measures[0]
        (tau, topics), (r, _) = correlation(agreement.pairs, "tau"), correlation(agreement.pairs, "r")
        median, largest = differences(agreement.pairs)
        rows.append(
            (
                Cell(agreement.run),
                Cell(agreement.collection),
                *(Cell(str(n), n) for n in (len(agreement.topics), len(agreement.pairs))),
                *(number_cell(value) for value in (tau, r)),
                Cell(str(topics), topics),
                *(number_cell(value, 4) for value in (median, largest)),
                *(number_cell(scores.aggregate(measure)) for scores in (agreement.theirs, agreement.ours)),
                Cell(str(agreement.theirs.n(measure)), agreement.theirs.n(measure)),
            )
        )
    first = reruns[0].theirs
    label = first.protocol.label(first.measures[0])
    columns = (
        *(Column(name) for name in ("run", "collection")),
        *(Column(name, kind="number") for name in ("topics", "pairs")),
        *(Column(name, "agreement, topic by topic", "number") for name in ("tau", "r", "n")),
        *(Column(name, "difference of a score", "number") for name in ("median", "largest")),
        *(Column(name, label, "number") for name in ("archived", "here", "n")),
    )
    notes = (
        "Pairs: a topic and a judged answer in both runs. tau: Kendall's tau-b, r: Pearson's correlation; means over "
        "the n topics with at least two such answers with different scores.",
        f"{label}: on exactly these answers, over the n topics with a relevant one (protocol {first.protocol.name}); "
        "not comparable with the paper's values.",
    )
    return Table("rerun", "Archived runs and re-runs", columns, tuple(rows), notes, row_headers=2)


def _by_translation(reruns: Sequence[RerunAgreement]) -> Table:
    """Returns the agreement apart for untranslated and translated topics."""
    rows = []
    for agreement in reruns:
        for name, whether in (("untranslated", True), ("translated", False)):
            pairs = agreement.untranslated(whether)
            (tau, topics), (r, _) = correlation(pairs, "tau"), correlation(pairs, "r")
            counts = (len({pair.topic for pair in pairs}), len(pairs))
            rows.append(
                (
                    *(Cell(word) for word in (agreement.run, agreement.collection, name)),
                    *(Cell(str(n), n) for n in counts),
                    *(number_cell(value) for value in (tau, r)),
                    Cell(str(topics), topics),
                    number_cell(differences(pairs)[0], 4),
                )
            )
    columns = (
        *(Column(name) for name in ("run", "collection", "topics whose body is")),
        *(Column(name, kind="number") for name in ("topics", "pairs")),
        *(Column(name, "agreement, topic by topic", "number") for name in ("tau", "r", "n")),
        Column("median", "difference of a score", "number"),
    )
    notes = (
        "The authors' functions also translate English topics to English. Untranslated: the function returns the body "
        "unchanged because of its first characters; the title may still be translated. The re-run uses untranslated "
        "topics, so the two kinds of topics show the effect of the translation.",
    )
    return Table("rerun-translation", "Agreement by translation", columns, tuple(rows), notes, row_headers=3)


def _causes(reruns: Sequence[RerunAgreement]) -> Table:
    """Returns the agreement by possible causes of the differences."""
    rows = []
    for agreement in reruns:
        parts = {
            "all": agreement.pairs,
            "answers without formulas": agreement.plain(),
            f"answers with formulas, topics equal to {SAME:g}": agreement.same_topics(),
            f"topics with a median difference below {NEAR:g}": agreement.near(NEAR),
        }
        rows += [_part_row(agreement.collection, name, pairs) for name, pairs in parts.items()]
    columns = (
        *(Column(name) for name in ("collection", "pairs of")),
        Column("pairs", kind="number"),
        *(Column(name, "agreement, topic by topic", "number") for name in ("tau", "n")),
        *(Column(name, "difference of a score", "number") for name in ("median", "largest")),
        *(Column(name, "swapped pairs of answers") for name in ("all", f"more than {GAP:g} apart")),
    )
    notes = (
        "Answers without formulas have the text that the authors' pipeline read: if their scores differ, the pipeline "
        "changed the topic. Topics equal: their answers without formulas have the archived scores, so that other "
        "answers differ in LaTeX only. Swapped pairs: two answers of a topic in opposite order in the two runs.",
    )
    caption = f"Causes of the differences of {reruns[0].run}"
    return Table("rerun-causes", caption, columns, tuple(rows), notes, row_headers=2)


def _part_row(collection: str, name: str, pairs: Sequence[ScorePair]) -> tuple[Cell, ...]:
    tau, topics = correlation(pairs, "tau")
    couples = (swapped(pairs, gap) for gap in (0.0, GAP))
    return (
        Cell(collection),
        Cell(name),
        Cell(str(len(pairs)), len(pairs)),
        number_cell(tau),
        Cell(str(topics), topics),
        *(number_cell(value, 4) for value in differences(pairs)),
        *(Cell(f"{wrong} of {count}") for wrong, count in couples),
    )


def _largest(reruns: Sequence[RerunAgreement]) -> Table:
    """Returns the pairs whose scores differ most."""
    pairs = [(agreement.collection, pair) for agreement in reruns for pair in agreement.pairs]
    pairs.sort(key=lambda item: -abs(item[1].difference))
    rows = tuple(
        (
            *(Cell(word) for word in (collection, pair.topic, pair.doc)),
            Cell(str(pair.formulas), pair.formulas),
            *(number_cell(value, 4) for value in (pair.theirs, pair.ours, pair.difference)),
        )
        for collection, pair in pairs[:LARGEST]
    )
    names = ("formulas", "archived", "here", "difference")
    columns = (*map(Column, ("collection", "topic", "answer")), *(Column(name, kind="number") for name in names))
    caption = f"Largest score differences of {reruns[0].run}"
    return Table("rerun-largest", caption, columns, rows, row_headers=3)

"""The page that compares any two runs, and, for readers without scripts, all runs with the best one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.labs.leaderboard_report import clustered_sentence
from harness.labs.site.lab_page import Columns, decimal, lab_page, listing, run_item
from harness.labs.site.lab_view import LabView
from harness.labs.testing import TestVerdict
from harness.render.model import Prose, Records
from harness.render.pages import Head, Item, Listing, PageSection, RunValues
from harness.render.site_html import SitePage, json_document, json_number
from harness.scoring.comparison import PairDifference
from harness.scoring.intervals import numbers_of_names

MOST_VALUES = 120_000  # values in the page: further measures are left out
MOST_NAMED = 3  # topics named in the table without scripts


def pairs_page(field: LabView) -> SitePage:
    """Returns the page of pairs of runs."""
    size = max(1, len(field.runs) * len(field.topics))
    measures = field.board.measures[: max(1, MOST_VALUES // size)]
    measures = measures if field.main in measures else (field.main,)
    measures = (field.main, *(measure for measure in measures if measure != field.main))
    clusters = field.clusters
    indices = () if clusters is None else tuple(numbers_of_names([clusters[topic] for topic in field.topics]).tolist())
    place = {run.name: at for at, run in enumerate(field.runs)}
    block = RunValues(
        tuple((run.name, run.key, run.path) for run in field.runs),
        tuple((topic, field.title_of(topic), field.topic_paths[topic]) for topic in field.topics),
        tuple(map(field.label, measures)),
        tuple(tuple(tuple(column) for column in field.values(measure).T.tolist()) for measure in measures),
        indices,
        tuple(
            (min(map(place.__getitem__, pair)), max(map(place.__getitem__, pair)), test.p, test.significant)
            for pair, test in field.verdicts.items()
        ),
        field.corrected_for,
        field.board.alpha,
        (0, min(1, len(field.runs) - 1)),
    )
    parts = [
        PageSection("", (block,)),
        PageSection(f"All runs against {field.best}", (_against_best(field),)) if field.against_best else None,
        PageSection("Method", (Prose(_method_text(field)),)),
    ]
    page = lab_page(field, "pairs.html", "Compare two runs", "", parts, "pairs.html")
    return SitePage(page, _pairs_json(field, measures), _pairs_records(field))


def _method_text(field: LabView) -> tuple[str, ...]:
    label = field.label(field.main)
    if field.verdicts:
        family = f"Pairs of ranked runs in {label} have the p of the leaderboard: {field.corrected_for}."
    else:
        family = f"The leaderboard makes no tests: {field.board.why}."
    return (
        f"Paired two-sided t-tests over topics. {family} No other p is corrected, and nothing is claimed of it: a pair "
        "that is chosen because it differs much has too small a p.",
        *([clustered_sentence(field.board.clusters)] if field.board.clusters else []),
        f"The table above is of {label}; values in the page are rounded to six decimals.",
    )


def _against_best(field: LabView) -> Listing:
    """Returns a row per run: its difference from the best run, and the topics where they differ most."""
    best, values = field.runs[0], field.values(field.main)
    against = [(n, row) for n, run in enumerate(field.runs) if (row := field.against_best.get(run.name)) is not None]

    def furthest(n: int, sign: int) -> Item:
        differences = values[:, n] - values[:, 0]
        better = (t for t in range(len(field.topics)) if sign * differences[t] > 0)
        few = sorted(better, key=lambda t: -sign * differences[t])[:MOST_NAMED]
        return Item(", ".join(f"{field.topics[t]} {differences[t]:+.3f}" for t in few).replace("-0.", "−0."))

    def interval(row: PairDifference) -> Item:
        if row.p is None:
            return Item("undefined")
        return Item(f"{row.ci_low:+.4f} to {row.ci_high:+.4f}".replace("-", "−"), row.ci_low)

    columns: Columns[tuple[int, PairDifference]] = (
        ("run", lambda each: run_item(field.runs[each[0]])),
        (Head("difference", "number"), lambda each: decimal(each[1].difference, 4, signed=True)),
        (Head("95% interval", "number"), lambda each: interval(each[1])),
        (Head("p", "number"), lambda each: _p_item(each[1].p)),
        (
            Head("corrected p", "number", about=f"Pairs of ranked runs: {field.corrected_for}"),
            lambda each: _corrected(field, each[1].a, best.name),
        ),
        (
            Head("higher / equal / lower", "number"),
            lambda each: Item(f"{each[1].wins} / {each[1].ties} / {each[1].losses}", float(each[1].wins)),
        ),
        ("highest above the best", lambda each: furthest(each[0], 1)),
        ("lowest below the best", lambda each: furthest(each[0], -1)),
    )
    caption = f"{field.label(field.main)} of all runs against {field.best}, {best.name}"
    return listing("against-best", caption, columns, against, search="if long")


def _corrected(field: LabView, run: str, best: str) -> Item:
    """Returns the corrected p with what it says; `not corrected` outside the family."""
    test = field.verdicts.get(frozenset((run, best)))
    if test is None:
        return Item("not corrected")
    said = {True: "significant", False: "not significant", None: ""}[test.significant]
    return replace(_p_item(test.p), small=said)


def _p_item(value: float | None) -> Item:
    if value is None:
        return Item("undefined")
    return Item("<0.0001" if value < 0.0001 else f"{value:.4f}", value)


def _pairs_json(field: LabView, measures: tuple[str, ...]) -> dict[str, Any]:
    return json_document(
        "site-pairs",
        {
            "measures": list(measures),
            "topics": list(field.topics),
            "family": field.board.family,
            "correction": field.board.correction,
            "alpha": field.board.alpha,
            "tests": [
                {"runs": sorted(pair), "p": test.p, "significant": test.significant}
                for pair, test in field.verdicts.items()
            ],
            "values": {
                measure: {
                    run.name: [json_number(value) for value in column]
                    for run, column in zip(field.runs, field.values(measure).T.tolist(), strict=True)
                }
                for measure in measures
            },
        },
    )


def _pairs_records(field: LabView) -> Records:
    names = "run best measure n difference low high p p_corrected significant wins ties losses"
    rows = []
    for r in field.against_best.values():
        test = field.verdicts.get(frozenset((r.a, r.b)), TestVerdict(None, None))
        numbers = (r.n, r.difference, r.ci_low, r.ci_high, r.p, test.p, test.significant, r.wins, r.ties, r.losses)
        rows.append((r.a, r.b, r.measure, *numbers))
    return Records(tuple(names.split()), tuple(rows))

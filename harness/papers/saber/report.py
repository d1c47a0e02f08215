"""Reports on collections with fixed candidates: tournaments and their analyses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from harness.data.columns import Floats
from harness.data.trec import Run
from harness.errors import HarnessError, suggestion
from harness.papers.saber import analyses
from harness.papers.saber.analyses import Above, LeaderboardCorrelation, Preference, Retrieved, TokenMeans
from harness.papers.saber.annotate import ANNOTATIONS, read_annotations
from harness.papers.saber.databank import PROBLEMS, read_problems
from harness.papers.saber.local import title_words
from harness.papers.saber.orders import OrderAgreement, StudyPoint, means
from harness.papers.saber.people import PeopleAgreement
from harness.papers.saber.pipeline import BuilderSettings
from harness.papers.saber.rate import RATINGS, read_ratings
from harness.papers.saber.select import TARGETS, domains_of, read_targets
from harness.papers.saber.swiss import GAMES, Games, position_bias, read_games, wilson
from harness.render import figures
from harness.render.model import Block, Cell, Column, Facts, Figure, Prose, Section, Table, number_cell, slug
from harness.render.write import Report
from harness.reports.parts import provenance_section
from harness.reports.sections import INTERVAL, interval_cell
from harness.store.provenance import provenance

MOST_SUBDOMAINS = 40
_INTERVAL = Column("95% interval", parts=INTERVAL)


# ---- tournaments ------------------------------------------------------------------------------------------------


def tournament_section(played: Sequence[Games], judge: str, *, drawn: bool = False) -> Section:
    """Returns the games of the tournament and the judge's position bias; `drawn` is as in `tournaments`."""
    bias = position_bias(played)
    games = sum(len(each.games) for each in played)
    out = sum(len(names) for each in played for names in each.sat_out)
    share = f"{bias.share:.3f} (95% interval {bias.low:.3f} to {bias.high:.3f})" if bias.decided else "n/a"
    counts = {"targets": len(played), "comparisons": games, "without a decision": bias.undecided, "sat out": out}
    numbers = ((name, f"{count:,}") for name, count in counts.items())
    items = (("judge", judge), *numbers, ("decisions for the candidate shown first", share))
    order = "The order of candidates is drawn" if drawn else "The candidate with the smaller id is shown first"
    unless = "" if drawn else ", unless ids say something of relevance"
    said = f"{order}: a judge without position bias prefers the first in half of the decisions{unless}."
    return Section("Tournament", (Facts(items), Prose((said,))))


def ranks_section(shares: Mapping[str, Floats]) -> Section:
    """Returns the cumulative ranks of candidates by signal in the order of ratings (Figure 4)."""
    series = [(signal, [(rank, float(y)) for rank, y in enumerate(values, 1)]) for signal, values in shares.items()]
    last = max((len(values) for values in shares.values()), default=1)
    ranks = sorted({1, *(round(last * part / 10) for part in range(1, 11)), min(10, last)} - {0})
    columns = (Column("signal"), *(Column(str(rank), "rank", "number") for rank in ranks))
    rows = tuple(
        (Cell(signal), *(number_cell(float(values[rank - 1])) for rank in ranks)) for signal, values in shares.items()
    )
    table = Table("ranks-by-signal", "Share of candidates at a rank or better", columns, rows)
    svg = figures.curves(series, "rank", "share of candidates", "Ranks by signal")
    return Section("Ranks by signal", (Figure("ranks-by-signal-figure", "Cumulative share by rank", svg, table),))


def domains_table(counts: Mapping[tuple[str, str], int], problems: int) -> Table:
    """Returns the number of problems in each subdomain (Figure 6)."""
    rows = tuple(
        (Cell(domain), Cell(sub), number_cell(n, 0), number_cell(n / problems)) for (domain, sub), n in counts.items()
    )
    columns = (Column("domain"), Column("subdomain"), Column("problems", kind="number"), Column("share", kind="number"))
    note = f"{problems:,} problems; a problem counts in every subdomain of its topics."
    return Table("subdomains", "Domains and subdomains", columns, rows, (note,), row_headers=2)


def retrieved_table(target: str, candidates: Sequence[Retrieved], first: int = 10) -> Table:
    """Returns the domains of the first candidates of one target (Figure 7)."""
    rows = tuple(
        (*map(Cell, each.subdomain), *_counts(each.candidates, each.first), Cell("yes" if each.own else ""))
        for each in candidates
    )
    columns = (*map(Column, ("domain", "subdomain")), *_numbers("candidates", f"among the first {first}"))
    name = f"retrieved-{slug(target)}"
    return Table(name, f"Candidates of {target}", (*columns, Column("also the target's")), rows, row_headers=2)


def _numbers(*titles: str) -> tuple[Column, ...]:
    return tuple(Column(title, kind="number") for title in titles)


def _counts(*counts: int) -> tuple[Cell, ...]:
    return tuple(number_cell(count, 0) for count in counts)


def tokens_table(counts: Mapping[str, TokenMeans]) -> Table:
    """Returns the numbers of tokens of problems by domain."""
    columns = (Column("domain"), *_numbers("problems", "in formulas", "words", "share"))
    rows = []
    for name, each in counts.items():
        share = each.formulas / max(each.formulas + each.words, 1e-9)
        means = (number_cell(mean, 1) for mean in (each.formulas, each.words))
        rows.append((Cell(name), *_counts(each.problems), *means, number_cell(share)))
    note = "Means per problem with its solution. Tokens: commands, numbers and characters of formulas, and words."
    return Table("tokens", "Tokens by domain", columns, tuple(rows), (note,))


def preference_table(systems: Mapping[str, Mapping[str, Preference]]) -> Table:
    """Returns the preferences of systems by domain (Figures 2 and 8)."""
    named, numbers = map(Column, ("system", "domain")), _numbers("queries", "prefer formulas", "mean difference")
    columns = (*named, *numbers[:2], _INTERVAL, numbers[2])
    rows = []
    for system, domain, each in ((s, d, each) for s, domains in systems.items() for d, each in domains.items()):
        shares = (number_cell(each.share), interval_cell(each.low, each.high))
        difference = number_cell(float(np.mean(each.differences)), 4)
        rows.append((Cell(system), Cell(domain), *_counts(each.queries), *shares, difference))
    note = "Share of queries whose formulas score higher than their words with the five best-rated candidates."
    return Table("preference", "Formulas or words", columns, tuple(rows), (note,), row_headers=2)


def correlation_table(pairs: Iterable[tuple[str, str, LeaderboardCorrelation]]) -> Table:
    """Returns the correlation of each two leaderboards."""
    columns = [Column("leaderboard"), Column("against"), Column("systems", kind="number")]
    for name in ("Kendall's tau", "Spearman's rho"):
        columns += [Column(name, kind="number"), Column("95% interval", name, parts=INTERVAL)]
    rows = []
    for a, b, each in pairs:
        cells = ((number_cell(value), interval_cell(low, high)) for value, low, high in (each.tau, each.rho))
        rows.append((Cell(a), Cell(b), *_counts(each.systems), *chain(*cells)))
    note = "Percentile bootstrap over systems."
    return Table(
        "leaderboards", "Rank correlation of leaderboards", tuple(columns), tuple(rows), (note,), row_headers=2
    )


def people_table(orders: Mapping[str, PeopleAgreement]) -> Table:
    """Returns the agreement of people with each order."""
    columns = (Column("order"), *_numbers("choices", "agreement"), _INTERVAL)
    rows = []
    for name, each in orders.items():
        share = number_cell(each.agreed / each.choices if each.choices else math.nan)
        rows.append((Cell(name), *_counts(each.choices), share, interval_cell(each.low, each.high)))
    left = max((each.unknown for each in orders.values()), default=0)
    notes = (f"{left:,} choices of unknown candidates are left out.",) if left else ()
    return Table("people", "Agreement of people with orders", columns, tuple(rows), notes)


def _second_judge_section(judge: str, games: int, same: int) -> Section:
    low, high = wilson(same, games)
    share = f"{same / games:.3f} (95% interval {low:.3f} to {high:.3f})" if games else "n/a"
    items = (("judge", judge), ("comparisons that both decide", f"{games:,}"), ("same preference", share))
    return Section("Second judge", (Facts(items),))


def truth_section(above: Above, truth: str) -> Section:
    """Returns ratings beside the judgments of another collection."""
    counts = {"targets with relevant and other candidates": above.targets, "relevant candidates": above.relevant}
    share = f"{above.share:.3f} (95% interval {above.low:.3f} to {above.high:.3f})"
    numbers = ((name, f"{count:,}") for name, count in counts.items())
    items = (("judgments of", truth), *numbers, ("relevant rated above others", share))
    said = "Share of pairs of a relevant and another candidate in which the relevant one has the higher rating."
    return Section("Independent judgments", (Facts(items), Prose((said,))))


# ---- report of a built collection -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """Further inputs of the report of a builder.

    Attributes
    ----------
    target : whose candidates are shown; empty for the first one.
    preferences : system -> its run for the queries' formulas, and that for their words.
    boards : pairs of leaderboards by name, system -> value.
    people : order -> agreement of people with it.
    truth : the name of other judgments, and how the ratings stand to them.
    second : another judge in words, the games that both decided, and those in which both prefer the same.
    """

    target: str = ""
    preferences: Mapping[str, tuple[Run, Run]] = field(default_factory=dict)
    boards: Sequence[tuple[str, Mapping[str, float], str, Mapping[str, float]]] = ()
    people: Mapping[str, PeopleAgreement] = field(default_factory=dict)
    truth: tuple[str, Above] | None = None
    second: tuple[str, int, int] | None = None


def built_report(settings: BuilderSettings, folders: Mapping[str, Path], beside: Beside) -> Report:
    """Builds the report with the analyses of the SABER-Math paper on a built collection.

    Parameters
    ----------
    folders : of the steps up to `rate`.

    Raises
    ------
    HarnessError
        There is no such target, or what the analyses raise.
    """
    problems = read_problems(folders["databank"] / PROBLEMS)
    tags = {name: each.tags for name, each in read_annotations(folders["annotate"] / ANNOTATIONS).items()}
    played = read_games(folders["judge"] / GAMES)
    rated = {each.target: each for each in read_ratings(folders["rate"] / RATINGS)}
    targets = [target for target in read_targets(folders["select"] / TARGETS) if target.id in rated]
    shown = beside.target or next(iter(rated))
    if shown not in rated:
        raise HarnessError(f"target {shown!r} is unknown; {suggestion(shown, rated)}")
    place, domains = subdomain_finder(settings.select.domains), settings.select.domains
    counts = dict(list(analyses.domain_counts(tags, place).items())[:MOST_SUBDOMAINS])
    of_problems = {name: domains_of(tagged, domains) for name, tagged in tags.items()}
    retrieved = analyses.retrieved_domains(rated[shown], tags, place)
    sections = [
        tournament_section(played, settings.judge.named(), drawn=settings.judge.shown == "drawn"),
        ranks_section(analyses.cumulative_ranks(list(rated.values()), targets)),
        Section("Domains", (domains_table(counts, len(problems)), retrieved_table(shown, retrieved))),
        Section("Tokens", (tokens_table(analyses.token_counts(problems.values(), of_problems)),)),
    ]
    if beside.preferences:
        of = {target.id: target.domains for target in targets}
        order = {name: place for place, name in enumerate(problems)}
        best = {name: analyses.best_rated(each, order) for name, each in rated.items()}
        preferences = {name: analyses.preference(*runs, best, of) for name, runs in beside.preferences.items()}
        sections.append(Section("Preference for formulas or words", (preference_table(preferences),)))
    if beside.boards:
        compared = [(a, b, analyses.leaderboards(mine, theirs)) for a, mine, b, theirs in beside.boards]
        sections.append(Section("Leaderboards", (correlation_table(compared),)))
    if beside.people:
        sections.append(Section("Human agreement", (people_table(beside.people),)))
    if beside.second is not None:
        sections.append(_second_judge_section(*beside.second))
    if beside.truth is not None:
        sections.append(truth_section(beside.truth[1], beside.truth[0]))
    games = sum(len(each.games) for each in played)
    candidates = sum(len(target.candidates) for target in targets)
    headline = (
        f"{len(targets):,} targets with {candidates:,} candidates from {len(problems):,} problems; "
        f"{games:,} comparisons by {settings.judge.named()}"
    )
    title = settings.title or settings.name
    return Report(title, headline, (*sections, provenance_section(provenance({}))))


def subdomain_finder(tops: Mapping[str, Sequence[str]]) -> Callable[[str], tuple[str, str] | None]:
    """Returns a function that gives domain and subdomain of a node of the ontology; None for the root.

    >>> subdomain_finder({"Algebra": ["Algebra"]})("Algebra/PolynomialRoots/VietasFormulas")
    ('Algebra', 'Polynomial Roots')
    """
    domain = {top: name for name, titles in tops.items() for top in titles}

    def of(node: str) -> tuple[str, str] | None:
        top, *below = node.split("/")
        return (domain.get(top, title_words(top)), title_words(below[0])) if below else None

    return of


# ---- the oracle study -------------------------------------------------------------------------------------------


def study_report(points: Mapping[StudyPoint, Sequence[OrderAgreement]], candidates: int) -> Report:
    """Builds the report of a study of Swiss pairing: inversions over rounds (Figure 3)."""
    curves = means(points)
    noises = list(dict.fromkeys(point.noise for point in points))
    rounds = sorted({point.rounds for point in points})
    seeds = len(next(iter(points.values())))
    pairs = candidates * (candidates - 1) // 2
    blocks: list[Block] = []
    for against, what in (("all pairs", "the order of all pairs"), ("truth", "the true order")):
        for by in ("ratings", "wins"):
            at = {(n, r): curves[StudyPoint(n, r, by, against)] for n in noises for r in rounds}
            series = [(f"noise {n:g}", [(float(r), at[n, r][0]) for r in rounds]) for n in noises[:6]]
            columns = [Column("rounds", kind="number")]
            columns += [Column(t, f"noise {n:g}", "number") for n in noises for t in ("inversions", "sd", "tau")]
            rows = tuple(
                (number_cell(number, 0), *(cell for n in noises for cell in _cells(at[n, number]))) for number in rounds
            )
            name = f"{by}-{slug(against)}"
            caption = f"Order by {by} against {what}"
            table = Table(f"table-{name}", caption, tuple(columns), rows, (f"Mean of {seeds} seeds; {pairs:,} pairs.",))
            svg = figures.curves(series, "rounds", "inversions", caption)
            blocks.append(Figure(f"figure-{name}", caption, svg, table))
    last = rounds[-1]
    ratings, wins = (curves[StudyPoint(noises[0], last, by, "truth")] for by in ("ratings", "wins"))
    headline = (
        f"{candidates} candidates, {last} Swiss rounds, noise {noises[0]:g}: {ratings[0]:,.1f} inversions "
        f"(tau {ratings[2]:.3f}) by ratings, {wins[0]:,.1f} (tau {wins[2]:.3f}) by wins"
    )
    sections = (Section("Inversions over rounds", tuple(blocks)), provenance_section(provenance({})))
    return Report("Swiss tournaments of an oracle", headline, sections)


def _cells(values: tuple[float, float, float, float]) -> tuple[Cell, Cell, Cell]:
    inversions, spread, tau, _ = values
    return number_cell(inversions, 1), number_cell(spread, 1), number_cell(tau, 4)

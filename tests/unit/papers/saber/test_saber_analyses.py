"""The analyses on cases that can be done by hand, and their report."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.papers.saber import analyses
from harness.papers.saber import report as reports
from harness.papers.saber.databank import MathProblem
from harness.papers.saber.orders import study
from harness.papers.saber.people import Choice, people_agreement
from harness.papers.saber.rate import Rating, Ratings
from harness.papers.saber.select import Candidate, Target
from harness.papers.saber.swiss import Game, Games, wilson
from harness.render.formats import render_markdown
from harness.render.html import render_html
from harness.render.model import Section
from harness.render.write import Report


def ratings(target: str, **values: float) -> Ratings:
    return Ratings(target, tuple(Rating(name, value, 0.1, 0.0, 1, 0) for name, value in values.items()))


def test_ranks_of_signals_over_targets() -> None:
    targets = [
        Target("t", "A", (Candidate("a", "both"), Candidate("b", "topic"), Candidate("c", "summary"))),
        Target("u", "A", (Candidate("x", "topic"), Candidate("y", "both"), Candidate("z", "summary"))),
    ]
    found = analyses.cumulative_ranks([ratings("u", x=3, y=2, z=1), ratings("t", a=5, b=1, c=0)], targets)
    shares = {signal: values.tolist() for signal, values in found.items()}
    assert shares == {"topic": [0.5, 1.0, 1.0], "summary": [0.0, 0.0, 1.0], "both": [0.5, 1.0, 1.0]}


def test_equal_ratings_keep_the_order_of_the_candidates() -> None:
    """As in the authors' code: four ties at 1.0 are ranks 2 to 5 in the order of the list, not their mean."""
    names = (("a", "topic"), ("b", "topic"), ("c", "summary"), ("d", "both"), ("e", "both"))
    target = Target("t", "A", tuple(Candidate(name, signal) for name, signal in names))  # type: ignore[arg-type]
    found = analyses.cumulative_ranks([ratings("t", e=2, d=1, c=1, b=1, a=1)], [target])
    assert found["topic"].tolist() == [0.0, 0.5, 1.0, 1.0, 1.0]
    assert found["summary"].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert found["both"].tolist() == [0.5, 0.5, 0.5, 0.5, 1.0]


def test_relevant_above_others_as_all_pairs_say() -> None:
    luck = np.random.default_rng(4)
    rated = [ratings(f"t{t}", **{f"c{n}": float(luck.integers(0, 6)) for n in range(12)}) for t in range(6)]
    relevant = {f"t{t}": [f"c{n}" for n in range(12) if luck.random() < 0.3] + ["elsewhere"] for t in range(5)}
    found = analyses.relevant_above(rated, relevant, resamples=50)
    shares = []
    for each in rated:
        values = each.by_candidate()
        good = [values[name] for name in relevant.get(each.target, ()) if name in values]
        others = [value for name, value in values.items() if name not in relevant.get(each.target, ())]
        won = [1.0 if a > b else 0.5 if a == b else 0.0 for a in good for b in others]
        if won:
            shares.append(sum(won) / len(won))
    assert found.targets == len(shares)
    assert found.share == pytest.approx(float(np.mean(shares)))
    assert found.low <= found.share <= found.high
    with pytest.raises(HarnessError, match="no target has both relevant and other candidates"):
        analyses.relevant_above(rated, {"t0": [f"c{n}" for n in range(12)]})


PLACE = {"roots": ("Algebra", "Polynomials"), "vieta": ("Algebra", "Polynomials"), "circle": ("Geometry", "Plane")}


def test_domains_of_corpus_and_of_what_is_retrieved() -> None:
    tags = {"a": ["roots", "vieta"], "b": ["circle"], "c": ["circle", "roots"], "d": ["unknown"], "t": ["circle"]}
    counts = analyses.domain_counts({name: tags[name] for name in "abcd"}, PLACE.get)
    assert counts == {("Algebra", "Polynomials"): 2, ("Geometry", "Plane"): 2}
    found = analyses.retrieved_domains(ratings("t", a=5, b=4, c=3, d=1), tags, PLACE.get, first=2)
    shown = [(each.subdomain[0], each.candidates, each.first, each.own) for each in found]
    assert shown == [("Algebra", 2, 1, False), ("Geometry", 2, 1, True)]


def test_formulas_and_words_apart() -> None:
    text = r"Let $a_1>0$ and \[b=\frac{1}{2}.\] Is $5 \$ of \(c\) even?"
    assert analyses.formulas_only("No formula, 5 dollars.") == ""
    assert analyses.words_only(r"Let $a$ be \(b\).") == "Let  be ."
    assert analyses.formulas_only("Let $a$\nbe $$b$$.") == "$a$, $$b$$"
    assert "$a_1>0$" in analyses.formulas_only(text)
    assert "frac" not in analyses.words_only(text)


def test_tokens_by_domain() -> None:
    problems = [MathProblem("p", r"Find $\frac{12}{x}$ now.", "Yes."), MathProblem("q", "No formula", "at all here")]
    found = analyses.token_counts(problems, {"p": ["Algebra", "Geometry"], "q": ["Algebra"]})
    assert found["Geometry"] == analyses.TokenMeans(1, 3.0, 3.0)  # \frac, 12, x; Find, now, Yes
    assert found["Algebra"] == found["all"] == analyses.TokenMeans(2, 1.5, 4.0)


def test_the_five_best_rated_candidates() -> None:
    """Of equal ratings the last ones in the databank are taken, as in the authors' code."""
    order = {name: place for place, name in enumerate("fedcba")}
    found = ratings("t", a=1, b=1, c=3, d=1, e=5, f=1)
    assert analyses.best_rated(found, order, 5) == ("e", "c", "a", "b", "d")
    assert analyses.best_rated(found, order, 2) == ("e", "c")


def test_preference_for_formulas_or_words() -> None:
    """Means over the best-rated candidates alone; a query counts in its first domain; equal means do not count."""
    formulas = Run.from_dict("f", {"q": {"a": 0.9, "b": 0.1, "x": 0.0}, "r": {"a": 0.2}, "s": {"z": 1.0}})
    words = Run.from_dict("w", {"q": {"a": 0.4, "b": 0.4, "x": 9.0}, "r": {"a": 0.6}, "s": {"z": 1.0}})
    best = {"q": ["a", "b"], "r": ["a"], "s": ["z"]}
    found = analyses.preference(formulas, words, best, {"q": ["B", "A"], "r": ["A"], "s": ["A"]})
    counts = {name: (each.queries, each.formulas) for name, each in found.items()}
    assert counts == {"all": (2, 1), "A": (1, 0), "B": (1, 1)}
    assert found["all"].differences == (0.1, -0.4)
    with pytest.raises(HarnessError, match="runs f and w: no target that both prefer one way or the other"):
        analyses.preference(formulas, words, {"s": ["z"]}, {})
    alone = analyses.preference(Run.from_dict("f", {"r": {"a": 0.5}}), words, {"r": ["a", "b"], "u": ["a"]}, {})
    assert alone["all"].differences == (-0.05,)  # "b" has the score 0 in both runs; "u" is in neither


@pytest.mark.slow
def test_two_leaderboards() -> None:
    luck = np.random.default_rng(0)
    truth = {f"s{n:02d}": float(n) for n in range(20)}
    noisy = {name: value + float(luck.normal(0, 4)) for name, value in truth.items()}
    found = analyses.leaderboards(truth, noisy)
    stats = pytest.importorskip("scipy.stats")
    pairs = [list(board.values()) for board in (truth, noisy)]
    assert found.tau[0] == pytest.approx(stats.kendalltau(*pairs).statistic)
    assert found.rho[0] == pytest.approx(stats.spearmanr(*pairs).statistic)
    assert found.tau[1] < found.tau[0] < found.tau[2] <= 1
    assert found.rho[1] < found.rho[0] < found.rho[2] <= 1
    reverse = {name: -value for name, value in truth.items()}
    assert analyses.leaderboards(truth, reverse, resamples=50).tau == (-1.0, -1.0, -1.0)
    assert math.isnan(analyses.leaderboards(truth, dict.fromkeys(truth, 1.0), resamples=5).tau[0])
    with pytest.raises(HarnessError, match="leaderboards: 2 systems in common, expected 3 or more"):
        analyses.leaderboards({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2})


def test_wilson_as_statsmodels_has_it() -> None:
    assert wilson(15, 50) == pytest.approx((0.1910, 0.4375), abs=1e-4)  # proportion_confint(15, 50, method="wilson")
    assert wilson(0, 10)[0] == pytest.approx(0.0, abs=1e-12)
    assert all(math.isnan(end) for end in wilson(0, 0))


def test_reports_show_all_of_it(tmp_path: Path) -> None:
    games = Games("t", ("a", "b"), (Game(1, "a", "b", 1), Game(2, "b", "a", 0)), ((), ()))
    target = Target("t", "A", (Candidate("a", "both"), Candidate("b", "topic")))
    shares = analyses.cumulative_ranks([ratings("t", a=5, b=0)], [target])
    found = analyses.retrieved_domains(ratings("t", a=5, b=0), {"a": ["roots"]}, PLACE.get)
    formulas, words = Run.from_dict("f", {"q": {"a": 0.9}}), Run.from_dict("w", {"q": {"a": 0.8}})
    boards = analyses.leaderboards({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "c": 2}, resamples=20)
    tables = (
        reports.domains_table({("Algebra", "Polynomials"): 3}, 4),
        reports.retrieved_table("t", found),
        reports.tokens_table(analyses.token_counts([MathProblem("p", "Find $x$.", "")], {})),
        reports.preference_table({"bm25": analyses.preference(formulas, words, {"q": ["a"]}, {})}),
        reports.correlation_table([("here", "there", boards)]),
        reports.people_table({"Swiss": people_agreement([Choice("me", "t", "a", "b", 1)], {"t": {"a": 1, "b": 0}})}),
    )
    sections = (reports.tournament_section([games], "nobody"), reports.ranks_section(shares), Section("T", tables))
    report = Report("All", "One line", sections)
    text = render_markdown(report)
    for expected in ("1.000 (95% interval 0.207 to 1.000)", "Polynomials", "0.750", "bm25", "Swiss"):
        assert expected in text
    assert "<svg" in render_html(report)
    page = reports.study_report(study(6, [0.0, 1.0], [1, 2], [1, 3]), 6)
    assert page.headline.startswith("6 candidates, 3 Swiss rounds, noise 0: ")
    written = page.write(tmp_path / "study", formats=["json", "html"])
    assert json.loads(written["json"].read_text())

"""Analyses of a built collection: ranks by signal, domains, tokens, formulas against words, two leaderboards."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.data.columns import Floats
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.text import delimiters
from harness.papers.saber.databank import MathProblem
from harness.papers.saber.rate import Ratings
from harness.papers.saber.select import SIGNALS, Target
from harness.papers.saber.swiss import wilson
from harness.scoring.agreement import tau_b
from harness.scoring.resampling import draws, mean_resampled

# ---- ranks by signal (Figure 4) ---------------------------------------------------------------------------------


def cumulative_ranks(rated: Sequence[Ratings], targets: Sequence[Target]) -> dict[str, Floats]:
    """Returns signal -> share of its candidates at each rank or better, over all targets; shape (largest rank,).

    Equal ratings keep the order of the target's candidates, as in the authors' code. Signals without candidates are
    excluded.

    Examples
    --------
    >>> from harness.papers.saber.rate import Rating
    >>> from harness.papers.saber.select import Candidate
    >>> ratings = Ratings("t", tuple(Rating(c, r, 0.1, 0.0, 1, 0) for c, r in (("a", 5.0), ("b", 2.0), ("c", 0.0))))
    >>> target = Target("t", "Algebra", (Candidate("a", "both"), Candidate("b", "topic"), Candidate("c", "topic")))
    >>> {signal: shares.tolist() for signal, shares in cumulative_ranks([ratings], [target]).items()}
    {'topic': [0.0, 0.5, 1.0], 'both': [1.0, 1.0, 1.0]}
    """
    by_target = {each.target: each.by_candidate() for each in rated}
    ranks: dict[str, list[int]] = {signal: [] for signal in SIGNALS}
    for target in targets:
        ratings = by_target[target.id]
        for rank, each in enumerate(sorted(target.candidates, key=lambda each: -ratings[each.id]), 1):
            ranks[each.source].append(rank)
    last = max((max(own, default=0) for own in ranks.values()), default=0)
    counted = {signal: np.bincount(own, minlength=last + 1)[1:] for signal, own in ranks.items() if own}
    return {signal: np.cumsum(counts) / counts.sum() for signal, counts in counted.items()}


# ---- ratings against an independent truth ------------------------------------------------------------------------


@dataclass(frozen=True)
class Above:
    """Agreement of ratings with independent relevance judgments.

    Attributes
    ----------
    targets : number of targets with both relevant and other candidates.
    relevant : number of relevant candidates of these targets.
    share : area under the ROC curve, mean over targets: the share of pairs (relevant, other) in which the relevant
        candidate has the higher rating; ties count half; 0.5 is chance.
    low, high : 95 % percentile bootstrap interval of `share` over targets.
    """

    targets: int
    relevant: int
    share: float
    low: float
    high: float


def relevant_above(
    rated: Sequence[Ratings], relevant: Mapping[str, Iterable[str]], *, resamples: int = 2000, seed: int = 0
) -> Above:
    """Computes how often relevant candidates are rated above others, over the targets that have both.

    Parameters
    ----------
    relevant : target -> ids of the relevant problems; ids that are not candidates are ignored.

    Raises
    ------
    HarnessError
        No target has both relevant and other candidates.

    Examples
    --------
    >>> from harness.papers.saber.rate import Rating
    >>> found = Ratings("t", tuple(Rating(c, r, 0.1, 0.0, 1, 0) for c, r in (("a", 5.0), ("b", 2.0), ("c", 0.0))))
    >>> relevant_above([found], {"t": ["b", "z"]})
    Above(targets=1, relevant=1, share=0.5, low=0.5, high=0.5)
    """
    shares, count = [], 0
    for each in rated:
        ratings = each.by_candidate()
        good = set(relevant.get(each.target, ())) & ratings.keys()
        if not good or len(good) == len(ratings):
            continue
        count += len(good)
        above = np.array([value for name, value in ratings.items() if name in good])
        below = np.array([value for name, value in ratings.items() if name not in good])
        ahead = above[:, None] - below[None, :]
        shares.append(float((ahead > 0).mean() + (ahead == 0).mean() / 2))
    if not shares:
        raise HarnessError("no target has both relevant and other candidates")
    low, high = mean_resampled(np.array([shares]), resamples=resamples, seed=seed)
    return Above(len(shares), count, float(np.mean(shares)), float(low[0]), float(high[0]))


# ---- domains (Figures 6 and 7) ----------------------------------------------------------------------------------

Subdomain = tuple[str, str]  # domain, subdomain


def domain_counts(
    tags: Mapping[str, Iterable[str]], subdomain: Callable[[str], Subdomain | None]
) -> dict[Subdomain, int]:
    """Counts the problems with a tag in each subdomain, most frequent first; a problem counts once per subdomain.

    Parameters
    ----------
    tags : problem -> nodes of the ontology.
    subdomain : node -> (domain, the node's ancestor just below it); None for the root.

    Examples
    --------
    >>> place = {"vieta": ("Algebra", "Polynomials"), "roots": ("Algebra", "Polynomials")}
    >>> domain_counts({"p": ["vieta", "roots"], "q": ["vieta"]}, place.get)
    {('Algebra', 'Polynomials'): 2}
    """
    places = (place for nodes in tags.values() for place in {subdomain(node) for node in nodes} if place is not None)
    return dict(sorted(Counter(places).items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True)
class Retrieved:
    """Candidates of a target in one subdomain of the ontology.

    Attributes
    ----------
    candidates : number of candidates with a tag in the subdomain.
    first : number of these among the best-rated candidates.
    own : whether the target itself has a tag in the subdomain.
    """

    subdomain: Subdomain
    candidates: int
    first: int
    own: bool


def retrieved_domains(
    ratings: Ratings, tags: Mapping[str, Iterable[str]], subdomain: Callable[[str], Subdomain | None], first: int = 10
) -> list[Retrieved]:
    """Counts a target's candidates, and its `first` best-rated ones, in each subdomain; most frequent first."""
    best = {row.candidate for row in sorted(ratings.rows, key=lambda row: (-row.rating, row.candidate))[:first]}
    names = [row.candidate for row in ratings.rows]
    every = domain_counts({name: tags.get(name, ()) for name in names}, subdomain)
    marked = domain_counts({name: tags.get(name, ()) for name in best}, subdomain)
    own = domain_counts({ratings.target: tags.get(ratings.target, ())}, subdomain)
    return [Retrieved(place, count, marked.get(place, 0), place in own) for place, count in every.items()]


# ---- tokens by domain -------------------------------------------------------------------------------------------

_WORD = re.compile(r"\w+")
_SIGN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+|[^\s{}]")


def formulas_only(text: str) -> str:
    """Returns the formulas of a text with their delimiters, separated by commas, as in the authors' code.

    >>> formulas_only("Let $x>0$. Find $y$.")
    '$x>0$, $y$'
    """
    return ", ".join(text[span.start : span.end].strip() for span in delimiters.formula_spans(text))


def words_only(text: str) -> str:
    """Returns a text without its formulas, as in the authors' code.

    >>> words_only("Let $x>0$. Find $y$.")
    'Let . Find .'
    """
    return "".join(words for words, _ in delimiters.split_formulas(text)).strip()


@dataclass(frozen=True)
class TokenMeans:
    """Mean tokens per problem: formula symbols (each a LaTeX command, a number or a character) and words."""

    problems: int
    formulas: float
    words: float


def token_counts(problems: Iterable[MathProblem], domains: Mapping[str, Iterable[str]]) -> dict[str, TokenMeans]:
    """Counts the tokens of statements and solutions by domain; `all` stands for every problem.

    A problem may be in several domains. Tokens are counted by a rule of this harness, not by any model's tokenizer.

    >>> token_counts([MathProblem("p", "Find $x^2$.", "It is $4$.")], {"p": ["Algebra"]})["Algebra"]
    TokenMeans(problems=1, formulas=4.0, words=3.0)
    """
    sizes: dict[str, list[tuple[int, int]]] = {"all": []}
    for problem in problems:
        text = f"{problem.statement}\n\n{problem.solution}"
        signs = sum(len(_SIGN.findall(span.latex)) for span in delimiters.formula_spans(text))
        counts = (signs, len(_WORD.findall(words_only(text))))
        for domain in dict.fromkeys(("all", *domains.get(problem.id, ()))):
            sizes.setdefault(domain, []).append(counts)
    return {domain: TokenMeans(len(rows), *np.mean(rows, axis=0).tolist()) for domain, rows in sizes.items() if rows}


# ---- formulas or words (Figures 2 and 8) ------------------------------------------------------------------------


@dataclass(frozen=True)
class Preference:
    """Preference of a system for the formulas or for the words of queries.

    Attributes
    ----------
    queries : number of queries whose two means differ.
    formulas : number of queries whose formulas are nearer to the best-rated candidates than their words.
    low, high : Wilson's 95 % interval of the share `formulas` / `queries`.
    differences : mean score by formulas minus mean score by words, in the order of the queries.
    """

    queries: int
    formulas: int
    low: float
    high: float
    differences: tuple[float, ...]

    @property
    def share(self) -> float:
        """Share of queries that prefer formulas; NaN without queries."""
        return self.formulas / self.queries if self.queries else math.nan


def best_rated(ratings: Ratings, order: Mapping[str, int], first: int = 5) -> tuple[str, ...]:
    """Returns the best-rated candidates of a target, those of one rating by their place in the databank, last first.

    This is the order of `get_top5_candidates` in the authors' code.
    """
    ranked = sorted(ratings.rows, key=lambda row: (-row.rating, -order[row.candidate]))
    return tuple(row.candidate for row in ranked[:first])


def preference(
    formulas: Run, words: Run, best: Mapping[str, Sequence[str]], domains: Mapping[str, Sequence[str]]
) -> dict[str, Preference]:
    """Computes a system's preference for formulas or words by domain, as in the authors' code (Figures 2 and 8).

    A query, cut to its formulas and cut to its words, is compared with the full texts of its five best-rated
    candidates; the larger mean score is preferred. The scores must be cosines. A query counts in its first domain and
    in `all`; equal means are left out.

    Parameters
    ----------
    formulas, words : runs of one system for the queries' formulas and words (`formulas_only`, `words_only`).
    best : query -> its best-rated candidates (`best_rated`); a candidate that a run leaves out has the score 0, a query
        that both leave out does not count.

    Raises
    ------
    HarnessError
        No query prefers one or the other.

    Examples
    --------
    >>> a, b = Run.from_dict("f", {"q": {"c": 0.9, "d": 0.5}}), Run.from_dict("w", {"q": {"c": 0.3, "d": 0.6}})
    >>> found = preference(a, b, {"q": ["c", "d"]}, {"q": ["Algebra"]})["Algebra"]
    >>> found.formulas, found.differences
    (1, (0.25,))
    """
    deltas: dict[str, list[float]] = {"all": []}
    by_formulas, by_words = formulas.to_dict(), words.to_dict()
    for query, candidates in best.items():
        scored = [run.get(query, {}) for run in (by_formulas, by_words)]
        means = [math.fsum(scores.get(name, 0.0) for name in candidates) / len(candidates) for scores in scored]
        if means[0] != means[1]:
            for domain in ("all", *domains.get(query, ())[:1]):
                deltas.setdefault(domain, []).append(round(means[0] - means[1], 12))
    if not deltas["all"]:
        raise HarnessError(f"runs {formulas.name} and {words.name}: no target that both prefer one way or the other")
    out = {}
    for domain, differences in deltas.items():
        prefer = sum(each > 0 for each in differences)
        out[domain] = Preference(len(differences), prefer, *wilson(prefer, len(differences)), tuple(differences))
    return out


# ---- two leaderboards -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeaderboardCorrelation:
    """Rank correlation of two leaderboards over the systems in both.

    Attributes
    ----------
    systems : number of systems in both leaderboards.
    tau, rho : Kendall's tau-b and Spearman's rho, each as (value, low, high) with a 95 % percentile bootstrap interval
        over systems; NaN where one leaderboard ties all systems.
    """

    systems: int
    tau: tuple[float, float, float]
    rho: tuple[float, float, float]


def leaderboards(
    a: Mapping[str, float], b: Mapping[str, float], *, resamples: int = 2000, seed: int = 0
) -> LeaderboardCorrelation:
    """Computes the rank correlation of two leaderboards (system -> value; higher is better).

    Bootstrap resamples draw systems with replacement; resamples in which one side is all ties are skipped.

    Raises
    ------
    HarnessError
        The leaderboards have fewer than three systems in common.

    Examples
    --------
    >>> board = {"a": 0.6, "b": 0.5, "c": 0.4, "d": 0.3}
    >>> leaderboards(board, {**board, "e": 0.9}, resamples=100).tau
    (1.0, 1.0, 1.0)
    """
    names = sorted(set(a) & set(b))
    if len(names) < 3:
        raise HarnessError(f"leaderboards: {len(names)} systems in common, expected 3 or more")
    x, y = (np.array([board[name] for name in names], dtype=np.float64) for board in (a, b))
    taus, rhos = [], []
    for drawn in draws(np.random.PCG64(seed), len(names), resamples):
        if np.ptp(x[drawn]) > 0 and np.ptp(y[drawn]) > 0:
            taus.append(tau_b(x[drawn], y[drawn]))
            rhos.append(_spearman(x[drawn], y[drawn]))

    def interval(values: list[float]) -> tuple[float, float]:
        if not values:
            return math.nan, math.nan
        low, high = np.percentile(values, [2.5, 97.5]).tolist()
        return round(low, 12), round(high, 12)

    tau, rho = (round(tau_b(x, y), 12), *interval(taus)), (round(_spearman(x, y), 12), *interval(rhos))
    return LeaderboardCorrelation(len(names), tau, rho)


def _spearman(x: Floats, y: Floats) -> float:
    from scipy import stats

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    a, b = stats.rankdata(x), stats.rankdata(y)
    return float(np.corrcoef(a, b)[0, 1])

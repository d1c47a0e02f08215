"""What is built, looked at: ranks by signal, domains, tokens, preference for formulas or words, two leaderboards."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.builders.saber.databank import Problem
from harness.builders.saber.rate import Ratings
from harness.builders.saber.select import SIGNALS, Target
from harness.builders.saber.swiss import wilson
from harness.data.columns import Floats
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.text import delimiters
from harness.scoring.agreement import tau_b
from harness.scoring.bootstrap import draws, mean_resampled

# ---- ranks by signal (Figure 4) ---------------------------------------------------------------------------------


def cumulative_ranks(rated: Sequence[Ratings], targets: Sequence[Target]) -> dict[str, Floats]:
    """Signal -> the share of its candidates at each rank or above, over all targets, shape (largest rank,).

    Equal ratings share the mean of their ranks, rounded down. A signal without candidates is left out.

    Examples
    --------
    >>> from harness.builders.saber.rate import Rating
    >>> from harness.builders.saber.select import Candidate
    >>> ratings = Ratings("t", tuple(Rating(c, r, 0.1, 0.0, 1, 0) for c, r in (("a", 5.0), ("b", 2.0), ("c", 0.0))))
    >>> target = Target("t", "Algebra", (Candidate("a", "both"), Candidate("b", "topic"), Candidate("c", "topic")))
    >>> {signal: shares.tolist() for signal, shares in cumulative_ranks([ratings], [target]).items()}
    {'topic': [0.0, 0.5, 1.0], 'both': [1.0, 1.0, 1.0]}
    """
    from scipy import stats

    by_target = {each.target: each.by_candidate() for each in rated}
    ranks: dict[str, list[int]] = {signal: [] for signal in SIGNALS}
    for target in targets:
        ratings = by_target[target.id]
        values = [-ratings[each.id] for each in target.candidates]
        for each, rank in zip(target.candidates, stats.rankdata(values).tolist(), strict=True):
            ranks[each.source].append(int(rank))
    last = max((max(found, default=0) for found in ranks.values()), default=0)
    return {
        signal: np.cumsum(np.bincount(found, minlength=last + 1)[1:]) / len(found)
        for signal, found in ranks.items()
        if found
    }


# ---- ratings against an independent truth ------------------------------------------------------------------------


@dataclass(frozen=True)
class Above:
    """How ratings order candidates of which something else says which are relevant.

    Attributes
    ----------
    targets : those with both kinds of candidates; relevant : their relevant candidates.
    share : of pairs of a relevant and another candidate, the part in which the relevant one has the higher rating (ties
        count half: the area under the ROC curve), the mean over targets; low, high : its 95 % percentile bootstrap
        interval over targets. 0.5 is chance.
    """

    targets: int
    relevant: int
    share: float
    low: float
    high: float


def relevant_above(
    rated: Sequence[Ratings], relevant: Mapping[str, Iterable[str]], *, resamples: int = 2000, seed: int = 0
) -> Above:
    """Relevant above other candidates, over the targets that have both.

    Parameters
    ----------
    relevant : target -> ids of what is relevant to it, candidates or not.

    Raises
    ------
    HarnessError
        No target has both.

    Examples
    --------
    >>> from harness.builders.saber.rate import Rating
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
        above, below = (
            np.array([value for name, value in ratings.items() if (name in good) is wanted]) for wanted in (True, False)
        )
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
    """How many problems have a tag in each subdomain; the most frequent first. A problem counts once in each.

    Parameters
    ----------
    tags : problem -> nodes of the ontology.
    subdomain : of a node: its ancestor below a domain, and that domain; None for the root.

    Examples
    --------
    >>> place = {"vieta": ("Algebra", "Polynomials"), "roots": ("Algebra", "Polynomials")}
    >>> domain_counts({"p": ["vieta", "roots"], "q": ["vieta"]}, place.get)
    {('Algebra', 'Polynomials'): 2}
    """
    counted = Counter(
        found for nodes in tags.values() for found in {subdomain(node) for node in nodes} if found is not None
    )
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True)
class Retrieved:
    """Where the candidates of a target stand in the ontology.

    Attributes
    ----------
    candidates : how many have a tag in the subdomain; first : how many of those are among the best ones.
    own : whether the target has a tag there.
    """

    subdomain: Subdomain
    candidates: int
    first: int
    own: bool


def retrieved_domains(
    ratings: Ratings,
    tags: Mapping[str, Iterable[str]],
    subdomain: Callable[[str], Subdomain | None],
    first: int = 10,
) -> list[Retrieved]:
    """The subdomains of a target's candidates, the most frequent first, with the marks of its `first` best ones."""
    best = {row.candidate for row in sorted(ratings.rows, key=lambda row: (-row.rating, row.candidate))[:first]}
    names = [row.candidate for row in ratings.rows]
    every = domain_counts({name: tags.get(name, ()) for name in names}, subdomain)
    marked = domain_counts({name: tags.get(name, ()) for name in best}, subdomain)
    own = domain_counts({ratings.target: tags.get(ratings.target, ())}, subdomain)
    return [Retrieved(place, count, marked.get(place, 0), place in own) for place, count in every.items()]


# ---- tokens by domain (Figure 2) --------------------------------------------------------------------------------

_WORD = re.compile(r"\w+")
_SIGN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+|[^\s{}]")


def formulas_only(text: str) -> str:
    """The formulas of a text, in their dollars, with blanks between.

    >>> formulas_only("Let $x>0$. Find \\\\(y\\\\).")
    '$x>0$ $y$'
    """
    return " ".join(f"${span.latex}$" for span in delimiters.spans(text))


def words_only(text: str) -> str:
    """A text without its formulas.

    >>> words_only("Let $x>0$. Find $y$.")
    'Let . Find .'
    """
    out, at = [], 0
    for span in delimiters.spans(text):
        out.append(text[at : span.start])
        at = span.end
    return " ".join("".join((*out, text[at:])).split())


@dataclass(frozen=True)
class Tokens:
    """Mean tokens of a problem: signs of its formulas (a command, a number or a character each) and words."""

    problems: int
    formulas: float
    words: float


def token_counts(problems: Iterable[Problem], domains: Mapping[str, Iterable[str]]) -> dict[str, Tokens]:
    """Domain -> tokens of its problems, statement and solution; `all` for all of them. A problem may be in several.

    They are counted by a rule of ours and are not those of any model.

    >>> token_counts([Problem("p", "Find $x^2$.", "It is $4$.")], {"p": ["Algebra"]})["Algebra"]
    Tokens(problems=1, formulas=4.0, words=3.0)
    """
    found: dict[str, list[tuple[int, int]]] = {"all": []}
    for problem in problems:
        text = f"{problem.statement}\n\n{problem.solution}"
        signs = sum(len(_SIGN.findall(span.latex)) for span in delimiters.spans(text))
        counts = (signs, len(_WORD.findall(words_only(text))))
        for domain in dict.fromkeys(("all", *domains.get(problem.id, ()))):
            found.setdefault(domain, []).append(counts)
    return {domain: Tokens(len(rows), *np.mean(rows, axis=0).tolist()) for domain, rows in found.items() if rows}


# ---- formulas or words (Figures 2 and 8) ------------------------------------------------------------------------


@dataclass(frozen=True)
class Preference:
    """Whether a system scores candidates higher by their formulas or by their words.

    Attributes
    ----------
    queries : those with candidates that both runs score.
    formulas : those whose candidates have the higher mean score by their formulas; low, high: Wilson's 95 % interval of
        their share.
    differences : of the mean scores (formulas less words), in the order of the queries.
    """

    queries: int
    formulas: int
    low: float
    high: float
    differences: tuple[float, ...]

    @property
    def share(self) -> float:
        """The share of queries that prefer formulas."""
        return self.formulas / self.queries if self.queries else math.nan


def preference(formulas: Run, words: Run, domains: Mapping[str, Iterable[str]]) -> dict[str, Preference]:
    """Domain -> preference of a system, and `all`; a query may be in several domains.

    The queries in full are run against two forms of the candidates: their formulas alone and their words alone
    (`formulas_only`, `words_only`). Scores must be of one scale, such as cosines. The paper's text does not say how its
    average is taken; here it is over the candidates that both runs score.

    Raises
    ------
    HarnessError
        The runs have no query with a candidate in common.

    Examples
    --------
    >>> a, b = Run.from_dict("f", {"q": {"c": 0.9, "d": 0.5}}), Run.from_dict("w", {"q": {"c": 0.3, "d": 0.6}})
    >>> found = preference(a, b, {"q": ["Algebra"]})["Algebra"]
    >>> found.formulas, found.differences
    (1, (0.25,))
    """
    by_formulas, by_words = formulas.to_dict(), words.to_dict()
    found: dict[str, list[float]] = {"all": []}
    for query, scores in by_formulas.items():
        both = [candidate for candidate in scores if candidate in by_words.get(query, {})]
        if both:
            difference = sum(scores[each] - by_words[query][each] for each in both) / len(both)
            for domain in dict.fromkeys(("all", *domains.get(query, ()))):
                found.setdefault(domain, []).append(round(difference, 12))
    if not found["all"]:
        raise HarnessError(f"runs {formulas.name} and {words.name}: no query with a candidate that both score")
    out = {}
    for domain, differences in found.items():
        prefer = sum(each > 0 for each in differences)
        out[domain] = Preference(len(differences), prefer, *wilson(prefer, len(differences)), tuple(differences))
    return out


# ---- two leaderboards -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Correlation:
    """How alike two leaderboards rank the systems that both have.

    Attributes
    ----------
    systems : their number.
    tau, rho : Kendall's tau-b and Spearman's rho, each with the lower and the upper end of a 95 % percentile bootstrap
        interval over systems; NaN where one leaderboard ties all.
    """

    systems: int
    tau: tuple[float, float, float]
    rho: tuple[float, float, float]


def leaderboards(
    a: Mapping[str, float], b: Mapping[str, float], *, resamples: int = 2000, seed: int = 0
) -> Correlation:
    """The rank correlation of two leaderboards, system -> value, high ones first.

    Resamples draw systems with replacement; those that draw nothing but ties on one side are left out.

    Raises
    ------
    HarnessError
        They have fewer than three systems in common.

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
            rhos.append(_rho(x[drawn], y[drawn]))

    def interval(values: list[float]) -> tuple[float, float]:
        if not values:
            return math.nan, math.nan
        low, high = np.percentile(values, [2.5, 97.5]).tolist()
        return round(low, 12), round(high, 12)

    return Correlation(len(names), (round(tau_b(x, y), 12), *interval(taus)), (round(_rho(x, y), 12), *interval(rhos)))


def _rho(x: Floats, y: Floats) -> float:
    from scipy import stats

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    a, b = stats.rankdata(x), stats.rankdata(y)
    return float(np.corrcoef(a, b)[0, 1])

"""Step 5, selection: draws targets, and their candidates evenly from the two signals and their overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError, suggestion
from harness.io.checks import check_whole_number
from harness.papers.saber.lines import read_lines, write_lines
from harness.papers.saber.pairs import Kinds, Rows

TARGETS = "targets.jsonl"
Signal = Literal["topic", "summary", "both"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)


@dataclass(frozen=True)
class Candidate:
    """A problem that may be relevant to a target.

    Attributes
    ----------
    source : the high similarity to the target: `topic`, `summary` (core idea), or `both`.
    """

    id: str
    source: Signal


@dataclass(frozen=True)
class Target:
    """A problem for which candidates are ranked.

    Attributes
    ----------
    domain : domain of the most relevant topic; domains : of all topics, `domain` first.

    Examples
    --------
    >>> Target("p1", "Algebra", (Candidate("p2", "both"),)).candidates[0].source
    'both'
    """

    id: str
    domain: str
    candidates: tuple[Candidate, ...]
    domains: tuple[str, ...] = ()


def write_targets(path: Path, targets: Iterable[Target]) -> None:
    """Writes targets as JSON lines: `id`, `domain`, `domains`, `candidates` (each with `id` and `source`)."""
    rows = (
        {
            "id": target.id,
            "domain": target.domain,
            "domains": list(target.domains),
            "candidates": [{"id": each.id, "source": each.source} for each in target.candidates],
        }
        for target in targets
    )
    write_lines(path, rows)


def read_targets(path: Path) -> list[Target]:
    """Reads the targets in order; raises what `lines.read_lines` raises."""

    def candidate(row: dict[str, Any]) -> Candidate:
        if row["source"] not in SIGNALS:
            raise HarnessError(f"source {row['source']!r} is unknown; {suggestion(str(row['source']), SIGNALS)}")
        return Candidate(row["id"], row["source"])

    def target(row: dict[str, Any]) -> Target:
        candidates = tuple(map(candidate, row["candidates"]))
        return Target(row["id"], row["domain"], candidates, tuple(row.get("domains", ())))

    return list(read_lines(path, target))


# ---- domains ----------------------------------------------------------------------------------------------------

# Top-level topics of the ontology in each domain, as in the authors' repository (build_benchmark/select).
DOMAINS: Mapping[str, tuple[str, ...]] = {
    "Algebra": ("Algebra",),
    "Geometry": ("Geometry",),
    "Number Theory": ("NumberTheory",),
    "Combinatorics": ("DiscreteMathematics", "ProbabilityandStatistics", "RecreationalMathematics"),
    "Calculus and Analysis": ("CalculusandAnalysis",),
}


# Targets of each group of domains, as in the authors' repository (build_benchmark/select/final_sampler.py at 9f015a7).
QUOTAS: Mapping[str, int] = {
    "Algebra": 150,
    "Geometry": 195,
    "Number Theory": 150,
    "Calculus and Analysis": 199,
    "Combinatorics": 150,
    "Combinatorics; Number Theory": 50,
    "Algebra; Combinatorics": 50,
    "Algebra; Number Theory": 50,
    "Algebra; Geometry": 3,
    "Combinatorics; Geometry": 2,
    "Algebra; Calculus and Analysis": 1,
}


@dataclass(frozen=True)
class SelectSettings:
    """Settings of the selection (key `select`).

    Attributes
    ----------
    quotas : group of domains -> number of targets that have these domains and no other; names are separated by `;`.
    each : number of candidates per signal (`topic`, `summary`, `both`).
    seed : of the draws.
    domains : domain -> top-level titles of the ontology.
    """

    quotas: Mapping[str, Annotated[int, partial(check_whole_number, low=1)]] = field(default_factory=lambda: QUOTAS)
    each: Annotated[int, partial(check_whole_number, low=1)] = 50
    seed: Annotated[int, check_whole_number] = 0
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: DOMAINS)

    @property
    def targets(self) -> int:
        """Number of targets."""
        return sum(self.quotas.values())

    def groups(self) -> dict[frozenset[str], str]:
        """Returns the groups of domains with their keys in `quotas`.

        >>> SelectSettings().groups()[frozenset({"Number Theory", "Algebra"})]
        'Algebra; Number Theory'
        """
        return {frozenset(name.strip() for name in key.split(";")): key for key in self.quotas}

    def __post_init__(self) -> None:
        for name in self.domains:
            if ";" in name or not name.strip() or not name.isprintable():
                raise HarnessError(f"key 'domains': {name!r} is empty or contains ';', the separator of domains")
        titles = [title for each in self.domains.values() for title in each]
        for title in {each: None for each in titles if titles.count(each) > 1}:
            raise HarnessError(f"key 'domains': title {title!r} occurs twice; a topic belongs to one domain")
        groups = self.groups()
        for name in (name for group in groups for name in sorted(group)):
            if name not in self.domains:
                raise HarnessError(f"key 'quotas': domain {name!r} is unknown; {suggestion(name, self.domains)}")
        if len(groups) < len(self.quotas):
            key = next(key for key in self.quotas if key not in groups.values())
            raise HarnessError(f"key 'quotas': the group {key!r} occurs twice")


def domains_of(tags: Mapping[str, float], known: Mapping[str, tuple[str, ...]] = DOMAINS) -> tuple[str, ...]:
    """Returns the domains of a problem from its tags and their relevance, most relevant first.

    Domains are ordered by the total relevance of their tags, then as in `known`; this order is our choice.

    >>> domains_of({"Geometry": 1.0, "Algebra/Polynomials": 0.4, "Topology/Knots": 0.9})
    ('Geometry', 'Algebra')
    """
    tops = {top: domain for domain, titles in known.items() for top in titles}
    sums: dict[str, float] = {}
    for tag in sorted(tags):
        domain = tops.get(tag.partition("/")[0])
        if domain is not None:
            sums[domain] = sums.get(domain, 0.0) + tags[tag]
    order = list(known)
    return tuple(sorted(sums, key=lambda domain: (-sums[domain], order.index(domain))))


# ---- targets and candidates -------------------------------------------------------------------------------------


def select(
    ids: Sequence[str],
    domains: Sequence[tuple[str, ...]],
    pairs: Callable[[], Iterable[tuple[Rows, Rows, Kinds]]],
    settings: SelectSettings,
) -> tuple[list[Target], dict[str, int]]:
    """Draws targets and their candidates; returns the targets and counts.

    A problem is eligible if it has at least `each` candidates of every signal. The targets of each group of domains are
    drawn at random from the eligible problems with just these domains, then `each` candidates of every signal.

    Parameters
    ----------
    ids, domains : of the problems, in the order of the numbers in `pairs`.
    pairs : returns an iterator over all pairs; called twice.

    Raises
    ------
    HarnessError
        A group has fewer eligible problems than its quota.
    """
    counts = np.zeros((len(SIGNALS), len(ids)), np.int64)
    for left, right, kind in pairs():
        for i in range(len(SIGNALS)):
            of_kind = kind == i + 1
            for rows in (left[of_kind], right[of_kind]):
                counts[i] += np.bincount(rows, minlength=len(ids))
    enough = np.flatnonzero((counts >= settings.each).all(axis=0))
    groups = settings.groups()
    eligible: dict[str, list[int]] = {key: [] for key in settings.quotas}
    others: Counter[str] = Counter()
    for row in enough.tolist():
        group = frozenset(domains[row])
        if group in groups:
            eligible[groups[group]].append(row)
        elif group:
            others["; ".join(sorted(group))] += 1
    found = ((key, len(rows), settings.quotas[key]) for key, rows in eligible.items())
    if few := [f"{key} {count} of {quota}" for key, count, quota in found if count < quota]:
        more = f"; without a quota: {', '.join(f'{key} {n}' for key, n in others.most_common(5))}" if others else ""
        raise HarnessError(
            f"select: too few problems with {settings.each} candidates of each signal: {', '.join(few)}{more}; "
            "lower 'quotas', 'each' or the thresholds of 'pairs'"
        )
    rng = np.random.default_rng(settings.seed)
    chosen = [
        row for key, rows in eligible.items() for row in rng.choice(rows, settings.quotas[key], replace=False).tolist()
    ]
    pools = _candidates(sorted(chosen), pairs)
    targets = []
    for row in sorted(chosen):
        drawn = [np.sort(rng.choice(np.sort(pools[row][i]), settings.each, replace=False)) for i in range(len(SIGNALS))]
        candidates = [Candidate(ids[j], signal) for signal, rows in zip(SIGNALS, drawn, strict=True) for j in rows]
        targets.append(Target(ids[row], domains[row][0], tuple(candidates), domains[row]))
    possible = {f"eligible problems of {key}": len(rows) for key, rows in eligible.items()}
    return targets, {"problems": len(ids), **possible, "of other groups": others.total(), "targets": len(targets)}


def _candidates(
    chosen: Sequence[int], pairs: Callable[[], Iterable[tuple[Rows, Rows, Kinds]]]
) -> dict[int, list[npt.NDArray[np.int64]]]:
    """Returns target -> its candidates, one array per signal; targets and candidates are row numbers."""
    parts: dict[int, list[list[npt.NDArray[np.int64]]]] = {row: [[] for _ in SIGNALS] for row in chosen}
    wanted = np.array(chosen)
    for left, right, kind in pairs():
        for mine, theirs in ((left, right), (right, left)):
            at = np.flatnonzero(np.isin(mine, wanted))
            for row in np.unique(mine[at]).tolist():
                of_row = at[mine[at] == row]
                for i in range(len(SIGNALS)):
                    parts[row][i].append(theirs[of_row[kind[of_row] == i + 1]].astype(np.int64))
    return {row: [np.concatenate([*each, np.empty(0, np.int64)]) for each in by_kind] for row, by_kind in parts.items()}

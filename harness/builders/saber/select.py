"""Step 5, selection: the targets and the candidates of each, drawn evenly from the two signals and their overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
import numpy.typing as npt

from harness.builders.saber.lines import read_lines, write_lines
from harness.builders.saber.pairs import Kinds, Rows
from harness.errors import HarnessError, suggestion
from harness.io.checks import whole

TARGETS = "targets.jsonl"
Signal = Literal["topic", "summary", "both"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)


@dataclass(frozen=True)
class Candidate:
    """A problem that may be relevant to a target.

    Attributes
    ----------
    source : which similarity to the target is high: of the topics only, of the core ideas only, or both.
    """

    id: str
    source: Signal


@dataclass(frozen=True)
class Target:
    """A problem that others are to be ranked for.

    Attributes
    ----------
    domain : of its most relevant topic; `domains`: of all its topics, that one first.

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
    """JSON lines: `id`, `domain`, `domains`, `candidates` (each `id` and `source`)."""
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
    """The targets, in order; raises as `lines.read_lines`."""

    def candidate(row: dict[str, str]) -> Candidate:
        for signal in SIGNALS:
            if row["source"] == signal:
                return Candidate(row["id"], signal)
        raise HarnessError(f"source {row['source']!r} is unknown; {suggestion(str(row['source']), SIGNALS)}")

    return list(
        read_lines(
            path,
            lambda row: Target(
                row["id"], row["domain"], tuple(map(candidate, row["candidates"])), tuple(row.get("domains", ()))
            ),
        )
    )


# ---- domains ----------------------------------------------------------------------------------------------------

# Top-level topics of the ontology of each domain, as in the authors' repository (build_benchmark/select).
DOMAINS: Mapping[str, tuple[str, ...]] = {
    "Algebra": ("Algebra",),
    "Geometry": ("Geometry",),
    "Number Theory": ("NumberTheory",),
    "Combinatorics": ("DiscreteMathematics", "ProbabilityandStatistics", "RecreationalMathematics"),
    "Calculus and Analysis": ("CalculusandAnalysis",),
}


@dataclass(frozen=True)
class SelectSettings:
    """Key `select`.

    Attributes
    ----------
    targets : how many; `each`: candidates of each of the three signals.
    domains : domain -> titles at the top of the ontology; targets are drawn from these in turn.
    """

    targets: Annotated[int, partial(whole, low=1)] = 1000
    each: Annotated[int, partial(whole, low=1)] = 50
    seed: Annotated[int, whole] = 0
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: DOMAINS)

    def __post_init__(self) -> None:
        for name in self.domains:
            if ";" in name or not name.strip() or not name.isprintable():
                raise HarnessError(f"key 'domains': {name!r} is empty or holds ';', which collections set between them")
        titles = [title for each in self.domains.values() for title in each]
        for title in {each: None for each in titles if titles.count(each) > 1}:
            raise HarnessError(f"key 'domains': title {title!r} stands there twice; a topic is of one domain")


def domains_of(tags: Mapping[str, float], known: Mapping[str, tuple[str, ...]] = DOMAINS) -> tuple[str, ...]:
    """The domains of a problem by its tags and their relevance, the most relevant first.

    The order is ours: by the sum of the relevance of the tags in a domain, then that of `known`.

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
    """Targets with their candidates, and counts.

    A target has at least `each` candidates of every signal. Targets are drawn at random, from the domains in turn, by
    the first domain of each; where one has no more, the others go on. Then `each` candidates of every signal are drawn.

    Parameters
    ----------
    ids, domains : of the problems, in the order of the rows of pairs.
    pairs : gives the pairs from their begin whenever it is called; they are gone through twice.

    Raises
    ------
    HarnessError
        Fewer problems than targets have candidates enough.
    """
    counts = np.zeros((len(SIGNALS), len(ids)), np.int64)
    for left, right, kind in pairs():
        for i in range(len(SIGNALS)):
            of_kind = kind == i + 1
            for rows in (left[of_kind], right[of_kind]):
                counts[i] += np.bincount(rows, minlength=len(ids))
    enough = np.flatnonzero((counts >= settings.each).all(axis=0))
    rng = np.random.default_rng(settings.seed)
    waiting: dict[str, list[int]] = {domain: [] for domain in settings.domains}
    for row in rng.permutation(enough).tolist():
        if domains[row]:
            waiting[domains[row][0]].append(row)
    eligible = {domain: len(rows) for domain, rows in waiting.items()}
    if sum(eligible.values()) < settings.targets:
        raise HarnessError(
            f"select: {sum(eligible.values())} of {len(ids)} problems have a domain and {settings.each} candidates of "
            f"each signal, {settings.targets} targets are wanted; lower 'targets', 'each' or the thresholds of 'pairs'"
        )
    chosen: list[int] = []
    while len(chosen) < settings.targets:
        for rows in waiting.values():
            if rows and len(chosen) < settings.targets:
                chosen.append(rows.pop(0))
    found = _candidates(sorted(chosen), pairs)
    targets = []
    for row in sorted(chosen):
        drawn = [np.sort(rng.choice(np.sort(found[row][i]), settings.each, replace=False)) for i in range(len(SIGNALS))]
        candidates = [Candidate(ids[j], signal) for signal, rows in zip(SIGNALS, drawn, strict=True) for j in rows]
        targets.append(Target(ids[row], domains[row][0], tuple(candidates), domains[row]))
    made = {f"targets of {domain}": sum(t.domain == domain for t in targets) for domain in settings.domains}
    could = {f"possible targets of {domain}": count for domain, count in eligible.items()}
    return targets, {"problems": len(ids), **could, "targets": len(targets), **made}


def _candidates(
    chosen: Sequence[int], pairs: Callable[[], Iterable[tuple[Rows, Rows, Kinds]]]
) -> dict[int, list[npt.NDArray[np.int64]]]:
    """Row of a target -> the rows of its candidates, one array for each signal."""
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

"""Comparisons of runs as values: differences of pairs and their tests, letters for groups, and JSON documents.

Schema of the documents: `harness/data/schemas/comparison.json`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from harness.data.records import frame
from harness.errors import HarnessError, suggestion
from harness.io.display import table_html

if TYPE_CHECKING:
    from pandas import DataFrame

Typed = TypeVar("Typed")
SCHEMA = "mathir-harness/comparison"
VERSION = 3
CLUSTERED = (
    "means are over topics; those that share their {0} are dependent: errors are cluster-robust, n counts by {0}"
)
Test = Literal["t", "randomization"]
Correction = Literal["none", "bonferroni", "holm"]
Marks = Literal["bonferroni", "maxT"]  # the correction after which tables mark a difference
Pairs = Sequence[tuple[str, str]]
TESTS: tuple[str, ...] = get_args(Test)
MARKS: tuple[str, ...] = get_args(Marks)
Kind = Literal["equivalence", "non-inferiority"]
ESTABLISHED = ("equivalent", "both", "not inferior")  # outcomes of tests that found what they are for
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class EquivalenceTest:
    """One measure of run `a` against run `b`: whether their difference is shown to be within a margin.

    Attributes
    ----------
    difference : mean of a - b over topics.
    ci_low, ci_high : interval of the difference at level 1 - 2 alpha / family; the runs are equivalent if it is inside
        the margin, and a is not inferior if its lower end is above -margin.
    kind : `equivalence` or `non-inferiority`.
    p : larger p of the two one-sided tests; of non-inferiority, the p of the one. None (undefined) where all topics
        have the same difference and it is not 0.
    p_bonferroni, p_holm : corrections over the comparison's family.
    least_margin : the margin above which the corrected test (Bonferroni) is significant.
    outcome : of an equivalence test, by Bonferroni's correction: `equivalent` (the difference is within the margin),
        `different` (it is significant), `both` (significant and within the margin) or `undecided`. Of non-inferiority:
        `not inferior`, `inferior` (significantly below -margin) or `undecided`.
    """

    a: str
    b: str
    measure: str
    n: int
    kind: Kind
    margin: float
    difference: float
    ci_low: float
    ci_high: float
    p: float | None
    p_bonferroni: float | None
    p_holm: float | None
    least_margin: float | None
    outcome: str


@dataclass(frozen=True)
class PairDifference:
    """One measure of run `a` against run `b`, over the topics that count for both.

    Attributes
    ----------
    n, n_a, n_b : topics that count for both and for each run; of clustered topics, the clusters with such topics.
    mean_a, mean_b : means over the topics that count for both, also if topics are clustered.
    difference, ci_low, ci_high : mean of a - b over topics and its t interval (level: the comparison's `confidence`).
    sd : standard deviation of the differences (ddof 1), exactly 0 where they are constant; of clustered topics and of
        several collections, sqrt(n) times the standard error of the mean (`harness.scoring.intervals`, `.strata`).
    effect_size : Cohen's d for paired samples, difference / sd. None where sd is 0 and the difference is not.
    t, p : two-sided paired t-test. None (undefined) where sd is 0 and the difference is not.
    p_randomization : two-sided paired sign-flip test; always defined.
    p_randomization_error : its Monte Carlo standard error; None where all sign flips were enumerated (p is exact).
    p_bonferroni, p_holm : corrections of the p of the comparison's `test`.
    p_max_t : correction by the largest statistic of shared sign flips (`harness.scoring.randomization`); None unless
        the comparison's `marks` is `maxT`. Then p_randomization is of the same flips.
    wins, ties, losses : topics (clusters: means) where a is better than, equal to (within 1e-12), worse than b.
    detectable, detectable_corrected : the smallest absolute mean difference that this t-test, with this sd and n, finds
        with the comparison's `power`, at alpha and at alpha / family. None where sd is 0, and where it would be larger
        than any difference in the measure.
    significant, significant_bonferroni, significant_holm, significant_max_t : p < alpha; None where p is undefined.
    freedom : degrees of freedom of the t-test; None in files of versions before 3.
    seeds_a, seeds_b : seeds of each run, where its values are means over them: error, interval, t and p then are those
        of `harness.scoring.random_effects.seed_test`, and sd is sqrt(n) times the error.
    """

    a: str
    b: str
    measure: str
    n: int
    n_a: int
    n_b: int
    mean_a: float
    mean_b: float
    difference: float
    ci_low: float
    ci_high: float
    sd: float
    effect_size: float | None
    t: float | None
    p: float | None
    p_randomization: float
    p_randomization_error: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None
    detectable_corrected: float | None
    freedom: float | None = None
    seeds_a: int = 1
    seeds_b: int = 1
    p_bonferroni: float | None = None
    p_holm: float | None = None
    p_max_t: float | None = None
    significant: bool | None = None
    significant_bonferroni: bool | None = None
    significant_holm: bool | None = None
    significant_max_t: bool | None = None

    @property
    def marked(self) -> bool | None:
        """Whether tables mark the difference: significant after maxT if it was asked for, else after Bonferroni's."""
        return self.significant_bonferroni if self.p_max_t is None else self.significant_max_t


@dataclass(frozen=True, repr=False)
class Comparison:
    """Paired tests between runs scored under the same conditions, with the family for corrections.

    The corrections and `significant` marks use the p of `test`, over `family` tests (including undefined ones);
    `correction` describes this in words, for captions. `baseline` is the `b` of all rows, or None. `marks` is the
    correction that tables mark; `equivalence` has the tests of equivalence, if there is a margin.

    Examples
    --------
    >>> import harness as h
    >>> runs = {"a": {"q1": {"d1": 2, "d2": 1}, "q2": {"d1": 1}}, "b": {"q1": {"d1": 1, "d2": 2}, "q2": {"d1": 1}}}
    >>> found = h.evaluate({"q1": {"d1": 1}, "q2": {"d1": 1}}, *runs.values(), measures=["RR"], names=list(runs))
    >>> h.compare(found).frame()[["a", "b", "difference", "wins", "losses"]]
       a  b  difference  wins  losses
    0  a  b        0.25     1       0
    """

    baseline: str | None
    family: int
    test: Test
    alpha: float
    confidence: float
    power: float
    permutations: int
    seed: int
    collection: str
    edition: str
    protocol: str
    qrels_sha256: str
    marks: Marks = "bonferroni"
    correction: str = ""
    equivalence: tuple[EquivalenceTest, ...] = ()
    rows: tuple[PairDifference, ...] = ()  # last, so that a written comparison starts with what it is

    def frame(self) -> DataFrame:
        """Returns one row per test, with the fields of `PairDifference` as columns; None for an undefined value."""
        names = [field.name for field in fields(PairDifference)]
        return frame({name: [getattr(row, name) for row in self.rows] for name in names})

    def __repr__(self) -> str:
        pairs = f"{len(self.rows)} pairs" + (f" against {self.baseline}" if self.baseline else "")
        return f"<Comparison of {pairs} on {self.collection}: {self.correction}>"

    def _repr_html_(self) -> str:
        return table_html(self)


def corrected_test(comparison: Comparison) -> str:
    """Returns `Comparison.correction` without other tests than the corrected one, for tables without their column."""
    if comparison.test == "randomization":
        return comparison.correction
    return "; ".join(said for said in comparison.correction.split("; ") if "randomization tests" not in said)


def with_cluster_note(comparison: Comparison, cluster: str) -> Comparison:
    """Returns a comparison of clustered topics whose description says so; `cluster`: name of the clusters."""
    return replace(comparison, correction=f"{comparison.correction}; {CLUSTERED.format(cluster)}")


def groups_not_different(comparison: Comparison, measure: str, correction: Correction) -> dict[str, str]:
    """Returns run -> letters, best mean first; runs share a letter if and only if their difference is not significant.

    Computes the compact letter display by insertion and absorption (Piepho, 2004). Undefined tests are not significant.
    Letters are a to z, then a1 to z1, and so on. Raises HarnessError if the measure or a pair of its runs is missing.
    """
    if correction not in get_args(Correction):
        raise HarnessError(f"unknown correction {correction!r}; {suggestion(correction, get_args(Correction))}")
    rows = [row for row in comparison.rows if row.measure == measure]
    if not rows:
        known = suggestion(measure, {row.measure for row in comparison.rows})
        raise HarnessError(f"measure {measure!r} was not compared; {known}")
    means: dict[str, list[float]] = {}
    for row in rows:
        means.setdefault(row.a, []).append(row.mean_a)
        means.setdefault(row.b, []).append(row.mean_b)
    # A run's means differ between rows only if the common topics do; their average decides the order.
    order = sorted(means, key=lambda run: (-statistics.mean(means[run]), run))
    field = "significant" if correction == "none" else f"significant_{correction}"
    different = {frozenset((row.a, row.b)): getattr(row, field) for row in rows}
    pairs = list(combinations(order, 2))
    for a, b in pairs:
        if frozenset((a, b)) not in different:
            raise HarnessError(f"runs {a} and {b} were not compared for {measure}; letters need all pairs")
    return compact_letters(order, [(a, b) for a, b in pairs if different[frozenset((a, b))]])


def compact_letters(order: Sequence[str], different: Pairs, most: float = math.inf) -> dict[str, str]:
    """Returns run -> letters by insertion and absorption (Piepho, 2004): only pairs in `different` share no letter.

    Parameters
    ----------
    order : order of the runs; the first has the letter a.
    most : maximum number of intermediate letters, which may grow exponentially; if exceeded, an empty mapping is
        returned.

    Examples
    --------
    >>> compact_letters(["x", "y", "z"], [("x", "z")])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    # A set of runs is represented as a bit mask.
    bit = {run: 1 << at for at, run in enumerate(order)}
    sets = {sum(bit.values())}
    for a, b in different:
        both = bit[a] | bit[b]
        split = {s for s in sets if s & both == both}
        if not split:
            continue
        kept = sets - split
        made = {s & ~one for s in split for one in (bit[a], bit[b])}
        # Absorption: drop new sets that are subsets of others. Kept sets need no check: a kept set inside a new set
        # would already have been inside the larger set that the new one was made from.
        sets = kept | {s for s in made if not any(s & other == s != other for other in kept | made)}
        if len(sets) > most:
            return {}
    columns = sorted([at for at in range(len(order)) if s >> at & 1] for s in sets)
    letters = dict.fromkeys(order, "")
    for i, column in enumerate(columns):
        for rank in column:
            letters[order[rank]] += "abcdefghijklmnopqrstuvwxyz"[i % 26] + (str(i // 26) if i >= 26 else "")
    return letters


# What documents of version 2 lack.
_ADDED: Mapping[type, Mapping[str, object]] = {
    Comparison: {"marks": "bonferroni", "equivalence": []},
    PairDifference: {"freedom": None, "p_max_t": None, "significant_max_t": None, "seeds_a": 1, "seeds_b": 1},
}
_ONE_OF = {"Test": TESTS, "Marks": MARKS, "Kind": KINDS}


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """Returns the comparison as standard JSON (undefined values are null), with schema name and version."""
    content = asdict(comparison)
    lists = {name: list(content[name]) for name in ("equivalence", "rows")}
    return {"schema": SCHEMA, "version": VERSION, **content, **lists}


def comparison_from_json(data: dict[str, Any]) -> Comparison:
    """Reads the result of `comparison_to_json`, also of version 2.

    Raises
    ------
    HarnessError
        Another schema or version, or wrong keys or types.
    """
    content = dict(data) if isinstance(data, dict) else {}
    version = content.get("version")
    for key, expected in (("schema", (SCHEMA,)), ("version", (VERSION, 2))):
        value = content.pop(key, None)
        if value not in expected or isinstance(value, bool):
            raise HarnessError(f"comparison: {key} is {value!r:.60}, expected {expected[0]!r}")
    header = _typed(Comparison, content, "comparison", version)
    rows = _typed_list(PairDifference, header.pop("rows"), "rows", version)
    equivalence = _typed_list(EquivalenceTest, header.pop("equivalence"), "equivalence", version)
    return Comparison(rows=rows, equivalence=equivalence, **header)


def _typed_list(cls: type[Typed], items: list[object], name: str, version: object) -> tuple[Typed, ...]:
    return tuple(cls(**_typed(cls, item, f"comparison: {name}[{i}]", version)) for i, item in enumerate(items))


def _typed(cls: type, data: object, where: str, version: object) -> dict[str, Any]:
    """Returns the mapping if its keys are exactly the fields of `cls` and its values have the fields' types."""
    kinds = {field.name: str(field.type) for field in fields(cls)}
    if not isinstance(data, dict):
        raise HarnessError(f"{where} is {data!r:.60}, expected an object")
    if version == 2:
        data = {**_ADDED.get(cls, {}), **data}
    for key in sorted(kinds.keys() ^ data.keys(), key=str):
        fault = f"unknown key {key!r}; {suggestion(str(key), kinds)}" if key in data else f"key {key!r} is missing"
        raise HarnessError(f"{where}: {fault}")
    types: dict[str, Any] = {"str": str, "bool": bool, "int": int, **dict.fromkeys(_ONE_OF, str)}
    for key, kind in kinds.items():
        base, value = kind.removesuffix(" | None"), data[key]
        if value is None and base != kind:
            continue
        of = list if base.startswith("tuple[") else types.get(base, (int, float))
        fits = isinstance(value, of) and isinstance(value, bool) == (base == "bool")
        if not fits or (base == "float" and not abs(value) < math.inf) or value not in _ONE_OF.get(base, (value,)):
            wanted = "list" if of is list else " | ".join(_ONE_OF[base]) if base in _ONE_OF else kind
            raise HarnessError(f"{where}: key {key!r} is {value!r:.60}, expected {wanted}")
    return dict(data)

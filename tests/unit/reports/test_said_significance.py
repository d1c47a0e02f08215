"""Every sentence of a lab's pages about significance, recomputed from the runs by scipy and matrices."""

from __future__ import annotations

import csv
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from lab_tools import DOCS, TOPICS, Conf, collection, run_text, tiny_lab
from scipy import linalg, stats
from site_tools import build

from harness.io import config
from harness.labs.lab import Lab
from harness.labs.receipts import team_receipt
from harness.labs.submit import Offer, Receipt, submit_run

UNEQUAL = ("x", "x", "x", "x", "y", "y", "z", "w")


@dataclass(frozen=True)
class Case:
    """Relevant results among the first five by run and topic; the first run of a team is ranked."""

    runs: Mapping[str, Sequence[int]]
    clusters: Sequence[str] = ()
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def ranked(self) -> list[str]:
        """Names of the ranked runs, best first."""
        firsts = {name.partition(" / ")[0]: name for name in reversed(list(self.runs))}
        return sorted((n for n in self.runs if n in firsts.values()), key=lambda n: (-self.mean(n), n))

    def values(self, name: str) -> np.ndarray:
        """P@5 of a run on each topic."""
        return np.array(self.runs[name]) / 5

    def mean(self, name: str) -> float:
        """Mean over topics, whatever the clusters."""
        return float(self.values(name).mean())


PLAIN = {
    "a / 1": (5, 5, 4, 5, 4, 5, 5, 4),
    "b / 1": (4, 5, 4, 4, 3, 5, 4, 4),
    "c / 1": (1, 2, 0, 1, 1, 0, 2, 1),
    "d / 1": (2, 1, 1, 1, 3, 0, 1, 2),
    "e / 1": (3, 3, 2, 4, 3, 2, 3, 3),
}
CASES = {
    "plain topics, Holm": Case(PLAIN),
    "Bonferroni": Case(PLAIN, settings={"correction": "bonferroni"}),
    "without correction": Case(PLAIN, settings={"correction": "none"}),
    "a declared family": Case(PLAIN, settings={"family": 200, "alpha": 0.01}),
    # By cluster means, b is better than a; by topics, a is better.
    "clusters of unequal size": Case(
        {"a / 1": (5, 5, 5, 5, 1, 1, 0, 0), "b / 1": (3, 3, 3, 3, 3, 2, 2, 1), "c / 1": (0, 1, 0, 1, 0, 0, 0, 0)},
        UNEQUAL,
    ),
    "clusters of equal size": Case(PLAIN, ("x", "x", "y", "y", "z", "z", "w", "w")),
    "one ranked run": Case(
        {"a / 1": (5, 5, 4, 5, 4, 5, 5, 4), "a / 2": (1, 2, 0, 1, 1, 0, 2, 1)}, settings={"family": 15}
    ),
    "undefined tests": Case(
        {
            "a / 1": (5, 3, 4, 5, 4, 5, 5, 4),
            "b / 1": (4, 2, 3, 4, 3, 4, 4, 3),
            "c / 1": (1, 2, 0, 1, 1, 0, 2, 1),
            "d / 1": (5, 3, 4, 5, 4, 5, 5, 4),
        }
    ),
    "only undefined": Case({"a / 1": (5,) * 8, "b / 1": (4,) * 8}),
    "unranked runs are higher": Case({**PLAIN, "c / 2": (5,) * 8, "d / 2": (5, 5, 5, 5, 5, 5, 5, 4)}),
    "an unranked run is higher": Case({**PLAIN, "c / 2": (5,) * 8}),
}


@dataclass(frozen=True)
class ByHand:
    """A two-sided test of a mean difference by hand; p is None if undefined."""

    mean: float
    p: float | None
    low: float
    high: float
    n: int


def by_hand(case: Case, one: str, other: str) -> ByHand:
    """Tests one run against another: scipy's paired t-test, or CR2 by matrices (Bell and McCaffrey, 2002)."""
    x, y = case.values(one), case.values(other)
    differences = x - y
    mean, n = float(differences.mean()), len(differences)
    groups = [
        np.array([at for at, c in enumerate(case.clusters) if c == name]) for name in dict.fromkeys(case.clusters)
    ]
    if np.ptp([differences[group].mean() for group in groups] or differences) < 1e-9:
        return ByHand(mean, 1.0 if abs(mean) < 1e-9 else None, mean, mean, len(groups) or n)
    if not case.clusters:
        found = stats.ttest_rel(x, y)
        interval = found.confidence_interval()
        return ByHand(mean, float(found.pvalue), float(interval.low), float(interval.high), n)
    rest = np.eye(n) - np.full((n, n), 1 / n)  # residual maker of a mean
    residuals = rest @ differences
    weights = []  # of topics, by cluster: (I - H)_g' (I - H_gg)^(-1/2) 1 / n
    variance = 0.0
    for group in groups:
        root = linalg.inv(linalg.sqrtm(np.eye(group.size) - np.full((group.size, group.size), 1 / n)))
        variance += float(root.sum(axis=0) @ residuals[group]) ** 2 / n**2
        weights.append(rest[:, group] @ root.sum(axis=1) / n)
    gram = np.array([[a @ b for a in weights] for b in weights])
    freedom = float(np.trace(gram)) ** 2 / float((gram**2).sum())
    half = float(stats.t.isf(0.025, freedom)) * math.sqrt(variance)
    p = 2 * float(stats.t.sf(abs(mean) / math.sqrt(variance), freedom))
    return ByHand(mean, p, mean - half, mean + half, len(groups))


def corrected(case: Case) -> dict[frozenset[str], float | None]:
    """Corrected p of each pair of ranked runs, by the declared correction."""
    pairs = list(combinations(case.ranked, 2))
    family = max(int(str(case.settings.get("family", 0))), len(pairs))
    raw = {frozenset(pair): by_hand(case, *pair).p for pair in pairs}
    order = sorted((pair for pair in raw if raw[pair] is not None), key=lambda pair: raw[pair] or 0.0)
    out: dict[frozenset[str], float | None] = dict.fromkeys(raw)
    highest = 0.0
    for step, pair in enumerate(order):
        p = raw[pair] or 0.0
        how = case.settings.get("correction", "holm")
        highest = max(highest, min(1.0, p * (family - step)))
        out[pair] = {"holm": highest, "bonferroni": min(1.0, p * family), "none": p}[str(how)]
    return out


def alpha(case: Case) -> float:
    return float(str(case.settings.get("alpha", 0.05)))


def made(case: Case, conf: Conf, tmp_path: Path) -> tuple[Lab, list[Receipt]]:
    """A lab with the runs of a case, in their order."""
    collection(conf, tmp_path / "data", {topic: dict.fromkeys(DOCS[:5], 1) for topic in TOPICS})
    if case.clusters:
        of = dict(zip(TOPICS, case.clusters, strict=True))
        lines = (
            json.dumps({"id": t, "title": t, "attributes": {"kind": of.get(t, "none")}}) for t in (*TOPICS, "T.99")
        )
        (tmp_path / "data" / "topics.jsonl").write_text("\n".join(lines) + "\n")
        text = config.names("collection")["tiny"].read_text()
        conf("collection", "tiny", f"{text}cluster: kind\n")
    lab = tiny_lab(tmp_path / "lab", measures=["P@5", "nDCG"], **case.settings)
    receipts = []
    for at, (name, relevant) in enumerate(case.runs.items()):
        path = tmp_path / "run.txt"
        ranked = {
            t: [*DOCS[:k], *DOCS[10 + at : 15 + at - k], DOCS[20 + at]] for t, k in zip(TOPICS, relevant, strict=True)
        }
        path.write_text(run_text(ranked))
        team, _, label = name.partition(" / ")
        receipts.append(submit_run(lab, Offer(path, team, label)))
    return lab, receipts


def text_of(path: Path) -> str:
    """The words of a page, without its scripts, in one line."""
    page = re.sub(r"<(script|style|template|svg)\b.*?</\1>", " ", path.read_text("utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page))).replace("−", "-")


def shown_p(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def close(said: str, expected: float) -> bool:
    return abs(float(said) - expected) < 6e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_pages_say_what_the_runs_say(name: str, conf: Conf, tmp_path: Path) -> None:
    case = CASES[name]
    lab, receipts = made(case, conf, tmp_path)
    code, said = build(lab.folder, "-o", tmp_path / "site")
    assert code == 0, said
    p = corrected(case)
    site = tmp_path / "site" / "lab"
    check_headline(case, p, text_of(site / "index.html"))
    check_groups(case, p, site)
    check_pairs(case, p, site)
    for run in case.runs:
        check_run(case, p, run, text_of(site / "runs" / (run.replace(" / ", "/") + ".v1.html")))
    check_receipt(case, lab, receipts[-1])


P = Mapping[frozenset[str], float | None]


def against_best(case: Case, p: P) -> tuple[list[str], list[str], list[str]]:
    """The other ranked runs: those that differ significantly from the best, that do not, and without a defined test."""
    best, *others = case.ranked
    kinds: tuple[list[str], list[str], list[str]] = ([], [], [])
    for other in others:
        found = p[frozenset((best, other))]
        kinds[2 if found is None else 0 if found < alpha(case) else 1].append(other)
    return kinds


def check_headline(case: Case, p: P, page: str) -> None:
    best = case.ranked[0]
    (said,) = re.findall(
        rf"\d+ runs? on tiny [^:]*: best P@5(?: of the ranked runs)? ([0-9.]+) by {best}([^.]*?)(\.|; )", page
    )[:1]
    assert close(said[0], case.mean(best))
    apart, alike, undefined = against_best(case, p)
    if len(case.ranked) == 1:
        assert said[1] == ""
        assert "Nothing was tested: there is only one ranked run." in page
        assert " significantly from " not in page
    elif alike:
        assert f"does not differ significantly from {len(alike)} other" in said[1]
    elif apart and not undefined:
        assert "differs significantly from all others" in said[1]
    if undefined:
        assert f"has no defined test against {len(undefined)} other" in said[1]
        assert "from all others" not in said[1]
    higher = sorted((n for n in case.runs if case.mean(n) > case.mean(best)), key=case.mean, reverse=True)
    if len(higher) > 1:
        assert (
            f"; {len(higher)} runs are higher, up to {case.mean(higher[0]):.4f} by {higher[0]}, but not ranked" in page
        )
    elif higher:
        assert f"; {higher[0]} is higher, {case.mean(higher[0]):.4f}, but not ranked" in page
    else:
        assert " higher, " not in page
    family = max(int(str(case.settings.get("family", 0))), len(p)) if p else 0
    correction = {"bonferroni": "Bonferroni's correction", "none": "without correction"}
    if p:
        how = correction.get(str(case.settings.get("correction")), "Holm's correction")
        assert f"alpha {alpha(case):g}, {how} over a family of {family} test" in page
    missing = [pair for pair, found in p.items() if found is None]
    assert ("The t-test is undefined" in page) == bool(missing)
    for pair in missing:
        assert any(f"{a} and {b}" in page for a in pair for b in pair if a != b)
    n = {by_hand(case, *pair).n for pair in combinations(case.ranked, 2)}
    if "The smallest difference" in page or "detect no difference" in page:
        assert re.search(rf"the {min(n)} (topics|groups of topics \(kind\)) of the tests", page)
        for each in re.findall(r"at alpha [0-9./ ,]+: ([0-9.]+)", page):
            assert 0 < float(each.rstrip(".")) <= 1
    if case.clusters:
        assert "tests are of the mean over topics. Topics that share their kind are dependent" in page


def check_groups(case: Case, p: P, site: Path) -> None:
    """Runs share a letter if and only if they do not differ significantly or their test is undefined."""
    board = json.loads((site / "leaderboard.json").read_text())
    ranked = {each["name"]: each for each in board["ranked"]}
    means = [each["means"][0]["value"] for each in board["ranked"]]
    assert list(ranked) == case.ranked
    assert means == pytest.approx([case.mean(each) for each in case.ranked])
    if not p:
        assert (board["family"], board["grouping"], {each["group"] for each in ranked.values()}) == (0, "none", {""})
        return
    for pair, found in p.items():
        one, other = (set(ranked[run]["group"]) for run in pair)
        assert one.isdisjoint(other) == (found is not None and found < alpha(case)), pair
    assert {frozenset(pair) for pair in board["undefined"]} == {pair for pair, found in p.items() if found is None}


def check_pairs(case: Case, p: P, site: Path) -> None:
    """The page has the corrected p of every ranked pair in the first measure, and of no other."""
    source = (site / "pairs.html").read_text("utf-8")
    (data,) = re.findall(r'id="pairs-data">(.*?)</script>', source, re.DOTALL)
    data = json.loads(data)
    names = [run[0] for run in data["runs"]]
    found = {frozenset((names[a], names[b])): (value, significant) for a, b, value, significant in data["tests"]}
    expected = {pair: (value, None if value is None else value < alpha(case)) for pair, value in p.items()}
    assert found.keys() == expected.keys()
    for pair, (value, significant) in expected.items():
        assert found[pair] == (None if value is None else pytest.approx(value), significant)
    document = json.loads((site / "pairs.json").read_text())
    assert {frozenset(each["runs"]): each["p"] for each in document["tests"]} == {k: v for k, (v, _) in found.items()}
    with (site / "pairs.csv").open(newline="") as file:
        rows = {row["run"]: row for row in csv.DictReader(file)}
    best = case.ranked[0]
    assert rows.keys() == case.runs.keys() - {best}
    for run, row in rows.items():
        raw, pair = by_hand(case, run, best), frozenset((run, best))
        assert (row["best"], int(row["n"])) == (best, raw.n)
        for key, value in (("difference", raw.mean), ("low", raw.low), ("high", raw.high)):
            assert float(row[key]) == pytest.approx(value, abs=1e-9)
        interval = "undefined" if raw.p is None else f"{raw.low:+.4f} to {raw.high:+.4f}".replace("-", "−")
        assert f">{interval}<" in source
        for key, value in (("p", raw.p), ("p_corrected", p.get(pair))):
            assert row[key] == "" if value is None else float(row[key]) == pytest.approx(value)
        said = {True: "significant", False: "not significant", None: "undefined"}[expected.get(pair, (0, None))[1]]
        said = said if pair in p else "not corrected"
        (line,) = re.findall(
            rf"<tr[^>]*>(?:(?!</tr>).)*?{run.partition(' / ')[2]}<(?:(?!</tr>).)*?>{run[0]}<.*?</tr>", source, re.DOTALL
        )
        assert f"{said}<" in line


def check_run(case: Case, p: P, run: str, page: str) -> None:
    best = case.ranked[0]
    others = [each for each in case.ranked if each != run]
    board = [*case.ranked, *sorted(case.runs.keys() - set(case.ranked), key=lambda n: (-case.mean(n), n))]
    other = best if run != best else board[1]
    assert "Difference from the best ranked run" in page
    if run == best:
        assert ("that of the next ranked run, " in page) == bool(others)
    raw, pair = by_hand(case, run, other), frozenset((run, other))
    (said,) = re.findall(rf"that of [a-z, ]+ {other}, is ([0-9.]+): a difference of (\S+) \((.*?)\)\.", page)
    assert close(said[0], case.mean(other))
    assert close(said[1], raw.mean)
    if raw.p is None:
        assert said[2] == "the paired t-test is undefined, since the differences do not vary"
    else:
        (low, high) = re.findall(r"95% interval (\S+) to (\S+);", said[2])[0]
        assert close(low, raw.low)
        assert close(high, raw.high)
        assert f"paired t-test p {shown_p(raw.p)}, " in said[2]
        value = p.get(pair)
        if value is None:
            assert said[2].endswith("not corrected: outside the leaderboard's family of tests")
        else:
            verdict = "significant" if value < alpha(case) else "not significant"
            assert said[2].endswith(f" {shown_p(value)}: {verdict} at {alpha(case):g}")
    highest = max(case.mean(each) for each in case.ranked)
    assert "highest of the ranked runs" in page
    assert f"{highest:.4f}" in page
    above = [each for each in case.runs if case.mean(each) > highest + 1e-9]
    assert ("Higher in P@5, but not ranked: " in page) == bool(above)
    assert all(f"{each} {case.mean(each):.4f}" in page for each in above)


def check_receipt(case: Case, lab: Lab, receipt: Receipt) -> None:
    """The last submission is compared by the same family, at the time when it was made."""
    name = receipt.submission.name
    p = corrected(case)
    told = team_receipt(lab, receipt)
    for row in told.against[1:]:
        other, roles, _, difference, said = row
        raw, value = by_hand(case, name, other).p, p.get(frozenset((name, other)))
        assert close(difference, case.mean(name) - case.mean(other))
        expected = value if frozenset((name, other)) in p else raw
        star = "*" if value is not None and value < alpha(case) else ""
        if expected is None:
            assert said == "undefined"
        else:
            assert said == ("<.0001" if expected < 0.0001 else f"{expected:.4f}") + star
        if frozenset((name, other)) not in p:
            assert "not corrected" in told.tests
        assert ("best ranked run" in roles) == (
            other == max((each for each in case.ranked if each != name), key=case.mean, default=None)
        )

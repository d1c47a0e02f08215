"""The price of a search and the test of its best point against the default setting, by hand and against scipy."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from harness.data.trec import Run
from harness.experiments.evaluate import compare, evaluate
from harness.experiments.produce import Produced
from harness.experiments.sweep import ScoredPart, SweepPoint, adaptive_sampler, read_points, scored_point, write_point
from harness.experiments.task import task
from harness.render.model import Prose, Section, Table
from harness.reports.pair_tests import methods_text
from harness.reports.sweep import sweep_report
from harness.reports.sweep_parts import claim_words, search_claim
from harness.scoring.resampling import price_of_selection
from harness.store.provenance import provenance

RANDOM = np.random.default_rng(4)
TOPIC = RANDOM.normal(0.5, 0.1, 40)
DEFAULT: dict[str, Any] = {"k1": "1.2", "b": "0.75"}  # of conf/system/_bm25.yaml


def point(shift: float, /, spread: float = 0.05, **keys: Any) -> SweepPoint:  # noqa: ANN401
    values = TOPIC + shift + RANDOM.normal(0.0, spread, 40)
    overrides = {"system": "bm25", **{f"system.{key}": value for key, value in keys.items()}}
    of = {"mini-task1": values.tolist()}
    return SweepPoint(overrides, {}, {"nDCG": float(values.mean())}, 40, scored_on="x", values=of)


def values(points: list[SweepPoint]) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    return [np.array(each.values["mini-task1"], dtype=np.float64) for each in points]


def section(points: list[SweepPoint], tuned_on: tuple[str, ...] | None = None) -> Section | None:
    page = sweep_report(points, "Sweep", provenance({}), tuned_on=tuned_on)
    return next((each for each in page.sections if each.title == "Price of the search"), None)


def test_the_best_is_tested_against_the_default_for_all_that_were_tried() -> None:
    points = [point(0.05, k1="2", b="0.4"), point(0.0, **DEFAULT), point(-0.1, k1="0.3", b="0.4")]
    claim = search_claim(points)
    assert claim is not None and claim.test is not None and claim.test.p is not None
    best, default, worst = values(points)
    assert claim.default is points[1]
    assert claim.test.p == pytest.approx(2 * stats.ttest_rel(best, default).pvalue)
    interval = stats.ttest_rel(best, default).confidence_interval()
    assert [claim.test.low, claim.test.high] == pytest.approx([interval.low, interval.high])
    assert claim.price == price_of_selection(np.stack([best, default, worst], axis=1))
    assert claim_words(claim).startswith("better than the default setting (p")
    assert claim_words(claim).endswith("after correction for 2 other settings)")
    found = section(points)
    assert found is not None and isinstance(found.blocks[0], Prose)
    assert found.blocks[0].paragraphs[0].startswith("What may be claimed: the best is better than the default")


def test_defaults_are_recognised_as_hydra_reads_them() -> None:
    tuned = [
        replace(point(shift), overrides={"system": "bi-encoder-tuned", "system.training.rate": rate})
        for shift, rate in ((0.05, "0.1"), (0.0, "2e-5"))
    ]
    claim = search_claim(tuned)
    assert claim is not None
    assert claim.default is tuned[1]


def test_what_cannot_be_claimed_is_said() -> None:
    equal = [point(0.02, 0.3, k1="2", b="0.4"), point(0.0, 0.3, **DEFAULT)]
    claim = search_claim(equal)
    assert claim is not None and claim_words(claim).startswith("not shown to be better than the default setting (p = ")
    first = search_claim(equal[::-1])
    assert first is not None and (first.test, claim_words(first)) == (None, "it is the default setting")
    other = search_claim([point(0.1, k1="2"), point(0.0, k1="3")])
    assert other is not None
    assert claim_words(other) == "not compared with the default setting, which was not tried: add 1.2 to system.k1"
    sampled = search_claim([point(0.1, **{**DEFAULT, "k1": "2"}), point(0.0, k1="3", b="0.4")], searched=True)
    assert sampled is not None
    said = ": 'harness run' without system.k1 makes its run, and 'harness compare' tests the two, without a correction"
    assert said in claim_words(sampled)
    # A key that is not named has its default.
    named = search_claim([point(0.1, k1="2"), point(0.0, k1="1.2")])
    assert named is not None and named.default is not None
    assert section(equal, ("mini-task1",)) is not None


@pytest.mark.parametrize("lowest", [False, True])
@pytest.mark.parametrize("sampler", ["", "TPESampler"])
def test_the_sentence_for_a_paper_claims_what_was_done(sampler: str, lowest: bool) -> None:
    """Points that were proposed from all topics are not cross-validated, and the lowest is not called the best."""
    points = [point(-0.2, k1="2", b="0.4"), point(0.0, **DEFAULT), point(0.1, k1="3", b="0.4")]
    page = sweep_report(points, "Sweep", provenance({}), None, lowest, (0.3, 0.5, 0.6), sampler)
    found = next(each for each in page.sections if each.title == "Price of the search")
    prose, table = found.blocks
    assert isinstance(prose, Prose) and isinstance(table, Table)
    paper = prose.paragraphs[1]
    assert ("by nested cross-validation" in paper, "TPESampler, which proposed" in paper) == (
        not sampler,
        bool(sampler),
    )
    assert any("tune=[COLLECTION]" in line for line in prose.paragraphs) == bool(sampler)
    said = "as if chosen beforehand, but TPESampler learns from values on these topics"
    assert (said in page.headline, said in prose.paragraphs[0]) == (bool(sampler), bool(sampler))
    assert any("nor the correction covers that" in note for note in table.notes) == bool(sampler)
    assert ('"The setting had the lowest of 3 values of nDCG on' in paper) == lowest
    words = " ".join([page.headline, *prose.paragraphs, *table.notes, *(row[0].text for row in table.rows)])
    assert not re.search(rf"\b{'best|better' if lowest else 'lowest|lower'}\b", words)


@pytest.mark.parametrize(
    ("results", "sampler"),
    [
        (None, ""),
        ("sampler: RandomSampler\n", ""),
        ("sampler: NSGAIISampler\n", "NSGAIISampler"),
        ("name: ax\n", "an unknown sampler"),
    ],
)
def test_samplers_that_learn_are_known_from_the_results(tmp_path: Path, results: str | None, sampler: str) -> None:
    if results is not None:
        (tmp_path / "optimization_results.yaml").write_text(results)
    assert adaptive_sampler(tmp_path) == sampler


def test_points_without_values_have_no_price() -> None:
    """As those of earlier versions, and of private judgments."""
    points = [replace(point(0.1, k1="2"), values={}), point(0.0, k1="1.2")]
    assert search_claim(points) is None and section(points) is None
    headline = sweep_report(points, "Sweep", provenance({})).headline
    assert headline.endswith("chosen on the same topics")


def test_dependent_topics_stay_together(tmp_path: Path) -> None:
    """Twice the same topics, as clusters of two: the test is that of the topics once; files keep the clusters."""
    points = []
    for each in (point(0.05, k1="2"), point(0.0, k1="1.2")):
        twice = np.repeat(np.array(each.values["mini-task1"], dtype=np.float64), 2).tolist()
        groups = {"mini-task1": [str(at // 2) for at in range(80)]}
        points.append(replace(each, values={"mini-task1": twice}, groups=groups))
        write_point(tmp_path, points[-1])
    kept = sorted(read_points(tmp_path), key=lambda each: each.overrides["system.k1"], reverse=True)
    claim = search_claim(kept)
    assert claim is not None and claim.test is not None and claim.price is not None
    best, default = (np.array(each.values["mini-task1"][::2], dtype=np.float64) for each in points)
    assert claim.test.p == pytest.approx(stats.ttest_rel(best, default).pvalue)
    once = price_of_selection(np.stack([best, default], axis=1))
    assert claim.price.cross_validated == pytest.approx(once.cross_validated)
    assert json.loads(next(tmp_path.glob("*.json")).read_text())["groups"]["mini-task1"][:3] == ["0", "0", "1"]


@pytest.mark.parametrize("private", [False, True])
def test_points_keep_no_values_of_private_judgments(private: bool) -> None:
    bench = task("mini-task1", measures=["nDCG"])
    editions = {name: replace(each, private=private) for name, each in bench.collection.editions.items()}
    bench = replace(bench, collection=replace(bench.collection, editions=editions))
    run = Run.from_dict("r", {"M.1": {"a1088": 1.0}})
    made = Produced(run, Path("r.run"), "k", reused=False, basis="b")
    part = ScoredPart("mini-task1", bench, bench.scorer.protocol, made, bench.scorer(run))
    found = scored_point({"system": "bm25"}, [part], {}, {}, ())
    assert [len(values) for values in found.values.values()] == ([] if private else [42])


def test_the_methods_sentence_names_the_correction_and_the_margin() -> None:
    bench = task("mini-task1", measures=["nDCG"])
    second = {"a": "a1", "b": "a1007"}
    runs = [Run.from_dict(name, {"M.1": {"a1088": 1.0}, "M.2": {doc: 1.0}}) for name, doc in second.items()]
    found = evaluate(bench, *runs)
    said = methods_text(compare(found, correction="maxT", margin=0.02))
    assert "max-statistic permutation test (Westfall and Young, 1993) over 1 test, which share 10,000" in said
    tests = "two one-sided paired t-tests, alpha 0.05, Bonferroni over a family of 1 test (Schuirmann, 1987)."
    assert said.endswith(f"We tested equivalence within 0.02: {tests}")
    assert methods_text(compare(found)).endswith("after Bonferroni's correction for 1 test.")

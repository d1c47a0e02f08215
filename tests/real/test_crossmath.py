"""The main job on real input: every value that CrossMath prints, from the authors' own runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.collections.load import load_collection
from harness.data.trec import read_run
from harness.papers.claims import POOLED, Claim, check_claims
from harness.papers.paper import load_paper
from harness.papers.reproduce import PaperReproduction, recompute_paper
from harness.sources.fetch import fetch_resources

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def found(mirror: Path) -> PaperReproduction:
    return recompute_paper(load_paper("crossmath"))


@pytest.fixture(scope="module")
def claims(found: PaperReproduction) -> tuple[Claim, ...]:
    return check_claims(found)


@pytest.mark.slow
def test_every_value_is_exact(found: PaperReproduction) -> None:
    tables = [v for v in found.verdicts if v.cell.table != "text"]
    text = [v for v in found.verdicts if v.cell.table == "text"]
    assert [(v.cell.place, v.value) for v in found.verdicts if v.verdict != "exact"] == []
    assert (len(tables), len(text)) == (108, 2)
    assert found.line == "crossmath: 108 of 108 table cells exact, 2 of 2 values of its text exact"


def test_every_value_has_its_printed_digits(found: PaperReproduction) -> None:
    """Without the leeway at the middle of two roundings."""
    for verdict in found.verdicts:
        assert verdict.value is not None
        digits = len(verdict.cell.value.partition(".")[2])
        assert f"{verdict.value:.{digits}f}" == verdict.cell.value, verdict.cell.place


def test_a_value_is_made_of_what_it_says(found: PaperReproduction) -> None:
    for verdict in found.verdicts:
        assert verdict.protocol == "crossmath"
        year = verdict.collection.removeprefix("arqmath-")[0]
        n = {"1": 77, "2": 89, "3": 78}[year] if verdict.cell.table != "text" else 1
        assert verdict.n == n
        assert verdict.edition == {"1": "official", "2": "all", "3": "official"}[year]
        assert verdict.measure == {"ndcg_prime@10": "nDCG@10", "p10_prime": "P@10"}[verdict.cell.metric]


@pytest.mark.parametrize(("protocol", "edition"), [("arqmath-task1", "all"), ("crossmath", "official")])
def test_what_the_paper_does_not_say_matters(found: PaperReproduction, protocol: str, edition: str) -> None:
    """With plain gains, or the organisers' 71 topics, Table 1's ARQMath-2 values are others."""
    cells = [v.cell for v in found.verdicts if (v.run, v.cell.collection) == ("eng-NLLB-bi", "arqmath-2")]
    printed = {cell.metric: cell.value for cell in cells}
    archived = next(r for r in found.paper.runs if (r.name, r.collection) == ("eng-NLLB-bi", "arqmath-2"))
    scorer = load_collection("arqmath-2-task1").scorer(edition, protocol, measures=("nDCG@10", "P@10"))
    scores = scorer(read_run(archived.file.cached, name="x"))
    assert f"{scores.mean('nDCG@10'):.3f}" != printed["ndcg_prime@10"]
    assert (f"{scores.mean('P@10'):.3f}" == printed["p10_prime"]) == (edition == "all")


def test_most_czech_topics_were_english(found: PaperReproduction) -> None:
    checks = {t.language: (len(t.checked), len(t.missing), len(t.english_bodies)) for t in found.checked}
    assert checks == {"hrv": (244, 0, 0), "ces": (244, 0, 205), "fas": (244, 0, 0), "spa": (244, 0, 0)}


def test_croatian_runs_lack_a_topic_that_counts_0(found: PaperReproduction) -> None:
    lacking = {key for key, scores in found.scores.items() if scores.counts["topics missing"]}
    assert lacking == {("arqmath-3", f"hrv-{t}-{m}") for t in ("NLLB", "mBART") for m in ("bi", "cross")}
    for key in lacking:
        scores = found.scores[key]
        row = scores.topics.index("A.344")
        assert scores.counts["topics missing"] == 1
        assert scores.values[row].tolist() == [0.0, 0.0]
        assert scores.n("P@10") == 78


def test_claims_are_tested_both_ways(claims: tuple[Claim, ...]) -> None:
    kinds = [(corrected, pooled) for pooled in (False, True) for corrected in (False, True)]
    counts = [[claim.count(corrected=each, among_pooled=pooled) for each, pooled in kinds] for claim in claims]
    # English against the others: (single, single corrected, pooled, pooled corrected); and so on.
    assert [claim.expect for claim in claims] == ["no difference", "no difference", "first better"]
    assert [(claim.family, claim.family_pooled) for claim in claims] == [(24, 8), (24, 8), (54, 18)]
    assert counts[0] == [(16, 24), (22, 24), (2, 8), (4, 8)]
    assert counts[2] == [(54, 54), (54, 54), (18, 18), (18, 18)]
    pooled = [test for test in claims[0].tests if test.collection == POOLED]
    assert {test.row.n for test in pooled} == {244}


def test_all_files_are_fetched_with_the_right_checksums(found: PaperReproduction) -> None:
    files = found.paper.files()
    assert len({file.path for file in files}) == 60 + 5 + 3 + 4 + 2
    assert all(path.is_file() for path in fetch_resources(files))


@pytest.mark.parametrize("name", ["eng", "hrv", "ces", "ces-paper", "pes", "spa", "hin", "npi"])
def test_topics_have_the_attributes_of_two_years(mirror: Path, name: str) -> None:
    known = [load_collection(f"arqmath-{year}-task1").topics() for year in (2, 3)]
    attributes = {topic.id: dict(topic.attributes) for topics in known for topic in topics if topic.attributes}
    assert len(attributes) == 71 + 78
    found = load_collection(f"crossmath-{name}").topics()
    assert {topic.id: dict(topic.attributes) for topic in found if topic.attributes} == attributes

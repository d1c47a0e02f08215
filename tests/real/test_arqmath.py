"""ARQMath's own files: editions, topics, and the runs of participants of 2020."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytrec_eval

from harness.collections.collection import Collection
from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.trec import Run, read_run
from harness.experiments.evaluate import evaluate, read_runs
from harness.experiments.task import task
from harness.io import config
from harness.reports.comparison import report as report_on
from harness.scoring.compare import compare
from harness.sources import catalogue
from harness.sources.fetch import fetch_resources
from harness.sources.resource import Resource
from harness.store.provenance import provenance

pytestmark = pytest.mark.real
MEASURES = ("nDCG", "AP", "P@10")
PATHS = {
    "psu-A": "final_runs/psu-task1-auto-both-A.tsv",
    "psu-P": "final_runs/prim_psu-task1-auto-both-P.tsv",
    "psu-A2": "final_runs/prim_psu-task1-auto-both-A2.tsv",
    "MathDowsers": "notebooks/final_runs/prim_MathDowsers-task1-alpha05noReRank-auto-both-A.tsv",
    "MIRMU": "notebooks/final_runs/prim_MIRMU-task1-Ensemble-auto-both-A.tsv",
    "Approach0": "notebooks/final_runs/prim_Approach0.tsv",
    "Linked MSE": "notebooks/final_runs/Linked_MSE.tsv",
    "DPRL A3": "notebooks/final_runs/DPRL_task1_auto_both_A3.tsv",
    "zbMATH": "notebooks/final_runs/prim_zbMATH-task1-auto-both-P.tsv",
}
# nDCG', MAP', P'@10 over all 77 topics.
GOLDEN = {
    "psu-A": (".263", ".082", ".116"),
    "psu-P": (".228", ".054", ".055"),
    "psu-A2": (".211", ".046", ".026"),
    "MathDowsers": (".345", ".139", ".162"),
    "MIRMU": (".238", ".064", ".139"),
    "Approach0": (".247", ".099", ".183"),
    "Linked MSE": (".279", ".194", ".386"),
    "DPRL A3": (".060", ".015", ".019"),  # P'@10 is 15 relevant results of 770: .0195
    "zbMATH": (".042", ".022", ".027"),
}
# Edition: topics, judgments, topics in the file of topics.
EDITIONS = {
    ("arqmath-1-task1", "official"): (77, 39124),
    ("arqmath-2-task1", "official"): (71, 31788),
    ("arqmath-2-task1", "all"): (89, 40288),
    ("arqmath-3-task1", "official"): (78, 34847),
    ("arqmath-1-task2", "official"): (45, 6074),
    ("arqmath-2-task2", "official"): (58, 8115),
    ("arqmath-3-task2", "official"): (76, 11538),
}


@pytest.fixture(scope="module")
def files(mirror: Path) -> dict[str, Path]:
    """Run -> its file; all unpacked at once."""
    resources = {name: catalogue.resource({"source": "arqmath-psu", "path": path}, "f") for name, path in PATHS.items()}
    fetch_resources(resource for resource in resources.values() if isinstance(resource, Resource))
    return {name: local(resource) for name, resource in resources.items()}


@pytest.fixture(scope="module")
def collection(mirror: Path) -> Collection:
    return load_collection("arqmath-1-task1")


def read(files: dict[str, Path], name: str) -> Run:
    return read_run(files[name], name="run")


def three_digits(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values(files: dict[str, Path], collection: Collection, name: str) -> None:
    scores = collection.scorer(measures=MEASURES)(read(files, name))
    assert tuple(three_digits(scores.mean(measure)) for measure in MEASURES) == GOLDEN[name]
    assert {scores.n(measure) for measure in MEASURES} == {77}
    assert (scores.edition, scores.protocol.name) == ("official", "arqmath-task1")


def test_the_one_value_printed_elsewhere_as_020(files: dict[str, Path], collection: Collection) -> None:
    """P'@10 of DPRL's A3 is .01948 by the reference too."""
    ours = collection.scorer(measures=("P@10",))(read(files, "DPRL A3"))
    run: dict[str, dict[str, float]] = {}
    for line in files["DPRL A3"].read_text().splitlines():
        topic, _, post, _, score, _ = line.split()
        run.setdefault(topic, {})[post] = float(score)
    qrels = collection.qrels().to_dict()
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"P_10"}, relevance_level=2, judged_docs_only_flag=True)
    reference = [topic["P_10"] for topic in evaluator.evaluate(run).values()]
    assert ours.mean("P@10") == pytest.approx(sum(reference) / 77, abs=1e-12)
    assert ours.mean("P@10") == pytest.approx(1.5 / 77, abs=1e-12)
    assert len(reference) == ours.counts["topics answered"]


def test_the_mean_over_answered_topics_is_another(files: dict[str, Path], collection: Collection) -> None:
    scores = collection.scorer(None, "arqmath-task1-answered")(read(files, "zbMATH"))
    assert three_digits(scores.mean("nDCG")) == ".101"
    assert scores.n("nDCG") == scores.counts["topics answered"] < 77
    assert scores.n("nDCG") == 32


@pytest.mark.parametrize(("name", "edition"), EDITIONS)
def test_editions_are_counted(mirror: Path, name: str, edition: str) -> None:
    found = load_collection(name)
    qrels = found.qrels(edition)
    assert (len(qrels.topics), len(qrels)) == EDITIONS[name, edition]
    assert set(qrels.topics) <= found.topics().ids()
    assert set(qrels.grade.tolist()) <= {0.0, 1.0, 2.0, 3.0}


def test_every_edition_there_is_is_tested() -> None:
    names = [name for name in config.names("collection") if name.startswith("arqmath-")]
    assert {(name, edition) for name in names for edition in load_collection(name).editions} >= set(EDITIONS)


def test_the_editions_of_2021_agree_where_they_overlap(mirror: Path) -> None:
    found = load_collection("arqmath-2-task1")
    assert found.default_edition == "official"
    official, everything = found.qrels("official").to_dict(), found.qrels("all").to_dict()
    assert set(official) < set(everything)
    assert all(everything[topic] == docs for topic, docs in official.items())


@pytest.mark.parametrize(
    ("name", "topics", "formulas"),
    [("arqmath-1-task1", 98, 900), ("arqmath-2-task1", 100, 600), ("arqmath-3-task1", 100, 700)],
)
def test_topics_have_text_and_formulas(mirror: Path, name: str, topics: int, formulas: int) -> None:
    found = load_collection(name).topics()
    assert len(found) == topics
    assert all(topic.id.startswith("A.") and topic.title and topic.body and topic.tags for topic in found)
    everything = [formula for topic in found for formula in topic.formulas]
    assert len(everything) > formulas
    assert not any(formula.latex.startswith("$") for formula in everything)
    # A few formulas have no id in the organisers' files.
    ids = [formula.id for formula in everything if formula.id]
    assert len(everything) - len(ids) < 20
    assert len(set(ids)) == len(ids)
    assert not any("<span" in topic.body or "&lt;" in topic.body for topic in found)


@pytest.mark.parametrize(("name", "labelled"), [("arqmath-2-task1", 71), ("arqmath-3-task1", 78)])
def test_topics_have_attributes(mirror: Path, name: str, labelled: int) -> None:
    found = load_collection(name)
    attributes = {topic.id: topic.attributes for topic in found.topics() if topic.attributes}
    assert len(attributes) == labelled
    assert {values["difficulty"] for values in attributes.values()} == {"Low", "Medium", "High"}
    assert all(set(values) == {"category", "difficulty", "dependency"} for values in attributes.values())
    assert set(attributes) <= set(found.qrels().topics)


def test_the_nine_runs_are_compared(files: dict[str, Path], collection: Collection) -> None:
    runs = read_runs(files.values(), known_topics=collection.topics().ids())
    assert len({run.name for run in runs}) == 9
    evaluation = evaluate(task(collection), *runs)
    by_name = {scores.run: scores for scores in evaluation.scores}
    baseline = max(by_name, key=lambda run: by_name[run].mean("P@10"))
    comparison = compare(evaluation.scores, baseline, measures=list(MEASURES))
    assert len(comparison.rows) == 8 * 3
    assert {row.n for row in comparison.rows} == {77}
    report = report_on(evaluation, comparison, provenance=provenance({}))
    table = next(table for table in report.tables() if table.id == "means")
    assert len(table.rows) == 9
    titles = [column.full_title for column in table.columns]
    assert any("Judged@10" in title for title in titles)
    assert {row[2].text for row in table.rows} == {"77"}


def test_files_named_prim_hold_judged_answers_only(files: dict[str, Path], collection: Collection) -> None:
    scorer = collection.scorer(measures=("Judged@10",))
    shares = {path.name: scorer(read(files, name)).mean("Judged@10") for name, path in files.items()}
    assert {share for name, share in shares.items() if name.startswith("prim_")} == {1.0}
    assert shares["psu-task1-auto-both-A.tsv"] < 1.0

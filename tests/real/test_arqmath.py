"""ARQMath's own files: editions, topics, and the runs of participants of 2020."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.collections.collection import Collection
from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.trec import Run, read_run
from harness.sources import catalogue
from harness.sources.fetch import fetch_resources
from harness.sources.resource import Resource

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

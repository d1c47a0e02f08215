"""Groups of queries in reports, and the picture of their vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.evaluate import evaluate
from harness.experiments.experiment import Experiment
from harness.experiments.overrides import Condition
from harness.experiments.results import ExperimentResults, Outcome
from harness.experiments.task import task
from harness.papers.mathlib4 import theorems
from harness.render.model import Figure, Prose, Table
from harness.reports.comparison import report
from harness.systems.dense import encoder

RUNS = Path(__file__).parents[4] / "runs" / "mini" / "mini-theorems"


def results(system: dict[str, object]) -> ExperimentResults:
    """An experiment of two rows on the mini theorems: every judged document, and a run that found nothing."""
    mini = task("mini-theorems", measures=["nDCG@20"])
    judged = mini.scorer.qrels.to_dict()
    nothing = {topic: {"nothing": 1.0} for topic in judged}
    runs = [Run.from_dict("all", judged), Run.from_dict("none", nothing)]
    plan = Experiment("t", {run.name: Condition((f"system={run.name}",)) for run in runs}, ("nDCG@20",))
    outcomes = (Outcome(c, system, task=mini, scores=mini.scorer(r)) for c, r in zip(plan.cells(), runs, strict=True))
    return ExperimentResults("t", plan, tuple(outcomes), seed=3)


def test_a_report_has_the_means_of_groups_whose_queries_are_one_sample() -> None:
    mini = task("mini-theorems")
    found = evaluate(mini, *sorted(RUNS.glob("*.run"))[:2])
    blocks = list(report(found).blocks())
    (figure,) = (block for block in blocks if isinstance(block, Figure) and block.id == "group-group")
    assert isinstance(figure.table, Table)
    clusters = mini.collection.clusters()
    assert clusters is not None
    for column, run in enumerate((column.title for column in figure.table.columns[2:]), 2):
        (scores,) = (scores for scores in found.scores if scores.run == run)
        values = dict(zip(scores.topics, scores.column("nDCG@20").tolist(), strict=True))
        for row in figure.table.rows:
            of = [value for topic, value in values.items() if clusters[topic] == row[0].text]
            assert row[1].value == len(of) and row[column].value == pytest.approx(sum(of) / len(of))
    assert {"slice-form"} <= {block.id for block in blocks if isinstance(block, Table)}


def test_an_experiment_shows_its_rows_by_group() -> None:
    section = theorems.query_groups_section(results({}))
    assert section is not None
    (figure,) = section.blocks
    assert isinstance(figure, Figure)
    assert isinstance(figure.table, Table)
    assert [column.title for column in figure.table.columns] == ["group", "topics", "all", "none"]
    assert [[cell.value for cell in row[1:]] for row in figure.table.rows] == [[4, 1.0, 0.0]] * 10


@pytest.mark.slow
def test_places_are_those_of_the_seed_and_neighbours_stay_together() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    draw = np.random.default_rng(0)
    vectors = np.repeat(draw.standard_normal((4, 32)), 8, axis=0) + 0.02 * draw.standard_normal((32, 32))
    places, perplexity = theorems.plane(vectors.astype(np.float32), 7)
    assert (places.shape, perplexity) == ((32, 2), 31 / 3)
    assert np.array_equal(places, theorems.plane(vectors.astype(np.float32), 7)[0])
    assert not np.array_equal(places, theorems.plane(vectors.astype(np.float32), 8)[0])
    distance = np.linalg.norm(places[:, None] - places[None], axis=2) + np.diag(np.full(32, np.inf))
    assert np.array_equal(distance.argmin(1) // 8, np.arange(32) // 8)
    with pytest.raises(HarnessError, match="3 queries are too few for a map"):
        theorems.plane(vectors[:3].astype(np.float32), 7)


@pytest.mark.slow
def test_a_picture_says_how_it_was_made(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    if lines := encoder.missing():
        pytest.skip(lines[0])
    from encoder_models import save

    system = {"_target_": "harness.systems.dense.bi_encoder.BiEncoder", "name": "bi", "device": "cpu"}
    system["model"] = str(save(tmp_path / "tiny"))
    outer = {"_target_": "x", "augment": False, "system": system}
    section = theorems.query_maps_section(results(outer))
    assert section is not None
    (figure,) = section.blocks  # both rows have the same vectors
    assert isinstance(figure, Figure)
    assert "t-SNE of cosines (scikit-learn" in figure.caption
    assert "perplexity 13, seed 3)" in figure.caption
    assert figure.svg.count(": theorem name, group ") == 10
    assert theorems.query_maps_section(results({**outer, "augment": True})) is None
    lost = results(outer)
    lost = replace(lost, outcomes=tuple(replace(o, system={**system, "model": "no/model"}) for o in lost.outcomes))
    section = theorems.query_maps_section(lost)
    assert section is not None
    assert isinstance(section.blocks[0], Prose)

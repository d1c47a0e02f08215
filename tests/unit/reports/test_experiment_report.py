"""The report of an experiment where its sets of topics differ in what is known of them."""

from __future__ import annotations

from dataclasses import replace

from harness.data.topics import Topics
from harness.data.trec import Qrels, Run
from harness.experiments.experiment import Condition, Experiment
from harness.experiments.results import Outcome, Results
from harness.experiments.task import task
from harness.render.model import Table
from harness.reports.experiment import experiment_report
from harness.scoring.scorer import Scorer


def test_the_breakdown_is_over_the_sets_whose_judged_topics_have_the_attribute() -> None:
    """A collection may hold the topics of several years; a run that lacks another year loses no row by that."""
    mini = task("mini-task1", measures=["nDCG"])
    judged = mini.scorer.qrels.to_dict()
    years = {"old": list(judged)[:5], "new": list(judged)[5:9]}
    difficulty = {topic: "High" if topic == years["new"][0] else "Low" for topic in years["new"]}
    attributes = {topic.id: {"difficulty": difficulty[topic.id]} for topic in mini.topics if topic.id in difficulty}
    known = Topics(tuple(replace(topic, attributes=attributes.get(topic.id, {})) for topic in mini.topics))
    plan = Experiment(
        "t",
        {"good": Condition(("system=a",)), "partial": Condition(("system=b",))},
        ("nDCG",),
        axes={"year": {name: (f"edition={name}",) for name in years}},
        pool="year",
        breakdown=("difficulty",),
    )
    run = Run.from_dict("r", {topic: dict(docs) for topic, docs in judged.items()})
    outcomes = []
    for cell in plan.cells():
        condition, year = cell.labels
        if (condition, year) == ("partial", "old"):
            outcomes.append(Outcome(cell, {}, reason="broken"))
            continue
        qrels = Qrels.from_dict(year, {topic: judged[topic] for topic in years[year]})
        scorer = Scorer(qrels, mini.scorer.protocol, collection="mini-task1", measures=("nDCG",))
        of_year = replace(mini, topics=known, scorer=scorer)
        outcomes.append(Outcome(cell, {}, task=of_year, scores=scorer(run)))
    report = experiment_report(Results("t", plan, tuple(outcomes)))
    (table,) = (block for block in report.blocks() if isinstance(block, Table) and block.id == "by-difficulty")
    assert table.caption == "nDCG′ by difficulty (new)"
    assert [column.full_title for column in table.columns][1:] == [
        "High / n", "High / nDCG′", "Low / n", "Low / nDCG′",
    ]  # fmt: skip
    assert [[cell.value for cell in row[1:]] for row in table.rows] == [[1, 1.0, 3, 1.0]] * 2

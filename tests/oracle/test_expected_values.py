"""Values that other projects expect of their own programs; README.md has the table of what cannot be expressed here."""

from __future__ import annotations

import json
import lzma
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval

from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.scoring.measures import parse_measure
from harness.scoring.protocol import Protocol, load_protocol
from harness.scoring.scorer import Scorer
from harness.scoring.spellings import expand

HERE = Path(__file__).parent
PROJECTS = {"trec_eval": 16_400, "ir_measures": 190, "ranx": 80, "pytrec_eval": 8}  # values compared, at least
RANX = {
    "bpref": "Bpref",
    "f1": "SetF",
    "hit_rate": "Success",
    "hits": "RelRet",
    "map": "AP",
    "mrr": "RR",
    "ndcg": "nDCG",
    "ndcg_burges": "nDCG",
    "precision": "P",
    "r-precision": "Rprec",
    "recall": "R",
}
OF_SETS = {"precision": "SetP", "recall": "SetR"}  # without a cut


@cache
def recorded(project: str) -> dict[str, Any]:
    return dict(json.loads(lzma.decompress((HERE / f"data/{project}.json.xz").read_bytes())))


@cache
def qrels_of(project: str, name: str) -> Qrels:
    rows: dict[str, dict[str, int]] = {}
    for line in recorded(project)["texts"][name].splitlines():
        topic, _, doc, grade = line.split()
        rows.setdefault(topic, {})[doc] = int(grade)
    topics = tuple(rows)
    pairs = [(at, doc, grade) for at, topic in enumerate(topics) for doc, grade in rows[topic].items()]
    index, docs, grades = zip(*pairs, strict=True)
    doc = np.array([text.encode() for text in docs])
    return Qrels(name, topics, np.array(index, dtype=np.int32), doc, np.array(grades, dtype=np.float64))


@cache
def run_of(project: str, name: str) -> Run:
    rows: dict[str, dict[str, float]] = {}
    for line in recorded(project)["texts"][name].splitlines():
        topic, _, doc, _, score, *_ = line.split()
        rows.setdefault(topic, {})[doc] = float(score)
    return Run.from_dict("run", rows)


def ours(measure: str, project: str, how: Protocol) -> tuple[str, Protocol]:
    """Returns our measure and protocol for a measure of another project; raises HarnessError if there is none."""
    if "judged_only=True" in measure:
        measure = re.sub(r"\(\)", "", re.sub(r"judged_only=True,?", "", measure))
        how = replace(how, prime=True)
    if gains := re.fullmatch(r"ndcg_([0-9.]+=.*)|nDCG\(gains=\{(.*)\}\)", measure):
        pairs = re.findall(r"([0-9.]+)[=:]([0-9.]+)", gains[1] or gains[2])
        return "nDCG", replace(how, gains=tuple((float(grade), float(gain)) for grade, gain in pairs))
    if project == "ranx":
        name, _, cut = measure.partition("@")
        if rbp := re.fullmatch("rbp.([0-9]+)", measure):
            return f"RBP(p={int(rbp[1]) / 100})", how
        if name == "ndcg_burges":
            how = replace(how, gains="exponential")
        measure = OF_SETS[name] if name in OF_SETS and not cut else f"{RANX.get(name, name)}{'@' if cut else ''}{cut}"
    return str(parse_measure(measure)), how


def protocol_of(case: dict[str, Any]) -> Protocol:
    return Protocol(
        "recorded",
        ("AP",),
        depth=case.get("depth"),
        prime=case.get("judged", False),
        relevant_from=float(case.get("level", 1)),
        topics="all" if case.get("complete") else "answered",
        precision="double" if case.get("version") == "10.0" else "single",
    )


@pytest.mark.parametrize("project", PROJECTS)
def test_recorded_values_are_ours_and_what_is_not_expressed_is_in_the_table(project: str) -> None:
    compared, lacking, wrong = 0, set(), []
    for case in recorded(project)["cases"]:
        qrels, run, how = qrels_of(project, case["qrels"]), run_of(project, case["run"]), protocol_of(case)
        wanted: dict[Protocol, dict[str, str]] = {}
        for measure in {measure for values in case["values"].values() for measure in values}:
            try:
                name, under = ours(measure, project, how)
            except HarnessError:
                lacking.add(measure)
            else:
                wanted.setdefault(under, {})[measure] = name
        for under, names in wanted.items():
            scores = Scorer(qrels, under, measures=list(dict.fromkeys(names.values())))(run)
            for topic, values in case["values"].items():
                for measure in values.keys() & names.keys():
                    if (measure, topic, "level" in case, "complete" in case) == ("num_rel", "all", True, True):
                        continue  # with -c, trec_eval counts grades above 0, whatever the level
                    name = names[measure]
                    if topic != "all":
                        found = scores.column(name)[scores.topics.index(topic)]
                    else:  # ranx has means of counts too
                        found = scores.mean(name) if project == "ranx" else scores.aggregate(name)
                    compared += 1
                    if not abs(found - values[measure]) <= case["tolerance"]:
                        wrong.append((case["qrels"], case["run"], under, topic, measure, found, values[measure]))
    assert wrong == []
    assert compared >= PROJECTS[project]
    table = (HERE / "README.md").read_text("utf-8")
    stems = {re.sub("[@_.][-0-9.,=]*$", "", measure.partition("(")[0]) for measure in lacking}
    assert {stem for stem in stems if f"`{stem}`" not in table} == set()


def test_versions_differ_in_the_recorded_ties_and_recall() -> None:
    """The protocols of trec_eval 9 and 10 give different values, each that of its version."""
    cases = [case for case in recorded("trec_eval")["cases"] if case["qrels"].startswith("made")]
    old, new = (
        {(c["qrels"], c.get("judged"), c.get("level")): c["values"] for c in cases if c["version"] == version}
        for version in ("9.0.8", "10.0")
    )
    differ = {
        measure
        for key, values in old.items()
        for topic in values.keys() & new[key].keys()
        for measure in values[topic].keys() & new[key][topic].keys()
        if values[topic][measure] != new[key][topic][measure]
    }
    assert {"map", "ndcg", "bpref", "recip_rank", "P_5", "iprec_at_recall_0.30"} <= differ
    assert (load_protocol("trec_eval").precision, load_protocol("trec_eval-10").precision) == ("single", "double")


def test_the_official_measures_are_those_of_trec_eval() -> None:
    printed = list(recorded("trec_eval")["cases"][0]["values"]["all"])
    official = [str(parse_measure(name)) for name in expand("official")]
    assert official == [str(parse_measure(name)) for name in printed[: len(official)]]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("theirs", sorted(pytrec_eval.supported_measures))
def test_every_measure_of_trec_eval_9_is_equal_or_refused_with_an_alternative(theirs: str, level: int) -> None:
    rng = random.Random(f"{theirs} {level}")
    docs = [f"d{n}" for n in range(30)]
    qrels = {f"t{n}": {doc: rng.choice((-1, 0, 0, 1, 2)) for doc in rng.sample(docs, 20)} | {"d0": 2} for n in range(8)}
    run = {topic: {doc: rng.choice((1.0, 2.0, rng.random())) for doc in rng.sample(docs, 25)} for topic in qrels}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {theirs}, relevance_level=level)
    reference: dict[str, dict[str, float]] = evaluator.evaluate(run)
    how = Protocol("nine", ("AP",), depth=None, relevant_from=float(level))
    pairs = [(topic, doc, grade) for topic, of in qrels.items() for doc, grade in of.items()]
    index = np.array([list(qrels).index(topic) for topic, _, _ in pairs], dtype=np.int32)
    grades = np.array([grade for _, _, grade in pairs], dtype=np.float64)
    judged = Qrels("e", tuple(qrels), index, np.array([doc.encode() for _, doc, _ in pairs]), grades)
    for name in reference["t0"]:
        try:
            measure = str(parse_measure(name))
        except HarnessError as error:
            assert re.fullmatch(r"measure '.*' of trec_eval is not computed; .*(use|gains).*", str(error)), error
            continue
        scores = Scorer(judged, how, measures=[measure])(Run.from_dict("run", run))
        found = dict(zip(scores.topics, scores.column(measure).tolist(), strict=True))
        assert found == {topic: pytest.approx(values[name], abs=1e-9) for topic, values in reference.items()}, name
        total = pytrec_eval.compute_aggregated_measure(name, [values[name] for values in reference.values()])
        assert scores.aggregate(measure) == pytest.approx(total, abs=1e-9)

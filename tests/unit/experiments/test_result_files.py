"""Exported results: read back equal by pyarrow and mteb; exact scores of private editions stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from refusals import refusal, refuses

import harness as h
from harness.errors import HarnessError
from harness.experiments.evaluate import Evaluation, evaluation_to_json
from harness.experiments.result_files import export_results, mteb_name, scores_in, task_result
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores

RUNS = [f"runs/mini/mini-task1/{name}.run" for name in ("overlap", "shuffle")]


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return h.evaluate(h.task("mini-task1", measures=["nDCG@10", "AP", "Judged@10"]), *RUNS)


def test_reports_and_documents_hold_the_same_scores(tmp_path: Path, evaluation: Evaluation) -> None:
    h.report(evaluation).write(tmp_path / "report", formats=["json"])
    (tmp_path / "scores.json").write_text(json.dumps(evaluation_to_json(evaluation)), encoding="utf-8")
    for path in (tmp_path / "report", tmp_path / "report" / "report.json", tmp_path / "scores.json"):
        found = scores_in(path)
        assert [each.run for each in found] == ["overlap", "shuffle"]
        for one, two in zip(found, evaluation.scores, strict=True):
            np.testing.assert_array_equal(one.values, two.values)


def test_parquet(tmp_path: Path, evaluation: Evaluation) -> None:
    first = evaluation.scores[0]
    lacking = replace(first, run="lacking", values=np.where(np.arange(42)[:, None] == 3, np.nan, first.values))
    assert [path.name for path in export_results([*evaluation.scores, lacking], "parquet", tmp_path / "out")] == [
        "results.parquet",
        "README.md",
    ]
    table = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    assert len(table) == 3 * 42 * 3
    for scores in (*evaluation.scores, lacking):
        mine = [row for row in table if row["run"] == scores.run]
        values = np.array([np.nan if row["value"] is None else row["value"] for row in mine]).reshape(42, 3)
        np.testing.assert_array_equal(values, scores.values)
        assert [row["query_id"] for row in mine[::3]] == list(scores.topics)
        assert [row["measure"] for row in mine[:3]] == ["nDCG@10", "AP", "Judged@10"]
        about = {(row["collection"], row["edition"], row["protocol"], row["qrels_sha256"]) for row in mine}
        assert about == {("mini-task1", "official", "arqmath-task1", scores.qrels_sha256)}
    assert "Scores of 3 runs" in (tmp_path / "out" / "README.md").read_text("utf-8")


def test_mteb(tmp_path: Path, evaluation: Evaluation) -> None:
    files = export_results(evaluation.scores, "mteb", tmp_path / "out")
    scores = evaluation.scores[0]
    place = tmp_path / "out/results/mathir-harness__overlap" / scores.run_sha256[:40]
    assert files[:2] == [place / "MiniTask1.json", place / "model_meta.json"]
    document = json.loads(files[0].read_text("utf-8"))
    assert (document["task_name"], document["dataset_revision"]) == ("MiniTask1", scores.qrels_sha256[:40])
    (entry,) = document["scores"]["test"]
    means = {
        "ndcg_prime_at_10": scores.mean("nDCG@10"),
        "map_prime": scores.mean("AP"),
        "judged_at_10": scores.mean("Judged@10"),
        "main_score": scores.mean("nDCG@10"),
    }
    assert {name: entry[name] for name in means} == pytest.approx(means, abs=1e-6)
    assert (entry["topics"], entry["languages"], entry["protocol"]) == (42, ["eng-Latn"], "arqmath-task1")


def test_names_in_mteb() -> None:
    names = {"nDCG": "ndcg", "P@5": "precision_at_5", "R@100": "recall_at_100", "RR@10": "mrr_at_10", "Rprec": "rprec"}
    assert {name: mteb_name(name, prime=False) for name in names} == names
    assert mteb_name("P@5", prime=True) == "precision_prime_at_5"


def test_no_topic_counts() -> None:
    none = Scores("r", "c", "e", Protocol("p", ("AP",)), ("AP",), ("t",), np.array([[np.nan]]))
    refuses("run r: no topic counts for AP, so it has no main score", lambda: task_result(none))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not valid JSON"),
        ("[]", "holds no scores by topic; name a report of"),
        ('{"data": {"redacted": {}}}', "holds no scores by topic"),
        ('{"scores": [{"schema": "other"}]}', "scores 1: scores: schema is 'other'"),
    ],
)
def test_files_without_scores(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "report.json").write_text(text, encoding="utf-8")
    assert f"report.json: {says}" in refusal(lambda: scores_in(tmp_path))


def test_what_is_refused(tmp_path: Path, evaluation: Evaluation, conf: Callable[[str, str, str], Path]) -> None:
    with pytest.raises(HarnessError, match="--as parket: no such form; did you mean 'parquet'"):
        export_results(evaluation.scores, "parket", tmp_path / "out")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    refuses("there: exists already", lambda: export_results(evaluation.scores, "mteb", tmp_path / "there"))
    with pytest.raises(HarnessError, match="run overlap: has two scores on mini-task1"):
        export_results([evaluation.scores[0]] * 2, "mteb", tmp_path / "out")
    conf(
        "collection",
        "secret",
        "name: secret\ntitle: S\nlicence: CC0\nprotocol: arqmath-task1\neditions:\n"
        "  hidden: {title: hidden, qrels: {embedded: qrels/mini-task1.txt}, private: true}\n"
        "topics: {reader: jsonl, embedded: topics/mini-task1.eng.jsonl}\n",
    )
    found = h.evaluate(h.task("secret"), RUNS[0]).scores
    for form in ("mteb", "parquet"):
        with pytest.raises(HarnessError, match="edition hidden of secret is private, and exact scores reveal"):
            export_results(found, form, tmp_path / "out")
    assert not (tmp_path / "out").exists()


READ = """
import sys
from pathlib import Path
from mteb.results import TaskResult
from mteb.cache import ResultCache
folder = Path(sys.argv[1])
for path in sorted(folder.rglob("*.json")):
    if path.name != "model_meta.json":
        found = TaskResult.from_disk(path)
        print(path.parts[-3], found.task_name, found.main_score)
cache = ResultCache(cache_path=folder)
print(sorted(meta[0] if isinstance(meta, tuple) else meta for meta in cache.get_models()))
print(cache.get_task_names())
"""


@pytest.mark.heavy
@pytest.mark.skipif(
    find_spec("mteb") is None, reason="mteb is not installed (65 MB): pip install 'mathir-harness[mteb]'"
)
def test_mteb_reads_it(tmp_path: Path, evaluation: Evaluation) -> None:
    import os
    import subprocess
    import sys

    export_results(evaluation.scores, "mteb", tmp_path / "out")
    settings = os.environ | {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "out")], env=settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for line, scores in zip(lines, evaluation.scores, strict=False):
        name, task, main = line.split()
        assert (name, task) == (f"mathir-harness__{scores.run}", "MiniTask1")
        assert float(main) == pytest.approx(scores.mean("nDCG@10"), abs=1e-6)
    assert lines[2] == "['mathir-harness__overlap', 'mathir-harness__shuffle']"
    assert lines[3] == "['MiniTask1']"

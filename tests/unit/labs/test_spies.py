"""What a participant could try to learn private judgments by, and what organisers could tell without meaning to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from lab_tools import Conf, collection, files, judgments, rankings, run_file, run_text, tiny_lab

from harness.data.trec import read_run
from harness.errors import HarnessError
from harness.experiments.evaluate import compare as compared
from harness.experiments.evaluate import evaluate
from harness.experiments.redacted import redact
from harness.experiments.task import task
from harness.io.files import data_root
from harness.labs import metadata
from harness.labs.submit import Offer, submit
from harness.scoring.rounding import rounded
from harness.store import sidecar

MINI = data_root() / "runs" / "mini" / "mini-task1"


def said(pool: bool | None, sha256: str) -> sidecar.Said:
    return sidecar.Said(sha256, "tiny", "", "", False, pool, {})


def test_results_are_not_counted() -> None:
    """Where unjudged results are removed first, the number of results is that of judged ones."""
    found = redact(evaluate(task("mini-task1", measures=["nDCG", "NumRet", "NumRet(rel=1)"]), MINI / "overlap.run"))
    assert list(found.labels) == ["nDCG"]


def test_letters_need_rounded_means_that_differ_by_more_than_a_step() -> None:
    """One document more may turn a test of exact scores significant; neither letters nor tests tell."""
    found = evaluate(task("mini-task1", measures=["nDCG"]), MINI / "overlap.run", MINI / "overlap-title.run")
    first, second = found.scores
    for height, significant in ((0.503, False), (0.55, False), (0.6, True)):
        low, high = first.values.copy(), first.values.copy()
        low[:] = 0.5
        high[:] = height
        high[::2] += 0.001  # it is better on every topic
        near = replace(found, scores=(replace(first, run="a", values=low), replace(second, run="b", values=high)))
        exact = compared(near)
        assert exact.rows[0].significant_holm
        told = redact(near, exact)
        assert (told.step, [test.significant_holm for test in told.tests]) == (0.05, [significant])
        assert len(set(told.groups.values())) == 1 + significant
        assert {each.run: each.means["nDCG"] for each in told.means} == {"a": 0.5, "b": rounded(height, 0.05)}


@pytest.mark.parametrize("height", [0.52, 0.7])
def test_equal_differences_of_all_topics_do_not_show(height: float) -> None:
    """Their test is undefined; it is not said to be, near or far."""
    found = evaluate(task("mini-task1", measures=["nDCG"]), MINI / "overlap.run", MINI / "overlap-title.run")
    first, second = found.scores
    a, b = (np.full_like(first.values, each) for each in (0.5, height))
    same = replace(found, scores=(replace(first, run="a", values=a), replace(second, run="b", values=b)))
    exact = compared(same)
    assert exact.rows[0].significant_holm is None
    (told,) = redact(same, exact).tests
    assert (told.significant_bonferroni, told.significant_holm) == (False, False)


@pytest.mark.parametrize(("measures", "step"), [(["nDCG"], 0.05), (["nDCG", "RelRet"], 0.05)])
def test_a_single_document_does_not_show(measures: list[str], step: float) -> None:
    """A run of which all topics but one score 0 shows as 0."""
    found = evaluate(task("mini-task1", measures=measures), MINI / "overlap.run")
    only = found.scores[0]
    values = only.values.copy()
    values[:] = 0.0
    values[3] = 1.0
    told = redact(replace(found, scores=(replace(only, values=values),)))
    assert (told.step, dict(told.means[0].means)) == (step, {"nDCG": 0.0})


def test_half_of_the_topics_where_no_file_lists_them(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of topics that there are not make no run complete."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=True, cap=3)
    path = tmp_path / "run"
    path.write_text(run_text(rankings(1, ("T.1", *(f"made-up-{n}" for n in range(50))))))
    monkeypatch.setattr("harness.collections.collection.Collection.known_topics", lambda _: None)
    before = files(lab.folder)
    with pytest.raises(HarnessError, match=r"answers 1 of 9 topics; with private judgments, a run must answer"):
        submit(lab, Offer(path, "A"))
    assert files(lab.folder) == before


@pytest.mark.parametrize("private", [False, True])
def test_a_run_of_the_judged_documents(
    conf: Conf, tmp_path: Path, private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a random order of them, the baseline that comes to mind: the lab's public folder would have their ids."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=private, cap=3)
    path = run_file(tmp_path / "run", 1)
    run = read_run(path)
    for pool, digest in ((False, run.sha256), (None, run.sha256), (True, "0" * 64), (True, run.sha256)):
        monkeypatch.setattr(sidecar, "said_in", lambda _, pool=pool, digest=digest: said(pool, digest))
        assert metadata.of_judged_alone(path, run) == (pool is True and digest == run.sha256)
    if private:
        with pytest.raises(HarnessError, match="ranks judged documents only"):
            submit(lab, Offer(path, "A"))
        assert not list((lab.folder / "submissions").iterdir())
    else:
        assert submit(lab, Offer(path, "A")).made == 1


@pytest.mark.parametrize("private", [False, True])
def test_checksums_of_training_judgments(conf: Conf, tmp_path: Path, private: bool) -> None:
    """They may be those of private ones, and would prove a guess."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=private, cap=3)
    run = read_run(run_file(tmp_path / "run", 1))
    said = metadata.Details("A", "one", "automatic", "", "", "")
    text = metadata.text(lab, said, run, {"data": {"corpus": {"name": "c"}, "training data": "f" * 64}})
    data = yaml.safe_load(text)["data"]
    assert data["corpus"] == {"name": "c"}
    assert ("training data" in data) is not private

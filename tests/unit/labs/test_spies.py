"""What a participant could try to learn private judgments by, and what organisers could tell without meaning to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from lab_tools import Conf, collection, files, judgments, rankings, run_file, run_text, tiny_lab

from harness.data.columns import Floats
from harness.data.trec import read_run
from harness.errors import HarnessError
from harness.experiments.evaluate import evaluate
from harness.experiments.redacted_scores import redact
from harness.experiments.task import task
from harness.io.files import data_root
from harness.labs.submission_storage import Details, metadata_text, ranks_judged_alone
from harness.labs.submit import Offer, submit_run
from harness.scoring import measures
from harness.scoring.rankings import Judged, Measure, Ranked
from harness.store import sidecar

MINI = data_root() / "runs" / "mini" / "mini-task1"


def said(pool: bool | None, sha256: str) -> sidecar.Said:
    return sidecar.Said(sha256, "tiny", "", "", False, pool, {})


def found_share(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    return ranked.total(ranked.judged, k) / (k or 1)


@pytest.mark.parametrize("sensitivity", [None, 1.0])
def test_a_measure_of_another_package_is_private_unless_it_declares_otherwise(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sensitivity: float | None
) -> None:
    """Whatever its name; here it tells which results are judged, or would without noise."""
    monkeypatch.setattr(measures, "MEASURES", dict(measures.MEASURES))
    measures.register(Measure("Found", found_share, needs_cut=True, sensitivity=sensitivity))
    collection(conf, tmp_path / "data", judgments())
    given = {"private": True, "cap": 3, "measures": ["nDCG", "Found@5"]}
    found = evaluate(task("mini-task1", measures=["nDCG", "Found@5"]), MINI / "overlap.run")
    if sensitivity is None:
        with pytest.raises(
            HarnessError, match="measure Found@5: declares no sensitivity to one judgment, and the judg"
        ):
            tiny_lab(tmp_path / "lab", **given)
        assert list(redact(found).labels) == ["nDCG"]
    else:
        assert tiny_lab(tmp_path / "lab", **given).measures == ("nDCG", "Found@5")
        assert list(redact(found).labels) == ["nDCG", "Found@5"]
    private = {name for name, each in measures.MEASURES.items() if each.private} - {"Found"}
    assert private == {"GMAP", "Judged", "RelRet", "NumRet", "NumRel", "NumQ"}


def test_a_wide_measure_has_wide_noise(conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "MEASURES", dict(measures.MEASURES))
    measures.register(Measure("Found", found_share, needs_cut=True, sensitivity=4.0))
    collection(conf, tmp_path / "data", judgments())
    assert tiny_lab(tmp_path / "lab", private=True, cap=3, measures=["Found@5"]).noise == 5.0  # 4 x 10 / 8
    with pytest.raises(HarnessError, match="'sensitivity' is -1, expected a number above 0"):
        Measure("Odd", found_share, sensitivity=-1)


def test_protocols_that_tell_what_is_judged(conf: Conf, tmp_path: Path) -> None:
    """Each refusal of a run would tell that a document is not judged, and cost nothing."""
    collection(conf, tmp_path / "data", judgments(), protocol="candidates: judged\n")
    with pytest.raises(HarnessError, match="protocol tiny-plain: it refuses runs with documents that are not judged"):
        tiny_lab(tmp_path / "lab", private=True, cap=3)


def test_results_are_not_counted() -> None:
    """Where unjudged results are removed first, the number of results is that of judged ones."""
    found = redact(evaluate(task("mini-task1", measures=["nDCG", "NumRet", "NumRet(rel=1)"]), MINI / "overlap.run"))
    assert list(found.labels) == ["nDCG"]


@pytest.mark.parametrize(("wanted", "step"), [(["nDCG"], 0.05), (["nDCG", "RelRet"], 0.05)])
def test_a_single_document_does_not_show(wanted: list[str], step: float) -> None:
    """A run of which all topics but one score 0 shows as 0."""
    found = evaluate(task("mini-task1", measures=wanted), MINI / "overlap.run")
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
        submit_run(lab, Offer(path, "A"))
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
        monkeypatch.setattr(sidecar, "sidecar_of_document", lambda _, pool=pool, digest=digest: said(pool, digest))
        assert ranks_judged_alone(path, run) == (pool is True and digest == run.sha256)
    if private:
        with pytest.raises(HarnessError, match="ranks judged documents only"):
            submit_run(lab, Offer(path, "A"))
        assert not list((lab.folder / "submissions").iterdir())
    else:
        assert submit_run(lab, Offer(path, "A")).made == 1


@pytest.mark.parametrize("private", [False, True])
def test_checksums_of_training_judgments(conf: Conf, tmp_path: Path, private: bool) -> None:
    """They may be those of private ones, and would prove a guess."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=private, cap=3)
    run = read_run(run_file(tmp_path / "run", 1))
    said = Details("A", "one", "automatic", "", "", "")
    text = metadata_text(lab, said, run, {"data": {"corpus": {"name": "c"}, "training data": "f" * 64}})
    data = yaml.safe_load(text)["data"]
    assert data["corpus"] == {"name": "c"}
    assert ("training data" in data) is not private

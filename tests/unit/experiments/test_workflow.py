from __future__ import annotations

import gzip
import platform
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from refusals import refusal as message

from harness import __version__
from harness.cli import findings
from harness.collections.load import load_collection
from harness.data.trec import Run
from harness.errors import FormatError, HarnessError
from harness.experiments.evaluate import evaluate, inputs, read_runs
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.io import config
from harness.store.provenance import provenance
from harness.systems.build import load_system


def put(folder: Path, name: str, tag: str, doc: str = "d1", topic: str = "T1") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = f"{topic} Q0 {doc} 1 1.0 {tag}\n".encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


# Reading several runs


def test_runs_are_named_by_their_tags(tmp_path: Path) -> None:
    paths = [put(tmp_path, "a.txt", "one"), put(tmp_path, "b.txt", "two")]
    assert [run.name for run in read_runs(paths)] == ["one", "two"]
    assert read_runs([]) == []


def test_runs_that_share_a_tag_are_named_by_their_files(tmp_path: Path) -> None:
    names = ["a.txt", "b.v2.tsv", "my run & more.v2.tsv.gz", "d"]
    paths = [put(tmp_path, name, "same", doc=f"doc-{name[0]}") for name in names]
    runs = read_runs(paths, known_topics=frozenset({"T1"}))
    assert [run.name for run in runs] == ["a", "b.v2", "my run & more.v2", "d"]
    assert [run.doc[0].decode() for run in runs] == ["doc-a", "doc-b", "doc-m", "doc-d"]


def test_runs_that_share_tag_and_file_name_are_refused(tmp_path: Path) -> None:
    paths = [put(tmp_path, "x/run.txt", "same"), put(tmp_path, "y/run.tsv", "same")]
    expected = f"run: two run files share this name and a tag; rename one of them, or name one, as NEW={paths[0]}"
    assert message(lambda: read_runs(paths)) == expected
    assert message(lambda: read_runs([paths[0], paths[0]])) == expected


def test_the_faults_of_all_files_are_told_together(tmp_path: Path) -> None:
    good, bad, unknown = put(tmp_path, "a", "x"), tmp_path / "b", put(tmp_path, "c", "y", topic="T9")
    bad.write_text("T1 Q0 d1 1 high z\n")
    with pytest.raises(FormatError) as caught:
        read_runs([good, bad, tmp_path / "absent", unknown], known_topics=frozenset({"T1"}))
    assert str(caught.value).splitlines() == [
        f"{bad}:1: score 'high' is not a finite number",
        f"{tmp_path / 'absent'}: no such file",
        f"{unknown}:1: topic 'T9' is not among the collection's topics",
    ]


def test_the_layout_can_be_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("T1\t0\t1\t1.0\tx\n")
    assert "--format" in message(lambda: read_runs([path]))
    assert read_runs([path], format="arqmath-task1")[0].doc.tolist() == [b"0"]


# Scoring


def test_ties_that_matter_are_told() -> None:
    mini = load_collection("mini-task1")
    topic, judged = next((t, d) for t, d in mini.qrels().to_dict().items() if {0, 3} <= set(d.values()))
    good = next(doc for doc, grade in judged.items() if grade == 3)
    bad = next(doc for doc, grade in judged.items() if grade == 0)
    tied = Run.from_dict("tied", {topic: {good: 1.0, bad: 1.0}})
    alike = Run.from_dict("alike", {topic: {good: 1.0, "unjudged": 1.0}})
    clear = Run.from_dict("clear", {topic: {good: 2.0, bad: 1.0}})
    evaluation = evaluate(task(mini, measures=("P@1",)), tied, alike, clear)
    assert [scores.run for scores in evaluation.scores] == ["tied", "alike", "clear"]
    assert list(evaluation.bounds) == ["tied"]
    assert evaluation.bounds["tied"]["P@1"] == pytest.approx((0.0, 1 / 42))
    assert evaluation.tie_spans() == {"tied": {"P@1": "0.0000 to 0.0238"}}
    small = replace(evaluation, bounds={"tied": {"P@1": (0.34461, 0.34462), "nDCG": (0.34461, 0.34472)}})
    assert small.tie_spans() == {"tied": {"nDCG": "0.3446 to 0.3447"}}  # four decimals show no difference of P@1
    assert evaluation.task.topics.ids() >= set(mini.qrels().topics)
    assert evaluation.warnings == ()


def test_warnings_of_the_readers_are_kept(tmp_path: Path) -> None:
    mini = load_collection("mini-task1")
    topic = mini.qrels().topics[0]
    path = tmp_path / "run"
    path.write_text(f"{topic} Q0 a 1 1.0 x\n{topic} Q0 b 2 2.0 x\n")
    (warning,) = evaluate(task(mini), path).warnings
    assert warning.startswith(f"{path}:2: rank 2 of topic {topic!r} has a higher score than the rank before it")


def test_the_provenance_names_judgments_and_runs() -> None:
    mini, answers = task("mini-task1"), task("mini-task1", "mini-answers")
    run = replace(Run.from_dict("r", {"M.1": {"d": 1.0}}), source="runs/r.run")
    files = {"mini-task1, edition official": mini.scorer.qrels.sha256, "runs/r.run": run.sha256}
    assert inputs(evaluate(mini, run)).files == files
    assert answers.corpus is not None
    digest = {"corpus mini-answers": answers.corpus.digest()}
    assert inputs(evaluate(answers, run)).files == files | digest


# Producing


def test_the_systems_of_the_demonstration_need_no_extra() -> None:
    mapping, _ = config.load("paper", "demo")
    named = {system for entry in mapping["collections"].values() for system in entry["systems"]}
    assert all(not {"needs", "extra", "state"} & set(config.load("system", name)[0]) for name in named)


# Provenance


def test_provenance_says_how_to_make_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = provenance({"run": "abc"}, ["harness", "score", "my run.txt", "$x"])
    assert found.command == "harness score 'my run.txt' '$x'"
    libraries = {name: metadata.version(name) for name in ("numpy", "scipy", "bm25s", "snowballstemmer", "hydra-core")}
    assert found.versions == {"mathir-harness": __version__, "Python": platform.python_version(), **libraries}
    assert found.files == {"run": "abc"}
    assert platform.node() not in found.machine.replace(",", "").split()
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/harness", "reproduce", "paper=crossmath"])
    assert provenance({}).command == "harness reproduce paper=crossmath"


# Doctor


def rows_of() -> dict[str, tuple[str, str]]:
    return {check: (state, advice) for check, state, advice in findings.findings()}


@pytest.mark.slow
def test_a_network_that_answers_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HARNESS_RAW_BASE", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert rows_of()["network"] == ("answers", "")


def test_a_system_that_names_its_runs_does_not_replace_those_of_others(tmp_path: Path) -> None:
    bench = task("mini-task1", "mini-answers")
    path = make(load_system("overlap"), bench, runs=tmp_path).path
    before = path.read_bytes()
    run = Run.from_dict("overlap", {"M.1": {"a1088": 1.0}})
    with pytest.raises(HarnessError, match=r"overlap\.run: is a run of another system, and system .* names its run so"):
        make(lambda request: run, bench, runs=tmp_path)
    assert path.read_bytes() == before
    for name in ("a", "b"):
        (tmp_path / f"{name}.run").write_text("M.1 Q0 a1088 1 1.0 tag\n")
    said: list[str] = []
    for name in ("a", "a", "b"):
        make(load_system("external", path=str(tmp_path / f"{name}.run")), bench, runs=tmp_path, say=said.append)
    (line,) = (line for line in said if line.startswith("will replace"))
    assert line.startswith(f"will replace {tmp_path}/mini-task1/tag.run, made with path={tmp_path}"[:90])

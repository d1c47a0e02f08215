"""Runs made by systems: what a system is given, what is written, and when a run is not made again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from refusals import refusal as message

from harness.collections.collection import Collection
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.trec import Qrels, Run, read_run
from harness.experiments.produce import Produced, make
from harness.experiments.task import judged_pool, task
from harness.io import config
from harness.io.files import sha256_file, write_all
from harness.store.sidecar import claimed, sidecar_path
from harness.systems.base import Request
from harness.systems.build import BuiltSystem, build_system, load_system


@dataclass
class Recorder:
    """A system that keeps what it was given and returns one document a topic."""

    name: str = "recorder"
    given: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Run:
        self.given.append(request)
        return Run.from_dict(self.name, {topic.id: {"d1": 0.1 + 0.2} for topic in request.topics})


@pytest.fixture
def mini() -> Collection:
    return load_collection("mini-task1")


def again(name: str, tmp_path: Path, changed: Mapping[str, Any] | None = None, **how: Any) -> Produced:  # noqa: ANN401
    """A configured system on the mini collection."""
    return make(load_system(name, **(changed or {})), task("mini-task1", "mini-answers"), runs=tmp_path, **how)


def test_a_run_is_written_and_read_back(tmp_path: Path, mini: Collection) -> None:
    system, bed = Recorder(), task(mini, "mini-answers")
    said: list[str] = []
    made = make(system, bed, runs=tmp_path, say=said.append)
    assert made.path == tmp_path / "mini-task1" / "recorder.run"
    assert not made.reused
    first = made.path.read_text().splitlines()[0].split("\t")
    assert first[1:] == ["Q0", "d1", "1", "0.30000000000000004", "recorder"]
    assert made.run.score[0] == 0.1 + 0.2
    assert made.run.name == "recorder"
    assert len(made.run) == len(mini.topics())
    assert system.given == [Request(mini.topics(), bed.corpus, tmp_path / "workspace" / "recorder")]
    lacking = "corpus mini-answers lacks 1 of the 1 documents of its run, such as 'd1'"
    assert said == ["running recorder on mini-task1", f"warning: system recorder: {lacking}"]
    assert {path.name for path in made.path.parent.iterdir()} == {"recorder.run", "recorder.ir-metadata.yml"}


def test_a_function_is_a_system_whose_runs_are_made_anew(tmp_path: Path, mini: Collection) -> None:
    def first(request: Request) -> Run:
        return Run.from_dict("mine", {topic.id: {"a1007": 1.0} for topic in request.topics})

    for _ in range(2):
        made = make(first, task(mini), runs=tmp_path)
        assert (made.path, made.reused) == (tmp_path / "mini-task1" / "mine.run", False)
    assert message(lambda: make(lambda topics, corpus: None, task(mini), runs=tmp_path)).startswith(  # type: ignore[arg-type]
        "got function, which is not a system: it cannot be called with one harness.systems.base.Request, but with (top"
    )


def test_a_system_by_name_by_value_and_by_configuration_has_one_run(tmp_path: Path, mini: Collection) -> None:
    bed, mapping = task(mini, "mini-answers"), config.load("system", "overlap")[0]
    first = make("overlap", bed, runs=tmp_path)
    for again_ in (load_system("overlap"), build_system(mapping, "here"), load_system("overlap", depth=1000)):
        made = make(again_, bed, runs=tmp_path)
        assert (made.reused, made.key) == (True, first.key)


def test_posts_of_formulas_are_kept(tmp_path: Path) -> None:
    @dataclass
    class Formulas(Recorder):
        def __call__(self, request: Request) -> Run:
            path = tmp_path / "made"
            path.write_text("".join(f"{topic.id}\t7\t42\t1\t2.5\tf\n" for topic in request.topics))
            return read_run(path, format="arqmath-task2")

    made = make(Formulas(), task("mini-task2"), runs=tmp_path)
    assert made.run.context is not None
    assert set(made.run.context.tolist()) == {b"42"}


def test_the_pool_holds_the_judged_documents_without_grades(tmp_path: Path, mini: Collection) -> None:
    pool = judged_pool(mini.qrels(), None)
    assert pool == {topic: frozenset(docs) for topic, docs in mini.qrels().to_dict().items()}
    made = make("shuffle", task(mini), runs=tmp_path, rerank=True)
    scores = mini.scorer(measures=("Judged@10", "RelRet"))(made.run)
    assert scores.mean("Judged@10") == 1.0
    relevant = sum(grade >= 2 for docs in mini.qrels().to_dict().values() for grade in docs.values())
    assert scores.column("RelRet").sum() == relevant


def test_the_pool_of_formulas_is_that_of_the_judged_visual_ids(tmp_path: Path) -> None:
    formulas = load_collection("mini-task2")
    keys = formulas.keys()
    assert keys is not None
    pool = judged_pool(formulas.qrels(), keys)
    assert {topic: {keys[doc] for doc in docs} for topic, docs in pool.items()} == {
        topic: set(docs) & set(keys.values()) for topic, docs in formulas.qrels().to_dict().items()
    }
    scores = formulas.scorer()(make("shuffle", task(formulas), runs=tmp_path, rerank=True).run)
    assert scores.counts["results without judgment"] == 0
    assert scores.mean("nDCG") > 0.3


@pytest.mark.slow
def test_names_of_any_characters_have_files_of_their_own(tmp_path: Path, mini: Collection) -> None:
    names = ("../escape", "-escape", "escape", "intfloat/e5-base", "intfloat:e5-base", "Česká-skupina", ".x", "x")
    paths = [make(Recorder(name), task(mini), runs=tmp_path / "out").path for name in names]
    assert [read_run(path).name for path in paths] == [*names]
    assert {path for path in tmp_path.rglob("*.run") if path.is_file()} == set(paths)
    assert {path.parent for path in paths} == {tmp_path / "out" / "mini-task1"}
    assert paths[5].name == "Česká-skupina.run"


# The side file


@pytest.mark.slow
def test_the_side_file_says_what_was_made_and_what_it_cost(tmp_path: Path, mini: Collection) -> None:
    made = again("bm25", tmp_path)
    side = yaml.safe_load(sidecar_path(made.path).read_text())
    assert set(side) == {"tag", "platform", "implementation", "method", "data", "actor", "harness"}
    assert side["tag"] == "bm25"
    assert side["method"]["retrieval"][0]["k1"] == 1.2
    assert side["data"]["test collection"] == {"name": "mini-task1"}
    assert side["data"]["corpus"] == {"name": "mini-answers", "digest": load_corpus("mini-answers").digest()}
    ours = side["harness"]
    assert ours["run sha256"] == sha256_file(made.path)
    assert set(ours["latency of each query in seconds"]) == mini.topics().ids()
    seconds = ours["seconds"]
    assert seconds["in all"] >= seconds["index"] + seconds["search"] - 0.001
    assert seconds["search"] == pytest.approx(sum(ours["latency of each query in seconds"].values()), abs=1e-3)
    assert ours["bytes of indexes"] > 1000
    if sys.platform == "linux":
        assert ours["peak memory of the run in bytes"] > 10_000_000
    assert yaml.safe_load(sidecar_path(again("shuffle", tmp_path).path).read_text())["harness"]["seeds"] == {"seed": 0}


# Runs that are not made again


def test_a_run_of_the_same_configuration_is_not_made_again(tmp_path: Path) -> None:
    first = again("overlap", tmp_path)
    stamp = first.path.stat().st_mtime_ns
    said: list[str] = []
    second = again("overlap", tmp_path, say=said.append)
    assert second.reused
    assert second.path.stat().st_mtime_ns == stamp
    assert second.run.sha256 == first.run.sha256
    assert said == [f"{first.path}: reused, same configuration"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        lambda path: path.write_text(path.read_text().replace("Q0", "0 ", 1)),
        lambda path: path.unlink(),
        lambda path: sidecar_path(path).unlink(),
        lambda path: sidecar_path(path).write_text("harness: [1"),
        lambda path: sidecar_path(path).write_text("harness: 3"),
        lambda path: sidecar_path(path).write_bytes(b"\xff\xfe"),
    ],
)
def test_a_run_or_side_file_that_is_not_whole_is_made_again(tmp_path: Path, fault: Callable[[Path], object]) -> None:
    first = again("overlap", tmp_path)
    before = first.path.read_bytes()
    fault(first.path)
    second = again("overlap", tmp_path)
    assert not second.reused
    assert second.path.read_bytes() == before
    assert claimed(sidecar_path(second.path)) == (first.key, sha256_file(first.path), "trec")


@pytest.mark.slow
def test_whatever_decides_a_run_is_in_its_key(tmp_path: Path, mini: Collection) -> None:
    base = again("overlap", tmp_path)
    bed = task(mini, "mini-answers")
    part = {topic: dict(list(docs.items())[1:]) for topic, docs in mini.qrels().to_dict().items()}
    fewer = bed.scorer.on_part(Qrels.from_dict("q", part))
    others = [
        again("overlap", tmp_path, {"depth": 5}),
        again("overlap", tmp_path, suffix="-x"),
        again("overlap", tmp_path, rerank=True),
        make("overlap", replace(bed, scorer=fewer), runs=tmp_path, rerank=True),
        again("overlap", tmp_path, training=Qrels.from_dict("q", {"other": {"a1007": 1.0}})),
    ]
    assert not any(made.reused for made in others)
    assert len({base.key, *(made.key for made in others)}) == 6
    assert again("overlap", tmp_path, {"title": "another title"}).key == base.key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "how", "made"),
    [
        ({"depth": 5}, {}, "made with depth=5"),
        ({"depth": 5, "title_only": True}, {"rerank": True}, "made with rerank=true, depth=5, title_only=true"),
        ({}, {"training": Qrels.from_dict("q", {"other": {"a1007": 1.0}})}, "made with other training judgments"),
        (
            {"score": "jaccard", "depth": 5, "title_only": True},
            {"rerank": True},
            "made with rerank=true, depth=5, title_only=true and 1 more",
        ),
    ],
)
def test_a_run_of_another_configuration_is_replaced_with_a_line(
    tmp_path: Path, before: Mapping[str, Any], how: Mapping[str, Any], made: str
) -> None:
    said: list[str] = []
    path = again("overlap", tmp_path, before, **how).path
    again("overlap", tmp_path, say=said.append)
    assert said[0] == f"will replace {path}, {made}; keep both with system.name=NAME or runs=FOLDER"
    again("overlap", tmp_path, say=said.append, reuse=False)
    again("overlap", tmp_path, before, **how, say=said.append, suffix="-x")
    assert [line for line in said[1:] if line.startswith("will replace")] == []


@pytest.mark.slow
def test_other_runs_that_are_replaced(tmp_path: Path, mini: Collection) -> None:
    said: list[str] = []
    path = again("overlap", tmp_path).path
    sidecar_path(path).unlink()
    again("overlap", tmp_path, say=said.append)
    again("shuffle", tmp_path, {"name": "overlap"}, say=said.append)
    make(load_system("shuffle", name="overlap"), task(mini), runs=tmp_path, say=said.append, rerank=True)
    assert [line.partition(f"will replace {path}, ")[2].partition(";")[0] for line in said[::2]] == [
        "which has no metadata file",
        "made with _target_=harness.systems.baselines.Overlap",
        "made with corpus=mini-answers, rerank=false",
    ]


def test_a_run_with_a_topic_of_another_task_is_not_kept(tmp_path: Path, mini: Collection) -> None:
    fault = message(lambda: make(lambda _: Run.from_dict("x", {"Q.9": {"d1": 1.0}}), task(mini), runs=tmp_path))
    assert fault == "system <lambda>: topic 'Q.9' of its run is not among the collection's topics"
    assert not list(tmp_path.rglob("*.run"))


@pytest.mark.slow
def test_documents_outside_the_pool_are_removed(tmp_path: Path, mini: Collection) -> None:
    bed, said = task(mini, "mini-answers"), list[str]()
    whole = {topic: dict(docs) for topic, docs in make("overlap", bed, runs=tmp_path).run.to_dict().items()}
    pool = judged_pool(bed.scorer.qrels, bed.keys)
    first, *rest = whole

    def careless(request: Request) -> Run:
        return Run.from_dict("careless", whole | {first: {"unjudged": 1.0}})

    made = make(careless, bed, runs=tmp_path, rerank=True, say=said.append)
    assert made.run.to_dict() == {topic: {d: s for d, s in whole[topic].items() if d in pool[topic]} for topic in rest}
    removed = sum(map(len, whole.values())) - len(whole[first]) + 1 - len(made.run)
    expected = f"careless: {removed:,} of {len(made.run) + removed:,} results are not among the judged documents"
    assert said[-1] == f"{expected} and were removed; the system itself ignores the pool"
    assert yaml.safe_load(sidecar_path(made.path).read_text())["harness"]["results outside the pool"] == removed
    fault = message(
        lambda: make(lambda _: Run.from_dict("x", {first: {"unjudged": 1.0}}), bed, runs=tmp_path, rerank=True)
    )
    assert fault == "system x: ranks none of the judged documents"
    again("overlap", tmp_path, rerank=True, say=said.append)
    assert said[-1] == "running overlap on mini-task1"


def test_a_suffix_is_a_part_of_the_name(tmp_path: Path) -> None:
    first = again("overlap", tmp_path, suffix="-x")
    same = again("overlap", tmp_path, {"name": "overlap-x"})
    assert (same.reused, same.path) == (True, first.path)


@pytest.mark.slow
def test_the_content_of_run_files_is_in_the_key(tmp_path: Path, mini: Collection) -> None:
    theirs = tmp_path / "theirs.run"
    topic = next(iter(mini.topics())).id
    theirs.write_text(f"{topic}\tQ0\ta1007\t1\t2.0\tt\n")
    first = again("external", tmp_path, {"path": str(theirs), "name": "mine"})
    assert again("external", tmp_path, {"path": str(theirs), "name": "mine"}).reused
    theirs.write_text(f"{topic}\tQ0\ta1088\t1\t2.0\tt\n")
    second = again("external", tmp_path, {"path": str(theirs), "name": "mine"})
    assert (second.key != first.key, second.run.doc.tolist()) == (True, [b"a1088"])
    fused = again("fusion-rrf", tmp_path, {"runs": [str(theirs), "overlap"]})
    assert again("fusion-rrf", tmp_path, {"runs": [str(theirs), "overlap"]}).reused
    theirs.write_text(f"{topic}\tQ0\ta1007\t1\t2.0\tt\n")
    assert again("fusion-rrf", tmp_path, {"runs": [str(theirs), "overlap"]}).key != fused.key


class Table(Recorder):
    """A system of a person's own that reads a file which its configuration names."""

    def __init__(self, table: str = "", nested: Mapping[str, Any] | None = None, name: str = "table") -> None:
        super().__init__(name)
        self.table = table

    def __call__(self, request: Request) -> Run:
        return Run.from_dict(self.name, {topic.id: {Path(self.table).read_text(): 1.0} for topic in request.topics})


@pytest.mark.slow
@pytest.mark.parametrize("key", ["table", "nested"])
def test_files_that_a_configuration_names_are_in_the_key_of_a_system_of_others(
    tmp_path: Path, mini: Collection, key: str
) -> None:
    table = tmp_path / "table.txt"
    mapping = {"name": "table", "table": str(table), "nested": {"files": [str(table)]} if key == "nested" else None}

    def made() -> Produced:
        return make(BuiltSystem(Table(str(table)), mapping), task(mini), runs=tmp_path)

    table.write_text("d1")
    assert (made().reused, made().reused) == (False, True)
    table.write_text("d2")
    anew = made()
    assert (anew.reused, set(anew.run.doc.tolist())) == (False, {b"d2"})


def test_the_run_is_that_of_this_system_whatever_another_process_writes_meanwhile(
    tmp_path: Path, mini: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overwritten(files: Mapping[Path, bytes | str]) -> None:
        write_all(files)
        path = next(iter(files))
        path.write_text(path.read_text().replace("d1", "d2"))

    monkeypatch.setattr("harness.experiments.produce.write_all", overwritten)
    made = make(Recorder(), task(mini), runs=tmp_path)
    assert set(made.run.doc.tolist()) == {b"d1"}


@pytest.mark.slow
def test_a_run_made_again_on_request_has_the_same_key_and_side_file(tmp_path: Path) -> None:
    first = again("overlap", tmp_path)
    second = again("overlap", tmp_path, reuse=False)
    assert (second.reused, second.key) == (False, first.key)
    assert yaml.safe_load(sidecar_path(second.path).read_text())["method"]["retrieval"][0]["depth"] == 1000
    assert again("overlap", tmp_path).reused


def test_a_mark_survives_another_name(tmp_path: Path, mini: Collection) -> None:
    theirs = tmp_path / "theirs.run"
    topic = next(iter(mini.topics())).id
    theirs.write_text(f"{topic}\tQ0\ta1007\t1\t2.0\tlearnt+test-judgments\n")
    made = again("external", tmp_path, {"path": str(theirs), "name": "clean"})
    assert made.run.name == "clean+test-judgments"


# Training judgments


@pytest.mark.slow
def test_training_judgments_of_ranked_topics_are_refused_or_mark_the_run(tmp_path: Path, mini: Collection) -> None:
    topics = sorted(mini.topics().ids())
    training = Qrels.from_dict("q", {topics[0]: {"a1007": 1.0}, topics[1]: {"a1007": 1.0}, "other": {"a1007": 1.0}})
    assert message(lambda: again("overlap", tmp_path, training=training)) == (
        f"training: the judgments contain topic {topics[0]!r} of the task (2 such topics); "
        "train on other topics, or set allow_test_judgments=true, which marks the run"
    )
    assert not list(tmp_path.rglob("*.run"))
    marked = again("overlap", tmp_path, training=training, allow_test_judgments=True, suffix="-k=3")
    assert marked.path.name == "overlap-k=3+test-judgments.run"
    assert marked.run.name == "overlap-k=3+test-judgments"
    assert again("overlap", tmp_path, training=training, allow_test_judgments=True, suffix="-k=3").reused
    apart = Qrels.from_dict("q", {"other": {"a1007": 1.0}})
    assert again("overlap", tmp_path, training=apart, allow_test_judgments=True).run.name == "overlap"


@pytest.mark.slow
def test_training_judgments_by_name_are_those_of_the_collections(tmp_path: Path) -> None:
    """Cut to the documents of the corpus, as the judgments that runs are scored by are."""
    corpus, qrels = load_corpus("mini-answers"), load_collection("mini-task1").qrels()
    beyond = Qrels.from_dict("q", {"other": {"a1007": 1.0, "elsewhere": 2.0}})
    bed, seen = task("mini-theorems", corpus=None), Recorder()
    make(seen, bed, runs=tmp_path, training=["mini-task1"])
    make(seen, bed, runs=tmp_path, training=qrels)
    make(seen, bed, runs=tmp_path, training=beyond)
    make(seen, task("mini-task1", corpus), runs=tmp_path, training=beyond)
    make(seen, bed, runs=tmp_path, training=[])
    found = [None if request.training is None else request.training.to_dict() for request in seen.given]
    assert found == [qrels.to_dict(), qrels.to_dict(), beyond.to_dict(), {"other": {"a1007": 1.0}}, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "topics", "topic", "docs", "scores"),
    [
        ("evil\nM.1 Q0 a2 1 9.0 evil", ("M.1",), [0], [b"a1"], [1.0]),
        ("mine", ("M.1",), [0], [b"a 1"], [1.0]),
        ("mine", ("M.1",), [0], [b"a\t1\t1.0\tmine\nM.2\tQ0\tb"], [1.0]),  # which would be two lines
        ("mine", ("M.1",), [0, 0], [b"a1", b"a1"], [1.0, 2.0]),
        ("mine", ("M.1",), [0], [b"a1"], [float("nan")]),
        ("mine", ("M.1",), [7], [b"a1"], [1.0]),
        ("mine", (), [], [], []),
    ],
)
def test_what_is_no_run_is_not_written(
    tmp_path: Path,
    mini: Collection,
    name: str,
    topics: tuple[str, ...],
    topic: list[int],
    docs: list[bytes],
    scores: list[float],
) -> None:
    good = Run.from_dict("mine", {"M.1": {"a1007": 1.0}})
    before = make(lambda _: good, task(mini), runs=tmp_path / "deep" / "runs").path
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    wrong = Run(
        name, topics, np.array(topic, dtype=np.int32), np.array(docs, dtype=np.bytes_), np.array(scores, dtype=float)
    )
    message(lambda: make(lambda _: wrong, task(mini), runs=tmp_path / "deep" / "runs"))
    assert files == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert before in files

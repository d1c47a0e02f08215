"""A system that trains on posts must leave out those that the collection judges: enforced where runs are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.experiments.produce import check_untrained, produce
from harness.systems import rerank
from harness.systems.base import Pool, System
from harness.systems.build import build_system, load_system
from harness.systems.fusion import system as fusion


@dataclass
class Learner:
    left_out: frozenset[str]
    calls: list[str] = field(default_factory=list)
    name: str = "learner"

    def trains_without(self) -> frozenset[str]:
        return self.left_out

    def __call__(
        self,
        topics: Topics,
        corpus: Corpus | None,
        workspace: Path,
        training: Qrels | None = None,
        pool: Pool | None = None,
    ) -> Run:
        assert corpus is not None
        self.calls.append("called")
        return Run.from_dict(self.name, {topic.id: {next(iter(corpus.ids())): 1.0} for topic in topics})


def test_a_system_that_does_not_leave_out_the_collection_is_not_called(tmp_path: Path) -> None:
    collection, corpus = load_collection("mini-task1"), load_corpus("mini-answers")
    system = Learner(frozenset({"arqmath-1-task1"}))
    with pytest.raises(HarnessError, match="system learner: trains on posts, and those judged in mini-task1") as error:
        produce(system, collection, corpus, tmp_path)
    assert "'system.leave_out=[arqmath-1-task1,mini-task1]'" in str(error.value)
    assert "\n" not in str(error.value)
    assert not system.calls
    assert not list(tmp_path.rglob("*.run"))


def test_one_that_does_is(tmp_path: Path) -> None:
    system = Learner(frozenset({"mini-task1"}))
    produced = produce(system, load_collection("mini-task1"), load_corpus("mini-answers"), tmp_path)
    assert produced.path.exists()
    assert system.calls == ["called"]


INNER = {"_target_": "harness.systems.mathamr.system.MathAMR", "name": "inner", "pairs": {"mse-pages": "question"}}


@pytest.mark.parametrize("outer", ["rerank", "fusion"])
def test_systems_made_of_others_leave_out_what_these_do(outer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = build_system({**INNER, "leave_out": ["arqmath-1-task1"]}, "here")
    monkeypatch.setattr(rerank, "load_system", lambda name: learner)
    monkeypatch.setattr(fusion, "load_system", lambda name: learner if name == "bm25" else load_system(name))
    system: System = rerank.RerankPool("bm25")
    if outer != "rerank":
        system = fusion.Fusion(["tree", "bm25"])
    with pytest.raises(HarnessError, match="trains on posts, and those judged in mini-task1 are not left out"):
        check_untrained(system, "mini-task1")
    check_untrained(system, "arqmath-1-task1")
    monkeypatch.undo()
    check_untrained(rerank.RerankPool("bm25"), "mini-task1")

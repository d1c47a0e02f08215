"""A system that trains on posts must leave out those that the collection judges: enforced where runs are made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from refusals import refuses

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.produce import check_untrained, make
from harness.experiments.task import task
from harness.systems import rerank
from harness.systems.base import Request, System
from harness.systems.build import BuiltSystem, build_system, load_system
from harness.systems.dense.training.cards import CARD
from harness.systems.fusion import system as fusion


@dataclass
class Learner:
    left_out: frozenset[str]
    calls: list[str] = field(default_factory=list)
    name: str = "learner"

    def trains_without(self) -> frozenset[str]:
        return self.left_out

    def __call__(self, request: Request) -> Run:
        self.calls.append("called")
        first = next(iter(request.corpus_for(self.name).ids()))
        return Run.from_dict(self.name, {topic.id: {first: 1.0} for topic in request.topics})


def test_a_system_that_does_not_leave_out_the_collection_is_not_called(tmp_path: Path) -> None:
    bed = task("mini-task1", "mini-answers")
    system = Learner(frozenset({"arqmath-1-task1"}))
    with pytest.raises(
        HarnessError, match="system learner: trains on posts without leaving out those judged in mini-task1"
    ) as error:
        make(system, bed, runs=tmp_path)
    assert "'system.leave_out=[arqmath-1-task1,mini-task1]'" in str(error.value)
    assert "\n" not in str(error.value)
    assert not system.calls
    assert not list(tmp_path.rglob("*.run"))


def test_one_that_does_is(tmp_path: Path) -> None:
    system = Learner(frozenset({"mini-task1"}))
    produced = make(system, task("mini-task1", "mini-answers"), runs=tmp_path)
    assert produced.path.exists()
    assert system.calls == ["called"]


class Fetched(Learner):
    """Is known to have been trained only when its model is here."""

    here = False

    def reads(self) -> dict[str, str]:
        self.here = True
        return {}

    def trains_without(self) -> frozenset[str] | None:  # type: ignore[override]
        return self.left_out if self.here else None


def test_what_is_known_only_when_a_model_has_been_fetched(tmp_path: Path) -> None:
    system = Fetched(frozenset({"arqmath-1-task1"}))
    with pytest.raises(HarnessError, match="trains on posts without leaving out those judged in mini-task1"):
        make(system, task("mini-task1", "mini-answers"), runs=tmp_path)
    assert not system.calls


@pytest.mark.parametrize(
    "target", ["dense.bi_encoder.BiEncoder", "dense.cross_encoder.CrossEncoder", "mathamr.linearised.Linearised"]
)
def test_who_loads_a_tuned_model_by_its_folder_leaves_out_what_it_did(target: str, tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "model")
    mapping = {"_target_": f"harness.systems.{target}", "name": "x", "model": str(folder)}
    assert build_system(mapping, "here").trains_without() is None
    (folder / CARD).write_text(json.dumps({"settings": {"leave_out": ["mini-task1"]}}), encoding="utf-8")
    assert build_system(mapping, "here").trains_without() == frozenset({"mini-task1"})


@pytest.mark.parametrize(
    ("target", "key", "more"),
    [
        ("dense.late_interaction.LateInteraction", "model", {}),
        ("dense.sparse_encoder.SparseEncoder", "model", {}),
        ("mathamr.system.MathAMR", "tokens", {"pairs": {"mini-answers": "question"}, "leave_out": ["mini-task1"]}),
        ("mathamr.system.MathAMR", "teacher", {"pairs": {"mini-answers": "question"}, "leave_out": ["mini-task1"]}),
    ],
)
@pytest.mark.parametrize("outer", [False, True])
def test_any_key_may_name_a_tuned_model(
    target: str, key: str, more: dict[str, Any], outer: bool, tmp_path: Path
) -> None:
    folder = tiny_model(tmp_path / "model")
    mapping = {"_target_": f"harness.systems.{target}", "name": "x", key: str(folder), **more}
    if key == "teacher":
        mapping["training"] = {"distil": 0.5}
    if outer:
        mapping = {"_target_": "harness.systems.rerank.RerankPool", "system": mapping}
    check_untrained(build_system(mapping, "here"), "mini-task1")
    (folder / CARD).write_text(json.dumps({"settings": {"leave_out": ["arqmath-1-task1"]}}), encoding="utf-8")
    found = build_system(mapping, "here")
    said = rf"key '{'system.' if outer else ''}{key}' names a model that was tuned without leaving out what mini-task1"
    refuses(said, lambda: check_untrained(found, "mini-task1"))
    assert "mini-task1" not in (found.trains_without() or ())
    (folder / CARD).write_text(json.dumps({"settings": {"leave_out": ["mini-task1"]}}), encoding="utf-8")
    check_untrained(build_system(mapping, "here"), "mini-task1")


def tiny_model(folder: Path) -> Path:
    """Files that look like a model's, and are not loaded."""
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}", encoding="utf-8")
    (folder / "pytorch_model.bin").write_bytes(b"")
    return folder


INNER = {"_target_": "harness.systems.mathamr.system.MathAMR", "name": "inner", "pairs": {"mini-answers": "question"}}


@pytest.mark.parametrize("outer", ["rerank", "fusion"])
def test_systems_made_of_others_leave_out_what_these_do(outer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = build_system({**INNER, "leave_out": ["arqmath-1-task1"]}, "here")
    monkeypatch.setattr(rerank, "load_system", lambda name: learner)
    monkeypatch.setattr(fusion, "load_system", lambda name: learner if name == "bm25" else load_system(name))
    system: System = rerank.RerankPool("bm25")
    if outer != "rerank":
        system = fusion.Fusion(["tree", "bm25"])
    with pytest.raises(HarnessError, match="trains on posts without leaving out those judged in mini-task1"):
        check_untrained(BuiltSystem(system), "mini-task1")
    check_untrained(BuiltSystem(system), "arqmath-1-task1")
    assert BuiltSystem(system).notes() == learner.notes() != ()
    monkeypatch.undo()
    check_untrained(BuiltSystem(rerank.RerankPool("bm25")), "mini-task1")

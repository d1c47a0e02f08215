"""Another system on a pool: it gets everything that the pool's owner gave, and nothing beside the pool is returned."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from lexical_tools import message

from harness.collections.corpora import load_corpus
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels, Run
from harness.io import config
from harness.io.files import sha256
from harness.systems.base import MARK, Request
from harness.systems.baselines import Shuffle
from harness.systems.build import build_system, load_system
from harness.systems.rerank import RerankPool

Conf = Callable[[str, str, str], Path]
TOPICS = Topics((Topic("T1", "one"), Topic("T2", "two"), Topic("T3", "three")))
POOL = {"T1": frozenset({"d1", "d9"}), "T2": frozenset({"d2"})}
WORK = Path("workspace")


def test_what_is_not_in_the_pool_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "made.run"
    path.write_text("T1 Q0 d1 1 3.5 made\nT1 Q0 d2 2 2 made\nT2 Q0 d2 1 9 made\nT2 Q0 d1 2 8 made\nT3 Q0 d1 1 1 made\n")
    system = build_system(
        {
            "_target_": "harness.systems.rerank.RerankPool",
            "system": {"_target_": "harness.systems.baselines.External", "path": str(path)},
        },
        "f",
    )
    run = system(Request(TOPICS, None, WORK, pool=POOL))
    assert run.name == "made-pool"
    assert {topic: docs for topic, docs in run.to_dict().items() if docs} == {"T1": {"d1": 3.5}, "T2": {"d2": 9.0}}
    assert system.reads() == {str(path): sha256(path.read_bytes())}


def test_a_run_with_nothing_in_the_pool(tmp_path: Path) -> None:
    path = tmp_path / "made.run"
    path.write_text("T1 Q0 d5 1 3.5 made\n")
    system = RerankPool({"_target_": "harness.systems.baselines.External", "path": str(path)})
    fault = "system rerank-pool: nothing that made returns is in the pool"
    assert message(lambda: system(Request(TOPICS, None, WORK, pool=POOL))) == fault


def test_it_refuses_to_run_without_a_pool() -> None:
    rule = "has no pool to rank; run it with rerank=true"
    assert message(lambda: RerankPool("shuffle")(Request(TOPICS, None, WORK))) == f"system rerank-pool: {rule}"
    assert message(lambda: RerankPool("shuffle", "mine")(Request(TOPICS, None, WORK))) == f"system mine: {rule}"


@dataclass(frozen=True)
class Recorder:
    """Returns a run of its own with posts, and keeps what it was called with."""

    name: str = "recorder"

    def __call__(self, request: Request) -> Run:
        CALLS.append((request.topics, request.corpus, request.workspace, request.training, request.pool))
        topic = np.array([0, 0, 1], dtype=np.int32)
        columns = (np.array([b"d1", b"d3", b"d2"]), np.array([3.0, 2.0, 1.0]), np.array([b"p1", b"p3", b"p2"]))
        return Run(self.name, ("T1", "T2"), topic, *columns, sha256="of another file")


CALLS: list[tuple[object, ...]] = []


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The configuration of a system that keeps what it was called with in `CALLS`."""
    module = ModuleType("recording_systems")
    module.Recorder = Recorder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "recording_systems", module)
    CALLS.clear()
    return {"_target_": "recording_systems.Recorder"}


def test_everything_is_passed_on_and_posts_are_kept(recorder: dict[str, Any]) -> None:
    training = Qrels.from_dict("other", {"U1": {"d1": 1}})
    corpus = load_corpus("mini-answers")
    run = RerankPool(recorder)(Request(TOPICS, corpus, WORK, training, POOL))
    (call,) = CALLS
    assert call == (TOPICS, corpus, WORK, training, POOL)
    assert (run.doc.tolist(), run.score.tolist(), run.topic.tolist()) == ([b"d1", b"d2"], [3.0, 1.0], [0, 1])
    assert run.context is not None
    assert run.context.tolist() == [b"p1", b"p2"]
    assert run.sha256 == ""


def test_a_run_that_learnt_from_test_judgments_stays_marked(recorder: dict[str, Any]) -> None:
    marked = {**recorder, "name": f"learner{MARK}"}
    assert RerankPool(marked)(Request(TOPICS, None, WORK, pool=POOL)).name == f"learner-pool{MARK}"
    assert RerankPool(marked, "mine")(Request(TOPICS, None, WORK, pool=POOL)).name == f"mine{MARK}"
    assert RerankPool(recorder, "mine")(Request(TOPICS, None, WORK, pool=POOL)).name == "mine"


def test_a_named_system_is_read_as_it_is_now() -> None:
    assert RerankPool("overlap").reads() == {"overlap": config.load("system", "overlap")[0]}
    assert RerankPool({"_target_": "harness.systems.baselines.Shuffle"}).reads() == {}


def test_more_faults(conf: Conf) -> None:
    mine = "title: T\n_target_: harness.systems.rerank.RerankPool\nsystem: {}\n"
    conf("system", "mine", mine.format("yours"))
    conf("system", "yours", mine.format("mine"))
    assert message(lambda: RerankPool("mine")) == "system mine: is made from itself (mine <- yours <- mine)"
    assert message(lambda: RerankPool("overlap", 5)) == "key 'name' is 5, expected text"  # type: ignore[arg-type]
    assert " is blocked: " in message(lambda: RerankPool("moogle"))
    where = config.names("system")["rerank-pool"]
    assert message(lambda: load_system("rerank-pool")) == f"{where}: key 'system' is missing"


def test_a_pool_within_a_pool() -> None:
    twice = RerankPool({"_target_": "harness.systems.rerank.RerankPool", "system": "shuffle"})
    run = twice(Request(TOPICS, None, WORK, pool=POOL))
    assert run.name == "shuffle-pool-pool"
    assert run.to_dict() == Shuffle()(Request(TOPICS, None, WORK, pool=POOL)).to_dict()

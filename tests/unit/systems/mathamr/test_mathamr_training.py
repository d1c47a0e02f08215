"""Training: the split, negatives, ranks by hand, and checkpoints that do not fit."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from harness.errors import HarnessError
from harness.systems.mathamr.encoder.pack import Pack, encode_posts
from harness.systems.mathamr.encoder.settings import GraphEncoderSettings, Schedule
from harness.systems.mathamr.encoder.vocabulary import NodeVocabulary
from harness.systems.mathamr.graphs.graph import TEXT, Graph
from harness.systems.mathamr.training.trainer import freed_memory_kept

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.dense.training import loop  # noqa: E402
from harness.systems.dense.training.loop import read_checkpoint, write_checkpoint  # noqa: E402
from harness.systems.mathamr.training import trainer as training  # noqa: E402

WORDS = tuple(f"word{chr(97 + i)}{chr(97 + j)}" for i in range(10) for j in range(6))
MANY = 24


def line_graph(words: list[str]) -> Graph:
    edges = tuple((i, f":r{i % 3}", i + 1) for i in range(len(words) - 1))
    return Graph(tuple(words), bytes([TEXT] * len(words)), edges, 0, (tuple(range(len(words))),), ())


def world() -> tuple[Pack, NodeVocabulary, training.QuestionAnswerPairs]:
    """Questions and answers that share most of their words."""
    rng = np.random.default_rng(3)
    graphs = []
    for _ in range(MANY):
        words = rng.choice(WORDS, 6, replace=False).tolist()
        graphs += [line_graph(words[:5]), line_graph(words[1:])]
    vocabulary = NodeVocabulary.learn(graphs, 100)
    pack = Pack.memory(encode_posts(((f"p{i}", graph) for i, graph in enumerate(graphs)), vocabulary))
    numbers = np.arange(MANY)
    return pack, vocabulary, training.QuestionAnswerPairs(2 * numbers, 2 * numbers + 1, numbers)


def trainer(folder: Path, epochs: int = 3, **changes: object) -> training.Trainer:
    pack, vocabulary, pairs = world()
    settings = GraphEncoderSettings(vocabulary.size, vocabulary.count, dim=16, out=8, layers=2, bases=4)
    schedule = Schedule(batch=4, epochs=epochs, rate=5e-3, validation=0.25, every=1)
    schedule = replace(schedule, **changes)  # type: ignore[arg-type]
    train, held = training.split(pairs, schedule.validation, schedule.seed)
    return training.Trainer(pack, train, held, settings, schedule, folder, {"vocabulary": vocabulary.digest})


def test_split_by_question_is_a_partition_and_depends_on_the_seed() -> None:
    pairs = training.QuestionAnswerPairs(np.arange(40), np.arange(40) + 40, np.repeat(np.arange(20), 2))
    train, held = training.split(pairs, 0.25, 1)
    assert len(held) == 10
    assert not set(train.group.tolist()) & set(held.group.tolist())
    assert sorted([*train.query.tolist(), *held.query.tolist()]) == list(range(40))
    again = training.split(pairs, 0.25, 1)[1]
    assert held.query.tolist() == again.query.tolist()
    assert held.query.tolist() != training.split(pairs, 0.25, 2)[1].query.tolist()


def test_other_answers_and_duplicates_are_no_negatives() -> None:
    # Pairs 0 and 1 are of one question, pair 2 has the document of pair 0, pair 3 the query graph of pair 2.
    pairs = training.QuestionAnswerPairs(
        np.array([0, 0, 2, 2, 4]), np.array([10, 11, 10, 13, 14]), np.array([0, 0, 2, 3, 4])
    )
    out = training.excluded(pairs)
    expected = {(0, 1), (1, 0), (0, 2), (2, 0), (2, 3), (3, 2)}
    assert {(int(i), int(j)) for i, j in np.argwhere(out)} == expected


def test_reciprocal_rank_by_hand() -> None:
    scores = np.array([[0.9, 0.5, 0.1], [0.5, 0.5, 0.1], [0.3, 0.9, 0.2]])
    none = np.zeros((3, 3), bool)
    mrr, chance = training.reciprocal_rank(scores, none)
    # Ranks 1; 1.5, since it ties with one; 3.
    assert mrr == pytest.approx((1 + 1 / 1.5 + 1 / 3) / 3)
    assert chance == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    out = none.copy()
    out[2, 1] = True  # another answer of the third question does not compete
    mrr, chance = training.reciprocal_rank(scores, out)
    assert mrr == pytest.approx((1 + 1 / 1.5 + 1 / 2) / 3)
    assert chance == pytest.approx((2 * 11 / 18 + 3 / 4) / 3)


def test_a_checkpoint_of_another_vocabulary_is_one_line(tmp_path: Path) -> None:
    trainer(tmp_path, epochs=1).run(lambda _: None)
    said = r"best\.pt: the checkpoint belongs to another vocabulary"
    refuses(said, lambda: training.load_model(tmp_path / loop.BEST, {"vocabulary": "0" * 64}))
    before = (tmp_path / loop.LAST).read_bytes()
    said = r"last\.pt: the checkpoint belongs to another schedule"
    refuses(said, lambda: trainer(tmp_path, epochs=2).run(lambda _: None))
    assert (tmp_path / loop.LAST).read_bytes() == before


def test_a_checkpoint_of_something_else_is_one_line(tmp_path: Path) -> None:
    made = trainer(tmp_path, epochs=1)
    made.run(lambda _: None)
    write_checkpoint(tmp_path / loop.LAST, read_checkpoint(tmp_path / loop.LAST) | {"model": {}})
    refuses(r"last\.pt: no checkpoint of a training", lambda: made.run(lambda _: None))
    write_checkpoint(tmp_path / "x.pt", {"identity": {}, "model": {}})
    refuses(r"x\.pt: no checkpoint of this model", lambda: training.load_model(tmp_path / "x.pt", {}))


def test_too_few_held_out_and_numbers_that_are_none_are_one_line(tmp_path: Path) -> None:
    made = trainer(tmp_path / "a", epochs=1)
    with pytest.raises(HarnessError, match="1 pairs are held out, expected 2 or more"):
        replace(made, held=made.held.take(np.arange(1))).run(lambda _: None)
    with pytest.raises(HarnessError, match="lower the learning rate"):
        trainer(tmp_path / "b", epochs=1, batch=18, rate=1e30).run(lambda _: None)


@pytest.mark.slow
def test_encoding_halves_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer(tmp_path)
    model = training.initial(made.settings, 1)
    numbers = list(range(len(made.pack)))
    expected = training.encode(model, made.pack, numbers, made.settings, nodes=1)
    real, sizes = type(model).forward, list[int]()

    def forward(self: Any, batch: Any, groups: Any = None) -> Any:  # noqa: ANN401
        sizes.append(batch.graphs)
        if batch.graphs > 5:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return real(self, batch, groups)

    monkeypatch.setattr(type(model), "forward", forward)
    found = training.encode(model, made.pack, numbers, made.settings)
    assert max(sizes) > 5
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))
    monkeypatch.setattr(
        type(model), "forward", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("out of memory"))
    )
    with pytest.raises(HarnessError, match="out of memory while encoding a graph of 7 nodes"):
        training.encode(model, made.pack, numbers, made.settings)


def test_allocators_other_than_that_of_glibc_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with freed_memory_kept():
        pass

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from encoder_tools import SMALL, encoded

from harness.systems.mathamr.encoder.batch import Batch, augment, collate
from harness.systems.mathamr.encoder.virtual import UNKNOWN_RELATION
from harness.systems.mathamr.encoder.vocabulary import MASK

if TYPE_CHECKING:
    from torch import Generator

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

F = SMALL.relations


def batch(*numbers: int, **settings: object) -> Batch:
    return collate([encoded(n, 6 + 3 * n) for n in numbers], replace(SMALL, **settings))  # type: ignore[arg-type]


def generator(seed: int = 0) -> Generator:
    made: Generator = torch.Generator().manual_seed(seed)
    return made


def triples(one: Batch) -> list[tuple[int, int, int]]:
    return sorted(zip(one.source.tolist(), one.relation.tolist(), one.target.tolist(), strict=True))


def test_every_edge_has_its_inverse_and_unknown_relations_the_reserved_pair() -> None:
    item = encoded(3, 30)
    one = collate([item], SMALL)
    assert len(one.source) == 2 * len(item.source)
    unknown = int((item.relation == UNKNOWN_RELATION).sum())
    assert unknown
    expected = []
    for s, r, t in zip(item.source.tolist(), item.relation.tolist(), item.target.tolist(), strict=True):
        there, back = (2 * F, 2 * F + 1) if r == UNKNOWN_RELATION else (r, r + F)
        expected += [(s, there, t), (t, back, s)]
    assert triples(one) == sorted(expected)
    without = collate([item], replace(SMALL, reserved=False))
    assert len(without.source) == 2 * (len(item.source) - unknown)
    assert int(without.relation.max()) < 2 * F


def test_graphs_do_not_touch_and_vectors_are_padded() -> None:
    items = [encoded(n, 5 + n) for n in range(4)] + [encoded(9, 7, structure="none")]
    one = collate(items, SMALL)
    assert torch.equal(one.graph[one.source], one.graph[one.target])
    assert torch.equal(one.mask.sum(1), torch.tensor([4, 4, 4, 4, 2]))
    assert one.document.tolist() == [3, 3, 3, 3, -1]
    assert one.types[4].tolist() == [0, 1, -1, -1]
    assert (one.vectors[~one.mask] == 0).all()
    for number in range(5):
        assert (one.graph[one.vectors[number][one.mask[number]]] == number).all()
    assert (one.nodes[one.vectors[0]] - SMALL.nodes).tolist() == [0, 1, 1, 2]


def test_node_numbers_beyond_16_bits_in_a_batch() -> None:
    wide = replace(SMALL, nodes=1000)
    one = collate([encoded(n, 30_000, wide) for n in range(4)], wide)
    assert int(one.vectors.max()) == len(one.nodes) - 1 == 4 * 30_004 - 1
    assert int(one.source.max()) > 1 << 16


@pytest.mark.parametrize("together", [False, True])
def test_augmentation_leaves_virtual_nodes_and_their_edges_alone(together: bool) -> None:
    one = batch(1, 2, 30)
    other = augment(one, 1.0, 1.0, generator(), together)
    assert (other.nodes[one.content] == MASK).all()
    assert torch.equal(other.nodes[~one.content], one.nodes[~one.content])
    touching = ~(one.content[one.source] & one.content[one.target])
    assert torch.equal(touching, one.fixed)
    assert torch.equal(other.source, one.source[touching])
    assert torch.equal(other.relation, one.relation[touching])
    same = augment(one, 0.0, 0.0, generator())
    assert all(torch.equal(getattr(one, f.name), getattr(same, f.name)) for f in fields(Batch))


def test_edges_are_dropped_each_on_its_own_or_with_their_inverse() -> None:
    one = collate([encoded(n, 300) for n in range(5)], SMALL)
    free = int((~one.fixed).sum())
    for together in (False, True):
        other = augment(one, 0.1, 0.3, generator(1), together)
        kept = int((~other.fixed).sum())
        assert abs(kept / free - 0.7) < 0.05
        assert abs(float((other.nodes != one.nodes).double().sum() / one.content.sum()) - 0.1) < 0.03
        twice = np.bincount(other.pair[~other.fixed].numpy())
        alone = int((twice == 1).sum())
        assert (alone == 0) == together

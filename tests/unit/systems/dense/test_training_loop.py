"""What all trainings share: learning rates, seeds and checkpoints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.dense.training import loop  # noqa: E402


def test_rate_falls_along_half_a_cosine() -> None:
    assert loop.learning_rate(0, 100, 1.0, 0.2) == pytest.approx(1.0)
    assert loop.learning_rate(50, 100, 1.0, 0.2) == pytest.approx(0.6)
    assert loop.learning_rate(25, 100, 1.0, 0.2) == pytest.approx(0.2 + 0.4 * (1 + math.cos(math.pi / 4)))
    assert loop.learning_rate(100, 100, 1.0, 0.2) == pytest.approx(0.2)


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_rate_rises_before_it_falls(shape: str) -> None:
    rates = [loop.learning_rate(step, 20, 2.0, 0.5, warmup=5, shape=shape) for step in range(21)]
    assert rates[:5] == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])
    assert rates[5] == pytest.approx(2.0)
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[20] == pytest.approx(0.5)
    middle = 0.5 + 1.5 * (2 / 3 if shape == "linear" else 0.5 * (1 + math.cos(math.pi / 3)))
    assert rates[10] == pytest.approx(middle)


def test_what_is_random_is_decided_by_the_numbers_and_leaves_the_rest_alone() -> None:
    def drawn(*numbers: int) -> list[float]:
        with loop.seeded_globally(*numbers):
            return list(torch.rand(3).tolist())

    torch.manual_seed(5)
    expected = torch.rand(3).tolist()
    torch.manual_seed(5)
    first = drawn(1, 2, 3)
    assert torch.rand(3).tolist() == expected
    assert drawn(1, 2, 3) == first
    assert first not in (drawn(1, 2, 4), drawn(1, 3, 3), drawn(2, 2, 3))
    assert torch.rand(2, generator=loop.seeded(1, 2, 3)).tolist() == first[:2]


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    content: dict[str, Any] = {"a": torch.arange(5), "b": {"c": [1.5, "d"], "e": torch.randn(3, 70_000)}, "f": None}
    loop.write_checkpoint(tmp_path / "x.pt", content)
    found = loop.read_checkpoint(tmp_path / "x.pt")
    assert found.keys() == content.keys()
    assert torch.equal(found["a"], torch.arange(5))
    assert torch.equal(found["b"]["e"], content["b"]["e"])
    assert (found["b"]["c"], found["f"]) == ([1.5, "d"], None)
    assert loop.is_intact_checkpoint(tmp_path / "x.pt")
    data = (tmp_path / "x.pt").read_bytes()
    (tmp_path / "x.pt").write_bytes(data[:-1])
    assert not loop.is_intact_checkpoint(tmp_path / "x.pt")
    for at in np.random.default_rng(0).integers(0, len(data), 60).tolist():
        (tmp_path / "flipped.pt").write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        assert not loop.is_intact_checkpoint(tmp_path / "flipped.pt")
    said = r"x\.pt: not a checkpoint, or damaged: it ends otherwise"
    refuses(said, lambda: loop.read_checkpoint(tmp_path / "x.pt"))
    refuses("no such checkpoint", lambda: loop.read_checkpoint(tmp_path / "none.pt"))

"""MathAMR+ on PyTorch Geometric's layers: the same values and gradients."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from encoder_tools import SMALL, encoded
from refusals import refuses
from tuning_tools import one_thread

from harness.errors import HarnessError
from harness.systems.build import load_system
from harness.systems.mathamr.encoder.batch import Batch, collate
from harness.systems.mathamr.encoder.settings import GraphEncoderSettings, check_package

if TYPE_CHECKING:
    from torch import Tensor

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.mathamr.encoder import loss  # noqa: E402
from harness.systems.mathamr.encoder.model import GraphEncoder  # noqa: E402

__all__ = ["one_thread"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch_geometric") is None, reason="torch_geometric is not installed (extra pyg)"
    ),
]


def model(**changes: Any) -> GraphEncoder:  # noqa: ANN401
    torch.manual_seed(3)
    made = GraphEncoder(replace(SMALL, **changes))
    torch.nn.init.normal_(made.get_parameter("layers.0.conv.bias"))
    return made.double()


def batch(structure: str) -> Batch:
    return collate([encoded(n, 6 + 2 * n, structure=structure) for n in range(6)], SMALL)


def outcome(encoder: GraphEncoder, data: Batch) -> tuple[Tensor, dict[str, Tensor | None]]:
    vectors = encoder(data)
    loss.objective(vectors, data, 3, encoder.temperature()).backward()  # type: ignore[no-untyped-call]
    return vectors.detach(), {name: value.grad for name, value in encoder.named_parameters()}


@pytest.mark.parametrize("structure", ["hierarchy", "none"])
@pytest.mark.parametrize("edge_vectors", [False, True])
def test_values_and_gradients_are_equal(structure: str, edge_vectors: bool) -> None:
    data = batch(structure)
    changes: dict[str, Any] = {"edge_vectors": edge_vectors, "init": "mean-projection"}
    (ours, gradients), (theirs, others) = (
        outcome(model(convolution=convolution, **changes), data) for convolution in ("own", "pyg")
    )
    torch.testing.assert_close(theirs, ours, atol=1e-6, rtol=0)
    assert gradients.keys() == others.keys()
    for name, own in gradients.items():
        other = others[name]
        assert (own is None) == (other is None), name
        if own is not None and other is not None:
            torch.testing.assert_close(other, own, atol=1e-6, rtol=0, msg=name)
    assert any(own is not None and float(own.abs().max()) > 1e-3 for own in gradients.values())


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(r"^key 'model.convolution' is 'dgl'; known: own, pyg$", lambda: GraphEncoderSettings(convolution="dgl"))
    built = load_system("mathamr-dependency-pyg").system
    assert built.settings(10, 9).convolution == "pyg"  # type: ignore[attr-defined]
    assert built.settings(10, 9).init == "zero-embedding"  # type: ignore[attr-defined]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(HarnessError, match=r"^torch-geometric is not installed: pip install 'mathir-harness\[pyg\]'"):
        check_package(GraphEncoderSettings(convolution="pyg"))

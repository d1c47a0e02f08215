"""How MathAMR+ searches: what approximate search finds of the exact result stands in the run's side file."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import yaml
from mathamr_world import ASKED, Place, kept, place, world

from harness import metadata, store
from harness.errors import HarnessError
from harness.meter import Meter, measuring

pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

__all__ = ["place", "world"]


@pytest.mark.parametrize("precision", ["approximate", "qdrant"])
def test_recall_of_approximate_search_stands_in_the_side_file(place: Place, precision: str) -> None:
    pytest.importorskip({"approximate": "faiss", "qdrant": "qdrant_client"}[precision])
    meters: list[Meter] = []
    few: dict[str, Any] = {"candidates": 1, "ef": 1}
    none: dict[str, Any] = {}
    for keys in (none, few):
        with measuring() as meter:
            found = place.run(ASKED, strategy="colbert", precision=precision, depth=6, **keys).to_dict()
        meters.append(meter)
        made = metadata.Made("", {}, meter, store.provenance({}))
        side = yaml.safe_load(metadata.text("tiny", "", "trec", "asked", made))["harness"]
        told = side[f"recall of tiny, {precision} against exact"]
        exact = place.run(strategy="colbert", depth=6).to_dict()
        shares = [len(set(found.get(topic, {})) & set(docs)) / len(docs) for topic, docs in exact.items()]
        assert told["mean"] == pytest.approx(sum(shares) / len(shares), abs=1e-4)
        assert (told["least"], told["topics"]) == (pytest.approx(min(shares), abs=1e-4), 3)
        assert told["first documents"] == 6
    # One vector for each of a query's is too few for FAISS; the embedded Qdrant looks at all there are.
    notes: list[Any] = [meter.notes[f"recall of tiny, {precision} against exact"] for meter in meters]
    means = [each["mean"] for each in notes]
    assert (means[1] < means[0]) == (precision == "approximate")
    assert means[0] > 0.99
    assert "recall" in meters[0].phases


def test_exact_search_and_a_pool_have_no_recall(place: Place) -> None:
    pytest.importorskip("faiss", reason="faiss-cpu is not installed (extra ann)")
    pool = {"T1": frozenset({"A2.0"})}
    with measuring() as meter:
        place.run()
        place.run(precision="approximate", pool=pool)
    assert meter.notes == {}


def test_precisions(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match=r"^key 'precision' is 'qdrand'; did you mean 'qdrant'\?$"):
        place.system(precision="qdrand")
    for key in ("ef", "candidates"):
        with pytest.raises(HarnessError, match=f"^key '{key}' is 0, expected a whole number from 1 up$"):
            place.system(**{key: 0})
    for precision, module, package in (
        ("approximate", "faiss", "faiss-cpu"),
        ("qdrant", "qdrant_client", "qdrant-client"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(HarnessError, match=f"^{package} is not installed: "):
            place.run(precision=precision)
    assert kept("mathamr-model") == []  # told before anything is made

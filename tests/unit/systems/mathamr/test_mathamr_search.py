"""How MathAMR+ searches: what approximate search finds of the exact result stands in the run's side file."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from mathamr_world import ASKED, Place, kept, place, world
from refusals import refuses

from harness.cli.run import run_remarks
from harness.data.trec import Run
from harness.experiments.produce import Produced
from harness.store import cost, provenance, sidecar
from harness.store.cost import Meter, measuring
from harness.systems.build import load_system
from harness.systems.dense import ann

pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

__all__ = ["place", "world"]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["approximate", "qdrant"])
def test_recall_of_approximate_search_stands_in_the_side_file_and_in_the_report(
    place: Place, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = pytest.importorskip({"approximate": "faiss", "qdrant": "qdrant_client"}[precision])
    monkeypatch.setattr(ann, "connect", lambda: library.QdrantClient(":memory:"))
    meters: list[Meter] = []
    few: dict[str, Any] = {"candidates": 1, "ef": 1}
    none: dict[str, Any] = {}
    for keys in (none, few):
        with measuring() as meter:
            found = place.run(ASKED, strategy="colbert", precision=precision, depth=6, **keys).to_dict()
        meters.append(meter)
        made = sidecar.RunOrigin("", {}, meter, provenance.provenance({}))
        text = sidecar.text(made, name="tiny", sha256="", layout="trec", collection="asked")
        side = yaml.safe_load(text)["harness"]
        told = side[f"recall of tiny, {precision} against exact"]
        exact = place.run(strategy="colbert", depth=6).to_dict()
        shares = [len(set(found.get(topic, {})) & set(docs)) / len(docs) for topic, docs in exact.items()]
        assert told["mean"] == pytest.approx(sum(shares) / len(shares), abs=1e-4)
        assert (told["least"], told["topics"]) == (pytest.approx(min(shares), abs=1e-4), 3)
        assert told["first documents"] == 6
        path = sidecar.sidecar_path(tmp_path / "tiny.run")
        path.write_text(text)
        settings: Any = SimpleNamespace(training=None, rerank=False)
        produced = Produced(Run.from_dict("tiny", {"T1": {"d": 1.0}}), tmp_path / "tiny.run", "", reused=True, basis="")
        (sentence,) = run_remarks(settings, load_system("bm25"), produced)
        start = f"Recall of tiny, {precision} against exact: {told['mean']:.4f} of the first 6 documents, the mean of 3"
        assert sentence.startswith(start)
        path.write_text(text.replace("topics: 3", "topics: 4"))
        assert sidecar.remarks(path) == ()
    # One vector for each of a query's is too few for FAISS; Qdrant's store in memory looks at all there are.
    notes: list[Any] = [meter.notes[f"recall of tiny, {precision} against exact"] for meter in meters]
    means = [each["mean"] for each in notes]
    assert (means[1] < means[0]) == (precision == "approximate")
    assert means[0] > 0.99
    assert "recall" in meters[0].phases


@pytest.mark.slow
def test_the_graph_of_neighbours_is_part_of_the_index(place: Place) -> None:
    """Whether it was made for this run or before; the vectors lie beside it."""
    pytest.importorskip("faiss", reason="faiss-cpu is not installed (extra ann)")

    def size(folder: Path) -> int:
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

    notes = []
    for precision in ("exact", "approximate", "approximate"):
        with measuring() as meter:
            place.run(precision=precision)
        notes.append(meter.notes[cost.INDEX])
    (vectors,), (graph,) = kept("mathamr-vectors"), kept("faiss-index")
    assert size(graph) > 0
    assert notes == [size(vectors), size(vectors) + size(graph), size(vectors) + size(graph)]


def test_precisions(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(r"^key 'precision' is 'qdrand'; did you mean 'qdrant'\?$", lambda: place.system(precision="qdrand"))
    for key in ("ef", "candidates"):
        refuses(f"^key '{key}' is 0, expected a whole number from 1 up$", lambda: place.system(**{key: 0}))  # noqa: B023
    for precision, module, package in (
        ("approximate", "faiss", "faiss-cpu"),
        ("qdrant", "qdrant_client", "qdrant-client"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        refuses(f"^{package} is not installed: ", lambda: place.run(precision=precision))  # noqa: B023
    assert kept("mathamr-model") == []  # told before anything is made


@pytest.mark.slow
def test_maxsim_by_torch_is_another_way_to_the_same_run(place: Place) -> None:
    assert place.run(maxsim="torch").to_dict() == place.run().to_dict()
    refuses("key 'maxsim' is 'jax'", lambda: place.system(maxsim="jax"))

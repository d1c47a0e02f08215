"""Variants of encoders: dimensions cut, 16-bit formats, several devices, beside the plain vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_models import save

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.errors import HarnessError
from harness.systems.base import Request
from harness.systems.dense import encoder
from harness.systems.dense.bi_encoder import BiEncoder
from harness.systems.dense.engines import EncoderSettings

if lines := encoder.missing():
    pytest.skip(lines[0], allow_module_level=True)

SOME = ["w1 w2 w3", "w4", "w5 w6 " * 20, "w7 w8 w9 w10"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model") / "tiny", prompts={"query": "w50 "})


@pytest.fixture(scope="module")
def plain(folder: Path) -> np.ndarray[Any, Any]:
    return encoder.load(str(folder)).encode(SOME)


@pytest.mark.slow
def test_vectors_are_cut_and_normalised_again(folder: Path, plain: np.ndarray[Any, Any]) -> None:
    loaded = encoder.load(str(folder), EncoderSettings(dimensions=8))
    assert loaded.dimensions == 8
    expected = plain[:, :8] / np.linalg.norm(plain[:, :8], axis=1, keepdims=True)
    np.testing.assert_allclose(loaded.encode(SOME), expected, atol=1e-6)
    raw = encoder.load(str(folder), EncoderSettings(dimensions=8, pooling="mean", normalise=False)).encode(SOME)
    whole = encoder.load(str(folder), EncoderSettings(pooling="mean", normalise=False)).encode(SOME)
    np.testing.assert_allclose(raw, whole[:, :8], atol=1e-6)
    with pytest.raises(HarnessError, match=r"^key 'dimensions' is 33, and model .* has 32$"):
        encoder.load(str(folder), EncoderSettings(dimensions=33))


@pytest.mark.parametrize(("precision", "within"), [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_16_bits_are_near(folder: Path, plain: np.ndarray[Any, Any], precision: str, within: float) -> None:
    half = encoder.load(str(folder), EncoderSettings(precision=precision)).encode(SOME)
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, plain, atol=within)
    assert not np.array_equal(half, plain)


@pytest.mark.heavy
def test_several_devices_give_the_same_vectors(folder: Path, plain: np.ndarray[Any, Any]) -> None:
    loaded = encoder.load(str(folder), EncoderSettings(devices=("cpu", "cpu")))
    found = loaded.encoded(SOME, "document")
    np.testing.assert_allclose(found.vectors, plain, atol=1e-6)
    assert found.cut.tolist() == [False, False, True, False]
    np.testing.assert_allclose(loaded.encode(SOME, "query"), encoder.load(str(folder)).encode(SOME, "query"), atol=1e-6)


def test_a_run_says_what_its_variant_changes(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "made.jsonl"
    path.write_text("".join(json.dumps({"id": f"d{n}", "body": text}) + "\n" for n, text in enumerate(SOME)))
    corpus = Corpus("made", "", "", path, (("id", "id"), ("body", "body")))
    system = BiEncoder("bi", str(folder), device="cpu", precision="bfloat16", dimensions=8)
    assert len(system(Request(Topics((Topic("T1", "w1"),)), corpus, tmp_path / "workspace"))) == 4
    first, second = system.notes()
    assert first.startswith("Vectors are computed in bfloat16 instead of float32, with 8 significant bits")
    assert second.startswith("Vectors are cut to their first 8 dimensions")
    reads = system.reads()
    assert (reads["arithmetic"], reads["model"]["dimensions"]) == (["cpu", "bfloat16"], 8)
    assert BiEncoder("bi", str(folder)).notes() == ()


def test_a_device_that_is_not_there(folder: Path) -> None:
    with pytest.raises(HarnessError, match="key 'devices' names 'cuda:77': this machine or this PyTorch has no such"):
        encoder.load(str(folder), EncoderSettings(devices=["cuda:77"]))

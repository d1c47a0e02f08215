"""One field, file or tensor less, for each kind of stand-in: one line that names it, before anything is computed.

Faults of services and of AMR parsers are in the tests of their stand-ins.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.collections.readers import arqmath
from harness.errors import HarnessError
from harness.papers.mathlib4 import readers as leansearch
from harness.papers.saber import readers as saber
from harness.rehearsal import problems, theorems
from harness.rehearsal.models import make_model
from harness.systems.dense import encoder, engines, models, pairs

TEXTS = tuple(f"Let $x^{n}$ be a prime number, then so is $\\frac{{a_{n}}}{{b}}$." for n in range(40))
BI = "sentence-transformers/all-MiniLM-L12-v2"
POST = """<?xml version="1.0" encoding="utf-8"?>
<posts>
  <row Id="1" PostTypeId="1" Title="T" Tags="" Body="&lt;p&gt;q&lt;/p&gt;" Score="1" />
  <row Id="2" PostTypeId="2" ParentId="1" Body="&lt;p&gt;a&lt;/p&gt;" Score="1" />
</posts>
"""


# ---- data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("field", "line"), [("Id", 3), ("PostTypeId", 3), ("Title", 3), ("ParentId", 4), ("Body", 4)])
def test_posts(tmp_path: Path, field: str, line: int) -> None:
    path = tmp_path / "Posts.V1.3.xml"
    path.write_text(POST, encoding="utf-8")
    arqmath.check_arqmath_file(path)
    lines = POST.split("\n")
    lines[line - 1] = re.sub(rf' {field}="[^"]*"', "", lines[line - 1])
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(HarnessError, match=rf"^{re.escape(str(path))}:{line}: post \S+ has no {field}$"):
        arqmath.check_arqmath_file(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "field"),
    [
        *(("queries", key) for key in ("id", "problem", "solution", "domains", "candidates", "relevance_scores")),
        *(("documents", key) for key in ("id", "problem", "solution")),
    ],
)
def test_problems(tmp_path: Path, file: str, field: str) -> None:
    problems.write(tmp_path, 160, seed=1)
    path = tmp_path / f"{file}.jsonl"
    saber.check(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    row = json.loads(lines[4])
    del row[field]
    path.write_text("\n".join([*lines[:4], json.dumps(row), *lines[5:]]), encoding="utf-8")
    with pytest.raises(HarnessError, match=rf"^{re.escape(str(path))}:5: .*'{field}'"):
        saber.check(path)


@pytest.mark.parametrize("field", ["group", "queries", "theorems", "form", "query"])
def test_benchmark(tmp_path: Path, field: str) -> None:
    path = theorems.write(tmp_path, 300, seed=1)[1]
    leansearch.check(path)
    groups = json.loads(path.read_text(encoding="utf-8"))
    del (groups[2] if field in groups[2] else groups[2]["queries"][0])[field]
    path.write_text(json.dumps(groups), encoding="utf-8")
    with pytest.raises(HarnessError, match=rf"^{re.escape(str(path))}:\d+: .*expected .*{field}|keys .*{field}"):
        leansearch.check(path)


# ---- models -------------------------------------------------------------------------------------------------------

needs_models = pytest.mark.skipif(
    bool(encoder.missing()) or importlib.util.find_spec("sentencepiece") is None,
    reason="sentence-transformers or sentencepiece is not installed (extra translation)",
)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Name of a model -> the folder of its stand-in, made once."""
    root = tmp_path_factory.mktemp("whole")
    return cache(lambda name: make_model(name, root / name.replace("/", "--"), TEXTS, 3))


def without(whole: Path, folder: Path, tensor: str) -> str:
    """Copies a model but for the first tensor whose name holds a word; returns the tensor's name."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(whole, folder)
    (path,) = (each for each in folder.rglob("*") if each.suffix in (".safetensors", ".bin"))
    plain = path.suffix == ".bin"
    tensors = torch.load(path) if plain else load_file(path)
    name: str = next(each for each in sorted(tensors) if tensor in each)
    del tensors[name]
    if plain:
        torch.save(tensors, path)
    else:
        save_file(tensors, path, metadata={"format": "pt"})
    return name


@needs_models
@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "1_Pooling/config.json"])
def test_a_file_of_an_encoder(stand_in: Callable[[str], Path], tmp_path: Path, file: str) -> None:
    shutil.copytree(stand_in(BI), tmp_path / "model")
    (tmp_path / "model" / file).unlink()
    with pytest.raises(HarnessError, match=re.escape(Path(file).stem)) as caught:
        models.find_model(str(tmp_path / "model"))
    assert len(caught.value.lines) == 1


@pytest.mark.slow
@needs_models
def test_an_encoder_without_a_tokenizer_or_pooling(stand_in: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(stand_in(BI), folder)
    (folder / "modules.json").unlink()
    with pytest.raises(HarnessError, match=r"no modules\.json states its pooling; set the key 'pooling'"):
        engines.transformer(models.find_model(str(folder)), engines.EncoderSettings())
    assert engines.transformer(models.find_model(str(folder)), engines.EncoderSettings(pooling="mean")).dimensions
    for path in folder.glob("tokenizer.json"), folder.glob("vocab*"):
        for file in path:
            file.unlink()
    with pytest.raises(HarnessError, match="no tokenizer"):
        models.find_model(str(folder))


@needs_models
def test_a_model_in_the_hubs_cache(
    stand_in: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / f"models--{BI.replace('/', '--')}"
    folder = place / "snapshots" / ("a" * 40)
    shutil.copytree(stand_in(BI), folder)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(folder.name)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    assert models.find_model(BI).identity["revision"] == folder.name
    (folder / "1_Pooling" / "config.json").unlink()
    with pytest.raises(HarnessError, match=rf"1_Pooling/config\.json: missing, .*needs the model {BI}: harness fetch"):
        models.find_model(BI)


@needs_models
@pytest.mark.parametrize("tensor", ["word_embeddings", "layer.0.attention", "LayerNorm"])
def test_a_tensor_of_an_encoder(stand_in: Callable[[str], Path], tmp_path: Path, tensor: str) -> None:
    name = without(stand_in(BI), tmp_path / "model", tensor)
    with pytest.raises(HarnessError, match=f"its weights lack '{re.escape(name)}'"):
        encoder.load(str(tmp_path / "model"))


@needs_models
@pytest.mark.parametrize("tensor", ["classifier", "layer.0.output"])
def test_a_tensor_of_a_cross_encoder(stand_in: Callable[[str], Path], tmp_path: Path, tensor: str) -> None:
    name = without(stand_in("cross-encoder/qnli-distilroberta-base"), tmp_path / "model", tensor)
    with pytest.raises(HarnessError, match=f"its weights lack '{re.escape(name)}'"):
        pairs.load_pair_scorer(models.find_model(str(tmp_path / "model")))


@needs_models
@pytest.mark.parametrize("tensor", ["encoder.layers.0", "decoder.layers.0"])
def test_a_tensor_of_a_translator(stand_in: Callable[[str], Path], tmp_path: Path, tensor: str) -> None:
    from harness.systems.crosslingual import seq2seq

    name = without(stand_in("facebook/nllb-200-distilled-600M"), tmp_path / "model", tensor)
    translator: Any = seq2seq.Nllb(model=str(tmp_path / "model"), device="cpu")
    with pytest.raises(HarnessError, match=f"its weights lack '{re.escape(name)}'"):
        translator.translate(["Sea x un primo."], "spa", "eng")

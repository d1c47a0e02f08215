"""Tiny random models of late interaction and of learned sparse vectors, saved as their libraries save them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from encoder_models import LENGTH, WORDS, tokenizer

COLBERT_DIMENSIONS = 8
QUERY, DOCUMENT = 8, LENGTH


def _bert(words: int) -> Any:  # noqa: ANN401
    import torch
    from transformers import BertConfig, BertModel

    shape: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        config = BertConfig(
            vocab_size=words, intermediate_size=64, max_position_embeddings=LENGTH, pad_token_id=0, **shape
        )
        made: Any = BertModel(config)
    return made


def _projection() -> Any:  # noqa: ANN401
    import torch

    return torch.randn(COLBERT_DIMENSIONS, 32, generator=torch.Generator().manual_seed(11))


def save_colbert(folder: Path) -> Path:
    """A ColBERT as PyLate 1.x saves it: a transformer and a projection; queries are padded to 8 word pieces.

    The word w0 stands for punctuation: its vectors are left out.
    """
    from safetensors.torch import save_file

    own = tokenizer("bert")
    own.add_tokens(["[Q] ", "[D] "])
    _bert(len(own)).save_pretrained(folder)
    own.save_pretrained(folder)
    dense = folder / "1_Dense"
    dense.mkdir()
    save_file({"linear.weight": _projection()}, dense / "model.safetensors")
    said: dict[str, Any] = {"in_features": 32, "out_features": COLBERT_DIMENSIONS, "bias": False}
    said |= {"activation_function": "torch.nn.modules.linear.Identity", "use_residual": False}
    (dense / "config.json").write_text(json.dumps(said))
    modules = [("0", "", "sentence_transformers.models.Transformer"), ("1", "1_Dense", "pylate.models.Dense.Dense")]
    listed = [{"idx": at, "name": name, "path": path, "type": kind} for at, (name, path, kind) in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LENGTH, "do_lower_case": False}))
    config = {
        "model_type": "ColBERT",
        "prompts": {},
        "default_prompt_name": None,
        "similarity_fn_name": "MaxSim",
        "query_prefix": "[Q] ",
        "document_prefix": "[D] ",
        "query_length": QUERY,
        "document_length": DOCUMENT,
        "attend_to_expansion_tokens": False,
        "skiplist_words": ["w0"],
        "do_query_expansion": True,
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    return folder


def save_stanford(folder: Path) -> Path:
    """A model as Stanford's ColBERT saves it: the projection beside the transformer's weights."""
    from safetensors.torch import save_file

    own, model = tokenizer("bert"), _bert(WORDS + 4)
    folder.mkdir(parents=True)
    weights = {f"bert.{name}": value for name, value in model.state_dict().items()} | {"linear.weight": _projection()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.architectures = ["HF_ColBERT"]
    model.config.save_pretrained(folder)
    own.save_pretrained(folder)
    said = {"query_token_id": "w98", "doc_token_id": "w99", "query_maxlen": QUERY, "doc_maxlen": DOCUMENT}
    (folder / "artifact.metadata").write_text(json.dumps(said | {"attend_to_mask_tokens": False}))
    return folder


def by_hand(folder: Path, text: str, role: str) -> np.ndarray[Any, Any]:
    """Token vectors by the papers' rules, from the transformer and the projection alone."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModel, AutoTokenizer

    auto: Any = AutoTokenizer
    own, model = auto.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    name = folder / "1_Dense" / "model.safetensors"
    projection = load_file(name if name.is_file() else folder / "model.safetensors")["linear.weight"]
    prefix = {"query": "[Q] ", "document": "[D] "} if name.is_file() else {"query": "w98", "document": "w99"}
    most = QUERY if role == "query" else DOCUMENT
    words = own(text, add_special_tokens=False)["input_ids"][: most - 3]
    ids = [own.cls_token_id, own.convert_tokens_to_ids(prefix[role]), *words, own.sep_token_id]
    here = [1] * len(ids) + [0] * (most - len(ids) if role == "query" else 0)
    ids += [own.eos_token_id] * (len(here) - len(ids))  # it has no mask token, so queries are padded by this one
    with torch.inference_mode():
        states = model(torch.tensor([ids]), torch.tensor([here])).last_hidden_state[0]
        found = torch.nn.functional.normalize(states @ projection.T, dim=1)
    skipped = own.convert_tokens_to_ids("w0") if name.is_file() and role == "document" else -1
    return np.asarray(found.numpy()[[number != skipped for number in ids]])

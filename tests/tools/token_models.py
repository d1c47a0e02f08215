"""Tiny random models of late interaction and of learned sparse vectors, saved as their libraries save them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from encoder_models import LENGTH, SHAPE, WORDS, tokenizer

COLBERT_DIMENSIONS = 8
QUERY, DOCUMENT = 8, LENGTH


def _bert(words: int, kind: str = "BertModel") -> Any:  # noqa: ANN401
    import torch
    import transformers

    shape: dict[str, Any] = SHAPE | {"max_position_embeddings": LENGTH, "pad_token_id": 0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        made = getattr(transformers, kind)(transformers.BertConfig(vocab_size=words, **shape))
        if kind == "BertForMaskedLM":
            made.cls.predictions.bias.data.normal_(std=0.3)  # so that many weights are 0
    return made


def _projection() -> Any:  # noqa: ANN401
    import torch

    return torch.randn(COLBERT_DIMENSIONS, 32, generator=torch.Generator().manual_seed(11))


def save_splade(folder: Path) -> Path:
    """A SPLADE model as sentence-transformers saves it; a dimension is a word piece."""
    own = tokenizer("bert")
    _bert(len(own), "BertForMaskedLM").save_pretrained(folder)
    own.save_pretrained(folder)
    kinds = ("MLMTransformer", "mlm_transformer", ""), ("SpladePooling", "splade_pooling", "1_SpladePooling")
    modules = "sentence_transformers.sparse_encoder.modules"
    listed = [
        {"idx": at, "name": str(at), "path": path, "type": f"{modules}.{file}.{kind}"}
        for at, (kind, file, path) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LENGTH, "do_lower_case": False}))
    (folder / "1_SpladePooling").mkdir()
    said = {"pooling_strategy": "max", "activation_function": "relu", "word_embedding_dimension": len(own)}
    (folder / "1_SpladePooling" / "config.json").write_text(json.dumps(said))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"model_type": "SparseEncoder"}))
    return folder


def save_inference_free(folder: Path) -> Path:
    """The same model for documents; a query's word pieces have fixed weights."""
    from safetensors.torch import save_file

    splade = save_splade(folder / "document_0_MLMTransformer")
    (splade / "1_SpladePooling").rename(folder / "document_1_SpladePooling")
    for name in ("modules.json", "config_sentence_transformers.json"):
        (splade / name).rename(folder / name)
    static = folder / "query_0_SparseStaticEmbedding"
    own = tokenizer("bert")
    own.save_pretrained(static)
    import torch

    save_file({"weight": torch.arange(len(own), dtype=torch.float32) / 100}, static / "model.safetensors")
    (static / "config.json").write_text(json.dumps({"frozen": True}))
    modules = "sentence_transformers.sparse_encoder.modules."
    structure = {
        "query": {"query_0_SparseStaticEmbedding": f"{modules}sparse_static_embedding.SparseStaticEmbedding"},
        "document": {
            "document_0_MLMTransformer": f"{modules}mlm_transformer.MLMTransformer",
            "document_1_SpladePooling": f"{modules}splade_pooling.SpladePooling",
        },
    }
    said = {
        "types": structure["query"] | structure["document"],
        "structure": {r: [*own] for r, own in structure.items()},
    }
    said |= {"parameters": {"default_route": "document", "allow_empty_key": True, "route_mappings": {}}}
    (folder / "router_config.json").write_text(json.dumps(said))
    listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.router.Router"}]
    (folder / "modules.json").write_text(json.dumps(listed))
    return folder


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
    config: dict[str, Any] = {"model_type": "ColBERT", "prompts": {}, "default_prompt_name": None}
    config |= {"similarity_fn_name": "MaxSim", "query_prefix": "[Q] ", "document_prefix": "[D] "}
    config |= {"query_length": QUERY, "document_length": DOCUMENT, "do_query_expansion": True}
    config |= {"attend_to_expansion_tokens": False, "skiplist_words": ["w0"]}
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

"""Tiny stand-ins, in the form of the published ones, for the transformer models that configurations name.

A stand-in has the class, the kinds of files, the special tokens, the pooling, the prompts and the lengths of the
published model, so that code that reads it can read that. Its weights are random: vectors, scores and translations
mean nothing.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.rehearsal import tokenizers
from harness.rehearsal.tokenizers import write_json
from harness.systems import states

HIDDEN, LAYERS, HEADS, INNER = 16, 1, 2, 32
SPREAD = 0.3  # standard deviation of weights; published models begin with 0.02, which makes all vectors alike
_TRANSLATED = 0.6  # the same, of models that translate
_SHARD = "40KB"
_POOLINGS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
_FLAG = {"cls": "cls_token", "mean": "mean_tokens", "last": "lasttoken"}


@dataclass(frozen=True)
class Form:
    """Form of a published model.

    Attributes
    ----------
    architecture : class of transformers that writes the weights.
    tokenizer : key of `harness.rehearsal.tokenizers.KINDS`.
    positions : `max_position_embeddings` of config.json.
    length : `model_max_length` of tokenizer_config.json; 0 if it names none.
    pooling : `cls`, `mean` or `last`, in the files of sentence-transformers; None if the model has none of these.
    reads : `max_seq_length` of sentence_bert_config.json, in word pieces; None without this file.
    normalised : whether vectors are divided by their lengths.
    prompts : of config_sentence_transformers.json; None without this file.
    dense : whether two linear layers follow the pooling.
    base : folder of the transformer in that of the model; files of sentence-transformers before version 2 had one.
    weights : `float32`, `float16` or `bfloat16`.
    sharded, pickled : whether weights are in several files with an index, or in pytorch_model.bin.
    config : keys of config.json besides those of its class.
    tokens : keys of tokenizer_config.json that differ from those of its kind.
    generation : content of generation_config.json; None without this file.
    """

    architecture: str
    tokenizer: str
    positions: int
    length: int = 0
    pooling: str | None = None
    reads: int | None = None
    normalised: bool = True
    prompts: Mapping[str, str] | None = None
    dense: bool = False
    base: str = ""
    weights: str = "float32"
    sharded: bool = False
    pickled: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    tokens: Mapping[str, Any] = field(default_factory=dict)
    generation: Mapping[str, Any] | None = None


def named_models() -> list[str]:
    """Returns the transformer models that configurations of systems name, sorted; none of language models' servers."""
    found: set[str] = set()
    for name in config.names("system"):
        for part in states.nested_configurations(config.load("system", name)[0]):
            training = part.get("training")
            retriever = training.get("retriever") if isinstance(training, Mapping) else None
            values = (part.get("model"), part.get("tokens"), part.get("teacher"), retriever)
            found |= {value for value in values if isinstance(value, str)}
    return sorted(found - set(config.names("llm")))


def make_model(name: str, folder: Path, texts: Sequence[str], seed: int, **keys: object) -> Path:
    """Writes the stand-in of a model into a folder, which is returned.

    The same texts and seed give the same bytes, whatever else has been made before.

    Parameters
    ----------
    name : a key of `FORMS`.
    folder : of the model's files: config.json, or modules.json, lies in it. It may be missing, or empty.
    texts : which its tokenizer learns word pieces from; characters of ASCII are added.
    keys : keys of config.json that are different, such as `hidden_size`.

    Raises
    ------
    HarnessError
        No stand-in has this name, the folder holds files already, or a library is not installed.
    """
    if name not in FORMS:
        raise HarnessError(f"no stand-in for the model {name!r}; {suggestion(name, sorted(FORMS))}")
    if folder.is_dir() and any(folder.iterdir()):
        raise HarnessError(f"{folder}: holds files already; name a folder that is missing or empty")
    form = replace(FORMS[name], config={**FORMS[name].config, **keys})
    base = folder / form.base
    marks = tokenizers.write(form.tokenizer, base, texts, form.length, **form.tokens)
    try:
        _transformer(base, form, marks, zlib.crc32(f"{seed} {name}".encode()))
    except ImportError as error:
        raise HarnessError(f"{error.name} is not installed: pip install 'mathir-harness[sentences]'") from None
    if form.pooling is not None:
        _sentence_transformer(folder, form, seed)
    return folder


# ---- transformers -----------------------------------------------------------------------------------------------


def _transformer(folder: Path, form: Form, marks: tokenizers.Marks, seed: int) -> None:
    """Writes config.json, weights, and generation_config.json if there is one."""
    import torch
    import transformers

    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    cls: Any = getattr(transformers, form.architecture)
    kind = cls.config_class.model_type
    keys = {
        "architectures": [form.architecture],
        "model_type": kind,
        "vocab_size": marks.count,
        "max_position_embeddings": form.positions,
        "pad_token_id": marks.pad,
        **({} if kind == "bert" else {"bos_token_id": marks.bos, "eos_token_id": marks.eos}),
        **({} if marks.mask is None else {"mask_token_id": marks.mask}),
        **_KEYS[kind],
        "torch_dtype": form.weights,
        "transformers_version": "4.51.3",
        **form.config,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = cls(cls.config_class.from_dict(keys)).to(getattr(torch, form.weights)).eval()
    if form.pickled:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    else:
        model.save_pretrained(folder, max_shard_size=_SHARD if form.sharded else "1GB")
    if form.architecture == "BertForPreTraining":
        _rename(
            folder / "model.safetensors", {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        )
    write_json(folder / "config.json", keys)  # as published: libraries since have other names for some keys
    (folder / "generation_config.json").unlink(missing_ok=True)
    if form.generation is not None:
        numbers = {"bos_token_id": marks.bos, "eos_token_id": marks.eos, "pad_token_id": marks.pad}
        write_json(folder / "generation_config.json", {**numbers, **form.generation})


def _rename(path: Path, parts: Mapping[str, str]) -> None:
    """Gives weights the names that models of 2018 have."""
    from safetensors import torch as safetensors

    renamed = {}
    for key, value in safetensors.load_file(path).items():
        for new, old in parts.items():
            key = key.replace(new, old)  # noqa: PLW2901
        renamed[key] = value
    safetensors.save_file(renamed, path, metadata={"format": "pt"})


# ---- sentence-transformers --------------------------------------------------------------------------------------


def _sentence_transformer(folder: Path, form: Form, seed: int) -> None:
    """Writes the files of a pipeline: transformer, pooling, perhaps two linear layers, perhaps normalisation."""
    size = int(form.config.get("hidden_size", HIDDEN))
    flags = {f"pooling_mode_{name}": name == _FLAG[str(form.pooling)] for name in _POOLINGS}
    write_json(
        folder / "1_Pooling" / "config.json", {"word_embedding_dimension": size, **flags, "include_prompt": True}
    )
    modules = [(form.base, "Transformer"), ("1_Pooling", "Pooling")]
    if form.dense:
        for number, (inside, outside) in ((2, (size, 4 * size)), (3, (4 * size, size))):
            _dense(folder / f"{number}_Dense", inside, outside, seed + number)
            modules.append((f"{number}_Dense", "Dense"))
    if form.normalised:
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
    listed = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", listed)
    if form.reads is not None:
        write_json(
            folder / form.base / "sentence_bert_config.json", {"max_seq_length": form.reads, "do_lower_case": False}
        )
    if form.base:
        write_json(folder / "config.json", {"__version__": "0.4.1"})
    if form.prompts is not None:
        about = {"__version__": {"sentence_transformers": "4.1.0", "transformers": "4.51.3", "pytorch": "2.6.0"}}
        prompts = {"prompts": dict(form.prompts), "default_prompt_name": None, "similarity_fn_name": "cosine"}
        write_json(folder / "config_sentence_transformers.json", {**about, **(prompts if form.prompts else {})})


def _dense(folder: Path, inside: int, outside: int, seed: int) -> None:
    """Writes a linear layer without a bias."""
    import torch
    from safetensors import torch as safetensors

    keys = {"in_features": inside, "out_features": outside, "bias": False}
    write_json(folder / "config.json", {**keys, "activation_function": "torch.nn.modules.linear.Identity"})
    weight = torch.randn((outside, inside), generator=torch.Generator().manual_seed(seed)) * SPREAD
    safetensors.save_file({"linear.weight": weight}, folder / "model.safetensors", metadata={"format": "pt"})


# ---- the published models ---------------------------------------------------------------------------------------

# Random weights would repeat a word piece to the longest translation that is allowed; these keys end it after some ten.
_ENDING = {"exponential_decay_length_penalty": [10, 1.3], "min_length": 4, "no_repeat_ngram_size": 2}
_SIZES = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER}
_ENCODER = {
    **_SIZES,
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "initializer_range": SPREAD,
}
_BERT = {**_ENCODER, "layer_norm_eps": 1e-12, "position_embedding_type": "absolute", "type_vocab_size": 2}
_ROBERTA = {**_BERT, "layer_norm_eps": 1e-05, "type_vocab_size": 1}
_DECODER = {
    **_SIZES,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "initializer_range": SPREAD,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "use_cache": False,
}
_SEQ2SEQ = {
    **{
        f"{side}_{key}": size
        for side in ("encoder", "decoder")
        for key, size in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", INNER), ("layerdrop", 0))
    },
    "activation_function": "relu",
    "d_model": HIDDEN,
    "decoder_start_token_id": 2,
    "dropout": 0.1,
    "init_std": _TRANSLATED,
    "is_encoder_decoder": True,
    "num_hidden_layers": LAYERS,
    "scale_embedding": True,
}
# Kind of model -> keys of its config.json.
_KEYS: Mapping[str, Mapping[str, Any]] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": {**_ROBERTA, "output_past": True},
    "mpnet": {**_ENCODER, "layer_norm_eps": 1e-05, "relative_attention_num_buckets": 32},
    "mistral": {**_DECODER, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096},
    "llama": {**_DECODER, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "mlp_bias": False, "pretraining_tp": 1},
    "eurobert": {**_DECODER, "rms_norm_eps": 1e-05, "rope_theta": 250000, "num_key_value_heads": HEADS},
    "qwen3": {
        **_DECODER,
        "head_dim": 16,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
    },
    "gemma3_text": {
        **_DECODER,
        "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh",
        "layer_types": ["sliding_attention", "full_attention"][:LAYERS],
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 256,
        "rope_local_base_freq": 10000.0,
        "sliding_window": 512,
    },
    "m2m_100": {**_SEQ2SEQ, "max_length": 200, "tokenizer_class": "NllbTokenizer"},
    "mbart": {**_SEQ2SEQ, "add_final_layer_norm": True, "max_length": 200, "num_beams": 5},
}
_ASKED = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_E5 = {
    "web_search_query": f"{_ASKED} ",
    "sts_query": "Instruct: Retrieve semantically similar text.\nQuery: ",
    "summarization_query": "Instruct: Given a news summary, retrieve other semantically similar summaries\nQuery: ",
    "bitext_query": "Instruct: Retrieve parallel sentences.\nQuery: ",
}
_GEMMA_SEARCH, _GEMMA_LIKE = "task: search result | query: ", "task: sentence similarity | query: "
_GEMMA_PROMPTS = {
    "query": _GEMMA_SEARCH,
    "document": "title: none | text: ",
    "BitextMining": _GEMMA_SEARCH,
    "Clustering": "task: clustering | query: ",
    "Classification": "task: classification | query: ",
    "InstructionRetrieval": "task: code retrieval | query: ",
    "MultilabelClassification": "task: classification | query: ",
    "PairClassification": _GEMMA_LIKE,
    "Reranking": _GEMMA_SEARCH,
    "Retrieval": _GEMMA_SEARCH,
    "Retrieval-query": _GEMMA_SEARCH,
    "Retrieval-document": "title: none | text: ",
    "STS": _GEMMA_LIKE,
    "Summarization": "task: summarization | query: ",
}
_CHAT = {"do_sample": True, "max_new_tokens": 2048, "temperature": 0.6, "top_k": 20, "top_p": 0.95}


def _minilm(reads: int) -> Form:
    # Its tokenizer.json cuts and pads to 128 word pieces, whatever the pipeline reads.
    return Form("BertModel", "bert", 512, 512, "mean", reads, prompts={}, tokens={"fixed": 128})


def _qwen(positions: int, **more: Any) -> Form:  # noqa: ANN401
    given: dict[str, Any] = {"prompts": {"query": _ASKED, "document": ""}, "generation": _CHAT, **more}
    keys = {"architectures": ["Qwen3ForCausalLM"]}  # whose name for a weight has a prefix that the files lack
    return Form("Qwen3Model", "qwen", positions, 131072, "last", weights="bfloat16", config=keys, **given)


def _harrier(architecture: str, tokenizer: str, **more: Any) -> Form:  # noqa: ANN401
    return Form(architecture, tokenizer, 32768, 32768, "last", prompts=_E5, weights="bfloat16", **more)


FORMS: Mapping[str, Form] = {
    "BAAI/bge-m3": Form(
        "XLMRobertaModel",
        "xlm-roberta",
        8194,
        8192,
        "cls",
        8192,
        prompts={},
        pickled=True,
        config={"hidden_size": 16},  # as its many positions would be most of a larger one
    ),
    "FacebookAI/roberta-base": Form("RobertaForMaskedLM", "roberta", 514, 512),
    "FacebookAI/roberta-large": Form("RobertaForMaskedLM", "roberta", 514, 512),
    "Octen/Octen-Embedding-4B": _qwen(40960, prompts={}, generation=None, sharded=True),
    "Octen/Octen-Embedding-8B": _qwen(40960, prompts={}, generation=None, sharded=True),
    "Qwen/Qwen3-Embedding-0.6B": _qwen(32768),
    "Qwen/Qwen3-Embedding-4B": _qwen(40960, sharded=True),
    "Qwen/Qwen3-Embedding-8B": _qwen(40960, sharded=True),
    "WhereIsAI/UAE-Large-V1": Form("BertModel", "bert", 512, 512, "cls", 512, normalised=False),
    "all-minilm-l6-v2": _minilm(256),
    "all-mpnet-base-v2": Form("MPNetModel", "mpnet", 514, 512, "mean", 384, prompts={}, tokens={"fixed": 128}),
    # Which form the folder of 2021 has is not known: this is that of sentence-transformers in that year.
    "compubert": Form("BertModel", "bert", 512, 512, "mean", 512, normalised=False, base="0_Transformer", pickled=True),
    "cross-encoder/qnli-distilroberta-base": Form(
        "RobertaForSequenceClassification",
        "roberta",
        514,
        512,
        config={"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}},
    ),
    "facebook/mbart-large-50-many-to-many-mmt": Form(
        "MBartForConditionalGeneration",
        "mbart",
        1024,
        config={"forced_eos_token_id": 2},
        generation={
            "decoder_start_token_id": 2,
            "early_stopping": True,
            "forced_eos_token_id": 2,
            "max_length": 200,
            "num_beams": 5,
            **_ENDING,
        },
    ),
    "facebook/nllb-200-distilled-600M": Form(
        "M2M100ForConditionalGeneration",
        "nllb",
        1024,
        1024,
        pickled=True,
        generation={"decoder_start_token_id": 2, "max_length": 200, **_ENDING},
    ),
    "google-bert/bert-base-uncased": Form(
        "BertForPreTraining", "bert", 512, 512, config={"architectures": ["BertForMaskedLM"]}
    ),
    "google/embeddinggemma-300m": Form(
        "Gemma3TextModel",
        "embedding-gemma",
        2048,
        2048,
        "mean",
        2048,
        prompts=_GEMMA_PROMPTS,
        dense=True,
        config={"use_bidirectional_attention": True},
    ),
    "intfloat/e5-mistral-7b-instruct": Form(
        "MistralModel", "mistral", 32768, 0, "last", 4096, prompts=_E5, weights="float16", sharded=True
    ),
    "intfloat/multilingual-e5-large": Form("XLMRobertaModel", "xlm-roberta", 514, 512, "mean", 512),
    # Published with code of its own, which selects one of several adapters and is not run here: this is its base model.
    "jinaai/jina-embeddings-v5-text-nano": Form(
        "EuroBertModel",
        "eurobert",
        8192,
        8192,
        "last",
        prompts={"query": "Query: ", "document": "Document: "},
        weights="bfloat16",
    ),
    "jinaai/jina-embeddings-v5-text-small": _qwen(
        32768, prompts={"query": "Query: ", "document": "Document: "}, generation=None
    ),
    "microsoft/harrier-oss-v1-0.6b": _harrier("Qwen3Model", "qwen"),
    "microsoft/harrier-oss-v1-270m": _harrier("Gemma3TextModel", "embedding-gemma"),
    "microsoft/harrier-oss-v1-27b": _harrier("Gemma3TextModel", "embedding-gemma", sharded=True),
    # The source of this name is a package of the four-bit model with an engine of its own; this is what it was made of.
    "multilingual-e5-small": Form("BertModel", "xlm-roberta", 512, 512, "mean", 512),
    # Published as LlamaBidirectionalModel, code of its own, which is not run here; in Llama a word sees earlier ones.
    "nvidia/llama-embed-nemotron-8b": Form(
        "LlamaModel",
        "llama",
        131072,
        131072,
        "mean",
        prompts={
            "query": "Instruct: Given a question, retrieve passages that answer the question\nQuery: ",
            "document": "",
        },
        weights="bfloat16",
        sharded=True,
        tokens={"padding_side": "left"},
    ),
    "sentence-transformers/all-MiniLM-L12-v2": _minilm(128),
    "tencent/KaLM-Embedding-Gemma3-12B-2511": Form(
        "Gemma3TextModel",
        "embedding-gemma",
        131072,
        32768,
        "last",
        512,
        prompts={
            "query": "Instruct: Given a query, retrieve documents that answer the query \n Query: ",
            "document": "",
        },
        weights="bfloat16",
        sharded=True,
    ),
    "witiko/mathberta": Form("RobertaForMaskedLM", "mathberta", 514, 512, pickled=True),
}

"""Tiny stand-ins, in the form of the published ones, for transformer models and AMR parsers that configurations name.

A stand-in has the class, the kinds of files, the special tokens, the pooling, the prompts and the lengths of the
published model, so that code that reads it can read that. Its weights are random: vectors, scores and translations
mean nothing. The stand-ins for parsers are the packages `transition_amr_parser` and `amrlib`, written into a folder.
They have the calls that the harness makes, with the same arguments, messages and faults as the real packages (IBM's at
6edc0f1, amrlib 0.8.0), and need neither weights nor a GPU. Python finds them when the folder is on `sys.path`, for
instance by `PYTHONPATH`.
"""

from __future__ import annotations

import importlib
import json
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.io.files import write_atomic
from harness.systems import states

_HERE = Path(__file__).parent
_KNOWN = yaml.safe_load((_HERE / "models.yaml").read_text(encoding="utf-8"))
_SHARD = "40KB"
_POOLINGS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
_FLAG = {"cls": "cls_token", "mean": "mean_tokens", "last": "lasttoken"}


@dataclass(frozen=True)
class Form:
    """Form of a published model; the keys are explained in `models.yaml`."""

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


FORMS = {name: Form(**row) for name, row in _KNOWN["models"].items()}


def named_models() -> list[str]:
    """Returns the transformer models that configurations of systems name, sorted; none of language models' servers."""
    models: set[str] = set()
    for name in config.names("system"):
        for part in states.nested_configurations(config.load("system", name)[0]):
            training = part.get("training")
            retriever = training.get("retriever") if isinstance(training, Mapping) else None
            values = (part.get("model"), part.get("tokens"), part.get("teacher"), retriever)
            models |= {value for value in values if isinstance(value, str)}
    return sorted(models - set(config.names("llm")))


def make_model(name: str, folder: Path, seed: int, **keys: object) -> Path:
    """Writes the stand-in of a model into a folder, which is returned.

    The same seed gives the same bytes, whatever else has been made before.

    Parameters
    ----------
    name : a key of `FORMS`.
    folder : of the model's files: config.json, or modules.json, lies in it. It may be missing, or empty.
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
    _tokenizer(base, form)
    try:
        _transformer(base, form, zlib.crc32(f"{seed} {name}".encode()))
    except ImportError as error:
        raise HarnessError(f"{error.name} is not installed: pip install 'mathir-harness[sentences]'") from None
    if form.pooling is not None:
        _sentence_transformer(folder, form, seed)
    return folder


def _tokenizer(folder: Path, form: Form) -> None:
    """Writes the fixed files of a tokenizer with the lengths and keys of a model."""
    shutil.copytree(_HERE / "tokenizers" / form.tokenizer, folder, dirs_exist_ok=True)
    changes = dict(form.tokens)
    fixed = changes.pop("fixed", None)
    about = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    length = {"model_max_length": form.length} if form.length else {}
    write_json(folder / "tokenizer_config.json", {**about, **changes, **length})
    if fixed is not None:
        path, pad = folder / "tokenizer.json", about["pad_token"]
        whole = json.loads(path.read_text(encoding="utf-8"))
        whole["truncation"] = {"direction": "Right", "max_length": fixed, "strategy": "LongestFirst", "stride": 0}
        number = _KNOWN["tokenizers"][form.tokenizer]["pad"]
        padding = {"direction": "Right", "pad_to_multiple_of": None, "pad_id": number, "pad_type_id": 0}
        whole["padding"] = {"strategy": {"Fixed": fixed}, **padding, "pad_token": pad}
        write_json(path, whole)


def write_json(path: Path, value: object) -> None:
    """Writes a file of keys and values, and the folder that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


# ---- transformers -----------------------------------------------------------------------------------------------


def _transformer(folder: Path, form: Form, seed: int) -> None:
    """Writes config.json, weights, and generation_config.json if there is one."""
    import torch
    import transformers

    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    cls: Any = getattr(transformers, form.architecture)
    kind = cls.config_class.model_type
    numbers = {f"{mark}_token_id": number for mark, number in _KNOWN["tokenizers"][form.tokenizer].items()}
    count = numbers.pop("count_token_id")
    keys = {
        "architectures": [form.architecture],
        "model_type": kind,
        "vocab_size": count,
        "max_position_embeddings": form.positions,
        **({"pad_token_id": numbers["pad_token_id"]} if kind == "bert" else numbers),
        **_KNOWN["keys"][kind],
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
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        _rename(folder / "model.safetensors", names)
    write_json(folder / "config.json", keys)  # as published: libraries since have other names for some keys
    (folder / "generation_config.json").unlink(missing_ok=True)
    if form.generation is not None:
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
    size = json.loads((folder / form.base / "config.json").read_text(encoding="utf-8"))["hidden_size"]
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
    weight = torch.randn((outside, inside), generator=torch.Generator().manual_seed(seed)) * 0.3
    safetensors.save_file({"linear.weight": weight}, folder / "model.safetensors", metadata={"format": "pt"})


def make_parsers(folder: Path, seed: int) -> Path:
    """Writes both packages into a folder, and returns it.

    Parameters
    ----------
    seed : decides the graphs.
    """
    graphs = (_HERE / "amr_text.py").read_text(encoding="utf-8")
    for name, module in (("transition_amr_parser", "parse.py"), ("amrlib", "__init__.py")):
        package = folder / name
        package.mkdir(parents=True, exist_ok=True)
        written = (_HERE / "packages" / f"{name}.py.txt").read_text(encoding="utf-8")
        write_atomic(package / module, written.replace("SEED = 0", f"SEED = {seed}"))
        write_atomic(package / "amr_text.py", graphs)
    write_atomic(folder / "transition_amr_parser" / "__init__.py", '"""A stand-in for the transition parser."""\n')
    return folder


def make_parser_model(folder: Path) -> Path:
    """Writes the folder of a model for amrlib, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "amrlib_meta.json", '{"model_type": "stog", "inference_module": "stand-in"}\n')
    return folder

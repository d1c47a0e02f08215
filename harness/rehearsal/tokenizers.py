"""Tokenizers of the kinds that published models have, with a few hundred word pieces learnt from given texts.

The files are those that are published: `tokenizer.json`, and beside it `vocab.txt`, `vocab.json` and `merges.txt`, or a
file of sentencepiece. The same texts give the same bytes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.rehearsal import pieces
from harness.rehearsal.pieces import Merges

_UNKNOWN = "<unk>"
_BERT = ("[PAD]", *(f"[unused{number}]" for number in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA_SPLIT = _QWEN_SPLIT.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)


@dataclass(frozen=True)
class Marks:
    """Numbers that the config.json of a model names.

    Attributes
    ----------
    count : word pieces of a tokenizer, special ones included.
    pad, bos, eos, mask : their numbers; `mask` is None where config.json does not name it.
    """

    count: int
    pad: int
    bos: int
    eos: int
    mask: int | None = None


@dataclass
class _Made:
    """A tokenizer before it is written.

    Attributes
    ----------
    config : of tokenizer_config.json; its special tokens are also those of special_tokens_map.json.
    files : name -> content, of files beside tokenizer.json.
    fast : of the library tokenizers.
    vocabulary : word piece -> number.
    whole : whether a tokenizer.json is published.
    mapped : whether a special_tokens_map.json is published.
    """

    config: dict[str, Any]
    files: dict[str, bytes]
    fast: Any
    vocabulary: Mapping[str, int]
    whole: bool = True
    mapped: bool = True


def write(kind: str, folder: Path, texts: Sequence[str], length: int, **changes: object) -> Marks:
    """Writes the files of a tokenizer of one kind.

    Parameters
    ----------
    kind : a key of `KINDS`.
    texts : to learn word pieces from; all characters of ASCII are added. At most 2,000 lines of 40 words are read.
    length : the most word pieces of a text, `model_max_length` in its files; 0 if they name none.
    changes : keys of tokenizer_config.json that are different; None removes one. The key `fixed` is not written there:
        it is the number of word pieces to which tokenizer.json itself cuts and pads, as some published ones do.

    Raises
    ------
    HarnessError
        A library is not installed.
    """
    try:
        made = KINDS[kind](pieces.lines(texts))
    except ImportError as error:
        raise HarnessError(f"{error.name} is not installed: pip install 'mathir-harness[translation]'") from None
    fixed = changes.pop("fixed", None)
    config = {key: value for key, value in {**made.config, **changes}.items() if value is not None}
    names = [key for key in config if key.endswith(("_token", "_special_tokens")) and not key.startswith("add_")]
    special = {key: _unmarked(config[key]) for key in names}
    if length:
        config["model_max_length"] = length
    number = {key: made.vocabulary.get(_text(value), 0) for key, value in special.items() if key.endswith("_token")}
    if fixed is not None:
        made.fast.enable_truncation(fixed)
        made.fast.enable_padding(length=fixed, pad_id=number["pad_token"], pad_token=_text(special["pad_token"]))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in made.files.items():
        (folder / name).write_bytes(content)
    if made.whole:
        (folder / "tokenizer.json").write_text(made.fast.to_str(pretty=True), encoding="utf-8")
    write_json(folder / "tokenizer_config.json", config)
    if made.mapped:
        write_json(folder / "special_tokens_map.json", special)
    eos = number.get("eos_token", number.get("sep_token", 0))
    bos = number.get("bos_token", number.get("cls_token", eos))
    mask = number.get("mask_token") if kind == "eurobert" else None
    return Marks(len(made.vocabulary), number["pad_token"], bos, eos, mask)


def write_json(path: Path, value: object) -> None:
    """Writes a file of keys and values, and the folder that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _unmarked(token: Any) -> Any:  # noqa: ANN401
    """Returns a special token as special_tokens_map.json has it: without a mark of its class."""
    return {key: value for key, value in token.items() if key != "__type"} if isinstance(token, dict) else token


def _text(token: object) -> str:
    return str(token["content"] if isinstance(token, Mapping) else token)


# ---- kinds ------------------------------------------------------------------------------------------------------


def _word_pieces(lines: Sequence[str]) -> list[str]:
    """Returns word pieces in lower case, then those that go on a word."""
    from tokenizers import normalizers, pre_tokenizers

    lower = normalizers.BertNormalizer(lowercase=True)
    found, _ = pieces.bpe(lines, sorted(set(pieces.ASCII.lower())), pre_tokenizers.BertPreTokenizer(), lower)
    return [*found, *(f"##{piece}" for piece in found)]


def _word_piece_tokenizer(vocabulary: Mapping[str, int]) -> Any:  # noqa: ANN401
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    fast: Any = Tokenizer(models.WordPiece(dict(vocabulary), unk_token=_BERT[-4], max_input_chars_per_word=100))
    fast.normalizer = normalizers.BertNormalizer(lowercase=True)
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return fast


def _bert(lines: Sequence[str]) -> _Made:
    from tokenizers import processors

    ordered = [*_BERT, *_word_pieces(lines)]
    vocabulary = _numbered(ordered)
    fast = _word_piece_tokenizer(vocabulary)
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    fast.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=ends
    )
    special = {f"{name.lower()}_token": f"[{name}]" for name in ("UNK", "SEP", "PAD", "CLS", "MASK")}
    fast.add_special_tokens(["[PAD]", *_BERT[-4:]])
    config = {
        "do_lower_case": True,
        **special,
        "tokenize_chinese_chars": True,
        "strip_accents": None,
        "tokenizer_class": "BertTokenizer",
    }
    return _Made(config, {"vocab.txt": _column(ordered)}, fast, vocabulary)


def _mpnet(lines: Sequence[str]) -> _Made:
    from tokenizers import processors

    ordered = ["<s>", "<pad>", "</s>", "<unk>", *_BERT, *_word_pieces(lines), "<mask>"]
    vocabulary = _numbered(ordered)
    fast = _word_piece_tokenizer(vocabulary)
    fast.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    fast.add_special_tokens(["<s>", "<pad>", "</s>", "[UNK]", _leading("<mask>")])
    special = {**_roberta_special(), "unk_token": "[UNK]"}
    config = {"do_lower_case": True, **special, "tokenize_chinese_chars": True, "tokenizer_class": "MPNetTokenizer"}
    return _Made(config, {"vocab.txt": _column(ordered)}, fast, vocabulary)


def _roberta(lines: Sequence[str]) -> _Made:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    before = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learnt, merges = pieces.bpe(lines, pre_tokenizers.ByteLevel.alphabet(), before)
    vocabulary = _numbered(["<s>", "<pad>", "</s>", "<unk>", *learnt, "<mask>"])
    fast: Any = Tokenizer(models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix=""))
    fast.pre_tokenizer, fast.decoder = before, decoders.ByteLevel()
    fast.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    fast.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", _leading("<mask>")])
    config = {
        "errors": "replace",
        **_roberta_special(),
        "add_prefix_space": False,
        "trim_offsets": True,
        "tokenizer_class": "RobertaTokenizer",
    }
    return _Made(config, _vocabulary_files(vocabulary, merges), fast, vocabulary)


def _mathberta(lines: Sequence[str]) -> _Made:
    """RoBERTa's, with word pieces of LaTeX that were added to it: the marks of formulas, and commands."""
    made = _roberta(lines)
    commands = Counter(found for line in lines for found in re.findall(r"\\[A-Za-z]+", line))
    frequent = [name for name, _ in sorted(commands.items(), key=lambda item: (-item[1], item[0]))[:40]]
    added = ["[MATH]", "[/MATH]", *frequent]
    made.fast.add_tokens(added)
    numbers = {name: made.fast.token_to_id(name) for name in added if name not in made.vocabulary}
    made.files["added_tokens.json"] = json.dumps(numbers).encode()
    made.vocabulary = {**made.vocabulary, **numbers}
    return made


def _byte_level(lines: Sequence[str], split: str, special: Sequence[str]) -> tuple[Any, dict[str, int], Merges]:
    """Returns a tokenizer of bytes whose special tokens come last, its vocabulary without them, and its merges."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    before = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    learnt, merges = pieces.bpe(lines, pre_tokenizers.ByteLevel.alphabet(), before)
    vocabulary = _numbered(learnt)
    fast: Any = Tokenizer(models.BPE(vocabulary, merges))
    fast.pre_tokenizer, fast.decoder = before, decoders.ByteLevel()
    fast.add_special_tokens(list(special))
    return fast, vocabulary, merges


def _qwen(lines: Sequence[str]) -> _Made:
    from tokenizers import normalizers, processors

    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    fast, own, merges = _byte_level(lines, _QWEN_SPLIT, special)
    vocabulary = {**own, **{name: len(own) + at for at, name in enumerate(special)}}
    fast.normalizer = normalizers.NFC()
    end = (special[0], vocabulary[special[0]])
    fast.post_processor = processors.Sequence(
        [
            processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
            processors.TemplateProcessing(single=f"$A {end[0]}", pair=f"$A {end[0]} $B {end[0]}", special_tokens=[end]),
        ]
    )
    config = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(vocabulary[name]): _token(name) for name in special},
        "additional_special_tokens": list(special[1:]),
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
    }
    return _Made(config, _vocabulary_files(own, merges), fast, vocabulary, mapped=False)


def _llama(lines: Sequence[str], end: bool = False) -> _Made:
    """The tokenizer of Llama 3: a tokenizer.json alone, of no class of its own; EuroBERT's ends texts as well."""
    from tokenizers import processors

    special = ("<|begin_of_text|>", "<|end_of_text|>", *(("<|mask|>",) if end else ("<|eot_id|>",)))
    fast, own, _ = _byte_level(lines, _LLAMA_SPLIT, special)
    vocabulary = {**own, **{name: len(own) + at for at, name in enumerate(special)}}
    ends = [(name, vocabulary[name]) for name in special[:2]]
    after = f" {special[1]}" if end else ""
    single, pair = f"{special[0]} $A{after}", f"{special[0]} $A{after} {special[0]}:1 $B:1{after}"
    template = processors.TemplateProcessing(single=single, pair=pair, special_tokens=ends)
    byte_level = processors.ByteLevel(add_prefix_space=True, trim_offsets=False, use_regex=True)
    fast.post_processor = processors.Sequence([byte_level, template])
    config = {
        "added_tokens_decoder": {str(vocabulary[name]): _token(name) for name in special},
        "bos_token": special[0],
        "clean_up_tokenization_spaces": True,
        "eos_token": special[1],
        "model_input_names": ["input_ids", "attention_mask"],
        "pad_token": special[1] if end else special[2],
        **({"mask_token": special[2]} if end else {}),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    return _Made(config, {}, fast, vocabulary)


def _eurobert(lines: Sequence[str]) -> _Made:
    return _llama(lines, end=True)


def _unigram(lines: Sequence[str]) -> tuple[Any, list[tuple[str, float]]]:
    """Returns a file of sentencepiece, and its word pieces in the order of fairseq."""
    model = pieces.sentencepiece(lines, "unigram")
    first = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    return model, [*first, *((piece.piece, piece.score) for piece in model.pieces[3:])]


def _xlm_roberta(lines: Sequence[str]) -> _Made:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    model, ordered = _unigram(lines)
    ordered.append(("<mask>", 0.0))
    vocabulary = _numbered([piece for piece, _ in ordered])
    fast: Any = Tokenizer(models.Unigram(ordered, unk_id=3))
    fast.normalizer = normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)
    space: Any = {"replacement": "▁", "prepend_scheme": "always"}
    words = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(**space)]
    fast.pre_tokenizer, fast.decoder = pre_tokenizers.Sequence(words), decoders.Metaspace(**space)
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    fast.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", _leading("<mask>")])
    config = {**_roberta_special(), "tokenizer_class": "XLMRobertaTokenizer"}
    return _Made(config, {"sentencepiece.bpe.model": model.SerializeToString()}, fast, vocabulary)


def _mbart(lines: Sequence[str]) -> _Made:
    """The tokenizer of mBART-50, which is published without a tokenizer.json."""
    model, ordered = _unigram(lines)
    codes = pieces.MBART.split()
    vocabulary = _numbered([piece for piece, _ in ordered] + codes + ["<mask>"])
    special = {key: value for key, value in _roberta_special().items() if key != "bos_token"}
    config = {
        "language_codes": "ML50",
        **special,
        "additional_special_tokens": codes,
        "tokenizer_class": "MBart50Tokenizer",
    }
    return _Made(config, {"sentencepiece.bpe.model": model.SerializeToString()}, None, vocabulary, whole=False)


def _nllb(lines: Sequence[str]) -> _Made:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    model, codes = pieces.sentencepiece(lines, "bpe"), pieces.NLLB.split()
    own = _numbered(["<s>", "<pad>", "</s>", "<unk>", *(piece.piece for piece in model.pieces[3:])])
    fast: Any = Tokenizer(models.BPE(own, pieces.merges(own), unk_token=_UNKNOWN, fuse_unk=True))
    charsmap = normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)
    fast.normalizer = normalizers.Sequence([charsmap, normalizers.Replace(Regex(" {2,}"), " ")])
    fast.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    fast.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    fast.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", *codes, _leading("<mask>")])
    vocabulary = {name: fast.token_to_id(name) for name in (*own, *codes, "<mask>")}
    ends = [("eng_Latn", vocabulary["eng_Latn"]), ("</s>", 2)]
    fast.post_processor = processors.TemplateProcessing(
        single="eng_Latn $A </s>", pair="eng_Latn $A $B </s>", special_tokens=ends
    )
    config = {**_roberta_special(), "additional_special_tokens": codes, "tokenizer_class": "NllbTokenizer"}
    return _Made(config, {"sentencepiece.bpe.model": model.SerializeToString()}, fast, vocabulary)


def _gemma(lines: Sequence[str], end: bool = False) -> _Made:
    """The tokenizer of Gemma 3; EmbeddingGemma's ends texts as well."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    model = pieces.sentencepiece(
        lines,
        "bpe",
        byte_fallback=True,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        **{f"{name}_id": at for at, name in enumerate(("pad", "eos", "bos", "unk"))},
        **{f"{name}_piece": f"<{name}>" for name in ("pad", "eos", "bos", "unk")},
        user_defined_symbols=["<mask>", "<start_of_turn>", "<end_of_turn>"],
    )
    own = _numbered([piece.piece for piece in model.pieces])
    fast: Any = Tokenizer(models.BPE(own, pieces.merges(own), unk_token=_UNKNOWN, fuse_unk=True, byte_fallback=True))
    fast.normalizer = normalizers.Replace(" ", "▁")
    fast.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    fast.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    fast.add_special_tokens(special)
    single, pair = (
        ("<bos> $A <eos>", "<bos> $A <eos> <bos>:1 $B:1 <eos>:1") if end else ("<bos> $A", "<bos> $A <bos>:1 $B:1")
    )
    fast.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("<bos>", 2), ("<eos>", 1)]
    )
    config = {
        "add_bos_token": True,
        "add_eos_token": end,
        "added_tokens_decoder": {str(own[name]): _token(name) for name in special},
        "bos_token": "<bos>",
        "clean_up_tokenization_spaces": False,
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "padding_side": "left",
        "spaces_between_special_tokens": False,
        "tokenizer_class": "GemmaTokenizer",
    }
    return _Made(config, {"tokenizer.model": model.SerializeToString()}, fast, own)


def _embedding_gemma(lines: Sequence[str]) -> _Made:
    return _gemma(lines, end=True)


def _mistral(lines: Sequence[str]) -> _Made:
    """The tokenizer of Mistral 7B as E5 has it: it ends texts, and pads with their end."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    model = pieces.sentencepiece(lines, "bpe", byte_fallback=True, normalization_rule_name="identity")
    own = _numbered([piece.piece for piece in model.pieces])
    fast: Any = Tokenizer(models.BPE(own, pieces.merges(own), unk_token=_UNKNOWN, fuse_unk=True, byte_fallback=True))
    fast.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    fast.decoder = decoders.Sequence(steps)
    special = ["<unk>", "<s>", "</s>"]
    fast.add_special_tokens(special)
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> <s>:1 $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    config = {
        "add_bos_token": True,
        "add_eos_token": True,
        "added_tokens_decoder": {str(own[name]): _token(name) for name in special},
        "bos_token": "<s>",
        "clean_up_tokenization_spaces": False,
        "eos_token": "</s>",
        "legacy": True,
        "pad_token": "</s>",
        "padding_side": "left",
        "tokenizer_class": "LlamaTokenizer",
        "unk_token": "<unk>",
        "use_default_system_prompt": True,
    }
    return _Made(config, {"tokenizer.model": model.SerializeToString()}, fast, own)


# ---- parts of files ---------------------------------------------------------------------------------------------


def _numbered(ordered: Sequence[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(dict.fromkeys(ordered))}


def _column(ordered: Sequence[str]) -> bytes:
    return "".join(f"{piece}\n" for piece in ordered).encode()


def _vocabulary_files(vocabulary: Mapping[str, int], merges: Merges) -> dict[str, bytes]:
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merges)]
    return {"vocab.json": json.dumps(vocabulary, ensure_ascii=False).encode(), "merges.txt": _column(lines)}


def _token(text: str) -> dict[str, Any]:
    return {
        "content": text,
        "lstrip": False,
        "normalized": False,
        "rstrip": False,
        "single_word": False,
        "special": True,
    }


def _leading(text: str) -> Any:  # noqa: ANN401
    """Returns a special token that takes the blank before it."""
    from tokenizers import AddedToken

    return AddedToken(text, lstrip=True, special=True, normalized=False)


def _roberta_special() -> dict[str, Any]:
    mask = {"content": "<mask>", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False}
    plain = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>"}
    return {**{f"{name}_token": value for name, value in plain.items()}, "mask_token": {**mask, "__type": "AddedToken"}}


KINDS: Mapping[str, Callable[[Sequence[str]], _Made]] = {
    "bert": _bert,
    "mpnet": _mpnet,
    "roberta": _roberta,
    "mathberta": _mathberta,
    "qwen": _qwen,
    "llama": _llama,
    "eurobert": _eurobert,
    "xlm-roberta": _xlm_roberta,
    "mbart": _mbart,
    "nllb": _nllb,
    "gemma": _gemma,
    "embedding-gemma": _embedding_gemma,
    "mistral": _mistral,
}

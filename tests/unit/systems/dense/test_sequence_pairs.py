"""Sequence models as re-rankers, over a tiny T5: logits of two words by the library, truncation, faults."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_models import WORDS, save, word_tokenizer
from lexical_tools import corpus_of
from refusals import refuses

from harness.data.topics import Topic, Topics
from harness.errors import HarnessError
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.dense import encoder, models, pairs
from harness.systems.dense.pairs import PairReading, PairScorerSettings

if lines := encoder.missing():
    pytest.skip(lines[0], allow_module_level=True)

TEMPLATE = "Query: {query} Document: {document} Relevant:"


def save_t5(folder: Path) -> Path:
    """A T5 of 2 layers that splits at blanks; the words of the template and the two outputs are one piece each."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    special = ("<pad>", "</s>", "<unk>", "Query:", "Document:", "Relevant:", "false", "true")
    names = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    words = [f"w{n}" for n in range(WORDS)]
    word_tokenizer(special, words, "$A </s>", model_max_length=20, **names).save_pretrained(folder)
    shape: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        shape |= {"vocab_size": len(special) + WORDS, "decoder_start_token_id": 0}
        config = T5Config(**shape)
        model: Any = T5ForConditionalGeneration(config)
        for value in model.parameters():
            value.data.mul_(3)  # so that logits differ
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_t5(tmp_path_factory.mktemp("t5") / "tiny")


def by_hand(folder: Path, query: str, document: str) -> np.ndarray[Any, Any]:
    """Logits of `false` and `true` at the first position of the output."""
    import torch
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    auto: Any = AutoTokenizer
    kind: Any = T5ForConditionalGeneration
    own, model = auto.from_pretrained(folder), kind.from_pretrained(folder).eval()
    ids = own(TEMPLATE.format(query=query, document=document), return_tensors="pt").input_ids
    with torch.inference_mode():
        logits = model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
    return np.asarray(logits[own.convert_tokens_to_ids(["false", "true"])].numpy())


def test_scores_are_the_logits_of_two_words(folder: Path) -> None:
    scorer = pairs.load_sequence_scorer(models.find_model(str(folder)), PairReading())
    documents = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11"]
    found = scorer.scored(["w1 w2"] * 3, documents)
    assert scorer.labels == ("false", "true")
    assert not found.cut.any()
    for row, document in zip(found.logits, documents, strict=True):
        np.testing.assert_allclose(row, by_hand(folder, "w1 w2", document), atol=1e-4)
    assert found.logits.std(axis=0).min() > 0.01


def test_only_the_document_is_truncated(folder: Path) -> None:
    scorer = pairs.load_sequence_scorer(models.find_model(str(folder)), PairReading(), PairScorerSettings(length=10))
    long = " ".join(f"w{n}" for n in range(30))
    found = scorer.scored(["w1 w2", "w1 w2"], [long, "w0 w1 w2 w3"])
    assert found.cut.tolist() == [True, False]
    np.testing.assert_allclose(found.logits[0], found.logits[1], atol=1e-4)  # 4 of 10 pieces are the document's
    with pytest.raises(HarnessError, match=r"^key 'length' is 10, and the text 'w1 w1.* takes 14 word pieces with its"):
        scorer.scored(["w1 " * 10], [long])


@pytest.mark.slow
def test_a_run_is_ranked_by_the_log_probability(tmp_path: Path, folder: Path) -> None:
    bodies = {f"d{n}": f"w{n} w{2 * n}" for n in range(8)}
    corpus = corpus_of(tmp_path, bodies)
    first = tmp_path / "first.run"
    first.write_text("".join(f"T1 Q0 d{n} {n + 1} {-n} first\n" for n in range(8)))
    built = load_system("monot5", model=str(folder), first=str(first), k=5, device="cpu")
    found = built(Request(Topics((Topic("T1", "w3", "w4"),)), corpus, tmp_path / "workspace")).to_dict()["T1"]
    for number in range(5):
        false, true = by_hand(folder, "w3 w4", bodies[f"d{number}"]).astype(np.float64)
        assert found[f"d{number}"] == pytest.approx(true - np.logaddexp(false, true), abs=1e-4)
    below = [found[f"d{number}"] for number in range(5, 8)]
    assert below == sorted(below, reverse=True)
    assert max(below) < min(found[f"d{number}"] for number in range(5))


def test_no_more_word_pieces_than_positions(tmp_path: Path, folder: Path) -> None:
    """T5 has no positions of its own, so that any length is allowed; a model that states their number has a limit."""
    model = models.find_model(str(folder))
    assert pairs.load_sequence_scorer(model, PairReading(), PairScorerSettings(length=900)).length == 900
    limited = tmp_path / "limited"
    shutil.copytree(folder, limited)
    config = json.loads((limited / "config.json").read_text())
    (limited / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 16}))
    with pytest.raises(HarnessError, match=r"^key 'length' is 17, and model .* has 16 positions; lower it$"):
        pairs.load_sequence_scorer(models.find_model(str(limited)), PairReading(), PairScorerSettings(length=17))
    assert pairs.load_sequence_scorer(models.find_model(str(limited)), PairReading()).length == 16


def test_other_models_and_words_are_refused(tmp_path: Path, folder: Path) -> None:
    model = models.find_model(str(save(tmp_path / "bert")))
    refuses("cannot be loaded", lambda: pairs.load_sequence_scorer(model, PairReading()))
    with pytest.raises(HarnessError, match=r"key 'words': 'no way' is not a single word piece of model .*, but 2"):
        pairs.load_sequence_scorer(models.find_model(str(folder)), PairReading(words=["no way", "true"]))

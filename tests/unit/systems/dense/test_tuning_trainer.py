"""Fine-tuning: steps written out again, exact resumption, early stopping, memory, and real classes of models."""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from tuning_tools import COMMON, KINDS, WORDS, courses, one_thread, sentence_transformer, settings, stop_at, transformer

from harness.errors import HarnessError
from harness.systems.dense import encoder, models
from harness.systems.dense.training.data import Examples

__all__ = ["courses", "one_thread"]  # fixtures

torch = pytest.importorskip("torch", reason="torch is not installed (extra sentences)")
if importlib.util.find_spec("sentence_transformers") is None:  # its import takes seconds
    pytest.skip("sentence-transformers is not installed (extra sentences)", allow_module_level=True)

from harness.systems.dense.training import loop, trainer  # noqa: E402
from harness.systems.dense.training.trainer import Learner  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "courses")


def pairs(epochs: int = 3, seed: int = 0) -> Examples:
    """Questions whose relevant documents share their words, and sampled pairs of an epoch."""
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    query: list[int] = []
    document: list[int] = []
    positive: list[bool] = []
    for number in range(12):
        own = list(WORDS[2 * number : 2 * number + 2])
        texts.append(" ".join(rng.choice([*own, *COMMON], int(rng.integers(4, 20))).tolist()) + f" {own[0]}")
        asked = len(texts) - 1
        for good in (True, False, True):
            there = own if good else list(WORDS[:2] if number else WORDS[4:6])
            texts.append(" ".join(rng.choice([*there, *COMMON], int(rng.integers(3, 40))).tolist()) + f" {there[0]}")
            query.append(asked)
            document.append(len(texts) - 1)
            positive.append(good)
    label = np.array(positive, np.float32)
    numbers = np.arange(len(query))
    drawn = [rng.choice(24, 5, replace=False) for _ in range(epochs)]
    return Examples(
        tuple(texts),
        np.array(query),
        np.array(document),
        label,
        np.array(positive),
        numbers[:24],
        numbers[24:],
        tuple(drawn),
        tuple((str(q), str(d)) for q, d in zip(query, document, strict=True)),
        {},
    )


def of_kind(kind: str, examples: Examples) -> Examples:
    """Without what a bi-encoder does not learn."""
    if kind == "cross":
        return examples
    good = examples.positive
    epochs = tuple(epoch[good[epoch]] for epoch in examples.epochs)
    return replace(examples, train=examples.train[good[examples.train]], epochs=epochs)


def made(folder: Path, kind: str = "cross", dropout: float = 0.1, family: str = "bert", **changes: object) -> Learner:
    where = folder / f"{kind}-{family}-{dropout}"
    if not where.exists():
        (sentence_transformer if kind == "bi" else transformer)(where, kind=family, dropout=dropout)
    tuning = settings(kind, **changes)
    examples = of_kind(kind, pairs(tuning.epochs))
    return trainer.learner(kind, models.find_model(str(where)), examples, tuning, "cpu")


def silent(line: str) -> None:
    pass


def weights(learner: Learner) -> dict[str, Any]:
    return {name: value.clone() for name, value in learner.model.state_dict().items()}


def equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


# ---- what a step does -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cross", "bi"])
@pytest.mark.parametrize("family", KINDS)
def test_passes_by_length_change_nothing_that_is_learnt(tmp_path: Path, kind: str, family: str) -> None:
    numbers = np.arange(0, 24, 2)
    found = []
    for tokens in (1, 60, 10_000):
        learner = made(tmp_path, kind, 0.0, family, tokens=tokens, batch=12)
        loss = learner.learn(numbers)
        assert learner.loss(numbers) == pytest.approx(loss, abs=1e-6)
        gradients = {name: p.grad for name, p in learner.model.named_parameters() if p.grad is not None}
        found.append((loss, gradients))
    for loss, gradients in found[1:]:
        assert loss == pytest.approx(found[0][0], abs=1e-5)
        assert gradients.keys() == found[0][1].keys()
        assert all(torch.allclose(gradients[key], found[0][1][key], atol=1e-5) for key in gradients)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cross", "bi"])
def test_an_epoch_by_hand(tmp_path: Path, kind: str) -> None:
    """Order, rate with warm-up, clipping, weight decay and losses as they are said to be; without dropout."""
    changes: dict[str, Any] = {"epochs": 1, "clip": 0.05, "weight_decay": 0.3, "warmup": 0.5, "least_rate": 1e-4}
    learner = made(tmp_path, kind, 0.0, **changes)
    log = trainer.train(learner, tmp_path / "work", {}, silent)
    other = made(tmp_path, kind, 0.0, **changes)
    model, examples, tuning = other.model, other.examples, other.tuning
    free = [p for name, p in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    kept = [p for p in model.parameters() if not any(p is one for one in free)]
    optimizer = torch.optim.AdamW([{"params": kept, "weight_decay": 0.3}, {"params": free, "weight_decay": 0.0}])
    numbers = np.concatenate((examples.train, examples.epochs[0]))
    order = numbers[np.random.default_rng([tuning.seed, 0]).permutation(len(numbers))]
    batches = [order[i : i + 4] for i in range(0, len(order), 4)]
    batches = [part for part in batches if len(part) > (kind == "bi")]
    losses = []
    warm = round(0.5 * len(batches))
    for number, part in enumerate(batches):
        rate = 1e-3 * (number + 1) / warm
        if number >= warm:
            rate = 1e-4 + (1e-3 - 1e-4) * (1 - (number - warm) / (len(batches) - warm))
        asked = [examples.texts[i] for i in examples.query[part]]
        answers = [examples.texts[i] for i in examples.document[part]]
        optimizer.zero_grad()
        if kind == "cross":
            encoded = other.tokenizer(asked, answers, truncation=True, max_length=32, padding=True, return_tensors="pt")
            logits = model(**encoded).logits[:, 0]
            label = torch.tensor(examples.label[part])
            loss = torch.nn.functional.softplus(logits).sub(label * logits).mean()
        else:
            sides = [model(model.preprocess(side))["sentence_embedding"] for side in (asked, answers)]
            cosines = 20 * sides[0] @ sides[1].T
            same = torch.tensor(examples.query[part][:, None] == examples.query[part][None])
            same |= torch.tensor(examples.document[part][:, None] == examples.document[part][None])
            cosines = cosines.masked_fill(same & ~torch.eye(len(part), dtype=torch.bool), -torch.inf)
            loss = -torch.log_softmax(cosines, 1).diagonal().mean()
        losses.append(loss.item())
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    assert log[1]["training loss"] == pytest.approx(np.mean(losses), abs=1e-4)
    mine, theirs = learner.model.state_dict(), model.state_dict()
    assert all(torch.allclose(mine[name], theirs[name], atol=2e-4) for name in mine)
    assert not all(torch.equal(mine[name], made(tmp_path, kind, 0.0).model.state_dict()[name]) for name in mine)


def test_a_head_is_drawn_from_the_seed_and_the_body_is_the_models(tmp_path: Path) -> None:
    torch.manual_seed(1)
    first = made(tmp_path, seed=1).model.state_dict()
    torch.manual_seed(2)
    again, other = made(tmp_path, seed=1).model.state_dict(), made(tmp_path, seed=2).model.state_dict()
    assert equal(first, again)
    differ = {name for name in first if not torch.equal(first[name], other[name])}
    assert differ
    assert all(name.startswith("classifier") for name in differ)


# ---- stopping and going on --------------------------------------------------------------------------------------


class Stopped(Exception):  # noqa: N818
    pass


def stopping(learner: Learner, at: int) -> Callable[[Any], float]:
    """`learn`, which ends the work at a step; whatever it has added to gradients by then."""
    real, count = learner.learn, 0

    def learn(numbers: Any) -> float:  # noqa: ANN401
        nonlocal count
        count += 1
        if count == at:
            real(numbers[:2])
            raise Stopped
        return real(numbers)

    return learn


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cross", "bi"])
def test_stopped_at_random_steps_it_ends_with_the_same_weights(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = made(tmp_path, kind, every=3)
    log = trainer.train(whole, tmp_path / "whole", {"of": "this"}, silent)
    rng = random.Random(kind)
    for number in range(2):
        folder = tmp_path / f"parts{number}"
        stops = 0
        for at in [rng.randrange(1, 9) for _ in range(6)] + [10_000]:
            learner = made(tmp_path, kind, every=3)
            monkeypatch.setattr(learner, "learn", stopping(learner, at))
            try:
                found = trainer.train(learner, folder, {"of": "this"}, silent)
                break
            except Stopped:
                stops += 1
        assert stops
        assert found == log
        assert equal(weights(learner), weights(whole))


@pytest.mark.slow
def test_early_stopping(tmp_path: Path) -> None:
    # A rate of zero never lowers the validation loss after the first epoch.
    log = trainer.train(made(tmp_path, epochs=9, rate=0, patience=2), tmp_path / "work", {}, silent)
    assert len(log) == 1 + 1 + 2


@pytest.mark.slow
def test_a_checkpoint_of_another_training_is_one_line(tmp_path: Path) -> None:
    trainer.train(made(tmp_path, epochs=1), tmp_path / "work", {"training": "one"}, silent)
    before = (tmp_path / "work" / loop.LAST).read_bytes()
    said = r"last\.pt: the checkpoint belongs to another training"
    refuses(said, lambda: trainer.train(made(tmp_path, epochs=1), tmp_path / "work", {"training": "two"}, silent))
    assert (tmp_path / "work" / loop.LAST).read_bytes() == before


def test_memory_that_runs_out_is_one_line_and_keeps_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = made(tmp_path, every=1)
    stop_at(monkeypatch, learner, "learn", 4, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    with pytest.raises(
        HarnessError, match=r"out of memory at epoch 1, step 4 with .*: lower the key 'tokens'"
    ) as error:
        trainer.train(learner, tmp_path / "work", {}, silent)
    assert "\n" not in str(error.value)
    assert loop.read_checkpoint(tmp_path / "work" / loop.LAST)["state"]["step"] == 3


def test_a_loss_that_is_no_number_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"training: the (validation )?loss is .*; lower the learning rate"):
        trainer.train(made(tmp_path, rate=1e30, clip=1e30, warmup=0.0), tmp_path / "work", {}, silent)


# ---- models -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("family", KINDS)
def test_a_saved_cross_encoder_is_loaded_by_its_library_and_scores_the_same(tmp_path: Path, family: str) -> None:
    learner = made(tmp_path, family=family, epochs=1)
    trainer.train(learner, tmp_path / "work", {}, silent)
    learner.save(tmp_path / "saved")
    examples, numbers = learner.examples, np.arange(36)
    with torch.no_grad():
        expected = learner.scores(numbers)
    st = importlib.import_module("sentence_transformers")
    loaded = st.CrossEncoder(str(tmp_path / "saved"), device="cpu")
    texts = [(examples.texts[q], examples.texts[d]) for q, d in zip(examples.query, examples.document, strict=True)]
    found = loaded.predict(texts, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    assert np.allclose(found, expected, atol=1e-5)
    assert len(set(np.round(expected, 6).tolist())) > 20
    again, _ = trainer.cross_encoder(models.find_model(str(tmp_path / "saved")), seed=99)
    assert equal(again.state_dict(), learner.model.state_dict())  # a head that is there is kept


@pytest.mark.slow
def test_a_saved_bi_encoder_is_loaded_by_its_library_and_scores_the_same(tmp_path: Path) -> None:
    learner = made(tmp_path, "bi", epochs=1, prefixes={"query": "what is ", "document": "see "})
    trainer.train(learner, tmp_path / "work", {}, silent)
    learner.save(tmp_path / "saved")
    examples, numbers = learner.examples, np.arange(36)
    with torch.no_grad():
        expected = learner.scores(numbers)
    st = importlib.import_module("sentence_transformers")
    loaded = st.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert loaded.max_seq_length == 32
    queries = loaded.encode([f"what is {examples.texts[i]}" for i in examples.query])
    documents = loaded.encode([f"see {examples.texts[i]}" for i in examples.document])
    assert np.allclose((queries * documents).sum(1), expected, atol=1e-5)
    # It keeps the prefixes that it has learnt with, for who reads it without naming any.
    served = encoder.load(str(tmp_path / "saved"))
    asked = served.encode([examples.texts[i] for i in examples.query], "query")
    answers = served.encode([examples.texts[i] for i in examples.document])
    assert np.allclose((asked * answers).sum(1), expected, atol=1e-5)


def test_pairs_of_one_question_do_not_validate_among_themselves(tmp_path: Path) -> None:
    learner = made(tmp_path, "bi", 0.0, batch=4)
    examples, batch = learner.examples, 4
    # Three questions with eight relevant documents each, one question after the other as judgments are written.
    query = np.repeat(examples.query[:9:3], 8)
    document = np.concatenate([examples.document[:24]])
    held = np.arange(24)
    many = replace(examples, query=query, document=document, positive=np.ones(24, bool), held=held)
    learner.examples = many
    mixed = learner.validating()
    assert sorted(mixed.tolist()) == held.tolist()
    assert learner.validating().tolist() == mixed.tolist()
    alone = sum(len(set(query[mixed[begin : begin + batch]])) == 1 for begin in range(0, 24, batch))
    assert alone == 0


def test_models_that_cannot_be_tuned_are_one_line(tmp_path: Path) -> None:
    refuses(r"key 'length' is 65, and model .* reads 64 word pieces", lambda: made(tmp_path, length=65))
    refuses(r"key 'length' is 65, and model .* reads 64 word pieces", lambda: made(tmp_path, "bi", length=65))
    folder = transformer(tmp_path / "strange")
    (folder / "config.json").write_text('{"model_type": "no-such-type"}', encoding="utf-8")
    refuses(r"model .*strange: cannot be loaded: ", lambda: trainer.cross_encoder(models.find_model(str(folder)), 1))


def test_a_file_that_lacks_a_layer_is_not_filled_up_with_random_numbers(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = transformer(tmp_path / "lacking")
    found = load_file(folder / "model.safetensors")
    for name in [name for name in found if "layer.1.attention.self.query" in name]:
        del found[name]
    save_file(found, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(HarnessError, match=r"its file lacks 'bert.encoder.layer.1.attention.self.query"):
        trainer.cross_encoder(models.find_model(str(folder)), 1)


def test_order_by_hand() -> None:
    scores = np.array([0.9, 0.5, 0.5, 0.1, 0.7, 0.2])
    positive = np.array([True, False, True, False, False, True])
    query = np.array([1, 1, 1, 1, 2, 2])
    # Question 1: .9 before .5 and .1; .5 ties with .5 and comes before .1. Question 2: .2 comes after .7.
    assert trainer.in_order(scores, positive, query) == pytest.approx((1 + 1 + 0.5 + 1 + 0) / 5)
    assert trainer.in_order(scores, np.ones(6, bool), query) == 0.5


# ---- losses of fine-tuning --------------------------------------------------------------------------------------


def test_ranking_loss_by_hand() -> None:
    queries = torch.tensor([[2.0, 0.0], [0.0, 5.0]])
    documents = torch.tensor([[3.0, 0.0], [1.0, 1.0]])
    cosine = 1 / math.sqrt(2)
    # Query 1: its own document has cosine 1, the other .7071; query 2: its own .7071, the other 0.
    first = math.log1p(math.exp(20 * (cosine - 1)))
    second = math.log1p(math.exp(20 * (0 - cosine)))
    none = torch.zeros(2, 2, dtype=torch.bool)
    found = trainer.multiple_negatives_ranking(queries, documents, none)
    assert found.item() == pytest.approx((first + second) / 2, rel=1e-5)
    halved = trainer.multiple_negatives_ranking(queries, documents, none, scale=10.0).item()
    first, second = math.log1p(math.exp(10 * (cosine - 1))), math.log1p(math.exp(-10 * cosine))
    assert halved == pytest.approx((first + second) / 2, rel=1e-5)


def test_what_is_excluded_is_no_negative() -> None:
    rng = torch.Generator().manual_seed(0)
    queries, documents = torch.randn(3, 4, generator=rng), torch.randn(3, 4, generator=rng)
    out = torch.zeros(3, 3, dtype=torch.bool)
    out[0, 1] = out[1, 0] = True
    found = trainer.multiple_negatives_ranking(queries, documents, out)
    cosines = torch.nn.functional.cosine_similarity(queries[:, None], documents[None], dim=2) * 20
    rows = [[0, 2], [1, 2], [0, 1, 2]]
    each = [torch.logsumexp(cosines[number, kept], 0) - cosines[number, number] for number, kept in enumerate(rows)]
    assert found.item() == pytest.approx(torch.stack(each).mean().item(), rel=1e-5)
    alone = ~torch.eye(3, dtype=torch.bool)
    assert trainer.multiple_negatives_ranking(queries, documents, alone).item() == pytest.approx(0, abs=1e-6)


def test_same_questions_duplicates_and_known_answers_are_excluded() -> None:
    # Pairs 0 and 1 are of one question, pair 2 has the document of pair 0, pair 3's document also answers question 4.
    query, document = np.array([0, 0, 2, 3, 4]), np.array([10, 11, 10, 13, 14])
    out = trainer.excluded(query, document, frozenset({(4, 13), (0, 10), (3, 13)}))
    expected = {(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (4, 3)}
    assert {(int(i), int(j)) for i, j in np.argwhere(out)} == expected


@pytest.mark.slow
def test_losses_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    st = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = st.SentenceTransformer(str(sentence_transformer(tmp_path / "model", dropout=0.0)), device="cpu")
    queries, documents = ["integral of x", "the group ism", "primeal"], ["integralic", "groupoid y", "prime number"]
    theirs = MultipleNegativesRankingLoss(model)
    features = [model.preprocess(side) for side in (queries, documents)]
    expected = theirs(features, torch.zeros(3)).item()
    vectors = [torch.tensor(model.encode(side)) for side in (queries, documents)]
    none = torch.zeros(3, 3, dtype=torch.bool)
    assert trainer.multiple_negatives_ranking(vectors[0], vectors[1], none).item() == pytest.approx(expected, abs=1e-5)
    logits, labels = torch.randn(7), torch.rand(7)
    expected = torch.nn.BCEWithLogitsLoss()(logits, labels).item()  # what its BinaryCrossEntropyLoss takes
    assert trainer.binary_cross_entropy(logits, labels).item() == pytest.approx(expected)


# ---- what all trainings share -----------------------------------------------------------------------------------


def test_rate_falls_along_half_a_cosine() -> None:
    assert loop.learning_rate(0, 100, 1.0, 0.2) == pytest.approx(1.0)
    assert loop.learning_rate(50, 100, 1.0, 0.2) == pytest.approx(0.6)
    assert loop.learning_rate(25, 100, 1.0, 0.2) == pytest.approx(0.2 + 0.4 * (1 + math.cos(math.pi / 4)))
    assert loop.learning_rate(100, 100, 1.0, 0.2) == pytest.approx(0.2)


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_rate_rises_before_it_falls(shape: str) -> None:
    rates = [loop.learning_rate(step, 20, 2.0, 0.5, warmup=5, shape=shape) for step in range(21)]
    assert rates[:5] == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])
    assert rates[5] == pytest.approx(2.0)
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[20] == pytest.approx(0.5)
    middle = 0.5 + 1.5 * (2 / 3 if shape == "linear" else 0.5 * (1 + math.cos(math.pi / 3)))
    assert rates[10] == pytest.approx(middle)


def test_what_is_random_is_decided_by_the_numbers_and_leaves_the_rest_alone() -> None:
    def drawn(*numbers: int) -> list[float]:
        with loop.seeded_globally(*numbers):
            return list(torch.rand(3).tolist())

    torch.manual_seed(5)
    expected = torch.rand(3).tolist()
    torch.manual_seed(5)
    first = drawn(1, 2, 3)
    assert torch.rand(3).tolist() == expected
    assert drawn(1, 2, 3) == first
    assert first not in (drawn(1, 2, 4), drawn(1, 3, 3), drawn(2, 2, 3))
    assert torch.rand(2, generator=loop.seeded(1, 2, 3)).tolist() == first[:2]


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    content: dict[str, Any] = {"a": torch.arange(5), "b": {"c": [1.5, "d"], "e": torch.randn(3, 70_000)}, "f": None}
    loop.write_checkpoint(tmp_path / "x.pt", content)
    found = loop.read_checkpoint(tmp_path / "x.pt")
    assert found.keys() == content.keys()
    assert torch.equal(found["a"], torch.arange(5))
    assert torch.equal(found["b"]["e"], content["b"]["e"])
    assert (found["b"]["c"], found["f"]) == ([1.5, "d"], None)
    assert loop.is_intact_checkpoint(tmp_path / "x.pt")
    data = (tmp_path / "x.pt").read_bytes()
    (tmp_path / "x.pt").write_bytes(data[:-1])
    assert not loop.is_intact_checkpoint(tmp_path / "x.pt")
    for at in np.random.default_rng(0).integers(0, len(data), 60).tolist():
        (tmp_path / "flipped.pt").write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        assert not loop.is_intact_checkpoint(tmp_path / "flipped.pt")
    said = r"x\.pt: not a checkpoint, or damaged: it ends otherwise"
    refuses(said, lambda: loop.read_checkpoint(tmp_path / "x.pt"))
    refuses("no such checkpoint", lambda: loop.read_checkpoint(tmp_path / "none.pt"))

"""Settings of fine-tuning. This module avoids heavy imports so that a configuration can be checked quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from harness.errors import HarnessError
from harness.io import checks, config
from harness.io.checks import Natural, Number, Positive, Share
from harness.systems.dense import texts

KINDS = ("bi", "cross")


@dataclass(frozen=True)
class Tuning:
    """Settings of fine-tuning; the defaults are MIRMU's at ARQMath 2022 (3.1), where the paper states them.

    Attributes
    ----------
    collections : collections whose judgments are trained on, each as `COLLECTION` or `COLLECTION/EDITION`.
    leave_out : evaluated collections, or editions of them as `COLLECTION/EDITION`; their topics and judged posts are
        excluded from training. The model can only be run on these; of an edition, only its topics are ranked.
    query, document : fields of questions (title, body, tags) and of documents that make up their texts.
    view : `latex`, `text` or `mathberta`: see `harness.systems.dense.texts.of_document`.
    length : maximum word pieces of a text, or of question and document together for a cross-encoder.
    seed : of the order of topics, the sampled pairs and the order of batches, each together with the epoch.
    prefixes : role (`query`, `document`) -> prefix of its texts (bi-encoders); null: the model's own.
    labels : labels of judged pairs, which the paper does not state. `binary`: 1 from grade `relevant` up, else 0.
        `scaled`: the grade divided by `highest`. A bi-encoder trains on pairs of grade `relevant` up in either case.
    relevant : lowest grade of a positive.
    highest : grade that is the label 1 with `labels: scaled`.
    additional : sampled pairs of an epoch, for each training query (`additional_per: query`, where a tenth of the
        samples of the paper's ten questions gives the paper's numbers) or each judged pair (`judgment`).
    additional_per : `query` or `judgment`: see `additional`.
    positive_ratio : share of positives among sampled pairs; 1 for bi-encoders, which use in-batch negatives.
    positives : answers that count as positives for their question: those with at least so many `votes` (the paper: 50),
        the `accepted` answer, or any answer of the `thread` for corpora without votes and accepted answers.
    votes : least votes of a positive with `positives: votes`.
    negative_questions, negatives_per_question : questions drawn at the start of each epoch, and negatives for each: the
        documents most similar to the question that share no tag with it. Similarity is that of `retriever`, an untuned
        bi-encoder that reads texts in `retriever_view`.
    retriever, retriever_view : untuned bi-encoder that negatives are drawn by, and the view of texts that it reads.
    validation : share of topics held out for validation; training stops when their loss no longer falls.
    validate_on : training collections whose topics are held out instead.
    validate_topics : ids of topics of the training collections that are held out instead.
    batch : pairs in a training step.
    epochs, patience : maximum number of epochs, and of epochs without a lower validation loss.
    rate, least_rate, warmup, schedule : the learning rate rises to `rate` during the share `warmup` of all steps, then
        falls to `least_rate`, linearly (`linear`) or along half a cosine (`cosine`).
    weight_decay : of AdamW; scalars, biases and LayerNorm have none.
    clip : maximum norm of the gradient.
    scale : factor of cosines in the ranking loss of bi-encoders.
    autocast : compute in bfloat16 where torch allows it.
    tokens : word pieces of one forward pass, padding included; batches are split by length. The split does not change
        the gradients of a batch, up to rounding and dropout.
    every : steps between two checkpoints.

    Raises
    ------
    HarnessError
        A value is out of range, a collection is unknown, or a collection is both trained on and left out.
    """

    collections: tuple[str, ...]
    leave_out: tuple[str, ...]
    seed: Natural = 1
    query: tuple[str, ...] = ("title", "body")
    document: tuple[str, ...] = ("body",)
    view: texts.View = "latex"
    length: Annotated[int, partial(checks.check_whole_number, low=8)] = 256
    prefixes: Mapping[str, str] | None = None
    labels: Literal["binary", "scaled"] = "binary"
    relevant: Number = 2.0
    highest: Number = 3.0
    additional: Number = 1.0
    additional_per: Literal["query", "judgment"] = "query"
    positive_ratio: Share = 0.5
    positives: Literal["votes", "accepted", "thread"] = "thread"
    votes: Natural = 50
    negative_questions: Positive = 10
    negatives_per_question: Positive = 10
    retriever: str = "all-minilm-l6-v2"
    validation: Share = 0.1
    validate_on: tuple[str, ...] = ()
    validate_topics: tuple[str, ...] = ()
    batch: Positive = 16
    epochs: Positive = 10
    patience: Positive = 2
    rate: Number = 2e-5
    least_rate: Number = 0.0
    warmup: Share = 0.1
    schedule: Literal["linear", "cosine"] = "linear"
    weight_decay: Number = 0.01
    clip: Number = 1.0
    scale: Number = 20.0
    autocast: bool = False
    tokens: Positive = 4096
    every: Positive = 50

    def __post_init__(self) -> None:
        if not self.collections:
            raise HarnessError("key 'collections' is empty, expected the collections whose judgments are trained on")
        for key, names in (("collections", self.collections), ("leave_out", self.leave_out)):
            for name in names:
                config.load("collection", name.partition("/")[0], f"key {key!r}")
        if both := [name for name in self.collections if _within(name, self.leave_out)]:
            raise HarnessError(f"key 'leave_out': {both[0]} is trained on as well; name it in one of the two keys")
        if strange := [name for name in self.validate_on if name not in self.collections]:
            raise HarnessError(f"key 'validate_on': {strange[0]} is not among 'collections', whose topics it holds out")
        if self.validate_on and self.validate_topics:
            raise HarnessError("keys 'validate_on' and 'validate_topics' both say what is held out; give one of them")
        texts.check("query", self.query, texts.TOPIC_FIELDS)
        texts.check("document", self.document)
        if not self.highest:
            raise HarnessError("key 'highest' is 0, expected the highest grade")

    @property
    def retriever_view(self) -> texts.View:
        """View of texts for the retriever of negatives: `view`, but `latex` in place of `mathberta`."""
        return "latex" if self.view == "mathberta" else self.view

    def trains_without(self) -> frozenset[str]:
        """Returns the collections left out of training; the model can only be run on these."""
        return frozenset(self.leave_out)

    def notes(self) -> tuple[str, ...]:
        """Returns notes for readers of the model's results: what it was trained on and what was left out."""
        sampled = {
            "votes": f"answers of {self.votes} votes or more",
            "accepted": "accepted answers",
            "thread": "any answer of a thread, as votes are not known",
        }[self.positives]
        more = f", and on sampled pairs (positives: {sampled})" if self.additional else ""
        left = ", ".join(self.leave_out) or "no collection"
        said = f"Fine-tuned on the judgments of {', '.join(self.collections)}{more}"
        return (f"{said}; left out were the topics and judged posts of {left}.",)


def _within(name: str, left_out: tuple[str, ...]) -> bool:
    """Returns whether a collection or edition is left out; a collection without edition stands for all its editions."""
    called, _, edition = name.partition("/")
    of_it = [other for other in left_out if other.partition("/")[0] == called]
    return called in of_it or name in of_it or (bool(of_it) and not edition)


def tuning(kind: str, settings: object) -> Tuning:
    """Returns the settings of a configuration's key `training`, checked for a kind of model.

    Raises
    ------
    HarnessError
        Keys are unknown, missing or wrong (one line for each); or a bi-encoder has sampled negatives or a batch of 1.
    """
    checks.choice("kind", kind, KINDS)
    checked = checks.typed(Tuning, settings, "key 'training'")
    if kind == "bi" and checked.additional and checked.positive_ratio < 1:
        raise HarnessError(
            f"key 'training': key 'positive_ratio' is {checked.positive_ratio:g}, and a bi-encoder takes its negatives "
            "from the batch; say 1, or 'additional: 0' for judged pairs alone"
        )
    if kind == "bi" and checked.batch < 2:
        raise HarnessError(
            "key 'training': key 'batch' is 1, and a bi-encoder takes its negatives from the batch; say 2 or more"
        )
    return checked

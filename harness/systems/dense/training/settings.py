"""How a model is fine-tuned. Free of heavy libraries, so that a configuration is checked before they are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from harness.errors import HarnessError
from harness.io import checks, config
from harness.systems.dense import texts

KINDS = ("bi", "cross")
Share = Annotated[float, partial(checks.number, high=1.0)]
Number = Annotated[float, checks.number]
Natural = Annotated[int, checks.whole]
Positive = Annotated[int, partial(checks.whole, low=1)]


@dataclass(frozen=True)
class Tuning:
    """How a model is fine-tuned: as MIRMU's at ARQMath 2022 (3.1), where the paper says how.

    Attributes
    ----------
    collections : whose judgments are trained on, each as `COLLECTION` or `COLLECTION/EDITION`.
    leave_out : collections that are evaluated, or editions of them as `COLLECTION/EDITION`: nothing of their topics or
        judged posts is trained on. What is run must be among them; of an edition, only its topics are then ranked.
    query, document : fields of questions (title, body, tags) and of documents that are read.
    view : `latex`, `text` or `mathberta`: see `harness.systems.dense.texts.of_document`.
    length : word pieces that are read of a text, or of question and document together by a cross-encoder.
    prefixes : role (`query`, `document`) -> what stands before its texts (bi-encoders); null: the model's own.
    labels : of judged pairs, which the paper does not say. `binary`: 1 from grade `relevant` up, else 0. `scaled`: the
        grade divided by `highest`. The pairs that a bi-encoder learns are those of grade `relevant` up in any case.
    additional : sampled pairs of an epoch, for each query that is trained on (`additional_per: query`, where a tenth of
        the paper's ten questions' samples comes to its numbers) or each judged pair (`judgment`).
    positive_ratio : share of positives among the sampled; 1 for bi-encoders, whose negatives are those of the batch.
    positives : question and answer of one thread with at least so many `votes` (the paper: 50), the `accepted` answer,
        or any answer of the `thread` where the corpus knows neither.
    negative_questions, negatives_per_question : at the start of each epoch so many questions are drawn, and for each
        so many of the documents most similar by `retriever`, an untuned bi-encoder, that share no tag with it. It reads
        the texts as `retriever_view` says.
    validation : share of the topics whose judged pairs are held out; training stops when their loss falls no more.
    validate_on : collections, of those trained on, whose topics are held out instead.
    validate_topics : ids of topics of those collections that are held out instead.
    batch : pairs a step.
    epochs, patience : how many at most, and without a lower validation loss.
    rate, least_rate, warmup, schedule : the learning rate rises over the share `warmup` of all steps to `rate`, then
        falls to `least_rate`, in a line (`linear`) or half a `cosine`.
    clip : the largest norm of the gradient.
    scale : of cosines, for the ranking loss of bi-encoders.
    autocast : compute in bfloat16 where torch allows it.
    tokens : word pieces, padding included, that go through the model at one time; batches are taken apart by length.
        What is learnt of a batch stays the same, up to rounding and dropout.
    every : steps between two checkpoints.

    Raises
    ------
    HarnessError
        A value is out of its range, a collection is unknown, or both trained on and left out.
    """

    collections: tuple[str, ...]
    leave_out: tuple[str, ...]
    seed: Natural = 1
    query: tuple[str, ...] = ("title", "body")
    document: tuple[str, ...] = ("body",)
    view: texts.View = "latex"
    length: Annotated[int, partial(checks.whole, low=8)] = 256
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
        texts.check("query", self.query, self.view, texts.TOPIC_FIELDS)
        texts.check("document", self.document, self.view)
        if not self.highest:
            raise HarnessError("key 'highest' is 0, expected the highest grade")

    @property
    def retriever_view(self) -> texts.View:
        """How the retriever of negatives reads texts: as `view` says, but not in a form that only MathBERTa knows."""
        return "latex" if self.view == "mathberta" else self.view

    def trains_without(self) -> frozenset[str]:
        """Returns the collections of which it has seen nothing; what is run must be one of them."""
        return frozenset(self.leave_out)

    def notes(self) -> tuple[str, ...]:
        """Returns what a reader of its numbers must know."""
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
    """Whether a collection or edition is left out; a collection named without one may mean any of its editions."""
    called, _, edition = name.partition("/")
    of_it = [other for other in left_out if other.partition("/")[0] == called]
    return called in of_it or name in of_it or (bool(of_it) and not edition)


def tuning(kind: str, settings: object) -> Tuning:
    """Returns the settings of a configuration's key `training`, checked for a kind of model.

    Raises
    ------
    HarnessError
        Keys that are unknown, missing or wrong, a line each; or a bi-encoder's with sampled negatives.
    """
    checks.choice("kind", kind, KINDS)
    found = checks.typed(Tuning, settings, "key 'training'")
    if kind == "bi" and found.additional and found.positive_ratio < 1:
        raise HarnessError(
            f"key 'training': key 'positive_ratio' is {found.positive_ratio:g}, and a bi-encoder takes its negatives "
            "from the batch; say 1, or 'additional: 0' for judged pairs alone"
        )
    if kind == "bi" and found.batch < 2:
        raise HarnessError(
            "key 'training': key 'batch' is 1, and a bi-encoder takes its negatives from the batch; say 2 or more"
        )
    return found

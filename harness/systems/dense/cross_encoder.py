"""Cross-encoders: re-rank a first ranking or a pool by a model that reads topic and document together.

By default the top k documents are sorted by the model's outputs. In *tiered* re-ranking (MIRMU at ARQMath 2022, section
3.1), slices of the ranking are sorted separately, so that a document never leaves its slice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.collections.corpus import Document
from harness.data.columns import Bools, Floats
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks
from harness.io.files import sha256
from harness.store import artefacts, code
from harness.store.cost import phase, queries
from harness.systems import hardware
from harness.systems.base import MARK, Request
from harness.systems.dense import encoder, heads, models, pairs, texts
from harness.systems.dense.training import tuned
from harness.systems.dense.training.settings import Tuning, tuning
from harness.systems.ranking import only

KIND = "cross-encoder-scores"
ACTIVATIONS = ("none", "sigmoid", "softmax", "log-softmax")
_FILE = "scores.json"
SHARE = 50  # documents of a topic scored and stored together, so that runs with another k or other tiers reuse most
_LARGEST = 2.0**23  # float32 represents all integers down to -2 * _LARGEST, so scores below an output stay distinct


@dataclass(frozen=True)
class CrossEncoder(heads.TopicTexts, heads.OverFirst):
    """A cross-encoder: re-ranks the top documents of a first ranking or, without one, each topic's pool.

    The whole ranking is returned: documents below the re-ranked ones keep their order. Documents that the corpus lacks
    are removed before the top k are taken. Topics without text keep their order. Both cases are reported.

    Parameters
    ----------
    name : name of the run.
    model : a transformers model for sequence classification: see `harness.systems.dense.models.find_model`.
    first : ranking to re-rank: the name of a system, the configuration of one, or a run file. None for the pool, of
        which all documents are scored.
    k : documents re-ranked for each topic; None for 100, or for all of a pool.
    tiers : last ranks of slices that are re-ranked separately, in place of `k`: [3, 7] for ranks 1 to 3 and 4 to 7.
    query, document : fields of a topic (title, body, tags) and of a document, joined: see `texts.of_document`.
    view : `latex`, `text` or `mathberta`: see `texts.of_document`.
    label : name or number of the label whose output is the score, if the model has several.
    activation : function applied to logits: `none`, `sigmoid`, `softmax` over the labels, or its logarithm
        (`log-softmax`).
    template, words : for sequence models such as monoT5, the text that the model reads and the two words whose logits
        are the labels: see `harness.systems.dense.pairs.PairReading`. None for models of sequence
        classification.
    length, truncation, precision : see `pairs.PairScorerSettings`.
    training : fine-tuning of the model before it is used: see `harness.systems.dense.training.settings.Tuning`.
    tokens : maximum word pieces in one forward pass; 0 for the default of the device.

    Raises
    ------
    HarnessError
        A key has an invalid value, or the first system is invalid.

    Examples
    --------
    >>> CrossEncoder("mirmu", "roberta-large", first="bm25", tiers=[3, 7, 12, 16, 20, 50, 100, 125]).k is None
    True
    >>> CrossEncoder("mirmu", "roberta-large", first="bm25", tiers=[7, 3])
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'tiers' is [7, 3], expected whole numbers from 1, ascending, such as [3, 7, 12]
    """

    work: ClassVar[str] = "pairs"  # see `harness.papers.work`

    name: str
    model: checks.Words
    first: str | Mapping[str, Any] | None = None
    k: checks.Positive | None = None
    tiers: Sequence[int] | None = None
    query: texts.TopicFields = ("title", "body")
    document: texts.Fields = ("body",)
    view: texts.ViewName = "latex"
    label: Annotated[str | int, checks.text] | None = None
    activation: Annotated[str, partial(checks.choice, known=ACTIVATIONS)] = "none"
    template: str | None = None
    words: Sequence[str] | None = None
    length: int | None = None
    truncation: str = "longest_first"
    precision: str = "float32"
    training: Mapping[str, Any] | None = None
    device: hardware.Device = "auto"
    tokens: checks.Natural = 0

    nested: ClassVar[Mapping[str, type]] = {"training": Tuning}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tiers is not None:
            _check_tiers(self.tiers)
            if self.first is None:
                raise HarnessError("key 'tiers' cuts a first ranking; give the key 'first' as well")
        if self.k is not None and self.tiers is not None:
            raise HarnessError("key 'k' cannot be used with 'tiers', whose last bound it is; leave one of them out")
        if self.template is not None and self.training is not None:
            raise HarnessError("key 'training' cannot be used with 'template': sequence models are not fine-tuned here")
        if self.training is not None:
            tuning("cross", self.training)
        if self.template is None and self.words is not None:
            raise HarnessError("key 'words' names outputs of a sequence model; give the key 'template' as well")
        self._settings, self._reading  # noqa: B018  (validates them at once)

    def _left_out(self) -> frozenset[str] | None:
        """Returns the collections whose topics the training left out; see `tuned.trains_without`."""
        return tuned.trains_without("cross", self.model, self.training)

    def _notes(self) -> tuple[str, ...]:
        """Returns sentences on the fine-tuning for a run's metadata."""
        return () if self.training is None else tuning("cross", self.training).notes()

    def _reads(self) -> dict[str, Any]:
        """Returns what a run depends on besides the configuration: model, arithmetic, and data of fine-tuning."""
        own = self._spec(models.find_model(self.model))
        if self.training is not None:
            own["training"] = tuned.reads("cross", self.model, self.training)
        return own

    def __call__(self, request: Request) -> Run:
        """Re-ranks the first ranking, or ranks each topic's pool; documents of `first` outside the pool are excluded.

        Raises
        ------
        HarnessError
            There is neither a first ranking nor a pool, or no corpus; the corpus holds none of the documents; the
            model, a package or a GPU is missing.
        """
        corpus = request.corpus_for(self.name)
        request.workspace.mkdir(parents=True, exist_ok=True)
        on = hardware.device(self.device)
        folder = tuned.loaded("cross", self.model, self.training, corpus, request.workspace, on, self._try)
        model = models.find_model(folder)
        spec = self._spec(model)
        scorer = cache(lambda: self._load(model, spec["arithmetic"][0]))
        run, text = self.read(request, self._depth, self._document_text)
        rows_of = heads.ranked(run)
        asked = self._worded(topic for topic in request.topics if topic.id in rows_of)
        query = {topic.id: topic_text for topic, topic_text in asked}
        docs = {topic: [text[doc] for doc in run.doc[rows_of[topic][: self._depth]].tolist()] for topic in query}
        if not all(is_kept(query[topic], docs[topic], spec) for topic in query):
            with phase("load model"):  # keeps the loading time out of the first topic's latency
                scorer()
        score = np.full(len(run), np.nan)
        scored = []
        with phase("search"):
            for topic in queries([topic for topic, _ in asked]):
                scored.append(kept(query[topic.id], docs[topic.id], scorer, spec))
                score[rows_of[topic.id]] = self._scores(scored[-1], len(rows_of[topic.id]))
        cut = np.concatenate([of_topic.cut for of_topic in scored])
        heads.note_cut(self.name, "pairs", int(cut.sum()), len(cut), {"word pieces": scored[0].length})
        if self._first is not None:
            for name in {topic.id for topic in request.topics} & rows_of.keys() - query.keys():
                score[rows_of[name]] = np.arange(len(rows_of[name]), 0, -1)
        run = replace(run, score=score, name=self.name + MARK * run.name.endswith(MARK), sha256="")
        return only(run, ~np.isnan(score))

    def _try(self, folder: str) -> None:
        """Loads a model folder in the way the tuned model will be loaded, and checks that it has the score label."""
        self._label(self._load(models.find_model(folder), "cpu").labels)

    def _load(self, model: models.AvailableModel, device: str) -> pairs.PairScorer:
        """Loads the model: a sequence model if a template says how it reads pairs, else a cross-encoder."""
        if self._reading is not None:
            return pairs.load_sequence_scorer(model, self._reading, self._settings, device, self.tokens)
        return pairs.load_pair_scorer(model, self._settings, device, self.tokens)

    @cached_property
    def _reading(self) -> pairs.PairReading | None:
        """How a sequence model reads pairs; None for a cross-encoder."""
        if self.template is None:
            return None
        return pairs.PairReading(self.template, **({} if self.words is None else {"words": self.words}))

    @cached_property
    def _settings(self) -> pairs.PairScorerSettings:
        return pairs.PairScorerSettings(self.length, self.truncation, self.precision)

    def _spec(self, model: models.AvailableModel) -> dict[str, Any]:
        """Returns all inputs of the logits besides the texts: model, settings and arithmetic."""
        arithmetic = [hardware.device(self.device), self.precision]
        spec = {"model": pairs.identity(model, self._settings), "arithmetic": [*arithmetic, self.tokens]}
        if self._reading is None:
            return spec
        return spec | {"sequence": [self._reading.template, *self._reading.words]}

    # ---- first ranking ------------------------------------------------------------------------------------------

    @property
    def _depth(self) -> int | None:
        """Returns the number of documents scored per topic; None for all."""
        if self.tiers is not None:
            return self.tiers[-1]
        return self.k or (None if self.first is None else heads.K)

    def _asked(self, topic: Topic) -> str:
        return encoder.utf8(texts.of_topic(topic, self.query, self.view))

    def _document_text(self, document: Document) -> str:
        return encoder.utf8(texts.of_document(document, self.document, self.view))

    # ---- scores -------------------------------------------------------------------------------------------------

    def _scores(self, scored: TopicLogits, count: int) -> Floats:
        """Returns the scores of a topic's documents, in the order of the first ranking; the top ones have logits."""
        logits = scored.logits.astype(np.float64)
        column = logits[:, self._label(scored.labels)]
        with np.errstate(over="ignore"):  # exp overflows to infinity, and its reciprocal is 0 as it should be
            if self.activation == "sigmoid":
                column = 1 / (1 + np.exp(-column))
            elif self.activation == "softmax":
                column = 1 / np.exp(logits - column[:, None]).sum(axis=1)
            elif self.activation == "log-softmax":
                column = column - np.logaddexp.reduce(logits, axis=1)
        outputs = column.astype(np.float32)
        return whole(outputs, count) if self.tiers is None else tiered(outputs, self.tiers, count)

    def _label(self, labels: Sequence[str]) -> int:
        """Returns the index of the label whose output is the score."""
        if len(labels) == 1 and self.activation in ("softmax", "log-softmax"):
            raise HarnessError(
                f"key 'activation' is {self.activation!r}, and model {self.model} has a single label; say sigmoid"
            )
        if self.label is None and len(labels) == 1:
            return 0
        named = [*labels, *map(str, range(len(labels)))]
        if self.label is None or str(self.label) not in named:
            known = ", ".join(f"{number} ({label})" for number, label in enumerate(labels))
            raise HarnessError(f"key 'label' is {self.label!r}, expected a label of model {self.model}: {known}")
        return named.index(str(self.label)) % len(labels)


# ---- re-ranking, whole and tiered -------------------------------------------------------------------------------


def whole(outputs: npt.NDArray[np.float32], count: int) -> Floats:
    """Returns the scores of a topic's documents: the model's outputs, then decreasing scores for the remaining ones.

    Parameters
    ----------
    outputs : shape (first,). Outputs for the top documents, in the order of the first ranking.
    count : number of documents.

    Raises
    ------
    HarnessError
        An output is so large that smaller scores would not be distinct in float32.

    Examples
    --------
    >>> whole(np.array([0.5, 2.25], np.float32), 4).tolist()
    [0.5, 2.25, -1.0, -2.0]
    """
    if (large := np.abs(outputs).max(initial=0)) >= _LARGEST:
        raise HarnessError(f"the model's output {large:g} is too large for a score; say activation=sigmoid")
    return heads.filled(np.concatenate((outputs.astype(np.float64), np.full(count - len(outputs), np.nan))))


def tiered(outputs: npt.NDArray[np.float32], bounds: Sequence[int], count: int) -> Floats:
    """Returns the scores of a topic's documents after re-ranking each tier separately.

    The score of a document is `count` minus the number of documents ranked above it. Equal outputs in one tier give
    equal scores.

    Parameters
    ----------
    outputs : shape (first,). Outputs for the top documents, in the order of the first ranking.
    bounds : last ranks of the tiers, ascending; documents below the last tier keep their order.
    count : number of documents.

    Examples
    --------
    >>> tiered(np.array([1, 3, 3, 0, 9], np.float32), [3, 5], 7).tolist()
    [5.0, 7.0, 7.0, 3.0, 4.0, 2.0, 1.0]
    """
    place = np.arange(count)
    tier = np.searchsorted(np.asarray(bounds), place, side="right")
    value = np.concatenate((outputs.astype(np.float64), -place[len(outputs) :]))
    order = np.lexsort((-value, tier))
    new = np.ones(count, dtype=bool)
    new[1:] = (np.diff(tier[order]) > 0) | (np.diff(value[order]) < 0)
    score = np.empty(count)
    score[order] = count - np.maximum.accumulate(np.where(new, place, 0))
    return score


def _check_tiers(bounds: object) -> None:
    good = isinstance(bounds, Sequence) and not isinstance(bounds, str) and bool(bounds)
    good = good and all(type(bound) is int and bound > 0 for bound in bounds)  # type: ignore[attr-defined]
    if not good or sorted(set(bounds)) != list(bounds):  # type: ignore[call-overload]
        expected = "expected whole numbers from 1, ascending, such as [3, 7, 12]"
        raise HarnessError(f"key 'tiers' is {bounds!r}, {expected}")


# ---- stored scores ----------------------------------------------------------------------------------------------


class TopicLogits(NamedTuple):
    """Logits of a topic's documents.

    Attributes
    ----------
    logits : float32, shape (documents, labels).
    cut : bool, shape (documents,). Whether the pair of topic and document is truncated.
    length : maximum word pieces of a pair.
    labels : names of the columns of `logits`.
    """

    logits: npt.NDArray[np.float32]
    cut: Bools
    length: int
    labels: tuple[str, ...]


def kept(
    query: str, documents: Sequence[str], scorer: Callable[[], pairs.PairScorer], spec: Mapping[str, Any]
) -> TopicLogits:
    """Returns the logits of a topic's documents, which are stored in batches of `SHARE` documents.

    Parameters
    ----------
    documents : texts, one or more. Equal texts are scored once.
    scorer : returns the loaded model; called only if logits are missing in the store.
    spec : all inputs of the logits besides the texts and the code.
    """
    shares = [_stored_scores(query, share, scorer, spec) for share in _split_documents(documents)]
    row = {text: number for number, text in enumerate(dict.fromkeys(documents))}
    at = [row[text] for text in documents]
    logits = np.array([values for share in shares for values in share["logits"]], dtype=np.float32)[at]
    cut = np.array([long for share in shares for long in share["cut"]], dtype=bool)[at]
    return TopicLogits(logits, cut, int(shares[0]["length"]), tuple(shares[0]["labels"]))


def is_kept(query: str, documents: Sequence[str], spec: Mapping[str, Any]) -> bool:
    """Returns whether the store has all logits that `kept` would return."""
    keys = (artefacts.key(_inputs(query, share, spec)) for share in _split_documents(documents))
    return not any(artefacts.damage(artefacts.store_root() / KIND / key, KIND) for key in keys)


def _split_documents(documents: Sequence[str]) -> list[list[str]]:
    """Splits the distinct documents into parts of at most `SHARE`, each of which is stored under a key of its own."""
    different = list(dict.fromkeys(documents))
    return [different[begin : begin + SHARE] for begin in range(0, len(different), SHARE)]


def _inputs(query: str, share: Sequence[str], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all inputs of the logits of one batch of documents."""
    made_by = [code.of(pairs.__name__), hardware.library_versions()]
    return {**spec, "query": query, "documents": sha256(json.dumps(share).encode()), "versions": made_by}


def _stored_scores(
    query: str, share: Sequence[str], scorer: Callable[[], pairs.PairScorer], spec: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Returns the logits of a query with some documents from the store; computes and stores them if it lacks them."""

    def make(folder: Path) -> None:
        loaded = scorer()
        logits, cut = loaded.scored([query] * len(share), share)
        made = {"length": loaded.length, "labels": loaded.labels, "logits": logits.tolist(), "cut": cut.tolist()}
        (folder / _FILE).write_text(json.dumps(made), encoding="utf-8")

    folder = artefacts.get_or_build(KIND, _inputs(query, share, spec), make)
    read: Mapping[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    return read

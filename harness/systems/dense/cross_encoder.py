"""Cross-encoders: the first documents of another ranking, or a pool, ordered by a model that reads topic and document.

Whole, the first k are sorted by the model's outputs. *Tiered* (MIRMU at ARQMath 2022, section 3.1), slices of the
ranking are sorted each on its own, so that a document never leaves its slice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.collections.corpus import Document
from harness.data.columns import Bools, Floats
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks
from harness.io.console import say
from harness.io.files import sha256
from harness.store import artefacts, code
from harness.store.cost import note, phase, queries
from harness.systems import hardware
from harness.systems.base import MARK, Request
from harness.systems.build import Built
from harness.systems.dense import encoder, heads, models, pairs, texts
from harness.systems.dense.training import tuned
from harness.systems.dense.training.settings import Tuning, tuning
from harness.systems.rerank import another, reads_of

KIND = "cross-encoder-scores"
ACTIVATIONS = ("none", "sigmoid", "softmax")
_FILE = "scores.json"
SHARE = 50  # documents of a topic that are scored and kept together; other k and tiers find most of them again
_LARGEST = 2.0**23  # 32-bit floats hold whole numbers, one below the other, down to twice this


@dataclass(frozen=True)
class CrossEncoder:
    """The first documents of another ranking, re-ranked; without one, each topic's pool.

    The whole ranking is returned: documents behind those that are re-ranked keep their order. Documents that the
    corpus lacks are left out before the first are counted, topics without text keep their order; both are said.

    Parameters
    ----------
    name : of the run.
    model : see `harness.systems.dense.models.find`; of transformers, for sequence classification.
    first : what is re-ranked: the name of a system, the configuration of one, or a run file. None for the pool, all
        of whose documents are scored then.
    k : documents of each topic that are re-ranked; None for 100, or all of a pool.
    tiers : bounds of slices that are re-ranked each on its own: [3, 7] for places 1 to 3 and 4 to 7; in place of `k`.
    query, document : fields of a topic (title, body, tags) and of a document, joined: see `texts.of_document`.
    view : `latex`, `text` or `mathberta`: see `texts.of_document`.
    label : of a model with several: the name or number of the one whose output is the score.
    activation : of logits: `none`, `sigmoid`, or `softmax` over the labels.
    length, truncation, precision : see `pairs.Settings`.
    training : how the model is fine-tuned first: see `harness.systems.dense.training.settings.Tuning`.
    tokens : word pieces that go through the model at one time; 0 leaves it to the device.

    Raises
    ------
    HarnessError
        A key has a value that cannot be meant, or the first system has a fault.

    Examples
    --------
    >>> CrossEncoder("mirmu", "roberta-large", first="bm25", tiers=[3, 7, 12, 16, 20, 50, 100, 125]).k is None
    True
    >>> CrossEncoder("mirmu", "roberta-large", first="bm25", tiers=[7, 3])
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'tiers' is [7, 3], expected whole numbers from 1, ascending, such as [3, 7, 12]
    """

    name: str
    model: str
    first: str | Mapping[str, Any] | None = None
    k: int | None = None
    tiers: Sequence[int] | None = None
    query: Sequence[str] = ("title", "body")
    document: Sequence[str] = ("body",)
    view: str = "latex"
    label: str | int | None = None
    activation: str = "none"
    length: int | None = None
    truncation: str = "longest_first"
    precision: str = "float32"
    training: Mapping[str, Any] | None = None
    device: str = "auto"
    tokens: int = 0

    nested: ClassVar[Mapping[str, type]] = {"training": Tuning}

    def __post_init__(self) -> None:
        checks.text("model", self.model)
        texts.check("query", self.query, self.view, texts.TOPIC_FIELDS)
        texts.check("document", self.document, self.view)
        checks.choice("activation", self.activation, ACTIVATIONS)
        checks.choice("device", self.device, hardware.DEVICES)
        checks.whole("tokens", self.tokens)
        if self.label is not None:
            checks.text("label", self.label)
        if self.k is not None:
            checks.whole("k", self.k, low=1)
        if self.tiers is not None:
            _check_tiers(self.tiers)
        for key in ("k", "tiers"):
            if self.first is None and getattr(self, key) is not None:
                raise HarnessError(f"key {key!r} cuts a first ranking; give the key 'first' as well")
        if self.k is not None and self.tiers is not None:
            raise HarnessError("key 'k' is of no use with 'tiers', whose last bound it is; leave one of them out")
        if self.training is not None:
            tuning("cross", self.training)
        self._settings, self._first  # noqa: B018  (a fault in them is found at once)

    def trains_without(self) -> frozenset[str] | None:
        """Returns the collections that neither its model nor the first system has seen; None if both are untuned."""
        own = tuned.trains_without("cross", self.model, self.training)
        first = None if self._first is None else self._first.trains_without()
        return own if first is None else first if own is None else own & first

    def notes(self) -> tuple[str, ...]:
        """Returns how its model was fine-tuned, and what the first system says."""
        own = () if self.training is None else tuning("cross", self.training).notes()
        return own + (() if self._first is None else self._first.notes())

    def reads(self) -> dict[str, Any]:
        """What decides a run besides the corpus and the code: the model's files, the device, and the first system."""
        own = self._spec(models.find(self.model))
        if self.training is not None:
            own["training"] = tuned.reads("cross", self.model, self.training)
        if self.first is None or self._first is None:
            return own
        return {**own, "first": reads_of(self.first, self._first)}

    def __call__(self, request: Request) -> Run:
        """Re-ranks, or rank each topic's pool; documents of `first` that are not in a pool are left out.

        Raises
        ------
        HarnessError
            There is neither a first ranking nor a pool, or no corpus; the corpus holds none of the documents; the
            model, a package or a GPU is missing.
        """
        corpus = request.corpus_for(self.name)
        request.workspace.mkdir(parents=True, exist_ok=True)
        on = hardware.device(self.device)
        model = models.find(tuned.loaded("cross", self.model, self.training, corpus, request.workspace, on, self._try))
        spec = self._spec(model)
        scorer = cache(lambda: pairs.load(model, self._settings, spec["arithmetic"][0], self.tokens))
        run = self._ranking(request)
        with phase("read documents"):
            run, text = heads.read(self.name, run, corpus, self._depth, self._text)
        rows_of = heads.ranked(run)
        query = {topic.id: encoder.utf8(texts.of_topic(topic, self.query, self.view)) for topic in request.topics}
        asked = [topic for topic in request.topics if topic.id in rows_of and query[topic.id].strip()]
        wordless = [topic.id for topic in request.topics if topic.id in rows_of and not query[topic.id].strip()]
        self._say_wordless(wordless, len(asked))
        docs = {topic.id: [text[doc] for doc in run.doc[rows_of[topic.id][: self._depth]].tolist()] for topic in asked}
        if not all(is_kept(query[topic.id], docs[topic.id], spec) for topic in asked):
            with phase("load model"):  # which is no part of the first topic's latency
                scorer()
        score = np.full(len(run), np.nan)
        scored = []
        with phase("search"):
            for topic in queries(asked):
                scored.append(kept(query[topic.id], docs[topic.id], scorer, spec))
                score[rows_of[topic.id]] = self._scores(scored[-1], len(rows_of[topic.id]))
        self._say_cut(scored)
        if self._first is not None:
            for name in wordless:
                score[rows_of[name]] = np.arange(len(rows_of[name]), 0, -1)
        run = replace(run, score=score, name=self.name + MARK * run.name.endswith(MARK), sha256="")
        return heads.only(run, ~np.isnan(score))

    def _try(self, folder: str) -> None:
        """Loads a folder of a model as the tuned one will be, and look for the label that is the score."""
        self._label(pairs.load(models.find(folder), self._settings, "cpu", self.tokens).labels)

    @cached_property
    def _settings(self) -> pairs.Settings:
        return pairs.Settings(self.length, self.truncation, self.precision)

    def _spec(self, model: models.Model) -> dict[str, Any]:
        """Returns what decides logits, besides the texts."""
        arithmetic = hardware.arithmetic(hardware.device(self.device), self.precision == "bfloat16")
        return {"model": pairs.identity(model, self._settings), "arithmetic": [*arithmetic, self.tokens]}

    # ---- what is re-ranked --------------------------------------------------------------------------------------

    @cached_property
    def _first(self) -> Built | None:
        return None if self.first is None else another("first", self.first, files=True)

    @property
    def _depth(self) -> int | None:
        """How many documents of a topic are scored; None for all."""
        if self.tiers is not None:
            return self.tiers[-1]
        return self.k or (None if self.first is None else heads.K)

    def _ranking(self, request: Request) -> Run:
        """Returns what is to be re-ranked: the first run, or the pool in an order without meaning."""
        if self._first is not None:
            return heads.first(self._first, request)
        if request.pool is None:
            lacking = "has nothing to re-rank; give the key 'first', or the pool of judged documents by rerank=true"
            raise HarnessError(f"system {self.name}: {lacking}")
        pool = {topic.id: request.pool.get(topic.id, frozenset()) for topic in request.topics}
        return Run.from_dict("pool", {topic: dict.fromkeys(sorted(docs), 0.0) for topic, docs in pool.items() if docs})

    def _text(self, document: Document) -> str:
        return encoder.utf8(texts.of_document(document, self.document, self.view))

    # ---- by what ------------------------------------------------------------------------------------------------

    def _scores(self, found: Kept, count: int) -> Floats:
        """Scores of a topic's documents in the order of the first ranking, of which the first have logits."""
        logits = found.logits.astype(np.float64)
        column = logits[:, self._label(found.labels)]
        with np.errstate(over="ignore"):  # what becomes 0
            if self.activation == "sigmoid":
                column = 1 / (1 + np.exp(-column))
            elif self.activation == "softmax":
                column = 1 / np.exp(logits - column[:, None]).sum(axis=1)
        outputs = column.astype(np.float32)
        return whole(outputs, count) if self.tiers is None else tiered(outputs, self.tiers, count)

    def _label(self, labels: Sequence[str]) -> int:
        """Returns which of a model's labels is the score."""
        if len(labels) == 1 and self.activation == "softmax":
            raise HarnessError(f"key 'activation' is 'softmax', and model {self.model} has a single label; say sigmoid")
        if self.label is None and len(labels) == 1:
            return 0
        named = [*labels, *map(str, range(len(labels)))]
        if self.label is None or str(self.label) not in named:
            known = ", ".join(f"{number} ({label})" for number, label in enumerate(labels))
            raise HarnessError(f"key 'label' is {self.label!r}, expected a label of model {self.model}: {known}")
        return named.index(str(self.label)) % len(labels)

    def _say_wordless(self, wordless: Sequence[str], asked: int) -> None:
        """Says and note how many topics cannot be asked; an error if none can."""
        if not asked:
            raise HarnessError(f"system {self.name}: no topic has a text; the key 'query' names what is read of topics")
        if wordless:
            fate = "they are left out" if self._first is None else "they keep the order of the first ranking"
            note(f"{self.name}: topics without text", len(wordless))
            say(f"{self.name}: {len(wordless):,} topics have no text, such as {wordless[0]}; {fate}")

    def _say_cut(self, scored: Sequence[Kept]) -> None:
        """Says and note how many pairs are longer than the model reads."""
        count, cut = sum(len(found.cut) for found in scored), sum(int(found.cut.sum()) for found in scored)
        length = scored[0].length
        note(f"{self.name}: texts cut, pairs", {"cut": cut, "texts": count, "word pieces": length})
        if cut:
            say(f"{self.name}: {cut:,} of {count:,} texts (pairs) are longer than the {length} word pieces read")


# ---- orders -----------------------------------------------------------------------------------------------------


def whole(outputs: npt.NDArray[np.float32], count: int) -> Floats:
    """Scores of a topic's documents: the model's outputs, and numbers below them that keep the order of the others.

    Parameters
    ----------
    outputs : shape (first,). Those of the first documents, in the order of the first ranking.
    count : of documents.

    Raises
    ------
    HarnessError
        An output is so large that no number below it would be distinct as a 32-bit float.

    Examples
    --------
    >>> whole(np.array([0.5, 2.25], np.float32), 4).tolist()
    [0.5, 2.25, -1.0, -2.0]
    """
    if (large := np.abs(outputs).max(initial=0)) >= _LARGEST:
        raise HarnessError(f"the model's output {large:g} is too large for a score; say activation=sigmoid")
    return heads.filled(np.concatenate((outputs.astype(np.float64), np.full(count - len(outputs), np.nan))))


def tiered(outputs: npt.NDArray[np.float32], bounds: Sequence[int], count: int) -> Floats:
    """Scores of a topic's documents, each tier re-ranked on its own: how many documents do not come before.

    Equal outputs in one tier have equal scores.

    Parameters
    ----------
    outputs : shape (first,). Those of the first documents, in the order of the first ranking.
    bounds : where tiers end, ascending; documents behind the last keep their order.
    count : of documents.

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


# ---- scores that are kept ---------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """What a model makes of a topic's documents.

    Attributes
    ----------
    logits : float32, shape (documents, labels).
    cut : bool, shape (documents,). Whose pair with the topic is longer than the model reads.
    length : word pieces that it reads of a pair.
    labels : names of the columns of `logits`.
    """

    logits: npt.NDArray[np.float32]
    cut: Bools
    length: int
    labels: tuple[str, ...]


def kept(query: str, documents: Sequence[str], scorer: Callable[[], pairs.PairScorer], spec: Mapping[str, Any]) -> Kept:
    """Logits of a topic's documents, from the store or made now, `SHARE` documents at a time.

    Parameters
    ----------
    documents : texts, one or more. Equal ones are scored once.
    scorer : gives the loaded model; asked only if the store lacks something.
    spec : what decides logits besides the texts and the code.
    """
    shares = [_share(query, share, scorer, spec) for share in _shares(documents)]
    row = {text: number for number, text in enumerate(dict.fromkeys(documents))}
    at = [row[text] for text in documents]
    logits = np.array([values for share in shares for values in share["logits"]], dtype=np.float32)[at]
    cut = np.array([long for share in shares for long in share["cut"]], dtype=bool)[at]
    return Kept(logits, cut, int(shares[0]["length"]), tuple(shares[0]["labels"]))


def is_kept(query: str, documents: Sequence[str], spec: Mapping[str, Any]) -> bool:
    """Returns whether the store has all that `kept` asks for."""
    places = (artefacts.store_root() / KIND / artefacts.key(_of(query, share, spec)) for share in _shares(documents))
    return not any(artefacts.damage(place, KIND) for place in places)


def _shares(documents: Sequence[str]) -> list[list[str]]:
    different = list(dict.fromkeys(documents))
    return [different[begin : begin + SHARE] for begin in range(0, len(different), SHARE)]


def _of(query: str, share: Sequence[str], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what decides the logits of a share."""
    made_by = [code.of(pairs.__name__), hardware.torch_version()]
    return {**spec, "query": query, "documents": sha256(json.dumps(share).encode()), "versions": made_by}


def _share(
    query: str, share: Sequence[str], scorer: Callable[[], pairs.PairScorer], spec: Mapping[str, Any]
) -> Mapping[str, Any]:
    def make(folder: Path) -> None:
        loaded = scorer()
        logits, cut = loaded.scored([query] * len(share), share)
        made = {"length": loaded.length, "labels": loaded.labels, "logits": logits.tolist(), "cut": cut.tolist()}
        (folder / _FILE).write_text(json.dumps(made), encoding="utf-8")

    folder = artefacts.get_or_build(KIND, _of(query, share, spec), make)
    read: Mapping[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    return read

"""Archived runs made again: their model over the documents that are here, and how far its scores are the authors'.

The documents are those judged answers that an archived run and a corpus both have; topics and documents go through the
model as they went through the authors' pipeline. What is compared are scores of the same pairs of topic and document.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.collections.corpora import load_corpus
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.formulas.text.masking import PREFIX
from harness.io.files import cache_root, sha256
from harness.papers.paper import Again
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores
from harness.store import code
from harness.systems import hardware
from harness.systems.crosslingual import authors
from harness.systems.crosslingual.authors import Script
from harness.systems.dense import encoder, engines, models, vectors

Floats = npt.NDArray[np.float64]
SAME = 0.001  # scores closer than this are taken for those of the same texts


@dataclass(frozen=True)
class Pair:
    """A topic and a document with two scores, `theirs` archived and `ours` made here.

    Attributes
    ----------
    formulas : of the document.
    """

    topic: str
    doc: str
    theirs: float
    ours: float
    formulas: int = 0

    @property
    def difference(self) -> float:
        """How far the score made here is above the archived one."""
        return self.ours - self.theirs


@dataclass(frozen=True)
class Agreement:
    """One archived run of one collection beside what was made here, on the documents that both have.

    Attributes
    ----------
    theirs, ours : both scored by the judgments of exactly these documents.
    left : topics whose bodies the authors' function returned untranslated.
    """

    run: str
    collection: str
    pairs: tuple[Pair, ...]
    theirs: Scores
    ours: Scores
    left: frozenset[str] = frozenset()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics, in the order of their pairs."""
        return tuple(dict.fromkeys(pair.topic for pair in self.pairs))

    def plain(self) -> tuple[Pair, ...]:
        """The pairs with documents without formulas, whose texts are the authors': only topics can differ."""
        return tuple(pair for pair in self.pairs if not pair.formulas)

    def untranslated(self, whether: bool) -> tuple[Pair, ...]:
        """Returns the pairs of topics whose bodies the authors' function left untranslated, or of the others."""
        return tuple(pair for pair in self.pairs if (pair.topic in self.left) == whether)

    def same_topics(self) -> tuple[Pair, ...]:
        """Pairs with formulas, of topics that read as they did there: only formulas can differ.

        These are the topics whose documents without formulas all have the same score (`SAME`) here and there.
        """
        plain = self.plain()
        off = {pair.topic for pair in plain if abs(pair.difference) >= SAME}
        good = {pair.topic for pair in plain} - off
        return tuple(pair for pair in self.pairs if pair.topic in good and pair.formulas)

    def near(self, most: float) -> tuple[Pair, ...]:
        """The pairs of topics whose median difference is below `most`."""
        good = {
            topic
            for topic, (theirs, ours) in _by_topic(self.pairs).items()
            if float(np.median(np.abs(ours - theirs))) < most
        }
        return tuple(pair for pair in self.pairs if pair.topic in good)


def correlation(pairs: Iterable[Pair], kind: str) -> tuple[float, int]:
    """A correlation of the two scores, topic by topic: its mean, and the number of topics that it is over.

    Parameters
    ----------
    kind : `tau` (Kendall's tau-b) or `r` (Pearson's). A topic of one document has none, and one whose scores are all
        equal has none either.

    Examples
    --------
    >>> rows = [("1", .9, .8), ("1", .5, .6), ("1", .1, .7), ("2", .5, .5)]
    >>> value, n = correlation([Pair(topic, "d", a, b) for topic, a, b in rows], "tau")
    >>> f"{value:.4f}", n
    ('0.3333', 1)
    """
    from scipy import stats

    function = {"tau": stats.kendalltau, "r": stats.pearsonr}[kind]
    values = []
    for theirs, ours in _by_topic(pairs).values():
        if len(theirs) > 1 and np.ptp(theirs) > 0 and np.ptp(ours) > 0:
            values.append(float(function(theirs, ours)[0]))
    return (math.fsum(values) / len(values) if values else math.nan), len(values)


def differences(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Median and largest difference of a score, without their signs; not a number if there is no pair.

    Examples
    --------
    >>> median, largest = differences([Pair("1", "d", .5, .4), Pair("1", "e", .5, .6), Pair("2", "d", .1, .5)])
    >>> f"{median:.1f} {largest:.1f}"
    '0.1 0.4'
    """
    values = np.array([abs(pair.difference) for pair in pairs])
    return (float(np.median(values)), float(values.max())) if len(values) else (math.nan, math.nan)


def swapped(pairs: Iterable[Pair], gap: float = 0.0) -> tuple[int, int]:
    """How many couples of documents of a topic stand in another order, and how many couples there are.

    Parameters
    ----------
    gap : only couples whose archived scores differ by more.
    """
    wrong = count = 0
    for theirs, ours in _by_topic(pairs).values():
        for first, second in itertools.combinations(range(len(theirs)), 2):
            if (there := theirs[first] - theirs[second]) and abs(there) > gap:
                count += 1
                wrong += bool(there * (ours[first] - ours[second]) < 0)
    return wrong, count


def _by_topic(pairs: Iterable[Pair]) -> dict[str, tuple[Floats, Floats]]:
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.topic, []).append(pair)
    return {
        topic: (np.array([pair.theirs for pair in of]), np.array([pair.ours for pair in of]))
        for topic, of in found.items()
    }


def query(topic: Topic, script: Script) -> str:
    """Returns a topic's title, a blank, and its body, as the authors' function gives them if no word is translated.

    What their function does besides translating stays: sentences lose their marks (nllb), and formulas come back
    inside each other's placeholders.

    Examples
    --------
    >>> topic = Topic("A.1", "Is $x$ even?", "I tried. It is 2. Why?")
    >>> query(topic, "nllb"), query(topic, "mbart")
    ('Is $x$ even? I tried It is 2 Why?', 'Is $x$ even? I tried. It is 2. Why?')
    """
    unchanged = authors.translate(
        (topic.title, topic.body), script, lambda texts: {text: text for text in texts}, lambda *_: {}, PREFIX
    )
    return " ".join(passage.restored for passage in unchanged)


def agreement(
    run: Run,
    collection: str,
    scorer: Scorer,
    ours: Mapping[str, Mapping[str, float]],
    formulas: Mapping[str, int],
    left: frozenset[str] = frozenset(),
) -> Agreement:
    """An archived run beside other scores: topic -> document -> score.

    Parameters
    ----------
    scorer : of the collection; its judgments are cut to the documents that the run and `ours` both have.
    formulas : document -> how many it has.
    left : topics whose bodies the authors' function returned untranslated.

    Raises
    ------
    HarnessError
        They have no judged document in common.
    """
    theirs, judged = run.to_dict(), scorer.qrels.to_dict()
    pairs = tuple(
        Pair(topic, doc, theirs[topic][doc], score, formulas.get(doc, 0))
        for topic, docs in ours.items()
        for doc, score in docs.items()
        if doc in theirs.get(topic, ()) and doc in judged.get(topic, ())
    )
    if not pairs:
        raise HarnessError(f"run {run.name}: has no judged document of {collection} in common with what was made here")
    cut: dict[str, dict[str, float]] = {}
    for pair in pairs:
        cut.setdefault(pair.topic, {})[pair.doc] = judged[pair.topic][pair.doc]
    part = scorer.on_part(Qrels.from_dict(scorer.qrels.edition, cut))

    def scores(name: str, values: Iterable[tuple[Pair, float]]) -> Scores:
        rankings: dict[str, dict[str, float]] = {}
        for pair, value in values:
            rankings.setdefault(pair.topic, {})[pair.doc] = value
        return part(Run.from_dict(name, rankings))

    both = (
        scores(run.name, ((pair, pair.theirs) for pair in pairs)),
        scores(f"{run.name}-again", ((pair, pair.ours) for pair in pairs)),
    )
    return Agreement(run.name, collection, pairs, *both, left)


def check(settings: Again) -> None:
    """Raise HarnessError if the model is not here, before anything that takes long is done."""
    if lacking := models.missing(settings.model):
        raise HarnessError(lacking[0])


def made_again(
    settings: Again, topics: Topics, runs: Mapping[tuple[str, str], Run], scorers: Mapping[str, Scorer]
) -> tuple[Agreement, ...]:
    """Score the judged answers that are here by the model, and compare them with archived runs.

    Parameters
    ----------
    topics : of all collections, as the authors' pipeline read them.
    runs : (collection, run) -> archived run.

    Raises
    ------
    HarnessError
        The model or the corpus cannot be had.
    """
    corpus = replace(load_corpus(settings.corpus), keep=(settings.column,))
    judged = {doc.decode() for scorer in scorers.values() for doc in scorer.qrels.doc.tolist()}
    documents = {document.id: document.columns[settings.column] for document in corpus if document.id in judged}
    answers = _vectors(settings.model, documents, "document")
    judged_topics = {topic for scorer in scorers.values() for topic in scorer.qrels.topics}
    wanted = [topic for topic in topics if topic.id in judged_topics]
    scripts = dict.fromkeys(settings.runs.values())
    queries = {
        script: _vectors(settings.model, {topic.id: query(topic, script) for topic in wanted}, "query")
        for script in scripts
    }
    left = {script: frozenset(topic.id for topic in wanted if authors.leaves(topic.body, script)) for script in scripts}
    # LaTeX outside of spans counts as well: the organisers did not mark every formula.
    formulas = {name: text.count('class="math-container"') or text.count("\\") for name, text in documents.items()}
    found = []
    for (collection, name), run in runs.items():
        script = settings.runs[name]
        vectors_of = queries[script]
        ours = {
            topic: {doc: float(vectors_of[topic] @ answers[doc]) for doc in docs if doc in answers}
            for topic, docs in scorers[collection].qrels.to_dict().items()
            if topic in vectors_of
        }
        found.append(agreement(run, collection, scorers[collection], ours, formulas, left[script]))
    return tuple(found)


def _vectors(model: str, texts: Mapping[str, str], role: str) -> dict[str, npt.NDArray[np.float32]]:
    """The vectors of texts by their names, from the store or made now."""
    settings = engines.Settings()
    device = hardware.device("auto")

    @cache
    def loaded() -> engines.Encoder:
        return encoder.load(model, settings, device)

    def encoded(some: Sequence[str]) -> engines.Encoded:
        return loaded().encoded(some, role)

    spec = {
        "texts": sha256("\0".join(part for item in texts.items() for part in item).encode("utf-8", "surrogatepass")),
        "role": role,
        "model": encoder.identity(model, settings),
        "arithmetic": hardware.arithmetic(device),
        "versions": [code.of(engines.__name__), hardware.torch_version()],
    }
    made = vectors.made(texts.items, encoded, spec, Path(cache_root()) / "unfinished").vectors
    rows = made.document[made.document >= 0]
    names = (name.decode() for name, row in zip(made.ids.tolist(), made.document, strict=True) if row >= 0)
    return dict(zip(names, made.take(rows), strict=True))

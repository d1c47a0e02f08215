"""Re-runs archived runs with their model and compares its scores with the authors'.

The documents are the judged answers in both the archived run and a local corpus. Topics and documents are preprocessed
as in the authors' pipeline. The comparison is between the scores of the same pairs of topic and document.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.collections.corpora import load_corpus
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.formulas.text.masking import PREFIX
from harness.io.files import sha256
from harness.papers.paper_settings import RerunSettings
from harness.render.model import Block, Cell, Column, Prose, Section, Table, number_cell
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores
from harness.store import code
from harness.systems import hardware
from harness.systems.crosslingual import authors
from harness.systems.crosslingual.authors import Script
from harness.systems.dense import encoder, engines, models, vectors
from harness.systems.dense.documents import EncoderSource, Encoding

Floats = npt.NDArray[np.float64]
SAME = 0.001  # scores closer than this are considered those of the same texts


@dataclass(frozen=True)
class ScorePair:
    """A topic and a document with their archived score, `theirs`, and the score of the re-run, `ours`.

    Attributes
    ----------
    formulas : number of formulas in the document.
    """

    topic: str
    doc: str
    theirs: float
    ours: float
    formulas: int = 0

    @property
    def difference(self) -> float:
        """Score of the re-run minus the archived score."""
        return self.ours - self.theirs


@dataclass(frozen=True)
class RerunAgreement:
    """Comparison of an archived run with its re-run on one collection, on the documents that both have.

    Attributes
    ----------
    theirs, ours : scores of both, by the judgments of exactly these documents.
    left : topics whose bodies the authors' function returned untranslated.
    """

    run: str
    collection: str
    pairs: tuple[ScorePair, ...]
    theirs: Scores
    ours: Scores
    left: frozenset[str] = frozenset()

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics in the order of their pairs."""
        return tuple(dict.fromkeys(pair.topic for pair in self.pairs))

    def plain(self) -> tuple[ScorePair, ...]:
        """Returns the pairs whose documents have no formulas: only the texts of topics can differ from the authors'."""
        return tuple(pair for pair in self.pairs if not pair.formulas)

    def untranslated(self, whether: bool) -> tuple[ScorePair, ...]:
        """Returns the pairs of topics whose bodies the authors' function left untranslated, or of the others."""
        return tuple(pair for pair in self.pairs if (pair.topic in self.left) == whether)

    def same_topics(self) -> tuple[ScorePair, ...]:
        """Returns pairs with formulas whose topics have the same text in both runs: only formulas can differ.

        A topic has the same text if all its documents without formulas have the same score (`SAME`) in both runs.
        """
        plain = self.plain()
        off = {pair.topic for pair in plain if abs(pair.difference) >= SAME}
        good = {pair.topic for pair in plain} - off
        return tuple(pair for pair in self.pairs if pair.topic in good and pair.formulas)

    def near(self, most: float) -> tuple[ScorePair, ...]:
        """Returns the pairs of topics whose median absolute difference is below `most`."""
        by_topic = _scores_by_topic(self.pairs).items()
        good = {topic for topic, (theirs, ours) in by_topic if float(np.median(np.abs(ours - theirs))) < most}
        return tuple(pair for pair in self.pairs if pair.topic in good)


def correlation(pairs: Iterable[ScorePair], kind: str) -> tuple[float, int]:
    """Computes the correlation of the two scores per topic; returns its mean and the number of topics.

    Parameters
    ----------
    kind : `tau` (Kendall's tau-b) or `r` (Pearson's). Undefined for topics with one document or with equal scores;
        these are skipped.

    Examples
    --------
    >>> rows = [("1", .9, .8), ("1", .5, .6), ("1", .1, .7), ("2", .5, .5)]
    >>> value, n = correlation([ScorePair(topic, "d", a, b) for topic, a, b in rows], "tau")
    >>> f"{value:.4f}", n
    ('0.3333', 1)
    """
    from scipy import stats

    function = {"tau": stats.kendalltau, "r": stats.pearsonr}[kind]
    values = []
    for theirs, ours in _scores_by_topic(pairs).values():
        if len(theirs) > 1 and np.ptp(theirs) > 0 and np.ptp(ours) > 0:
            values.append(float(function(theirs, ours)[0]))
    return (math.fsum(values) / len(values) if values else math.nan), len(values)


def differences(pairs: Sequence[ScorePair]) -> tuple[float, float]:
    """Returns the median and the largest absolute difference; NaN without pairs.

    Examples
    --------
    >>> pairs = [ScorePair("1", "d", .5, .4), ScorePair("1", "e", .5, .6), ScorePair("2", "d", .1, .5)]
    >>> median, largest = differences(pairs)
    >>> f"{median:.1f} {largest:.1f}"
    '0.1 0.4'
    """
    values = np.array([abs(pair.difference) for pair in pairs])
    return (float(np.median(values)), float(values.max())) if len(values) else (math.nan, math.nan)


def swapped(pairs: Iterable[ScorePair], gap: float = 0.0) -> tuple[int, int]:
    """Counts the pairs of a topic's documents that both runs rank in opposite order, and all such pairs.

    Parameters
    ----------
    gap : only pairs whose archived scores differ by more than this count.
    """
    wrong = count = 0
    for theirs, ours in _scores_by_topic(pairs).values():
        for first, second in itertools.combinations(range(len(theirs)), 2):
            if (there := theirs[first] - theirs[second]) and abs(there) > gap:
                count += 1
                wrong += bool(there * (ours[first] - ours[second]) < 0)
    return wrong, count


def _scores_by_topic(pairs: Iterable[ScorePair]) -> dict[str, tuple[Floats, Floats]]:
    """Returns topic -> archived scores and recomputed scores of its documents."""
    pairs_of: dict[str, list[ScorePair]] = {}
    for pair in pairs:
        pairs_of.setdefault(pair.topic, []).append(pair)
    return {
        topic: (np.array([pair.theirs for pair in own]), np.array([pair.ours for pair in own]))
        for topic, own in pairs_of.items()
    }


def query(topic: Topic, script: Script) -> str:
    """Returns a topic's title and body as the authors' translation function would leave them untranslated.

    The side effects of their function remain: `nllb` drops punctuation between sentences, and formulas may swap
    placeholders.

    Examples
    --------
    >>> topic = Topic("A.1", "Is $x$ even?", "I tried. It is 2. Why?")
    >>> query(topic, "nllb"), query(topic, "mbart")
    ('Is $x$ even? I tried It is 2 Why?', 'Is $x$ even? I tried. It is 2. Why?')
    """
    unchanged = authors.translate_as_authors(
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
) -> RerunAgreement:
    """Compares an archived run with `ours` (topic -> document -> score).

    Parameters
    ----------
    scorer : of the collection; its judgments are limited to the documents in both the run and `ours`.
    formulas : document -> number of its formulas.
    left : topics whose bodies the authors' function returned untranslated.

    Raises
    ------
    HarnessError
        The two have no judged document in common.
    """
    theirs, judged = run.to_dict(), scorer.qrels.to_dict()
    pairs = tuple(
        ScorePair(topic, doc, theirs[topic][doc], score, formulas.get(doc, 0))
        for topic, docs in ours.items()
        for doc, score in docs.items()
        if doc in theirs.get(topic, ()) and doc in judged.get(topic, ())
    )
    if not pairs:
        raise HarnessError(f"run {run.name}: has no judged document of {collection} in common with the re-run")
    cut: dict[str, dict[str, float]] = {}
    for pair in pairs:
        cut.setdefault(pair.topic, {})[pair.doc] = judged[pair.topic][pair.doc]
    part = scorer.on_part(Qrels.from_dict(scorer.qrels.edition, cut))

    def scores(name: str, value: Callable[[ScorePair], float]) -> Scores:
        rankings: dict[str, dict[str, float]] = {}
        for pair in pairs:
            rankings.setdefault(pair.topic, {})[pair.doc] = value(pair)
        return part(Run.from_dict(name, rankings))

    both = (scores(run.name, lambda pair: pair.theirs), scores(f"{run.name}-again", lambda pair: pair.ours))
    return RerunAgreement(run.name, collection, pairs, *both, left)


def check_rerun_model(settings: RerunSettings) -> None:
    """Raises HarnessError if the model is missing, before any long computation."""
    if lacking := models.missing(settings.model):
        raise HarnessError(lacking[0])


def rerun_archived(
    settings: RerunSettings, topics: Topics, runs: Mapping[tuple[str, str], Run], scorers: Mapping[str, Scorer]
) -> tuple[RerunAgreement, ...]:
    """Scores the locally available judged answers by the model and compares the scores with archived runs.

    Parameters
    ----------
    topics : of all collections, as read by the authors' pipeline.
    runs : (collection, run) -> archived run.

    Raises
    ------
    HarnessError
        The model or the corpus is unavailable.
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
    # LaTeX outside of spans counts too: the organisers did not mark every formula.
    formulas = {name: text.count('class="math-container"') or text.count("\\") for name, text in documents.items()}
    reruns = []
    for (collection, name), run in runs.items():
        script = settings.runs[name]
        vectors_of = queries[script]
        ours = {
            topic: {doc: float(vectors_of[topic] @ answers[doc]) for doc in docs if doc in answers}
            for topic, docs in scorers[collection].qrels.to_dict().items()
            if topic in vectors_of
        }
        reruns.append(agreement(run, collection, scorers[collection], ours, formulas, left[script]))
    return tuple(reruns)


def _vectors(model: str, texts: Mapping[str, str], role: str) -> dict[str, npt.NDArray[np.float32]]:
    """Returns the vectors of texts by name, from the store or computed now."""
    settings = engines.EncoderSettings()
    device = hardware.device("auto")
    encoding = Encoding(EncoderSource(model, settings, device), role)
    spec = {
        "texts": sha256("\0".join(part for item in texts.items() for part in item).encode("utf-8", "surrogatepass")),
        "role": role,
        "model": encoder.identity(model, settings),
        "arithmetic": hardware.arithmetic(device),
        "versions": [code.of(engines.__name__), hardware.library_versions()],
    }
    made = vectors.made(texts.items, encoding, spec).vectors
    rows = made.document[made.document >= 0]
    names = (name.decode() for name, row in zip(made.ids.tolist(), made.document, strict=True) if row >= 0)
    return dict(zip(names, made.take(rows), strict=True))


TITLE = "Re-run of the pipeline"
NEAR = 0.02  # topics with a larger median difference are considered changed by the authors' pipeline
GAP = 0.02  # pairs of documents further apart are also counted separately
LARGEST = 10
_AGREEMENT = (
    *(Column(name, kind="number") for name in ("topics", "pairs")),
    *(Column(name, "agreement, topic by topic", "number") for name in ("tau", "r", "n")),
)
_DIFFERENCES = tuple(Column(name, "difference of a score", "number") for name in ("median", "largest"))


def agreement_section(paper: str, settings: RerunSettings, reruns: Sequence[RerunAgreement]) -> Section:
    """Returns the agreement of recomputed runs with the archived ones; what is missing if none were recomputed.

    Parameters
    ----------
    paper : its key.
    reruns : by run and collection; the first run is looked at more closely.
    """
    runs = " and ".join(settings.runs)
    if not reruns:
        needs = (
            f"A re-run needs the model {settings.model} (harness fetch {settings.model}) and takes {settings.cost} the "
            f"first time: harness reproduce paper={paper} rerun=true"
        )
        return Section(TITLE, (Prose((f"Not re-run: {runs}, by {settings.title}.", needs)),))
    summary = f"{runs} were re-run: {settings.title}, scored on the same judged answers as the archived runs."
    first = [agreement for agreement in reruns if agreement.run == next(iter(settings.runs))]
    blocks: list[Block] = [Prose((summary,)), _table(reruns), _by_translation(reruns), _causes(first), _largest(first)]
    return Section(TITLE, tuple(blocks))


def _table(reruns: Sequence[RerunAgreement]) -> Table:
    """Returns the agreement of each run's measures and scores."""
    rows = []
    for agreement in reruns:
        measure, n = agreement.theirs.measures[0], agreement.theirs.n(agreement.theirs.measures[0])
        means = (number_cell(scores.aggregate(measure)) for scores in (agreement.theirs, agreement.ours))
        apart = (number_cell(value, 4) for value in differences(agreement.pairs))
        named = (Cell(agreement.run), Cell(agreement.collection))
        rows.append((*named, *_agreement_cells(agreement.pairs), *apart, *means, Cell(str(n), n)))
    first = reruns[0].theirs
    label = first.protocol.label(first.measures[0])
    scored = (Column(name, label, "number") for name in ("archived", "here", "n"))
    columns = (Column("run"), Column("collection"), *_AGREEMENT, *_DIFFERENCES, *scored)
    notes = (
        "Pairs: a topic and a judged answer in both runs. tau: Kendall's tau-b, r: Pearson's correlation; means over "
        "the n topics with at least two such answers with different scores.",
        f"{label}: on exactly these answers, over the n topics with a relevant one (protocol {first.protocol.name}); "
        "not comparable with the paper's values.",
    )
    return Table("rerun", "Archived runs and re-runs", columns, tuple(rows), notes, row_headers=2)


def _agreement_cells(pairs: Sequence[ScorePair]) -> tuple[Cell, ...]:
    """Returns the cells of the columns `_AGREEMENT`."""
    (tau, n), (r, _) = correlation(pairs, "tau"), correlation(pairs, "r")
    counts = (len({pair.topic for pair in pairs}), len(pairs))
    return (*(Cell(str(count), count) for count in counts), number_cell(tau), number_cell(r), Cell(str(n), n))


def _by_translation(reruns: Sequence[RerunAgreement]) -> Table:
    """Returns the agreement apart for untranslated and translated topics."""
    rows = []
    for agreement in reruns:
        for name, whether in (("untranslated", True), ("translated", False)):
            pairs, named = agreement.untranslated(whether), map(Cell, (agreement.run, agreement.collection, name))
            rows.append((*named, *_agreement_cells(pairs), number_cell(differences(pairs)[0], 4)))
    named_columns = map(Column, ("run", "collection", "topics whose body is"))
    columns = (*named_columns, *_AGREEMENT, Column("median", "difference of a score", "number"))
    notes = (
        "The authors' functions also translate English topics to English. Untranslated: the function returns the body "
        "unchanged because of its first characters; the title may still be translated. The re-run uses untranslated "
        "topics, so the two kinds of topics show the effect of the translation.",
    )
    return Table("rerun-translation", "Agreement by translation", columns, tuple(rows), notes, row_headers=3)


def _causes(reruns: Sequence[RerunAgreement]) -> Table:
    """Returns the agreement by possible causes of the differences."""
    rows = []
    for agreement in reruns:
        parts = {
            "all": agreement.pairs,
            "answers without formulas": agreement.plain(),
            f"answers with formulas, topics equal to {SAME:g}": agreement.same_topics(),
            f"topics with a median difference below {NEAR:g}": agreement.near(NEAR),
        }
        rows += [_part_row(agreement.collection, name, pairs) for name, pairs in parts.items()]
    agreed = (Column(name, "agreement, topic by topic", "number") for name in ("tau", "n"))
    wrong = (Column(name, "swapped pairs of answers") for name in ("all", f"more than {GAP:g} apart"))
    named = (Column("collection"), Column("pairs of"), Column("pairs", kind="number"))
    columns = (*named, *agreed, *_DIFFERENCES, *wrong)
    notes = (
        "Answers without formulas have the text that the authors' pipeline read: if their scores differ, the pipeline "
        "changed the topic. Topics equal: their answers without formulas have the archived scores, so that other "
        "answers differ in LaTeX only. Swapped pairs: two answers of a topic in opposite order in the two runs.",
    )
    caption = f"Causes of the differences of {reruns[0].run}"
    return Table("rerun-causes", caption, columns, tuple(rows), notes, row_headers=2)


def _part_row(collection: str, name: str, pairs: Sequence[ScorePair]) -> tuple[Cell, ...]:
    tau, topics = correlation(pairs, "tau")
    couples = (swapped(pairs, gap) for gap in (0.0, GAP))
    counted = (Cell(str(len(pairs)), len(pairs)), number_cell(tau), Cell(str(topics), topics))
    apart = (number_cell(value, 4) for value in differences(pairs))
    return (Cell(collection), Cell(name), *counted, *apart, *(Cell(f"{wrong} of {n}") for wrong, n in couples))


def _largest(reruns: Sequence[RerunAgreement]) -> Table:
    """Returns the pairs whose scores differ most."""
    pairs = [(agreement.collection, pair) for agreement in reruns for pair in agreement.pairs]
    pairs.sort(key=lambda item: -abs(item[1].difference))
    rows = []
    for collection, pair in pairs[:LARGEST]:
        named = (Cell(collection), Cell(pair.topic), Cell(pair.doc), Cell(str(pair.formulas), pair.formulas))
        rows.append((*named, *(number_cell(value, 4) for value in (pair.theirs, pair.ours, pair.difference))))
    names = ("formulas", "archived", "here", "difference")
    columns = (*map(Column, ("collection", "topic", "answer")), *(Column(name, kind="number") for name in names))
    caption = f"Largest score differences of {reruns[0].run}"
    return Table("rerun-largest", caption, columns, tuple(rows), row_headers=3)

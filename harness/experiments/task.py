"""Tasks: a collection with edition, protocol and optionally a corpus, checked, by which runs are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.collections.collection import Collection
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, counted_text, gather
from harness.io.arguments import checked_arguments
from harness.io.files import sha256
from harness.scoring.coverage import Coverage, restrict_judgments
from harness.scoring.protocol import Protocol, load_protocol
from harness.scoring.scorer import Scorer
from harness.scoring.spellings import measure_names


@dataclass(frozen=True)
class Task:
    """A task by which runs are scored; with a corpus, judgments are limited to its documents.

    Attributes
    ----------
    topics : topics of the collection.
    coverage : share of the judgments that the corpus covers; None without a corpus.
    keys : document of the corpus -> de-duplication key; None if documents are judged by their own ids.

    Examples
    --------
    >>> import harness as h
    >>> h.task("mini-task2", "mini-formulas").scorer.protocol.deduplicate
    True
    """

    collection: Collection
    topics: Topics
    corpus: Corpus | None
    scorer: Scorer
    coverage: Coverage | None
    keys: Mapping[str, str] | None


@checked_arguments
def task(
    collection: Collection | str,
    corpus: Corpus | str | None = None,
    *,
    edition: str | None = None,
    protocol: Protocol | str | None = None,
    measures: Sequence[str] = (),
    keys: Mapping[str, str] | None = None,
    ids_are_keys: bool = False,
) -> Task:
    """Makes and checks the task by which runs on a collection are scored, as in `score`, `compare` and `run`.

    Collection, corpus and protocol are values or names. Nothing is cached between calls.

    Parameters
    ----------
    corpus : limits the judgments to its documents.
    edition, protocol, measures : replace the collection's and the protocol's defaults.
    keys : document -> de-duplication key; replaces the corpus's or the collection's keys.
    ids_are_keys : whether runs contain keys (visual ids) instead of ids.

    Raises
    ------
    HarnessError
        A name is unknown; keys are given for a protocol that does not de-duplicate, or missing for one that does; the
        collection lacks a judged topic; or the corpus contains no judged document.

    Examples
    --------
    >>> import harness as h
    >>> found = h.task("mini-task1", "mini-answers", measures=["nDCG@10", "AP"])
    >>> found.scorer.measures, found.coverage.complete
    (('nDCG@10', 'AP'), True)
    """
    collection = load_collection(collection) if isinstance(collection, str) else collection
    if isinstance(corpus, str):
        from harness.collections.corpora import load_corpus

        corpus = load_corpus(corpus)
    chosen = protocol if isinstance(protocol, Protocol) else load_protocol(protocol or collection.protocol)
    deduplicate = chosen.deduplicate
    if not deduplicate and (keys is not None or ids_are_keys):
        raise HarnessError(f"keys: protocol {chosen.name} does not de-duplicate; remove the keys")
    own = None if corpus is None or not deduplicate else corpus.keys()
    ids_are_keys = ids_are_keys or (corpus is not None and corpus.ids_are_keys)
    if deduplicate and keys is None and not ids_are_keys:
        keys = collection.keys() if own is None else own
    wanted = measure_names(measures) or None
    try:
        scorer = collection.scorer(edition, chosen, measures=wanted, keys=keys, ids_are_keys=ids_are_keys)
    except HarnessError as error:  # together with the faults of the topics
        faults: list[str] = []
        with gather(faults):
            collection.topics()
        if set(faults) <= set(error.lines):
            raise
        raise HarnessError(*error.lines, *faults) from None
    topics = collection.topics()
    if strange := set(scorer.qrels.topics) - topics.ids():
        raise HarnessError(
            f"collection {collection.name}: the judgments contain topic {min(strange)!r}, which is none of its topics "
            f"({counted_text(len(strange), 'such topic')})"
        )
    if corpus is None:
        return Task(collection, topics, None, scorer, None, keys)
    # The ids of runs and of the corpus may differ: formulas and visual ids.
    held = None
    if deduplicate and not corpus.ids_are_keys:
        held = own if own is not None else keys if keys is not None else collection.keys()
    cut, coverage = present(scorer.qrels, corpus, held)
    return Task(collection, topics, corpus, scorer if coverage.complete else scorer.on_part(cut), coverage, held)


def task_without_judgments(
    collection: Collection, corpus: Corpus | None, edition: str | None = None, protocol: Protocol | None = None
) -> Task:
    """Makes a task without judgments, for which runs can be made but not scored; see `Collection.withheld`."""
    chosen = protocol or load_protocol(collection.protocol)
    none = Qrels(
        collection.edition(edition).name, (), np.zeros(0, np.int32), np.zeros(0, np.bytes_), np.zeros(0, np.float64)
    )
    excluded = collection.exclusions(edition, chosen)
    scorer = Scorer(none, chosen, collection=collection.name, exclusions=excluded)
    keys = None
    if corpus is not None and chosen.deduplicate and not corpus.ids_are_keys:
        keys = corpus.keys() or collection.keys()
    return Task(collection, collection.topics(), corpus, scorer, None, keys)


def judged_pool(qrels: Qrels, keys: Mapping[str, str] | None) -> dict[str, frozenset[str]]:
    """Returns topic -> judged documents, without grades; with keys (formula -> visual id), documents of judged keys."""
    qrels = qrels.judged()
    of_key: dict[str, list[str]] = {}
    for doc, key in (keys or {}).items():
        of_key.setdefault(key, []).append(doc)
    out: dict[str, set[str]] = {topic: set() for topic in qrels.topics}
    for topic, name in zip(qrels.topic.tolist(), qrels.doc.tolist(), strict=True):
        out[qrels.topics[topic]].update(of_key.get(name.decode(), []) if of_key else [name.decode()])
    return {topic: frozenset(docs) for topic, docs in out.items()}


def covered(judged_task: Task, corpus: Corpus) -> Coverage:
    """Returns how much of a task's judgments another corpus has, which may be nothing."""
    by_key = judged_task.scorer.protocol.deduplicate and not corpus.ids_are_keys
    keys = (corpus.keys() or judged_task.collection.keys()) if by_key else None
    return _cut(judged_task.scorer.qrels, corpus, keys)[1]


def present(qrels: Qrels, corpus: Corpus, keys: Mapping[str, str] | None) -> tuple[Qrels, Coverage]:
    """Limits judgments to the documents of a corpus; returns them and the coverage; `keys` as in `Collection.keys`.

    Raises
    ------
    HarnessError
        The corpus contains no judged document.
    """
    cut, coverage = _cut(qrels, corpus, keys)
    if not coverage.present:
        raise HarnessError(
            f"corpus {corpus.name}: contains none of the {coverage.pairs:,} judged documents (such as "
            f"{qrels.doc[0].decode()!r}); choose the corpus of the judgments"
        )
    return cut, coverage


def _cut(qrels: Qrels, corpus: Corpus, keys: Mapping[str, str] | None) -> tuple[Qrels, Coverage]:
    ids = corpus_ids(corpus)
    return restrict_judgments(qrels, ids if keys is None else (keys[name] for name in ids if name in keys))


def corpus_ids(corpus: Corpus) -> Sequence[str]:
    """Returns the ids of a corpus's documents, cached in the store for fetched corpora, which are slow to read."""
    if not corpus.files():
        return list(corpus.ids())
    from harness.store import artefacts, code

    spec = {
        "corpus": corpus.name,
        "digest": corpus.digest(),
        "columns": [list(corpus.fields), list(corpus.keep)],
        "code": code.of(Corpus.__module__),
    }

    def build(folder: Path) -> None:
        np.save(folder / "ids.npy", np.array([name.encode() for name in corpus.ids()], dtype=np.bytes_))

    folder = artefacts.get_or_build("ids", spec, build)
    return [name.decode() for name in np.load(folder / "ids.npy").tolist()]


def training_judgments(names: Sequence[str]) -> Qrels:
    """Joins the judgments of several collections, each named as `COLLECTION` or `COLLECTION/EDITION`.

    Raises
    ------
    HarnessError
        A name is unknown, or two collections judge the same topic.
    """
    parts = []
    for name in names:
        collection, _, edition = name.partition("/")
        parts.append(load_collection(collection).qrels(edition or None).judged())
    topics: list[str] = []
    for name, part in zip(names, parts, strict=True):
        if both := set(topics) & set(part.topics):
            raise HarnessError(
                f"training: {name} judges topic {min(both)!r}, which another collection judges too; remove one of them"
            )
        topics += part.topics
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.topics) for part in parts)])
    topic = np.concatenate([part.topic + start for part, start in zip(parts, before, strict=False)]).astype(np.int32)
    doc, grade = np.concatenate([part.doc for part in parts]), np.concatenate([part.grade for part in parts])
    checksum = sha256("\n".join(part.sha256 for part in parts).encode())
    return Qrels("+".join(names), tuple(topics), topic, doc, grade, checksum)

"""What runs are scored by: a collection with edition, protocol and (a part of) a corpus, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.collections.collection import Collection
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, gather, several
from harness.io.files import sha256
from harness.scoring.coverage import Coverage, restrict
from harness.scoring.protocol import Protocol, load_protocol
from harness.scoring.scorer import Scorer
from harness.store import artefacts, code


@dataclass(frozen=True)
class Task:
    """What runs are scored by; with a corpus, the judgments are those of documents that it holds.

    Attributes
    ----------
    topics : of the collection.
    coverage : how much of the judgments the corpus holds; None without a corpus.
    keys : document of the corpus -> key of de-duplication; None if documents are judged under their own ids.

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
    """What runs on a collection are scored by, checked: `score`, `compare` and `run` all score by this.

    Collection, corpus and protocol are values or names. Nothing is kept between calls.

    Parameters
    ----------
    corpus : cuts the judgments to the documents that it holds.
    edition, protocol, measures : instead of the collection's and the protocol's own.
    keys : document -> key of de-duplication, instead of the corpus's or the collection's.
    ids_are_keys : runs name keys (visual ids) already.

    Raises
    ------
    HarnessError
        A name is unknown; keys for a protocol that does not de-duplicate, or none for one that does; judgments of a
        topic that the collection lacks; a corpus that holds none of the judged documents.

    Examples
    --------
    >>> import harness as h
    >>> found = h.task("mini-task1", "mini-answers", measures=["nDCG@10", "AP"])
    >>> found.scorer.measures, found.coverage.complete
    (('nDCG@10', 'AP'), True)
    """
    collection = load_collection(collection) if isinstance(collection, str) else collection
    corpus = load_corpus(corpus) if isinstance(corpus, str) else corpus
    chosen = protocol if isinstance(protocol, Protocol) else load_protocol(protocol or collection.protocol)
    deduplicate = chosen.deduplicate
    if not deduplicate and (keys is not None or ids_are_keys):
        raise HarnessError(f"keys: protocol {chosen.name} does not de-duplicate, so keys have no use")
    own = None if corpus is None or not deduplicate else corpus.keys()
    ids_are_keys = ids_are_keys or (corpus is not None and corpus.ids_are_keys)
    if deduplicate and keys is None and not ids_are_keys:
        keys = collection.keys() if own is None else own
    wanted = several(measures) or None
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
            f"collection {collection.name}: the judgments hold topic {min(strange)!r}, which is not among its topics "
            f"({len(strange)} such topics)"
        )
    if corpus is None:
        return Task(collection, topics, None, scorer, None, keys)
    # What runs name and what the corpus names may differ: formulas here, visual ids there.
    held = None
    if deduplicate and not corpus.ids_are_keys:
        held = own if own is not None else keys if keys is not None else collection.keys()
    cut, coverage = present(scorer.qrels, corpus, held)
    return Task(collection, topics, corpus, scorer if coverage.complete else scorer.on_part(cut), coverage, held)


def judged_pool(qrels: Qrels, keys: Mapping[str, str] | None) -> dict[str, frozenset[str]]:
    """Topic -> its judged documents, without grades; with keys (formula -> visual id), the documents of judged keys."""
    of_key: dict[str, list[str]] = {}
    for doc, key in (keys or {}).items():
        of_key.setdefault(key, []).append(doc)
    out: dict[str, set[str]] = {topic: set() for topic in qrels.topics}
    for topic, name in zip(qrels.topic.tolist(), qrels.doc.tolist(), strict=True):
        out[qrels.topics[topic]].update(of_key.get(name.decode(), []) if of_key else [name.decode()])
    return {topic: frozenset(docs) for topic, docs in out.items()}


def present(qrels: Qrels, corpus: Corpus, keys: Mapping[str, str] | None) -> tuple[Qrels, Coverage]:
    """The judgments of what a corpus holds; `keys` as `Collection.keys`.

    Raises
    ------
    HarnessError
        It holds none of the judged documents.
    """
    ids = corpus_ids(corpus)
    cut, coverage = restrict(qrels, ids if keys is None else (keys[name] for name in ids if name in keys))
    if not coverage.present:
        raise HarnessError(
            f"corpus {corpus.name}: holds none of the {coverage.pairs:,} judged documents (such as "
            f"{qrels.doc[0].decode()!r}); choose a corpus that the judgments speak of"
        )
    return cut, coverage


def corpus_ids(corpus: Corpus) -> Sequence[str]:
    """The ids of a corpus's documents; kept in the store if the corpus was fetched, as reading it all takes time."""
    if not corpus.files():
        return list(corpus.ids())
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
    """Judgments of several collections together, each named as `COLLECTION` or `COLLECTION/EDITION`.

    Raises
    ------
    HarnessError
        A name is unknown, or two collections judge one topic.
    """
    parts = []
    for name in names:
        collection, _, edition = name.partition("/")
        parts.append(load_collection(collection).qrels(edition or None))
    topics: list[str] = []
    for name, part in zip(names, parts, strict=True):
        if both := set(topics) & set(part.topics):
            raise HarnessError(f"training: {name} judges topic {min(both)!r}, which is named twice; leave one out")
        topics += part.topics
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.topics) for part in parts)])
    topic = np.concatenate([part.topic + start for part, start in zip(parts, before, strict=False)]).astype(np.int32)
    doc, grade = np.concatenate([part.doc for part in parts]), np.concatenate([part.grade for part in parts])
    checksum = sha256("\n".join(part.sha256 for part in parts).encode())
    return Qrels("+".join(names), tuple(topics), topic, doc, grade, checksum)

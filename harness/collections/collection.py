"""Collections: topics, judgments in editions, and the protocol by which runs are scored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from harness.collections.files import local, read_judgments, read_keys, read_listed, read_places, read_topics
from harness.data import topic_files
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, counted_text, suggestion
from harness.formulas.text.delimiters import Dollars
from harness.io.files import read_bytes
from harness.scoring.protocol import Exclusions, Protocol, load_protocol
from harness.scoring.scorer import Scorer
from harness.sources.catalogue import Located
from harness.sources.resource import Resource


@dataclass(frozen=True)
class ExclusionFile:
    """A file that defines exclusions; `reader` is one of `files.LISTED` or `files.known_places`."""

    file: Located
    reader: str


@dataclass(frozen=True)
class Edition:
    """One set of judgments, with its expected size, so that a wrong file is noticed.

    Attributes
    ----------
    topics, judgments : expected numbers; 0 if unknown when the configuration was written.
    reader : reader of the file, a form of judgments.
    private : whether outputs for participants of a lab must not reveal judgments.
    exclusions : topic -> excluded documents, for protocols with the exclusion rule `listed`.
    order : documents in order, or their positions, for protocols with the exclusion rule `later`.
    topic_order : positions of topics in that order; None if topics are themselves documents in it.
    given : the judgments, if they are a value and in no file.
    """

    name: str
    title: str
    file: Located
    topics: int
    judgments: int
    reader: str = "trec"
    private: bool = False
    exclusions: ExclusionFile | None = None
    order: ExclusionFile | None = None
    topic_order: ExclusionFile | None = None
    given: Qrels | None = field(default=None, kw_only=True)

    def exclusion_files(self) -> list[ExclusionFile]:
        """Returns the files that define exclusions."""
        return [each for each in (self.exclusions, self.order, self.topic_order) if each is not None]


@dataclass(frozen=True)
class TopicFile:
    """A collection's topics.

    Attributes
    ----------
    reader : a form of topics, or empty to detect the format from the file's content.
    dollars : which dollar signs of the texts enclose formulas; None: as usual for the reader.
    """

    file: Located
    reader: str = ""
    language: str = "eng"
    dollars: Dollars | None = None


@dataclass(frozen=True)
class AttributeFile:
    """Attributes of topics (CSV): the column of topic ids, and column -> name of the attribute."""

    file: Located
    key: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class KeyFile:
    """Keys of de-duplication: the columns of documents and of their keys."""

    file: Located
    id_column: str
    key_column: str


@dataclass(frozen=True)
class Collection:
    """Collection described by a configuration; files are fetched on first use.

    Attributes
    ----------
    protocol : name of the default protocol for scoring runs.
    notes : caveats for readers of its scores.
    where : the configuration file, for messages.
    corpus : default corpus of `harness run` and the demonstration; empty for none.
    cluster : topic attribute whose values form clusters of dependent topics; empty if topics are independent.
    link : URL of a document, with `{id}` in place of its id; empty if documents have none.

    Examples
    --------
    >>> from harness import load_collection
    >>> load_collection("mini-task1").qrels().to_dict()["M.1"]["a1088"]
    3
    """

    name: str
    title: str
    licence: str
    protocol: str
    editions: Mapping[str, Edition]
    default_edition: str
    notes: tuple[str, ...]
    where: str
    corpus: str = ""
    cluster: str = ""
    link: str = ""
    topic_file: TopicFile | None = None
    attribute_files: tuple[AttributeFile, ...] = ()
    key_file: KeyFile | None = None

    def edition(self, name: str | None = None) -> Edition:
        """Returns an edition by name, or the default one."""
        chosen = self.default_edition if name is None else name
        if chosen not in self.editions:
            raise HarnessError(
                f"collection {self.name}: edition {chosen!r} is unknown; {suggestion(chosen, self.editions)}"
            )
        return self.editions[chosen]

    def located(self) -> list[Resource | Path]:
        """Returns all files of the collection."""
        entries = [edition.file for edition in self.editions.values() if edition.given is None]
        entries += [each.file for edition in self.editions.values() for each in edition.exclusion_files()]
        entries += [part.file for part in (self.topic_file, *self.attribute_files, self.key_file) if part is not None]
        files = [each for entry in entries for each in (entry if isinstance(entry, tuple) else (entry,))]
        return list(dict.fromkeys(files))

    def files(self) -> list[Resource]:
        """Returns all files of the collection that are fetched."""
        return [file for file in self.located() if isinstance(file, Resource)]

    def state(self) -> str:
        """Returns the worst state of its files: `here`, `fetchable`, `manual download: ...` or `needs ...`."""
        from harness.sources.fetch import resource_state

        states = [resource_state(entry) for entry in self.files()]
        states += ["needs the private judgments, which the organisers have"] * any(map(self.withheld, self.editions))
        states += [f"needs {entry}" for entry in self.located() if isinstance(entry, Path) and not entry.is_file()]
        by_hand = [entry for entry in states if entry not in ("here", "fetchable")]
        return by_hand[0] if by_hand else "fetchable" if "fetchable" in states else "here"

    def withheld(self, edition: str | None = None) -> bool:
        """Returns whether an edition is private and its judgments cannot be read, as by participants of a lab."""
        chosen = self.edition(edition)
        return chosen.private and isinstance(chosen.file, Path) and not os.access(chosen.file, os.R_OK)

    def qrels(self, edition: str | None = None) -> Qrels:
        """Returns the judgments of an edition; checks the numbers of topics and judgments against the configuration."""
        chosen = self.edition(edition)
        if self.withheld(edition):
            private = f"the judgments of {self.name}, edition {chosen.name}, are private"
            only = "only the organisers can score runs"
            more = "'harness run' can still make them, one configuration at a time"
            raise HarnessError(f"{chosen.file}: cannot be read: {private}; {only}; {more}")
        if chosen.given is not None:
            return chosen.given
        path = local(chosen.file)
        qrels = read_judgments(path, chosen.reader, chosen.name)
        declared = (chosen.topics or len(qrels.topics), chosen.judgments or len(qrels))
        if (len(qrels.topics), len(qrels)) != declared:
            raise HarnessError(
                f"{path}: {counted_text(len(qrels.topics), 'topic')} and {counted_text(len(qrels), 'judgment')}; "
                f"{self.where} says {chosen.topics} and {chosen.judgments}"
            )
        return qrels

    def exclusions(self, edition: str | None, protocol: Protocol) -> Exclusions | None:
        """Returns the documents that a protocol excludes on an edition, or None; reads only the files of its rules.

        Raises
        ------
        HarnessError
            The edition names no file that a rule needs, or a file has faults.
        """
        if not protocol.exclude:
            return None
        chosen = self.edition(edition)
        listed = self.listed(chosen) if "listed" in protocol.exclude else {}
        order, places = chosen.order, chosen.topic_order if "later" in protocol.exclude else None
        for rule, key, given in (("listed", "exclusions", listed), ("later", "order", order)):
            if rule in protocol.exclude and given is None:
                raise HarnessError(
                    f"collection {self.name}: protocol {protocol.name} excludes what is {rule}, and edition "
                    f"{chosen.name} names no file of that (key {key!r})"
                )
        if "listed" in protocol.exclude and not listed:
            raise HarnessError(f"collection {self.name}: nothing is excluded: its list of exclusions is empty")
        known = self.known_topics() if listed else None
        if listed and known is not None and known.isdisjoint(listed):
            raise HarnessError(
                f"collection {self.name}: nothing is excluded: {min(listed)!r} and the other topics with excluded "
                f"documents ({len(listed):,} in all) are not topics of this collection"
            )
        return Exclusions(
            protocol.exclude,
            listed or {},
            read_places(local(order.file), order.reader) if order and "later" in protocol.exclude else {},
            read_places(local(places.file), places.reader) if places else None,
        )

    def listed(self, edition: Edition) -> Mapping[str, frozenset[str]] | None:
        """Returns topic -> excluded documents listed by the edition; None if it has no list."""
        file = edition.exclusions
        return None if file is None else read_listed(local(file.file), file.reader)

    def topics(self) -> Topics:
        """Returns the topics with all attributes, read once; without a topic file, the ids of the judged topics."""
        return self._topics

    @cached_property
    def _topics(self) -> Topics:
        if self.topic_file is None:
            return Topics(tuple(Topic(name, "") for name in self.qrels().topics))
        file = self.topic_file
        out = read_topics(local(file.file), file.reader, file.language, file.dollars)
        for named in self.attribute_files:
            path = local(named.file)
            out = out.with_attributes(topic_files.attributes_csv(read_bytes(path), str(path), named.key, named.columns))
        return out

    def known_topics(self) -> frozenset[str] | None:
        """Returns the ids of the topics that a run may answer; None if unknown."""
        return self.topics().ids() if self.topic_file is not None else None

    def clusters(self) -> dict[str, str] | None:
        """Returns topic -> its cluster of dependent topics; None if topics are independent."""
        name = self.cluster
        if not name:
            return None
        cluster_of = {topic.id: topic.attributes.get(name) for topic in self.topics()}
        if lacking := [topic for topic, value in cluster_of.items() if value is None]:
            raise HarnessError(f"{self.where}: key 'cluster': topic {lacking[0]} has no attribute {name!r}")
        return {topic: str(value) for topic, value in cluster_of.items()}

    def keys(self) -> dict[str, str] | None:
        """Returns document -> key of de-duplication, or None if the collection needs none."""
        part = self.key_file
        return None if part is None else read_keys(local(part.file), part.id_column, part.key_column)

    def scorer(
        self,
        edition: str | None = None,
        protocol: Protocol | str | None = None,
        *,
        measures: tuple[str, ...] | None = None,
        keys: Mapping[str, str] | None = None,
        ids_are_keys: bool = False,
    ) -> Scorer:
        """Returns a scorer of runs from the judgments and a protocol.

        Parameters
        ----------
        keys : replaces the collection's own map of documents to keys.
        ids_are_keys : runs already contain keys (visual ids) instead of document ids.

        Raises
        ------
        HarnessError
            The protocol de-duplicates and there is no map to keys (ids and keys may be numbers in the same range, so
            scores would be silently wrong), or a judged document has no position in the order.
        """
        chosen = protocol if isinstance(protocol, Protocol) else load_protocol(protocol or self.protocol)
        if keys is None and chosen.deduplicate and not ids_are_keys:
            keys = self.keys()
            if keys is None:
                raise HarnessError(
                    f"collection {self.name}: protocol {chosen.name} maps documents to keys, and the collection has no "
                    "map; give it with --keys FILE, or say --keys none if the runs name keys; "
                    "'harness run' needs a corpus whose ids are keys or that has keys"
                )
        excluded = self.exclusions(edition, chosen)
        qrels = self.qrels(edition)
        if excluded is not None:
            try:
                excluded.check(qrels)
            except HarnessError as error:
                raise HarnessError(f"collection {self.name}, edition {qrels.edition}: {error}") from None
        return Scorer(qrels, chosen, collection=self.name, keys=keys, measures=measures, exclusions=excluded)

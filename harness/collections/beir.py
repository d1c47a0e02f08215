"""Collections and corpora in BEIR format, in a folder or on the hub at a fixed revision."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

from harness.collections.collection import Collection, Edition
from harness.collections.corpus import Corpus, Remarks, dollar_counts
from harness.collections.readers import beir
from harness.data.topics import Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError, counted_text
from harness.formulas.text.delimiters import Dollars
from harness.io.checks import Words, check_whole_number, typed
from harness.io.console import log_line
from harness.sources import hub, network
from harness.sources.catalogue import resource
from harness.sources.resource import RepositoryFolder, Resource


@dataclass(frozen=True)
class DataSet:
    """Location of a data set: a folder, or a repository of the hub.

    Attributes
    ----------
    folder : None if it is on the hub.
    name, revision : `OWNER/NAME` on the hub, and 40 hexadecimal digits; empty for a folder.
    split : split of the judgments.
    subset : subset of a repository that holds several data sets.
    dollars : which dollar signs of its texts enclose formulas.

    Examples
    --------
    >>> DataSet(name="hcju/modup", revision="b123b60d6ccaad16eb0305f3f35e14dd557c0962").called
    'hcju/modup@b123b60'
    """

    folder: Path | None = None
    name: str = ""
    revision: str = ""
    split: str = beir.SPLIT
    subset: str = ""
    dollars: Dollars = "pandoc"

    @property
    def called(self) -> str:
        """Name in messages."""
        return f"{self.name}@{self.revision[:7]}" if self.folder is None else str(self.folder)

    def here(self) -> bool:
        """Returns whether all of its files are available locally; reads no file."""
        try:
            return self._local() is not None
        except HarnessError:
            return False

    def state(self, called: str) -> str:
        """Returns `here`, or what is missing and how to fetch it; `called` is the name of the collection or corpus."""
        if self.here():
            return "here"
        if self.folder is not None:
            return f"needs the data set {self.folder} (folder)"
        install = "" if hub.installed() else "pip install 'mathir-harness[hub]' && "
        return f"needs the data set {self.name} (hub): {install}harness fetch {called}"

    def files(self) -> beir.BeirFiles:
        """Returns its files, downloading missing ones; files from the hub are verified.

        Raises
        ------
        HarnessError
            A part is missing, the hub does not answer, or a file was damaged.
        """
        local = self._local()
        if local is None:
            at = hub.download(self.name, self.revision, self._needed_names)
            local = beir.in_folder(at, self.called, self.split, self.subset)
        if self.folder is None:
            for path in (*local.corpus, *local.queries, *local.qrels, *local.excluded):
                hub.verify(path)
        return local

    def fetched(self) -> beir.BeirFiles:
        """Returns its files after completing a partial download from the hub.

        Otherwise a data set whose exclusion file was not downloaded would look like one without exclusions.
        """
        if self.folder is None and not network.offline() and hub.mirrored(self.name, self.revision) is None:
            try:
                hub.download(self.name, self.revision, self._needed_names)
            except HarnessError as error:
                if not self.here():
                    raise
                log_line(f"{error}; what is here is taken for all of it")
        return self.files()

    def located(self, *parts: str) -> list[Path]:
        """Returns its local files of some parts (see `beir.BeirFiles`); none if a part is missing."""
        local = self._local() if self.here() else None
        return [] if local is None else [path for part in parts for path in getattr(local, part)]

    def reachable(self) -> None:
        """Raises HarnessError unless the data set is available locally or the hub lists its parts."""
        if self.folder is not None:
            self._local()
        elif not self.here():
            self._needed_names(hub.listed(self.name, self.revision)[1])

    def _local(self) -> beir.BeirFiles | None:
        """Returns its local files, or None. Raises HarnessError if it is a folder and lacks a part."""
        if self.folder is not None:
            return beir.in_folder(self.folder, self.called, self.split, self.subset)
        at = hub.snapshot(self.name, self.revision)
        if at is None:
            return None
        try:
            return beir.in_folder(at, self.called, self.split, self.subset)
        except HarnessError:  # partially downloaded
            return None

    def _needed_names(self, names: Iterable[str]) -> list[str]:
        wanted = beir.find_beir_files(names, self.called, self.split, self.subset)
        return [name for part in wanted.values() for name in part]


@dataclass(frozen=True)
class BeirCollection(Collection):
    """Collection whose single edition is a split of a data set; its topics are the judged queries of that split."""

    data: DataSet = field(default_factory=DataSet)

    def state(self) -> str:
        """Returns `here`, or what is missing and the command that fetches it."""
        return self.data.state(self.name)

    def located(self) -> list[Resource | Path]:
        """Returns its local files."""
        return [*self.data.located("queries", "qrels", "excluded")]

    def qrels(self, edition: str | None = None) -> Qrels:
        """Returns the judgments; checks the numbers of topics and judgments against the configuration."""
        chosen = self.edition(edition)
        judgments = beir.qrels(self.data.files(), chosen.name)
        numbers = len(judgments.topics), len(judgments.judged())
        if numbers != (chosen.topics or numbers[0], chosen.judgments or numbers[1]):
            raise HarnessError(
                f"{self.data.called}: {counted_text(numbers[0], 'topic')} and {counted_text(numbers[1], 'judgment')}; "
                f"{self.where} says {chosen.topics} and {chosen.judgments}"
            )
        return judgments

    def known_topics(self) -> frozenset[str]:
        """Returns the ids of the judged queries."""
        return self.topics().ids()

    def listed(self, edition: Edition) -> Mapping[str, frozenset[str]] | None:
        """Returns topic -> excluded documents; None if the data set has no list of exclusions."""
        files = self.data.files()
        return beir.excluded(files) if files.excluded else None

    @cached_property
    def _topics(self) -> Topics:
        return beir.topics(self.data.files(), self.qrels().topics, dollars=self.data.dollars)


@dataclass(frozen=True)
class BeirCorpus(Corpus):
    """The documents of a data set."""

    data: DataSet = field(default_factory=DataSet)

    def state(self) -> str:
        """Returns `here`, or what is needed and the command that brings it."""
        return self.data.state(self.name)

    def located(self) -> list[Resource | RepositoryFolder | Path]:
        """Returns its local files."""
        return [*self.data.located("corpus")]

    def files(self) -> list[Any]:
        """Returns an empty list: `DataSet.files` manages the files and their checksums."""
        return []

    def _sources(self) -> tuple[Path, ...]:
        return self.data.files().corpus


# ---- configurations ---------------------------------------------------------------------------------------------


def _checked(pattern: re.Pattern[str], expected: str, key: str, value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise HarnessError(f"key {key!r} is {value!r}, expected {expected}")
    return value


_checked_name = partial(_checked, hub.NAME, "OWNER/NAME as on huggingface.co/datasets")
_checked_revision = partial(_checked, hub.REVISION, "the 40 hexadecimal digits of a commit (in quotes)")


@dataclass(frozen=True)
class _Where:
    """Key `beir` of a corpus; has either `folder`, or `hub` and `revision`.

    Attributes
    ----------
    folder : local folder of the data set, relative to the configuration's folder.
    hub, revision : OWNER/NAME on the Hugging Face hub, and the 40 digits of the commit.
    subset : part of the data set.
    dollars : which dollar signs enclose formulas, `pandoc` or `pairs`; page "Your own collections".
    """

    folder: Words = ""
    hub: Annotated[str, _checked_name] = ""
    revision: Annotated[str, _checked_revision] = ""
    subset: Words = ""
    dollars: Dollars = "pandoc"

    def __post_init__(self) -> None:
        if bool(self.folder) == bool(self.hub):
            raise HarnessError("expected one of the keys 'folder' and 'hub'")
        if bool(self.hub) != bool(self.revision):
            raise HarnessError("keys 'hub' and 'revision' go together: the hub's data sets change")


@dataclass(frozen=True)
class _Split(_Where):
    """Key `beir` of a collection.

    Attributes
    ----------
    split : split of the judgments.
    topics, judgments : numbers that are checked when the files are read; 0: unchecked.
    """

    split: Words = beir.SPLIT
    topics: Annotated[int, check_whole_number] = 0
    judgments: Annotated[int, check_whole_number] = 0


@dataclass(frozen=True)
class BeirCollectionFile:
    """`conf/collection/NAME.yaml` of a data set in BEIR format.

    Attributes
    ----------
    name, title, licence, protocol, corpus, notes, link : see `harness.collections.load.CollectionFile`.
    beir : the data set.
    """

    name: Any
    title: Words
    licence: Words
    protocol: Any
    beir: _Split
    corpus: Any = ""
    notes: tuple[str, ...] = ()
    link: Any = ""


@dataclass(frozen=True)
class BeirCorpusFile:
    """`conf/corpus/NAME.yaml` of a data set in BEIR format.

    Attributes
    ----------
    name, title, licence, notes : see `harness.collections.corpora.CorpusFile`.
    beir : the data set.
    """

    name: Any
    title: Words
    licence: Words
    beir: _Where
    notes: tuple[str, ...] = ()


def collection(name: str, mapping: Mapping[str, Any], where: str) -> BeirCollection:
    """Returns a collection from its configuration; `protocol`, `corpus` and `link` must have been checked.

    Raises
    ------
    HarnessError
        Keys are unknown, missing or wrong; the message lists all of them, one per line.
    """
    entry = typed(BeirCollectionFile, mapping, where)
    given = entry.beir
    edition = Edition(given.split, f"split {given.split}", Path(), given.topics, given.judgments)
    about = (entry.protocol, {edition.name: edition}, edition.name, entry.notes, where, entry.corpus)
    data = _located_data_set(given, where, given.split)
    return BeirCollection(name, entry.title, entry.licence, *about, link=entry.link, data=data)


def corpus(name: str, mapping: Mapping[str, Any], where: str) -> BeirCorpus:
    """Returns a corpus from its configuration. Raises HarnessError for all faulty keys, a line each."""
    entry = typed(BeirCorpusFile, mapping, where)
    data = _located_data_set(entry.beir, where)
    about = (name, entry.title, entry.licence)
    return BeirCorpus(*about, (), reader=beir.DOCUMENTS, notes=entry.notes, dollars=data.dollars, data=data)


def _located_data_set(given: _Where, where: str, split: str | None = None) -> DataSet:
    folder = resource({"file": given.folder}, f"{where}: beir", Path(where).parent) if given.folder else None
    at = folder if isinstance(folder, Path) else None
    return DataSet(at, given.hub, given.revision, split or beir.SPLIT, given.subset, given.dollars)


# ---- new data sets ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """Counts of a data set.

    Attributes
    ----------
    documents, topics, judgments : numbers of documents, judged queries and judgments.
    excluded : number of excluded pairs of query and document.
    texts : number of formulas in the documents, and of dollar signs outside of formulas, by the rule of the data set.
    """

    documents: int
    topics: int
    judgments: int
    excluded: int
    texts: Remarks


def named(place: str, revision: str | None, split: str, subset: str) -> DataSet:
    """Returns a data set by its folder, or by its name on the hub and a revision (by default the newest).

    Raises
    ------
    HarnessError
        It is neither, or the hub does not return the newest revision.
    """
    if Path(place).expanduser().is_dir():
        if revision:
            raise HarnessError(f"{place}: is a folder, which has no revision")
        return DataSet(Path(place).expanduser(), split=split, subset=subset)
    if not hub.NAME.fullmatch(place) or place.startswith("."):
        raise HarnessError(f"{place}: no such folder, and no OWNER/NAME of a data set on the hub")
    if revision is not None:
        _checked_revision("revision", revision)
    return DataSet(None, place, revision or hub.listed(place)[0], split, subset)


def survey(data: DataSet) -> Survey:
    """Reads a whole data set and checks that its parts are consistent.

    Raises
    ------
    HarnessError
        A part is missing or damaged, an id occurs twice, or judgments refer to a missing query or document.
    """
    files = data.fetched()
    judgments = beir.qrels(files, data.split)
    beir.topics(files, judgments.topics)
    listed = beir.excluded(files) if files.excluded else {}
    unknown = {doc.decode() for doc in judgments.doc.tolist()}
    count, texts = 0, Remarks()
    for document in BeirCorpus(data.called, "", "", (), reader=beir.DOCUMENTS, dollars=data.dollars, data=data):
        unknown.discard(document.id)
        texts.update(dollar_counts(document))
        count += 1
    if unknown:
        many = f"{len(unknown):,} such documents"
        raise HarnessError(f"{files.qrels[0]}: document {min(unknown)!r} is not in the corpus ({many})")
    return Survey(count, len(judgments.topics), len(judgments.judged()), sum(map(len, listed.values())), texts)

"""Interface of systems. A system never sees the judgments by which its runs are scored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.collections.corpus import Corpus
from harness.data.columns import Bools, Ids
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError, suggestion
from harness.io import config

Pool = Mapping[str, frozenset[str]]
MARK = "+test-judgments"  # suffix of the name of a run that learned from judgments of the topics it ranks


class Excluded(Protocol):
    """Documents excluded from the ranking of a topic; implemented by `harness.scoring.protocol.Exclusions`."""

    def out(self, topics: Sequence[str], topic: npt.NDArray[np.integer[Any]], doc: Ids) -> Bools:
        """Returns which (topic, document) pairs are excluded, shape (pairs,)."""

    def among(self, docs: Ids) -> Callable[[str], Bools]:
        """Returns a function of a topic that returns which of these documents are excluded, shape (documents,)."""


@dataclass(frozen=True)
class Request:
    """Request to a system: topics, corpus, and data that it may use for ranking.

    Attributes
    ----------
    topics : topics to rank documents for; a topic may be left out of the run.
    corpus : documents to search; None if the task names no corpus.
    workspace : folder for the system's own files between calls; it may not exist yet.
    training : judgments of topics other than `topics` (otherwise the run gets the suffix `MARK`); None without any.
    pool : for re-ranking, topic -> documents to which its ranking is restricted; a topic that is missing has no
        documents. None for the whole corpus.
    excluded : documents that do not count for a topic. They are removed from the run in any case; a system that removes
        them before it cuts off its rankings returns the full depth. None if all documents count.

    Examples
    --------
    >>> Request(Topics((Topic("T1", "one"),)), None, Path("workspace")).corpus_for("bm25")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    harness.errors.HarnessError: system bm25: needs a corpus; name one with corpus=NAME (known: ...)
    """

    topics: Topics
    corpus: Corpus | None
    workspace: Path
    training: Qrels | None = None
    pool: Pool | None = None
    excluded: Excluded | None = None

    def corpus_for(self, system: str) -> Corpus:
        """Returns the corpus, for a system that needs one.

        Raises
        ------
        HarnessError
            There is no corpus; the message names the system.
        """
        if self.corpus is None:
            known = suggestion("", config.names("corpus"))
            raise HarnessError(f"system {system}: needs a corpus; name one with corpus=NAME ({known})")
        return self.corpus

    def allowed(self, topic: Topic) -> frozenset[str] | None:
        """Returns the pool of a topic; None if the whole corpus may be ranked."""
        return None if self.pool is None else self.pool.get(topic.id, frozenset())

    def left(self, topic: Topic, docs: Collection[str]) -> Collection[str]:
        """Removes the documents that are excluded for a topic; keeps the order."""
        if self.excluded is None or not docs:
            return docs
        out = self.excluded.among(np.array([doc.encode() for doc in docs], dtype=np.bytes_))(topic.id)
        return [doc for doc, gone in zip(docs, out.tolist(), strict=True) if not gone]


class System(Protocol):
    """A system: a function of a request, or a callable object.

    An object may also have attributes and methods that describe its runs (`harness.systems.build.BuiltSystem` has the
    defaults):

    - `name`, an attribute: name of the run in messages.
    - `reads() -> dict`: inputs of its runs besides its own configuration: run files by checksum, other systems.
    - `notes() -> tuple[str, ...]`: notes for readers of its results, one sentence each.
    - `trains_without() -> frozenset[str] | None`: if it trains on posts, the collections whose judged posts were left
      out of training.
    - `libraries() -> tuple[str, ...]`: distributions whose versions the metadata file of a run records.
    - `searches() -> bool`: False if it reads no corpus, such as a system that reads a run file.

    Examples
    --------
    >>> def nothing(request: Request) -> Run:
    ...     return Run.from_dict("nothing", {})
    """

    def __call__(self, request: Request, /) -> Run:
        """Returns the run: documents for each topic, by score."""

"""What a system is asked, and what it is. It never sees the judgments it is scored with."""

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
MARK = "+test-judgments"  # ends the name of a run that learnt from judgments of topics it ranks


class Excluded(Protocol):
    """Documents that must not be ranked for a topic, as `harness.scoring.exclusions.Exclusions` has them."""

    def out(self, topics: Sequence[str], topic: npt.NDArray[np.integer[Any]], doc: Ids) -> Bools:
        """Returns which (topic, document) pairs are out, shape (pairs,)."""

    def among(self, docs: Ids) -> Callable[[str], Bools]:
        """Returns a function of a topic that says which of these documents are out, shape (documents,)."""


@dataclass(frozen=True)
class Request:
    """What a system is asked to rank, and what it may use for it.

    Attributes
    ----------
    topics : each is to be answered with a ranking; one that is left out has none.
    corpus : the documents to search; None if the task names no corpus.
    workspace : a folder of the system's own, for what it keeps between calls; it need not exist yet.
    training : judgments of other topics than `topics` (unless the run is to be marked); None if there are none.
    pool : topic -> the only documents that may be ranked for it, when the task is re-ranking; a topic that is not
        in it has none. None for the whole corpus.
    excluded : documents that do not count for a topic; a system that leaves them out before it cuts its rankings
        returns as many as it is asked for. What it leaves in is taken out of its run. None if all count.

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
            There is none; the line names the system.
        """
        if self.corpus is None:
            known = suggestion("", config.names("corpus"))
            raise HarnessError(f"system {system}: needs a corpus; name one with corpus=NAME ({known})")
        return self.corpus

    def allowed(self, topic: Topic) -> frozenset[str] | None:
        """Returns the only documents that may be ranked for a topic; None if there is no pool."""
        return None if self.pool is None else self.pool.get(topic.id, frozenset())

    def left(self, topic: Topic, docs: Collection[str]) -> Collection[str]:
        """Returns those of some documents that are not excluded for a topic, in their order."""
        if self.excluded is None or not docs:
            return docs
        out = self.excluded.among(np.array([doc.encode() for doc in docs], dtype=np.bytes_))(topic.id)
        return [doc for doc, gone in zip(docs, out.tolist(), strict=True) if not gone]


class System(Protocol):
    """What ranks: any function of a request, or an object that is called like one.

    An object may have methods as well that say what is to be known of its runs (`harness.systems.build.Built` has
    what holds without them):

    - `name`, an attribute: what the run is called in messages while it is made.
    - `reads() -> dict`: what its runs depend on besides its own configuration: run files by checksum, other systems.
    - `notes() -> tuple[str, ...]`: sentences that a reader of its numbers must know.
    - `trains_without() -> frozenset[str] | None`: if it trains on posts, the collections whose judged posts it has
      not seen.
    - `searches() -> bool`: False if it reads no corpus, such as one that reads a run file.

    Examples
    --------
    >>> def nothing(request: Request) -> Run:
    ...     return Run.from_dict("nothing", {})
    """

    def __call__(self, request: Request, /) -> Run:
        """Returns the run: documents for each topic, by score."""
        ...

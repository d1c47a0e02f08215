"""Systems without dependencies: a random order, word overlap, and existing run files."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.data.trec import Run, read_run, run_bytes
from harness.io import checks
from harness.io.files import sha256
from harness.store.cost import queries
from harness.systems.base import MARK, Request

_WORD = re.compile(r"\\[A-Za-z]+|[^\W\d_]+|\d+")


def tokens(text: str) -> list[str]:
    """Splits a text into words, numbers and LaTeX commands, in lower case."""
    return [word.lower() for word in _WORD.findall(text)]


@dataclass(frozen=True)
class Shuffle(checks.Checked):
    """A random ranking of all documents, or of the pool, that depends only on the seed and the ids."""

    seed: int = 0
    depth: checks.Positive = 1000
    name: str = "shuffle"

    def __call__(self, request: Request) -> Run:
        """Ranks by a hash of seed, topic and document."""
        everything = [] if request.pool is not None else [document.id for document in request.corpus_for(self.name)]
        rankings = {}
        for topic in queries(request.topics):
            pool = request.allowed(topic)
            ids = everything if pool is None else sorted(pool)
            scored = {doc: self._score(topic.id, doc) for doc in request.left(topic, ids)}
            rankings[topic.id] = dict(sorted(scored.items(), key=lambda pair: -pair[1])[: self.depth])
        return Run.from_dict(self.name, {topic: docs for topic, docs in rankings.items() if docs})

    def _score(self, topic: str, doc: str) -> float:
        """Returns a random number in [0, 1) that depends on the seed, the topic and the document alone."""
        digest = hashlib.sha256(f"{self.seed}\t{topic}\t{doc}".encode()).digest()
        # 24 bits are exact in float32, so rounding causes no ties.
        return int.from_bytes(digest[:3], "big") / 2**24


@dataclass(frozen=True)
class Overlap(checks.Checked):
    """Word overlap: ranks documents by the distinct words that they share with the topic.

    Parameters
    ----------
    title_only : use the topic's title without its body.
    score : `weight`, the sum of log(N / df) over shared words; or `jaccard`, the Jaccard coefficient.
    """

    depth: checks.Positive = 1000
    title_only: bool = False
    name: str = "overlap"
    score: Literal["weight", "jaccard"] = "weight"

    def __call__(self, request: Request) -> Run:
        """Ranks by shared words; documents without any are not returned."""
        documents = {d.id: set(tokens(" ".join((d.title, d.body, *d.tags)))) for d in request.corpus_for(self.name)}
        frequency = Counter(word for words in documents.values() for word in words)
        weight = {word: math.log(len(documents) / df) for word, df in frequency.items()}
        rankings = {}
        for topic in queries(request.topics):
            parts = (topic.title,) if self.title_only else (topic.title, topic.body, *topic.tags)
            wanted = set(tokens(" ".join(parts)))
            pool = request.allowed(topic)
            ids = request.left(topic, documents if pool is None else pool & documents.keys())
            shared = {doc: wanted & documents[doc] for doc in ids}
            if self.score == "jaccard":
                scored = {doc: len(both) / len(wanted | documents[doc]) for doc, both in shared.items() if both}
            else:
                scored = {doc: math.fsum(sorted(weight[w] for w in both)) for doc, both in shared.items()}
            best = sorted(((s, doc) for doc, s in scored.items() if s > 0), reverse=True)[: self.depth]
            rankings[topic.id] = {doc: score for score, doc in best}
        return Run.from_dict(self.name, {topic: docs for topic, docs in rankings.items() if docs})


@dataclass(frozen=True)
class External:
    """An existing run file as a system."""

    path: str
    format: str | None = None
    name: str | None = None

    def reads(self) -> dict[str, str]:
        """Returns the checksum of the file."""
        return {self.path: sha256(run_bytes(Path(str(self.path)).expanduser()))}

    def searches(self) -> bool:
        """Returns False: the run file is read instead of a corpus."""
        return False

    def __call__(self, request: Request) -> Run:
        """Reads the file and checks it against the topics."""
        path = Path(str(self.path)).expanduser()
        run = read_run(path, format=self.format, known_topics=request.topics.ids())
        if self.name is None:
            return run
        # A renamed run keeps the mark of having learned from test judgments.
        marked = run.name.endswith(MARK) and not self.name.endswith(MARK)
        return read_run(path, name=self.name + (MARK if marked else ""), format=self.format)

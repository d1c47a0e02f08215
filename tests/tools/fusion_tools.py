"""What the tests of fusion share: small runs, judgments, comparisons."""

from __future__ import annotations

import random

from harness.data.columns import Floats
from harness.data.trec import Qrels, Run
from harness.systems.fusion.candidates import FusionCandidates


def ranked(name: str, **topics: str) -> Run:
    """A run from the one-letter ids of its documents, best first."""
    return Run.from_dict(
        name, {topic: {doc: -float(rank) for rank, doc in enumerate(ids)} for topic, ids in topics.items()}
    )


def order(run: Run, topic: str = "T") -> str:
    return "".join(run.to_dict()[topic])


def same(a: Run, b: Run) -> bool:
    return a.to_dict() == b.to_dict() and list(map(list, a.to_dict().values())) == list(map(list, b.to_dict().values()))


def judgments(seed: int = 0) -> Qrels:
    chance = random.Random(seed)
    grades = {topic: {f"d{n}": chance.choice([0, 0, 1, 2, 3]) for n in range(30)} for topic in ("A", "B", "C")}
    return Qrels.from_dict("made", grades | {"D": {"d1": 0.0}})


def noisy(qrels: Qrels, name: str, noise: float, topics: str = "ABC") -> Run:
    """A run that knows the grades, more or less, and retrieves unjudged documents too."""
    chance = random.Random(name)
    known = {
        topic: {**docs, **{f"u{n}": 1 for n in range(10)}} for topic, docs in qrels.to_dict().items() if topic in topics
    }
    return Run.from_dict(
        name, {t: {d: g + noise * chance.gauss(0, 1) for d, g in docs.items()} for t, docs in known.items()}
    )


def pairs_of(candidates: FusionCandidates, values: Floats) -> dict[tuple[str, str], float]:
    """(topic, document) -> value of each candidate."""
    docs = candidates.docs[candidates.doc].astype(str).tolist()
    topics = [candidates.topics[topic] for topic in candidates.topic.tolist()]
    return dict(zip(zip(topics, docs, strict=True), values.tolist(), strict=True))

"""A retriever with an index of its own, and a re-ranker; both in plain Python, so that no Java is needed."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

COMMAND = re.compile(r"\\[A-Za-z]+|[A-Za-z]+")


def tokens(text: str) -> list[str]:
    """Returns the words and LaTeX commands of a text."""
    return [token.lower() for token in COMMAND.findall(text)]


def index(documents: Iterable[Mapping[str, str]], folder: str) -> None:
    """Writes the counts of each document's words to a folder; documents have `docno`, `text` and further columns."""
    counts = {document["docno"]: Counter(tokens(document["text"])) for document in documents}
    Path(folder, "counts.json").write_text(json.dumps(counts), encoding="utf-8")


def query_likelihood(index: str, mu: float = 100.0, results: int = 1000) -> pt.Transformer:
    """Returns a retriever by query likelihood with Dirichlet smoothing over an index that `index` wrote."""
    counts = json.loads(Path(index, "counts.json").read_text(encoding="utf-8"))
    length = {doc: sum(words.values()) for doc, words in counts.items()}
    collection: Counter[str] = Counter()
    for words in counts.values():
        collection.update(words)
    total = collection.total()

    def score(query: str, doc: str) -> float:
        return sum(
            math.log((counts[doc].get(word, 0) + mu * collection[word] / total) / (length[doc] + mu))
            for word in tokens(query)
            if collection[word]
        )

    def search(topics: pd.DataFrame) -> pd.DataFrame:
        rows = [(topic.qid, doc, score(topic.query, doc)) for topic in topics.itertuples() for doc in counts]
        return pt.model.add_ranks(pd.DataFrame(rows, columns=["qid", "docno", "score"]))

    return pt.apply.generic(search) % results


def _shared(row: Mapping[str, Any]) -> float:
    query, text = (set(re.findall(r"\\[A-Za-z]+", row[column])) for column in ("query", "text"))
    return len(query & text) / len(query | text) if query | text else 0.0


# A re-ranker: the share of LaTeX commands that topic and document have in common, then the first ranking.
commands = pt.apply.doc_score(lambda row: _shared(row) + 1e-6 * row["score"])

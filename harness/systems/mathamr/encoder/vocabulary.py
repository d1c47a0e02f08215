"""Vocabulary of node types and relations, learnt from the graphs of the training split (MathAMR+, section 3.3.1).

A node's *type* is its normalised label: NFKC, one type for all URLs, Porter stems for words, one type for all
placeholders. Types outside the vocabulary are UNK. Rare numbers have three special types instead (integer, decimal,
rational), so that the kind of number is kept.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unicodedata import normalize

from harness.errors import HarnessError, format_error
from harness.io.files import read_bytes, sha256, write_atomic
from harness.systems.mathamr.graphs.graph import FORMULA, KINDS, TEXT, Graph

UNK, MASK, URL, UNKNUM_INT, UNKNUM_DEC, UNKNUM_RAT = range(6)
SPECIALS = ("UNK", "MASK", "URL", "[UNKNUM_INT]", "[UNKNUM_DEC]", "[UNKNUM_RAT]")
PLACEHOLDER = "FORMULA"
VIRTUAL = (":virtual_formula", ":virtual_sentence", ":virtual_document", ":auxiliary_vn")

SIZE = 20_000
LEAST_NUMBER = 5
MOST = 65_532  # node types are 16-bit numbers, and the three virtual types come on top
MOST_RELATIONS = (1 << 15) - 1  # relations, their inverses and the unknown pair together need 16 bits
FORMAT = "mathamr-vocabulary-1"

_REMEMBERED = 1 << 19  # size of the label cache of each node kind; further labels are looked up each time
_FRAME = re.compile(r".*[^\W\d]-\d{2,3}", re.DOTALL)  # solve-01, have-rel-role-91
_PLACEHOLDER = re.compile(r"FORMULA_\d+")
_SIGN = r"[+\-\u2212]?"
_WHOLE = r"(?:\d+|\d{1,3}(?:,\d{3})+)"
_POWER = rf"(?:e| ?[x\u00d7*] ?10 ?\^? ?){_SIGN}\d+"
_NUMBERS = (
    (re.compile(_SIGN + _WHOLE), UNKNUM_INT),
    (re.compile(rf"{_SIGN}\d+ ?[/\u2044] ?\d+"), UNKNUM_RAT),  # NFKC writes ½ with the fraction slash
    (re.compile(rf"{_SIGN}(?:{_WHOLE}(?:\.\d*)?|\.\d+)(?:{_POWER})?", re.IGNORECASE), UNKNUM_DEC),
)


def number_class(name: str) -> int | None:
    """Returns the special type of a rare number: UNKNUM_INT, UNKNUM_DEC or UNKNUM_RAT; None if it is not a number.

    Parameters
    ----------
    name : a type from `normalise`, such as a number in text (`3/4`) or in a formula (`N!2`).
    """
    digits = name.removeprefix("N!")
    if not any(map(str.isdecimal, digits)):
        return None
    return next((special for pattern, special in _NUMBERS if pattern.fullmatch(digits)), None)


def normalise(label: str, kind: int) -> str:
    """Returns the type of a node.

    All placeholders have one type: their number is only a position in the post, and the formula itself is in its
    trees. Quoted strings of Penman are names: they lose their quotes and are not stemmed. A label spelled like a
    reserved type is lowercased.

    Parameters
    ----------
    label : the node's label in the graph.
    kind : index into `graph.KINDS`.
    """
    if kind == FORMULA or (kind == TEXT and _PLACEHOLDER.fullmatch(label)):
        return PLACEHOLDER
    text = normalize("NFKC", label)
    small = text.lower()
    if "http" in small or "www." in small:
        return SPECIALS[URL]
    if kind == TEXT:
        if len(text) > 1 and text[0] == text[-1] == '"':
            text = text[1:-1]
        elif number_class(text) is None and not _FRAME.fullmatch(text):
            text = _porter()(text)
    return text.lower() if text in _RESERVED else text


_RESERVED = frozenset((*SPECIALS, PLACEHOLDER))


@cache
def _porter() -> Callable[[str], str]:
    from snowballstemmer.porter_stemmer import PorterStemmer  # pure Python, so results do not depend on the platform

    stem: Callable[[str], str] = PorterStemmer().stemWord
    return stem


class _LabelNumbers(dict[str, int]):
    """Cache of label -> number for one kind of node; missing labels are looked up and cached while there is room."""

    def __init__(self, kind: int, known: dict[str, int]) -> None:
        super().__init__()
        self.kind = kind
        self.known = known

    def __missing__(self, label: str) -> int:
        name = normalise(label, self.kind)
        number = self.known.get(name)
        if number is None:
            number = number_class(name) or UNK
        if len(self) < _REMEMBERED:
            self[label] = number
        return number


@dataclass(frozen=True)
class NodeVocabulary:
    """Vocabulary of node types and relations.

    Attributes
    ----------
    nodes : types by number, SPECIALS first; at most `size`.
    relations : forward relations by number: content relations, then VIRTUAL. The numbers of their inverses follow.
    size : rows of the embedding, even if fewer types were seen.

    Raises
    ------
    HarnessError
        `size` is too small for the special types, or needs more than 16 bits.
    """

    nodes: tuple[str, ...]
    relations: tuple[str, ...]
    size: int = SIZE

    def __post_init__(self) -> None:
        if not len(SPECIALS) <= self.size <= MOST:
            between = f"between {len(SPECIALS)} (the special types) and {MOST:,} (16-bit numbers)"
            raise HarnessError(f"vocabulary: size {self.size:,} is not {between}")

    def __reduce__(self) -> tuple[Any, ...]:  # without the label cache
        return NodeVocabulary, (self.nodes, self.relations, self.size)

    @staticmethod
    def learn(
        graphs: Iterable[Graph],
        size: int = SIZE,
        least_number: int = LEAST_NUMBER,
        most_relations: int = MOST_RELATIONS,
    ) -> NodeVocabulary:
        """Learns the most frequent types and relations; ties are broken by name, so the order of graphs is irrelevant.

        Parameters
        ----------
        graphs : content graphs of the training split. The caller must exclude held-out posts, whose types would leak
            into the model.
        size : number of node types, including the special ones.
        least_number : minimum frequency for a number to have a type of its own.
        most_relations : maximum number of forward relations, including the virtual ones; rarer ones are unknown.

        Raises
        ------
        HarnessError
            There is no graph, `size` is out of range, or a graph has a relation reserved for virtual nodes.
        """
        labels = Counter[tuple[int, str]]()
        relations = Counter[str]()
        for graph in graphs:
            labels.update(zip(graph.kinds, graph.labels, strict=True))
            relations.update(edge[1] for edge in graph.edges)
        if not labels:
            raise HarnessError("vocabulary: there are no graphs to learn it from")
        kept = sorted(relations.keys() & set(VIRTUAL))
        if kept:
            raise HarnessError(f"vocabulary: relation {kept[0]} is kept for virtual nodes; a graph must not hold it")
        types = Counter[str]()
        for (kind, label), count in labels.items():
            types[normalise(label, kind)] += count
        known = {
            name: count
            for name, count in types.items()
            if name not in SPECIALS and (count >= least_number or number_class(name) is None)
        }
        names = _by_frequency(known)[: max(0, size - len(SPECIALS))]
        most = max(0, most_relations - len(VIRTUAL))
        return NodeVocabulary((*SPECIALS, *names), (*_by_frequency(relations)[:most], *VIRTUAL), size)

    @property
    def count(self) -> int:
        """F, the number of forward relations, including the virtual ones; a model has 2F with their inverses."""
        return len(self.relations)

    def node(self, label: str, kind: int) -> int:
        """Returns the number of a node's type; `kind` is an index into `graph.KINDS`."""
        return self._by_kind[kind][label]

    def node_numbers(self, labels: Sequence[str], kinds: bytes) -> list[int]:
        """Returns the type numbers of all nodes of a graph."""
        tables = self._by_kind
        return [tables[kind][label] for kind, label in zip(kinds, labels, strict=True)]

    @cached_property
    def relation_numbers(self) -> dict[str, int]:
        """Forward relation -> its number."""
        return {name: number for number, name in enumerate(self.relations)}

    @cached_property
    def _by_kind(self) -> tuple[_LabelNumbers, ...]:
        known = {name: number for number, name in enumerate(self.nodes)}
        return tuple(_LabelNumbers(kind, known) for kind in range(len(KINDS)))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the vocabulary, 64 hexadecimal digits."""
        return sha256(self._as_json().encode())

    def _as_json(self) -> str:
        """Returns the content of the vocabulary's file."""
        fields = {"format": FORMAT, "size": self.size, "relations": self.relations, "nodes": self.nodes}
        return json.dumps(fields, ensure_ascii=True, indent=0) + "\n"

    def save(self, path: Path) -> None:
        """Writes the vocabulary as JSON."""
        write_atomic(path, self._as_json())

    @staticmethod
    def load(path: Path) -> NodeVocabulary:
        """Reads a vocabulary written by `save`.

        Raises
        ------
        FormatError
            The file is missing, damaged or not a vocabulary.
        """
        data = read_bytes(path)
        try:
            fields = json.loads(data)
            if fields["format"] != FORMAT:
                raise ValueError(f"its format is not {FORMAT!r}")
            read = NodeVocabulary(tuple(fields["nodes"]), tuple(fields["relations"]), fields["size"])
            whole = read.nodes[: len(SPECIALS)] == SPECIALS and read.relations[-len(VIRTUAL) :] == VIRTUAL
            if not whole or type(read.size) is not int or len(read.nodes) > read.size:
                raise ValueError("its nodes, relations and size do not fit")
            return read
        except (HarnessError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise format_error(path, 0, f"not a vocabulary: {error}") from None


def _by_frequency(counts: dict[str, int]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))

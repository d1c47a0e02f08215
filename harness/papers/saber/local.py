"""Annotations without a language model: a deterministic annotator by keywords and, optionally, an encoder.

It replaces a language model where none is available, and every report of its annotations names it. It copies sentences
of the solution and picks topics whose titles match; it does not understand the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from harness.data.columns import Floats
from harness.formulas.text.delimiters import split_formulas
from harness.io.console import track
from harness.papers.saber.annotate import Annotation
from harness.papers.saber.databank import MathProblem
from harness.papers.saber.model import MOST_WORDS, scaled
from harness.papers.saber.ontology import ROOT, Ontology
from harness.systems.lexical.text import STOP_LISTS, view

Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]
TOGETHER = 256  # problems
LOSS = 0.05  # share of a node's score lost per level up the tree
_TITLE = re.compile(r"(?<=[a-z])(?:and|of|in|the|for)(?=[A-Z])|(?<=[a-z])(?=[A-Z])|[-_]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z$\\])")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_STOP = STOP_LISTS["english"]


def name(encoder: str | None) -> str:
    """Returns the name of this annotator for reports.

    >>> name(None), name("multilingual-e5-small")
    ('keywords', 'keywords and multilingual-e5-small')
    """
    return f"keywords and {encoder}" if encoder else "keywords"


def title_words(title: str) -> str:
    """Splits a title into words.

    >>> title_words("QuaternionsandCliffordAlgebras")
    'Quaternions Clifford Algebras'
    """
    return " ".join(_TITLE.sub(" ", title).split())


def annotated(
    problems: Sequence[MathProblem],
    ontology: Ontology,
    encode: Encode | None = None,
    beam: int = 2,
    share: float = 0.85,
) -> Iterator[tuple[str, Annotation]]:
    """Yields each problem's id and annotation.

    Score of a node: the share of its title's words that occur in the problem, weighted by their rarity in the databank,
    times w / (w + m), where w is their total weight and m the median weight of a word, so that titles of common words
    count little. With an encoder, the mean of this and the cosine of title and problem.

    Value of a node: the best score among itself and its descendants, less 5 % for each level between them.

    The walk descends from the root to at most `beam` children whose value is at least `share` of the best child's; it
    ends where the node itself scores more than the children's values. Every visited node becomes a tag.

    The core idea is the sentence of the solution with the most weight of words and the fewest formulas.
    """
    stemmed = view("text", stop="english", stem="english", fold=False)
    texts = [f"{problem.statement}\n{problem.solution}" for problem in problems]
    bags = [set(stemmed(text)) for text in texts]
    document_counts = Counter(word for bag in bags for word in bag)
    rare = {word: float(np.log1p(len(problems) / count)) for word, count in document_counts.items()}
    nodes = [node for node in ontology.children if node != ROOT]
    titles = [title_words(ontology.title(node)) for node in nodes]
    tree = _Tree(ontology, nodes)
    column = {word: i for i, word in enumerate(rare)}
    weights = _title_weights([set(stemmed(title)) for title in titles], column, rare)
    vectors = None if encode is None else _normalised(encode(titles))
    for start in track(range(0, len(problems), TOGETHER), "annotating by keywords"):
        part = range(start, min(start + TOGETHER, len(problems)))
        starts = np.concatenate([[0], np.cumsum([len(bags[i]) for i in part])]).astype(np.int64)
        columns = np.array([column[word] for i in part for word in sorted(bags[i])], np.int64)
        have = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=(len(part), len(column)))
        scores: Floats = np.ascontiguousarray((have @ weights).toarray().T)  # node x problem
        if vectors is not None and encode is not None:
            mine = _normalised(encode([texts[i] for i in part]))
            scores = (scores + np.maximum(vectors.astype(np.float64) @ mine.T, 0.0)) / 2
        best = tree.best(scores)
        for row, i in enumerate(part):
            tags = tree.walk(scores[:, row], best[:, row], beam, share)
            core, supporting = idea(problems[i].solution, rare, stemmed)
            yield problems[i].id, Annotation(core, supporting, scaled(tags))


def _title_weights(titles: Sequence[set[str]], column: dict[str, int], rare: dict[str, float]) -> sparse.csr_array:
    """Returns the contribution of each word to each node's score, shape (words, nodes); unseen words weigh most."""
    unseen = max(rare.values(), default=1.0)
    middle = float(np.median(list(rare.values()))) if rare else 1.0
    rows, columns, values = [], [], []
    for j, words in enumerate(titles):
        total = sum(rare.get(word, unseen) for word in sorted(words))
        for word in sorted(words & column.keys()):
            rows.append(column[word])
            columns.append(j)
            values.append(rare[word] / (total + middle))
    return sparse.csr_array((values, (rows, columns)), shape=(len(column), len(titles)))


def _normalised(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)


class _Tree:
    """Ontology whose nodes are numbered, for arrays of scores."""

    def __init__(self, ontology: Ontology, nodes: Sequence[str]) -> None:
        self._nodes = nodes
        row = {node: i for i, node in enumerate(nodes)}
        self._below = {
            node: np.array([row[child] for child in below], np.int64) for node, below in ontology.children.items()
        }
        # From the deepest level up: children come before their parent.
        inner = [node for node in nodes if len(self._below[node])]
        self._inner = [(row[node], self._below[node]) for node in sorted(inner, key=lambda node: -node.count("/"))]

    def best(self, scores: Floats) -> Floats:
        """Returns the value of each node (see `annotated`), shape (nodes, problems) as the scores."""
        out = scores.copy()
        for node, below in self._inner:
            np.maximum(out[node], (1 - LOSS) * out[below].max(axis=0), out=out[node])
        return out

    def walk(self, scores: Floats, best: Floats, beam: int, share: float) -> dict[str, float]:
        """Returns node -> value for the nodes that a problem's walk visits."""
        tags: dict[str, float] = {}
        waiting = [(ROOT, -1.0)]
        while waiting:
            node, own = waiting.pop()
            below = self._below[node]
            if not len(below):
                continue
            top = float(best[below].max())
            if top <= 0 or (1 - LOSS) * top < own:
                continue
            order = below[np.lexsort((below, -best[below]))][:beam]
            for child in order[best[order] >= share * top].tolist():
                tags[self._nodes[child]] = float(best[child])
                waiting.append((self._nodes[child], float(scores[child])))
        return tags


def idea(
    solution: str, rare: dict[str, float], stemmed: Callable[[str], list[str]]
) -> tuple[str | None, tuple[str, ...]]:
    """Extracts the core idea and supporting ideas of a solution; None if no sentence has four content words.

    >>> idea("Let $x=1$. The symmetry of these equations reduces both sums to one. So $x=2$.", {}, str.split)
    ('The symmetry of these equations reduces both sums to one.', ())
    """
    rated = []
    for at, sentence in enumerate(_SENTENCE.split(" ".join(solution.split()))):
        prose = " ".join("…".join(text for text, _ in split_formulas(sentence)).split())
        content = [word for word in _WORD.findall(prose) if word.lower() not in _STOP and len(word) > 2]
        if len(content) < 4:
            continue
        weight = sum(rare.get(word, 1.0) for word in stemmed(prose))
        share = sum(map(len, content)) / max(len(sentence), 1)
        rated.append((-share * weight / (4 + len(content)), at, " ".join(prose.split()[:MOST_WORDS])))
    rated.sort()
    if not rated:
        return None, ()
    return rated[0][2], tuple(" ".join(text.split()[:6]) for _, _, text in rated[1:4])

"""Formulas as tokens beside words: symbol pairs of layout trees and paths of operator trees; BM25 that weighs them.

The functions take the LaTeX of one formula and are named in a view's `formulas`. Their tokens begin with `#`, so that
they equal no word and no token of LaTeX; they hold no blank and are printable. Where nothing could be read (`E!`) there
are none.

    #V!x,N!2,a      a pair of the layout tree: x with a 2 above (`symbol_pairs`, `wide_symbol_pairs`)
    #V!𝑥<U!plus<U!eq     a path of the operator tree: an x in a sum in an equation (`operator_paths`)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.files import sha256, sha256_file
from harness.formulas import layout, operators
from harness.formulas.counts import ERROR
from harness.formulas.tree import Tree
from harness.formulas.tuples import tuples
from harness.systems import parameters
from harness.systems.lexical import BM25, Index, query_words
from harness.systems.postings import Scored
from harness.topics import Topic

MARK = "#"
HEIGHT = 3  # edges of a path of an operator tree, at most
_REMEMBERED = 1 << 14


def _version() -> int:
    """A number of the code that reads formulas: tokens that are kept are those that it would make."""
    files = sorted((*Path(layout.__file__).parent.glob("*.py"), Path(__file__)))
    return int(sha256("\n".join(sha256_file(file) for file in files).encode())[:12], 16)


VERSION = _version()


@lru_cache(_REMEMBERED)
def symbol_pairs(latex: str) -> tuple[str, ...]:
    """The pairs of neighbouring symbols of the layout tree; the last symbol of each branch is paired with its end."""
    return _pairs(layout.read_latex(latex).tree, 1)


@lru_cache(_REMEMBERED)
def wide_symbol_pairs(latex: str) -> tuple[str, ...]:
    """The same of symbols at most two edges apart."""
    return _pairs(layout.read_latex(latex).tree, 2)


@lru_cache(_REMEMBERED)
def operator_paths(latex: str) -> tuple[str, ...]:
    """The paths from each leaf of the operator tree upwards, over 0 to `HEIGHT` edges."""
    tree = operators.read_latex(latex).tree
    inner = set(tree.parents)
    out: list[str] = []
    for leaf, label in enumerate(tree.labels):
        if leaf in inner:
            continue
        path, node = label, leaf
        for _ in range(HEIGHT + 1):
            if tree.labels[node] == ERROR:
                break
            out.append(_printable(MARK + path))
            node = tree.parents[node]
            if node < 0:
                break
            path += "<" + tree.labels[node]
    return tuple(out)


def pairs_and_paths(latex: str) -> tuple[str, ...]:
    """Both `symbol_pairs` and `operator_paths`."""
    return symbol_pairs(latex) + operator_paths(latex)


def _pairs(tree: Tree, window: int) -> tuple[str, ...]:
    found = tuples(tree, window, ends=True)
    return tuple([_printable(MARK + ",".join(each)) for each in found if ERROR not in each[:2]])


def _printable(token: str) -> str:
    if token.isascii() and token.isprintable() and " " not in token:
        return token
    return "".join([c if c.isprintable() and not c.isspace() else f"&#{ord(c)};" for c in token])


@dataclass(frozen=True)
class FormulaBM25(BM25):
    """BM25 over words and tokens of formulas together, in one index, as Tangent-L does it.

    s(q, d) = alpha * (sum over the query's tokens of formulas) + (1 - alpha) * (sum over its words); documents have one
    length. With alpha = 0.5 this ranks as BM25 does (Fraser, Kane and Tompa 2018; Ng et al. 2020).

    Parameters
    ----------
    alpha : weight of the tokens of formulas, 0 to 1. Those of LaTeX in the view `latex` are words here.
    """

    alpha: float = 0.5
    name: str = "bm25-formulas"

    def __post_init__(self) -> None:
        super().__post_init__()
        parameters.number("alpha", self.alpha, high=1)

    def score(self, index: Index, topic: Topic) -> Scored:
        """The scores of all documents for a topic."""
        words = query_words(topic, self._query, self._tokenise)
        return index.score({w: n * (self.alpha if w[0] == MARK else 1 - self.alpha) for w, n in words.items()})

"""Formula tokens for text indexes: symbol pairs of layout trees and paths of operator trees, and BM25 over both.

The functions take the LaTeX of one formula; a text view names one of them in `formulas`. Tokens begin with `#`, so that
they differ from all words and LaTeX tokens, contain no spaces and are printable. Parts of a formula that could not be
parsed (`E!`) give no tokens.

    #V!x,N!2,a      a pair of the layout tree: x with a 2 above (`symbol_pairs`, `wide_symbol_pairs`)
    #V!𝑥<U!plus<U!eq     a path of the operator tree: an x in a sum in an equation (`operator_paths`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import ClassVar

from harness.collections.corpus import Corpus
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.opt import read as operators
from harness.formulas.slt import read as layout
from harness.formulas.text.delimiters import Dollars, split_formulas
from harness.formulas.trees.tree import ERROR, Tree, tuples
from harness.io import checks
from harness.io.console import log_line
from harness.store import code
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.keys import decisive
from harness.systems.lexical import text
from harness.systems.lexical.postings import WordCounts
from harness.systems.lexical.system import BM25, Stored, query_words, stored
from harness.systems.lexical.tokens import CorpusTokens, field_text, write_tokens
from harness.systems.structural import formulas

MARK = "#"
HEIGHT = 3  # maximum edges of a path in an operator tree
_REMEMBERED = 1 << 14


@lru_cache(_REMEMBERED)
def symbol_pairs(latex: str) -> tuple[str, ...]:
    """Returns pairs of adjacent symbols of the layout tree; pairs the last symbol of each branch with an end mark."""
    return _pair_tokens(layout.read_latex(latex).tree, 1)


@lru_cache(_REMEMBERED)
def wide_symbol_pairs(latex: str) -> tuple[str, ...]:
    """Returns pairs of symbols at most two edges apart; otherwise like `symbol_pairs`."""
    return _pair_tokens(layout.read_latex(latex).tree, 2)


@lru_cache(_REMEMBERED)
def operator_paths(latex: str) -> tuple[str, ...]:
    """Returns the paths from each leaf of the operator tree upwards, over 0 to `HEIGHT` edges."""
    return _path_tokens(operators.read_latex(latex).tree)


def pairs_and_paths(latex: str) -> tuple[str, ...]:
    """Returns both `symbol_pairs` and `operator_paths`."""
    return symbol_pairs(latex) + operator_paths(latex)


def _path_tokens(tree: Tree) -> tuple[str, ...]:
    """Returns a token for each path from a leaf towards the root and each of its beginnings."""
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


def _pair_tokens(tree: Tree, window: int) -> tuple[str, ...]:
    """Returns a token for each pair of symbols within the window, unless one could not be parsed."""
    pairs = tuples(tree, window, ends=True)
    return tuple([_printable(MARK + ",".join(each)) for each in pairs if ERROR not in each[:2]])


def _printable(token: str) -> str:
    if token.isascii() and token.isprintable() and " " not in token:
        return token
    return "".join([c if c.isprintable() and not c.isspace() else f"&#{ord(c)};" for c in token])


# The functions above as (kind of tree, tree -> tokens).
_MAKERS: dict[str, tuple[tuple[str, Callable[[Tree], tuple[str, ...]]], ...]] = {
    "symbol_pairs": (("slt", partial(_pair_tokens, window=1)),),
    "wide_symbol_pairs": (("slt", partial(_pair_tokens, window=2)),),
    "operator_paths": (("opt", _path_tokens),),
    "pairs_and_paths": (("slt", partial(_pair_tokens, window=1)), ("opt", _path_tokens)),
}


def tokens_by(name: str, latex: Iterable[str], route: str) -> dict[str, tuple[str, ...]]:
    """Maps each formula to the tokens of a function of this module, with trees parsed by a route."""
    distinct = list(dict.fromkeys(latex))
    made = [
        [make(read(each).tree) for each in distinct]
        for kind, make in _MAKERS[name]
        for read in [formulas.reader(distinct, kind, route)]
    ]
    return {each: tuple(chain(*parts)) for each, *parts in zip(distinct, *made, strict=True)}


@dataclass(frozen=True)
class FormulaBM25(BM25):
    """BM25 over words and formula tokens in one index, as in Tangent-L.

    s(q, d) = alpha * (sum over the query's formula tokens) + (1 - alpha) * (sum over its words), with one document
    length for both. With alpha = 0.5 the ranking equals BM25 (Fraser, Kane and Tompa 2018; Ng et al. 2020).

    Parameters
    ----------
    alpha : weight of formula tokens, 0 to 1. LaTeX tokens of the view `latex` count as words.
    route : parser of LaTeX, `own` or `latexml`; `latexml` only with the functions of this module.
    """

    work: ClassVar[str] = ""  # not measured

    alpha: checks.Share = 0.5
    route: formulas.Route = formulas.OWN
    name: str = "bm25-formulas"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._function  # noqa: B018  (validates it at once)

    def __call__(self, request: Request) -> Run:
        """Ranks by the score; without a pool, documents without any token of the topic are not returned."""
        if self._function:
            # Converting all formulas at once is far faster than one by one; later calls use LaTeXML's cache.
            names = [name for name in self._topic_weights if name != "tags"]
            asked = (self._latex((getattr(topic, name) for name in names), topic.dollars) for topic in request.topics)
            with phase("index"):
                tokens_by(self._function, chain.from_iterable(asked), self.route)
        return super().__call__(request)

    def words(self, topic: Topic) -> Mapping[str, float]:
        """Returns the tokens of a topic and their weights."""
        words = query_words(topic, self._topic_weights, self._tokenisers)
        return {w: n * (self.alpha if w[0] == MARK else 1 - self.alpha) for w, n in words.items()}

    def counts(self, corpus: Corpus) -> Stored[WordCounts]:
        """Returns the documents as bags of words; reports if none contains a formula, so that alpha has no effect."""
        word_counts = super().counts(corpus)
        if self.view.get("formulas") is not None and not any(word.startswith(MARK) for word in word_counts.value.words):
            log_line(f"corpus {corpus.name}: no document contains a formula: only words count")
        return word_counts

    def tokens(self, corpus: Corpus) -> Stored[CorpusTokens]:
        """Returns the tokens of the documents' fields."""
        if not self._function:
            return super().tokens(corpus)
        fields = sorted(self._document_weights)
        spec = {
            **corpus.identity(),
            "fields": fields,
            "view": decisive(self.view, text.view),
            "code": code.of(__name__),
            **formulas.via(self.route),
        }
        return stored("tokens", spec, lambda folder: self._write(corpus, fields, folder), CorpusTokens.load)

    def _write(self, corpus: Corpus, fields: Sequence[str], folder: Path) -> None:
        """Writes the tokens of a corpus, of formulas by the function and of words as usual."""
        known: dict[str, tuple[str, ...]] = {}
        for _, new in formulas.ahead(
            corpus, lambda each: self._latex((field_text(each, name) or "" for name in fields), each.dollars)
        ):
            known |= tokens_by(self._function, new, self.route)
        write_tokens(corpus, fields, self._tokeniser(known.__getitem__, corpus.dollars), folder)

    @cached_property
    def _function(self) -> str:
        """Name of the function of this module that is applied to LaTeXML's trees; "" with our own parsers."""
        dotted = self.view.get("formulas")
        if self.route == formulas.OWN or dotted is None:
            return ""
        module, _, name = str(dotted).rpartition(".")
        if module != __name__:
            raise HarnessError(
                f"key 'view.formulas' is {dotted!r}, which 'route: {self.route}' does not know; "
                f"expected {__name__}.NAME with one of {', '.join(_MAKERS)}"
            )
        return checks.choice("view.formulas", name, _MAKERS)

    @cached_property
    def _tokenisers(self) -> text.Tokenisers:
        if not self._function:
            return super()._tokenisers
        return cache(partial(self._tokeniser, lambda latex: tokens_by(self._function, [latex], self.route)[latex]))

    def _tokeniser(self, function: text.FormulaTokens, dollars: Dollars) -> text.Tokenise:
        return text.view(**{**self.view, "formulas": function, "dollars": self.view.get("dollars") or dollars})

    def _latex(self, texts: Iterable[str], dollars: Dollars) -> Iterator[str]:
        """Yields the formulas in texts."""
        rule = self.view.get("dollars") or dollars
        return (latex for each in texts for _, latex in split_formulas(each, rule) if latex)

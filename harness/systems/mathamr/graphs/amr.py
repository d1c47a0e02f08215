"""AMR: readers of Penman notation and of MathAMR's published topics, and wrappers of AMR parsers.

Inverted roles are normalised as in `penman`'s model of AMR: `(a :ARG0-of b)` becomes the edge (b, `:ARG0`, a), so that
`:ARG0-of` and the inverse `:ARG0*` are not two names of one relation. Relations that merely end in -of (`:consist-of`)
are kept. Constants (`:quant 5`, `:op1 "Euler"`) become nodes. Notation: Goodman, "Penman" (ACL 2020, demos);
parsers: github.com/IBM/transition-amr-parser, github.com/bjascob/amrlib.
"""

from __future__ import annotations

import csv
import importlib
import inspect
import io
import logging
import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import HarnessError, counted_text, format_error, suggestion
from harness.io.console import log_line
from harness.io.files import decoded, read_bytes
from harness.systems.mathamr.graphs import graph as content_graph
from harness.systems.mathamr.graphs.dependency import parsed_sentences
from harness.systems.mathamr.graphs.graph import FORMULA, OPT, TEXT, Edge, Failure, FormulaNodes, Graph, Sentence
from harness.systems.mathamr.graphs.posts import LIMIT, chunks, merge

# The transition parser's package requires PyTorch 1.13.1 and NumPy 1.23.5, so that no extra can hold it.
INSTALL = {
    "transition-neural-parser": "pip install --no-deps transition-neural-parser fairseq==0.10.2",
    "amrlib": "pip install 'mathir-harness[amr]'",
}
DOCUMENT_MODEL = "doc-sen-conll-amr-seed42"
UNDECODED = "Penman decode error"
_NO_GRAPH = "the parser gave no graph"
_WEIGHTS = "expected a path with the model's weights, which are not part of the package"
_Node = tuple[str | None, Sequence[tuple[str, Any]]]  # variable, branches (role, target); role `/` is the concept
Loaded = Callable[[Sequence[str]], list[str]]

_ALIGNMENT = re.compile(r"~(?:[a-z]\.?)?\d+(?:,\d+)*$")
_PART = re.compile(r":snt\d+$", re.IGNORECASE)
_SYMBOL = re.compile(r"([A-Z])\d+")  # a variable of an operator tree in the published file; the letter is the kind


def read_sentence(text: str) -> Sentence:
    """Returns the graph of one AMR in Penman notation.

    Raises
    ------
    HarnessError
        The text is not one valid graph: a syntax error, a variable defined twice, a node without a variable, a role
        without a target, or text after the graph. The message is one line.
    """
    return _sentence(_parsed(text), lambda _, concept: _constant(concept or ""))


def read_sentences(text: str) -> list[Sentence]:
    """Returns the graphs of a text with several AMRs, each starting a line; raises the errors of `read_sentence`."""
    return [read_sentence(block) for block in _blocks(text)]


def read_topics(path: Path) -> Iterator[tuple[str, Graph | Failure]]:
    """Yields the graphs of MathAMR's published topics (`results/mathamr_topics.tsv`: id and Penman, tab-separated).

    Each operator tree follows `:math`, next to a constant `MATH`, which becomes the placeholder. The variable of a
    symbol gives its kind, so `(V1 / x)` becomes `V!x`. The file has no layout trees and no formula ids.

    Raises
    ------
    FormatError
        The file cannot be read, is not UTF-8, or does not have two columns.
    """
    rows = csv.reader(io.StringIO(decoded(read_bytes(path), path, encoding="utf-8-sig"), newline=""), delimiter="\t")
    number = 0
    try:
        for number, row in enumerate(rows, 1):
            if len(row) != 2:
                raise format_error(path, rows.line_num, f"{counted_text(len(row), 'column')}, expected 2 (id, graph)")
            try:
                yield row[0], _topic(_sentence(_parsed(row[1]), _typed))
            except HarnessError as error:
                yield row[0], Failure(f"{path}: graph {number} ({row[0]})", UNDECODED, str(error))
    except csv.Error as error:
        raise format_error(path, rows.line_num, f"not tab-separated: {error}") from None


def transition_amr(model: str = DOCUMENT_MODEL) -> Loaded:
    """Returns IBM's transition parser, which maps texts (one sentence per line) to Penman (all graphs of a text).

    A model with `doc` in its name parses a text as one document: one graph per text, with `:same-as` or shared nodes
    for coreference.

    Parameters
    ----------
    model : a model name known to the package, whose weights are in torch's cache, or the path of a checkpoint.

    Raises
    ------
    HarnessError
        The package or the weights are missing.
    """
    module = _import_package("transition_amr_parser.parse", "transition-neural-parser")
    make = module.AMRParser.from_checkpoint if Path(model).exists() else module.AMRParser.from_pretrained
    parser = _load_weights(model, lambda: make(model))
    document = any("doc" in name for name in (Path(model).name, Path(model).parent.parent.name))

    def parse(texts: Sequence[str]) -> list[str]:
        tokens = [[_whole(parser.tokenize(line)[0]) for line in text.splitlines() if line.strip()] for text in texts]
        if not document:
            flat = _called(parser.parse_sentences, [sentence for sentences in tokens for sentence in sentences])
            return _grouped([len(sentences) for sentences in tokens], flat)
        # A document of one token has no window, for which the package fails with all others of the call.
        long = [sum(map(len, sentences)) > 1 for sentences in tokens]
        documents = [each for each, fits in zip(tokens, long, strict=True) if fits]
        words = [each[0] for each, fits in zip(tokens, long, strict=True) if each and not fits]
        parses = iter(_called(parser.parse_docs, documents))
        single = iter(_called(parser.parse_sentences, words))
        return [
            (next(parses) if fits else next(single) if each else None) or ""
            for each, fits in zip(tokens, long, strict=True)
        ]

    return parse


def amrlib(model: str) -> Loaded:
    """Returns a parser of amrlib, which maps texts (one sentence per line) to Penman (all graphs of a text).

    Parameters
    ----------
    model : folder of a sentence-to-graph model.

    Raises
    ------
    HarnessError
        The package or the weights are missing.
    """
    module = _import_package("amrlib", "amrlib")

    if not Path(model).is_dir():
        raise HarnessError(f"AMR model {model!r}: {_WEIGHTS}; there is no such folder")
    parser = _load_weights(model, lambda: module.load_stog_model(model_dir=model))

    def parse(texts: Sequence[str]) -> list[str]:
        lines = [[line for line in text.splitlines() if line.strip()] for text in texts]
        flat = [line for part in lines for line in part]
        graphs = _called(lambda given: (parser.parse_sents(given, add_metadata=False),), flat)
        return _grouped([len(part) for part in lines], graphs)

    return parse


@dataclass(frozen=True)
class AMRParser:
    """AMR parser for `build`: maps texts with placeholders to the graphs of their chunks.

    spaCy splits a text into sentences, which are parsed in chunks. A chunk without output or with invalid Penman is
    dropped (MathAMR+ thesis, section 3.1); the number of chunks that are missing from other texts' graphs is reported.

    Parameters
    ----------
    package : `transition-amr` or `amrlib`.
    model : see `transition_amr` and `amrlib`.
    limit : maximum number of tokens per chunk.
    """

    package: str = "transition-amr"
    model: str = DOCUMENT_MODEL
    limit: int = LIMIT

    def __call__(self, texts: Sequence[str]) -> list[list[Sentence] | Failure]:
        """Returns the graphs of each text, or a `Failure` if no chunk has valid Penman.

        Raises
        ------
        HarnessError
            A package or the weights are missing.
        """
        _penman()  # fails early if the package is missing, which is not a fault of a chunk
        parse = loaded(self.package, self.model)
        runs = [list(chunks(sentences, self.limit)) for sentences in parsed_sentences(texts)]
        penman = iter(parse(["\n".join(run) for text in runs for run in text]))
        out: list[list[Sentence] | Failure] = []
        lost: list[str] = []  # why chunks of texts with other, valid chunks are dropped
        for text in runs:
            written = [next(penman) for _ in text]
            graphs, reasons = _decoded(written)
            out.append(graphs if graphs or not reasons else Failure("", UNDECODED, reasons[0]))
            if graphs:
                lost += [*reasons, *(_NO_GRAPH for each in written if not each.strip())]
        if lost:
            log_line(f"{self.package}: {len(lost)} of {sum(map(len, runs))} chunks left out; first: {lost[0]}")
        return out


def _decoded(written: Sequence[str]) -> tuple[list[Sentence], list[str]]:
    """Returns the graphs of a text's chunks (merging several graphs of a chunk), and the errors of invalid chunks."""
    graphs: list[Sentence] = []
    reasons: list[str] = []
    for each in written:
        try:
            read_graphs = read_sentences(each)
            graphs += [merge(read_graphs)] if len(read_graphs) > 1 and len(written) > 1 else read_graphs
        except HarnessError as error:
            reasons.append(str(error))
    return graphs, reasons


@lru_cache(1)
def loaded(package: str, model: str) -> Loaded:
    """Loads a model with a parser package, which takes seconds; the last one is cached."""
    loaders = {"transition-amr": transition_amr, "amrlib": amrlib}
    if package not in loaders:
        raise HarnessError(f"AMR parser {package!r} is unknown; {suggestion(package, loaders)}")
    return loaders[package](model)


def _import_package(module: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        lacking = f" ({error})" if error.name and not module.startswith(error.name) else ""
        raise HarnessError(f"{package} is not installed{lacking}: {INSTALL[package]}") from None


def _load_weights(model: str, load: Callable[[], Any]) -> Any:  # noqa: ANN401 - the package has no types
    try:
        with redirect_stdout(sys.stderr):  # it says what it downloads
            return load()
    except Exception as error:  # packages raise various errors for missing or broken weights
        reason = " ".join(str(error).split())[:150] or type(error).__name__
        raise HarnessError(f"AMR model {model!r}: {_WEIGHTS}; it cannot be loaded: {reason}") from None


def _whole(tokens: Sequence[str]) -> list[str]:
    """Returns tokens with placeholders in one piece: the package cuts off a number of three digits or more.

    >>> _whole(["by", "FORMULA_", "100", "."])
    ['by', 'FORMULA_100', '.']
    """
    out: list[str] = []
    for token in tokens:
        if out and out[-1] == "FORMULA_" and token.isdecimal():
            out[-1] += token
        else:
            out.append(token)
    return out


def _called(call: Callable[[list[Any]], Any], asked: list[Any]) -> Sequence[str | None]:
    """Returns what a package makes of texts; it is not called without any, where it divides by zero.

    What it prints is dropped: standard output holds the results of commands.
    """
    if not asked:
        return ()
    with redirect_stdout(io.StringIO()):
        graphs: Sequence[str | None] = call(asked)[0]
    return graphs


def _grouped(sizes: Sequence[int], flat: Sequence[str | None]) -> list[str]:
    """Joins the graphs of each text, separated by empty lines."""
    graphs = iter(flat)
    return ["\n\n".join(next(graphs) or "" for _ in range(size)) for size in sizes]


def _penman() -> ModuleType:
    """Returns the package, with its warnings disabled: many concern input that is valid here."""
    try:
        penman = importlib.import_module("penman")
    except ImportError:
        raise HarnessError("penman is not installed: pip install 'mathir-harness[graphs]'") from None
    logging.getLogger("penman").setLevel(logging.CRITICAL)
    return penman


def _parsed(text: str) -> _Node:
    """Parses Penman text into its bracket tree: (variable, [(role, target), ...])."""
    penman = _penman()
    # Comments are removed: the package takes a comment after a graph for the start of another graph.
    given = ["" if line.lstrip().startswith("#") else line for line in text.splitlines()]
    number = 0

    def counted() -> Generator[str, None, None]:
        nonlocal number
        for line in given:
            number += 1
            yield line.rstrip()

    lines = counted()
    try:
        trees = list(penman.iterparse(lines))
    except penman.PenmanError as error:
        place = f" at line {error.lineno}, column {error.offset + 1}" if getattr(error, "lineno", None) else ""
        raise HarnessError(f"{getattr(error, 'message', None) or type(error).__name__}{place}") from None
    except RecursionError:
        raise HarnessError("brackets are nested too deeply") from None
    if len(trees) != 1:
        raise HarnessError(f"{len(trees)} graphs, expected one")
    # The package stops silently at text that starts no graph, and then has not consumed all lines.
    if inspect.getgeneratorstate(lines) != inspect.GEN_CLOSED:
        raise HarnessError(f"text behind the graph at line {number}")
    top: _Node = trees[0].node
    return top


def _typed(variable: str, concept: str | None) -> str:
    """Returns a node's label in the published topics, where a symbol may be empty (`W!`, `E!`)."""
    symbol = _SYMBOL.fullmatch(variable)
    return (f"{symbol[1]}!" if symbol else "") + _constant(concept or "")


def _constant(atom: str) -> str:
    """Returns a concept or constant without alignment and quotes."""
    atom = _ALIGNMENT.sub("", atom)
    if len(atom) > 1 and atom[0] == atom[-1] == '"':
        return atom[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return atom


def _variables(top: _Node) -> dict[str, str | None]:
    """Returns the concept of each variable, in text order."""
    concepts: dict[str, str | None] = {}
    waiting = [top]
    while waiting:
        variable, branches = waiting.pop()
        if variable is None:
            raise HarnessError("a node without a variable, expected (variable / concept)")
        for role, target in branches:
            if target is None and role != "/":
                raise HarnessError(f"role {role!r} of node {variable!r} has no target")
        concept = [target for role, target in branches if role == "/"]
        if variable in concepts and concept and concepts[variable] is not None:
            raise HarnessError(f"variable {variable!r} is defined twice")
        if concept or variable not in concepts:
            concepts[variable] = concept[0] if concept else None
        waiting.extend(target for _, target in reversed(branches) if isinstance(target, tuple))
    return concepts


def _sentence(top: _Node, label: Callable[[str, str | None], str]) -> Sentence:
    """Converts a tree to a graph; nodes are numbered in text order, which is preorder."""
    concepts = _variables(top)
    number: dict[str, int] = {}
    labels: list[str] = []
    edges: list[tuple[int, str, int]] = []
    parts: list[dict[int, None]] = []  # ordered sets
    # Entries: subtree or constant, its parent node, the role from the parent, the sentence it is in (-1: none).
    waiting: list[tuple[Any, int, str, int]] = [(top, -1, "", -1)]
    while waiting:
        target, above, role, part = waiting.pop()
        branches: Any = ()
        node = len(labels)
        if isinstance(target, tuple):
            name, branches = target
        else:
            name = _ALIGNMENT.sub("", str(target))
        if name in number:
            node = number[name]
        elif name in concepts:
            number[name] = node
            labels.append(label(name, concepts[name]))
        else:
            labels.append(_constant(str(target)))
        if _PART.match(role):
            parts.append({})
            part = len(parts) - 1
        if part >= 0:
            parts[part][node] = None
        if above >= 0:
            edges.append((node, role[:-3], above) if content_graph.is_inverse(role) else (above, role, node))
        below = [(_ALIGNMENT.sub("", branch), to) for branch, to in branches if branch != "/"]
        if any(_PART.match(branch) for branch, _ in below):
            # A node above sentences belongs to no sentence.
            if part >= 0:
                parts[part].pop(node)
            part = -1
        waiting.extend((to, node, branch, part) for branch, to in reversed(below))
    return Sentence(tuple(labels), tuple(dict.fromkeys(edges)), 0, tuple(tuple(part) for part in parts if part))


def _topic(sentence: Sentence) -> Graph:
    """Converts a published topic: `MATH` becomes placeholders, operator trees get node spans and tree relations."""
    labels = list(sentence.labels)
    below: list[list[tuple[str, int]]] = [[] for _ in labels]
    for source, relation, target in sentence.edges:
        below[source].append((relation, target))
    roots = [(source, target) for source, relation, target in sentence.edges if relation == ":math"]
    kinds, edges = bytearray(len(labels)), list[Edge]()
    formulas: list[FormulaNodes] = []
    parts = [list(part) for part in sentence.parts or (tuple(range(len(labels))),)]
    taken: set[int] = set()
    for source, root in sorted(roots, key=lambda pair: pair[1]):
        end, waiting = root, [root]
        while waiting:
            end = max(end, node := waiting.pop())
            kinds[node] = OPT
            waiting.extend(target for _, target in below[node])
        beside = [n for _, n in below[source] if labels[n] == "MATH" and n < root and n not in taken]
        if beside:
            place = beside[-1]
        else:
            place = len(labels)
            labels.append("")
            kinds.append(FORMULA)
            edges.append((source, ":math", place))
            next((part for part in parts if root in part), parts[0]).append(place)
        taken.add(place)
        labels[place], kinds[place] = f"FORMULA_{len(formulas)}", FORMULA
        edges.append((place, ":opt", root))
        formulas.append(FormulaNodes("", place, (root, end + 1), (0, 0)))
    for source, relation, target in sentence.edges:
        if kinds[source] == OPT:
            edges.append((source, ":opt_" + relation.removeprefix(":op"), target))
        elif relation != ":math":
            edges.append((source, relation, target))
    kept = tuple(tuple(node for node in part if kinds[node] in (TEXT, FORMULA)) for part in parts)
    return Graph(tuple(labels), bytes(kinds), tuple(edges), sentence.root, tuple(p for p in kept if p), tuple(formulas))


def _blocks(text: str) -> Iterator[str]:
    """Yields the text of each graph, which ends at the next `(` in the first column, a comment or an empty line."""
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        comment = line.startswith("#")
        if lines and (not line.strip() or line.startswith("(") or comment):
            yield "\n".join(lines)
            lines = []
        if line.strip() and not comment:
            lines.append(line)
